"""Table 1 of the paper: methods × streams × test recordings, the loss ‖M − N‖² of each.

Every stream (sound, pictures, both …) is a comparison of its own, see
:mod:`experiments.comparison`: hyper-parameters have the least loss on validation recordings, the
test recordings are looked at once. The row "metric learning" is that of our methods which is best
on the validation recordings of the stream and split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
from hydra.utils import instantiate
from omegaconf import OmegaConf

from experiments.comparison import (
    Comparison,
    best_outcome,
    case_of,
    group_cases,
    group_folds,
    joined,
)
from experiments.procedure import Case, Outcome, Story, grouped, pooled_rows, summary_rows
from experiments.report import Artifacts, page
from experiments.scenes import FOLDERS
from metriclearn.datasets import LabeledSequences, load_recordings
from metriclearn.datasets.recordings import Extractor
from metriclearn.features.per_recording import StandardizedRecordings

LEARNING = "metric learning"
ByStream = Mapping[str, Sequence[Outcome]]
Table = dict[str, dict[str, dict[str, float]]]  # method -> stream -> recording -> loss


class Streams(Comparison):
    """The procedure of several streams; a stream that is null in the configuration is left out.

    Beside the table of all, every stream has a folder with a report of its own and the model
    chosen for it.
    """

    draws_metrics = False  # a dozen pictures for each of several streams take longer than the fits

    def cases(self) -> list[Case]:
        cases = []
        for stream, description in self.config.streams.items():
            if description is None:
                continue
            plain = OmegaConf.to_container(description, resolve=True)
            for case in instantiate(plain, _convert_="all"):  # lists that are not Hydra's
                name, label = f"{stream}: {case.name}", f"/{stream}"
                cases.append(replace(case, name=name, label=label, facts={"stream": stream}))
        return cases

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        streams = grouped(outcomes, lambda outcome: outcome.case.facts["stream"])
        best: dict[str, list[Outcome]] = {}
        for stream, of_stream in streams.items():
            by_case = grouped(of_stream, lambda outcome: outcome.case.name)
            best[stream] = [best_outcome(mine) for mine in by_case.values()]
        chosen = [
            replace(outcome, method=replace(outcome.method, name=LEARNING))
            for outcome in chain(*best.values())
        ]
        table = _table([*chosen, *outcomes])
        rows = pooled_rows([*chosen, *outcomes])
        text = _page(table, streams, best)
        print(text)
        main = Story(summary_rows(rows) + rows, Artifacts(markdown=text), {"table": table})
        parts = []
        for stream, of_stream in streams.items():
            unlabeled = [replace(o, case=replace(o.case, label="")) for o in of_stream]
            (part,) = super().stories(unlabeled, folder / stream)
            parts.append(replace(part, folder=stream))
        return [main, *parts]


def folder_cases(
    root: str | Path | None, extractor: Extractor, n_folds: int, standardize: bool = False
) -> list[Case]:
    """One case from folders train, validation and test, or, without validation, with folds.

    Training and validation recordings are held out for each other, both ways, to choose.

    Raises
    ------
    ValueError
        If no folder is given.
    """
    if root is None:
        raise ValueError(
            "The experiment needs a folder with the folders train, validation (may be missing) and "
            "test, each with recordings and segments.csv; add root=FOLDER."
        )
    names = [n for n in FOLDERS if n != "validation" or (Path(root) / n).is_dir()]
    parts = [load_recordings(Path(root) / name, extractor) for name in names]
    train, *validation, test = [_standardized(part) for part in parts] if standardize else parts
    if not validation:
        return [case_of("test", train, test, group_folds(train, n_folds))]
    both, n = joined(train, *validation), len(train)
    halves = np.arange(n), np.arange(n, len(both))
    return [case_of("test", both, test, [halves, halves[::-1]])]


def held_out_cases(
    data: LabeledSequences, n_folds: int, seed: int, rotate: bool = True, standardize: bool = False
) -> list[Case]:
    """Every group of recordings held out once (or only one of them)."""
    return group_cases(_standardized(data) if standardize else data, 1, rotate, n_folds, seed)


def _standardized(data: LabeledSequences) -> LabeledSequences:
    return replace(data, sequences=StandardizedRecordings().transform(data.sequences))


def _table(outcomes: Sequence[Outcome]) -> Table:
    """Losses of every recording, number of segments estimated."""
    table: Table = {}
    for outcome in outcomes:
        cells = table.setdefault(outcome.name, {}).setdefault(outcome.case.facts["stream"], {})
        cells |= dict(zip(outcome.case.test.names, outcome.losses().tolist()))
    return table


def _page(table: Table, streams: ByStream, best: ByStream) -> str:
    """Table 1's layout: a row per method, a column per stream and test recording."""

    def mean(method: str) -> float:
        return float(np.mean([np.mean([*losses.values()]) for losses in table[method].values()]))

    outcomes = list(chain(*streams.values()))
    groups = grouped(outcomes, lambda outcome: (outcome.case.facts["stream"], outcome.name))
    held_out = {}  # mean loss by stream and method
    for place, mine in groups.items():
        losses = [outcome.choices["estimated"].losses for outcome in mine]
        held_out[place] = np.concatenate(losses).mean()
    chosen = {stream: Counter(outcome.name for outcome in some) for stream, some in best.items()}
    return page(
        "streams.md.j2",
        table=table,
        learning=LEARNING,
        order=sorted(table, key=lambda method: (method != LEARNING, mean(method))),
        streams=list(streams),
        n_folds=sorted({len(outcome.case.folds) for outcome in outcomes}),
        chosen=chosen,
        held_out=held_out,
    )
