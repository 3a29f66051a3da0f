"""Sound, pictures and their settings that no features can be made of are refused in a sentence."""

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metriclearn.features.media.audio import AudioFeatures, SoundWindows
from metriclearn.features.media.gist import Gist
from metriclearn.features.media.image import ImageFeatures, PixelBlocks
from metriclearn.features.media.video import ColorHistogram, VideoFeatures
from metriclearn.features.per_recording import JoinedFeatures

SOUND = np.random.default_rng(0).normal(size=4000)
PICTURES = np.random.default_rng(0).integers(0, 255, (2, 6, 8, 3))
IMAGE = PICTURES[0].astype(np.uint8)
NAN = np.where(PICTURES > 250, np.nan, PICTURES)


def sound(signal: Any = SOUND, **options: Any) -> Callable[[], Any]:
    return lambda: AudioFeatures(**options).extract_signal(signal)


def image(segmenter: Any, *groups: Any, of: Any = IMAGE) -> Callable[[], Any]:
    options = {"groups": groups} if groups else {}
    return lambda: ImageFeatures(segmenter, **options).nodes(of)


def picture(value: float, kind: Any, shape: tuple[int, ...] = (5, 5, 3)) -> Callable[[], Any]:
    return image(PixelBlocks(4), of=np.full(shape, value, dtype=kind))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (sound(n_mfcc=41), "n_mfcc up to n_mels"),
        (sound(rate=100.0), "AudioFeatures needs"),
        (sound(hop=2000), "AudioFeatures needs"),
        (sound(SOUND * 1e30), "AudioFeatures needs finite samples of at most 1e+12"),
        (sound(SOUND + 1j), "AudioFeatures needs a rectangular array of real numbers in signal"),
        (sound([]), "AudioFeatures found array with 0 sample(s)"),
        (sound([0.0, np.nan]), "AudioFeatures needs finite numbers, got NaN at row 1"),
        (lambda: Gist().transform(PICTURES[0, :, :, 0]), "single picture into a list"),
        (lambda: Gist().transform(-PICTURES), "0 to 255"),
        (lambda: Gist().transform(NAN), "Gist needs finite numbers, got NaN at position"),
        (lambda: ColorHistogram().transform(NAN), "ColorHistogram needs finite numbers, got NaN"),
        (
            lambda: ColorHistogram(blocks=7).transform(PICTURES),
            "ColorHistogram needs pictures (n, H, W, 3) of at least blocks × blocks pixels",
        ),
        (lambda: VideoFeatures(size=128).extract("x"), "VideoFeatures needs size=(height, width)"),
        (lambda: JoinedFeatures([]).extract("x"), "JoinedFeatures needs a list of extractors"),
        (
            lambda: JoinedFeatures([AudioFeatures(1.0), AudioFeatures(2.0)]).extract("x"),
            "JoinedFeatures needs extractors of one rate, got [1.0, 2.0]",
        ),
        (picture(0, float, (5, 5)), "shape (H, W, 3)"),
        (picture(0, np.uint8, (5, 5, 4)), "alpha"),
        (picture(200, np.int64), "uint8, or of floats from 0 to 1, got int64"),
        (picture(50000, np.uint16), "got uint16 from 50000 to 50000; divide"),
        (picture(1.5, float), "got float64 from 1.5 to 1.5"),
        (picture(np.nan, float), "needs finite numbers, got NaN"),
        (image(3), "ImageFeatures needs a segmenter such as Superpixels(), got 3."),
        (image(lambda pixels: np.full((6, 8), 2)), "gives each pixel the number 0 … S-1"),
        (image(lambda pixels: np.zeros((2, 2), int)), "got an array of shape (2, 2) of int64"),
    ],
)
def test_refused_in_a_sentence(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call()


def test_the_shortest_window_has_a_sample(tmp_path: Any) -> None:
    soundfile = pytest.importorskip("soundfile", reason="needs the extra audio")
    soundfile.write(tmp_path / "a.wav", np.full(80, 0.5), 40)
    windows = SoundWindows(Shortest(), seconds=1e-9, sampling_rate=40)
    np.testing.assert_allclose(windows.extract(tmp_path / "a.wav"), [[1.0], [1.0]])


class Shortest:
    """The number of samples of a window."""

    def transform(self, X: Any) -> Any:
        return np.full((len(X), 1), float(X.shape[1]))


@pytest.mark.parametrize(("rate", "bits"), [(1, 16), (0, 16), (16000, 0)])
def test_headers_that_no_sound_has(rate: int, bits: int, tmp_path: Any) -> None:
    form = struct.pack("<HHIIHH", 1, 1, rate, rate * bits // 8, bits // 8, bits)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", 800)
    path = tmp_path / "odd.wav"
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body) + 800) + body + bytes(800))
    with pytest.raises(ValueError, match=r"odd\.wav' has .* by its header"):
        AudioFeatures(4.0).extract(path)
