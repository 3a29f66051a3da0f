"""Epochs of AdamW on the structured hinge of an encoder, which can be killed and resumed."""

from __future__ import annotations

import copy
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from metriclearn.encoders.augmentations import Recording
from metriclearn.encoders.hinge import StructuredHingeLoss
from metriclearn.running.atomic import Checkpoint
from metriclearn.running.callbacks import Progress, ProgressBar

if TYPE_CHECKING:
    from metriclearn.encoders.learner import EncoderMetricLearner

_WARM_UP = 0.15  # share of all steps in which the learning rate rises; then it falls like a cosine
_LARGEST_GRADIENT = 1.0  # norm: one recording with a long error must not undo an epoch


class Training:
    """Epochs of AdamW on the hinge, with everything that a checkpoint needs.

    Every epoch draws random numbers from the seed and its number, so no generator state has to be
    saved.
    """

    def __init__(
        self, learner: EncoderMetricLearner, recordings: list[Recording], held: list[Recording]
    ) -> None:
        self.learner, self.recordings, self.held = learner, recordings, held
        self.seed = int(check_random_state(learner.random_state).randint(2**31 - 1))
        names = ("n_segments", "min_size", "loss_scale", "n_jobs")
        with seeded(self.seed):
            self.network = learner.make_network()
        self._standardize()
        options = {name: getattr(learner, name) for name in names}
        options["n_clusters"] = options.pop("n_segments")
        self.loss = StructuredHingeLoss(**options).to(learner.device)
        fast: Any = {"params": list(self.loss.parameters()), "weight_decay": 0.0}
        self.rates = [learner.learning_rate, learner.penalty_learning_rate]
        self.optimizer = torch.optim.AdamW(
            [{"params": list(self.network.parameters())}, fast], weight_decay=learner.weight_decay
        )
        self.history = {name: np.zeros(0) for name in ("hinge", "penalty", "validation")}
        self.best, self.best_epoch = self.network.state_dict(), 0

    def run(self) -> nn.Module:
        """The network with the weights that are kept."""
        learner, n_epochs = self.learner, self.learner.n_epochs
        checkpoint = self._checkpoint()
        epoch = self._resume(checkpoint.load()) if checkpoint else 0
        with closing(ProgressBar(type(learner).__name__, learner.verbose)) as bar:
            watchers = [*learner.callbacks] + ([bar] if learner.verbose is not False else [])
            while epoch < n_epochs and not self._is_over(epoch):
                with seeded(self.seed + 1 + epoch):
                    hinge = self._epoch(epoch)
                epoch += 1
                self._record(epoch, hinge)
                if checkpoint:
                    checkpoint.save(self._state(epoch))
                progress = self._progress(epoch)
                if any([watcher.on_round(progress) for watcher in watchers]):
                    break
        self.network.load_state_dict(self.best)
        for watcher in learner.callbacks:
            watcher.on_end(None)
        return self.network.eval()

    def _standardize(self) -> None:
        """Means and deviations of all training samples; constant columns keep their unit."""
        first: Any = self.network[0]  # type: ignore[index]
        arrays = [recording.X for recording in self.recordings]
        count = sum(map(len, arrays))
        mean = sum(X.sum(axis=0) for X in arrays) / count
        deviation = np.sqrt(sum(((X - mean) ** 2).sum(axis=0) for X in arrays) / count)
        deviation[deviation <= 1e-12 * np.abs(mean)] = 0.0
        far = np.flatnonzero((deviation > 0) & (deviation < 1e-5 * np.abs(mean)))
        if len(far):
            raise ValueError(
                f"{type(self.learner).__name__} computes in single precision, and needs columns "
                f"whose mean is at most 100 000 times their deviation, got a mean of "
                f"{mean[far[0]]:.3g} and a deviation of {deviation[far[0]]:.3g} in column {far[0]};"
                " subtract the mean."
            )
        first.mean.copy_(torch.as_tensor(mean))
        first.scale.copy_(torch.as_tensor(np.where(deviation > 0, deviation, 1.0)))

    def _epoch(self, epoch: int) -> float:
        """One pass over the recordings in random order; the mean hinge met on the way."""
        learner, total = self.learner, 0.0
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self.recordings))
        starts = range(0, len(order), learner.batch_size)
        self.network.train()
        for step, start in enumerate(starts):
            batch: Any = [self.recordings[i] for i in order[start : start + learner.batch_size]]
            for augmentation in learner.augmentations:
                batch = augmentation(batch, random)
            outputs = [features(self.network, r.X, learner.device) for r in batch]
            hinge = self.loss(outputs, [r.truth for r in batch])
            if not any(Z.requires_grad for Z in outputs):
                raise ValueError(
                    f"{type(learner).__name__} needs an encoder with weights that its outputs have "
                    "slopes in, got outputs without (detached, or of frozen layers only); learn "
                    "from features that stay as they are by ChangePointMetricLearner."
                )
            progress = (epoch + (step + 1) / len(starts)) / learner.n_epochs
            for group, rate in zip(self.optimizer.param_groups, self.rates):
                group["lr"] = rate * _warm_up_and_cosine(progress)
            self.optimizer.zero_grad()
            hinge.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), _LARGEST_GRADIENT)
            self.optimizer.step()
            total += hinge.item() * len(batch)
        return total / len(order)

    def _record(self, epoch: int, hinge: float) -> None:
        """Extend the history, and keep the weights where they are the best so far."""
        loss = np.nan
        if self.held:
            loss = -self._snapshot().score(*map(list, zip(*self.held)))
        earlier = self.history["validation"]
        row = {"hinge": hinge, "penalty": float(self.loss.penalty.detach()), "validation": loss}
        self.history = {name: np.append(self.history[name], row[name]) for name in self.history}
        if not self.held or not len(earlier) or loss < earlier.min():
            self.best = copy.deepcopy(self.network.state_dict())
            self.best_epoch = epoch

    def _is_over(self, epoch: int) -> bool:
        return bool(self.held) and epoch - self.best_epoch >= self.learner.patience

    def _snapshot(self) -> EncoderMetricLearner:
        """A learner with the network of the moment, B = I and the penalty of the hinge."""
        learner = copy.copy(self.learner)
        learner.keep_network(self.network)
        X = self.recordings[0].X[: max(2, self.learner.min_size)]
        width = learner.encode([X])[0].shape[1]
        learner.components_ = np.eye(width)
        known = learner.n_segments == "given"
        learner.penalty_ = None if known else float(self.loss.penalty.detach())
        return learner

    def _progress(self, epoch: int) -> Progress:
        """What callbacks see: hinges are never negative, and the first epoch's is the scale."""
        objective, first = self.history["hinge"][-1], self.history["hinge"][0]
        penalty = self.history["penalty"][-1:]
        share = objective / first if first > 0 else 0.0
        return Progress(epoch, objective, 0.0, share, penalty, estimator=self._snapshot)

    def _checkpoint(self) -> Checkpoint | None:
        """The checkpoint of this training, identified by data, labels, settings and weights."""
        learner = self.learner
        if learner.checkpoint is None:
            return None
        digest = hashlib.sha256()
        for X, truth in [*self.recordings, *self.held]:
            digest.update(np.ascontiguousarray(X).tobytes())
            digest.update(truth.labels.tobytes())
            digest.update(repr(getattr(truth, "constraints", "")).encode())  # of partial labels
        digest.update(packed(self.network).tobytes())
        names = ("n_segments", "min_size", "loss_scale", "patience", "augmentations")
        words = repr([self.network, *(getattr(learner, name) for name in names)])
        digest.update(re.sub(" at 0x[0-9a-f]+", "", words).encode())  # of functions, by chance
        settings = (learner.batch_size, learner.n_epochs, learner.weight_decay, *self.rates)
        identity = np.frombuffer(digest.digest(), dtype=np.uint8)
        return Checkpoint(os.fspath(learner.checkpoint), type(learner).__name__, identity, settings)

    def _state(self, epoch: int) -> dict[str, Any]:
        """All that decides what follows, as arrays."""
        state: dict[str, Any] = {"epoch": epoch, "best_epoch": self.best_epoch}
        state |= {f"history.{name}": values for name, values in self.history.items()}
        for part, tensors in self._parts().items():
            state |= {f"{part}.{name}": tensor.cpu().numpy() for name, tensor in tensors.items()}
        for i, moments in self.optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{i}.{k}": v.cpu().numpy() for k, v in moments.items()}
        return state

    def _parts(self) -> dict[str, Mapping[str, Tensor]]:
        return {
            "network": self.network.state_dict(),
            "loss": self.loss.state_dict(),
            "best": self.best,
        }

    def _resume(self, state: dict[str, NDArray]) -> int:
        """Go back to a saved state; how many epochs it has seen."""
        if not state:
            return 0
        tensors: dict[str, dict[str, Any]] = {}
        for name, array in state.items():
            part, _, rest = name.partition(".")
            tensors.setdefault(part, {})[rest] = array
        as_tensors = {
            part: {name: torch.as_tensor(array) for name, array in tensors[part].items()}
            for part in ("network", "loss", "best", "optimizer")
        }
        self.network.load_state_dict(as_tensors["network"])
        self.loss.load_state_dict(as_tensors["loss"])
        self.best = as_tensors["best"]
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in as_tensors["optimizer"].items():
            i, _, moment = name.partition(".")
            moments.setdefault(int(i), {})[moment] = tensor
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
        self.history, self.best_epoch = tensors["history"], int(state["best_epoch"])
        return int(state["epoch"])


