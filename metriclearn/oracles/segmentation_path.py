"""Find all segmentations that are optimal in a range of penalties (CROPS)."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.oracles.change_points import PenalizedSegmentation, Vertex, slope
from metriclearn.problem.forms import LowRankForm, center
from metriclearn.problem.partition import check_count
from metriclearn.running.parameters import Needs, OneOf, Whole, needs
from metriclearn.running.values import real_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RANGE = Needs(
    "0 <= low <= high in {name}",
    lambda given: given is None or (np.shape(given) == (2,) and 0 <= given[0] <= given[1]),
)


@dataclass(frozen=True)
class SegmentationPath:
    """Segmentations that are optimal at some penalty, from few segments to many.

    Attributes
    ----------
    change_points : list of int arrays
        Segment ends of each segmentation, in the format of ruptures.
    n_segments : int array (m,)
        Number of segments of each segmentation.
    costs : array (m,)
        Residual ‖Z − MZ‖² of each segmentation.
    penalties : array (m, 2)
        For each segmentation, the lowest and the highest penalty λ at which it is optimal.
    """

    change_points: list[NDArray[np.int64]] = field(repr=False)
    n_segments: NDArray[np.int64]
    costs: NDArray[np.float64] = field(repr=False)
    penalties: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.change_points)

    def at(self, penalty: float) -> NDArray[np.int64]:
        """Return the segment ends of the segmentation that is optimal at ``penalty``.

        Raises
        ------
        ValueError
            If the path does not cover this penalty.
        """
        if not self.penalties[-1, 0] <= penalty <= self.penalties[0, 1]:
            raise ValueError(
                f"SegmentationPath needs a penalty from {self.penalties[-1, 0]:.6g} to "
                f"{self.penalties[0, 1]:.6g}, got {penalty:.6g}; compute a wider path."
            )
        return self.change_points[int(self.positions(penalty))]

    def positions(self, penalties: ArrayLike) -> NDArray[np.int64]:
        """Return for every penalty the index of the segmentation that is optimal at this penalty.

        For penalties below the range of the path, the result is the last index.

        Parameters
        ----------
        penalties : array of any shape, in units of squared distance

        Returns
        -------
        int array of the same shape
        """
        # The low ends decrease along the path. Negated, they increase, as the bisection needs.
        places = np.searchsorted(-self.penalties[:, 0], -np.asarray(penalties), side="left")
        return np.minimum(places, len(self.penalties) - 1)

    def elbow(self) -> int:
        """Return the index of the elbow, which is optimal in the widest range of penalties.

        The width of a range is the ratio of its ends. Ranges that reach 0 or infinity are left out.
        If no other range exists, the index is 0.
        """
        low, high = self.penalties[:, 0], self.penalties[:, 1]
        bounded = (low > 0) & np.isfinite(high)
        if not bounded.any():
            return 0
        ratios = np.where(bounded, high / np.where(bounded, low, 1.0), 0.0)
        return int(np.argmax(ratios))

    def plot(self, chosen: int | None = None, ax: Any = None) -> Figure:
        """Plot cost against number of segments, and mark the index ``chosen`` or the elbow."""
        from metriclearn.plots import plot_elbow

        position = self.elbow() if chosen is None else chosen
        return plot_elbow(
            self.n_segments, self.costs, self.penalties, int(self.n_segments[position]), ax=ax
        )


@needs
def segmentation_path(
    X: ArrayLike,
    penalty_range: Annotated[tuple[float, float] | None, _RANGE] = None,
    *,
    components: ArrayLike | None = None,
    min_size: int = 1,
    max_segments: Annotated[int | None, OneOf(None, Whole(1))] = None,
) -> SegmentationPath:
    """Find every segmentation that is optimal for some penalty in a range, exactly.

    With Z = XL, the penalized problem is min ‖Z − MZ‖² + penalty · (number of segments), Eq. (4).
    For two optimal segmentations, we solve this problem at the penalty at which both cost the same.
    Either the solution is a new segmentation, or there is none between the two (Haynes, Eckley &
    Fearnhead 2017, CROPS). Each segmentation of the path takes at most two runs of the pruned
    dynamic program.

    Parameters
    ----------
    X : array (T, P), or (T,) for one feature
    penalty_range : (low, high), optional
        Both numbers are at least 0. By default, ``low`` is roughly the variance within segments,
        for the segmentation whose penalty is the variance of all samples. ``high`` is infinite by
        default, so the path begins with a single segment.
    components : array (r, P), optional
        Lᵀ of a metric, such as a learner's ``components_``.
    min_size : int
        Smallest number of samples in a segment.
    max_segments : int, optional
        If two neighboring segmentations both have at least this many segments, no segmentation
        between them is searched for.

    Returns
    -------
    SegmentationPath
        ``change_points``, ``costs`` and ``penalties`` of every segmentation. The segmentation with
        the fewest segments comes first.

    Raises
    ------
    ValueError
        If the range is not 0 ≤ low ≤ high, or if the data cannot be used.
    """
    Z = center(real_array("segmentation_path", "X", X, signals=True))
    if components is not None:
        L = real_array("segmentation_path", "components", components)
        if L.shape[1] != Z.shape[1]:
            raise ValueError(
                f"segmentation_path needs components of shape (r, {Z.shape[1]}), got {L.shape}."
            )
        Z = Z @ L.T
    _, min_size = check_count("segmentation_path", len(Z), None, min_size)
    problem = PenalizedSegmentation(LowRankForm(Z), min_size)
    low, high = problem.extremes
    if penalty_range is not None:
        cheap, dear = map(float, penalty_range)
        low = low if np.isinf(dear) else problem.solve(dear)
        high = problem.solve(cheap)
    else:
        # With a large ``min_size``, more segments can be worse, but no penalty is below 0.
        high = problem.solve(0.0) if min_size > 1 else high
        # The penalty is the mean residual of a sample: first around the mean of all samples, then
        # around the segment means of the optimum at that penalty.
        cheap, dear, last = 0.0, np.inf, low
        for _ in range(2):
            if len(high.ends) > len(last.ends):
                penalty, vertex = slope(last, high), problem.between(last, high)
                last, cheap = (last, cheap) if vertex is None else (vertex, penalty)
        high = last if len(last.ends) > 1 else high
    total = float(np.sum(Z * Z))
    return path_between(problem, low, high, int(max_segments or len(Z)), total, (cheap, dear))


def path_between(
    problem: PenalizedSegmentation,
    low: Vertex,
    high: Vertex,
    most: int,
    total: float = 0.0,
    penalty_range: tuple[float, float] = (0.0, np.inf),
) -> SegmentationPath:
    """Find the segmentations that are optimal at some penalty, from ``low`` to ``high``.

    Parameters
    ----------
    problem : PenalizedSegmentation
    low, high : Vertex
        The segmentations with the fewest and with the most segments. Both segmentations must be
        vertices of the upper hull of the points (K, V(K)).
    most : int
        If two neighboring segmentations both have at least this many segments, no segmentation
        between them is searched for.
    total : float
        ‖Z‖². An entry of ``costs`` is ‖Z‖² minus the value of a segmentation.
    penalty_range : (float, float)
        The lowest and the highest penalty of the path. At the lowest penalty, the segmentation with
        the most segments is optimal. At the highest penalty, the segmentation with the fewest
        segments is optimal.
    """
    hull = Hull(problem, [low, high])
    hull.refine(most)
    return hull.path(total, penalty_range)


@dataclass
class Hull:
    """The upper hull of the points (K, V(K)) of a sequence, as far as it is known.

    Attributes
    ----------
    problem : PenalizedSegmentation
    vertices : list of Vertex
        From few segments to many.
    apart : float
        Vertices whose penalties differ by no more than this ratio need not be told apart.
    edges : set of (int, int)
        Numbers of segments of neighboring vertices that have no vertex between them.
    """

    problem: PenalizedSegmentation
    vertices: list[Vertex]
    apart: float = 1.0
    edges: set[tuple[int, int]] = field(default_factory=set)

    @property
    def counts(self) -> NDArray[np.int64]:
        """The numbers of segments of the vertices."""
        return np.array([len(one.ends) for one in self.vertices])

    @property
    def slopes(self) -> NDArray[np.float64]:
        """The penalties at which neighboring vertices have the same value, (m − 1,)."""
        return np.diff([one.value for one in self.vertices]) / np.diff(self.counts)

    def is_open(self, apart: float | None = None) -> NDArray[np.bool_]:
        """Tell where there may be vertices between neighboring vertices, (m − 1,).

        The hull is concave, so the penalties of such vertices lie between the neighboring slopes.
        """
        ratio = self.apart if apart is None else apart
        pairs = pairwise(self.counts.tolist())
        possible = np.array([b - a > 1 and (a, b) not in self.edges for a, b in pairs], dtype=bool)
        if ratio > 1.0:
            slopes = np.concatenate([[np.inf], self.slopes, [0.0]])
            possible &= slopes[:-2] > ratio * slopes[2:]
        return possible

    def refine(self, most: int) -> None:
        """Find all vertices, but none between two that both have at least ``most`` segments."""
        j = 0
        while j < len(self.vertices) - 1:
            left, right = (len(one.ends) for one in self.vertices[j : j + 2])
            if right <= left:  # a single segmentation is possible
                self.vertices.pop(j + 1)
                continue
            may_split = (
                right - left > 1 and left < most and (self.apart == 1.0 or self.is_open()[j])
            )
            if not may_split or not self.split(j):
                j += 1

    def split(self, j: int) -> bool:
        """Look for a vertex between the vertices j and j + 1. Tells whether there is one."""
        left, right = self.vertices[j : j + 2]
        middle = self.problem.between(left, right)
        if middle is None:
            self.edges.add((len(left.ends), len(right.ends)))
        else:
            self.vertices.insert(j + 1, middle)
        return middle is not None

    def look_around(self, j: int, apart: float | None = None) -> bool:
        """Look for a vertex on either side of the vertex j. Tells whether it has looked."""
        is_open = self.is_open(apart)
        sides = [k for k in (j, j - 1) if 0 <= k < len(is_open) and is_open[k]]
        for k in sides:
            self.split(k)
        return bool(sides)

    def path(
        self, total: float = 0.0, penalty_range: tuple[float, float] = (0.0, np.inf)
    ) -> SegmentationPath:
        """Return the path of the known vertices, see :func:`path_between`."""
        values, ends = zip(*self.vertices)
        # At the slope of an edge of the hull both its vertices have the same value. Above this
        # penalty the one with fewer segments is optimal, and below it the one with more.
        slopes = self.slopes
        penalties = np.column_stack(
            [np.append(slopes, penalty_range[0]), np.append(penalty_range[1], slopes)]
        )
        penalties = np.clip(penalties, *penalty_range)
        return SegmentationPath([*ends], self.counts, total - np.array(values), penalties)
