"""``import metriclearn`` is quick and light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import metriclearn

REPORT = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import metriclearn
seconds = time.perf_counter() - start
{statement}
print(seconds)
print(*sorted({{name.split(".")[0] for name in set(sys.modules) - before}}))
"""


def fresh(statement: str) -> tuple[float, set[str]]:
    """Seconds of the import, and the top-level modules loaded after ``statement``."""
    code = REPORT.format(statement=statement)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    seconds, modules = result.stdout.splitlines()
    return float(seconds), set(modules.split())


def test_import_takes_less_than_a_second_and_no_heavy_module() -> None:
    seconds, modules = min((fresh("") for _ in range(2)), key=lambda pair: pair[0])
    assert seconds < 1.0
    assert "metriclearn" in modules
    heavy = {"torch", "cvxpy", "matplotlib", "pandas", "librosa", "dask", "hydra", "pooch"}
    assert not heavy & modules


def test_the_learner_itself_needs_no_optional_package() -> None:
    _, modules = fresh("metriclearn.ChangePointMetricLearner()")
    assert not {"torch", "cvxpy", "matplotlib", "librosa", "dask", "hydra", "pooch"} & modules


def test_every_public_name_is_there() -> None:
    assert sorted(dir(metriclearn)) == sorted(metriclearn.__all__)
    for name in metriclearn.__all__:
        public = getattr(metriclearn, name)
        assert getattr(public, "__name__", repr(public)) == name
    with pytest.raises(AttributeError, match="module 'metriclearn' has no attribute 'nothing'"):
        _ = metriclearn.nothing
