"""GapSegmenter: a learner of change-points that leaves out unknown samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.data_sets import (
    DataSets,
    NamedColumns,
    check_features,
    keep_features,
    read_data_sets,
)
from metriclearn.estimators.labelings import list_labelings, read_labelings, sample_labels
from metriclearn.estimators.learners.equal_cuts import EqualCuts
from metriclearn.estimators.penalties.feature_penalty import FeaturePenalty
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.estimators.selection.consensus import Consensus
from metriclearn.problem.losses import KnownLoss
from metriclearn.problem.partition import Partition
from metriclearn.running.components import ComponentParameters
from metriclearn.running.parameters import Of, check_parameters, shown
from metriclearn.views.gaps import placed, placed_labels, restriction


@dataclass(eq=False, repr=False)
class GapSegmenter(ComponentParameters):
    """Segment sequences with unknown samples. A row with a NaN has the weight 0 in every sum.

    Let w_t ∈ {0, 1} be the weight of row t, B = LLᵀ the metric, and z_t = Lᵀx_t the mapped row. The
    value of a segment (s, u] is

        ‖Σ w_t z_t‖² / Σ w_t − λ,      t in (s, u],

    and the loss is ‖M − N‖² over the entries of known samples only. If a segment ends in a gap,
    neither the value nor the loss depends on the position of the end in the gap. A segment without
    a known sample has the value −λ. The best segmentation with these weights is the best
    segmentation of the known samples alone. Learning and prediction therefore leave unknown samples
    out, and are still exact. Gaps are not interpolated, and the lengths of gaps do not matter.

    A change within a gap of m unknown rows is placed in the middle of the gap, after ⌊m/2⌋ of these
    rows. Unknown rows at the beginning of a sequence belong to the first segment, and those at the
    end to the last segment. ``min_size`` counts known samples only.

    The labels of unknown rows can show a change within a gap. We move this change between the known
    rows around the gap. A segment without a known row is ignored. If a region of a partial label
    begins or ends in a gap, we keep only what the region implies with certainty for the known rows.
    If labels are names, only the names of known rows are used.

    Parameters
    ----------
    learner : segmenter that reads every sample independently of its neighbors
        A learner with a metric, ``NamedSegmentLearner(emissions=Neighbors(context=0))``,
        ``Consensus(names=False)`` or ``EqualCuts()``. A learner is refused if it would read across
        gaps: with an encoder, with neighbors in time, or with penalties that depend on features.
        For such a learner, fill the gaps by :func:`~metriclearn.regular`.

    Attributes
    ----------
    learner_ : fitted learner
        A copy of ``learner`` that was fitted to the known rows, which :meth:`known` returns.

    Raises
    ------
    ValueError
        For a learner that reads neighbors, for data sets without a known row, for labels that
        cannot be used, and for predictions before ``fit``.

    See Also
    --------
    regular : fills short gaps and cuts at long ones.

    References
    ----------
    Little & Rubin, Statistical Analysis with Missing Data, 3rd edition, 2019, section 3.2
    (complete cases).

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn import ChangePointMetricLearner, GapSegmenter
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(3, 100, 2, 2, (3, 4), noise=0.1, random_state=0)
    >>> X, first = data.sequences, data.sequences[0].copy()
    >>> first[20:30, 1] = np.nan
    >>> segmenter = GapSegmenter(ChangePointMetricLearner()).fit([first, *X[1:]], data.labels)
    >>> segmenter.predict(first).shape
    (100,)
    """

    learner: Annotated[
        Any, Of((MahalanobisSegmenter, Consensus, EqualCuts), "ChangePointMetricLearner()")
    ]

    def fit(self, X: Any, y: Any, **options: Any) -> Self:
        """Fit the learner to the known samples.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
            A row is unknown if one of its features is NaN or None.
        y : labels, change-points or partial labels of all T samples, for each sequence
        **options
            Further arguments of the learner's ``fit``, such as ``sample_weight`` or ``groups``.
        """
        check_parameters(self)
        if _reads_neighbors(self.learner):
            raise ValueError(
                "GapSegmenter needs a learner that reads every sample alone, got "
                f"{shown(self.learner)}, whose neighbors in time, encoder or features of the "
                "penalty would read across gaps; fill the gaps by metriclearn.regular, or change "
                "the learner (context=0, Consensus(names=False))."
            )
        data, rows = self._read(X)
        arrays, labels = self._restricted(data, rows, y)
        self.learner_ = clone(self.learner).fit(arrays, labels, **options)
        keep_features(self, data)
        return self

    def predict_change_points(self, X: Any, n_segments: Any = None) -> Any:
        """Return the ends of all segments, including T, as in ruptures.

        A change in a gap is placed in the middle of the gap.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
        """
        data, rows = self._fitted(X)
        found = self.learner_.predict_change_points(_tables(data, rows), n_segments)
        return data.as_passed(list(map(placed, found, rows, data.lengths)))

    def predict(self, X: Any, n_segments: Any = None) -> Any:
        """Predict the label of every sample, (T,), with the learner.

        An unknown row gets the label of its segment.

        Parameters
        ----------
        X : (T, P) array or sequence of such arrays
        n_segments : int or sequence of int, optional
        """
        data, rows = self._fitted(X)
        found = self.learner_.predict(_tables(data, rows), n_segments)
        return data.as_passed(list(map(placed_labels, found, rows, data.lengths)))

    def score(self, X: Any, y: Any) -> float:
        """Return minus the mean loss ℓ = ‖M − N‖²_F / T of all T samples. The best score is 0.

        The score can be compared with the score of a learner after the gaps have been filled. With
        partial labels, the loss is on the labeled parts only.
        """
        data, _ = self._fitted(X)
        truths = read_labelings("GapSegmenter", y, data, segments=True, partial=True)
        found = self.predict_change_points(X)
        pairs = zip([found] if data.single else found, truths)
        return -float(np.mean([KnownLoss()(Partition(ends=ends), truth) for ends, truth in pairs]))

    def known(self, X: Any, y: Any) -> tuple[list[Any], list[Any]]:
        """Return the known rows of all data sets, and their labels.

        Pass the result to other methods of ``learner_``, for example
        ``segmenter.learner_.tune_penalty(*segmenter.known(X, y))``.
        """
        return self._restricted(*self._fitted(X), y)

    def _fitted(self, X: Any) -> tuple[DataSets, list[NDArray[np.int64]]]:
        """Read and check data for predictions, and find the known rows."""
        check_is_fitted(self, "learner_")
        data, rows = self._read(X)
        return check_features(self, data), rows

    def _read(self, X: Any) -> tuple[DataSets, list[NDArray[np.int64]]]:
        """Read data sets, and find the indices of the known rows of each."""
        data = read_data_sets("GapSegmenter", X, missing=True)
        data = replace(data, arrays=list(data.arrays))
        rows = [np.flatnonzero(~np.isnan(array).any(axis=1)) for array in data.arrays]
        for i, (array, known) in enumerate(zip(data.arrays, rows)):
            if len(known) == 0:
                place = "the data set" if data.single else f"data set {i}"
                never = np.flatnonzero(np.isnan(array).all(axis=0))
                what = f"feature {never[0]} is NaN in every row" if len(never) else "each has a NaN"
                raise ValueError(
                    f"GapSegmenter needs a row without NaN, but in {place} {what}; leave "
                    f"{'such features' if len(never) else 'this data set'} out, or fill gaps of "
                    "single features by metriclearn.regular."
                )
        return data, rows

    def _restricted(
        self, data: DataSets, rows: list[NDArray[np.int64]], y: Any
    ) -> tuple[list[Any], list[Any]]:
        """Return the known rows and their labels."""
        truths = read_labelings("GapSegmenter", y, data, segments=True, partial=True)
        given = list_labelings("GapSegmenter", y, data)
        labels: list[Any] = [sample_labels(one, T) for one, T in zip(given, data.lengths)]
        if self._learns_names and all(one is not None for one in labels):
            return _tables(data, rows), [one[known] for one, known in zip(labels, rows)]
        return _tables(data, rows), list(map(restriction, truths, rows))

    @property
    def _learns_names(self) -> bool:
        named = hasattr(self.learner, "emissions")
        return named or getattr(self.learner, "names", False) is not False

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


def _reads_neighbors(learner: Any) -> bool:
    """Tell whether a learner reads neighboring samples to compute the features of a sample."""
    if isinstance(learner, Consensus):
        if learner.members is None:
            return learner.names is not False
        return any(_reads_neighbors(one) for family in learner.members.values() for one in family)
    parts = [learner, *learner.get_params(deep=True).values()]
    return any(
        isinstance(part, FeaturePenalty)
        or hasattr(part, "encoder")
        or getattr(part, "context", 0) != 0
        for part in parts
    )


def _tables(data: DataSets, rows: list[NDArray[np.int64]]) -> list[Any]:
    """Return the known rows of every data set, with the names of features if there are any."""
    arrays = [array[known] for array, known in zip(data.arrays, rows)]
    if data.feature_names is None:
        return arrays
    return [NamedColumns.of(array, data.feature_names) for array in arrays]
