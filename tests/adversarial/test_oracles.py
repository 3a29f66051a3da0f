"""Oracles against the enumeration of all segmentations, at any scale and offset, with ties."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import metriclearn as ml
from tests.adversarial.outcome import CASES, Invalid, Wrong, in_ci, is_ours, watched
from tests.exhaustive import all_segmentations, segmentation_values

EXACT = [ml.oracles.ChangePoints(), ml.oracles.ConstrainedChangePoints(), ml.oracles.SummedArea()]


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, int, float, int | None]:
    """Factors in units of 1, the exponent of their unit, a penalty and K."""
    T, r = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "integers", "constant", "duplicates", "steps"]))
    Z = random.normal(size=(T, r))
    if kind == "integers":
        Z = random.integers(-2, 3, size=(T, r)).astype(float)
    elif kind == "constant":
        Z = np.full((T, r), Z[0, 0])
    elif kind == "duplicates":
        Z = Z[random.integers(0, max(1, T // 2), T)]
    elif kind == "steps":
        Z = np.repeat(Z, 2, axis=0)[:T] + 0.01 * random.normal(size=(T, r))
    offset = draw(st.sampled_from([0.0, 0.0, 1.0, 1e3, 1e8, 1e12]))
    penalty = draw(st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    count = draw(st.none() | st.integers(1, T))
    exponent = draw(st.sampled_from([-530, -330, -100, -10, 0, 0, 10, 100, 330, 530]))
    return Z + offset, exponent, penalty, count


def assert_best(oracle: Any, problem: tuple[np.ndarray, int, float, int | None]) -> None:
    """The partition has K clusters, and its value, computed independently, is the best."""
    CASES[f"oracles: {type(oracle).__name__}"] += 1
    Z, exponent, penalty, count = problem
    unit = 2.0**exponent  # exact, so that no digit is lost
    penalty = penalty if abs(exponent) < 400 else 0.0  # in the square of the unit
    try:
        with watched():
            form = ml.problem.LowRankForm(Z * unit).shifted(-penalty * unit**2 if penalty else 0.0)
            partition = oracle(form, count)
    except ValueError as error:
        if is_ours(error) and abs(exponent) > 390:  # squares of 1e120 cannot be added
            return
        raise
    ends = tuple(partition.change_points.tolist())
    every = all_segmentations(len(Z), count)
    if ends not in every:
        raise Invalid(f"{oracle} gives {ends} for {len(Z)} samples and K={count}")
    exact = Z.astype(np.longdouble)
    centered = (exact - exact.mean(axis=0)).astype(float)
    values = segmentation_values(centered @ centered.T, count)
    values = values - penalty * np.array(list(map(len, every)))
    size = max(float(np.sum(centered**2)), penalty * len(Z))
    rounding = (
        1e-9 * size + (1e-15 * float(np.abs(Z).max())) ** 2
    )  # the data themselves are rounded
    if values[every.index(ends)] < values.max() - rounding:
        raise Wrong(f"{oracle} is {values.max() - values[every.index(ends)]:.3g} below the best")


@in_ci(800)
@given(st.sampled_from(EXACT), problems())
def test_oracles(oracle: Any, problem: tuple[np.ndarray, int, float, int | None]) -> None:
    assert_best(oracle, problem)
