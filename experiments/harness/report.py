"""Tables, figures and one self-contained page from the results of an experiment.

``write_report`` writes ``results.json``, ``results.md``, every figure as PNG and SVG, and
``report.html``, which needs no other file and no network. For the layout of the numbers see
:mod:`experiments.harness.results`.
"""

from __future__ import annotations

import base64
import importlib.metadata
import io
import json
import logging
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import jinja2
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

import metriclearn
from experiments.harness import results as layout
from experiments.harness import wording
from experiments.harness.results import Results, read_results
from metriclearn.plots import plot_convergence, plot_metric_matrix, plot_segmentation, plot_weights
from metriclearn.plots.canvas import number

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Strip:
    """One example sequence: its true segmentation first, then ours, then baselines.

    ``segmentations`` maps the name of each segmentation to its change-points, which end with T.
    ``losses`` has ‖M − N‖²_F for some of these segmentations. ``signal`` has a few features to
    draw.
    """

    name: str
    segmentations: Mapping[str, ArrayLike]
    losses: Mapping[str, float] = field(default_factory=dict)
    signal: ArrayLike | Mapping[str, ArrayLike] | None = None


@dataclass(frozen=True)
class Artifacts:
    """The data for the figures and notes of a report. Every part is optional.

    ``figures`` maps each caption to a pair: a drawing function, and the factor by which the figure
    is higher on a narrow screen. For a narrow screen the function is called with ``ax``. In the
    other mappings, a key is the name of a method. ``weights`` has metrics, as diagonals (P,) or
    matrices (P, P). ``feature_names`` has the names of the features of these metrics. ``traces``
    has tables as in :func:`metriclearn.plots.plot_convergence`.
    """

    strips: Sequence[Strip] = ()
    figures: Mapping[str, tuple[Callable[..., Figure], float]] = field(default_factory=dict)
    weights: Mapping[str, ArrayLike] = field(default_factory=dict)
    feature_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    traces: Mapping[str, Mapping[str, ArrayLike]] = field(default_factory=dict)
    model_file: str | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class _Picture:
    """One figure of a report: its section, its texts, and a data URI for wide and one for narrow
    screens."""

    section: str
    caption: str
    alt: str
    wide: str
    narrow: str


def page(template: str, **content: Any) -> str:
    """Fill a template of the folder ``templates``. The text ends with a line break."""
    return _templates().get_template(template).render(content).rstrip() + "\n"


@cache
def _templates() -> jinja2.Environment:
    """Return an environment that loads the files of the folder ``templates`` and compiles each file
    once."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[1] / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"mean": fmean, "plural": wording.plural, "counted": wording.counted}
    environment.globals |= {"layout": layout, "wording": wording, "number": number}
    return environment


def results_markdown(results: Results, artifacts: Artifacts | None = None) -> str:
    """Return the tables as Markdown, with the command that produced them and the chosen
    hyper-parameters."""
    return _rendered("results.md.j2", results, artifacts=artifacts or Artifacts())


def _rendered(template: str, results: Results, **content: Any) -> str:
    """Fill a template with all information about a run."""
    whole = {**results, "headline": wording.headline(results)}
    config = json.dumps(results["config"], indent=2, ensure_ascii=False)
    return page(template, results=whole, config=config, **content)


def write_report(folder: str | Path, results: Results, artifacts: Artifacts | None = None) -> Path:
    """Write results.json, results.md, the figures and report.html. Returns the path of the page.

    The numbers are written first, so that they are safe if drawing fails. A figure whose data are
    inconsistent is replaced by a sentence about the error.

    Parameters
    ----------
    folder : path
        Made if missing.
    results : dict
        The content of ``results.json`` without headline and versions, which are added here. NumPy
        numbers, arrays and paths are allowed.
    artifacts : Artifacts, optional
        Data for figures and notes.

    Raises
    ------
    ValueError
        If the results do not follow the layout.
    """
    folder, artifacts = Path(folder), artifacts or Artifacts()
    folder.mkdir(parents=True, exist_ok=True)
    versions = {"metriclearn": metriclearn.__version__, "Python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    first = {"name": results["name"], "headline": wording.headline(results)}
    whole = first | dict(results) | {"versions": versions}
    text = json.dumps(
        whole, indent=1, default=lambda v: v.tolist() if hasattr(v, "tolist") else str(v)
    )
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    checked = read_results(folder / "results.json")
    (folder / "results.md").write_text(results_markdown(checked, artifacts), encoding="utf-8")
    page, (pictures, problems) = folder / "report.html", _pictures(folder, artifacts)
    content = {"artifacts": artifacts, "pictures": pictures, "problems": problems}
    page.write_text(_rendered("report.html.j2", checked, **content), encoding="utf-8")
    return page


def _pictures(folder: Path, artifacts: Artifacts) -> tuple[list[_Picture], list[str]]:
    """Draw every figure. For a figure that cannot be drawn, return a sentence."""
    jobs: list[tuple[str, str, str, Callable[..., Figure], float]] = []
    for caption, (draw, shape) in artifacts.figures.items():
        jobs.append(("figure", caption, caption, draw, shape))
    for strip in artifacts.strips:
        draw = partial(plot_segmentation, strip.segmentations, strip.signal, strip.losses)
        jobs.append(("segmentation", strip.name, f"Segmentations of {strip.name}", draw, 1.1))
    for method, weights in artifacts.weights.items():
        full = np.ndim(weights) == 2
        names = artifacts.feature_names.get(method)
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
    """Replace every run of characters other than letters and digits by a hyphen."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def _picture(
    path: Path, section: str, caption: str, draw: Callable[..., Figure], shape: float
) -> _Picture:
    """Save the figure as PNG and SVG and embed it twice: as saved, and 3.5 inches wide."""
    figure = draw()
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    message = " ".join(figure.get_suptitle().replace(r"\$", "$").split())
    texts = {"Title": message, "Software": None}
    figure.savefig(path.with_suffix(".png"), dpi=160, metadata=texts)
    size = (3.5, shape * figure.get_figheight())
    narrow, image = Figure(figsize=size, layout="constrained"), io.BytesIO()
    draw(ax=narrow.add_subplot()).savefig(image, format="png", dpi=200)
    wide, alt = path.with_suffix(".png").read_bytes(), f"{caption}. {message}"
    return _Picture(section, caption, alt, _embed(wide), _embed(image.getvalue()))


def _embed(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
