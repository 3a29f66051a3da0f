"""``import metriclearn`` is quick and light."""

import subprocess
import sys

import pytest

import metriclearn

REPORT = """
import sys, time
before = set(sys.modules)
start = time.process_time()
import metriclearn
seconds = time.process_time() - start
{statement}
print(seconds)
print(*sorted({{name.split(".")[0] for name in set(sys.modules) - before}}))
"""


def fresh(statement: str) -> tuple[float, set[str]]:
    """Processor seconds of the import, and the top-level modules loaded after ``statement``."""
    code = REPORT.format(statement=statement)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    seconds, modules = result.stdout.splitlines()
    return float(seconds), set(modules.split())


def test_import_takes_less_than_a_tenth_of_a_second_and_no_heavy_module() -> None:
    seconds, modules = min((fresh("") for _ in range(2)), key=lambda pair: pair[0])
    assert seconds < 0.1
    assert "metriclearn" in modules
    heavy = {"numpy", "sklearn", "torch", "cvxpy", "matplotlib", "pandas", "librosa", "dask"}
    assert not heavy & modules


def test_nothing_heavy_is_loaded_before_it_is_used_and_then_every_folder_is_reachable() -> None:
    """One statement after the other in one process: what none of the first ones may load.

    At the end the help begins with an example.
    """
    steps = {
        "datasets.load_dataset": "pandas pooch matplotlib sklearn scipy numba",
        "indices.rand_score": "numba scipy sklearn pandas matplotlib",
        "indices.rand_score([0, 0, 1], [0, 1, 1])": "torch cvxpy matplotlib pandas",
        "clusterers.DPMeans": "numba matplotlib torch cvxpy",
        "ChangePointMetricLearner()": "torch cvxpy matplotlib librosa dask hydra pooch",
    }
    lines = [
        f"metriclearn.{step}\nassert not {set(absent.split())} & set(sys.modules), {step!r}\n"
        for step, absent in steps.items()
    ]
    folders = "[m.name for m in pkgutil.iter_modules(metriclearn.__path__) if m.ispkg]"
    everything = (
        f"import pkgutil, pydoc, types\n"
        f"for name in {folders}:\n"
        f"    assert isinstance(getattr(metriclearn, name), types.ModuleType), name\n"
        f"assert metriclearn.solvers.bundle.BundleDual is metriclearn.BundleDual\n"
        f"assert 'per_recording' in dir(metriclearn.features)\n"
        f"page = pydoc.render_doc(metriclearn, renderer=pydoc.plaintext)\n"
        f"assert '>>> segmenter = Segmenter(members' in page[:900], page[:900]\n"
    )
    _, modules = fresh("".join(lines) + everything)
    assert "numpy" in modules


def test_the_module_is_the_console_command() -> None:
    command = [sys.executable, "-m", "metriclearn", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == f"metriclearn {metriclearn.__version__}\n"


def test_every_public_name_is_there() -> None:
    assert set(metriclearn.__all__) < set(dir(metriclearn))
    for name in metriclearn.__all__:
        public = getattr(metriclearn, name)
        assert getattr(public, "__name__", repr(public)) == name
    with pytest.raises(AttributeError, match="No metriclearn attribute nothing"):
        _ = metriclearn.nothing
