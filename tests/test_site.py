"""The reference: every public name once, with parameters, a source and an example."""

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "",
    ".annotate",
    ".baselines",
    ".clusterers",
    ".datasets",
    ".encoders",
    ".indices",
    ".plots",
]
# where the idea is from: a list of references, an equation of the paper, a year, or who tells it
SOURCE = re.compile(r"References|Eqs?\.|Algorithm|[Ss]ection|\b(?:19|20)\d\d\b|:\w+:`")


def public() -> dict[str, Any]:
    """Name, as it is imported, -> class, function or constant, of every name of a stub."""
    names: dict[str, Any] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"metriclearn{package}")
        stub = Path(module.__file__ or "").with_suffix(".pyi")
        text = (stub if stub.is_file() else stub.with_suffix(".py")).read_text(encoding="utf-8")
        for name in re.findall(r" as (\w+)$", text, re.MULTILINE):
            value = getattr(module, name)
            if not inspect.ismodule(value) and not any(value is other for other in names.values()):
                names[f"{module.__name__}.{name}"] = value
    return names


def in_reference() -> list[str]:
    """Full names in the order of docs/reference.rst."""
    module, names = "", []
    for line in (ROOT / "docs/reference.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [A-Za-z][\w.]+", line):
            names.append(f"{module}.{line.strip()}")
    return names


def in_gallery() -> set[str]:
    """Names that an example of the gallery imports from metriclearn."""
    used = set()
    for script in (ROOT / "docs/gallery").rglob("plot_*.py"):
        for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("metriclearn"):
                used |= {alias.name for alias in node.names}
    return used


PUBLIC, GALLERY = public(), in_gallery()
DOCUMENTED = [name for name, value in PUBLIC.items() if callable(value)]


def test_reference_names_every_public_name_once() -> None:
    listed = [eval_name(name) for name in in_reference()]
    counts = {name: sum(value is other for other in listed) for name, value in PUBLIC.items()}
    assert {name: count for name, count in counts.items() if count != 1} == {}


def eval_name(name: str) -> Any:
    """The object of a full name: modules are imported, the rest is looked up."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_page_of_a_name_tells_parameters_and_has_an_example(name: str) -> None:
    value = PUBLIC[name]
    text = inspect.getdoc(value) or ""
    head = re.split(r"^(?:References|Examples)\n-+$", text, flags=re.MULTILINE)[0]
    words = set(re.findall(r"\w+", head))
    missing = [
        key for key in inspect.signature(value).parameters if key not in words and key != "_"
    ]
    assert missing == [], f"{name} does not tell what {missing} are"
    assert ">>>" in text or name.rpartition(".")[2] in GALLERY, f"{name} has no example"


@pytest.mark.parametrize(
    "name",
    [name for name in DOCUMENTED if inspect.isfunction(PUBLIC[name]) and ".indices." in name],
)
def test_page_of_an_index_says_where_it_is_from(name: str) -> None:
    assert SOURCE.search(inspect.getdoc(PUBLIC[name]) or "")


def test_release_has_one_version() -> None:
    import metriclearn

    version = re.escape(metriclearn.__version__)
    assert re.search(rf"^version: {version}$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert re.search(rf"^## \[{version}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_oldest_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lower = dict(item.split(">=") for item in project["dependencies"])
    text = (ROOT / "constraints-min.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE))
    assert {
        name: version for name, version in pinned.items() if version.startswith(lower[name])
    } == pinned
    assert set(pinned) == set(lower)
