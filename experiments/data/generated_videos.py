"""Generate videos with known segments, where only some properties change with the segments.

``experiment=video`` writes the folders ``train``, ``validation`` and ``test`` into ``root.folder``.
Each of these folders has MP4 files, which a real encoder writes, and a ``segments.csv``. A quiet
tremolo in the sound and the texture of the pictures change with the segments. The color, light and
people of the pictures, and a loud chord over the sound, change at independent times.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.data import drawn_scenes
from experiments.data.drawn_scenes import FRAME_RATE, SAMPLING_RATE, Shot, Spans


def build_videos(
    folder: str | Path, seed: int = 0, seconds: float = 240.0, videos: Sequence[int] = (4, 3, 3)
) -> Path:
    """Write the folders train, validation and test, unless they already exist for these
    arguments."""
    wanted = f"seed {seed}, {seconds} seconds, {tuple(videos)} videos, version 1\n"

    def build(path: Path, name: str, random: np.random.Generator) -> Spans:
        spans, shots = plan(seconds, random)
        drawn_scenes.write_movie(path, shots, _sound(spans, random), random)
        return spans

    return drawn_scenes.build_movies(folder, wanted, videos, seed, build)


def plan(seconds: float, random: np.random.Generator) -> tuple[Spans, list[Shot]]:
    """Draw the segments of a video and the shots within them. The plan of a video is drawn before
    all its other random numbers, so this plan can be drawn again without making the video."""
    ends = _times(seconds, 8.0, 24.0, random)
    first = int(random.integers(2))
    kinds = [("studio", "stage")[(first + k) % 2] for k in range(len(ends))]
    spans = list(zip([0.0, *ends[:-1]], ends, kinds))
    shots: list[Shot] = []
    for start, end, kind in spans:
        cuts = start + np.array([0.0, *_times(end - start, 2.0, 8.0, random)])
        frames = np.diff(np.round(cuts * FRAME_RATE).astype(int)).tolist()
        shots += [Shot(kind, count) for count in frames if count]
    return spans, shots


def _times(
    seconds: float, shortest: float, longest: float, random: np.random.Generator
) -> list[float]:
    """Divide ``seconds`` into stretches of random length, and return their ends. The last end is
    ``seconds``."""
    ends = [0.0]
    while ends[-1] < seconds:
        ends.append(ends[-1] + float(random.uniform(shortest, longest)))
    inner = [end for end in ends[1:] if end <= seconds - shortest]
    return [*inner, seconds]


def _sound(spans: Spans, random: np.random.Generator) -> NDArray[np.float32]:
    """Draw the sound: noise, with a tremolo in studios, and chords that change at independent
    times."""
    length = spans[-1][1]
    n = int(length * SAMPLING_RATE)
    time = np.arange(n) / SAMPLING_RATE
    tremolo = np.zeros(n)
    for start, end, kind in spans:
        inside = slice(int(start * SAMPLING_RATE), int(end * SAMPLING_RATE))
        if kind == "studio":
            tremolo[inside] = 0.8 * np.sin(2 * np.pi * 5.0 * time[inside])
    noise = np.diff(random.normal(0.0, 0.02, n + 1)) * (1.0 + tremolo)  # high frequencies
    chords = np.zeros(n)
    begin = 0.0
    for end in _times(length, 3.0, 15.0, random):
        inside = slice(int(begin * SAMPLING_RATE), int(end * SAMPLING_RATE))
        pitches = 110.0 * 2.0 ** (random.uniform(0.0, 3.5, 4))
        waves = [np.sin(2 * np.pi * pitch * time[inside]) for pitch in pitches]
        chords[inside] = random.uniform(0.02, 0.12) * np.sum(waves, axis=0)
        begin = end
    return (noise + chords).astype(np.float32)
