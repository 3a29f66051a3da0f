"""Models that hold classifiers of scikit-learn: the same predictions, and no foreign memory."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metriclearn as ml
from metriclearn.estimators import Viterbi
from metriclearn.running import without_classifiers
from metriclearn.views import Posteriors
from tests.training import XS, YS

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
NAMES = [labels % 2 for labels in YS]
CLASSIFIERS = {
    "trees": RandomForestClassifier(5, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=3),
    "network": MLPClassifier((3,), max_iter=5, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_round_trip(name: str, tmp_path) -> None:
    emissions = ml.views.Posteriors(CLASSIFIERS[name], 1, n_folds=2)
    for learner in (
        Viterbi(Posteriors(CLASSIFIERS[name], 1)),
        ml.NamedSegmentLearner(emissions=emissions),
    ):
        learner.fit(XS, NAMES)
        loaded = ml.load(ml.save(learner, tmp_path / "model.npz"))
        for found, expected in zip(loaded.predict(XS), learner.predict(XS)):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["trees", "boosting"])
def test_trees_that_point_elsewhere_are_refused(kind: str, tmp_path) -> None:
    """Predictions follow a tree's indices without a check, so loading has to check them."""
    model = Viterbi(Posteriors(CLASSIFIERS[kind], 1)).fit(XS, NAMES)
    classifier = model.score_.view.models_[0]
    if kind == "trees":
        classifier.estimators_[0].tree_.feature[0] = 10**6
    else:
        classifier._predictors[0][0].nodes["left"][0] = 0
    path = ml.save(model, tmp_path / "model.npz")
    with pytest.raises(ValueError, match="found incomplete contents"):
        ml.load(path)


def test_a_model_is_described_without_reading_its_classifiers(tmp_path) -> None:
    """skops imports all of scikit-learn, which takes seconds."""
    frames = Viterbi(Posteriors(LogisticRegression(), 1), penalty=1.0)
    names = [np.array(["a", "b"])[labels] for labels in NAMES]
    model = ml.Segmenter({"frames": [frames]}, n_folds=2, verbose=False).fit(XS, names)
    path = model.save(tmp_path / "a.model")
    assert without_classifiers(path).summary() == ml.load(path).summary() == model.summary()
    code = (
        "import sys; from metriclearn.apps.console.commands import main; "
        f"assert main(['info', {str(path)!r}]) == 0; assert 'skops' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "a, b" in done.stdout
