"""Importing the indices stays light: nothing heavy is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("numba", "scipy", "sklearn", "pandas", "matplotlib")


def test_importing_the_indices_loads_nothing_heavy() -> None:
    code = "import sys, metriclearn.indices; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(found.stdout.split())


def test_everything_public_is_documented() -> None:
    import metriclearn.indices as indices

    public = [value for name, value in vars(indices).items() if name[0] != "_" and callable(value)]
    assert len(public) > 50
    assert all(value.__doc__ for value in public)


def test_indices_show_every_argument() -> None:
    from inspect import signature

    from metriclearn.indices import partition_loss

    expected = ["labels_true", "labels_pred", "normalized", "contingency", "ignore_label"]
    assert list(signature(partition_loss).parameters) == expected
