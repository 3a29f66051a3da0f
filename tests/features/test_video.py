"""Pictures at a rate, whatever the frame rate; color histograms; streams side by side."""

from pathlib import Path

import numpy as np
import pytest

from tests.features.sounds import melody, write_video

pytest.importorskip("av")
pytest.importorskip("librosa")

from metriclearn.features.media.audio import AudioFeatures
from metriclearn.features.media.decoding import audio_blocks, video_frames
from metriclearn.features.media.gist import Gist
from metriclearn.features.media.video import ColorHistogram, VideoFeatures
from metriclearn.features.per_recording import JoinedFeatures


def grays(levels: list[int]) -> np.ndarray:
    return np.stack([np.full((48, 64, 3), level, dtype=np.uint8) for level in levels])


def steady(path: Path, count: int, sound: np.ndarray | None = None) -> Path:
    """Equal gray pictures, ten a second."""
    return write_video(path, grays([50] * count), [i / 10 for i in range(count)], sound)


def shown(path: Path, rate: float) -> list[int]:
    return [round(float(picture.mean()) / 10) * 10 for picture in video_frames(path, rate, (8, 8))]


def test_the_picture_on_screen_at_the_middle_of_every_step(tmp_path: Path) -> None:
    levels = [20 + 10 * (i // 10) for i in range(100)]  # another gray every second
    path = write_video(tmp_path / "a.mp4", grays(levels), [i / 10 for i in range(100)])
    assert shown(path, 1.0) == [20 + 10 * t for t in range(10)]
    assert shown(path, 2.0) == [20 + 10 * (t // 2) for t in range(20)]
    assert shown(path, 0.5) == [30 + 20 * t for t in range(5)]


def test_variable_frame_rate_follows_the_time_stamps_and_a_single_frame_is_one_row(
    tmp_path: Path,
) -> None:
    times = [0.0, 0.1, 0.2, 3.0, 3.1, 3.2, 3.3, 7.0, 7.9]
    levels = [20, 20, 40, 60, 60, 60, 80, 100, 120]
    path = write_video(tmp_path / "v.mp4", grays(levels), times)
    assert shown(path, 1.0)[:8] == [40, 40, 40, 80, 80, 80, 80, 100]
    assert shown(write_video(tmp_path / "one.mp4", grays([100]), [0.0]), 1.0) == [100]


def test_histogram_of_known_colors() -> None:
    picture = np.zeros((1, 4, 4, 3))
    picture[0, :2] = [255, 0, 0]  # red above, black below
    histogram = ColorHistogram(bins=4)
    values = dict(zip(histogram.get_feature_names_out(), histogram.transform(picture)[0]))
    assert values["hue0_r0_c0"] == pytest.approx(np.sqrt(0.5))  # black has no saturation, no hue
    assert values["saturation3_r0_c0"] == pytest.approx(np.sqrt(0.5))
    assert values["saturation0_r0_c0"] == pytest.approx(np.sqrt(0.5))
    assert values["value3_r0_c0"] == values["value0_r0_c0"] == pytest.approx(np.sqrt(0.5))
    assert sum(v > 0 for v in values.values()) == 5
    cells = ColorHistogram(bins=4, blocks=2)
    assert cells.transform(picture).shape == (1, len(cells.get_feature_names_out()))


def test_streams_stand_side_by_side(tmp_path: Path) -> None:
    sound = melody(6.0)
    path = steady(tmp_path / "b.mp4", 60, sound)
    audio = AudioFeatures(1.0, n_mfcc=3)
    video = VideoFeatures(1.0, (Gist((2,), 1, 32), ColorHistogram(2)), (32, 32))
    both = JoinedFeatures([audio, video])
    X = both.extract(path)
    assert X.shape == (6, len(both.get_feature_names_out()))
    assert both.rate == 1.0
    np.testing.assert_array_equal(X[:, :16], audio.extract(path)[:6])
    np.testing.assert_array_equal(X[:, 16:], video.extract(path)[:6])
    heard = np.concatenate(list(audio_blocks(path)))
    assert np.corrcoef(heard[: len(sound)], sound[: len(heard)])[0, 1] > 0.9  # AAC keeps the wave


def test_streams_of_different_length_are_refused(tmp_path: Path) -> None:
    path = steady(tmp_path / "c.mp4", 90, melody(2.0))
    streams = JoinedFeatures([AudioFeatures(1.0), VideoFeatures(1.0, (ColorHistogram(2),))])
    with pytest.raises(ValueError, match="equally long tracks"):
        streams.extract(path)


def test_videos_that_are_not_well_give_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "junk.mp4").write_bytes(b"not a video" * 1000)
    (tmp_path / "empty.mp4").touch()
    whole = steady(tmp_path / "whole.mp4", 90)
    (tmp_path / "cut.mp4").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    video = VideoFeatures(1.0, (ColorHistogram(2),))
    for name, features, sentence in (
        ("junk.mp4", video, r"junk\.mp4' cannot be read as video"),
        ("empty.mp4", video, r"empty\.mp4' is empty"),
        ("cut.mp4", video, r"cut\.mp4"),
        ("whole.mp4", AudioFeatures(), "no audio track"),
        ("whole.mp4", VideoFeatures(0.0), "positive rate"),
    ):
        with pytest.raises(ValueError, match=sentence):
            features.extract(tmp_path / name)
