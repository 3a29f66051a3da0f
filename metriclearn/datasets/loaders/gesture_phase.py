"""Gesture Phase Segmentation: people telling a story in front of a depth camera."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.archives import lay_out
from metriclearn.datasets.registry import PathLike, data_folder, read
from metriclearn.datasets.sequences import LabeledSequences, covering_labels, of_parts
from metriclearn.problem.partition import Partition
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional
from metriclearn.running.parameters import OneOf, needs

FILES = ("sequences.npz", "segments.csv")
FIRST_FRAME = 4  # row t of va3 is frame t + 4 of raw
JOINTS = ("left_hand", "right_hand", "head", "spine", "left_wrist", "right_wrist")
MOVING = ("left_hand", "right_hand", "left_wrist", "right_wrist")
RAW_NAMES = [f"{joint}_{axis}" for joint in JOINTS for axis in "xyz"]
VA3_NAMES = [
    f"{joint}_{quantity}_{axis}"
    for quantity in ("velocity", "acceleration")
    for joint in MOVING
    for axis in "xyz"
] + [f"{joint}_{quantity}" for quantity in ("speed", "acceleration") for joint in MOVING]
DERIVED_NAMES = [
    f"{joint}_from_{origin}_{axis}"
    for joint in MOVING
    for origin in ("spine", "head")
    for axis in "xyz"
] + [f"{joint}_step" for joint in MOVING]
FEATURE_SETS = {"va3": ("va3",), "raw": ("raw",), "both": ("raw", "va3")}
# the first word, English or Portuguese, that fits; an initial r means retraction
PHASES = {r"d|rest|rep": "rest", "p": "preparation", "s": "stroke", "h": "hold", "r": "retraction"}
COLUMN_NAMES = {"raw": RAW_NAMES, "va3": VA3_NAMES, "derived": DERIVED_NAMES}


@needs
def load_gesture_phase(
    root: PathLike | None = None,
    features: Annotated[str, OneOf(*FEATURE_SETS)] = "va3",
    derived: bool = False,
    group: Annotated[str, OneOf("user", "story", "video")] = "user",
) -> LabeledSequences:
    """Videos of gestures. Frames are labelled rest, preparation, stroke, hold or retraction.

    Data: Madeo, Lima & Peres, Gesture unit segmentation using support vector machines, ACM SAC
    2013 (UCI 302). Files: ``sequences.npz`` and ``segments.csv``, which are made from the
    publisher's archive if they are missing. Cost O(frames).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.
    features : {"va3", "raw", "both"}
        ``"va3"`` gives 32 velocities and accelerations of hands and wrists (normalized, as
        published). ``"raw"`` gives 18 positions of hands, wrists, head and spine (approximately in
        metres). ``"both"`` gives all 50 features. With ``"va3"`` or ``"both"``, sequences start at
        frame 4 and have the labels that were published with the velocities.
    derived : bool
        Add 28 features that are computed from the positions. These features are the positions of
        hands and wrists relative to spine and head (such as ``left_hand_from_spine_x``,
        approximately in metres), and how far each hand and wrist moved since the last frame (such
        as ``left_hand_step``, 0 in the first frame).
    group : {"user", "story", "video"}
        Which videos form a group: those of one user, those of one story, or each video alone. The
        group of video ``a1`` is then ``a``, ``1`` or ``a1``.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If an option is unknown, or the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_gesture_phase
    >>> data = load_gesture_phase()  # doctest: +SKIP
    """
    lay_out("gesture_phase", root, FILES, "*_raw.csv", _convert)
    arrays = read("gesture_phase", "sequences.npz", root)
    kinds = {"sequence": str, "features": str, "start": int, "end": int, "label": str}
    segments = read("gesture_phase", "segments.csv", root, kinds)
    parts = FEATURE_SETS[features] + (("derived",) if derived else ())
    first = 0 if features == "raw" else FIRST_FRAME
    sequences = {}
    needed = "arrays VIDEO_raw (T, 18) and VIDEO_va3 (T - 4, 32) for every video"
    with reading(data_folder("gesture_phase", root) / FILES[0], needed):
        for video in sorted({key.rpartition("_")[0] for key in arrays}):
            raw, va3 = arrays[f"{video}_raw"].astype(np.float64), arrays[f"{video}_va3"]
            columns = {"raw": raw[first:], "derived": _derived(raw)[first:], "va3": va3}
            sequences[video] = np.hstack([columns[part] for part in parts])
    labels = covering_labels(
        segments[segments["features"] == ("raw" if features == "raw" else "va3")],
        {video: len(X) for video, X in sequences.items()},
    )
    letters = {video: video.rstrip("0123456789") for video in sequences}
    groups = {
        "user": list(letters.values()),
        "story": [video.removeprefix(user) for video, user in letters.items()],
        "video": list(sequences),
    }
    return of_parts(
        "gesture_phase",
        {video: (X, labels[video]) for video, X in sequences.items()},
        [name for part in parts for name in COLUMN_NAMES[part]],
        groups[group],
    )


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
            phases = [_phase(str(word)) for word in table.iloc[:, -1]]
            ends = Partition.from_runs(phases).change_points.tolist()
            for start, end in pairwise([0, *ends]):
                rows.append((video, kind, start, end, phases[start]))
    columns = ["sequence", "features", "start", "end", "label"]
    np.savez_compressed(folder / FILES[0], **arrays)
    pd.DataFrame(rows, columns=columns).to_csv(folder / FILES[1], index=False)


def _phase(word: str) -> str:
    """Find the label of a phase from its English or Portuguese word, or from the word's initial."""
    return next(phase for start, phase in PHASES.items() if re.match(start, word.strip().lower()))


def _derived(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the features DERIVED_NAMES, (T, 28), from the positions RAW_NAMES, (T, 18)."""
    place = {joint: raw[:, 3 * i : 3 * i + 3] for i, joint in enumerate(JOINTS)}
    relative = [place[joint] - place[origin] for joint in MOVING for origin in ("spine", "head")]
    steps = [
        np.linalg.norm(np.diff(place[joint], axis=0, prepend=place[joint][:1]), axis=1)
        for joint in MOVING
    ]
    return np.column_stack([*relative, *steps])
