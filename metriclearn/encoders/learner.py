"""EncoderMetricLearner: features, a metric of them and a price, from segmented recordings."""

from __future__ import annotations

import copy
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import Tensor, nn

from metriclearn.encoders.augmentations import JoinedStretches, Recording
from metriclearn.encoders.hinge import StructuredHingeLoss
from metriclearn.encoders.networks import Standardization, WindowEncoder
from metriclearn.estimators.change_points import ChangePointMetricLearner
from metriclearn.estimators.inputs import DataSets, check_features, read_data_sets
from metriclearn.estimators.segmenter import MahalanobisSegmenter
from metriclearn.oracles.path import best_penalty
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.partition import Partition, label_values
from metriclearn.running.callbacks import Callback, Progress, ProgressBar
from metriclearn.running.checkpoint import Checkpoint
from metriclearn.running.extras import optional
from metriclearn.running.files import replacing
from metriclearn.running.parameters import Needs, component, either, number, several
from metriclearn.solvers.mahalanobis import FullMetric
from metriclearn.solvers.regularizers import SquaredFrobenius

_WARM_UP = 0.15  # share of all steps in which the learning rate rises; then it falls like a cosine
_LARGEST_GRADIENT = 1.0  # norm: one recording with a long error must not undo an epoch


@dataclass(eq=False, repr=False)
class EncoderMetricLearner(MahalanobisSegmenter):
    """Learn features f_θ, a metric of them and the price of a segment from segmented recordings.

    The hinge of :class:`StructuredHingeLoss` is minimized over θ and λ by AdamW, with exact
    loss-augmented inference; then the last layer, a metric B of f_θ(X) and λ, is learned again as
    the convex problem that it is, so that every model has a certificate for both in ``solution_``.
    Recordings may have any lengths; the encoder sees each as a whole. ``transform`` returns
    f_θ(X)L; whatever else the linear learners predict is predicted from it.

    Parameters
    ----------
    encoder : callable (n_features) -> nn.Module, or nn.Module
        From (N, T, P) to (N, T, r): a class such as ``WindowEncoder``, or a ``functools.partial``
        of one, which is made anew in every fit and can be saved; a module that is there already
        is copied, and its weights are where training begins.
    last_layer : ChangePointMetricLearner
        Learns B and λ on f_θ(X); by default a full metric, regularized towards the identity, for
        which the encoder was trained: outputs fit the training recordings better than others, and
        a free metric would make more of that.
    n_segments : None or "given"
        Whether inference knows the number of segments, in training from the labels.
    min_size : int
        Smallest number of samples in a segment.
    loss_scale : float
        α, see :class:`StructuredHingeLoss`.
    retune : bool
        Whether the price is the one of least loss on the training recordings, found exactly, in
        place of that of the convex problem. Only where all labels are known.
    n_epochs, batch_size : int
        Passes over the recordings, and recordings in a step.
    learning_rate, price_learning_rate, weight_decay : float
        Of AdamW at their largest, for θ and for log λ, which does not decay.
    augmentations : sequence of callables (recordings, random) -> recordings
        Applied to every batch in turn, see :mod:`metriclearn.encoders.augmentations`.
    validation : float
        Share of the groups that is held out of the epochs; the epoch with the least loss on them is
        kept. 0: none, and the last epoch is kept. The last layer learns from all.
    patience : int
        Epochs without improvement there after which training stops.
    checkpoint : path, optional
        File that holds the state after every epoch, from which the same call goes on.
    callbacks : sequence of callbacks
        As for linear learners; a round is an epoch and the objective the mean hinge.
    device : str
        Where the network is, such as "cuda"; inference runs on the processor.
    n_jobs : int, optional
        Threads of inference over recordings, as in joblib.
    random_state : int, RandomState or None
        Of first weights, order, dropout and augmentations.
    verbose : bool, optional
        Progress bar at once (True), never (False), or in a terminal when fitting takes long (None).

    Attributes
    ----------
    encoder_ : nn.Module
        Trained, with the standardization of the inputs as its first layer.
    weights_ : uint8 array
        Its weights in the format of safetensors.
    components_ : array (k, r)
        Lᵀ with B = LLᵀ of the last layer.
    penalty_ : float or None
        λ; None after fitting with ``n_segments="given"``.
    solution_ : Solution
        Certificate of the last layer.
    history_ : dict of arrays
        Of every epoch the mean ``hinge``, the ``price`` and the ``validation`` loss (NaN without).
    best_epoch_ : int
        Epochs after which the weights were kept.

    Notes
    -----
    With one thread (``torch.set_num_threads(1)``) the same data, parameters and seed give the same
    weights to the last bit, also through a checkpoint after ``kill -9``.

    Examples
    --------
    >>> from functools import partial
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(4, 60, 5, 2, (3, 4), random_state=0)
    >>> encoder = partial(WindowEncoder, n_outputs=2, width=8)
    >>> learner = EncoderMetricLearner(encoder, n_epochs=2, random_state=0, verbose=False)
    >>> learner.fit(data.sequences, data.labels).transform(data.sequences)[0].shape
    (60, 2)
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {
        "encoder": Needs("{a} {name} such as WindowEncoder or an nn.Module", callable),
        "last_layer": component(ChangePointMetricLearner, "ChangePointMetricLearner()"),
        "n_segments": either(None, "given", remedy="; a number of segments is passed to predict"),
        "min_size": number(1, whole=True),
        "loss_scale": number(1e-50),
        "n_epochs": number(1, whole=True),
        "batch_size": number(1, whole=True),
        "learning_rate": number(positive=True),
        "price_learning_rate": number(positive=True),
        "weight_decay": number(),
        "augmentations": several(
            Needs("an augmentation", callable), "augmentations (recordings, random) -> recordings"
        ),
        "validation": number(0.0, 0.9),
        "patience": number(1, whole=True),
        "callbacks": several(
            component(Callback, "EarlyStopping"), "callbacks with the methods on_round and on_end"
        ),
    }

    # components are never changed in place, see ComponentParameters.set_params
    encoder: Any = WindowEncoder
    last_layer: ChangePointMetricLearner = ChangePointMetricLearner(  # noqa: RUF009
        FullMetric(), SquaredFrobenius(1.0, 1.0), standardize=False
    )
    _: KW_ONLY
    n_segments: str | None = None
    min_size: int = 1
    loss_scale: float = 1.0
    retune: bool = True
    n_epochs: int = 30
    batch_size: int = 4
    learning_rate: float = 2e-3
    price_learning_rate: float = 1e-2
    weight_decay: float = 1e-2
    augmentations: Sequence[Callable[..., Any]] = ()
    validation: float = 0.0
    patience: int = 10
    checkpoint: str | os.PathLike[str] | None = None
    callbacks: Sequence[Callback] = ()
    device: str = "cpu"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: bool | None = None

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Train the encoder, then learn the last layer.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or one
        y : sequence of (T_i,) labels, Partition or PartialPartition, or one
            Every run of equal labels is a segment, −1 is unknown.
        groups : sequence of N labels, optional
            Recordings of one group are held out together; each is its own by default.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        data, truths = self._read_labeled(X, y, segments=True, partial=True)
        if self.batch_size == 1 and any(isinstance(a, JoinedStretches) for a in self.augmentations):
            raise ValueError(
                "EncoderMetricLearner needs a batch_size of at least 2 for JoinedStretches, which "
                "joins recordings of a batch, got 1."
            )
        recordings = list(map(Recording, data.arrays, truths))
        held = self._held_out(len(recordings), groups)
        rest = [i for i in range(len(recordings)) if i not in held]
        training = _Training(self, [recordings[i] for i in rest], [recordings[i] for i in held])
        self._keep(training.run())
        self.history_, self.best_epoch_ = training.history, training.best_epoch
        self.weights_ = _packed(self.encoder_)
        shared = ("n_segments", "min_size", "n_jobs", "verbose")
        last = clone(self.last_layer).set_params(**{name: getattr(self, name) for name in shared})
        outputs = self._outputs(data.arrays)
        last.fit(outputs, truths)
        self.components_, self.penalty_ = last.components_, last.penalty_
        self.solution_ = last.solution_
        known = all(isinstance(truth, Partition) for truth in truths)
        if self.retune and self.penalty_ is not None and known and len(self.components_):
            forms = [LowRankForm(center(Z) @ self.components_.T) for Z in outputs]
            self.penalty_, _ = best_penalty(forms, truths, min_size=self.min_size)
        return self

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder; after loading a model it is made again from its weights."""
        if not hasattr(self, "kept_"):
            from safetensors.torch import load

            network = self._made()
            network.load_state_dict(load(self.weights_.tobytes()))
            self._keep(network)
        return self.kept_

    def pair_distance(self, pairs: ArrayLike) -> NDArray:
        """Refused: an encoder sees samples in their context.

        Raises
        ------
        TypeError
        """
        raise TypeError(
            "EncoderMetricLearner needs whole recordings, for it sees samples in their context; "
            "use Euclidean distances between rows of transform(X)."
        )

    def export_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Write ``transform`` as an ONNX model: input (1, T, P), output (1, T, k), T free.

        The file is replaced only once the new one is complete.

        Raises
        ------
        ImportError
            Where onnxscript is missing.
        """
        optional("onnxscript", "onnx")
        components = torch.as_tensor(self.components_, dtype=torch.float32)
        last = nn.Linear(components.shape[1], len(components), bias=False)
        last.weight = nn.Parameter(components)
        network = nn.Sequential(copy.deepcopy(self.encoder_).cpu(), last).eval()
        example = torch.zeros(1, 64, self.n_features_in_)
        program = torch.onnx.export(
            network,
            (example,),
            input_names=["recording"],
            output_names=["features"],
            dynamic_shapes=({1: torch.export.Dim("T", min=2)},),
            verbose=False,
        )
        assert program is not None
        with replacing(path) as stream:
            stream.write(program.model_proto.SerializeToString())
        return Path(path)

    def _read(self, X: Any) -> DataSets:
        """The outputs of the encoder for data as in fitting."""
        data = check_features(self, read_data_sets(type(self).__name__, X, single_precision=True))
        return replace(data, arrays=self._outputs(data.arrays), feature_names=None)

    def _outputs(self, arrays: Any) -> list[NDArray[np.float64]]:
        """f_θ of every recording, (T, r) each."""
        network = self.encoder_.eval()
        with torch.no_grad():
            return [_features(network, X, self.device).cpu().double().numpy() for X in arrays]

    def _made(self) -> nn.Module:
        """The encoder behind the standardization, untrained."""
        first = Standardization(self.n_features_in_)
        given = isinstance(self.encoder, nn.Module)
        encoder = copy.deepcopy(self.encoder) if given else self.encoder(self.n_features_in_)
        parts = OrderedDict(standardization=first, encoder=encoder)
        return nn.Sequential(parts).to(self.device)

    def _keep(self, network: nn.Module) -> None:
        self.kept_ = network  # is left out of model files, which have ``weights_``

    def _held_out(self, count: int, groups: ArrayLike | None) -> set[int]:
        """Recordings of the groups that validation takes, drawn at random."""
        names = np.arange(count) if groups is None else label_values(groups)  # type: ignore[arg-type]
        if len(names) != count:
            raise ValueError(
                f"EncoderMetricLearner needs one group per recording, got {len(names)} for {count}."
            )
        present = np.unique(names)
        taken = int(np.ceil(self.validation * len(present)))
        if taken >= len(present):
            raise ValueError(
                f"EncoderMetricLearner needs groups to train on beside those of validation="
                f"{self.validation}, got {len(present)}; set validation=0, or pass more."
            )
        chosen = np.random.default_rng(0).permutation(present)[:taken]
        return set(np.flatnonzero(np.isin(names, chosen)).tolist())


class _Training:
    """Epochs of AdamW on the hinge, with everything that a checkpoint needs.

    Every epoch has random numbers of its own, from the seed and its number, so that none of a
    generator's state has to be kept.
    """

    def __init__(
        self, learner: EncoderMetricLearner, recordings: list[Recording], held: list[Recording]
    ) -> None:
        self.learner, self.recordings, self.held = learner, recordings, held
        self.seed = int(check_random_state(learner.random_state).randint(2**31 - 1))
        names = ("n_segments", "min_size", "loss_scale", "n_jobs")
        with seeded(self.seed):
            self.network = learner._made()
        self._standardize()
        options = {name: getattr(learner, name) for name in names}
        options["n_clusters"] = options.pop("n_segments")
        self.loss = StructuredHingeLoss(**options).to(learner.device)
        fast: Any = {"params": list(self.loss.parameters()), "weight_decay": 0.0}
        self.rates = [learner.learning_rate, learner.price_learning_rate]
        self.optimizer = torch.optim.AdamW(
            [{"params": list(self.network.parameters())}, fast], weight_decay=learner.weight_decay
        )
        self.history = {name: np.zeros(0) for name in ("hinge", "price", "validation")}
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
        deviation[deviation <= 1e-12 * np.abs(mean)] = 1.0
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
            outputs = [_features(self.network, r.X, learner.device) for r in batch]
            hinge = self.loss(outputs, [r.truth for r in batch])
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
        row = {"hinge": hinge, "price": float(self.loss.penalty.detach()), "validation": loss}
        self.history = {name: np.append(self.history[name], row[name]) for name in self.history}
        if not self.held or not len(earlier) or loss < earlier.min():
            self.best = copy.deepcopy(self.network.state_dict())
            self.best_epoch = epoch

    def _is_over(self, epoch: int) -> bool:
        return bool(self.held) and epoch - self.best_epoch >= self.learner.patience

    def _snapshot(self) -> EncoderMetricLearner:
        """A learner with the network of the moment, B = I and the price of the hinge."""
        learner = copy.copy(self.learner)
        learner._keep(self.network)
        X = self.recordings[0].X[: max(2, self.learner.min_size)]
        width = learner._outputs([X])[0].shape[1]
        learner.components_ = np.eye(width)
        known = learner.n_segments == "given"
        learner.penalty_ = None if known else float(self.loss.penalty.detach())
        return learner

    def _progress(self, epoch: int) -> Progress:
        """What callbacks see: hinges are never negative, and the first epoch's is the scale."""
        objective, first = self.history["hinge"][-1], self.history["hinge"][0]
        price = self.history["price"][-1:]
        share = objective / first if first > 0 else 0.0
        return Progress(epoch, objective, 0.0, share, price, estimator=self._snapshot)

    def _checkpoint(self) -> Checkpoint | None:
        """The file of this training: of its data, truths, settings and first weights."""
        learner = self.learner
        if learner.checkpoint is None:
            return None
        digest = hashlib.sha256()
        for X, truth in [*self.recordings, *self.held]:
            digest.update(np.ascontiguousarray(X).tobytes())
            digest.update(truth.labels.tobytes())
            digest.update(repr(getattr(truth, "constraints", "")).encode())  # of partial labels
        digest.update(_packed(self.network).tobytes())
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


def _features(network: nn.Module, X: NDArray, device: str) -> Tensor:
    """The outputs (T, r) for one recording, checked."""
    given = torch.as_tensor(np.ascontiguousarray(X), dtype=torch.float32, device=device)[None]
    outputs = network(given)
    shape = tuple(outputs.shape)
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


def _packed(network: nn.Module) -> NDArray[np.uint8]:
    """All weights in the format of safetensors."""
    from safetensors.torch import save

    tensors = {k: v.detach().cpu().contiguous() for k, v in network.state_dict().items()}
    return np.frombuffer(save(tensors), dtype=np.uint8)


def _warm_up_and_cosine(progress: float) -> float:
    """The factor of the learning rate: a line up to 1, then half a cosine down to 0."""
    if progress < _WARM_UP:
        return progress / _WARM_UP
    return 0.5 * (1.0 + float(np.cos(np.pi * (progress - _WARM_UP) / (1.0 - _WARM_UP))))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's random numbers from a seed; afterwards they go on as before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
