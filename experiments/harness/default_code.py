"""A hash of the code that decides what ``Segmenter()`` does: results of other code are older."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from experiments.harness.command_line import CONFIGS

# The default members and how they are chosen and weighed, what they see, and how they learn.
DEFAULT = ("estimators/segmenter.py", "estimators/selection", "estimators/learners", "views")
KEY = "default"  # field of results.json
_ROOT = Path(CONFIGS).parent / "metriclearn"


@cache
def default_code(root: Path = _ROOT) -> str:
    """Compute the hash of the code of the default. Comments, docstrings and blank lines do not
    count."""
    total = hashlib.sha256()
    for name in DEFAULT:
        path = root / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            text = "\n".join([file.relative_to(root).as_posix(), *_code(file.read_text("utf-8"))])
            total.update(text.encode())
    return total.hexdigest()[:16]


def is_older(results: Mapping[str, Any]) -> bool:
    """Return whether results were made by other code of the default than that of today."""
    return results.get(KEY) != default_code()


def _code(text: str) -> Iterator[str]:
    """Yield the lines that are not docstrings, comments or blank."""
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                skipped.update(range(first.lineno, (first.end_lineno or 0) + 1))
    for i, line in enumerate(text.splitlines(), 1):
        if i not in skipped and line.strip() and not line.lstrip().startswith("#"):
            yield line.rstrip()
