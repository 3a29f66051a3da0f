"""Short television shows like the paper's, built from real recordings, reproducible by seed.

``experiment=shows`` draws the shows several times. Each draw is a folder in ``root.folder``, with
the folders ``train``, ``validation`` and ``test``. Each of these three folders has MP4 files and a
``segments.csv``. Within a draw each source recording is used in only one of the three folders.
Spoken passages (ami_turns, speech_segments) alternate with sung ones (jamendo_singing). Each
passage lasts 5 to 25 s. Passages are cross-faded, levels vary, and some speech has background
music. The pictures, drawn by :mod:`experiments.data.drawn_scenes`, show studios while people speak
and stages while they sing. There are cuts between passages and within them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.data import drawn_scenes
from experiments.data.drawn_scenes import FRAME_RATE, SAMPLING_RATE, Shot, Spans
from metriclearn.datasets.annotations import read_segments
from metriclearn.datasets.registry import data_folder
from metriclearn.features.media.decoding import audio_blocks

FADE = 0.6  # seconds of cross-fade
SHORTEST, LONGEST = 5.0, 25.0  # seconds of a passage


@dataclass(frozen=True)
class Part:
    """The source recordings for one folder of shows. Speech is listed as pairs (data set,
    recording), songs by their names."""

    speech: Sequence[tuple[str, str]]
    songs: Sequence[str]


# Songs by name; excerpts of meetings by their sets of speakers.
PARTS: Mapping[str, Part] = {
    "train": Part([("ami_turns", f"trn0{i}") for i in range(4)], ("song00", "song01")),
    "validation": Part(
        [("ami_turns", "dev00"), ("ami_turns", "dev01")]
        + [("speech_segments", "diarizationExample")],
        ("song02", "song05"),
    ),
    "test": Part([("ami_turns", f"trn0{i}") for i in range(4, 7)], ("song06", "song07")),
}
_SUFFIXES = {"ami_turns": "flac", "speech_segments": "flac", "jamendo_singing": "ogg"}


def build_shows(
    folder: str | Path, seed: int = 0, minutes: float = 5.5, shows: Sequence[int] = (4, 3, 3)
) -> Path:
    """Write the folders train, validation and test, unless they already exist for these arguments
    and these folders of source recordings.

    Raises
    ------
    FileNotFoundError
        If a source recording is missing.
    """
    sources = ", ".join(str(data_folder(name).resolve()) for name in _SUFFIXES)
    wanted = f"seed {seed}, {minutes} minutes, {tuple(shows)} shows, version 2, of {sources}\n"

    def build(path: Path, name: str, random: np.random.Generator) -> Spans:
        return _build_show(path, PARTS[name], 60 * minutes, random)

    return drawn_scenes.build_movies(folder, wanted, shows, seed, build)


def build_draws(
    folder: str | Path, seed: int, minutes: float, shows: Sequence[int], draws: int
) -> list[Path]:
    """Write several draws of shows from the same recordings, with seeds from ``seed`` + 1 on.
    Returns their folders."""
    places = [Path(folder) / f"draw{i}" for i in range(1, draws + 1)]
    return [build_shows(place, seed + i, minutes, shows) for i, place in enumerate(places)]


def _build_show(path: Path, part: Part, seconds: float, random: np.random.Generator) -> Spans:
    """Encode one show, and return its true segments."""
    fade = int(FADE * SAMPLING_RATE)
    label = random.choice(["speech", "song"])
    sound, spans, shots = np.zeros(fade, dtype=np.float32), [], []
    start = 0.0
    while start < seconds:
        length = random.uniform(SHORTEST, LONGEST)
        # the clip has half a fade on both sides of its segment
        n_samples = int(length * SAMPLING_RATE) + fade
        clip = (_speech if label == "speech" else _song)(part, n_samples, random)
        sound = _append(sound, _turned(clip, random), fade)
        end = (len(sound) - fade / 2 - fade / 2) / SAMPLING_RATE
        spans.append((start, end, label))
        shots += _shots("studio" if label == "speech" else "stage", start, end, random)
        start, label = end, "song" if label == "speech" else "speech"
    sound = np.clip(sound[fade // 2 : fade // 2 + int(start * SAMPLING_RATE)], -1.0, 1.0)
    drawn_scenes.write_movie(path, shots, sound, random)
    return spans


def _append(sound: NDArray, clip: NDArray, fade: int) -> NDArray[np.float32]:
    """Append a clip to the sound. The last ``fade`` samples of the sound fade out while the clip
    fades in."""
    ramp = np.sin(np.linspace(0.0, np.pi / 2, fade, dtype=np.float32))
    mixed = sound[-fade:] * ramp[::-1] + clip[:fade] * ramp
    return np.concatenate([sound[:-fade], mixed, clip[fade:]]).astype(np.float32)


def _shots(kind: str, start: float, end: float, random: np.random.Generator) -> list[Shot]:
    """Draw the shots of a passage, with a cut every 3 to 9 s. Some inner shots show the
    audience."""
    cuts = [round(start * FRAME_RATE)]
    last = round(end * FRAME_RATE)
    while True:
        cut = cuts[-1] + int(FRAME_RATE * random.uniform(3.0, 9.0))
        if cut >= last - FRAME_RATE:
            break
        cuts.append(cut)
    kinds = [kind] + ["audience" if random.uniform() < 0.15 else kind for _ in cuts[2:]] + [kind]
    return [Shot(*shot) for shot in zip(kinds, np.diff([*cuts, last]).tolist())]


def _speech(part: Part, n_samples: int, random: np.random.Generator) -> NDArray[np.float32]:
    """Draw a stretch of a meeting, with speech for at least half of the time. About a third of the
    stretches get background music."""
    data_set, recording = part.speech[int(random.integers(len(part.speech)))]
    clip = _stretch(data_set, recording, n_samples, ("nonspeech", "silence"), False, 0.5, random)
    if random.uniform() < 0.35:
        song = part.songs[int(random.integers(len(part.songs)))]
        music = _stretch("jamendo_singing", song, n_samples, ("instrumental",), True, 0.4, random)
        clip = _leveled(clip, -23.0) + _leveled(music, -23.0 - random.uniform(10.0, 16.0))
    return clip


def _song(part: Part, n_samples: int, random: np.random.Generator) -> NDArray[np.float32]:
    song = part.songs[int(random.integers(len(part.songs)))]
    return _stretch("jamendo_singing", song, n_samples, ("instrumental",), False, 0.8, random)


def _stretch(
    data_set: str,
    recording: str,
    n_samples: int,
    labels: tuple[str, ...],
    within: bool,
    share: float,
    random: np.random.Generator,
) -> NDArray[np.float32]:
    """Draw a random stretch in which at least the fraction ``share`` of the samples has one of
    ``labels``. If ``within`` is false, at least this fraction must have none of them.

    Up to 30 stretches are drawn, until one of them reaches this fraction. Otherwise the stretch
    with the largest fraction is returned.
    """
    signal, marks = _source(data_set, recording, labels)
    repeats = -(-n_samples // len(signal))
    signal, marks = np.tile(signal, repeats), np.tile(marks, repeats)
    best, reached = 0, -1.0
    for _ in range(30):
        start = int(random.integers(len(signal) - n_samples + 1))
        inside = marks[start : start + n_samples : SAMPLING_RATE // 20].mean()
        share_of_start = inside if within else 1.0 - inside
        if share_of_start > reached:
            best, reached = start, share_of_start
        if reached >= share:
            break
    return signal[best : best + n_samples]


@cache
def _source(
    data_set: str, recording: str, labels: tuple[str, ...]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Read a source recording. Returns the samples, and whether each sample is in a segment with
    one of ``labels``."""
    folder = data_folder(data_set)
    path = folder / "audio" / f"{recording}.{_SUFFIXES[data_set]}"
    signal = np.concatenate(list(audio_blocks(path, SAMPLING_RATE)))
    marks = np.zeros(len(signal), dtype=bool)
    for start, end, label in read_segments(folder / "segments.csv")[recording]:
        if label in labels:
            marks[int(start * SAMPLING_RATE) : int(end * SAMPLING_RATE)] = True
    return signal, marks


def _turned(clip: NDArray, random: np.random.Generator) -> NDArray[np.float32]:
    """Scale a clip to −23 dB, then change its level at random times, on average every 3 to 9 s. The
    changed levels have a standard deviation of 5 dB."""
    n_turns = 1 + int(len(clip) / SAMPLING_RATE / random.uniform(3.0, 9.0))
    times = np.sort(random.uniform(0, len(clip), n_turns))
    levels = random.normal(0.0, 5.0, n_turns)
    ramps = np.concatenate([times, times + 0.3 * SAMPLING_RATE])
    order = np.argsort(ramps, kind="stable")
    steps = np.concatenate([np.append(0.0, levels[:-1]), levels])[order]
    gain = np.interp(np.arange(len(clip)), ramps[order], steps)
    return (_leveled(clip, -23.0) * 10.0 ** (gain / 20.0)).astype(np.float32)


def _leveled(clip: NDArray, decibels: float) -> NDArray[np.float32]:
    """Scale a clip to a power in dB. 0 dB is the power of a square wave of full amplitude."""
    power = float(np.sqrt(np.mean(clip.astype(np.float64) ** 2))) + 1e-9
    return (clip * (10.0 ** (decibels / 20.0) / power)).astype(np.float32)
