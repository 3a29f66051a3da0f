"""Augmentations: callables that change a batch of recordings at random.

A recording is a pair of samples (T, P) and their labels. ``augmentation(recordings, random)``
returns one changed recording for each of the recordings. Here ``random`` is a
``numpy.random.Generator``. A row may hold a window of raw samples. The columns of such a row are
all channels of the first sample, then all channels of the second sample, and so on (see
:class:`Channels`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation as ScipyRotation

from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.parameters import Real, Whole, check_parameters


class Recording(NamedTuple):
    """The samples of a recording and their labels.

    Parameters
    ----------
    X : array (T, P)
        The samples.
    truth : Partition or PartialPartition
        The labels of the samples.

    See Also
    --------
    Encoder : its ``augmentations`` take and return lists of recordings.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import Partition
    >>> from metriclearn.encoders import Recording
    >>> Recording(np.zeros((4, 2)), Partition.from_labels([0, 0, 1, 1])).X.shape
    (4, 2)
    """

    X: NDArray
    truth: Any


Recordings = Sequence[Recording]


class _Checked:
    """Base class of augmentations, which checks the parameters when an augmentation is created."""

    def __post_init__(self) -> None:
        check_parameters(self)


@dataclass(frozen=True)
class Channels(_Checked):
    """Base class of augmentations of raw signals.

    Each column of a row is one channel of one sample.

    Parameters
    ----------
    n_channels : int
        Number of channels C. A row holds one or more samples, each with all C channels.
    n_given : int
        Number of columns at the end that are not raw samples. They stay unchanged.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    See Also
    --------
    Scaling, Rotation, TimeReversal

    Examples
    --------
    >>> from metriclearn.encoders import Channels, Rotation
    >>> isinstance(Rotation(6), Channels)
    True
    """

    n_channels: Annotated[int, Whole(1)]
    _: KW_ONLY
    n_given: Annotated[int, Whole(0)] = 0

    def changed(self, X: NDArray, change: Callable[[NDArray], NDArray]) -> NDArray:
        """Apply a function to the raw samples of X, and return the changed X.

        The function gets the samples as an array (T, S, C), with S samples in a row.

        Raises
        ------
        ValueError
            If the raw columns are not a multiple of C.
        """
        T, n_raw = len(X), X.shape[1] - self.n_given
        if not 1 <= self.n_channels <= n_raw or n_raw % self.n_channels:
            raise ValueError(
                f"{type(self).__name__} needs rows of whole samples of {self.n_channels} channels "
                f"and n_given={self.n_given} other columns, got {X.shape[1]} columns."
            )
        samples = X[:, :n_raw].reshape(T, -1, self.n_channels)
        return np.hstack([change(samples).reshape(T, n_raw), X[:, n_raw:]])


@dataclass(frozen=True)
class Scaling(Channels):
    """Multiply every channel of a recording by its own exp(s), where s is normally distributed.

    Parameters
    ----------
    n_channels, n_given : int
        See :class:`Channels`.
    deviation : float
        Standard deviation of s.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Um et al., Data augmentation of wearable sensor data for Parkinson's disease monitoring using
    convolutional neural networks, ICMI 2017.

    Examples
    --------
    >>> from metriclearn.encoders import Encoder, Scaling
    >>> view = Encoder(augmentations=[Scaling(6)])
    """

    deviation: Annotated[float, Real()] = 0.1

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """Return the scaled recordings."""
        draws = random.normal(0.0, self.deviation, (len(recordings), self.n_channels))
        return [
            r._replace(X=self.changed(r.X, factors.__mul__))
            for r, factors in zip(recordings, np.exp(draws))
        ]


@dataclass(frozen=True)
class Rotation(Channels):
    """Rotate the sensors of a device in space, in the same way for all samples of a recording.

    Three consecutive channels are the x, y and z axes of a sensor. All sensors are rotated together
    around a random axis, by a normally distributed angle.

    Parameters
    ----------
    n_channels, n_given : int
        See :class:`Channels`. The number of channels must be a multiple of 3.
    deviation : float
        Standard deviation of the angle in radians.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Um et al., Data augmentation of wearable sensor data for Parkinson's disease monitoring using
    convolutional neural networks, ICMI 2017.

    Examples
    --------
    >>> from metriclearn.encoders import Encoder, Rotation
    >>> view = Encoder(augmentations=[Rotation(6)])
    """

    deviation: Annotated[float, Real()] = 0.2

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """Return the rotated recordings."""
        if self.n_channels % 3:
            raise ValueError(
                f"Rotation needs three channels (x, y, z) per sensor, got {self.n_channels} in all."
            )
        vectors = random.normal(size=(len(recordings), 3))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors *= random.normal(0.0, self.deviation, (len(recordings), 1))
        turns = ScipyRotation.from_rotvec(vectors).as_matrix()

        def turned(X: NDArray, turn: NDArray) -> NDArray:
            return self.changed(X, lambda samples: samples.reshape(len(X), -1, 3) @ turn)

        return [r._replace(X=turned(r.X, turn)) for r, turn in zip(recordings, turns)]


@dataclass(frozen=True)
class Noise(_Checked):
    """Add normal noise to every value of a recording.

    Parameters
    ----------
    deviation : float
        Standard deviation of the noise in a column, divided by the standard deviation of this
        column in the recording.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Um et al., Data augmentation of wearable sensor data for Parkinson's disease monitoring using
    convolutional neural networks, ICMI 2017.
    """

    deviation: Annotated[float, Real()] = 0.1

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """Return the recordings with added noise."""
        return [
            r._replace(X=r.X + self.deviation * r.X.std(axis=0) * random.normal(size=r.X.shape))
            for r in recordings
        ]


@dataclass(frozen=True)
class TimeReversal(Channels):
    """Reverse each recording in time with a given probability.

    The order of the rows, of the samples in each row, and of the labels is reversed.

    Parameters
    ----------
    n_channels, n_given : int
        See :class:`Channels`.
    probability : float
        Probability that a recording is reversed.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Iwana & Uchida, An empirical survey of data augmentation for time series classification with
    neural networks, PLOS ONE 16, 2021.

    Examples
    --------
    >>> from metriclearn.encoders import Encoder, TimeReversal
    >>> view = Encoder(augmentations=[TimeReversal(6)])
    """

    probability: Annotated[float, Real(0.0, 1.0)] = 0.5

    def __call__(self, recordings: Recordings, random: np.random.Generator) -> Recordings:
        """Return the recordings, some of them reversed."""
        turned = random.random(len(recordings)) < self.probability
        return [self._reversed(r) if t else r for r, t in zip(recordings, turned)]

    def _reversed(self, recording: Recording) -> Recording:
        if not isinstance(recording.truth, Partition):
            raise ValueError(
                f"TimeReversal needs recordings with all labels, got {recording.truth!r}."
            )
        truth = recording.truth
        X = self.changed(recording.X[::-1], lambda samples: samples[:, ::-1])
        ends = (len(X) - np.append(0, truth.change_points[:-1]))[::-1]
        if isinstance(truth, NamedPartition):
            return Recording(X, NamedPartition(ends, truth.names[::-1]))
        return Recording(X, Partition(ends=ends))
