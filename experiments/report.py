"""Tables, figures and one self-contained page from the results of an experiment.

``write_report`` leaves in its folder ``results.json``, ``results.md``, every figure as PNG and
SVG, and ``report.html``, which needs no other file and no network.
"""

from __future__ import annotations

import base64
import importlib.metadata
import io
import json
import logging
import math
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

import metriclearn
from metriclearn.plots import (
    plot_convergence,
    plot_metric_matrix,
    plot_segmentation,
    plot_weights,
)
from metriclearn.plots.canvas import number

MEASURE = "partition_loss"
COLUMNS = {"estimated": "number of segments estimated", "given": "number of segments given"}
_SPLITS = ("test", "validation", "train")
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
_KINDS = {str: "a text", list: "a list", dict: "an object", float: "a number"}
_TOP = {"experiment": str, "rows": list, "seconds": float, "config": dict}
_ROW = {
    "method": str,
    "split": str,
    "n_clusters": str,
    "measure": str,
    "mean": float,
    "standard_error": float,
    "values": list,
}
_FOOTNOTE = (
    "Mean ± standard error of the loss ‖M − N‖²_F over the {split} sequences; smaller is better. "
    "Bold: the best of a column. †: within one standard error of it."
)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Strip:
    """One example sequence: its true segmentation first, then ours, then baselines.

    ``segmentations`` maps names to change-points (the last one T), ``losses`` some of these names
    to ‖M − N‖²_F, and ``signal`` is a (T, P) selection of features worth looking at.
    """

    name: str
    segmentations: Mapping[str, ArrayLike]
    losses: Mapping[str, float] = field(default_factory=dict)
    signal: ArrayLike | None = None


@dataclass(frozen=True)
class Artifacts:
    """What the figures and the notes of a report are made from; every part may be left out.

    ``weights`` maps methods to (P,) diagonals or (P, P) matrices, ``traces`` methods to tables as
    in :func:`metriclearn.plots.plot_convergence`, and ``choices`` methods to a sentence that says
    how their hyper-parameters were chosen. With ``markdown`` it stands in ``results.md`` in place
    of the table, and there is no page.
    """

    strips: Sequence[Strip] = ()
    weights: Mapping[str, ArrayLike] = field(default_factory=dict)
    feature_names: Sequence[str] | None = None
    traces: Mapping[str, Mapping[str, ArrayLike]] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    model_file: str | None = None
    notes: Sequence[str] = ()
    markdown: str | None = None


def learned_metrics(models: Mapping[str, Any], scale: ArrayLike | None = None) -> dict[str, Any]:
    """``weights`` and ``traces`` of the models that were trained, for :class:`Artifacts`.

    Weights are those of features divided by ``scale``, by default by the models' own.
    """
    trained = {name: model for name, model in models.items() if hasattr(model, "solution_")}
    return {
        "weights": {name: standardized_weights(model, scale) for name, model in trained.items()},
        "traces": {name: vars(model.solution_.trace) for name, model in trained.items()},
    }


def standardized_weights(model: Any, scale: ArrayLike | None = None) -> NDArray:
    """B for scaled features: its diagonal (P,) where nothing else is not zero, or (P, P)."""
    components = model.components_ * (getattr(model, "scale_", 1.0) if scale is None else scale)
    B = components.T @ components
    diagonal = np.count_nonzero(B) == np.count_nonzero(np.diag(B))
    return np.diag(B) if diagonal else B


@dataclass(frozen=True)
class Cell:
    """Mean and standard error of one method; ``tied`` if within one standard error of the best."""

    mean: float
    standard_error: float
    best: bool
    tied: bool

    def __str__(self) -> str:
        if not 1e-4 <= self.standard_error < 1e5:
            return f"{number(self.mean)} ± {number(self.standard_error)}"
        digits = max(0, 1 - math.floor(math.log10(self.standard_error)))
        return f"{self.mean:.{digits}f} ± {self.standard_error:.{digits}f}"


@dataclass(frozen=True)
class TableRow:
    """One method; ``cells`` by "estimated" and "given", a column without a result left out."""

    method: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True)
class _Picture:
    """One figure: its section, text, width in CSS pixels, data URIs for wide and narrow screens."""

    section: str
    caption: str
    alt: str
    width: int
    wide: str
    narrow: str


def read_results(path: str | Path) -> dict[str, Any]:
    """The content of a ``results.json``, its schema checked.

    Raises
    ------
    ValueError
        If the file is no JSON or a field is missing or wrong: one sentence that says which.
    """
    try:
        results = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"read_results needs JSON text in {path}, got: {error}.") from error
    _check(results, str(path))
    return results


def _check(results: Any, where: str) -> None:
    """Raise one clear ValueError unless ``results`` follows the schema."""
    _check_fields(results, _TOP, where)
    seen = set()
    for place, row in enumerate(results["rows"]):
        _check_row(row, f"{where}, rows[{place}],")
        key = (row["method"], row["split"], row["n_clusters"], row["measure"])
        if key in seen:
            raise ValueError(f"{where} needs one row per method and measure, got {key} twice.")
        seen.add(key)
    if not seen:
        raise ValueError(f"{where} needs at least one row of results, got none.")


