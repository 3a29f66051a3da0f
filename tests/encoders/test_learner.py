"""Encoder, a trained network as a view: repeatability, kill -9, files, and what it refuses."""

import os
import pickle
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone

import metriclearn as ml
from metriclearn.datasets import make_change_points
from metriclearn.problem.named_segments import NamedPartition
from metriclearn.problem.partition import Partition
from metriclearn.running.callbacks import Callback
from metriclearn.views import Labels
from tests.processes import kill_after_writing

torch = pytest.importorskip("torch")

from metriclearn.encoders import (  # noqa: E402
    Encoder,
    Ensemble,
    FrozenEncoder,
    FrozenFeatures,
    Noise,
    Normalized,
    Recording,
    Rotation,
    Scaling,
    TemporalConvolution,
    TimeReversal,
    WindowEncoder,
    export_onnx,
)

DATA = make_change_points(5, 60, 6, 2, (3, 5), noise=1.0, jump=1.5, random_state=0)
LENGTHS = (60, 45, 60, 52, 38)
XS = [X[:T] for X, T in zip(DATA.sequences, LENGTHS)]
YS = [y[:T] for y, T in zip(DATA.labels, LENGTHS)]
SMALL = partial(TemporalConvolution, n_channels=2, width=4, n_outputs=3, n_blocks=1, kernel_size=3)


NAMED = ml.NamedSegmentLearner(
    ml.FullMetric(), ml.SquaredFrobenius(0.1), emissions=ml.views.Neighbors(0), standardize=False
)
PLAIN = ml.ChangePointMetricLearner(
    ml.FullMetric(), ml.SquaredFrobenius(1.0, 1.0), standardize=False, retune=True, verbose=False
)


def learner(network: Any = SMALL, last: Any = PLAIN, **options: Any) -> Any:
    """A learner behind an Encoder."""
    defaults: dict[str, Any] = {"n_epochs": 3, "batch_size": 2, "random_state": 0, "verbose": False}
    names = isinstance(last, ml.NamedSegmentLearner)
    view = Encoder(network, **{**defaults, "names": names, **options})
    return clone(last).set_params(view=view, n_segments=view.n_segments)


def encoder_of(fitted: Any) -> Any:
    return fitted.score_.view


def test_repeatable_and_like_an_estimator() -> None:
    torch.set_num_threads(1)
    state = torch.random.get_rng_state()
    first = learner(augmentations=[Noise(0.1)]).fit(XS, YS)
    assert torch.equal(torch.random.get_rng_state(), state)
    again = clone(first).fit(XS, YS)
    assert encoder_of(first).weights_.tobytes() == encoder_of(again).weights_.tobytes()
    np.testing.assert_array_equal(first.components_, again.components_)
    other = clone(first).set_params(view__random_state=1, regularizer__strength=0.1)
    assert encoder_of(other.fit(XS, YS)).weights_.tobytes() != encoder_of(first).weights_.tobytes()
    assert first.regularizer.strength == 1.0
    features = first.transform(XS)
    assert [Z.shape for Z in features] == [(T, len(first.components_)) for T in LENGTHS]
    np.testing.assert_array_equal(first.predict(XS[0]), first.predict(XS)[0])
    assert [len(ends) for ends in first.predict_change_points(XS, 3)] == [3] * 5
    # the last layer is the linear learner of the encoder's outputs, with its certificate
    with torch.no_grad():
        outputs = [
            encoder_of(first).network_(torch.tensor(X[None]).float())[0].double().numpy()
            for X in XS
        ]
    linear = clone(first).set_params(view=None, retune=False).fit(outputs, YS)
    assert first.solution_.objective == pytest.approx(linear.solution_.objective, rel=1e-9)
    assert first.solution_.relative_gap <= first.solver.tolerance
    np.testing.assert_allclose(features[0], outputs[0] @ first.components_.T, atol=1e-9)


