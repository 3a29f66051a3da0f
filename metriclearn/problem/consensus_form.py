"""Make the form that a consensus maximizes: the partition nearest on average to given partitions.

The given partitions N_j are called members. A consensus has the least mean loss against the
members. As ‖M − N‖² = Tr M + Tr N − 2⟨N, M⟩ for projections,

    argmin_M Σ_j q_j ‖M − N_j‖² = argmax_M ⟨2N̄ − I, M⟩,   N̄ = Σ_j q_j N_j,   Σ_j q_j = 1.

The right-hand side maximizes a form, as all oracles do. The matrix N̄ is never stored. All results
are computed from the members.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Each, Of, Real
from metriclearn.running.values import check_each, check_weights, real_array, shown

_MEMBERS = Each(Of(Partition, "Partition"), "a list of partitions as {name}", least=1)


class ConsensusForm:
    """The form A = 2N̄ − I, where N̄ = Σ q_j N_j is a weighted mean of partitions, called members.

    A member whose segments have names also votes for the name of every sample.

    Parameters
    ----------
    members : sequence of Partition, all of T samples
        The partitions N_j. All of them must be segmentations if change-points are to be found.
    weights : array (m,), optional
        Weights q_j ≥ 0, which are divided by their sum. By default all weights are equal.
    name_loss : float
        The number β. The loss against a member is ‖M − N_j‖², plus β for every sample with another
        name.
    name_weights : array (m,), optional
        Weights of the votes for names, ≥ 0; by default q. Members without names have no vote.

    Raises
    ------
    ValueError
        If there are no members, if members differ in length, or if weights cannot be used.

    See Also
    --------
    metriclearn.Segmenter : Learns the members, and finds the best segmentation.

    References
    ----------
    Barthélemy & Leclerc, The median procedure for partitions, DIMACS Series 19, 1995.

    Examples
    --------
    >>> from metriclearn import Partition
    >>> from metriclearn.problem import ConsensusForm
    >>> members = [Partition.from_labels(labels) for labels in ([0, 0, 1], [0, 0, 1], [0, 1, 1])]
    >>> form = ConsensusForm(members)
    >>> round(form.expected_loss(members[0]), 3)
    0.5
    """

    def __init__(
        self,
        members: Sequence[Partition],
        weights: ArrayLike | None = None,
        name_loss: float = 0.0,
        name_weights: ArrayLike | None = None,
    ) -> None:
        _MEMBERS.check("ConsensusForm", "members", members)
        Real().check("ConsensusForm", "name_loss", name_loss)
        self.n_samples = members[0].n_samples
        for member in members:
            check_each("ConsensusForm", "label", member.n_samples, "samples", self.n_samples)
        n = len(members)
        shares = np.ones(n)
        if weights is not None:
            shares = check_weights("ConsensusForm", "weights", weights, "members", n)
        self.members, self.weights = list(members), shares / shares.sum()
        self.name_weights = self.weights
        if name_weights is not None:
            self.name_weights = real_array("ConsensusForm", "name_weights", name_weights, 1)
            check_each("ConsensusForm", "name_weight", len(self.name_weights), "members", n)
            if np.any(self.name_weights < 0):
                raise ValueError(
                    f"ConsensusForm needs name_weights of at least 0, got {shown(name_weights)}."
                )
        self.name_loss, self.shift = float(name_loss), 0.0

    @property
    def named(self) -> list[tuple[float, NamedPartition]]:
        """The members whose segments have names, with the weights of their votes."""
        pairs = zip(self.name_weights.tolist(), self.members)
        return [(q, member) for q, member in pairs if isinstance(member, NamedPartition)]

    def at(self, M: Any) -> float:
        """Return the value ⟨2N̄ − I + cI, M⟩ − β · (mean number of samples with a different name).

        Here c is the shift of the form. The mean is over the members, with their weights.
        """
        inner = sum(q * M.inner(member) for q, member in zip(self.weights, self.members))
        # ⟨I, M⟩ = Tr M is the number of clusters.
        value = 2.0 * inner + (self.shift - 1.0) * M.n_clusters
        if self.name_loss and isinstance(M, NamedPartition):
            # Members without names do not vote, so they add nothing.
            names = M.sample_names
            wrong = sum(q * np.count_nonzero(names != one.sample_names) for q, one in self.named)
            value -= self.name_loss * wrong
        return value

    def expected_loss(self, M: Any) -> float:
        """Return the expected loss of M if the truth is drawn from the members with weights q_j.

        The expected loss is Σ_j q_j (‖M − N_j‖² + β · number of samples with another name than in
        N_j).
        """
        pairs = zip(self.weights, self.members)
        own = sum(q * member.n_clusters for q, member in pairs)
        # Σ q_j Tr N_j less the value of the form; its shift is a penalty and no loss.
        return max(0.0, float(own - self.at(M) + self.shift * M.n_clusters))

    def matvec(self, V: NDArray) -> NDArray:
        """Return the product (2N̄ − I + cI) V with columns V (T, k), in O(mTk)."""
        # N̄ is never formed: each member projects V onto its clusters, in O(Tk).
        parts = (2.0 * q * member.project(V) for q, member in zip(self.weights, self.members))
        return sum(parts, (self.shift - 1.0) * V)

    def shifted(self, shift: float) -> ConsensusForm:
        """Return the same form with A + shift·I in place of A."""
        form = copy.copy(self)
        form.shift = self.shift + shift
        return form

    def low_rank(self) -> LowRankForm:
        """Write this form as ZZᵀ − I + cI with Z (T, Σ K_j), for oracles of clusterings.

        Here c is the shift of this form, and member j has K_j clusters. Names are ignored.
        """
        # N_j = F_j F_jᵀ, so with Z = [√(2q_1) F_1, √(2q_2) F_2, …] the product ZZᵀ is 2N̄.
        factors = [np.sqrt(2.0 * q) * m.factor for q, m in zip(self.weights, self.members)]
        return LowRankForm(np.hstack(factors), shift=self.shift - 1.0)
