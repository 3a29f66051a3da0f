"""Time and memory from a recording to its features: sound and pictures.

    python -m experiments.benchmarks.features [--tiny]

The sound is an hour at 16 kHz. The video has three minutes of pictures of 640 × 360 pixels at 25
per second, encoded as H.264. Every row is measured in a separate process, whose peak memory counts
everything: interpreter, libraries and data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks import machine
from experiments.benchmarks.benchmark import Benchmark, Run

AUDIO: dict[str, dict[str, Any]] = {
    "AudioFeatures()": {},
    "AudioFeatures, every option": dict(deltas=2, flatness=True, contrast=True, chroma=True),
}
VIDEO = ("VideoFeatures(): GIST, 4 scales × 8, 4 × 4", "as in experiment=shows: GIST and colors")
BENCH = Benchmark("features", __doc__)
_RATE, _SIZE, _FRAMES = 16000, (360, 640), 25


@BENCH.table("From recordings to features", (*AUDIO, *VIDEO), apart=True)
def row(name: str, run: Run) -> machine.Row:
    """Time how long it takes to extract features from a file, and return one row with this time and
    the shape of the features."""
    with tempfile.TemporaryDirectory() as folder:
        if name in AUDIO:
            path, length = Path(folder) / "sound.wav", 36 if run.tiny else 3600
            write_sound(path, length)
        else:
            path, length = Path(folder) / "pictures.mp4", 6 if run.tiny else 180
            write_pictures(path, length)
        timing = machine.Timing().run(call_of(name, str(path)))
    return {
        "what": name,
        "seconds of recording": length,
        **timing.cells,
        "× real time": length / timing.median,
        "result": " × ".join(map(str, timing.result)),
    }


def call_of(name: str, path: str) -> Callable[[], tuple[int, ...]]:
    """Return the call to time. The modules that the call needs are imported here, so that importing
    is not timed."""
    if name in AUDIO:
        from metriclearn.features.media.audio import AudioFeatures

        audio = AudioFeatures(**AUDIO[name])
        return lambda: audio.extract(path).shape
    from metriclearn.features.media.gist import Gist
    from metriclearn.features.media.video import ColorHistogram, VideoFeatures

    video = VideoFeatures()
    if name != VIDEO[0]:
        gist = Gist((4, 4, 4, 4), blocks=2, size=64)
        video = VideoFeatures(1.0, (gist, ColorHistogram(4, 2)), (64, 64))
    return lambda: video.extract(path).shape


def write_sound(path: Path, seconds: int) -> None:
    """Write a sound file of noise and tones, one second at a time. Level and pitch change every
    second."""
    import soundfile

    random = np.random.default_rng(0)
    time = np.arange(_RATE) / _RATE
    with soundfile.SoundFile(str(path), "w", _RATE, 1) as file:
        for _ in range(seconds):
            tone = np.sin(2 * np.pi * random.uniform(100.0, 2000.0) * time)
            block = random.uniform(0.01, 0.3) * (tone + random.normal(size=_RATE))
            file.write(block.astype(np.float32))


def write_pictures(path: Path, seconds: int) -> None:
    """Write a video of moving patterns, with a new pattern every 8 seconds, encoded as H.264."""
    import av

    random = np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=_FRAMES, options={"preset": "ultrafast"})
        video.height, video.width = _SIZE
        video.pix_fmt = "yuv420p"
        for i in range(seconds * _FRAMES):
            if i % (8 * _FRAMES) == 0:
                coarse = random.uniform(0.0, 255.0, (9, 16, 3))
                picture = np.kron(coarse, np.ones((40, 40, 1))).astype(np.uint8)
            moved = np.roll(picture, i % 640, axis=1)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(moved), format="rgb24")
            container.mux(video.encode(frame))
        container.mux(video.encode(None))


if __name__ == "__main__":
    BENCH.main()
