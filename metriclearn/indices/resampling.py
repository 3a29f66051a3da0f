"""Stability of a clustering method: how much its clusterings of resampled data differ.

Small differences mean that the method is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.indices.contingency import differs, label_arrays, label_codes
from metriclearn.indices.information import variation_of_information
from metriclearn.running.parameters import LIST, Jobs, Of, RandomState, Whole, needs
from metriclearn.running.values import real_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Distance = Annotated[Callable[..., float], Of("__call__", "variation_of_information")]
_ABSENT = -1


@dataclass(frozen=True, eq=False)
class Stability:
    """Distances between clusterings of resampled data, which are small for a stable method.

    A replicate is the clustering of one bootstrap sample.

    Attributes
    ----------
    distances : float array, shape (n_bootstrap,) or (number of pairs of replicates,)
        Distances of the replicates to the reference, or distances between all pairs of replicates.
    labelings : int array, shape (n_bootstrap, n)
        The labels of every replicate, with −1 for points that the replicate does not contain.
        Clusters are numbered from 0. The noise points of a clusterer (−1 in scikit-learn) form a
        cluster.
    reference : int array, shape (n,), or None
        The clustering of all points, or None if replicates were compared with each other.
    distance : str
        Name of the distance.

    See Also
    --------
    stability : returns a Stability.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> from metriclearn.indices import stability
    >>> X = np.repeat([[0.0], [5.0]], 10, axis=0)
    >>> stability(KMeans(2, n_init=1), X, n_bootstrap=5).mean
    0.0
    """

    distances: NDArray[np.float64]
    labelings: NDArray[np.int64]
    reference: NDArray[np.int64] | None
    distance: str

    @property
    def mean(self) -> float:
        """Mean distance."""
        return stability_summary(self.distances)["mean"]

    @property
    def median(self) -> float:
        """Median distance."""
        return stability_summary(self.distances)["median"]

    def quantile(self, level: float = 0.9) -> float:
        """Compute a quantile of the distances, by linear interpolation."""
        return float(np.quantile(self.distances, level))

    def plot(self) -> Figure:
        """Plot a histogram of the distances, with their mean, median and 90 % quantile."""
        from metriclearn.running.figures import new_figure

        figure = new_figure((6.4, 3.2))
        axes = figure.add_subplot()
        bins = min(30, max(5, len(self.distances) // 5))
        axes.hist(self.distances, bins=bins, color="#56B4E9", edgecolor="white")
        values = stability_summary(self.distances).values()
        names = ("mean", "median", "90 % quantile")
        for name, value, color in zip(names, values, ("#D55E00", "#1f2328", "#CC79A7")):
            axes.axvline(value, color=color, linewidth=1.8, label=f"{name} {value:.3g}")
        against = "each other" if self.reference is None else "the clustering of all data"
        message = f"{len(self.distances)} distances of bootstrap clusterings to {against}"
        axes.set_title(message, loc="left", fontsize=10, fontweight="bold")
        axes.set(xlabel=self.distance.replace("_", " "), ylabel="replicates")
        axes.legend(frameon=False)
        return figure


@needs
def stability(
    estimator: Annotated[Any, Of("fit_predict", "KMeans()")],
    X: ArrayLike,
    *,
    n_bootstrap: Annotated[int, Whole(2)] = 100,
    distance: Distance = variation_of_information,
    compare: Literal["reference", "pairwise"] = "reference",
    n_jobs: Jobs = None,
    random_state: RandomState = 0,
) -> Stability:
    """Measure the bootstrap stability of a clustering method.

    Each replicate is a clustering of n points drawn with replacement. By default, a replicate is
    compared with the clustering of all points. Only the drawn points count. With
    ``compare="pairwise"``, every pair of replicates is compared instead, on the points that are in
    both samples. The method is fitted n_bootstrap + 1 times, or n_bootstrap times with "pairwise".
    A comparison takes O(n) time.

    Parameters
    ----------
    estimator : clusterer with ``fit_predict`` that scikit-learn can clone
        The clustering method. Its ``random_state`` parameters, if any, get a new seed in every
        replicate.
    X : array of shape (n, d)
    n_bootstrap : int ≥ 2
        Number of replicates.
    distance : callable
        Any index of this package that compares two labelings.
    compare : "reference" or "pairwise"
        Compare replicates with the clustering of all points, or with each other.
    n_jobs : int, optional
        Number of parallel fits, as in scikit-learn. The result does not depend on ``n_jobs``.
    random_state : int, Generator or None
        Seed of the samples and of the fits.

    Returns
    -------
    Stability
        The distances, with their mean and quantiles.

    Raises
    ------
    ValueError
        If the estimator cannot be cloned, X is not finite, or a parameter is out of range.

    References
    ----------
    U. von Luxburg, "Clustering stability: an overview", Foundations and Trends in Machine Learning
    2, 2010.
    """
    from sklearn.utils.parallel import Parallel, delayed

    X = real_array("stability", "X", X)
    if len(X) < 2:
        raise ValueError(f"stability needs at least 2 points, got {len(X)}.")
    generators = np.random.default_rng(random_state).spawn(n_bootstrap + 1)
    fits = (delayed(_replicate)(estimator, X, generator) for generator in generators[1:])
    labelings = np.array(Parallel(n_jobs=n_jobs)(fits))
    reference = None
    if compare == "pairwise":
        distances = stability_pairwise(list(labelings), distance, absent=_ABSENT)
    else:
        reference = label_codes(_reseeded(estimator, generators[0]).fit_predict(X))
        distances = stability_reference(reference, list(labelings), distance, absent=_ABSENT)
    name = getattr(distance, "__name__", "distance")
    return Stability(np.array(distances), labelings, reference, name)


@needs
def stability_pairwise(
    labelings: Annotated[Sequence[Any], LIST],
    distance: Distance = variation_of_information,
    *,
    absent: Hashable = None,
) -> list[float]:
    """Compute the distances between all pairs of labelings, on the points that both of them label.

    :func:`stability` calls this function for ``compare="pairwise"``.

    Parameters
    ----------
    labelings : sequences of n labels each
    distance : callable
        A function of two labelings of equal length.
    absent : hashable
        The value in a labeling that marks points without a label, None by default.

    Returns
    -------
    list of float
        The distances of the pairs (0,1), (0,2), …; R(R − 1)/2 numbers for R labelings.

    Raises
    ------
    ValueError
        If labelings differ in length, or if two of them have no labeled point in common.

    See Also
    --------
    stability : runs the whole procedure, and gives the reference.
    """
    return [distance(*_common(a, b, absent)) for a, b in combinations(labelings, 2)]


@needs
def stability_reference(
    reference: Any,
    labelings: Annotated[Sequence[Any], LIST],
    distance: Distance = variation_of_information,
    *,
    absent: Hashable = None,
) -> list[float]:
    """Compute the distance of every labeling to a reference, on the points that both of them label.

    :func:`stability` calls this function for ``compare="reference"``.

    Parameters
    ----------
    reference : n labels
    labelings : sequences of n labels each
    distance : callable
        A function of two labelings of equal length.
    absent : hashable
        The value in a labeling that marks points without a label, None by default.

    Returns
    -------
    list of float
        One distance for each labeling.

    Raises
    ------
    ValueError
        If labelings differ in length, or if one has no labeled point in common with the reference.

    See Also
    --------
    stability : runs the whole procedure, and gives the reference.
    """
    return [distance(*_common(reference, labels, absent)) for labels in labelings]


def stability_summary(values: ArrayLike) -> dict[str, float]:
    """Compute the mean, the median and the 90 % quantile of distances.

    Parameters
    ----------
    values : array (m,)
        The distances, all finite.

    Returns
    -------
    dict of str to float
        The values of "mean", "median" and "q90". The quantile is interpolated linearly.

    Raises
    ------
    ValueError
        If there are no distances, or if one is not finite.

    See Also
    --------
    stability : runs the whole procedure, and gives the reference.
    """
    distances = real_array("stability_summary", "values", values, None)
    return {
        "mean": float(distances.mean()),
        "median": float(np.median(distances)),
        "q90": float(np.quantile(distances, 0.9)),
    }


def _replicate(estimator: Any, X: NDArray, generator: np.random.Generator) -> NDArray[np.int64]:
    """Cluster one bootstrap sample. Returns labels (n,), with −1 for points not in the sample."""
    drawn = generator.integers(0, len(X), size=len(X))
    labels = np.full(len(X), _ABSENT)
    labels[drawn] = label_codes(_reseeded(estimator, generator).fit_predict(X[drawn]))
    return labels


def _reseeded(estimator: Any, generator: np.random.Generator) -> Any:
    from sklearn.base import clone

    copy = clone(estimator)
    names = [name for name in copy.get_params() if name.split("__")[-1] == "random_state"]
    return copy.set_params(**{name: int(generator.integers(2**31)) for name in names})


def _common(a: Any, b: Any, absent: Hashable) -> tuple[NDArray, NDArray]:
    """Restrict two labelings to the points that both of them label."""
    a, b = label_arrays(a, b)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            "stability needs one label per point in reference and labelings, got shapes "
            f"{a.shape} and {b.shape}; pass one-dimensional labelings."
        )
    kept = differs(a, absent) & differs(b, absent)
    if not kept.any():
        raise ValueError("stability needs labelings that share a point, got two that do not.")
    return a[kept], b[kept]
