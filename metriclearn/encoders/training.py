"""Train an encoder by epochs of AdamW on the structured hinge.

Training that was interrupted can be resumed from a checkpoint.
"""

from __future__ import annotations

import copy
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from math import prod
from operator import attrgetter
from threading import RLock
from typing import Any

import joblib
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from metriclearn.encoders.augmentations import Recording
from metriclearn.encoders.hinge import NamedProducts, StructuredHingeLoss
from metriclearn.encoders.networks import Ensemble
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.scores.name_weights import NameWeights
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.running.atomic import Checkpoint
from metriclearn.running.callbacks import Progress, ProgressBar

_WARM_UP = 0.15  # share of all steps in which the learning rate rises; then it falls like a cosine
_LARGEST_GRADIENT = 1.0  # norm: the large error of one recording must not undo an epoch
_ONE_AT_A_TIME = RLock()
_FORMAT = 3  # raised when checkpoints change


def _new_lock() -> None:
    """Replace the lock in a forked process, because no thread there would release the old one."""
    global _ONE_AT_A_TIME
    _ONE_AT_A_TIME = RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_new_lock)


class Training:
    """Train a network by epochs of AdamW on the hinge, and save checkpoints.

    The random numbers of an epoch depend only on the seed and on the number of the epoch. So a
    checkpoint need not contain the state of a random generator.

    Parameters
    ----------
    settings : Encoder
        The view whose parameters are used.
    network : nn.Module
        The untrained network, with a standardization of its inputs.
    seed : int
        Seed of all random numbers.
    recordings : list of Recording
        The recordings to train on.
    held : list of Recording
        The held-out recordings, whose loss determines the best epoch. The list may be empty.
    names : NamedProducts, optional
        The form of the outputs if labels are names. A linear layer after the network then scores
        the names.
    classes : array (C,), optional
        The names, in the order of their numbers.
    """

    def __init__(
        self,
        settings: Any,
        network: nn.Module,
        seed: int,
        recordings: list[Recording],
        held: list[Recording],
        names: NamedProducts | None = None,
        classes: NDArray | None = None,
    ) -> None:
        self.settings, self.network, self.seed = settings, network, seed
        self.recordings, self.held, self.classes = recordings, held, classes
        self.data = [*recordings, *held]
        with torch.device("cpu"):  # torch's default device may be another
            self.loss = StructuredHingeLoss(
                loss_scale=settings.loss_scale,
                n_clusters=settings.n_segments,
                min_size=settings.min_size,
                forms=names,
                n_jobs=settings.n_jobs,
            )
        self.loss.to(settings.device, torch.float32)
        self.n_outputs = encoded(network, [recordings[0].X], settings.device)[0].shape[1]
        self.head: nn.Module = nn.Identity()
        if names is not None:
            with seeded(seed):  # a layer draws random weights before they are set to 0
                head = ScoresOfNames(self.n_outputs, names.n_names)
            self.head = head.to(settings.device, torch.float32)
        fast: Any = {"params": list(self.loss.parameters()), "weight_decay": 0.0}
        self.rates = [settings.learning_rate, settings.penalty_learning_rate]
        self.optimizer = torch.optim.AdamW(
            [{"params": [*network.parameters(), *self.head.parameters()]}, fast],
            weight_decay=settings.weight_decay,
        )
        self.parts: Any = (network, self.head, self.loss, self.optimizer)
        self.history = dict.fromkeys(("hinge", "penalty", "validation"), np.zeros(0))
        self.best, self.best_epoch = network.state_dict(), 0

    def run(self) -> nn.Module:
        """Train the network, and return it with the weights of the best epoch."""
        settings, epoch = self.settings, 0
        checkpoint = None if settings.checkpoint is None else self._checkpoint()
        if checkpoint:
            epoch = self._resume(checkpoint.load())
        watchers = list(settings.callbacks)
        with ExitStack() as stack:
            if settings.verbose is not False:
                bar = ProgressBar(type(settings).__name__, settings.verbose)
                watchers.append(stack.enter_context(closing(bar)))
            while epoch < settings.n_epochs:
                if self.held and epoch - self.best_epoch >= settings.patience:
                    break
                with seeded(self.seed + 1 + epoch, settings.device):
                    hinge = self._epoch(epoch)
                epoch += 1
                loss, earlier = np.nan, self.history["validation"]
                if self.held:
                    loss = -self._snapshot().score(*map(list, zip(*self.held)))
                penalty = float(self.loss.penalty.detach())
                row = {"hinge": hinge, "penalty": penalty, "validation": loss}
                for name, value in row.items():
                    self.history[name] = np.append(self.history[name], value)
                if not self.held or not len(earlier) or loss < earlier.min():
                    self.best = copy.deepcopy(self.network.state_dict())
                    self.best_epoch = epoch
                if checkpoint:
                    checkpoint.save(self._state(epoch))
                # hinges are never negative, and the first epoch has the scale of all
                scale, w = self.history["hinge"][0] or 1.0, self.history["penalty"][-1:]
                progress = Progress(epoch, hinge, 0.0, scale, w, estimator=self._snapshot)
                if any([watcher.on_round(progress) for watcher in watchers]):
                    break
        self.network.load_state_dict(self.best)
        for watcher in settings.callbacks:
            watcher.on_end(None)
        return self.network.eval()

    def _epoch(self, epoch: int) -> float:
        """Pass once over the recordings in random order, and return their mean hinge."""
        settings, total = self.settings, 0.0
        random = np.random.default_rng([self.seed, epoch])
        order = random.permutation(len(self.recordings))
        starts = range(0, len(order), settings.batch_size)
        self.network.train()
        for step, start in enumerate(starts):
            batch: Any = [self.recordings[i] for i in order[start : start + settings.batch_size]]
            for augmentation in settings.augmentations:
                batch = augmentation(batch, random)
            outputs = [outputs_of(self.network, X, settings.device) for X, _ in batch]
            hinge = self.loss(list(map(self.head, outputs)), [truth for _, truth in batch])
            if not any(map(attrgetter("requires_grad"), outputs)):
                raise ValueError(
                    f"{type(settings).__name__} needs a network with weights to train, got outputs "
                    "without gradients (detached, or from frozen layers only); pass such features "
                    "to a learner without this view."
                )
            # The factor of the learning rate: a line up to 1, then half a cosine down to 0.
            progress = (epoch + (step + 1) / len(starts)) / settings.n_epochs
            angle = np.pi * (progress - _WARM_UP) / (1.0 - _WARM_UP)
            factor = progress / _WARM_UP if angle < 0 else 0.5 * (1.0 + float(np.cos(angle)))
            for group, rate in zip(self.optimizer.param_groups, self.rates):
                group["lr"] = rate * factor
            self.optimizer.zero_grad()
            hinge.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), _LARGEST_GRADIENT)
            self.optimizer.step()
            total += hinge.item() * len(batch)
        return total / len(order)

    def _snapshot(self) -> Any:
        """Return a learner with the current network and penalty, and the metric B = I."""
        view, names = copy.copy(self.settings), None
        view.kept_ = self.network
        if isinstance(self.head, ScoresOfNames):
            assert self.classes is not None
            averaged = [m for m in self.network.modules() if isinstance(m, Ensemble)]
            scale = prod(len(m.encoders) for m in averaged) ** -0.5  # their outputs are summed
            names = self.head.weights(self.classes, scale)
        learner: Any = ChangePointMetricLearner(n_segments=view.n_segments, min_size=view.min_size)
        learner.n_features_in_ = view.n_features_in_
        given = view.n_segments == "given"
        penalty = None if given else float(self.loss.penalty.detach())
        return learner.with_score(
            SegmentScore(np.eye(self.n_outputs), penalty, names=names, view=view)
        )

    def _checkpoint(self) -> Checkpoint:
        """Return the checkpoint, identified by the data, labels, settings and initial weights."""
        settings = self.settings
        words = [repr(getattr(truth, "constraints", "")) for _, truth in self.data]
        names = ("n_segments", "min_size", "loss_scale", "patience", "augmentations")
        others = (self.seed, len(self.held), vars(self.loss.forms))
        given = [self.network, self.head, others, *(getattr(settings, name) for name in names)]
        words += map(repr, given)
        arrays = [
            np.ascontiguousarray(part)
            for X, truth in self.data
            for part in (X, truth.labels, getattr(truth, "names", ()))
        ]
        # addresses in memory change from run to run
        text = re.sub(" at 0x[0-9a-f]+", "", "".join(words))
        identity = joblib.hash([_FORMAT, arrays, packed(self.network), text])
        numbers = (settings.batch_size, settings.n_epochs, settings.weight_decay, *self.rates)
        return Checkpoint(
            os.fspath(settings.checkpoint), type(settings).__name__, [*identity.encode()], numbers
        )

    def _state(self, epoch: int) -> dict[str, Any]:
        """Return all arrays that a checkpoint needs to resume after this epoch."""
        stream = io.BytesIO()
        torch.save([part.state_dict() for part in self.parts] + [self.best], stream)
        tensors = np.frombuffer(stream.getvalue(), dtype=np.uint8)
        return {"epoch": epoch, "best_epoch": self.best_epoch, "tensors": tensors, **self.history}

    def _resume(self, state: dict[str, NDArray]) -> int:
        """Restore a saved state, and return the number of epochs it has completed."""
        if not state:
            return 0
        stream = io.BytesIO(state["tensors"].tobytes())
        # on the processor, as this machine may lack the device; load_state_dict moves them
        *states, self.best = torch.load(stream, map_location="cpu", weights_only=True)
        for part, saved in zip(self.parts, states):
            part.load_state_dict(saved)
        self.history = {name: state[name] for name in self.history}
        self.best_epoch = int(state["best_epoch"])
        return int(state["epoch"])


