"""Features of recordings, computed once and kept in a folder."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike
from metriclearn.running.atomic import replacing

_LOGGER = logging.getLogger(__name__)
_VERSION = 1  # increased when an extractor's results change, so that features are computed again


class Extractor(Protocol):
    """Turns a file into features, as ``AudioFeatures`` and ``VideoFeatures`` do.

    See Also
    --------
    load_recordings : takes an extractor.

    Examples
    --------
    >>> from metriclearn.datasets import load_recordings
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> data = load_recordings("shows", extractor=AudioFeatures(rate=2))  # doctest: +SKIP
    """

    @property
    def rate(self) -> float:
        """Rows per second."""

    def extract(self, path: PathLike, /) -> NDArray[np.float64]:
        """Compute the features of one file, (T, P)."""

    def get_feature_names_out(self) -> NDArray:
        """Return the names of the P columns."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters. The file and the parameters determine the features."""


def cached_features(
    path: PathLike, extractor: Extractor, cache: PathLike | None = None
) -> NDArray[np.float64]:
    """Compute the features of a recording once, and read them from a cache from then on.

    The name of a cached file is a hash of the recording's content, the class of the extractor and
    its parameters. Cached files may be deleted. If a cached file is damaged, or the folder cannot
    be written, features are computed again.

    Parameters
    ----------
    path : path
        The recording.
    extractor : Extractor
    cache : path, optional
        Folder of the cached files. By default it is ``$METRICLEARN_CACHE/features``, or a folder
        in the current user's cache if that variable is not set.

    Returns
    -------
    array (T, P)

    Raises
    ------
    ValueError
        If a feature is not finite.

    See Also
    --------
    load_recordings : computes and labels the features of a folder.

    Examples
    --------
    >>> from metriclearn.datasets import cached_features
    >>> from metriclearn.features.media.audio import AudioFeatures
    >>> X = cached_features("show.flac", AudioFeatures(rate=2))  # doctest: +SKIP
    """
    import joblib
    import pooch

    named = os.environ.get("METRICLEARN_CACHE") or pooch.os_cache("metriclearn")
    folder = Path(cache) if cache is not None else Path(named).expanduser() / "features"
    with open(path, "rb") as stream:
        content = hashlib.file_digest(stream, "sha256").hexdigest()
    parameters = extractor.get_params(deep=False)
    key = joblib.hash([_VERSION, content, type(extractor).__name__, parameters])
    entry = folder / f"{key}.npz"
    try:
        with np.load(entry, allow_pickle=False) as file:
            return np.asarray(file["X"], dtype=np.float64)
    except FileNotFoundError:
        pass
    except Exception as error:  # a damaged archive fails in many ways
        _LOGGER.info("%s is damaged (%s) and computed again", entry, error)
    X = extractor.extract(path)
    if not np.isfinite(X).all():
        raise ValueError(
            f"{os.fspath(path)!r} has features that are NaN or infinite; check its samples, and "
            "export it again at a usual level."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(entry) as stream:
            np.savez_compressed(stream, X=X)
    except OSError as error:
        _LOGGER.warning("features of %s could not be cached: %s", path, error)
    return X
