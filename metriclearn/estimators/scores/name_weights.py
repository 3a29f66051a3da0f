"""Scores of names, which are linear in the rows of a view and a constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metriclearn.estimators.reading.labels import are_classes, note_alike, sample_labels
from metriclearn.problem.partition import Partition
from metriclearn.views.neighbors import Neighbors, StandardWindows
from metriclearn.views.plain import rows_of


def discriminant(rows: NDArray, names: NDArray) -> tuple[NDArray, NDArray]:
    """Compute the weights and offsets of names by linear discriminant analysis.

    The logits of names are linear functions of a row, with these weights and offsets. Neighboring
    rows are similar, so there are few independent rows compared with the number of features. The
    covariance is therefore shrunk. O(n Q²).

    Parameters
    ----------
    rows : array (n, Q)
    names : array (n,)
        The name of every row.

    Returns
    -------
    weights : array (C, Q)
        In the order of the sorted names.
    offsets : array (C,)

    Raises
    ------
    ValueError
        If there are fewer than two different names.

    References
    ----------
    Ledoit & Wolf, A well-conditioned estimator for large-dimensional covariance matrices, Journal
    of Multivariate Analysis 88, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.estimators import discriminant
    >>> rows, names = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array(["a", "a", "b", "b"])
    >>> weights, offsets = discriminant(rows, names)
    >>> (rows @ weights.T + offsets).argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """
    # This import is slow, and few users need it.
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    _, places, counts = np.unique(names, return_inverse=True, return_counts=True)
    # scikit-learn warns if a name has a single row. We repeat the row and pass the frequencies,
    # which gives the same result.
    twice = np.append(np.arange(len(rows)), np.flatnonzero(counts[places] == 1))
    analysis = LinearDiscriminantAnalysis("lsqr", shrinkage="auto", priors=counts / len(rows))
    analysis.fit(rows[twice], names[twice])
    weights, offsets = analysis.coef_, analysis.intercept_
    # With two names there is one score, of the second against the first.
    if len(weights) == 1:
        weights, offsets = np.vstack([0.0 * weights, weights]), np.append(0.0, offsets)
    return weights, offsets


@dataclass(frozen=True)
class NameWeights:
    """Fitted emission features, the scores W of names, and the costs τ of transitions.

    W and τ are linear functions of the nonnegative weights that a solver learns.

    Attributes
    ----------
    emissions : fitted view or None
        Computes the emission features from the rows of a recording; None if they are these rows.
    classes : array (C,)
        The names, sorted; the code c stands for ``classes[c]``.
    n_features : int
        Q, the number of emission features with the constant.
    coef : array (C, Q)
        W; the score of name c in a sample with features φ is ⟨W_c, φ⟩.
    transitions : array (C, C) or None
        τ; τ[c, c′] is the cost of a segment with name c′ after a segment with name c, in addition
        to the penalty of a segment. The diagonal is ∞ if neighbors must differ.
    unit : float
        The value of τ for a weight of 1 in the solver, or 0 if τ is not learned.
    rows : list of arrays (T_i, Q) or None
        The emission features of training recordings, while the weights are being learned.
    """

    emissions: Any
    classes: NDArray
    n_features: int
    coef: NDArray
    transitions: NDArray | None = None
    unit: float = 0.0
    rows: list[NDArray] | None = None

    @property
    def reach(self) -> tuple[int, int] | None:
        """Samples before and after a sample that its scores depend on; None: all samples."""
        return (0, 0) if self.emissions is None else self.emissions.reach

    def refusal_of_streams(self) -> str:
        """Return what a stream needs if the reach is unknown, and the remedy."""
        return (
            f"emissions that see a known number of neighbors for a stream, got {self.emissions!r}; "
            "use Neighbors or Posteriors."
        )

    @property
    def n_columns(self) -> int:
        """The number of nonnegative weights that a solver learns.

        Each entry of W and of τ is the difference of two weights.
        """
        n_names = len(self.classes)
        return 2 * n_names * (self.n_features + (n_names if self.unit else 0))

    def weighted(self, weights: NDArray) -> NameWeights:
        """Return a copy whose W and τ are computed from the weights of a solver, (n_columns,)."""
        of_names, of_transitions = np.split(weights, [2 * self.coef.size])
        positive, negative = of_names.reshape(2, *self.coef.shape)
        transitions = self.transitions
        if self.unit:
            assert transitions is not None
            more, less = self.unit * of_transitions.reshape(2, *transitions.shape)
            transitions = more - less
        return replace(self, coef=positive - negative, transitions=transitions, rows=None)

    def scores(self, X: NDArray, seen: dict[Any, NDArray] | None = None) -> NDArray[np.float64]:
        """Compute the score of every name in every sample of a new recording, (T, C).

        ``seen`` keeps what fitted views compute of the recording, see :func:`rows_of`.
        """
        if type(self.emissions) is Neighbors:  # another class may override rows
            return self.emissions.windows_.scores(X, self.coef[:, :-1]) + self.coef[:, -1]
        return with_constant(rows_of(self.emissions, X, seen)) @ self.coef.T


def with_constant(rows: NDArray) -> NDArray[np.float64]:
    """Append a column of ones."""
    return np.hstack([rows, np.ones((len(rows), 1))])


@dataclass(frozen=True, eq=False)
class RowNames:
    """Scores of names that are linear in a row. A segment has the name of the largest mean score.

    Attributes
    ----------
    names : array (C,)
        The names as they were given, in the order of their texts.
    weights, intercepts : arrays (C, P) and (C,)
    """

    names: NDArray
    weights: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    @classmethod
    def of_classes(
        cls,
        arrays: Sequence[NDArray],
        labelings: Sequence[Any],
        numbered: bool,
        names: bool | None = None,
    ) -> Self | None:
        """Learn to name segments, if ``names``, or if labels are classes (:func:`are_classes`)."""
        labels = [sample_labels(one, len(X)) for one, X in zip(labelings, arrays)]
        given = [one for one in labels if one is not None]
        if len(given) < len(labels):
            return None
        if not names and not are_classes([one[one != -1] for one in given], numbered):
            return None
        return cls.learn(arrays, given)

    @classmethod
    def learn(cls, arrays: Sequence[NDArray], labels: Sequence[NDArray]) -> Self:
        """Learn from all labeled rows, in O(T P²) time. The label −1 means unknown."""
        given = [np.asarray(one) for one in labels]
        known = [one != -1 for one in given]
        classes = np.concatenate([one[k] for one, k in zip(given, known)])
        written, first, texts = np.unique(
            classes.astype(str), return_index=True, return_inverse=True
        )
        note_alike(written)
        if len(written) == 1:  # every segment has this name
            return cls(classes[first], np.zeros((1, arrays[0].shape[1])), np.zeros(1))
        scaled = StandardWindows.of(0, arrays)
        rows = np.vstack([scaled.transform(X)[k] for X, k in zip(arrays, known)])
        weights, intercepts = discriminant(rows, written[texts])
        weights = weights / scaled.deviation
        return cls(classes[first], weights, intercepts - weights @ scaled.mean)

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the score of every name in every row, (T, C)."""
        return np.asarray(X, dtype=np.float64) @ self.weights.T + self.intercepts

    def of(self, X: NDArray, found: Partition) -> NDArray:
        """Return the name of every segment, as it was given."""
        means = found.pool(np.asarray(X, dtype=np.float64)) / found.sizes[:, None]
        return np.asarray(self.names)[np.argmax(self.scores(means), axis=1)]
