import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import hermite
from sklearn.base import clone

from metriclearn.views.hermite import (
    HermiteMoments,
    SlidingMoments,
    SoftThresholds,
    hermite_functions,
    noise_scale,
    robust_scale,
)
from metriclearn.views.sequence import SEQUENCE_FEATURES, SequenceFeatures


def test_orthonormal_by_quadrature_up_to_order_50() -> None:
    # Gauss–Hermite with 64 nodes is exact for polynomials times e^{-x²} up to degree 127
    nodes, weights = hermite.hermgauss(64)
    functions = hermite_functions(nodes, 51) * np.exp(0.5 * nodes**2)[:, None]
    gram = functions.T @ (functions * weights[:, None])
    np.testing.assert_allclose(gram, np.eye(51), atol=1e-8)


def test_against_polynomials() -> None:
    x = np.linspace(-6, 6, 41)
    orthonormal = hermite_functions(x, 13)
    for i in range(13):
        constant = math.sqrt(2.0**i * math.factorial(i) * math.sqrt(math.pi))
        expected = hermite.hermval(x, np.eye(13)[i]) * np.exp(-x * x / 2) / constant
        np.testing.assert_allclose(orthonormal[:, i], expected, atol=1e-13)


@settings(deadline=None, max_examples=60)
@given(st.floats(-1.7e308, 1.7e308, allow_nan=False), st.integers(1, 400))
def test_finite_and_bounded_everywhere(x: float, n: int) -> None:
    functions = hermite_functions(np.array([x, -x]), n)
    assert np.isfinite(functions).all()
    signs = (-1.0) ** np.arange(n)
    np.testing.assert_allclose(functions[1], signs * functions[0], rtol=1e-12)
    # Cramér's bound, π^(−1/4) times 1.086435
    assert np.abs(functions).max() <= 1.0865 * math.pi**-0.25


def test_high_order_where_its_start_underflows() -> None:
    # e^{−x²/2} is 0 in floating point at x = 44, but h_1000 oscillates there, up to √2001
    x = np.array([44.0, 43.0, 20.0])
    functions = hermite_functions(x, 1003)
    assert functions[0, 0] == 0.0
    assert np.abs(functions[0, 1000]) > 1e-3
    # x h_n = √(n/2) h_{n−1} + √((n+1)/2) h_{n+1}
    n = np.arange(900, 1001)
    right = np.sqrt(n / 2) * functions[:, n - 1] + np.sqrt((n + 1) / 2) * functions[:, n + 1]
    np.testing.assert_allclose(x[:, None] * functions[:, n], right, atol=1e-10)


def test_scales_of_gaussian_noise_with_and_without_changes() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, [2.0, 0.1], (20001, 2))
    stepped = noise + np.repeat([0, 50.0, -20.0], 6667)[:, None]
    np.testing.assert_allclose(robust_scale(noise), [2.0, 0.1], rtol=0.03)
    np.testing.assert_allclose(noise_scale(noise), [2.0, 0.1], rtol=0.03)
    np.testing.assert_allclose(noise_scale(stepped), [2.0, 0.1], rtol=0.03)
    np.testing.assert_array_equal(noise_scale(noise[:1]), [0, 0])


def test_columns_names_and_values() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(3, 2, (50, 2)), columns=["a", "b"])
    moments = HermiteMoments(4, scale="robust", width=2.0).set_output(transform="pandas")
    found = moments.fit_transform(frame)
    assert list(found.columns)[:5] == [*(f"hermite{i}_a" for i in range(1, 5)), "hermite1_b"]
    values = frame["b"].to_numpy()
    u = (values - np.median(values)) / (2 * robust_scale(values[:, None])[0])
    np.testing.assert_allclose(found["hermite3_b"], hermite_functions(u, 4)[:, 3])
    assert clone(moments).get_params() == moments.get_params()


def test_fixed_scale_is_not_centered_and_constants_are_finite() -> None:
    X = np.full((5, 1), 2.0)
    np.testing.assert_allclose(
        HermiteMoments(2, scale=4.0).fit_transform(X), hermite_functions(np.full(5, 0.5), 3)[:, 1:]
    )
    np.testing.assert_allclose(
        HermiteMoments(2).fit_transform(X), hermite_functions(np.zeros(5), 3)[:, 1:]
    )
    mostly = np.array([[0.0]] * 8 + [[3.0]] * 2)  # both medians of deviations are 0
    found = HermiteMoments(1).fit_transform(mostly)[:, 0]
    np.testing.assert_allclose(found[-1], hermite_functions(np.array([3 / 1.2]), 2)[0, 1])


