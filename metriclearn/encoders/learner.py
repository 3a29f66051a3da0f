"""EncoderMetricLearner: features, a metric of them and a penalty, from segmented recordings."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from metriclearn.encoders.augmentations import Recording
from metriclearn.encoders.hinge import NamedProducts
from metriclearn.encoders.networks import Standardization, WindowEncoder, rows_seen
from metriclearn.encoders.training import Training, encoded, packed, seeded
from metriclearn.estimators.data_sets import DataSets, check_features, read_data_sets
from metriclearn.estimators.labelings import (
    list_labelings,
    read_labeled,
    read_names,
    refuse_unlabeled,
)
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner
from metriclearn.estimators.names.named_learner import NamedSegmentLearner
from metriclearn.estimators.prediction.segmenter import MahalanobisSegmenter
from metriclearn.estimators.prediction.stream import StreamSource
from metriclearn.oracles.segmentation_path import best_penalty
from metriclearn.problem.named_segments import named_truths
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

    AdamW minimizes the hinge of :class:`StructuredHingeLoss` over θ and λ, with exact
    loss-augmented inference. Then the last layer, that is, a metric B of f_θ(X) and λ, is learned
    again as a convex problem, so ``solution_`` has a certificate for B and λ. Recordings may have
    any lengths; the encoder sees each as a whole. ``transform`` returns f_θ(X)L, and all
    predictions of the linear learners are made from it.

    Parameters
    ----------
    encoder : callable (n_features) -> nn.Module, or nn.Module
        Maps (N, T, P) to (N, T, r). A class such as ``WindowEncoder``, or a ``functools.partial``
        of one, makes a new module in every fit and can be saved. A module is copied, and training
        begins from its weights.
    last_layer : ChangePointMetricLearner
        Learns B and λ on f_θ(X). By default it learns a full metric regularized towards the
        identity, for which the encoder was trained; otherwise the metric would overfit more.
        Parameters that it shares with this learner, such as ``loss_scale``, are set to the values
        here. With a ``NamedSegmentLearner`` labels are names: the encoder is trained under the
        hinge with a linear score of every name on its outputs, and ``predict`` gives names.
    n_segments : None or "given"
        Whether inference is given the number of segments; in training it comes from the labels.
    min_size : int
        Smallest number of samples in a segment.
    loss_scale : float
        α, see :class:`StructuredHingeLoss`.
    retune : bool
        Whether to replace the penalty of the convex problem by the one with the least loss on the
        training recordings, found exactly. This needs complete labels.
    n_epochs, batch_size : int
        Number of passes over the recordings, and of recordings in a step.
    learning_rate, penalty_learning_rate, weight_decay : float
        Largest rates of AdamW for θ and for log λ, and the decay of θ.
    augmentations : sequence of callables (recordings, random) -> recordings
        Applied to every batch in turn, see :mod:`metriclearn.encoders.augmentations`.
    validation : float
        Share of the groups that the epochs do not use; the epoch with the least loss on these
        groups is kept. With 0 the last epoch is kept. The last layer learns from all recordings.
    patience : int
        Number of epochs without a lower loss on held-out groups after which training stops.
    checkpoint : path, optional
        File that holds the state after every epoch, from which the same call resumes.
    callbacks : sequence of callbacks
        As for linear learners; a round is an epoch, and the objective is the mean hinge.
    device : str
        Device of the network, such as "cuda"; inference runs on the processor.
    n_jobs : int, optional
        Threads of inference over recordings, as in joblib.
    random_state : int, RandomState or None
        Seed of first weights, order, dropout and augmentations.
    verbose : bool, optional
        Progress bar at once (True), never (False), or in a terminal when fitting takes long (None).

    Attributes
    ----------
    encoder_ : nn.Module
        The trained encoder, with the standardization of the inputs as its first layer.
    weights_ : uint8 array (number of bytes,)
        The encoder's weights in the format of safetensors.
    components_ : array (k, r)
        Lᵀ with B = LLᵀ of the last layer.
    penalty_ : float or None
        λ; None after fitting with ``n_segments="given"``.
    solution_ : Solution
        Certificate of the last layer.
    feature_penalty_ : FeaturePenalty or None
        Penalty that depends on the outputs, if the last layer learns one.
    name_weights_ : NameWeights or None
        Scores of names, if the last layer learns them.
    classes_ : array (C,)
        The labels, if they are names.
    history_ : dict of arrays (number of epochs,)
        The mean ``hinge``, the ``penalty`` and the ``validation`` loss (or NaN) of every epoch.
    best_epoch_ : int
        The epoch whose weights were kept, counted from 1.

    Raises
    ------
    ValueError
        For parameters, data or labels that cannot be used, and for predictions before ``fit``.
    TypeError
        From ``pair_distance``, because single samples have no context.

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
            Every run of equal labels is a segment; −1 means unlabeled.
        groups : sequence of N labels, optional
            Recordings of one group are held out together; by default each is a separate group.

        Raises
        ------
        ValueError
            For data, labels or parameters that cannot be used, in one sentence.
        """
        fitted, data, truths = read_labeled(self, X, y, segments=True, partial=True)
        who, labels, names, classes = type(self).__name__, truths, None, None
        self._check(data, truths)
        last = replace(
            self.last_layer,
            n_segments=self.n_segments,
            min_size=self.min_size,
            loss_scale=self.loss_scale,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        if isinstance(last, NamedSegmentLearner):
            labels = list(list_labelings(who, y, data))
            codes, classes = read_names(who, y, data, truths)
            truths, weight = named_truths(codes, truths), last.name_loss
            if weight is None:
                segments = sum(getattr(truth, "n_clusters", 1) for truth in truths)
                weight = segments / data.lengths.sum()
            names = NamedProducts(len(classes), weight)
        recordings = list(map(Recording, data.arrays, truths))
        is_held = self._held_out(len(recordings), groups)
        held, rest = list(compress(recordings, is_held)), list(compress(recordings, ~is_held))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with seeded(seed):
            standardization, network = fitted._made_network()
        standardization.fit([X for X, _ in rest], who)
        fitted.feature_penalty_ = fitted.name_weights_ = None
        training = Training(fitted, network, seed, rest, held, names, classes)
        fitted.kept_ = training.run()
        fitted.history_, fitted.best_epoch_ = training.history, training.best_epoch
        fitted.weights_ = packed(fitted.kept_)
        outputs = encoded(fitted.kept_, data.arrays, self.device)
        last.fit(outputs, labels)
        # Either all truths are complete or none is.
        tunable = isinstance(truths[0], Partition) and last.penalty_ is not None
        if self.retune and tunable and len(last.components_):
            forms = list(map(last.form, outputs))
            last.penalty_, _ = best_penalty(forms, truths, min_size=last.min_size)
        fitted.components_, fitted.penalty_ = last.components_, last.penalty_
        fitted.feature_penalty_, fitted.name_weights_ = last.feature_penalty_, last.name_weights_
        fitted.solution_ = last.solution_
        self.__dict__ = fitted.__dict__
        return self

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickle, without the network, which may be on a device that another machine
        lacks."""
        return {name: value for name, value in vars(self).items() if name != "kept_"}

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder; a loaded model makes it again from its weights."""
        check_parameters(self)  # a file, or set_params, may name a device that this machine lacks
        if not hasattr(self, "kept_"):
            from safetensors.torch import load

            with seeded(0):  # drawing first weights must not change random numbers elsewhere
                _, network = self._made_network()
            network.load_state_dict(load(self.weights_.tobytes()))
            self.kept_ = network.eval()  # left out of model files, which have ``weights_``
        return self.kept_.to(self.device)

    @property
    def classes_(self) -> NDArray:
        """The labels, sorted, if ``last_layer`` learns names."""
        if self.name_weights_ is None:
            raise AttributeError(
                "EncoderMetricLearner has names only with a NamedSegmentLearner as last_layer."
            )
        return self.name_weights_.classes

    def pair_distance(self, pairs: ArrayLike) -> NDArray:
        """Not supported, because an encoder sees samples in their context.

        Raises
        ------
        TypeError
            Always.
        """
        raise TypeError(
            "EncoderMetricLearner needs whole recordings, because it sees samples in their "
            "context; use Euclidean distances between rows of transform(X)."
        )

    def export_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Write ``transform`` as an ONNX model: input (1, T, P), output (1, T, k), T free.

        The file is replaced only once the new one is complete.

        Raises
        ------
        ImportError
            If onnxscript is missing.
        """
        check_is_fitted(self)
        optional("onnxscript", "onnx")
        with seeded(0):
            components = torch.as_tensor(self.components_, dtype=torch.float32)
            last = nn.Linear(components.shape[1], len(components), bias=False)
            last.weight = nn.Parameter(components)
            network = nn.Sequential(copy.deepcopy(self.encoder_).cpu(), last).eval()
            program = torch.onnx.export(
                network,
                (torch.zeros(1, 64, self.n_features_in_),),
                input_names=["recording"],
                output_names=["features"],
                dynamic_shapes=({1: torch.export.Dim("T", min=2)},),
                optimize=False,  # optimizing would replace 1e-8, which divisions need, by 0
                verbose=False,
            )
        assert program is not None
        with replacing(path) as stream:
            stream.write(program.model_proto.SerializeToString())
        return Path(path)

    def read_data(self, X: Any) -> DataSets:
        """Check data against the training data, and return the outputs of the encoder for them."""
        data = check_features(self, read_data_sets(type(self).__name__, X, single_precision=True))
        outputs = encoded(self.encoder_, data.arrays, self.device)
        return replace(data, arrays=outputs, feature_names=None)

    def stream_source(self) -> StreamSource:
        """How a stream reads samples: the encoder gets each sample with the rows on which its
        output depends.

        Raises
        ------
        ValueError
            If the encoder may depend on the whole recording, or there is no penalty.
        """
        source, network = super().stream_source(), self.encoder_
        reach = rows_seen(network)
        if reach is None:
            raise ValueError(
                "EncoderMetricLearner needs an encoder that sees a known number of rows for a "
                "stream; take WindowEncoder or TemporalConvolution, or give your module an "
                "attribute rows_seen with the numbers of rows before and after."
            )

        def read(X: NDArray) -> tuple[NDArray, NDArray | None, NDArray | None]:
            return source.read(encoded(network, [X], self.device)[0])

        behind, ahead = source.behind + reach[0], source.ahead + reach[1]
        return source._replace(read=read, behind=behind, ahead=ahead)

    def _check(self, data: DataSets, truths: list[Any]) -> None:
        """Refuse data before training that the last layer would refuse after it."""
        who, complete = type(self).__name__, isinstance(truths[0], Partition)
        if self.checkpoint is not None and self.random_state is None:
            raise ValueError(
                f"{who} needs a random_state to resume training from a checkpoint, got None; pass "
                "random_state=0."
            )
        if not complete and self.n_segments == "given":
            raise ValueError(
                f"{who} needs n_segments=None for partial labels, which do not determine it, got "
                "'given'."
            )
        least = min(truth.sizes.min() for truth in truths) if complete else self.min_size
        if least < self.min_size or data.lengths.min() < 2:
            raise ValueError(
                f"{who} needs 2 samples or more in every recording and labeled segments of at "
                f"least min_size={self.min_size}, got {data.lengths.min()} and {least}; leave out "
                "short recordings, or lower min_size (it may be raised again after fitting)."
            )
        if not complete:
            refuse_unlabeled(who, truths)
        data.pooled_deviation(who)  # raises if nothing varies

    def _made_network(self) -> tuple[Standardization, nn.Module]:
        """An untrained standardization, and the network that consists of it and the encoder."""
        first = Standardization(self.n_features_in_)
        given = isinstance(self.encoder, nn.Module)
        encoder = copy.deepcopy(self.encoder) if given else self.encoder(self.n_features_in_)
        if not isinstance(encoder, nn.Module):
            raise ValueError(
                f"EncoderMetricLearner needs an encoder that is or makes an nn.Module, got "
                f"{shown(self.encoder)}."
            )
        network = nn.Sequential(OrderedDict(standardization=first, encoder=encoder))
        return first, network.to(self.device, torch.float32)

    def _held_out(self, count: int, groups: ArrayLike | None) -> NDArray[np.bool_]:
        """Which recordings validation holds out; it draws whole groups at random."""
        names = np.arange(count) if groups is None else Partition.from_labels(groups).labels  # type: ignore[arg-type]
        if len(names) != count:
            raise ValueError(
                f"EncoderMetricLearner needs one group per recording, got {len(names)} for {count}."
            )
        present = np.unique(names)
        taken = int(np.ceil(self.validation * len(present)))
        if taken >= len(present):
            raise ValueError(
                f"EncoderMetricLearner needs a group to train on besides validation="
                f"{self.validation} of {len(present)}; set validation=0, or pass more groups."
            )
        chosen = np.random.default_rng(0).permutation(present)[:taken]
        return np.isin(names, chosen)
