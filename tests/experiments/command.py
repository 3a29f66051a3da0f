"""Run experiments inside the test's process, which saves imports: command lines and pieces."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from omegaconf import OmegaConf

from experiments.harness.choosing import compare
from experiments.harness.command_line import check_overrides, configuration, one_sentence
from experiments.harness.finished_fits import FinishedFits
from experiments.harness.procedure import Case, Method, Outcome
from experiments.harness.results import read_results
from experiments.run import run

# In place of all members of ours, which take seconds: the console and the label page fit those.
ONE_MEMBER = (
    "+methods.ours.estimator.members={a: [{_target_: metriclearn.ChangePointMetricLearner}]}"
)
DATA_REASON = "set METRICLEARN_DATA to the folder of the real data sets"


def call(module: str, *arguments: str | Path) -> None:
    """``python -m experiments.MODULE ARGUMENTS``."""
    main = importlib.import_module(f"experiments.{module}").main
    with mock.patch.object(sys, "argv", [f"experiments/{module}.py", *map(str, arguments)]):
        main()


def results_of(folder: Path, *overrides: str) -> dict[str, Any]:
    """Results of a run whose files are in the folder, without the command line, which takes 1 s."""
    folder.mkdir(exist_ok=True)
    run(configuration(*overrides), folder, "python -m experiments.run")
    return read_results(folder / "results.json")


def failure(capsys: pytest.CaptureFixture[str], module: str, *arguments: str | Path) -> str:
    """The one sentence that a call ends with, with exit status 1."""
    with pytest.raises(SystemExit) as stopped:
        call(module, *arguments)
    assert "Traceback" not in capsys.readouterr().err
    return _sentence(stopped.value)


def refusal(folder: Path, *overrides: str) -> str:
    """The one sentence that a run ends with, without the command line, which takes 1 s."""
    with pytest.raises(SystemExit) as stopped, one_sentence():  # noqa: PT012
        check_overrides("config", overrides)
        results_of(folder, *overrides)
    return _sentence(stopped.value)


def _sentence(end: SystemExit) -> str:
    message = end.code  # Python prints a text and exits with status 1
    assert isinstance(message, str)
    assert "\n" not in message
    return message


def outcomes_of(
    procedure: type,
    methods: Sequence[Method],
    cases: Sequence[Case],
    folder: Path,
    n_jobs: int = 1,
    **config: Any,
) -> list[Outcome]:
    """Outcomes of methods in cases, as an experiment with this procedure has them."""
    given = {"methods": lambda _: methods, "cases": lambda _: cases}
    made = type("Given", (procedure,), given)(OmegaConf.create(config))
    return compare(made, FinishedFits(folder / f"finished {n_jobs}", {}), n_jobs)
