"""Descriptors of short-time spectra in numpy.

librosa has the same descriptors, but compiles code at first use, which takes about 70 MiB of
memory. The tests compare the results with librosa. The filters are the same as in librosa.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FLOOR = 1e-10  # power, −100 dB: keeps the logarithm of silence finite
_EXTREME = 0.02  # share of a band's bins that count as peaks, and as valleys


def decibels(power: NDArray) -> NDArray:
    """Convert power to decibels, 10 log₁₀(power), but at least −100."""
    return 10.0 * np.log10(np.maximum(power, FLOOR))


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
    """Compute the fraction of each frame's power in each pitch class, (12, n), or 0 in silence.

    ``filters`` come from ``librosa.filters.chroma``.
    """
    chroma = filters @ power
    total = chroma.sum(axis=0)
    return chroma / np.where(total > np.finfo(np.float32).tiny, total, 1.0)
