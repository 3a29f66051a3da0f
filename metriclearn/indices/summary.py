"""Compare two partitions by all external indices at once, or by the usual measures of a field."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any

import numpy as np

from metriclearn.indices import boundaries, fields, pairs
from metriclearn.indices.contingency import Labels, contingency_table
from metriclearn.indices.registered import listed_indices
from metriclearn.indices.state_sequences import runs_edit_score, runs_f1
from metriclearn.problem.partition import Partition
from metriclearn.running.extras import optional
from metriclearn.running.parameters import Needs, Positive, needs

_SPANS = Needs(
    "{name} as a list of (start, end, label)",
    lambda spans: len(spans) > 0 and all(len(one) == 3 for one in spans),
)


@needs
def compare(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    field: str | None = None,
    rate: Annotated[float, Positive()] = 1.0,
    as_frame: bool = False,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> Any:
    """Compare two partitions by all external indices, or by the usual measures of a field.

    Without ``field``, all external indices are computed from one pass over the samples, in O(n)
    time. With ``field``, labels must be in the order of time, a segment is a run of equal labels,
    and the measures are:

    =============== ===================================================================
    field           measures
    =============== ===================================================================
    "change_points" covering, F1, two weighted indices, state matching score
    "video"         F1 of segments at three overlaps, edit score
    "speech"        diarization error rate, purity, coverage (by pyannote.metrics)
    "music"         boundary hit rates, pairwise and entropy scores (by mir_eval)
    =============== ===================================================================

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`
        A segmentation can be passed as ``Partition.from_change_points(ends)``. With ``field``, a
        contingency table is not allowed. For speech and video, ``ignore_label`` is the label of
        silence or background.
    field : "change_points", "video", "speech" or "music", optional
        The field whose measures are computed.
    rate : float > 0
        Samples per second, for speech and music.
    as_frame : bool
        If False, return a dict from the name of each function or measure to its value. If True,
        return a pandas DataFrame with the columns index, value and better ("higher" or "lower").

    Returns
    -------
    dict of str to float, or DataFrame
        The values, see ``as_frame``.

    Raises
    ------
    ImportError
        If the library for the field is not installed.
    ValueError
        See :func:`contingency_table`. Also raised for an unknown field.

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
        listed = listed_indices()
        values = {name: float(one.function(contingency=table)) for name, one in listed.items()}
        better = [one.better for one in listed.values()]
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
    """Compute the numbers that ``metriclearn compare`` prints for one recording.

    Segments are given in seconds. All times are rounded to microseconds.

    Parameters
    ----------
    true, found : sequences of (start, end, label)
        The true and the predicted segments, without gaps. The last segments of both lists end at
        the same time.
    tolerance : float
        Largest distance, in seconds, between a true boundary and a predicted one that matches it.

    Returns
    -------
    list of float
        In this order: ‖M − N‖² of the prediction, ‖M − N‖² of a prediction without boundaries; F1,
        precision and recall of boundaries; the fraction of the time with the correct label; the
        edit score; F1 of segments at overlap .1, .25 and .5.

    Raises
    ------
    ValueError
        If the segments do not end at the same time.

    See Also
    --------
    precision_recall, edit_score, segmental_f1 : compute these numbers.

    Examples
    --------
    >>> from metriclearn.indices import compare_times
    >>> found = [(0.0, 2.1, "a"), (2.1, 5.0, "b")]
    >>> compare_times([(0.0, 2.0, "a"), (2.0, 5.0, "b")], found, 0.2)[2:5]
    [1.0, 1.0, 1.0]
    """
    partitions, names = [], []
    for name, spans in (("true", true), ("found", found)):
        _SPANS.check("compare_times", name, spans)
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
