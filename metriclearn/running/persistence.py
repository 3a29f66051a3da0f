"""Save and load fitted estimators without pickle, in one file of arrays and JSON."""

from __future__ import annotations

import hashlib
import json
import numbers
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import FeatureUnion, Pipeline

import metriclearn
from metriclearn.running.atomic import check_contents, read_npz, reading, write_npz

# Raised whenever a change makes older files unreadable.
_FORMAT = 6
_COMPOSED = (Pipeline, FeatureUnion)  # estimators of scikit-learn that hold others
# Only training needs augmentations, callbacks, executors, the large paths of segmentations
# (paths_), and the predictions for recordings that were left out (left_out_). A stream computes
# kept_ from its other attributes.
_LEFT_OUT = (
    "augmentations",
    "callbacks",
    "cross_fit_",
    "executor",
    "kept_",
    "left_out_",
    "paths_",
)

# Types of scikit-learn that skops loads only on request. Predictions follow the indices in trees
# without a check, so we check them here.
_TREE = "sklearn.tree._tree.Tree"
_TREES = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
_OPTIMIZERS = "sklearn.neural_network._stochastic_optimizers."
_TRUSTED = [
    _TREE,
    _TREES,
    f"{_OPTIMIZERS}AdamOptimizer",
    f"{_OPTIMIZERS}SGDOptimizer",
]


def save(estimator: BaseEstimator, path: str | os.PathLike[str]) -> Path:
    """Write a fitted estimator to a ``.npz`` file.

    The loaded estimator makes the same predictions. Attributes that only training needs are not
    stored: augmentations, callbacks, executors, ``paths_`` (the segmentation paths of the training
    sequences of a ``PenaltyLearner``) and ``left_out_`` (the predictions of a ``Segmenter`` for
    recordings that were left out).

    Parameters
    ----------
    estimator : an estimator of this package
        The estimator to save.
    path : path
        The file. An existing file is replaced only when the new one is complete.

    Returns
    -------
    Path
        The path of the file.

    Raises
    ------
    TypeError
        If the format cannot store the estimator or a part of it.
    ValueError
        If the estimator has more than 1 GB, which :func:`load` refuses.
    OSError
        If the folder cannot be written.

    See Also
    --------
    load : reads the file.
    """
    parts = _Parts({}, [], {})
    if not isinstance(estimator, BaseEstimator):
        raise TypeError(f"metriclearn.save needs an estimator, got {estimator!r}; pass a learner.")
    document = {
        "format": _FORMAT,
        "version": metriclearn.__version__,
        "estimator": _encode(estimator, parts),
    }
    target, arrays = Path(path), parts.arrays
    arrays["metriclearn"] = np.array(json.dumps(document))
    arrays["digest"] = np.array(_digest(arrays))
    write_npz(target, arrays)
    return target


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that :func:`save` wrote. Code from the file is never executed.

    Parameters
    ----------
    path : path
        A file that :func:`save` wrote.

    Returns
    -------
    The fitted estimator.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is damaged, was not written by :func:`save`, has another format, or expands to
        more than 1 GB, or to more than 64 MB and 100 times its size.
    ImportError
        If a package that the estimator needs is missing, such as torch for encoders, or if the
        class of an encoder is missing.

    See Also
    --------
    save : writes the file.
    """
    return _read(path, _from_bytes)


def without_classifiers(path: str | os.PathLike[str]) -> Any:
    """Read an estimator without classifiers of scikit-learn, which take seconds to read.

    Parameters
    ----------
    path : path
        A file that :func:`save` wrote.

    Returns
    -------
    The fitted estimator, with None in place of classifiers. It can be described, but may not
    predict.

    Raises
    ------
    ValueError, OSError, ImportError
        As for :func:`load`.

    See Also
    --------
    load : reads the whole estimator.

    Examples
    --------
    >>> from metriclearn.running import without_classifiers
    >>> without_classifiers("songs.model").summary()  # doctest: +SKIP
    """
    return _read(path, lambda dumped: None)


def _read(path: str | os.PathLike[str], classifier: Callable[[np.ndarray], Any]) -> Any:
    """Read an estimator, and its classifiers from their bytes."""
    with reading(path, "a model of metriclearn.save", Exception):
        text = str(read_npz(path, ["metriclearn"])["metriclearn"])
        document = json.loads(text)
        version = int(document["format"])
        # unused arrays are not read
        arrays = read_npz(path, ["digest", *_names_of_arrays(document)])
        digest = str(arrays.pop("digest", None))
    if version != _FORMAT:
        made = document.get("version")
        raise ValueError(
            f"metriclearn.load reads format {_FORMAT}, but {path} has format {version}; load it "
            f"with metriclearn {made}, or fit the model again."
        )
    if digest != _digest({**arrays, "metriclearn": np.array(text)}):
        raise ValueError(
            f"metriclearn.load needs a file as metriclearn.save wrote it, but {path} was changed; "
            "save the model again."
        )
    try:
        ((kind, content),) = document["estimator"].items()
        if kind != "object":
            raise ValueError("not an estimator")
        return _decode({kind: content}, _Parts(arrays, [], {}, classifier))
    except ImportError:
        raise
    except _UnknownClass as unknown:
        raise ValueError(
            f"metriclearn.load found {unknown} in {path}, which a model file cannot hold, or not "
            "any more; fit the model again."
        ) from unknown
    except Exception as error:
        raise ValueError(
            f"metriclearn.load found incomplete contents in {path}; save the model again."
        ) from error


class _UnknownClass(ValueError):
    """A model file names a class that is none of metriclearn's estimators and records."""


