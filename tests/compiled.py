"""The programs of the exact search, compiled before the tests: ``python -m tests.compiled``.

In a fresh clone, each of two workers would compile all of them; here each of two processes compiles
half. Processes that tests start are copies of one that has loaded what the label page needs.
"""

import sys
import warnings
from subprocess import Popen
from typing import Any

import numpy as np

from tests.estimators.test_stream import segmenter_of, signal_of, streamed

T = 40
KNOWN = np.array(["sit"] * 10 + [-1] * (T - 10), dtype=object)


def segmenters() -> list[tuple[Any, np.ndarray]]:
    """A segmenter without names and one with names, and a signal."""
    rng = np.random.default_rng(0)
    signal = signal_of(rng, T, 3, 0)
    return [(segmenter_of(rng, 3, 1, 3.0, names), signal) for names in (0, 3)]


def streams() -> None:
    for segmenter, X in segmenters():
        streamed(segmenter.stream(), [X])
        segmenter.boundary_margins(X)


def labels() -> None:
    for segmenter, X in segmenters():
        segmenter.predict(X, known=KNOWN)
        segmenter.boundary_margins(X, known=KNOWN)
        segmenter.boundary_margins(X, n_segments=4, known=KNOWN)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if "half" in sys.argv:
        streams()
    else:
        other = Popen([sys.executable, "-m", "tests.compiled", "half"])
        labels()
        sys.exit(other.wait())
