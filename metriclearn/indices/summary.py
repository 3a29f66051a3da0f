"""All external indices of two partitions at once, or the measures of a field."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from metriclearn.indices import fields, information, matching, pairs
from metriclearn.indices.contingency import Labels, contingency_table
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
    """Every external index of two partitions, or the measures that a field reports.

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
        Segmentations can be ``Partition.from_change_points(ends)``. A field takes no contingency;
        for speech and video, ``ignore_label`` is the label of silence or background.
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
