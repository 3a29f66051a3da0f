"""Columns of recordings: a view of some of them, their scales, and those that are constant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.running.notes import note
from metriclearn.running.parameters import Whole
from metriclearn.views.plain import PlainView


@dataclass(eq=False, repr=False)
class Columns(PlainView):
    """Some of the columns: X[:, start:stop].

    Parameters
    ----------
    start, stop : int
        The first column, and the first column after the last one.

    Attributes
    ----------
    matrix_ : array (stop − start, P)
        The matrix W of the rows X Wᵀ.

    Raises
    ------
    ValueError
        If there are fewer columns than ``stop``, or ``start`` is not below ``stop``.

    See Also
    --------
    Union : columns of several views.

    Examples
    --------
    >>> import numpy as np
    >>> from metriclearn.views import Columns
    >>> Columns(1, 2).fit_transform([np.arange(6.0).reshape(2, 3)])[0].tolist()
    [[1.0], [4.0]]
    """

    start: Annotated[int, Whole(0)]
    stop: Annotated[int, Whole(1)]

    def fit(self, X: Any, y: Any = None, groups: ArrayLike | None = None) -> Self:
        """Check that the recordings have these columns."""
        n_columns = self.begin(X)[0].shape[1]
        if not self.start < self.stop <= n_columns:
            raise ValueError(
                f"Columns needs start < stop ≤ {n_columns} columns, got {self.start} and "
                f"{self.stop}."
            )
        self.matrix_ = np.eye(self.stop - self.start, n_columns, self.start)
        return self

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Return the columns of one recording."""
        return X[:, self.start : self.stop]


class Measures(NamedTuple):
    """The lengths of the data sets, (N,), and the scales of their features, (N, P).

    The magnitude of a feature is its largest absolute value in a data set, and the deviation is its
    standard deviation.
    """

    lengths: NDArray[np.int64]
    magnitudes: NDArray[np.float64]
    deviations: NDArray[np.float64]

    def pooled_deviation(self, who: str, weights: NDArray | None = None) -> NDArray[np.float64]:
        """Compute the standard deviation of each feature within data sets, (P,).

        Squared deviations from the mean of each data set are pooled over all samples. A feature
        that is constant in every data set gets the deviation ∞. Division by ∞ makes it 0.

        Parameters
        ----------
        who : str
            Name used in errors.
        weights : array (N,), optional
            Weights of the data sets; equal by default.

        Raises
        ------
        ValueError
            If all features are constant in every data set.
        """
        sizes = self.lengths * (1.0 if weights is None else weights)
        magnitude = self.magnitudes.max(axis=0)
        # Dividing by the unit keeps squares within range.
        unit = np.where(magnitude > 0, magnitude, 1.0)
        ratios = np.sqrt(np.average((self.deviations / unit) ** 2, axis=0, weights=sizes))
        varies = ratios > 1e-13
        if not varies.any():
            raise ValueError(
                f"{who} needs features that vary within some data set, but all {len(ratios)} are "
                f"constant in each, of {self.lengths.sum()} sample(s) together; pass other "
                "features."
            )
        return np.where(varies, ratios * unit, np.inf)

    def varying(self, estimator: Any) -> NDArray[np.bool_]:
        """Tell which features vary, (P,), and warn of the others.

        Raises
        ------
        ValueError
            If all features are constant, or if squares of the varying ones could not be added.
        """
        who = type(estimator).__name__
        deviations = self.pooled_deviation(who)
        varies = np.isfinite(deviations)
        check_range(who, "features with standard deviations", deviations[varies], 1e100)
        note_constant(estimator, varies)
        return varies


def measure(arrays: Iterable[NDArray]) -> Measures:
    """Measure the data sets in one pass, with one of them in memory at a time; O(Σ T_i P)."""
    rows = []
    for X in arrays:
        magnitude = np.maximum(np.max(X, axis=0), -np.min(X, axis=0))
        # Dividing by the unit keeps squares within range.
        unit = np.where(magnitude > 0, magnitude, 1.0)
        rows.append((len(X), magnitude, unit * np.std(X / unit, axis=0)))
    return Measures(*map(np.array, zip(*rows)))


def spread(components: NDArray, varies: NDArray) -> NDArray:
    """Extend components of the varying features, (r, Q), to components of all features, (r, P).

    ``varies`` (P,) is true for the features that vary. All other features get the weight 0.
    """
    whole = np.zeros((len(components), len(varies)))
    whole[:, varies] = components
    return whole


def check_range(who: str, what: str, values: NDArray, most: float) -> None:
    """Raise a ValueError unless all ``values`` are between 1/``most`` and ``most``.

    The squares of such values can be added without overflow.
    """
    if values.size and not 1.0 / most <= values.min() <= values.max() <= most:
        raise ValueError(
            f"{who} needs {what} between {1.0 / most:g} and {most:g}, whose squares can be added, "
            f"got {values.min():.3g} to {values.max():.3g}; change the unit."
        )


def note_constant(estimator: Any, varies: NDArray) -> None:
    """Warn that constant features (False in ``varies``, (P,)) get no weight, and name them."""
    constant = np.flatnonzero(~varies)
    if len(constant):
        named = getattr(estimator, "feature_names_in_", np.arange(len(varies)))[constant]
        note(
            f"{type(estimator).__name__} gives no weight to {len(constant)} feature(s) that are "
            f"constant in every data set ({', '.join(map(str, named[:5]))}"
            f"{', …' if len(constant) > 5 else ''}); remove them, or fit to data in which they "
            "vary."
        )
