"""Audio features at a fixed rate: mean and deviation of MFCC and other descriptors of frames.

Lajugie, Arlot & Bach, section 6.1, use such features for their audio stream: MFCC aggregated over
every second. Files are read in blocks. The size of the blocks does not change the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.features.media.decoding import audio_blocks, optional
from metriclearn.features.per_recording import Descriptor, RecordingTransformer
from metriclearn.running.parameters import Positive, Whole, check_parameters
from metriclearn.running.values import real_array

_WINDOWS_AT_A_TIME = 64
_FLOOR = 1e-10  # power, −100 dB: keeps the logarithm of silence finite
_EXTREME = 0.02  # share of a band's bins that count as peaks, and as valleys
_DELTA_WIDTH = 9  # frames of the regression of a delta
_LOWEST_BAND = 200.0  # Hz, of the spectral contrast
_LOUDEST = 1e12  # single precision holds the powers of such samples


@dataclass(eq=False, repr=False)
class AudioFeatures(RecordingTransformer):
    """MFCC and optional deltas, energy, flatness, contrast and chroma, in ``rate`` rows per second.

    A Hann window of ``window`` samples, centered at every ``hop``-th sample, gives a power
    spectrum, from which the descriptors are computed. Row t of the result holds the mean and the
    standard deviation of every descriptor over the frames centered in [t/rate, (t+1)/rate) seconds.
    The last row may cover less time. Cost O(samples · log window), and about 25 MB of memory per
    hour of sound.

    Parameters
    ----------
    rate : float
        Rows per second, at most one per frame.
    sampling_rate : int
        Files are resampled to this rate, in Hz.
    window, hop : int
        Length of a frame, and distance between the centers of neighboring frames, in samples. By
        default, a frame lasts 64 ms and the distance is 32 ms.
    n_mfcc, n_mels : int
        Number of cepstral coefficients, including the 0th, and number of mel bands.
    deltas : 0, 1 or 2
        Highest order of the time derivatives that are added for all descriptors. The derivatives
        are computed by regression over 9 frames.
    energy : bool
        Add the power of the frame, in dB.
    flatness : bool
        Add the ratio of the geometric to the arithmetic mean of the power spectrum, in dB. The
        ratio is near 0 dB for noise, and far below 0 dB for tones.
    contrast : bool
        Add the differences between peaks and valleys of the spectrum, in octaves from 200 Hz on
        (Jiang et al. 2002).
    chroma : bool
        Add the fractions of the power in the 12 pitch classes.
    deviation : bool
        Whether a row also holds the standard deviation of every descriptor, in addition to its
        mean.

    Raises
    ------
    ImportError
        If librosa is not installed.
    ValueError
        For invalid parameters or a damaged file.

    References
    ----------
    Davis & Mermelstein, Comparison of parametric representations for monosyllabic word recognition,
    IEEE Transactions on Acoustics, Speech, and Signal Processing 28, 1980.

    Examples
    --------
    >>> AudioFeatures(n_mfcc=2, deltas=0, energy=False).get_feature_names_out().tolist()
    ['mfcc0_mean', 'mfcc1_mean', 'mfcc0_sd', 'mfcc1_sd']
    """

    rate: Annotated[float, Positive()] = 1.0
    _: KW_ONLY
    sampling_rate: Annotated[int, Whole(1)] = 16000
    window: Annotated[int, Whole(1)] = 1024
    hop: Annotated[int, Whole(1)] = 512
    n_mfcc: Annotated[int, Whole(1)] = 13
    n_mels: Annotated[int, Whole(1)] = 40
    deltas: Annotated[int, Whole(0, 2)] = 1
    energy: bool = True
    flatness: bool = False
    contrast: bool = False
    chroma: bool = False
    deviation: bool = True

    def extract(
        self, path: str | os.PathLike[str], block_seconds: float = 5.0
    ) -> NDArray[np.float64]:
        """Read a file in blocks of ``block_seconds``, and compute its features, (T, P).

        Raises
        ------
        FileNotFoundError, ValueError
            For missing, empty and damaged files, see :func:`audio_blocks`.
        """
        return self.extract_blocks(audio_blocks(path, self.sampling_rate, block_seconds))

    def extract_signal(self, signal: ArrayLike) -> NDArray[np.float64]:
        """Compute the features of a signal (n,) whose samples have the rate ``sampling_rate``."""
        self.fit()
        samples = real_array("AudioFeatures", "signal", signal, 1, single_precision=True)
        size = 5 * self.sampling_rate
        return self.extract_blocks(samples[i : i + size] for i in range(0, len(samples), size))

    def extract_blocks(self, blocks: Iterator[NDArray[np.floating]]) -> NDArray[np.float64]:
        """Compute the features of a signal that is given in consecutive blocks of samples."""
        from scipy.signal import savgol_filter

        self.fit()
        described = np.hstack([self._describe(part) for part in self._stretches(blocks)])
        # as librosa.feature.delta: a local polynomial of the order of the derivative
        options = {"axis": 1, "mode": "nearest"}
        parts = [described]
        for order in range(1, self.deltas + 1):
            parts.append(savgol_filter(described, _DELTA_WIDTH, order, deriv=order, **options))
        frames = np.vstack(parts)
        centers = np.arange(frames.shape[1]) * self.hop / self.sampling_rate
        rows = np.floor(centers * self.rate + 1e-9).astype(np.int64)
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        counts = np.diff(starts, append=len(rows))
        mean = np.add.reduceat(frames, starts, axis=1) / counts
        if not self.deviation:
            return mean.T
        residual = (frames - np.repeat(mean, counts, axis=1)) ** 2
        deviation = np.sqrt(np.add.reduceat(residual, starts, axis=1) / counts)
        return np.vstack([mean, deviation]).T

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return the names of the columns.

        The means come first: ``mfcc0_mean``, …, ``energy_mean``, … for the descriptors, then the
        same for their deltas. The standard deviations follow in the same order, with ``_sd``
        instead of ``_mean``.
        """
        names = [f"mfcc{i}" for i in range(self.n_mfcc)]
        names += ["energy"] * self.energy + ["flatness"] * self.flatness
        names += [f"contrast{i}" for i in range(self._n_bands + 1)] * self.contrast
        names += [f"chroma{i}" for i in range(12)] * self.chroma
        orders = [""] + [f"delta{order}_" for order in range(1, self.deltas + 1)]
        kinds = ["mean"] + ["sd"] * self.deviation
        described = [f"{order}{name}" for order in orders for name in names]
        return np.array([f"{name}_{kind}" for kind in kinds for name in described], dtype=object)

    @property
    def _n_bands(self) -> int:
        """Number of octaves from the lowest band to half the sampling rate."""
        return int(np.log2(self.sampling_rate / 2 / _LOWEST_BAND))

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters. Nothing is learned."""
        frames = super().fit().sampling_rate / self.hop
        if self.rate > frames or self.n_mfcc > self.n_mels or self.hop > self.window:
            raise ValueError(
                f"AudioFeatures needs 0 < rate <= {frames:g} (a row per frame), n_mfcc up to "
                f"n_mels, hop up to window, got {self.get_params()}."
            )
        return self

    def _stretches(self, blocks: Iterator[NDArray[np.floating]]) -> Iterator[NDArray[np.float32]]:
        """Yield the samples of consecutive frames, several frames at a time. Frame i is centered at
        sample i · hop."""
        half = self.window // 2
        waiting, n_samples, given = np.zeros(half, dtype=np.float32), 0, 0
        for block in blocks:
            n_samples += len(block)
            if not np.abs(block).max(initial=0.0) <= _LOUDEST:
                raise ValueError(
                    f"AudioFeatures needs finite samples of at most {_LOUDEST:g}, got larger ones, "
                    "infinity or NaN; divide them by the largest."
                )
            waiting = np.concatenate([waiting, block.astype(np.float32)])
            count = (len(waiting) - self.window) // self.hop + 1
            if count > 0:
                yield waiting[: self.window + (count - 1) * self.hop]
                waiting, given = waiting[count * self.hop :], given + count
        rest = -(-n_samples // self.hop) - given
        if rest > 0:
            needed = self.window + (rest - 1) * self.hop
            yield np.pad(waiting, (0, max(0, needed - len(waiting))))[:needed]

    def _describe(self, stretch: NDArray[np.float32]) -> NDArray[np.float64]:
        """Compute the D descriptors of the n frames in a stretch of samples, (D, n)."""
        from scipy.fft import dct, rfft
        from scipy.signal.windows import hann

        rate, window = self.sampling_rate, self.window
        frames = np.lib.stride_tricks.sliding_window_view(stretch, window)[:: self.hop]
        spectrum = rfft(frames * hann(window, sym=False).astype(np.float32), axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).T  # (frequencies, n), as librosa.stft
        librosa = optional("librosa", "audio")
        mel = librosa.filters.mel(sr=rate, n_fft=window, n_mels=self.n_mels)  # Slaney's bands
        parts = [dct(decibels(mel @ power), axis=0, norm="ortho")[: self.n_mfcc]]
        if self.energy:
            parts.append(decibels(power.mean(axis=0)[None]))
        if self.flatness:
            floored = np.maximum(power, _FLOOR)
            parts.append(decibels(floored).mean(axis=0)[None] - decibels(floored.mean(axis=0)))
        if self.contrast:
            parts.append(spectral_contrast(power, rate, _LOWEST_BAND, self._n_bands))
        if self.chroma:
            parts.append(pitch_classes(power, librosa.filters.chroma(sr=rate, n_fft=window)))
        return np.vstack(parts).astype(np.float64)


@dataclass(eq=False, repr=False)
class SoundWindows(RecordingTransformer):
    """Features that a descriptor, such as a pretrained network, computes from windows of sound.

    There are ``rate`` rows per second. Row t describes ``seconds`` of sound around (t + ½)/rate,
    with silence beyond the ends. All samples of a file are held in memory, but only some windows at
    a time.

    Parameters
    ----------
    descriptor : transformer
        Maps windows (n, samples) to (n, P) and has ``get_feature_names_out``, such as
        :class:`~metriclearn.encoders.FrozenFeatures`.
    rate : float
        Rows per second.
    seconds : float
        Length of a window in seconds.
    sampling_rate : int
        Files are resampled to this rate, in Hz.
    """

    descriptor: Descriptor
    rate: Annotated[float, Positive()] = 1.0
    _: KW_ONLY
    seconds: Annotated[float, Positive()] = 1.6
    sampling_rate: Annotated[int, Whole(1)] = 16000

    def extract(self, path: str | os.PathLike[str]) -> NDArray[np.float64]:
        """Compute the features of one file, (T, P).

        Raises
        ------
        FileNotFoundError, ValueError
            For missing, empty and damaged files, see :func:`audio_blocks`.
        """
        check_parameters(self)
        samples = np.concatenate(list(audio_blocks(path, self.sampling_rate)))
        step, size = self.sampling_rate / self.rate, round(self.seconds * self.sampling_rate) or 1
        count = max(1, int(np.ceil(len(samples) / step - 1e-9)))
        # a window around sample c begins at padded sample c; a short last step uses the last sample
        middles = np.minimum((np.arange(count) + 0.5) * step, len(samples) - 1)
        starts = np.round(middles).astype(np.int64)
        padded = np.pad(samples, (size // 2, size))
        windows = np.lib.stride_tricks.sliding_window_view(padded, size)
        parts = [
            self.descriptor.transform(windows[some])
            for some in np.split(starts, range(_WINDOWS_AT_A_TIME, count, _WINDOWS_AT_A_TIME))
        ]
        return np.vstack(parts)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return the names of the descriptor's columns."""
        return self.descriptor.get_feature_names_out()


