"""Encoders on a graphics card: the same hinges, files that need no card, and checkpoints."""

import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metriclearn
from tests.processes import kill_after_writing

torch = pytest.importorskip("torch")

from metriclearn.encoders import (  # noqa: E402
    FrozenEncoder,
    FrozenFeatures,
    StructuredHingeLoss,
    WindowEncoder,
    export_onnx,
)
from tests.encoders import test_learner as processor  # noqa: E402
from tests.encoders.test_learner import NAMED, PLAIN, XS, YS, WithZeros, encoder_of  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a graphics card that torch can use"
)

# without dropout, which each device draws by itself
SMALL = partial(processor.SMALL, dropout=0.0)
HEAD = partial(WindowEncoder, width=4, n_outputs=2, dropout=0.0)
FROZEN = partial(FrozenEncoder, module=partial(torch.nn.Linear, 6, 4), head=HEAD)
TEAM = processor.team(SMALL)


def learner(network: Any = SMALL, device: str = "cuda", last: Any = PLAIN, **options: Any) -> Any:
    """A learner behind an Encoder on a card."""
    return processor.learner(network, last, device=device, **{"n_epochs": 5, **options})


@pytest.mark.parametrize("encoder", [SMALL, FROZEN, TEAM])
@pytest.mark.parametrize("last", [PLAIN, NAMED])
def test_a_card_learns_what_the_processor_learns(encoder: Any, last: Any) -> None:
    """Sums of single precision have another order there."""
    fitted = learner(encoder, last=last).fit(XS, YS)
    expected = learner(encoder, "cpu", last).fit(XS, YS)
    hinges, others = (encoder_of(one).history_["hinge"] for one in (fitted, expected))
    np.testing.assert_allclose(hinges, others, rtol=1e-3)
    for Z, other in zip(fitted.transform(XS), expected.transform(XS)):
        np.testing.assert_allclose(Z, other, atol=1e-2 * np.abs(other).max())
    encoder_of(fitted).set_params(device="cpu")
    again = learner(encoder, last=last).fit(XS, YS)
    np.testing.assert_allclose(fitted.transform(XS[0]), again.transform(XS[0]), atol=1e-2)


def test_slopes_of_the_hinge_are_those_of_the_processor() -> None:
    slopes = []
    for device in ("cpu", "cuda"):
        leaf = torch.tensor(XS[0], device=device, requires_grad=True)
        loss = StructuredHingeLoss().to(device, torch.float64)
        value = loss([leaf], [YS[0]])
        value.backward()
        assert value.device.type == leaf.grad.device.type == device
        slopes.append([value.item(), leaf.grad.cpu().numpy(), loss.log_penalty.grad.item()])
    for one, other in zip(*slopes):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_fit_leaves_random_numbers_of_both_devices() -> None:
    states = torch.get_rng_state(), torch.cuda.get_rng_state()
    learner(partial(SMALL, dropout=0.5), n_epochs=1).fit(XS, YS)
    for before, after in zip(states, (torch.get_rng_state(), torch.cuda.get_rng_state())):
        assert torch.equal(before, after)


WITHOUT_CARD = """
import pickle, sys
import numpy as np, torch
import metriclearn
assert not torch.cuda.is_available()
X = np.load("X.npy")
with open("model.pickle", "rb") as file:
    models = pickle.load(file), metriclearn.load("model.npz")
for model in models:
    model.score_.view.set_params(device="cpu")
np.save("Z.npy", [model.transform(X) for model in models])
"""


@pytest.mark.parametrize("encoder", [SMALL, FROZEN, TEAM])
def test_files_of_a_card_are_read_without_one(encoder: Any, tmp_path: Path) -> None:
    fitted = learner(encoder, n_epochs=1).fit(XS, YS)
    again = metriclearn.load(fitted.save(tmp_path / "model.npz"))
    np.testing.assert_array_equal(again.transform(XS[0]), fitted.transform(XS[0]))
    assert next(encoder_of(again).network_.parameters()).device.type == "cuda"
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(fitted))
    np.save(tmp_path / "X.npy", XS[0])
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", WITHOUT_CARD]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    for Z in np.load(tmp_path / "Z.npy"):
        np.testing.assert_allclose(Z, fitted.transform(XS[0]), atol=1e-3)


def fit_and_keep(checkpoint: Path, device: str, n_epochs: int) -> None:
    options = {"n_epochs": n_epochs, "validation": 0.2, "patience": 99}
    learner(device=device, checkpoint=str(checkpoint), **options).fit(XS, YS)


@pytest.mark.parametrize("then", ["cuda", "cpu"])
def test_killed_on_a_card_and_resumed(then: str, tmp_path: Path) -> None:
    assert kill_after_writing(
        tmp_path / "state", 0.01, fit_and_keep, tmp_path / "state", "cuda", 60
    )
    done = int(np.load(tmp_path / "state")["epoch"])
    assert 1 <= done < 60
    fit_and_keep(tmp_path / "state", then, 60)
    fit_and_keep(tmp_path / "whole", "cuda", 60)
    resumed, expected = np.load(tmp_path / "state"), np.load(tmp_path / "whole")
    assert len(resumed["hinge"]) == 60
    np.testing.assert_allclose(resumed["hinge"], expected["hinge"], rtol=0.05)


def test_a_stream_ends_segments_where_predict_does() -> None:
    fitted = learner().fit(XS, YS)
    stream = fitted.stream()
    parts = [stream.push(rows).ends for rows in np.array_split(XS[0], 4)] + [stream.finish().ends]
    np.testing.assert_array_equal(np.concatenate(parts), fitted.predict_change_points([XS[0]])[0])


def test_an_exported_program_needs_no_card(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    from onnx.reference import ReferenceEvaluator

    fitted = learner().fit(XS, YS)
    session = ReferenceEvaluator(onnx.load(export_onnx(fitted, tmp_path / "encoder.onnx")))
    (Z,) = session.run(None, {"recording": XS[0][None].astype(np.float32)})
    np.testing.assert_allclose(Z[0], fitted.transform(XS[0]), atol=1e-3)
    assert next(encoder_of(fitted).network_.parameters()).device.type == "cuda"


def test_frozen_features_of_a_module_on_a_card() -> None:
    torch.manual_seed(0)
    module = torch.nn.Linear(6, 4)
    expected = FrozenFeatures(module, (6,)).transform(XS[0])
    found = FrozenFeatures(module.cuda(), (6,)).transform(XS[0])
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_tensors_without_a_device_are_on_that_of_the_encoder() -> None:
    fitted = learner(WithZeros, n_epochs=1).fit(XS, YS)
    expected = learner(n_epochs=1).fit(XS, YS)
    np.testing.assert_allclose(fitted.transform(XS[0]), expected.transform(XS[0]), atol=1e-4)


def test_a_default_device_of_torch_changes_nothing(tmp_path: Path) -> None:
    expected = learner(device="cpu", n_epochs=1).fit(XS, YS)
    with torch.device("cuda"):
        fitted = learner(device="cpu", n_epochs=1).fit(XS, YS)
        np.testing.assert_allclose(fitted.transform(XS[0]), expected.transform(XS[0]), atol=1e-4)
        loss = StructuredHingeLoss()
        loss([torch.tensor(XS[0]).cpu().requires_grad_()], [YS[0]]).backward()
        pytest.importorskip("onnxscript")
        assert export_onnx(fitted, tmp_path / "encoder.onnx").is_file()
