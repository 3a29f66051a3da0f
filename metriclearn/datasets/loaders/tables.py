"""Tables of labeled samples: iris, wine, digits, breast cancer, letters and hand movements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.datasets.registry import PathLike, read

_LETTER_FEATURES = [
    *("xbox", "ybox", "width", "high", "onpix", "xbar", "ybar", "x2bar", "y2bar", "xybar"),
    *("x2ybr", "xy2br", "xege", "xegvy", "yege", "yegvx"),
]
_LIBRAS_FEATURES = [f"{axis}{frame}" for frame in range(1, 46) for axis in "xy"]


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
    load_iris, load_letters : load such tables.

    Examples
    --------
    >>> from metriclearn.datasets import load_iris
    >>> iris = load_iris()
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


def load_iris() -> LabeledTable:
    """Iris (Fisher 1936), from scikit-learn: 150 flowers of 3 species, with 4 lengths in cm.

    Returns
    -------
    LabeledTable
        ``X`` of shape (T, P), ``y`` (T,), ``feature_names``.

    Examples
    --------
    >>> from metriclearn.datasets import load_iris
    >>> load_iris().X.shape
    (150, 4)
    """
    return _of_scikit_learn("iris")


def load_wine() -> LabeledTable:
    """Wine (Forina et al. 1991), from scikit-learn: 178 wines of 3 cultivars, with 13 measurements.

    Returns
    -------
    LabeledTable
        ``X`` of shape (T, P), ``y`` (T,), ``feature_names``.

    Examples
    --------
    >>> from metriclearn.datasets import load_wine
    >>> load_wine().X.shape
    (178, 13)
    """
    return _of_scikit_learn("wine")


def load_digits() -> LabeledTable:
    """Digits (Alpaydin & Kaynak 1998), from scikit-learn: 1797 images of the digits 0 to 9.

    An image has 8×8 pixels with values from 0 to 16. Pixels that are 0 in every image are left out,
    so P = 61.

    Returns
    -------
    LabeledTable
        ``X`` of shape (T, P), ``y`` (T,), ``feature_names``.

    Examples
    --------
    >>> from metriclearn.datasets import load_digits
    >>> load_digits().X.shape
    (1797, 61)
    """
    table = _of_scikit_learn("digits")
    varies = np.ptp(table.X, axis=0) > 0
    names = [name for name, kept in zip(table.feature_names, varies) if kept]
    return replace(table, X=table.X[:, varies], feature_names=names)


def load_breast_cancer() -> LabeledTable:
    """Breast cancer of Wisconsin (Wolberg et al. 1995), from scikit-learn: 569 tumors.

    Each tumor has 30 measurements of cell nuclei and is malignant or benign.

    Returns
    -------
    LabeledTable
        ``X`` of shape (T, P), ``y`` (T,), ``feature_names``.

    Examples
    --------
    >>> from metriclearn.datasets import load_breast_cancer
    >>> load_breast_cancer().X.shape
    (569, 30)
    """
    return _of_scikit_learn("breast_cancer")


def load_letters(root: PathLike | None = None) -> LabeledTable:
    """Letter Recognition (Frey & Slate 1991): 20 000 distorted capital letters.

    Each letter has 16 features, which are integers.

    Parameters
    ----------
    root : path, optional
        Folder of ``letter.csv.gz``, see :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledTable
        ``X`` of shape (T, P), ``y`` (T,), ``feature_names``.

    Raises
    ------
    FileNotFoundError
        If the file is missing; the message explains how to get it.
    ValueError
        If the file is damaged.

    Examples
    --------
    >>> from metriclearn.datasets import load_letters
    >>> data = load_letters()  # doctest: +SKIP
    """
    table = _of_file("letter", "letter.csv.gz", root, _LETTER_FEATURES, "letter", str)
    return replace(table, name="letters")


def load_libras(root: PathLike | None = None) -> LabeledTable:
    """Libras Movement (Dias et al. 2009): 360 curves of hand movements, 24 of each of 15 kinds.

    A curve has 45 points (x, y), so P = 90.

    Parameters
    ----------
    root : path, optional
        Folder of ``movement_libras.csv.gz``, see :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledTable
        ``X`` of shape (T, P), ``y`` (T,), ``feature_names``.

    Raises
    ------
    FileNotFoundError
        If the file is missing; the message explains how to get it.
    ValueError
        If the file is damaged.

    Examples
    --------
    >>> from metriclearn.datasets import load_libras
    >>> data = load_libras()  # doctest: +SKIP
    """
    return _of_file("libras", "movement_libras.csv.gz", root, _LIBRAS_FEATURES, "label", int)


def _of_scikit_learn(name: str) -> LabeledTable:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")()
    names = [str(feature).replace("_", " ") for feature in bunch.feature_names]
    X = np.asarray(bunch.data, dtype=np.float64)
    return LabeledTable(name, X, np.asarray(bunch.target_names)[bunch.target], names)


def _of_file(
    name: str, file: str, root: PathLike | None, features: list[str], label: str, kind: type
) -> LabeledTable:
    table = read(name, file, root, {label: kind} | dict.fromkeys(features, float))
    X = table[features].to_numpy(dtype=np.float64)
    return LabeledTable(name, X, np.asarray(table[label].to_list()), features)
