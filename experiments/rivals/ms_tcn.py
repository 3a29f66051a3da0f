"""MS-TCN: predict the names of rows by temporal convolutions, in stages that refine each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupShuffleSplit
from sklearn.preprocessing import StandardScaler

from experiments.rivals.windows import Arrays, RowNames

_SMOOTHING, _LARGEST = 0.15, 16.0  # weight of the smoothing loss, and where it is cut off


@dataclass(eq=False, repr=False)
class MultiStageNetwork(RowNames):
    """A standard multi-stage temporal convolutional network, with early stopping.

    Every stage has ``n_layers`` residual layers of dilation 1, 2, 4, …. The loss of a stage is the
    cross entropy plus 0.15 times the truncated squared difference of the log-probabilities of
    neighbors. A fifth of the groups, but at least one, is held out. The weights of the round with
    the least loss on these groups are kept.

    Parameters
    ----------
    width : int
        Number of channels. With the defaults there are about 30,000 weights, as in an encoder.
    n_stages, n_layers : int
    n_rounds : int
        Largest number of passes over the recordings.
    patience : int
        Rounds without gain before training stops.
    random_state : int

    References
    ----------
    Abu Farha & Gall, MS-TCN: multi-stage temporal convolutional network for action segmentation,
    CVPR 2019.
    """

    width: int = 32
    n_stages: int = 2
    n_layers: int = 6
    n_rounds: int = 60
    patience: int = 8
    random_state: int = 0

    def fit(self, X: Arrays, y: Arrays, groups: ArrayLike | None = None) -> Self:
        """Train by Adam, one recording at a time."""
        import torch

        torch.manual_seed(self.random_state)
        self.scaler_ = StandardScaler().fit(np.vstack(X))
        self.classes_ = np.unique(np.concatenate(y))
        units = np.arange(len(X)) if groups is None else np.asarray(groups)
        held_out: list[int] = []
        train = list(range(len(X)))
        if len(np.unique(units)) > 1:
            cutter = GroupShuffleSplit(1, test_size=0.2, random_state=self.random_state)
            train, held_out = (part.tolist() for part in next(cutter.split(X, groups=units)))
        inputs = [self._input(x) for x in X]
        codes = [torch.from_numpy(np.searchsorted(self.classes_, labels)) for labels in y]
        self.stages_ = _stages(
            X[0].shape[1], len(self.classes_), self.width, self.n_stages, self.n_layers
        )
        optimizer = torch.optim.Adam(self.stages_.parameters(), lr=2e-3)
        order = np.random.default_rng(self.random_state)
        least, kept, waited = np.inf, None, 0
        for _ in range(self.n_rounds):
            self.stages_.train()
            for i in order.permutation(train):
                optimizer.zero_grad()
                _loss(_outputs(self.stages_, inputs[i]), codes[i]).backward()
                optimizer.step()
            self.stages_.eval()
            with torch.no_grad():
                losses = [
                    float(_loss(_outputs(self.stages_, inputs[i]), codes[i]))
                    for i in held_out or train
                ]
            waited += 1
            if np.mean(losses) < least:
                least, waited = float(np.mean(losses)), 0
                kept = {k: v.clone() for k, v in self.stages_.state_dict().items()}
            if waited > self.patience:
                break
        if kept is not None:
            self.stages_.load_state_dict(kept)
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the most probable name of every row by the last stage."""
        import torch

        with torch.no_grad():
            codes = [_outputs(self.stages_, self._input(x))[-1][0].argmax(dim=0) for x in X]
        return [self.classes_[code.numpy()] for code in codes]

    def _input(self, x: NDArray) -> Any:
        import torch

        return torch.from_numpy(self.scaler_.transform(x).T[None].astype(np.float32))


def _stages(n_features: int, n_classes: int, width: int, n_stages: int, n_layers: int) -> Any:
    """Make a list of stages, each of a first convolution, residual layers and a last
    convolution."""
    from torch import nn

    def stage(n_inputs: int) -> Any:
        layers = [
            nn.Sequential(
                nn.Conv1d(width, width, 3, padding=2**i, dilation=2**i),
                nn.ReLU(),
                nn.Conv1d(width, width, 1),
                nn.Dropout(0.3),
            )
            for i in range(n_layers)
        ]
        ends = nn.Conv1d(n_inputs, width, 1), nn.Conv1d(width, n_classes, 1)
        return nn.ModuleList([ends[0], nn.ModuleList(layers), ends[1]])

    return nn.ModuleList([stage(n_features), *(stage(n_classes) for _ in range(n_stages - 1))])


def _outputs(stages: Any, x: Any) -> list[Any]:
    """Compute the scores of the names after every stage, each (1, C, T)."""
    outputs: list[Any] = []
    for first, layers, last in stages:
        h = first(outputs[-1].softmax(dim=1) if outputs else x)
        for layer in layers:
            h = h + layer(h)
        outputs.append(last(h))
    return outputs


def _loss(outputs: Sequence[Any], codes: Any) -> Any:
    from torch.nn.functional import cross_entropy

    total: Any = 0.0
    for scores in outputs:
        logs = scores[0].log_softmax(dim=0)
        steps = (logs[:, 1:] - logs[:, :-1].detach()) ** 2
        total = total + cross_entropy(logs.T, codes)
        total = total + _SMOOTHING * steps.clamp(max=_LARGEST).mean()
    return total
