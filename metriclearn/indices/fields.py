"""What each field reports of two segmentations of one recording; its own library computes it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from metriclearn.indices import boundaries, state_sequences
from metriclearn.indices.contingency import Labels, choice, label_arrays
from metriclearn.running.extras import optional

LOWER_IS_BETTER = ("diarization_error_rate",)
_FRAME = 0.1  # seconds, of mir_eval
Measures = dict[str, float]


def measures_of(
    field: str, labels_true: Labels, labels_pred: Labels, rate: float, ignore_label: Hashable
) -> Measures:
    """The measures of a field by name, see :func:`~metriclearn.indices.compare`."""
    choice("compare", "field", field, _FIELDS)
    if ignore_label is not None and field not in ("speech", "video"):
        raise ValueError(
            f"compare needs every sample for field={field!r}, got ignore_label={ignore_label!r}; "
            "leave it out, or these samples out of both labelings."
        )
    label_arrays(labels_true, labels_pred)  # of the same samples
    return _FIELDS[field](labels_true, labels_pred, rate, ignore_label)


def _change_points(
    labels_true: Labels, labels_pred: Labels, rate: float, ignore_label: Hashable
) -> Measures:
    of_segments = boundaries.covering, boundaries.f_measure
    of_states = (
        state_sequences.weighted_adjusted_rand_score,
        state_sequences.weighted_normalized_mutual_info_score,
        state_sequences.state_matching_score,
    )
    true, pred = (state_sequences.runs(labels)[0] for labels in (labels_true, labels_pred))
    values = {measure.__name__: measure(true, pred) for measure in of_segments}
    return values | {measure.__name__: measure(labels_true, labels_pred) for measure in of_states}


def _video(
    labels_true: Labels, labels_pred: Labels, rate: float, ignore_label: Hashable
) -> Measures:
    both = labels_true, labels_pred
    return {
        f"segmental_f1@{percent}": state_sequences.segmental_f1(
            *both, overlap=percent / 100, ignore_label=ignore_label
        )
        for percent in (10, 25, 50)
    } | {"edit_score": state_sequences.edit_score(*both, ignore_label=ignore_label)}


def _speech(
    labels_true: Labels, labels_pred: Labels, rate: float, ignore_label: Hashable
) -> Measures:
    core = optional("pyannote.core", "measures")
    diarization = optional("pyannote.metrics.diarization", "measures")
    segmentation = optional("pyannote.metrics.segmentation", "measures")
    annotations = []
    for labels in (labels_true, labels_pred):
        segments, names = state_sequences.runs(labels, ignore_label)
        ends = segments.change_points
        annotation = core.Annotation()
        for start, end, name in zip(ends - segments.sizes, ends, names):
            if name >= 0:
                annotation[core.Segment(start / rate, end / rate)] = str(name)
        annotations.append(annotation)
    whole = core.Timeline([core.Segment(0.0, ends[-1] / rate)])
    metrics = {
        "diarization_error_rate": diarization.DiarizationErrorRate(),
        "diarization_purity": diarization.DiarizationPurity(),
        "diarization_coverage": diarization.DiarizationCoverage(),
        "segmentation_purity": segmentation.SegmentationPurity(),
        "segmentation_coverage": segmentation.SegmentationCoverage(),
    }
    return {name: float(metric(*annotations, uem=whole)) for name, metric in metrics.items()}


def _music(
    labels_true: Labels, labels_pred: Labels, rate: float, ignore_label: Hashable
) -> Measures:
    segment = optional("mir_eval.segment", "measures")
    intervals, structure = [], []
    for labels in (labels_true, labels_pred):
        segments, names = state_sequences.runs(labels)
        ends = segments.change_points
        intervals.append(np.column_stack([ends - segments.sizes, ends]) / rate)
        structure += [intervals[-1], names.astype(str).tolist()]
    if ends[-1] / rate < 2.0 * _FRAME:
        raise ValueError(
            f"compare needs two frames of {_FRAME} s for field='music', got {ends[-1]} samples at "
            f"{rate} per second; pass a longer recording, or its rate."
        )
    values: Measures = {}
    for window in (0.5, 3.0):
        hits = segment.detection(*intervals, window=window)
        values |= {f"hit_{kind}@{window:g}": float(hit) for kind, hit in zip(_KINDS, hits)}
    with np.errstate(divide="ignore", invalid="ignore"):  # no pair of frames is together
        pairs = np.nan_to_num(segment.pairwise(*structure, frame_size=_FRAME))
    entropies = segment.nce(*structure, frame_size=_FRAME)
    values |= {f"pairwise_{kind}": float(share) for kind, share in zip(_KINDS, pairs)}
    kinds = "over", "under", "f"
    return values | {f"nce_{kind}": float(score) for kind, score in zip(kinds, entropies)}


_KINDS = ("precision", "recall", "f")
_FIELDS: dict[str, Callable[[Labels, Labels, float, Hashable], Measures]] = {
    "speech": _speech,
    "music": _music,
    "video": _video,
    "change_points": _change_points,
}
