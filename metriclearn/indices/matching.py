"""Misclassification error: the disagreement left by the best one-to-one matching of clusters."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metriclearn.indices.contingency import ContingencyTable, Labels, contingency_table

__all__ = ["matched_columns", "misclassification_error"]

_DENSE_CELLS = 4_000_000  # 32 MB; larger tables are matched through their non-empty cells


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


def matched_columns(table: ContingencyTable) -> list[int]:
    """All columns, ordered so that those matched to rows 0, 1, … come first."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(table.to_array(), maximize=True)
    matched = columns[np.argsort(rows)].tolist()
    return matched + sorted(set(range(len(table.column_sizes))) - set(matched))


def _matched(table: ContingencyTable) -> int:
    """Samples in the cells of the heaviest matching."""
    if len(table.row_sizes) * len(table.column_sizes) <= _DENSE_CELLS:
        from scipy.optimize import linear_sum_assignment

        dense = table.to_array()
        return int(dense[linear_sum_assignment(dense, maximize=True)].sum())
    return sum(_matched_component(*cells) for cells in _components(table))


def _components(table: ContingencyTable) -> list[tuple[NDArray, NDArray, NDArray]]:
    """Cells by connected component of the graph that links overlapping clusters."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n_rows = len(table.row_sizes)
    n_nodes = n_rows + len(table.column_sizes)
    links = coo_array((table.counts, (table.rows, table.columns + n_rows)), shape=(n_nodes,) * 2)
    _, component = connected_components(links, directed=False)
    order = np.argsort(component[table.rows], kind="stable")
    starts = np.flatnonzero(np.diff(component[table.rows][order])) + 1
    return [
        (table.rows[cells], table.columns[cells], table.counts[cells])
        for cells in np.split(order, starts)
    ]


def _matched_component(rows: NDArray, columns: NDArray, counts: NDArray) -> int:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    if len(counts) == 1:
        return int(counts[0])
    _, rows = np.unique(rows, return_inverse=True)
    _, columns = np.unique(columns, return_inverse=True)
    n_rows, n_columns = int(rows.max()) + 1, int(columns.max()) + 1
    # a private spare column per row makes a full matching exist; every row then gains exactly 1
    spare = np.arange(n_rows)
    weights = np.concatenate([counts + 1.0, np.ones(n_rows)])
    cells = (np.concatenate([rows, spare]), np.concatenate([columns, spare + n_columns]))
    graph = coo_array((weights, cells), shape=(n_rows, n_columns + n_rows)).tocsr()
    matching = min_weight_full_bipartite_matching(graph, maximize=True)
    return int(graph[matching].sum()) - n_rows
