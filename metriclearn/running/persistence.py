"""Saving and loading fitted estimators without pickle: one file of arrays and JSON."""

from __future__ import annotations

import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

import metriclearn
from metriclearn.estimators.alternation import AlternationTrace
from metriclearn.running.atomic import replacing
from metriclearn.solvers.base import Solution, Trace

__all__ = ["load", "save"]

_FORMAT = 1
_CLASSES = {
    "ChangePointMetricLearner": "metriclearn.estimators.change_points",
    "WhitenedMetricLearner": "metriclearn.estimators.whitened",
    "ReferenceMetricLearner": "metriclearn.estimators.reference",
    "ClusteringMetricLearner": "metriclearn.estimators.clustering",
    "WhitenedClusteringLearner": "metriclearn.estimators.whitened_clustering",
    "SpectralRelaxation": "metriclearn.oracles.spectral",
    "TorchChangePoints": "metriclearn.oracles.torch_change_points",
    "LocalSearch": "metriclearn.oracles.local_search",
    "Averaged": "metriclearn.oracles.averaged",
    "PivotedRounding": "metriclearn.oracles.rounding",
    "RowKMeans": "metriclearn.oracles.rounding",
    "RecordingSegmenter": "metriclearn.estimators.recordings",
    "AudioFeatures": "metriclearn.features.audio",
    "ColorHistogram": "metriclearn.features.video",
    "Gist": "metriclearn.features.gist",
    "JoinedFeatures": "metriclearn.features.per_recording",
    "VideoFeatures": "metriclearn.features.video",
    "Alternation": "metriclearn.estimators.alternation",
    "KnownStart": "metriclearn.estimators.first_completion",
    "PrincipalStart": "metriclearn.estimators.first_completion",
    "ChangePointMetricLearnerCV": "metriclearn.estimators.cross_validation",
    "BundleDual": "metriclearn.solvers.bundle",
    "CuttingPlane": "metriclearn.solvers.cutting_plane",
    "ProjectedSubgradient": "metriclearn.solvers.subgradient",
    "ConstantStep": "metriclearn.solvers.subgradient",
    "DecreasingStep": "metriclearn.solvers.subgradient",
    "PolyakStep": "metriclearn.solvers.subgradient",
    "DiagonalMetric": "metriclearn.solvers.mahalanobis",
    "FullMetric": "metriclearn.solvers.mahalanobis",
    "SquaredFrobenius": "metriclearn.solvers.regularizers",
    "L1": "metriclearn.solvers.regularizers",
    "Trace": "metriclearn.solvers.regularizers",
    "Euclidean": "metriclearn.baselines.linear",
    "PrincipalComponents": "metriclearn.baselines.linear",
    "RelevantComponents": "metriclearn.baselines.linear",
    "ClosedFormMetric": "metriclearn.baselines.closed_form",
    "MetricKMeans": "metriclearn.baselines.clusterer",
    "MMC": "metriclearn.baselines.mmc",
    "NeighborhoodComponents": "metriclearn.baselines.neighborhood",
    "TunedSegmenter": "metriclearn.baselines.tuned",
    "PenaltyLearner": "metriclearn.estimators.penalty",
    "BayesianCriterion": "metriclearn.estimators.penalty",
    "IntervalRegression": "metriclearn.estimators.interval_regression",
    "DataPenaltyMetricLearner": "metriclearn.estimators.data_penalty",
    "GivenStart": "metriclearn.estimators.data_penalty",
    "IdentityStart": "metriclearn.estimators.data_penalty",
    "HermiteMoments": "metriclearn.features.hermite",
    "SlidingMoments": "metriclearn.features.hermite",
    "SoftThresholds": "metriclearn.features.hermite",
    "SequenceFeatures": "metriclearn.features.sequence",
    "Pipeline": "sklearn.pipeline",
    "NormalizedCutMetricLearner": "metriclearn.estimators.normalized_cuts",
    "EuclideanSimilarity": "metriclearn.baselines.similarities",
    "SimilarityGridSearch": "metriclearn.baselines.similarities",
    "GaussianSimilarity": "metriclearn.similarities.joint",
    "FourierSimilarity": "metriclearn.similarities.joint",
    "GivenSimilarities": "metriclearn.similarities.joint",
    "Neighborhood": "metriclearn.similarities.joint",
    "ThresholdCut": "metriclearn.similarities.normalized_cut",
    "KMeansRounding": "metriclearn.similarities.normalized_cut",
    "Discretization": "metriclearn.similarities.normalized_cut",
    "CCCP": "metriclearn.solvers.cccp",
    "FactorDescent": "metriclearn.solvers.factor_descent",
    "ImageFeatures": "metriclearn.features.image",
    "Superpixels": "metriclearn.features.image",
    "PixelBlocks": "metriclearn.features.image",
    "Color": "metriclearn.features.image",
    "Position": "metriclearn.features.image",
    "Centrality": "metriclearn.features.image",
    "GradientEnergy": "metriclearn.features.image",
    "GaborEnergy": "metriclearn.features.image",
    "ColorContext": "metriclearn.features.image",
    "BorderContrast": "metriclearn.features.image",
}
_RECORDS = {"MetricStep": "metriclearn.estimators.data_penalty"}
# callbacks, executors and tensors on a device served the training, which is over; paths of
# segmentations and of strengths are large and belong to it, too
_LEFT_OUT = ("callbacks", "executor", "kept_", "path_", "paths_")


