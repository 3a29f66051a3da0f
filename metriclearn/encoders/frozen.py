"""Pretrained modules with fixed weights, as encoders and as features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from metriclearn.running.parameters import Each, Needs, OneOf, Whole, needs
from metriclearn.running.values import real_array, shown
from metriclearn.views.plain import StatelessTransformer

COUNT = Whole(1, 2**31)
Count = Annotated[int, COUNT]
_Module = Annotated[
    nn.Module | Callable[[], nn.Module],
    Needs("{a} {name}, a torch module or a function that makes one", callable),
]


def torch_module(who: str, made: Any, given: Any) -> nn.Module:
    """Return what the given parameter is or makes, if it is a torch module."""
    if not isinstance(made, nn.Module):
        raise ValueError(f"{who} needs a torch module, got {shown(made)} from {shown(given)}.")
    return made


class FrozenEncoder(nn.Module):
    """Encoder of a pretrained module with fixed weights, followed by trainable layers.

    Parameters
    ----------
    n_features : int
        Number of input columns P.
    module : nn.Module, or callable () -> nn.Module
        The pretrained module, which maps a batch of windows ``(n, *shape)`` to features of any
        shape (n, …). A class, or a ``functools.partial`` of a class, can be saved with a model. A
        module cannot.
    shape : sequence of int
        A row of the input is a window of this shape, flattened in row-major order. The default is
        (P,).
    head : callable (n_features) -> nn.Module, optional
        The trainable layers, such as ``partial(WindowEncoder, n_outputs=8)``.
    batch_size : int
        Number of windows that are passed to the module at a time.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Razavian, Azizpour, Sullivan & Carlsson, CNN features off-the-shelf, CVPR Workshops 2014.

    Examples
    --------
    >>> from functools import partial
    >>> import torch
    >>> from metriclearn.encoders import FrozenEncoder, WindowEncoder
    >>> encoder = FrozenEncoder(5, torch.nn.Linear(5, 4), head=partial(WindowEncoder))
    >>> encoder(torch.zeros(1, 10, 5)).shape
    torch.Size([1, 10, 16])
    """

    @needs
    def __init__(
        self,
        n_features: Count,
        module: _Module,
        shape: Annotated[
            Sequence[int] | None, OneOf(None, Each(COUNT, "a {name} of positive whole numbers"))
        ] = None,
        head: Annotated[
            Callable[[int], nn.Module] | None,
            Needs("head=None or a function of n_features", lambda h: h is None or callable(h)),
        ] = None,
        batch_size: Count = 256,
    ) -> None:
        super().__init__()
        made = module if isinstance(module, nn.Module) else module()
        self.module = torch_module("FrozenEncoder", made, module).requires_grad_(False).eval()
        self.shape = (n_features,) if shape is None else tuple(shape)
        if prod(self.shape) != n_features:
            raise ValueError(
                f"FrozenEncoder needs the shape of windows of {n_features} values, got "
                f"{shown(shape)}."
            )
        self.batch_size = batch_size
        given = torch.zeros(1, 1, n_features, device=self.device)
        self.width = self._features(given).shape[2]
        self.head = nn.Identity() if head is None else head(self.width)

    @property
    def device(self) -> torch.device:
        """The device that holds the weights of the module."""
        weights = chain(self.module.parameters(), self.module.buffers())
        return next(weights, torch.empty(0)).device

    def train(self, mode: bool = True) -> FrozenEncoder:
        """Set the training mode of the head. The module stays in evaluation mode."""
        super().train(mode)
        self.module.eval()
        return self

    @torch.no_grad()
    def _features(self, X: Tensor) -> Tensor:
        windows = X.reshape(-1, *self.shape)
        # exported programs take one batch, as they would fix the number of batches
        batches = [windows] if torch.compiler.is_exporting() else windows.split(self.batch_size)
        features = torch.cat([self.module(batch).flatten(1) for batch in batches])
        return features.unflatten(0, X.shape[:2])

    def forward(self, X: Tensor) -> Tensor:
        """Map a batch of recordings (N, T, P) to features (N, T, r)."""
        return self.head(self._features(X))


@dataclass(eq=False, repr=False)
class FrozenFeatures(StatelessTransformer):
    """Use the outputs of a pretrained module as features of pictures, sound or signal windows.

    Pass this object as a descriptor: to ``VideoFeatures(descriptors=[…])`` for pictures, or to
    ``SoundWindows(…)`` for sound. The outputs have no gradient. To train layers after the module,
    use :class:`FrozenEncoder`.

    Parameters
    ----------
    module : nn.Module, or callable () -> nn.Module
        The pretrained module, which maps ``(n, *shape)`` to features (n, …).
    shape : sequence of int
        Shape of one window or picture, such as (height, width, 3).
    batch_size : int
        Number of windows that are passed to the module at a time.

    Raises
    ------
    ValueError
        If a parameter is invalid.

    References
    ----------
    Razavian, Azizpour, Sullivan & Carlsson, CNN features off-the-shelf, CVPR Workshops 2014.

    Examples
    --------
    >>> from torch import nn
    >>> from metriclearn.encoders import FrozenFeatures
    >>> pictures = FrozenFeatures(nn.AvgPool2d(4), (1, 8, 8))
    >>> pictures.get_feature_names_out().tolist()
    ['frozen0', 'frozen1', 'frozen2', 'frozen3']
    """

    module: _Module
    shape: Annotated[Sequence[int], Each(COUNT, "a {name} of positive whole numbers")]
    batch_size: Count = 64

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute features (n, P) of windows ``(n, *shape)``.

        Raises
        ------
        ValueError
            If windows have another shape, or if windows or features are not finite numbers.
        """
        self.fit()
        given = real_array(type(self).__name__, "windows", X, None, single_precision=True)
        with np.errstate(over="ignore"):  # the check below refuses infinite features
            windows = np.array(given, dtype=np.float32)  # a copy, as torch cannot read some views
        if windows.shape[1:] != tuple(self.shape) or not len(windows):
            raise ValueError(
                f"FrozenFeatures needs windows (n, {', '.join(map(str, self.shape))}), got shape "
                f"{windows.shape}; set shape to match the data."
            )
        encoder = self._encoder()
        with torch.no_grad():
            there = torch.as_tensor(windows, device=encoder.device)
            rows = encoder(there.flatten(1)[None])[0].cpu()
        return real_array(type(self).__name__, "outputs of the module", rows.double().numpy())

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return the names ``frozen0``, ``frozen1`` … of the outputs of the module."""
        return np.array([f"frozen{i}" for i in range(self._encoder().width)], dtype=object)

    def _encoder(self) -> FrozenEncoder:
        module = copy.deepcopy(self.module) if isinstance(self.module, nn.Module) else self.module
        n_features = prod(self.shape)
        return FrozenEncoder(n_features, module, self.shape, batch_size=self.batch_size).float()
