"""Frozen modules as features of sound, pictures and signals."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metriclearn.datasets.feature_cache import cached_features
from metriclearn.features.media.audio import SoundWindows
from metriclearn.features.media.video import VideoFeatures
from tests.features.sounds import RATE, write_video, write_wave

torch = pytest.importorskip("torch")

from metriclearn.encoders import FrozenFeatures  # noqa: E402


class Power(torch.nn.Module):
    """Mean square and largest value of windows, (n, …) -> (n, 2)."""

    def forward(self, X: Any) -> Any:
        flat = X.flatten(1)
        return torch.stack([flat.square().mean(1), flat.amax(1)], 1)


def test_windows_of_sound_around_the_middle_of_every_row(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    levels = np.repeat([0.1, 0.5, 0.2, 0.4], RATE // 2)
    path = write_wave(tmp_path / "a.wav", levels[: -RATE // 4].astype(np.float32))
    power = FrozenFeatures(Power, (RATE // 4,), batch_size=3)
    extractor = SoundWindows(power, 2.0, seconds=0.25)
    X = extractor.transform([path])[0]
    assert extractor.get_feature_names_out().tolist() == ["frozen0", "frozen1"]
    half = [0.4**2 / 2, 0.4]  # the last row ends with the file, in the middle of its window
    expected = [[0.01, 0.1], [0.25, 0.5], [0.04, 0.2], half]
    np.testing.assert_allclose(X, expected, atol=1e-3)
    slow = SoundWindows(power, 0.1, seconds=0.25)
    np.testing.assert_allclose(slow.extract(path), [half], atol=1e-3)
    np.testing.assert_array_equal(cached_features(path, extractor, tmp_path), X)
    assert len(list(tmp_path.glob("*.npz"))) == 1
    np.testing.assert_array_equal(cached_features(path, extractor, tmp_path), X)
    assert len(list(tmp_path.glob("*.npz"))) == 1


def test_pictures_of_a_video(tmp_path: Path) -> None:
    pytest.importorskip("av")
    pictures = np.repeat([40, 200], 10)[:, None, None, None] * np.ones((1, 32, 48, 3))
    path = write_video(tmp_path / "a.mp4", pictures.astype(np.uint8), (np.arange(20) / 10).tolist())
    size = (16, 24)
    frozen = FrozenFeatures(partial(torch.nn.AvgPool3d, (16, 24, 3)), (*size, 3))
    X = VideoFeatures(1.0, [frozen], size).extract(path)
    np.testing.assert_allclose(X, [[40], [200]], atol=4)


def test_windows_of_signals_and_what_is_refused() -> None:
    windows = np.random.default_rng(0).normal(size=(150, 8, 2))
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3), torch.nn.Dropout())
    frozen = FrozenFeatures(module, (8, 2))
    weight = module[1].weight.detach().numpy()
    expected = windows.reshape(150, 16) @ weight.T + module[1].bias.detach().numpy()
    np.testing.assert_allclose(frozen.transform(windows), expected, atol=1e-5)
    assert module.training  # the user's stays as it is
    assert module[1].weight.requires_grad
    with pytest.raises(ValueError, match=r"needs windows \(n, 8, 2\), got shape \(150, 2, 8\)"):
        frozen.transform(windows.reshape(150, 2, 8))
    with pytest.raises(ValueError, match=r"needs finite numbers, .* of outputs"):
        frozen.transform(windows * 1e300)
    with pytest.raises(ValueError, match="needs a module, a torch module or"):
        FrozenFeatures("network", (8, 2)).transform(windows)
