"""Train a network that predicts the names of rows in stages, with early stopping over groups."""

from __future__ import annotations

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


@dataclass(eq=False, repr=False)
class RowNetwork(RowNames, ABC):
    """Base of networks of several stages, each of which predicts the names of all rows.

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

    @abstractmethod
    def network(self, n_features: int, n_classes: int) -> Any:
        """Make a network with random weights."""

    @abstractmethod
    def outputs(self, network: Any, x: Any) -> list[Any]:
        """Compute the scores of the names after every stage, each (1, C, T), of rows (1, P, T)."""

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
