"""Turing Change Point Dataset: real series whose change-points several people have marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import SOURCES, PathLike, data_folder, read
from metriclearn.problem.partition import Partition
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional


@dataclass(frozen=True, eq=False)
class AnnotatedSeries:
    """A series, and the change-points that each annotator marked in it.

    Parameters
    ----------
    name, long_name : str
        Name of the series in the data set, and its title.
    values : array (T, d)
        The series; d is 1 for most series. Units are as in the source.
    missing : bool array (T,)
        True for samples that have no value in the file. The ``values`` of these samples are
        interpolated linearly.
    feature_names : list of d str
    annotations : dict of str to array
        For every annotator, the segment ends as in ruptures (the last one is T). ``[T]`` means
        that the annotator marked no change-points.

    See Also
    --------
    load_tcpd : loads such series, and cites their source.

    Examples
    --------
    >>> from metriclearn.datasets import load_tcpd
    >>> data = load_tcpd()  # doctest: +SKIP
    """

    name: str
    long_name: str
    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    feature_names: list[str]
    annotations: dict[str, NDArray[np.int64]]


def load_tcpd(
    root: PathLike | None = None,
    names: Sequence[str] | None = None,
    base_url: str | None = None,
) -> list[AnnotatedSeries]:
    """Annotated series of the Turing Change Point Dataset, downloaded if they are missing.

    Data: van den Burg & Williams, An evaluation of change point detection algorithms,
    arXiv:2003.06222, 2020. Files: ``annotations.json`` and ``datasets/NAME.json``.

    Parameters
    ----------
    root : path, optional
        Folder with the files; see :func:`metriclearn.datasets.data_folder`.
    names : sequence of str, optional
        Names of the series to load, in this order. By default these are all series of
        ``annotations.json`` that are in the folder or can be downloaded, sorted by name.
    base_url : str, optional
        A mirror to download from.

    Returns
    -------
    list of AnnotatedSeries
        Each has ``values`` of shape (T, d), and ``annotations`` by annotator.

    Raises
    ------
    ValueError
        If a name has no annotation, or a file is damaged or does not fit its annotations.
    FileNotFoundError, ConnectionError
        If a file is missing and has no download address, or its download fails.

    Examples
    --------
    >>> from metriclearn.datasets import load_tcpd
    >>> data = load_tcpd()  # doctest: +SKIP
    """
    annotations = read("tcpd", "annotations.json", root, base_url=base_url)
    folder, public = data_folder("tcpd", root), SOURCES["tcpd"].files
    if names is None:
        files = {name: f"datasets/{name}.json" for name in sorted(annotations)}
        names = [n for n, file in files.items() if file in public or (folder / file).is_file()]
    unknown = sorted(set(names) - set(annotations))
    if unknown:
        raise ValueError(
            f"load_tcpd needs names among {sorted(annotations)}, got {unknown} without annotations."
        )
    loaded = []
    for name in names:
        file = f"datasets/{name}.json"
        needed = "a series of the Turing Change Point Dataset that fits annotations.json"
        content = read("tcpd", file, root, base_url=base_url)
        with reading(folder / file, needed, TypeError, AttributeError):
            loaded.append(_series(name, content, annotations[name]))
    return loaded


def _series(
    name: str, content: dict[str, Any], annotations: dict[str, list[int]]
) -> AnnotatedSeries:
    """Make a series from the content of its file and its annotations.

    Missing values are interpolated linearly.

    Raises
    ------
    ValueError
        If a column does not have the length that the file states, or has no value.
    """
    pd = optional("pandas", "tables")
    columns = [np.array(part["raw"], dtype=np.float64) for part in content["series"]]
    raw = pd.DataFrame(dict(enumerate(columns)))
    values = raw.interpolate(limit_direction="both").to_numpy()
    n_samples = len(values)
    if n_samples != content["n_obs"] or np.isnan(values).any():
        raise ValueError(f"every column needs {content['n_obs']} samples, not all of them missing")
    return AnnotatedSeries(
        name=name,
        long_name=content["longname"],
        values=values,
        missing=raw.isna().any(axis=1).to_numpy(),
        feature_names=[part["label"] for part in content["series"]],
        annotations={  # the first sample of a segment, counted from 0, is the end of the one before
            person: Partition.from_change_points([*set(starts), n_samples]).change_points
            for person, starts in annotations.items()
        },
    )
