"""Tables of labeled samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.datasets.registry import PathLike, read


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
) -> LabeledTable:
    """Read a table with a row per sample. Labels of letters are texts, others are numbers.

    Parameters
    ----------
    file, label, columns
        Name of the file, and of its columns.
    title : str, optional
        Name of the result, by default the name of the data set.
    """
    kinds = {label: str if name == "letter" else int} | dict.fromkeys(columns, float)
    table = read(name, file, root, kinds)
    X = table[columns].to_numpy(dtype=np.float64)
    return LabeledTable(title or name, X, np.asarray(table[label].to_list()), columns)
