"""Exact segmentation of many sequences at once, in tiles of starts by ends, on a torch device.

The program of :mod:`metriclearn.oracles.pruned`, arranged for devices that want few, large
operations. Ends u come in blocks (b, b+w], starts s in groups of w. With S the cumulative sums,
all f(s, u) of a group and a block are one matrix product,

    ‖S_u − S_s‖² = ‖S_u − S_b‖² + ‖S_s − S_b‖² − 2 (S_s − S_b)·(S_u − S_b),

whose origin S_b keeps digits that sums from the beginning would cancel. The overlap with the true
segments is, in terms of :func:`~metriclearn.oracles.pruned.truth_table`,

    g(s,u) = before(u) + after(s) + 2 (s − a)₊ (e − u)/|C|,   C = (a, e] the true segment at u.

Groups are left out by the same inequality, f(s,u) ≤ f(s,t) + f(t,u) + κ − c. When a group was
last evaluated, at t, the largest F(s) + f(s,t) of its starts was kept; while this plus κ − c plus
f(t,u) exceeds no lower bound on F(u) in the block, the group holds no winner. The lower bounds
come from the group that won at b and from the block itself. So only tiles that may matter are
computed, of all sequences in one product.

Within a block, F(u) = max(outside(u), max_s F(s) + f(s,u)) for b ≤ s < u is solved for all ends
at once by policy iteration: the best start of every end under the present F, then the exact value
of following these starts (by pointer doubling), until nothing grows. A handful of steps, and
never more than w + 2, as every step settles one more end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TiledProgram", "Truths"]

_SETTLED = 2.0**-49  # of F: by what a value may exceed it and still count as equal
_PLAIN_STEPS = 2  # value iterations before starts are followed: enough for blocks of one change


class Truths(NamedTuple):
    """Columns 0 to 3 of ``truth_table``, tensors (B, G·w + 1) each."""

    start: Any
    share: Any
    before: Any
    after: Any


class _Block(NamedTuple):
    """Ends b+1 … b+w of the first n sequences; sums relative to S_b, values to ``origin`` = F(b).

    ``ends`` (n, w, r+1) are −2 (S_u − S_b) and 1, ``own`` is ‖S_u − S_b‖² − κ before(u); true
    segments begin at b + ``true_start`` and count with ``true_weight`` = 2κ(e − u)/|C|.
    ``outside`` and ``starts`` (n, w) are the best values of ends with a start before b, and these
    starts; they grow while tiles are evaluated.
    """

    begin: int
    rows: Any
    positions: Any
    base: Any
    ends: Any
    own: Any
    true_start: Any
    true_weight: Any
    origin: Any
    shift: Any
    outside: Any
    starts: Any


class _State(NamedTuple):
    """F and its starts; of every group max F(s) + f(s,t), t/w and whether t beats all of it."""

    F: Any
    last: Any
    shift: Any
    slack: Any
    most: Any
    checkpoint: Any
    beaten: Any


class TiledProgram:
    """Maximize Σ f over segmentations of several sequences, at any c for each.

    O(Twr) for the tiles on the diagonal and up to O(T²r/2) for the others of each sequence, which
    hold no more than ``memory`` bytes at a time.

    Parameters
    ----------
    sums : tensor (B, G·w + 1, r), float64
        Cumulative sums of every sequence, the last row repeated beyond its end.
    lengths : int array (B,)
        Numbers of samples, in decreasing order.
    truths : Truths, optional
    weight : array (B,)
        κ.
    min_size : int
    width : int
        w.
    single_precision : bool
        Tiles in single precision, from differences taken in double, but for the diagonal.
    memory : float
        Bytes.
    """

    def __init__(
        self,
        sums: Any,
        lengths: NDArray[np.int64],
        truths: Truths | None,
        weight: NDArray,
        *,
        min_size: int = 1,
        width: int = 128,
        single_precision: bool = False,
        memory: float = 2.0**30,
    ) -> None:
        import torch

        self._torch, self._device = torch, sums.device
        self._sums, self._truths, self._width, self._min_size = sums, truths, width, min_size
        self._type = torch.float32 if single_precision else torch.float64
        self._lengths = torch.as_tensor(lengths, device=self._device)
        begins = range(0, int(lengths[0]), width)
        self._active = [int(np.sum(lengths > begin)) for begin in begins]
        self._weight = torch.as_tensor(weight, dtype=torch.float64, device=self._device)
        self._steps = torch.arange(width, device=self._device)
        item = torch.finfo(self._type).bits // 8
        self.products = 0  # multiplications and additions in matrix products, in pairs
        self._chunk = max(1, int(memory / (4 * item * width * (width + sums.shape[2]))))

    def solve(self, shift: NDArray) -> tuple[Any, Any]:
        """F (B, G·w + 1), and the start of the last segment of every prefix, −1 without one.

        Parameters
        ----------
        shift : array (B,)
            c of every sequence.
        """
        state = self._begin(shift)
        for number, n in enumerate(self._active):
            block = self._block(number, n, state)
            span = slice(block.begin + 1, block.begin + self._width + 1)
            state.F[:n, span], state.last[:n, span] = self._advance(block, state)
            self._mark_beaten(number + 1, n, state)
        return state.F, state.last

    def _begin(self, shift: NDArray) -> _State:
        torch, device = self._torch, self._device
        count, stop, groups = len(self._sums), self._sums.shape[1], len(self._active)
        c = torch.as_tensor(shift, dtype=torch.float64, device=device)
        F = torch.full((count, stop), -torch.inf, dtype=torch.float64, device=device)
        F[:, 0] = 0.0
        return _State(
            F,
            last=torch.full((count, stop), -1, device=device),
            shift=c,
            slack=self._weight - c,
            most=torch.full((count, groups), -torch.inf, dtype=torch.float64, device=device),
            checkpoint=torch.ones((count, groups), dtype=torch.int64, device=device),
            beaten=torch.zeros((count, groups), dtype=torch.bool, device=device),
        )

    def _block(self, number: int, n: int, state: _State) -> _Block:
        torch, begin, width = self._torch, number * self._width, self._width
        span = slice(begin + 1, begin + width + 1)
        positions, base = begin + 1 + self._steps, self._sums[:n, begin]
        ends = self._sums[:n, span] - base[:, None]
        own, ones = (ends * ends).sum(2), torch.ones_like(ends[:, :, :1])
        true_start = true_weight = None
        if self._truths is not None:
            kappa, true_start = self._weight[:n, None], self._truths.start[:n, span] - begin
            own -= kappa * (self._truths.before[:n, span] - begin)
            rest = 1.0 - (positions - begin - true_start) * self._truths.share[:n, span]
            true_weight = 2.0 * kappa * rest.clamp_(min=0.0)
        value = state.F[:n, begin]
        return _Block(
            begin,
            torch.arange(n, device=self._device),
            positions,
            base,
            torch.cat([-2.0 * ends, ones], 2),
            own,
            true_start,
            true_weight,
            origin=torch.where(torch.isfinite(value), value, 0.0),
            shift=state.shift[:n],
            outside=torch.full_like(own, -torch.inf),
            starts=torch.full_like(own, -1, dtype=torch.int64),
        )

    def _advance(self, block: _Block, state: _State) -> tuple[Any, Any]:
        """F and starts of one block; keeps what later blocks need of its groups."""
        torch, n, number = self._torch, len(block.rows), block.begin // self._width
        within = (block.positions - 1).expand(n, -1)
        diagonal = self._worth(block, block.rows, within, torch.float64)
        diagonal += block.shift[:, None, None]
        final = diagonal[:, :, -1].clone()  # before what min_size forbids
        length = block.positions - block.positions[:, None] + 1
        diagonal.masked_fill_(length < self._min_size, -torch.inf)
        first = state.F[:n, block.begin] - block.origin
        favorite = (state.last[:n, block.begin] // self._width).clamp_(min=0)
        if number:
            self._evaluate(block, state, block.rows, favorite)
        singles = first[:, None] + diagonal.diagonal(dim1=1, dim2=2).cumsum(1)
        lower = torch.maximum(block.outside, singles)
        values, inner = self._settle(diagonal, first, block.outside, lower)
        if number:
            hot = self._promising(block, state, values + block.origin[:, None])
            hot[block.rows, favorite] = False
            chosen = hot.nonzero()
            for part in chosen.split(self._chunk):
                self._evaluate(block, state, part[:, 0], part[:, 1])
            if len(chosen):
                lower = torch.maximum(values, block.outside)
                values, inner = self._settle(diagonal, first, block.outside, lower)
        before = torch.cat([first[:, None], values[:, :-1]], 1)
        state.most[:n, number] = (before + final).amax(1) + block.origin
        state.checkpoint[:n, number] = number + 1
        starts = torch.where(inner >= 0, block.begin + inner, block.starts)
        return values + block.origin[:, None], starts

    def _worth(self, block: _Block, rows: Any, starts: Any, kind: Any) -> Any:
        """f(s, u) − c of starts (m, q) in sequences (m,) and a block's ends, (m, q, w) of a kind.

        With every start before b, ‖S_s − S_b‖² ≤ (b − s) Σ‖z‖² bounds what cancels; on the
        diagonal nothing does but w², so that it takes double precision.
        Few passes over the tiles matter more than the product: on a device that multiplies well
        they are bound by memory.
        """
        torch = self._torch
        flat = rows[:, None] * self._sums.shape[1] + starts
        sums = self._sums.flatten(0, 1)[flat]
        sums = sums.sub_(block.base[rows][:, None])
        own = (sums * sums).sum(2)
        if self._truths is not None:
            after = self._truths.after.flatten()[flat] + block.begin
            own -= self._weight[rows][:, None] * after
        augmented = torch.cat([sums, own[:, :, None]], 2).to(kind)
        worth = torch.baddbmm(
            block.own[rows][:, None].to(kind), augmented, block.ends[rows].to(kind).mT
        )
        places = (starts - block.begin).to(kind)[:, :, None]
        if self._truths is not None:
            inside = (places - block.true_start[rows][:, None].to(kind)).clamp_(min=0.0)
            worth.addcmul_(inside, block.true_weight[rows][:, None].to(kind), value=-1.0)
        self.products += worth.numel() * augmented.shape[2]
        return worth.div_((block.positions - block.begin).to(kind) - places)

    def _evaluate(self, block: _Block, state: _State, rows: Any, groups: Any) -> None:
        """Raise ``outside`` by the tiles of groups (m,) of sequences (m,)."""
        torch = self._torch
        starts = groups[:, None] * self._width + self._steps
        tile = self._worth(block, rows, starts, self._type)
        before = state.F[rows[:, None], starts] + (block.shift - block.origin)[rows][:, None]
        tile += before.to(self._type)[:, :, None]
        state.most[rows, groups] = tile[:, :, -1].amax(1).double() + block.origin[rows]
        state.checkpoint[rows, groups] = block.begin // self._width + 1
        if self._min_size > 2:
            length = block.positions - starts[:, :, None]
            tile.masked_fill_(length < self._min_size, -torch.inf)
        best, chosen = tile.max(1)
        best = best.double()
        known, index = block.outside.clone(), rows[:, None].expand(-1, self._width)
        block.outside.scatter_reduce_(0, index, best, "amax")
        block.starts.masked_fill_(block.outside > known, -1)
        winning = torch.where(best == block.outside[rows], starts.gather(1, chosen), -1)
        block.starts.scatter_reduce_(0, index, winning, "amax")

    def _promising(self, block: _Block, state: _State, lower: Any) -> Any:
        """Which groups before the block may hold the best start of one of its ends, (n, j)."""
        torch, n, number = self._torch, len(block.rows), block.begin // self._width
        checkpoints = self._width * torch.arange(1, number + 1, device=self._device)
        excess = self._worth(block, block.rows, checkpoints.expand(n, -1), torch.float64)
        excess = excess - (lower - block.shift[:, None])[:, None]
        beyond = block.positions > self._lengths[:n, None]
        excess = excess.masked_fill_(beyond[:, None], -torch.inf).amax(2)
        at = state.checkpoint[:n, :number]
        bound = state.most[:n, :number] + state.slack[:n, None]
        bound += excess.gather(1, at.clamp(max=number) - 1)  # the favorite is one ahead
        settled = block.begin + 1 >= at * self._width + self._min_size
        return (bound > 0.0) & ~(state.beaten[:n, :number] & settled)

    def _mark_beaten(self, number: int, n: int, state: _State) -> None:
        """Groups evaluated at t = number·w of which no start can win once t is a legal split."""
        fresh = state.checkpoint[:n, :number] == number
        bound = state.most[:n, :number] + state.slack[:n, None]
        state.beaten[:n, :number] |= fresh & (bound <= state.F[:n, number * self._width, None])

    def _settle(self, diagonal: Any, first: Any, outside: Any, F: Any) -> tuple[Any, Any]:
        """F of a block, and the starts inside it, (n, w), −1 where one outside is as good.

        Parameters
        ----------
        diagonal : tensor (n, w, w)
            f(b+i, b+1+k), −inf where not allowed.
        first : tensor (n,)
            F(b).
        outside : tensor (n, w)
            Best values with a start before b.
        F : tensor (n, w)
            Lower bounds to begin with.
        """
        torch = self._torch
        for step in range(self._width + 3):
            before = torch.cat([first[:, None], F[:, :-1]], 1)
            inner, chosen = (diagonal + before[:, :, None]).max(1)
            own, best = inner > outside, torch.maximum(inner, outside)
            settled = (best <= F) | (best - F <= _SETTLED * best.abs())
            if bool(settled.all()):
                break
            F = best if step < _PLAIN_STEPS else self._follow(diagonal, first, outside, own, chosen)
        return best, torch.where(own, chosen, -1)

    def _follow(self, diagonal: Any, first: Any, outside: Any, own: Any, chosen: Any) -> Any:
        """Values of the segmentations that these starts lead to: pointer doubling, O(w log w).

        Node i+1 is the end b+1+i, node 0 is b, and node w+1, of value 0, precedes b and all
        that begins outside.
        """
        torch, width = self._torch, self._width
        steps = diagonal.gather(1, chosen[:, None])[:, 0]
        zero = torch.zeros_like(first)[:, None]
        value = torch.cat([first[:, None], torch.where(own, steps, outside), zero], 1)
        stop = torch.full_like(chosen[:, :1], width + 1)
        previous = torch.cat([stop, torch.where(own, chosen, width + 1), stop], 1)
        for _ in range((width + 1).bit_length()):
            value = value + value.gather(1, previous)
            previous = previous.gather(1, previous)
        return value[:, 1:-1]
