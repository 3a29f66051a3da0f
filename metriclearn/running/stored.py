"""Data sets on disk that are read one at a time, when they are needed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_PART = 2048  # data sets per task


class StoredArray:
    """One (T, P) data set on disk. The data are read when numpy converts them to an array.

    Parameters
    ----------
    arrays : StoredArrays
        The sequence that contains the data set.
    place : int
        Index of the data set in the sequence.
    n_samples : int
        Number of samples T.
    """

    def __init__(self, arrays: StoredArrays, place: int, n_samples: int) -> None:
        self._arrays, self._place = arrays, place
        self.shape = (n_samples, arrays.n_features)
        self.ndim = 2

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self._arrays[self._place], dtype=dtype)


class StoredArrays(Sequence[NDArray[np.float64]]):
    """Sequence of float64 arrays that are on disk.

    An array is read, converted and checked whenever it is accessed.

    Parameters
    ----------
    source : object with __len__ and __getitem__
        The sequence that reads its items from disk. If the sequence has a method
        ``subset(indices)``, each worker gets only the items that it needs.
    check : callable
        Function (item, index, n_features) -> float64 array. If the item is not a valid data set,
        the function raises an error that names the index.
    """

    lazy = True

    def __init__(self, source: Any, check: Callable[[Any, int, int | None], NDArray]) -> None:
        if len(source) == 0:
            raise ValueError("metriclearn needs at least one data set, got an empty sequence.")
        self._source, self._check = source, check
        # Places in the whole sequence, for errors, and places in the source. They differ after
        # subset().
        self._places = self._inside = np.arange(len(source))
        self.n_features = check(source[0], 0, None).shape[1]

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self.subset(np.arange(len(self))[i])
        item = self._source[int(self._inside[i])]
        return self._check(item, int(self._places[i]), self.n_features)

    def subset(self, places: NDArray) -> StoredArrays:
        """Select some of the arrays. Errors still give indices in the whole sequence."""
        part = copy.copy(self)
        part._places, part._inside = self._places[places], self._inside[places]
        if hasattr(self._source, "subset"):
            part._source, part._inside = self._source.subset(part._inside), np.arange(len(places))
        return part

    def loaded(self) -> Self:
        """Return the sequence itself, because a data set is read only when it is needed."""
        return self

    def parts(self) -> list[StoredArrays]:
        """Split the sequence into parts that are small enough to show progress part by part."""
        return [self[i : i + _PART] for i in range(0, len(self), _PART)]


@dataclass(eq=False, repr=False)
class StoredSamples(Sequence[Any]):
    """The samples of data sets on disk. A sample is made from its array whenever it is accessed.

    Parameters
    ----------
    arrays : StoredArrays
        The stored arrays.
    lengths : int array (N,)
        Lengths of the arrays.
    scale : array (P,)
        Numbers by which the features are divided.
    truths : sequence of Partition or None
        True partition of each array, or None if samples do not need it.
    make : callable
        Function (array-like, scale, truth) -> Samples.
    """

    arrays: StoredArrays
    lengths: NDArray
    scale: NDArray
    truths: Sequence[Any]
    make: Callable[..., Any]

    def __len__(self) -> int:
        return len(self.arrays)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            arrays, lengths, truths = self.arrays[i], self.lengths[i], self.truths[i]
            return StoredSamples(arrays, lengths, self.scale, truths, self.make)
        array = StoredArray(self.arrays, i, int(self.lengths[i]))
        return self.make(array, self.scale, self.truths[i])

    def loaded(self) -> list[Any]:
        """Make a list of all samples, with their arrays in memory."""
        return list(self)
