"""Differences of windows against their definition."""

import numpy as np
import pytest

from metriclearn.views import BoundaryFeatures


@pytest.mark.parametrize("h", [1, 3, 7, 19, 20, 50])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_windows_by_their_definition(h, offset) -> None:
    rng = np.random.default_rng(h)
    X = rng.normal(size=(20, 3)) * [1.0, 5.0, 0.1] + offset
    (rows,) = BoundaryFeatures((h,), ("mean", "deviation")).transform([X])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    assert rows.shape == (21, 2)
    assert np.abs(rows[[0, -1]]).max() == 0.0
    for t in range(1, 20):
        left, right = Z[max(0, t - h) : t], Z[t : t + h]
        n = 1.0 / (1.0 / len(left) + 1.0 / len(right))
        mean = np.sqrt(n * np.mean((right.mean(axis=0) - left.mean(axis=0)) ** 2))
        variances = [
            (np.sum((side - side.mean(axis=0)) ** 2, axis=0) + 1.0) / (len(side) + 1.0)
            for side in (left, right)
        ]
        deviation = np.sqrt(np.mean((0.5 * np.log(variances[1] / variances[0])) ** 2))
        np.testing.assert_allclose(rows[t], [mean, deviation], atol=1e-6)


def test_constants_and_sequences_of_one_sample() -> None:
    constant, single = BoundaryFeatures().transform([np.ones((5, 2)), np.ones((1, 2))])
    assert np.abs(constant).max() == 0.0
    assert single.shape == (2, 2)


@pytest.mark.parametrize("unit", ["sequence", "data"])
def test_numbers_whose_squares_overflow_are_refused(unit) -> None:
    X = np.array([[1e160], [-1e160], [0.0]])
    with pytest.raises(ValueError, match="BoundaryFeatures needs squared distances below 1e300"):
        BoundaryFeatures(unit=unit).transform([X])
    assert np.isfinite(BoundaryFeatures(unit=unit).transform([X * 1e-20])[0]).all()
