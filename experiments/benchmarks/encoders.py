"""What training an encoder costs: time and memory of the exact hinge, and the use of a device.

    python -m experiments.benchmarks.encoders [--out FOLDER] [--device cuda]

An epoch is one training step (forward pass, hinge with exact inference, backward pass, AdamW) with
an encoder as in ``experiment=hapt_encoder``, on 32 recordings of generated windows of raw signals.
We time the whole epoch, and the hinge alone on the current outputs of the encoder, before training
and after a few epochs. The epoch and the hinge are timed in turns. Memory is measured in a separate
process. With ``--device``, an encoder without dropout is trained on this device and on the CPU, and
the last hinges of both runs are compared.
"""

from __future__ import annotations

import time
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.machine import (
    Report,
    in_own_process,
    in_turns,
    options_of,
    peak_mebibytes,
)
from metriclearn.datasets import LabeledSequences, make_change_points

_CHANNELS, _SAMPLES, _OUTPUTS = 6, 25, 24


def recordings(count: int, n_windows: int) -> LabeledSequences:
    """Draw windows of raw signals, (n_windows, channels · samples), with labeled segments. Two
    columns change their level from segment to segment. All other columns change at other times than
    these two."""
    spread = (n_windows // 60, n_windows // 40)
    n_columns = _CHANNELS * _SAMPLES
    return make_change_points(count, n_windows, n_columns, 2, spread, jump=1.0, random_state=0)


def share_of_loss(count: int, n_windows: int, n_epochs: int, repeats: int) -> list[dict[str, Any]]:
    """Make two rows, one before training and one after ``n_epochs``. A row has the processor
    seconds of an epoch and of the hinge alone."""
    import torch

    from metriclearn.encoders import StructuredHingeLoss, TemporalConvolution

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = recordings(count, n_windows)
    inputs = [torch.as_tensor(X, dtype=torch.float32)[None] for X in data.sequences]
    encoder = TemporalConvolution(data.sequences[0].shape[1], _CHANNELS, n_outputs=_OUTPUTS)
    loss = StructuredHingeLoss()
    optimizer = torch.optim.AdamW([*encoder.parameters(), *loss.parameters()], lr=2e-3)

    def epoch() -> float:
        optimizer.zero_grad()
        hinge = loss([encoder(X)[0] for X in inputs], data.labels)
        hinge.backward()
        optimizer.step()
        return hinge.item()

    rows = []
    for trained in (0, n_epochs):
        for _ in range(trained):
            epoch()
        with torch.no_grad():
            outputs = [encoder(X)[0] for X in inputs]
        leaves = [Z.clone().requires_grad_() for Z in outputs]

        def hinge_alone() -> None:
            loss(leaves, data.labels).backward()  # noqa: B023

        timings = in_turns({"loss": hinge_alone, "epoch": epoch}, repeats)
        part, whole = (timings[name].of_processor for name in ("loss", "epoch"))
        share = part.median / whole.median
        rows.append({"epochs before": trained, "loss": part, "epoch": whole, "share": share})
    return rows


def memory_of_loss(n_samples: int) -> dict[str, Any]:
    """Measure the memory that the hinge of one recording and its gradient need, in addition to the
    encoder's outputs. Returns one row."""
    import torch

    from metriclearn.encoders import StructuredHingeLoss

    loss = StructuredHingeLoss()
    spread = (n_samples // 60, n_samples // 40)
    small, large = (
        make_change_points(1, T, _OUTPUTS, 2, ends, jump=1.0, random_state=0)
        for T, ends in ((200, (3, 5)), (n_samples, spread))
    )

    def slope(Z: NDArray, labels: NDArray) -> None:
        leaf = torch.as_tensor(0.3 * Z, dtype=torch.float32).requires_grad_()
        loss([leaf], [labels]).backward()

    slope(small.sequences[0], small.labels[0])  # compiles
    before, begun = peak_mebibytes(), time.process_time()
    slope(large.sequences[0], large.labels[0])
    used = peak_mebibytes() - before
    return {
        "T": n_samples,
        "processor seconds": time.process_time() - begun,
        "memory for it, MiB": used,
        "of the outputs": used * 2**20 / (n_samples * _OUTPUTS * 8),
    }


def trained_on(device: str, data: LabeledSequences, n_epochs: int) -> dict[str, Any]:
    """Train an encoder on a device. Returns the seconds, and the first and the last hinge. There is
    no dropout, so that all devices use the same random numbers."""
    from metriclearn.encoders import EncoderMetricLearner, TemporalConvolution

    encoder = partial(TemporalConvolution, n_channels=_CHANNELS, dropout=0.0)
    learner = EncoderMetricLearner(
        encoder, n_epochs=n_epochs, batch_size=8, device=device, random_state=0, verbose=False
    )
    begun = time.perf_counter()
    learner.fit(data.sequences, data.labels)
    hinges = learner.history_["hinge"]
    return {
        "device": device,
        "seconds": time.perf_counter() - begun,
        "first hinge": hinges[0],
        "last hinge": hinges[-1],
    }


def name_of(device: str) -> str:
    """Return the name of a device: the product name of a graphics card, or torch's name of any
    other device."""
    import torch

    here = torch.device(device)
    return torch.cuda.get_device_name(here) if here.type == "cuda" else str(here)


def main() -> None:
    """Measure, print and save."""
    parser = options_of(__doc__)
    parser.add_argument("--device", help="one more table: a training there and on the processor")
    options = parser.parse_args()
    software = {"torch": metadata.version("torch")}
    if options.device:
        software["device"] = name_of(options.device)
    report = Report("encoders", options, **software)
    # measured first: a process begins with the peak of the process that started it
    sizes = [2000, 4000] if options.tiny else [2000, 20000, 200000]
    rows = [in_own_process(memory_of_loss, T) for T in sizes]
    note = "Of the outputs: times the memory of T × r numbers of double precision."
    title = "Time and memory to compute the hinge of one recording and its gradient"
    report.table(title, rows, note)
    count, n_windows = (4, 200) if options.tiny else (32, 2000)
    rows = share_of_loss(count, n_windows, 2 if options.tiny else 5, options.repeats)
    title = f"An epoch of {count} recordings of {n_windows} windows, {_OUTPUTS} outputs"
    report.table(title, rows, "Processor seconds; share: the loss over the epoch.")
    if options.device:
        data = recordings(count, n_windows)
        rows = [trained_on(device, data, 3) for device in ("cpu", options.device)]
        gap = np.ptp([row["last hinge"] for row in rows]) / rows[0]["last hinge"]
        report.table("A training", rows, f"Last hinges differ by {gap:.1e} of them.")
    report.save()


if __name__ == "__main__":
    main()
