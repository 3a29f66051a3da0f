"""Hostile values: mistakes of users, and values that only an adversary would pass."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array


class UsersError(Exception):
    """An error in a function of the user, which passes through unchanged."""


def users_function(*_: Any, **__: Any) -> Any:
    """Takes anything, and fails."""
    raise UsersError("the function of the user")


class Unfriendly:
    """Fails with an unusual error whatever method is called."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array")

    def __repr__(self) -> str:
        return "Unfriendly()"


@dataclass(frozen=True)
class Hostile:
    """A value, and whether every reader of numbers, or of labels, must refuse it."""

    name: str
    value: Any
    no_numbers: bool = False
    no_labels: bool = False

    def __repr__(self) -> str:
        return self.name


X = np.random.default_rng(0).normal(size=(12, 2))
LABELS = np.repeat([0, 1, 2], 4)
BOTH = {"no_numbers": True, "no_labels": True}


def _no_numbers() -> Iterator[Hostile]:
    """Data in which some entries are not ordinary real numbers."""

    def at(value: Any) -> np.ndarray:
        changed = X.copy()
        changed[3, 1] = value
        return changed

    for size in (1e-320, 1e-160, 1e-100, 1e100, 1e160, 1e308):
        with np.errstate(over="ignore"):
            scaled = X * size
        yield Hostile(f"X times {size:g}", scaled)
        yield Hostile(f"X with {size:g}", at(size))
    for value in (np.nan, np.inf, -np.inf):
        yield Hostile(f"X with {value}", at(value), no_numbers=True)
        yield Hostile(f"{value}", value, **BOTH)
    masked = np.zeros(X.shape, dtype=bool)
    masked[3] = True
    yield Hostile("masked X", np.ma.array(X, mask=masked), **BOTH)
    yield Hostile("masked labels", np.ma.array(LABELS, mask=LABELS == 1), **BOTH)
    yield Hostile("complex X", X + 1j, no_numbers=True)
    yield Hostile("text X", X.astype(str), no_numbers=True)
    yield Hostile("X of days", X.astype("datetime64[D]"), no_numbers=True)
    yield Hostile("a day missing", np.array(["2020-01-01", "NaT"] * 6, "datetime64[D]"), **BOTH)
    yield Hostile("X with None", np.where(masked, None, X), no_numbers=True)
    yield Hostile("X with a list", _with_list(X), **BOTH)
    yield Hostile("integers beyond float", [[10**400, 1]] * 12, no_numbers=True)
    yield Hostile("labels beyond int64", [10**30] * 6 + [0] * 6)
    yield Hostile("ragged", [[1.0, 2.0], [3.0]] * 6, no_numbers=True)
    yield Hostile("sparse", csr_array(np.abs(X)))


def _shapes() -> Iterator[Hostile]:
    """Data of any shape, size and kind."""
    yield Hostile("no rows", X[:0])
    yield Hostile("no columns", X[:, :0])
    yield Hostile("constant", np.ones((12, 2)))
    yield Hostile("collinear", np.outer(np.arange(12.0), [1, -1]))
    yield Hostile("offset", X + 1e12)
    yield Hostile("duplicates", np.repeat(X[:3], 4, axis=0))
    yield Hostile("longdouble", X.astype(np.longdouble))
    yield Hostile("not contiguous", np.asfortranarray(np.hstack([X, X]))[:, ::2])
    yield Hostile("read only", _read_only(X))
    yield Hostile("three dimensions", np.ones((2, 12, 2)))
    yield Hostile("one dimension", np.arange(12.0))
    yield Hostile("no dimension", np.array(3.0), no_labels=True)
    yield Hostile("table with text", pd.DataFrame({"a": list("xyzw" * 3), "b": 1.0}))
    yield Hostile("table with NA", pd.DataFrame({"a": pd.array([1, None] * 6), "b": 1.0}), **BOTH)


def _labelings() -> Iterator[Hostile]:
    """Labels, and arrays that cannot be labels."""
    yield Hostile("labels all unknown", np.full(12, -1))
    yield Hostile("labels with None", [None] + [1] * 11, **BOTH)
    yield Hostile("labels of two kinds", [1, "1"] * 6, no_numbers=True)
    yield Hostile("one label too few", LABELS[:-1])
    yield Hostile("labels as shares", np.full((12, 2), 0.5))


def _values() -> Iterator[Hostile]:
    """Single values, and objects without values."""
    yield Hostile("dictionary", {0: 1, 1: 2}, **BOTH)
    yield Hostile("generator", (i for i in ()), no_numbers=True)
    yield Hostile("text", "twelve chars", no_numbers=True)
    yield Hostile("bytes", b"bytes", no_numbers=True)
    yield Hostile("None", None)
    yield Hostile("zero", 0, no_labels=True)
    yield Hostile("a half", 0.5, no_labels=True)
    yield Hostile("beyond float", 10**400, no_labels=True)
    yield Hostile("10**18", 10**18, no_labels=True)
    yield Hostile("1e300", 1e300, no_labels=True)
    yield Hostile("complex", 1 + 2j, **BOTH)
    yield Hostile("a class", np.ndarray, **BOTH)
    yield Hostile("a function", users_function, **BOTH)
    yield Hostile("nothing of ours", object(), **BOTH)
    yield Hostile("unfriendly", Unfriendly(), **BOTH)
    yield Hostile("empty list", [])


def _read_only(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X.setflags(write=False)
    return X


def _with_list(X: np.ndarray) -> np.ndarray:
    X = X.astype(object)
    X[3, 1] = [1, 2]
    return X


ZOO = [*_no_numbers(), *_shapes(), *_labelings(), *_values()]
