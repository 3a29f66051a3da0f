"""A GPU against two cores of the processor, and against what the device can do at most.

    python -m experiments.benchmarks.gpu [--device cuda] [--tiny] [--out FOLDER] [--repeats 3]

``change-points``: batches of sequences under a known metric, of equal length, with the exact
dynamic program of the processor (compiled, two threads) as the peer; of the latter only
``--reference`` sequences are timed, and their time is multiplied. At the worst price nothing can
be pruned. ``normalized cut``: one value and slope of the hinge of a large graph. ``spectral``:
one relaxation for each of many tables. Without ``--device`` it is "cuda" where that is there and
else "cpu", on which sizes are smaller and no speed-up is to be expected: the command then shows
that all of it runs, and what the arrangement in tiles costs.

Peaks are measured: a product of large matrices, and a copy of a large array.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1"))

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from experiments.benchmarks.machine import Report, Timing, in_turns, options_of
from metriclearn import (
    ChangePoints,
    DiagonalMetric,
    GaussianSimilarity,
    LowRankForm,
    Partition,
    SpectralRelaxation,
    TorchChangePoints,
)
from metriclearn.problem.forms import cumulative_sums
from metriclearn.problem.joint_features import TableSamples
from metriclearn.similarities import NodeLabels, Nodes, SimilarityFeatures
from metriclearn.similarities.risk import SimilarityHinge
from metriclearn.solvers.mahalanobis import MetricCone

_THREADS, _REQUIRED = 2, 20.0
# reads and writes of every element of a tile: product 1, lengths 1, division 3, values before 2,
# maximum 1; with true segments 4 more
_PASSES, _PASSES_WITH_TRUTH = 8, 12
_NO_GPU = (
    "none was at hand, so the device is the processor itself and speed-ups say only what the "
    "arrangement for a GPU costs there; on a machine with one, "
    "`python -m experiments.benchmarks.gpu --device cuda` measures all of it at full size"
)


@dataclass(frozen=True)
class Sizes:
    """What is measured: small enough for the device."""

    sequences: int
    samples: int
    features: int
    reference: int
    nodes: int
    tables: int
    matrix: int


SIZES = {
    "cuda": Sizes(256, 5400, 64, 8, 20_000, 256, 8192),
    "cpu": Sizes(8, 5400, 64, 8, 3000, 64, 1024),
    "tiny": Sizes(3, 300, 4, 3, 150, 4, 128),
}


@dataclass(frozen=True)
class Peak:
    """Largest rates measured on a device, per second."""

    products: float
    bytes: float


def peak_of(device: str, size: int) -> Peak:
    """Rates of a double-precision matrix product and of a copy."""
    import torch

    A = torch.randn(size, size, dtype=torch.float64, device=device)
    long = torch.empty(8 * size * size, dtype=torch.float64, device=device)
    product = _best(lambda: A @ A, device)
    copied = _best(lambda: long.clone(), device)
    return Peak(size**3 / product, 16.0 * len(long) / copied)


def _best(call: Callable[[], Any], device: str) -> float:
    """Least seconds of five runs after one."""
    import torch

    seconds = []
    for _ in range(6):
        begun = time.perf_counter()
        call()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    return min(seconds[1:])


@dataclass(frozen=True)
class Case:
    """A batch for the dynamic program."""

    name: str
    forms: list[LowRankForm]
    counts: list[int | None]
    passes: int = _PASSES


def cases_of(sizes: Sizes) -> list[Case]:
    """No change at the worst price and at a usual one, with a loss; many changes, K given too."""
    T, P = sizes.samples, sizes.features
    random = np.random.default_rng(0)
    usual, one = 2.0 * P * np.log(T), Partition(ends=np.array([T]))
    truth = Partition.from_change_points(np.arange(60, T, 60), T)
    plain, changing = [], []
    for _ in range(sizes.sequences):
        noise = random.normal(size=(T, P))
        means = random.normal(size=(truth.n_clusters, P))[truth.labels]
        plain.append(cumulative_sums(noise))
        changing.append(cumulative_sums(noise + means))

    def forms(sums: Sequence[NDArray], price: float, alpha: float = 0.0) -> list[LowRankForm]:
        bare = [LowRankForm.from_cumulative(own) for own in sums]
        return [form.plus(one, 2.0 * alpha, alpha - price) for form in bare]

    unknown: list[int | None] = [None] * sizes.sequences
    return [
        Case("no change, worst price 1.8 P", forms(plain, 1.8 * P), unknown),
        Case("no change, price 2 P log T", forms(plain, usual), unknown),
        Case(
            "no change, α = 1.5 P, λ = 3 P",
            forms(plain, 3.0 * P, 1.5 * P),
            unknown,
            _PASSES_WITH_TRUTH,
        ),
        Case("T / 60 segments, price 2 P log T", forms(changing, usual), unknown),
        Case("T / 60 segments, K given", forms(changing, 0.0), [truth.n_clusters] * len(unknown)),
    ]


def change_points(case: Case, sizes: Sizes, device: str, peak: Peak, repeats: int) -> dict:
    """One batch on the device, and the processor's program on some of it."""
    oracle, exact, few = TorchChangePoints(device), ChangePoints(), sizes.reference

    def processor() -> list[Partition]:
        pairs = list(zip(case.forms, case.counts))[:few]
        return Parallel(_THREADS, backend="threading")(delayed(exact)(*pair) for pair in pairs)

    for form in case.forms[:few]:
        _ = form.cumulative
    begun = time.perf_counter()
    found = oracle.many(case.forms, case.counts)
    first = time.perf_counter() - begun
    calls = {"device": lambda: oracle.many(case.forms, case.counts), "processor": processor}
    timings = in_turns(calls, repeats)
    seconds = timings["device"].median
    two_cores = timings["processor"].median * sizes.sequences / few
    elements = oracle.products_ / (sizes.features + 1)
    moved = 8.0 * case.passes * elements
    whole = sizes.sequences * sizes.samples**2 / 2.0
    return {
        "case": case.name,
        "device, s": seconds,
        "first call, s": first,
        "two cores, s": two_cores,
        "faster": f"{two_cores / seconds:.2g}x",
        ">= 20x": _verdict(two_cores / seconds, device),
        "pairs computed": f"{elements / whole:.0%}",
        "of peak product": f"{oracle.products_ / seconds / peak.products:.0%}",
        "of peak copy": f"{moved / seconds / peak.bytes:.0%}",
        "same as two cores": "yes" if found[:few] == timings["processor"].result else "NO",
        "segments": float(np.mean([partition.n_clusters for partition in found])),
        "processor s of the device": _mean(timings["device"].processor),
        "of two cores": _mean(timings["processor"].processor) * sizes.sequences / few,
    }


