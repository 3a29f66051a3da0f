"""What training an encoder costs: time and memory of the exact hinge, and the use of a device.

    python -m experiments.benchmarks.encoders [--device cuda]

An epoch is one training step (forward pass, hinge with exact inference, backward pass, AdamW) with
an encoder as in ``experiment=hapt_encoder``, on 32 recordings of generated windows of raw signals.
We time the whole epoch, and the hinge alone on the current outputs of the encoder, before training
and after a few epochs. The epoch and the hinge are timed in turns. Memory is measured in a separate
process. With ``--device``, an encoder without dropout is trained on this device and on the CPU, and
the last hinges of both runs are compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from numpy.typing import NDArray

from experiments.benchmarks.benchmark import Benchmark, Run
from experiments.benchmarks.machine import Row, in_turns, peak_mebibytes
from metriclearn import Partition
from metriclearn.datasets import LabeledSequences, make_change_points

BENCH = Benchmark("encoders", __doc__)
BENCH.option("--device", help="one more table: a training there and on the processor")
_CHANNELS, _SAMPLES, _OUTPUTS = 6, 25, 24


def recordings(tiny: bool) -> LabeledSequences:
    """Draw windows of raw signals, (n_windows, channels · samples), with labeled segments. Two
    columns change their level from segment to segment. All other columns change at other times than
    these two."""
    count, n_windows = (4, 200) if tiny else (32, 2000)
    spread = (n_windows // 60, n_windows // 40)
    n_columns = _CHANNELS * _SAMPLES
    return make_change_points(count, n_windows, n_columns, 2, spread, jump=1.0, random_state=0)


@BENCH.table(
    "Time and memory to compute the hinge of one recording and its gradient",
    lambda run: (2000, 4000) if run.tiny else (2000, 20000, 200000),
    apart=True,
)  # first, because a process begins with the peak of the process that started it
def memory_of_loss(n_samples: int, run: Run) -> Row:
    """Measure the memory that the hinge of one recording and its gradient need, in addition to the
    encoder's outputs. Returns one row.

    Of the outputs: times the memory of T × r numbers of double precision.
    """
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


@BENCH.table("An epoch of 32 recordings of 2000 windows, 24 outputs")
def share_of_loss(_: Any, run: Run) -> Iterator[Row]:
    """Yield two rows, one before training and one after a few epochs. A row has the processor
    seconds of an epoch and of the hinge alone.

    Processor seconds; share: the loss over the epoch.
    """
    import torch

    from metriclearn.encoders import StructuredHingeLoss, TemporalConvolution

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = recordings(run.tiny)
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

    for trained in (0, 2 if run.tiny else 5):
        for _ in range(trained):
            epoch()
        with torch.no_grad():
            outputs = [encoder(X)[0] for X in inputs]
        leaves = [Z.clone().requires_grad_() for Z in outputs]

        def hinge_alone() -> None:
            loss(leaves, data.labels).backward()  # noqa: B023

        timings = in_turns({"loss": hinge_alone, "epoch": epoch}, run.repeats)
        part, whole = (timings[name].of_processor for name in ("loss", "epoch"))
        share = part.median / whole.median
        yield {"epochs before": trained, "loss": part, "epoch": whole, "share": share}


@BENCH.table(
    "A training",
    lambda run: ("cpu", run.options.device) if run.options.device else (),
    lambda rows: (
        f"Last hinges: {', '.join(str(row['last hinge']) for row in rows)}." if rows else ""
    ),
)
def trained_on(device: str, run: Run) -> Row:
    """Train an encoder on a device. Returns the seconds, and the first and the last hinge. There is
    no dropout, so that all devices use the same random numbers."""
    import torch

    from metriclearn.encoders import Encoder, TemporalConvolution
    from metriclearn.views import Labels

    data, here = recordings(run.tiny), torch.device(device)
    network = partial(TemporalConvolution, n_channels=_CHANNELS, dropout=0.0)
    view = Encoder(network, n_epochs=3, batch_size=8, device=device, random_state=0, verbose=False)
    begun = time.perf_counter()
    view.fit(data.sequences, Labels(list(map(Partition.from_runs, data.labels))))
    hinges = view.history_["hinge"]
    return {
        "device": torch.cuda.get_device_name(here) if here.type == "cuda" else device,
        "seconds": time.perf_counter() - begun,
        "first hinge": hinges[0],
        "last hinge": hinges[-1],
    }


if __name__ == "__main__":
    BENCH.main()
