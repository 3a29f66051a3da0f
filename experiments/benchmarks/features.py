"""Time and memory from a recording to its segments: sound, pictures, segmentation.

    python -m experiments.benchmarks.features [--out FOLDER] [--hours 1] [--minutes 3]

An hour of sound at 16 kHz, pictures of 640 × 360 at 25 per second from a real encoder, and the
features of a show of 90 minutes. Every row is measured in a process of its own, whose peak memory
counts everything: interpreter, libraries and data.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1"))

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.benchmarks.machine import Report, Timing, options_of

AUDIO: dict[str, dict[str, Any]] = {
    "AudioFeatures()": {},
    "AudioFeatures, every option": {
        "deltas": 2,
        "flatness": True,
        "contrast": True,
        "chroma": True,
    },
}
VIDEO = ("VideoFeatures(): GIST, 4 scales × 8, 4 × 4", "as in experiment=shows: GIST and colors")
SEGMENTATION = "segments of T = 5400 rows, P = 80"
_AUDIO_SECONDS, _BYTES, _SEGMENT_SECONDS = 120.0, 300 * 2**20, 1.0  # required
_RATE, _SIZE, _FRAMES = 16000, (360, 640), 25


def measure(name: str, path: str) -> dict[str, Any]:
    """Seconds and shape of one row of the table, and the peak memory of this process."""
    call = _call(name, path)
    start, processor = time.perf_counter(), time.process_time()
    shape = call()
    return {
        "seconds": time.perf_counter() - start,
        "processor": time.process_time() - processor,
        "peak": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "shape": shape,
    }


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


def in_own_process(name: str, path: Path) -> dict[str, Any]:
    """:func:`measure` in a fresh interpreter."""
    command = [sys.executable, "-m", "experiments.benchmarks.features"]
    command += ["--measure", name, "--file", str(path)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    """Write the files, measure every row; print and save."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--hours", type=float, default=1.0, help="of sound")
    parser.add_argument("--minutes", type=float, default=3.0, help="of pictures")
    parser.add_argument("--measure", metavar="ROW", help="only this row, as JSON")
    parser.add_argument("--file", default="", help="its recording")
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.measure, options.file)))
        return
    report = Report("features", threads=1, repeats=1)
    with tempfile.TemporaryDirectory() as folder:
        sound, pictures = Path(folder) / "sound.wav", Path(folder) / "pictures.mp4"
        write_sound(sound, options.hours)
        write_pictures(pictures, options.minutes)
        lengths = {name: (sound, 3600 * options.hours) for name in AUDIO}
        lengths |= {name: (pictures, 60 * options.minutes) for name in VIDEO}
        lengths[SEGMENTATION] = (sound, 5400.0)
        records = {name: in_own_process(name, path) for name, (path, _) in lengths.items()}
    rows = [
        {
            "what": name,
            "seconds of recording": round(lengths[name][1]),
            "time": Timing([record["seconds"]], [record["processor"]]),
            "processor s": record["processor"],
            "× real time": lengths[name][1] / record["seconds"],
            "peak MiB": round(record["peak"] / 2**20),
            "result": " × ".join(map(str, record["shape"])),
        }
        for name, record in records.items()
    ]
    report.table("From recordings to segments", rows, _verdict(records, lengths))
    report.save(options.out)


def _verdict(records: dict[str, dict[str, Any]], lengths: dict[str, tuple[Path, float]]) -> str:
    audio = all(
        records[n]["seconds"] < _AUDIO_SECONDS and records[n]["peak"] < _BYTES for n in AUDIO
    )
    video = all(records[n]["seconds"] < lengths[n][1] for n in VIDEO)
    segments = records[SEGMENTATION]["seconds"] < _SEGMENT_SECONDS
    words = ["yes" if good else "NO" for good in (audio, video, segments)]
    return (
        f"Required: sound < {_AUDIO_SECONDS:g} s an hour and < {_BYTES / 2**20:g} MiB: {words[0]}; "
        f"pictures faster than real time: {words[1]}; segments in < {_SEGMENT_SECONDS:g} s: "
        f"{words[2]}. Segmentation is after feature extraction, and its result the number of "
        "segments."
    )


if __name__ == "__main__":
    main()
