"""Encoders that map samples and their neighbors in time to features.

Encoders are plain torch modules, which users can copy and change. The first argument of an encoder
is the number P of input features, so that a learner can construct it. An encoder maps a batch (N,
T, P) of N recordings to (N, T, r), so that every input row gets r features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from metriclearn.encoders.frozen import COUNT, Count, FrozenEncoder, torch_module
from metriclearn.running.parameters import Needs, OneOf, Real, Whole, needs

_Extra = Annotated[int, Whole(0, 2**31)]
_Share = Annotated[float, Real(0, 1)]
_Maker = Annotated[
    Callable[[int], nn.Module],
    Needs("{a} {name} that makes an nn.Module of n_features, such as WindowEncoder", callable),
]


class Standardization(nn.Module):
    """Standardize every column to (X − mean) / scale.

    ``fit`` sets ``mean`` and ``scale``, which are saved with the weights of the network. Before
    ``fit``, inputs stay unchanged.

    Parameters
    ----------
    n_features : int
        Number of columns P.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    See Also
    --------
    Encoder : standardizes the inputs of its network.

    Examples
    --------
    >>> import torch
    >>> from metriclearn.encoders import Standardization
    >>> Standardization(5)(torch.zeros(1, 10, 5)).shape
    torch.Size([1, 10, 5])
    """

    mean: Tensor
    scale: Tensor

    @needs
    def __init__(self, n_features: Count) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("scale", torch.ones(n_features))

    def fit(self, arrays: Sequence[NDArray], who: str) -> None:
        """Set ``mean`` and ``scale`` to the mean and standard deviation of all samples.

        Constant columns are not scaled. Error messages begin with the name ``who``.

        Raises
        ------
        ValueError
            If a column varies too little around its mean for single precision.
        """
        count = sum(map(len, arrays))
        total, squares = np.zeros((2, len(self.mean)))
        for X in arrays:
            total += X.sum(axis=0)
        mean = total / count
        for X in arrays:
            squares += ((X - mean) ** 2).sum(axis=0)
        deviation = np.sqrt(squares / count)
        deviation[deviation <= 1e-12 * np.abs(mean)] = 0.0
        far = np.flatnonzero((deviation > 0) & (deviation < 1e-5 * np.abs(mean)))
        if len(far):
            raise ValueError(
                f"{who} computes in single precision, and needs columns whose mean is at most "
                f"100 000 times their deviation, got a mean of {mean[far[0]]:.3g} and a deviation "
                f"of {deviation[far[0]]:.3g} in column {far[0]}; subtract the mean."
            )
        # not as_tensor, which would put them on torch's default device
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(np.where(deviation > 0, deviation, 1.0)))

    def forward(self, X: Tensor) -> Tensor:
        return (X - self.mean) / self.scale


class TemporalBlock(nn.Module):
    """Residual block x + dropout(relu(convolution of the normalized x over time)).

    The block maps (N, T, w) to (N, T, w).

    Parameters
    ----------
    width : int
        Number of channels w.
    kernel_size : int
        Number of rows that the kernel combines, preferably odd.
    dilation : int
        Distance in rows between neighboring entries of the kernel.
    dropout : float
        Fraction of the values of the convolution that are set to 0 in training.
    causal : bool
        Whether output row t depends only on input rows up to t.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    See Also
    --------
    TemporalConvolution : an encoder made of such blocks, for raw signals.

    Examples
    --------
    >>> import torch
    >>> from metriclearn.encoders import TemporalBlock
    >>> block = TemporalBlock(width=8, kernel_size=3, dilation=2, dropout=0.0, causal=False)
    >>> block(torch.zeros(1, 10, 8)).shape
    torch.Size([1, 10, 8])
    """

    @needs
    def __init__(
        self, width: Count, kernel_size: Count, dilation: Count, dropout: _Share, causal: bool
    ) -> None:
        super().__init__()
        reach = (kernel_size - 1) * dilation
        self.padding = (reach, 0) if causal else (reach // 2, reach - reach // 2)
        self.norm = nn.LayerNorm(width)
        self.convolution = nn.Conv1d(width, width, kernel_size, dilation=dilation)
        self.dropout = nn.Dropout(dropout)

    def forward(self, H: Tensor) -> Tensor:
        columns = functional.pad(self.norm(H).transpose(1, 2), self.padding)
        return H + self.dropout(functional.relu(self.convolution(columns)).transpose(1, 2))


class TemporalConvolution(nn.Module):
    """Encoder of raw signals in windows: convolutions inside every window, then over the windows.

    An input row is a window of raw samples, each with all channels. After the raw samples, a row
    may have columns that are already features. Two convolutions run over the samples of a window.
    The results of the convolutions are pooled to the mean, the maximum and the logarithm of the
    standard deviation. Then residual convolutions over the rows, with dilations of 1, 2, 4 … rows,
    combine neighboring windows. If a row is a single sample, the convolutions inside windows are
    left out.

    Parameters
    ----------
    n_features : int
        Number of input columns P: samples in a window × channels + ``n_given``.
    n_channels : int, optional
        Number of channels of the raw signals. By default every column is a channel, and a row is a
        single sample.
    n_given : int
        Number of columns at the end that are already features.
    n_outputs : int
        Number of output features r.
    width : int
        Number of channels of all convolutions.
    n_blocks, kernel_size : int
        Number of residual convolutions over rows, and the size of their kernels. An output row
        depends on its input row and on (kernel_size − 1)(2^n_blocks − 1) other input rows.
    dropout : float
        Fraction of the outputs of each residual convolution that are set to 0 in training.
    causal : bool
        Whether an output row depends only on its own and earlier input rows, as needed for live
        signals.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Bai, Kolter & Koltun, An empirical evaluation of generic convolutional and recurrent networks
    for sequence modeling, arXiv:1803.01271, 2018.

    Examples
    --------
    >>> import torch
    >>> from metriclearn.encoders import TemporalConvolution
    >>> TemporalConvolution(150, n_channels=6)(torch.zeros(1, 10, 150)).shape  # 25 samples a row
    torch.Size([1, 10, 24])
    """

    @needs
    def __init__(
        self,
        n_features: Count,
        n_channels: Annotated[int | None, OneOf(None, COUNT)] = None,
        n_given: _Extra = 0,
        n_outputs: Count = 24,
        width: Count = 32,
        n_blocks: Count = 3,
        kernel_size: Count = 5,
        dropout: _Share = 0.1,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.n_raw = n_features - n_given
        self.n_channels = self.n_raw if n_channels is None else n_channels
        if self.n_raw < 1 or self.n_raw % self.n_channels or kernel_size % 2 == 0:
            raise ValueError(
                "TemporalConvolution needs whole windows of n_channels channels and an odd "
                f"kernel_size, got {n_features} features, of which {n_given} are given, "
                f"{n_channels} channels and a kernel of {kernel_size}."
            )
        self.window: nn.Module = nn.Identity()
        n_pooled = self.n_channels
        if self.n_raw > self.n_channels:
            first = nn.Conv1d(self.n_channels, width, 5, padding=2)
            second = nn.Conv1d(width, width, 5, padding=2, stride=2)
            self.window = nn.Sequential(first, nn.ReLU(), second, nn.ReLU())
            n_pooled = 3 * width
        self.joined = nn.Linear(n_pooled + n_given, width)
        self.blocks = nn.Sequential(
            *(TemporalBlock(width, kernel_size, 2**i, dropout, causal) for i in range(n_blocks))
        )
        self.outputs = nn.Linear(width, n_outputs)

    def forward(self, X: Tensor) -> Tensor:
        """Map a batch of recordings (N, T, P) to features (N, T, r)."""
        raw, given = X[..., : self.n_raw], X[..., self.n_raw :]
        if self.n_raw > self.n_channels:
            windows = raw.unflatten(2, (-1, self.n_channels)).flatten(0, 1).transpose(1, 2)
            inside = self.window(windows)
            # a window of two samples leaves one column, which has no spread
            spread = torch.log(inside.std(2, correction=int(inside.shape[2] > 1)) + 1e-2)
            pooled = torch.cat([inside.mean(2), inside.amax(2), spread], 1)
            raw = pooled.unflatten(0, X.shape[:2])
        return self.outputs(self.blocks(self.joined(torch.cat([raw, given], 2))))


class WindowEncoder(nn.Module):
    """Perceptron over every row and its neighbors, for inputs that are already features.

    Parameters
    ----------
    n_features : int
        Number of input columns P.
    n_outputs : int
        Number of output features r.
    width : int
        Number of units in each of the two hidden layers.
    context : int
        Number of neighboring rows on each side on which an output row depends. Rows beyond the ends
        of the recording are zeros.
    dropout : float
        Fraction of the hidden units that are set to 0 in training.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    See Also
    --------
    TemporalConvolution : an encoder for raw signals.
    """

    @needs
    def __init__(
        self,
        n_features: Count,
        n_outputs: Count = 16,
        width: Count = 64,
        context: _Extra = 2,
        dropout: _Share = 0.1,
    ) -> None:
        super().__init__()
        self.context = nn.Conv1d(n_features, width, 2 * context + 1, padding=context)
        self.rest = nn.Sequential(
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(width, n_outputs),
        )

    def forward(self, X: Tensor) -> Tensor:
        """Map a batch of recordings (N, T, P) to features (N, T, r)."""
        return self.rest(self.context(X.transpose(1, 2)).transpose(1, 2))


class Normalized(nn.Module):
    """Scale the outputs of an encoder to the same variance in every recording.

    Recordings of different devices, rooms and people differ in the scale of their features. After
    scaling, one penalty fits all recordings. An output row z_t becomes (z_t − z̄) s / σ, where z̄
    is the mean of the rows of the recording, σ² = Σ_t ‖z_t − z̄‖² / T, and the factor s is learned.

    Parameters
    ----------
    n_features : int
        Number of input columns P.
    encoder : callable (n_features) -> nn.Module
        A class such as ``WindowEncoder``, or a ``functools.partial`` of one. The encoder need not
        be causal, because z̄ and σ use the whole recording anyway.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Ulyanov, Vedaldi & Lempitsky, Instance normalization, arXiv:1607.08022, 2016 (with a σ for each
    feature).

    Examples
    --------
    >>> import torch
    >>> from metriclearn.encoders import Normalized, WindowEncoder
    >>> Normalized(5, WindowEncoder)(torch.ones(1, 10, 5)).shape
    torch.Size([1, 10, 16])
    """

    @needs
    def __init__(self, n_features: Count, encoder: _Maker) -> None:
        super().__init__()
        self.encoder = encoder(n_features)
        self.log_scale = nn.Parameter(torch.tensor(0.5).log())

    def forward(self, X: Tensor) -> Tensor:
        """Map a batch of recordings (N, T, P) to features (N, T, r)."""
        Z = self.encoder(X)
        Z = Z - Z.mean(1, keepdim=True)
        variance = Z.square().sum(2, keepdim=True).mean(1, keepdim=True)
        return Z * self.log_scale.exp() / (variance + 1e-8).sqrt()


class Ensemble(nn.Module):
    """Average of n encoders of the same kind with different initial weights.

    The outputs of the encoders are concatenated and divided by √n, so that ⟨ZZᵀ, M⟩ is the mean
    over the encoders. In training, each recording is passed to one encoder, drawn at random, and
    the outputs of the others are set to 0. So the encoders learn separately, and make different
    errors. Training therefore needs n times as many epochs as a single encoder.

    Parameters
    ----------
    n_features : int
        Number of input columns P.
    encoder : callable (n_features) -> nn.Module
        A class such as ``WindowEncoder``, or a ``functools.partial`` of one. The class is called n
        times.
    n_encoders : int
        Number of encoders n.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Lakshminarayanan, Pritzel & Blundell, Simple and scalable predictive uncertainty estimation
    using deep ensembles, NeurIPS 2017.

    Examples
    --------
    >>> import torch
    >>> from metriclearn.encoders import Ensemble, WindowEncoder
    >>> Ensemble(5, WindowEncoder, 2).eval()(torch.zeros(1, 10, 5)).shape
    torch.Size([1, 10, 32])
    """

    @needs
    def __init__(self, n_features: Count, encoder: _Maker, n_encoders: Count = 5) -> None:
        super().__init__()
        made = (torch_module("Ensemble", encoder(n_features), encoder) for _ in range(n_encoders))
        self.encoders = nn.ModuleList(made)

    def forward(self, X: Tensor) -> Tensor:
        """Map a batch of recordings (N, T, P) to the features (N, T, nr) of all n encoders.

        In training, the outputs of all but one encoder are 0.
        """
        if self.training:
            drawn = int(torch.randint(len(self.encoders), (), device="cpu"))
            Z = self.encoders[drawn](X)
            parts = [Z if i == drawn else torch.zeros_like(Z) for i in range(len(self.encoders))]
            return torch.cat(parts, 2)
        outputs = torch.cat([encoder(X) for encoder in self.encoders], 2)
        return outputs / len(self.encoders) ** 0.5


# Modules of the last dimension: an output row depends on the same input row alone.
_BY_ROW = (Standardization, nn.Linear, nn.ReLU, nn.GELU, nn.Tanh, nn.Dropout, nn.Identity)


def rows_seen(network: nn.Module) -> tuple[int, int] | None:
    """Return how many rows before and after a row are needed to compute the output of the row.

    The result is None if these numbers are unknown. A user's own module can state these two numbers
    in an attribute ``rows_seen``.
    """
    stated = getattr(network, "rows_seen", None)
    if stated is not None:  # has priority, even if the class extends one of those below
        return stated
    if isinstance(network, _BY_ROW):
        return 0, 0
    if isinstance(network, TemporalBlock):
        return network.padding
    if isinstance(network, TemporalConvolution):
        return rows_seen(network.blocks)
    if isinstance(network, WindowEncoder):
        context = network.context.kernel_size[0] // 2
        return context, context
    if isinstance(network, FrozenEncoder):
        return rows_seen(network.head)
    if isinstance(network, (nn.Sequential, Ensemble)):
        parts = network.encoders if isinstance(network, Ensemble) else network
        seen: list[Any] = [rows_seen(part) for part in parts]
        if None in seen:
            return None
        combined = np.max if isinstance(network, Ensemble) else np.sum
        behind, ahead = combined(np.array(seen).reshape(-1, 2), axis=0).tolist()
        return behind, ahead
    return None
