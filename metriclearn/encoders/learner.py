"""EncoderMetricLearner: learn features, a metric and a penalty from segmented recordings."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Self

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
from metriclearn.estimators.learners.change_points import ChangePointMetricLearner, Segmentations
from metriclearn.estimators.learners.named import NamedSegmentLearner
from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import (
    list_labelings,
    read_labeled,
    read_names,
    refuse_unlabeled,
)
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.estimators.scores.segmenting import GivenSegments, MahalanobisSegmenter
from metriclearn.problem.named_segments import named_truths
from metriclearn.problem.partition import Partition
from metriclearn.running.atomic import replacing
from metriclearn.running.callbacks import Callbacks
from metriclearn.running.extras import optional
from metriclearn.running.parameters import (
    CheckpointPath,
    Device,
    Each,
    Jobs,
    Needs,
    Of,
    Positive,
    RandomState,
    Real,
    Verbose,
    Whole,
    check_parameters,
    shown,
)
from metriclearn.solvers.mahalanobis import FullMetric
from metriclearn.solvers.regularizers import SquaredFrobenius


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The trained network of a learner as the view of a score, before that of the last layer."""

    learner: EncoderMetricLearner
    after: Any = None

    def transform(self, X: Sequence[NDArray]) -> list[NDArray]:
        """Compute the outputs of the network for recordings."""
        rows = encoded(self.learner.encoder_, X, self.learner.device)
        return rows if self.after is None else self.after.transform(rows)

    @property
    def reach(self) -> tuple[int, int] | None:
        """Rows before and after a row that its output depends on; None: unknown."""
        seen, more = rows_seen(self.learner.encoder_), getattr(self.after, "reach", (0, 0))
        return seen and more and (seen[0] + more[0], seen[1] + more[1])

    def refusal_of_streams(self) -> str:
        """Return what a stream needs if the reach is unknown, and the remedy."""
        return (
            "an encoder that sees a known number of rows for a stream; take WindowEncoder or "
            "TemporalConvolution, or give your module an attribute rows_seen with the numbers of "
            "rows before and after."
        )


