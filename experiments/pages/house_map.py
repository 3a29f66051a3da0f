"""The map of the code, drawn from its imports: every folder stands above the folders it uses."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

from experiments.harness.report import page
from experiments.harness.results import grouped
from experiments.pages.pictures import ROOT

_WIDTH, _MARGIN, _GAP, _LINE = 1180, 16, 10, 17
_CHARACTER = 6.3  # average width of a letter of 12 px, in px


class Room(NamedTuple):
    """A folder of the code.

    Attributes
    ----------
    name : str
        Path of the folder, such as ``metriclearn/oracles``.
    purpose : str
        The first sentence of the folder's docstring.
    uses : tuple of str
        Names of the folders from which this folder imports.
    floor : int
        0 if the folder uses no others, else one more than the highest floor of the folders it uses.
    inner : tuple of str
        Names of the subfolders.
    """

    name: str
    purpose: str
    uses: tuple[str, ...]
    floor: int
    inner: tuple[str, ...]


@cache
def rooms() -> dict[str, Room]:
    """Read the folders of both packages from the import graph, and return them in a dict by
    name."""
    import grimp

    graph = grimp.build_graph(
        "metriclearn", "experiments", exclude_type_checking_imports=True, cache_dir=None
    )
    children = graph.find_children("metriclearn")
    top = {"experiments", *(name for name in children if (ROOT / _path(name)).is_dir())}
    for name in top:
        graph.squash_module(name)
    uses = {name: graph.find_modules_directly_imported_by(name) & top - {name} for name in top}
    found = {}
    for name in sorted(top):
        folder = ROOT / _path(name)
        inner = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        below = tuple(sorted(map(_path, uses[name])))
        room = Room(_path(name), _purpose(folder), below, _floor(name, uses), tuple(inner))
        found[room.name] = room
    return found


def _floor(name: str, uses: Mapping[str, set[str]]) -> int:
    """Return the floor of a folder, that is, the length of the longest chain of folders below
    it."""
    return max((1 + _floor(other, uses) for other in uses[name]), default=0)


def _path(module: str) -> str:
    return module.replace(".", "/")


def _purpose(folder: Path) -> str:
    """Return the first line of the docstring of a package."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return text.partition("\n")[0].rstrip(".").replace("``", "")


def house_table() -> str:
    """Return a Markdown table of the folders, from the top floor down."""
    lines = ["| folder | contents | uses |", "|---|---|---|"]
    for room in sorted(rooms().values(), key=lambda room: (-room.floor, room.name)):
        inner = f" ({', '.join(f'`{name}/`' for name in room.inner)})" if room.inner else ""
        uses = ", ".join(f"`{name.removeprefix('metriclearn/')}`" for name in room.uses)
        lines.append(f"| `{room.name}/`{inner} | {room.purpose} | {uses} |")
    return "\n".join(lines)


def house_picture() -> str:
    """Draw the folders as an SVG: each is above all folders that it uses."""
    floors = grouped(rooms().values(), lambda room: room.floor)
    boxes, y = [], float(_MARGIN)
    for floor in sorted(floors, reverse=True):
        row = sorted(floors[floor])
        width = (_WIDTH - 2 * _MARGIN - _GAP * (len(row) - 1)) / len(row)
        texts = [_text(room, int((width - 20) / _CHARACTER)) for room in row]
        height = 30 + _LINE * max(map(len, texts)) + 8
        for place, (room, lines) in enumerate(zip(row, texts)):
            box = {"x": _MARGIN + place * (width + _GAP), "y": y, "width": width, "height": height}
            name = room.name.removeprefix("metriclearn/")
            boxes.append(box | {"name": escape(name), "lines": list(map(escape, lines))})
        y += height + _GAP
    return page("house.svg.j2", boxes=boxes, width=_WIDTH, height=y, line=_LINE)


def _text(room: Room, columns: int) -> list[str]:
    """Return the purpose and the subfolders of a folder, as lines of text."""
    inner = wrap(" · ".join(f"{name}/" for name in room.inner), columns)
    return [*wrap(room.purpose, columns), *inner]
