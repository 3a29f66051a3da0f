"""Fitted estimators of scikit-learn as bytes, by skops: nothing in the bytes is executed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

# Types of scikit-learn that skops loads only on request. Trees hold indices that predictions
# follow without a check, so they are checked here.
_TREE = "sklearn.tree._tree.Tree"
_TREES = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_OPTIMIZERS = "sklearn.neural_network._stochastic_optimizers."
_TRUSTED = [
    _TREE,
    _TREES,
    f"{_OPTIMIZERS}AdamOptimizer",
    f"{_OPTIMIZERS}SGDOptimizer",
]


def is_from_scikit_learn(value: Any) -> bool:
    """Whether a class of scikit-learn, not a subclass elsewhere, made the object."""
    return isinstance(value, BaseEstimator) and type(value).__module__.startswith("sklearn.")


def to_bytes(estimator: BaseEstimator) -> np.ndarray:
    """An estimator of scikit-learn, fitted or not, as an array of bytes.

    Raises
    ------
    ImportError
        If skops is not installed.
    TypeError
        If it holds objects of other packages.
    """
    io = _skops("metriclearn.save")
    dumped = io.dumps(estimator)
    foreign = set(io.get_untrusted_types(data=dumped)) - set(_TRUSTED)
    if foreign:
        raise TypeError(
            "metriclearn.save stores classifiers whose parts are of scikit-learn, but "
            f"{type(estimator).__name__} holds {sorted(foreign)[0]}; take another classifier."
        )
    return np.frombuffer(dumped, dtype=np.uint8)


def from_bytes(dumped: np.ndarray) -> Any:
    """The estimator of :func:`to_bytes`.

    Raises
    ------
    ImportError
        If skops is not installed.
    ValueError
        If a tree points outside its nodes or features, which would read foreign memory.
    """
    estimator = _skops("metriclearn.load").loads(dumped.tobytes(), trusted=_TRUSTED)
    for part in _parts(estimator, set()):
        kind = f"{type(part).__module__}.{type(part).__qualname__}"
        if kind == _TREE:
            inner = part.children_left != -1
            children = part.children_left[inner], part.children_right[inner]
            features, n_features = part.feature[inner], int(part.n_features)
        elif kind == _TREES:
            inner = part.nodes["is_leaf"] == 0
            children = part.nodes["left"][inner], part.nodes["right"][inner]
            features, n_features = part.nodes["feature_idx"][inner], estimator.n_features_in_
        else:
            continue
        parents = np.flatnonzero(inner)
        # A child stands after its parent, so that every path ends.
        right = [(child > parents) & (child < len(inner)) for child in children]
        if not (np.all(right) and np.all((features >= 0) & (features < n_features))):
            raise ValueError("a decision tree points outside its nodes or features")
    return estimator


def _skops(who: str) -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            f"{who} needs skops for models with a classifier of scikit-learn; "
            "pip install 'metriclearn[classifiers]'."
        ) from error
    return skops.io


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """The object and all that it holds."""
    if id(value) in seen:
        return
    seen.add(id(value))
    yield value
    held: Any = ()
    if isinstance(value, dict):
        held = value.values()
    elif isinstance(value, (list, tuple)):
        held = value
    elif isinstance(value, np.ndarray) and value.dtype == object:
        held = value.ravel()
    elif hasattr(value, "__dict__"):
        held = vars(value).values()
    for part in held:
        yield from _parts(part, seen)
