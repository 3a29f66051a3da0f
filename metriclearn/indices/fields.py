"""Compare two segmentations of a recording by the usual measures of a field, such as music.

The package pyannote.metrics computes the measures for speech, and mir_eval those for music.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices import boundaries, state_sequences
from metriclearn.indices.contingency import Labels, label_arrays
from metriclearn.running.extras import optional
from metriclearn.running.parameters import OneOf

LOWER_IS_BETTER = ("diarization_error_rate",)
_FRAME = 0.1  # seconds per frame in mir_eval
_KINDS = ("precision", "recall", "f")
Measures = dict[str, float]
Pair = tuple[Labels, Labels]  # true and predicted labels


def measures_of(field: str, pair: Pair, rate: float, ignore_label: Hashable) -> Measures:
    """Compute all measures of a field, see :func:`~metriclearn.indices.compare`."""
    OneOf(*_FIELDS).check("compare", "field", field)
    if ignore_label is not None and field not in ("speech", "video"):
        raise ValueError(
            f"compare needs every sample for field={field!r}, got ignore_label={ignore_label!r}; "
            "leave it out, or remove these samples from both labelings."
        )
    label_arrays(*pair)  # raises unless they have one length
    return _FIELDS[field](pair, rate, ignore_label)


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
    values = {
        f"segmental_f1@{percent}": state_sequences.segmental_f1(
            *pair, overlap=percent / 100, ignore_label=ignore_label
        )
        for percent in (10, 25, 50)
    }
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
