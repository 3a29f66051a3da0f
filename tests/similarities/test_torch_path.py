"""Normalized cuts on a torch device: value, slope and eigenvectors as on the processor."""

from __future__ import annotations

import numpy as np
import pytest

from metriclearn import DiagonalMetric, FullMetric, GaussianSimilarity
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.similarities import NodeLabels, Nodes, SimilarityFeatures
from metriclearn.similarities.engines import engine_for
from metriclearn.similarities.normalized_cut import NormalizedCut, ThresholdCut
from metriclearn.similarities.operators import GaussianOperator
from metriclearn.similarities.risk import SimilarityHinge
from metriclearn.solvers.mahalanobis import Metric, MetricCone

torch = pytest.importorskip("torch", reason="torch is not installed")
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is there")
DEVICES = ["cpu", pytest.param("cuda", marks=NO_GPU)]


def graph(n_nodes: int = 400) -> tuple[Nodes, NodeLabels]:
    """Two clouds of nodes of 1 to 4 samples, some labels wrong."""
    random = np.random.default_rng(0)
    sizes = random.integers(1, 5, n_nodes)
    kinds = np.arange(n_nodes) % 2
    X = random.normal(size=(n_nodes, 4)) + 2.0 * kinds[:, None] * (1, 1, 0, 0)
    labels = kinds[np.repeat(np.arange(n_nodes), sizes)]
    labels[::9] = 1 - labels[::9]
    owners = np.repeat(np.arange(n_nodes), sizes)
    return Nodes(X, sizes.astype(float)), NodeLabels.from_labels(labels, owners)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("metric", [DiagonalMetric(), FullMetric()], ids=["diagonal", "full"])
@pytest.mark.parametrize("memory", [2.0**20, 2.0**30], ids=["blocks", "whole"])
def test_value_and_slope(device: str, metric: Metric, memory: float) -> None:
    nodes, truth = graph()
    w = metric.coordinates(0.4 * np.random.default_rng(1).normal(size=(4, 4)))
    results = []
    for similarity in (GaussianSimilarity(), GaussianSimilarity(memory=memory, device=device)):
        features = SimilarityFeatures(similarity, metric)
        cone = MetricCone(metric, 4, priced=False)
        hinge = SimilarityHinge(features, cone, [nodes], [truth])
        results += [hinge(w), hinge.linearized(w)(1.1 * w)]
    for mine, theirs in zip(results[2:], results[:2]):
        np.testing.assert_allclose(mine.values, theirs.values, rtol=1e-9)
        size = np.abs(theirs.slopes).max()
        np.testing.assert_allclose(mine.slopes, theirs.slopes, atol=1e-7 * size)


@pytest.mark.parametrize("device", DEVICES)
def test_eigenvectors_and_cuts(device: str) -> None:
    nodes, _ = graph()
    cuts = []
    for engine in (engine_for(None), engine_for(device)):
        operator = GaussianOperator(nodes.features, 0.5 * np.eye(4), nodes.root, engine, 2.0**20)
        cuts.append(NormalizedCut(operator, TopEigenvectors(tolerance=1e-11)))
    (values, vectors), (others, their) = (cut.eigenpairs(4) for cut in cuts)
    np.testing.assert_allclose(others, values, atol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(vectors * their, axis=0)), 1.0, atol=1e-6)
    np.testing.assert_array_equal(*(ThresholdCut()(cut, 2) for cut in cuts))


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="needs a device that is there, got device='nowhere'"):
        engine_for("nowhere")
