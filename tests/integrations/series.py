"""Series in which one of three columns tells where activities change."""

import numpy as np
from numpy.typing import NDArray


def labeled_series(n_series: int) -> tuple[list[NDArray], list[NDArray]]:
    """Series (120, 3) with four segments each, and the segment of every sample."""
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), [25, 35, 20, 40])
    levels = np.array([0.0, 4.0, 8.0, 3.0])[labels]
    noise = random.normal(size=(n_series, 120, 3)) * [0.5, 9.0, 9.0]
    return [part + np.outer(levels, [1.0, 0.0, 0.0]) for part in noise], [labels] * n_series
