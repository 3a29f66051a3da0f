"""What the command lines share: where configurations are, ``${tiny:A,B}``, errors in a sentence."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

CONFIGS = str(Path(__file__).resolve().parents[1] / "configs")


def _tiny(small: Any, full: Any, *, _root_: Any) -> Any:
    return small if _root_.tiny else full


OmegaConf.register_new_resolver("tiny", _tiny, replace=True)


def from_command_line(
    module: str, config_name: str, call: Callable[[DictConfig, Path, str], object]
) -> None:
    """Print what ``call`` returns for the configuration and options of this process.

    Beside the configuration it gets Hydra's folder of the run and the command line that repeats it.
    Errors of the user are one sentence and exit status 1.
    """

    @hydra.main(version_base="1.3", config_path=CONFIGS, config_name=config_name)
    def task(config: DictConfig) -> None:
        settings = HydraConfig.get()
        command = ["python", "-m", f"experiments.{module}", *settings.overrides.task]
        with one_sentence():
            print(call(config, Path(settings.runtime.output_dir), shlex.join(command)))

    with one_sentence():
        task()


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn errors that a user can mend into one sentence on stderr and exit status 1."""
    try:
        with mock.patch.dict(os.environ, HYDRA_FULL_ERROR="1"):  # or Hydra prints a stack
            yield
    except (ValueError, TypeError, OSError, HydraException, OmegaConfBaseException) as error:
        raise SystemExit(f"Error: {' '.join(_text(error).split())}") from None
    except KeyboardInterrupt:
        print("Interrupted; results that were written are kept.", file=sys.stderr)
        raise SystemExit(130) from None


def _text(error: Exception) -> str:
    if isinstance(error, MissingConfigException) and error.options:
        return f"There is no {error.missing_cfg_file}; choose among {', '.join(error.options)}."
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        return f"{error.filename} cannot be used: {error.strerror}."
    return str(error)
