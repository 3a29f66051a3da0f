"""Augmentations: callables from a batch of recordings to another, drawn anew for every batch.

A recording is a pair of its samples (T, P) and its truth; ``augmentation(recordings, random)``
returns as many, with a ``numpy.random.Generator`` for what is drawn. Rows may be windows: columns
are then sample by sample, all ``n_channels`` channels of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation as ScipyRotation

from metriclearn.problem.partition import Partition


class Recording(NamedTuple):
    """Samples (T, P) and their truth, a Partition or PartialPartition."""

    X: NDArray
    truth: Any


Recordings = Sequence[Recording]


def _factors(X: NDArray, factors: NDArray, n_given: int) -> NDArray:
    """Every channel times its factor; the last columns are given, and stay."""
    stop = X.shape[1] - n_given
    return X * np.append(np.tile(factors, stop // len(factors)), np.ones(n_given))


def _ends(who: str, recording: Recording) -> NDArray:
    """Change-points of a truth that is known in full."""
    if not isinstance(recording.truth, Partition):
        raise ValueError(
            f"{who} needs recordings whose labels are all known, got {recording.truth!r}; leave "
            "this augmentation out."
        )
    return recording.truth.change_points


@dataclass(frozen=True)
class Scaling:
    """Every channel of a recording times exp(s), s normal with a standard deviation.

    Parameters
    ----------
    n_channels : int
    deviation : float
    n_given : int
        Columns at the end that are no raw samples.
    """

    n_channels: int
    deviation: float = 0.1
    n_given: int = 0

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """The recordings, scaled."""
        draws = random.normal(0.0, self.deviation, (len(recordings), self.n_channels))
        return [
            r._replace(X=_factors(r.X, np.exp(d), self.n_given)) for r, d in zip(recordings, draws)
        ]


@dataclass(frozen=True)
class Rotation:
    """The axes of a device turned in space, for all of a recording.

    Channels come in threes, x, y and z of one sensor each, and all sensors turn alike, around a
    random axis by an angle that is normal with a standard deviation.

    Parameters
    ----------
    n_channels : int
        A multiple of 3.
    deviation : float
        Radians.
    n_given : int
        Columns at the end that are no raw samples, and stay.
    """

    n_channels: int
    deviation: float = 0.2
    n_given: int = 0

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """The recordings, turned."""
        vectors = random.normal(size=(len(recordings), 3))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors *= random.normal(0.0, self.deviation, (len(recordings), 1))
        turns = ScipyRotation.from_rotvec(vectors).as_matrix()
        return [r._replace(X=self._turned(r.X, turn)) for r, turn in zip(recordings, turns)]

    def _turned(self, X: NDArray, turn: NDArray) -> NDArray:
        stop = X.shape[1] - self.n_given
        axes = X[:, :stop].reshape(len(X), -1, self.n_channels // 3, 3)
        return np.hstack([(axes @ turn).reshape(len(X), -1), X[:, stop:]])


@dataclass(frozen=True)
class Noise:
    """Normal noise on every sample, as a share of the standard deviation of its column.

    Parameters
    ----------
    deviation : float
    """

    deviation: float = 0.1

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """The recordings with noise."""
        return [
            r._replace(X=r.X + self.deviation * r.X.std(axis=0) * random.normal(size=r.X.shape))
            for r in recordings
        ]


@dataclass(frozen=True)
class ChannelDropout:
    """Channels of a recording replaced by 0, each with a probability.

    Parameters
    ----------
    n_channels : int
    probability : float
    n_given : int
        Columns at the end that are no raw samples.
    """

    n_channels: int
    probability: float = 0.1
    n_given: int = 0

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """The recordings without some channels."""
        kept = random.random((len(recordings), self.n_channels)) >= self.probability
        return [r._replace(X=_factors(r.X, k, self.n_given)) for r, k in zip(recordings, kept)]


@dataclass(frozen=True)
class TimeReversal:
    """Recordings that run backwards, inside windows too, each with a probability.

    Parameters
    ----------
    n_channels : int
    probability : float
    n_given : int
        Columns at the end that are no raw samples.
    """

    n_channels: int
    probability: float = 0.5
    n_given: int = 0

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """The recordings, some of them reversed."""
        turned = random.random(len(recordings)) < self.probability
        return [self._reversed(r) if t else r for r, t in zip(recordings, turned)]

    def _reversed(self, recording: Recording) -> Recording:
        ends, (T, P) = _ends("TimeReversal", recording), recording.X.shape
        stop = P - self.n_given
        samples = recording.X[:, :stop].reshape(T, -1, self.n_channels)[::-1, ::-1]
        X = np.hstack([samples.reshape(T, stop), recording.X[::-1, stop:]])
        return Recording(X, Partition(ends=(T - np.append(0, ends[:-1]))[::-1]))


@dataclass(frozen=True)
class JoinedStretches:
    """The beginning of a recording and the end of the next one of the batch, with a probability.

    Each is cut between a quarter and three quarters of its length; where they meet is a change.
    A recording that is alone in its batch stays as it is: ``batch_size`` needs to be 2 at least.

    Parameters
    ----------
    probability : float
    """

    probability: float = 0.5

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """The recordings, some of them joined with another."""
        if len(recordings) == 1:
            return recordings
        following = [*recordings[1:], *recordings[:1]]
        places = random.uniform(0.25, 0.75, (len(recordings), 2))
        chosen = random.random(len(recordings))
        return [
            self._joined(one, other, *place) if draw < self.probability else one
            for one, other, place, draw in zip(recordings, following, places, chosen)
        ]

    @staticmethod
    def _joined(one: Recording, other: Recording, before: float, after: float) -> Recording:
        name = "JoinedStretches"
        stop, start = max(1, int(before * len(one.X))), int(after * len(other.X))
        first, last = _ends(name, one), _ends(name, other)
        ends = np.concatenate([first[first < stop], [stop], last[last > start] - start + stop])
        return Recording(np.vstack([one.X[:stop], other.X[start:]]), Partition(ends=ends))
