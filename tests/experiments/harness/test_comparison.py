"""The choice of hyper-parameters and the evaluation, against what can be worked out by hand."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import pytest
from omegaconf import OmegaConf
from sklearn.linear_model import LogisticRegression

from experiments.harness.cases import case_of, group_cases, group_folds
from experiments.harness.choosing import choose, compare
from experiments.harness.committed import KEY
from experiments.harness.comparison import Comparison, with_tuned_penalty
from experiments.harness.finished_fits import FinishedFits
from experiments.harness.procedure import Method, Outcome
from experiments.harness.scoring import sequence_losses
from experiments.harness.wording import headline
from experiments.studies.fewer_labels import counts
from metriclearn.baselines import EqualCuts, Euclidean, TunedSegmenter
from metriclearn.datasets import LabeledSequences
from metriclearn.estimators import Viterbi
from metriclearn.estimators.scores.segment_score import SegmentScore
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.views import Posteriors
from tests.experiments.command import outcomes_of


class Fixed(MahalanobisSegmenter):
    """Ignores the data; ``metrics`` and ``fits`` are seen by the tests."""

    fits: list[tuple[float, int]] = []  # noqa: RUF012

    def __init__(self, weight: float = 1.0, penalty: float = 1.0) -> None:
        self.weight, self.penalty = weight, penalty

    def fit(self, X: Any, y: Any) -> Self:
        self.fits.append((self.penalty, len(X)))
        self.n_features_in_ = X[0].shape[1]
        self.n_segments, self.min_size = None, 1
        self.score_ = SegmentScore(self.weight * np.eye(self.n_features_in_), self.penalty)
        return self


def steps(n_sequences: int = 6, groups: list[str] | None = None) -> LabeledSequences:
    """One feature: 0 for 10 samples, 1 for 10, 0 for 10; three segments cost 20/3 less than one."""
    labels = np.repeat([0, 1, 2], 10)
    names = [f"s{i}" for i in range(n_sequences)]
    noise = np.random.default_rng(0).normal(scale=1e-3, size=(n_sequences, 30, 1))
    return LabeledSequences(
        name="steps",
        sequences=list((labels == 1).astype(float)[:, None] + noise),
        labels=[labels] * n_sequences,
        groups=groups or names,
        names=names,
        feature_names=["x"],
    )


LEARNS = {"learns_penalty": True}


def test_loss_of_one_segment_where_there_are_three_is_two() -> None:
    # M projects on constants, inside the range of N: ‖M − N‖² = 3 − 1
    data = steps(2)
    model = Fixed(penalty=100.0).fit(data.sequences, data.labels)
    np.testing.assert_allclose(sequence_losses(model, data), [2.0, 2.0])
    np.testing.assert_allclose(sequence_losses(model, data, "given"), [0.0, 0.0], atol=1e-12)


def test_samples_that_nobody_labeled_cost_nothing() -> None:
    data = steps(1)
    unknown = replace(data, labels=[np.where(np.arange(30) // 5 % 2, -1, data.labels[0])])
    model = Fixed(penalty=100.0).fit(data.sequences, data.labels)
    # segments [0, 5), [10, 15) and [20, 25) are known: one change is missing in each gap
    np.testing.assert_allclose(sequence_losses(model, unknown), [2.0])
    assert np.ravel(counts(model, unknown)).tolist() == [3, 3]
    model.score_ = model.score_.at(1.0)
    np.testing.assert_allclose(sequence_losses(model, unknown), [0.0], atol=1e-12)
    joined = replace(data, labels=[np.where(np.arange(30) < 8, -1, data.labels[0])])
    model.score_ = model.score_.at(100.0)  # of [8, 30) with three segments one is found
    np.testing.assert_allclose(sequence_losses(model, joined), [2.0])
    assert np.ravel(counts(model, joined)).tolist() == [1, 3]
    cuts = EqualCuts().fit(unknown.sequences, unknown.labels)
    assert sequence_losses(cuts, unknown).tolist() == pytest.approx([0.0])  # lengths from 5 to 12


def test_penalty_is_tuned_on_a_copy() -> None:
    data = steps()
    model = Fixed(penalty=100.0).fit(data.sequences, data.labels)
    tuned = with_tuned_penalty(model, data)
    assert model.penalty_ == 100.0
    # two more segments pay off while 2 · penalty < 20/3
    assert 0.0 < tuned.penalty_ < 10 / 3
    assert sequence_losses(tuned, data).max() == pytest.approx(0.0, abs=1e-12)
    baseline = TunedSegmenter(Euclidean(standardize=False)).fit(data.sequences, data.labels)
    assert tuned.penalty_ == pytest.approx(baseline.penalty_)
    model.score_ = SegmentScore(np.zeros((0, 1)), 100.0)  # a metric that is zero keeps its penalty
    assert with_tuned_penalty(model, data).penalty_ == 100.0


class InOneUnit(Comparison):
    relative = False


def test_choices_on_folds_fits_on_all_training_data_and_results_kept(tmp_path: Path) -> None:
    data = steps()
    train, test = data.select(range(4)), data.select([4, 5])
    case = case_of("only", train, test, [(np.array([0, 1, 2]), np.array([3]))])
    Fixed.fits.clear()
    grid = [{"penalty": penalty} for penalty in (100.0, 1.0, 50.0)]
    methods = [Method("fixed", Fixed(), grid)]
    (outcome,) = outcomes_of(InOneUnit, methods, [case], tmp_path)
    assert outcome.choices["estimated"].parameters == {"penalty": 1.0}
    assert outcome.choices["estimated"].losses == pytest.approx([0.0])
    assert outcome.models["estimated"].penalty_ == 1.0
    assert outcome.losses() == pytest.approx([0.0, 0.0])
    # the candidates on 3 sequences; then, once each, the choices of both columns on all 4
    fits = [(1.0, 3), (1.0, 4), (50.0, 3), (100.0, 3), (100.0, 4)]
    assert sorted(Fixed.fits) == fits
    (again,) = outcomes_of(InOneUnit, methods, [case], tmp_path)
    assert sorted(Fixed.fits) == fits  # read from disk
    assert again.losses() == pytest.approx(outcome.losses())
    other = replace(case, test=data.select([4]))
    outcomes_of(InOneUnit, methods, [other], tmp_path)
    assert len(Fixed.fits) == 2 * len(fits)  # other data


def test_choice_between_learned_and_tuned_penalty(tmp_path: Path) -> None:
    (case, *_) = group_cases(steps(), 2, False, 2, 0)
    methods = [
        Method("bad", Fixed(penalty=100.0), options=LEARNS),
        Method("good", Fixed(penalty=1.0), options=LEARNS),
        Method("fixed", Fixed(penalty=100.0)),
    ]
    bad, good, fixed = outcomes_of(Comparison, methods, [case], tmp_path)
    assert bad.choices["estimated"].option == "tuned"
    assert bad.losses() == pytest.approx([0.0, 0.0])
    assert good.choices["estimated"].option == "learned"
    assert good.models["estimated"].penalty_ == 1.0
    assert fixed.losses() == pytest.approx([0.0, 0.0])
    assert fixed.choices["estimated"].option == "relative"


def test_another_candidate_must_be_clearly_better_where_splits_overlap() -> None:
    @dataclass
    class Trial:
        losses: dict[str, dict[None, np.ndarray]]

    def chosen(gain: float) -> int:
        noise = np.array([0.0, 1.0, 2.0])
        losses = [noise + 1.0, noise[::-1] + 1.0 - gain]
        tried = [[Trial({"given": {None: np.array([v])}}) for v in row] for row in losses]
        return choose([{}, {"better": True}], tried, "given", overlap=0.5)[0]  # type: ignore

    # differences gain − 2, gain and gain + 2: deviation 2, error 2 √(1/3 + 1/2) = 1.83
    assert [chosen(gain) for gain in (0.5, 1.8, 1.9)] == [0, 0, 1]


def test_ours_is_the_chosen_candidate_if_no_method_has_this_name(tmp_path: Path) -> None:
    """Names are scored where a method knows names."""
    data = steps()
    named = replace(data, labels=[labels % 2 for labels in data.labels])
    (case, *_) = group_cases(named, 2, False, 2, 0)
    frames = Viterbi(Posteriors(LogisticRegression(), 1), penalty=1.0)
    methods = [
        Method("ours/bad", Fixed(), [{"penalty": 100.0}], {"columns": ("given", "estimated")}),
        Method("ours/good", Fixed(), [{"penalty": penalty} for penalty in (1.0, 100.0)]),
        Method("frames", frames, options={"columns": ("estimated",)}),
    ]
    outcomes = {o.name: o for o in outcomes_of(InOneUnit, methods, [case], tmp_path)}
    assert list(outcomes) == ["ours/bad", "ours/good", "frames", "ours"]
    assert outcomes["ours"].choices["estimated"].method == "ours/good"
    assert outcomes["ours"].models["estimated"] is outcomes["ours/good"].models["estimated"]
    assert outcomes["ours"].choices["given"].method == "ours/bad"  # the first of equals
    assert outcomes["ours"].losses() == pytest.approx([0.0, 0.0])
    for name in ("names_right", "named_edit_score", "named_segmental_f1@50"):
        assert outcomes["frames"].scores["estimated"][name].tolist() == [1.0, 1.0]
        assert name not in outcomes["ours"].scores["estimated"]


def test_the_picture_shows_the_baseline_that_the_headline_names(tmp_path, monkeypatch) -> None:
    """On the test data "single" is best, on data held out in training "many" is."""
    monkeypatch.setattr("experiments.harness.comparison.save_model", lambda *_: None)
    data = steps()
    train, test = data.select(range(4)), data.select([4, 5])
    test = replace(test, labels=[np.zeros(30, dtype=int)] * 2)
    case = case_of("only", train, test, [(np.array([0, 1, 2]), np.array([3]))])
    names = {"ours": 1.0, "many": 1.0, "single": 100.0}
    methods = [Method(name, Fixed(penalty=penalty)) for name, penalty in names.items()]
    config = OmegaConf.create({"dataset": None, "unit": "sequence", "name": "steps"})
    procedure = type(
        "Given", (InOneUnit,), {"methods": lambda _: methods, "cases": lambda _: [case]}
    )
    made = procedure(config)
    outcomes = compare(made, FinishedFits(tmp_path / "fits", {}), 1)
    story = made.story(outcomes, tmp_path)
    assert "for the best baseline, single, which is better" in headline(
        {**story.numbers, "name": "steps"}
    )
    for strip in story.artifacts.strips:
        assert list(strip.segmentations) == ["truth", "ours", "single"]
        assert strip.name.endswith("mean over all tests: ours 2.00, single 0)")
        assert list(strip.signal) == ["x"]


@pytest.mark.parametrize(("n_test", "sizes"), [(1, [1] * 5), (2, [2, 2, 1])])
def test_rotating_cases_test_every_group_once(n_test: int, sizes: list[int]) -> None:
    data = steps(10, [f"g{i // 2}" for i in range(10)])
    cases = group_cases(data, n_test, True, 3, 7)
    assert [len(set(case.test.groups)) for case in cases] == sizes
    assert set().union(*(case.test.groups for case in cases)) == set(data.groups)
    for case in cases:
        assert not set(case.train.groups) & set(case.test.groups)
        assert len(case.train) + len(case.test) == 10
        for rest, held_out in case.folds:
            assert not set(rest.groups) & set(held_out.groups)
    assert len(group_cases(data, n_test, False, 3, 7)) == 1


def test_folds_over_sequences_where_there_is_one_group() -> None:
    folds = group_folds(steps(3, ["a", "a", "a"]), 5)
    assert sorted(int(held[0]) for _, held in folds) == [0, 1, 2]


def test_too_few_groups_or_sequences_are_one_clear_error() -> None:
    with pytest.raises(ValueError, match=r"steps has 3 group\(s\), of which 3 cannot be held out"):
        group_cases(steps(3), 3, False, 2, 0)
    with pytest.raises(ValueError, match="2 or more training sequences to choose"):
        group_folds(steps(1), 2)


def test_the_default_is_told_only_where_it_was_fitted(monkeypatch) -> None:
    """The row "ours" may be one of the other methods, which was chosen."""
    monkeypatch.setattr("experiments.harness.comparison.default_losses", lambda: {"names": 1.0})
    plain = {"name": "ours", "estimator": {"_target_": "metriclearn.Segmenter"}}
    made = Comparison(OmegaConf.create({"methods": {"ours": plain}, "tiny": False}))
    case = case_of("only", steps(2), steps(2), [])
    for estimator, told in ((None, {}), (Fixed(), {KEY: {"names": 1.0}})):
        outcome = Outcome(Method("ours", estimator), case, {}, {}, {}, 0.0, 0.0)
        assert made.default([outcome]) == told


def test_interrupted_training_stops_the_comparison(tmp_path: Path) -> None:
    class Interrupted(Fixed):
        def fit(self, X: Any, y: Any) -> Self:
            super().fit(X, y)
            self.solution_ = SimpleNamespace(reason="interrupted")
            return self

    cases = group_cases(steps(), 2, False, 2, 0)
    with pytest.raises(KeyboardInterrupt):
        outcomes_of(Comparison, [Method("m", Interrupted())], cases, tmp_path)
