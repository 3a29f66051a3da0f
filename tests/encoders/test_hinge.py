"""The hinge of outputs: slopes by finite differences, the linear learners' values, any oracle."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.joint_features import Samples
from metriclearn.problem.risk import HingeTerms, StructuredHinge
from metriclearn.similarities import Neighborhood, NodeLabels
from metriclearn.solvers.mahalanobis import MetricCone
from tests.exhaustive import all_segmentations, equivalence_matrix, labels_of

torch = pytest.importorskip("torch")

from metriclearn.encoders import (  # noqa: E402
    GaussianSimilarities,
    NamedProducts,
    StructuredHingeLoss,
)

DATA = make_change_points(3, 40, 3, 2, (3, 5), noise=1.0, jump=1.5, random_state=0)
OUTPUTS = DATA.sequences
RUNS = [ml.Partition.from_runs(labels) for labels in DATA.labels]
SOME = [np.where(np.arange(len(y)) % 7 < 4, y, -1) for y in DATA.labels]
REGION = ml.PartialPartition(
    40, labels=[0] * 8 + [-1] * 32, regions=[(20, 30, ml.problem.EXACTLY_ONE)]
)
CLUSTERS = [ml.Partition.from_labels(np.random.default_rng(i).integers(0, 3, 40)) for i in range(3)]
SPARSE = [np.where(np.arange(40) % 3 < 2, N.labels, -1) for N in CLUSTERS]
NODES = [NodeLabels(np.eye(3)[p.labels] * (1.0 + np.arange(40) % 4)[:, None]) for p in CLUSTERS]
NAMES = [y % 2 for y in DATA.labels]
FEW_NAMES = [np.where(np.arange(len(y)) % 7 < 4, y, -1) for y in NAMES]
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "names": ({"forms": NamedProducts(2, 0.2)}, NAMES),
    "names, given count": ({"forms": NamedProducts(2, 0.2), "n_clusters": "given"}, NAMES),
    "partial names": (
        {"forms": NamedProducts(2, 0.2), "penalty": 2.0},
        [FEW_NAMES[0], RUNS[1], FEW_NAMES[2]],
    ),
    "change-points": ({}, RUNS),
    "given penalty": ({"penalty": 0.7, "min_size": 2, "loss_scale": 3.0}, RUNS),
    "given count": ({"n_clusters": "given"}, RUNS),
    "partial labels": ({"penalty": 2.0}, [SOME[0], REGION, SOME[2]]),
    "relaxation": ({"segments": False, "oracle": ml.oracles.SpectralRelaxation()}, CLUSTERS),
    "relaxation of known count": (
        {"segments": False, "oracle": ml.oracles.SpectralRelaxation(True), "n_clusters": "given"},
        CLUSTERS,
    ),
    "local search": ({"segments": False, "oracle": ml.oracles.LocalSearch()}, CLUSTERS),
    "partial labels of clusterings": (
        {"segments": False, "oracle": TopEigenvectors(), "n_clusters": "given"},
        [SPARSE[0], CLUSTERS[1], SPARSE[2]],
    ),
    "normalized cuts": (
        {
            "segments": False,
            "oracle": TopEigenvectors(),
            "forms": GaussianSimilarities(),
            "n_clusters": "given",
            "loss_scale": 0.05,
        },
        NODES,
    ),
}


def tensors(arrays: list[NDArray]) -> list[Any]:
    return [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]


@pytest.mark.parametrize("case", CASES)
def test_slopes_are_those_of_finite_differences(case: str) -> None:
    options, truths = CASES[case]
    loss = StructuredHingeLoss(**options)
    with torch.no_grad():
        loss.log_penalty += 0.2  # at λ = α all that is outside of a relaxation's span ties
    outputs = tensors([0.4 * Z for Z in OUTPUTS])
    value = loss(outputs, truths)
    assert value > 1e-3
    value.backward()
    rng, step = np.random.default_rng(1), 1e-6
    for i in range(3):
        directions = [torch.tensor(rng.normal(size=Z.shape)) for Z in OUTPUTS]
        with torch.no_grad():
            up, down = (
                loss([Z + s * D for Z, D in zip(outputs, directions)], truths)
                for s in (step, -step)
            )
        slope = sum(float((Z.grad * D).sum()) for Z, D in zip(outputs, directions))
        assert slope == pytest.approx(float(up - down) / (2 * step), rel=1e-6, abs=1e-6), i
    if isinstance(loss.log_penalty, torch.nn.Parameter) and "n_clusters" not in options:
        slope, values = float(loss.log_penalty.grad), []
        for s in (step, -step):
            with torch.no_grad():
                loss.log_penalty += s
                values.append(float(loss(outputs, truths)))
                loss.log_penalty -= s
        assert slope == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-6)


def test_the_hinge_of_names_is_the_maximum_over_all_named_segmentations() -> None:
    alpha, beta, penalty, T = 1.3, 0.4, 0.8, 6
    loss = StructuredHingeLoss(loss_scale=alpha, penalty=penalty, forms=NamedProducts(2, beta))
    named = [
        (ends, np.repeat(names, np.diff((0, *ends))))
        for ends in all_segmentations(T)
        for names in product(range(2), repeat=len(ends))
    ]
    rng = np.random.default_rng(0)
    for _ in range(20):
        outputs, codes = rng.normal(size=(T, 3)), rng.integers(0, 2, T)
        truth = tuple(ml.Partition.from_runs(codes).change_points.tolist())
        N, z = equivalence_matrix(labels_of(truth)), outputs[:, 0] - outputs[:, 0].mean()
        worth = []
        for ends, names in [*named, (truth, codes)]:
            M = equivalence_matrix(labels_of(ends))
            wrong = ((M - N) ** 2).sum() + beta * (names != codes).sum()
            score = z @ M @ z + outputs[np.arange(T), 1 + names].sum() - penalty * len(ends)
            worth.append(score + alpha * wrong)
        value = float(loss([torch.tensor(outputs)], [codes]))
        assert value == pytest.approx((max(worth) - worth[-1]) / T, abs=1e-9)


@pytest.mark.parametrize(
    ("columns", "labels", "sentence"),
    [
        (2, [0, 1, 1], "needs outputs of features and 2 scores of names, got 2 columns"),
        (3, [0, 2, 1], r"needs names that it has learned, \[0, 1\], got 2"),
        (3, [0.5, 1.0, 1.0], "needs names that it has learned"),
    ],
)
def test_outputs_and_codes_of_names_are_checked(columns: int, labels: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        StructuredHingeLoss(forms=NamedProducts(2, 0.1))([torch.ones(3, columns)], [labels])


@pytest.mark.parametrize(
    "similarity",
    [ml.similarities.FourierSimilarity(), ml.similarities.GaussianSimilarity(Neighborhood()), 1.0],
)
def test_similarities_of_outputs_are_gaussian_over_all_pairs(similarity: Any) -> None:
    with pytest.raises(ValueError, match=r"GaussianSimilarities needs .* of all pairs or None"):
        GaussianSimilarities(similarity)


@pytest.mark.parametrize("segments", [True, False])
def test_a_linear_encoder_has_the_hinge_of_the_linear_learner(segments: bool) -> None:
    """Value and slopes of (B, λ): dL/dL = 2 L dL/dB for B = LᵀL."""
    truths = RUNS if segments else CLUSTERS
    oracle: Any = ml.oracles.ChangePoints() if segments else ml.oracles.SpectralRelaxation()
    metric = ml.FullMetric()
    root = 0.3 * np.random.default_rng(2).normal(size=(3, 3))
    cone = MetricCone(metric, 3, True)
    samples = [Samples(X, None, None if segments else N) for X, N in zip(OUTPUTS, truths)]
    terms = HingeTerms(
        ml.problem.LinearFeatures(metric), ml.problem.FrobeniusLoss(), oracle, cone, loss_scale=2.0
    )
    cuts = StructuredHinge(terms, samples, truths)(cone.join(metric.coordinates(root), 0.9))
    loss = StructuredHingeLoss(loss_scale=2.0, segments=segments, oracle=oracle)
    with torch.no_grad():
        loss.log_penalty.fill_(np.log(0.9))
    layer = torch.nn.Linear(3, 3, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(root))
    value = loss([layer(X.detach()) for X in tensors(OUTPUTS)], truths)
    value.backward()
    assert value.item() == pytest.approx(cuts.mean, abs=1e-9)
    slope, penalty = cone.split(cuts.slope)
    expected = 2.0 * root @ metric.matrix(slope)
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, atol=1e-9)
    assert float(loss.log_penalty.grad) == pytest.approx(0.9 * penalty, abs=1e-9)


def test_one_answer_in_threads_and_in_single_precision() -> None:
    values, slopes = [], []
    for options in ({}, {"n_jobs": 2}):
        outputs = tensors(OUTPUTS)
        loss = StructuredHingeLoss(**options)
        value = loss(outputs, DATA.labels)
        value.backward()
        values.append(value.item())
        slopes.append(np.concatenate([Z.grad.numpy() for Z in outputs]))
    np.testing.assert_allclose(values, values[0], rtol=1e-12)
    for other in slopes[1:]:
        np.testing.assert_allclose(other, slopes[0], atol=1e-12)
    single = [Z.detach().float().requires_grad_() for Z in outputs]
    value = StructuredHingeLoss()(single, DATA.labels)
    value.backward()
    assert value.dtype == single[0].grad.dtype == torch.float32
    assert value.item() == pytest.approx(values[0], rel=1e-5)


@pytest.mark.parametrize(
    ("options", "truths", "sentence"),
    [
        ({"segments": False}, None, "needs an oracle for clusters"),
        ({"loss_scale": 0.0}, None, "needs a positive loss_scale"),
        ({"penalty": "free"}, None, 'needs penalty="learned"'),
        ({}, RUNS[:2], "one labeling for each"),
        ({}, [RUNS[0], RUNS[1], np.zeros(7)], "one label per sample"),
        (
            {"segments": False, "oracle": ml.oracles.SpectralRelaxation()},
            SPARSE,
            r"needs oracle=TopEigen",
        ),
        (
            {"segments": False, "oracle": TopEigenvectors(), "n_clusters": "given"},
            [*SPARSE[:2], np.full(40, -1)],
            "at least one label per clustering",
        ),
        (CASES["normalized cuts"][0], CLUSTERS, "needs segments=False and NodeLabels"),
        (
            CASES["normalized cuts"][0],
            [*NODES[:2], NodeLabels(np.eye(3))],
            "with as many rows of counts",
        ),
        ({"forms": GaussianSimilarities()}, CLUSTERS, "needs segments=False and NodeLabels"),
        ({}, NODES, "got segments=True"),
        ({}, 3, "one labeling per data set"),
        (CASES["normalized cuts"][0], iter(NODES), "needs segments=False and NodeLabels"),
    ],
)
def test_what_cannot_be_is_refused(options: Any, truths: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        StructuredHingeLoss(**options)(tensors(OUTPUTS), truths)


@pytest.mark.parametrize(
    "outputs",
    [[], [np.ones((5, 2))], [torch.ones(5)], [torch.ones(5, 2).int()], [torch.ones(5, 2) / 0.0]],
)
def test_outputs_are_tensors_of_recordings(outputs: Any) -> None:
    with pytest.raises(ValueError, match=r"needs a list of tensors \(T_i, r\) of finite numbers"):
        StructuredHingeLoss()(outputs, [[0, 0, 1, 1, 1]] * len(outputs))
