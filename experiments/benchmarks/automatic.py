"""One call for everything: auto_metric_learner against our best row of every experiment.

    python -m experiments.benchmarks.automatic [--out FOLDER] [--only NAME …]

The learner gets what the experiment of the same name trains on and no more than five minutes, anew
where every unit is held out once; it is scored on the same test data, number of segments estimated.
The best of our rows is the best in hindsight, on test data, of that experiment's committed results.
Rows of data sets that are not asked for stay as they were saved, but for what those results say.
"""

from __future__ import annotations

import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from hydra import compose, initialize_config_dir
from hydra.utils import get_class
from omegaconf import DictConfig
from sklearn.exceptions import ConvergenceWarning

from experiments.benchmarks.machine import Report, Row, Timing, in_own_process, options_of
from experiments.harness.command_line import CONFIGS  # and the resolvers of the configurations
from experiments.harness.comparison import sequence_losses
from experiments.harness.procedure import standard_error
from experiments.harness.results import MEASURE, is_ours, read_results, rows_of
from metriclearn import auto_metric_learner

ROOT = Path(__file__).resolve().parents[2]
# experiment → its table of the number of segments estimated
TABLES = {
    "synthetic": "test",
    "hapt": "test",
    "gesture_phase": "test",
    "mocap6": "test",
    "beedance": "test",
    "audio": "songs",
}
_SECONDS = 300.0
_FAIR = "the best row, found without the unit tested"


def rows_of_ours(experiment: str) -> list[dict[str, Any]]:
    """Ours of an experiment, number of segments estimated, the least loss on test data first."""
    results = read_results(ROOT / "docs" / "results" / f"{experiment}.json")
    rows = [
        row
        for row in rows_of(results, {"name": TABLES[experiment], "measure": MEASURE})
        if row["column"] == "estimated" and is_ours(row["method"])
    ]
    return sorted(rows, key=lambda row: row["mean"])


def without_hindsight(experiment: str) -> float:
    """Mean loss where the best of our rows is found, for every unit, on the other ones."""
    values = np.array([row["values"] for row in rows_of_ours(experiment)])
    others = values.sum(axis=1, keepdims=True) - values
    return float(np.mean(values[others.argmin(axis=0), np.arange(values.shape[1])]))


def configuration(experiment: str, tiny: bool) -> DictConfig:
    """What an experiment runs by default."""
    with initialize_config_dir(str(CONFIGS), version_base=None):
        names = [f"experiment={experiment}", *(["tiny=true"] if tiny else [])]
        return compose("config", overrides=names)


def compared(experiment: str, tiny: bool) -> Row:
    """Loss and seconds of the learner on one data set."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    config = configuration(experiment, tiny)
    means: dict[str, float] = {}  # by independent unit
    timings, choices, left_out = [], [], 0
    for case in get_class(config.procedure)(config).cases():
        if case.table != TABLES[experiment]:
            continue
        groups = case.train.groups if len(set(case.train.groups)) > 1 else None  # None: tiny
        known = case.train.sequences, case.train.labels, groups
        timings.append(Timing().run(partial(auto_metric_learner, *known, seconds=_SECONDS)))
        learner = timings[-1].result
        losses, units = sequence_losses(learner, case.test), np.array(case.test.groups)
        means |= {unit: losses[units == unit].mean() for unit in units}
        choices.append(learner.choice_.names[learner.choice_.chosen])
        left_out += len(learner.choice_.left_out)
    best = rows_of_ours(experiment)[0]
    values = np.array([*means.values()])
    mean, error = float(values.mean()), standard_error(values)
    excess = values - [dict(zip(best["units"], best["values"])).get(unit, np.nan) for unit in means]
    more, noise = float(excess.mean()), standard_error(excess) or np.nan
    return {
        "data": _data(experiment),
        "auto": _shown(mean, error),
        "best of our rows, in hindsight": _shown(best["mean"], best["standard_error"]),
        "its name": best["method"],
        "within its standard error": _said(mean - best["mean"] <= best["standard_error"]),
        "difference, paired": _shown(more, noise),
        "within that of the difference": _said(more <= noise),
        "choices": "; ".join(dict.fromkeys(choices)),
        "candidates left out": left_out,
        "seconds of a choice": round(max(timing.median for timing in timings), 1),
        "of the processor": round(max(timing.processor_median for timing in timings), 1),
    }


def _data(experiment: str) -> str:
    return "songs" if experiment == "audio" else experiment


def _said(true: bool) -> str:
    return "yes" if true else "no"


def _shown(mean: float, error: float | None) -> str:
    return f"{mean:.3g}" if error is None else f"{mean:.3g} ± {error:.2g}"


def main() -> None:
    """Choose and fit on every data set; print and save."""
    parser = options_of(__doc__)
    parser.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    report = Report("automatic", options, seconds=_SECONDS)
    text = report.path.read_text(encoding="utf-8") if report.path.exists() else '{"tables": []}'
    rows = {row["data"]: row for table in json.loads(text)["tables"] for row in table["rows"]}
    for name in options.only:
        row = in_own_process(compared, name, options.tiny)
        rows[row["data"]] = row | {key: report.record["machine"][key] for key in ("load", "commit")}
    fresh = {_data(name): {_FAIR: _shown(without_hindsight(name), None)} for name in TABLES}
    report.table(
        "Chosen on training data alone",
        [rows[name] | fresh[name] for name in fresh if name in rows],
        "Mean ‖M − N‖² ± standard error over the independent units of the test data. A best row in "
        "hindsight is good by luck, too: the stricter question is whether auto is within the "
        "standard error of that row, the fairer one whether their difference is within its own, "
        "paired over units. Where that row is found for every unit on the other units alone, its "
        "loss is that of the last column.",
    )
    report.save()


if __name__ == "__main__":
    main()
