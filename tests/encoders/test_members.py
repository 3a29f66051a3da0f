"""Encoders among the members of a consensus."""

from functools import partial

import numpy as np
import pytest

import metriclearn as ml
from metriclearn.datasets import LabeledSequences, make_change_points

pytest.importorskip("torch")

from metriclearn.encoders import Encoder, WindowEncoder
from metriclearn.estimators import Member
from tests.test_readme import python_blocks

DATA = make_change_points(4, 60, 5, 2, (3, 4), random_state=0)
NEW = make_change_points(2, 60, 5, 2, (3, 4), random_state=1)


def test_members_share_a_network(tmp_path) -> None:
    """A view of several members is trained once per part, and follows a stream."""
    network = partial(WindowEncoder, n_outputs=2, width=4)
    view = Encoder(network, n_epochs=2, random_state=0, names=True, verbose=False)
    toward = ml.SquaredFrobenius(1.0, 1.0)
    heads = [ml.ChangePointMetricLearner(ml.FullMetric(), toward), ml.NamedSegmentLearner()]
    members = {f"head {i}": [Member("", head, view)] for i, head in enumerate(heads)}
    labels = [np.where(one % 2, "walk", "sit") for one in DATA.labels]
    segmenter = ml.Segmenter(members, n_folds=2, for_streams=True, verbose=False)
    segmenter.fit(DATA.sequences, labels)
    metric, names = segmenter.cross_fit_.views
    assert all(metric.fitted(k) is names.fitted(k) for k in range(3))
    expected = segmenter.predict_change_points(NEW.sequences[0])
    loaded = ml.load(ml.save(segmenter, tmp_path / "model.npz"))
    stream = loaded.stream()
    ends = [stream.push(rows).ends for rows in np.array_split(NEW.sequences[0], 7)]
    np.testing.assert_array_equal(np.concatenate([*ends, stream.finish().ends]), expected)


def test_code_of_the_page_of_encoders_gives_each_member_its_own_columns() -> None:
    """The network stands once, before raw signals of windows; other members see the features."""
    rng, activities = np.random.default_rng(0), [np.repeat([1, 5, 1, 6], 8)] * 4

    def load(_: str, **options: str) -> LabeledSequences:
        assert options == {"features": "both", "unlabeled": "keep", "labels": "activities"}
        rows = [rng.normal(size=(32, 186)) + one[:, None] for one in activities]
        users = [f"user{i}" for i in range(4)]
        columns = [f"column {i}" for i in range(186)]
        return LabeledSequences("hapt", rows, activities, users, users, columns)

    view = Encoder(partial(WindowEncoder, n_outputs=2, width=4), n_epochs=1, random_state=0)
    names = {"load_dataset": load, "learner": ml.ChangePointMetricLearner(view=view)}
    (block,) = [one for one in python_blocks("docs/encoders.md") if "default_members" in one]
    block = block.replace("n_test=6", "n_test=1").replace("Segmenter(members)", "Segmenter(few)")
    made, _, fitted = block.partition("segmenter =")
    exec(made, names)
    assert names["names"].tolist() == [1, 5, 6]
    names["few"] = {one: names["members"][one] for one in ("scaled, diagonal", "encoder")}
    exec(f"segmenter ={fitted}", names)
    seen = dict(zip(("features", "signals"), names["segmenter"].cross_fit_.models))
    assert {name: models[0].n_features_in_ for name, models in seen.items()} == {
        "features": 36,
        "signals": 150,
    }
