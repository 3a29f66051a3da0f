"""The members that are fitted by default: families of learners, and strengths to try."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.learners.linear import PrincipalComponents
from metriclearn.estimators.learners.named import NamedSegmentLearner
from metriclearn.estimators.learners.viterbi import Viterbi
from metriclearn.estimators.learners.whitened import WhitenedMetricLearner
from metriclearn.running.parameters import Needs
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import FullMetric
from metriclearn.solvers.regularizers import SquaredFrobenius, Trace
from metriclearn.views.posteriors import Posteriors
from metriclearn.views.whiten import Metric


class Family(NamedTuple):
    """A learner, the name of its regularization parameter, and values to try for this parameter.

    The first value is the best one in most cases.
    """

    learner: Any
    parameter: str
    strengths: Sequence[float]


_STRENGTH = "regularizer__strength"
# From simple to complex.
FAMILIES: Mapping[str, Family] = {
    "diagonal, L1": Family(ChangePointMetricLearner(), _STRENGTH, (1e-3, 1e-2, 1e-4)),
    "diagonal, squared norm": Family(
        ChangePointMetricLearner(regularizer=SquaredFrobenius()), _STRENGTH, (1e-2, 1e-1, 1.0)
    ),
    "full, trace": Family(
        ChangePointMetricLearner(FullMetric(), Trace()), _STRENGTH, (1e-2, 3e-3, 1e-1)
    ),
    "full, squared norm": Family(
        ChangePointMetricLearner(FullMetric(), SquaredFrobenius()),
        _STRENGTH,
        (1e-1, 1.0, 1e-2, 10.0),
    ),
    "towards principal components": Family(
        WhitenedMetricLearner(
            FullMetric(),
            solver=BundleDual(tolerance=1e-3, max_rounds=200),
            view=Metric(PrincipalComponents(20)),
            toward=1e-2,
            retune=True,
        ),
        "toward",
        (1e-2, 1e-1, 1e-3),
    ),
    "whitened": Family(WhitenedMetricLearner(), _STRENGTH, (10.0, 1.0, 100.0)),
}


def default_members(
    named: bool = False, partial: bool = False, context: int = 4
) -> dict[str, list[Any]]:
    """Return the families at all their strengths.

    Parameters
    ----------
    named : bool
        Whether to add learners of names. All that read the same classifier share it.
    partial : bool
        Whether to include only learners that can learn from partial labels.
    context : int
        Number of neighbors on each side that classifiers read.
    """
    members = {
        name: [
            clone(family.learner).set_params(**{family.parameter: strength})
            for strength in family.strengths
        ]
        for name, family in FAMILIES.items()
        if not partial or family.learner.view is None
    }
    if named:
        linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
        forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
        frobenius = SquaredFrobenius(0.1)
        for name, classifier in (("logistic", linear), ("forest", forest)):
            view = Posteriors(classifier, context, n_folds=3)
            members[f"{name}, Viterbi"] = [Viterbi(view, penalty=4.0)]
            members[f"{name}, named"] = [NamedSegmentLearner(regularizer=frobenius, emissions=view)]
    return members


def is_segmenter(model: Any) -> bool:
    """Tell whether an object has the methods of a segmenter."""
    return all(callable(getattr(model, name, None)) for name in ("fit", "segmented", "read_data"))


def is_listed(given: Any, accepts: Callable[[Any], bool]) -> bool:
    """Tell whether a value is a list with at least one item and only accepted items."""
    return isinstance(given, (list, tuple)) and len(given) > 0 and all(map(accepts, given))


def families_of(what: str, accepts: Callable[[Any], bool], *, optional: bool) -> Needs:
    """Make a requirement for a parameter: a mapping of names to lists of accepted items."""

    def are(given: Any) -> bool:
        if given is None:
            return optional
        return isinstance(given, Mapping) and is_listed(
            list(given.values()), lambda family: is_listed(family, accepts)
        )

    return Needs(f"{{name}} as a mapping of families to lists of {what}", are)
