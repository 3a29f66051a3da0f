"""Parameters of estimators: nested ones are copied before a change, and one table checks them."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone


@dataclass(frozen=True)
class Needs:
    """What an estimator needs a parameter to be; rows of its table ``PARAMETERS``.

    Attributes
    ----------
    words : str
        What follows "needs" in the error, with ``{name}`` for the parameter's name and ``{a}``
        for its article.
    accepts : callable
        Whether a value will do.
    remedy : str
        What follows the value in the error, such as "; pass a list".
    """

    words: str
    accepts: Callable[[Any], bool]
    remedy: str = ""

    def check(self, who: str, name: str, value: Any) -> None:
        """Raise a ValueError in the name of ``who`` for a value that will not do."""
        try:
            accepted = self.accepts(value)
        except TypeError:  # such as a number where a sequence is looked through
            accepted = False
        if not accepted:
            needed = self.words.format(a="an" if name[0] in "aeiou" else "a", name=name)
            raise ValueError(f"{who} needs {needed}, got {value!r}{self.remedy}.")


def number(
    least: float = 0.0, most: float = np.inf, *, whole: bool = False, positive: bool = False
) -> Needs:
    """A finite number from ``least`` to ``most``; ``positive`` leaves out 0, ``whole`` fractions.

    Numbers above 1e50 are refused like infinity: their squares leave the range of float64 soon.
    """
    kind = numbers.Integral if whole else numbers.Real

    def accepts(value: Any) -> bool:
        real = isinstance(value, kind) and not isinstance(value, bool)
        return real and least <= float(value) <= min(most, 1e50) and not (positive and value == 0)

    if positive:
        return Needs("a positive {name}", accepts)
    limits = f"of at least {least:g}" if np.isinf(most) else f"between {least:g} and {most:g}"
    return Needs(f"a {'whole ' if whole else ''}{{name}} {limits}", accepts)


def component(kind: Any, example: str, *, optional: bool = False) -> Needs:
    """An instance of a protocol or class, such as ``example``; or None where it is optional.

    A name in place of the class asks for a method or an attribute.
    """

    def accepts(value: Any) -> bool:
        if value is None:
            return optional
        fits = hasattr(value, kind) if isinstance(kind, str) else isinstance(value, kind)
        return fits and not isinstance(value, type)

    return Needs(f"{{a}} {{name}} such as {example}{' or None' if optional else ''}", accepts)


def either(*options: str | Needs | None, remedy: str = "") -> Needs:
    """One of some strings, None, or what another row accepts."""
    plain = [option for option in options if not isinstance(option, Needs)]
    rows = [option for option in options if isinstance(option, Needs)]

    def accepts(value: Any) -> bool:
        named = (value is None or isinstance(value, str)) and value in plain
        return named or any(row.accepts(value) for row in rows)

    words = ["None" if option is None else f'"{option}"' for option in plain]
    words += [row.words.format(a="a", name="number") for row in rows]
    listed = ", ".join(words[:-1]) + f" or {words[-1]}"
    return Needs(f"{{name}}={listed}", accepts, remedy)


def several(row: Needs, words: str) -> Needs:
    """A sequence, possibly empty, of what another row accepts."""

    def accepts(values: Any) -> bool:
        return all(map(row.accepts, values))

    return Needs(words, accepts)


def check_parameters(estimator: Any) -> None:
    """Check an estimator by its table ``PARAMETERS``, and its components by theirs.

    Raises
    ------
    ValueError
        Who needed what, and what came, in one sentence.
    """
    for name, needs in estimator.PARAMETERS.items():
        value = getattr(estimator, name)
        needs.check(type(estimator).__name__, name, value)
        if hasattr(value, "PARAMETERS"):
            check_parameters(value)


class ComponentParameters(BaseEstimator):
    """scikit-learn's parameters, except that a nested change replaces the component by a copy.

    So a component may be the default value of a parameter, shared by all instances. What the
    parameters may be stands in the table ``PARAMETERS``, see :func:`check_parameters`.
    """

    PARAMETERS: ClassVar[Mapping[str, Needs]] = {}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``component__parameter`` included."""
        nested = {name.split("__")[0] for name in params if "__" in name}
        for name in nested & set(self.get_params(deep=False)):
            if name not in params and hasattr(getattr(self, name), "get_params"):
                setattr(self, name, clone(getattr(self, name)))
        return super().set_params(**params)
