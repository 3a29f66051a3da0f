"""All external indices of two partitions at once, or the measures of a field."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from metriclearn.indices import boundaries, fields, information, matching, pairs
from metriclearn.indices.contingency import Labels, contingency_table
from metriclearn.indices.state_sequences import runs_edit_score, runs_f1
from metriclearn.problem.partition import Partition
from metriclearn.running.extras import optional
from metriclearn.running.parameters import needs, number

_BETTER: dict[Callable[..., float], str] = {
    pairs.rand_score: "higher",
    pairs.adjusted_rand_score: "higher",
    pairs.jaccard_score: "higher",
    pairs.fowlkes_mallows_score: "higher",
    information.mutual_info_score: "higher",
    information.normalized_mutual_info_score: "higher",
    information.adjusted_mutual_info_score: "higher",
    information.variation_of_information: "lower",
    information.normalized_variation_of_information: "lower",
    matching.misclassification_error: "lower",
    pairs.partition_loss: "lower",
}


@needs(rate=number(positive=True))
def compare(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    field: str | None = None,
    rate: float = 1.0,
    as_frame: bool = False,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> Any:
    """Every external index of two partitions, or the measures that are usual in a field.

    Without ``field``, all indices from one pass over the samples, O(n). With ``field``, labels are
    in the order of time, and a segment is a run of equal labels:

    =============== ===================================================================
    field           measures
    =============== ===================================================================
    "change_points" covering, F, weighted indices, state matching
    "video"         F1 of segments at three overlaps, edit score
    "speech"        diarization error, purity, coverage (pyannote.metrics)
    "music"         hit rates of boundaries, pairs and entropies of states (mir_eval)
    =============== ===================================================================

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
        Segmentations can be ``Partition.from_change_points(ends)``. With ``field`` there can be no
        contingency table. For speech and video, ``ignore_label`` is the label of silence or
        background.
    field : "change_points", "video", "speech" or "music", optional
    rate : float > 0
        Samples per second, for speech and music.
    as_frame : bool
        False: dict from the function's name to its value, in the order of the documentation.
        True: pandas DataFrame with columns index, value and better ("higher" or "lower").

    Returns
    -------
    dict of str to float, or DataFrame
        See ``as_frame``.

    Raises
    ------
    ImportError
        If the library of the field is not installed.
    ValueError
        See :func:`contingency_table`; also for an unknown field.

    References
    ----------
    H. Bredin, "pyannote.metrics: a toolkit for reproducible evaluation, diagnostic, and error
    analysis of speaker diarization systems", Interspeech 2017. C. Raffel et al., "mir_eval: a
    transparent implementation of common MIR metrics", ISMIR 2014.
    """
    if field is None:
        table = contingency_table(
            labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
        )
        values = {index.__name__: float(index(contingency=table)) for index in _BETTER}
        better = [*_BETTER.values()]
    else:
        if labels_true is None or labels_pred is None or contingency is not None:
            raise ValueError(
                f"compare needs labels_true and labels_pred for field={field!r}, because a table "
                "has no order of time; pass both labelings."
            )
        values = fields.measures_of(field, (labels_true, labels_pred), rate, ignore_label)
        better = ["lower" if name in fields.LOWER_IS_BETTER else "higher" for name in values]
    if not as_frame:
        return values
    pd = optional("pandas", "tables")
    rows = zip(values, values.values(), better)
    return pd.DataFrame(rows, columns=["index", "value", "better"])


def compare_times(
    true: Sequence[tuple[float, float, str]],
    found: Sequence[tuple[float, float, str]],
    tolerance: float,
) -> list[float]:
    """The numbers of ``metriclearn compare`` for one recording, in continuous time.

    Times in seconds are rounded to microseconds. The numbers are ‖M − N‖², ‖M − N‖² of a prediction
    without boundaries, F1, precision and recall of boundaries, the share of time with the same
    label, edit score, and F1 at overlap .1, .25 and .5.

    Parameters
    ----------
    true, found : sequences of (start, end, label)
        Segments without gaps; both lists end at the same time.
    tolerance : float
        Largest error of a boundary that counts as found, in seconds.
    """
    partitions, names = [], []
    for spans in (true, found):
        ends = np.rint([1e6 * stop for _, stop, _ in spans]).astype(np.int64)
        longer = np.diff(ends, prepend=0) > 0  # drop segments below half a microsecond
        partitions.append(Partition(ends=ends[longer]))
        names.append(np.array([label for *_, label in spans])[longer])
    M, N = partitions
    precision, recall = boundaries.precision_recall(M, N, margin=round(1e6 * tolerance))
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    k, l, sizes = M.intersections(N)  # noqa: E741
    same = float(sizes[names[0][k] == names[1][l]].sum() / M.n_samples)
    loss = pairs.partition_loss(M, N, normalized=False)
    codes = np.unique(np.concatenate(names), return_inverse=True)[1]
    sides = (M, codes[: M.n_clusters]), (N, codes[M.n_clusters :])
    named = [runs_edit_score(*sides), *(runs_f1(*sides, share) for share in (0.1, 0.25, 0.5))]
    return [loss, M.n_clusters - 1, f1, precision, recall, same, *named]
