"""The readers that data sets share: arrays with a table of segments, folders, tables of samples.

``sources.toml`` says which of them reads a data set, and with which arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.datasets.annotations import read_groups
from metriclearn.datasets.feature_cache import Extractor
from metriclearn.datasets.loaders import rows
from metriclearn.datasets.recordings import load_recordings
from metriclearn.datasets.registry import PathLike, existing, read
from metriclearn.datasets.segment_labels import covering_labels
from metriclearn.datasets.sequence_folders import load_files
from metriclearn.datasets.sequences import LabeledSequences, of_parts
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Whole

_PITCHES = ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B")


def read_arrays(
    name: str,
    root: PathLike | None,
    *,
    arrays: str = "sequences.npz",
    table: str = "segments.csv",
    changes: Sequence[str] | None = None,
    columns: Sequence[str] = (),
    step: int = 1,
    **options: Any,
) -> LabeledSequences:
    """Read every recording, compute its features, and average its rows in groups of ``step``.

    An average has the label of its middle row. The function of ``loaders/rows.py`` that has the
    name of the data set, if there is one, computes the features.

    Parameters
    ----------
    arrays, table : str
        File of the arrays, (T, P) each, and table of the segments or change-points.
    changes : two str, optional
        Columns of the table that hold the name of a recording and its change-points. By default,
        the table has segments.
    columns : sequence of str
        Names of the stored columns, if the file of arrays has no ``channels``.
    **options
        Options of the function that computes the features.
    """
    Whole(1).check(f"load_dataset({name!r})", "step", step)
    stored = read(name, arrays, root)
    names = [str(channel) for channel in stored.pop("channels", columns)]
    viewers = name == "gazecom"  # recordings are named VIEWER_FILM, and sorted by film
    order = sorted(stored, key=(lambda one: one.split("_")[::-1]) if viewers else None)
    lengths = {one: len(stored[one]) for one in order}
    if changes is None:
        keys = {"tonic": int, "mode": str} if name == "piano_keys" else {}
        kinds = {"sequence": str, "start": int, "end": int, "label": str} | keys
        segments = read(name, table, root, kinds)
        if keys:  # labels of sonatas are keys
            tonics = [_PITCHES[i % 12] for i in segments["tonic"]]
            segments["label"] = [f"{a} {b}" for a, b in zip(tonics, segments["mode"])]
        labels = covering_labels(segments, lengths)
    else:
        labels = _by_changes(name, table, root, lengths, *changes)
    derive, parts, feature_names = getattr(rows, name, None), {}, names
    for one in order:
        X = stored[one].reshape(lengths[one], -1)
        finite = derive is not None and options.get("derived", True)
        if refusal := _refusal(one, X, names, arrays, step, finite):
            raise ValueError(f"Data set {name!r} needs {refusal}.")
        if derive is not None:
            X, feature_names = derive(X, names, **options)
        count = len(X) // step
        if step > 1:
            X = X[: count * step].reshape(count, step, -1).mean(axis=1)
        parts[one] = X, labels[one][step // 2 :: step][:count]
    groups = [one.partition("_")[0] for one in order] if viewers else None
    return of_parts(name, parts, feature_names, groups)


def _refusal(
    one: str, X: NDArray, names: Sequence[str], arrays: str, step: int, finite: bool
) -> str | None:
    """Return what a recording lacks, what came, and the remedy."""
    if X.shape[1] != len(names):
        return f"the columns {names} in {arrays}, got {X.shape[1]} in {one!r}; get the file again"
    if len(X) < step:
        needed = f"step={step} rows or more in every recording, got {len(X)} in {one!r}"
        return f"{needed}; reduce step, or leave this recording out"
    if finite and not np.isfinite(X).all():
        needed = f"finite numbers in {arrays}, as features are means over many rows"
        return f"{needed}, got others in {one!r}; impute them"
    return None


def _by_changes(
    name: str, table: str, root: PathLike | None, lengths: dict[str, int], key: str, column: str
) -> dict[str, NDArray]:
    """Read the change-points of every recording, and number its segments.

    A cell has any number of change-points. Each is the first sample of a segment, counted from 0.

    Raises
    ------
    ValueError
        If the table and ``lengths`` have different recordings, or change-points are not inside a
        recording.
    """
    cells = read(name, table, root, {key: str, column: None})
    if odd := sorted({*cells[key]} ^ {*lengths}):
        raise ValueError(
            f"Data set {name!r} needs a row of {table} for each of its sequences, and no other, "
            f"got {odd[:5]} in only one of both files; get the files again."
        )
    labels = {}
    for one, length in lengths.items():
        try:
            starts = [int(i) for cell in cells.loc[cells[key] == one, column] for i in cell.split()]
            labels[one] = Partition.from_change_points(np.array(starts), length).labels
        except ValueError as error:
            raise ValueError(
                f"Data set {name!r} needs a sequence {one!r} with its change-points: {error}; get "
                "the files again."
            ) from error
    return labels


def recordings(
    name: str,
    root: PathLike | None,
    *,
    extractor: Extractor,
    segments: str = "segments.csv",
    **options: Any,
) -> LabeledSequences:
    """Compute the features of recordings, and label their rows; see load_recordings."""
    folder = existing(name, segments, root).parent
    data = load_recordings(folder, extractor, segments, **options)
    return replace(data, name=name)


def tables(name: str, root: PathLike | None, *, label: str) -> LabeledSequences:
    """Read a table per recording with times and labels, and a table of groups; see load_files."""
    groups, folder = existing(name, "groups.csv", root), existing(name, "recordings", root)
    data = load_files(folder, label, ignore=["time"])
    return replace(data, name=name, groups=read_groups(groups, data.names, fewest=1))


@dataclass(frozen=True, eq=False, repr=False)
class LabeledTable:
    """A table of T samples: P features and one class for every sample.

    Attributes
    ----------
    name : str
    X : array (T, P)
    y : array (T,) of class names or numbers
    feature_names : list of str

    See Also
    --------
    load_dataset : loads such tables.

    Examples
    --------
    >>> from metriclearn.datasets import load_dataset
    >>> iris = load_dataset("iris")
    >>> iris.of_classes(["setosa"]).X.shape
    (50, 4)
    """

    name: str
    X: NDArray[np.float64]
    y: NDArray
    feature_names: list[str]

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        return f"LabeledTable({self.name!r}, {len(self)} samples of {self.X.shape[1]} features)"

    @property
    def classes(self) -> NDArray:
        """The classes, sorted."""
        return np.unique(self.y)

    def select(self, rows: ArrayLike | Sequence[int]) -> LabeledTable:
        """Select samples by index or by mask."""
        rows = np.asarray(rows)
        return replace(self, X=self.X[rows], y=self.y[rows])

    def of_classes(self, classes: ArrayLike) -> LabeledTable:
        """Select all samples of the given classes."""
        return self.select(np.isin(self.y, np.asarray(classes)))


def of_scikit_learn(name: str, root: PathLike | None) -> LabeledTable:
    """Load a table that comes with scikit-learn. Pixels that are 0 in all digits are left out."""
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")()
    X, y = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target_names)[bunch.target]
    varies = np.flatnonzero(np.ptp(X, axis=0) > 0)
    names = [str(bunch.feature_names[i]).replace("_", " ") for i in varies]
    X = X if len(varies) == X.shape[1] else X[:, varies]  # the order in memory moves last bits
    return LabeledTable(name, X, y, names)


def read_samples(
    name: str,
    root: PathLike | None,
    *,
    file: str,
    label: str,
    columns: list[str],
    title: str | None = None,
    texts: bool = False,
) -> LabeledTable:
    """Read a table with a row per sample. Labels are whole numbers, or ``texts``.

    Parameters
    ----------
    file, label, columns
        Name of the file, and of its columns.
    title : str, optional
        Name of the result, by default the name of the data set.
    texts : bool
    """
    kinds = {label: str if texts else int} | dict.fromkeys(columns, float)
    table = read(name, file, root, kinds)
    X = table[columns].to_numpy(dtype=np.float64)
    return LabeledTable(title or name, X, np.asarray(table[label].to_list()), columns)
