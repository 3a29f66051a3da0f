from __future__ import annotations

import subprocess
import sys


def test_import_is_light() -> None:
    code = "import sys; from metriclearn.datasets import load_hapt; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(output.stdout.split())
    assert "metriclearn.datasets.hapt" in loaded
    assert loaded & {"pandas", "pooch", "matplotlib", "sklearn", "scipy", "numba"} == set()
