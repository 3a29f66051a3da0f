"""Compute the value of a segment from cumulative sums in O(r), and tell which segments are allowed.

Let S be the cumulative sums of the factors. The segment (s, u] has the value

    f(s,u) = (‖S_u − S_s‖² − κ g(s,u)) / (u−s) + c,

where κ is the weight of the true segments C_k, and c is minus the penalty of a segment. The number
g(s,u) = Σ_k |(s,u] ∩ C_k|² / |C_k| measures the overlap of the segment with the true segments. With
the charges of :class:`~metriclearn.problem.losses.KnownLoss`, the segment has the value

    f(s,u) = ‖S_u − S_s‖² / (u−s) + α·charge(s,u) + c.

If segments have names, the value also includes

    max_c [E_c(u) − E_c(s)],

which is the score of the best name. E_c(t) is the sum of the scores of the name c in the samples
before t.

The same kernels serve all signals. Numba compiles a kernel anew for every combination of arrays and
None, which takes seconds. So there are only four kinds of signals: with or without names, and with
or without constraints (charges and rules). If a signal has no names, the fields for names are None.
If it has no constraints, the fields for constraints are None. Numba compiles no tests of fields
that are None. Other fields are empty arrays if the signal does not need them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from metriclearn.problem.charges import Charges, charge
from metriclearn.problem.named_segments import NameScores
from metriclearn.running.command_line import is_interrupt

# Python calls only the kernels with ``@called``. Kernels with ``@njit(**WITHIN)`` are called by
# other kernels: they are compiled with their callers, and Python cannot call them.
WITHIN: Any = {
    "nogil": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "error_model": "numpy",
}
# Kernels that allocate nothing need no reference counts, which cost more than their arithmetic.
LIGHT: Any = {**WITHIN, "_nrt": False, "forceinline": True}
# Long kernels with a single call are inlined there before numba infers types. Fewer functions are
# then optimized, and optimizing takes most of the time of a compilation.
ONCE: Any = {**LIGHT, "inline": "always"}
# Counts and positions are converted to one type. Otherwise numba would compile every kernel again
# for a literal 0, and again for positions that are stored in 32 bits.
INTEGER: Any = np.int64
_REDUCTION = {"reassoc", "contract", "nsz"}

# Columns of truth_table and rows of SegmentRules.
START, SHARE, BEFORE, AFTER, END, LACK = range(6)
_ALLOWED, _FLOOR, _CEILING, _REACH = range(4)
NO_RULES = np.empty((4, 0), dtype=np.int64)


def called(function: Callable[..., Any]) -> Any:
    """Compile a kernel that Python calls, and let Ctrl-C raise KeyboardInterrupt, not SystemError.

    Numba's cache notices changes only in the kernel's own file. After a change to a kernel, touch
    every other file with a ``@called`` kernel that uses the changed one (in this folder, and
    ../expected_loss.py), or set NUMBA_CACHE_DIR to a new folder.
    """
    options: Any = {"nogil": True, "cache": True, "no_cfunc_wrapper": True}
    kernel = njit(**options)(function)

    @wraps(function)
    def interruptible(*arguments: Any) -> Any:
        try:
            return kernel(*arguments)
        except SystemError as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise

    interruptible.py_func = function  # type: ignore[attr-defined]
    return interruptible


class Signal(NamedTuple):
    """The arrays and numbers of a form, its constraints and the penalty, as kernels take them.

    Attributes
    ----------
    cumulative : array (T+1, r)
        The cumulative sums S, or a table (T+1, T+1, 1) of ‖S_u − S_s‖² for all s and u.
    weight : float
        κ if the form has true segments, α if it has charges, and 0 if it has neither.
    min_size : int
        Smallest number of samples in a segment.
    truth : array (T+1, 6), or (0, 6) without true segments
        See :func:`truth_table`.
    penalties : array (T+1,), or (0,) without penalties of positions
        The penalty p_t of a change at t; 0 at both ends.
    charges : array (T+1, 11), or (0, 11) without charges; None without constraints
        See :func:`~metriclearn.problem.charges.charge_table`.
    slack : array (T+1,), or (0,) without charges; None without constraints
        The slack of the charges, times α.
    rules : int array (4, T+1), or (4, 0) without rules; None without constraints
        The rows of :class:`~metriclearn.problem.regions.SegmentRules`.
    emissions : array (T+1, C) or None
        E of :class:`~metriclearn.problem.named_segments.NameScores`, normalized: in every sample
        the best name scores 0 and the others less, so no segment has a score above 0.
    given : int32 array (2, T+1), or (2, 0) without given names; None without names or constraints
        The array ``given`` of ``NameScores``.
    c : float
        Minus the penalty of a segment.
    head : int or None
        In a stream, the number of positions that were forgotten between the stored positions 0 and
        1; no further change can lie there. None otherwise.
    """

    cumulative: NDArray
    weight: float
    min_size: int
    truth: NDArray = np.empty((0, 6))
    penalties: NDArray = np.empty(0)
    charges: NDArray | None = None
    slack: NDArray | None = None
    rules: NDArray | None = None
    emissions: NDArray | None = None
    given: NDArray | None = None
    c: float = 0.0
    head: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the signal has no truth, no penalties of positions, no constraints and no
        names."""
        missing = self.charges is None and self.emissions is None
        return missing and not len(self.truth) and not len(self.penalties)

    def constrained(self, charges: Charges | None, rules: Any) -> Signal:
        """Return the same signal with charges and rules. Both arguments may be None."""
        table, slack = np.empty((0, 11)), np.empty(0)
        if charges is not None:
            table, slack = charges.table, self.weight * charges.slack
        rules = NO_RULES if rules is None else np.array(rules)
        return self._replace(charges=table, slack=slack, rules=rules)

    def named(self, names: NameScores) -> Signal:
        """Return the same signal with names; :meth:`constrained`, if needed, comes first."""
        given = None if self.rules is None else names.given
        return self._replace(emissions=names.emissions, given=given)


