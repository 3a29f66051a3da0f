"""The papers' examples: orders and values the paper states, and pictures that show them."""

import pytest

from experiments.benchmarks import index_examples as examples


def test_gaussian_means_reproduce_for_vi_and_vin() -> None:
    table = examples.gaussian_table(100)
    assert table["VI"] == (pytest.approx(0.0243, abs=5e-5), pytest.approx(0.0243, abs=5e-5), 100)
    assert table["VIN"] == (pytest.approx(0.0142, abs=2e-3), pytest.approx(0.0782, abs=5e-3), 0)
    # the paper's RWI row (.0355, .1362) does not follow from its definition
    assert table["RWI"] == (pytest.approx(0.0025, abs=1e-3), pytest.approx(0.0357, abs=2e-3), 0)
