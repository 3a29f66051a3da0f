"""Series that experts have annotated: copy-number profiles of tumors, and series of many kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import SOURCES, PathLike, data_folder, read
from metriclearn.datasets.sequences import Items
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.partition import Partition
from metriclearn.problem.regions import EXACTLY_ONE, NO_CHANGE, Region
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional

_KINDS = {"normal": NO_CHANGE, "1breakpoint": EXACTLY_ONE}


@dataclass(frozen=True, eq=False, repr=False)
class AnnotatedProfiles(Items):
    """Copy-number sequences in which an expert has annotated some regions.

    Parameters
    ----------
    sequences : list of N arrays (T_i, 1)
        Normalized log-ratios, without a unit, in genomic order.
    regions : list of N lists of Region
        The annotated regions of every sequence.
    folds : list of N int arrays
        Cross-validation fold, 1 or 2, of every region.
    groups : list of N str
        Profile (tumor) of every sequence.
    names : list of N str
        Name of every sequence, ``PROFILE.CHROMOSOME``.

    Raises
    ------
    ValueError
        If the lists are empty or of different lengths.

    See Also
    --------
    load_dataset : loads such a data set.

    Examples
    --------
    >>> from metriclearn.datasets import load_dataset
    >>> data = load_dataset("neuroblastoma")  # doctest: +SKIP
    >>> data.known(fold=1)[0].regions  # doctest: +SKIP
    """

    sequences: list[NDArray[np.float64]]
    regions: list[list[Region]]
    folds: list[NDArray[np.int64]]
    groups: list[str]
    names: list[str]
    LISTS: ClassVar = ("sequences", "regions", "folds", "groups", "names")

    def known(self, fold: int | None = None) -> list[PartialPartition]:
        """Convert the regions of one fold, or of both, to partial labels of every sequence."""
        every = zip(self.sequences, self.regions, self.folds)
        known = [(X, [r for r, k in zip(rows, ks) if fold in (None, k)]) for X, rows, ks in every]
        return [PartialPartition(len(X), regions=regions) for X, regions in known]


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
    load_dataset : loads such series.

    Examples
    --------
    >>> from metriclearn.datasets import load_dataset
    >>> data = load_dataset("tcpd")  # doctest: +SKIP
    """

    name: str
    long_name: str
    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    feature_names: list[str]
    annotations: dict[str, NDArray[np.int64]]


def profiles(name: str, root: PathLike | None) -> AnnotatedProfiles:
    """Read copy-number profiles, and regions with no change-point or exactly one."""
    points = read(name, "profiles.csv.gz", root, {"sequence_id": str, "logratio": float})
    columns = {"sequence_id": str, "start": int, "end": int, "annotation": str, "fold": int}
    table = read(name, "annotations.csv.gz", root, columns)
    names = list(dict.fromkeys(points["sequence_id"]))
    values = {str(n): part.to_numpy() for n, part in points.groupby("sequence_id")["logratio"]}
    sizes = table["sequence_id"].map({one: len(part) for one, part in values.items()}).astype(float)
    inside = (table["start"] >= 1) & (table["start"] <= table["end"]) & (table["end"] <= sizes)
    if not (right := inside & table["annotation"].isin(_KINDS)).all():
        raise ValueError(
            f"Neuroblastoma needs annotations {list(_KINDS)} inside the points of a sequence, got "
            f"{table[~right].iloc[0].to_dict()}; get both files again."
        )
    rows = {one: table[table["sequence_id"] == one] for one in names}
    regions = {  # first and last point, counted from 1
        one: [Region(a - 1, b, _KINDS[word]) for _, a, b, word, _ in part.values.tolist()]
        for one, part in rows.items()
    }
    return AnnotatedProfiles(
        sequences=[values[one][:, None] for one in names],
        regions=list(regions.values()),
        folds=[rows[one]["fold"].to_numpy() for one in names],
        groups=[one.rpartition(".")[0] for one in names],
        names=names,
    )


def series(
    name: str,
    root: PathLike | None,
    *,
    names: Sequence[str] | None = None,
    base_url: str | None = None,
) -> list[AnnotatedSeries]:
    """Read series with the change-points that each annotator has marked in them.

    By default, all series of ``annotations.json`` are read that are in the folder or can be
    downloaded.
    """
    annotations = read(name, "annotations.json", root, base_url=base_url)
    folder, public = data_folder(name, root), SOURCES[name].files
    files = {one: f"datasets/{one}.json" for one in sorted(annotations)}
    if names is None:
        names = [one for one, f in files.items() if f in public or (folder / f).is_file()]
    if unknown := sorted({*names} - {*files}):
        raise ValueError(
            f"load_dataset({name!r}) needs names among {list(files)}, got {unknown} without "
            "annotations."
        )
    loaded = []
    for one in names:
        content = read(name, files[one], root, base_url=base_url)
        needed = "a series of the Turing Change Point Dataset that fits annotations.json"
        with reading(folder / files[one], needed, TypeError, AttributeError):
            loaded.append(_series(one, content, annotations[one]))
    return loaded


def _series(
    name: str, content: dict[str, Any], annotations: dict[str, list[int]]
) -> AnnotatedSeries:
    """Make a series from the content of its file and its annotations.

    Missing values are interpolated linearly.

    Raises
    ------
    ValueError
        If a column does not have the length that the file states, or has no value, if nobody has
        annotated the series, or if an annotation is outside of it.
    """
    pd = optional("pandas", "tables")
    columns = [np.array(part["raw"], dtype=np.float64) for part in content["series"]]
    raw = pd.DataFrame(dict(enumerate(columns)))
    values = raw.interpolate(limit_direction="both").to_numpy()
    n_samples = len(values)
    if n_samples != content["n_obs"] or np.isnan(values).any():
        raise ValueError(f"every column needs {content['n_obs']} samples, not all of them missing")
    if not annotations:
        raise ValueError("it needs an annotator")
    return AnnotatedSeries(
        name=name,
        long_name=content["longname"],
        values=values,
        missing=raw.isna().any(axis=1).to_numpy(),
        feature_names=[part["label"] for part in content["series"]],
        annotations={  # the first sample of a segment, counted from 0, is the end of the one before
            person: Partition.from_change_points([*set(starts), n_samples], n_samples).change_points
            for person, starts in annotations.items()
        },
    )
