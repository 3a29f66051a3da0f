"""The structured hinge for similarities of nodes, and its convex majorant for CCCP."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from metriclearn.similarities import NodeLabels, Nodes, SimilarityFeatures
from metriclearn.similarities.forms import SimilarityForm
from metriclearn.similarities.normalized_cut import normalizing_root
from metriclearn.solvers.base import Cuts
from metriclearn.solvers.mahalanobis import MetricCone

__all__ = ["SimilarityHinge"]


class SimilarityHinge:
    """Σ s_i L_i(B) with a similarity that is convex, not linear, in B (section 5.1).

    L_i(B) = max_M [ ⟨A_i, M⟩ + α‖M − N_i‖²_F ] − ⟨A_i, N_i⟩ ≥ 0,   A = W_B / T,

    over projections M of rank K_i. Dividing the similarity by T gives it the eigenvalues of a
    matrix of trace 1, whatever the resolution, so that α is of order 1 or less; the paper's
    unscaled problem is the same with α_paper = αT, and its α = 1 is invisible beside W_B.

    The maximum is convex in B as long as M has no negative entries, which the relaxation does not
    ensure; −⟨A, N⟩ is concave. :meth:`linearized` replaces it by its tangent.

    Parameters
    ----------
    features : SimilarityFeatures
    cone : MetricCone
        Without a price.
    nodes, truths : sequences of Nodes and NodeLabels
    weights : array (N,), optional
        s, normalized to sum to one; equal by default.
    loss_scale : float
        α.
    normalized : bool
        Use W̃ = D^(-1/2) W_B D^(-1/2) with D taken as constant: of the current B in values, of
        the tangent's B in the majorant. Its slope is then not the exact one.
    n_jobs : int, optional
        Threads over data sets.
    """

    def __init__(
        self,
        features: SimilarityFeatures,
        cone: MetricCone,
        nodes: Sequence[Nodes],
        truths: Sequence[NodeLabels],
        weights: NDArray | None = None,
        *,
        loss_scale: float = 0.01,
        normalized: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.features, self.cone, self.nodes = features, cone, nodes
        self.labels: Sequence[NodeLabels] = truths
        self.loss_scale, self.normalized, self.n_jobs = loss_scale, normalized, n_jobs
        equal = np.full(len(nodes), 1.0 / len(nodes))
        self.weights = equal if weights is None else weights / np.sum(weights)
        self.identity = (loss_scale, normalized)
        self._oracle, self._warm = features.similarity.oracle(), features.similarity.warm_starts
        self._starts: list[NDArray | None] = [None] * len(nodes)
        self._roots = [truth.root for truth in truths]

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """L_i and its slope at w, for all data sets or those ``chosen``."""

        def one(i: int, form: SimilarityForm) -> tuple[float, NDArray]:
            R, (value, U) = self._roots[i], self._largest(i, form)
            signs = np.repeat([1.0, -1.0], [U.shape[1], R.shape[1]])
            slope = self.features.gradient(form, np.hstack([U, R]), signs)
            return value - float(np.sum(R * form.matvec(R))), slope

        return self._cuts(one, w, chosen, self._own_roots(w))

    def linearized(self, w: NDArray) -> _Majorant:
        """The majorant with −⟨A, N⟩ replaced by its tangent at w: equal to the risk there."""
        return _Majorant(self, w, self._own_roots(w))

    def _own_roots(self, w: NDArray) -> list[NDArray] | None:
        """Roots that normalize the similarity at w, or None."""
        if not self.normalized:
            return None
        form = self.features.at(w)
        return [normalizing_root(form(nodes).operator) for nodes in self.nodes]

    def _largest(self, i: int, form: SimilarityForm) -> tuple[float, NDArray]:
        """max_M ⟨A, M⟩ + α‖M − N‖² with its eigenvectors, beginning from those before."""
        augmented, constant = self._augmented(i, form)
        start = {"start": self._starts[i]} if self._warm else {}
        best = self._oracle(augmented, self.labels[i].n_clusters, **start)
        self._starts[i] = U = best.vectors * np.sqrt(best.weights)
        return augmented.at(best) + constant, U

    def _augmented(self, i: int, form: SimilarityForm) -> tuple[SimilarityForm, float]:
        """⟨A, M⟩ + α‖M − N‖² as a form and a constant."""
        truth, scale = self.labels[i], self.loss_scale
        return form.plus(truth, 2.0 * scale).shifted(scale), scale * truth.n_clusters

    def _forms(self, w: NDArray, roots: list[NDArray] | None) -> Callable[[int], SimilarityForm]:
        """From a data set's place to its form at w, scaled by another root where there is one."""
        form_of = self.features.at(w)

        def one(i: int) -> SimilarityForm:
            form = form_of(self.nodes[i])
            if roots is None:
                return form
            return self.features.similarity.form(form.operator.rescaled(roots[i]))

        return one

    def _cuts(
        self,
        one: Callable[[int, SimilarityForm], tuple[float, NDArray]],
        w: NDArray,
        chosen: NDArray | None,
        roots: list[NDArray] | None,
    ) -> Cuts:
        """Values and slopes of a function of data set and form."""
        places = np.arange(len(self.nodes)) if chosen is None else np.asarray(chosen)
        form_of = self._forms(w, roots)
        run = Parallel(n_jobs=self.n_jobs, backend="threading")
        results = run(delayed(lambda i: one(i, form_of(i)))(i) for i in places)
        values = np.array([value for value, _ in results])
        return Cuts(values, np.array([slope for _, slope in results]), self.weights[places])


class _Majorant:
    """max_M [⟨A, M⟩ + α‖M − N‖²] − tangent of ⟨A, N⟩: convex where M* is nonnegative."""

    def __init__(self, hinge: SimilarityHinge, w: NDArray, roots: list[NDArray] | None) -> None:
        self._hinge, self._at, self._roots = hinge, w, roots
        self.weights, self.identity = hinge.weights, (*hinge.identity, *w)

        def truth(i: int, form: SimilarityForm) -> tuple[float, NDArray]:
            R = hinge._roots[i]
            value = float(np.sum(R * form.matvec(R)))
            return value, hinge.features.gradient(form, R, np.ones(R.shape[1]))

        self._truth = hinge._cuts(truth, w, None, roots)

    def __call__(self, w: NDArray, chosen: NDArray | None = None) -> Cuts:
        """Values and slopes at w."""

        def one(i: int, form: SimilarityForm) -> tuple[float, NDArray]:
            value, U = self._hinge._largest(i, form)
            slope, own = self._hinge.features.gradient(form, U, np.ones(U.shape[1])), self._truth
            value -= float(own.values[i] + own.slopes[i] @ (w - self._at))
            return value, slope - own.slopes[i]

        return self._hinge._cuts(one, w, chosen, self._roots)
