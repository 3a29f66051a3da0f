"""Compare two sequences of states: the label of every sample, in the order of time.

A segment is a maximal run of equal labels. A label may occur in several segments. Some indices
compare the names of the states, which are the labels. The clusters of a
:class:`~metriclearn.problem.partition.Partition` have no names. True and predicted clusters are
therefore matched one to one so that the overlap is largest. A predicted cluster gets the name of
its true cluster, or a new name if it has no true cluster. In a segmentation
``Partition.from_change_points(ends)``, each segment is a separate cluster.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices.contingency import Labels, differs, ignores_nothing, label_arrays
from metriclearn.indices.information import entropy
from metriclearn.indices.matching import assignment
from metriclearn.indices.pairs import corrected_for_chance
from metriclearn.problem.partition import Partition, factorize, label_values
from metriclearn.running.parameters import Needs, Positive, Real, needs

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Runs = tuple[Partition, NDArray[np.int64]]  # segments between changes of state, and their states


@needs
def segmental_f1(
    labels_true: Labels,
    labels_pred: Labels,
    *,
    overlap: Annotated[float, Needs("an {name} above 0 and up to 1", Positive(1.0).accepts)] = 0.5,
    ignore_label: Hashable = None,
) -> float:
    """F1 score of segments, as used for action segmentation.

    F1@10, F1@25 and F1@50 are this score with ``overlap`` .1, .25 and .5. Each predicted segment A
    is compared with the true segment B of the same name for which |A ∩ B| / |A ∪ B| is largest. The
    segment A is correct if this ratio is at least ``overlap``. If several correct segments have the
    same true segment B, only one of them counts. The score is in [0, 1], while papers print
    percent. It is 1 if neither labeling has a segment. Slightly misplaced boundaries do not lower
    the score. Splitting a segment in two lowers the score, because at most one of the two parts
    counts. The time is O(n) for labels. For partitions, matching the clusters takes at most O(K³)
    time.

    Parameters
    ----------
    labels_true, labels_pred : sequences of n labels in the order of time, or Partition
    overlap : float in (0, 1]
        The smallest |A ∩ B| / |A ∪ B| of a correct segment.
    ignore_label : hashable, optional
        Label of the background. Its segments are ignored in both labelings.

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        If there are no samples, the labelings differ in length, or a parameter is out of range.

    References
    ----------
    C. Lea, M. D. Flynn, R. Vidal, A. Reiter and G. D. Hager, "Temporal convolutional networks for
    action segmentation and detection", CVPR 2017. Y. Abu Farha and J. Gall, "MS-TCN: multi-stage
    temporal convolutional network for action segmentation", CVPR 2019. The program of Abu Farha and
    Gall adds the counts of all videos before it computes F1.
    """
    return runs_f1(*_named(labels_true, labels_pred, ignore_label), overlap)


def runs_f1(of_true: Runs, of_pred: Runs, overlap: float) -> float:
    """Compute :func:`segmental_f1` of segments whose states are numbered, in O(K + K′) time.

    Both labelings use the same number for the same state. Segments with the number −1 are ignored.
    """
    (true, true_names), (pred, pred_names) = of_true, of_pred
    n_segments = int(np.sum(true_names >= 0) + np.sum(pred_names >= 0))
    if n_segments == 0:
        return 1.0
    rows, columns, counts = true.intersections(pred)
    alike = (true_names[rows] == pred_names[columns]) & (true_names[rows] >= 0)
    rows, columns, counts = rows[alike], columns[alike], counts[alike]
    shares = counts / (true.sizes[rows] + pred.sizes[columns] - counts)
    # the best true segment of every predicted one, the first among ties
    order = np.lexsort((rows, -shares, columns))
    best = order[np.flatnonzero(np.diff(columns[order], prepend=-1))]
    hits = np.unique(rows[best[shares[best] >= overlap]])
    return 2.0 * len(hits) / n_segments


def edit_score(labels_true: Labels, labels_pred: Labels, *, ignore_label: Hashable = None) -> float:
    """Edit score 1 − d / max(K, K′), which compares the order of segments (actions in a video).

    d is the Levenshtein distance: the least number of segments to insert, delete or rename so that
    the names of the K′ predicted segments become the names of the K true ones. The positions of
    boundaries do not matter. The score is in [0, 1], while papers print percent. It is 1 if neither
    labeling has a segment. It takes O(n + K K′) time.

    Parameters
    ----------
    labels_true, labels_pred : sequences of n labels in the order of time, or Partition
    ignore_label : hashable, optional
        Label of the background. Its segments are ignored in both labelings.

    Returns
    -------
    float in [0, 1]

    Raises
    ------
    ValueError
        If there are no samples, the labelings differ in length, or a parameter is out of range.

    References
    ----------
    C. Lea, A. Reiter, R. Vidal and G. D. Hager, "Segmental spatiotemporal CNNs for fine-grained
    action segmentation", ECCV 2016.
    """
    return runs_edit_score(*_named(labels_true, labels_pred, ignore_label))


def runs_edit_score(of_true: Runs, of_pred: Runs) -> float:
    """Compute :func:`edit_score` of segments whose states are numbered, in O(K K′) time.

    Both labelings use the same number for the same state. Segments with the number −1 are ignored.
    """
    true, pred = (names[names >= 0] for _, names in (of_true, of_pred))
    steps = np.arange(len(pred) + 1)
    distances = steps  # from an empty list to the first l predicted names
    for name in true:
        changed = distances + 1
        changed[1:] = np.minimum(changed[1:], distances[:-1] + (pred != name))
        # insertions, one after the other: min over l' <= l of changed[l'] + l - l'
        distances = np.minimum.accumulate(changed - steps) + steps
    longest = max(len(true), len(pred))
    return 1.0 - int(distances[-1]) / longest if longest else 1.0


@needs
def state_matching_score(
    labels_true: Labels,
    labels_pred: Labels,
    *,
    delay: Annotated[float, Real()] = 0.1,
    transition: Annotated[float, Real()] = 0.3,
    missing: Annotated[float, Real()] = 0.5,
    isolation: Annotated[float, Real()] = 0.8,
) -> float:
    """State matching score 1 − Σ_E (1 + penalty of E) |E| / n over error stretches E, in [−1, 1].

    Predicted states are first matched with true states, whatever their names are. An error stretch
    is a maximal run of wrong samples within one predicted segment. Its penalty is

    * ``delay``, if it is in one true segment and is only a part of a predicted segment,
    * ``isolation`` · 2d/n, if it is in one true segment and is a whole predicted segment,
    * ``transition`` · 2d/n, if it is in two true segments,
    * ``missing`` · (1 + 3 (missing − 1) / m), if it is in m > 2 true segments,

    where d is the distance of the middle of E from the nearest true change-point, or from 0 or n if
    one of these is nearer. The score is 1 for equal partitions only. It takes O(n) time for labels,
    and at most O(K³) for the matching.

    Parameters
    ----------
    labels_true, labels_pred : sequences of n labels in the order of time, or Partition
    delay, transition, missing, isolation : float in [0, 1]
        Extra weight of each kind of error.

    Returns
    -------
    float in [−1, 1]

    Raises
    ------
    ValueError
        If there are no samples, the labelings differ in length, or a parameter is out of range.

    References
    ----------
    F. Chavelli, "tsseg-eval", version 0.1.4, on the Python Package Index, 2025.
    """
    (true, true_names), (pred, pred_names) = _matched(runs(labels_true), runs(labels_pred))
    rows, columns, counts = true.intersections(pred)
    wrong = true_names[rows] != pred_names[columns]
    # a stretch begins where the piece before is right or in another predicted segment
    opens = wrong.copy()
    opens[1:] &= ~(wrong[:-1] & (columns[1:] == columns[:-1]))
    if not opens.any():
        return 1.0
    stretch, firsts = np.cumsum(opens)[wrong] - 1, np.flatnonzero(opens)
    n_segments, sizes = np.bincount(stretch), np.bincount(stretch, counts[wrong])
    middles = (np.cumsum(counts) - counts)[firsts] + (sizes - 1.0) / 2.0
    places = np.append(0, true.change_points)
    after = np.searchsorted(places, middles)
    gaps = np.minimum(places[after] - middles, np.abs(middles - places[np.maximum(after - 1, 0)]))
    alone = sizes == pred.sizes[columns[firsts]]
    kinds = [(n_segments == 1) & ~alone, n_segments == 1, n_segments == 2]
    nearness = 2.0 * gaps / true.n_samples
    penalties = [np.full(len(sizes), delay), isolation * nearness, transition * nearness]
    several = missing * (1.0 + 3.0 * (missing - 1.0) / n_segments)
    return 1.0 - float(sizes @ (1.0 + np.select(kinds, penalties, several))) / true.n_samples


@needs
def weighted_adjusted_rand_score(
    labels_true: Labels, labels_pred: Labels, *, slope: Annotated[float, Real(0, 1e9)] = 0.1
) -> float:
    """Adjusted Rand index in which errors near true boundaries have less weight.

    The weight of a sample is 1 + slope·d, where d is its distance from the first or the last sample
    of its true segment, whichever is nearer. The formula is the same as for
    :func:`adjusted_rand_score`, with weighted pairs. As in tsseg-eval, the four sums over pairs are
    truncated to integers. The value is at most 1, exactly 1 for equal partitions, and near 0 for
    random labels. It takes O(n log n) time.

    Parameters
    ----------
    labels_true, labels_pred : sequences of n labels in the order of time, or Partition
    slope : float ≥ 0
        How much the weight of a sample grows if d grows by 1.

    Returns
    -------
    float, at most 1

    Raises
    ------
    ValueError
        If there are no samples, the labelings differ in length, or a parameter is out of range.

    References
    ----------
    F. Chavelli, "tsseg-eval", version 0.1.4, on the Python Package Index, 2025.
    """
    table, weight = _weighted_table(labels_true, labels_pred, slope)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    squares = np.sum(table.data**2)
    pred_only, true_only = (table @ columns).sum() - squares, (table.T @ rows).sum() - squares
    sums = squares - weight, true_only, pred_only, weight**2 - pred_only - true_only - squares
    return corrected_for_chance(*map(int, sums))


@needs
def weighted_normalized_mutual_info_score(
    labels_true: Labels, labels_pred: Labels, *, slope: Annotated[float, Real(0, 1e9)] = 0.1
) -> float:
    """Mutual information of weighted samples, divided by the mean of the two unweighted entropies.

    Samples have the weights of :func:`weighted_adjusted_rand_score`. The value is at least 0. As in
    tsseg-eval, the entropies ignore the weights. Therefore the value can be below 1 for equal
    partitions if their segments differ in length (.72 for lengths 50 and 10). If both partitions
    have one cluster, the value is 1. It takes O(n log n) time.

    Parameters
    ----------
    labels_true, labels_pred : sequences of n labels in the order of time, or Partition
    slope : float ≥ 0
        How much the weight of a sample grows if d grows by 1.

    Returns
    -------
    float ≥ 0

    Raises
    ------
    ValueError
        If there are no samples, the labelings differ in length, or a parameter is out of range.

    See Also
    --------
    weighted_adjusted_rand_score : uses the same weights, and gives the reference.
    """
    from sklearn.metrics import mutual_info_score

    table, _ = _weighted_table(labels_true, labels_pred, slope)
    if table.shape == (1, 1):
        return 1.0
    information = float(mutual_info_score(None, None, contingency=table))
    mean = (entropy(labels_true) + entropy(labels_pred)) / 2.0
    return information / mean if information else 0.0


def runs(labels: Labels, ignore_label: Hashable = None) -> Runs:
    """Return the segments of a labeling, and the number of the state of each segment.

    States are numbered in sorted order. Segments labeled ``ignore_label`` get the number −1.
    """
    if isinstance(labels, Partition):
        ignores_nothing(ignore_label)
        if labels.contiguous:
            return labels, np.arange(labels.n_clusters)
    values = label_values(labels)
    ordered = values.dtype != object
    codes = np.unique(values, return_inverse=True)[1] if ordered else factorize(values)
    return _runs(np.where(differs(values, ignore_label), codes, -1))


def _named(labels_true: Labels, labels_pred: Labels, ignore_label: Hashable) -> tuple[Runs, Runs]:
    """Return the runs of both labelings, with the same number for the same state.

    Segments labeled ``ignore_label`` get the number −1.
    """
    if isinstance(labels_true, Partition) or isinstance(labels_pred, Partition):
        return _matched(runs(labels_true, ignore_label), runs(labels_pred, ignore_label))
    true, pred = label_arrays(labels_true, labels_pred)
    both = label_values([*true.tolist(), *pred.tolist()])
    codes = np.where(differs(both, ignore_label), factorize(both), -1)
    return _runs(codes[: len(true)]), _runs(codes[len(true) :])


def _runs(codes: NDArray[np.int64]) -> Runs:
    """Return the segments of an array of state numbers, and the state number of each segment."""
    segments = Partition.from_runs(codes)
    return segments, codes[segments.change_points - 1]


def _matched(true: Runs, pred: Runs) -> tuple[Runs, Runs]:
    """Match predicted states with true states one to one so that the overlap is largest.

    Every predicted state gets the number of its true state, or a new number if it is not matched.
    """
    (segments, names), (others, old) = true, pred
    rows, columns, counts = segments.intersections(others)
    n_true = int(names.max()) + 1
    overlaps = np.zeros((int(old.max()) + 1, n_true), dtype=np.int64)
    np.add.at(overlaps, (old[columns], names[rows]), counts)
    new = n_true + np.arange(len(overlaps))
    matched, partners = assignment(overlaps)
    new[matched] = partners
    return true, (others, new[old])


def _weighted_table(
    labels_true: Labels, labels_pred: Labels, slope: float
) -> tuple[csr_array, float]:
    """Compute the weighted contingency table of the states, and the weight of all samples."""
    from scipy.sparse import coo_array

    label_arrays(labels_true, labels_pred)  # raises unless they have one length
    sides = runs(labels_true), runs(labels_pred)
    true, pred = (np.repeat(names, segments.sizes) for segments, names in sides)
    ends, sizes = sides[0][0].change_points, sides[0][0].sizes
    samples = np.arange(len(true))
    last, first = np.repeat(ends - 1, sizes), np.repeat(ends - sizes, sizes)
    weights = 1.0 + slope * np.minimum(samples - first, last - samples)
    return coo_array((weights, (true, pred))).tocsr(), float(weights.sum())
