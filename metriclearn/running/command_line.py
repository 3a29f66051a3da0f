"""Run a program ``program COMMAND ARGUMENTS`` whose commands are functions with docstrings.

A command is a function, and its keyword-only parameters are options. Each parameter is annotated
with ``Annotated[kind, help]``. The kind is bool, float, int, str, Path, a list of one of these, or
a Literal with the choices. If None is allowed, write ``kind | None`` instead of ``kind``. In the
help, the placeholder for the value is the name of the parameter, or the third entry of
``Annotated`` if there is one.

The exit status is 0 if all went well, and 1 after an error that the user can fix (with a message of
one sentence). It is 2 for a wrong command line, 130 if interrupted, and 141 if the program that
reads the output, such as ``head``, has ended.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from metriclearn.running.progress import telling

_UNREAD = 141
FIXABLE = (ValueError, TypeError, OSError, ImportError)  # errors that a user can fix


def run_program(
    program: str,
    main: Any,
    commands: Sequence[Any],
    version: str,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run the command that the arguments choose, and return the exit status.

    Warnings are printed as notes, each once, although several folds may warn. In a terminal, lines
    tell that the command is still working.

    Parameters
    ----------
    program : str
        Name of the program.
    main : function
        Its docstring is the help of the program.
    commands : sequence of functions
        The commands.
    version : str
        The version, printed by ``--version``.
    arguments : sequence of str, optional
        By default the arguments of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # some terminals and pipes have few letters
            with suppress(OSError):  # a file that became a pipe
                stream.reconfigure(errors="backslashreplace")
    try:
        try:
            return _run(lambda: command_line(program, main, commands, version), arguments)
        finally:
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
    except BrokenPipeError:  # nobody reads the output or the notes any more, so both go nowhere
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with suppress(OSError):  # a stream without a file
                os.dup2(nowhere, stream.fileno())
        return _UNREAD


def _run(made: Callable[[], argparse.ArgumentParser], arguments: Sequence[str] | None) -> int:
    """Run the command that the arguments choose, and return the exit status."""
    notes: set[str] = set()

    def note(message: Any, *_: Any) -> None:
        if str(message) not in notes:
            print(f"Note: {message}", file=sys.stderr)
        notes.add(str(message))

    try:
        with warnings.catch_warnings():
            warnings.showwarning = note  # type: ignore[assignment]
            options = vars(made().parse_args(arguments))
            command = options.pop("run")
            with telling(command.__name__):
                command(**options)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        if is_interrupt(error):
            print("Interrupted. No file was left incomplete.", file=sys.stderr)
            return 130
        if not isinstance(error, FIXABLE):
            raise
        print(f"Error: {sentence(error)}", file=sys.stderr)
        return 1
    return 0


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error was caused by Ctrl-C.

    If Ctrl-C is pressed in compiled code, or while a library is loaded, another error is raised,
    which comes from the KeyboardInterrupt.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def sentence(error: BaseException) -> str:
    """Return the message of an error on one line."""
    told = str(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        told = f"{error.filename} cannot be used: {error.strerror}."
    return " ".join(told.split())


def _positive(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) < float("inf"):
            return value
    raise argparse.ArgumentTypeError(f"needs a positive number, got {text}")


def _whole(text: str) -> int:
    if not re.fullmatch("[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"needs a whole number above 0, got {text}")
    return int(text)


def command_line(
    program: str, main: Any, commands: Sequence[Any], version: str
) -> argparse.ArgumentParser:
    """Make the parser of a program whose commands are functions.

    The parsed arguments hold the function of the chosen command in the attribute ``run``.
    """

    def texts(function: Any) -> tuple[str, dict[str, Any]]:
        """Split a docstring into its first line, and the rest, which is shown below the options."""
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
    """Return the flag and the keywords that ``add_argument`` needs for a command's parameter."""
    kind, text, *shown = get_args(parameter.annotation)
    optional = type(None) in get_args(kind)
    plain = get_args(kind)[0] if optional else kind
    many = {"nargs": "+"} if get_origin(plain) is list else {}
    plain = get_args(plain)[0] if many else plain
    settings = {
        "help": text,
        "type": {float: _positive, int: _whole, Path: Path}.get(plain, str),
        **many,
    }
    if shown or parameter.kind is not parameter.KEYWORD_ONLY:
        settings["metavar"] = shown[0] if shown else name.upper()
    if plain is bool:
        return f"--{name}", {"help": text, "action": "store_true"}
    if get_origin(plain) is Literal:
        settings["choices"] = get_args(plain)
    if parameter.kind is not parameter.KEYWORD_ONLY:
        return name, settings
    default = parameter.default
    needed = {"required": True} if default is parameter.empty else {"default": default}
    return f"--{name}", {**settings, **needed}


def counted(count: float, noun: str) -> str:
    """Write a number with its noun, such as "1 file" and "2 files"."""
    return f"{count:g} {noun}{'' if count == 1 else 's'}"
