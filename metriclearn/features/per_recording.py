"""Extractors: files in, one array per file out, with named columns and a rate."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from metriclearn.features.stateless import SEQUENCES, StatelessTransformer
from metriclearn.running.parameters import check_scale, component, number, real_array, several


class RecordingTransformer(StatelessTransformer, ABC):
    """A transformer of recordings: paths -> list of (T_i, P) arrays, ``rate`` rows per second.

    ``transform`` works without ``fit``. Subclasses have ``rate``, compute the features of one file
    in :meth:`extract` and name the columns in :meth:`get_feature_names_out`.
    """

    rate: float

    @abstractmethod
    def extract(self, path: str | os.PathLike[str]) -> NDArray[np.float64]:
        """Features of one file, (T, P)."""

    @abstractmethod
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Names of the P columns; ``input_features`` is not used."""

    def transform(self, X: Any) -> Any:
        """Features of one path or of every path in a list; row t begins at second t/rate."""
        if isinstance(X, (str, os.PathLike)):
            return self.extract(X)
        files = list(X)
        shown = tqdm(files, "features", disable=None, unit="file", delay=2.0)
        return [self.extract(path) for path in shown]


@dataclass(eq=False, repr=False)
class JoinedFeatures(RecordingTransformer):
    """The columns of several extractors side by side, such as those of audio *and* pictures.

    The shortest track sets the number of rows.

    Parameters
    ----------
    extractors : sequence of extractors of the same ``rate``
    slack : int
        Largest difference in rows between the longest and the shortest track.

    Raises
    ------
    ValueError
        If rates differ, or numbers of rows differ by more than ``slack``.

    See Also
    --------
    metriclearn.features.media.audio.AudioFeatures, metriclearn.features.media.video.VideoFeatures

    Examples
    --------
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> from metriclearn.features.per_recording import JoinedFeatures
    >>> from metriclearn.features.media.video import VideoFeatures
    >>> len(JoinedFeatures([AudioFeatures(n_mfcc=2, deltas=0), VideoFeatures()])
    ...     .get_feature_names_out())
    518
    """

    PARAMETERS: ClassVar = {
        "extractors": several(component("extract", "AudioFeatures()"), "a list of {name}", least=1),
        "slack": number(0, whole=True),
    }

    extractors: Sequence[RecordingTransformer]
    slack: int = 3

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Rows per second."""
        rates = {float(extractor.rate) for extractor in self.extractors}
        if len(rates) != 1:
            raise ValueError(
                f"JoinedFeatures needs extractors of one rate, got {sorted(rates)}; set them equal."
            )
        return rates.pop()

    def extract(self, path: str | os.PathLike[str]) -> NDArray[np.float64]:
        """Columns of all extractors, (T, ΣP), cut to the shortest.

        Raises
        ------
        ValueError
            If rates differ, or lengths differ by more than ``slack``.
        """
        rate = self.fit().rate
        arrays = [extractor.extract(path) for extractor in self.extractors]
        lengths = [len(array) for array in arrays]
        if max(lengths) - min(lengths) > self.slack:
            raise ValueError(
                f"{os.fspath(path)!r} needs equally long tracks, got {lengths} rows at {rate:g} "
                "per second; cut the file, or raise slack to use the common part."
            )
        return np.hstack([array[: min(lengths)] for array in arrays])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Names of all columns, in the order of the extractors."""
        return np.concatenate([e.get_feature_names_out() for e in self.extractors])


class StandardizedRecordings(StatelessTransformer):
    """Every column of a recording, minus its mean, divided by its standard deviation.

    This makes recordings by different microphones and cameras comparable. A constant column
    becomes zero. Nothing is fitted: every recording has a separate scale. O(TP).
    """

    def transform(self, X: Any) -> Any:
        """One (T, P) array, or a list of them, standardized."""
        if not hasattr(X, "ndim") or X.ndim != 2:
            SEQUENCES.check(type(self).__name__, "X", X)
            return [self.transform(real_array(type(self).__name__, "X", one, 2)) for one in X]
        X = real_array(type(self).__name__, "X", X, 2)
        check_scale(type(self).__name__, X)
        centered = X - X.mean(axis=0)
        scale = centered.std(axis=0)
        # rounding leaves constant columns a deviation of about 1e-16 of their size
        constant = scale <= 1e-9 * np.maximum(np.abs(X).max(axis=0), 1e-9)
        return np.where(constant, 0.0, centered / np.where(constant, 1.0, scale))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> ArrayLike | None:
        """The input names."""
        return input_features
