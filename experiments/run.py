"""Run an experiment: ``python -m experiments.run experiment=NAME [tiny=true] [KEY=VALUE ...]``.

NAME is a file of configs/experiment: synthetic, hapt, gesture_phase, files, paper_setting,
figure1, neuroblastoma, beedance, mocap6, clustering, images, bsds500, shows, video, audio,
kinect_streams, default_settings or clustering_defaults. Results, models, figures and report.html go
to ``outputs/NAME/DATE/``, or to ``hydra.run.dir``, where the same command goes on if it was
stopped; ``--multirun`` runs a product of values.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from experiments.command_line import from_command_line
from experiments.procedure import Finished, Procedure, compare
from experiments.report import MEASURE, write_report

_logger = logging.getLogger(__name__)


def run(config: DictConfig, folder: Path, command: str) -> str:
    """Run the procedure of a configuration and write everything to ``folder``.

    Writes ``results.json``, ``results.md``, the figures, ``report.html`` and, in ``finished``,
    every fit as soon as it is done.

    Returns
    -------
    a line with the path of report.html, or of results.md where there is none
    """
    begun = time.perf_counter()
    settings: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore
    procedure: Procedure = get_class(config.procedure)(OmegaConf.create(settings))
    decisive = {key: value for key, value in settings.items() if key not in ("n_jobs", "executor")}
    outcomes = compare(procedure, Finished(folder / "finished", decisive), config.n_jobs)
    pages = []
    for story in procedure.stories(outcomes, folder):
        for row in story.rows:
            if (row["split"], row["measure"]) == ("test", MEASURE):
                numbers = row["n_clusters"], row["mean"], row["standard_error"]
                _logger.info("%-16s K %-9s ‖M−N‖² %.3f ± %.3f", row["method"], *numbers)
        results = {
            "experiment": ", ".join(filter(None, (config.name, story.folder))),
            "rows": story.rows,
            **story.fields,
            "seconds": time.perf_counter() - begun,
            "config": settings,
        }
        pages.append(write_report(folder / story.folder, results, story.artifacts, command))
    return f"Report: {pages[0]}"


def main() -> None:
    """The command line."""
    from_command_line("run", "config", run)


if __name__ == "__main__":
    main()
