"""Emission features: numbers that describe a sample, from which names of segments are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold

from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Of, Whole, check_parameters
from metriclearn.views.neighbors import StandardWindows
from metriclearn.views.posteriors import LEAST, default_classifier


@dataclass(eq=False, repr=False)
class NeighborFeatures(ComponentParameters):
    """Emission features: the standardized features of a sample and its neighbors, and a constant.

    Parameters
    ----------
    context : int
        Number of neighbors on each side.

    Attributes
    ----------
    windows_ : StandardWindows

    Raises
    ------
    ValueError
        For a context that cannot be used.

    See Also
    --------
    FramePosteriors : computes probabilities of names with a classifier instead.

    References
    ----------
    Sarawagi & Cohen, Semi-Markov conditional random fields for information extraction, NIPS 2004
    (segments that are scored by features of their samples).

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import NeighborFeatures
    >>> NeighborFeatures(context=1).fit([np.arange(10.0).reshape(5, 2)]).transform(
    ...     np.zeros((4, 2))
    ... ).shape
    (4, 7)
    """

    context: Annotated[int, Whole(0, 10**6)] = 4

    def fit(
        self, arrays: Sequence[NDArray], codes: Any = None, groups: NDArray | None = None
    ) -> Self:
        """Compute the means and deviations of training data. Names and groups are not used."""
        check_parameters(self)
        self.windows_ = StandardWindows.of(self.context, arrays)
        return self

    def transform(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the emission features φ of every sample, (T, Q)."""
        return np.hstack([self.windows_.transform(X), np.ones((len(X), 1))])

    def held_out(self, X: NDArray, index: int) -> NDArray[np.float64]:
        """Compute the features φ of a training recording in the same way as for a new recording."""
        return self.transform(X)


@dataclass(eq=False, repr=False)
class FramePosteriors(ComponentParameters):
    """Emission features: log-probabilities of names from a classifier, and a constant.

    The classifier reads a sample and its neighbors in time. Features are first standardized with
    the means and deviations of all training recordings. The probabilities of a training recording
    come from a model that was fitted without its group (cross-fitting). Otherwise scores would be
    learned from probabilities that are too confident, because a classifier memorizes its training
    data. If the other groups have fewer than two names, the model is fitted to all groups. The
    probabilities of a new recording are the mean over the models of all folds.

    Parameters
    ----------
    classifier : classifier of scikit-learn with ``predict_proba``, optional
        A random forest of 200 trees by default.
    context : int
        Number of neighbors on each side.
    n_folds : int
        Number of folds, at most one per group. A single group is divided into ``n_folds`` parts of
        equal length.

    Attributes
    ----------
    windows_ : StandardWindows
    models_ : list of fitted classifiers
    fold_of_ : list of int arrays (T_i,)
        For every training sample, the index of the model that was fitted without it.
    n_names_ : int

    Raises
    ------
    ValueError
        For parameters that cannot be used, or training data with fewer than two names.

    See Also
    --------
    NeighborFeatures : uses the features themselves, without a classifier.

    References
    ----------
    Wolpert, Stacked generalization, Neural Networks 5, 1992 (training features from models fitted
    without the sample).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from metriclearn import FramePosteriors
    >>> X, names = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([0, 0, 1, 1])
    >>> posteriors = FramePosteriors(GaussianNB(), context=0).fit([X, X + 0.1], [names] * 2)
    >>> posteriors.transform(X)[:, :2].argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    classifier: Annotated[Any, Of("predict_proba", "RandomForestClassifier()", optional=True)] = (
        None
    )
    context: Annotated[int, Whole(0, 10**6)] = 4
    n_folds: Annotated[int, Whole(2)] = 5

    def fit(
        self,
        arrays: Sequence[NDArray],
        codes: Sequence[NDArray],
        groups: NDArray | None = None,
    ) -> Self:
        """Fit one classifier for each fold to the samples of the other folds.

        Parameters
        ----------
        arrays : sequence of (T_i, P) arrays
        codes : sequence of int arrays (T_i,)
            Names, −1 where unknown.
        groups : int array (N,), optional
            Group of every recording; all recordings of a group are in the same fold. By default
            every recording is a group.
        """
        check_parameters(self)
        groups = np.arange(len(arrays)) if groups is None else groups
        n_groups = len(np.unique(groups))
        self.windows_ = StandardWindows.of(self.context, arrays)
        rows = list(map(self.windows_.transform, arrays))
        classifier = default_classifier() if self.classifier is None else self.classifier
        self.n_names_ = 1 + max(int(code.max(initial=-1)) for code in codes)
        stops = np.cumsum([len(X) for X in arrays])
        if n_groups < 2:
            parts = np.arange(stops[-1]) * self.n_folds // stops[-1]
        else:
            fold_of = np.empty(len(arrays), dtype=np.int64)
            splitter = GroupKFold(min(self.n_folds, n_groups))
            for fold, (_, left_out) in enumerate(splitter.split(arrays, groups=groups)):
                fold_of[left_out] = fold
            parts = np.repeat(fold_of, np.diff(stops, prepend=0))
        self.fold_of_ = np.split(parts, stops[:-1])
        features, labels = np.vstack(rows), np.concatenate(codes)
        self.models_ = []
        named = labels >= 0
        if len(np.unique(labels[named])) < 2:
            raise ValueError(
                "FramePosteriors needs samples of two names and more, got fewer; name more samples."
            )
        for fold in range(int(parts.max()) + 1):
            known = named & (parts != fold)
            # A classifier fitted to a single name would always predict it, so use all samples.
            known = known if len(np.unique(labels[known])) > 1 else named
            self.models_.append(clone(classifier).fit(features[known], labels[known]))
        return self

    def transform(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the emission features φ of every sample of a new recording, (T, C + 1)."""
        rows = self.windows_.transform(X)
        return self._logs(np.mean([self._probabilities(m, rows) for m in self.models_], axis=0))

    def held_out(self, X: NDArray, index: int) -> NDArray[np.float64]:
        """Compute the features φ of a training recording by models fitted without its group."""
        rows, folds = self.windows_.transform(X), self.fold_of_[index][: len(X)]
        probabilities = np.empty((len(X), self.n_names_))
        for fold in np.unique(folds):
            here = folds == fold
            probabilities[here] = self._probabilities(self.models_[fold], rows[here])
        return self._logs(probabilities)

    def _probabilities(self, model: Any, rows: NDArray) -> NDArray[np.float64]:
        """Return a model's probabilities (T, C): 0 for names that are not in its training data."""
        probabilities = np.zeros((len(rows), self.n_names_))
        probabilities[:, model.classes_] = model.predict_proba(rows)
        return probabilities

    @staticmethod
    def _logs(probabilities: NDArray) -> NDArray[np.float64]:
        logs = np.log(np.maximum(probabilities, LEAST))
        return np.hstack([logs, np.ones((len(logs), 1))])


