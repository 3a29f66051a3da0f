"""Requirements of parameters: values, messages, checks of every estimator."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from inspect import get_annotations, isabstract
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import metriclearn
from metriclearn.datasets import make_change_points
from metriclearn.running import parameters
from metriclearn.running.parameters import (
    Needs,
    OneOf,
    Positive,
    Real,
    Whole,
    check_parameters,
    requirements,
)
from tests.adversarial.callables import arguments

ODD = (True, np.nan, np.inf, "a", None, [1.0])


@pytest.mark.parametrize(
    ("needs", "good", "bad", "words"),
    [
        (Real(), (0, 0.5, np.float32(2)), (-1e-9, *ODD), "a tol of at least 0"),
        (Whole(1), (1, np.int64(7)), (0, 1.5, 2.0, *ODD), "a whole tol of at least 1"),
        (Real(0, 1), (0, 1, 0.5), (-0.1, 1.1, *ODD), "a tol between 0 and 1"),
        (Positive(), (1e-310, 3), (0, -1, *ODD), "a positive tol"),
        (OneOf(None, Real(2)), (None, 2), (1, "a", True), "tol=None or a number of at least 2"),
        (OneOf("x", "y"), ("x", "y"), ("z", None, np.array(["x"])), 'tol="x" or "y"'),
    ],
)
def test_accepted_values_and_messages(needs: Needs, good: tuple, bad: tuple, words: str) -> None:
    for value in good:
        needs.check("Solver", "tol", value)
    for value in bad:
        with pytest.raises(ValueError, match=f"^Solver needs {words}, got .*"):
            needs.check("Solver", "tol", value)


def own(kind: type) -> Iterator[Any]:
    """Every value of this type that the package defines."""
    for module in pkgutil.walk_packages(metriclearn.__path__, "metriclearn."):
        if module.name.startswith("metriclearn.integrations."):
            continue  # needs its library, and has parameters of that library's kind
        for value in vars(import_module(module.name)).values():
            if isinstance(value, kind) and value.__module__ == module.name:
                yield value


def rows() -> list[tuple[type[BaseEstimator], str]]:
    """Every parameter with a requirement of an estimator or a component of the package."""
    classes = [one for one in own(type) if issubclass(one, BaseEstimator) and not isabstract(one)]
    found = [(one, name) for one in classes for name, row in requirements(one).items() if row]
    return sorted(found, key=lambda row: (row[0].__name__, row[1]))


def test_every_requirement_of_an_annotation_is_read() -> None:
    shared = [name for name, kind in vars(parameters).items() if hasattr(kind, "__metadata__")]
    classes = [one for one in own(type) if issubclass(one, BaseEstimator)]
    functions = [one for one in own(FunctionType) if hasattr(one, "__wrapped__")]
    for thing in [*classes, *functions]:
        for name, row in requirements(thing).items():
            kind = str(get_annotations(thing).get(name))
            assert row or not (kind.startswith("Annotated[") or kind in shared), f"{thing}.{name}"


def test_a_missing_argument_tells_of_what() -> None:
    with pytest.raises(TypeError, match=r"^make_change_points: .* 'nothing'"):
        make_change_points(nothing=3)  # type: ignore[call-arg]


class Nonsense:
    """A value that no parameter accepts."""

    def __repr__(self) -> str:
        return "nonsense"


@pytest.mark.parametrize(("cls", "name"), rows())
def test_every_estimator_refuses_nonsense(cls: Any, name: str) -> None:
    estimator = cls(**arguments(cls.__name__, cls))
    setattr(estimator, name, Nonsense())
    check = getattr(estimator, "fit", lambda *_: check_parameters(estimator))
    words = rf"^{cls.__name__} needs .*\b{name.rstrip('s')}.*, got nonsense"
    with pytest.raises(ValueError, match=words):
        check([[0.0], [1.0], [2.0]], [0, 0, 1])
