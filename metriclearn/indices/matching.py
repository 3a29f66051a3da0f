"""Misclassification error: the disagreement left by the best one-to-one matching of clusters."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices.contingency import ContingencyTable, Labels, contingency_table

__all__ = ["matched_order", "misclassification_error"]

_DENSE_CELLS = 1_000_000  # larger tables are matched, faster, through their non-empty cells


def misclassification_error(
    labels_true: Labels | None = None,
    labels_pred: Labels | None = None,
    *,
    contingency: Any = None,
    ignore_label: Hashable = None,
) -> float:
    """Misclassification error 1 − max_π Σ_k n_{k,π(k)} / n over one-to-one matchings π, a metric.

    Seed 004, "The Misclassification Error (ME) distance". Symmetric, 0 for equal partitions only,
    at most 1 − 1/max(K, K′). The matching is exact (linear assignment), O(K³) at worst; of two
    contiguous partitions it takes O(K + K′), see
    :func:`~metriclearn.indices.misclassification_error_change_points`.
    """
    table = contingency_table(
        labels_true, labels_pred, contingency=contingency, ignore_label=ignore_label
    )
    return (table.n_samples - _matched(table)) / table.n_samples


def matched_order(table: ContingencyTable) -> tuple[list[int], list[int]]:
    """Orders of the rows and columns that put the best matching on the diagonal."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = (side.tolist() for side in linear_sum_assignment(table.to_array(), True))
    return (
        rows + sorted(set(range(len(table.row_sizes))) - set(rows)),
        columns + sorted(set(range(len(table.column_sizes))) - set(columns)),
    )


def _matched(table: ContingencyTable) -> int:
    """Samples in the cells of the heaviest matching."""
    if len(table.row_sizes) * len(table.column_sizes) <= _DENSE_CELLS:
        return _matched_densely(table.to_array())
    # clusters that overlap, directly or through others, are matched apart from the rest
    counts, rows, columns, starts = _by_component(table)
    stops = np.append(starts[1:], len(counts))
    lone = np.minimum(_distinct(rows, starts), _distinct(columns, starts)) == 1
    total = int(np.maximum.reduceat(counts, starts)[lone].sum())
    for first, last in zip(starts[~lone].tolist(), stops[~lone].tolist()):
        cells = slice(first, last)
        total += _matched_component(rows[cells], columns[cells], counts[cells])
    return total


def _matched_densely(table: NDArray[np.int64]) -> int:
    from scipy.optimize import linear_sum_assignment

    return int(table[linear_sum_assignment(table, maximize=True)].sum())


def _by_component(table: ContingencyTable) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Counts, rows and columns of the cells by connected component, and where each starts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_rows = len(table.row_sizes)
    n_nodes = n_rows + len(table.column_sizes)
    links = coo_array((table.counts, (table.rows, table.columns + n_rows)), shape=(n_nodes,) * 2)
    component = connected_components(links, directed=False)[1][table.rows]
    order = np.argsort(component, kind="stable")
    starts = np.flatnonzero(np.diff(component[order], prepend=-1))
    return table.counts[order], table.rows[order], table.columns[order], starts


def _distinct(codes: NDArray, starts: NDArray) -> NDArray[np.int64]:
    """1 where all codes of a component are the same, more elsewhere."""
    return 1 + np.maximum.reduceat(codes, starts) - np.minimum.reduceat(codes, starts)


def _matched_component(rows: NDArray, columns: NDArray, counts: NDArray) -> int:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    _, rows = np.unique(rows, return_inverse=True)
    _, columns = np.unique(columns, return_inverse=True)
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    if n_rows * n_columns <= _DENSE_CELLS:
        dense = np.zeros((n_rows, n_columns), dtype=np.int64)
        dense[rows, columns] = counts
        return _matched_densely(dense)
    # a private spare column per row makes a full matching exist; every row then gains exactly 1
    spare = np.arange(n_rows)
    weights = np.concatenate([counts + 1.0, np.ones(n_rows)])
    cells = (np.concatenate([rows, spare]), np.concatenate([columns, spare + n_columns]))
    graph = coo_array((weights, cells), shape=(n_rows, n_columns + n_rows)).tocsr()
    matching = min_weight_full_bipartite_matching(graph, maximize=True)
    return int(graph[matching].sum()) - n_rows
