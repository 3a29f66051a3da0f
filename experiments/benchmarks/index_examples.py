"""The worked examples of graph-sensitive indices, with the paper's numbers and ours.

    python -m experiments.benchmarks.index_examples [--out FOLDER]

The benchmark recomputes the chains and the Gaussian points of Hussain & Meilă, "Graph-sensitive
indices for comparing clusterings" (sections 5.1 and 5.2), and makes the tables and pictures of
docs/indices.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

import metriclearn.indices as indices
import metriclearn.plots.canvas as canvas
from experiments.benchmarks.machine import Report, options_of

PAPER = {"VI": (0.0243, 0.0243, 100), "RWI": (0.0355, 0.1362, 4), "VIN": (0.0142, 0.0782, 0)}
# clusterings A, B and C of Figures 3 and 4: B and C are equally far from A for VI
CHAINS = {
    "one point relabeled": ([0] * 10, [0] * 4 + [1] + [0] * 5, [0] * 9 + [1]),
    "two points relabeled": (
        [0] * 5 + [1] * 5,
        [0] * 7 + [1] * 3,
        [0] * 5 + [1] * 3 + [0] * 2,
    ),
}


def chain_values(A: list[int], other: list[int]) -> dict[str, float]:
    """Compute distances between two clusterings of evenly spaced points on a line, in nats: VI,
    VIN, and RWI with two similarity matrices."""
    n = len(A)
    gaps = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    inverse = np.divide(1.0, gaps, out=np.zeros((n, n)), where=gaps > 0)
    adjacency = (gaps == 1).astype(float)
    return {
        "VI": indices.variation_of_information(A, other),
        "RWI": indices.random_walk_index(adjacency, A, other),
        "RWI, weights 1/d": indices.random_walk_index(inverse, A, other),
        "VIN": indices.vi_with_neighbors(adjacency, A, other),
    }


def gaussian_example(seed: int, n: int = 100) -> tuple[NDArray, list[NDArray]]:
    """Draw the points of section 5.2. Clustering A has one cluster; B separates the outermost point
    from the others, and C the innermost."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    radius = np.linalg.norm(X - X.mean(axis=0), axis=1)
    A = np.zeros(n, dtype=np.int64)
    B, C = A.copy(), A.copy()
    B[np.argmax(radius)] = C[np.argmin(radius)] = 1
    return X, [A, B, C]


def gaussian_values(seed: int) -> NDArray[np.float64]:
    """Compute the distances of clusterings in one simulation, (3, 2). The rows are VI, RWI and VIN,
    and the columns are d(A,B) and d(A,C). Logarithms have base 10. For VIN, points closer than 0.5
    are neighbors."""
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
    """For each index, return the mean of d(A,B), the mean of d(A,C), and how often d(A,B) was not
    smaller than d(A,C)."""
    values = np.array([gaussian_values(seed) for seed in range(n_simulations)])
    means, errors = values.mean(axis=0), np.sum(values[:, :, 0] >= values[:, :, 1], axis=0)
    return {
        name: (float(ab), float(ac), int(wrong))
        for name, (ab, ac), wrong in zip(PAPER, means, errors)
    }


def gaussian_rows(table: dict[str, tuple[float, float, int]]) -> list[dict[str, Any]]:
    """Return the table, with the paper's numbers below every row."""
    rows: list[tuple[Any, ...]] = []
    for name, ours in table.items():
        rows += [(name, *ours), (f"{name}, paper", *PAPER[name])]
    return [dict(zip(("", "d(A,B)", "d(A,C)", "errors of 100"), row)) for row in rows]


def chain_rows() -> list[dict[str, Any]]:
    """Make rows with d(A,B) and d(A,C) for the clusterings A, B and C of both chains."""
    rows = []
    for name, (A, B, C) in CHAINS.items():
        to_b, to_c = chain_values(A, B), chain_values(A, C)
        for key, b in to_b.items():
            c = to_c[key]
            closer = "B" if b < c else "C"
            if abs(b - c) <= 1e-12:
                closer = "neither"
            rows.append({"chain of 10": name, "": key, "d(A,B)": b, "d(A,C)": c, "closer": closer})
    return rows


def draw_points(ax: Axes, points: NDArray, labels: ArrayLike, size: ArrayLike) -> None:
    """Draw points in the colors of their labels, without axes."""
    colors = np.array(canvas.PALETTE)[np.asarray(labels)]
    ax.scatter(
        points[:, 0], points[:, 1], s=size, c=colors, edgecolors="white", linewidths=0.5, zorder=2
    )
    ax.axis("off")


def draw_chains(record: Any = None) -> Figure:
    """Draw Figures 3 and 4 of the paper, with the distances of B and C from A."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    for ax, (name, chain) in zip(figure.subplots(2, 1), CHAINS.items()):
        for height, letter, labels in zip((2, 1, 0), "ABC", chain):
            line = np.column_stack([np.arange(10), np.full(10, height)])
            ax.plot(*line.T, color=canvas.GRID, linewidth=2, zorder=1)
            draw_points(ax, line, labels, 130)
            canvas.words(ax, -0.9, height, letter, fontweight="bold")
            if letter != "A":
                values = chain_values(chain[0], labels)
                text = "   ".join(f"{key} {value:.3f}" for key, value in values.items())
                canvas.words(ax, 9.6, height, text)
        ax.set(xlim=(-1.2, 17.2), ylim=(-0.6, 2.7))
        canvas.say(ax, f"Chain of 10, {name}: distance from A")
    return figure


def draw_gaussian(record: Any = None) -> Figure:
    """Draw the three clusterings of one simulation of section 5.2."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    X, clusterings = gaussian_example(0)
    titles = ("A: one cluster", "B: outermost point apart", "C: innermost point apart")
    for ax, labels, title in zip(figure.subplots(1, 3), clusterings, titles):
        draw_points(ax, X, labels, np.where(labels, 90, 22))
        ax.set_aspect("equal")
        canvas.say(ax, title)
    return figure


def main() -> None:
    """Print and save the tables."""
    options = options_of(__doc__).parse_args()
    n_simulations = 2 if options.tiny else 100
    report = Report("index_examples", options)
    report.table("Chains (nats)", chain_rows())
    report.table(
        f"Gaussian, {n_simulations} simulations (base 10)",
        gaussian_rows(gaussian_table(n_simulations)),
    )
    report.save()


if __name__ == "__main__":
    main()
