"""How many boundaries the labeled stretches of recordings let us expect elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from metriclearn.estimators.reading.given import needing_a_change

_GRID = 2000
_STATED = 10  # labeled boundaries that a stated length of segments counts for


@dataclass(frozen=True)
class BoundaryRate:
    """The posterior distribution of the number of boundaries per row.

    Boundaries are a Poisson process whose rate r has Jeffreys' prior, r^(−1/2). A person may have
    drawn the stretches at random, or picked each of them because it holds a boundary, which
    overstates the rate. Both are equally likely beforehand; in the second case, the likelihood of a
    stretch is divided by the probability 1 − exp(−r · length) that it holds a boundary, and
    multiplied by the probability that their recordings hold as many boundaries as are labeled. If a
    stretch holds none, they were not picked so.

    Attributes
    ----------
    rates : array (m,)
        Boundaries per row, increasing.
    weights : array (m,)
        Their probabilities.

    References
    ----------
    Jeffreys, An invariant form for the prior probability in estimation problems, Proceedings of the
    Royal Society A 186, 1946.
    """

    rates: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, truths: Sequence[Any], length: float | None = None) -> Self | None:
        """Compute the distribution that labels leave; None if they tell nothing of the rate.

        A recording that is labeled as a whole was not picked. ``length`` is the usual number of
        rows of a segment, if the user states it. It counts as ten more labeled boundaries.
        """
        rows, counts, picked, partly = [], [], [], []
        for truth in truths:
            pairs = [(int(e[-1]) - start, len(e) - 1) for start, e in truth.pieces.stretches]
            pairs += [(one.stop - one.start, one.kind.fewest) for one in needing_a_change(truth)]
            rows += [size for size, _ in pairs]
            counts += [count for _, count in pairs]
            picked += [not truth.is_whole] * len(pairs)
            partly += [] if truth.is_whole or not pairs else [truth]
        total, n = float(sum(rows)), sum(counts)
        if length is not None:
            n, total = n + _STATED, total + _STATED * length
        if not total:
            return None
        rates = np.geomspace(1e-4, 10.0 * (n + 1.0), _GRID) / total
        logs = (n + 0.5) * np.log(rates) - rates * total  # r^(−1/2) dr = r^(1/2) d log r
        chosen = np.array(rows)[np.array(picked, dtype=bool)]
        if len(chosen) and all(count for count, one in zip(counts, picked) if one):
            seen = np.log(-np.expm1(-np.outer(rates, chosen))).sum(axis=1)
            held, most = sum(np.array(counts)[picked]), sum(t.n_samples for t in partly)
            with np.errstate(divide="ignore"):
                enough = np.log(gammainc(held, rates * most))
            logs = np.logaddexp(logs, logs - seen + enough)
        weights = np.exp(logs - logs.max())
        return cls(rates, weights / weights.sum())

    def quantile(self, probability: float) -> float:
        """Return the rate below which the true rate is with the given probability."""
        return float(np.interp(probability, np.cumsum(self.weights), self.rates))