class WithZeros(torch.nn.Module):
    """An encoder of a user that makes a tensor without a device."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.inner = SMALL(n_features, dropout=0.0)

    def forward(self, X: Any) -> Any:
        return self.inner(X + torch.zeros(X.shape[2]))


def test_a_default_device_of_torch_changes_nothing() -> None:
    """A tensor on the device "meta" has no values, so any that is made there raises."""
    both = partial(Ensemble, encoder=WithZeros, n_encoders=2)
    expected = learner(both, validation=0.2).fit(XS, YS).transform(XS[0])
    with torch.device("meta"):
        found = learner(both, validation=0.2).fit(XS, YS).transform(XS[0])
    np.testing.assert_array_equal(found, expected)


def test_training_learns() -> None:
    fitted = learner(partial(WindowEncoder, width=8, n_outputs=3), n_epochs=15, learning_rate=0.02)
    fitted.fit(XS, YS)
    hinge = encoder_of(fitted).history_["hinge"]
    assert len(hinge) == encoder_of(fitted).best_epoch_ == 15
    assert hinge[-1] < 0.6 * hinge[0]
    assert fitted.score(XS, YS) > -0.02
    assert learner(n_segments="given").fit(XS, YS).penalty_ is None


def test_the_best_epoch_on_held_out_groups_is_kept() -> None:
    groups = ["a", "a", 1, "c", "c"]
    fitted = learner(n_epochs=8, validation=0.3, patience=2, learning_rate=0.02)
    fitted.fit(XS, YS, groups=groups)
    losses = encoder_of(fitted).history_["validation"]
    assert encoder_of(fitted).best_epoch_ == np.argmin(losses) + 1
    assert len(losses) in (8, encoder_of(fitted).best_epoch_ + 2)
    with pytest.raises(ValueError, match="a group to train on besides"):
        learner(validation=0.9).fit(XS, YS, groups=["a"] * 4 + ["b"])


def test_callbacks_see_epochs_and_stop_them() -> None:
    stopping = ml.running.EarlyStopping(XS, YS, patience=1, min_improvement=10.0)
    fitted = learner(n_epochs=9, callbacks=[stopping]).fit(XS, YS)
    (stopping,) = encoder_of(fitted).callbacks  # a view is copied with its callbacks
    assert len(encoder_of(fitted).history_["hinge"]) == stopping.rounds_[-1] == 2


def test_partial_labels_are_learned_from() -> None:
    """Scores of five seeds are −0.020 to −0.017; single segments score −0.051."""
    some = [np.where(np.arange(len(y)) % 9 < 6, y, -1) for y in YS]
    encoder = partial(WindowEncoder, width=8, n_outputs=3, dropout=0.0)
    fitted = learner(encoder, n_epochs=20, learning_rate=0.02).set_params(retune=False)
    assert fitted.fit(XS, some).score(XS, YS) > -0.03


@pytest.mark.parametrize("known", [1.0, 0.6])
def test_names_are_learned_with_the_encoder(known: float, tmp_path: Path) -> None:
    """Names differ in the means of two features, boundaries are where names change."""
    rng = np.random.default_rng(0)
    names = [np.repeat(rng.integers(0, 3, 6), rng.integers(5, 12, 6)) for _ in range(8)]
    means = np.array([[2.0, 0.0], [0.0, 2.0], [-2.0, -2.0]])
    sequences = [means[code] + rng.normal(size=(len(code), 2)) for code in names]
    words = np.array(["run", "sit", "walk"])
    labels: list[Any] = [words[code] for code in names]
    if known < 1.0:
        labels = [np.where(rng.random(len(code)) < known, code, -1) for code in names]
    encoder = partial(WindowEncoder, width=8, n_outputs=3, dropout=0.0)
    fitted = learner(encoder, n_epochs=10, learning_rate=0.02, last=NAMED, validation=0.2)
    fitted.fit(sequences[:6], labels[:6])
    expected = words if known == 1.0 else np.arange(3)
    np.testing.assert_array_equal(fitted.classes_, expected)
    found = fitted.predict(sequences[6:])
    right = np.mean(np.concatenate(found) == expected[np.concatenate(names[6:])])
    assert right > 0.9
    path = tmp_path / "model.npz"
    fitted.save(path)
    for one, other in zip(found, ml.load(path).predict(sequences[6:])):
        np.testing.assert_array_equal(one, other)


class Concatenated(torch.nn.Module):
    """What an Ensemble does, without being one."""

    forward = Ensemble.forward

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.encoders = torch.nn.ModuleList([SMALL(n_features) for _ in range(2)])


class Watching(Callback):
    """Keeps the scores of names of the last epoch."""

    def on_round(self, progress: Any) -> bool:
        self.coef = progress.estimator().name_weights_.coef
        return False


def test_scores_of_names_of_an_ensemble_are_the_mean_of_those_that_were_trained() -> None:
    """Its outputs are sums over √n, not over n."""
    scores = []
    for encoder in (partial(Ensemble, encoder=SMALL, n_encoders=2), Concatenated):
        fitted = learner(encoder, last=NAMED, callbacks=[Watching()], learning_rate=0.02)
        scores.append(encoder_of(fitted.fit(XS, YS)).callbacks[0].coef)
    ensemble, summed = scores
    np.testing.assert_allclose(ensemble[:, :-1], summed[:, :-1] / np.sqrt(2.0), rtol=1e-6)
    np.testing.assert_array_equal(ensemble[:, -1], summed[:, -1])
    assert np.abs(summed).max() > 1e-3


class Precise(torch.nn.Module):
    """An encoder of a user with outputs of double precision."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.inner = SMALL(n_features)

    def forward(self, X: Any) -> Any:
        return self.inner(X).double()


