"""Recordings whose labels recur: eye movements, birdsong, sections of songs, keys of sonatas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from metriclearn.datasets.registry import PathLike, read
from metriclearn.datasets.sequences import LabeledSequences, covering_labels, of_parts
from metriclearn.running.parameters import Whole, needs

# What each data set stores: the file of arrays, and the column of the names.
_FILES = {
    "gazecom": ("sequences_int16.npz", "label"),
    "birdsong": ("sequences_int8.npz", "label"),
    "billboard": ("sequences_uint8.npz", "label"),
    "piano_keys": ("sequences.npz", "key"),
}
_PITCHES = ("C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B")
_CHROMA = [f"{part}_{pitch}" for part in ("bass", "treble") for pitch in _PITCHES]
_DEGREE = 26.7  # pixels
_STILL = 0.01  # degrees, added before logarithms


@needs
def load_gazecom(
    root: PathLike | None = None, step: Annotated[int, Whole(1)] = 5
) -> LabeledSequences:
    """Gaze of eleven viewers of films, labeled fixation, saccade, smooth pursuit or noise.

    Rows are means of ``step`` samples at 250 Hz. Three features are each computed over 16, 48 and
    160 ms: the natural logarithm of the displacement in degrees, the displacement divided by the
    length of the path, and the natural logarithm of the standard deviation in degrees. The last
    feature is the confidence of the tracker, 0 to 1. Each viewer is a group.

    Data: Dorr, Martinetz, Gegenfurtner & Barth, Variability of eye movements when viewing dynamic
    natural scenes, Journal of Vision 10(10), 2010; labels of Startsev, Agtzidis & Dorr, Behavior
    Research Methods 51, 2019. Cost O(samples).

    Parameters
    ----------
    root : path, optional
        Folder with ``sequences_int16.npz`` and ``segments.csv``; see
        :func:`metriclearn.datasets.data_folder`.
    step : int
        Number of samples that are averaged to one row, which has the label of its middle sample. An
        incomplete last row is dropped.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, 10), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If the step is not a positive whole number, or the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_gazecom
    >>> data = load_gazecom()  # doctest: +SKIP
    """
    kinds = ("log_displacement", "straightness", "log_deviation")
    names = [f"{kind}_{4 * scale}ms" for scale in (4, 12, 40) for kind in kinds]
    return _load("gazecom", root, step, [*names, "confidence"], _gaze, viewers=True)


def _gaze(track: NDArray) -> NDArray[np.float64]:
    """Compute displacement, straightness and deviation of the gaze. Append the confidence."""
    place = track[:, :2].astype(np.float64) / 10.0 / _DEGREE
    steps = np.linalg.norm(np.diff(place, axis=0, prepend=place[:1]), axis=1)
    columns = []
    for scale in (4, 12, 40):
        padded = np.pad(place, ((scale // 2, scale // 2), (0, 0)), mode="edge")
        moved = np.linalg.norm(padded[scale:] - padded[:-scale], axis=1)
        path = scale * uniform_filter1d(steps, scale + 1, mode="nearest")
        mean, squares = (uniform_filter1d(v, scale, axis=0) for v in (place, place**2))
        deviation = np.sqrt(np.maximum(squares - mean**2, 0.0).sum(axis=1))
        columns += [np.log(moved + _STILL), moved / (path + _STILL), np.log(deviation + _STILL)]
    return np.column_stack([*columns, track[:, 2] / 100.0])


@needs
def load_birdsong(
    root: PathLike | None = None, step: Annotated[int, Whole(1)] = 1
) -> LabeledSequences:
    """Songs of a Bengalese finch, labeled as nine notes and silence, with a row every 4 ms.

    Half of the features are the powers in 32 mel bands from 500 to 12,000 Hz, in decibels relative
    to full scale. The other half are the changes of these powers over 16 ms. Every bout of song is
    a group. All bouts are of one bird.

    Data: Koumura & Okanoya, Automatic recognition of element classes and boundaries in the birdsong
    with variable sequences, PLoS ONE 11(7), 2016. Cost O(rows).

    Parameters
    ----------
    root : path, optional
        Folder with ``sequences_int8.npz`` and ``segments.csv``; see
        :func:`metriclearn.datasets.data_folder`.
    step : int
        Number of stored rows that are averaged to one row. The average has the label of the middle
        row.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, 64), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If the step is not a positive whole number, or the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_birdsong
    >>> data = load_birdsong()  # doctest: +SKIP
    """
    names = [f"{kind}_{band:02d}" for kind in ("mel", "delta") for band in range(32)]
    return _load("birdsong", root, step, names, _bands)


def _bands(powers: NDArray) -> NDArray[np.float64]:
    """Convert stored powers (T, 32) to decibels. Append their changes over four rows, (T, 64)."""
    decibels = powers / 2.0 - 60.0
    padded = np.pad(decibels, ((2, 2), (0, 0)), mode="edge")
    return np.hstack([decibels, padded[4:] - padded[:-4]])


def load_billboard(root: PathLike | None = None) -> LabeledSequences:
    """Chart songs labeled by section (verse, chorus, …), with a row every half second.

    Features are the square roots of 24 chroma values, averaged over 4 rows and over 32 rows. Two
    further features tell whether the music of a row was heard before. For each of the two averages,
    the feature is the largest cosine similarity of the row to a row at least 16 rows earlier. Every
    song is a group. Neighboring sections with the same name form one segment.

    Data: Burgoyne, Wild & Fujinaga, An expert ground truth set for audio chord recognition and
    music analysis, ISMIR 2011 (McGill Billboard). Cost O(rows²) for each song.

    Parameters
    ----------
    root : path, optional
        Folder with ``sequences_uint8.npz`` and ``segments.csv``; see
        :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, 50), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_billboard
    >>> data = load_billboard()  # doctest: +SKIP
    """
    names = [f"{chroma}_{scale}" for scale in (4, 32) for chroma in _CHROMA]
    return _load("billboard", root, 1, [*names, "heard_before_4", "heard_before_32"], _chroma)


def _chroma(values: NDArray) -> NDArray[np.float64]:
    """Smooth the chroma at two scales, and add similarities to earlier rows, (T, 50)."""
    roots = np.sqrt(values / 50.0)
    smooth = [uniform_filter1d(roots, scale, axis=0, mode="nearest") for scale in (4, 32)]
    before = []
    for rows in smooth:
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        likeness = np.tril(unit @ unit.T, -16)
        before.append(likeness.max(axis=1))
    return np.column_stack([*smooth, *before])


def load_piano_keys(root: PathLike | None = None) -> LabeledSequences:
    """Movements of Mozart's piano sonatas, labeled by local key, with a row per quarter note.

    Features describe the twelve pitch classes over 2, 8 and 32 quarter notes. A feature is the
    square root of the fraction of the sounding time that a pitch class takes. Labels are keys, such
    as ``G major``. Every movement is a group.

    Data: Hentschel, Neuwirth & Rohrmeier, The annotated Mozart sonatas, TISMIR 4(1), 2021. Cost
    O(rows).

    Parameters
    ----------
    root : path, optional
        Folder with ``sequences.npz`` and ``segments.csv``; see
        :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, 36), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_piano_keys
    >>> data = load_piano_keys()  # doctest: +SKIP
    """
    names = [f"{pitch}_{scale}" for scale in (2, 8, 32) for pitch in _PITCHES]
    return _load("piano_keys", root, 1, names, _profiles)


def _profiles(rows: NDArray) -> NDArray[np.float64]:
    """Compute the square roots of pitch-class fractions at three scales, (T, 36)."""
    columns = []
    for scale in (2, 8, 32):
        sums = uniform_filter1d(rows[:, :12].astype(np.float64), scale, axis=0, mode="nearest")
        sums = np.maximum(sums, 0.0)
        columns.append(np.sqrt(sums / np.maximum(sums.sum(axis=1, keepdims=True), 1e-9)))
    return np.hstack(columns)


def _load(
    name: str,
    root: PathLike | None,
    step: int,
    feature_names: Sequence[str],
    features: Callable[[NDArray], NDArray],
    viewers: bool = False,
) -> LabeledSequences:
    """Load every recording, and average its rows in groups of ``step``.

    The average of a group has the label of the middle row.

    With ``viewers``, recordings are named VIEWER_FILM. Then each viewer is a group, and recordings
    are sorted by film.
    """
    file, column = _FILES[name]
    arrays = read(name, file, root)
    arrays.pop("channels", None)
    columns = {"sequence": str, "start": int, "end": int, "label": str}
    if column == "key":
        columns |= {"tonic": int, "mode": str}
    table = read(name, "segments.csv", root, columns)
    if column == "key":
        tonic = [_PITCHES[i % 12] for i in table["tonic"]]
        table = table.assign(label=[f"{a} {b}" for a, b in zip(tonic, table["mode"])])
    labels = covering_labels(table, {one: len(arrays[one]) for one in sorted(arrays)})
    parts = {}
    for one in sorted(arrays, key=(lambda one: one.split("_")[::-1]) if viewers else None):
        X = features(arrays[one])
        n_rows = len(X) // step
        rows = X[: n_rows * step].reshape(n_rows, step, -1).mean(axis=1)
        parts[one] = rows, labels[one][step // 2 :: step][:n_rows]
    groups = [one.partition("_")[0] for one in parts] if viewers else None
    return of_parts(name, parts, feature_names, groups)
