"""Gesture Phase Segmentation: people telling a story in front of a depth camera."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.datasets.archives import lay_out
from metriclearn.datasets.registry import PathLike, read
from metriclearn.datasets.sequences import LabeledSequences, covering_labels, of_parts
from metriclearn.problem.partition import Partition

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
# beginnings of words, the first one that fits; an r alone is retraction
PHASES = (
    *(("rest", "rest"), ("d", "rest"), ("rep", "rest"), ("p", "preparation")),
    *(("s", "stroke"), ("h", "hold"), ("r", "retraction")),
)
GROUPS = ("user", "story", "video")
COLUMN_NAMES = {"raw": RAW_NAMES, "va3": VA3_NAMES, "derived": DERIVED_NAMES}


def load_gesture_phase(
    root: PathLike | None = None,
    features: str = "va3",
    derived: bool = False,
    group: str = "user",
) -> LabeledSequences:
    """Videos of gestures, every frame labelled rest, preparation, stroke, hold or retraction.

    Data: Madeo, Lima & Peres, Gesture unit segmentation using support vector machines, ACM SAC
    2013 (UCI 302). Files: ``sequences.npz`` and ``segments.csv``, which are made from the
    publisher's archive where that lies in the folder. Cost O(frames).

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.
    features : {"va3", "raw", "both"}
        ``"va3"``: 32 velocities and accelerations of hands and wrists (normalized, as published);
        ``"raw"``: 18 positions of hands, wrists, head and spine (about metres); ``"both"``: the
        50 together, from frame 4 on, where ``va3`` starts, with its labels.
    derived : bool
        Add 28 features of the positions: hands and wrists relative to the spine and to the head
        (``left_hand_from_spine_x``, about metres) and the length of their step since the frame
        before (``left_hand_step``, about metres per frame, 0 in the first frame).
    group : {"user", "story", "video"}
        What the groups are: the letter of the video's name, its number, or all of it.

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
    if features not in FEATURE_SETS or group not in GROUPS:
        raise ValueError(
            f"load_gesture_phase needs features among {sorted(FEATURE_SETS)} and group among "
            f"{sorted(GROUPS)}, got {features!r} and {group!r}."
        )
    lay_out("gesture_phase", root, FILES, "*_raw.csv", _convert)
    arrays = read("gesture_phase", "sequences.npz", root)
    columns = {"sequence": str, "features": str, "start": int, "end": int, "label": str}
    segments = read("gesture_phase", "segments.csv", root, columns)
    parts = FEATURE_SETS[features] + (("derived",) if derived else ())
    frames = "raw" if features == "raw" else "va3"
    sequences = {}
    for video in sorted({key.rpartition("_")[0] for key in arrays}):
        features_of = _columns(video, arrays, FIRST_FRAME if frames == "va3" else 0)
        sequences[video] = np.hstack([features_of[part] for part in parts])
    lengths = {video: len(X) for video, X in sequences.items()}
    labels = covering_labels(segments[segments["features"] == frames], lengths)
    return of_parts(
        "gesture_phase",
        {video: (X, labels[video]) for video, X in sequences.items()},
        [name for part in parts for name in COLUMN_NAMES[part]],
        [_group(video, group) for video in sequences],
    )


def _convert(source: Path, folder: Path) -> None:
    """The two files from the publisher's archive: VIDEO_raw.csv and VIDEO_va3.csv of every video.

    Both have a row per frame and the phase in their last column, in words or initials (D, rest,
    is Portuguese descanso); the former its time stamp in the column before.
    """
    import pandas as pd

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
    """The phase that a word, English or Portuguese, or an initial means."""
    for beginning, phase in PHASES:
        if word.strip().lower().startswith(beginning):
            return phase
    raise ValueError(f"phase {word!r} is none of {sorted({phase for _, phase in PHASES})}")


def _group(video: str, group: str) -> str:
    """The letters (user) or the number (story) of a video's name such as ``a1``, or all of it."""
    parts = re.fullmatch(r"(?P<user>\D+)(?P<story>\d+)", video)
    if group == "video":
        return video
    if parts is None:
        raise ValueError(
            f"Gesture video {video!r} needs a name of letters and a number, as in 'a1', to tell "
            "user and story; pass group='video'."
        )
    return parts[group]


def _columns(
    video: str, arrays: dict[str, NDArray], first_frame: int
) -> dict[str, NDArray[np.float64]]:
    """Raw, derived and va3 features of a video, the first two from ``first_frame`` on."""
    raw, va3 = (np.asarray(arrays.get(f"{video}_{key}", np.empty(0))) for key in ("raw", "va3"))
    if raw.shape != (len(va3) + FIRST_FRAME, 18) or va3.shape[1:] != (32,):
        raise ValueError(
            f"Gesture video {video!r} needs arrays {video}_raw (T, 18) and {video}_va3 (T - "
            f"{FIRST_FRAME}, 32), got shapes {raw.shape} and {va3.shape}; get the files again."
        )
    raw = raw.astype(np.float64)
    return {"raw": raw[first_frame:], "derived": _derived(raw)[first_frame:], "va3": va3}


def _derived(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Relative positions and steps in the order of DERIVED_NAMES, (T, 18) -> (T, 28)."""
    place = {joint: raw[:, 3 * i : 3 * i + 3] for i, joint in enumerate(JOINTS)}
    relative = [place[joint] - place[origin] for joint in MOVING for origin in ("spine", "head")]
    steps = [
        np.linalg.norm(np.diff(place[joint], axis=0, prepend=place[joint][:1]), axis=1)
        for joint in MOVING
    ]
    return np.column_stack([*relative, *steps])
