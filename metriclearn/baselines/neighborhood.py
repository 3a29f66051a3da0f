"""scikit-learn's neighborhood components analysis, for one data set or several."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.baselines.standardized import StandardizedMetric, check_pairs
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Of, OneOf, RandomState, Real, Whole
from metriclearn.running.values import real_array


@dataclass(eq=False, repr=False)
class NeighborhoodComponents(StandardizedMetric):
    """Neighborhood components analysis (Goldberger et al., NIPS 2004), by scikit-learn.

    L is learned by gradient ascent on the expected accuracy of stochastic nearest neighbors. This
    accuracy is not concave in L, so the ascent may end at a local maximum. Data are centered per
    data set and standardized. Clusters of different data sets are different classes. With n
    samples, a step costs O(n²P) time and O(n²) memory.

    Parameters
    ----------
    n_components : int, optional
        Rank of the metric, at most P. The default is P.
    init : str or array (r, P)
        The start of the ascent, see scikit-learn's NeighborhoodComponentsAnalysis.
    max_samples : int
        A larger training set is reduced to about this number of random samples. The same fraction
        of every class is kept, but at least one sample.
    max_iter : int
        Largest number of steps.
    tol : float
        Tolerance at which the ascent stops.
    random_state : int, RandomState or None

    Attributes
    ----------
    n_iter_ : int

    Raises
    ------
    ValueError
        If parameters, data or labels are unusable, or the metric is used before ``fit``.
    """

    n_components: Annotated[int | None, OneOf(None, Whole(1))] = None
    _: KW_ONLY
    init: Annotated[
        str | NDArray, OneOf("auto", "pca", "lda", "identity", "random", Of("ndim", "an array"))
    ] = "auto"
    max_samples: Annotated[int, Whole(2)] = 2000
    max_iter: Annotated[int, Whole(1)] = 50
    tol: Annotated[float, Real()] = 1e-5
    random_state: RandomState = None

    def _learn(self, arrays: list[NDArray], truths: list[Partition]) -> NDArray:
        from sklearn.neighbors import NeighborhoodComponentsAnalysis
        from sklearn.utils import check_random_state

        check_pairs(type(self).__name__, truths)
        random = check_random_state(self.random_state)
        first = np.cumsum([0, *(truth.n_clusters for truth in truths)])
        labels = np.concatenate([truth.labels + k for truth, k in zip(truths, first)])
        rows = np.vstack(arrays)
        if len(rows) > self.max_samples:  # the same share of every class, but at least one sample
            share = self.max_samples / len(rows)
            classes = [np.flatnonzero(labels == label) for label in range(first[-1])]
            kept = [random.choice(c, max(1, round(share * len(c))), replace=False) for c in classes]
            chosen = np.sort(np.concatenate(kept))
            rows, labels = rows[chosen], labels[chosen]
        start: Any = self.init
        if not isinstance(start, str):
            who, P = type(self).__name__, rows.shape[1]
            start = real_array(who, "init", start, n_features=P)
            Whole(1, min(P, self.n_components or P)).check(
                who, "number of rows of init", len(start)
            )
        inside = [np.ptp(rows[labels == label], axis=0).max() for label in range(first[-1])]
        if (
            isinstance(start, str) and start in ("auto", "lda") and max(inside) < 1e-3
        ):  # discriminant analysis divides by the spread
            raise ValueError(
                f"{type(self).__name__} needs samples that vary within some cluster to begin with "
                f'init="{start}", got clusters of equal samples; pass init="pca".'
            )
        inner = NeighborhoodComponentsAnalysis(
            None if self.n_components is None else min(self.n_components, rows.shape[1]),
            init=start,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=random,
        ).fit(rows, labels)
        self.n_iter_ = int(inner.n_iter_)
        return inner.components_
