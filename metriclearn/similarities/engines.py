"""Where similarity matrices are computed: numpy, or torch on any of its devices."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.devices import torch_device

__all__ = ["Engine", "NumpyEngine", "TorchEngine", "engine_for"]


class Engine(Protocol):
    """The few array operations that the operators need; arrays support @, *, slices and .sum."""

    itemsize: int

    def array(self, values: ArrayLike) -> Any:
        """Values as an array of the engine."""
        ...

    def numpy(self, values: Any) -> NDArray[np.float64]:
        """An array of the engine as float64 numpy."""
        ...

    def gaussian(self, Z: Any, others: Any) -> Any:
        """exp(−‖z_i − z_j‖²), (b, r) and (S, r) -> (b, S)."""
        ...

    def stack(self, rows: list[Any]) -> Any:
        """Arrays one below the other."""
        ...


class NumpyEngine:
    """Double precision on the processor."""

    itemsize = 8

    def array(self, values: ArrayLike) -> NDArray:
        return np.asarray(values, dtype=np.float64)

    def numpy(self, values: NDArray) -> NDArray[np.float64]:
        return values

    def gaussian(self, Z: NDArray, others: NDArray) -> NDArray:
        kernel = (2.0 * Z) @ others.T
        kernel -= np.einsum("ir,ir->i", Z, Z)[:, None]
        kernel -= np.einsum("ir,ir->i", others, others)
        np.minimum(kernel, 0.0, out=kernel)  # rounding must not make a similarity exceed 1
        return np.exp(kernel, out=kernel)

    def stack(self, rows: list[NDArray]) -> NDArray:
        return np.concatenate(rows)


class TorchEngine:
    """Torch on a device: float64, or float32 where the device has no double precision.

    Parameters
    ----------
    device : str
        "cpu", "cuda", "cuda:1", "mps" ...
    """

    def __init__(self, device: str) -> None:
        self._device = torch_device("GaussianSimilarity", device)
        import torch

        self._type = torch.float32 if self._device.type == "mps" else torch.float64
        self.itemsize = 4 if self._type == torch.float32 else 8
        self._cat = torch.cat

    def array(self, values: ArrayLike) -> Any:
        import torch

        values = np.ascontiguousarray(values, dtype=np.float64)  # torch takes no negative strides
        return torch.as_tensor(values, dtype=self._type, device=self._device)

    def numpy(self, values: Any) -> NDArray[np.float64]:
        return values.cpu().numpy().astype(np.float64)

    def gaussian(self, Z: Any, others: Any) -> Any:
        kernel = (2.0 * Z) @ others.T
        kernel -= (Z * Z).sum(1)[:, None]
        kernel -= (others * others).sum(1)
        return kernel.clamp_(max=0.0).exp_()

    def stack(self, rows: list[Any]) -> Any:
        return self._cat(rows)


def engine_for(device: str | None) -> Engine:
    """numpy for None, else torch on that device.

    Raises
    ------
    ImportError
        If a device is named and torch is not installed.
    ValueError
        If the device is not there.
    """
    return NumpyEngine() if device is None else TorchEngine(device)
