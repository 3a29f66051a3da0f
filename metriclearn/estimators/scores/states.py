"""States: groups of similar segments, which recur in a sequence and get the same name.

A state is a union of segments. A partition into states has the score Tr(XBXᵀM) − λ Tr M, which
depends only on the means and the lengths of the segments. We optimize this score by K-means or
DP-means: they cluster the means, weighted by the lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

from metriclearn.clusterers.dp_means import DPMeans
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.notes import note

# Candidates that are compared when a penalty is learned.
_N_PENALTIES = 100


@dataclass(frozen=True)
class States:
    """Learned states: either their names and means, or the penalty of an additional state.

    Attributes
    ----------
    components : array (r, P)
        Lᵀ of the metric in which segments are compared.
    names : array (S,) or None
        Labels of the states, if a label means the same in all data sets.
    means : array (S, r) or None
        For each state, the mean of its labeled samples, after multiplication by L.
    penalty : float
        λ of an additional state, if there are no names.
    """

    components: NDArray
    names: NDArray | None = None
    means: NDArray | None = None
    penalty: float = 0.0

    @classmethod
    def learn(
        cls, components: NDArray, arrays: Sequence[NDArray], labels: Sequence[NDArray], named: bool
    ) -> Self:
        """Learn the means of the labeled states if ``named``, else the penalty of a state.

        DP-means clusters the labeled segments, and the penalty with the least mean loss ‖M − N‖²_F
        / T is chosen. Two segments of a data set, with a and b samples and the means μ_a and μ_b,
        become one state at the penalty ab / (a + b) ‖μ_a − μ_b‖². At most 100 quantiles of the
        penalties of all such pairs are tried. If several neighboring quantiles are equally good,
        the middle one is chosen.
        """
        Z = [array @ components.T for array in arrays]
        if named:
            try:
                names, codes = np.unique(np.concatenate(labels), return_inverse=True)
            except TypeError as error:
                raise TypeError(
                    f"fit_states needs names of states of one type, but {error}; pass texts, or "
                    "named=False."
                ) from error
            return cls(components, names, _means(np.vstack(Z), Partition(labels=codes)))
        runs, truths = map(Partition.from_runs, labels), list(map(Partition.from_labels, labels))
        cases = [(_means(*pair), pair[1]) for pair in zip(Z, runs)]
        merges = []
        for means, run in cases:
            a, b = run.sizes[np.array(np.triu_indices(len(means), 1))]
            merges.append(a * b / (a + b) * pdist(means, "sqeuclidean"))
        if not sum(map(len, merges)):
            raise ValueError(
                "fit_states needs a data set with labels of two segments to learn the penalty of a "
                "state from, got one segment in each; pass longer ones, or named=True."
            )
        shares = np.linspace(0.0, 1.0, _N_PENALTIES)
        penalties = np.unique(np.quantile(np.concatenate([*merges, [0.0]]), shares))
        losses = []
        for penalty in penalties:
            states = [_by_penalty(*case, penalty)[case[1].labels] for case in cases]
            pairs = zip(map(Partition.from_labels, states), truths)
            losses.append(np.mean([FrobeniusLoss()(*pair) for pair in pairs]))
        best = np.flatnonzero(np.array(losses) <= np.min(losses) + 1e-12)
        run_of_best = best[: np.argmax(np.diff(best, append=np.inf) > 1) + 1]
        return cls(components, penalty=float(penalties[run_of_best[len(run_of_best) // 2]]))

    def of(
        self, array: NDArray, segments: Partition, count: int | None, random_state: Any
    ) -> NDArray:
        """Return the state of every sample, (T,). ``count`` is the number of states, or None."""
        means = _means(array @ self.components.T, segments)
        if count is not None:
            numbers = _counted(means, segments, count, random_state)
        elif self.names is not None and self.means is not None:
            numbers = self.names[np.argmin(cdist(means, self.means), axis=1)]
        else:
            numbers = _by_penalty(means, segments, self.penalty)
        return numbers[segments.labels]


def _means(Z: NDArray, clusters: Partition) -> NDArray:
    """Compute the mean row of Z in every cluster, (K, r), or (K, 1) if the metric is zero."""
    rows = Z if Z.shape[1] else np.zeros((len(Z), 1))
    return clusters.pool(rows) / clusters.sizes[:, None]


def _by_penalty(means: NDArray, segments: Partition, penalty: float) -> NDArray[np.int64]:
    """Find the state of every segment, (K,), by DP-means."""
    return DPMeans(penalty, order="farthest-first").fit(means, None, segments.sizes).labels_


def _counted(
    means: NDArray, segments: Partition, count: int, random_state: Any
) -> NDArray[np.int64]:
    """Find the state of every segment, (K,), by K-means."""
    distinct = len(np.unique(means, axis=0))
    if distinct < count:
        note(
            f"predict_states got n_states={count} for a data set with {distinct} different "
            "segment(s), each of which is a state; lower n_states or the penalty of a segment."
        )
    # This import is slow, and few users count states.
    from sklearn.cluster import KMeans

    clusterer = KMeans(min(count, distinct), n_init=10, random_state=random_state)
    return clusterer.fit(means, sample_weight=segments.sizes.astype(np.float64)).labels_
