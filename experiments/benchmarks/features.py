"""Time and memory from a recording to its segments: sound, pictures, segmentation.

    python -m experiments.benchmarks.features [--out FOLDER] [--hours 1] [--minutes 3]

An hour of sound at 16 kHz, pictures of 640 × 360 at 25 per second from a real encoder, and the
features of a show of 90 minutes. Every row is measured in a process of its own, whose peak memory
counts everything: interpreter, libraries and data.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.machine import (
    Report,
    Timing,
    in_own_process,
    met,
    options_of,
    peak_mebibytes,
)

AUDIO: dict[str, dict[str, Any]] = {
    "AudioFeatures()": {},
    "AudioFeatures, every option": dict(deltas=2, flatness=True, contrast=True, chroma=True),
}
VIDEO = ("VideoFeatures(): GIST, 4 scales × 8, 4 × 4", "as in experiment=shows: GIST and colors")
SEGMENTATION = "segments of T = 5400 rows, P = 80"
_AUDIO_SECONDS, _MEBIBYTES, _SEGMENT_SECONDS = 120.0, 300, 1.0  # required
_RATE, _SIZE, _FRAMES = 16000, (360, 640), 25


def measure(name: str, path: str) -> dict[str, Any]:
    """Seconds and shape of one row of the table, and the peak memory of this process."""
    timing = Timing.of(_call(name, path))
    return {"timing": timing.numbers, "peak": peak_mebibytes(), "shape": timing.result}


def _call(name: str, path: str) -> Callable[[], list[int]]:
    """What is timed; imports and training are done here, before."""
    if name in AUDIO:
        from metriclearn.features.audio import AudioFeatures

        return lambda: list(AudioFeatures(**AUDIO[name]).extract(path).shape)
    if name in VIDEO:
        from metriclearn.features.gist import Gist
        from metriclearn.features.video import ColorHistogram, VideoFeatures

        plain = VideoFeatures()
        shows = VideoFeatures(
            1.0, (Gist((4, 4, 4, 4), blocks=2, size=64), ColorHistogram(4, 2)), (64, 64)
        )
        return lambda: list((plain if name == VIDEO[0] else shows).extract(path).shape)
    from metriclearn import WhitenedMetricLearner
    from metriclearn.datasets import make_change_points

    def make(n: int, seed: int) -> Any:
        count = n // 60
        return make_change_points(1, n, 80, 8, (count, count), feature_seed=0, random_state=seed)

    train, show = make(900, 1), make(5400, 2)
    learner = WhitenedMetricLearner().fit(train.sequences, train.labels)
    return lambda: [len(learner.predict_change_points(show.sequences[0])), 80]


def write_sound(path: Path, hours: float) -> None:
    """Noise and tones whose level changes every second, second by second."""
    import soundfile

    random = np.random.default_rng(0)
    time = np.arange(_RATE) / _RATE
    with soundfile.SoundFile(str(path), "w", _RATE, 1) as file:
        for _ in range(int(3600 * hours)):
            tone = np.sin(2 * np.pi * random.uniform(100.0, 2000.0) * time)
            block = random.uniform(0.01, 0.3) * (tone + random.normal(size=_RATE))
            file.write(block.astype(np.float32))


def write_pictures(path: Path, minutes: float) -> None:
    """A drawn scene that moves, another one every 8 seconds, encoded as H.264."""
    import av

    random = np.random.default_rng(0)
    coarse = np.zeros((9, 16, 3))
    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=_FRAMES, options={"preset": "ultrafast"})
        video.height, video.width, video.pix_fmt = *_SIZE, "yuv420p"
        for i in range(int(60 * minutes * _FRAMES)):
            if i % (8 * _FRAMES) == 0:
                coarse = random.uniform(0.0, 255.0, (9, 16, 3))
                picture = np.kron(coarse, np.ones((40, 40, 1))).astype(np.uint8)
            moved = np.roll(picture, i % 640, axis=1)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(moved), format="rgb24")
            container.mux(video.encode(frame))
        container.mux(video.encode(None))


def main() -> None:
    """Write the files, measure every row; print and save."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--hours", type=float, default=1.0, help="of sound")
    parser.add_argument("--minutes", type=float, default=3.0, help="of pictures")
    options = parser.parse_args()
    hours, minutes = (0.01, 0.1) if options.tiny else (options.hours, options.minutes)
    report = Report("features", threads=1, repeats=1)
    with tempfile.TemporaryDirectory() as folder:
        sound, pictures = Path(folder) / "sound.wav", Path(folder) / "pictures.mp4"
        write_sound(sound, hours)
        write_pictures(pictures, minutes)
        lengths = {name: (sound, 3600 * hours) for name in AUDIO}
        lengths |= {name: (pictures, 60 * minutes) for name in VIDEO}
        lengths[SEGMENTATION] = (sound, 5400.0)
        records = {
            name: in_own_process(measure, name, str(path)) for name, (path, _) in lengths.items()
        }
    seconds = {name: record["timing"]["seconds"][0] for name, record in records.items()}
    rows = [
        {
            "what": name,
            "seconds of recording": round(lengths[name][1]),
            "time": Timing(**record["timing"]),
            "processor s": record["timing"]["processor"][0],
            "× real time": lengths[name][1] / seconds[name],
            "peak MiB": round(record["peak"]),
            "result": " × ".join(map(str, record["shape"])),
        }
        for name, record in records.items()
    ]
    audio = all(seconds[n] < _AUDIO_SECONDS and records[n]["peak"] < _MEBIBYTES for n in AUDIO)
    video = all(seconds[name] < lengths[name][1] for name in VIDEO)
    report.table(
        "From recordings to segments",
        rows,
        f"Required: sound < {_AUDIO_SECONDS:g} s an hour and < {_MEBIBYTES} MiB: {met(audio)}; "
        f"pictures faster than real time: {met(video)}; segments in < {_SEGMENT_SECONDS:g} s: "
        f"{met(seconds[SEGMENTATION] < _SEGMENT_SECONDS)}. Segmentation is after feature "
        "extraction, and its result the number of segments.",
    )
    report.save(options.out)


if __name__ == "__main__":
    main()
