"""The recordings of a folder: features for learning, and signals that the page draws.

The page requests a signal in tiles of 256 bins. A bin combines 2^level successive values, where the
level depends on the zoom.
"""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.apps.models import extractor_of
from metriclearn.datasets import (
    ENDINGS,
    cached_features,
    columns_of_times,
    file_times,
    read_features,
    recording_files,
    without_segments,
)
from metriclearn.features import (
    AUDIO_SUFFIXES,
    VIDEO_SUFFIXES,
    audio_blocks,
    duration,
    video_frames,
)
from metriclearn.running import Times, note, optional, rate_of, reading
from metriclearn.views import Fill

BINS = 256  # in a tile
_HERTZ = 16000  # samples of sound per second
_PITCHES = (500, 1000, 2000, 4000)  # Hz, where a spectrogram has marks
_WAVEFORM = 32  # samples for one minimum and maximum
_FRAME = 320  # samples for one column of the spectrogram
_WINDOW = 1024
_BANDS = 64
_THUMBNAIL = (54, 96)
_SAME = 1e-3  # relative difference of rates that further tables of a folder may make
_MOST_THUMBNAILS = 200


@dataclass
class Recording:
    """A recording: a file, its features, and the signals that the page draws.

    Attributes
    ----------
    name : str
        Name of the file without its ending.
    kind : str
        Kind of the file: "table", "audio" or "video".
    path : Path
        Path of the file.
    features : (T, P) array
        The features.
    columns : list of str
        Names of the features.
    rate : float
        Rows of features per second.
    seconds : float
        Length of the recording.
    extractor : object, optional
        The object that computes the features of sound or video.
    times : Times, optional
        The times of the rows of a table.
    """

    name: str
    kind: str
    path: Path
    features: NDArray[np.float64]
    columns: list[str]
    rate: float
    seconds: float
    extractor: Any = None
    times: Times | None = None

    @property
    def tolerance(self) -> int:
        """The number of rows in half a second, but at least one row.

        Two changes count as the same if they are at most this many rows apart.
        """
        return max(1, round(0.5 * self.rate))

    def distinct(self, labels: NDArray) -> NDArray:
        """Return the labels of the rows of features, of which one stands for each time."""
        return labels if self.times is None else self.times.distinct(labels)

    @cached_property
    def sound(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.uint8]]:
        """Minima and maxima of the waveform, and the mel spectrogram.

        There are 500 minima, 500 maxima and 50 frames of the spectrogram per second.
        """
        low, high, columns = [], [], []
        bands, window = _mel_bands(), np.hanning(_WINDOW).astype(np.float32)
        waiting = np.zeros(_WINDOW // 2, dtype=np.float32)
        try:
            for block in audio_blocks(self.path, _HERTZ):
                waiting = np.concatenate([waiting, block])
                n_frames = max(0, (len(waiting) - _WINDOW) // _FRAME + 1)
                if not n_frames:
                    continue
                views = np.lib.stride_tricks.sliding_window_view(waiting, _WINDOW)[::_FRAME]
                power = np.abs(np.fft.rfft(views[:n_frames] * window)) ** 2
                columns.append(10 * np.log10(power @ bands.T + 1e-6))
                middle = waiting[_WINDOW // 2 :][: n_frames * _FRAME].reshape(-1, _WAVEFORM)
                low.append(middle.min(axis=1))
                high.append(middle.max(axis=1))
                waiting = waiting[n_frames * _FRAME :]
        except ValueError:  # a video without sound
            columns = []
        if not columns:
            silent = np.zeros(0, dtype=np.float32)
            return silent, silent, np.zeros((0, _BANDS), dtype=np.uint8)
        decibels = np.concatenate(columns)
        loudest = decibels.max()
        shown = np.clip((decibels - loudest + 70) / 70 * 255, 0, 255).astype(np.uint8)
        return np.concatenate(low), np.concatenate(high), shown

    @cached_property
    def channels(self) -> list[dict[str, Any]]:
        """The names and ranges of the signals that the page draws as lines."""
        if self.kind != "table":
            quietest, loudest, _ = self.sound
            if not len(loudest):
                return []
            top = float(max(1e-3, -quietest.min(), loudest.max()))
            return [{"name": "sound", "low": -top, "high": top}]
        low, high = np.quantile(self.features, [0.001, 0.999], axis=0)
        wide = np.where(high > low, high - low, np.maximum(np.abs(high), 1.0))
        pairs = zip(self.columns, (low - 0.05 * wide).tolist(), (high + 0.05 * wide).tolist())
        return [{"name": name, "low": a, "high": b} for name, a, b in pairs]

    @property
    def signal_rate(self) -> float:
        """Number of values per second of the signals, before :meth:`tile` groups them in bins."""
        return self.rate if self.kind == "table" else _HERTZ / _WAVEFORM

    def tile(self, level: int, index: int, channels: Collection[int]) -> NDArray[np.float32]:
        """Return the minimum and maximum of the values in each bin, a (bins, channels, 2) array.

        A tile has 256 bins of 2^level values each. The last tile may have fewer bins. A tile beyond
        the end has no bins. The range of each channel is scaled to [0, 1], because float32 has too
        few digits for small changes of large values. A tile takes O(256 · 2^level · channels) time.
        """
        both: list[NDArray] = [self.features] * 2
        if self.kind != "table":
            both = [part[:, None] for part in self.sound[:2]]
        step = 1 << level
        rows = slice(index * BINS * step, (index + 1) * BINS * step)
        parts = [part[rows][:, list(channels)] for part in both]
        if not len(parts[0]):
            return np.zeros((0, len(channels), 2), dtype=np.float32)
        starts = np.arange(0, len(parts[0]), step)
        reduced = [f.reduceat(p, starts, axis=0) for f, p in zip((np.minimum, np.maximum), parts)]
        low, high = np.transpose(
            [[self.channels[c][end] for end in ("low", "high")] for c in channels]
        )
        shares = (np.stack(reduced, axis=2) - low[:, None]) / (high - low)[:, None]
        return np.clip(shares, 0, 1).astype(np.float32)

    def spectrogram(self, level: int, index: int) -> NDArray[np.uint8]:
        """Return the loudness, from 0 to 255, of each bin of a tile in 64 mel bands.

        A tile has 256 bins of 2^level frames each. The loudness of a bin is the largest loudness of
        its frames.
        """
        step = 1 << level
        rows = self.sound[2][index * BINS * step : (index + 1) * BINS * step]
        if not len(rows):
            return rows
        return np.maximum.reduceat(rows, np.arange(0, len(rows), step), axis=0)

    @property
    def pitches(self) -> list[tuple[int, float]]:
        """The frequencies, in Hz, that the page marks on the spectrogram, and their heights.

        The bottom of the spectrogram has the height 0, and the top has the height 1.
        """
        tops = _mel(np.array(_PITCHES)) / _mel(np.array(_HERTZ / 2))
        # The middle of band i is at (i + 1) / (bands + 1) of all mel, and at (i + ½) / bands here.
        heights = (tops * (_BANDS + 1) - 0.5) / _BANDS
        return list(zip(_PITCHES, heights.tolist()))

    @property
    def thumbnail_step(self) -> float:
        """The number of seconds between successive thumbnails."""
        return max(1.0, self.seconds / _MOST_THUMBNAILS)

    @cached_property
    def thumbnails(self) -> bytes:
        """The content of a JPEG file with small pictures of a video side by side."""
        Image = optional("PIL.Image", "label")
        pictures = list(video_frames(self.path, 1 / self.thumbnail_step, _THUMBNAIL))
        stream = io.BytesIO()
        Image.fromarray(np.hstack(pictures[: _MOST_THUMBNAILS + 1])).save(stream, "JPEG")
        return stream.getvalue()


def _chosen(media: list[Path]) -> tuple[str, list[Path]]:
    """Choose features of sound if there is an audio file, else features of pictures.

    Returns the choice ("audio" or "video"), and the recordings from which these features can be
    computed.
    """
    if not any(path.suffix.lower() in AUDIO_SUFFIXES for path in media):
        return "video", media
    silent = [path for path in media if _is_silent(path)]
    if silent:
        note(
            f"{', '.join(path.name for path in silent[:5])} has no sound to learn from, like the "
            "other recordings, so it is not shown; label videos with --features video, or in a "
            "separate folder."
        )
    return "audio", [path for path in media if path not in silent]


def open_recordings(
    folder: Path,
    *,
    features: str | None = None,
    rate: float | None = None,
    time: str | None = None,
    ignore: Collection[str] | None = None,
    cache: Path | None = None,
    duplicates: str | None = None,
    earlier: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[list[Recording], dict[str, Any]]:
    """Open all recordings and tables of a folder.

    Returns the recordings sorted by name, and the settings with which they were read.

    Parameters
    ----------
    folder : Path
        The folder.
    features, rate, time, ignore, cache, duplicates
        The same as the options of ``metriclearn fit``. By default, features of sound are computed
        if there is an audio file, else features of pictures.
    earlier
        The settings with which the page read the folder before. They count where options are not
        given. Its ``media_rate``, the rows per second of sound and pictures, is four by default. If
        the folder has no tables, a given ``rate`` is used instead.

    Raises
    ------
    FileNotFoundError
        If the folder has no recordings to label.
    ValueError
        If a file is damaged, or if the names of two files differ only in their endings.
    """
    features, ignore = features or earlier.get("features"), ignore or earlier.get("ignore")
    if rate is None:
        time = time or earlier.get("time")
        rate = None if time else earlier.get("rate")
    as_before = time is not None and time == earlier.get("time")
    duplicates = duplicates or (earlier.get("duplicates") if as_before else None)
    endings = {*AUDIO_SUFFIXES, *VIDEO_SUFFIXES}
    listed = [path for path in sorted(folder.glob("[!.]*")) if path.suffix.lower() in ENDINGS]
    media = [p for p in recording_files(folder).values() if p.suffix.lower() in endings]
    tables = without_segments(_inside(folder, listed), "segments.csv")
    media = _inside(folder, media)
    if not tables and (not media or features == "tables"):
        raise FileNotFoundError(
            f"{str(folder)!r} has nothing to label; put recordings (wav, mp3, mp4, ...) or tables "
            "(CSV, Parquet, npz) in it, one file for each."
        )
    if features == "tables":
        media = []
    left_out = list(dict.fromkeys([*(ignore or []), *([time] if time else [])]))
    times: dict[Path, Times] = {}
    if time and rate is None:
        times = {path: file_times(path, time, duplicates=duplicates) for path in tables}
        rate = _common_rate(times, time, earlier.get("rate") if as_before else None)
    recordings = [_table(path, left_out, times.get(path), rate or 1.0) for path in tables]
    _interpolate(recordings)
    if media:
        if features is None:
            features, media = _chosen(media)
        media_rate = (None if tables else rate) or earlier.get("media_rate") or 4.0
        computing = extractor_of(features, media_rate)
        recordings += [_medium(path, computing, cache) for path in media]
    recordings.sort(key=lambda one: one.name)
    names = [one.name for one in recordings]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{str(folder)!r} needs different names without endings, got {twice[:5]}.")
    settings = {"features": features, "ignore": left_out, "rate": rate if tables else None}
    settings["media_rate"] = media_rate if media else None
    settings |= {"time": time, "duplicates": duplicates} if times else {}
    return recordings, {key: value for key, value in settings.items() if value}


def _medium(path: Path, computing: Any, cache: Path | None) -> Recording:
    """Open a sound or a video."""
    kind = "audio" if path.suffix.lower() in AUDIO_SUFFIXES else "video"
    X = cached_features(path, computing, cache)
    names = [str(name) for name in computing.get_feature_names_out()]
    seconds, rate = _whole(duration(path) or len(X) / computing.rate), float(computing.rate)
    return Recording(path.stem, kind, path, X, names, rate, seconds, computing)


def _table(path: Path, left_out: list[str], times: Times | None, rate: float) -> Recording:
    """Open a table."""
    frame = read_features(path, left_out)
    clocks = columns_of_times([frame])
    frame = frame.drop(columns=clocks)
    X, names = frame.to_numpy(), [str(name) for name in frame.columns]
    X = X if times is None else times.distinct(X)
    seconds = _whole(len(X) / rate)
    return Recording(path.stem, "table", path, X, names, rate, seconds, times=times)


def _interpolate(tables: Sequence[Recording]) -> None:
    """Interpolate missing values, with a note."""
    gaps = {one.path.name: int(np.isnan(one.features).any(axis=1).sum()) for one in tables}
    if broken := [name for name, count in gaps.items() if count]:
        n_rows = sum(len(one.features) for one in tables)
        note(
            f"{sum(gaps.values())} of {n_rows} rows have missing values, which the page "
            f"interpolates, in {', '.join(broken[:5])}{', …' if len(broken) > 5 else ''}; "
            "metriclearn fit leaves such rows out."
        )
    for one in tables:
        if gaps[one.path.name]:
            one.features = Fill().fit_transform([one.features])[0]


def _common_rate(read: dict[Path, Times], time: str, earlier: float | None) -> float:
    """Return the rate of tables by their column of times. On the page, rows are evenly spaced.

    It stays as it was ``earlier``, when labels were saved, if it is nearly the same.
    """
    if broken := [path.name for path, times in read.items() if len(times.holes)]:
        note(
            f"There are holes in the times of {', '.join(broken[:5])}. The page leaves holes out, "
            "also from the seconds that it shows; files that it writes and reads count them."
        )
    found = rate_of(list(read.values()), time)
    return earlier if earlier and abs(found / earlier - 1.0) < _SAME else found


def _inside(folder: Path, paths: list[Path]) -> list[Path]:
    """Select the paths of files. Links to files outside the folder are left out."""
    home = folder.resolve()
    return [path for path in paths if path.is_file() and path.resolve().is_relative_to(home)]


def _is_silent(path: Path) -> bool:
    """Tell whether a file is a video without a sound track."""
    if path.suffix.lower() not in VIDEO_SUFFIXES:
        return False
    with reading(path, "video"), optional("av", "video").open(str(path)) as container:
        return not container.streams.audio


def _whole(seconds: float) -> float:
    """Round a length in seconds down to milliseconds.

    All times on the page are in whole milliseconds, and a person must be able to mark the end.
    """
    return max(math.floor(round(1000 * seconds, 6)), 1) / 1000


def _mel(hertz: NDArray) -> NDArray[np.float64]:
    return 2595 * np.log10(1 + hertz / 700)


def _mel_bands() -> NDArray[np.float32]:
    """Compute the weight of every frequency in every mel band, (bands, frequencies).

    The bands are triangles of equal width in mel. Neighboring bands overlap by half.
    """
    frequencies = np.fft.rfftfreq(_WINDOW, 1 / _HERTZ)
    mel = _mel(frequencies)
    centers = np.linspace(0, mel[-1], _BANDS + 2)
    triangles = 1 - np.abs(mel - centers[1:-1, None]) / (centers[1] - centers[0])
    weights = np.maximum(triangles, 0)
    # the lowest bands are narrower than a bin, and would be empty
    nearest = np.argmin(np.abs(mel - centers[1:-1, None]), axis=1)
    weights[np.arange(_BANDS), nearest] = np.maximum(weights.max(axis=1), 0.5)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
