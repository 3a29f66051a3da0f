"""The structured hinge of any network's outputs as a torch loss with an exact gradient.

For a recording of T samples, a network gives outputs Z = f_θ(X), from which a matrix A_Z is formed.
The true partition N has K clusters. The hinge is the same as for the linear learners (Lajugie,
Arlot & Bach, Eq. (9)),

    L(Z, λ) = (1/T) { max_M [ ⟨A_Z, M⟩ + αT ℓ(M, N) − λ Tr M ] − ⟨A_Z, N⟩ + λ K }.

Here α is the scale of the loss ℓ. The oracles of the linear learners find the maximum without a T×T
array. For segments the maximum is exact. If the maximizer M̂ is unique, Danskin's theorem gives the
gradient of the hinge. The gradient is (d⟨A_Z, M̂⟩/dZ − d⟨A_Z, N⟩/dZ) / T for the outputs, and (K −
Tr M̂)/T for the penalty λ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from metriclearn.estimators.reading.data_sets import DataSets
from metriclearn.estimators.reading.labels import read_labelings, read_names
from metriclearn.oracles.change_points import ConstrainedChangePoints, segmentation_oracle
from metriclearn.oracles.completion import ConstrainedKMeans
from metriclearn.oracles.spectral import TopEigenvectors
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.losses import ChargedForm, FrobeniusLoss, KnownLoss
from metriclearn.problem.named_segments import (
    NamedLoss,
    NamedPartition,
    NameScores,
    PartialNames,
    named_truths,
)
from metriclearn.problem.partial_labels import PartialPartition
from metriclearn.running.executors import ThreadExecutor
from metriclearn.running.parameters import Jobs, Needs, Of, OneOf, Positive, Real, Whole, needs
from metriclearn.running.values import shown
from metriclearn.similarities.joint import GaussianSimilarity
from metriclearn.similarities.nodes import NodeLabels, Nodes
from metriclearn.similarities.operators import SimilarityForm


class OutputForms(Protocol):
    """Protocol of objects that compute A_Z from outputs Z, and the gradient of ⟨A_Z, M⟩ in Z.

    :class:`StructuredHingeLoss` accepts any object with these three methods.
    """

    def at(self, Z: NDArray, truth: Any) -> tuple[Any, float]:
        """Return A_Z for outputs (T, r), and the number that divides the hinge (often T)."""

    def slope(self, form: Any, Z: NDArray, partition: Any) -> NDArray:
        """Return the gradient d⟨A_Z, M⟩/dZ, an array (T, r), for a fixed partition M."""

    def loss(self, segments: bool) -> Any:
        """Return the loss ℓ between segmentations or, if ``segments`` is false, clusterings."""


class InnerProducts:
    """The form A_Z = ZZᵀ of centered outputs Z, so that ⟨A_Z, M⟩ = ‖MZ‖² has the gradient 2MZ.

    For segments, the gradient takes O(T r) time.

    See Also
    --------
    GaussianSimilarities : the form for normalized cuts.

    Examples
    --------
    >>> from metriclearn.encoders import InnerProducts, StructuredHingeLoss
    >>> loss = StructuredHingeLoss(forms=InnerProducts())  # as by default
    """

    def at(self, Z: NDArray, truth: Any) -> tuple[Any, float]:
        return LowRankForm(center(Z)), float(len(Z))

    def slope(self, form: Any, Z: NDArray, partition: Any) -> NDArray:
        # The form holds the centered outputs. Centering the outputs centers the slope, too.
        return center(2.0 * partition.project(form.factors))

    def loss(self, segments: bool) -> Any:
        return KnownLoss() if segments else FrobeniusLoss()


class NamedProducts(InnerProducts):
    """The form for segments with names. The network outputs r features and a score for each name.

    The outputs are features Z, (T, r), followed by scores E, (T, C), for C names. A segmentation M
    whose samples have the names c_t has the value ⟨ZZᵀ, M⟩ + Σ_t E[t, c_t]. An exact search finds
    the best boundaries and names together. The gradient of the value with respect to E is 1 at the
    name of each sample, and 0 elsewhere. The loss is ‖M − N‖² plus β for every sample with a wrong
    name. Labels are the numbers 0 … C−1 of the names, or −1 if a name is unknown.

    Parameters
    ----------
    n_names : int
        Number of names C.
    name_loss : float
        Loss β of a sample with a wrong name.

    Raises
    ------
    ValueError
        If a parameter is out of range. :class:`StructuredHingeLoss` raises ValueError if the
        outputs have no features before the scores, or if a label is not the number of a name.

    See Also
    --------
    NamedSegmentLearner : uses the same value with linear features.

    References
    ----------
    Sarawagi & Cohen, Semi-Markov conditional random fields for information extraction, NIPS 2004.

    Examples
    --------
    >>> import torch
    >>> from metriclearn.encoders import NamedProducts, StructuredHingeLoss
    >>> loss = StructuredHingeLoss(forms=NamedProducts(n_names=2, name_loss=0.1))
    >>> outputs = [torch.randn(50, 3 + 2, requires_grad=True)]  # 3 features and 2 names
    >>> loss(outputs, [[0] * 20 + [1] * 30]).backward()
    """

    @needs
    def __init__(
        self, n_names: Annotated[int, Whole(1)], name_loss: Annotated[float, Real()]
    ) -> None:
        self.n_names, self.name_loss = n_names, name_loss

    def at(self, Z: NDArray, truth: Any) -> tuple[ChargedForm, float]:
        if Z.shape[1] <= self.n_names:
            raise ValueError(
                f"NamedProducts needs outputs of features and {self.n_names} scores of names, got "
                f"{Z.shape[1]} columns; add at least one column before the scores."
            )
        form, unit = super().at(Z[:, : -self.n_names], truth)
        return ChargedForm(form, names=NameScores.of(Z[:, -self.n_names :])), unit

    def slope(self, form: ChargedForm, Z: NDArray, partition: NamedPartition) -> NDArray:
        of_features = super().slope(form.form, Z[:, : -self.n_names], partition)
        return np.hstack([of_features, np.eye(self.n_names)[partition.sample_names]])

    def loss(self, segments: bool) -> NamedLoss:
        return NamedLoss(self.name_loss)


_ALL_PAIRS = Needs(
    "{a} {name} such as GaussianSimilarity() of all pairs or None",
    lambda one: one is None or (isinstance(one, GaussianSimilarity) and one.neighborhood is None),
)


class GaussianSimilarities:
    """The form A_Z = W/T with similarities W_ij = exp(−‖z_i − z_j‖²), for normalized cuts.

    With G = W∘M, the gradient of ⟨A_Z, M⟩ for a fixed M = FFᵀ is 4(GZ − Diag(G1)Z)/T. In the hinge,
    the maximizer M̂ is the projector onto the leading eigenvectors. Labels are given as
    :class:`~metriclearn.similarities.NodeLabels`, because a node may stand for several samples.

    Parameters
    ----------
    similarity : GaussianSimilarity, optional
        The similarity. W holds the similarities of all pairs of nodes. If W needs more memory than
        ``similarity.memory``, W is computed again, in blocks, whenever it is used.

    Raises
    ------
    ValueError
        If the similarity is of another kind, or if it has a neighborhood, because outputs have no
        positions.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from metriclearn.encoders import GaussianSimilarities, StructuredHingeLoss
    >>> from metriclearn.oracles.spectral import TopEigenvectors
    >>> from metriclearn.similarities import NodeLabels
    >>> loss = StructuredHingeLoss(
    ...     forms=GaussianSimilarities(),
    ...     oracle=TopEigenvectors(),
    ...     n_clusters="given",
    ...     segments=False,
    ... )
    >>> outputs = [torch.randn(4, 3, requires_grad=True)]
    >>> counts = np.array([[5, 0], [3, 1], [0, 6], [0, 2]])  # samples of each region in each node
    >>> loss(outputs, [NodeLabels(counts)]).backward()
    """

    @needs
    def __init__(self, similarity: Annotated[GaussianSimilarity | None, _ALL_PAIRS] = None) -> None:
        self.similarity = GaussianSimilarity() if similarity is None else similarity

    def at(self, Z: NDArray, truth: NodeLabels) -> tuple[SimilarityForm, float]:
        sizes = truth.counts.sum(axis=1) if truth.sizes is None else truth.sizes
        nodes = Nodes(center(Z), sizes)
        return SimilarityForm(self.similarity.operator(nodes, np.eye(Z.shape[1]))), nodes.unit

    def slope(self, form: SimilarityForm, Z: NDArray, partition: Any) -> NDArray:
        operator: Any = form.operator  # acts on centered outputs, over all pairs
        return center(4.0 * operator.pull(operator.root[:, None] * partition.factor))

    def loss(self, segments: bool) -> FrobeniusLoss:
        return FrobeniusLoss()


class HingeValue(NamedTuple):
    """The hinge L of one recording and its gradients dL/dZ (T, r) and dL/dλ."""

    value: float
    slope: NDArray
    penalty_slope: float


class HingeOfForms(torch.autograd.Function):
    """Autograd function that computes the hinges (N,) of N recordings from λ and the outputs.

    Call ``HingeOfForms.apply(evaluate, penalty, *outputs)``. The function ``evaluate(arrays, λ)``
    gets the outputs as float64 arrays, and returns a :class:`HingeValue` for each of them. Only
    ``evaluate`` depends on the form, the loss and the oracle. The memory is O(Σ T_i r).

    Parameters
    ----------
    *args, **kwargs
        Passed to torch. Users call ``HingeOfForms.apply`` instead of the constructor.

    See Also
    --------
    StructuredHingeLoss : the loss that uses this function.

    Examples
    --------
    >>> import torch
    >>> from metriclearn.encoders import StructuredHingeLoss
    >>> Z = torch.tensor([[0.0], [0.0], [3.0]], requires_grad=True)
    >>> StructuredHingeLoss()([Z], [[0, 0, 1]]).backward()  # through HingeOfForms
    >>> Z.grad.shape
    torch.Size([3, 1])
    """

    @staticmethod
    def forward(
        ctx: Any,
        evaluate: Callable[[list[NDArray], float], Sequence[HingeValue]],
        penalty: Tensor,
        *outputs: Tensor,
    ) -> Tensor:
        """Return a tensor (N,) with the hinge of each recording."""
        arrays = [Z.detach().cpu().double().numpy() for Z in outputs]
        values, slopes, penalty_slopes = zip(*evaluate(arrays, float(penalty)))
        ctx.save_for_backward(*map(Tensor.new_tensor, outputs, slopes))
        ctx.penalty_slopes = penalty.new_tensor(penalty_slopes)
        return outputs[0].new_tensor(values)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Any, ...]:
        """Return the gradients of the hinges, multiplied by the incoming gradients."""
        slopes = map(torch.mul, weights, ctx.saved_tensors)
        return None, (weights.to(ctx.penalty_slopes) @ ctx.penalty_slopes), *slopes


class StructuredHingeLoss(nn.Module):
    """The mean structured hinge of outputs (T_i, r) and labels, as a torch loss.

    The maximizers M̂ are found on the CPU by several threads, one recording per thread, without
    Python's global lock. For segments the maximizers are exact. The backward pass takes O(T r)
    time, because the gradient consists of means of the outputs over segments or clusters.

    Parameters
    ----------
    loss_scale : float
        Factor α > 0 of the loss ℓ in the hinge. The scale of the learned outputs grows with √α, and
        the penalty with α.
    penalty : "learned" or float
        Penalty λ ≥ 0 of a segment or cluster. If the penalty is "learned", ``log_penalty`` is the
        only parameter of the module, and may have a separate learning rate.
    n_clusters : None or "given"
        If "given", M̂ has as many clusters as the true partition, and there is no penalty. If None,
        the penalty determines the number of clusters.
    segments : bool
        If True, every run of equal labels is a cluster. If False, all samples with equal labels
        form one cluster.
    min_size : int
        Smallest number of samples in a segment.
    oracle : Oracle, optional
        Computes argmax ⟨A, M⟩. For segments, the default is ``ChangePoints``. For clusterings, pass
        ``SpectralRelaxation()`` or ``LocalSearch()``; for similarities, ``TopEigenvectors()``.
    forms : OutputForms, optional
        The form A_Z of the outputs: ``InnerProducts()`` by default,
        ``NamedProducts(n_names, name_loss)`` if labels are names, or ``GaussianSimilarities()`` for
        normalized cuts.
    n_jobs : int, optional
        Number of threads, as in joblib. Each thread processes one recording at a time.

    Raises
    ------
    ValueError
        If a parameter is out of range, or if labels do not fit the outputs.

    Notes
    -----
    If labels are partial (−1, or :class:`~metriclearn.PartialPartition`), N is the partition with
    the largest value for the current outputs among those that agree with the labels. N is computed
    again in every call. For segments the search for N is exact, and the loss ℓ is
    :class:`~metriclearn.problem.KnownLoss`. Partial labels of clusterings need
    ``n_clusters="given"`` and ``TopEigenvectors()``. Then N has one cluster for each label, and
    K-means finds N with the labels as constraints. The loss ℓ is
    :class:`~metriclearn.problem.FrobeniusLoss`, restricted to the rows of labeled samples.

    References
    ----------
    Lajugie, Arlot & Bach, Large-Margin Metric Learning for Partitioning Problems,
    arXiv:1303.1280, section 4.1.

    Examples
    --------
    >>> import torch
    >>> loss = StructuredHingeLoss()
    >>> outputs = [torch.randn(50, 3, requires_grad=True)]
    >>> loss(outputs, [[0] * 20 + [1] * 30]).backward()
    >>> outputs[0].grad.shape
    torch.Size([50, 3])
    """

    @needs
    def __init__(
        self,
        *,
        loss_scale: Annotated[float, Positive()] = 1.0,
        penalty: Annotated[str | float, OneOf("learned", Real())] = "learned",
        n_clusters: Annotated[str | None, OneOf(None, "given")] = None,
        segments: bool = True,
        min_size: Annotated[int, Whole(1)] = 1,
        oracle: Annotated[Any, Of("__call__", "ChangePoints()", optional=True)] = None,
        forms: OutputForms | None = None,
        n_jobs: Jobs = None,
    ) -> None:
        super().__init__()
        if not segments and oracle is None:
            raise ValueError(
                "StructuredHingeLoss needs an oracle for clusters that are not segments; pass "
                "SpectralRelaxation(), LocalSearch() or, for similarities, TopEigenvectors()."
            )
        self.loss_scale, self.n_clusters, self.segments = loss_scale, n_clusters, segments
        self.oracle, self.completion = oracle, ConstrainedKMeans()
        if segments:
            self.oracle = segmentation_oracle(oracle, min_size)
            self.completion = ConstrainedChangePoints(min_size)
        self.forms = InnerProducts() if forms is None else forms
        self.executor = ThreadExecutor(n_jobs)
        # at λ = α more segments than in the truth bring no gain, so training begins there
        value = loss_scale if penalty == "learned" else penalty
        first = torch.tensor(float(value), dtype=torch.float64).log()
        if penalty == "learned" and n_clusters is None:
            self.log_penalty = nn.Parameter(first)
        else:
            self.register_buffer("log_penalty", first)

    @property
    def penalty(self) -> Tensor:
        """The penalty λ, or 0 if the number of clusters is given."""
        return self.log_penalty.exp() * (self.n_clusters is None)

    def forward(self, outputs: Sequence[Tensor], truths: Sequence[Any]) -> Tensor:
        """Return the mean hinge of the recordings.

        Parameters
        ----------
        outputs : sequence of N tensors (T_i, r)
            The outputs of the network for every recording.
        truths : sequence of N labels (T_i,), Partition, PartialPartition or NodeLabels
            The labels of every recording.

        Raises
        ------
        ValueError
            If outputs are not tensors of this shape with finite numbers, if labels do not match the
            outputs in number or length, or if labels of a clustering are partial and the oracle
            cannot use partial labels.
        """
        right = len(outputs) > 0
        for Z in outputs:
            two = isinstance(Z, Tensor) and Z.ndim == 2 and Z.is_floating_point()
            right = right and two and Z.numel() > 0 and bool(torch.isfinite(Z).all())
        if not right:
            raise ValueError(
                f"{type(self).__name__} needs a list of tensors (T_i, r) of finite numbers, got "
                f"{shown(outputs)}; pass one for every recording, without the axis of a batch."
            )
        who = type(self).__name__
        listed = truths if isinstance(truths, Collection) else ()
        of_nodes = [isinstance(truth, NodeLabels) for truth in listed]
        if any(of_nodes) or isinstance(self.forms, GaussianSimilarities):
            fits = not self.segments and all(of_nodes) and len(of_nodes) == len(outputs)
            if not (fits and all(len(N.counts) == len(Z) for N, Z in zip(truths, outputs))):
                raise ValueError(
                    f"{who} needs segments=False and NodeLabels for every output, with as many "
                    f"rows of counts, got segments={self.segments} and {shown(truths)}; "
                    "NodeLabels(np.eye(K)[labels]) are the labels of nodes of one sample."
                )
        else:
            data, labelings = DataSets(list(outputs), False, None), truths  # type: ignore[arg-type]
            truths = read_labelings(who, truths, data, segments=self.segments, partial=True)
            named = isinstance(truths[0], (NamedPartition, PartialNames))
            if isinstance(self.forms, NamedProducts) and not named:
                names = np.arange(self.forms.n_names)
                truths = named_truths(read_names(who, labelings, data, truths, names)[0], truths)
            usable = isinstance(self.oracle, TopEigenvectors) and self.n_clusters == "given"
            for truth in () if self.segments else truths:
                is_partial = isinstance(truth, PartialPartition)
                if is_partial and not (usable and truth.labels.max() >= 0):
                    raise ValueError(
                        f"{who} needs oracle=TopEigenvectors(), n_clusters='given' and at least "
                        "one label per clustering for partial labels of clusterings, got "
                        f"{self.oracle!r} and {self.n_clusters!r}; set both, and leave out "
                        "clusterings without labels."
                    )

        def evaluate(arrays: list[NDArray], penalty: float) -> list[HingeValue]:
            return self.executor.each(list(zip(arrays, truths)), self._hinge, penalty)

        return HingeOfForms.apply(evaluate, self.penalty, *outputs).mean()

    def _hinge(self, item: tuple[NDArray, Any], penalty: float) -> HingeValue:
        """Find the maximizer M̂ for one recording. Return the hinge and its gradients."""
        outputs, truth = item
        form, unit = self.forms.at(outputs, truth)
        penalized = form.shifted(-penalty)
        loss = self.forms.loss(self.segments)
        if isinstance(truth, PartialPartition):
            count = None if self.segments else int(truth.labels.max()) + 1
            truth = truth.with_completion(self.completion(penalized, count, truth))
        augmented, _ = loss.augment(penalized, truth, self.loss_scale)
        count = truth.n_clusters if self.n_clusters == "given" else None
        answer = self.oracle(augmented, count)
        more = answer.n_clusters - truth.n_clusters
        charge = self.loss_scale * loss(answer, truth) * truth.n_samples
        value = charge + form.at(answer) - form.at(truth) - penalty * more
        slope = self.forms.slope(form, outputs, answer) - self.forms.slope(form, outputs, truth)
        return HingeValue(max(value, 0.0) / unit, slope / unit, -more / unit)
