"""The public callables, and good arguments for each by the names of its parameters.

A callable is public if a package of metriclearn names it. New callables are found automatically, if
all their parameters are named in ``GOOD``, or have defaults or annotations.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.metrics import rand_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import metriclearn as ml
from metriclearn.features.media.audio import AudioFeatures
from metriclearn.running.parameters import Of, requirements

_RANDOM = np.random.default_rng(0)
LABELS = np.repeat([0, 1, 2], 4)
X = _RANDOM.normal(size=(12, 2)) + 3.0 * np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, 2.0]])[LABELS]
_SQUARE = np.exp(-np.square(X[:, None] - X).sum(axis=2))
_TRUTH = ml.Partition.from_change_points([4, 8, 12])
_IMAGE = _RANDOM.random((12, 10, 3))
_FAST = ml.BundleDual(max_rounds=4)
_QUICK = {
    "random_state": 0,
    "solver": _FAST,
    "verbose": False,
    "max_rounds": 5,
    "n_jobs": None,
    "n_bootstrap": 4,
    "n_permutations": 10,
    "n_folds": 2,
    "n_init": 2,
    "n_runs": 4,
    "n_sweeps": 4,
    "strengths": 3,
    "device": "cpu",
    "cv": 2,
    "n_samples": 12,
    "n_segments": None,
}


def _no_change(*_: Any) -> Any:
    """A module of torch, where that is installed."""
    return importlib.import_module("torch").nn.Identity()


_TUNED = ml.baselines.TunedSegmenter().fit([X] * 2, [LABELS] * 2)
_AGREED = ml.Segmenter(ml.baselines.TunedSegmenter(), n_folds=2, for_streams=True)
_AGREED.fit([X] * 4, [LABELS] * 4)
_READ = ml.views.Labels([_TRUTH], [LABELS], np.arange(3))
# Good values by name of the parameter, or by callable and parameter where they differ.
GOOD: dict[str, Any] = {
    "X": X,
    "y": LABELS,
    "x": X[:, 0],
    "A": _SQUARE > 0.5,
    "B": np.eye(2),
    "S": _SQUARE,
    "change_points": [4, 8, 12],
    "column_sizes": [4, 4, 4],
    "costs": [9.0, 4.0, 1.0],
    "counts": [1, 2, 3],
    "estimator": KMeans(2, n_init=1),
    "form": ml.problem.LowRankForm(X),
    "forms": [ml.problem.LowRankForm(X)] * 2,
    "image": _IMAGE,
    "images": [_IMAGE],
    "index": rand_score,
    "known": ml.PartialPartition(12, LABELS),
    "labelings": [LABELS, LABELS[::-1]],
    "labels": LABELS,
    "learner": ml.ChangePointMetricLearner(solver=_FAST, verbose=False),
    "matrix": _SQUARE,
    "means": X[:3],
    "n1": 5,
    "n2": 6,
    "n_neighbors": 2,
    "n_samples": 12,
    "pairs": np.stack([X[:6], X[6:]], axis=1),
    "panels": {"a": X},
    "penalty": 1.0,
    "pred": [5, 9, 12],
    "prior_variance": 1.0,
    "radius": 1.0,
    "reference": LABELS,
    "regions": [(1, 6, 1), (5, 7, 0)],
    "row_sizes": [6, 6],
    "seconds": [1.0, 2.0, 4.0],
    "TimeLimit.seconds": 1.0,
    "segmentations": {"a": [4, 8, 12], "b": [5, 12]},
    "shape": (3, 4),
    "signal": X[:, 0],
    "sizes": [10, 20, 40],
    "strengths": [0.1, 1.0, 10.0],
    "strips": {"a": [(0.0, 4.0, "x"), (4.0, 12.0, "y")]},
    "traces": {"a": {"objective": [3.0, 2.0], "lower_bound": [0.0, 1.0]}},
    "true": [4, 8, 12],
    "truths": [_TRUTH] * 2,
    "u": 10.0,
    "values": [0.5, 0.7],
    "variance": 0.5,
    "weights": [0.5, 1.0],
    "probabilities": [0.1, 0.9, 0.5],
    "outcomes": [0, 1, 1],
    "confidences": [0.5, 0.7],
    "gains": -np.ones(12),
    "intervals": [[3, 5], [7, 9]],
    "plot_elbow.n_segments": [1, 2, 3],
    "JoinedFeatures.extractors": [AudioFeatures()],
    "Superpixels.n_segments": 3,
    "plot_regularization_path.weights": [[1.0, 2.0]] * 3,
    "plot_image_segmentations.segmentations": {"a": [np.repeat([0, 1], 60).reshape(12, 10)]},
    "plot_annotations.regions": [ml.Region(1, 6, ml.problem.NO_CHANGE)],
    "mann_whitney_u.y": X[:, 1],
    "mann_whitney_z.y": X[:, 1],
    "assignment_probabilities.x": X[0],
    "spherical_responsibilities.weights": [1.0, 1.0, 1.0],
    "best_penalty.weights": [1.0, 1.0],
    "IntervalRegression.y": np.column_stack([X[:, 0] - 1.0, X[:, 0] + 1.0]),
    "PartialPartition.change_points": [4, 8],
    "PartialPartition.regions": [ml.Region(1, 3, ml.problem.NO_CHANGE)],
    "Encoder.X": [X] * 4,
    "Encoder.y": ml.views.Labels([_TRUTH] * 4, [LABELS] * 4, np.arange(3)),
    "Encoder.n_epochs": 2,
    "Encoder.validation": 0.25,
    "BoundaryFeatures.X": [X] * 2,
    "SegmentCounts.X": [X] * 2,
    "SequenceFeatures.X": [X] * 2,
    "Viterbi.view": ml.views.Posteriors(GaussianNB(), 1),
    "FrozenFeatures.module": _no_change,
    "Ensemble.encoder": _no_change,
    "Normalized.encoder": _no_change,
    "FrozenEncoder.module": _no_change,
    "Region.start": 1,
    "Region.stop": 5,
    "Region.kind": ml.problem.NO_CHANGE,
    "Clusterer.members": {"a": [ml.ClusteringMetricLearner(solver=_FAST)]},
    "Each.transformer": StandardScaler(),
    "Columns.start": 0,
    "Columns.stop": 1,
    "Metric.estimator": ml.baselines.PrincipalComponents(1),
    "Chain.views": [ml.views.OwnScale()],
    "Union.views": [ml.views.OwnScale()],
    **dict.fromkeys(("Whiten.y", "Metric.y", "Posteriors.y", "ExpectedBoundaries.y"), _READ),
    **dict.fromkeys(("Convolutions.y", "Details.y", "Eigenmaps.y", "Windows.y"), _READ),
    "near.places": np.array([4.0, 8.0]),
    "near.others": np.array([5.0, 9.0]),
    "match.a": np.array([4.0, 8.0]),
    "match.b": np.array([5.0, 9.0]),
    "default_members.classes": np.arange(3),
    **dict.fromkeys(("Posteriors.classifier", "ExpectedBoundaries.classifier"), GaussianNB()),
    "change_times.frame": np.arange(12.0),
    "regular.frame": pd.DataFrame(X, index=np.arange(12.0)),
    "SegmenterStream.segmenter": _TUNED,
    "SegmenterStream.max_delay": 20,
    "compare_times.true": [(0.0, 4.0, "a")],
    "compare_times.found": [(0.0, 4.0, "a")],
    "plot_members.segmenter": _AGREED,
    "AgreementStream.segmenter": _AGREED,  # for checks of its parameters, in tests/running
    "AgreementStream.max_delay": 40,
    "Segmenter.X": [X] * 4,
    "Segmenter.y": [LABELS] * 4,
    "Segmenter.members": {"a": [ml.ChangePointMetricLearner(solver=_FAST, verbose=False)]},
    "ConsensusForm.members": [_TRUTH] * 2,
    "NormalizedCutMetricLearner.solver": ml.solvers.CCCP(max_rounds=2),
    "TunedSegmenter.y": LABELS,
    "EqualCuts.y": LABELS,
    "PenaltyLearner.X": [X] * 4,
    "PenaltyLearner.y": [LABELS] * 4,
    "NormalizedCutMetricLearner.X": [X] * 2,
    "NormalizedCutMetricLearner.y": [LABELS] * 2,
}

# Handles of files and pictures, and arguments that learners have already checked.
_NOT_TRIED = {"self", "ax", "path", "root", "problem", "log", "out", "cumulative", "subspace"}
_METHODS = (
    "fit",
    "transform",
    "predict",
    "predict_change_points",
    "predict_penalties",
    "predict_proba",
    "expected_loss",
    "boundary_shares",
    "tune_penalty",
    "fit_predict",
    "score",
    "pair_distance",
    "nodes",
    "from_labels",
    "from_runs",
    "from_change_points",
    "__call__",
)
_LABELS = ("labels_true", "labels_pred", "a", "b")  # optional by signature, but needed
# Learners call these with checked arguments
_SEAMS = (
    ml.problem.FrobeniusLoss,
    ml.problem.KnownLoss,
    ml.FeaturePenalty,
    ml.similarities.SimilarityFeatures,
)
_ANNOTATED = {"int": 2, "_Count": 2, "float": 0.5, "bool": False, "str": "a"}


@dataclass(frozen=True)
class Call:
    """A public callable as a function of one of its arguments."""

    name: str
    parameter: str
    make: Callable[[], Callable[..., Any]]
    good: dict[str, Any]

    @property
    def needs_y(self) -> bool:
        """Whether y is needed, and not only accepted for scikit-learn's sake."""
        return "y" in self.good

    def run(self, value: Any) -> Any:
        """Call with the value in place of the good argument."""
        less = _LABELS if self.parameter == "contingency" else ()
        others = {k: v for k, v in self.good.items() if k not in (*less, self.parameter)}
        return self.make()(**others, **{self.parameter: value})

    def __repr__(self) -> str:
        return f"{self.name}({self.parameter}=…)"


