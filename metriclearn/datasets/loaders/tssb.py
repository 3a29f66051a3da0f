"""Univariate series with change-points between repeating patterns: the archives TSSB and UTSA."""

from __future__ import annotations

from metriclearn.datasets.registry import PathLike, fetch, read
from metriclearn.datasets.sequences import LabeledSequences, of_change_points
from metriclearn.running.atomic import reading


def load_tssb(root: PathLike | None = None) -> LabeledSequences:
    """Series joined from recordings of several classes, with 0 to 8 change-points each.

    Data: Schäfer, Ermshaus & Leser, ClaSP: time series segmentation, CIKM 2021. Files:
    ``series.npz`` and ``change_points.csv``. Labels are segment numbers, every series is a group.

    Parameters
    ----------
    root : path, optional
        Folder with the two files; see :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    ValueError
        If the files are damaged or do not fit together.
    FileNotFoundError
        If the files are missing.

    Examples
    --------
    >>> from metriclearn.datasets import load_tssb
    >>> data = load_tssb()  # doctest: +SKIP
    """
    return _load("tssb", root)


def load_utsa(root: PathLike | None = None) -> LabeledSequences:
    """Recordings of hearts, sensors and insects, with one to three change-points each.

    Data: Gharghabi et al., Domain agnostic online semantic segmentation for multi-dimensional time
    series, Data Mining and Knowledge Discovery 33, 2019. Files and labels are as in
    :func:`load_tssb`.

    Parameters
    ----------
    root : path, optional
        Folder of the files, see :func:`metriclearn.datasets.data_folder`.

    Returns
    -------
    LabeledSequences
        ``sequences`` of shape (T_i, P), ``labels`` (T_i,), ``groups``, ``names``.

    Raises
    ------
    FileNotFoundError
        If the files are missing; the message explains how to get them.
    ValueError
        If they are damaged.

    Examples
    --------
    >>> from metriclearn.datasets import load_utsa
    >>> data = load_utsa()  # doctest: +SKIP
    """
    return _load("utsa", root)


def _load(name: str, root: PathLike | None) -> LabeledSequences:
    import pandas as pd

    arrays, path = read(name, "series.npz", root), fetch(name, "change_points.csv", root)
    with reading(path, "a CSV file with columns series and change_points"):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)  # a series may have none
        changes = dict(zip(table["series"], table["change_points"].str.split()))
    return of_change_points(name, arrays, changes, ["value"])
