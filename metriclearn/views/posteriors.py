"""Views fitted to labels by a classifier: names of rows, and the number of boundaries so far."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from metriclearn.running.notes import note
from metriclearn.running.parameters import Of, OneOf, Whole
from metriclearn.running.values import check_scale
from metriclearn.views.gaps import labels_for
from metriclearn.views.neighbors import Context, StandardWindows
from metriclearn.views.plain import PlainView, read_groups
from metriclearn.views.windows import typical_length, widths_for, window_moments

_BLOCK = 4096  # rows that a job predicts at once
LEAST = 1e-3  # smaller probabilities are raised to this: classifiers are never that certain
Classifier = Annotated[Any, Of("predict_proba", "RandomForestClassifier()", optional=True)]
Every = Annotated[int | None, OneOf(None, Whole(1))]


def held_out_models(
    classifier: Any,
    features: Sequence[NDArray],
    codes: Sequence[NDArray],
    groups: NDArray[np.int64],
    n_folds: int,
    weights: NDArray | None = None,
    every: int = 1,
) -> tuple[list[Any], list[NDArray[np.int64]]]:
    """Fit one classifier for each fold of whole groups to the rows of the other folds.

    Rows with the code −1 are not used. A single group is divided into ``n_folds`` parts of equal
    length. If the other folds have fewer than two codes, the model is fitted to all rows, because a
    classifier of a single code always predicts it, or if ``n_folds`` is 1. ``weights`` (N,) of
    recordings are passed to classifiers that have weights of samples. The models are fitted to
    every ``every``-th row of each recording.

    Returns
    -------
    models : list of fitted classifiers
    folds : list of int arrays (T_i,)
        For every row, the index of the model that has not seen it.
    """
    stops, n_groups = np.cumsum(list(map(len, features))), len(np.unique(groups))
    if n_folds == 1 or n_groups < 2:
        parts = np.arange(stops[-1]) * n_folds // stops[-1]
    else:
        fold_of = np.empty(len(features), dtype=np.int64)
        splitter = GroupKFold(min(n_folds, n_groups))
        for fold, (_, left_out) in enumerate(splitter.split(features, groups=groups)):
            fold_of[left_out] = fold
        parts = np.repeat(fold_of, np.diff(stops, prepend=0))
    table, targets, models = np.vstack(features), np.concatenate(codes), []
    known, shares = targets >= 0, None
    if every > 1:
        row = np.concatenate([np.arange(len(one)) for one in features])
        known &= row % every == 0
    if weights is not None and has_fit_parameter(classifier, "sample_weight"):
        shares = np.repeat(weights, np.diff(stops, prepend=0))
    for fold in range(int(parts.max()) + 1):
        seen = known & (parts != fold)
        seen = seen if len(np.unique(targets[seen])) > 1 else known
        given = {} if shares is None else {"sample_weight": shares[seen]}
        models.append(clone(classifier).fit(table[seen], targets[seen], **given))
    return models, np.split(parts, stops[:-1])


def _by_one_job(model: Any, rows: NDArray) -> NDArray[np.float64]:
    """Compute probabilities without threads.

    For few rows, the jobs that a forest makes, one for each tree, cost more than the trees.
    """
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    if type(model) not in (ExtraTreesClassifier, RandomForestClassifier):
        alone = copy.copy(model).set_params(n_jobs=1) if getattr(model, "n_jobs", None) else model
        with np.errstate(divide="ignore", invalid="ignore"):  # _chances notes NaN
            return alone.predict_proba(rows)
    first, *others = model.estimators_
    rows = np.asarray(rows, dtype=np.float32)
    votes = first.predict_proba(rows)  # checks the rows
    for tree in others:
        votes += tree.tree_.predict(rows)
    return votes / len(model.estimators_)


def probabilities(
    models: Sequence[Any], rows: NDArray, n_codes: int, folds: NDArray | None = None
) -> NDArray[np.float64]:
    """Compute the probabilities of all codes, (T, n_codes): 0 for codes that a model never saw.

    Without ``folds`` they are the mean over all models. With ``folds`` (T,), the probabilities of a
    row come from the model ``folds[t]`` only. If a model gives NaN, as ``GaussianNB`` does if no
    name is possible, all its codes count as equally likely, with a warning.
    """
    if folds is None:
        found = map(_chances, models, repeat(rows), repeat(n_codes))
        return np.mean(list(found), axis=0)
    chances = np.empty((len(rows), n_codes))
    for fold in np.unique(folds):
        here = folds == fold
        chances[here] = _chances(models[fold], rows[here], n_codes)
    return chances


def _chances(model: Any, rows: NDArray, n_codes: int) -> NDArray[np.float64]:
    """Compute the probabilities of all codes by one classifier.

    A forest with several jobs adds the votes of its trees in the order in which threads finish, so
    the last bits vary. Here a single job predicts a block of rows, and several blocks at once.
    """
    found = np.zeros((len(rows), n_codes))
    if len(model.classes_) == 1:  # some classifiers then have two columns
        found[:, model.classes_] = 1.0
        return found
    jobs = getattr(model, "n_jobs", None)
    if jobs in (None, 1) or len(rows) <= _BLOCK:
        chances = _by_one_job(model, rows)
    else:
        blocks = np.split(rows, range(_BLOCK, len(rows), _BLOCK))
        parts = Parallel(jobs, prefer="threads")(delayed(_by_one_job)(model, one) for one in blocks)
        chances = np.concatenate(list(parts))
    unknown = np.isnan(chances).any(axis=1)
    if unknown.any():
        note(
            f"{type(model).__name__} gives probabilities with NaN for {unknown.sum()} of "
            f"{len(rows)} rows, so all names count as equally likely there; take another "
            "classifier, or leave constant columns out."
        )
        chances[unknown] = 1 / chances.shape[1]
    found[:, model.classes_] = chances
    return found


class HeldOutView(PlainView):
    """Base of views that show what a classifier predicts.

    A subclass prepares, reads recordings, and makes columns of the probabilities.
    """

    held_out: ClassVar[bool] = True
    classifier: Any
    n_folds: int
    every: int | None
    models_: list[Any]
    n_codes_: int

    @abstractmethod
    def prepare(self, arrays: list[NDArray], y: Any) -> list[NDArray[np.int64]]:
        """Learn how to read, and return what to predict for every row: codes, −1 where unknown."""

    @abstractmethod
    def inputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return what the classifier reads of one recording, a row for every row."""

    @abstractmethod
    def columns(self, chances: NDArray) -> NDArray[np.float64]:
        """Compute the rows of the view from the probabilities of the codes, (T, n_codes)."""

    @abstractmethod
    def default(self) -> Any:
        """Make the classifier that is used if none is given."""

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Fit one classifier for each fold to the rows of the other folds.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays
        y : Labels
        groups : array (N,), optional
            Group of every recording; all recordings of a group are in the same fold. By default
            every recording is a group.
        """
        self._learn(X, y, groups)
        return self

    def fit_transform(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Any:
        """Fit the view, and compute the rows of training recordings by models without them."""
        seen = self._learn(X, y, groups)
        return [self.columns(probabilities(self.models_, *one)) for one in seen]

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the rows of a new recording, by the mean over all models."""
        return self.columns(probabilities(self.models_, self.inputs(X), self.n_codes_))

    def _learn(
        self, X: Any, y: Any, groups: ArrayLike | None
    ) -> list[tuple[NDArray, int, NDArray[np.int64]]]:
        """Fit the models. Returns the inputs, the number of codes, and the folds of their rows."""
        arrays = self.begin(X)
        codes = self.prepare(arrays, y)
        inputs = list(map(self.inputs, arrays))
        classifier = self.default() if self.classifier is None else self.classifier
        owners = read_groups(type(self).__name__, groups, len(arrays), fewest=1)
        every = self.every
        if every is None:
            every = max(1, int(typical_length(self, y.partitions) / 16))
        self.models_, folds = held_out_models(
            classifier, inputs, codes, owners, self.n_folds, getattr(y, "weights", None), every
        )
        return [(one, self.n_codes_, fold) for one, fold in zip(inputs, folds)]


