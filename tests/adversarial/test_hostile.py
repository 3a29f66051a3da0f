"""Every public callable, given every hostile value, answers rightly or words the error itself."""

import builtins
import inspect
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adversarial.callables import Call, calls, public
from tests.adversarial.outcome import (
    CASES,
    Hang,
    NonFinite,
    Wrong,
    has_nan,
    in_ci,
    is_ours,
    watched,
)
from tests.adversarial.zoo import ZOO, Hostile, UsersError

CALLS = calls()
NUMBERS = {*"XxZSAB", "rows", "factors", "matrix", "means", "weights", "counts", "values"}
NUMBERS |= {"sample_weight", "pairs", "signal", "costs", "deviations", "image", "variance"}
LABELS = {"y", "labels", "labels_true", "labels_pred", "truths", "reference"}
# NaN is documented for 0/0 and for a training history without validation
NAN_IS_DOCUMENTED = ("goodman_kruskal_gamma", "weighted_goodman_kruskal", "Encoder(validation=")
# these accept anything, because they do not read the argument; NaT reads as a missing label
NOT_READ = (
    "BoundaryFeatures.fit(X",
    "FrozenFeatures.fit(X",
    "ImageFeatures.fit(X",
    "SegmentCounts.fit(X",
    "SequenceFeatures.fit(X",
    "plot_contingency",
    "stability_reference(reference",
)
# rows that these document as unknown
UNKNOWN_ROWS = ("X with nan", "X with None")
ERRORS: Counter[bool] = Counter()  # whether they are ours
OBSCURE: Counter[str] = Counter()
UNDOCUMENTED: Counter[str] = Counter()  # errors that no docstring lists
PUBLIC = public()


def documented(call: Call) -> tuple[type[BaseException], ...]:
    """Errors that the docstring of the function, or of the class of the method, lists."""
    doc = inspect.getdoc(PUBLIC[re.split(r"\W", call.name)[0]]) or ""
    listed = re.search(r"^Raises\n-+\n(.*?)(?=^\w[\w ]+\n-+\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    names = re.findall(r"^(?:\w+, )*\w+$", listed[1] if listed else "", re.MULTILINE)
    return tuple(getattr(builtins, name) for name in ", ".join(names).split(", ") if name)


def assert_answers_or_words_the_error(call: Call, hostile: Hostile) -> None:
    """Count an error; raise for a wrong answer, for NaN and for a call that takes too long."""
    home = PUBLIC[re.split(r"\W", call.name)[0]].__module__
    target = "streams" if ".stream" in call.name else home.removeprefix("metriclearn.")
    CASES[f"hostile: {target}"] += 1
    try:
        with watched(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result: Any = call.run(hostile.value)
    except UsersError:
        return
    except Hang as hang:
        raise Hang(f"{call} with {hostile}: {hang}") from hang
    except Exception as error:
        ours = is_ours(error)
        ERRORS[ours] += 1
        if not ours:
            OBSCURE[f"{call} with {hostile}: {type(error).__name__}: {str(error)[:100]}"] += 1
        elif not isinstance(error, documented(call)):
            UNDOCUMENTED[f"{call} with {hostile}: {type(error).__name__}"] += 1
        return
    if has_nan(result) and not repr(call).startswith(NAN_IS_DOCUMENTED):
        raise NonFinite(f"{call} with {hostile} gives NaN")
    unsupervised = call.parameter == "y" and not call.needs_y
    unknown = (
        call.name.startswith(("Segmenter", "Fill", "LeaveOut")) and hostile.name in UNKNOWN_ROWS
    )
    seen = not (unsupervised or unknown) and not repr(call).startswith(NOT_READ)
    numbers, labels = call.parameter in NUMBERS, call.parameter in LABELS
    if seen and ((hostile.no_numbers and numbers) or (hostile.no_labels and labels)):
        raise Wrong(f"{call} takes {hostile}")


@in_ci(1000)
@given(st.sampled_from(CALLS), st.sampled_from(ZOO))
def test_hostile(call: Call, hostile: Hostile) -> None:
    assert_answers_or_words_the_error(call, hostile)


def test_errors_are_sentences() -> None:
    assert ERRORS[True] >= 0.999 * sum(ERRORS.values()), "\n".join(OBSCURE)


def test_docstrings_list_the_errors() -> None:
    assert not UNDOCUMENTED, "\n".join(UNDOCUMENTED)


def test_no_callable_is_left_out() -> None:
    """Good values are accepted; otherwise hostile ones would be refused for another reason."""
    done, wrong = set(), []
    for call in CALLS:
        if call.name not in done:
            done.add(call.name)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    call.make()(**call.good)
            except Exception as error:
                wrong.append(f"{call.name}: {error}")
    remedy = "give good values of new parameters in tests/adversarial/callables.py"
    assert len(wrong) <= 0.04 * len(done), f"{remedy}: {wrong}"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
