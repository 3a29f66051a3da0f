"""The site: its pages, and the reference: every public name once, with parameters and a source."""

import ast
import dataclasses
import importlib
import inspect
import re
import tomllib
import types
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "",
    ".baselines",
    ".clusterers",
    ".datasets",
    ".encoders",
    ".estimators",
    ".indices",
    ".oracles",
    ".plots",
    ".solvers",
    ".views",
]
# a source of the idea: an equation, algorithm or section of the paper, or a year
SOURCE = re.compile(r"Eqs?\. ?\(|Algorithm \d|[Ss]ection \d|\b(?:19|20)\d\d\b")
ARRAY = re.compile(r"\b(array|matrix)\b")
SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)


def public() -> dict[str, Any]:
    """Name, as it is imported, -> class, function or constant, of every name of a stub."""
    names: dict[str, Any] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"metriclearn{package}")
        stub = Path(module.__file__ or "").with_suffix(".pyi")
        text = (stub if stub.is_file() else stub.with_suffix(".py")).read_text(encoding="utf-8")
        for name in re.findall(r" as (\w+)$", text, re.MULTILINE):
            value = getattr(module, name)
            plain = inspect.ismodule(value) or isinstance(value, types.GenericAlias)
            if not plain and not any(value is other for other in names.values()):
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


