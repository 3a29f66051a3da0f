"""Table 1 of the paper: methods × streams × test recordings, the loss ‖M − N‖² of each.

Every stream (sound, pictures, both …) is a comparison of its own, see
:mod:`experiments.comparison`: hyper-parameters have the least loss on validation recordings, the
test recordings are looked at once. The row "metric learning" is that of our methods which is best
on the validation recordings of the stream and split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import OmegaConf

from experiments.comparison import (
    Comparison,
    best_outcome,
    case_of,
    group_cases,
    group_folds,
    joined,
    strip,
)
from experiments.procedure import Case, Outcome, Story, pooled_rows, summary_rows
from experiments.report import Artifacts, markdown_table
from metriclearn import save
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
        streams: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            streams.setdefault(outcome.case.facts["stream"], []).append(outcome)
        best = {stream: _best_of_each_case(own) for stream, own in streams.items()}
        chosen = [
            replace(outcome, method=replace(outcome.method, name=LEARNING))
            for own in best.values()
            for outcome in own
        ]
        table = _table([*chosen, *outcomes])
        rows = pooled_rows([*chosen, *outcomes])
        text = _markdown(table, streams, best)
        print(text)
        main = Story(summary_rows(rows) + rows, Artifacts(markdown=text), {"table": table})
        return [main, *(self._story(name, own, folder) for name, own in streams.items())]

    def _story(self, stream: str, outcomes: list[Outcome], folder: Path) -> Story:
        """The comparison of one stream as a report of its own."""
        outcomes = [replace(o, case=replace(o.case, label="")) for o in outcomes]
        first = [outcome for outcome in outcomes if outcome.case.name == outcomes[0].case.name]
        best, rival = best_outcome(first), best_outcome(first, ours=False)
        (folder / stream).mkdir(parents=True, exist_ok=True)
        save(best.models["estimated"], folder / stream / "model.npz")
        artifacts = Artifacts(
            strips=[strip((best, rival), i) for i in range(min(3, len(best.case.test)))],
            choices={
                outcome.name: f"{outcome.choices['estimated']}, validation loss "
                f"{outcome.held_out():.3g}"
                for outcome in outcomes
            },
            model_file="model.npz",
            notes=[
                "Choices and pictures are of the last and of the first split, if there are several."
            ],
        )
        return Story(pooled_rows(outcomes, held_out=True), artifacts, folder=stream)


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
    parts = {
        name: load_recordings(Path(root) / name, extractor)
        for name in ("train", "validation", "test")
        if name != "validation" or (Path(root) / name).is_dir()
    }
    if standardize:
        parts = {name: _standardized(part) for name, part in parts.items()}
    train, test = parts["train"], parts["test"]
    if "validation" not in parts:
        return [case_of("test", train, test, group_folds(train, n_folds))]
    both, n = joined(train, parts["validation"]), len(train)
    halves = np.arange(n), np.arange(n, len(both))
    return [case_of("test", both, test, [halves, halves[::-1]])]


def held_out_cases(
    data: LabeledSequences, n_folds: int, seed: int, rotate: bool = True, standardize: bool = False
) -> list[Case]:
    """Every group of recordings held out once (or only one of them)."""
    return group_cases(_standardized(data) if standardize else data, 1, rotate, n_folds, seed)


def _standardized(data: LabeledSequences) -> LabeledSequences:
    return replace(data, sequences=StandardizedRecordings().transform(data.sequences))


def _best_of_each_case(outcomes: Sequence[Outcome]) -> list[Outcome]:
    names = dict.fromkeys(outcome.case.name for outcome in outcomes)
    return [best_outcome([o for o in outcomes if o.case.name == name]) for name in names]


def _table(outcomes: Sequence[Outcome]) -> Table:
    """Losses of every recording, number of segments estimated."""
    table: Table = {}
    for outcome in outcomes:
        cells = table.setdefault(outcome.name, {}).setdefault(outcome.case.facts["stream"], {})
        cells |= dict(zip(outcome.case.test.names, outcome.losses().tolist()))
    return table


def _markdown(table: Table, streams: ByStream, best: ByStream) -> str:
    """Table 1's layout: a row per method, a column per stream and test recording."""
    recordings = {stream: list(cells) for stream, cells in table[LEARNING].items()}
    means = {
        method: [float(np.mean(list(cells[stream].values()))) for stream in recordings]
        for method, cells in table.items()
    }
    order = sorted(table, key=lambda method: (method != LEARNING, np.mean(means[method])))
    head = ["method", *(f"{stream} mean" for stream in recordings)]
    head += [f"{stream} {name}" for stream, names in recordings.items() for name in names]
    rows = []
    for method in order:
        losses = [table[method][stream][name] for stream, own in recordings.items() for name in own]
        rows.append([method, *(f"{m:.2f}" for m in means[method]), *(f"{x:.1f}" for x in losses)])
    held_out = [
        [method, *(f"{_held_out(own, method).mean():.2f}" for own in streams.values())]
        for method in order
        if method != LEARNING
    ]
    counts = sorted({len(o.case.folds) for own in streams.values() for o in own})
    selected = [f"{stream}: {_selected([o.name for o in own])}" for stream, own in best.items()]
    lines = [
        *markdown_table(head, rows),
        "",
        "‖M − N‖²_F of every test recording, the number of segments estimated; smaller is better. "
        "Hyper-parameters have the least mean loss on recordings held out of training "
        f"({'/'.join(map(str, counts))} fold(s)), then every method is fitted on all that are not "
        f'for test. "{LEARNING}" is the best of ours on those: {"; ".join(selected)}.',
        "",
        "Mean loss on the recordings held out of training, with which the choices were made:",
        "",
        *markdown_table(["method", *streams], held_out),
    ]
    return "\n".join(lines)


def _held_out(outcomes: Sequence[Outcome], method: str) -> NDArray:
    return np.concatenate([o.choices["estimated"].losses for o in outcomes if o.name == method])


def _selected(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return ", ".join(f"{name} ({names.count(name)}×)" for name in dict.fromkeys(names))