def _mean(seconds: list[float]) -> float:
    return float(np.mean(seconds))


def _verdict(faster: float, device: str) -> str:
    if not device.startswith("cuda"):
        return "no GPU"
    return "yes" if faster >= _REQUIRED else "NO"


def normalized_cut(sizes: Sizes, device: str, peak: Peak, repeats: int) -> dict:
    """One value and slope of a graph of many nodes, by numpy with two threads and by torch."""
    random = np.random.default_rng(0)
    labels = np.arange(sizes.nodes) % 2
    X = random.normal(size=(sizes.nodes, 15))
    X[:, :3] += labels[:, None]
    nodes, truth = Nodes(X, np.ones(sizes.nodes)), NodeLabels.from_labels(labels)
    metric, w = DiagonalMetric(), np.full(15, 0.05)
    memory = 4.0 * 8.0 * sizes.nodes**2  # W is kept, with as much for what is computed from it
    kinds = {
        "device": GaussianSimilarity(memory=memory + 2**20, device=device),
        "processor": GaussianSimilarity(memory=memory + 2**20),
    }

    def hinge(similarity: GaussianSimilarity) -> Callable[[], Any]:
        cone = MetricCone(metric, 15, priced=False)
        features = SimilarityFeatures(similarity, metric)
        return lambda: SimilarityHinge(features, cone, [nodes], [truth])(w)

    with threadpool_limits(_THREADS):
        timings = in_turns({name: hinge(kind) for name, kind in kinds.items()}, repeats)
    mine, theirs = (timings[name].result for name in ("device", "processor"))
    operator = kinds["device"].operator(nodes, metric.components(w))
    product = _best(lambda: operator.matvec(random.normal(size=(sizes.nodes, 6))), device)
    faster = timings["processor"].median / timings["device"].median
    return {
        "nodes": sizes.nodes,
        "device, s": timings["device"].median,
        "two cores, s": timings["processor"].median,
        "faster": f"{faster:.2g}x",
        ">= 20x": _verdict(faster, device),
        "product W V, of peak copy": f"{8.0 * sizes.nodes**2 / product / peak.bytes:.0%}",
        "value, relative difference": f"{abs(mine.mean / theirs.mean - 1.0):.1e}",
        "slope": f"{np.abs(mine.slope - theirs.slope).max() / np.abs(theirs.slope).max():.1e}",
        **_processor_seconds(timings),
    }


