"""Importing the indices stays light: nothing heavy is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numba", "scipy", "sklearn", "pandas", "matplotlib")


def test_importing_the_indices_loads_nothing_heavy() -> None:
    code = "import sys, metriclearn.indices; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(found.stdout.split())


def test_everything_public_is_documented_and_exported() -> None:
    import metriclearn.indices as indices

    assert len(indices.__all__) == len(set(indices.__all__)) > 50
    for name in indices.__all__:
        assert getattr(indices, name).__doc__, name
