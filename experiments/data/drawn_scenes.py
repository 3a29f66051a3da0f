"""Draw pictures of studios and stages, and write them with sound as MP4 by a real encoder.

A viewer would notice that the two kinds of scenes differ in textures and light. A studio has
horizontal shelves and desks. A stage has vertical curtains and beams, and is darker and more
colorful. Shots of the same kind differ from each other in zoom, hue, brightness and the places of
people, at least as much as the two kinds differ. An audience is neither kind: its pattern has a
random angle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from matplotlib.colors import hsv_to_rgb
from numpy.typing import NDArray
from tqdm import tqdm

from metriclearn.datasets.annotations import save_segments

FOLDERS = ("train", "validation", "test")
SAMPLING_RATE, FRAME_RATE = 16000, 5
HEIGHT, WIDTH = 96, 128
Spans = list[tuple[float, float, str]]  # start and end in seconds, and label

# mean and standard deviation in radians of the direction across which a pattern changes
_TILTS = {"studio": (np.pi / 2, 0.12), "stage": (0.0, 0.12), "audience": (np.pi / 4, 1.0)}


@dataclass(frozen=True)
class Shot:
    """One camera shot: its kind of scene and its length in frames."""

    kind: str
    n_frames: int


def draw_shots(shots: Iterable[Shot], random: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
    """Draw the pictures (96, 128, 3) of all frames. Within a shot, the camera moves and the noise
    changes."""
    for shot in shots:
        scene = _scene(shot.kind, random)
        drift = np.cumsum(random.normal(0.0, 0.4, (shot.n_frames, 2)), axis=0).round().astype(int)
        for dy, dx in np.clip(drift, -8, 8):
            picture = scene[8 + dy : 8 + dy + HEIGHT, 8 + dx : 8 + dx + WIDTH]
            noise = random.normal(0.0, 6.0, (HEIGHT, WIDTH, 1))
            yield np.clip(picture + noise, 0, 255).astype(np.uint8)


def _scene(kind: str, random: np.random.Generator) -> NDArray[np.float64]:
    """Draw a scene, (112, 144, 3), with values from 0 to 255. A margin of 8 pixels lets the camera
    move."""
    y, x = np.mgrid[0 : HEIGHT + 16, 0 : WIDTH + 16] / HEIGHT
    stage = kind == "stage"
    zoom, phase = random.uniform(0.6, 1.8), random.uniform(0.0, 2.0 * np.pi, 2)
    tilt = random.normal(*_TILTS[kind])
    across = x * np.cos(tilt) + y * np.sin(tilt)
    pattern = np.sin(2 * np.pi * 6 * zoom * across + phase[0])
    pattern += 0.6 * np.sign(np.sin(2 * np.pi * 2.5 * zoom * across + phase[1]))
    texture = random.normal(0.0, 0.35, pattern.shape)
    saturation = np.clip(random.normal(0.6 if stage else 0.4, 0.15), 0.05, 1.0)
    light = random.normal(0.48 if stage else 0.58, 0.1)
    value = light + random.uniform(0.08, 0.2) * pattern + 0.1 * texture
    hue = np.full_like(value, random.uniform())
    for _ in range(random.integers(1, 4)):  # people, anywhere
        center = random.uniform((0.4, 0.1), (0.9, 1.4))
        size = random.uniform(0.08, 0.2) * zoom
        inside = ((y - center[0]) / (2 * size)) ** 2 + ((x - center[1]) / size) ** 2 < 1
        value[inside] = random.uniform(0.3, 0.8) + 0.03 * texture[inside]
        hue[inside] = random.uniform()
    hsv = np.stack([hue, np.full_like(value, saturation), np.clip(value, 0, 1)], axis=2)
    return 255.0 * hsv_to_rgb(hsv)


def write_movie(
    path: Path, shots: Iterable[Shot], sound: NDArray[np.float32], random: np.random.Generator
) -> None:
    """Draw shots, encode them (H.264) and one channel of sound (AAC) into an MP4 file."""
    import av

    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=FRAME_RATE, options={"preset": "ultrafast"})
        video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        audio = container.add_stream("aac", rate=SAMPLING_RATE, layout="mono")
        for picture in draw_shots(shots, random):
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(video.encode(None))
        block = 1024
        for start in range(0, len(sound), block):
            part = np.ascontiguousarray(sound[None, start : start + block], dtype=np.float32)
            frame = av.AudioFrame.from_ndarray(part, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = SAMPLING_RATE, start
            frame.time_base = Fraction(1, SAMPLING_RATE)
            container.mux(audio.encode(frame))
        container.mux(audio.encode(None))


def build_movies(
    folder: str | Path,
    wanted: str,
    counts: Sequence[int],
    seed: int,
    build: Callable[[Path, str, np.random.Generator], Spans],
) -> Path:
    """Write the folders train, validation and test, each with movies and a ``segments.csv``.

    Does nothing if folders made with the same settings (``wanted``) exist already.

    Parameters
    ----------
    counts : sequence of int
        Numbers of movies in the three folders.
    build : callable (file, folder's name, random) -> segments
        Writes a movie and returns its segments.
    """
    folder = Path(folder)
    mark = folder / "built.txt"
    if mark.is_file() and mark.read_text(encoding="utf-8") == wanted:
        return folder
    for place, (name, count) in enumerate(zip(FOLDERS, counts)):
        tables = {}
        for i in tqdm(range(count), f"movies, {name}", disable=None):
            (folder / name).mkdir(parents=True, exist_ok=True)
            path = folder / name / f"{name}{i}.mp4"
            tables[path.stem] = build(path, name, np.random.default_rng([seed, place, i]))
        if tables:
            save_segments(tables, folder / name / "segments.csv")
    mark.write_text(wanted, encoding="utf-8")
    return folder