class ScoresOfNames(nn.Linear):
    """Layer that appends a linear score for each of C names to the outputs (T, r).

    The result has the shape (T, r + C). Before training, all scores are 0.

    Parameters
    ----------
    n_outputs, n_names : int
        The numbers r and C.
    """

    def __init__(self, n_outputs: int, n_names: int) -> None:
        super().__init__(n_outputs, n_names)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, outputs: Tensor) -> Tensor:
        """Return an array (T, r + C): the outputs, followed by the scores."""
        return torch.cat([outputs, super().forward(outputs.to(self.weight.dtype))], dim=1)

    def weights(self, classes: NDArray, scale: float = 1.0) -> NameWeights:
        """Convert the layer to the NameWeights that segmenters use.

        The weights are multiplied by ``scale``. This factor differs from 1 if the network has an
        Ensemble.
        """
        parts = (scale * self.weight, self.bias[:, None])
        coef = torch.cat(parts, dim=1).detach().cpu().double().numpy()
        return NameWeights(None, classes, coef.shape[1], coef)


def outputs_of(network: nn.Module, X: NDArray, device: str) -> Tensor:
    """Compute the outputs (T, r) of a network for one recording, and check them."""
    given = torch.as_tensor(np.ascontiguousarray(X), dtype=torch.float32, device=device)[None]
    with torch.device(device):  # for tensors that a user's module makes
        outputs = network(given)
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else ()
    if len(shape) != 3 or shape[:2] != (1, len(X)):
        raise ValueError(
            "Encoder needs a network from (N, T, P) to (N, T, r), got one from "
            f"{tuple(given.shape)} to {shape}."
        )
    if not torch.isfinite(outputs).all():
        raise ValueError(
            "Encoder needs finite outputs of its network, got NaN or infinity; lower the "
            "learning_rate, or change the unit of the data."
        )
    return outputs[0]


