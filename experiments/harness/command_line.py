"""Code that command lines share: the resolver ``${tiny:A,B}``, checks of overrides, and short error
messages."""

from __future__ import annotations

import difflib
import errno
import logging
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from multiprocessing.dummy import DummyProcess
from pathlib import Path
from typing import Any
from unittest import mock

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, InstantiationException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from metriclearn.running.extras import install

CONFIGS = str(Path(__file__).resolve().parents[2] / "configs")


_INTERRUPTED = 130  # the exit status after Ctrl-C
_OF_USERS = (ValueError, TypeError, OSError)  # errors that a user can mend


def _tiny(small: Any, full: Any, *, _root_: Any) -> Any:
    return small if _root_.tiny else full


OmegaConf.register_new_resolver("tiny", _tiny, replace=True)


def from_command_line(
    module: str, config_name: str, call: Callable[[DictConfig, Path, str], object]
) -> None:
    """Call a function with the configuration of this command line, and print its result.

    ``call`` also gets Hydra's folder of the run, and the command line that repeats the run. An
    error that a user can correct becomes one sentence on stderr and exit status 1.
    """

    @hydra.main(version_base="1.3", config_path=CONFIGS, config_name=config_name)
    def task(config: DictConfig) -> None:
        settings = HydraConfig.get()
        command = ["python", "-m", f"experiments.{module}", *settings.overrides.task]
        with one_sentence():
            print(call(config, Path(settings.runtime.output_dir), shlex.join(command)))

    with one_sentence():
        check_overrides(config_name, [text for text in sys.argv[1:] if not text.startswith("-")])
        task()


def end_with(main: Callable[[], None]) -> None:
    """Run a command and end the process, even if fits still run in threads.

    If Ctrl-C or an error of another fit ended Python normally, it would stop such threads within
    compiled code, and the process would abort instead of returning its exit status. If Ctrl-C came
    while Python ran a program given as a string, as the standard library does to make classes, it
    would end by the signal instead of with status 130.
    """
    try:
        main()
    except SystemExit as end:
        threads = any(isinstance(thread, DummyProcess) for thread in threading.enumerate())
        if end.code != _INTERRUPTED and not threads:
            raise
        status = end.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status or 0)


_TYPES: dict[type, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
}


def check_overrides(config_name: str, texts: Sequence[str]) -> None:
    """Check the arguments KEY=VALUE of a command line: the configuration must have the key, with a
    value of the same type.

    Raises
    ------
    ValueError
        If there is no such key, or if the new value has another type than the old value.
    """
    overrides = OverridesParser.create().parse_overrides(list(texts))
    groups = [o for o in overrides if (Path(CONFIGS) / o.key_or_group).is_dir()]
    base = _composed(config_name, tuple(str(o.input_line) for o in groups))
    for override in overrides:
        key, value = override.key_or_group, override.value()
        parent, _, last = key.rpartition(".")
        holder = OmegaConf.select(base, parent) if parent else base
        known = [str(name) for name in holder] if OmegaConf.is_dict(holder) else []
        if is_method := "estimator" in known:
            known = list(dict.fromkeys([*known, "grid", "columns", "learns_penalty"]))
        # keys that + adds to arguments of a class, or to a grid, are checked where they are used
        added = override.is_add() or override.is_force_add()
        open_to_it = added and not (is_method or parent in ("", "dataset"))
        if override in groups or key.startswith("hydra") or override.is_delete() or open_to_it:
            continue
        if last not in known:
            raise ValueError(_missing(base, key, known))
        default = None if OmegaConf.is_missing(holder, last) else holder.get(last)
        words, kinds = _TYPES.get(type(default), ("", ()))
        single = value is not None and not override.is_sweep_override()
        if words and single and type(value) not in kinds:
            raise ValueError(f"{key} needs {words}, got {value}.")


@cache
def _composed(config_name: str, groups: tuple[str, ...]) -> DictConfig:
    """Compose the configuration of a command line whose only arguments are ``groups``, which choose
    files. The result is cached, because composing takes half a second."""
    return configuration(*groups, name=config_name)


def configuration(*overrides: str, name: str = "config") -> DictConfig:
    """Compose the configuration of a command line with these arguments."""
    with initialize_config_dir(CONFIGS, version_base="1.3"):
        return compose(name, list(overrides))


def _missing(base: DictConfig, key: str, known: Sequence[str]) -> str:
    """Write an error about a key that does not exist. The error names the part that is wrong, and
    the most similar key of the configuration at any depth."""
    *parents, _ = parts = key.split(".")
    depth = 0
    while depth < len(parents) and OmegaConf.select(base, ".".join(parts[: depth + 1])) is not None:
        depth += 1
    parent, name = ".".join(parts[:depth]), parts[depth]
    holder = OmegaConf.select(base, parent) if parent else base
    where = f" in {parent}" if parent else ""
    if parts[-1] == "test_root":
        if found := [one[1:] for one in _keys(base) if one.endswith(".test_root")]:
            return f"There is no {key}; did you mean {found[0]}."
        return f"There is no test_root{where}; this experiment reads no folder of test data."
    inside = [inner.removeprefix(".") for inner in _keys(holder)]
    inside += [one for one in known if depth == len(parents)]  # also keys that may be added there
    names = list(dict.fromkeys(inner.rpartition(".")[2] for inner in inside))
    near = difflib.get_close_matches(name, names, 1)
    if not near:
        there = ", ".join(dict.fromkeys(inner for inner in inside if "." not in inner))
        return f"There is no {name}{where}; {f'there are {there}' if there else 'it has none'}."
    inner = next(inner for inner in inside if inner.rpartition(".")[2] == near[0])
    meant = f"{parent}.{inner}" if parent and "." in inner else inner
    return f"There is no {name}{where}; did you mean {meant}."


def _keys(holder: Any, prefix: str = "") -> list[str]:
    """Return the dotted names of all values in a configuration, the least nested first."""
    if not OmegaConf.is_dict(holder):
        return []
    some = {f"{prefix}.{name}": holder._get_node(name) for name in holder}
    return [*some, *(key for name, node in some.items() for key in _keys(node, name))]


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn errors that a user can correct into one sentence on stderr and exit status 1."""
    try:
        with mock.patch.dict(os.environ, HYDRA_FULL_ERROR="1"):  # else Hydra prints a stack
            yield
    except (*_OF_USERS, HydraException, OmegaConfBaseException) as error:
        raise SystemExit(f"Error: {' '.join(_text(error).split())}") from None
    except KeyboardInterrupt as interruption:
        print(str(interruption) or "Interrupted; nothing was written.", file=sys.stderr)
        raise SystemExit(_INTERRUPTED) from None


def _text(error: Exception) -> str:
    if isinstance(error, InstantiationException) and isinstance(error.__cause__, _OF_USERS):
        return _text(error.__cause__)
    if isinstance(error, MissingConfigException) and error.options:
        if str(error.missing_cfg_file).startswith("hydra/launcher/"):
            return (
                f"There is no {error.missing_cfg_file} here; {install('sweeps')} brings the "
                f"launchers joblib and submitit, or choose among {', '.join(error.options)}."
            )
        return f"There is no {error.missing_cfg_file}; choose among {', '.join(error.options)}."
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        return f"{error.filename} cannot be used: {error.strerror}."
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "No space left for a file of the run; make room, and the same command goes on."
    return str(error)
