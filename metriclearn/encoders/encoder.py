"""Encoder: the view of a network that is trained with the structured hinge."""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import compress
from typing import Annotated, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors.torch import load
from scipy.linalg import orthogonal_procrustes
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from metriclearn.encoders.augmentations import Recording
from metriclearn.encoders.frozen import torch_module
from metriclearn.encoders.hinge import NamedProducts
from metriclearn.encoders.networks import Standardization, WindowEncoder, rows_seen
from metriclearn.encoders.training import Training, encoded, packed, seeded
from metriclearn.estimators.learners.change_points import check_sizes
from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import refuse_unlabeled
from metriclearn.estimators.scores.segmenting import GivenSegments
from metriclearn.estimators.selection.parts import Parts
from metriclearn.problem.named_segments import named_truths
from metriclearn.problem.partition import Partition
from metriclearn.running.callbacks import Callbacks
from metriclearn.running.parameters import (
    CheckpointPath,
    Device,
    Each,
    Jobs,
    Needs,
    OneOf,
    Positive,
    RandomState,
    Real,
    Verbose,
    Whole,
    check_parameters,
)
from metriclearn.running.values import shown
from metriclearn.views.gaps import Labels, labels_for
from metriclearn.views.plain import PlainView, read_groups


@dataclass(eq=False, repr=False)
class Encoder(PlainView):
    """The outputs f_θ(X) of a network that is trained on segmented recordings.

    AdamW minimizes the hinge of :class:`StructuredHingeLoss` over θ and the penalty λ of a segment,
    under the metric B = I. The search for the best segmentations in this hinge is exact.
    Recordings may have any lengths, and the network gets each recording as a whole. The learner
    behind the view then learns a metric of the outputs and λ again. Its problem is convex, and has
    a certificate. A full metric that is regularized towards the identity overfits less than
    others, because the network is trained with B = I.

    Parameters
    ----------
    network : callable (n_features) -> nn.Module, or nn.Module
        A network that maps (N, T, P) to (N, T, r). A class such as ``WindowEncoder``, or a
        ``functools.partial`` of one, makes a new module in every fit, and can be saved. A module is
        copied, and training begins from its weights.
    names : bool
        Whether labels are names. The hinge then includes a linear score of every name, computed
        from the outputs. A :class:`~metriclearn.NamedSegmentLearner` can learn such scores again.
    name_loss : float, optional
        The loss β of a sample with a wrong name, see :class:`NamedProducts`; by default the number
        of segments divided by the number of samples.
    n_folds : int
        With 1, the rows of training recordings are the outputs for them, which are too good. Else
        they are held out: a network is trained without each of ``n_folds`` folds of whole groups,
        and its outputs are rotated to the outputs of the network of all recordings.
    n_segments : None or "given"
        If None, the penalty determines the number of segments. If "given", the number is taken from
        the labels.
    min_size : int
        Smallest number of samples in a segment.
    loss_scale : float
        The factor α, see :class:`StructuredHingeLoss`.
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
        Fraction of the groups of recordings that are held out in training. The weights of the epoch
        with the least loss on these groups are kept. If the fraction is 0, the weights of the last
        epoch are kept.
    patience : int
        Training stops after this number of epochs without a lower loss on the held-out groups.
    checkpoint : path, optional
        File in which the state is saved after every epoch. If the same call is made again, training
        resumes from this file. The fold k of ``n_folds`` has a file with ``.k`` at its end.
    callbacks : sequence of callbacks
        The callbacks are called in the same way as by learners. A round is an epoch, and the
        objective is the mean hinge. A learner copies its view, so it is the ``callbacks`` of the
        fitted view that were called.
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
    network_ : nn.Module
        The trained network, with the standardization of the inputs as its first layer.
    weights_ : uint8 array (number of bytes,)
        The weights of the network in the format of safetensors.
    history_ : dict of arrays (number of epochs,)
        The mean ``hinge``, the ``penalty`` and the ``validation`` loss of every epoch. Without
        held-out groups, the validation loss is NaN.
    best_epoch_ : int
        The epoch whose weights were kept, counted from 1.
    n_features_in_ : int

    Raises
    ------
    ValueError
        If parameters, data or labels cannot be used.

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
    >>> from metriclearn import ChangePointMetricLearner, FullMetric, SquaredFrobenius
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(4, 60, 5, 2, (3, 4), random_state=0)
    >>> network = partial(WindowEncoder, n_outputs=2, width=8)
    >>> view = Encoder(network, n_epochs=2, random_state=0, verbose=False)
    >>> toward_identity = SquaredFrobenius(1.0, center=1.0)
    >>> learner = ChangePointMetricLearner(
    ...     FullMetric(), toward_identity, standardize=False, retune=True, view=view
    ... )
    >>> learner.fit(data.sequences, data.labels).transform(data.sequences)[0].shape
    (60, 2)
    """

    network: Annotated[Any, Needs("{a} {name} such as WindowEncoder or an nn.Module", callable)] = (
        WindowEncoder
    )
    _: KW_ONLY
    names: bool = False
    name_loss: Annotated[float | None, OneOf(None, Real())] = None
    n_folds: Annotated[int, Whole(1)] = 1
    n_segments: GivenSegments = None
    min_size: Annotated[int, Whole(1)] = 1
    loss_scale: Annotated[float, Real(1e-50)] = 1.0
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

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X : sequence of (T_i, P) arrays
        y : Labels
        groups : sequence of N labels, optional
            Recordings of the same group are held out together. By default each recording is a
            separate group.

        Raises
        ------
        ValueError
            If data, labels or parameters cannot be used.
        """
        arrays, who = self.begin(X), type(self).__name__
        labels = labels_for(self, y, arrays, names=self.names)
        self._check(arrays, labels)
        truths, names = labels.partitions, None
        if self.names:
            truths, weight = named_truths(labels.codes or [], truths), self.name_loss
            if weight is None:
                segments = sum(getattr(truth, "n_clusters", 1) for truth in truths)
                weight = segments / sum(map(len, arrays))
            names = NamedProducts(len(labels.classes), weight)  # type: ignore[arg-type]
        recordings = list(map(Recording, arrays, truths))
        is_held = self._held_out(read_groups(who, groups, len(arrays), 1))
        held, rest = list(compress(recordings, is_held)), list(compress(recordings, ~is_held))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with seeded(seed):
            standardization, network = self._made_network()
        standardization.fit([X for X, _ in rest], who)
        training = Training(self, network, seed, rest, held, names, labels.classes)
        self.kept_ = training.run()
        self.history_, self.best_epoch_ = training.history, training.best_epoch
        self.weights_ = packed(self.kept_)
        return self

    def fit_transform(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Any:
        """Train the network. Returns the rows of the training recordings, see ``n_folds``."""
        rows = self.fit(X, y, groups).transform(X)
        if self.n_folds == 1:
            return rows
        owners = read_groups(type(self).__name__, groups, len(rows))
        arrays, held, parts = self.read(X), list(rows), Parts.of(owners, self.n_folds)
        for k, (seen, left_out) in enumerate(zip(parts, parts.left_out)):
            other = clone(self).set_params(n_folds=1)
            if self.checkpoint is not None:
                other.checkpoint = f"{os.fspath(self.checkpoint)}.{k}"
            known = [arrays[i] for i in seen]
            theirs = np.vstack(other.fit(known, y.subset(seen), owners[seen]).transform(known))
            ours = np.vstack([rows[i] for i in seen])
            turn, _ = orthogonal_procrustes(theirs - theirs.mean(axis=0), ours - ours.mean(axis=0))
            for i, Z in zip(left_out, other.transform([arrays[i] for i in left_out])):
                held[i] = (Z - theirs.mean(axis=0)) @ turn + ours.mean(axis=0)
        return held

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the outputs for one recording, (T, r)."""
        return encoded(self.network_, [X], self.device)[0]

    @property
    def reach(self) -> tuple[int, int] | None:
        """Rows before and after a row that its output depends on; None before the fit.

        It is also None if the network depends on the whole recording, or if its reach is unknown.
        Your module can state its reach in an attribute ``rows_seen``, as (7, 3).
        """
        return rows_seen(self.network_) if {"kept_", "weights_"} & vars(self).keys() else None

    @property
    def network_(self) -> nn.Module:
        """The trained network. A loaded view makes the network from ``weights_``."""
        check_parameters(self)  # a file, or set_params, may name a device that this machine lacks
        if not hasattr(self, "kept_"):
            check_is_fitted(self, "weights_")
            with seeded(0):  # drawing first weights must not change random numbers elsewhere
                _, network = self._made_network()
            network.load_state_dict(load(self.weights_.tobytes()))
            self.kept_ = network.eval()  # left out of model files, which have ``weights_``
        return self.kept_.to(self.device)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without the network.

        The state does not contain the network, because another machine may not have its device.
        """
        state = dict(super().__getstate__())
        state.pop("kept_", None)
        return state

    def _check(self, arrays: list[NDArray], labels: Labels) -> None:
        """Raise an error before training if a learner could not use the data."""
        who, truths = type(self).__name__, labels.partitions
        complete = isinstance(truths[0], Partition)  # either all are complete, or none is
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
        if labels.weights is not None and len(np.unique(labels.weights)) > 1:
            raise ValueError(
                f"{who} trains on all recordings alike, and needs equal weights, got "
                f"{shown(labels.weights.tolist())}; leave recordings out by a weight of 0."
            )
        check_sizes(who, truths, self.min_size)
        if min(map(len, arrays)) < 2:
            raise ValueError(
                f"{who} needs 2 samples or more in every recording, got 1; leave out short ones."
            )
        if not complete:
            refuse_unlabeled(who, truths)
        DataSets(arrays, False, None).measures.pooled_deviation(who)  # raises if nothing varies

    def _made_network(self) -> tuple[Standardization, nn.Module]:
        """Return an unfitted standardization, and a network that applies it before the encoder."""
        first = Standardization(self.n_features_in_)
        given = isinstance(self.network, nn.Module)
        encoder = copy.deepcopy(self.network) if given else self.network(self.n_features_in_)
        encoder = torch_module("Encoder", encoder, self.network)
        network = nn.Sequential(OrderedDict(standardization=first, encoder=encoder))
        return first, network.to(self.device, torch.float32)

    def _held_out(self, groups: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Draw groups for validation. Returns a mask (N,), true for the recordings of these."""
        present = np.unique(groups)
        taken = int(np.ceil(self.validation * len(present)))
        if taken >= len(present):
            raise ValueError(
                f"Encoder needs a group to train on besides validation={self.validation} of "
                f"{len(present)}; set validation=0, or pass more groups."
            )
        return np.isin(groups, np.random.default_rng(0).permutation(present)[:taken])
