"""Compare two partitions by all external indices at once, or by the usual measures of a field.

The package pyannote.metrics computes the measures for speech, and mir_eval those for music.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices import boundaries, pairs, state_sequences
from metriclearn.indices.contingency import Labels, contingency_table, label_arrays
from metriclearn.indices.registered import listed_indices
from metriclearn.indices.state_sequences import runs_edit_score, runs_f1
from metriclearn.problem.partition import Partition
from metriclearn.running.extras import optional
from metriclearn.running.parameters import Needs, OneOf, Positive, Real, needs

_LOWER_IS_BETTER = ("diarization_error_rate",)
_FRAME = 0.1  # seconds per frame in mir_eval
_KINDS = ("precision", "recall", "f")
Measures = dict[str, float]
Pair = tuple[Labels, Labels]  # true and predicted labels
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
        OneOf(*_FIELDS).check("compare", "field", field)
        if ignore_label is not None and field not in ("speech", "video"):
            raise ValueError(
                f"compare needs every sample for field={field!r}, got "
                f"ignore_label={ignore_label!r}; leave it out, or remove these samples from both "
                "labelings."
            )
        label_arrays(labels_true, labels_pred)  # raises unless they have one length
        values = _FIELDS[field]((labels_true, labels_pred), rate, ignore_label)
        better = ["lower" if name in _LOWER_IS_BETTER else "higher" for name in values]
    if not as_frame:
        return values
    pd = optional("pandas", "tables")
    rows = zip(values, values.values(), better)
    return pd.DataFrame(rows, columns=["index", "value", "better"])


@needs
def compare_times(
    true: Sequence[tuple[float, float, str]],
    found: Sequence[tuple[float, float, str]],
    tolerance: Annotated[float, Real(0.0)],
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
        If the segments do not end at the same time, or if the tolerance is negative.

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


def _change_points(pair: Pair, rate: float, ignore_label: Hashable) -> Measures:
    true, pred = (state_sequences.runs(labels)[0] for labels in pair)
    of_states = (
        state_sequences.weighted_adjusted_rand_score,
        state_sequences.weighted_normalized_mutual_info_score,
        state_sequences.state_matching_score,
    )
    return {
        "covering": boundaries.covering(true, pred),
        "f_measure": boundaries.f_measure(true, pred),
        **{measure.__name__: measure(*pair) for measure in of_states},
    }


def _video(pair: Pair, rate: float, ignore_label: Hashable) -> Measures:
    f1 = partial(state_sequences.segmental_f1, *pair, ignore_label=ignore_label)
    values = {f"segmental_f1@{percent}": f1(overlap=percent / 100) for percent in (10, 25, 50)}
    return values | {"edit_score": state_sequences.edit_score(*pair, ignore_label=ignore_label)}


def _speech(pair: Pair, rate: float, ignore_label: Hashable) -> Measures:
    core = optional("pyannote.core", "measures")
    diarization = optional("pyannote.metrics.diarization", "measures")
    segmentation = optional("pyannote.metrics.segmentation", "measures")
    annotations = []
    for intervals, names in _timed(pair, rate, ignore_label):
        annotations.append(core.Annotation())
        for interval, name in zip(intervals, names):
            if name >= 0:
                annotations[-1][core.Segment(*interval)] = str(name)
    whole = core.Timeline([core.Segment(0.0, intervals[-1, 1])])
    metrics = {
        "diarization_error_rate": diarization.DiarizationErrorRate(),
        "diarization_purity": diarization.DiarizationPurity(),
        "diarization_coverage": diarization.DiarizationCoverage(),
        "segmentation_purity": segmentation.SegmentationPurity(),
        "segmentation_coverage": segmentation.SegmentationCoverage(),
    }
    return {name: float(metric(*annotations, uem=whole)) for name, metric in metrics.items()}


def _music(pair: Pair, rate: float, ignore_label: Hashable) -> Measures:
    segment = optional("mir_eval.segment", "measures")
    (true, true_names), (pred, pred_names) = _timed(pair, rate, None)
    if true[-1, 1] < 2.0 * _FRAME:
        raise ValueError(
            f"compare needs two frames of {_FRAME} s for field='music', got {true[-1, 1]:g} s at "
            f"{rate} samples per second; pass a longer recording, or its rate."
        )
    structure = true, true_names.astype(str).tolist(), pred, pred_names.astype(str).tolist()
    values: Measures = {}
    for window in (0.5, 3.0):
        hits = segment.detection(true, pred, window=window)
        values |= {f"hit_{kind}@{window:g}": float(hit) for kind, hit in zip(_KINDS, hits)}
    with np.errstate(divide="ignore", invalid="ignore"):  # if no two frames are together
        pairs = np.nan_to_num(segment.pairwise(*structure, frame_size=_FRAME))
    entropies = segment.nce(*structure, frame_size=_FRAME)
    values |= {f"pairwise_{kind}": float(share) for kind, share in zip(_KINDS, pairs)}
    kinds = "over", "under", "f"
    return values | {f"nce_{kind}": float(score) for kind, score in zip(kinds, entropies)}


def _timed(pair: Pair, rate: float, ignore_label: Hashable) -> Iterator[tuple[NDArray, NDArray]]:
    """Yield (start, end, state) of every segment for both labelings, with times in seconds."""
    for labels in pair:
        segments, names = state_sequences.runs(labels, ignore_label)
        ends = segments.change_points
        yield np.column_stack([ends - segments.sizes, ends]) / rate, names


_FIELDS: dict[str, Callable[[Pair, float, Hashable], Measures]] = {
    "speech": _speech,
    "music": _music,
    "video": _video,
    "change_points": _change_points,
}
