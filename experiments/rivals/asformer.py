"""ASFormer: predict the names of rows by attention in windows that grow from layer to layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from experiments.rivals.row_networks import RowNetwork

_BLOCK = 32  # rows at least, whose attention is one product of matrices
_FAR = -1e9  # score of a key outside the window
_FADE = 3.0  # attention of the k-th decoder, k = 0, 1, …, weighs exp(−3k)


@dataclass(eq=False, repr=False)
class SegmentationTransformer(RowNetwork):
    """A transformer for action segmentation: an encoder, and decoders that refine its names.

    Layer i = 0, 1, … of each of them convolves the rows with dilation 2^i. It then adds what every
    row finds in the 2^i rows around it, by attention in one head of half as many channels. The
    keys and queries of a decoder come from its own rows, and the values from the stage before it.
    The cost is linear in the number of rows. Training is that of
    :class:`~experiments.rivals.row_networks.RowNetwork`.

    Decoders, dropout, the share of dropped channels and decay are those of the authors. Their
    networks have 64 channels and 10 layers, for thousands of frames with 2048 features. The
    defaults have as many channels and layers as our MS-TCN, and about 155,000 weights. A learning
    rate of 5e-4, as the authors have it, is too small for a few recordings: of eight settings, this
    one was chosen by folds of recordings of routines, gestures and keys, some of which are tested
    elsewhere, see ``configs/methods/networks.yaml``.

    Parameters
    ----------
    width : int
        Number of channels.
    n_decoders, n_layers : int
    dropped : float
        Share of the input channels that is left out at each step of training.
    n_rounds, patience, random_state, learning_rate, decay
        As for ``RowNetwork``.

    References
    ----------
    Yi, Wen & Jiang, ASFormer: transformer for action segmentation, BMVC 2021.
    """

    learning_rate: float = 1e-3
    decay: float = 1e-5
    width: int = 32
    n_decoders: int = 3
    n_layers: int = 6
    dropped: float = 0.3

    def network(self, n_features: int, n_classes: int) -> Any:
        """Make a list of stages: the encoder, then the decoders."""
        from torch import nn

        width, half = self.width, self.width // 2

        def layer(dilation: int) -> Any:
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

        def stage(n_inputs: int, first: Any) -> Any:
            layers = nn.ModuleList([layer(2**i) for i in range(self.n_layers)])
            first = nn.Sequential(*first, nn.Conv1d(n_inputs, width, 1))
            return nn.ModuleList([first, layers, nn.Conv1d(width, n_classes, 1)])

        encoder = stage(n_features, [nn.Dropout1d(self.dropped)])
        decoders = (stage(n_classes, []) for _ in range(self.n_decoders))
        return nn.ModuleList([encoder, *decoders])

    def outputs(self, network: Any, x: Any) -> list[Any]:
        """Compute the scores of the names after every stage, each (1, C, T), of rows (1, P, T)."""
        outputs: list[Any] = []
        before: Any = None
        for k, (first, layers, last) in enumerate(network):
            h = first(outputs[-1].softmax(dim=1) if outputs else x)
            weight = math.exp(-_FADE * max(k - 1, 0))
            for i, layer in enumerate(layers):
                z = layer["convolution"](h).relu()
                # the norm of a single row is that row's mean, 0
                normed = layer["norm"](z) if z.shape[-1] > 1 else z * 0
                values = layer["value"](normed if before is None else before)
                found = attention(layer["query"](normed), layer["key"](normed), values, 2**i)
                h = h + layer["out"](z + weight * layer["attended"](found.relu()))
            outputs.append(last(h))
            before = h
        return outputs


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
