"""Small recordings for tests: signals, wave files and videos with known content."""

from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

RATE = 16000


@cache
def reference() -> Any:
    """librosa, its ufuncs compiled when they are called: defining them all takes 15 s."""
    librosa, compiled = pytest.importorskip("librosa"), numba.guvectorize
    with mock.patch.object(
        numba, "guvectorize", lambda _, *given, **more: compiled(*given, **more)
    ):
        for name in ("util.utils", "core.audio", "core.pitch"):
            import_module(f"librosa.{name}")
    return librosa


def melody(seconds: float, seed: int = 0, rate: int = RATE) -> NDArray[np.float32]:
    """Noise and tones that change every half second."""
    random = np.random.default_rng(seed)
    n = int(seconds * rate)
    pitch = np.repeat(random.uniform(100, 4000, n // (rate // 2) + 1), rate // 2)[:n]
    wave = 0.3 * np.sin(2 * np.pi * np.cumsum(pitch) / rate)
    return (wave + 0.05 * random.normal(size=n)).astype(np.float32)


def write_wave(path: Path, signal: NDArray, rate: int = RATE) -> Path:
    import soundfile

    soundfile.write(path, signal, rate)
    return path


def write_video(
    path: Path,
    pictures: NDArray[np.uint8],
    times: list[float],
    sound: NDArray | None = None,
    codec: str = "mpeg4",
) -> Path:
    """Pictures (n, H, W, 3) shown from the given times on (seconds), lossless enough to tell."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width = pictures.shape[1:3]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 4_000_000
        stream.codec_context.time_base = Fraction(1, 1000)
        audio = container.add_stream("aac", rate=RATE, layout="mono") if sound is not None else None
        for picture, time in zip(pictures, times):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = round(1000 * time), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if audio is not None and sound is not None:
            for start in range(0, len(sound), 1024):
                part = np.ascontiguousarray(sound[None, start : start + 1024], dtype=np.float32)
                block = av.AudioFrame.from_ndarray(part, format="fltp", layout="mono")
                block.sample_rate, block.pts = RATE, start
                container.mux(audio.encode(block))
            container.mux(audio.encode(None))
    return path