# librosa has the same descriptors of spectra, but compiles code at first use, which takes about
# 70 MiB of memory. The filters are those of librosa.


def decibels(power: NDArray) -> NDArray:
    """Convert power to decibels, 10 log₁₀(power), but at least −100."""
    return 10.0 * np.log10(np.maximum(power, _FLOOR))


def spectral_contrast(
    power: NDArray[np.float32], sampling_rate: int, lowest: float, n_bands: int
) -> NDArray[np.float32]:
    """Compute the ratio of peaks to valleys in octave bands, (frequencies, n) -> (n_bands + 1, n).

    The mean of the largest 2 % of the magnitudes in a band (one bin at least) is divided by the
    mean of the smallest 2 %. The ratio is in dB of magnitudes, as in
    ``librosa.feature.spectral_contrast``. The first band ends at ``lowest`` Hz. The cost is
    O(bins · log bins) per frame. See Jiang et al., Music type classification by spectral contrast
    feature, ICME 2002.
    """
    magnitude = np.sqrt(np.maximum(power, 100 * _FLOOR))
    edges = np.append(0.0, lowest * 2.0 ** np.arange(n_bands + 1))
    edges = edges * 2 * (len(power) - 1) / sampling_rate  # in bins
    first = np.ceil(edges[:-1]).astype(int)
    first[1:] -= 1  # librosa lets bands overlap by a bin
    end = np.floor(edges[1:]).astype(int) + 1
    end[-1] = len(power)
    rows = []
    for k, (a, b) in enumerate(zip(first, end)):
        count = max(1, round(_EXTREME * (b - a)))
        band = np.sort(magnitude[a : b - (k < n_bands)], axis=0)
        rows.append(decibels(band[-count:].mean(axis=0)) - decibels(band[:count].mean(axis=0)))
    return np.stack(rows)


def pitch_classes(power: NDArray, filters: NDArray) -> NDArray:
    """Compute the fraction of each frame's power in each pitch class, (12, n), or 0 in silence.

    ``filters`` come from ``librosa.filters.chroma``.
    """
    chroma = filters @ power
    total = chroma.sum(axis=0)
    return chroma / np.where(total > np.finfo(np.float32).tiny, total, 1.0)