def _check_fields(holder: Any, kinds: Mapping[str, type], where: str) -> None:
    if not isinstance(holder, dict):
        raise ValueError(f"{where} needs an object with {', '.join(kinds)}, got {holder!r:.60}.")
    for key, kind in kinds.items():
        accepted = (int, float) if kind is float else kind
        if not isinstance(holder.get(key), accepted):
            got = f"{holder[key]!r:.60}" if key in holder else "nothing"
            raise ValueError(f"{where} needs {key!r} as {_KINDS[kind]}, got {got}.")


def _check_row(row: Any, where: str) -> None:
    _check_fields(row, _ROW, where)
    for key, allowed in (("split", _SPLITS), ("n_clusters", tuple(COLUMNS))):
        if row[key] not in allowed:
            raise ValueError(f"{where} needs {key!r} among {allowed}, got {row[key]!r}.")
    mean, error, values = row["mean"], row["standard_error"], row["values"]
    numbers = [mean, error, row.get("seconds", 0), *values]
    if not values or not all(isinstance(v, (int, float)) and math.isfinite(v) for v in numbers):
        raise ValueError(
            f"{where} needs finite numbers in mean, standard_error, seconds and one or more "
            f"values, got {numbers!r:.100}."
        )
    slack = 1e-9 + 1e-6 * abs(mean)
    if error < 0 or not min(values) - slack <= mean <= max(values) + slack:
        raise ValueError(
            f"{where} needs a mean within its values and a standard error of zero or more, got "
            f"{mean} ± {error} of values from {min(values)} to {max(values)}."
        )


def results_table(
    results: Mapping[str, Any], split: str | None = None, measure: str = MEASURE
) -> list[TableRow]:
    """One row per method, the smallest mean first, of a measure where smaller is better.

    ``split`` defaults to test, or validation, or train: the first that has results.

    Raises
    ------
    ValueError
        If there is no row of this measure and split.
    """
    split = split or _first_split(results, measure)
    rows = [row for row in results["rows"] if (row["split"], row["measure"]) == (split, measure)]
    if not rows:
        raise ValueError(
            f"results_table needs rows of measure {measure!r} and split {split!r}, got "
            f"{sorted({(row['measure'], row['split']) for row in results['rows']})}."
        )
    cells: dict[str, dict[str, Cell]] = {}
    for column in COLUMNS:
        members = [row for row in rows if row["n_clusters"] == column]
        lowest = min((row["mean"], row["standard_error"]) for row in members) if members else (0, 0)
        for row in members:
            first = row["mean"] == lowest[0]
            tied = not first and row["mean"] <= sum(lowest)
            cell = Cell(row["mean"], row["standard_error"], first, tied)
            cells.setdefault(row["method"], {})[column] = cell
    table = [TableRow(method, columns) for method, columns in cells.items()]
    return sorted(table, key=lambda row: [_mean(row, column) for column in COLUMNS])


def _mean(row: TableRow, column: str) -> float:
    return row.cells[column].mean if column in row.cells else math.inf


def _first_split(results: Mapping[str, Any], measure: str) -> str:
    present = {row["split"] for row in results["rows"] if row["measure"] == measure}
    return next((split for split in _SPLITS if split in present), _SPLITS[0])


