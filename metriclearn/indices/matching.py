"""Misclassification error: the fraction of errors after the best one-to-one cluster matching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices.contingency import ContingencyTable, of_partitions
from metriclearn.indices.registered import index

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DENSE_CELLS = 1_000_000  # larger tables are matched faster through their non-empty cells
_DRAWN_CELLS = 4_000_000


@index(perfect=0.0)
def misclassification_error(table: ContingencyTable) -> float:
    """Misclassification error 1 − max_π Σ_k n_{k,π(k)} / n over one-to-one matchings π.

    The error is a metric on partitions: symmetric, and 0 for equal partitions only. The error is at
    most 1 − 1/max(K, K′). The best matching is found by linear assignment in at most O(K³) time.
    For two segmentations, dynamic programming finds it in O(K + K′) time.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    float in [0, 1)

    Raises
    ------
    ValueError
        See :func:`contingency_table`.

    References
    ----------
    M. Meilă and D. Heckerman, "An experimental comparison of model-based clustering methods",
    Machine Learning 42, 2001; M. Meilă, "Comparing clusterings: an axiomatic view", ICML 2005.
    """
    return (table.n_samples - _matched(table)) / table.n_samples


@of_partitions
def plot_contingency(table: ContingencyTable) -> Figure:
    """Plot a heat map of a contingency table, with matched clusters on the diagonal.

    Rows and columns are ordered by the best one-to-one matching of the clusters. The shade of a
    cell is the fraction of the true cluster that is in the predicted cluster. In small tables, the
    counts are written into the cells. A table can have up to 4 million cells. The matching takes at
    most O(K³) time.

    Parameters
    ----------
    labels_true, labels_pred, contingency, ignore_label : see :func:`contingency_table`

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    ValueError
        See :func:`contingency_table`. Also raised for more than 4 million cells.

    See Also
    --------
    contingency_table : computes the table.
    misclassification_error : the fraction of samples that are not on the diagonal.
    """
    from metriclearn.running.figures import new_figure

    n_rows, n_columns = len(table.row_sizes), len(table.column_sizes)
    if n_rows * n_columns > _DRAWN_CELLS:
        raise ValueError(
            f"plot_contingency draws at most {_DRAWN_CELLS} cells, got {n_rows} × {n_columns} "
            "clusters; merge or leave out small ones."
        )
    # matched rows and columns first, in the same order, then rows and columns without a partner
    matched_rows, matched_columns = assignment(table.to_array())
    rows = np.append(matched_rows, np.setdiff1d(np.arange(n_rows), matched_rows))
    columns = np.append(matched_columns, np.setdiff1d(np.arange(n_columns), matched_columns))
    counts = table.to_array()[np.ix_(rows, columns)]
    shares = counts / table.row_sizes[rows, None]
    size = max(2.6 + 0.36 * min(n_columns, 20), 4.2), max(1.4 + 0.32 * min(n_rows, 20), 2.6)
    figure = new_figure(size)
    axes = figure.add_subplot(xlabel="predicted cluster", ylabel="true cluster")
    image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    if counts.size <= 150:
        for k, l in np.argwhere(counts):  # noqa: E741
            color = "white" if shares[k, l] > 0.55 else "#1f2328"
            text = f"{counts[k, l]:,}"
            axes.text(l, k, text, ha="center", va="center", fontsize=8, color=color)
        axes.set_xticks(range(n_columns), columns.tolist())
        axes.set_yticks(range(n_rows), rows.tolist())
    share = np.trace(counts) / table.n_samples
    message = f"{share:.0%} of {table.n_samples:,} samples on the diagonal"
    axes.set_title(message, loc="left", fontsize=10, fontweight="bold")
    figure.colorbar(image, ax=axes, label="share of the true cluster", shrink=0.9)
    return figure


def _matched(table: ContingencyTable) -> int:
    """Count the samples in the cells of the best one-to-one matching of clusters."""
    if np.all(table.columns[1:] >= table.columns[:-1]):  # a staircase, as cells are sorted by row
        from metriclearn.indices.kernels import chain_matching

        return int(chain_matching(table.rows, table.columns, table.counts))
    if len(table.row_sizes) * len(table.column_sizes) <= _DENSE_CELLS:
        return _matched_densely(table.to_array())
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # clusters linked by overlaps, a component of their graph, are matched separately from the rest
    n_rows, n_nodes = len(table.row_sizes), len(table.row_sizes) + len(table.column_sizes)
    links = coo_array((table.counts, (table.rows, table.columns + n_rows)), shape=(n_nodes,) * 2)
    component = connected_components(links, directed=False)[1][table.rows]
    order = np.argsort(component, kind="stable")
    starts = np.flatnonzero(np.diff(component[order], prepend=-1))
    counts, rows, columns = table.counts[order], table.rows[order], table.columns[order]
    # if all cells of a component share a row or a column, only the largest cell can be matched
    lone = np.minimum(_spread(rows, starts), _spread(columns, starts)) == 0
    total = int(np.maximum.reduceat(counts, starts)[lone].sum())
    stops = np.append(starts[1:], len(counts))
    for cells in map(slice, starts[~lone].tolist(), stops[~lone].tolist()):
        total += _matched_component(rows[cells], columns[cells], counts[cells])
    return total


def assignment(table: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    """Match rows and columns one to one so that the sum of the matched cells is largest.

    Returns the matched rows and their columns. It takes at most O(K³) time.
    """
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(table, maximize=True)


def _matched_densely(table: NDArray[np.int64]) -> int:
    return int(table[assignment(table)].sum())


def _spread(codes: NDArray, starts: NDArray) -> NDArray[np.int64]:
    """For every component, return the largest row (or column) number minus the smallest one."""
    return np.maximum.reduceat(codes, starts) - np.minimum.reduceat(codes, starts)


def _matched_component(rows: NDArray, columns: NDArray, counts: NDArray) -> int:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, columns = (np.unique(codes, return_inverse=True)[1] for codes in (rows, columns))
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    if n_rows * n_columns <= _DENSE_CELLS:
        return _matched_densely(coo_array((counts, (rows, columns))).toarray())
    # with a spare column per row, a full matching exists; adding 1 to all weights keeps the optimum
    spare = np.arange(n_rows)
    weights = np.concatenate([counts + 1.0, np.ones(n_rows)])
    cells = (np.concatenate([rows, spare]), np.concatenate([columns, spare + n_columns]))
    graph = coo_array((weights, cells), shape=(n_rows, n_columns + n_rows)).tocsr()
    matching = min_weight_full_bipartite_matching(graph, maximize=True)
    return int(graph[matching].sum()) - n_rows
