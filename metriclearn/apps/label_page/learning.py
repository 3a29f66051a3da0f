"""Learn from all labels of the label page, segment all recordings, and check what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress, pairwise, starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.model_selection import KFold

from metriclearn import (
    BundleDual,
    ChangePointMetricLearner,
    PartialPartition,
    Partition,
)
from metriclearn.apps.label_page.annotation import (
    Annotation,
    labels_of_stretches,
    part_of_labels,
    partial_labels,
)
from metriclearn.apps.label_page.row_names import Names, names_of_rows
from metriclearn.apps.label_page.signals import Recording
from metriclearn.estimators import Calibration
from metriclearn.indices import match
from metriclearn.oracles import BoundaryMargins, boundary_margins
from metriclearn.problem import (
    ChargedForm,
    FrobeniusLoss,
    NameScores,
    PartialNames,
    fewest_changes,
)
from metriclearn.running import TimeLimit
from metriclearn.views import Windows

_CONTEXT = 24  # rows of context around labeled stretches, also used for learning
_CALIBRATED = 20  # held-out boundaries that probabilities need
_FEW_STRETCHES = 5  # up to so many, each is held out alone; more are held out in three parts
_FEWEST = 3  # boundaries in labeled stretches, so that some can be held out
_LONG = 5_000  # rows of a stretch that is learned in parts
_MOST_ROWS = 20_000  # used for learning after a correction; exported models learn from all rows
_WIDTHS = 32, 8, 2  # a window reaches so many parts of the usual segment to each side
_MANY = 40  # features, from which on windows have one width, as those of ``Windows`` do
_MOST_NUMBERS = 20_000_000  # in rows with windows; of more, they have one width, or there are none
_MOST_CHANGES = 16  # in a piece on which the penalty is tuned
_SOLVER = BundleDual(tolerance=1e-2)
_PATIENCE = 1.0  # seconds

# Used where names help to decide on boundaries: the cost of one unit of log-probability of a name,
# and the cost of a segment, as shares of the learned penalty. Chosen on training users of HAPT.
_NAME_SHARE, _SEGMENT_SHARE = 1 / 32, 1.5


class Given(NamedTuple):
    """The annotations of a person as partial labels of the rows of every recording.

    Attributes
    ----------
    partial : list of PartialPartition
        For each recording, the segments as far as they are known from its annotations.
    names : list of str
        The labels that at least one row has.
    codes : list of int arrays (T,)
        For every row, the index of its label in ``names``, or −1 if it has no label.
    """

    partial: list[PartialPartition]
    names: list[str]
    codes: list[NDArray]


@dataclass(frozen=True)
class Model:
    """A learned metric with a positive penalty, and possibly a classifier of segment names.

    Names are learned if at least two labels are in use. If ``is_joint`` is true, the probabilities
    of the names also influence where boundaries are found.
    """

    learner: Any
    names: Names | None = None
    is_joint: bool = False

    def margins(
        self,
        X: NDArray,
        features: NDArray,
        labels: PartialPartition,
        tolerance: int,
        codes: NDArray | None = None,
    ) -> BoundaryMargins:
        """Find the best segmentation that agrees with the labels, and margins of its boundaries.

        The loss of a boundary is how much the score decreases without this boundary. A change that
        a person has labeled has an infinite loss. The metric sees the rows ``X``, names are read
        from the ``features``. Both are cut at the labeled changes, and the parts are segmented
        separately, because this is faster.
        """
        scores, penalty = None, float(self.learner.penalty_)
        if self.is_joint and self.names is not None:
            scores = _NAME_SHARE * penalty * np.log(self.names.probabilities(features))
        parts, changes = [], [0]
        for _, ends in labels.pieces.stretches:
            changes += ends[:-1].tolist()
        for start, stop in pairwise([*changes, len(X)]):
            part: Any = self.learner.score_.form(X[start:stop]).shifted(-penalty)
            inside, near = labels.within(start, stop), min(tolerance, stop - start - 1)
            constrained = inside if inside.constraints else None
            if scores is not None:
                part = part.shifted((1 - _SEGMENT_SHARE) * penalty)
                part = ChargedForm(part, names=NameScores.of(scores[start:stop]))
                if codes is not None:
                    constrained = PartialNames(inside, codes[start:stop])
            margins = boundary_margins(part, known=constrained, tolerance=near)
            parts.append((margins.change_points + start, [*margins.losses, np.inf], margins.gains))
        ends, losses, gains = map(np.concatenate, zip(*parts))
        return BoundaryMargins(ends, losses[:-1], gains)

    def named(
        self, features: NDArray, ends: NDArray, codes: NDArray | None = None
    ) -> tuple[list[str], list[float]]:
        """Return the name of every segment, and the mean probability of this name in the rows.

        A segment with a labeled row gets the label of this row, with the probability 1. If no names
        are learned, both lists are empty.
        """
        if self.names is None:
            return [], []
        probabilities, starts = self.names.probabilities(features), np.append(0, ends[:-1])
        places = np.argmax(np.add.reduceat(np.log(probabilities), starts, axis=0), axis=1)
        sums = np.add.reduceat(probabilities, starts, axis=0)[np.arange(len(ends)), places]
        sure = np.round(sums / (ends - starts), 3)
        if codes is not None:
            given = np.maximum.reduceat(codes, starts)
            places, sure = np.where(given >= 0, given, places), np.where(given >= 0, 1.0, sure)
        return np.array(self.names.names)[places].tolist(), sure.tolist()


class Check(NamedTuple):
    """Counts that tell how well predictions agree with the labels of held-out stretches.

    Attributes
    ----------
    stretches : int
        Number of stretches.
    agreed, missed, extra : int
        Number of boundaries that both the person and the model have set, number of boundaries that
        only the person has set, and number of boundaries that only the model has set.
    right, named : int
        Number of rows whose predicted name is right, and number of rows that the person has named.
    """

    stretches: int = 0
    agreed: int = 0
    missed: int = 0
    extra: int = 0
    right: int = 0
    named: int = 0

    def __add__(self, other: Any) -> Check:
        return Check(*map(sum, zip(self, other)))

    def as_json(self) -> dict[str, Any]:
        """Convert the counts to a point of the curve that the page shows.

        The point also has Wilson's 95 % confidence interval for the fraction of boundaries that
        agree. This interval has a positive width even if there are only a few boundaries and all of
        them agree.
        """
        n = self.agreed + self.missed + self.extra
        if not n:
            return {}
        low, high = binomtest(self.agreed, n).proportion_ci(method="wilson")
        return {
            **dict(zip(("stretches", "agreed", "missed", "extra"), self)),
            **{"low": round(float(low), 3), "high": round(float(high), 3)},
            "named": round(self.right / self.named, 3) if self.named else None,
        }


class Stretch(NamedTuple):
    """A range of completely labeled rows of a recording, and the segmentation of these rows."""

    recording: int
    rows: slice
    truth: Partition


@dataclass
class _Trial:
    """Predictions for held-out stretches, and how well the predictions agree with the labels.

    ``gains`` tell for every stretch how many more of its predicted boundaries are right, within
    ``near`` rows, than wrong. One segment has a gain of 0. In so short a stretch, ‖M − N‖² would
    punish a boundary that is a few rows off, unlike in a whole recording; and stretches are cut in
    the middle of segments, where a boundary in their middle is often near.
    """

    near: int = 1
    margins: list[BoundaryMargins] = field(default_factory=list)
    truths: list[Partition] = field(default_factory=list)
    check: Check = field(default_factory=Check)
    squares: list[float] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)

    def add(
        self,
        model: Model,
        X: NDArray,
        features: NDArray,
        truth: Partition,
        tolerance: int,
        names: NDArray,
    ) -> None:
        """Segment a held-out stretch, and compare the result with the labels.

        ``names`` (T,) are the labels of the rows of the stretch. An empty string means that a label
        is unknown.
        """
        found = model.margins(X, features, PartialPartition(len(X)), tolerance)
        predicted = Partition(ends=found.change_points)
        self.squares.append(FrobeniusLoss().squared_norm(predicted, truth))
        right = len(match(found.change_points[:-1], truth.change_points[:-1], self.near))
        self.gains.append(2.0 * right - len(found.losses))
        relative = found.losses / model.learner.penalty_
        self.margins.append(BoundaryMargins(found.change_points, relative, found.gains))
        self.truths.append(truth)
        agreed = len(match(found.change_points[:-1], truth.change_points[:-1], tolerance))
        check = Check(1, agreed, truth.n_clusters - 1 - agreed, len(found.losses) - agreed)
        named, _ = model.named(features, found.change_points)
        sizes, known = np.diff(found.change_points, prepend=0), names != ""
        if named:
            right = np.repeat(named, sizes) == names
            check = check._replace(right=int(np.sum(right & known)), named=int(np.sum(known)))
        self.check += check

    @property
    def loss(self) -> float:
        """How much the predictions differ from the labels. Two trials are compared by this loss.

        The loss is the sum of ‖M − N‖² over the stretches, plus the number of wrongly named rows
        divided by the mean segment length.
        """
        sizes = sum(truth.n_samples for truth in self.truths)
        segments = sum(truth.n_clusters for truth in self.truths)
        return sum(self.squares) + (self.check.named - self.check.right) * segments / max(sizes, 1)


@dataclass
class Group:
    """Recordings with the same features, the model learned from them, and its validation.

    The metric of the model is the best metric that was found in ``patience`` seconds. It sees the
    ``rows``: the features of every row, and their means and deviations in windows of ``sizes``
    around it, which follow from the labels. ``missing`` is an estimate of how many more boundaries
    need labels until the model is better than one segment; from then on, its segments are shown.
    """

    recordings: list[Recording]
    model: Model | None = None
    calibration: Calibration | None = None
    checked: Check | None = None
    patience: float = _PATIENCE
    missing: int = _FEWEST
    sizes: tuple[int, ...] = ()
    rows: list[NDArray] = field(init=False)
    _windows: Windows | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.rows = [one.features for one in self.recordings]

    @property
    def is_shown(self) -> bool:
        """Whether the model was better than one segment on stretches that it had not learned."""
        return self.model is not None and not self.missing

    @property
    def tolerance(self) -> int:
        """The number of rows in half a second, but at least one row.

        Two changes count as the same if they are at most this many rows apart.
        """
        return max(1, round(0.5 * self.recordings[0].rate))

    def given(self, annotations: Mapping[str, Sequence[Annotation]]) -> Given:
        """Convert annotations to partial labels of the rows of each recording."""
        partial = [
            partial_labels(annotations.get(one.name, ()), len(one.features), one.rate)
            for one in self.recordings
        ]
        return Given(partial, *names_of_rows(self.recordings, annotations))

    def learn(self, given: Given) -> None:
        """Learn a metric and a penalty from the labeled stretches, and names from labeled rows.

        A metric can be learned from a partly labeled stretch only after its missing labels have
        been predicted. If there is no model yet, prediction and learning alternate until nothing
        changes. Otherwise the current model predicts the labels, and a new metric is learned once.
        """
        is_joint = self.model is not None and self.model.is_joint
        self._look(given)
        pieces: list[tuple[NDArray, Any]] = []
        for rows, partial in zip(self.rows, given.partial):
            for start, stop in _windows(partial):
                X, inside = rows[start:stop], partial.within(start, stop)
                whole = inside.segmentation()
                is_long = whole is not None and stop - start > _LONG
                pieces += _parts(X, whole) if is_long else [(X, whole or inside)]
        pieces = _some(pieces, [len(X) for X, _ in pieces])
        if self.model is not None:
            for i, (X, truth) in enumerate(pieces):
                if isinstance(truth, PartialPartition):
                    pieces[i] = X, self.model.learner.score_.segment(X, known=truth)
        learner = _fitted(pieces, self._around(given.partial), self.patience)
        if learner is None:
            self.model = self.calibration = self.checked = None
            return
        names = Names.learn(given.names, self.recordings, given.codes)
        self.model = Model(learner, names, is_joint)

    def _look(self, given: Given) -> None:
        """Compute the rows that the metric sees, if windows of other sizes suit the labels.

        Sizes follow from the median length of a labeled segment, rounded to a power of two, so that
        they seldom change. Without a labeled segment, and of very many features or rows, the rows
        are the features.
        """
        lengths = [
            np.diff(ends, prepend=first)
            for partial in given.partial
            for first, ends in partial.pieces.stretches
            if ends[-1] - first > 2
        ]
        arrays, sizes = [one.features for one in self.recordings], set[int]()
        numbers = sum(X.size for X in arrays)
        if lengths:
            usual = 2.0 ** round(np.log2(np.median(np.concatenate(lengths))))
            sizes = {max(1, round(usual / part)) for part in _WIDTHS}
            if arrays[0].shape[1] > _MANY or (1 + 2 * len(sizes)) * numbers > _MOST_NUMBERS:
                sizes = {max(1, round(usual / _WIDTHS[1]))}
        order = tuple(sorted(sizes))
        if self.sizes == order:
            return
        windows, rows = None, arrays
        if sizes and numbers < _MOST_NUMBERS // 2:
            # a change is also seen on top of a far larger level
            arrays = [X - X.mean(axis=0) for X in arrays]
            windows = Windows(order).fit(arrays)
            rows = windows.transform(arrays)
        # together, so that after an error the next correction computes them again
        self.sizes, self._windows, self.rows, self.model = order, windows, rows, None

    def seen(self, features: NDArray) -> NDArray:
        """Return the rows that the metric sees of a recording with these features."""
        if self._windows is None:
            return features
        return self._windows.transform([features - features.mean(axis=0)])[0]

    def _around(
        self, labels: Sequence[PartialPartition], most: int = _MOST_ROWS
    ) -> list[tuple[NDArray, Any]]:
        """Cut out the labeled stretches with the rows around them, which their boundaries need.

        A piece has few changes, because the time to tune on it grows with their square.
        """
        context = max(_CONTEXT, 4 * max(self.sizes, default=0))
        pieces = []
        for X, partial in zip(self.rows, labels):
            spans: list[list[int]] = []
            n_changes, reached = 0, 0
            for first, ends in chain(*starmap(_divided, partial.pieces.stretches)):
                start, stop = max(0, first - context), min(len(X), int(ends[-1]) + context)
                if ends[-1] - first <= 2:
                    continue
                n_changes += len(ends) - 1
                if spans and start <= spans[-1][1] and n_changes <= _MOST_CHANGES:
                    spans[-1][1] = stop
                else:
                    if spans and start < spans[-1][1]:
                        spans[-1][1] = start = (reached + first) // 2
                    spans.append([start, stop])
                    n_changes = len(ends) - 1
                reached = int(ends[-1])
            pieces += [(X[a:b], part_of_labels(partial, a, b)) for a, b in spans]
        return _some(pieces, [len(X) for X, _ in pieces], most)

    def segment(self, given: Given) -> list[BoundaryMargins]:
        """Find the best segmentation of each recording that agrees with the labels."""
        assert self.model is not None
        return [
            self.model.margins(rows, one.features, partial, self.tolerance, codes)
            for rows, one, partial, codes in zip(
                self.rows, self.recordings, given.partial, given.codes
            )
        ]

    def probabilities(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the probability that each change is correct, from the loss of the change.

        Probabilities are calibrated if there are enough labels that can be held out. A change that
        the labels require has an infinite loss and the probability 1.
        """
        assert self.model is not None
        relative = losses / self.model.learner.penalty_
        likely = Calibration.uncalibrated if self.calibration is None else self.calibration.of
        return np.where(np.isinf(losses), 1.0, likely(relative))

    def validate(self, given: Given) -> None:
        """Compare labeled stretches with predictions by models that were not trained on them.

        Two variants are compared. In one of them, names influence where boundaries are found. From
        then on, the model of the group uses the better variant, and is shown if this variant is
        better than one segment, see :func:`_missing`.
        """
        self.checked = self.calibration = None
        every = [
            Stretch(i, slice(first, int(ends[-1])), Partition(ends=ends - first))
            for i, partial in enumerate(given.partial)
            for stretch in partial.pieces.stretches
            for first, ends in _divided(*_inner(*stretch))
            if ends[-1] - first > 2
        ]
        stretches = _some(every, [one.truth.n_samples for one in every])
        n_known = sum(one.truth.n_clusters - 1 for one in stretches)
        self.missing = _missing([], n_known)
        if self.model is None or len(stretches) < 2:
            return
        labels = np.array([*given.names, ""])  # −1, no label, is the last
        near = self.sizes[-2:][0]  # about an eighth of a segment
        apart, joint = _Trial(near), _Trial(near)
        n_folds = len(stretches) if len(stretches) <= _FEW_STRETCHES else 3
        for rest, left in KFold(n_folds).split(stretches):
            kept = [stretches[i] for i in rest]
            pieces = [(self.rows[one.recording][one.rows], one.truth) for one in kept]
            around = self._around(self._labels_of(kept), _MOST_ROWS // 4)
            learner = _fitted(pieces, around, self.patience)
            if learner is None:
                continue
            names = self._names_without(given, [stretches[i] for i in left])
            for trial in (apart, joint) if names is not None else (apart,):
                model = Model(learner, names, trial is joint)
                for i, inside, truth in (stretches[place] for place in left):
                    rows, features = self.rows[i][inside], self.recordings[i].features[inside]
                    said = labels[given.codes[i][inside]]
                    trial.add(model, rows, features, truth, self.tolerance, said)
        is_joint = len(joint.truths) == len(apart.truths) > 0 and joint.loss < apart.loss
        self.model = replace(self.model, is_joint=is_joint)
        best = joint if is_joint else apart
        self.checked = best.check
        self.missing = _missing(best.gains, n_known)
        if sum(len(one.losses) for one in best.margins) >= _CALIBRATED:
            self.calibration = Calibration.learn(best.margins, best.truths, self.tolerance)

    def _labels_of(self, stretches: Sequence[Stretch]) -> list[PartialPartition]:
        """Return partial labels of every recording that know these stretches only."""
        known: list[list[tuple[int, NDArray]]] = [[] for _ in self.rows]
        for i, rows, truth in stretches:
            known[i].append((rows.start, rows.start + truth.change_points))
        return [labels_of_stretches(len(X), some) for X, some in zip(self.rows, known)]

    def _names_without(self, given: Given, left: list[Stretch]) -> Names | None:
        """Learn names from all labeled rows outside of the given stretches."""
        codes = list(map(np.copy, given.codes))
        for one in left:
            codes[one.recording][one.rows] = -1
        return Names.learn(given.names, self.recordings, codes)


def _missing(gains: Sequence[float], n_known: int) -> int:
    """Estimate how many labels are missing until a model is better than one segment.

    It is better if the mean gain over stretches held out exceeds its standard error. As long as it
    is not, we count the further boundaries that it would have to find exactly, with a gain of one
    each. More labels also improve the model, so we ask for a quarter more at least, and twice as
    many at most.

    Parameters
    ----------
    gains : sequence of float
        How many more boundaries of the model are right than wrong, in every stretch.
    n_known : int
        Number of boundaries with labels on both sides.
    """
    if n_known < _FEWEST:
        return _FEWEST - n_known
    for count in range(n_known):
        all_gains = np.append(gains, np.ones(count))
        if len(all_gains) > 1 and all_gains.mean() > all_gains.std(ddof=1) / len(all_gains) ** 0.5:
            return max(count, n_known // 4 + 1) if count else 0
    return n_known


def _divided(start: int, ends: NDArray) -> list[tuple[int, NDArray]]:
    """Cut a stretch in the middle of segments, into parts with one or two changes each.

    Returns the first row of every part, and the ends of the segments in the part.
    """
    if not len(ends):
        return []
    middles = [(ends[i] + ends[i + 1]) // 2 for i in range(1, len(ends) - 2, 2)]
    cuts = [start, *middles, int(ends[-1])]
    return [(a, np.append(ends[(ends > a) & (ends < b)], b)) for a, b in pairwise(map(int, cuts))]


def _inner(start: int, ends: NDArray) -> tuple[int, NDArray]:
    """Leave out a single row at an end of a stretch, given by its first row and segment ends.

    Often this row only stands for the other side of a boundary.
    """
    if ends[0] == start + 1:
        start, ends = int(ends[0]), ends[1:]
    is_single = len(ends) and ends[-1] == (start if len(ends) == 1 else ends[-2]) + 1
    return start, ends[:-1] if is_single else ends


def _parts(X: NDArray, truth: Any) -> list[tuple[NDArray, Any]]:
    """Cut a labeled stretch, from which we learn several times as fast then."""
    parts = _divided(0, truth.change_points)
    return [(X[first : ends[-1]], Partition(ends=ends - first)) for first, ends in parts]


def _some(pieces: list[Any], lengths: list[int], most: int = _MOST_ROWS) -> list[Any]:
    """Select pieces with about ``most`` rows in total. The choice is deterministic."""
    order = np.random.default_rng(0).permutation(len(pieces))
    rows = np.array(lengths, dtype=np.int64)[order]
    kept = np.zeros(len(pieces), dtype=bool)
    kept[order[np.cumsum(rows) - rows < most]] = True
    return list(compress(pieces, kept))


def _fitted(
    pieces: list[tuple[NDArray, Any]],
    around: Sequence[tuple[NDArray, Any]] = (),
    patience: float = _PATIENCE,
) -> Any:
    """Fit a learner to the pieces, or return None if nothing can be learned from them yet.

    The penalty is then tuned on the labeled stretches with the rows ``around`` them: a stretch
    alone has fewer boundaries than its rows have in a recording, and few of them leave many
    penalties with the least loss, of which the one in the middle is safest.
    """
    arrays, truths = map(list, zip(*pieces)) if pieces else ([], [])
    counts = list(map(fewest_changes, truths))
    if not any(counts):
        return None
    limit = TimeLimit(patience)
    learner: Any = ChangePointMetricLearner(solver=_SOLVER, callbacks=[limit], verbose=False)
    # As in ``fit``, but without its warnings about few labels.
    learner, _ = learner.solved(learner.stated(learner.read(arrays, truths)))
    if not len(learner.components_) or not learner.penalty_:
        return None
    if around:
        learner.tune_penalty(*map(list, zip(*around)))
    return learner if learner.penalty_ else None


def _windows(labels: PartialPartition) -> list[tuple[int, int]]:
    """Choose the ranges of rows from which a metric is learned.

    A range is a completely labeled stretch, or another annotated change with some rows around it.
    """
    pieces = labels.pieces
    spans = [(start, int(ends[-1])) for start, ends in pieces.stretches]
    windows = [(start, stop) for start, stop in spans if stop - start > 2]
    short = [(start, stop) for start, stop in spans if stop - start <= 2]
    for start, stop in short + [(region.start, region.stop) for region in pieces.regions]:
        # context ends one row inside the neighboring windows, where no change is possible
        before = max([b for _, b in windows if b <= start + 1], default=0)
        after = min([a for a, _ in windows if a >= stop - 1], default=labels.n_samples)
        first = max(before - 1, start - _CONTEXT, 0)
        windows.append((first, min(after + 1, stop + _CONTEXT, labels.n_samples)))
    return sorted(windows)


def compile_programs() -> None:
    """Learn once from very few rows, so that programs are compiled before the first correction."""
    X = np.repeat([[0.0], [1.0]], 4, axis=0) + np.arange(8.0)[:, None] % 2 / 10
    labels = PartialPartition(8, change_points=[4], same=[(0, 3)])
    codes = np.repeat([0, 1], 4)
    names = Names.learn(["a", "b"], [Recording("", "table", Path(), X, ["x"], 1.0, 8.0)], [codes])
    for model in (Model(_fitted([(X, labels)]), names, is_joint) for is_joint in (False, True)):
        model.margins(X, X, labels, 1, codes)
