"""Extractors: transformers from files to arrays with named columns and a fixed rate of rows."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.parameters import Each, Of, Whole
from metriclearn.running.progress import bar
from metriclearn.views.plain import StatelessTransformer


class Descriptor(Protocol):
    """Maps pictures (n, H, W, 3) of values from 0 to 255, or windows of sound (n, …), to (n, P)."""

    def transform(self, X: ArrayLike, /) -> NDArray[np.float64]:
        """Compute descriptors, one row per picture or window."""

    def get_feature_names_out(self) -> NDArray:
        """Return the names of the P columns."""


class RecordingTransformer(StatelessTransformer, ABC):
    """A transformer from paths of recordings to arrays (T_i, P) with ``rate`` rows per second.

    ``transform`` works without ``fit``. Subclasses define ``rate``, compute the features of one
    file in :meth:`extract` and name the columns in :meth:`get_feature_names_out`.
    """

    rate: float

    @abstractmethod
    def extract(self, path: str | os.PathLike[str]) -> NDArray[np.float64]:
        """Compute the features of one file, (T, P)."""

    @abstractmethod
    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return the names of the P columns. ``input_features`` is not used."""

    def transform(self, X: Any) -> Any:
        """Compute the features of one path, or of every path in a list. Row t begins at t/rate
        seconds."""
        if isinstance(X, (str, os.PathLike)):
            return self.extract(X)
        files = list(X)
        shown = bar(files, "features", len(files), disable=None, unit="file", delay=2.0)
        return [self.extract(path) for path in shown]


@dataclass(eq=False, repr=False)
class JoinedFeatures(RecordingTransformer):
    """Join the columns of several extractors, such as extractors of audio *and* pictures.

    If the extractors give different numbers of rows, the additional rows are dropped.

    Parameters
    ----------
    extractors : sequence of extractors of the same ``rate``
    slack : int
        Largest allowed difference between the numbers of rows.

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

    extractors: Annotated[
        Sequence[RecordingTransformer],
        Each(Of("extract", "AudioFeatures()"), "a list of {name}", least=1),
    ]
    slack: Annotated[int, Whole(0)] = 3

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
        """Join the columns of all extractors for one file, (T, ΣP). Additional rows are dropped.

        Raises
        ------
        ValueError
            If rates differ, or numbers of rows differ by more than ``slack``.
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
        """Return the names of all columns, in the order of the extractors."""
        return np.concatenate([e.get_feature_names_out() for e in self.extractors])
