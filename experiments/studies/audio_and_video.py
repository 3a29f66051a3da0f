"""Table 1 of the paper: the loss ‖M − N‖² of methods × streams × test recordings.

Every stream (sound, pictures, both …) has its own comparison and its own table, see
:mod:`experiments.harness.comparison`. Hyper-parameters are chosen by the least loss on validation
recordings. The test recordings are used once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from omegaconf import OmegaConf

from experiments.data.drawn_scenes import FOLDERS
from experiments.harness.cases import case_of, group_cases, group_folds, joined, refuse_seen
from experiments.harness.comparison import Comparison
from experiments.harness.procedure import Case, Outcome, Scores, Story
from experiments.harness.report import Artifacts, Strip
from experiments.harness.results import Row, grouped, titled
from experiments.harness.scoring import Pairs
from metriclearn.datasets import LabeledSequences, load_recordings
from metriclearn.datasets.feature_cache import Extractor
from metriclearn.indices import compare
from metriclearn.views import OwnScale

_OF_FIELDS = (
    *(f"segmental_f1@{share}" for share in (10, 25, 50)),
    *("edit_score", "diarization_error_rate", "segmentation_purity", "segmentation_coverage"),
    *("hit_f@0.5", "hit_f@3", "pairwise_f", "nce_f"),
)


class AudioAndVideo(Comparison):
    """The experiment on several streams. A stream that is null in the configuration is skipped.

    Every stream has a folder with the models that were trained on it. ``fields`` of the
    configuration can give, for a stream, its rate and a field of research such as "music". The
    report then has further tables of this stream, with the measures that are usual in this field.
    These measures take every segment as a separate state.
    """

    measures = titled(*Comparison.measures, *_OF_FIELDS)

    def cases(self) -> list[Case]:
        cases = []
        for stream, description in self._streams().items():
            plain = OmegaConf.to_container(description, resolve=True)
            for case in instantiate(plain, _convert_="all"):  # lists that are not Hydra's
                cases.append(replace(case, name=f"{stream}: {case.name}", table=stream))
        return cases

    def table(self, name: str) -> Row:
        """Return the fields of a table, with the note of the configuration, and whether test
        recordings are independent."""
        fields = {"independent": self.config.get("independent", True)}
        return super().table(name) | fields | {"note": self.config.get("note", "")}

    def _streams(self) -> dict[str, Any]:
        """List the streams to compare. In a user's data set, these are the streams that have a
        folder.

        Raises
        ------
        ValueError
            If a folder holds recordings of one stream, and the experiment has several.
        """
        streams = {name: some for name, some in self.config.streams.items() if some is not None}
        for key in ("root", "test_root"):
            root = (self.config.get("dataset") or {}).get(key)
            if root is None:
                continue
            folders = {
                name: some.get("unseen", {}).get("stream", name) for name, some in streams.items()
            }
            named = {name for name, folder in folders.items() if (Path(root) / folder).is_dir()}
            if not named and len(streams) > 1:
                raise ValueError(
                    f"dataset.{key}={root} needs folders named {' and '.join(folders.values())}, "
                    "for a recording belongs to one stream; make a folder of such a name in it, or "
                    f"leave out the other streams, as with streams.{list(streams)[-1]}=null."
                )
            streams = {name: some for name, some in streams.items() if name in named or not named}
        return streams

    def measured(self, model: Any, pairs: Pairs, seconds: float, column: str, case: Case) -> Scores:
        scores = super().measured(model, pairs, seconds, column, case)
        field = (self.config.get("fields") or {}).get(case.table)
        if field is not None:
            measured = [compare(truth, found, **field) for found, truth in pairs]
            names = [name for name in measured[0] if name in _OF_FIELDS]
            scores |= {name: np.array([values[name] for values in measured]) for name in names}
        return scores

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Make one report of all streams. Figures and learned metrics are named after streams."""
        streams = grouped(outcomes, lambda outcome: outcome.case.table)
        strips: list[Strip] = []
        by_method: dict[str, Any] = {"weights": {}, "traces": {}, "feature_names": {}}
        notes = []
        protocols: dict[str, list[str]] = {}  # streams by their processing
        for name, mine in streams.items():
            part = super().story(mine, folder / name)
            told = part.artifacts
            strips += [replace(strip, name=f"{name}: {strip.name}") for strip in told.strips]
            for field, values in by_method.items():
                for method, value in getattr(told, field).items():
                    values[f"{method}, {name}"] = value
            notes += [f"{name}: {note}" for note in told.notes]
            protocols.setdefault(part.protocol, []).append(name)
        texts = [f"{', '.join(names)}: {text}" for text, names in protocols.items()]
        artifacts = Artifacts(strips=strips, notes=notes, **by_method)
        return Story(" ".join(texts), artifacts, self.numbers(outcomes), self.default(outcomes))


def folder_cases(
    root: str | Path | Sequence[str | Path] | None,
    extractor: Extractor,
    n_folds: int,
    standardize: bool = False,
) -> list[Case]:
    """Read one case from the folders train, validation and test.

    Without a folder validation, the case has folds of the training recordings. With this folder,
    the case has two folds. In one fold, models are fitted to the training recordings and scored on
    the validation recordings. In the other fold, the two parts swap roles. If ``root`` is a list of
    such folders, each of them gives a case, and test recordings of different folders are separate
    units.

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
    if not isinstance(root, (str, Path)):
        cases = []
        for i, one in enumerate(root, 1):
            (case,) = folder_cases(one, extractor, n_folds, standardize)
            names = [f"draw {i}, {name}" for name in case.test.names]
            test = replace(case.test, names=names, groups=names)
            cases.append(replace(case, name=f"draw {i}", test=test))
        return cases
    names = [n for n in FOLDERS if n != "validation" or (Path(root) / n).is_dir()]
    parts = [load_recordings(Path(root) / name, extractor) for name in names]
    train, *validation, test = [_standardized(part) for part in parts] if standardize else parts
    if not validation:
        return [case_of("test", train, test, group_folds(train, n_folds))]
    both, n = joined(train, *validation), len(train)
    halves = np.arange(n), np.arange(n, len(both))
    return [case_of("test", both, test, [halves, halves[::-1]])]


def held_out_cases(
    data: LabeledSequences,
    n_folds: int,
    seed: int,
    rotate: bool = True,
    standardize: bool = False,
    unseen: LabeledSequences | None = None,
) -> list[Case]:
    """Make cases that hold out one group of recordings each. With ``rotate`` every group is held
    out in turn, otherwise only one. If ``unseen`` is given, there is one case, which tests on these
    recordings."""
    given = [part for part in (data, unseen) if part is not None]
    refuse_seen(*given)
    train, *test = [_standardized(part) if standardize else part for part in given]
    if test:
        return [case_of("unseen recordings", train, test[0], group_folds(train, n_folds))]
    return group_cases(train, 1, rotate, n_folds, seed)


def stream_folder(root: str | Path | None, stream: str) -> Path | None:
    """Return the folder of a stream in ``root``, or ``root`` itself if there is no such folder.
    Returns None if ``root`` is None."""
    if root is None:
        return None
    folder = Path(root) / stream
    return folder if folder.is_dir() else Path(root)


def unseen(root: str | Path | None, stream: str, extractor: Extractor) -> LabeledSequences | None:
    """Read the recordings in the folder of a stream, with their segments.csv. Returns None if
    ``root`` is None."""
    folder = stream_folder(root, stream)
    return None if folder is None else load_recordings(folder, extractor)


def _standardized(data: LabeledSequences) -> LabeledSequences:
    return replace(data, sequences=OwnScale().fit_transform(data.sequences))