def packages() -> list[ModuleType]:
    """metriclearn and its folders, except folders that need a missing library."""
    modules: list[ModuleType] = [ml]
    for entry in pkgutil.iter_modules(ml.__path__):
        if entry.ispkg:
            try:
                modules.append(importlib.import_module(f"metriclearn.{entry.name}"))
            except ImportError:
                continue
    return modules


# Their arguments were checked.
_CHECKED = {"center", "check_squares", "fewest_changes", "discriminant"}
_CHECKED |= {"ChargedForm", "PartialNames"}


@cache
def public() -> dict[str, Any]:
    """Public functions and classes of metriclearn, by name."""
    named = {}
    for package in packages():
        for name in getattr(package, "__all__", [n for n in vars(package) if n[0] != "_"]):
            try:
                value = getattr(package, name)
            except ImportError:  # needs a library that is not installed
                continue
            home = str(getattr(value, "__module__", ""))
            elsewhere = ".datasets." in home or not home.startswith("metriclearn.")
            elsewhere |= ".running." in home and ".callbacks" not in home  # tools of programs
            elsewhere |= ".features." in home and name != "ImageFeatures"  # of files
            elsewhere |= name in _CHECKED
            if callable(value) and not elsewhere and not inspect.isabstract(value):
                named[name] = value
    return dict(sorted(named.items()))


