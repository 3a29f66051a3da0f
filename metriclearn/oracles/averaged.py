"""Mix the solutions of two oracles in loss-augmented inference.

With the first oracle, the hinge is an upper bound of the exact hinge. With the second oracle, it is
a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.oracles.local_search import LocalSearch
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.problem.partition import Partition
from metriclearn.problem.projector import Projector
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Of, Real, check_parameters


class Mixture:
    """A convex combination Σ s_i M_i of partitions and projectors.

    A mixture can be used in place of a single partition or projector.

    Parameters
    ----------
    parts : sequence of Partition or Projector
    shares : sequence of float
        The weights s_i, at least 0 with sum one.
    """

    contiguous = False

    def __init__(self, parts: Sequence[Partition | Projector], shares: Sequence[float]) -> None:
        self.parts, self.shares = parts, shares
        self.n_samples = parts[0].n_samples
        self.n_clusters = float(np.dot(shares, [part.n_clusters for part in parts]))

    def inner(self, truth: Partition) -> float:
        """Return ⟨M, N⟩."""
        return float(np.dot(self.shares, [part.inner(truth) for part in self.parts]))

    def root(self, X: NDArray) -> NDArray:
        """Return a matrix R with RᵀR = XᵀMX."""
        pairs = zip(self.shares, self.parts)
        return np.vstack([np.sqrt(share) * part.root(X) for share, part in pairs])

    def project(self, X: NDArray) -> NDArray:
        """Return M X."""
        pairs = zip(self.shares, self.parts)
        return np.sum([share * part.project(X) for share, part in pairs], axis=0)


@dataclass(eq=False, repr=False)
class Averaged(ComponentParameters):
    """Mix the solutions of the relaxation and the local search: (1 − s)·M_relaxed + s·M_searched.

    With the relaxation, the hinge is an upper bound of the exact hinge. With the local search, it
    is a lower bound. With the mixture, the hinge is the same mixture of the two bounds.

    Parameters
    ----------
    search : LocalSearch
        The local search; its ``relaxation`` gives the upper bound.
    share : float
        The weight s of the local search, in [0, 1].

    Raises
    ------
    ValueError
        If parameters cannot be used, or if there are more clusters than samples.
    TypeError
        For a form other than a :class:`LowRankForm`.

    See Also
    --------
    SpectralRelaxation : Gives the upper bound.
    LocalSearch : Gives the lower bound.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.oracles import Averaged
    >>> from metriclearn.problem import LowRankForm
    >>> Averaged()(LowRankForm(np.array([[0.0], [0], [1], [1]])), 2).n_samples
    4
    """

    search: Annotated[LocalSearch, Of(LocalSearch, "LocalSearch()")] = LocalSearch()  # noqa: RUF009
    share: Annotated[float, Real(0, 1)] = 0.5

    over_partitions = False

    @property
    def relaxation(self) -> SpectralRelaxation:
        """The oracle that gives the upper bound."""
        return self.search.relaxation

    def __call__(self, form: Any, n_clusters: int | None = None) -> Mixture:
        """Return the mixture of the solutions of both oracles.

        Raises
        ------
        ValueError
            If the share is not a number from 0 to 1, or if one of the two oracles raises an error.
        """
        check_parameters(self)
        relaxed = self.relaxation(form, n_clusters)
        searched = self.search.bounds(form, n_clusters, relaxed).partition
        return Mixture([relaxed, searched], [1.0 - self.share, self.share])
