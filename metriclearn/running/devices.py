"""Torch devices that users name, checked before anything is computed."""

from __future__ import annotations

from typing import Any

__all__ = ["torch_device"]


def torch_device(who: str, device: str) -> Any:
    """The torch device of that name, once an array has been put there.

    Raises
    ------
    ImportError
        If torch is not installed.
    ValueError
        If this machine, or this build of torch, has no such device.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{who} needs torch for device={device!r}, but it is not installed; pip install torch."
        ) from error
    try:
        found = torch.device(device)
        float(torch.zeros(1, device=found))
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        has = [] if not torch.cuda.is_available() else [f"{torch.cuda.device_count()} with CUDA"]
        raise ValueError(
            f"{who} needs a device that is there, got device={device!r}, but torch "
            f"{torch.__version__} finds {' and '.join(['the processor', *has])} only; pass "
            'device="cpu", or install a build of torch for the device.'
        ) from error
    return found
