"""Limits that keep the code readable: sizes of files, folders, functions and signatures, names."""

import ast
import re
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted(
    path for name in ("metriclearn", "experiments") for path in (ROOT / name).rglob("*.py")
)
# Private names that libraries document for use: named tuples, the process, Hydra, sktime.
DOCUMENTED = {"_replace", "_fields", "_asdict", "_exit", "_get_node", "_check_X"}
# Arguments that are options of a command or a public function, each with a default and a name.
OPTIONS = {
    "metriclearn/apps/console/commands.py": {"compare", "fit", "label", "segment"},
    "metriclearn/datasets/synthetic.py": {"make_change_points"},
    "metriclearn/encoders/networks.py": {"__init__"},  # sizes of layers, as files store them
}
# How tests assert without the statement; the last two are checks of other libraries.
CHECKS = {"raises", "warns", "check", "check_estimator"}
# One file for each of many things.
FREE_FOLDERS = {"metriclearn/indices", "metriclearn/views", "experiments/benchmarks"}
# A file for each part of the problem, for each learner, for each step of an experiment, and for
# each kind of file that people have.
LARGER_FOLDERS = {
    "metriclearn/datasets": 14,
    "experiments/harness": 12,
    "metriclearn/estimators/learners": 15,
    "metriclearn/problem": 13,
    "metriclearn/running": 16,
}


def lines_of_code(text: str, tree: ast.Module) -> set[int]:
    """Numbers of the lines that hold code: no docstrings, comments or blank lines."""
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.update(range(first.lineno, (first.end_lineno or 0) + 1))
    lines = [line.strip() for line in text.splitlines()]
    return {i for i, line in enumerate(lines, 1) if line and line[0] != "#"} - docstrings


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf8"))


def functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_functions_and_signatures_are_short() -> None:
    for path in FILES:
        tree, file = parsed(path), name_of(path)
        code = lines_of_code(path.read_text(encoding="utf8"), tree)
        assert len(code) <= 500, f"{file} has {len(code)} lines of code"
        for function in functions(tree):
            name, given = function.name, function.args
            lines = range(function.lineno, (function.end_lineno or 0) + 1)
            size = sum(line in code for line in lines)
            kernel = any("njit" in ast.unparse(item) for item in function.decorator_list)
            most = 80 if kernel else 50
            assert size <= most, f"{name} in {file} has {size} lines of code, the limit is {most}"
            names = [one.arg for one in given.posonlyargs + given.args + given.kwonlyargs]
            count = len([one for one in names if one not in ("self", "cls")])
            allowed = count <= 8 or name in OPTIONS.get(file, ())
            assert allowed, f"{name} in {file} takes {count} arguments, the limit is 8"


def test_private_names_stay_in_their_file() -> None:
    for path in FILES:
        defined, used = set(DOCUMENTED), set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif isinstance(node, ast.Attribute):
                (used if isinstance(node.ctx, ast.Load) else defined).add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.ImportFrom) and str(node.module).startswith(
                ("metriclearn", "experiments")
            ):
                used.update(alias.name for alias in node.names)
        foreign = {name for name in used - defined if name.startswith("_") and name[1:2] != "_"}
        assert not foreign, f"{name_of(path)} uses private names of other files: {sorted(foreign)}"


def test_folders_hold_ten_files_at_most() -> None:
    folders = Counter(path.parent for path in FILES if path.name != "__init__.py")
    counts = {name_of(folder): count for folder, count in folders.items()}
    crowded = {name for name, count in counts.items() if count > LARGER_FOLDERS.get(name, 10)}
    crowded -= FREE_FOLDERS
    assert not crowded, f"divide {sorted(crowded)}, or add it to LARGER_FOLDERS with the reason"


def test_no_two_files_of_the_package_share_a_name() -> None:
    names = Counter(
        path.name
        for path in FILES
        if path.is_relative_to(ROOT / "metriclearn")
        and path.name not in ("__init__.py", "__main__.py")
    )
    assert not [name for name, count in names.items() if count > 1]


def test_no_two_files_of_problem_import_each_other() -> None:
    """Not even by a chain of others, for annotations, or inside a function."""
    files = [path for path in FILES if path.parent.name == "problem"]
    graph = {}
    for path in files:
        imports = [n for n in ast.walk(parsed(path)) if isinstance(n, ast.Import | ast.ImportFrom)]
        words = set(re.findall(r"\w+", " ".join(map(ast.unparse, imports))))
        graph[path.stem] = words & {file.stem for file in files} - {path.stem}
    assert graph["risk"]
    TopologicalSorter(graph).prepare()  # raises CycleError


def asserts(node: ast.AST) -> bool:
    name = getattr(node, "id", getattr(node, "attr", ""))
    return isinstance(node, ast.Assert) or name in CHECKS or name.startswith("assert_")


def test_only_the_folder_of_data_is_read_from_the_environment() -> None:
    """What a fit finds depends on its data and parameters alone."""
    package = (ROOT / "metriclearn").rglob("*.py")
    reads = {name_of(path) for path in package if "environ" in path.read_text("utf8")}
    assert reads <= {"metriclearn/datasets/registry.py", "metriclearn/datasets/feature_cache.py"}


def test_every_test_asserts() -> None:
    """By itself, or by a helper whose name tells so."""
    silent = [
        f"{name_of(path)}: {test.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for test in functions(ast.parse(path.read_text(encoding="utf8")))
        if test.name.startswith("test_") and not any(map(asserts, ast.walk(test)))
    ]
    assert not silent
