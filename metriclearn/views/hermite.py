"""Hermite moments: features whose means distinguish distributions; smoothing and thresholds.

A change of the distribution of x changes the means of h_1(x), h_2(x), … (Lajugie, Arlot & Bach,
section 5.3). The means of powers of x change too, but powers are unbounded.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from metriclearn.running.parameters import Each, Needs, OneOf, Positive, Real, Whole, needs
from metriclearn.running.values import real_array
from metriclearn.views.plain import PlainView

_LARGE = 1e100  # the recurrence is rescaled beyond it
_FAR = 1e9  # beyond it, any function of an order below 1e17 is 0
_NORMAL = 0.6744897501960817  # median of |standard normal|

Scale = Literal["robust", "noise", "standard"]


@needs
def hermite_functions(x: ArrayLike, n_functions: Annotated[int, Whole(1)]) -> NDArray[np.float64]:
    """Compute the Hermite functions h_0 … h_{n−1} at x, shape (*x.shape, n), O(n) per value.

    h_i(x) = H_i(x) e^{−x²/2} / √(2^i i! √π) with the physicists' polynomials, so that
    ∫ h_i h_j = δ_ij. Section 5.3 of the paper has other constants and the probabilists'
    polynomials, which are not orthogonal. The three-term recurrence has a separate exponent, so
    intermediate values neither overflow nor underflow for large |x| and large i.

    Raises
    ------
    ValueError
        If ``n_functions`` is not positive, or x is not finite.
    """
    values: NDArray[np.float64] = real_array("hermite_functions", "x", x, None, allow=("empty",))
    x = np.clip(values, -_FAR, _FAR)
    functions = np.empty((*x.shape, n_functions))
    before, now = np.zeros_like(x), np.full_like(x, np.pi**-0.25)
    exponent = -0.5 * x * x
    for i in range(n_functions):
        with np.errstate(divide="ignore"):  # magnitudes are formed in logarithms
            magnitude = np.exp(np.log(np.abs(now)) + exponent)
        functions[..., i] = np.sign(now) * magnitude
        before, now = now, np.sqrt(2.0 / (i + 1)) * x * now - np.sqrt(i / (i + 1)) * before
        large = np.abs(now) > _LARGE
        before, now = np.where(large, before / _LARGE, before), np.where(large, now / _LARGE, now)
        exponent = exponent + np.where(large, np.log(_LARGE), 0.0)
    return functions


def robust_scale(X: NDArray) -> NDArray[np.float64]:
    """Compute the median absolute deviation of every column, times 1.4826, (T, P) -> (P,)."""
    return np.median(np.abs(X - np.median(X, axis=0)), axis=0) / _NORMAL


def noise_scale(X: NDArray) -> NDArray[np.float64]:
    """Estimate the sd of the noise around a piecewise constant signal, (T, P) -> (P,).

    The estimate is the scaled median absolute difference of neighboring samples, which a few
    changes hardly affect.
    """
    if len(X) < 2:
        return np.zeros(X.shape[1])
    return np.median(np.abs(np.diff(X, axis=0)), axis=0) / (_NORMAL * np.sqrt(2.0))


def binary_exponents(X: NDArray) -> NDArray[np.int64]:
    """Return the smallest e with |X| · 2^−e < 1 for every column, (T, P) -> (P,).

    Multiplying by 2^−e is exact, and keeps squares and differences of huge values in range.
    """
    return np.frexp(np.max(np.abs(X), axis=0))[1].astype(np.int64)


_SCALES = {"robust": robust_scale, "noise": noise_scale, "standard": lambda X: np.std(X, axis=0)}


def series_scale(X: NDArray, scale: Scale) -> NDArray[np.float64]:
    """Compute the scale σ of every column, (T, P) -> (P,). The scale is always positive.

    If more than half of the values in a column are equal, the chosen scale may be 0. Then σ is the
    "robust" scale or, if that is 0 as well, the "standard" one. A constant column has σ = 1.
    """
    sigma = _SCALES[scale](X)
    for other in ("robust", "standard"):
        sigma = np.where(sigma > 0, sigma, _SCALES[other](X))
    return np.where(sigma > 0, sigma, 1.0)


class _PerColumn(PlainView):
    """A view that computes n features of every column, (T, P) -> (T, P·n)."""

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray:
        """Return names such as ``hermite1_COLUMN``, ``hermite2_COLUMN``, …, column by column."""
        check_is_fitted(self)
        columns = _check_feature_names_in(self, input_features)
        names = self._names()
        return np.array([f"{name}_{column}" for column in columns for name in names], dtype=object)

    @abstractmethod
    def _names(self) -> list[str]:
        """Return the names of one column's features, without the name of the column."""


_ODD = Needs("an odd {name} of at least 1 sample", lambda n: Whole(1).accepts(n) and n % 2 == 1)