def spectral(sizes: Sizes, device: str, repeats: int) -> dict:
    """Loss-augmented relaxations of many tables, in one batch and table by table."""
    random = np.random.default_rng(0)
    rows, P, K = 500, 32, 8
    truth = Partition.from_labels(np.arange(rows) % K)
    forms = []
    for _ in range(sizes.tables):
        X = random.normal(size=(rows, P)) + random.normal(size=(K, P))[truth.labels]
        forms.append(TableSamples(X, truth).form(random.normal(size=(P, P)) / P))
    forms = [form.plus(truth, 2.0, 0.0) for form in forms]
    batch, alone, counts = SpectralRelaxation(device=device), SpectralRelaxation(), [K] * len(forms)

    def processor() -> list[Any]:
        return Parallel(_THREADS, backend="threading")(delayed(alone)(form, K) for form in forms)

    calls = {"device": lambda: batch.many(forms, counts), "processor": processor}
    timings = in_turns(calls, repeats)
    found = zip(forms, timings["device"].result, timings["processor"].result)
    differences = [abs(form.at(mine) / form.at(theirs) - 1.0) for form, mine, theirs in found]
    return {
        "tables": sizes.tables,
        "rows, features, clusters": f"{rows}, {P}, {K}",
        "device": timings["device"],
        "two cores": timings["processor"],
        "faster": f"{timings['processor'].median / timings['device'].median:.2g}x",
        "largest relative difference": f"{max(differences):.1e}",
        **_processor_seconds(timings),
    }


def _processor_seconds(timings: dict[str, Timing]) -> dict[str, float]:
    return {
        "processor s of the device": _mean(timings["device"].processor),
        "of two cores": _mean(timings["processor"].processor),
    }


def name_of(device: str) -> str:
    """The device in words."""
    import torch

    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    return f"the processor, {torch.get_num_threads()} threads, torch {torch.__version__}"


def _options() -> argparse.Namespace:
    import torch

    parser = options_of(__doc__)
    there = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=there, help="a torch device; CUDA where it is there")
    parser.add_argument("--tiny", action="store_true", help="seconds, to see that all of it runs")
    parser.set_defaults(repeats=3)
    return parser.parse_args()


def main() -> None:
    """Measure everything; print and save."""
    import torch

    options = _options()
    torch.set_num_threads(1 if options.tiny else _THREADS)
    device = options.device
    kind = "tiny" if options.tiny else "cuda" if device.startswith("cuda") else "cpu"
    sizes = SIZES[kind]
    peak = peak_of(device, sizes.matrix)
    report = Report(
        "gpu",
        device=name_of(device),
        peak=f"{2e-12 * peak.products:.3g} TFLOP/s in double precision, "
        f"{1e-9 * peak.bytes:.3g} GB/s, both measured",
        **({} if device.startswith("cuda") else {"GPU": _NO_GPU}),
        threads=_THREADS,
        repeats=options.repeats,
    )
    rows = [change_points(own, sizes, device, peak, options.repeats) for own in cases_of(sizes)]
    title = f"{sizes.sequences} sequences, T = {sizes.samples}, P = {sizes.features}, B known"
    scaled = f"Two cores: {sizes.reference} of the sequences, times {sizes.sequences} / "
    note = f"{scaled}{sizes.reference}. The first call of the device includes the transfer."
    report.table(title, rows, note)
    cut = normalized_cut(sizes, device, peak, options.repeats)
    report.table("Normalized cut: one value and slope", [cut], "W is kept where it is computed.")
    report.table("Low-rank spectral relaxation", [spectral(sizes, device, options.repeats)])
    report.save(options.out)


if __name__ == "__main__":
    main()
