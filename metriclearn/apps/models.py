"""What the console, the label page and Label Studio do alike: features of files, and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import metriclearn
from metriclearn import datasets

if TYPE_CHECKING:
    from numpy.typing import NDArray

WITHOUT_RATE = (
    "Neither --time nor --rate is given, so a row counts as a second; name the column of times "
    "(--time COLUMN), or pass the rows per second (--rate NUMBER)."
)


def extractor_of(kind: str, rate: float) -> Any:
    """Make an extractor of the features of sound ("audio"), of pictures ("video") or of both."""
    of = metriclearn.features
    sound = of.AudioFeatures(rate, flatness=True, contrast=True)
    if kind == "audio":
        return sound
    gist = of.Gist((4, 4, 4, 4), blocks=2, size=64)
    pictures = of.VideoFeatures(rate, (gist, of.ColorHistogram(4, 2)), (64, 64))
    return pictures if kind == "video" else of.JoinedFeatures([sound, pictures])


def labeled_rows(
    name: str, parts: Mapping[str, tuple[NDArray, ...]], columns: Sequence[str]
) -> datasets.LabeledSequences:
    """Return recordings to learn from, some of whose rows may be unlabeled.

    Parameters
    ----------
    name : str
        Name of the data.
    parts : mapping
        For the name of every recording, its rows (T, P), the label of every row, and possibly the
        first rows of segments with the label of the segment before.
    columns : sequence of str
        Names of the features.
    """
    data = datasets.of_parts(name, parts, columns)
    has_gaps = any(datasets.UNKNOWN in part[1] for part in parts.values())
    return data.with_unlabeled(datasets.UNKNOWN) if has_gaps else data


def model_of(
    data: datasets.LabeledSequences,
    extractor: Any,
    rate: float,
    learner: Any = None,
    *,
    time: str | None = None,
    names: bool | None = None,
) -> metriclearn.Segmenter:
    """Learn from labeled rows.

    Parameters
    ----------
    data : LabeledSequences
    extractor : extractor or None
        The object that computed the rows from a file. None if the recordings are tables.
    rate : float
        Rows per second.
    learner : Segmenter, or the only member of one, optional
    time : str, optional
        The column of times of tables.
    names : bool, optional
        Whether labels are names; None finds out.
    """
    from sklearn.base import clone

    made = learner if isinstance(learner, metriclearn.Segmenter) else metriclearn.Segmenter(learner)
    options: dict[str, Any] = {} if names is None else {"names": names}
    options |= {"extractor": extractor, "rate": rate, "time": time, "verbose": False}
    return clone(made).set_params(**options).fit(data)