def headline(results: Mapping[str, Any]) -> str:
    """One sentence: the best method and its loss, against the best baseline (or the best of ours).

    It reads the column where the number of segments is estimated, if there is one.
    """
    table = results_table(results)
    column = next(c for c in COLUMNS if any(c in row.cells for row in table))
    ranked = sorted((row for row in table if column in row.cells), key=lambda r: _mean(r, column))
    best = ranked[0]
    ours = best.method.startswith("ours")
    sentence = (
        f"{best.method} has the smallest loss, {best.cells[column]}, on "
        f"{_first_split(results, MEASURE)} data with the {COLUMNS[column]}"
    )
    rival = next((row for row in ranked if row.method.startswith("ours") != ours), None)
    if rival is None:
        return f"{sentence}."
    kind = "best baseline" if ours else "best learned metric"
    sentence += f"; the {kind}, {rival.method}, has {rival.cells[column]}"
    if rival.cells[column].tied or rival.cells[column].best:
        return f"{sentence}, which is within one standard error."
    if best.cells[column].mean == 0:
        return f"{sentence}."
    ratio = rival.cells[column].mean / best.cells[column].mean
    return f"{sentence} ({number(ratio)} times as much)."


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """The lines of a Markdown table, its first column to the left, the others to the right."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def results_markdown(
    results: Mapping[str, Any], artifacts: Artifacts | None = None, command: str | None = None
) -> str:
    """The table as Markdown, what produced it, and how the hyper-parameters were chosen."""
    artifacts = artifacts or Artifacts()
    lines = [f"# {results['experiment']}", ""]
    if artifacts.markdown is not None:
        lines += [artifacts.markdown, ""]
    else:
        rows = [
            [row.method.replace("|", r"\|"), *(_markdown_cell(row.cells.get(c)) for c in COLUMNS)]
            for row in results_table(results)
        ]
        lines += [headline(results), "", *markdown_table(["method", *COLUMNS.values()], rows), ""]
        lines += [_FOOTNOTE.format(split=_first_split(results, MEASURE)), ""]
    if command:
        lines += ["Produced by", "", "```sh", command, "```", ""]
    lines += [f"Run time: {_duration(results['seconds'])}.", ""]
    if artifacts.choices:
        lines += ["## How hyper-parameters were chosen", ""]
        lines += [f"* {method}: {choice}" for method, choice in artifacts.choices.items()] + [""]
    if artifacts.model_file:
        lines += [f"Model: `{artifacts.model_file}`", ""]
    lines += [f"* {note}" for note in artifacts.notes]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_cell(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    return f"**{cell}**" if cell.best else f"{cell} †" if cell.tied else str(cell)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def write_report(
    folder: str | Path,
    results: Mapping[str, Any],
    artifacts: Artifacts | None = None,
    command: str | None = None,
) -> Path:
    """Write results.json, results.md, the figures and report.html; returns the page's path.

    The page is results.md where that has text of its own.

    The numbers are written first, as they came, so that no error here loses them; a figure whose
    data are inconsistent is replaced by a sentence that says so.

    Parameters
    ----------
    folder : path
        Made if missing.
    results : dict
        As in ``results.json``; NumPy numbers and arrays and paths are allowed.
    artifacts : Artifacts, optional
        What to draw and tell.
    command : str, optional
        The command line that produced the results.

    Raises
    ------
    ValueError
        If the results do not follow the schema or hold no partition loss.
    """
    folder, artifacts = Path(folder), artifacts or Artifacts()
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2, default=_plain)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    checked = read_results(folder / "results.json")
    markdown = results_markdown(checked, artifacts, command)
    page = folder / "results.md"
    page.write_text(markdown, encoding="utf-8")
    if artifacts.markdown is not None:
        return page
    pictures, problems = _pictures(folder, artifacts)
    page = folder / "report.html"
    page.write_text(_page(checked, artifacts, command, pictures, problems), encoding="utf-8")
    return page


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _pictures(folder: Path, artifacts: Artifacts) -> tuple[list[_Picture], list[str]]:
    """Draw every figure; those that cannot be drawn become sentences."""
    names, jobs = artifacts.feature_names, []
    for strip in artifacts.strips:
        draw = partial(plot_segmentation, strip.segmentations, strip.signal, strip.losses)
        jobs.append(("segmentation", strip.name, f"Segmentations of {strip.name}", draw, 1.1))
    for method, weights in artifacts.weights.items():
        full = np.ndim(weights) == 2
        draw = partial(plot_metric_matrix if full else plot_weights, weights, names)
        shape = 1.3 if full else 1.4
        jobs.append(("weights", method, f"Metric learned by {method}", draw, shape))
    for method, trace in artifacts.traces.items():
        draw = partial(plot_convergence, {method: trace})
        jobs.append(("convergence", method, f"Training of {method}", draw, 0.9))
    pictures, problems = [], []
    for place, (section, name, caption, draw, shape) in enumerate(jobs, start=1):
        stem = f"{place:02d}-{section}-{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}"
        try:
            pictures.append(_picture(folder / stem[:80], section, caption, draw, shape))
        except ValueError as error:
            _logger.warning("%s could not be drawn: %s", caption, error)
            problems.append(f"{caption} could not be drawn: {error}")
    return pictures, problems


def _picture(
    path: Path, section: str, caption: str, draw: Callable[..., Figure], shape: float
) -> _Picture:
    """Save the figure as PNG and SVG and embed it twice: as saved, and 3.5 inches wide."""
    figure = draw()
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(path.with_suffix(".png"), dpi=160)
    size = (3.5, shape * figure.get_figheight())
    narrow, image = Figure(figsize=size, layout="constrained"), io.BytesIO()
    draw(ax=narrow.add_subplot())
    narrow.savefig(image, format="png", dpi=200)
    message = " ".join(figure.get_suptitle().replace(r"\$", "$").split())
    wide = path.with_suffix(".png").read_bytes()
    width, alt = round(96 * figure.get_figwidth()), f"{caption}. {message}"
    return _Picture(section, caption, alt, width, _embed(wide), _embed(image.getvalue()))


def _embed(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def _page(
    results: Mapping[str, Any],
    artifacts: Artifacts,
    command: str | None,
    pictures: Sequence[_Picture],
    problems: Sequence[str],
) -> str:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    split = _first_split(results, MEASURE)
    versions = {"metriclearn": metriclearn.__version__, "Python": platform.python_version()}
    return environment.get_template("report.html.j2").render(
        results=results,
        artifacts=artifacts,
        command=command,
        headline=headline(results),
        table=results_table(results),
        columns=COLUMNS,
        footnote=_FOOTNOTE.format(split=split),
        pictures=pictures,
        problems=problems,
        number=number,
        duration=_duration(results["seconds"]),
        config=json.dumps(results["config"], indent=2, ensure_ascii=False),
        versions=versions | {name: importlib.metadata.version(name) for name in _PACKAGES},
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
