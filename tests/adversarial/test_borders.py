"""What crosses the border of the package: whole numbers of any type, arrays of others, Ctrl-C."""

import copy
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metriclearn as ml
from metriclearn.running.parameters import Whole, requirements
from tests.adversarial.callables import Call, calls, public
from tests.adversarial.outcome import CASES, Wrong, in_ci, watched
from tests.adversarial.snapshots import held, overwrite
from tests.conformance import learners

CALLS = calls()
LEFT_OUT = ("ScalarLog",)  # is called with an array in place of a function
ONCE = list({call.name: call for call in CALLS if call.name not in LEFT_OUT}.values())
TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
# One learner of each kind: fits of all of them would take long
KINDS = ["diagonal, L1", "neighbors", "names", "penalty of the sequence", "penalty of the boundary"]
KINDS += ["Euclidean", "Viterbi", "consensus of names", "penalty by regression", "clusters", "cuts"]
ROWS = {kind: learners.LEARNERS[kind] for kind in KINDS}
if find_spec("torch"):
    ROWS["encoder"] = learners.Row(
        lambda: ml.ChangePointMetricLearner(
            view=ml.encoders.Encoder(
                partial(ml.encoders.WindowEncoder, n_outputs=2, width=8),
                n_epochs=1,
                random_state=0,
                verbose=False,
            ),
            verbose=False,
        )
    )


def whole_numbers(call: Call) -> Any:
    """A good argument of whole numbers for a call, or None if it takes none."""
    good = call.good.get(call.parameter)
    if np.ndim(good) == 1 and len(good):
        return good if all(isinstance(item, (int, np.integer)) for item in good) else None
    if isinstance(good, int) and not isinstance(good, bool):
        return good
    return 3 if call.parameter in COUNTED else None


COUNTED = {
    "n_segments",
    "n_clusters",
    "max_delay",
    "delay",
    "window",
    "margin",
    "cv",
    "trial_rounds",
}
COUNTED |= {
    name
    for value in public().values()
    for name, row in requirements(value).items()
    if isinstance(row, Whole)
}
WHOLE = [call for call in CALLS if whole_numbers(call) is not None]


@st.composite
def arguments_of_types(draw: st.DrawFn) -> tuple[Call, Any, str, Any]:
    """A call, an argument of Python ints, a type, and the argument in this type.

    Labels are names, so they are moved to the top of the type. Numbers of samples or segments are
    as good, or what an 8-bit type can just hold.
    """
    call, kind = draw(st.sampled_from(WHOLE)), draw(st.sampled_from(TYPES))
    form = draw(st.sampled_from(["numpy", "pandas", "arrow", "items"]))
    good, most = whole_numbers(call), np.iinfo(kind).max
    if np.ndim(good):
        named = call.parameter in ("y", "labels", "labels_true", "labels_pred", "a", "b")
        plain = [int(item) for item in good]
        if named and "Change" not in call.name:
            plain = [int(item) + int(most) - max(plain) for item in plain]
        if form == "items":
            items = map(np.dtype(kind).type, plain)
            return (
                call,
                plain,
                f"items of {kind}",
                tuple(items) if type(good) is tuple else [*items],
            )
        names = {"numpy": kind, "pandas": kind.title().replace("Ui", "UI"), "arrow": kind}
        dtype = f"{kind}[pyarrow]" if form == "arrow" else names[form]
        typed: Any = np.array(plain, kind) if form == "numpy" else pd.Series(plain, dtype=dtype)
        return call, np.array(plain) if named else plain, dtype, typed
    tops = [] if call.parameter == "strengths" else [127, min(255, int(most))]  # a fit for each
    plain = draw(st.sampled_from([good, *tops]))
    return call, plain, kind, np.dtype(kind).type(plain)


def outcome(call: Call, value: Any) -> str:
    """What a call holds, or its error without the numbers, which may be written as of a type."""
    try:
        with watched(), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return held(call.run(value))
    except Exception as error:
        return type(error).__name__


def assert_that(holds: bool, fault: str) -> None:
    """Raise an error of a wrong answer, which the fuzzer counts."""
    if not holds:
        raise Wrong(fault)


@in_ci(200)
@given(arguments_of_types())
def test_whole_numbers_of_every_type(case: tuple[Call, Any, str, Any]) -> None:
    call, plain, kind, typed = case
    CASES["whole numbers"] += 1
    expected = outcome(call, plain)
    same = outcome(call, typed) == expected or outcome(call, plain) != expected  # random
    assert_that(same, f"{call} of {plain} as {kind} differs from Python's")


@in_ci(120)
@given(st.sampled_from(ONCE))
def test_arrays_may_be_overwritten(call: Call) -> None:
    """Neither what a call was given nor what it gave is kept."""
    CASES["overwritten"] += 1

    def run(function: Any) -> tuple[Any, Any]:
        given = copy.deepcopy(call.good)
        return given, function(**given)

    with watched(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        function = call.make()
        try:
            given, result = run(function)
        except (ValueError, TypeError):
            return
        before = held(result)
        if held(run(call.make())[1]) != before:
            return  # random
        overwrite(given)
        assert_that(held(result) == before, f"{call.name} keeps what it was given")
        overwrite(result)
        assert_that(held(run(function)[1]) == before, f"{call.name} keeps what it gave")


@contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Press Ctrl-C after so many seconds, unless the block has ended."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    alarm = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, before)


@in_ci(40)
@given(st.sampled_from(sorted(ROWS)), st.floats(0.0, 1.1))
def test_interruptions_are_told(kind: str, moment: float) -> None:
    """An interrupted fit changes nothing, or its result is whole and a warning tells of it."""
    CASES[f"interrupted: {kind}"] += 1
    make, given, labels, options, *_ = ROWS[kind]
    turned = given[::-1], labels[::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make().fit(given, labels, **options)
        whole, begin = make(), time.perf_counter()
        whole.fit(*turned, **options)
        seconds = time.perf_counter() - begin
    before, ended = held(model), False
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with interrupted(max(1e-6, moment * seconds)):
                model.fit(*turned, **options)
                ended = True
        except KeyboardInterrupt:
            pass
    if not ended and held(model) not in (before, held(whole)):  # after the last assignment
        raise Wrong(f"a fit of {kind!r} that raises KeyboardInterrupt changes the learner")
    if ended:
        same = held(model) == held(whole)
        is_told = any("interrupt" in str(one.message).lower() for one in told)
        assert_that(same or is_told, f"a fit of {kind!r} was interrupted, and no warning told it")
        if hasattr(model, "predict_change_points"):
            counts = {"n_segments": 3} if kind == "given counts" else {}
            model.predict_change_points(given[0], **counts)
        held(model)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
