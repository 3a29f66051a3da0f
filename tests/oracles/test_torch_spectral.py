"""The spectral relaxation of batches on a torch device against numpy, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import ClusteringMetricLearner, DenseForm, LowRankForm, Partition
from metriclearn.oracles.requests import answers_batches
from metriclearn.oracles.spectral import SpectralRelaxation
from metriclearn.problem.joint_features import LinearFeatures, TableSamples
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.risk import StructuredHinge
from metriclearn.solvers.mahalanobis import FullMetric, MetricCone

torch = pytest.importorskip("torch", reason="torch is not installed")
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is there")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


def tables(seed: int, count: int, n_features: int = 4) -> list[TableSamples]:
    """Tables of 6 to 60 rows with 1 to 5 classes, some with a column twice."""
    rng = np.random.default_rng(seed)
    samples = []
    for i in range(count):
        T = int(rng.integers(6, 61))
        truth = Partition.from_labels(rng.integers(0, int(rng.integers(1, 6)), T))
        X = rng.normal(size=(T, n_features)) + rng.normal(size=(5, n_features))[truth.labels % 5]
        if i % 4 == 0:
            X[:, 0] = X[:, 1]
        samples.append(TableSamples(X, truth))
    return samples


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep_constant", [False, True])
def test_ragged_batches(device, keep_constant) -> None:
    rng = np.random.default_rng(0)
    forms: list[LowRankForm | DenseForm] = []
    counts: list[int | None] = []
    for i, samples in enumerate(tables(1, 60)):
        rank = int(rng.integers(1, 5))
        form = samples.form(rng.normal(size=(rank, 4)))
        forms.append(form.plus(samples.truth, 2.0, float(rng.choice([-1.0, 0.0, 0.5]))))
        counts.append(None if i % 2 else int(rng.integers(1, 5)))
    forms += [DenseForm(form.factors @ form.factors.T) for form in forms[:6]]  # type: ignore[union-attr]
    counts += [2] * 6
    oracle = SpectralRelaxation(keep_constant, device=device)
    assert answers_batches(oracle)
    for form, count, found in zip(forms, counts, oracle.many(forms, counts)):
        expected = SpectralRelaxation(keep_constant)(form, count)
        assert form.at(found) == pytest.approx(form.at(expected), rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(found.to_array(), expected.to_array(), atol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("known", [True, False])
def test_hinge_asks_once_for_all_data_sets(device, known, monkeypatch) -> None:
    samples, metric = tables(2, 20), FullMetric()
    cone = MetricCone(metric, 4, not known)

    def hinge(oracle: SpectralRelaxation) -> StructuredHinge:
        return StructuredHinge(
            LinearFeatures(metric),
            FrobeniusLoss(),
            oracle,
            cone,
            samples,
            [own.truth for own in samples],
            count_known=known,
            n_groups=7,
        )

    batches: list[int] = []
    real = SpectralRelaxation.many

    def many(self, forms, counts=None):
        batches.append(len(forms))
        return real(self, forms, counts)

    monkeypatch.setattr(SpectralRelaxation, "many", many)
    root = np.random.default_rng(3).normal(size=(3, 4))
    w = cone.join(metric.coordinates(root), 0.7)
    expected = hinge(SpectralRelaxation())(w)
    assert batches == []
    risk = hinge(SpectralRelaxation(device=device))
    found = risk(w)
    assert batches == [20]
    np.testing.assert_allclose(found.values, expected.values, atol=1e-9)
    np.testing.assert_allclose(found.slopes, expected.slopes, atol=1e-9)
    some = risk(w, np.array([1, 4]))
    assert batches == [20, 6]
    np.testing.assert_allclose(some.values, expected.values[[1, 4]], atol=1e-9)


def test_learner_on_a_device() -> None:
    rng = np.random.default_rng(4)
    y = [np.repeat([0, 1, 2], 15) for _ in range(3)]
    X = [rng.normal(size=(45, 3)) + 2.0 * np.eye(3)[labels] for labels in y]
    plain = ClusteringMetricLearner(random_state=0).fit(X, y)
    learner = ClusteringMetricLearner(oracle=SpectralRelaxation(device="cpu"), random_state=0)
    learner.fit(X, y)
    np.testing.assert_allclose(
        learner.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix(), atol=1e-7
    )


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="needs a device that is there, got device='nowhere'"):
        SpectralRelaxation(device="nowhere")(LowRankForm(np.ones((3, 1))), 1)
