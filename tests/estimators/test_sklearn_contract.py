"""scikit-learn's contract, over lists of sequences and over one array."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import metriclearn as ml
from metriclearn import baselines, clusterers
from tests.training import XS, YS, sequences

WEIGHTS = "sample_weight weighs data sets, and the array of this check is a single one"
REFUSED = {
    "check_dtype_object": "values that are no numbers are refused in a sentence of our own, a "
    "ValueError that names the data set",
    "check_fit1d": "an array of one dimension is a signal with one feature",
}
TRANSDUCTIVE = REFUSED | {
    "check_methods_subset_invariance": "what is predicted of a sample depends on the others",
    "check_methods_sample_order_invariance": "their order is the data, or decides where a start is",
    "check_parameters_default_constructible": "parameters are objects (metric, regularizer, "
    "baseline), copied before one is changed, where the check allows plain values only",
}
WEIGHTED = TRANSDUCTIVE | {
    "check_sample_weights_pandas_series": WEIGHTS,
    "check_sample_weights_not_an_array": WEIGHTS,
    "check_sample_weights_list": WEIGHTS,
    "check_sample_weights_shape": WEIGHTS,
    "check_sample_weights_not_overwritten": WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
}
DP_MEANS = {
    "check_sample_weight_equivalence_on_dense_data": "the w samples of a weight w stay together, "
    "where each of w copies may open a cluster; and a weight of 0 is refused"
}
COARSE = ml.BundleDual(tolerance=0.1)
# with checks that cannot apply, and how many pass at least
CHECKED: list[tuple[BaseEstimator, dict[str, str], int]] = [
    (ml.ChangePointMetricLearner(solver=COARSE), WEIGHTED, 40),
    (ml.ClusteringMetricLearner(solver=COARSE), WEIGHTED, 40),
    (ml.estimators.WhitenedClusteringLearner(solver=COARSE), WEIGHTED, 40),
    (baselines.Euclidean(), REFUSED, 35),
    (baselines.PrincipalComponents(2), REFUSED, 35),
    (baselines.RelevantComponents(contiguous=False), REFUSED, 35),
    (baselines.ClosedFormMetric(), REFUSED, 35),
    (baselines.MMC(), REFUSED, 35),
    (baselines.NeighborhoodComponents(), REFUSED, 35),
    (baselines.MetricKMeans(), TRANSDUCTIVE, 35),
    (clusterers.DPMeans(), DP_MEANS, 35),
    (clusterers.GibbsDPMixture(n_sweeps=5), {}, 35),
    (clusterers.EvidenceAccumulation(n_runs=5), {}, 35),
]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of data that teach little
@pytest.mark.parametrize(
    ("estimator", "inapplicable", "least"), CHECKED, ids=lambda value: repr(value)[:40]
)
def test_estimator_checks_pass_except_those_that_cannot_apply(
    estimator, inapplicable, least
) -> None:
    results = check_estimator(
        estimator, expected_failed_checks=inapplicable, on_fail=None, on_skip=None
    )
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert failed == []
    assert sum(r["status"] == "passed" for r in results) >= least


def small_learner(**parameters) -> ml.ChangePointMetricLearner:
    return ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(0.1), **parameters)


# Parameters


REACHED: list[tuple[BaseEstimator, dict[str, float]]] = [
    (ml.ChangePointMetricLearner(), {"regularizer__strength": 7.0, "min_size": 4}),
    (
        ml.ChangePointMetricLearner(
            regularizer=ml.L1(0.5), solver=ml.solvers.ProjectedSubgradient()
        ),
        {"solver__tolerance": 0.5, "solver__step_rule__relaxation": 0.25},
    ),
    (ml.ClusteringMetricLearner(oracle=ml.oracles.Averaged()), {"oracle__search__max_passes": 7}),
    (ml.NormalizedCutMetricLearner(), {"solver__solver__max_rounds": 3}),
    (ml.WhitenedMetricLearner(), {"regularizer__strength": 0.5, "view__shrinkage": 0.3}),
    (ml.estimators.WhitenedClusteringLearner(), {"n_init": 3, "view__between": 0.2}),
]


@pytest.mark.parametrize(("estimator", "values"), REACHED)
def test_parameters_reach_into_components_that_are_never_shared(estimator, values) -> None:
    """Copy on write: no estimator with the same components, or defaults, sees a change."""
    changed, other = (type(estimator)(**estimator.get_params(deep=False)) for _ in "ab")
    before = {name: other.get_params()[name] for name in values}
    changed.set_params(**values)
    assert before != values
    for learner, expected in ((changed, values), (other, before), (estimator, before)):
        assert {name: learner.get_params()[name] for name in values} == expected


@pytest.mark.parametrize("name", ["strength", "regularizer__weight", "solver__step_rule__x"])
def test_unknown_parameters_are_refused(name) -> None:
    with pytest.raises(ValueError, match="Invalid parameter"):
        ml.ChangePointMetricLearner(solver=ml.solvers.ProjectedSubgradient()).set_params(
            **{name: 1.0}
        )


# Model selection over a list of sequences


def test_grid_search_over_a_list_of_sequences_by_groups() -> None:
    X, y = sequences(4, n=6)
    groups = ["ann", "ann", "bob", "bob", "cid", "cid"]
    grid = {"regularizer__strength": [1e-3, 1e-1, 1e3]}
    search = GridSearchCV(small_learner(), grid, cv=GroupKFold(3)).fit(X, y, groups=groups)
    table = search.cv_results_
    assert search.best_params_["regularizer__strength"] in (1e-3, 1e-1)
    assert table["mean_test_score"][2] < table["mean_test_score"][search.best_index_]
    for i, parameters in enumerate(table["params"]):
        learner = small_learner().set_params(**parameters)
        expected = cross_val_score(learner, X, y, groups=groups, cv=GroupKFold(3))
        scores = [table[f"split{split}_test_score"][i] for split in range(3)]
        np.testing.assert_allclose(scores, expected, atol=1e-12)
    assert len(search.predict(X)) == 6
    predicted = cross_val_predict(small_learner(), np.stack(X), np.stack(y), cv=2)
    assert predicted.shape == (6, 120)
    assert search.score(X, y) == search.best_estimator_.score(X, y)


# Arrays, frames and names


COLUMNS = ["speed", "heart", "turn", "noise", "light", "heat"]
FRAMES = [pd.DataFrame(X, columns=COLUMNS, index=np.arange(120) + 1000) for X in XS]


def test_outputs_as_frames() -> None:
    learner = small_learner().fit(FRAMES, YS).set_output(transform="pandas")
    names = [f"changepointmetriclearner{i}" for i in range(len(learner.components_))]
    assert learner.get_feature_names_out().tolist() == names
    assert [type(item) for item in learner.transform(FRAMES)] == [pd.DataFrame] * 5
    frame = learner.transform(FRAMES[0])
    expected = pd.DataFrame(XS[0] @ learner.components_.T, FRAMES[0].index, names)
    pd.testing.assert_frame_equal(frame, expected)
    assert isinstance(clone(learner).fit(XS, YS).transform(XS[0]), pd.DataFrame)
    assert isinstance(learner.set_output(transform="default").transform(XS[0]), np.ndarray)
    with pytest.raises(ValueError, match='needs "default" or "pandas" output, got'):
        learner.set_output(transform="polars")


def test_estimators_print_what_differs_from_the_defaults() -> None:
    text = repr(ml.ChangePointMetricLearner(ml.FullMetric(), ml.Trace(0.5), penalty=2.0))
    assert text.replace("\n", "").replace(" ", "") == (
        "ChangePointMetricLearner(metric=FullMetric(),penalty=2.0,regularizer=Trace(strength=0.5))"
    )