def discriminant(rows: NDArray, names: NDArray) -> tuple[NDArray, NDArray]:
    """Compute the weights (C, Q) and offsets (C,) of names by linear discriminant analysis.

    The logits of names are linear functions of a row, with these weights and offsets. Neighboring
    rows are similar, so there are few independent rows compared with the number of features. The
    covariance is therefore shrunk as in Ledoit & Wolf (Journal of Multivariate Analysis 88, 2004).
    O(n Q²).

    Parameters
    ----------
    rows : array (n, Q)
    names : array (n,)
        The name of every row. There must be at least two different names. Weights and offsets are
        in the order of the sorted names.
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
    emissions : NeighborFeatures or FramePosteriors
        The fitted features.
    classes : array (C,)
        The names, sorted; the code c stands for ``classes[c]``.
    n_features : int
        Q, the number of emission features.
    coef : array (C, Q)
        W; the score of name c in a sample with features φ is ⟨W_c, φ⟩.
    transitions : array (C, C) or None
        τ; τ[c, c′] is the cost of a segment with name c′ after a segment with name c, in addition
        to the penalty of a segment. The diagonal is ∞ if neighbors must differ.
    unit : float
        The value of τ for a weight of 1 in the solver, or 0 if τ is not learned.
    """

    emissions: Any
    classes: NDArray
    n_features: int
    coef: NDArray
    transitions: NDArray | None = None
    unit: float = 0.0

    @property
    def reach(self) -> tuple[int, int] | None:
        """Samples before and after a sample that its scores depend on; None: all samples."""
        context = getattr(self.emissions, "context", None)
        return None if context is None else (context, context)

    def refusal_of_streams(self) -> str:
        """Return what a stream needs if the reach is unknown, and the remedy."""
        return (
            f"emissions that see a known number of neighbors for a stream, got {self.emissions!r}; "
            "use NeighborFeatures or FramePosteriors."
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
            transitions = np.where(np.isinf(transitions), np.inf, more - less)
        return replace(self, coef=positive - negative, transitions=transitions)

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the score of every name in every sample of a new recording, (T, C)."""
        if type(self.emissions) is NeighborFeatures:  # another class may override transform
            return self.emissions.windows_.scores(X, self.coef[:, :-1]) + self.coef[:, -1]
        return self.emissions.transform(X) @ self.coef.T