def test_sliding_median_by_hand() -> None:
    X = np.array([[0.0], [9], [0], [1], [1], [7], [1]])
    found = SlidingMoments(3).fit_transform(X)
    np.testing.assert_array_equal(found[:, 0], [0, 0, 1, 1, 1, 1, 1])
    assert SlidingMoments(5).fit(X).get_feature_names_out().tolist() == ["median5_x0"]
    # an offset in one column leaves the other alone
    both = SlidingMoments(3).fit_transform(np.hstack([X, X + 5]))
    np.testing.assert_array_equal(both[:, 1] - 5, both[:, 0])
    X = np.random.default_rng(4).normal(7, 3, (501, 1))  # units of the noise before smoothing
    found, smooth = (SlidingMoments(3, scale=s).fit_transform(X) for s in ("noise", None))
    np.testing.assert_allclose(found, (smooth - np.median(smooth)) / noise_scale(X))


def test_soft_thresholds_by_hand() -> None:
    X = np.array([[-3.0, 0.5], [1.0, 2.5], [0.0, -1.0]])
    view = SoftThresholds((0, 2))
    found = view.fit_transform(X)
    np.testing.assert_array_equal(found, [[-3, -1, 0.5, 0], [1, 0, 2.5, 0.5], [0, 0, -1, 0]])
    names = ["above0_a", "above2_a", "above0_b", "above2_b"]
    assert view.get_feature_names_out(["a", "b"]).tolist() == names
    X = np.array([[1.0], [1 + 1e-9], [-3.0], [1 + 2 * np.expm1(9.0)], [1e50]])
    found = SoftThresholds((1,), saturation=2.0).fit_transform(X)[:, 0]
    np.testing.assert_allclose(found[:4], [0, 1e-9, -2 * np.log(2), 18], rtol=1e-6)
    assert found[4] < 250  # the excess grows as its logarithm


UNITS = [2.0**-1000, 1e-300, 1e-9, 1.0, 1e150, 2.0**1000]


@pytest.mark.parametrize(
    "view",
    [
        HermiteMoments(50),
        HermiteMoments(50, "noise"),
        HermiteMoments(5, "standard", width=2.0),
        SlidingMoments(5, "noise"),
    ],
    ids=["robust", "noise", "standard", "sliding"],
)
def test_every_series_has_its_own_unit_however_large_or_small(view) -> None:
    X = np.random.default_rng(3).normal(size=(60, 2))
    expected = view.fit_transform(X)
    assert np.isfinite(expected).all()
    for rows in view.transform([unit * X for unit in UNITS]):
        np.testing.assert_allclose(rows, expected, rtol=1e-9)
    np.testing.assert_allclose(view.transform(100 + 7 * X), expected, atol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", ["robust", "noise", "standard", 2.0])
def test_odd_series_give_finite_moments_up_to_order_50(scale) -> None:
    odd = [
        [[3.0]],
        [[1.0], [2.0]],
        [[7.0]] * 5,
        [[1e308]] * 5,
        [[1e308], [1.0], [2.0], [3.0]],
        [[5e-324], [0.0], [1e-323]],
        [[0.0]] * 4,
    ]
    for X in odd:
        found = HermiteMoments(50, scale).fit_transform(X)
        assert found.shape == (len(X), 50)
        assert np.isfinite(found).all()


def test_features_of_the_samples_before_every_position() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 5.0, 0.1] + 7.0
    feature = SequenceFeatures(tuple(SEQUENCE_FEATURES), window=8)
    (rows,), whole = feature.transform([X]), SequenceFeatures(tuple(SEQUENCE_FEATURES))
    expected = whole.transform([X[max(0, t - 8) : max(t, 1)] for t in range(61)])
    np.testing.assert_allclose(rows, expected, rtol=1e-12)
    assert (feature.reach, whole.reach) == ((8, 0), None)
    assert len(SequenceFeatures(window=99).transform([X[:1]])[0]) == 2
