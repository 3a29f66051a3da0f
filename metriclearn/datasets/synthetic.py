"""Synthetic change-points: a few relevant features among many that change at other times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.sequences import LabeledSequences
from metriclearn.running.parameters import OneOf, RandomState, Whole, needs


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticSequences(LabeledSequences):
    """Labelled sequences whose relevant features are known.

    Parameters
    ----------
    name, sequences, labels, groups, names, feature_names, starts, unlabeled
        As in :class:`LabeledSequences`.
    relevant : int array (n_relevant,)
        Sorted columns of the features that change at the labelled change-points.

    Raises
    ------
    ValueError
        As in :class:`LabeledSequences`.

    See Also
    --------
    make_change_points : generates such sequences.

    Examples
    --------
    >>> from metriclearn.datasets import make_change_points
    >>> type(make_change_points(2, 100, 5, 2, (3, 4), random_state=0)).__name__
    'SyntheticSequences'
    """

    relevant: NDArray[np.int64]


@needs
def make_change_points(
    n_series: Annotated[int, Whole(1)] = 10,
    n_samples: int = 600,
    n_features: int = 300,
    n_relevant: int = 10,
    n_segments: tuple[int, int] = (6, 9),
    noise: float = 1.0,
    jump: float = 1.0,
    *,
    distractor_group: Annotated[int, Whole(1)] = 1,
    min_size: Annotated[int | None, OneOf(None, Whole(1))] = None,
    feature_seed: int | None = None,
    random_state: RandomState = None,
) -> SyntheticSequences:
    """Generate series in which a few relevant features change at the labelled change-points.

    X[t, p] = jump · m[p, segment of t] + noise · e[t, p] with m and e standard normal. All relevant
    features change at the change-points that the labels give. The other features, the distractors,
    are divided into groups of ``distractor_group`` features. Each group of distractors changes at
    change-points that are drawn in the same way, independently of the labels. The defaults follow
    Lajugie, Arlot & Bach, section 6.1 (which does not state the amplitudes): T = 600, P = 300, of
    which 10 are relevant. To make training, validation and test sets, change only ``random_state``:
    the relevant features do not depend on it.

    Cost and memory O(n_series · T · P).

    Parameters
    ----------
    n_series, n_samples, n_features : int
        N, T and P.
    n_relevant : int
        Number of features that change at the labelled change-points.
    n_segments : (int, int)
        Smallest and largest number of segments. The number of segments is drawn uniformly for every
        series, and again for each of its groups of distractors.
    noise, jump : float
        Standard deviations of the noise, and of the segment means of a feature. Both are in the
        unit of the features.
    distractor_group : int
        Number of distractors that change together.
    min_size : int, optional
        Smallest number of samples in a segment. By default it is ``n_samples`` divided by three
        times the largest number of segments, rounded down (22 samples with the other defaults).
    feature_seed : int, optional
        If None, the relevant features are the first columns. If an integer, it is the seed for
        drawing the columns of the relevant features.
    random_state : int, RandomState instance or None
        Determines change-points, means and noise.

    Returns
    -------
    SyntheticSequences
        Labels are segment numbers 0 … K−1, every series is a separate group, and ``relevant`` holds
        the columns of the relevant features.

    Raises
    ------
    ValueError
        If the segments do not fit into ``n_samples``, or ``n_relevant`` is not between 1 and
        ``n_features``.
    """
    from sklearn.utils import check_random_state

    fewest, most = n_segments
    size = max(1, n_samples // (3 * most)) if min_size is None else min_size
    if not (1 <= fewest <= most and size >= 1 and most * size <= n_samples):
        raise ValueError(
            f"make_change_points needs 1 ≤ fewest ≤ most segments that fit into {n_samples} "
            f"samples, got {n_segments} segments of at least {size} samples."
        )
    Whole(1, n_features).check("make_change_points", "n_relevant", n_relevant)
    columns = np.arange(n_features)
    if feature_seed is not None:
        columns = check_random_state(feature_seed).permutation(n_features)
    blocks = np.split(columns, np.arange(n_relevant, n_features, distractor_group))
    rng = check_random_state(random_state)
    limits = n_samples, fewest, most, size
    drawn = [_draw_series(limits, blocks, noise, jump, rng) for _ in range(n_series)]
    names = [f"series{i:0{len(str(n_series - 1))}d}" for i in range(n_series)]
    kind = np.full(n_features, "distractor")
    kind[columns[:n_relevant]] = "relevant"
    return SyntheticSequences(
        name="synthetic",
        sequences=[X for X, _ in drawn],
        labels=[segments for _, segments in drawn],
        groups=names,
        names=names,
        feature_names=[f"{word}_{i}" for i, word in enumerate(kind)],
        relevant=np.flatnonzero(kind == "relevant"),
    )


def _draw_series(
    limits: tuple[int, int, int, int],
    blocks: list[NDArray[np.int64]],
    noise: float,
    jump: float,
    rng: np.random.RandomState,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Draw a series (T, P) in which the columns of each block change together.

    The second result has the segment number of every sample. The first block determines the
    segments.
    """
    X = noise * rng.standard_normal((limits[0], sum(map(len, blocks))))
    segments = [_draw_segments(*limits, rng) for _ in blocks]
    for block, segment in zip(blocks, segments):
        means = jump * rng.standard_normal((segment[-1] + 1, len(block)))
        X[:, block] += means[segment]
    return X, segments[0]


def _draw_segments(
    n_samples: int, fewest: int, most: int, size: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Draw a random segmentation. Returns the segment number of every sample.

    First the number K of segments is drawn. Given K, all segmentations into K segments of at least
    ``size`` samples are equally likely. To draw one of them, we draw K − 1 distinct positions, and
    move the k-th position forward by k · (size − 1).
    """
    count = rng.randint(fewest, most + 1)
    free = n_samples - count * size + count - 1
    ends = np.sort(rng.choice(free, count - 1, replace=False)) + 1
    ends += (size - 1) * np.arange(1, count)
    return np.repeat(np.arange(count), np.diff(ends, prepend=0, append=n_samples))
