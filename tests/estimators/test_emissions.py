"""Scores of names by discriminant analysis, against scikit-learn."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from metriclearn.estimators.scores.name_weights import discriminant


@pytest.mark.parametrize("names", ["ab", "abc", "abbbbbb"])
def test_probabilities_are_those_of_scikit_learn(names: str) -> None:
    rng = np.random.default_rng(0)
    given = np.repeat([*names], rng.integers(3, 9, len(names)))
    rows = rng.normal(size=(len(given), 4)) + (given == "b")[:, None]
    weights, offsets = discriminant(rows, given)
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(rows, given)
    ours = softmax(rows @ weights.T + offsets, axis=1)
    np.testing.assert_allclose(ours, model.predict_proba(rows), rtol=1e-9)


@pytest.mark.parametrize("n", [2, 3])
def test_a_name_with_a_single_row_changes_no_digit_and_warns_of_nothing(n: int) -> None:
    rng = np.random.default_rng(1)
    names = np.append(np.arange(20) % (n - 1), n - 1)
    rows = rng.normal(size=(21, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weights, offsets = discriminant(rows, names)
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    with pytest.warns(UserWarning, match="Only one sample"):
        model.fit(rows, names)
    np.testing.assert_array_equal(weights[-len(model.coef_) :], model.coef_)
    np.testing.assert_array_equal(offsets[-len(model.intercept_) :], model.intercept_)
