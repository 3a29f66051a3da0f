"""Figure 1 of the paper: test loss against the fraction of each training sequence that is labeled.

Section 6.1: all samples of the training sequences are there, but labels only in one stretch of
each, whose length is the given fraction of the sequence. Ours completes the labels and learns in
turns (section 5.2) and estimates the number of segments; the baselines fit on the labeled
stretches and are told the true number of segments of every test sequence. Hyper-parameters of all
methods are chosen on validation sequences of which the same fraction is labeled.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from experiments.comparison import statistics
from experiments.protocol import sequence_losses
from metriclearn.datasets import LabeledSequences
from metriclearn.estimators.segmenter import MahalanobisSegmenter
from metriclearn.plots.canvas import PALETTE, TEXT_SIZE, canvas, figure_of, say, tidy

__all__ = ["label_stretches", "plot_information", "run"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Entry:
    """A method: its estimator, candidates, and whether it is told the number of segments."""

    name: str
    estimator: Any
    grid: Sequence[Mapping[str, Any]]
    told: bool


def run(config: DictConfig, folder: Path, command: str) -> Path:
    """Fit every method for every seed and fraction; write results.json, results.md, figure1.

    Returns
    -------
    path of results.md
    """
    begin, processor = time.perf_counter(), time.process_time()
    entries = [
        _Entry(
            entry.name,
            instantiate(entry.estimator),
            list(ParameterGrid(OmegaConf.to_container(entry.grid, resolve=True))),
            entry.told,
        )
        for entry in config.methods.values()
        if entry is not None
    ]
    seeds = range(config.seed, config.seed + config.n_seeds)
    pairs = [(seed, fraction) for fraction in config.fractions for seed in seeds]
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        parallel = Parallel(config.n_jobs, prefer="threads", return_as="generator")
        jobs = (delayed(_losses)(entries, config, seed, fraction) for seed, fraction in pairs)
        found = list(tqdm(parallel(jobs), "figure1", len(pairs), disable=None))
    rows = []
    for entry in entries:
        for fraction in config.fractions:
            values = [
                found[i][entry.name] for i, (_, f) in enumerate(pairs) if float(f) == fraction
            ]
            column = "given" if entry.told else "estimated"
            row = {"method": entry.name, "split": "test", "n_clusters": column}
            measure = "partition_loss" if fraction == 1 else f"partition_loss at {fraction:g}"
            rows.append(row | {"fraction": fraction} | statistics(np.array(values), measure))
    results = {
        "experiment": config.name,
        "rows": rows,
        "seconds": time.perf_counter() - begin,
        "processor_seconds": time.process_time() - processor,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    return _write(folder, results, command)


def label_stretches(
    data: LabeledSequences, fraction: float, random_state: int
) -> tuple[list[NDArray], list[tuple[int, int]]]:
    """Labels with −1 outside one stretch of every sequence, and the stretches (start, stop).

    The place of a stretch is drawn once per sequence, so that stretches grow with ``fraction``.
    """
    rng = np.random.default_rng(random_state)
    labels, spans = [], []
    for full in data.labels:
        size = max(2, round(fraction * len(full)))
        start = int(rng.random() * (len(full) - size + 1))
        known = np.full(len(full), -1)
        known[start : start + size] = full[start : start + size]
        labels.append(known)
        spans.append((start, start + size))
    return labels, spans


def _losses(
    entries: Sequence[_Entry], config: DictConfig, seed: int, fraction: float
) -> dict[str, float]:
    """Mean test ‖M − N‖² of every method."""
    make = instantiate(config.dataset.loader, _partial_=True)
    train, validation, test = (make(random_state=3 * seed + i, feature_seed=seed) for i in range(3))
    found = {}
    for entry in entries:
        choose = _choose_told if entry.told else _choose_ours
        model = choose(entry, train, validation, fraction, seed)
        column = "given" if entry.told else "estimated"
        found[entry.name] = float(sequence_losses(model, test, column).mean())
    texts = ", ".join(f"{name} {loss:.2f}" for name, loss in found.items())
    _logger.info("seed %d, %g %% labeled: %s", seed, 100 * fraction, texts)
    return found


def _choose_ours(
    entry: _Entry,
    train: LabeledSequences,
    validation: LabeledSequences,
    fraction: float,
    seed: int,
) -> MahalanobisSegmenter:
    """The candidate with the least loss on what is known of the validation sequences."""
    labels, _ = label_stretches(train, fraction, seed)
    held_out, _ = label_stretches(validation, fraction, seed + 1)
    models = [
        clone(entry.estimator).set_params(**parameters).fit(train.sequences, labels)
        for parameters in entry.grid
    ]
    return max(models, key=lambda model: model.score(validation.sequences, held_out))


def _choose_told(
    entry: _Entry,
    train: LabeledSequences,
    validation: LabeledSequences,
    fraction: float,
    seed: int,
) -> MahalanobisSegmenter:
    """The candidate with the least loss on the labeled stretches of the validation sequences.

    A stretch is segmented into as many segments as its labels have.
    """
    models = [
        clone(entry.estimator).set_params(**parameters).fit(*_stretches(train, fraction, seed))
        for parameters in entry.grid
    ]
    held_out = _stretches(validation, fraction, seed + 1)
    return max(models, key=lambda model: model.score(*held_out))


def _stretches(
    data: LabeledSequences, fraction: float, seed: int
) -> tuple[list[NDArray], list[NDArray]]:
    _, spans = label_stretches(data, fraction, seed)
    return (
        [X[start:stop] for X, (start, stop) in zip(data.sequences, spans)],
        [y[start:stop] for y, (start, stop) in zip(data.labels, spans)],
    )


def _curves(results: Mapping[str, Any]) -> dict[str, tuple[NDArray, NDArray, NDArray]]:
    """Fractions, means and standard errors of every method."""
    curves: dict[str, tuple[NDArray, NDArray, NDArray]] = {}
    for name in dict.fromkeys(row["method"] for row in results["rows"]):
        rows = [row for row in results["rows"] if row["method"] == name]
        x, mean, error = (
            np.array([row[key] for row in rows]) for key in ("fraction", "mean", "standard_error")
        )
        curves[name] = (x, mean, error)
    return curves


def plot_information(curves: Mapping[str, tuple[NDArray, NDArray, NDArray]]) -> Figure:
    """Loss against the labeled fraction with error bars; the first method is ours."""
    ax = canvas(None, 6.4, 4.2)
    best = min(curve[1][-1] for name, curve in curves.items() if name != next(iter(curves)))
    ours = next(iter(curves.values()))[1][-1]
    message = f"With all labels the learned metric errs {best / ours:.0f} times less"
    say(ax, f"{message} than the best baseline, which knows the number of segments", None)
    ends = []
    for place, (name, (x, mean, error)) in enumerate(curves.items()):
        color = PALETTE[place % 6]
        width = 1.3 if place else 2.6
        ax.errorbar(100 * x, mean, error, color=color, marker="o", ms=4, capsize=2.5, lw=width)
        ends.append((float(mean[-1]), name, color))
    ax.set_ylim(0, 1.12 * max(float((mean + error).max()) for _, mean, error in curves.values()))
    _name_curves(ax, ends, 100 * float(x[-1]))
    tidy(ax, "labeled part of each training sequence (%)", "test loss ‖M − N‖²", grid="y")
    return figure_of(ax)


def _name_curves(ax: Any, ends: Sequence[tuple[float, str, str]], right: float) -> None:
    """Names beside the last points, moved apart where they would overlap."""
    height, ends = 0.055 * ax.get_ylim()[1], sorted(ends)
    places = np.array([value for value, _, _ in ends])
    for _ in range(100):  # push neighbors apart by halves of what is missing
        missing = np.maximum(height - np.diff(places), 0.0) / 2.0
        places[1:] += missing
        places[:-1] -= missing
    for place, (_, name, color) in zip(places, ends):
        ax.text(1.02 * right, place, name, color=color, fontsize=TEXT_SIZE, va="center")
    ax.set_xlim(right=1.01 * right)


def _table(results: Mapping[str, Any]) -> str:
    """Markdown: one line per fraction, one column per method."""
    curves = _curves(results)
    lines = ["| labeled | " + " | ".join(curves) + " |", "|---:|" + "---:|" * len(curves)]
    fractions = next(iter(curves.values()))[0]
    for i, fraction in enumerate(fractions):
        least = min(mean[i] for _, mean, _ in curves.values())
        cells = []
        for _, mean, error in curves.values():
            text = f"{mean[i]:.2f} ± {error[i]:.2f}"
            cells.append(f"**{text}**" if mean[i] == least else text)
        lines.append(f"| {100 * fraction:g} % | {' | '.join(cells)} |")
    return "\n".join(lines)


def _write(folder: Path, results: Mapping[str, Any], command: str) -> Path:
    """Numbers first, so that no error in the figure loses them."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2) + "\n"
    (folder / "results.json").write_text(text, encoding="utf-8")
    seeds = len(results["rows"][0]["values"])
    page = folder / "results.md"
    page.write_text(
        f"# {results['experiment']}\n\nTest ‖M − N‖², mean ± standard error over {seeds} draws of "
        "training, validation and test sequences. Ours estimates the number of segments; all "
        "others are told the true one. Hyper-parameters have the least loss on validation "
        "sequences of which the same part is labeled.\n\n"
        f"{_table(results)}\n\nProduced by\n\n```sh\n{command}\n```\n\nRun time: "
        f"{results['seconds']:.0f} s ({results['processor_seconds']:.0f} processor seconds).\n",
        encoding="utf-8",
    )
    _logger.info("\n%s", _table(results))
    figure = plot_information(_curves(results))
    figure.savefig(folder / "figure1.png", dpi=160)
    figure.savefig(folder / "figure1.svg", metadata={"Date": None})
    return page