@dataclass(eq=False, repr=False)
class EncoderMetricLearner(MahalanobisSegmenter):
    """Learn features f_θ, a metric on them and the penalty of a segment from segmented recordings.

    First, AdamW minimizes the hinge of :class:`StructuredHingeLoss` over θ and the penalty λ. The
    search for the best segmentations in this hinge is exact. Then the last layer is learned: a
    metric B on f_θ(X), and λ again. Learning the last layer is a convex problem, and ``solution_``
    holds its certificate. Recordings may have any lengths, and the encoder gets each recording as a
    whole. ``transform`` returns f_θ(X)L with B = LLᵀ. As in the linear learners, all predictions
    are made from the transformed features.

    Parameters
    ----------
    encoder : callable (n_features) -> nn.Module, or nn.Module
        A network that maps (N, T, P) to (N, T, r). A class such as ``WindowEncoder``, or a
        ``functools.partial`` of one, makes a new module in every fit, and can be saved. A module is
        copied, and training begins from its weights.
    last_layer : ChangePointMetricLearner
        The learner of B and λ on f_θ(X). The default learns a full metric that is regularized
        towards the identity, because the encoder is trained with B = I. Without this regularization
        the metric would overfit more. Parameters that ``last_layer`` shares with this learner, such
        as ``loss_scale``, are set to the values given here. If ``last_layer`` is a
        ``NamedSegmentLearner``, labels are names. The hinge then includes a linear score of every
        name, computed from the outputs of the encoder, and ``predict`` returns names.
    n_segments : None or "given"
        If None, the penalty determines the number of segments. If "given", the number is taken from
        the labels in training, and must be passed to ``predict``.
    min_size : int
        Smallest number of samples in a segment.
    loss_scale : float
        The factor α, see :class:`StructuredHingeLoss`.
    retune : bool
        Whether to replace the penalty of the convex problem by the penalty with the least loss on
        the training recordings. An exact search finds this penalty, but only if the labels are
        complete.
    n_epochs : int
        Number of passes over the recordings.
    batch_size : int
        Number of recordings in a training step.
    learning_rate, penalty_learning_rate : float
        Largest learning rates of AdamW, for θ and for log λ.
    weight_decay : float
        Weight decay of θ.
    augmentations : sequence of callables (recordings, random) -> recordings
        The augmentations are applied to every batch, one after the other. See
        :mod:`metriclearn.encoders.augmentations`.
    validation : float
        Fraction of the groups of recordings that are held out when the encoder is trained. The
        encoder of the epoch with the least loss on these groups is kept. If the fraction is 0, the
        encoder of the last epoch is kept. The last layer is learned from all recordings.
    patience : int
        Training stops after this number of epochs without a lower loss on the held-out groups.
    checkpoint : path, optional
        File in which the state is saved after every epoch. If the same call is made again, training
        resumes from this file.
    callbacks : sequence of callbacks
        The callbacks are called in the same way as by the linear learners. A round is an epoch, and
        the objective is the mean hinge.
    device : str
        Device of the network, such as "cuda", in training and prediction. The search over
        segmentations always runs on the CPU.
    n_jobs : int, optional
        Number of threads in the search over segmentations, as in joblib.
    random_state : int, RandomState or None
        Seed of initial weights, order of the recordings, dropout and augmentations.
    verbose : bool, optional
        If True, show a progress bar at once; if False, never. With None, the bar appears in a
        terminal when fitting takes long.

    Attributes
    ----------
    encoder_ : nn.Module
        The trained encoder, with the standardization of the inputs as its first layer.
    weights_ : uint8 array (number of bytes,)
        The encoder's weights in the format of safetensors.
    components_ : array (k, r)
        Lᵀ, where B = LLᵀ is the metric of the last layer.
    penalty_ : float or None
        The penalty λ, or None after fitting with ``n_segments="given"``.
    solution_ : Solution
        Solution of the convex problem of the last layer, with its certificate.
    feature_penalty_ : FeaturePenalty or None
        A penalty that depends on the outputs, if the last layer learns one.
    name_weights_ : NameWeights or None
        The scores of names, if the last layer learns them.
    classes_ : array (C,)
        The sorted labels, if they are names.
    history_ : dict of arrays (number of epochs,)
        The mean ``hinge``, the ``penalty`` and the ``validation`` loss of every epoch. The
        validation loss is NaN if nothing is held out.
    best_epoch_ : int
        The epoch whose weights were kept, counted from 1.

    Raises
    ------
    ValueError
        If parameters, data or labels cannot be used, or if predicting before ``fit``.
    TypeError
        If ``pair_distance`` is called, because the encoder needs the neighbors of a sample in time.

    Notes
    -----
    With one thread (``torch.set_num_threads(1)``), the same data, parameters and seed give the same
    weights to the last bit, even if training was killed and resumed from a checkpoint.

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

    # components are never changed in place, see ComponentParameters.set_params
    encoder: Annotated[Any, Needs("{a} {name} such as WindowEncoder or an nn.Module", callable)] = (
        WindowEncoder
    )
    last_layer: Annotated[
        ChangePointMetricLearner, Of(ChangePointMetricLearner, "ChangePointMetricLearner()")
    ] = ChangePointMetricLearner(  # noqa: RUF009
        FullMetric(), SquaredFrobenius(1.0, 1.0), standardize=False
    )
    _: KW_ONLY
    n_segments: GivenSegments = None
    min_size: Annotated[int, Whole(1)] = 1
    loss_scale: Annotated[float, Real(1e-50)] = 1.0
    retune: bool = True
    n_epochs: Annotated[int, Whole(1)] = 30
    batch_size: Annotated[int, Whole(1)] = 4
    learning_rate: Annotated[float, Positive()] = 2e-3
    penalty_learning_rate: Annotated[float, Positive()] = 1e-2
    weight_decay: Annotated[float, Real()] = 1e-2
    augmentations: Annotated[
        Sequence[Callable[..., Any]],
        Each(Needs("", callable), "augmentations (recordings, random) -> recordings"),
    ] = ()
    validation: Annotated[float, Real(0.0, 0.9)] = 0.0
    patience: Annotated[int, Whole(1)] = 10
    checkpoint: CheckpointPath = None
    callbacks: Callbacks = ()
    device: Device = "cpu"
    n_jobs: Jobs = None
    random_state: RandomState = None
    verbose: Verbose = None

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Train the encoder, then learn the last layer.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays, or one
            The recordings.
        y : sequence of (T_i,) labels, Partition or PartialPartition, or one
            The labels of each recording. Every run of equal labels is a segment; −1 means
            unlabeled.
        groups : sequence of N labels, optional
            Recordings of the same group are held out together. By default each recording is a group
            of its own.

        Raises
        ------
        ValueError
            If data, labels or parameters cannot be used.
        """
        fitted, data, truths = read_labeled(self, X, y, segments=True, partial=True)
        who, labels, names, classes = type(self).__name__, truths, None, None
        last = replace(
            self.last_layer,
            n_segments=self.n_segments,
            min_size=self.min_size,
            loss_scale=self.loss_scale,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
        )
        self._check(data, truths, replace(last.task, who=who))
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
        standardization.fit(list(compress(data.arrays, ~is_held)), who)
        training = Training(fitted, network, seed, rest, held, names, classes)
        fitted.kept_ = training.run()
        fitted.history_, fitted.best_epoch_ = training.history, training.best_epoch
        fitted.weights_ = packed(fitted.kept_)
        outputs = encoded(fitted.kept_, data.arrays, self.device)
        last.fit(outputs, labels)
        # Either all truths are complete or none is.
        tunable = isinstance(truths[0], Partition) and last.penalty_ is not None
        if self.retune and tunable and len(last.components_):
            last.tune_penalty(outputs, labels)
        fitted.score_, fitted.solution_ = last.score_, last.solution_
        self.__dict__ = fitted.__dict__
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without the network.

        The network is left out, because another machine may not have its device.
        """
        state = dict(vars(self))
        state.pop("kept_", None)
        return state

    @property
    def encoder_(self) -> nn.Module:
        """The trained encoder. A loaded model constructs the encoder from ``weights_``."""
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
        """Raise a TypeError, because the output for a sample depends on its neighbors in time.

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
        """Write ``transform`` as an ONNX model with input (1, T, P) and output (1, T, k).

        The number of rows T is variable. An existing file is replaced only when the new one is
        complete.

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

    @property
    def present_score(self) -> SegmentScore:  # type: ignore[override]
        """The score of recordings: that of the last layer behind the network."""
        score = super().present_score
        return replace(score, view=EncodedRows(self, score.view))

    def with_score(self, score: SegmentScore) -> Self:
        """Return a copy that predicts with another :attr:`present_score`."""
        return super().with_score(replace(score, view=score.view.after))

    def _check(self, data: DataSets, truths: list[Any], task: Segmentations) -> None:
        """Raise an error before training if the last layer could not use the data."""
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
        task.check_sizes(truths)
        if data.lengths.min() < 2:
            raise ValueError(
                f"{who} needs 2 samples or more in every recording, got 1; leave out short ones."
            )
        if not complete:
            refuse_unlabeled(who, truths)
        data.pooled_deviation(who)  # raises if nothing varies

    def _made_network(self) -> tuple[Standardization, nn.Module]:
        """Return an unfitted standardization, and a network that applies it before the encoder."""
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
        """Draw groups for validation. Returns a mask (N,) that is true for the recordings of these
        groups."""
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
