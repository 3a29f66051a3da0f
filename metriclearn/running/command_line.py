"""Command lines ``program COMMAND ARGUMENTS``, made from functions' signatures and docstrings.

A command is a function, and its keyword-only parameters are options. The annotation is
``Annotated[kind, help]``. The kind is bool, float, str, Path, a list of one of these or a Literal
with the choices; each may be ``kind | None``. A third entry replaces the name of the parameter as
the placeholder for the value in the help.
"""

from __future__ import annotations

import argparse
import inspect
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin


@contextmanager
def noting_interruptions(seen: list[int]) -> Iterator[None]:
    """Append to a list when Ctrl-C is pressed, and raise KeyboardInterrupt.

    The list is needed because libraries that are being loaded turn KeyboardInterrupt into other
    errors without a cause.
    """

    def interrupt(number: int, frame: Any) -> None:
        seen.append(number)
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    usual = before is signal.default_int_handler  # false in background processes, which ignore it
    if usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
    else:
        yield


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"needs a positive number, got {text}")
    return value


def command_line(
    program: str, main: Any, commands: Sequence[Any], version: str
) -> argparse.ArgumentParser:
    """The parser of a program whose commands are functions.

    The parser stores the chosen function as ``run``.

    Parameters
    ----------
    program : str
    main : function
        Its docstring is the help of the program.
    commands : sequence of functions
        The commands that the module's docstring lists.
    version : str
    """

    def texts(function: Any) -> tuple[str, dict[str, Any]]:
        """First line of a docstring, and the rest as the text below the options."""
        title, _, rest = (inspect.getdoc(function) or "").partition("\n\n")
        raw = argparse.RawDescriptionHelpFormatter
        return title, {"epilog": rest, "formatter_class": raw}

    title, below = texts(main)
    parser = argparse.ArgumentParser(program, description=title, **below)
    parser.add_argument("--version", action="version", version=f"{program} {version}")
    parsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in commands:
        title, below = texts(command)
        added = parsers.add_parser(command.__name__, help=title, **below)
        added.set_defaults(run=command)
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            flag, settings = _argument(name, parameter)
            added.add_argument(flag, **settings)
    return parser


def _argument(name: str, parameter: inspect.Parameter) -> tuple[str, dict[str, Any]]:
    """The flag and the keywords of argparse for a parameter of a command."""
    kind, text, *shown = get_args(parameter.annotation)
    optional = type(None) in get_args(kind)
    plain = get_args(kind)[0] if optional else kind
    settings: dict[str, Any] = {"help": text, "type": str}
    if get_origin(plain) is list:
        plain, settings["nargs"] = get_args(plain)[0], "+"
    if shown or parameter.kind is not parameter.KEYWORD_ONLY:
        settings["metavar"] = shown[0] if shown else name.upper()
    if plain is bool:
        return f"--{name}", {"help": text, "action": "store_true"}
    if plain is float:
        settings["type"] = _positive
    elif plain is Path:
        settings["type"] = Path
    elif get_origin(plain) is Literal:
        settings["choices"] = get_args(plain)
    if parameter.kind is not parameter.KEYWORD_ONLY:
        return name, settings
    if parameter.default is parameter.empty:
        return f"--{name}", {**settings, "required": True}
    return f"--{name}", {**settings, "default": parameter.default}


def counted(count: float, noun: str) -> str:
    """A number with its noun, such as "1 file" and "2 files"."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"
