"""Check the parameters of estimators and functions.

A :class:`Needs` describes the values that a parameter accepts.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from inspect import get_annotations, getmro, signature, unwrap
from os import PathLike, fspath
from typing import Annotated, Any, Literal, NoReturn, TypeVar, cast, get_args, get_origin
from weakref import WeakKeyDictionary

import numpy as np

from metriclearn.running.values import shown, whole

# Attribute of a fitted estimator while a parameter that was set after the fit is not yet checked.
UNCHECKED = "_unchecked"


@dataclass(frozen=True)
class Needs:
    """A requirement on the values of a parameter, which stands at its type as ``Annotated``.

    The field ``min_size: Annotated[int, Whole(1)] = 1`` of an estimator or the same argument of a
    function with the decorator :func:`needs` is a whole number of at least 1.

    Attributes
    ----------
    words : str
        The text after "needs" in the error message. ``{name}`` stands for the parameter's name, and
        ``{a}`` for its article.
    accepts : callable
        Function that tells whether a value is accepted.
    remedy : str
        The text after the value in the error message, such as "; pass a list".
    """

    words: str
    accepts: Callable[[Any], bool]
    remedy: str = ""

    def check(self, who: str, name: str, value: Any) -> None:
        """Raise a ValueError if the value is not accepted. The message begins with ``who``."""
        try:
            accepted = self.accepts(value)
        except Exception:  # such as a number in place of a sequence
            accepted = False
        if not accepted:
            needed = self.words.format(a="an" if name[0] in "aeiou" else "a", name=name)
            raise ValueError(f"{who} needs {needed}, got {shown(value)}{self.remedy}.")


def _is_within(kind: Any, low: float, high: float, value: Any) -> bool:
    if not isinstance(value, kind) or isinstance(value, bool):
        return False
    # An int may be larger than any float.
    return bool(low <= (value if isinstance(value, int) else float(value)) <= high)


def _limits(least: float, most: float) -> str:
    return f"of at least {least:g}" if most >= 2**53 else f"between {least:g} and {most:g}"


class Real(Needs):
    """Require a finite number from ``least`` to ``most``.

    Unless ``most`` is given, numbers above 1e50 are excluded, because their powers overflow.
    """

    def __init__(self, least: float = 0.0, most: float = np.inf) -> None:
        low, high = max(least, -1e50), most if most < np.inf else 1e50
        words = f"a {{name}} {_limits(least, most)}"
        super().__init__(words, partial(_is_within, (float, int, numbers.Real), low, high))


class Positive(Needs):
    """Require a finite number above 0. Unless ``most`` is given, it is at most 1e50."""

    def __init__(self, most: float = 1e50) -> None:
        accepts = Real(0.0, most).accepts
        super().__init__("a positive {name}", lambda value: accepts(value) and value != 0)


class Whole(Needs):
    """Require a whole number from ``least`` to ``most``.

    Unless ``most`` is given, numbers above 2**53 are excluded, because floats cannot represent all
    of them.
    """

    def __init__(self, least: int = 0, most: float = 2**53) -> None:
        words = f"a whole {{name}} {_limits(least, most)}"
        super().__init__(words, partial(_is_within, (int, numbers.Integral), least, most))


def _widened(value: Any) -> Any:
    """Convert a number, or the numbers in a tuple or list, by :func:`whole`."""
    if type(value) in (tuple, list) and any(isinstance(item, np.integer) for item in value):
        return type(value)(map(_widened, value))
    return whole(value) if isinstance(value, np.integer) else value


class Of(Needs):
    """Require an instance of a class or protocol, or None if it is optional.

    If ``kind`` is a string, an object with a method or attribute of this name is required instead.
    Objects with the attribute ``without`` are refused. ``example`` is shown in error messages. Data
    frames are never accepted, because they share many names with estimators.
    """

    def __init__(
        self, kind: Any, example: str, *, optional: bool = False, without: str = ""
    ) -> None:
        def accepts(value: Any) -> bool:
            if value is None:
                return optional
            fits = hasattr(value, kind) if isinstance(kind, str) else isinstance(value, kind)
            fits = fits and not (without and hasattr(value, without))
            return fits and not isinstance(value, type) and not hasattr(value, "iloc")

        words = f"{{a}} {{name}} such as {example}{' or None' if optional else ''}"
        super().__init__(words, accepts)


class OneOf(Needs):
    """Require one of the options.

    If an option is a :class:`Needs`, all values that it accepts are allowed.
    """

    def __init__(self, *options: str | bool | Needs | None, remedy: str = "") -> None:
        plain = [option for option in options if not isinstance(option, Needs)]
        rows = [option for option in options if isinstance(option, Needs)]

        def accepts(value: Any) -> bool:
            is_plain = isinstance(value, (str, bool, np.bool_, type(None)))
            return (is_plain and value in plain) or any(row.accepts(value) for row in rows)

        words = [f'"{option}"' if isinstance(option, str) else str(option) for option in plain]
        words += [row.words.format(a="a", name="number") for row in rows]
        listed = ", ".join(words[:-1]) + f" or {words[-1]}"
        super().__init__(f"{{name}}={listed}", accepts, remedy)


class Each(Needs):
    """Require a sequence of at least ``least`` values, each of which ``row`` accepts."""

    def __init__(self, row: Needs, words: str, *, least: int = 0) -> None:
        def accepts(values: Any) -> bool:
            if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
                return False
            return len(values) >= least and all(map(row.accepts, values))

        super().__init__(words, accepts)


# Requirements and types of parameters that many estimators and functions have.
SWITCH = OneOf(True, False)
NAMED = Of("items", "a dictionary")
TEXT = Of(str, '"a text"', optional=True)
LIST = Needs("a list of {name}", lambda v: isinstance(v, (list, tuple, np.ndarray)) and len(v) > 0)
OPTIONAL_LIST = Needs(
    "a list of {name} or None",
    lambda v: v is None or (not isinstance(v, (str, bytes, type)) and len(v) + len(list(v)) >= 0),
)
RandomState = Annotated[
    int | np.random.RandomState | np.random.Generator | None,
    OneOf(
        None,
        Whole(0, 2**32 - 1),
        Of((np.random.RandomState, np.random.Generator), "RandomState()"),
    ),
]
Verbose = Annotated[bool | None, OneOf(None, True, False)]
Jobs = Annotated[int | None, OneOf(None, Whole(1, 2**16), Whole(-(2**10), -1))]
CheckpointPath = Annotated[
    str | PathLike[str] | None,
    OneOf(None, Needs('the name of a file such as "state.npz"', lambda v: "\0" not in fspath(v))),
]
Device = Annotated[
    str,
    Needs(
        'a {name} of this machine such as "cpu"',
        lambda v: isinstance(v, str) and bool(import_module("torch").empty(1, device=v).numel()),
    ),
]
Text = Annotated[str, TEXT]
Title = Annotated[str | None, TEXT]
FeatureNames = Annotated[Sequence[str] | None, OPTIONAL_LIST]

# Class or function -> its parameters, each with its requirement or None. We keep this, because
# reading annotations takes longer than all checks. References are weak, so that classes can be
# collected.
_READ: WeakKeyDictionary[Any, dict[str, Needs | None]] = WeakKeyDictionary()


def requirements(thing: Any) -> Mapping[str, Needs | None]:
    """Read what each parameter of a class or function needs, or None, from the annotations.

    A parameter of the type ``bool`` must be True or False. A class inherits the requirements of the
    fields that it does not declare again.
    """
    found = _READ.get(thing)
    if found is None:
        kinds: dict[str, tuple[Any, dict[str, Any]]] = {}
        for part in reversed(getmro(thing)) if isinstance(thing, type) else [thing]:
            own = vars(part)
            if "__init__" in own and "__dataclass_fields__" not in own:
                part = unwrap(own["__init__"])
            known = getattr(sys.modules.get(getattr(part, "__module__", "")), "__dict__", {})
            kinds |= {name: (kind, known) for name, kind in get_annotations(part).items()}
        names = signature(thing).parameters
        found = {name: _requirement(*kinds.get(name, (None, {}))) for name in names}
        _READ[thing] = found
    return found


def _requirement(kind: Any, known: dict[str, Any]) -> Needs | None:
    """Read the requirement in an annotation, which may be a text of ``known`` names."""
    if isinstance(kind, str):
        try:
            kind = eval(kind, known)
        except Exception:  # a type that only type checkers import, so without a requirement
            return None
    if kind is bool:
        return SWITCH
    if get_origin(kind) is Literal:
        return OneOf(*get_args(kind))
    return next((one for one in getattr(kind, "__metadata__", ()) if isinstance(one, Needs)), None)


Function = TypeVar("Function", bound=Callable[..., Any])


def needs(function: Function) -> Function:
    """Decorate a function so that its arguments are checked, and integers widened.

    See :class:`Needs` and :func:`whole`.
    """
    form = signature(function)
    who = function.__qualname__.removesuffix(".__init__")

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            rows, bound = requirements(function), form.bind(*args, **kwargs)
        except TypeError as error:  # which does not name the function
            raise TypeError(f"{who}: {error}") from None
        for name, value in bound.arguments.items():
            row = rows[name]
            if row is not None:
                row.check(who, name, value)
            bound.arguments[name] = _widened(value)
        return function(*bound.args, **bound.kwargs)

    return cast(Function, checked)


def check_parameters(estimator: Any) -> None:
    """Check the parameters of an estimator and its components, see :class:`Needs`.

    Raises
    ------
    ValueError
        If a value is not accepted. The message names the class, the requirement and the value.
    """
    for name, row in requirements(type(estimator)).items():
        value = getattr(estimator, name, None)
        for part in value if isinstance(value, (list, tuple)) else [value]:
            ours = type(part).__module__.startswith("metriclearn.")
            if ours and hasattr(part, "get_params") and not isinstance(part, type):
                check_parameters(part)
        if row is not None:
            row.check(type(estimator).__name__, name, value)
    vars(estimator).pop(UNCHECKED, None)


def check_changed(estimator: Any) -> None:
    """Check the parameters of a fitted estimator if one of them was set after the last check.

    Raises
    ------
    ValueError
        As for :func:`check_parameters`.
    """
    if UNCHECKED in vars(estimator):
        check_parameters(estimator)


def refuse_unknown(estimator: Any, unknown: Mapping[str, Any]) -> NoReturn:
    """Raise a TypeError for arguments that ``fit`` does not have."""
    rows = signature(estimator.fit).parameters.values()
    names = [row.name for row in rows if row.kind is not row.VAR_KEYWORD]
    raise TypeError(
        f"{type(estimator).__name__} needs {', '.join(names)} as arguments of fit, got "
        f"{', '.join(unknown)}; pass parameters when you make the estimator."
    )