def test_outputs_of_double_precision_have_names_too() -> None:
    fitted = learner(Precise, last=NAMED, n_epochs=1).fit(XS, YS)
    expected = learner(last=NAMED, n_epochs=1).fit(XS, YS)
    np.testing.assert_allclose(fitted.transform(XS[0]), expected.transform(XS[0]), atol=1e-3)


def fit_and_keep(checkpoint: Path, out: Path) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    options = {"n_epochs": 8, "validation": 0.2, "patience": 8, "checkpoint": str(checkpoint)}
    fitted = learner(**options).fit(XS, YS)
    np.savez(
        out,
        weights=encoder_of(fitted).weights_,
        components=fitted.components_,
        **encoder_of(fitted).history_,
    )


def test_killed_and_resumed(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out.npz"
    assert kill_after_writing(state, 0.01, fit_and_keep, state, out)
    assert int(np.load(state)["epoch"]) < 8
    fit_and_keep(state, out)
    fit_and_keep(tmp_path / "whole", tmp_path / "expected.npz")
    expected, resumed = np.load(tmp_path / "expected.npz"), np.load(out)
    for name in expected:
        np.testing.assert_array_equal(resumed[name], expected[name], err_msg=name)
    same = {"n_epochs": 8, "validation": 0.2, "patience": 8, "checkpoint": str(state)}
    dropout = partial(SMALL, dropout=0.5)
    for other in ({"augmentations": [Noise()]}, {"network": dropout}):
        with pytest.raises(ValueError, match="other data, settings"):
            learner(**same, **other).fit(XS, YS)
    with pytest.raises(ValueError, match="other data, settings"):
        learner(**same).fit([2.0 * X for X in XS], YS)
    module, other = SMALL(6), str(tmp_path / "other")  # whose first weights any seed has
    learner(module, n_epochs=1, checkpoint=other).fit(XS, YS)
    for changed in ({"random_state": 1}, {"validation": 0.2}):
        with pytest.raises(ValueError, match="other data, settings"):
            learner(module, **{"n_epochs": 1, "checkpoint": other, **changed}).fit(XS, YS)
    named = {"n_epochs": 1, "checkpoint": str(tmp_path / "named"), "last": NAMED}
    learner(**named).fit(XS, YS)
    named["name_loss"] = 0.5
    with pytest.raises(ValueError, match="other data, settings"):
        learner(**named).fit(XS, YS)


class Doubled(torch.nn.Module):
    """An encoder of a user."""

    def __init__(self, n_features: int, inner: Any) -> None:
        super().__init__()
        self.inner = inner(n_features)

    def forward(self, X: Any) -> Any:
        return 2.0 * self.inner(X)


FROZEN = partial(
    FrozenEncoder,
    module=partial(torch.nn.Linear, 6, 4),
    head=partial(WindowEncoder, width=4, n_outputs=2),
)


DETACHED = torch.nn.Linear(6, 2)
DETACHED.register_forward_hook(lambda module, given, outputs: outputs.detach())


def team(encoder: Any) -> Any:
    return partial(Ensemble, encoder=partial(Normalized, encoder=encoder), n_encoders=2)


TEAM = team(SMALL)


class Tied(Doubled):
    """Two names for the same weights, which are of double precision."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features, SMALL)
        self.same = self.inner.double()


@pytest.mark.parametrize("encoder", [TEAM, partial(Doubled, inner=SMALL), FROZEN, Tied])
def test_files_hold_weights_and_the_class_of_the_encoder(encoder: Any, tmp_path: Path) -> None:
    fitted = learner(encoder, n_epochs=1, augmentations=[lambda batch, random: batch]).fit(XS, YS)
    back = ml.load(fitted.save(tmp_path / "model.npz"))
    state, given = torch.get_rng_state(), torch.as_tensor(XS[0], dtype=torch.float32)[None]
    with torch.no_grad():  # without dropout, as after fitting
        assert torch.equal(encoder_of(back).network_(given), encoder_of(fitted).network_(given))
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(back.transform(XS[0]), fitted.transform(XS[0]))
    assert encoder_of(back).augmentations == ()
    assert back.score(XS, YS) == fitted.score(XS, YS)


def test_a_model_of_another_machine_says_which_device_is_missing(tmp_path: Path) -> None:
    fitted = learner(n_epochs=1).fit(XS, YS)
    encoder_of(fitted).device = "cuda:99"
    with pytest.raises(ValueError, match="needs a device of this machine"):
        fitted.predict(XS[0])
    back = ml.load(fitted.save(tmp_path / "model.npz"))
    with pytest.raises(ValueError, match="needs a device of this machine"):
        back.predict(XS[0])
    encoder_of(fitted).set_params(device="cpu")
    encoder_of(back).set_params(device="cpu")
    np.testing.assert_array_equal(back.predict(XS[0]), fitted.predict(XS[0]))


def test_what_a_graphics_card_has_written_is_read_without_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("torch.serialization.location_tag", lambda storage: "cuda:0")
    options: dict[str, Any] = {"n_epochs": 1, "checkpoint": str(tmp_path / "state")}
    fitted = learner(**options).fit(XS, YS)
    resumed = learner(**options).fit(XS, YS)
    np.testing.assert_array_equal(encoder_of(resumed).weights_, encoder_of(fitted).weights_)
    back = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(back.transform(XS[0]), fitted.transform(XS[0]))


def test_graphics_cards_are_not_touched_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process forked after another has used one could not start it."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert encoder_of(learner(n_epochs=1).fit(XS, YS)).best_epoch_ == 1


def test_a_frozen_module_is_asked_where_it_is() -> None:
    assert FrozenEncoder(6, torch.nn.Linear(6, 4, device="meta")).width == 4


def test_training_rows_are_held_out() -> None:
    """Labels of a fold change its own rows by a rotation at most; rows have the same directions."""
    groups = [0, 0, 1, 1, 2]
    truths = list(map(Partition.from_runs, YS))
    view = Encoder(SMALL, n_epochs=6, learning_rate=0.02, n_folds=3, random_state=0, verbose=False)
    rows = view.fit_transform(XS, Labels(truths), groups)
    new = view.transform(XS)
    turned = [Partition.from_runs(y[::-1]) if g == 1 else t for y, t, g in zip(YS, truths, groups)]
    others = clone(view).fit_transform(XS, Labels(turned), groups)
    for Z, trained, other, group in zip(rows, new, others, groups):
        assert Z.shape == trained.shape
        assert not np.allclose(Z, trained)
        assert np.corrcoef(Z.ravel(), trained.ravel())[0, 1] > 0.5
        same = np.allclose(pdist(Z), pdist(other), rtol=1e-6)
        assert same == (group == 1)


@pytest.fixture
def double() -> Iterator[None]:
    """What other code of a user may have set for all of torch."""
    torch.set_default_dtype(torch.float64)
    with torch.no_grad():
        yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def named() -> Any:
    return learner(n_epochs=1, last=NAMED).fit(XS, YS)


def test_states_of_torch_that_others_set_change_nothing(named, double, tmp_path) -> None:
    state = torch.get_rng_state()
    again = learner(n_epochs=1, last=NAMED).fit(XS, YS)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(encoder_of(again).weights_, encoder_of(named).weights_)
    assert (torch.get_default_dtype(), torch.is_grad_enabled()) == (torch.float64, False)
    linear = partial(torch.nn.Linear, 6, 4)
    assert FrozenFeatures(linear, (6,)).transform(XS[0]).shape == (60, 4)
    members = {"one": [again], "two": [ml.ChangePointMetricLearner()]}
    best = ml.Segmenter(members, n_folds=2, verbose=False)
    for one in (best, best.fit(XS, YS), ml.ChangePointMetricLearner()):
        with pytest.raises(ValueError, match=r"view, got \w+\(.* learner_ of a Segmenter with"):
            export_onnx(one, tmp_path / "other.onnx")


def test_fits_in_threads_are_those_of_one_after_the_other() -> None:
    """As in a Segmenter; dropout would draw numbers of other fits."""

    def weights(seed: int) -> Any:
        encoder = partial(WindowEncoder, n_outputs=2, width=8, dropout=0.5)
        return encoder_of(learner(encoder, batch_size=1, random_state=seed).fit(XS, YS)).weights_

    alone, interval = [*map(weights, range(3))], sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-5)
        with ThreadPoolExecutor(3) as pool:
            together = [*pool.map(weights, range(3))]
    finally:
        sys.setswitchinterval(interval)
    np.testing.assert_array_equal(together, alone)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_during_a_fit_has_encoders(named: Any, tmp_path: Path) -> None:
    back, inside, done = ml.load(named.save(tmp_path / "model.npz")), Event(), Event()

    def wait(batch: Any, random: Any) -> Any:
        inside.set()
        assert done.wait(60)
        return batch

    with ThreadPoolExecutor(1) as pool:
        fit = pool.submit(learner(n_epochs=1, augmentations=[wait]).fit, XS, YS)
        assert inside.wait(60)
        child = get_context("fork").Process(target=getattr, args=(encoder_of(back), "network_"))
        child.start()
        child.join(20)
        child.kill()
        done.set()
        fit.result()
    assert child.exitcode == 0


class Wide(WindowEncoder):
    """A user's class, which says how many rows it sees."""

    rows_seen = (7, 3)


def test_a_stream_reads_the_rows_that_an_encoder_says_it_sees() -> None:
    fitted = learner(partial(Wide, width=4, n_outputs=2), n_epochs=1).fit(XS, YS)
    assert fitted.stream_score().reach == (7, 3)


def test_what_a_file_cannot_hold_or_find_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    module = torch.nn.Linear(6, 2)
    fitted = learner(module, n_epochs=1).fit(XS, YS)
    with pytest.raises(TypeError, match=r"pass its class, or a functools\.partial"):
        fitted.save(tmp_path / "model.npz")
    file = learner(partial(Doubled, inner=SMALL), n_epochs=1).fit(XS, YS).save(tmp_path / "m.npz")
    monkeypatch.delattr(f"{__name__}.Doubled")
    with pytest.raises(ImportError, match=r"needs the class .*Doubled.*import the module"):
        ml.load(file)


def test_onnx_gives_what_transform_gives(double: None, tmp_path: Path) -> None:
    """At any length, where a variance is 0 but for its 1e-8, and whatever others have set."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    from onnx.reference import ReferenceEvaluator

    fitted = learner(partial(Normalized, encoder=FROZEN), n_epochs=1).fit(XS, YS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = export_onnx(fitted, tmp_path / "encoder.onnx")
    session = ReferenceEvaluator(onnx.load(path))
    for X in (XS[0], XS[1], XS[0][:1]):
        (Z,) = session.run(None, {"recording": X[None].astype(np.float32)})
        np.testing.assert_allclose(Z[0], fitted.transform(X), atol=1e-4)


def test_causal_convolutions_do_not_look_ahead() -> None:
    torch.manual_seed(0)
    X = torch.randn(1, 30, 6)
    later = X.clone()
    later[:, 20:] += 1.0
    for causal in (True, False):
        network = SMALL(6, causal=causal).eval()
        same = torch.equal(network(X)[:, :20], network(later)[:, :20])
        assert same == causal


def test_windows_of_two_samples_have_features() -> None:
    network = TemporalConvolution(6, n_channels=3, width=4)  # convolutions leave one of two
    network(torch.randn(1, 30, 6)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in network.parameters())


def test_an_ensemble_has_the_mean_of_its_forms_and_trains_apart() -> None:
    torch.manual_seed(0)
    team, X = TEAM(6), torch.randn(1, 30, 6)
    with torch.no_grad():
        Z, parts = team.eval()(X)[0], [encoder(X)[0] for encoder in team.encoders]
    assert Z.shape == (30, 6)
    mean = sum(part @ part.T for part in parts) / 2
    np.testing.assert_allclose(Z @ Z.T, mean, atol=1e-6)
    team.train()(X).sum().backward()
    graded = {all(p.grad is not None for p in encoder.parameters()) for encoder in team.encoders}
    assert graded == {True, False}
    # rows of every recording have the learned mean square
    for recording in (X, 50.0 * X + 3.0):
        Z = team.encoders[0](recording)[0]
        size = Z.square().sum(1).mean() / team.encoders[0].log_scale.exp() ** 2
        assert float(size.detach()) == pytest.approx(1.0, abs=1e-5)
        np.testing.assert_allclose(Z.mean(0).detach(), 0.0, atol=1e-5)


def test_a_frozen_module_stays_as_it_is() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Dropout(0.9))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    head = partial(torch.nn.Linear, out_features=2)
    frozen = partial(FrozenEncoder, module=module, batch_size=7, head=head)
    encoder = encoder_of(learner(frozen, learning_rate=0.1).fit(XS, YS)).network_[1]
    for name, tensor in encoder.module.state_dict().items():
        assert torch.equal(tensor, before[name])
    encoder.train()
    assert not encoder.module.training
    with pytest.raises(ValueError, match="FrozenEncoder needs a torch module"):
        FrozenEncoder(6, dict)


def test_augmentations_move_truths_with_samples() -> None:
    random = np.random.default_rng(0)
    batch = [Recording(X, Partition.from_runs(y)) for X, y in zip(XS, YS)]
    for one, (X, truth) in zip(batch, TimeReversal(2, probability=1.0)(batch, random)):
        T = len(one.X)
        np.testing.assert_array_equal(truth.change_points[:-1], T - one.truth.ends[-2::-1])
        samples = one.X.reshape(T * 3, 2)
        np.testing.assert_array_equal(X.reshape(T * 3, 2), samples[::-1])
    named = [Recording(X, NamedPartition.from_codes(y % 2)) for X, y in zip(XS, YS)]
    for one, turned in zip(named, TimeReversal(2, probability=1.0)(named, random)):
        np.testing.assert_array_equal(turned.truth.sample_names, one.truth.sample_names[::-1])
    scaled = Scaling(2, 0.5)(batch, random)[0].X / batch[0].X
    assert len(np.unique(np.round(scaled, 9))) == 2
    turned = Rotation(3, 1.0, n_given=3)(batch, random)[0].X
    assert not np.allclose(turned[:, :3], batch[0].X[:, :3])
    np.testing.assert_allclose((turned[:, :3] ** 2).sum(1), (batch[0].X[:, :3] ** 2).sum(1))
    np.testing.assert_array_equal(turned[:, 3:], batch[0].X[:, 3:])
    partial_truth = [Recording(XS[0], ml.PartialPartition(60))]
    with pytest.raises(ValueError, match="TimeReversal needs recordings with all labels"):
        TimeReversal(2, probability=1.0)(partial_truth, random)
    with pytest.raises(ValueError, match="Scaling needs a deviation of at least 0"):
        Scaling(2, deviation=-1.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"network": "net"}, "needs a network such as WindowEncoder"),
        ({"network": lambda n: torch.nn.Flatten()}, r"network from \(N, T, P\)"),
        ({"network": lambda n: torch.nn.LSTM(n, 2, batch_first=True)}, r"network from .* to \(\)"),
        ({"augmentations": [Scaling(4)]}, "Scaling needs rows of whole samples"),
        ({"augmentations": [Rotation(2)]}, "Rotation needs three channels"),
        ({"augmentations": [lambda batch, random: []]}, "needs a list of tensors"),
        ({"network": lambda n: DETACHED}, "needs a network with weights"),
        ({"network": torch.nn.Identity(), "n_segments": "given"}, "needs a network with weights"),
        ({"checkpoint": "state.npz", "random_state": None}, "needs a random_state"),
        ({"learning_rate": 1e30, "n_epochs": 9}, "needs finite outputs"),
        ({"network": partial(TemporalConvolution, n_channels=4)}, "needs whole windows"),
        ({"checkpoint": "/nowhere/state.npz"}, "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ValueError, OSError), match=sentence):
        learner(**options).fit(XS, YS)


@pytest.mark.parametrize(
    ("X", "y", "sentence"),
    [
        ([X[:1] for X in XS], [y[:1] for y in YS], "needs 2 samples or more in every recording"),
        (XS, [np.full(len(y), -1) for y in YS], "all labels of all data sets are unknown"),
        ([X + 1e9 for X in XS], YS, "computes in single precision"),
        ([0.0 * X for X in XS], YS, "needs features that vary"),
        (XS, [np.append(y[:-1], -1) for y in YS], "needs n_segments=None for partial labels"),
    ],
)
def test_data_to_learn_nothing_from_are_refused_before_training(X, y, sentence: str) -> None:
    given = "given" if "n_segments" in sentence else None
    with pytest.raises(ValueError, match=f"Encoder.*{sentence}"):
        learner(n_segments=given, callbacks=[ml.running.EarlyStopping(XS, YS)]).fit(X, y)


def test_recordings_train_a_network_alike_or_not_at_all() -> None:
    """A weight of 0 leaves a recording out; other weights would not be those of the hinge."""
    weights = [1.0, 1.0, 0.0, 1.0, 0.0]
    fitted = learner(n_epochs=1).fit(XS, YS, sample_weight=weights)
    alone = learner(n_epochs=1).fit([XS[i] for i in (0, 1, 3)], [YS[i] for i in (0, 1, 3)])
    np.testing.assert_array_equal(fitted.transform(XS[2]), alone.transform(XS[2]))
    with pytest.raises(ValueError, match=r"Encoder trains on all recordings alike, .* weight of 0"):
        learner(n_epochs=1).fit(XS, YS, sample_weight=[1.0, 2.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"Encoder needs a list .* two groups and more"):
        learner(n_epochs=1, n_folds=2).fit(XS[:1], YS[:1])


@pytest.mark.parametrize("package", ["torch", "safetensors"])
def test_error_for_a_missing_package_names_the_command(package: str, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}.*pip install .*\[deep\]"):
        ml.encoders.__getattr__("WindowEncoder")  # as for a name that is new
