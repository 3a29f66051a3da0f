"""Gesture Phase Segmentation: people telling a story in front of a depth camera."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.registry import PathLike, data_folder, lay_out, read
from metriclearn.datasets.segment_labels import covering_labels
from metriclearn.datasets.sequences import LabeledSequences, of_parts
from metriclearn.problem.partition import Partition
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional
from metriclearn.running.parameters import needs

_FILES = ("sequences.npz", "segments.csv")
_FIRST_FRAME = 4  # row t of va3 is frame t + 4 of raw
_JOINTS = ("left_hand", "right_hand", "head", "spine", "left_wrist", "right_wrist")
_MOVING = ("left_hand", "right_hand", "left_wrist", "right_wrist")
_MOTIONS = ("velocity", "acceleration")
_NAMES = {
    "raw": [f"{joint}_{axis}" for joint in _JOINTS for axis in "xyz"],
    "derived": [
        f"{a}_from_{b}_{axis}" for a in _MOVING for b in ("spine", "head") for axis in "xyz"
    ]
    + [f"{joint}_step" for joint in _MOVING],
    "va3": [f"{joint}_{kind}_{axis}" for kind in _MOTIONS for joint in _MOVING for axis in "xyz"]
    + [f"{joint}_{kind}" for kind in ("speed", "acceleration") for joint in _MOVING],
}
# the first word, English or Portuguese, that fits; an initial r means retraction
_PHASES = {"d|rest|rep": "rest", "p": "preparation", "s": "stroke", "h": "hold", "r": "retraction"}


@needs
def gesture_phase(
    name: str,
    root: PathLike | None,
    *,
    features: Literal["va3", "raw", "both"] = "va3",
    derived: bool = False,
    group: Literal["user", "story", "video"] = "user",
) -> LabeledSequences:
    """Read videos of gestures; see load_dataset."""
    lay_out(name, root, _FILES, "*_raw.csv", _convert)
    arrays = read(name, _FILES[0], root)
    kinds = {"sequence": str, "features": str, "start": int, "end": int, "label": str}
    segments = read(name, _FILES[1], root, kinds)
    parts = [part for part in ("raw", "va3") if features in (part, "both")]
    parts += ["derived"] if derived else []
    labeled, first = ("raw", 0) if features == "raw" else ("va3", _FIRST_FRAME)
    sequences = {}
    needed = "arrays VIDEO_raw (T, 18) and VIDEO_va3 (T - 4, 32) for every video"
    with reading(data_folder(name, root) / _FILES[0], needed):
        for video in sorted({key.rpartition("_")[0] for key in arrays}):
            raw, va3 = arrays[f"{video}_raw"].astype(np.float64), arrays[f"{video}_va3"]
            columns = {"raw": raw[first:], "derived": _derived(raw)[first:], "va3": va3}
            sequences[video] = np.hstack([columns[part] for part in parts])
    segments = segments[segments["features"] == labeled]
    labels = covering_labels(segments, {video: len(X) for video, X in sequences.items()})
    name_of = {"user": r"\D*", "story": r"\d*$", "video": ".*"}[group]
    groups = [re.findall(name_of, video)[0] or video for video in sequences]
    names = [column for part in parts for column in _NAMES[part]]
    return of_parts(name, {v: (X, labels[v]) for v, X in sequences.items()}, names, groups)


def _derived(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute places relative to spine and head, and steps between frames, (T, 28)."""
    place = {joint: raw[:, 3 * i : 3 * i + 3] for i, joint in enumerate(_JOINTS)}
    columns = [place[joint] - place[origin] for joint in _MOVING for origin in ("spine", "head")]
    moved = [np.diff(place[joint], axis=0, prepend=place[joint][:1]) for joint in _MOVING]
    return np.column_stack([*columns, *(np.linalg.norm(steps, axis=1) for steps in moved)])


def _convert(source: Path, folder: Path) -> None:
    """Make the two files from VIDEO_raw.csv and VIDEO_va3.csv in the publisher's archive.

    Both CSV files have a row per frame. The last column is the phase, as a word or its initial (D,
    for Portuguese descanso, is rest). VIDEO_raw.csv also has a time stamp.
    """
    pd = optional("pandas", "tables")
    arrays: dict[str, Any] = {}
    rows = []
    for file in sorted(source.glob("*_raw.csv")):
        video = file.stem.removesuffix("_raw")
        raw, va3 = (pd.read_csv(source / f"{video}_{kind}.csv") for kind in ("raw", "va3"))
        arrays[f"{video}_raw"] = raw.iloc[:, :18].to_numpy(dtype=np.float32)
        arrays[f"{video}_time"] = raw["timestamp"].to_numpy(dtype=np.int64)
        arrays[f"{video}_va3"] = va3.iloc[:, :32].to_numpy(dtype=np.float32)
        for kind, table in (("raw", raw), ("va3", va3)):
            words = [str(word).strip().lower() for word in table.iloc[:, -1]]
            phases = [next(p for start, p in _PHASES.items() if re.match(start, w)) for w in words]
            ends = Partition.from_runs(phases).change_points.tolist()
            rows += [(video, kind, a, b, phases[a]) for a, b in pairwise([0, *ends])]
    columns = ["sequence", "features", "start", "end", "label"]
    np.savez_compressed(folder / _FILES[0], **arrays)
    pd.DataFrame(rows, columns=columns).to_csv(folder / _FILES[1], index=False)
