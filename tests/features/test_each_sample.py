"""EachSample: transformers of scikit-learn in pipelines over lists of sequences."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from metriclearn import ChangePointMetricLearner, EachSample
from metriclearn.datasets import make_change_points

DATA = make_change_points(4, 80, 5, 2, (2, 4), random_state=0)


def test_samples_of_all_sequences_are_transformed_alike() -> None:
    fitted = EachSample(PCA(3)).fit(DATA.sequences)
    expected = PCA(3).fit(np.vstack(DATA.sequences))
    for X, Z in zip(DATA.sequences, fitted.transform(DATA.sequences)):
        np.testing.assert_allclose(Z, expected.transform(X), atol=1e-12)
    np.testing.assert_array_equal(
        fitted.transform(DATA.sequences[0]), fitted.transform(DATA.sequences[:1])[0]
    )
    assert fitted.get_feature_names_out().tolist() == ["pca0", "pca1", "pca2"]


def test_scaling_in_a_pipeline_changes_no_segmentation() -> None:
    learner = ChangePointMetricLearner()
    pipeline = make_pipeline(EachSample(StandardScaler()), learner)
    pipeline.fit(DATA.sequences, DATA.labels)
    plain = ChangePointMetricLearner().fit(DATA.sequences, DATA.labels)
    score = pipeline.score(DATA.sequences, DATA.labels)
    assert score == pytest.approx(plain.score(DATA.sequences, DATA.labels))
    for one, other in zip(pipeline.predict(DATA.sequences), plain.predict(DATA.sequences)):
        np.testing.assert_array_equal(one, other)


def test_something_else_than_a_transformer_is_refused() -> None:
    with pytest.raises(ValueError, match="EachSample needs a transformer"):
        EachSample(3).fit(DATA.sequences)


def test_numbers_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="EachSample needs numbers up to"):
        EachSample(StandardScaler()).fit([X * 1e200 for X in DATA.sequences])
