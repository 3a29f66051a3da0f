"""The worked examples of graph-sensitive indices, with the paper's numbers beside ours.

    python -m experiments.benchmarks.index_examples [--out FOLDER] [--output docs/images]

Chains and Gaussian points of Hussain & Meilă, "Graph-sensitive indices for comparing clusterings"
(sections 5.1 and 5.2), thirteen points in four clusters each way, and the bootstrap
stability of K-means. Prints the tables and writes the pictures of docs/indices.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import metriclearn.indices as indices
from experiments.benchmarks.machine import Report, options_of

COLORS = ("#0072B2", "#D55E00", "#009E73", "#E69F00")
INK = "#1f2328"
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "fontweight": "bold", "color": INK}
THIRTEEN = (
    [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 3],
    [0, 0, 0, 2, 2, 2, 2, 1, 1, 3, 2, 3, 1],
)
PAPER = {"VI": (0.0243, 0.0243, 100), "RWI": (0.0355, 0.1362, 4), "VIN": (0.0142, 0.0782, 0)}


def chain(n: int) -> NDArray[np.float64]:
    """Adjacency of n evenly spaced points on a line."""
    return np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)


def chain_examples() -> dict[str, list[list[int]]]:
    """Clusterings A, B and C of Figures 3 and 4: B and C are equally far from A for VI."""
    return {
        "one point relabeled": [[0] * 10, [0] * 4 + [1] + [0] * 5, [0] * 9 + [1]],
        "two points relabeled": [
            [0] * 5 + [1] * 5,
            [0] * 7 + [1] * 3,
            [0] * 5 + [1] * 3 + [0] * 2,
        ],
    }


def chain_values(A: list[int], other: list[int]) -> dict[str, float]:
    """VI, RWI on two similarity matrices, and VIN, in nats."""
    n = len(A)
    gaps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    inverse = np.divide(1.0, gaps, out=np.zeros((n, n)), where=gaps > 0)
    return {
        "VI": indices.variation_of_information(A, other),
        "RWI": indices.random_walk_index(chain(n), A, other),
        "RWI, weights 1/d": indices.random_walk_index(inverse, A, other),
        "VIN": indices.vi_with_neighbors(chain(n), A, other),
    }


def gaussian_example(
    seed: int, n: int = 100
) -> tuple[NDArray[np.float64], list[NDArray[np.int64]]]:
    """Points of section 5.2 and clusterings A (one cluster), B (outermost) and C (innermost)."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    radius = np.linalg.norm(X - X.mean(axis=0), axis=1)
    A = np.zeros(n, dtype=np.int64)
    B, C = A.copy(), A.copy()
    B[np.argmax(radius)] = C[np.argmin(radius)] = 1
    return X, [A, B, C]


def gaussian_values(seed: int) -> NDArray[np.float64]:
    """Rows VI, RWI, VIN; columns d(A,B), d(A,C). Logarithms of base 10, edges below 0.5."""
    X, (A, *others) = gaussian_example(seed)
    squared = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    graph = indices.epsilon_graph(X, 0.5)
    calls: list[Callable[[Any], float]] = [
        lambda labels: indices.variation_of_information(A, labels, base=10),
        lambda labels: indices.random_walk_index(np.exp(-squared), A, labels, base=10),
        lambda labels: indices.vi_with_neighbors(graph, A, labels, base=10),
    ]
    return np.array([[call(labels) for labels in others] for call in calls])


def gaussian_table(n_simulations: int = 100) -> dict[str, tuple[float, float, int]]:
    """Mean d(A,B), mean d(A,C), and how often B was not closer to A than C."""
    values = np.array([gaussian_values(seed) for seed in range(n_simulations)])
    means, errors = values.mean(axis=0), np.sum(values[:, :, 0] >= values[:, :, 1], axis=0)
    return {
        name: (float(ab), float(ac), int(wrong))
        for name, (ab, ac), wrong in zip(("VI", "RWI", "VIN"), means, errors)
    }


def gaussian_rows(table: dict[str, tuple[float, float, int]]) -> list[dict[str, str]]:
    """The table beside the paper's."""
    rows = []
    for name, ours in table.items():
        row = {"": name}
        for key, own, theirs in zip(("d(A,B)", "d(A,C)", "errors of 100"), ours, PAPER[name]):
            digits = 0 if key.startswith("errors") else 4
            row |= {key: f"{own:.{digits}f}", f"{key}, paper": f"{theirs:.{digits}f}"}
        rows.append(row)
    return rows


