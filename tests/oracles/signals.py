"""Random segmentations, and signals and forms with changes."""

import numpy as np

from metriclearn import Partition
from metriclearn.problem import LowRankForm
from tests.exhaustive import dense_form

ALPHAS = (0.0, 0.1, 0.5, 1.0, 2.0)
# With a truth, and without: numba compiles all kernels once for each, which takes far longer than
# a test. So tests of what is added to a form take those forms that learners add it to.
AUGMENTED, PLAIN = ALPHAS[1:], ALPHAS[:1]


def random_segmentation(rng: np.random.Generator, T: int) -> Partition:
    """A segmentation into 1 to 10 segments."""
    K = int(rng.integers(1, min(T, 10) + 1))
    cuts = rng.choice(np.arange(1, T), K - 1, replace=False) if K > 1 else []
    return Partition.from_change_points(cuts, T)


def draw_case(
    rng: np.random.Generator, T: int, kind: int, min_size: int | None = None, alphas=ALPHAS
) -> tuple[LowRankForm, np.ndarray, int]:
    """A form, the same as an array, and a min_size: ties, noise, clear changes, huge changes."""
    r = int(rng.integers(1, 13))
    min_size = min_size or int(rng.integers(1, min(5, T) + 1))
    truth = random_segmentation(rng, T)
    means = rng.normal(size=(truth.n_clusters, r))[truth.labels]
    if kind == 0:
        Z = rng.integers(-1, 2, (T, r)).astype(float)
    else:
        noise = rng.choice([0.01, 0.1, 1.0]) * rng.normal(size=(T, r))
        Z = (0.0, 0.3, 3.0)[kind % 3] * means + noise
    alpha = float(rng.choice(alphas))
    another = rng.random()
    if another < 0.4:
        truth = random_segmentation(rng, T)
    elif another < 0.6:  # as many segments as there can be
        truth = Partition.from_change_points(np.arange(min_size, T - min_size + 1, min_size), T)
    scale = float(rng.choice([0.3, 1.0, 3.0, 10.0]))
    c = alpha + scale * float(rng.choice([-2.0, -1.0, -0.5, 0.0, 0.5]))
    form = LowRankForm(Z).plus(truth, 2.0 * alpha).shifted(c)
    return form, dense_form(Z, truth.labels, 2.0 * alpha, c), min_size


def noisy_steps(seed: int, T: int = 60, K: int = 4, P: int = 2) -> tuple[np.ndarray, Partition]:
    """K segments, each with a mean of standard deviation 3, under noise of 1."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(4, T - 3), K - 1, replace=False))
    truth = Partition.from_change_points(cuts, T)
    means = 3.0 * rng.normal(size=(truth.n_clusters, P))
    return means[truth.labels] + rng.normal(size=(T, P)), truth


def draw_penalties(rng: np.random.Generator, T: int) -> np.ndarray:
    """Penalties of one sign or both, small or large against the values; integers make ties."""
    scale = float(rng.choice([0.1, 1.0, 10.0]))
    low = float(rng.choice([-1.0, 0.0]))
    penalties = rng.uniform(low, low + float(rng.choice([0.5, 1.0, 2.0])), T + 1)
    return np.round(scale * penalties) if rng.random() < 0.3 else scale * penalties
