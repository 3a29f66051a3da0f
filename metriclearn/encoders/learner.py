"""EncoderMetricLearner: features, a metric of them and a penalty, from segmented recordings."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import nn

from metriclearn.encoders.augmentations import JoinedStretches, Recording
from metriclearn.encoders.networks import Standardization, WindowEncoder
from metriclearn.encoders.training import Training, features, packed
from metriclearn.estimators.inputs import DataSets, check_features, read_data_sets, read_labeled
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.prediction.segmenter import MahalanobisSegmenter
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.partition import Partition
from metriclearn.running.atomic import replacing
from metriclearn.running.callbacks import Callback
from metriclearn.running.extras import optional
from metriclearn.running.parameters import (
    Needs,
    check_parameters,
    component,
    either,
    number,
    several,
    shown,
)
from metriclearn.solvers.mahalanobis import FullMetric
from metriclearn.solvers.regularizers import SquaredFrobenius


@dataclass(eq=False, repr=False)
class EncoderMetricLearner(MahalanobisSegmenter):
    """Learn features f_θ, a metric of them and the penalty of a segment from segmented recordings.

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
        a free metric would make more of that. What both have, as ``loss_scale``, it gets from here.
    n_segments : None or "given"
        Whether inference knows the number of segments, in training from the labels.
    min_size : int
        Smallest number of samples in a segment.
    loss_scale : float
        α, see :class:`StructuredHingeLoss`.
    retune : bool
        Whether the penalty is the one of least loss on the training recordings, found exactly,
        instead of the penalty of the convex problem. Only where all labels are known.
    n_epochs, batch_size : int
        Passes over the recordings, and recordings in a step.
    learning_rate, penalty_learning_rate, weight_decay : float
        Of AdamW at their largest, for θ and for log λ, which does not decay.
    augmentations : sequence of callables (recordings, random) -> recordings
        Applied to every batch in turn, see :mod:`metriclearn.encoders.augmentations`.
    validation : float
        Share of the groups that is held out of the epochs; the epoch with the least loss on them is
        kept. 0: none, and the last epoch is kept. The last layer learns from all.
    patience : int
        Epochs without improvement there after which training stops.
    checkpoint : path, optional
        File that holds the state after every epoch, from which the same call resumes.
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
    weights_ : uint8 array (number of bytes,)
        Its weights in the format of safetensors.
    components_ : array (k, r)
        Lᵀ with B = LLᵀ of the last layer.
    penalty_ : float or None
        λ; None after fitting with ``n_segments="given"``.
    solution_ : Solution
        Certificate of the last layer.
    history_ : dict of arrays (number of epochs,)
        The mean ``hinge``, the ``penalty`` and the ``validation`` loss (or NaN) of every epoch.
    best_epoch_ : int
        Epochs after which the weights were kept.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    TypeError
        From ``pair_distance``: single samples have no recording to be seen in.

    Notes
    -----
    With one thread (``torch.set_num_threads(1)``) the same data, parameters and seed give the same
    weights to the last bit, also through a checkpoint after ``kill -9``.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.1.
    Loshchilov & Hutter, Decoupled weight decay regularization, ICLR 2019 (AdamW).

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
        "penalty_learning_rate": number(positive=True),
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
    penalty_learning_rate: float = 1e-2
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
        data, truths = read_labeled(self, X, y, segments=True, partial=True)
        if self.batch_size == 1 and any(isinstance(a, JoinedStretches) for a in self.augmentations):
            raise ValueError(
                "EncoderMetricLearner needs a batch_size of at least 2 for JoinedStretches, which "
                "joins recordings of a batch, got 1."
            )
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError(
                "EncoderMetricLearner needs a random_state with a checkpoint, as a call goes on "
                "only from the same first weights, got None; pass random_state=0."
            )
        shared = ("n_segments", "min_size", "loss_scale", "n_jobs", "verbose")
        last = clone(self.last_layer).set_params(**{name: getattr(self, name) for name in shared})
        self._check(data, truths)
        recordings = list(map(Recording, data.arrays, truths))
        held = self._held_out(len(recordings), groups)
        rest = [i for i in range(len(recordings)) if i not in held]
        training = Training(self, [recordings[i] for i in rest], [recordings[i] for i in held])
        self.keep_network(training.run())
        self.history_, self.best_epoch_ = training.history, training.best_epoch
        self.weights_ = packed(self.encoder_)
        outputs = self.encode(data.arrays)
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

            check_parameters(self)  # of a model from elsewhere, whose device may not be here
            network = self.make_network()
            network.load_state_dict(load(self.weights_.tobytes()))
            self.keep_network(network)
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
        check_is_fitted(self)
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
            optimize=False,  # which takes 1e-8 for 0, and means of squares are divided by
            verbose=False,
        )
        assert program is not None
        with replacing(path) as stream:
            stream.write(program.model_proto.SerializeToString())
        return Path(path)

    def read_data(self, X: Any) -> DataSets:
        """The outputs of the encoder for data as in fitting."""
        data = check_features(self, read_data_sets(type(self).__name__, X, single_precision=True))
        return replace(data, arrays=self.encode(data.arrays), feature_names=None)

    def encode(self, arrays: Any) -> list[NDArray[np.float64]]:
        """f_θ of every recording, (T, r) each."""
        network = self.encoder_.eval()
        with torch.no_grad():
            return [features(network, X, self.device).cpu().double().numpy() for X in arrays]

    def _check(self, data: DataSets, truths: list[Any]) -> None:
        """What the last layer would refuse, asked before and not after hours of training."""
        who = type(self).__name__
        known = [truth for truth in truths if isinstance(truth, Partition)]
        if len(known) < len(truths) and self.n_segments == "given":
            raise ValueError(
                f"{who} needs n_segments=None for partial labels, as they do not tell the number "
                "of segments, got 'given'."
            )
        least = min((truth.sizes.min() for truth in known), default=self.min_size)
        if least < self.min_size or data.lengths.min() < 2:
            raise ValueError(
                f"{who} needs 2 samples or more in every recording and labeled segments of at "
                f"least min_size={self.min_size}, got {data.lengths.min()} and {least}; leave out "
                "short recordings, or lower min_size, which may be raised after fitting to predict."
            )
        if not known and not any(truth.constraints for truth in truths):
            raise ValueError(f"{who} needs labels, but nothing is known of any recording (all −1).")
        data.pooled_deviation(who)  # that something varies

    def make_network(self) -> nn.Module:
        """The encoder behind the standardization, untrained."""
        first = Standardization(self.n_features_in_)
        given = isinstance(self.encoder, nn.Module)
        encoder = copy.deepcopy(self.encoder) if given else self.encoder(self.n_features_in_)
        if not isinstance(encoder, nn.Module):
            raise ValueError(
                f"EncoderMetricLearner needs an encoder that is, or makes, an nn.Module, got "
                f"{shown(self.encoder)}."
            )
        parts = OrderedDict(standardization=first, encoder=encoder)
        return nn.Sequential(parts).to(self.device, torch.float32)

    def keep_network(self, network: nn.Module) -> None:
        self.kept_ = network  # is left out of model files, which have ``weights_``

    def _held_out(self, count: int, groups: ArrayLike | None) -> set[int]:
        """Recordings of the groups that validation takes, drawn at random."""
        names = np.arange(count) if groups is None else Partition.from_labels(groups).labels  # type: ignore[arg-type]
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
