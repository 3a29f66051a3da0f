"""Table 1 of the paper: methods × streams × test recordings, the loss ‖M − N‖² of each.

Every stream (sound, pictures, both …) is a comparison of its own, see :mod:`experiments.protocol`:
hyper-parameters have the least loss on validation recordings, the test recordings are looked at
once. The row "metric learning" is that of our methods which is best on the validation recordings
of the stream and split.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from experiments.comparison import read_methods, summarize
from experiments.protocol import COLUMNS, Outcome, Split, compare, group_folds, group_splits
from experiments.report import Artifacts, Strip, write_report
from metriclearn import save
from metriclearn.datasets import LabeledSequences
from metriclearn.datasets.recordings import Extractor, load_recordings
from metriclearn.features.per_recording import StandardizedRecordings
from metriclearn.problem.partition import Partition

__all__ = ["StreamRecord", "folder_splits", "held_out_splits", "record_of", "run", "table"]

LEARNING = "metric learning"
_logger = logging.getLogger(__name__)
Table = dict[str, dict[str, dict[str, float]]]  # method -> stream -> recording -> loss


@dataclass(frozen=True)
class StreamRecord:
    """What the table needs of one stream.

    Attributes
    ----------
    losses : dict of method to dict of test recording to loss
    validation : dict of method to mean loss held out
    selected : list of str
        Which of ours "metric learning" is, split by split.
    folds : list of int
        Numbers of folds.
    """

    losses: dict[str, dict[str, float]]
    validation: dict[str, float]
    selected: list[str]
    folds: list[int]


def folder_splits(
    root: str | Path | None, extractor: Extractor, n_folds: int, standardize: bool = False
) -> list[Split]:
    """One split from folders train, validation and test, or, without validation, with folds.

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
        return [Split("test", train, test, group_folds(train, n_folds))]
    joined = _joined(train, parts["validation"])
    n, total = len(train), len(joined)
    parts_of = np.arange(n), np.arange(n, total)
    return [Split("test", joined, test, [parts_of, parts_of[::-1]])]


def held_out_splits(
    data: LabeledSequences, n_folds: int, seed: int, rotate: bool = True, standardize: bool = False
) -> list[Split]:
    """Every group of recordings held out once (or only one of them)."""
    if standardize:
        data = _standardized(data)
    return group_splits(data, 1, rotate, n_folds, seed)


def _joined(a: LabeledSequences, b: LabeledSequences) -> LabeledSequences:
    return LabeledSequences(
        name=a.name,
        sequences=a.sequences + b.sequences,
        labels=a.labels + b.labels,
        groups=a.groups + b.groups,
        names=a.names + b.names,
        feature_names=a.feature_names,
    )


def _standardized(data: LabeledSequences) -> LabeledSequences:
    return replace(data, sequences=StandardizedRecordings().transform(data.sequences))


def run(config: DictConfig, folder: Path, command: str) -> Path:
    """Compare all methods on every stream of ``config.streams`` and write everything to ``folder``.

    Writes ``results.md`` (Table 1), ``results.json``, and a folder for every stream with
    ``report.html``, ``results.json``, ``model.npz``, pictures and ``record.json``; a stream whose
    record is there already, with the same settings, is not computed again. A stream that is null
    in the configuration is left out.

    Returns
    -------
    path of results.md
    """
    start = time.perf_counter()
    records: dict[str, StreamRecord] = {}
    for name, description in config.streams.items():
        if description is None:
            continue
        settings = _settings(config, description)
        kept = folder / str(name) / "record.json"
        record = _read_record(kept, settings)
        if record is None:
            record = _compare(str(name), description, config, folder / str(name), command)
            content = json.dumps({"settings": settings, **asdict(record)}, indent=2)
            kept.write_text(content + "\n", encoding="utf-8")
        records[str(name)] = record
    found = table(records)
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "experiment": config.name,
        "table": found,
        "seconds": time.perf_counter() - start,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    page = folder / "results.md"
    page.write_text(_markdown(config.name, found, records, command), encoding="utf-8")
    print(page.read_text(encoding="utf-8"))
    return page


def _compare(
    name: str, description: DictConfig, config: DictConfig, folder: Path, command: str
) -> StreamRecord:
    """One stream: all methods on all its splits, and the report of it."""
    start = time.perf_counter()
    methods = read_methods(config)
    plain = OmegaConf.to_container(description, resolve=True)
    splits = instantiate(plain, _convert_="all")  # lists that are not Hydra's
    first = splits[0]
    _logger.info(
        "%s: %d split(s), %d recordings for training, %d features",
        *(name, len(splits), len(first.train), len(first.train.feature_names)),
    )
    outcomes = compare(methods, splits, config.n_jobs)
    _write_stream(name, outcomes, config, folder, command, time.perf_counter() - start)
    return record_of(outcomes)


def record_of(outcomes: Sequence[Outcome]) -> StreamRecord:
    """What the table needs of the outcomes of one stream."""
    losses: dict[str, dict[str, float]] = {LEARNING: {}}
    splits = list({id(outcome.split): outcome.split for outcome in outcomes}.values())
    best = [_best([outcome for outcome in outcomes if outcome.split is split]) for split in splits]
    for outcome in best:
        losses[LEARNING] |= _by_recording(outcome)
    for outcome in outcomes:
        losses.setdefault(outcome.method, {}).update(_by_recording(outcome))
    validation: dict[str, float] = {}
    for method in dict.fromkeys(outcome.method for outcome in outcomes):
        mine = [o.choices["estimated"].losses for o in outcomes if o.method == method]
        validation[method] = float(np.mean(np.concatenate(mine)))
    folds = sorted({len(split.folds) for split in splits})
    return StreamRecord(losses, validation, [outcome.method for outcome in best], folds)