@torch.no_grad()
def encoded(network: nn.Module, arrays: Sequence[Any], device: str) -> list[NDArray[np.float64]]:
    """Compute the outputs (T, r) of a network for every recording, without dropout."""
    network.eval()
    return [outputs_of(network, X, device).cpu().double().numpy() for X in arrays]


def packed(network: nn.Module) -> NDArray[np.uint8]:
    """Serialize all weights of a network in the format of safetensors, as an array of bytes."""
    from safetensors.torch import save

    # copies: safetensors refuses weights that layers share
    form = torch.contiguous_format
    tensors = {k: v.cpu().clone(memory_format=form) for k, v in network.state_dict().items()}
    return np.frombuffer(save(tensors), dtype=np.uint8)


@contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """Context in which torch is seeded, computes gradients and uses single precision by default.

    At the end, the previous state of torch is restored. Only one thread at a time can be in this
    context, because all threads share the state of torch. If the device is "cpu", the random
    generators of the GPUs are not touched, because a forked process cannot use them. Initial
    weights are drawn on the CPU, whatever the default device of torch is.
    """
    alone = device == "cpu"
    draws = torch.random.fork_rng([] if alone else None)
    with _ONE_AT_A_TIME, draws, torch.enable_grad(), torch.device("cpu"):
        kind = torch.get_default_dtype()
        (torch.default_generator if alone else torch).manual_seed(seed)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(kind)
