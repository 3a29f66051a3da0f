"""Run an experiment: ``python -m experiments.run experiment=NAME [tiny=true] [KEY=VALUE ...]``.

NAME is a file of configs/experiment: synthetic, hapt, gesture_phase, files, paper_setting,
figure1, neuroblastoma, beedance, mocap6, clustering, images, bsds500, shows, video, audio or
kinect_streams. Results, models, figures and report.html go to ``outputs/NAME/DATE/``, or to
``hydra.run.dir``; ``--multirun`` runs a product of values.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_method
from omegaconf import DictConfig

from experiments.command_line import CONFIGS, one_sentence

__all__ = ["main"]


@hydra.main(version_base="1.3", config_path=CONFIGS, config_name="config")
def _task(config: DictConfig) -> None:
    settings = HydraConfig.get()
    folder = Path(settings.runtime.output_dir)
    command = shlex.join(["python", "-m", "experiments.run", *settings.overrides.task])
    with one_sentence():
        page = get_method(config.procedure)(config, folder, command)
    print(f"Report: {page}")


def main() -> None:
    """The command line; errors of the user are one sentence and exit status 1."""
    with one_sentence():
        _task()


if __name__ == "__main__":
    main()
