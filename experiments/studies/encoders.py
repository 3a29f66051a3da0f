"""Learned features compared with linear metrics: encoders of raw signals and of hand-made features.

The encoder's settings are chosen like all others: on folds of the training data. The encoder is
trained from several random seeds. The loss of the encoder on the test data is the mean over these
seeds. The loss of each seed is a separate measure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from omegaconf import DictConfig
from sklearn.base import clone

from experiments.harness.comparison import Comparison, encoder_of
from experiments.harness.procedure import Case, Method, Outcome, Scores, Story
from experiments.harness.results import MEASURE, OURS
from experiments.harness.scoring import sequence_losses
from experiments.studies.audio_and_video import AudioAndVideo
from metriclearn import Partition
from metriclearn.datasets import LabeledSequences
from metriclearn.plots import plot_segmentation


class Encoders(AudioAndVideo):
    """The experiment on encoders, with a data set or a ``stream`` of recordings. Encoders are
    fitted from ``seeds`` different random seeds."""

    relative = False  # outputs of encoders are normalized, and seeds compared with one penalty
    backend = "processes"  # torch has one source of random numbers in a process

    def __init__(self, config: DictConfig) -> None:
        if "stream" in config:
            config.streams = {config.stream: config.streams[config.stream]}
        super().__init__(config)
        words = {f"seed_{seed}": (f"‖M − N‖², seed {seed}", "less") for seed in range(config.seeds)}
        self.measures = {**AudioAndVideo.measures, **words}
        self._others: dict[tuple[Any, int], Any] = {}  # by the model of seed 0, and the seed

    def cases(self) -> list[Case]:
        return super().cases() if "streams" in self.config else Comparison.cases(self)

    def fit(self, estimator: Any, data: Any, method: Method) -> Any:
        with_one_thread()
        return super().fit(estimator, data, method)

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        first, scores = super().score(model, option, column, case)
        if encoder_of(model) is None:
            return first, scores
        losses = [scores[MEASURE]]
        for seed in range(1, self.config.seeds):
            if (model, seed) not in self._others:
                self._others[model, seed] = from_seed(model, seed, case.train)
            losses.append(sequence_losses(self._others[model, seed], case.test, column))
        by_seed = {f"seed_{seed}": values for seed, values in enumerate(losses)}
        return first, {**scores, MEASURE: np.mean(losses, axis=0), **by_seed}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Make the report of all comparisons. For a single data set, also draw an encoder's
        features."""
        if "streams" in self.config:
            return super().story(outcomes, folder)
        encoders = [o for o in outcomes if of_raw_signals(o.models["estimated"])]
        if encoders:
            figure = draw_features(max(encoders, key=lambda o: o.name == OURS))
            texts = {"Title": figure.get_suptitle(), "Software": None}
            figure.savefig(folder / "features.png", dpi=110, metadata=texts)
        return Comparison.story(self, outcomes, folder)


def with_one_thread() -> None:
    """Let torch use one thread, so that training gives the same weights everywhere, and several
    fits can run at once."""
    import torch

    torch.set_num_threads(1)


def from_seed(model: Any, seed: int, data: LabeledSequences) -> Any:
    """Copy a model with another random seed, and fit the copy."""
    with_one_thread()
    model = clone(model)
    for view in getattr(model.view, "views", [model.view]):
        if "random_state" in view.get_params():
            view.set_params(random_state=seed)
    return model.fit(data.sequences, data.labels)


def of_raw_signals(model: Any) -> Any:
    """Find the module of a model's encoder that knows which columns are raw signals. Returns None
    if there is no such module."""
    encoder = encoder_of(model)
    parts = () if encoder is None else encoder.network_.modules()
    return next((part for part in parts if hasattr(part, "n_raw")), None)


def draw_features(outcome: Outcome) -> Figure:
    """Draw the test recording of median loss: signals, learned features, and segments."""
    model, data = outcome.models["estimated"], outcome.case.test
    losses = sequence_losses(model, data)
    i = int(np.argsort(losses, kind="stable")[len(losses) // 2])
    X, truth = data.sequences[i], Partition.from_runs(data.labels[i])
    network = of_raw_signals(model)
    n_channels = network.n_channels
    n_samples = network.n_raw // n_channels
    signals = X[:, : network.n_raw].reshape(-1, n_channels)
    Z = model.transform([X])[0]
    Z = Z[:, np.argsort(-Z.var(axis=0))[:8]]
    figure = Figure(figsize=(10, 5.5), layout="constrained")
    figure.suptitle("Raw signals, features learned from them, and segments of a test recording")
    top, bottom = figure.subplots(2, 1, sharex=True)
    levels = 4.0 * signals.std() * np.arange(n_channels)
    top.plot(np.arange(len(signals)) / n_samples, signals + levels, lw=0.4)
    top.set_title(f"{data.names[i]}: raw signals", loc="left")
    top.set_yticks([])
    strips = {"true": truth.change_points, "found": model.predict_change_points([X])[0]}
    unit, title = "windows" if n_samples > 1 else "samples", "features learned from others"
    plot_segmentation(strips, Z, unit=unit, ax=bottom, title=title)
    return figure
