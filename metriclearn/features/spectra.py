"""Descriptors of short-time spectra that librosa has too, for one stretch of a stream at a time.

librosa compiles what it calls for them when first used, which costs more memory than streaming
saves; the tests compare with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FLOOR = 1e-10  # power, −100 dB: silence has finite logarithms
_EXTREME = 0.02  # share of a band's bins that are its peaks, and its valleys


def decibels(power: NDArray) -> NDArray:
    """10 log₁₀ of power, at least −100."""
    return 10.0 * np.log10(np.maximum(power, FLOOR))


def spectral_contrast(
    power: NDArray[np.float32], sampling_rate: int, lowest: float, n_bands: int
) -> NDArray[np.float32]:
    """Peaks against valleys of octave bands, (frequencies, n) -> (n_bands + 1, n).

    Mean of the largest 2 % of the magnitudes of a band (one bin at least) over that of the
    smallest, in dB of magnitudes as in ``librosa.feature.spectral_contrast``; the first band ends
    at ``lowest`` Hz. O(bins · log bins) per frame. Jiang et al., Music type classification by
    spectral contrast feature, ICME 2002.
    """
    magnitude = np.sqrt(np.maximum(power, 100 * FLOOR))
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
    """Share of every pitch class in a frame, (12, n); 0 in silence.

    ``filters`` as ``librosa.filters.chroma`` makes them.
    """
    chroma = filters @ power
    total = chroma.sum(axis=0)
    return chroma / np.where(total > np.finfo(np.float32).tiny, total, 1.0)
