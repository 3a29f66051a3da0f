"""The average of relaxation and local search: its share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metriclearn.oracles.averaged import Averaged
from metriclearn.problem.forms import LowRankForm


@pytest.mark.parametrize("share", [-0.1, 1.5, np.nan, np.inf, "a", None, True])
def test_shares_outside_0_and_1_are_refused(share: Any) -> None:
    with pytest.raises(ValueError, match=f"Averaged needs a share between 0 and 1, got {share!r}"):
        Averaged(share=share)(LowRankForm(np.eye(4)), 2)


def test_the_ends_are_the_relaxation_and_the_local_search() -> None:
    form = LowRankForm(np.random.default_rng(0).normal(size=(12, 3)))
    bounds = Averaged().search.bounds(form, 3)
    assert form.at(Averaged(share=0)(form, 3)) == pytest.approx(bounds.upper)
    assert form.at(Averaged(share=1)(form, 3)) == pytest.approx(bounds.lower)
