"""Labels that mean that nobody has labeled a sample, and recordings that tell nothing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from metriclearn.datasets.sequences import LabeledSequences, runs
from metriclearn.problem.partition import Partition, label_array

# Entries of tables for a sample without a label.
_NOBODY = {"", "-1", "-1.0", "nan", "<na>"}


def labeled(data: LabeledSequences) -> LabeledSequences:
    """Leave out samples that nobody has labeled, and recordings that tell nothing of boundaries."""
    for label in sorted({label for labels in data.labels for label in runs(labels)}):
        if label.strip().casefold() in _NOBODY:
            data = data.without(label)
            warnings.warn(
                f"samples of label {label!r} count as those that nobody has labeled and are "
                "left out; give them another label if they are of a class.",
                stacklevel=4,
            )
    truths = [Partition(ends=ends) for ends in data.change_points]
    if all(truth.n_clusters == 1 for truth in truths):
        raise ValueError(
            f"Segmenter needs a boundary to learn from, but each recording of {data.name!r}, or "
            "each stretch of it with known labels, is a single segment; give every segment a "
            "separate line, or give rows of another kind another label."
        )
    long = [i for i, truth in enumerate(truths) if truth.n_samples > 1]
    if len(long) < len(truths):
        short = sorted({data.names[i] for i in set(range(len(truths))) - set(long)})
        warnings.warn(
            "recordings of one row, or stretches of one row with known labels, tell nothing of "
            f"boundaries and are left out: {', '.join(short[:8])}.",
            stacklevel=4,
        )
    return data.select(long)


def note_texts(labels: Sequence[Any]) -> None:
    """Warn of texts that tables use for rows without a label."""
    texts = [label_array(one) for one in labels if isinstance(one, (list, tuple, np.ndarray))]
    found = {text for one in texts if one.dtype.kind == "U" for text in np.unique(one).tolist()}
    if nobody := sorted(text for text in found if text.strip().casefold() in _NOBODY):
        warnings.warn(
            f"the label {nobody[0]!r} is a text, so it counts as a class; write the number −1 in "
            "an array of objects for rows without a label.",
            stacklevel=4,
        )