@called
def truth_table(ends: np.ndarray, n_samples: int) -> np.ndarray:
    """Make a table (T+1, 6) of the true segments, from which g(s,u) can be computed in O(1).

    The first two columns of row t are the start and 1/size of the true segment of sample t−1. The
    next two columns, before(t) and after(t), are the parts of an overlap: g(s,u) = before(u) +
    after(s), unless (s,u] lies in one true segment C. If it does, g(s,u) = (u−s)²/|C|. The last two
    columns are the end e of the true segment C of sample t, and h(t) = (e−t)(1 − (e−t)/|C|). For u
    ≥ e, the overlap of (t,u] is smaller by h(t) than it would be if C began at t.
    """
    table = np.empty((n_samples + 1, 6))
    for column in range(6):
        table[0, column] = table[n_samples, column] = 0.0
    start = 0
    for end in ends:
        size = float(end - start)
        for t in range(start, end):
            # Sample t lies in C = (start, end]. Row t + 1 is read for the end u = t + 1. Row t is
            # read for the start s = t, after which end − t samples of C are left.
            passed, left = float(t + 1 - start), float(end - t)
            table[t + 1, START], table[t + 1, SHARE] = start, 1.0 / size
            table[t + 1, BEFORE] = start + passed * passed / size
            table[t, AFTER] = left * left / size - end
            table[t, END], table[t, LACK] = end, left * (1.0 - left / size)
        start = end
    table[-1, END] = n_samples
    return table


@njit(**LIGHT, fastmath=_REDUCTION)
def energy(S, s, u):
    """Return ‖S_u − S_s‖²."""
    if S.ndim == 3:  # a table
        return S[u, s, 0]
    total = 0.0
    for d in range(S.shape[1]):
        difference = S[u, d] - S[s, d]
        total += difference * difference
    return total


@njit(**LIGHT)
def overlap(truth, s, u):
    """Compute the overlap g(s,u).

    A true segment inside (s,u] adds its length. A true segment that lies only partly in (s,u] adds
    less.
    """
    if s >= truth[u, START]:  # both ends in one true segment
        return float((u - s) * (u - s)) * truth[u, SHARE]
    return truth[u, BEFORE] + truth[s, AFTER]