@dataclass(eq=False, repr=False)
class Posteriors(HeldOutView):
    """Log-probabilities of names from a classifier, one column per name.

    The classifier reads a row and its neighbors in time, standardized with the means and deviations
    of all training rows. The probabilities of a training recording come from a model that was
    fitted without its group (cross-fitting). Otherwise a learner would see probabilities that are
    too confident, because a classifier memorizes its training data. The probabilities of a new
    recording are the mean over the models of all folds.

    Parameters
    ----------
    classifier : classifier of scikit-learn with ``predict_proba``, optional
        A random forest of 200 trees by default.
    context : int
        Number of neighbors on each side.
    n_folds : int
        Number of folds, at most one per group. A single group is divided into ``n_folds`` parts of
        equal length.
        With 1, one classifier is fitted to all rows, and training rows are not held out; a
        :class:`~metriclearn.Segmenter`, which leaves recordings out itself, takes this.
    every : int, optional
        The classifier is fitted to every ``every``-th row. None stands for m/16, where m is the
        median length of a labeled segment: neighboring rows, and windows around them, say the same.

    Attributes
    ----------
    windows_ : StandardWindows
    models_ : list of fitted classifiers
    n_codes_ : int
        The number of names.

    Raises
    ------
    ValueError
        For parameters that cannot be used, if y is not Labels with names, or if the training data
        have fewer than two names.

    See Also
    --------
    Neighbors : the windows themselves, without a classifier.

    References
    ----------
    Wolpert, Stacked generalization, Neural Networks 5, 1992 (training features from models fitted
    without the sample).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from metriclearn import Partition
    >>> from metriclearn.views import Labels, Posteriors
    >>> X, names = np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([0, 0, 1, 1])
    >>> labels = Labels([Partition.from_runs(names)] * 2, [names] * 2, np.array(["a", "b"]))
    >>> view = Posteriors(GaussianNB(), context=0).fit([X, X + 0.1], labels)
    >>> view.transform([X])[0].argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    classifier: Classifier = None
    context: Context = 4
    n_folds: Annotated[int, Whole(1)] = 5
    every: Every = 1

    @property
    def reach(self) -> tuple[int, int]:
        """The context, on both sides."""
        return self.context, self.context

    def prepare(self, arrays: list[NDArray], y: Any) -> list[NDArray[np.int64]]:
        """Standardize the columns, and return the names."""
        labels = labels_for(self, y, arrays, names=True)
        codes, classes = list(labels.codes or ()), np.asarray(labels.classes)
        if len(np.unique(np.concatenate([code[code >= 0] for code in codes]))) < 2:
            raise ValueError(
                "Posteriors needs samples of two names and more, got fewer; name more samples."
            )
        self.windows_ = StandardWindows.of(self.context, arrays, labels.weights)
        self.n_codes_ = len(classes)
        return codes

    def inputs(self, X: NDArray) -> NDArray[np.float64]:
        """Return the windows of the rows."""
        return self.windows_.transform(X)

    def columns(self, chances: NDArray) -> NDArray[np.float64]:
        """Compute logarithms."""
        return np.log(np.maximum(chances, LEAST))

    def default(self) -> Any:
        """Make a random forest."""
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(200, min_samples_leaf=3, n_jobs=-1, random_state=0)


@dataclass(eq=False, repr=False)
class ExpectedBoundaries(HeldOutView):
    """One column: the expected number of boundaries so far.

    Let m be the median length of a labeled segment. A classifier predicts the probability p_t that
    a boundary lies within m/8 rows of row t. It reads how much the means and the deviations of the
    windows before and after the row differ, for windows of m/16, m/4 and m rows. The column is the
    running sum of p_t / (2·m/8). It is a staircase, and a metric (one number) finds its steps. The
    column of a training recording comes from a model that was fitted without its group.

    Parameters
    ----------
    classifier : classifier of scikit-learn with ``predict_proba``, optional
        100 extremely randomized trees by default.
    n_folds : int
        Number of folds, at most one per group. A single group is divided into ``n_folds`` parts of
        equal length.
        With 1, one classifier is fitted to all rows, and training rows are not held out; a
        :class:`~metriclearn.Segmenter`, which leaves recordings out itself, takes this.
    every : int, optional
        The classifier is fitted to every ``every``-th row. None stands for m/16, where m is the
        median length of a labeled segment: neighboring rows, and windows around them, say the same.

    Attributes
    ----------
    scale_ : StandardWindows
        Means and deviations of the columns.
    widths_ : list of int
        Lengths of the windows, in rows.
    tolerance_ : int
        m/8, at least 1.
    models_ : list of fitted classifiers
    n_codes_ : int
        2: near a boundary, or not.

    Raises
    ------
    ValueError
        For parameters that cannot be used, if y is not Labels, or if no boundary is labeled.

    See Also
    --------
    Posteriors : probabilities of names.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from metriclearn import Partition
    >>> from metriclearn.datasets import make_change_points
    >>> from metriclearn.views import ExpectedBoundaries, Labels
    >>> data = make_change_points(n_features=2, n_relevant=2, random_state=0)
    >>> labels = Labels([Partition.from_runs(one) for one in data.labels])
    >>> view = ExpectedBoundaries(LogisticRegression()).fit(data.sequences, labels)
    >>> view.transform(data.sequences)[0].shape
    (600, 1)
    """

    running: ClassVar[bool] = True

    classifier: Classifier = None
    n_folds: Annotated[int, Whole(1)] = 5
    every: Every = 1

    @property
    def reach(self) -> tuple[int, int] | None:
        """The rows that the increase of the sum at a row depends on; None before the fit."""
        if not hasattr(self, "widths_"):
            return None
        most = int(max(self.widths_))
        return most, most - 1

    def prepare(self, arrays: list[NDArray], y: Any) -> list[NDArray[np.int64]]:
        """Choose widths by the lengths of segments, and return where boundaries are near."""
        truths = labels_for(self, y, arrays).partitions
        known = [truth.pieces.stretches for truth in truths]
        if not any(len(ends) > 1 for one in known for _, ends in one):
            raise ValueError(
                "ExpectedBoundaries needs a labeled boundary, got none; label one, or take another "
                "view."
            )
        self.scale_ = StandardWindows.of(0, arrays, y.weights)
        m = typical_length(self, truths)
        self.tolerance_, self.n_codes_ = max(1, int(m / 8)), 2
        self.widths_ = widths_for(m, arrays[0].shape[1])
        return [_near(one, len(X), self.tolerance_) for one, X in zip(known, arrays)]

    def columns(self, chances: NDArray) -> NDArray[np.float64]:
        """Compute the running sum of the expected numbers of boundaries."""
        return np.cumsum(chances[:, 1:] / (2 * self.tolerance_), axis=0)

    def default(self) -> Any:
        """Make extremely randomized trees, which are fast, and need no scaling of features."""
        from sklearn.ensemble import ExtraTreesClassifier

        return ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0)

    def inputs(self, X: NDArray) -> NDArray[np.float64]:
        """Compute how much the windows before and after every row differ, (T, 9P + 1 or fewer)."""
        Z = self.scale_.transform(X)
        check_scale(type(self).__name__, Z)
        T, t, columns = len(Z), np.arange(len(Z)), []
        for width in self.widths_:
            means, scatters = window_moments(Z, width)

            def side(end: NDArray) -> tuple[NDArray, NDArray]:
                """Return means and log-deviations of the windows of rows before ``end``."""
                counts = np.minimum(end, T) - np.maximum(end - width, 0)  # noqa: B023
                deviation = np.sqrt(scatters[end] / counts[:, None])  # noqa: B023
                return means[end], np.log(deviation + 0.01)  # noqa: B023

            left, right = side(np.maximum(t, 1)), side(t + width)
            around = side(t + width // 2 + 1)
            columns += [np.abs(right[0] - left[0]), np.abs(right[1] - left[1]), around[1]]
        return np.hstack([*columns, np.linalg.norm(columns[0], axis=1, keepdims=True)])


def _near(stretches: list[tuple[int, NDArray]], n_rows: int, tolerance: int) -> NDArray[np.int64]:
    """Return for every row whether a boundary is near: 1 or 0, or −1 where it is unknown."""
    T, positions = n_rows, np.full(n_rows + 1, -1)
    positions[[0, T]] = 0
    for start, ends in stretches:
        positions[start + 1 : ends[-1]] = 0
        positions[ends[:-1]] = 1
    codes = np.zeros(T, dtype=np.int64)
    for value in (-1, 1):
        for t in np.flatnonzero(positions == value):
            codes[max(0, t - tolerance) : t + tolerance] = value
    return codes
