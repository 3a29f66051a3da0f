"""ClaSP of the package claspy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.harness.scoring import truth_of
from experiments.rivals.boundaries import TunedCut, principal_components

Arrays = Sequence[NDArray]
_NARROWEST = 10  # subsequences that claspy searches begin with this width


@dataclass(eq=False, repr=False)
class ScoreProfile(TunedCut):
    """ClaSP: cut where a classifier by nearest neighbors tells subsequences on both sides apart.

    Both parts are divided again. By the authors' settings, the width of subsequences follows from
    each recording, and a test of significance decides when to stop. The other option is the number
    of segments of a recording whose segments are as long as labeled ones on average. The option
    with less loss on training data is taken. If there are several features, ClaSP sees their
    leading principal components.

    Parameters
    ----------
    n_components : int

    References
    ----------
    Ermshaus, Schäfer & Leser, ClaSP: parameter-free time series segmentation, Data Mining and
    Knowledge Discovery 37, 2023.
    """

    n_components: int = 3

    options = ("learned", "as long as labeled")

    def prepare(self, X: Arrays, y: Arrays) -> None:
        """Find the principal components, and the mean length of labeled segments."""
        self.columns_ = principal_components(X, self.n_components)
        truths: list[Any] = list(map(truth_of, y))
        self.length_ = sum(map(len, X)) / sum(truth.n_clusters for truth in truths)

    def curve(self, x: NDArray) -> NDArray[np.float64]:
        """Return the principal components of every row, (T, n_components)."""
        return self.columns_.transform(x)

    def cut(self, curve: NDArray, option: str) -> NDArray[np.int64]:
        """Segment the principal components."""
        from experiments.rivals.compiled_clasp import BinaryClaSPSegmentation

        given: dict[str, Any] = {}
        if option != "learned":
            count = max(1, round(len(curve) / self.length_))
            given = {"n_segments": count, "validation": None}
        try:
            changes = BinaryClaSPSegmentation(**given, n_jobs=1).fit_predict(curve)
        except OverflowError:  # the search for a width does not end, as on some short recordings
            given["window_size"] = _NARROWEST
            changes = BinaryClaSPSegmentation(**given, n_jobs=1).fit_predict(curve)
        return np.append(changes, len(curve)).astype(np.int64)
