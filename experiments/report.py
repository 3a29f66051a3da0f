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
from statistics import fmean
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

    def mark(self, text: str) -> str:
        """A text about the cell for Markdown: the best one bold, a tied one with a dagger."""
        if self.best:
            return f"**{text}**"
        return f"{text} †" if self.tied else text

    def __str__(self) -> str:
        if not 1e-4 <= self.standard_error < 1e5:
            return f"{number(self.mean)} ± {number(self.standard_error)}"
        digits = max(0, 1 - math.floor(math.log10(self.standard_error)))
        return f"{self.mean:.{digits}f} ± {self.standard_error:.{digits}f}"


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
    _check_fields(results, _TOP, str(path))
    seen = set()
    for place, row in enumerate(results["rows"]):
        _check_row(row, f"{path}, rows[{place}],")
        key = (row["method"], row["split"], row["n_clusters"], row["measure"])
        if key in seen:
            raise ValueError(f"{path} needs one row per method and measure, got {key} twice.")
        seen.add(key)
    if not seen:
        raise ValueError(f"{path} needs at least one row of results, got none.")
    return results


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


def results_table(results: Mapping[str, Any]) -> dict[str, dict[str, Cell]]:
    """Cells by method and by "estimated" and "given", the method of the smallest loss first.

    They hold the partition loss on test data, or validation data, or training data: the first
    that there are. A method has no cell in a column without a result.

    Raises
    ------
    ValueError
        If there is no row of the partition loss.
    """
    key = (_first_split(results), MEASURE)
    rows = [row for row in results["rows"] if (row["split"], row["measure"]) == key]
    if not rows:
        raise ValueError(
            f"results_table needs rows of measure {MEASURE!r}, got "
            f"{sorted({(row['measure'], row['split']) for row in results['rows']})}."
        )
    cells: dict[str, dict[str, Cell]] = {}
    for column in COLUMNS:
        members = [row for row in rows if row["n_clusters"] == column]
        for row, cell in zip(members, compared(members)):
            cells.setdefault(row["method"], {})[column] = cell
    return dict(sorted(cells.items(), key=lambda item: [_mean(item[1], c) for c in COLUMNS]))


def compared(rows: Sequence[Mapping[str, Any]]) -> list[Cell]:
    """Cells of rows that stand below each other in a column."""
    numbers = [(row["mean"], row["standard_error"]) for row in rows]
    least, error = min(numbers, default=(0.0, 0.0))
    least += 1e-12  # losses that are the same but for rounding
    return [Cell(*pair, pair[0] <= least, least < pair[0] <= least + error) for pair in numbers]


def _mean(cells: Mapping[str, Cell], column: str) -> float:
    return cells[column].mean if column in cells else math.inf


def _first_split(results: Mapping[str, Any]) -> str:
    present = {row["split"] for row in results["rows"] if row["measure"] == MEASURE}
    return next((split for split in _SPLITS if split in present), _SPLITS[0])


def headline(results: Mapping[str, Any]) -> str:
    """One sentence: the best method and its loss, against the best baseline (or the best of ours).

    It reads the column where the number of segments is estimated, if there is one.
    """
    table = results_table(results)
    column = next(c for c in COLUMNS if any(c in cells for cells in table.values()))
    ranked = [(method, cells[column]) for method, cells in table.items() if column in cells]
    name, best = ranked[0]
    ours = name.startswith("ours")
    sentence = (
        f"{name} has the smallest loss, {best}, on {_first_split(results)} data with the "
        f"{COLUMNS[column]}"
    )
    rivals = [pair for pair in ranked if pair[0].startswith("ours") != ours]
    if not rivals:
        return f"{sentence}."
    name, rival = rivals[0]
    sentence += f"; the best {'baseline' if ours else 'learned metric'}, {name}, has {rival}"
    if rival.tied or rival.best:
        return f"{sentence}, which is within one standard error."
    if best.mean == 0:
        return f"{sentence}."
    return f"{sentence} ({number(rival.mean / best.mean)} times as much)."


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """The lines of a Markdown table, its first column to the left, the others to the right."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def page(template: str, **content: Any) -> str:
    """A template of the folder ``templates`` filled with its content, a line break at the end."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["mean"] = fmean
    return environment.get_template(template).render(content).rstrip() + "\n"


def results_markdown(
    results: Mapping[str, Any], artifacts: Artifacts | None = None, command: str | None = None
) -> str:
    """The table as Markdown, what produced it, and how the hyper-parameters were chosen."""
    artifacts = artifacts or Artifacts()
    return _rendered("results.md.j2", results, artifacts=artifacts, command=command)


def _rendered(template: str, results: Mapping[str, Any], **content: Any) -> str:
    """A template with everything that there is to tell of a run."""
    versions = {"metriclearn": metriclearn.__version__, "Python": platform.python_version()}
    return page(
        template,
        results=results,
        headline=headline,
        results_table=results_table,
        columns=COLUMNS,
        footnote=_FOOTNOTE.format(split=_first_split(results)),
        number=number,
        duration=_duration(results["seconds"]),
        config=json.dumps(results["config"], indent=2, ensure_ascii=False),
        versions=versions | {name: importlib.metadata.version(name) for name in _PACKAGES},
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **content,
    )


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
    text = json.dumps(
        results, indent=2, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v)
    )
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    checked = read_results(folder / "results.json")
    page = folder / "results.md"
    page.write_text(results_markdown(checked, artifacts, command), encoding="utf-8")
    if artifacts.markdown is not None:
        return page
    page, (pictures, problems) = folder / "report.html", _pictures(folder, artifacts)
    content = {"artifacts": artifacts, "pictures": pictures, "problems": problems}
    text = _rendered("report.html.j2", checked, command=command, **content)
    page.write_text(text, encoding="utf-8")
    return page


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
        stem = f"{place:02d}-{section}-{file_name(name)}"
        try:
            pictures.append(_picture(folder / stem[:80], section, caption, draw, shape))
        except ValueError as error:
            _logger.warning("%s could not be drawn: %s", caption, error)
            problems.append(f"{caption} could not be drawn: {error}")
    return pictures, problems


def file_name(text: str) -> str:
    """Letters and digits of a text, a hyphen in place of all else."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


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
