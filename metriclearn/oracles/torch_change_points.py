"""Exact change-points of many sequences at once on a GPU, or on any device that torch has."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from metriclearn.oracles.change_points import PricedSegmentation
from metriclearn.oracles.requests import check_count
from metriclearn.oracles.tiles import TiledProgram, Truths
from metriclearn.problem.forms import LowRankForm
from metriclearn.problem.partition import Partition
from metriclearn.running.devices import double_device

__all__ = ["TorchChangePoints"]

# sends prices, is given the segment ends that are best there, and returns those wanted
EndSearch = Generator[float, NDArray[np.int64], NDArray[np.int64]]

_WIDTHS = (16, 256)  # of tiles: smaller ones are mostly overhead, larger ones mostly diagonal


class TorchChangePoints(BaseEstimator):
    """:class:`~metriclearn.oracles.change_points.ChangePoints` for batches, on a torch device.

    The same maximizers, of many sequences in one call of :meth:`many`, which learners use by
    themselves: ``ChangePointMetricLearner(oracle=TorchChangePoints("cuda"))``. Sequences are
    padded to the longest of a batch; samples that come back, as those of a training set in every
    round, stay on the device. With the number of segments given, the prices of all sequences move
    together; only a number that no price leads to falls back to the layered program on the
    processor, sequence by sequence.

    Where no device does much better than the processor, on few or easy sequences, ``ChangePoints``
    is faster: it prunes single starts, this one tiles of them. See docs/benchmarks/gpu.md.

    Parameters
    ----------
    device : str
        "cuda", "cuda:1", "cpu" or another torch device with double precision.
    min_size : int
        Smallest number of samples in a segment. Learners set their own.
    single_precision : bool
        Tiles off the diagonal in single precision, for devices that are slow in double. The rest
        stays in double precision, see the notes.
    memory : float
        Bytes for the tensors of a batch; sequences that do not fit into one are done in several.
        Samples kept on the device take at most as much again.

    Attributes
    ----------
    products_ : int
        Pairs of a multiplication and an addition in the matrix products of the last call.

    Notes
    -----
    In double precision answers are those of ``ChangePoints`` but for ties: their values agree to
    1e-12 of ‖Z‖² + κK + |c|K. In single precision they agree to 3e-6 of it, as long as PyTorch
    multiplies single-precision matrices exactly (``torch.set_float32_matmul_precision`` at
    "highest", the default).

    References
    ----------
    Lajugie, Arlot & Bach, section 4.2; :mod:`metriclearn.oracles.tiles` for the program.
    """

    def __init__(
        self,
        device: str = "cuda",
        min_size: int = 1,
        *,
        single_precision: bool = False,
        memory: float = 2.0**32,
    ) -> None:
        self.device = device
        self.min_size = min_size
        self.single_precision = single_precision
        self.memory = memory

    def __call__(self, form: LowRankForm, n_clusters: int | None = None) -> Partition:
        """Best segmentation, with ``n_clusters`` segments if given."""
        return self.many([form], [n_clusters])[0]

    def many(
        self, forms: Sequence[LowRankForm], n_clusters: Sequence[int | None] | None = None
    ) -> list[Partition]:
        """Best segmentations of several forms.

        Parameters
        ----------
        forms : sequence of LowRankForm
        n_clusters : sequence of int or None, optional
            Numbers of segments.

        Raises
        ------
        ValueError
            If the device is not there, T samples cannot hold the segments that are asked for,
            factors are not finite, or a reference partition is not contiguous.
        """
        who = type(self).__name__
        device = double_device(who, self.device)
        if not self.memory >= 2**20:
            raise ValueError(f"{who} needs a memory of at least 2**20 bytes, got {self.memory!r}.")
        counts = [None] * len(forms) if n_clusters is None else list(n_clusters)
        if len(counts) != len(forms):
            raise ValueError(
                f"{who} needs one number of segments, or None, per form, got {len(counts)} for "
                f"{len(forms)}."
            )
        for form, count in zip(forms, counts):
            if not isinstance(form, LowRankForm):
                raise TypeError(
                    f"{who} needs a LowRankForm, got {type(form).__name__}; use the SummedArea "
                    "oracle for other forms."
                )
            check_count(who, form.n_samples, count, self.min_size)
        self.products_ = 0
        found: dict[int, NDArray[np.int64]] = {}
        for places in self._batches(forms):
            batch = _Batch([forms[i] for i in places], self._kept, device)
            asked = [_search(forms[i], counts[i], self.min_size) for i in places]
            found.update(zip(places, self._answer(batch, asked)))
        return [Partition(ends=found[i]) for i in range(len(forms))]

    def _answer(self, batch: _Batch, searches: list[EndSearch]) -> list[NDArray[np.int64]]:
        """Run all searches together until each has its segment ends."""
        ends: list[Any] = [None] * len(searches)
        answers: dict[int, Any] = dict.fromkeys(range(len(searches)))
        while True:
            prices: dict[int, float] = {}
            for i, answer in answers.items():
                try:
                    prices[i] = searches[i].send(answer)
                except StopIteration as done:
                    ends[i] = done.value
            if not prices:
                return ends
            rows = np.fromiter(prices, dtype=np.int64)
            solved = self._solve(batch, rows, np.fromiter(prices.values(), dtype=np.float64))
            answers = dict(zip(prices, solved))

    def _solve(self, batch: _Batch, rows: NDArray, prices: NDArray) -> list[NDArray[np.int64]]:
        sums, lengths, truths, weight = batch.rows(rows)
        program = TiledProgram(
            sums,
            lengths,
            truths,
            weight,
            min_size=self.min_size,
            width=batch.width,
            single_precision=self.single_precision,
            memory=self.memory / 4,
        )
        ends = _follow(program.solve(-prices)[1].cpu().numpy(), lengths)
        self.products_ += program.products
        return ends

    def _batches(self, forms: Sequence[LowRankForm]) -> Iterator[list[int]]:
        """Places of forms of equal rank, the longest first, as many as fit into the memory."""
        ranks = [_rank(form) for form in forms]
        order = sorted(range(len(forms)), key=lambda i: (ranks[i], -forms[i].n_samples))
        while order:
            first = order[0]
            most = max(1, int(self.memory / _bytes(forms[first].n_samples, ranks[first])))
            batch = [i for i in order[:most] if ranks[i] == ranks[first]]
            yield batch
            order = order[len(batch) :]

    @property
    def _kept(self) -> _Kept:
        """Tensors on the device; neither cloned, pickled nor saved."""
        kept = self.__dict__.get("kept_")
        if kept is None or kept.key != (self.device, self.memory):
            kept = self.__dict__["kept_"] = _Kept(self.device, self.memory)
        return kept

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("kept_", None)
        return state


class _Kept:
    """Tensors made of objects that are alive elsewhere, up to so many bytes."""

    def __init__(self, device: str, memory: float) -> None:
        self.key = (device, memory)
        self._left = memory
        self._tensors: dict[int, tuple[weakref.ref, Any]] = {}

    def tensor(self, owner: Any, make: Callable[[Any], NDArray], device: Any) -> Any:
        """``make(owner)`` on the device, made once while the owner lives.

        The processor keeps nothing: its tensors share the memory of arrays.
        """
        import torch

        name = id(owner)
        known = self._tensors.get(name)
        if known is not None and known[0]() is owner:
            return known[1]
        writable = np.require(make(owner), np.float64, ["C", "W"])  # which torch wants
        tensor = torch.from_numpy(writable).to(device)
        if device.type != "cpu" and tensor.nbytes <= self._left:
            self._left -= tensor.nbytes
            self._tensors[name] = (weakref.ref(owner, lambda _: self._forget(name, tensor)), tensor)
        return tensor

    def _forget(self, name: int, tensor: Any) -> None:
        known = self._tensors.get(name)
        if known is not None and known[1] is tensor:
            del self._tensors[name]
            self._left += tensor.nbytes


class _Batch:
    """Padded cumulative sums and true segments of forms of equal rank, the longest first."""

    def __init__(self, forms: list[LowRankForm], kept: _Kept, device: Any) -> None:
        import torch

        self.lengths = np.array([form.n_samples for form in forms])
        self.width = _width(forms[0].n_samples)
        stop = self._stop(0)
        shape = (len(forms), stop, _rank(forms[0]))
        self._sums = torch.empty(shape, dtype=torch.float64, device=device)
        for row, form in zip(self._sums, forms):
            cumulative, components = form.product
            sums = kept.tensor(cumulative, np.asarray, device)
            if components is not None:
                sums = sums @ kept.tensor(components, np.asarray, device).T
            row[: len(sums)], row[len(sums) :] = sums, sums[-1]
        if not bool(torch.isfinite(self._sums).all()):
            raise ValueError(
                "TorchChangePoints needs finite factors, got NaN or infinity; remove them."
            )
        self.weight = np.array([_weight(form) for form in forms])
        self._truths = self._tables(forms, kept, device) if self.weight.any() else None

    def _stop(self, row: int) -> int:
        """Positions of whole tiles that hold a sequence."""
        return self.width * -(-int(self.lengths[row]) // self.width) + 1

    def _tables(self, forms: list[LowRankForm], kept: _Kept, device: Any) -> Truths:
        """Columns of the truth tables; zero where a form has no true segments."""
        import torch

        shape = (4, *self._sums.shape[:2])
        tables = torch.zeros(shape, dtype=torch.float64, device=device)
        for i, form in enumerate(forms):
            if self.weight[i]:
                table = kept.tensor(form.truth, _table, device)
                stop = table.shape[1]
                tables[:, i, :stop], tables[:, i, stop:] = table, table[:, -1:]
        return Truths(*tables)

    def rows(self, rows: NDArray) -> tuple[Any, NDArray[np.int64], Truths | None, NDArray]:
        """Sums, lengths, true segments and κ of some sequences."""
        import torch

        if len(rows) == len(self.lengths):
            return self._sums, self.lengths, self._truths, self.weight
        chosen, stop = torch.as_tensor(rows, device=self._sums.device), self._stop(rows[0])
        truths = self._truths
        if truths is not None:
            truths = Truths(*(table[:, :stop][chosen] for table in truths))
        return self._sums[:, :stop][chosen], self.lengths[rows], truths, self.weight[rows]


class _Answered(PricedSegmentation):
    """Asks for prices to be solved elsewhere."""

    def ends_of_count(self, n_segments: int) -> EndSearch:
        """:meth:`search`, given segment ends alone."""
        search = self.search(n_segments)
        try:
            price = next(search)
            while True:
                price = search.send(self._with_value((yield price)))
        except StopIteration as found:
            return found.value


def _search(form: LowRankForm, count: int | None, min_size: int) -> EndSearch:
    """The search for the segment ends of one sequence."""
    if count is None:
        return (yield -form.shift)
    return (yield from _Answered(form, min_size).ends_of_count(count))


def _width(n_samples: int) -> int:
    """A power of two near 2√T."""
    return int(np.clip(2 ** np.round(0.5 * np.log2(n_samples) + 1), *_WIDTHS))


def _bytes(n_samples: int, rank: int) -> float:
    """What one sequence takes: sums twice, F and tables, and the tiles on the diagonal."""
    width = _width(n_samples)
    return 8.0 * ((2 * rank + 12) * (n_samples + width) + 5 * width * width + 6 * width * rank)


def _rank(form: LowRankForm) -> int:
    cumulative, components = form.product
    return cumulative.shape[1] if components is None else len(components)


def _table(truth: Partition) -> NDArray:
    """Columns 0 to 3 of the truth table, (4, T+1)."""
    from metriclearn.oracles.pruned import truth_table

    return truth_table(truth.change_points, truth.n_samples)[:, :4].T


def _weight(form: LowRankForm) -> float:
    return float(form.weight) if form.truth is not None else 0.0


def _follow(last: NDArray, lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Segment ends of every row, by walking back from its end, all rows at once."""
    marks = np.zeros(last.shape, dtype=bool)
    rows, ends = np.arange(len(last)), lengths
    while len(rows):
        marks[rows, ends] = True
        starts = last[rows, ends]
        rows, ends = rows[starts > 0], starts[starts > 0]
    return [np.flatnonzero(row) for row in marks]
