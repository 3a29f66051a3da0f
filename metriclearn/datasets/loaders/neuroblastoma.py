"""Neuroblastoma: DNA copy-number profiles with regions annotated by an expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, read
from metriclearn.datasets.sequences import Items
from metriclearn.problem.knowledge import EXACTLY_ONE, NO_CHANGE, PartialPartition, Region

if TYPE_CHECKING:
    import pandas as pd

KINDS = {"normal": NO_CHANGE, "1breakpoint": EXACTLY_ONE}


@dataclass(frozen=True, eq=False, repr=False)
class AnnotatedProfiles(Items):
    """Sequences of which only some regions are annotated.

    Parameters
    ----------
    sequences : list of N arrays (T_i, 1)
        Normalized log-ratios, no unit, in genomic order.
    regions : list of N lists of Region
    folds : list of N int arrays
        Cross-validation fold, 1 or 2, of every region.
    groups : list of N str
        Profile (tumor) of every sequence.
    names : list of N str
        ``PROFILE.CHROMOSOME``.

    Raises
    ------
    ValueError
        If the lists are empty or of different lengths.

    See Also
    --------
    load_neuroblastoma : what makes it, and where the data are from.

    Examples
    --------
    >>> from metriclearn.datasets import load_neuroblastoma
    >>> data = load_neuroblastoma()  # doctest: +SKIP
    >>> data.known(fold=1)[0].regions  # doctest: +SKIP
    """

    sequences: list[NDArray[np.float64]]
    regions: list[list[Region]]
    folds: list[NDArray[np.int64]]
    groups: list[str]
    names: list[str]
    LISTS: ClassVar = ("sequences", "regions", "folds", "groups", "names")

    def known(self, fold: int | None = None) -> list[PartialPartition]:
        """The regions of one fold, or all, of every sequence; none where it has none there."""
        return [
            PartialPartition(
                len(X),
                regions=[r for r, part in zip(regions, folds) if fold in (None, part)],
            )
            for X, regions, folds in zip(self.sequences, self.regions, self.folds)
        ]


def load_neuroblastoma(root: PathLike | None = None) -> AnnotatedProfiles:
    """Copy-number profiles of tumors, one sequence per profile and chromosome.

    An annotation says that no change-point, or exactly one, lies between two of the points of a
    sequence; outside annotations nothing is known. A sequence has annotations in both folds of
    the source's cross-validation, so that folds divide annotations, not sequences.

    Data: Hocking et al., SegAnnDB: interactive Web-based genomic segmentation, Bioinformatics
    30(11), 2014; Hocking & Srivastava, Labeled optimal partitioning, arXiv:2006.13967, 2020.
    Files: ``profiles.csv.gz`` and ``annotations.csv.gz``. O(points).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    AnnotatedProfiles
        ``sequences`` of shape (T_i, 1), lists of ``regions``.

    Raises
    ------
    ValueError
        If the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_neuroblastoma
    >>> data = load_neuroblastoma()  # doctest: +SKIP
    """
    columns = {"sequence_id": str, "logratio": float}
    points = read("neuroblastoma", "profiles.csv.gz", root, columns)
    columns = {"sequence_id": str, "start": int, "end": int, "annotation": str, "fold": int}
    table = read("neuroblastoma", "annotations.csv.gz", root, columns)
    names = list(dict.fromkeys(points["sequence_id"]))
    values = {str(n): part.to_numpy() for n, part in points.groupby("sequence_id")["logratio"]}
    rows = {str(n): part for n, part in table.groupby("sequence_id")}
    if lost := sorted(set(rows) - set(names)) + sorted(set(table["annotation"]) - set(KINDS)):
        raise ValueError(
            f"Neuroblastoma needs annotations of its own sequences, of the kinds {sorted(KINDS)}, "
            f"got {lost[:3]}; get both files again."
        )
    empty = table.iloc[:0]
    regions = [_regions(name, rows.get(name, empty), len(values[name])) for name in names]
    return AnnotatedProfiles(
        sequences=[values[name][:, None] for name in names],
        regions=regions,
        folds=[rows.get(name, empty)["fold"].to_numpy() for name in names],
        groups=[name.rpartition(".")[0] for name in names],
        names=names,
    )


def _regions(name: str, rows: pd.DataFrame, n_samples: int) -> list[Region]:
    """First and last point, counted from 1, to half-open spans counted from 0."""
    start, stop = rows["start"].to_numpy() - 1, rows["end"].to_numpy()
    if np.any(start < 0) or np.any(stop > n_samples) or np.any(stop - start < 1):
        raise ValueError(
            f"Neuroblastoma sequence {name!r} needs annotations inside its {n_samples} points, "
            f"got one from {start.min() + 1} to {stop.max()}; get both files again."
        )
    kinds = [KINDS[word] for word in rows["annotation"]]
    return [Region(int(a), int(b), kind) for a, b, kind in zip(start, stop, kinds)]
