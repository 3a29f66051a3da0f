"""Run an experiment: ``python -m experiments.run experiment=NAME [tiny=true] [KEY=VALUE ...]``.

NAME is a file of configs/experiment: synthetic, hapt, gesture_phase, files, paper_setting, figure1,
neuroblastoma, beedance, mocap6, gazecom, birdsong, billboard, piano_keys, texts, clustering,
images, bsds500, shows, video, audio, kinect_streams, hapt_unknown, hapt_encoder, beedance_encoder,
active, active_small, default_settings, clustering_defaults, league, league_unseen, league_minutes,
league_picked, raw_tables, ensembles or penalties.
Results, models, figures and report.html go to ``outputs/NAME/DATE/``, or to ``hydra.run.dir``. The
same command resumes a run that was stopped, and so does ``resume=FOLDER``. ``--multirun`` runs all
combinations of several values, and ends with a table of its jobs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
from hydra.experimental.callback import Callback
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

import metriclearn
from experiments.harness.choosing import compare
from experiments.harness.command_line import CONFIGS, end_with, from_command_line
from experiments.harness.committed import with_kept
from experiments.harness.finished_fits import FinishedFits
from experiments.harness.procedure import Procedure
from experiments.harness.report import write_report
from experiments.harness.results import OURS, Results, Table, read_results, results_table
from experiments.harness.wording import markdown_table
from metriclearn.running.command_line import is_interrupt

_FITS, _MARK = "finished", "unfinished.json"  # the fits of a run, and a mark that they are needed
# Settings that do not affect a fit, apart from its data, which are in the name of each fit.
_RUN = ("n_jobs", "executor", "resume", "outputs", "pictures")
_IRRELEVANT = (*_RUN, "sets", "left_out", "only", "refit")
_UNDRAWN: dict[str, Any] = {"strips": (), "figures": {}, "weights": {}, "traces": {}}
_logger = logging.getLogger(__name__)


def run(config: DictConfig, folder: Path, command: str) -> str:
    """Run the procedure of a configuration and write everything to ``folder``.

    Writes ``results.json``, ``results.md``, the figures, ``report.html`` and, in ``finished``,
    every fit as soon as it is done.

    Returns
    -------
    a line with the path of report.html

    Raises
    ------
    KeyboardInterrupt
        Its message gives the number of saved fits.
    """
    settings: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore
    kind: type[Procedure] = get_class(config.procedure)
    unseen = (settings.get("dataset") or {}).get("test_root")
    if unseen and not kind.reads_test_root:
        raise ValueError(
            f"experiment={config.name} does not read dataset.test_root; leave it out, or choose an "
            "experiment that does, such as files, hapt, images, neuroblastoma or audio."
        )
    for name, place in (("dataset.test_root", unseen), ("test_root", settings.get("test_root"))):
        if place and not Path(place).expanduser().is_dir():
            raise ValueError(f"{name}={place} is not a folder; name the folder of test data.")
    if config.n_jobs == 0:
        raise ValueError("n_jobs needs a number of fits at the same time, or -1 for all, got 0.")
    decisive = _decisive(settings)
    home = _home(folder, settings, json.dumps(decisive, sort_keys=True))
    finished = FinishedFits(home / _FITS, decisive)
    if count := len(finished):
        _logger.info("Going on with the %d fits in %s", count, finished.folder)
    try:
        procedure = kind(OmegaConf.create(settings))
        outcomes = compare(procedure, finished, config.n_jobs)
        story = procedure.story(outcomes, folder)
        results = {
            "name": config.name,
            "protocol": story.protocol,
            "command": command,
            **story.numbers,
            **story.fields,
            "seconds": sum(
                outcome.seconds for outcome in outcomes if outcome.method.estimator is not None
            ),
            "config": settings,
        }
        results = with_kept(config, procedure.entries, results)
        artifacts = replace(story.artifacts, **({} if config.pictures else _UNDRAWN))
        page = write_report(folder, results, artifacts)
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interrupt(error):
            raise
        raise KeyboardInterrupt(
            f"Interrupted: {len(finished)} finished fits are kept in {finished.folder}; run the "
            f"same command, or add resume={home}, to continue."
        ) from None
    (home / _MARK).unlink(missing_ok=True)
    return f"{read_results(folder / 'results.json')['headline']}\nReport: {page}"


def _decisive(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that determines the results of a run: its settings and all code."""
    root = Path(CONFIGS).parent
    files = sorted(
        (*root.glob("experiments/**/*.py"), *Path(metriclearn.__file__).parent.rglob("*.py"))
    )
    if contestant := settings.get("contestant"):
        files.append(Path(contestant.partition(":")[0]))
    code = joblib.hash([file.read_bytes() for file in files if file.is_file()])
    return {k: v for k, v in settings.items() if k not in _IRRELEVANT} | {"code": code}


def _home(folder: Path, settings: Mapping[str, Any], mine: str) -> Path:
    """Return the folder of a stopped run with the same settings.

    If there is no such folder, return ``folder``, after writing a file into it that marks the run
    as unfinished. The file contains ``mine``, that is, everything that determines the results.

    Raises
    ------
    ValueError
        If ``resume`` names a folder that has no stopped run with the same settings and code.
    """
    given = settings.get("resume")
    if given is not None:
        mark = Path(given) / _MARK
        if not mark.is_file() or mark.read_text(encoding="utf-8") != mine:
            raise ValueError(
                f"resume={given} needs the folder of a run of this command that was stopped, with "
                f"the same settings and code; leave resume out to begin anew."
            )
        return Path(given)
    marks = [folder / _MARK, *sorted(Path(settings["outputs"]).glob(f"**/{_MARK}"))]
    for mark in marks:
        if mark.is_file() and mark.read_text(encoding="utf-8") == mine:
            return mark.parent
    marks[0].write_text(mine, encoding="utf-8")
    return folder


class JobsTable(Callback):
    """Makes one table of the jobs of ``--multirun``. The table has the overrides of each job, our
    results, and the results of the best other method."""

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        """Print the table, and write it to ``results.md`` in the folder of the sweep."""
        folder = Path(config.hydra.sweep.dir)
        lines = []
        files = folder.glob("*/results.json")
        for file in sorted(files, key=lambda f: (len(f.parent.name), f.parent.name)):
            results = read_results(file)
            overrides = OmegaConf.load(file.parent / ".hydra" / "overrides.yaml")
            for table in results["tables"]:
                if table["main"]:
                    lines.append([", ".join(overrides), table["title"], *_two(results, table)])
        head = ["job", "table", "ours", "best of the others"]
        text = "\n".join(markdown_table(head, lines)) + "\n"
        (folder / "results.md").write_text(text, encoding="utf-8")
        print(text)


def _two(results: Results, table: Table) -> list[str]:
    """Return two cells from the first column of a table: our result, and the best other result."""
    column = next(iter(table["columns"]))
    cells = {m: mine[column] for m, mine in results_table(results, table).items() if column in mine}
    other = next(((m, c) for m, c in cells.items() if not m.startswith(OURS)), None)
    return [str(cells.get(OURS, "–")), f"{other[0]}: {other[1]}" if other else "–"]


def main() -> None:
    """The command line."""
    from_command_line("run", "config", run)


if __name__ == "__main__":
    end_with(main)
