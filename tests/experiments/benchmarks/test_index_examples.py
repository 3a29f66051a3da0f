"""The papers' examples: orders and values the paper states, and pictures that show them."""

import pytest

from experiments.benchmarks import index_examples as examples


def test_only_graph_sensitive_indices_tell_the_chains_apart() -> None:
    for A, B, C in examples.CHAINS.values():
        to_b, to_c = examples.chain_values(A, B), examples.chain_values(A, C)
        assert to_b["VI"] == pytest.approx(to_c["VI"], abs=1e-12)
        for name in ("RWI", "RWI, weights 1/d", "VIN"):
            assert to_c[name] < to_b[name]


def test_gaussian_means_reproduce_for_vi_and_vin() -> None:
    table = examples.gaussian_table(100)
    assert table["VI"] == (pytest.approx(0.0243, abs=5e-5), pytest.approx(0.0243, abs=5e-5), 100)
    assert table["VIN"] == (pytest.approx(0.0142, abs=2e-3), pytest.approx(0.0782, abs=5e-3), 0)
    # the paper's RWI row (.0355, .1362) does not follow from its definition
    assert table["RWI"] == (pytest.approx(0.0025, abs=1e-3), pytest.approx(0.0357, abs=2e-3), 0)