def chain_rows() -> list[dict[str, Any]]:
    """Distances of B and C from A on both chains."""
    rows = []
    for name, (A, B, C) in chain_examples().items():
        to_b, to_c = chain_values(A, B), chain_values(A, C)
        for key, b in to_b.items():
            c = to_c[key]
            closer = "neither" if abs(b - c) <= 1e-12 else "B" if b < c else "C"
            rows.append({"chain of 10": name, "": key, "d(A,B)": b, "d(A,C)": c, "closer": closer})
    return rows


def draw_chains() -> Figure:
    """Figures 3 and 4 of the paper, with the distances of B and C from A."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    for axes, (name, (A, B, C)) in zip(figure.subplots(2, 1), chain_examples().items()):
        for height, (letter, labels) in zip((2, 1, 0), zip("ABC", (A, B, C))):
            axes.plot(range(10), [height] * 10, color="#c9ced6", linewidth=2, zorder=1)
            colors = [COLORS[label] for label in labels]
            axes.scatter(range(10), [height] * 10, s=130, c=colors, zorder=2)
            axes.text(-0.7, height, letter, ha="right", va="center", fontweight="bold", color=INK)
            if letter != "A":
                values = chain_values(A, labels)
                text = "   ".join(f"{key} {value:.3f}" for key, value in values.items())
                axes.text(9.6, height, text, va="center", fontsize=9, color=INK)
        axes.set(xlim=(-1.2, 17.2), ylim=(-0.6, 2.7))
        axes.axis("off")
        axes.set_title(f"Chain of 10, {name}: distance from A", **TITLE)
    return figure


def draw_gaussian(table: dict[str, tuple[float, float, int]]) -> Figure:
    """One simulation of section 5.2 and the means over all, ours and the paper's."""
    figure = Figure(figsize=(10, 5.4), layout="constrained")
    top, bottom = list(figure.subfigures(2, 1, height_ratios=(1.75, 1)))  # type: ignore[arg-type]
    X, clusterings = gaussian_example(0)
    titles = ("A: one cluster", "B: outermost point apart", "C: innermost point apart")
    for axes, labels, title in zip(top.subplots(1, 3), clusterings, titles):
        _draw_points(axes, X, labels)
        axes.set_title(title, **TITLE)
    axes = bottom.subplots()
    axes.axis("off")
    rows = gaussian_rows(table)
    cells, header = [list(row.values()) for row in rows], list(rows[0])
    drawn = axes.table(cells, colLabels=header, loc="center", cellLoc="center", edges="horizontal")
    drawn.auto_set_font_size(False)
    drawn.set_fontsize(10)
    drawn.scale(1, 1.5)
    return figure


def _draw_points(axes: Axes, X: NDArray, labels: NDArray) -> None:
    for label in np.unique(labels):
        apart = labels == label
        x, y = X[apart, 0], X[apart, 1]
        axes.scatter(x, y, s=90 if label else 22, c=COLORS[label], zorder=2 + label,
                     edgecolors="white", linewidths=0.5)  # fmt: skip
    axes.set(xticks=[], yticks=[], aspect="equal")
    for side in axes.spines.values():
        side.set_color("#c9ced6")


def draw_stability() -> Figure:
    """Bootstrap distances of K-means with the right and a wrong number of clusters."""
    from sklearn.cluster import KMeans

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + 6 * np.array([[0, 0], [1, 0], [0.5, 1]])[np.arange(300) % 3]
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    axes = figure.subplots()
    for n_clusters, color in zip((2, 3, 4, 5), COLORS):
        found = indices.stability(KMeans(n_clusters, n_init=3), X, n_bootstrap=60)
        levels = np.linspace(0, 1, len(found.distances))
        label = f"K = {n_clusters}, median {found.median:.2f}"
        axes.step(np.sort(found.distances), levels, where="post", color=color, label=label,
                  linewidth=2)  # fmt: skip
    axes.set(xlabel="variation of information to the clustering of all data",
             ylabel="share of replicates")  # fmt: skip
    axes.set_title("Three groups: only K = 3 is stable under resampling", **TITLE)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def main() -> None:
    """Print the tables and write the pictures."""
    parser = options_of(__doc__, timed=False)
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="the pictures")
    options = parser.parse_args()
    table = gaussian_table(2 if options.tiny else 100)
    report = Report("index_examples")
    report.table("Chains (nats)", chain_rows())
    report.table("Gaussian, 100 simulations (base 10)", gaussian_rows(table))
    report.save(options.out)
    pictures = {
        "indices_chains": draw_chains(),
        "indices_gaussian": draw_gaussian(table),
        "indices_table": indices.plot_contingency(*THIRTEEN),
        "indices_stability": draw_stability(),
    }
    options.output.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        figure.savefig(options.output / f"{name}.png", dpi=120)
        print(f"wrote {options.output / name}.png")


if __name__ == "__main__":
    main()