@njit(**LIGHT)
def name_score(E, given, s, u):
    """Return the score of the name that is given in (s,u], or of the best name if none is given.

    If a segment is split, its two parts together score at least as much as the whole. Proof: both
    parts may take the name of the whole, because a name that is given in a part is also given in
    the whole. So (*) of :mod:`.bounds` holds with the same slack.
    """
    # Numba drops this branch for None only if the test for None stands alone.
    if given is not None:  # noqa: SIM102
        if given.shape[1] and given[0, s] <= u:
            return E[u, given[1, s]] - E[s, given[1, s]]
    best = E[u, 0] - E[s, 0]
    for name in range(1, E.shape[1]):
        best = max(best, E[u, name] - E[s, name])
    return best


@njit(**LIGHT)
def n_between(head, s, u):
    """Return the number of samples from position s to u."""
    # Numba drops branches on arguments that are None, not on fields of a tuple.
    if head is not None:  # noqa: SIM102
        if s == 0:
            return u - s + head
    return u - s


@njit(**LIGHT)
def is_given(term):
    """Whether a signal has a term: it is neither None nor an empty array."""
    if term is None:
        return False
    return term.size > 0


@njit(**LIGHT)
def _with_loss(value, weight, truth, charges, s, u, length):
    """Divide the energy ``value`` by the length, and add the weighted loss if there is one."""
    if charges is None:
        if len(truth):
            value -= weight * overlap(truth, s, u)
        return value / length
    # A signal with charges has no truth. Charges cost most, so they have a single test.
    if len(charges):
        return value / length + weight * charge(charges, s, u)
    if len(truth):
        value -= weight * overlap(truth, s, u)
    return value / length


@njit(**LIGHT)
def _with_names(value, E, given, s, u):
    return value if E is None else value + name_score(E, given, s, u)


@njit(**LIGHT)
def segment_value(signal, s, u):
    """Return the value f(s,u) of the segment (s,u]."""
    S, weight, _, truth, _, charges, _, _, emissions, given, c, head = signal
    value, length = energy(S, s, u), n_between(head, s, u)
    value = _with_loss(value, weight, truth, charges, s, u, length) + c
    return _with_names(value, emissions, given, s, u)


@njit(**LIGHT)
def penalty_at(penalties, t):
    """Return the penalty p_t of a change at t. It is 0 if positions have no penalties."""
    return penalties[t] if len(penalties) else 0.0


@njit(**LIGHT)
def allowed_starts(rules, u, stop):
    """Return (low, high): for starts s < ``stop``, (s,u] is allowed if low ≤ s < high."""
    if rules is None:
        return 0, stop
    if rules.shape[1] == 0:
        return 0, stop
    if rules[_ALLOWED, u] == 0:  # no change may be at u
        return 0, 0
    return rules[_FLOOR, u], min(rules[_CEILING, u], stop)


@njit(**LIGHT)
def split_slack(slack, weight, c, t):
    """Return slack(t), an upper bound of f(s,u) − f(s,t) − f(t,u) over s, u; see :mod:`.bounds`."""
    if slack is None:
        return weight - c
    return slack[t] - c if len(slack) else weight - c


@njit(**LIGHT)
def legal_from(rules, t, min_size):
    """Return the first end u from which on every allowed segment across t may be split at t."""
    if rules is None:
        return t + min_size
    return max(t + min_size, rules[_REACH, t] + 1) if rules.shape[1] else t + min_size


@called
def segment_values(signal, starts, ends):
    """Return the value f of every segment minus the penalty of a change at its end, (K,)."""
    values = np.empty(len(ends))
    for k in range(len(ends)):
        values[k] = segment_value(signal, starts[k], ends[k])
        values[k] -= penalty_at(signal.penalties, ends[k])
    return values


def boundary_worths(signal: Signal, ends: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the value that is lost if the two segments at a boundary are merged, (K−1,).

    The signal must have c = 0.
    """
    starts = np.append(0, ends[:-1])
    apart = segment_values(signal, starts, ends)
    return apart[:-1] + apart[1:] - segment_values(signal, starts[:-1], ends[1:])
