"""The pruned program against enumeration and Algorithm 1."""

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.oracles.change_points import PenalizedSegmentation
from metriclearn.oracles.change_points.segment_values import segment_values
from metriclearn.problem.losses import ChargedForm
from tests.budget import examples
from tests.exhaustive import best_segmentation, block_means
from tests.oracles.signals import draw_case, random_segmentation


def value_of(means: np.ndarray, ends: np.ndarray) -> float:
    return float(np.sum(means[np.concatenate([[0], ends[:-1]]), ends]))


@pytest.mark.parametrize("T", range(1, 9))
def test_equals_enumeration(T) -> None:
    """1 600 generated forms over all T ≤ 8, a quarter of them with ties, at every count."""
    rng = np.random.default_rng(100 + T)
    for case in range(200):
        form, A, min_size = draw_case(rng, T, case % 4)
        for K in (None, *range(1, T // min_size + 1)):
            answer = ml.oracles.ChangePoints(min_size)(form, K)
            best, winners = best_segmentation(A, K, min_size)
            assert tuple(answer.change_points) in winners
            assert form.at(answer) == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("known", [False, True])
def test_equals_algorithm_1(known) -> None:
    """400 generated cases with 9 ≤ T ≤ 200; where the optimum is unique, the same segments."""
    rng = np.random.default_rng(known)
    for case in range(200):
        T = int(rng.integers(9, 60)) if case % 5 else int(rng.integers(60, 201))
        form, A, min_size = draw_case(rng, T, case % 4)
        K = int(rng.integers(1, min(T // min_size, 40) + 1)) if known else None
        answer = ml.oracles.ChangePoints(min_size)(form, K)
        reference = ml.oracles.SummedArea(min_size)(ml.problem.DenseForm(A), K)
        assert np.min(answer.sizes) >= min_size
        assert answer.n_clusters == (K or answer.n_clusters)
        means = block_means(A)
        mine, theirs = (value_of(means, p.change_points) for p in (answer, reference))
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-9 * T)
        if case % 4:  # not the integer signals, which have ties
            assert answer == reference


@pytest.mark.parametrize("min_size", [1, 3])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_counts_of_a_wide_signal(offset, min_size) -> None:
    """Every K is as good as Algorithm 1's, also where the common offset is large."""
    Z = np.random.default_rng(3).normal(size=(90, 70)) + np.arange(90)[:, None] // 30 + offset
    form, plain = ml.problem.LowRankForm(Z), ml.problem.LowRankForm(Z - offset)
    for K in (1, 3, 9, 29, 30):
        answer = ml.oracles.ChangePoints(min_size)(form, K)
        assert answer.n_clusters == K
        assert answer.sizes.min() >= min_size
        assert plain.at(answer) == pytest.approx(
            plain.at(ml.oracles.SummedArea(min_size)(plain, K)), rel=1e-9
        )


def one_feature(rng: np.random.Generator, kind: str, T: int) -> np.ndarray:
    """A signal with ties, plateaus, changes, slopes or outliers."""
    if kind == "noise":
        return rng.normal(size=T)
    if kind == "integers":
        return rng.integers(-3, 4, T).astype(float)
    if kind == "constant":
        return np.full(T, rng.normal())
    if kind == "duplicates":
        return np.repeat(rng.integers(-5, 6, T), 3)[:T].astype(float)
    if kind == "steps":
        return np.repeat(4 * rng.normal(size=T), rng.integers(1, 15))[:T] + 0.1 * rng.normal(size=T)
    if kind == "slope":
        return np.arange(T) * rng.normal()
    return rng.standard_cauchy(size=T)


def best_of_all_starts(problem: PenalizedSegmentation, penalty: float) -> np.ndarray:
    """F of every prefix by the recursion over all starts, without pruning."""
    signal, T = problem.signal, problem.n_samples
    best = np.append(0.0, np.full(T, -np.inf))
    for u in range(problem.min_size, T + 1):
        starts = np.arange(u - problem.min_size + 1)
        gains = segment_values(signal, starts, np.full(len(starts), u)) - penalty
        best[u] = np.max(best[starts] + gains)
    return best


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize(
    "kind", ["noise", "integers", "constant", "duplicates", "steps", "slope", "outliers"]
)
def test_features_have_the_best_of_all_starts_to_the_last_bit(kind, offset) -> None:
    """1 to 6 features, a quarter of the signals loss-augmented: 2800 at EXAMPLES=1."""
    rng = np.random.default_rng(len(kind))
    for case in range(examples(200)):
        T, r = int(rng.integers(1, 40)), int(rng.integers(1, 7))
        Z = np.column_stack([one_feature(rng, kind, T) for _ in range(r)]) + offset
        form = ml.problem.LowRankForm(Z)
        if case % 4 == 0:
            form = form.plus(random_segmentation(rng, T), 2.0)
        problem = PenalizedSegmentation(form, min(T, int(rng.integers(1, 6))))
        penalty = float(
            rng.choice([1e-6, 0.5, 2.0, 2 * r * np.log(T + 1), rng.exponential(5.0 * r)])
        )
        found, (value, ends) = problem.best(penalty)[0], problem.solve(penalty)
        best = best_of_all_starts(problem, penalty)
        assert found.tobytes() == best.tobytes()
        assert value - penalty * len(ends) == pytest.approx(best[-1], rel=1e-12, abs=1e-9 * penalty)


def few_changes(rng: np.random.Generator, T: int) -> np.ndarray:
    """Most starts live on, in several levels, until a change drops them."""
    ends = np.sort(rng.choice(np.arange(900, T), 4, replace=False))
    steps = ml.Partition.from_change_points(ends, T)
    return rng.normal(size=(steps.n_clusters, 3))[steps.labels] + rng.normal(size=(T, 3))


def weak_changes(rng: np.random.Generator, T: int) -> np.ndarray:
    """Changes that noise nearly hides, so that the best start is often a cold one."""
    return np.repeat(0.4 * rng.normal(size=(T // 100, 5)), 100, axis=0) + rng.normal(size=(T, 5))


def returns(rng: np.random.Generator, T: int) -> np.ndarray:
    """Short visits to other means, after which a start before the visit often wins again."""
    lengths = rng.integers(1, 40, T)
    means = np.where(np.arange(T) % 2, 0.0, rng.choice([0.5, 1.0, 3.0], T))
    return np.repeat(means, lengths)[:T, None] + 0.7 * rng.normal(size=(T, 2))


LONG_SIGNALS = {
    "returns": returns,
    "few changes": few_changes,
    "weak changes": weak_changes,
    "noise": lambda rng, T: rng.normal(size=(T, 3)),
    "ramp": lambda rng, T: np.linspace(0.0, 30.0, T)[:, None] + rng.normal(size=(T, 1)),
    "walk": lambda rng, T: np.cumsum(rng.normal(size=(T, 2)), axis=0),
    "wave": lambda rng, T: 5.0 * np.sin(np.arange(T) / 30.0)[:, None] + rng.normal(size=(T, 1)),
    "outliers": lambda rng, T: rng.standard_t(1.5, size=(T, 1)),
    "tiny": lambda rng, T: 1e-6 * rng.normal(size=(T, 2)),
    "binary": lambda rng, T: rng.integers(0, 2, (T, 1)).astype(float),
}


@pytest.mark.parametrize(("weight", "min_size"), [(0.0, 1), (2.0, 1), (0.0, 30), (2.0, 30)])
@pytest.mark.parametrize("name", LONG_SIGNALS)
def test_long_signals_of_every_kind(name, weight, min_size) -> None:
    """Enough starts for the blocks and checkpoints of the program to matter."""
    rng = np.random.default_rng(15)
    form = ml.problem.LowRankForm(LONG_SIGNALS[name](rng, 2000))
    problem = PenalizedSegmentation(form.plus(random_segmentation(rng, 2000), weight), min_size)
    for penalty in (4.0, 40.0):
        found = problem.best(penalty)[0]
        assert found.tobytes() == best_of_all_starts(problem, penalty).tobytes()


@pytest.mark.parametrize("name", ["returns", "weak changes", "walk"])
def test_long_signals_with_penalties_of_positions(name) -> None:
    """Penalties of either sign, small and large, in a sequence with enough starts for levels."""
    rng = np.random.default_rng(16)
    form = ml.problem.LowRankForm(LONG_SIGNALS[name](rng, 1500))
    for scale in (1.0, 30.0, 1e4):
        penalties = scale * rng.uniform(-1.0, 1.0, 1501)
        problem = PenalizedSegmentation(ChargedForm(form, penalties=penalties))
        found = problem.best(20.0)[0]
        assert found == pytest.approx(best_of_all_starts(problem, 20.0), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n_segments", [1, 6, 60])
@pytest.mark.parametrize("penalty", [0.5, 1.0, 1.05, 2.0, 4.0])
def test_penalties_of_the_order_of_the_loss(penalty, n_segments) -> None:
    """Bounds grow within a true segment, whether its changes are seen, hidden or elsewhere."""
    rng = np.random.default_rng(n_segments)
    T, r = 500, 4
    for jump, moved in ((0.0, 0), (0.4, 0), (2.0, 0), (2.0, 17)):
        ends = np.sort(rng.choice(np.arange(1, T), n_segments - 1, replace=False))
        truth = ml.Partition.from_change_points(ends, T)
        means = jump * np.roll(rng.normal(size=(n_segments, r))[truth.labels], moved, axis=0)
        Z = (means + rng.normal(size=(T, r))) * np.sqrt(penalty / (2 * r * np.log(T)))
        for min_size in (1, 4):
            problem = PenalizedSegmentation(ml.problem.LowRankForm(Z).plus(truth, 2.0), min_size)
            found = problem.best(penalty - 1.0)[0]
            assert found.tobytes() == best_of_all_starts(problem, penalty - 1.0).tobytes()