def features(network: nn.Module, X: NDArray, device: str) -> Tensor:
    """The outputs (T, r) for one recording, checked."""
    given = torch.as_tensor(np.ascontiguousarray(X), dtype=torch.float32, device=device)[None]
    outputs = network(given)
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else ()
    if len(shape) != 3 or shape[:2] != (1, len(X)):
        raise ValueError(
            "EncoderMetricLearner needs an encoder from (N, T, P) to (N, T, r), got one from "
            f"{tuple(given.shape)} to {shape}."
        )
    if not torch.isfinite(outputs).all():
        raise ValueError(
            "EncoderMetricLearner needs finite outputs of its encoder, got NaN or infinity; lower "
            "learning_rate, or change the unit of the data."
        )
    return outputs[0]


def packed(network: nn.Module) -> NDArray[np.uint8]:
    """All weights in the format of safetensors."""
    from safetensors.torch import save

    # copies: safetensors refuses weights that layers share
    form = torch.contiguous_format
    tensors = {k: v.cpu().clone(memory_format=form) for k, v in network.state_dict().items()}
    return np.frombuffer(save(tensors), dtype=np.uint8)


def _warm_up_and_cosine(progress: float) -> float:
    """The factor of the learning rate: a line up to 1, then half a cosine down to 0."""
    if progress < _WARM_UP:
        return progress / _WARM_UP
    return 0.5 * (1.0 + float(np.cos(np.pi * (progress - _WARM_UP) / (1.0 - _WARM_UP))))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's random numbers from a seed; afterwards the old state is restored."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
