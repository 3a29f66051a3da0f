"""Outcomes of a call: an answer, an error that metriclearn words, or a failure."""

import dis
import numbers
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from scipy.sparse import issparse

from tests.budget import examples

_RAISE = dis.opmap["RAISE_VARARGS"]
_SECONDS = 120.0  # a call on a dozen samples may take this long on a busy machine
# scikit-learn words these errors: not fitted, or fitted to other features
_CONTRACT = ("check_is_fitted", "_check_n_features", "_check_feature_names", "_get_feature_names")
# number of cases in this process, by property, or by "property: what it is tried on"
CASES: Counter[str] = Counter()


def in_ci(many: int) -> Callable[[Any], Any]:
    """Settings of a property: the same examples in every run, as many as the budget allows."""
    return settings(
        derandomize=True,
        max_examples=max(1, examples(many)),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


class Wrong(AssertionError):
    """A wrong answer, or an answer to a question that has none."""


class Invalid(Wrong):
    """A result that is not a partition of the samples as requested."""


class NonFinite(Wrong):
    """NaN in a result."""


class Hang(Exception):
    """A call took longer than a call on a dozen samples may."""


@contextmanager
def watched(seconds: float = _SECONDS) -> Iterator[None]:
    """Raise Hang if the block takes longer than so many seconds."""

    def stop(*_: Any) -> None:
        raise Hang(f"more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def is_ours(error: BaseException) -> bool:
    """Whether a ``raise`` in metriclearn made the error and its message is a whole sentence.

    Errors of scikit-learn for an estimator that is not fitted count, too.
    """
    last: TracebackType | None = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return False
    code = last.tb_frame.f_code
    raised = code.co_code[last.tb_lasti] == _RAISE
    contract = code.co_filename.endswith("sklearn/utils/validation.py")
    sentence = re.fullmatch(r"\S.{15,}\.", " ".join(str(error).split())) is not None
    kind = isinstance(error, (ValueError, TypeError, OSError, ImportError, IndexError))
    here = "/metriclearn/" in code.co_filename and sentence
    return kind and raised and (here or (contract and code.co_name in _CONTRACT))


def has_nan(value: Any, depth: int = 0) -> bool:
    """Whether a result, or a fitted attribute of it, contains NaN."""
    if isinstance(value, (bool, str, bytes, type(None))) or depth > 4:
        return False
    if issparse(value):
        value = value.data
    if isinstance(value, numbers.Real):
        return bool(value != value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fc" and bool(np.isnan(value).any())
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return any(has_nan(item, depth + 1) for item in value)
    fitted = {k: v for k, v in getattr(value, "__dict__", {}).items() if k.endswith("_")}
    return bool(fitted) and has_nan(fitted, depth + 1)
