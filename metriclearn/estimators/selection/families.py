"""The members that are fitted by default: families of learners, and strengths to try."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.learners.viterbi import Viterbi
from metriclearn.estimators.learners.whitened import WhitenedMetricLearner
from metriclearn.estimators.reading.given import Given
from metriclearn.estimators.reading.labels import refuse_regions
from metriclearn.estimators.selection.parts import Member, Parts
from metriclearn.running.parameters import Needs, Of, OneOf, Positive, Whole, needs
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.regularizers import L1
from metriclearn.views.chain import Chain
from metriclearn.views.convolutions import Convolutions
from metriclearn.views.details import Details
from metriclearn.views.eigenmaps import Eigenmaps
from metriclearn.views.own_scale import OwnScale
from metriclearn.views.posteriors import ExpectedBoundaries, Posteriors
from metriclearn.views.windows import Windows, typical_length

# What members are fitted with, from simple ones on. A fit with a time limit begins with those whose
# gain, about their weight in the answer for HAPT, is large for their cost. A family stays if the
# mean loss on recordings left out, over eight data sets in halves, is about 1 % higher without it:
# own scale, whitened 1.3 %, trees of scaled rows .9 %, logistic regression .9 % (7 % on HAPT);
# windows in the scale of all recordings had .3 %. Details were tried on halves of twelve sets: the
# loss on recordings left out was 7 % lower on average with one to three columns, and the same with
# more. Convolutions lowered it by another 9 % on halves of five sets with so few columns, and
# eigenmaps by 18 % after that: 51 % on utsa, 34 % on tssb, 0 to 4 % on bees, tcpd and gaze.
_TREES = ExtraTreesClassifier(50, min_samples_leaf=3, random_state=0)
_LINEAR = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=40))
_SOLVER = BundleDual(tolerance=1e-2)
_DIAGONAL = ChangePointMetricLearner(regularizer=L1(3e-3), solver=_SOLVER)
_WHITENED = WhitenedMetricLearner(solver=_SOLVER)
_LONG = 200  # rows of a segment from which on five rows are a 40th of it
_FEW = 40  # with more columns, windows are for classifiers only
# Recordings of at most so many columns have members for signals: details, convolutions, eigenmaps.
SIGNALS = 3


@needs
def default_members(
    classes: NDArray | None = None,
    n_features: Annotated[int, Whole(1)] = 1,
    window: Annotated[int | None, OneOf(None, Whole(2))] = None,
    before: Annotated[Any, Of("reach", "views.Columns(0, 6)", optional=True)] = None,
    length: Annotated[float | None, OneOf(None, Positive())] = None,
) -> dict[str, list[Member]]:
    """Return the members that a Segmenter fits if none are given.

    Metrics are trained to a relative gap of 1 %: their objective is certified to be at most 1 %
    above the optimum. Own members have the tolerance of their solver, .1 % by default.

    Parameters
    ----------
    classes : array (C,), optional
        The sorted labels, if they are names, which classifiers predict.
    n_features : int
        Number of columns of the recordings.
    window : int, optional
        Rows that give the scale of a recording while it arrives. Views of the whole recording are
        left out.
    before : view, optional
        Computes the ``n_features`` columns that these members see, such as ``Columns(0, 6)``, if
        other members see other columns.
    length : float, optional
        Median number of rows of a labeled segment. Below 200, members with eigenmaps are left out,
        because shapes of less than five rows say little. By default they are not.

    Returns
    -------
    mapping of names of families to lists of Member

    Raises
    ------
    ValueError
        For arguments that cannot be used.

    See Also
    --------
    metriclearn.Segmenter : fits these members.

    Examples
    --------
    >>> from metriclearn.estimators import default_members
    >>> [name for name in default_members() if name.startswith("windows")]
    ['windows, own scale, diagonal', 'windows, own scale, whitened']
    """

    diagonal = {"diagonal": _DIAGONAL}
    plain = {**diagonal, "whitened": _WHITENED}
    smoothed = {"Viterbi": Viterbi(None, classes=classes, penalty=None), **plain}

    def heads(
        name: str, view: Any, cost: float, gain: float = 1.0, learners: Mapping[str, Any] = plain
    ) -> dict[str, list[Member]]:
        return {
            f"{name}, {head}": [Member(f"{name}, {head}", learner, view, cost, None, gain)]
            for head, learner in learners.items()
        }

    def in_own_scale(*views: Any) -> Any:
        return Chain([OwnScale(window), *views])

    trees, linear = (Posteriors(one, context=0, n_folds=1, every=None) for one in (_TREES, _LINEAR))
    members = heads("scaled", None, 1.0)
    sides = Windows(sides=True)
    boundaries = ExpectedBoundaries(_TREES, n_folds=1, every=None)
    for scale, view in (("scaled", boundaries), ("own scale", in_own_scale(boundaries))):
        members |= heads(f"expected boundaries, {scale}", view, 3.0, 4.0, diagonal)
    if classes is not None:
        members |= heads("trees, scaled", Chain([sides, trees]), 2.0, 3.0, smoothed)
        members |= heads("trees, own scale", in_own_scale(sides, trees), 2.0, 4.0, smoothed)
        members |= heads("logistic, scaled", Chain([sides, linear]), 2.0, 2.0, smoothed)
    members |= heads("own scale", OwnScale(window), 1.0)
    if n_features <= _FEW:
        members |= heads("windows, own scale", in_own_scale(Windows()), 2.0)
    if n_features <= SIGNALS:
        members |= heads("details, own scale", in_own_scale(Details(), Windows()), 2.0)
    if n_features <= SIGNALS and window is None:
        rhythms, shapes = [Convolutions(), OwnScale()], [Eigenmaps(), OwnScale()]
        signals = [("convolutions", rhythms, [Windows()]), ("eigenmaps", shapes, [])]
        for name, own, last in signals[: 1 + (length is None or length >= _LONG)]:
            for kind, ends in ("", last), ("expected boundaries, ", [boundaries]):
                members |= heads(kind + name, Chain([*own, *ends]), 3.0, 1.0, diagonal)
    if before is None:
        return members
    return {
        name: [one._replace(view=Chain([before, one.view]) if one.view else before) for one in some]
        for name, some in members.items()
    }


def members_for(segmenter: Any, given: Given, parts: Parts) -> list[Member]:
    """Return the members of a Segmenter.

    Views of members take the rows on the two sides of a gap for neighbors, if rows are left out.
    Without recordings left out, members cannot be compared. The only member is then one whitened
    learner by default, or with ``combine="best"`` the first given learner.
    """
    if segmenter.members is not None:
        found = _listed(segmenter.members)
        return found[:1] if segmenter.combine == "best" and not parts.left_out else found
    if not parts.left_out:
        refuse_regions(type(segmenter).__name__, given.truths)
        return [Member("whitened", WhitenedMetricLearner(retune=True))]
    window = length = None
    if segmenter.for_streams:
        window = max(2, int(8 * typical_length(segmenter, given.truths)))
    elif any(truth.pieces.stretches for truth in given.truths):
        length = typical_length(segmenter, given.truths)
    n_features = given.data.arrays[0].shape[1]
    made = default_members(given.classes, n_features, window, length=length)
    return [member for family in made.values() for member in family]


def _listed(members: Any) -> list[Member]:
    """List the members of a mapping of families to lists of learners, or a single learner."""
    families = members if isinstance(members, Mapping) else {"learner": [members]}
    return [
        one._replace(family=name) if isinstance(one, Member) else Member(name, one)
        for name, family in families.items()
        for one in family
    ]


def _is_segmenter(model: Any) -> bool:
    """Tell whether an object has the methods of a segmenter."""
    methods = ("fit", "segmented", "read_data")
    return not isinstance(model, type) and all(callable(getattr(model, m, None)) for m in methods)


def lists_families(given: Any, accepts: Callable[[Any], bool]) -> bool:
    """Tell whether a value maps names of families to lists of one accepted item or more."""
    families = list(given.values()) if isinstance(given, Mapping) else []
    return len(families) > 0 and all(
        isinstance(one, (list, tuple)) and len(one) > 0 and all(map(accepts, one))
        for one in families
    )


MEMBERS = Needs(
    "members as a segmenter, a mapping of families to lists of segmenters (of an ONNX file the "
    "learner that wrote it), or None",
    lambda given: (
        given is None
        or _is_segmenter(given)
        or lists_families(given, lambda one: isinstance(one, Member) or _is_segmenter(one))
    ),
)