def save(estimator: BaseEstimator, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator to one ``.npz`` file, atomically.

    Left out is what only training needs: callbacks, executors, ``path_`` (the path of strengths
    of a ``ChangePointMetricLearnerCV``) and ``paths_`` (the segmentation paths of the training
    sequences of a ``PenaltyLearner``). Predictions of the loaded estimator are the same.

    Parameters
    ----------
    estimator : an estimator of this package
    path : path
        The file is replaced only once the new one is complete.

    Raises
    ------
    TypeError
        If the estimator, or something in it, is not of a kind that this format knows.
    OSError
        If the folder cannot be written.
    """
    arrays: dict[str, NDArray] = {}
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(f"metriclearn.save needs an estimator, got {estimator!r}; pass a learner.")
    document = {
        "format": _FORMAT,
        "version": metriclearn.__version__,
        "estimator": _encode(estimator, arrays),
    }
    target = Path(path)
    arrays["metriclearn"] = np.array(json.dumps(document))
    with replacing(target) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return target


def load(path: str | os.PathLike[str]) -> Any:
    """Read what :func:`save` wrote; never executes anything from the file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, was not written by :func:`save`, or is of a newer format.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"metriclearn.load needs a model file, but {path} does not exist.")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        document = json.loads(str(arrays["metriclearn"]))
        version = int(document["format"])
    except Exception as error:  # a damaged archive can fail in any of many ways
        raise ValueError(
            f"metriclearn.load needs a file written by metriclearn.save, but {path} is damaged or "
            "something else; save the model again."
        ) from error
    if version > _FORMAT:
        raise ValueError(
            f"metriclearn.load reads format {_FORMAT}, but {path} has format {version} of "
            f"metriclearn {document.get('version')}; upgrade metriclearn."
        )
    try:
        ((kind, content),) = document["estimator"].items()
        if kind != "object":
            raise ValueError("not an estimator")
        return _decode_object(content, arrays)
    except Exception as error:
        raise ValueError(
            f"metriclearn.load found incomplete contents in {path}; save the model again."
        ) from error


def _encode(value: Any, arrays: dict[str, NDArray]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {"names": [str(item) for item in value]}
        key = f"array{len(arrays)}"
        arrays[key] = value
        return {"array": key}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[str(k), _encode(v, arrays)] for k, v in value.items()]}
    if isinstance(value, Trace):
        return {"trace": _encode(vars(value), arrays)}
    if isinstance(value, AlternationTrace):
        return {"alternation": _encode(vars(value), arrays)}
    if isinstance(value, Solution):
        return {"solution": _encode(vars(value), arrays)}
    name = type(value).__name__
    if _CLASSES.get(name) == type(value).__module__:
        parameters = value.get_params(deep=False)
        parameters = {k: v for k, v in parameters.items() if k not in _LEFT_OUT}
        fitted = {k: v for k, v in vars(value).items() if k not in (*parameters, *_LEFT_OUT)}
        return {"object": [name, _encode(parameters, arrays), _encode(fitted, arrays)]}
    if _RECORDS.get(name) == type(value).__module__:
        return {"record": [name, _encode(vars(value), arrays)]}
    raise TypeError(
        f"metriclearn.save knows estimators and components of metriclearn, got a "
        f"{type(value).__module__}.{name}; leave it out or save it on its own."
    )


def _decode(value: Any, arrays: dict[str, NDArray]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    return _DECODERS[kind](content, arrays)


def _decode_record(content: Any, arrays: dict[str, NDArray]) -> Any:
    name, values = content
    return getattr(import_module(_RECORDS[name]), name)(**_decode(values, arrays))


def _decode_object(content: Any, arrays: dict[str, NDArray]) -> Any:
    name, parameters, fitted = content
    cls = getattr(import_module(_CLASSES[name]), name)
    instance = cls(**_decode(parameters, arrays))
    vars(instance).update(_decode(fitted, arrays))
    return instance


_DECODERS = {
    "names": lambda content, arrays: np.array(content, dtype=object),
    "array": lambda content, arrays: arrays[content],
    "list": lambda content, arrays: [_decode(item, arrays) for item in content],
    "tuple": lambda content, arrays: tuple(_decode(item, arrays) for item in content),
    "dict": lambda content, arrays: {key: _decode(item, arrays) for key, item in content},
    "trace": lambda content, arrays: Trace(**_decode(content, arrays)),
    "alternation": lambda content, arrays: AlternationTrace(**_decode(content, arrays)),
    "solution": lambda content, arrays: Solution(**_decode(content, arrays)),
    "object": _decode_object,
    "record": _decode_record,
}
