"""Call the command lines of the experiments inside the test's process, which saves imports."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from unittest import mock

import pytest

DATA_REASON = "set METRICLEARN_DATA to the folder of the real data sets"


def call(module: str, *arguments: str | Path) -> None:
    """``python -m experiments.MODULE ARGUMENTS``."""
    main = importlib.import_module(f"experiments.{module}").main
    with mock.patch.object(sys, "argv", [f"experiments/{module}.py", *map(str, arguments)]):
        main()


def failure(capsys: pytest.CaptureFixture[str], module: str, *arguments: str | Path) -> str:
    """The one sentence that a call ends with, with exit status 1."""
    with pytest.raises(SystemExit) as stopped:
        call(module, *arguments)
    assert "Traceback" not in capsys.readouterr().err
    message = stopped.value.code  # Python prints a text and exits with status 1
    assert isinstance(message, str)
    assert "\n" not in message
    return message
