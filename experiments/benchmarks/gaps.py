"""How much lost rows and jittered times raise the loss: HAPT and GazeCom with gaps.

    python -m experiments.benchmarks.gaps [--tiny]

Training and test recordings are damaged before features are computed: single rows or runs of rows
are removed, or times jitter. ``regular`` puts the remaining rows on a grid again, and features are
computed from recordings whose gaps are filled. Learners use all rows of features, or only a part:
rows that lie mostly in gaps too long to be filled become NaN, and the view ``LeaveOut`` drops them.
The better of these two ways is chosen by cross-validation of ``score`` on the training data, which
have gaps, too. Half of the groups are held out at a time. After every fit the penalty is
tuned on the data of this fit. The loss compares predictions for damaged test recordings with the
labels of all rows.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import metriclearn as ml
from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row
from experiments.harness.cases import group_folds
from experiments.harness.scoring import sequence_losses
from metriclearn.datasets import LabeledSequences, data_folder, load_dataset
from metriclearn.views import LeaveOut, Neighbors

BENCH = Benchmark("gaps", __doc__)
_DRAWS = 3  # times that rows are lost at random
_KINDS = ("boundaries", "named")
_LEFT_OUT, _FILLED = "left out", "filled"  # what becomes of unknown rows


@dataclass(frozen=True)
class Source:
    """The recordings of a data set, and how gaps in them are made and filled.

    Attributes
    ----------
    options : dict
        Options of the loader that computes the features of the recordings.
    rate, step : float, int
        How many rows a recording has per second, and how many of them make one row of features.
    run, longest_gap : float
        Mean length of a run of lost rows, and the longest gap that is filled, in seconds.
    n_test : int
        Number of groups for test.
    strength : float
        Strength of the regularizer. The method "named, neighbors" chooses this strength on complete
        training data.
    """

    options: dict[str, str]
    rate: float
    step: int
    run: float
    longest_gap: float
    n_test: int
    strength: float


@dataclass(frozen=True)
class Damage:
    """Damage to recordings: a fraction of the rows is lost, or times jitter.

    Attributes
    ----------
    lost : float
        Fraction of the rows that are lost.
    in_runs : bool
        Whether runs of rows are lost, instead of single ones.
    jitter : float
        Largest shift of a time, in steps.
    """

    lost: float = 0.0
    in_runs: bool = False
    jitter: float = 0.0

    def of(self, recording: NDArray, source: Source, rng: np.random.Generator) -> pd.DataFrame:
        """Damage a recording. Returns the remaining rows, with their times as the index.

        The value at a shifted time is interpolated between the two samples around it.
        """
        n = len(recording)
        place = np.clip(np.arange(n) + rng.uniform(-1, 1, n) * self.jitter, 0, n - 1)
        columns = recording.astype(float).T
        values = np.column_stack([np.interp(place, np.arange(n), column) for column in columns])
        gone = rng.random(n) < self.lost
        if self.in_runs and self.lost:
            lost = source.run * source.rate
            kept = lost * (1 - self.lost) / self.lost
            lengths = rng.geometric(1 / np.tile([kept, lost], 4 + int(n / lost)))
            gone = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)[:n]
        return pd.DataFrame(values, index=place / source.rate)[~gone]


SOURCES = {
    "hapt": Source({"unlabeled": "keep", "labels": "activities"}, 50.0, 25, 1.0, 0.1, 6, 0.1),
    "gazecom": Source({}, 250.0, 5, 0.1, 0.02, 3, 0.01),
}
DAMAGES = {
    "complete": Damage(),
    "times jitter": Damage(jitter=0.45),
    "5 % lost, single": Damage(0.05),
    "5 % lost, in runs": Damage(0.05, in_runs=True),
    "20 % lost, single": Damage(0.2),
    "20 % lost, in runs": Damage(0.2, in_runs=True),
}


def on_grid(frame: pd.DataFrame, n: int, source: Source, longest_gap: float) -> NDArray:
    """Put a damaged recording back on its original grid, (n, channels). Gaps of more than
    ``longest_gap`` seconds are NaN."""
    values = np.full((n, frame.shape[1]), np.nan)
    for piece in ml.regular(frame, source.rate, longest_gap):
        rows = np.rint(piece.index.to_numpy() * source.rate).astype(int)
        values[rows[rows < n]] = piece.to_numpy()[rows < n]
    return values


def damaged(
    name: str, damage: Damage, seed: int, keep: int | None
) -> tuple[LabeledSequences, list[NDArray]]:
    """Damage the recordings of a data set. Returns the features of the filled recordings, and for
    each recording which rows of features lie mostly in gaps too long to be filled."""
    source, rng = SOURCES[name], np.random.default_rng(seed)
    original = data_folder(name)
    with np.load(original / "sequences_int16.npz") as file:
        arrays = {key: file[key] for key in file.files}
    recordings = sorted(set(arrays) - {"channels"})
    recordings = recordings[:: len(recordings) // keep] if keep else recordings
    unknown: dict[str, NDArray] = {}
    for recording in recordings:
        n = len(arrays[recording])
        frame = damage.of(arrays[recording], source, rng)
        filled = pd.DataFrame(on_grid(frame, n, source, n / source.rate)).ffill().bfill()
        gaps = np.isnan(on_grid(frame, n, source, source.longest_gap)[:, 0])
        rows = gaps[: n // source.step * source.step].reshape(-1, source.step)
        unknown[recording] = rows.mean(axis=1) > 0.5
        arrays[recording] = np.rint(filled.to_numpy()).astype(np.int16)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        table = pd.read_csv(original / "segments.csv", dtype=str)
        table[table["sequence"].isin(recordings)].to_csv(root / "segments.csv", index=False)
        kept = {key: arrays[key] for key in [*recordings, *({"channels"} & set(arrays))]}
        np.savez(root / "sequences_int16.npz", **kept)
        shutil.copy(original / "README.md", root)
        data = load_dataset(name, root, **source.options)
    return data, [unknown[recording] for recording in data.names]


def fitted(kind: str, way: str, source: Source, tiny: bool, train: LabeledSequences) -> Any:
    """Fit the learner of a column of the table, and tune its penalty on the data of the fit."""
    parameters: dict[str, Any] = {
        "regularizer": ml.SquaredFrobenius(source.strength),
        "solver": ml.BundleDual(tolerance=5e-3, max_rounds=5 if tiny else 60),
        "view": LeaveOut() if way == _LEFT_OUT else None,
        "verbose": False,
    }
    learner: Any = ml.ChangePointMetricLearner(metric=ml.FullMetric(), **parameters)
    if kind == "named":  # neighbors would read across gaps
        learner = ml.NamedSegmentLearner(emissions=Neighbors(context=0), **parameters)
    pair = train.sequences, train.labels
    return learner.fit(*pair).tune_penalty(*pair)


def losses_of(name: str, damage: Damage, seed: int, tiny: bool) -> tuple[float, dict[str, float]]:
    """Return the fraction of the rows of features that are left out, and for every kind and way the
    mean ‖M − N‖² on test recordings, also for the way that is chosen."""
    source = SOURCES[name]
    data, unknown = damaged(name, damage, seed, 8 if tiny else None)
    left_out = float(np.concatenate(unknown).mean())
    gapped = [np.where(gap[:, None], np.nan, x) for gap, x in zip(unknown, data.sequences)]
    ways = {_FILLED: data}
    if left_out:  # otherwise the two ways are the same
        ways = {_LEFT_OUT: replace(data, sequences=gapped), _FILLED: data}
    means: dict[str, float] = {}
    for kind in _KINDS:
        scores = {}
        for way, whole in ways.items():
            train, test = whole.split_by_group(n_test=1 if tiny else source.n_test, random_state=0)
            make = partial(fitted, kind, way, source, tiny)
            means[f"{kind}, {way}"] = float(sequence_losses(make(train), test).mean())
            halves = group_folds(train, 2) if left_out else ()
            scores[way] = sum(
                make(train.select(a)).score(train.select(b).sequences, train.select(b).labels)
                for a, b in halves
            )
        means.setdefault(f"{kind}, {_LEFT_OUT}", means[f"{kind}, {_FILLED}"])
        means[f"{kind}, chosen"] = means[f"{kind}, {max(scores, key=scores.__getitem__)}"]
    return left_out, {method: means[method] for method in sorted(means)}


@BENCH.table("Loss with gaps", SOURCES)
def measured(name: str, run: Run) -> Iterator[Row]:
    """Yield one row for every kind of damage. A row has mean losses over draws, and their excess
    over the losses on complete recordings, in %.

    Mean ‖M − N‖² on all rows of complete test recordings.
    """
    complete: dict[str, float] = {}
    for title, damage in list(DAMAGES.items())[: 4 if run.tiny else None]:
        # With 20 % lost, one draw is enough, because every draw loses many rows. More draws would
        # take long.
        often = (damage.lost or damage.jitter) and damage.lost < 0.1 and not run.tiny
        n_draws = _DRAWS if often else 1
        results = [losses_of(name, damage, seed, run.tiny) for seed in range(n_draws)]
        means = {m: float(np.mean([one[m] for _, one in results])) for m in results[0][1]}
        complete = complete or means
        row: Row = {"data": name, "recordings": title, "draws": n_draws}
        row["rows left out, in %"] = round(100 * float(np.mean([gone for gone, _ in results])), 1)
        for method in means:
            row[method] = means[method]
            row[f"more in %, {method}"] = round(100 * (means[method] / complete[method] - 1), 1)
        yield row


if __name__ == "__main__":
    BENCH.main()