@dataclass(eq=False, repr=False)
class HermiteMoments(_PerColumn):
    """Hermite functions h_1 … h_n of every column, which is first standardized within its series.

    A column x becomes u = (x − median) / (width · σ), which gives the features h_1(u) … h_n(u).
    These are the "robust Hermite moments" of section 5.3. The features are bounded, however large x
    is. A constant column has u = 0, so its features are h_1(0) … h_n(0). A *full* metric that is
    learned on these features amounts to a learned nonlinear transformation of x. With the metric B
    = aaᵀ, for example, the segmented signal is Σ a_i h_i(u).

    Parameters
    ----------
    n_moments : int
        Number n of functions for each column.
    scale : "robust", "noise", "standard" or float > 0
        The scale σ. "robust" is 1.4826 · median absolute deviation. "noise" is 1.4826 · median
        absolute difference of neighboring samples / √2, which a few changes hardly affect.
        "standard" is the standard deviation. These three are computed for every column of every
        series. A number is a fixed σ in the unit of the data. With a fixed σ, the median is not
        subtracted.
    width : float > 0
        Factor of σ. Deviations that are larger than √(2n+1) · width · σ all have nearly the same
        features, because the functions fade to 0.

    Attributes
    ----------
    n_features_in_ : int
        Number P of columns. If the data have column names, ``feature_names_in_`` is also set.

    Raises
    ------
    ValueError
        For invalid parameters or data, and for ``transform`` before ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> moments = HermiteMoments(2).fit_transform(np.arange(5.0)[:, None])
    >>> moments.shape, float(moments[2, 0])
    ((5, 2), 0.0)
    """

    n_moments: Annotated[int, Whole(1)] = 5
    scale: Annotated[Scale | float, OneOf(*_SCALES, Positive())] = "robust"
    width: Annotated[float, Positive()] = 1.0

    def _names(self) -> list[str]:
        return [f"hermite{i}" for i in range(1, self.n_moments + 1)]

    @property
    def reach(self) -> tuple[int, int] | None:
        """A scale of the series depends on the whole recording, a fixed one on nothing."""
        return None if isinstance(self.scale, str) else (0, 0)

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the moments of one recording, (T, P·n)."""
        if isinstance(self.scale, str):
            X = np.ldexp(X, -binary_exponents(X))
            sigma, X = series_scale(X, self.scale), X - np.median(X, axis=0)
        else:
            sigma = np.full(X.shape[1], float(self.scale))
        with np.errstate(over="ignore"):  # all functions are 0 there
            U = np.clip(X / sigma / self.width, -_FAR, _FAR)
        functions = hermite_functions(U, self.n_moments + 1)[..., 1:]
        return functions.reshape(len(X), -1)


@dataclass(eq=False, repr=False)
class SlidingMoments(_PerColumn):
    """Moving median of every column, which removes single outliers.

    A column becomes its moving median over ``window`` samples. The first and the last sample are
    repeated beyond the ends. If ``scale`` is given, the median of the result is subtracted, and the
    difference is divided by the scale of the column *before* smoothing. The cost is O(T · window).

    Parameters
    ----------
    window : int
        Odd number of samples. At least 3 are needed to remove a single outlier, and at least 5 to
        remove two neighboring ones.
    scale : "robust", "noise", "standard" or None
        See :class:`HermiteMoments`. None keeps the units of the data.

    Raises
    ------
    ValueError
        For invalid parameters or data, and for ``transform`` before ``fit``.

    See Also
    --------
    HermiteMoments : bounded features of the smoothed columns.

    Examples
    --------
    >>> import numpy as np
    >>> SlidingMoments(3).fit_transform(np.array([[0.0], [0.0], [9.0], [0.0]]))[:, 0].tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    window: Annotated[int, _ODD] = 3
    scale: Annotated[Scale | None, OneOf(*_SCALES, None)] = None

    @property
    def reach(self) -> tuple[int, int] | None:
        """Half of the window, on both sides; with a scale, the whole recording."""
        half = self.window // 2
        return (half, half) if self.scale is None else None

    def _names(self) -> list[str]:
        return [f"median{self.window}"]

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Smooth one recording, (T, P)."""
        from scipy.ndimage import median_filter

        exponents = binary_exponents(X)
        X = np.ldexp(X, -exponents)
        smooth = median_filter(X, size=(self.window, 1), mode="nearest")
        if self.scale is None:
            return np.ldexp(smooth, exponents)
        return (smooth - np.median(smooth, axis=0)) / series_scale(X, self.scale)


@dataclass(eq=False, repr=False)
class SoftThresholds(_PerColumn):
    """Soft-thresholded columns sign(x) · (|x| − t)₊, for several thresholds t.

    Deviations below t, such as slow waves, vanish. A nonnegative combination of these features is a
    piecewise linear function of x that is steeper for larger |x|. A metric learned on these
    features thus weighs large but short changes against small but long ones.

    With a ``saturation`` s, the excess e = (|x| − t)₊ becomes s·log(1 + e/s). This is about e if e
    is much smaller than s, and grows only logarithmically beyond s. Far outliers and the largest
    changes therefore count less.

    Parameters
    ----------
    thresholds : sequence of float ≥ 0
        The thresholds, in units of x. The threshold 0 gives x itself.
    saturation : float > 0, optional
        The value s, in units of x. None means no saturation.

    Raises
    ------
    ValueError
        For invalid parameters or data, and for ``transform`` before ``fit``.

    See Also
    --------
    SlidingMoments : removes outliers first.

    Examples
    --------
    >>> import numpy as np
    >>> SoftThresholds((0.0, 2.0)).fit_transform(np.array([[1.0], [-5.0]])).tolist()
    [[1.0, 0.0], [-5.0, -3.0]]
    """

    thresholds: Annotated[
        Sequence[float], Each(Real(), "one or more {name} of at least 0", least=1)
    ] = (0.0, 1.0, 2.0, 4.0)
    saturation: Annotated[float | None, OneOf(None, Positive())] = None

    def _names(self) -> list[str]:
        return [f"above{t:g}" for t in self.thresholds]

    def rows(self, X: NDArray) -> NDArray[np.float64]:
        """Compute the thresholded columns of one recording, (T, P·thresholds)."""
        excess = np.maximum(np.abs(X)[..., None] - np.asarray(self.thresholds, dtype=float), 0.0)
        if self.saturation is not None:
            excess = self.saturation * np.log1p(excess / self.saturation)
        return (np.sign(X)[..., None] * excess).reshape(len(X), -1)
