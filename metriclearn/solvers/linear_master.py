"""The master problem without proximal term as a linear program: diagonal metrics, L1 or trace."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import linprog

__all__ = ["linear_master"]


def linear_master(
    rows: NDArray, offsets: NDArray, groups: NDArray, masses: NDArray, cost: NDArray
) -> NDArray | None:
    """Multipliers a of min_{x ≥ 0} Σ_i s_i max(0, max_{j in i} β_j + ⟨G_j, x⟩) + ⟨c, x⟩, by HiGHS.

    The combination Σ a_j (β_j + ⟨G_j, ·⟩) is the best minorant that the cuts have: its minimum
    with the cost is the optimum of the program. Multipliers of a group sum to at most its mass.

    Parameters
    ----------
    rows : array (J, n)
        G.
    offsets : array (J,)
        β.
    groups : int array (J,)
    masses : array (m,)
        s.
    cost : array (n,)
        c.

    Returns
    -------
    array (J,), or None where HiGHS finds no optimum
    """
    J, m = len(offsets), len(masses)
    slacks = scipy.sparse.csr_array((-np.ones(J), (np.arange(J), groups)), shape=(J, m))
    constraints = scipy.sparse.hstack([scipy.sparse.csr_array(rows), slacks], format="csr")
    result = linprog(np.append(cost, masses), constraints, -offsets, method="highs-ds")
    return -result.ineqlin.marginals if result.status == 0 else None
