"""Neuroblastoma: DNA copy-number profiles with regions annotated by an expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, read
from metriclearn.datasets.sequences import Items
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.problem.regions import EXACTLY_ONE, NO_CHANGE, Region

KINDS = {"normal": NO_CHANGE, "1breakpoint": EXACTLY_ONE}


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
    load_neuroblastoma : loads such a data set, and cites its source.

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
        """Convert the regions of one fold, or of both, to partial labels of every sequence."""
        return [
            PartialPartition(
                len(X),
                regions=[r for r, part in zip(regions, folds) if fold in (None, part)],
            )
            for X, regions, folds in zip(self.sequences, self.regions, self.folds)
        ]


def load_neuroblastoma(root: PathLike | None = None) -> AnnotatedProfiles:
    """Copy-number profiles of tumors, one sequence per profile and chromosome.

    An annotation says that a region, from one point of a sequence to another, has no change-point
    or exactly one. The rest of the sequence is not annotated. The published folds for
    cross-validation divide annotations, not sequences: a sequence may have annotations in both
    folds.

    Data: Hocking et al., SegAnnDB: interactive Web-based genomic segmentation, Bioinformatics
    30(11), 2014; Hocking & Srivastava, Labeled optimal partitioning, arXiv:2006.13967, 2020.
    Files: ``profiles.csv.gz`` and ``annotations.csv.gz``. Cost O(points).

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
    sizes = table["sequence_id"].map({name: len(part) for name, part in values.items()})
    inside = (table["start"] >= 1) & (table["start"] <= table["end"]) & (table["end"] <= sizes)
    if not (right := inside & table["annotation"].isin(KINDS)).all():
        raise ValueError(
            f"Neuroblastoma needs annotations {list(KINDS)} inside the points of a sequence, got "
            f"{table[~right].iloc[0].to_dict()}; get both files again."
        )
    rows = {name: table[table["sequence_id"] == name] for name in names}
    return AnnotatedProfiles(
        sequences=[values[name][:, None] for name in names],
        # first and last point, counted from 1
        regions=[
            [Region(a - 1, b, KINDS[word]) for _, a, b, word, _ in rows[name].values.tolist()]
            for name in names
        ],
        folds=[rows[name]["fold"].to_numpy() for name in names],
        groups=[name.rpartition(".")[0] for name in names],
        names=names,
    )