def _needs_labels(owner: str) -> bool:
    """Whether fit and score of a class need y, which has a default for the sake of the message."""
    kind = public().get(owner)
    try:
        return hasattr(kind, "__sklearn_tags__") and get_tags(kind()).target_tags.required
    except TypeError:  # parameters are missing
        return False


def arguments(owner: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Good arguments for required parameters, and for parameters that make a call quick."""
    chosen = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        optional = parameter.default is not parameter.empty and name != "X"
        if name == "y" and _needs_labels(owner):
            optional = False
        if f"{owner}.{name}" in GOOD or name in _LABELS:
            chosen[name] = GOOD.get(f"{owner}.{name}", LABELS)
        elif optional and name in _QUICK:
            chosen[name] = _QUICK[name]
        elif not optional:
            kind = str(parameter.annotation).removeprefix("Annotated[").replace(",", " |")
            kind = kind.split(" |")[0]
            chosen[name] = GOOD.get(name, _ANNOTATED.get(kind, X))
    return chosen


def _calls_of(
    name: str, owner: str, function: Callable[..., Any], make: Callable[[], Callable[..., Any]]
) -> Iterator[Call]:
    """One call per parameter of the function that ``make`` returns."""
    good = arguments(owner, function)
    for parameter, kind in inspect.signature(function).parameters.items():
        if parameter in _NOT_TRIED or kind.kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
            continue
        yield Call(name, parameter, make, good)


def _fitted(kind: type, parameters: dict[str, Any]) -> Any:
    learner = kind(**parameters)
    return learner.fit(**arguments(kind.__name__, learner.fit))


@cache
def _example(kind: type) -> Any:
    return _fitted(kind, arguments(kind.__name__, kind))


def _slot(component: Any) -> tuple[type, str] | None:
    """A learner that takes the component, and the name of the parameter."""
    for kind in (ml.ChangePointMetricLearner, ml.ClusteringMetricLearner, *public().values()):
        rows = requirements(kind) if hasattr(kind, "fit") else {}
        for name, row in rows.items():
            if isinstance(row, Of) and row.accepts(component):
                return kind, name
    return None


def calls() -> list[Call]:
    """Every argument of every public callable."""
    result: list[Call] = []
    for name, value in public().items():
        if not isinstance(value, type):
            result += _calls_of(name, name, value, lambda f=value: f)
        elif issubclass(value, (tuple, float, *_SEAMS)) or getattr(value, "_is_protocol", False):
            continue  # results of functions, and protocols
        elif issubclass(value, BaseEstimator):
            result += _calls_of_estimator(name, value)
        elif value is ml.Region or not is_dataclass(value):
            constructors = [m for m in _METHODS if isinstance(vars(value).get(m), classmethod)]
            for method in constructors:
                function = getattr(value, method)
                result += _calls_of(f"{name}.{method}", name, function, lambda f=function: f)
            if not constructors:
                result += _calls_of(name, name, value, lambda f=value: f)
            if "__call__" in vars(value):
                made = value(**arguments(name, value))
                result += _calls_of(f"{name}()", name, made.__call__, lambda f=made: f)
    for name, segmenter in (("SegmenterStream", _TUNED), ("Segmenter", _AGREED)):
        result += _calls_of_stream(name, segmenter)
    return result


def _calls_of_stream(name: str, segmenter: Any) -> Iterator[Call]:
    """Rows that are pushed into a stream that has begun, and the limit of its delay."""

    def push(rows: Any) -> Any:
        stream = segmenter.stream()
        return stream.push(X[:6]), stream.push(rows), stream.finish()

    yield Call(f"{name}.stream().push", "rows", lambda: push, {"rows": X})
    yield Call(f"{name}.stream", "max_delay", lambda: segmenter.stream, {"max_delay": 40})


def _calls_of_estimator(name: str, kind: type) -> Iterator[Call]:
    """Calls of its methods, and fits of it, or of a learner that takes it, with its parameters."""
    parameters = arguments(name, kind)
    learner, place = kind, ""
    if not hasattr(kind, "fit"):
        learner, place = _slot(kind(**parameters)) or (None, "")

    def make(**given: Any) -> Any:
        if learner is kind:
            return _fitted(kind, given)
        return _fitted(learner, {**arguments(learner.__name__, learner), place: kind(**given)})

    if learner is not None:
        yield from _calls_of(name, name, kind, lambda: make)
    for method in _METHODS:
        function = next((vars(c)[method] for c in kind.__mro__ if method in vars(c)), None)
        if isinstance(function, (staticmethod, classmethod)):
            static, owner = getattr(kind, method), f"{name}.{method}"
            yield from _calls_of(owner, owner, static, lambda static=static: static)
        if not inspect.isfunction(function) or (method == "__call__" and learner is not None):
            continue

        def bound(method: str = method) -> Callable[..., Any]:
            if method in ("fit", "fit_predict") or learner is not kind:
                return getattr(kind(**parameters), method)
            return getattr(_example(kind), method)

        yield from _calls_of(f"{name}.{method}", name, function, bound)
