"""Networks that predict the names of rows in stages, trained with early stopping over groups."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupShuffleSplit
from sklearn.preprocessing import StandardScaler

from experiments.rivals.windows import Arrays, RowNames, coded

_SMOOTHING, _LARGEST = 0.15, 16.0  # weight of the smoothing loss, and where it is cut off
_BLOCK = 32  # rows at least, whose attention is one product of matrices
_FAR = -1e9  # score of a key outside the window
_FADE = 3.0  # attention of the k-th decoder, k = 0, 1, …, weighs exp(−3k)


@dataclass(eq=False, repr=False)
class RowNetwork(RowNames, ABC):
    """Base of networks of several stages, each of which predicts the names of all rows.

    A stage is a first convolution, residual layers of dilation 1, 2, 4, …, and a last convolution.
    The first stage sees the rows, each later one the probabilities of the stage before it.
    The loss of a stage is the cross entropy plus 0.15 times the truncated squared difference of the
    log-probabilities of neighbors. A fifth of the groups, but at least one, is held out. The
    weights of the round with the least loss on these groups are kept.

    Parameters
    ----------
    n_rounds : int
        Largest number of passes over the recordings.
    patience : int
        Rounds without gain before training stops.
    random_state : int
    learning_rate, decay : float
        Step size of Adam, and weight of the squared norm of the weights.
    width : int
        Number of channels.
    n_layers, n_later : int
        Numbers of layers of a stage, and of stages after the first.
    dropped : float
        Share of the input channels that each step of training omits.

    References
    ----------
    Abu Farha & Gall, MS-TCN: multi-stage temporal convolutional network for action segmentation,
    CVPR 2019.
    """

    n_rounds: int = 60
    patience: int = 8
    random_state: int = 0
    learning_rate: float = 2e-3
    decay: float = 0.0
    width: int = 32
    n_layers: int = 6
    n_later: int = 1
    dropped: float = 0.0

    @abstractmethod
    def layer(self, dilation: int) -> Any:
        """Make a residual layer with random weights."""

    @abstractmethod
    def change(self, layer: Any, h: Any, dilation: int, stage: int, before: Any) -> Any:
        """Compute what a layer adds to its inputs, (1, width, T).

        ``before`` has the last channels of the stage before this one, or is None.
        """

    def network(self, n_features: int, n_classes: int) -> Any:
        """Make a list of stages with random weights."""
        from torch import nn

        def stage(n_inputs: int, dropped: float = 0.0) -> Any:
            layers = nn.ModuleList([self.layer(2**i) for i in range(self.n_layers)])
            first: Any = nn.Conv1d(n_inputs, self.width, 1)
            if dropped:
                first = nn.Sequential(nn.Dropout1d(dropped), first)
            return nn.ModuleList([first, layers, nn.Conv1d(self.width, n_classes, 1)])

        later = (stage(n_classes) for _ in range(self.n_later))
        return nn.ModuleList([stage(n_features, self.dropped), *later])

    def outputs(self, network: Any, x: Any) -> list[Any]:
        """Compute the scores of the names after every stage, each (1, C, T), of rows (1, P, T)."""
        outputs: list[Any] = []
        before: Any = None
        for k, (first, layers, last) in enumerate(network):
            h = first(outputs[-1].softmax(dim=1) if outputs else x)
            for i, layer in enumerate(layers):
                h = h + self.change(layer, h, 2**i, k, before)
            outputs.append(last(h))
            before = h
        return outputs

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Train by Adam, one recording at a time."""
        import torch

        torch.manual_seed(self.random_state)
        self.scaler_ = StandardScaler().fit(np.vstack(X))
        self.classes_, whole = coded(y)
        units = np.arange(len(X)) if groups is None else np.asarray(groups)
        held_out: list[int] = []
        train = list(range(len(X)))
        if len(np.unique(units)) > 1:
            cutter = GroupShuffleSplit(1, test_size=0.2, random_state=self.random_state)
            train, held_out = (part.tolist() for part in next(cutter.split(X, groups=units)))
        inputs = [self._input(x) for x in X]
        codes = list(map(torch.from_numpy, whole))
        self.network_ = self.network(X[0].shape[1], len(self.classes_))
        optimizer = torch.optim.Adam(
            self.network_.parameters(), lr=self.learning_rate, weight_decay=self.decay
        )
        order = np.random.default_rng(self.random_state)
        least, kept, waited = np.inf, None, 0
        for _ in range(self.n_rounds):
            self.network_.train()
            for i in order.permutation(train):
                optimizer.zero_grad()
                _loss(self.outputs(self.network_, inputs[i]), codes[i]).backward()
                optimizer.step()
            self.network_.eval()
            with torch.no_grad():
                losses = [
                    float(_loss(self.outputs(self.network_, inputs[i]), codes[i]))
                    for i in held_out or train
                ]
            waited += 1
            if np.mean(losses) < least:
                least, waited = float(np.mean(losses)), 0
                kept = {k: v.clone() for k, v in self.network_.state_dict().items()}
            if waited > self.patience:
                break
        if kept is not None:
            self.network_.load_state_dict(kept)
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the most probable name of every row by the last stage."""
        import torch

        with torch.no_grad():
            scores = [self.outputs(self.network_, self._input(x))[-1][0] for x in X]
        return [self.classes_[one.argmax(dim=0).numpy()] for one in scores]

    def _input(self, x: NDArray) -> Any:
        import torch

        return torch.from_numpy(self.scaler_.transform(x).T[None].astype(np.float32))


def _loss(outputs: Sequence[Any], codes: Any) -> Any:
    from torch.nn.functional import cross_entropy

    total: Any = 0.0
    for scores in outputs:
        logs = scores[0].log_softmax(dim=0)
        steps = (logs[:, 1:] - logs[:, :-1].detach()) ** 2
        total = total + cross_entropy(logs.T, codes)
        total = total + _SMOOTHING * steps.clamp(max=_LARGEST).mean()
    return total


@dataclass(eq=False, repr=False)
class MultiStageNetwork(RowNetwork):
    """MS-TCN: a standard multi-stage temporal convolutional network.

    With the defaults there are about 50,000 weights.

    Parameters
    ----------
    n_rounds, patience, random_state, learning_rate, decay, width, n_layers, n_later, dropped
        As for :class:`RowNetwork`.

    References
    ----------
    Abu Farha & Gall, MS-TCN: multi-stage temporal convolutional network for action segmentation,
    CVPR 2019.
    """

    def layer(self, dilation: int) -> Any:
        """Make a convolution with this dilation, and one of single rows."""
        from torch import nn

        return nn.Sequential(
            nn.Conv1d(self.width, self.width, 3, padding=dilation, dilation=dilation),
            nn.ReLU(),
            nn.Conv1d(self.width, self.width, 1),
            nn.Dropout(0.3),
        )

    def change(self, layer: Any, h: Any, dilation: int, stage: int, before: Any) -> Any:
        """Apply the layer."""
        return layer(h)


@dataclass(eq=False, repr=False)
class SegmentationTransformer(RowNetwork):
    """ASFormer: an encoder with attention, and decoders that refine its names.

    Layer i = 0, 1, … of each of them convolves the rows with dilation 2^i. It then adds what every
    row finds in the 2^i rows around it, by attention in one head of half as many channels. The
    keys and queries of a decoder come from its own rows, and the values from the stage before it.
    The cost is linear in the number of rows.

    Decoders, dropout, the share of dropped channels and decay are as in the paper. Their networks
    have 64 channels and 10 layers, for thousands of frames with 2048 features. The defaults have as
    many channels and layers as our MS-TCN, and about 155,000 weights. The learning rate of the
    paper, 5e-4, is too small for a few recordings. So we chose one of eight settings by folds of
    recordings of routines, gestures and keys. Some of these recordings are test recordings
    elsewhere, see ``configs/methods/networks.yaml``.

    Parameters
    ----------
    n_rounds, patience, random_state, learning_rate, decay, width, n_layers, n_later, dropped
        As for :class:`RowNetwork`; ``n_later`` is the number of decoders.

    References
    ----------
    Yi, Wen & Jiang, ASFormer: transformer for action segmentation, BMVC 2021.
    """

    learning_rate: float = 1e-3
    decay: float = 1e-5
    n_later: int = 3
    dropped: float = 0.3

    def layer(self, dilation: int) -> Any:
        """Make a convolution with this dilation, and the matrices of attention."""
        from torch import nn

        width, half = self.width, self.width // 2
        parts = {
            "convolution": nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation),
            "norm": nn.InstanceNorm1d(width),
            "query": nn.Conv1d(width, half, 1),
            "key": nn.Conv1d(width, half, 1),
            "value": nn.Conv1d(width, half, 1),
            "attended": nn.Conv1d(half, width, 1),
            "out": nn.Sequential(nn.Conv1d(width, width, 1), nn.Dropout(0.5)),
        }
        return nn.ModuleDict(parts)

    def change(self, layer: Any, h: Any, dilation: int, stage: int, before: Any) -> Any:
        """Convolve the rows, and add what attention finds."""
        z = layer["convolution"](h).relu()
        # the norm of a single row is that row's mean, 0
        normed = layer["norm"](z) if z.shape[-1] > 1 else z * 0
        values = layer["value"](normed if before is None else before)
        found = attention(layer["query"](normed), layer["key"](normed), values, dilation)
        return layer["out"](
            z + math.exp(-_FADE * max(stage - 1, 0)) * layer["attended"](found.relu())
        )


def attention(query: Any, key: Any, value: Any, width: int) -> Any:
    """Average the values of the ``width`` rows around every row, (1, C, T), weighted by the softmax
    of ⟨query, key⟩ / √C.

    These are the rows t − ⌊width/2⌋, …, t − ⌊width/2⌋ + width − 1 that exist. The cost is
    O(TC (width + 32)): rows are cut into blocks, and each block looks at its own rows and those
    next to it.
    """
    import torch
    from torch.nn.functional import pad

    C, T = query.shape[1:]
    block, left = max(width, _BLOCK), width // 2
    n, reach = -(-T // block), block + width - 1
    right = n * block - T
    Q = pad(query[0], (0, right)).reshape(C, n, block).permute(1, 2, 0)
    K, V = (
        pad(part[0], (left, right + width - 1 - left)).unfold(1, reach, block).permute(1, 2, 0)
        for part in (key, value)
    )
    i, j = torch.arange(block)[:, None], torch.arange(reach)
    t = torch.arange(n)[:, None, None] * block + j - left  # the row of each key
    seen = (j >= i) & (j < i + width) & (t >= 0) & (t < T)
    weights = (Q @ K.mT / math.sqrt(C)).masked_fill(~seen, _FAR).softmax(dim=-1)
    return (weights @ V).reshape(n * block, -1)[:T].T[None]
