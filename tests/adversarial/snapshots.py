"""What a value holds, as bytes that can be compared, and the arrays that it shares."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

# Times that a run took, and objects of other libraries that hold the whole process
_NOT_HELD = ("seconds", "elapsed", "matplotlib.", "torch.", "threading")


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a collection or an object holds; of an estimator what it has learned."""
    if isinstance(value, pd.DataFrame):
        yield from ((str(i), value.iloc[:, i]) for i in range(value.shape[1]))
    elif isinstance(value, (pd.Series, pd.Index)):
        yield "values", value.to_numpy()
    elif issparse(value):
        yield "data", value.toarray()
    elif isinstance(value, Mapping):
        yield from ((repr(key), item) for key, item in value.items())
    elif isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype == "O"):
        yield from ((str(i), item) for i, item in enumerate(value))
    elif type(value).__module__.startswith(("metriclearn.", "sklearn.")):
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
        held |= getattr(value, "__dict__", {})
        given = set(value.get_params(deep=False)) if hasattr(value, "get_params") else set()
        if isinstance(value, type):
            held = {}
        yield from ((name, item) for name, item in sorted(held.items()) if name not in given)


def held(value: Any, _seen: frozenset[int] = frozenset()) -> str:
    """A digest of all numbers and texts that a value holds."""
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if id(value) in _seen or name.startswith(_NOT_HELD) or inspect.isroutine(value):
        return "left out"
    if isinstance(value, np.ndarray) and value.dtype != object:
        whole = value.dtype.kind in "iu"  # of which only the values matter
        content = repr(value.tolist()).encode() if whole else np.ascontiguousarray(value)
        return f"{value.shape}{hashlib.sha1(content).hexdigest()}"
    inner = [
        f"{key}={held(item, _seen | {id(value)})}"
        for key, item in parts(value)
        if not any(word in key for word in _NOT_HELD)
    ]
    if inner:
        return f"{{{', '.join(inner)}}}"
    plain = isinstance(value, (str, bytes, bool, int, float, complex, np.generic, type(None)))
    return repr(value.item() if isinstance(value, np.generic) else value) if plain else name


def arrays(value: Any, _seen: set[int] | None = None) -> Iterator[np.ndarray]:
    """All arrays in arguments or results: those of collections, not of objects of ours."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield value
    elif isinstance(value, (pd.DataFrame, pd.Series, pd.Index)):
        return  # pandas copies on write
    elif isinstance(value, (Mapping, list, tuple, np.ndarray)):
        for _, item in parts(value):
            yield from arrays(item)


def overwrite(value: Any) -> None:
    """Write other numbers into all arrays of arguments or results, where they can be written."""
    for array in arrays(value):
        if array.flags.writeable and array.dtype.kind in "iufcb":
            array[...] = 1 if array.dtype.kind == "b" else 77
