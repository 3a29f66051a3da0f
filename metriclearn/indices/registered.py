"""The list of indices of two partitions: what ``compare`` computes and what tests try.

A file in this folder that decorates a function by ``@index`` adds an index: ``compare`` computes
it, and the laws of ``tests/conformance/test_indices.py`` hold it to what the decorator says. Its
public name is a line of ``__init__.pyi``, and its table worked by hand is a row of
``tests/indices/golden.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, signature
from pkgutil import iter_modules
from typing import Any

from metriclearn.indices.contingency import ContingencyTable, of_partitions

LISTED: dict[str, Index] = {}


@dataclass(frozen=True)
class Index:
    """An index of two partitions, and what it claims about its values.

    Attributes
    ----------
    function : callable
        The index. It takes the arguments of :func:`contingency_table`, and options.
    perfect : float or None
        The value for equal partitions, or None if it depends on them. No value is better. With 0,
        low values are good. Otherwise high values are good.
    symmetric : bool
        Whether the value stays the same if the two partitions are exchanged.
    """

    function: Callable[..., float]
    perfect: float | None
    symmetric: bool

    @property
    def better(self) -> str:
        """Which values are good: "higher" or "lower"."""
        return "lower" if self.perfect == 0.0 else "higher"


def index(
    *, perfect: float | None, symmetric: bool = True
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Decorate an index of two partitions, so that it is listed, see :class:`Index`.

    The function takes a :class:`ContingencyTable` named ``table`` and options, or two labelings and
    options. The decorated function takes the arguments of :func:`contingency_table` and these
    options. Its value must not depend on the names of labels or on the order of samples.
    """

    def listed(function: Callable[..., float]) -> Callable[..., float]:
        names = [*signature(function).parameters]
        if "contingency" not in names:
            function = of_partitions(function if "table" in names else _of_labelings(function))
        LISTED[function.__name__] = Index(function, perfect, symmetric)
        return function

    return listed


def listed_indices() -> dict[str, Index]:
    """Return all indices by name, those whose high values are good first, each group sorted."""
    _load()
    return dict(sorted(LISTED.items(), key=lambda item: (item[1].better, item[0])))


@cache
def _load() -> None:
    """Load every file of this folder."""
    for file in iter_modules(import_module(__package__).__path__):
        import_module(f"{__package__}.{file.name}")


def _of_labelings(function: Callable[..., float]) -> Callable[..., float]:
    """Let a function of two labelings take a table instead of them."""

    @wraps(function)
    def of_table(table: ContingencyTable, **options: Any) -> float:
        return function(*table.to_labels(), **options)

    form, table = signature(function), Parameter("table", Parameter.POSITIONAL_OR_KEYWORD)
    options = list(form.parameters.values())[2:]
    of_table.__signature__ = form.replace(parameters=[table, *options])  # type: ignore[attr-defined]
    return of_table