def eval_name(name: str) -> Any:
    """The object of a full name: modules are imported, the rest is looked up."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


PUBLIC, GALLERY = public(), in_gallery()
PAGES = {name: value for name in in_reference() if callable(value := eval_name(name))}
FUNCTIONS = [name for name, value in PAGES.items() if inspect.isfunction(value)]


def sections(name: str) -> dict[str, str]:
    """Title of a section of the docstring -> its text; "" for the text before the first title."""
    parts = SECTION.split(inspect.getdoc(PAGES[name]) or "")
    return {"": parts[0]} | dict(zip(parts[1::2], parts[2::2]))


def entries(text: str) -> dict[str, str]:
    """Name -> description, from a list of parameters, attributes or results."""
    described = {}
    for entry in re.split(r"\n(?=\S)", text.strip()):
        head, _, rest = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        described |= {name.strip("* "): f"{kind}\n{rest}" for name in names.split(", ")}
    return described


def parameters(name: str) -> list[str]:
    """Parameters of the signature except ``*args`` and ``**kwargs``."""
    every = inspect.signature(PAGES[name]).parameters.values()
    return [p.name for p in every if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def is_returned(value: Any) -> bool:
    """Whether the object is a protocol, or a result that the package makes from checked values."""
    checks = hasattr(value, "__post_init__") or hasattr(value, "get_params")
    plain = dataclasses.is_dataclass(value) and not checks
    tuples = isinstance(value, type) and issubclass(value, (tuple, float))
    return plain or tuples or getattr(value, "_is_protocol", False)


def test_reference_names_every_public_name_once() -> None:
    listed = [eval_name(name) for name in in_reference()]
    counts = {name: sum(value is other for other in listed) for name, value in PUBLIC.items()}
    wrong = {name: count for name, count in counts.items() if count != 1}
    assert not wrong, f"docs/reference.rst lists these names so many times: {wrong}"


def test_pages_list_every_parameter() -> None:
    for name in PAGES:
        found = sections(name)
        listed = entries(found.get("Parameters", "")) | entries(found.get("Attributes", ""))
        missing = [key for key in parameters(name) if not listed.get(key, "").strip()]
        assert missing == [], f"{name} does not describe {missing}"


def test_pages_list_the_shape_of_every_array() -> None:
    for name in PAGES:
        found = sections(name)
        listed = [("Returns", found.get("Returns", ""))]
        for part in ("Parameters", "Attributes"):
            listed += entries(found.get(part, "")).items()
        arrays = [(key, text) for key, text in listed if ARRAY.search(text + key)]
        missing = [key for key, text in arrays if "(" not in text and "see" not in text]
        assert missing == [], f"{name} needs the shapes of {missing}"


def test_pages_of_functions_describe_their_results() -> None:
    for name in FUNCTIONS:
        nothing = inspect.signature(PAGES[name]).return_annotation in (None, "None")
        assert nothing or sections(name).get("Returns", "").strip(), f"{name} needs Returns"


def test_pages_list_errors_a_source_and_an_example() -> None:
    """A page cites a publication, or links to a page that does.

    Every page with parameters lists errors; tests/adversarial checks that they are complete.
    """
    for name in PAGES:
        found = sections(name)
        if parameters(name) and not is_returned(PAGES[name]):
            listed = re.search(r"^\w*(Error|Exception).*\n +\S", found.get("Raises", ""))
            assert listed, f"{name} needs a section Raises with an error, and when it is raised"
        cited = {"References", "See Also"} & found.keys() or SOURCE.search(found[""])
        assert cited, f"{name} needs a section References or See Also"
        shown = ">>>" in found.get("Examples", "") or name.rpartition(".")[2] in GALLERY
        assert shown, f"{name} needs a section Examples, or an example in docs/gallery"


def test_release_has_one_version() -> None:
    import metriclearn

    version = re.escape(metriclearn.__version__)
    assert re.search(rf"^version: {version}$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert re.search(rf"^## \[{version}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_oldest_versions_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *extras["plots"], *extras["tables"]]
    lower = dict(item.split(">=") for item in listed)
    text = (ROOT / "constraints-min.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text, re.MULTILINE))
    assert {
        name: version for name, version in pinned.items() if version.startswith(lower[name])
    } == pinned
    assert set(pinned) == set(lower)


def test_recipe_requires_what_the_project_requires() -> None:
    """The recipe's template has one variable, the version, which conda reads from the package."""
    text = (ROOT / "conda/meta.yaml").read_text(encoding="utf-8")
    recipe = yaml.safe_load(re.sub(r"{%.*?%}|{{ (\w+) }}", r"\1", text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    needed = {
        item.replace("matplotlib>", "matplotlib-base>")
        for item in [*project["project"]["dependencies"], *extras["plots"], *extras["tables"]]
    }
    python = f"python{project['project']['requires-python']}"
    run, host = (
        {item.replace(" ", "") for item in recipe["requirements"][part]} for part in ("run", "host")
    )
    assert run == needed | {python}
    assert host == {python, "pip", *project["build-system"]["requires"]}
    (script,) = project["project"]["scripts"].items()
    assert recipe["build"]["entry_points"] == [" = ".join(script)]
    assert recipe["about"]["license"] == project["project"]["license"]
    assert recipe["about"]["summary"] == project["project"]["description"]
    pattern = re.search(r"regex_pattern='([^']+)'", text)
    source = (ROOT / "metriclearn/__init__.py").read_text(encoding="utf-8")
    assert pattern
    assert len(re.findall(pattern[1], source)) == 1


def test_workflow_runs_what_the_machine_here_runs() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    commands = {name: [s["run"] for s in job["steps"] if "run" in s] for name, job in jobs.items()}
    assert commands == {"run": ["bash .ci/run"], "wheel": ["make release PYTHONS=python"]}
    pythons = re.search(r"^PYTHONS \?= (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert pythons
    matrix = jobs["wheel"]["strategy"]["matrix"]["python"]
    assert [f"python{version}" for version in matrix] == pythons[1].split()


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_the_start_page_installs_and_segments_in_ten_lines() -> None:
    """The code is the beginning of the README's, which is tested, and prints the same."""
    shell, code = re.findall(r"\.\. code-block:: \w+\n\n((?:   .*\n|\n)+)", page("index.rst"))
    assert shell.strip().startswith("pip install ")
    lines = [line.split("  #")[0].strip() for line in code.splitlines() if line.strip()]
    assert len(lines) <= 10
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in lines:
        told = line.replace("labeled.", "train.").replace("new.", "test.")
        told = told.replace("labeled =", "train =").replace("new =", "test =")
        assert told in readme or line.startswith(("#", "from metriclearn import")), line
    printed = r"# (\[[\d ]+\])$"
    assert re.findall(printed, readme, re.MULTILINE) == re.findall(printed, code, re.MULTILINE)


def test_the_guide_is_a_map_that_leads_to_every_page_of_it() -> None:
    text = page("guide.md")
    trees = "".join(re.findall(r"\{toctree\}(.*?)```", text, re.DOTALL))
    listed = re.findall(r"^([a-z_]+)$", trees, re.MULTILINE)
    rows = "".join(line for line in text.splitlines() if line.startswith("| "))
    linked = set(re.findall(r"\]\((\w+)\.(?:md|rst)\)", rows))
    assert len(listed) > 20
    assert linked - {"league"} == set(listed)
