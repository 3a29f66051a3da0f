"""Contrast and pitch classes: against librosa, on spectra of all levels and on silence."""

import numpy as np
import pytest

from metriclearn.features.media.audio import decibels, pitch_classes, spectral_contrast
from tests.features.sounds import reference

SIZES = [(16000, 1024), (22050, 2048), (8000, 512)]


def spectra(window: int) -> np.ndarray:
    """50 random spectra, each quieter than the one before, the last one silent."""
    random = np.random.default_rng(0)
    power = random.normal(size=(window // 2 + 1, 50)) ** 2 * np.geomspace(1.0, 1e-6, 50)
    power[:, -1] = 0.0
    return power.astype(np.float32)


@pytest.mark.parametrize(("rate", "window"), SIZES)
def test_contrast_is_librosas(rate: int, window: int) -> None:
    power = spectra(window)
    n_bands = int(np.log2(rate / 400.0))
    expected = reference().feature.spectral_contrast(
        S=np.sqrt(np.maximum(power, 1e-8)), sr=rate, fmin=200.0, n_bands=n_bands
    )
    found = spectral_contrast(power, rate, 200.0, n_bands)
    assert found.shape == (n_bands + 1, 50)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(found[:, -1]).max() == 0.0


@pytest.mark.parametrize(("rate", "window"), SIZES)
def test_pitch_classes_are_librosas(rate: int, window: int) -> None:
    librosa, power = reference(), spectra(window)
    found = pitch_classes(power, librosa.filters.chroma(sr=rate, n_fft=window))
    np.testing.assert_allclose(
        found, librosa.feature.chroma_stft(S=power, sr=rate, tuning=0.0, norm=1), atol=1e-5
    )
    np.testing.assert_allclose(found[:, :-1].sum(axis=0), 1.0, atol=1e-5)
    assert not found[:, -1].any()


def test_a_tone_is_its_pitch_class() -> None:
    tone = np.sin(2 * np.pi * 440.0 * np.arange(4096) / 16000)
    power = np.abs(np.fft.rfft(tone * np.hanning(4096))) ** 2
    filters = reference().filters.chroma(sr=16000, n_fft=4096)
    classes = pitch_classes(power[:, None].astype(np.float32), filters)
    assert np.argmax(classes[:, 0]) == 9  # A, nine semitones above C


def test_decibels_end_at_silence() -> None:
    assert decibels(np.array([0.0, 1.0])).tolist() == [-100.0, 0.0]
