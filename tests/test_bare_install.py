"""Without matplotlib and pandas: learning, sound and the console work; the rest says what to do."""

import shutil
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from metriclearn.datasets.annotations import read_segments, save_segments
from tests.features.sounds import RATE, write_wave

WITHOUT = """
import sys
sys.modules |= dict.fromkeys(("matplotlib", "pandas", "PIL"))  # None: an import of it fails
"""


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Python code in a process that has neither matplotlib nor pandas."""
    command = [sys.executable, "-c", WITHOUT + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_learning_needs_neither_and_what_needs_one_tells_how_to_install_it(tmp_path: Path) -> None:
    result = run(
        """
import numpy as np
import metriclearn as ml
from metriclearn.datasets import load_files, make_change_points

data = make_change_points(3, 100, 4, 2, (3, 4), random_state=0)
learner = ml.ChangePointMetricLearner().fit(data.sequences, data.labels)
stream = learner.stream()
ends = [*stream.push(data.sequences[0]).ends, *stream.finish().ends]
assert ends == learner.predict_change_points(data.sequences[0]).tolist()
assert ml.load(ml.save(learner, sys.argv[1])).score(data.sequences, data.labels) > -0.1
first = data.sequences[0].copy()
first[3] = np.nan
ml.Segmenter(learner, n_folds=2, verbose=False).fit([first, *data.sequences[1:]], data.labels)
for call in (
    lambda: learner.plot(data.sequences[0]),
    lambda: ml.plots.plot_weights,
    lambda: load_files(sys.argv[2]),
    lambda: ml.change_times([0.0, 1.0], [1, 2]),
    lambda: learner.set_output(transform="pandas").transform(data.sequences[0]),
):
    try:
        call()
    except ImportError as error:
        print(error)
""",
        tmp_path / "model.npz",
        tmp_path,
    )
    assert result.returncode == 0, result.stderr
    sentences = result.stdout.splitlines()
    assert len(sentences) == 5, sentences
    for sentence, package, extra in zip(
        sentences, ("matplotlib",) * 2 + ("pandas",) * 3, ("plots",) * 2 + ("tables",) * 3
    ):
        assert sentence.startswith(f"This needs {package}, which is not installed: pip install ")
        assert f"[{extra}]" in sentence


def test_console_learns_from_sound_and_draws_nothing(tmp_path: Path) -> None:
    """Tables of segments need no pandas, and the timeline is left out with a note."""
    for name in ("librosa", "soundfile"):
        pytest.importorskip(name)
    rng, spans = np.random.default_rng(0), {}
    for name, lengths in (("one", (6, 9, 5)), ("two", (9, 4, 7)), ("new", (5, 7, 8))):
        kinds = [
            rng.normal(size=RATE * n) if k % 2 else np.zeros(RATE * n)
            for k, n in enumerate(lengths)
        ]
        write_wave(tmp_path / f"{name}.wav", 0.1 * np.concatenate(kinds))
        ends = np.cumsum((0, *lengths)).tolist()
        spans[name] = [(float(a), float(b), "") for a, b in pairwise(ends)]
    truth = spans.pop("new")
    (tmp_path / "later").mkdir()
    (tmp_path / "new.wav").rename(tmp_path / "later" / "new.wav")
    save_segments(spans, tmp_path / "segments.csv")
    code = """
from metriclearn.apps.console.commands import main

folder, model, new = sys.argv[1:]
assert main(["fit", folder, "--quick", "--out", model]) == 0
assert main(["segment", new, "--model", model]) == 0
assert main(["compare", f"{folder}/segments.csv", f"{folder}/segments.csv"]) == 0
"""
    result = run(code, tmp_path, tmp_path / "m.npz", tmp_path / "later" / "new.wav")
    assert result.returncode == 0, result.stderr
    assert "Note: no timeline is drawn, as matplotlib is not installed: pip" in result.stderr
    assert sorted(file.name for file in (tmp_path / "later").iterdir()) == [
        "new.labels.txt",
        "new.segments.csv",
        "new.vtt",
        "new.wav",
    ]
    (found,) = read_segments(tmp_path / "later" / "new.segments.csv").values()
    assert found == truth


def test_an_editable_install_is_found_from_the_folder_of_the_clone(tmp_path: Path) -> None:
    """There, the clone itself would be an empty namespace if a finder came after all paths."""
    pytest.importorskip("setuptools", minversion="77")
    clone, root = tmp_path / "metriclearn", Path(__file__).parents[1]
    for name in ("pyproject.toml", "README.md", "LICENSE", "metriclearn/__init__.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, clone / name)
    build = "import setuptools.build_meta as b; b.build_editable('.')"
    made = subprocess.run([sys.executable, "-c", build], cwd=clone, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    with zipfile.ZipFile(next(clone.glob("*.whl"))) as wheel:
        (path,) = (name for name in wheel.namelist() if name.endswith(".pth"))
        assert wheel.read(path).decode().strip() == str(clone)
