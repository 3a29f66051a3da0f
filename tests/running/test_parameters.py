"""Tables of parameters: accepted values, messages, checks of every estimator; real arrays."""

import gc
import pkgutil
import weakref
from importlib import import_module
from inspect import isabstract
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import metriclearn
from metriclearn.running.parameters import Needs, check_parameters, either, number, real_array
from tests.adversarial.callables import X, arguments

ODD = (True, np.nan, np.inf, "a", None, [1.0])


@pytest.mark.parametrize(
    ("needs", "good", "bad", "words"),
    [
        (number(), (0, 0.5, np.float32(2)), (-1e-9, *ODD), "a tol of at least 0"),
        (number(1, whole=True), (1, np.int64(7)), (0, 1.5, 2.0, *ODD), "a whole tol of at least 1"),
        (number(0, 1), (0, 1, 0.5), (-0.1, 1.1, *ODD), "a tol between 0 and 1"),
        (number(positive=True), (1e-310, 3), (0, -1, *ODD), "a positive tol"),
        (either(None, number(2)), (None, 2), (1, "a", True), "tol=None or a number of at least 2"),
        (either("x", "y"), ("x", "y"), ("z", None, np.array(["x"])), 'tol="x" or "y"'),
    ],
)
def test_accepted_values_and_messages(needs: Needs, good: tuple, bad: tuple, words: str) -> None:
    for value in good:
        needs.check("Solver", "tol", value)
    for value in bad:
        with pytest.raises(ValueError, match=f"^Solver needs {words}, got .*"):
            needs.check("Solver", "tol", value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ma.array(X, mask=X > 1.0), "masked"),
        (X.astype("datetime64[D]"), "datetime64"),
        (X + 1j, "Complex"),
        ([[10**400, 1]] * 12, "too large"),
        (X.astype(str), "values of"),
    ],
)
def test_real_arrays_refuse_anything_else(values: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"^Learner needs .* real numbers in X.*{words}"):
        real_array("Learner", "X", values)


def tables() -> list[tuple[type[BaseEstimator], str]]:
    """Every parameter in a table of an estimator or a component of the package."""
    classes = set()
    for module in pkgutil.walk_packages(metriclearn.__path__, "metriclearn."):
        if module.name.startswith("metriclearn.integrations."):
            continue  # needs its library, and has parameters of that library's kind
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and getattr(value, "PARAMETERS", None):
                classes.add(value)
    concrete = [c for c in classes if not isabstract(c) and "__init__" in vars(c)]
    return sorted(
        ((c, name) for c in concrete for name in c.PARAMETERS),
        key=lambda row: (row[0].__name__, row[1]),
    )


class Nonsense:
    """A value that no parameter accepts."""

    def __repr__(self) -> str:
        return "nonsense"


@pytest.mark.parametrize(("cls", "name"), tables())
def test_every_estimator_refuses_nonsense(cls: Any, name: str) -> None:
    estimator = cls(**arguments(cls.__name__, cls))
    setattr(estimator, name, Nonsense())
    check = getattr(estimator, "fit", lambda *_: check_parameters(estimator))
    words = rf"^{cls.__name__} needs .*\b{name.rstrip('s')}.*, got nonsense"
    with pytest.raises(ValueError, match=words):
        check([[0.0], [1.0], [2.0]], [0, 0, 1])


def test_classes_made_at_run_time_are_not_kept() -> None:
    made = type("Mine", (metriclearn.ChangePointMetricLearner,), {})
    made().fit(np.arange(4.0), [0, 0, 1, 1])
    kept = weakref.ref(made)
    del made
    gc.collect()
    assert kept() is None
