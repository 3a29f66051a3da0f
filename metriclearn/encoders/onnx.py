"""Write what a learner computes of a recording as an ONNX model, for other programs."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from metriclearn.encoders.encoder import Encoder
from metriclearn.encoders.training import seeded
from metriclearn.running.atomic import replacing
from metriclearn.running.extras import optional
from metriclearn.running.values import shown


def export_onnx(learner: Any, path: str | os.PathLike[str]) -> Path:
    """Write ``learner.transform`` as an ONNX model with input (1, T, P) and output (1, T, k).

    The number of rows T is variable. An existing file is replaced only when the new one is
    complete.

    Parameters
    ----------
    learner : fitted learner
        Its view is an :class:`Encoder`.
    path : path
        The file.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    ImportError
        If onnxscript is missing.
    ValueError
        If it is no fitted learner, or has another view.

    See Also
    --------
    Encoder : the view with the network.

    Examples
    --------
    >>> from metriclearn.encoders import export_onnx
    >>> export_onnx(learner, "encoder.onnx")  # doctest: +SKIP
    """
    score = getattr(learner, "present_score", None)
    if score is None or not isinstance(score.view, Encoder):
        seen = shown(learner if score is None else score.view)
        raise ValueError(
            f"export_onnx needs a fitted learner with an Encoder as view, got {seen}; fit such a "
            'learner, or pass learner_ of a Segmenter with combine="best".'
        )
    optional("onnxscript", "onnx")
    with seeded(0):
        components = torch.as_tensor(score.components, dtype=torch.float32)
        last = nn.Linear(components.shape[1], len(components), bias=False)
        last.weight = nn.Parameter(components)
        network = nn.Sequential(copy.deepcopy(score.view.network_).cpu(), last).eval()
        program = torch.onnx.export(
            network,
            (torch.zeros(1, 64, learner.n_features_in_),),
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