class _Parts(NamedTuple):
    """The content of a model file: its arrays by name, and its estimators in order.

    An estimator of scikit-learn is kept as an array of bytes until it is needed. While a file is
    written, ``places`` maps the id of each stored object to the entry that refers to it in the
    file. ``classifier`` makes an estimator of scikit-learn of its bytes.
    """

    arrays: dict[str, Any]
    estimators: list[Any]
    places: dict[int, dict[str, Any]]
    classifier: Callable[[np.ndarray], Any] | None = None


def _digest(arrays: dict[str, NDArray]) -> str:
    """Compute a SHA-256 digest of the names, types, shapes and contents of arrays."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return total.hexdigest()


def _encode(value: Any, parts: _Parts) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, numbers.Real):  # such as a fraction
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if id(value) in parts.places:
        return parts.places[id(value)]
    key = f"array{len(parts.arrays)}"
    if isinstance(value, np.ndarray):
        if value.dtype == object and all(isinstance(item, str) for item in value):
            return {"names": [str(item) for item in value]}
        if value.dtype == object:
            return {"objects": [_encode(item, parts) for item in value]}
        parts.arrays[key], parts.places[id(value)] = value, {"array": key}
        return parts.places[id(value)]
    if isinstance(value, (list, tuple)) and not _is_public(type(value)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(item, parts) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[str(k), _encode(v, parts)] for k, v in value.items()]}
    if isinstance(value, (type, partial)):
        return {"class": _encode_class(value, parts)}
    cls = type(value)
    if _is_public(cls):
        if isinstance(value, BaseEstimator):
            return _encode_estimator(value, parts)
        named = isinstance(value, tuple)
        fields = dict(zip(cls._fields, value)) if named else vars(value)
        return {"record": [_path(cls), _encode(fields, parts)]}
    if isinstance(value, BaseEstimator) and cls.__module__.startswith("sklearn."):
        parts.arrays[key] = _to_bytes(value)
        parts.places[id(value)] = {"classifier": {"array": key}}
        return parts.places[id(value)]
    raise TypeError(
        f"metriclearn.save stores estimators and components of metriclearn, got a {_path(cls)}; "
        "remove it, or pickle the model for yourself, and in place of a torch module pass its "
        "class, or a functools.partial of it."
    )


def _encode_estimator(value: BaseEstimator, parts: _Parts) -> dict[str, Any]:
    """Encode the parameters and fitted attributes of an estimator, so that it is stored once."""
    parameters = value.get_params(deep=False)
    parameters = {k: v for k, v in parameters.items() if k not in _LEFT_OUT}
    fitted = {k: v for k, v in vars(value).items() if k not in (*parameters, *_LEFT_OUT)}
    contents = [_path(type(value)), _encode(parameters, parts), _encode(fitted, parts)]
    parts.places[id(value)] = {"again": len(parts.estimators)}
    parts.estimators.append(value)  # the reference also keeps its id from being reused
    return {"object": contents}


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _encode_class(value: Any, parts: _Parts) -> list[Any]:
    """Encode a torch module class, or a ``functools.partial`` of one: its path and arguments."""
    given = value if isinstance(value, partial) else partial(value)
    module, name = (getattr(given.func, key, "") for key in ("__module__", "__qualname__"))
    cls = _module_class(f"{module}.{name}", "metriclearn.save")
    return [f"{module}.{cls.__name__}", *(_encode(a, parts) for a in (given.args, given.keywords))]


def _module_class(path: str, who: str) -> type:
    """Find the class of a torch module by its path.

    Only modules of metriclearn.encoders and torch.nn are imported here. Any other module must have
    been imported by the user. So a file cannot import or execute anything unexpected.
    """
    import torch

    home, _, name = path.rpartition(".")
    if home.startswith(("metriclearn.encoders.", "torch.nn.")):
        with suppress(ImportError):
            import_module(home)
    cls = getattr(sys.modules.get(home), name, None)
    if not isinstance(cls, type) or not issubclass(cls, torch.nn.Module):
        raise ImportError(
            f"{who} needs the class {path}, a torch.nn.Module of an imported module, for the "
            "encoder of a model, but it is missing; import the module that defines it first."
        )
    return cls


def _kind(cls: Any) -> str | None:
    """Return how objects of a class are stored, or None if they cannot be stored."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, BaseEstimator):
        return "object"
    is_record = is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))
    return "record" if is_record else None


