"""Segmenter: learns from labeled recordings to divide new recordings into segments with names."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.agreement_segmenter import AgreementSegmenter
from metriclearn.estimators.in_words import in_words, sentences
from metriclearn.estimators.learners.concerns import note_labels
from metriclearn.estimators.reading.data_sets import keep_features
from metriclearn.estimators.reading.far_values import note_far_values
from metriclearn.estimators.reading.given import (
    Given,
    count_segments,
    divides_equal,
    note_other_rate,
    read_files,
    read_given,
)
from metriclearn.estimators.reading.labels import refuse_unlabeled
from metriclearn.estimators.scores.agreement import Agreement, BoundaryRates, Scored
from metriclearn.estimators.scores.name_weights import RowNames
from metriclearn.estimators.selection.cross_fit import CrossFit
from metriclearn.estimators.selection.families import MEMBERS, members_for
from metriclearn.estimators.selection.fits import Choice, Fits
from metriclearn.estimators.selection.parts import Parts
from metriclearn.estimators.selection.rules import BoundaryRate, rules_for
from metriclearn.estimators.selection.validation import (
    Share,
    Validation,
    shares_of_families,
    validation_of,
)
from metriclearn.problem.partition import Partition
from metriclearn.running.notes import note
from metriclearn.running.parameters import (
    Jobs,
    Of,
    OneOf,
    Positive,
    Real,
    Title,
    Verbose,
    Whole,
    check_parameters,
)
from metriclearn.views.columns import note_constant
from metriclearn.views.plain import says


@dataclass(eq=False, repr=False)
class Segmenter(AgreementSegmenter):
    """Learn from labeled recordings to divide new recordings into segments with names.

    With few recordings, models differ by less than the error of choosing one of them. We therefore
    combine models. A member is a learner with a view of the recordings. A view gives the rows in
    one scale for all recordings or in the scale of each, windows around them, the names that a
    classifier predicts, or the expected number of boundaries so far. Each member is fitted several
    times: with one part of the recordings left out at a time, and once to all recordings. All these
    models are kept. Members with equal views share them, so a forest is fitted once to each part.
    The models of a member share one penalty, which is tuned on all recordings left out. The penalty
    is tuned twice: once in the unit of the data, and once in units of the variance of each
    recording. Few recordings do not determine the penalty well, so each model predicts with 0.5, 1
    and 2 times each tuned penalty. If recordings are only partly labeled, each model predicts with
    three penalties instead: the tuned one, the one that finds as many boundaries in unlabeled rows
    as labels let us expect, and their geometric mean. If labels allow a boundary everywhere, only
    the second is used. For a new recording, N_j is the prediction of model j. The best compromise
    between all predictions is

        argmin_M Σ_j q_j ‖M − N_j‖²_F − c K.

    K is the number of segments of M. If models disagree, their compromise has too few segments, so
    each segment gains c = .15. An exact dynamic program over the segment ends of all N_j finds this
    compromise, see :mod:`metriclearn.oracles.expected_loss`. If members predict names, the program
    also finds the names of segments. With ``combine="best"``, a single model is chosen instead,
    whose metric you can inspect.

    With a single group, one of its recordings is left out at a time. With a single recording, a
    part of its labels is left out at a time. Both cause a warning. If the only recording has a
    single labeled boundary, or fewer than eight and no labeled segment, one whitened learner, or
    the given members, are fitted to all labels; with partial labels their penalty is the one by the
    labeled rate. The ``min_size`` of a member holds for its own answers, not for the compromise.

    Parameters
    ----------
    members : mapping of names to lists of learners, learner, or None
        Families of members: learners, or :class:`~metriclearn.estimators.Member` with a view that
        several share. By default, :func:`~metriclearn.estimators.default_members` gives them. These
        train their metrics to a gap of 1 %.
    view : view, optional
        Turns rows into the rows that all members see, see :mod:`metriclearn.views`. Only this view
        may leave rows out; views of members then take the rows on the two sides of a gap for
        neighbors. By default, missing values are interpolated, and rows without any value are left
        out, see :class:`~metriclearn.views.LeaveOut`.
    extractor : extractor, optional
        Computes features of files, for example ``AudioFeatures()``. None means that recordings are
        tables.
    rate : float, optional
        Rows per second of tables. With an extractor, its rate is used instead. Without either,
        times are in rows.
    time : str, optional
        The column of times from which the rate of tables was read.
    combine : "consensus", "uniform" or "best"
        With "consensus", the weights q are chosen so that the weighted mean of the members'
        matrices predicts the matrices of the labels best, by least squares on the recordings left
        out (stacking). Few labeled segments pull the weights towards each other. The labels of a
        recording that was left out are not used to fit the learners and views that answer for it,
        nor for their weights. They are used to tune penalties, and in models of other parts. They
        are also used in the training rows of views that are fitted to labels; these rows come from
        views of other parts. With "uniform", all families have the same weight. "best" is the model
        of the simplest family whose loss exceeds the least by at most one standard error over
        groups; then other settings are tried, see ``choice_``.
    names : bool, optional
        Whether labels are names, that is, mean the same in all recordings. By default labels count
        as names if recordings of two groups share one (with a single group, two recordings; a
        single recording shares none), and if they are classes: not numbers that only rise within
        each of several recordings, and not texts that number segments
        (:func:`metriclearn.datasets.name_classes`).
    n_folds : int
        Number of parts into which recordings are divided. Each part is left out once. Parts consist
        of whole groups, so there are at most as many parts as groups.
    seconds : float, optional
        Time limit of all fits. Each stops after a twentieth, and no member is begun after two
        thirds, except the first. By default there is no limit.
    name_loss : float
        β, which is added to ‖M − N_j‖² for every sample whose name differs from the name that model
        j predicts. With 0, names do not move boundaries: each segment gets the name with the most
        votes.
    segment_length : float, optional
        The usual length of a segment in seconds. Where recordings are only partly labeled, it
        counts as ten more labeled boundaries.
    for_streams : bool
        Use only penalties in the unit of the data, because the variance of a recording is not known
        before its end. :meth:`stream` then works if all members can follow a stream.
    tolerance : float, optional
        For ``validation_``, a true boundary counts as found if a predicted boundary is at most this
        many seconds away. The default is a tenth of the median length of labeled segments, but at
        least one row.
    n_jobs : int, optional
        Number of threads of fits and predictions, as in joblib. It does not change the answers.
    verbose : bool, optional
        Show a progress bar of the fits always (True), never (False), or in a terminal (None).

    Attributes
    ----------
    agreement_ : Agreement
        The scores of all models and their weights; one score with ``combine="best"``.
    learner_ : fitted learner or None
        The model, if there is only one. You can inspect its metric.
    cross_fit_ : CrossFit or None
        Candidates × recordings, with the loss of each. Not saved. None if no recording was left
        out.
    left_out_ : mapping of int to Partition
        For every recording that was left out, the answer of models that were fitted without it. For
        a single recording, one answer for each part of its labels. The mapping is not saved.
    rates_ : BoundaryRates
        How often boundaries of ``left_out_`` were true.
    choice_ : Choice or None
        The candidates that were compared with ``combine="best"``; it can be printed.
    shares_ : list of Share
        For each family, its loss on recordings left out, its weight and the seconds of its fits.
    validation_ : Validation or None
        Losses on the recordings left out, and losses of simple baselines.
    missing_ : mapping of str to str
        For each missing family of members, the reason: the error of a fit, or a lack of time. Only
        default families may be missing because of an error.
    expected_length_ : tuple of three floats, or None
        With partial labels, the mean length of segments in seconds that labels let us expect, and
        the ends of its 90 % credible interval.
    n_groups_, n_segments_ : int
        The groups and the labeled segments on which members were compared. Fewer than four groups
        say little about how others differ.
    classes_ : array (C,) or None
        The sorted names that are predicted.
    row_names_ : RowNames or None
        Names segments if labels are classes, but no member predicts names.
    divides_equal_ : bool
        Whether training recordings had neighboring segments with the same label.
    trained_on_ : list of str
        Names of the training recordings.
    view_ : fitted view or None
        The view before all members.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        For data, labels or parameters that cannot be used, and for predictions before ``fit``.

    See Also
    --------
    metriclearn.ChangePointMetricLearner : learns one metric.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearner, Segmenter
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(n_features=30, n_relevant=3, random_state=0)
    >>> members = {"diagonal": [ChangePointMetricLearner()]}
    >>> segmenter = Segmenter(members, n_folds=3).fit(data.sequences, data.labels)
    >>> len(segmenter.agreement_.scores)  # three folds and all recordings, six penalties each
    24
    >>> segmenter.predict_change_points(data.sequences[0]).tolist()
    [64, 205, 325, 410, 450, 600]
    """

    members: Annotated[Any, MEMBERS] = None
    _: KW_ONLY
    view: Annotated[Any, Of("reach", "views.Fill()", optional=True)] = None
    extractor: Annotated[Any, Of("extract", "AudioFeatures()", optional=True)] = None
    rate: Annotated[float | None, OneOf(None, Positive())] = None
    time: Title = None
    combine: Literal["consensus", "uniform", "best"] = "consensus"
    names: Annotated[bool | None, OneOf(None, True, False)] = None
    n_folds: Annotated[int, Whole(2)] = 4
    seconds: Annotated[float | None, OneOf(None, Positive())] = None
    name_loss: Annotated[float, Real()] = 0.0
    segment_length: Annotated[float | None, OneOf(None, Positive())] = None
    for_streams: bool = False
    tolerance: Annotated[float | None, OneOf(None, Positive())] = None
    n_jobs: Jobs = None
    verbose: Verbose = None

    learner_: Any = field(init=False)
    choice_: Choice | None = field(init=False)
    shares_: list[Share] = field(init=False)
    validation_: Validation | None = field(init=False)

    # Not in vars before the fit; the first two are not in model files
    cross_fit_ = cast("CrossFit | None", None)
    left_out_ = cast("Mapping[int, Partition]", MappingProxyType({}))
    divides_equal_ = False
    missing_ = cast("Mapping[str, str]", MappingProxyType({}))
    n_groups_ = n_segments_ = 0
    expected_length_ = cast("tuple[float, float, float] | None", None)

    def fit(
        self,
        X: Any,
        y: Any = None,
        groups: ArrayLike | None = None,
        *,
        time_limit: float | None = None,
    ) -> Self:
        """Fit all members to parts of the recordings, and combine them or choose one.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, data frames or paths of files, or LabeledSequences
            Files need an ``extractor``. LabeledSequences, as loaders return them, have labels,
            groups and names. Samples with the label −1 or "nan" are unlabeled; they are left out
            if they are at most half of all. Recordings or stretches of a single row, and recordings
            without labels, are not learned from.
        y : labels, change-points or partial labels, for each recording
            None, or −1 for all samples, is a recording without labels. If all labels are changes
            alone, they count as all changes from the first to the last of each recording, with a
            warning, unless a single recording has fewer than four.
        groups : array (N,), optional
            Group of every recording, such as the user who recorded it. All recordings of a group
            are left out together. By default every recording is a group.
        time_limit : float, optional
            Seconds for this fit; by default ``seconds``. A note lists the members that were not
            fitted.
        """
        check_parameters(self)
        fitted, seconds = copy.copy(self), self.seconds
        if time_limit is not None:
            Positive().check(type(self).__name__, "time_limit", time_limit)
            seconds = float(time_limit)
        fitted._begin()
        given = fitted._read(X, y, groups)
        varies = np.isfinite(given.data.measures.pooled_deviation(type(self).__name__))
        fitted._know_training(given)
        divided, parts = fitted._divided(given)
        limit = seconds, time.monotonic()
        runner = Fits(type(self).__name__, self.members is None, *limit, self.n_jobs, self.verbose)
        rules = rules_for(given, parts, self.combine, self.for_streams)
        table_of = partial(runner.table, divided, parts, rules)
        table = table_of(members_for(fitted, divided, parts))
        if parts.left_out and self.combine == "best":
            table, fitted.choice_ = runner.choose(table, table_of)
        (fitted._take_weighed if parts.left_out else fitted._take_all)(table)
        fitted._note_missing(table)
        if parts.left_out:
            fitted._validate(divided, parts)
        if fitted.classes_ is None and self.names is not False:  # no member predicts names
            known, numbered = (given.data.arrays, given.labels), given.recordings is None
            fitted.row_names_ = RowNames.of_classes(*known, numbered, self.names)
        fitted.divides_equal_ = any(map(divides_equal, given.labels))
        note_constant(fitted, varies)
        self.__dict__ = fitted.__dict__  # all at once: a fit that fails changes nothing
        return self

    def _begin(self) -> None:
        """Forget what an earlier fit has learned."""
        self.learner_ = self.cross_fit_ = self.choice_ = self.validation_ = None
        self.row_names_ = None
        self.shares_, self.left_out_, self.missing_ = [], {}, {}
        self.expected_length_ = None
        self.rates_ = BoundaryRates.none()

    def _read(self, X: Any, y: Any, groups: Any) -> Given:
        """Read recordings, labels and groups, and apply the view before all members."""
        who = type(self).__name__
        missing = self.view is None or says(self.view, "missing")
        X = read_files(who, X, self.extractor)
        if (self.rate, self.segment_length, self.tolerance) != (None, None, None):
            note_other_rate(who, X, self.rows_per_second)
        given = read_given(who, X, y, groups, missing=missing, names=self.names)
        keep_features(self, given.data)
        if self.extractor is None:
            note_far_values(who, given.data)
        if self.time is not None and self.time in list(getattr(self, "feature_names_in_", ())):
            raise ValueError(
                f"{who} needs tables without the column of times, {self.time!r}, because it is not "
                "a feature; make it the index (frame.set_index), or drop it."
            )
        self.view_, given = given.behind(who, self.view)
        refuse_unlabeled(who, given.truths)
        given = given.with_listed_changes(who)
        if all(isinstance(truth, Partition) for truth in given.truths):
            note_labels(who, given.truths)
        stated = self.segment_length
        return given._replace(
            segment_length=None if stated is None else stated * self.rows_per_second
        )

    def _know_training(self, given: Given) -> None:
        """Keep the names of recordings, and count groups and segments that teach something."""
        names = given.recordings or map(str, range(len(given.truths)))
        self.trained_on_ = list(dict.fromkeys(names))
        known = [given.truths[i] for i in given.used]
        self.n_groups_ = len(np.unique(given.groups[given.used]))
        self.n_segments_ = sum(map(count_segments, known))
        rate = BoundaryRate.of(known, given.segment_length)
        if rate is not None and not all(truth.is_whole for truth in known):
            lengths = [1 / rate.quantile(q) / self.rows_per_second for q in (0.5, 0.95, 0.05)]
            self.expected_length_ = cast("tuple[float, float, float]", tuple(lengths))

    def _divided(self, given: Given) -> tuple[Given, Parts]:
        """Divide the recordings into parts of whole groups.

        With one group, its recordings are divided, or the labels of a single recording, with a
        warning. With too few boundaries, there are no parts.
        """
        if self.n_groups_ > 1:
            return given, Parts.of(given.groups, self.n_folds, given.used)
        divided, many = given.divided(self.n_folds), len(given.used) > 1
        what = "other recordings of this group" if many else "other parts of this recording"
        if divided is None:
            what = "nothing, because too few boundaries are labeled"
        note(
            f"{type(self).__name__} was given labels of one group, so it is checked on {what}; its "
            "quality on other groups is not known. Label recordings of another group."
        )
        if divided is None:
            return given, Parts([], np.zeros_like(given.groups), given.used)
        return divided, Parts.of(divided.groups, self.n_folds, divided.used)

    def _take_all(self, table: CrossFit) -> None:
        """Weigh all members equally, because no recordings were left out to compare them."""
        last = [
            one._replace(scores=[table.last_score(c)]) for c, one in enumerate(table.candidates)
        ]
        table = replace(table, candidates=tuple(last))
        names = [row[0].classes for row in table.scores if row[0].classes is not None]
        if names and self.names is not False:  # one recording, whose labels need not recur
            known = table.given._replace(classes=np.unique(np.concatenate(names)))
            table = replace(table, given=known)
        self.agreement_ = table.agreement(table.equal_shares(), float(self.name_loss))
        if len(table.members) == 1:
            self._keep_one(table, 0, table.candidates[0].scores[0])

    def _take_weighed(self, table: CrossFit) -> None:
        """Weigh candidates by the recordings left out, or take the chosen one alone."""
        loss, uniform = float(self.name_loss), self.combine == "uniform"
        if self.choice_ is None:
            self.agreement_, shares, self.left_out_ = table.consensus(loss, uniform=uniform)
            answers, weights = table.answers, shares
        else:
            c, weights = self.choice_.chosen, np.ones(1)
            score, shares = table.last_score(c), np.eye(len(table.candidates))[c]
            classes = None if table.given.classes is None else score.classes
            one = [score], [0], [table.families[c]], weights
            self.agreement_, self.left_out_ = Agreement(*one, classes, loss), table.answers[c]
            self._keep_one(table, table.candidates[c].member, score)
            answers = (table.answers[c],)
        self.shares_ = shares_of_families(table, shares)
        views = tuple(one.without_data() for one in table.views)
        self.cross_fit_ = replace(table, given=table.given.without_data(), views=views)
        known = list(self.left_out_)
        self.rates_ = BoundaryRates.learn(
            [self.left_out_[i] for i in known],
            [[answer[i] for answer in answers] for i in known],
            [table.given.truths[i] for i in known],
            weights,
        )

    def _keep_one(self, table: CrossFit, m: int, score: Any) -> None:
        """Keep the only model, with its score, so that its metric can be looked at."""
        self.learner_ = table.models[m][-1]
        if table.members[m].view is not None:
            self.learner_ = Scored(score, self.n_features_in_)
        elif hasattr(self.learner_, "with_score"):
            self.learner_ = self.learner_.with_score(score)

    def _note_missing(self, table: CrossFit) -> None:
        """Keep, and warn, which families of members are left out, and why."""
        self.missing_ = {family: str(why) for family, why in table.missing.items()}
        if self.missing_:
            n, total = len(self.missing_), len({*table.families, *self.missing_})
            note(
                f"members of {n} of {total} families are left out. "
                f"{' '.join(sentences(self.missing_))}"
            )

    def _validate(self, given: Given, parts: Parts) -> None:
        """Evaluate the answers for recordings left out, and warn if they are of no use."""
        self.validation_ = found = validation_of(
            self.left_out_,
            given.truths,
            given.data.arrays,
            parts,
            1 / self.rows_per_second,
            self.tolerance,
        )
        if found is not None and found.loss >= found.one_segment > 0:
            note(
                f"recordings held out are segmented with a loss of {found.loss:.2f}, no better "
                f"than without any boundary ({found.one_segment:.2f}); label more recordings, more "
                "like each other, or try other features or another rate."
            )

    def summary(self) -> dict[str, str]:
        """Describe the model, its training data and its quality: a text for each title."""
        check_is_fitted(self)
        return in_words(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.view is None or says(self.view, "missing")
        tags.target_tags.required = True
        return tags