def _settings(config: DictConfig, description: DictConfig) -> str:
    """Hash of all that decides the record of a stream."""
    rest = {k: v for k, v in config.items() if k not in ("streams", "n_jobs")}
    plain = OmegaConf.to_container(OmegaConf.create(rest), resolve=True)
    chosen = [plain, OmegaConf.to_container(description, resolve=True)]
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()


def _read_record(path: Path, settings: str) -> StreamRecord | None:
    """The record of an earlier run with the same settings, if there is one."""
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    return StreamRecord(**content) if content.pop("settings") == settings else None


def table(records: Mapping[str, StreamRecord]) -> Table:
    """Losses of every method and of "metric learning", number of segments estimated."""
    found: Table = {LEARNING: {}}
    for stream, record in records.items():
        for method, losses in record.losses.items():
            found.setdefault(method, {})[stream] = losses
    return found


def _best(outcomes: Sequence[Outcome]) -> Outcome:
    """The one of ours with the least validation loss; of equals, with the number given too."""
    ours = [outcome for outcome in outcomes if outcome.method.startswith("ours/")]
    return min(ours, key=lambda o: tuple(o.choices[c].losses.mean() for c in COLUMNS))


def _by_recording(outcome: Outcome) -> dict[str, float]:
    return dict(zip(outcome.split.test.names, outcome.losses["estimated"].tolist()))


def _markdown(name: str, found: Table, records: Mapping[str, StreamRecord], command: str) -> str:
    """Table 1's layout: a row per method, a column per stream and test recording."""
    recordings = {stream: list(cells) for stream, cells in found[LEARNING].items()}
    head = [f"{stream} {recording}" for stream, names in recordings.items() for recording in names]
    short = [f"{stream} mean" for stream in recordings]
    lines = [f"# {name}", "", f"| method | {' | '.join(short + head)} |"]
    lines.append("|---|" + "---:|" * (len(head) + len(short)))
    order = sorted(found, key=lambda method: (method != LEARNING, _mean(found[method])))
    for method in order:
        losses = [found[method][s][r] for s, names in recordings.items() for r in names]
        means = [float(np.mean(list(found[method][s].values()))) for s in recordings]
        row = " | ".join(f"{loss:.1f}" for loss in losses)
        lines.append(f"| {method} | " + " | ".join(f"{m:.2f}" for m in means) + f" | {row} |")
    lines += [
        "",
        "‖M − N‖²_F of every test recording, the number of segments estimated; smaller is better. "
        "Hyper-parameters have the least mean loss on recordings held out of training "
        f"({_folds(records)}), then every method is fitted on all that are not for test. "
        f'"{LEARNING}" is the best of ours on those: {_selected(records)}.',
        "",
        "Mean loss on the recordings held out of training, with which the choices were made:",
        "",
        f"| method | {' | '.join(records)} |",
        "|---|" + "---:|" * len(records),
    ]
    for method in (m for m in order if m != LEARNING):
        cells = [f"{record.validation[method]:.2f}" for record in records.values()]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    lines += ["", "```sh", command, "```"]
    return "\n".join(lines) + "\n"


def _mean(cells: dict[str, dict[str, float]]) -> float:
    return float(np.mean([np.mean(list(losses.values())) for losses in cells.values()]))


def _folds(records: Mapping[str, StreamRecord]) -> str:
    counts = sorted({count for record in records.values() for count in record.folds})
    return f"{'/'.join(map(str, counts))} fold(s)"


def _selected(records: Mapping[str, StreamRecord]) -> str:
    words = []
    for stream, record in records.items():
        chosen = record.selected
        counts = {method: chosen.count(method) for method in dict.fromkeys(chosen)}
        times = [f"{m} ({n}×)" if len(chosen) > 1 else m for m, n in counts.items()]
        words.append(f"{stream}: {', '.join(times)}")
    return "; ".join(words)


def _write_stream(
    stream: str,
    outcomes: Sequence[Outcome],
    config: DictConfig,
    folder: Path,
    command: str,
    seconds: float,
) -> None:
    """The comparison of one stream as a report of its own, and the model chosen for it."""
    first = [outcome for outcome in outcomes if outcome.split is outcomes[0].split]
    best = _best(first)
    baselines = [outcome for outcome in first if not outcome.method.startswith("ours/")]
    rival = min(baselines, key=lambda o: o.choices["estimated"].losses.mean())
    results = {
        "experiment": f"{config.name}, {stream}",
        "rows": summarize(outcomes),
        "seconds": seconds,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    folder.mkdir(parents=True, exist_ok=True)
    save(best.models["estimated"], folder / "model.npz")
    artifacts = Artifacts(
        strips=[_strip(best, rival, i) for i in range(min(3, len(best.split.test)))],
        choices={outcome.method: _choice(outcome) for outcome in outcomes},
        model_file="model.npz",
        notes=[
            "Choices and pictures are of the last and of the first split, if there are several."
        ],
    )
    write_report(folder, results, artifacts, command)


def _strip(ours: Outcome, rival: Outcome, i: int) -> Strip:
    test = ours.split.test
    found = {
        outcome.method: outcome.models["estimated"].predict_change_points(test.sequences[i])
        for outcome in (ours, rival)
    }
    return Strip(
        test.names[i],
        {"truth": Partition.from_runs(test.labels[i]).change_points} | found,
        {outcome.method: float(outcome.losses["estimated"][i]) for outcome in (ours, rival)},
    )


def _choice(outcome: Outcome) -> str:
    choice = outcome.choices["estimated"]
    words = [f"{key.rpartition('__')[2]} = {value}" for key, value in choice.parameters.items()]
    return f"{', '.join(words) or 'nothing to choose'}, validation loss {choice.losses.mean():.3g}"