def _is_public(cls: type) -> bool:
    """Return whether a class is a pipeline, or metriclearn's own estimator or record."""
    if not cls.__module__.startswith("metriclearn."):
        return cls in _COMPOSED
    found = getattr(import_module(cls.__module__), cls.__qualname__, None)
    return _kind(cls) is not None and found is cls


def _class_at(path: str, kind: str) -> type:
    """Find the class that a model file names by its path.

    Only modules of metriclearn are imported, and only estimators and records are returned. So a
    file cannot execute anything.
    """
    home, _, name = path.rpartition(".")
    if composed := {cls.__name__: cls for cls in _COMPOSED}.get(name):
        return composed
    try:
        module = import_module(home) if home.startswith("metriclearn.") else None
    except ModuleNotFoundError as error:
        if str(error.name).startswith("metriclearn"):
            raise _UnknownClass(path) from error
        raise ImportError(
            f"metriclearn.load needs the package {error.name} for {name}; install it."
        ) from error
    cls: Any = getattr(module, name, None)
    if _kind(cls) != kind:
        raise _UnknownClass(path)
    return cls


def _decode(value: Any, parts: _Parts) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    match kind:
        case "array":
            return parts.arrays[content]
        case "names":
            return np.array(content, dtype=object)
        case "objects":
            items = np.empty(len(content), dtype=object)
            items[:] = [_decode(item, parts) for item in content]
            return items
        case "list":
            return [_decode(item, parts) for item in content]
        case "tuple":
            return tuple(_decode(item, parts) for item in content)
        case "dict":
            return {key: _decode(item, parts) for key, item in content}
        case "class":
            path, args, keywords = content
            cls = _module_class(path, "metriclearn.load")
            return partial(cls, *_decode(args, parts), **_decode(keywords, parts))
        case "again":
            return parts.estimators[content]
        case "classifier":
            key = content["array"]
            if isinstance(parts.arrays[key], np.ndarray):  # made where it occurs first
                assert parts.classifier is not None
                parts.arrays[key] = parts.classifier(parts.arrays[key])
            return parts.arrays[key]
        case "object" | "record":
            path, *contents = content
            parameters, *fitted = (_decode(content, parts) for content in contents)
            instance = _class_at(path, kind)(**parameters)
            for values in fitted:
                vars(instance).update(values)
            if kind == "object":
                parts.estimators.append(instance)
            return instance
    raise ValueError(f"unknown kind {kind!r}")


def _names_of_arrays(value: Any) -> set[str]:
    """Return the names of all arrays to which a document refers."""
    if isinstance(value, dict):
        content = value.get("array")
        own = {content} if isinstance(content, str) else set()
        return own.union(*map(_names_of_arrays, value.values()))
    return set().union(*map(_names_of_arrays, value)) if isinstance(value, list) else set()


def _to_bytes(estimator: BaseEstimator) -> np.ndarray:
    """Convert an estimator of scikit-learn, fitted or not, to an array of bytes.

    Raises
    ------
    TypeError
        If the estimator contains objects of other packages.
    """
    from skops import io

    dumped = io.dumps(estimator)
    foreign = set(io.get_untrusted_types(data=dumped)) - set(_TRUSTED)
    if foreign:
        raise TypeError(
            "metriclearn.save stores classifiers whose parts are of scikit-learn, but "
            f"{type(estimator).__name__} holds {sorted(foreign)[0]}; take another classifier."
        )
    return np.frombuffer(dumped, dtype=np.uint8)


def _from_bytes(dumped: np.ndarray) -> Any:
    """Convert the bytes of :func:`_to_bytes` back to an estimator.

    Raises
    ------
    ValueError
        If a decision tree refers to a node or feature that does not exist. A prediction by such a
        tree would read memory outside its arrays.
    """
    from skops import io

    content = dumped.tobytes()
    with ZipFile(BytesIO(content)) as archive:
        sizes = [member.file_size for member in archive.infolist()]
    check_contents("A classifier", sum(sizes), len(content))
    estimator = io.loads(content, trusted=_TRUSTED)
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
        # A child must come after its parent, so that every path ends.
        right = [(child > parents) & (child < len(inner)) for child in children]
        if not (np.all(right) and np.all((features >= 0) & (features < n_features))):
            raise ValueError("a decision tree points outside its nodes or features")
    return estimator


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield the object and all objects that it contains, directly or indirectly."""
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
