"""Viterbi: names of rows by a classifier, smoothed with one penalty for every change of name."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from metriclearn.estimators.reading.labels import read_labeled, read_names
from metriclearn.estimators.scores.name_weights import NameWeights
from metriclearn.estimators.scores.segment_score import SegmentScore, tuned_penalty
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.running.parameters import OPTIONAL_LIST, Of, OneOf, Real, Whole
from metriclearn.running.values import shown
from metriclearn.views.gaps import Labels, labels_behind
from metriclearn.views.plain import FittedViews, read_groups, reads_missing
from metriclearn.views.posteriors import Posteriors


@dataclass(eq=False, repr=False)
class Viterbi(MahalanobisSegmenter):
    """Classify every row together with its neighbors in time, then smooth the names.

    Frame classification is the standard way to find segments with names. The view gives the
    log-probability of every name in every row. The value of a segment is the sum of the
    log-probabilities of its best name, minus a penalty. The Viterbi algorithm finds the
    segmentation with the largest value. No metric is learned: ``components_`` is 0.

    Parameters
    ----------
    view : view with one column for each name
        ``Posteriors(classifier, context, n_folds)``. Its rows for training recordings come from
        models that were fitted without them. None if the rows are log-probabilities already.
    classes : sequence of labels, optional
        The names of the columns, sorted; by default the labels that occur.
    penalty : "tuned", float or None
        The penalty of a segment, in nats. "tuned" is the penalty with the least mean loss
        ‖M − N‖²_F on the training recordings, whose log-probabilities were held out. None leaves it
        open: a Segmenter tunes it on recordings left out, ``tune_penalty`` on those it is given.
        A Segmenter that chooses one model tunes on training rows, so ``Posteriors`` should then be
        the view of the :class:`~metriclearn.estimators.Member`, whose training rows are held out.
    min_size : int
        Smallest number of rows in a segment.

    Attributes
    ----------
    classes_ : array (C,)
        The labels, sorted.
    penalty_ : float or None
    score_ : SegmentScore
        Its ``view`` holds the fitted classifiers.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    TypeError
        If ``pair_distance`` or ``get_metric`` is called, because the view sees rows in context.

    See Also
    --------
    metriclearn.NamedSegmentLearner : learns boundaries and names together.

    References
    ----------
    Forney, The Viterbi algorithm, Proceedings of the IEEE 61, 1973.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.estimators import Viterbi
    >>> from metriclearn.views import Posteriors
    >>> rng, labels = np.random.default_rng(0), np.repeat(["sit", "walk", "sit"], 20)
    >>> X = [rng.normal(size=(60, 2)) + 3.0 * (labels == "walk")[:, None] for _ in range(4)]
    >>> segmenter = Viterbi(Posteriors(context=1)).fit(X, [labels] * 4)
    >>> segmenter.predict_change_points(X[0]).tolist()
    [20, 40, 60]
    """

    view: Annotated[Any, Of("reach", "views.Posteriors()", optional=True)] = Posteriors()  # noqa: RUF009
    _: KW_ONLY
    classes: Annotated[Any, OPTIONAL_LIST] = None
    penalty: Annotated[str | float | None, OneOf("tuned", Real(), None)] = "tuned"
    min_size: Annotated[int, Whole(1)] = 1

    n_segments = None

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Learn from labeled recordings. A label must mean the same in all recordings.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or a single one
        y : (T_i,) labels for each sequence, −1 where unknown
        groups : array (N,), optional
            Group of every recording, such as the user who recorded it; the recordings of a group
            are left out together.
        """
        return self.fit_among(X, y, groups=groups)

    def fit_among(
        self, X: Any, y: Any, groups: ArrayLike | None = None, views: FittedViews | None = None
    ) -> Self:
        """Do what :meth:`fit` does. Views that other learners have fitted to X are used again."""
        who, missing = type(self).__name__, reads_missing(self.view)
        read = read_labeled(self, X, y, segments=True, partial=True, missing=missing)
        fitted, data, truths = read
        given = None if self.classes is None else _sorted(who, self.classes)
        codes, classes = read_names(who, y, data, truths, given)
        if len(classes) < 2:
            only = shown(classes.tolist()[0])
            raise ValueError(
                f"{who} needs two names and more to tell apart, got {only} only; use "
                "ChangePointMetricLearner for boundaries without names."
            )
        units = None if groups is None else read_groups(who, groups, len(truths))
        labels, arrays = Labels(truths, codes, classes), list(data.arrays)
        view: Any = None
        rows = arrays
        if self.view is not None:
            view, rows = (views or FittedViews()).fit(self.view, arrays, labels, units)
        if rows[0].shape[1] != len(classes):
            remedy = "classes, the names of all columns" if view is None else "views.Posteriors()"
            raise ValueError(
                f"{who} needs a view with a column for each of {len(classes)} names, got "
                f"{rows[0].shape[1]} columns; pass {remedy}."
            )
        known = labels_behind(view, arrays, labels)
        one_each = np.eye(len(classes), len(classes) + 1)
        names = NameWeights(None, classes, len(classes) + 1, one_each)
        nothing = np.zeros((1, len(classes)))
        score = SegmentScore(nothing, None, names=names, min_size=self.min_size)
        chosen = self.penalty
        if chosen == "tuned":
            chosen, _ = tuned_penalty(who, score, rows, known.partitions)
        chosen = None if chosen is None else float(chosen)
        fitted.score_ = replace(score.at(chosen), view=view)
        self.__dict__ = fitted.__dict__  # all at once: a fit that fails changes nothing
        return self

    @property
    def classes_(self) -> NDArray:
        """The labels, sorted."""
        return self.score_.names.classes

    def predict_proba(self, X: Any) -> Any:
        """Return probabilities of the labels for every row, before smoothing, (T, C)."""
        data = self.read_data(X)
        return data.as_passed([softmax(self.score_.rows(one), axis=1) for one in data.arrays])


def _sorted(who: str, classes: Any) -> NDArray:
    """Return classes as an array, if they are sorted and each occurs once."""
    with suppress(TypeError, ValueError):  # they have no order, or are not of one length
        found = np.unique(classes)
        if np.array_equal(found, np.asarray(classes)):
            return found
    raise ValueError(
        f"{who} needs sorted classes, each once, got {shown(classes)}; sort them, and the columns "
        "of the rows with them."
    )
