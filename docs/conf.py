"""The site: ``make docs`` builds it into build/docs, to be opened from disk."""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib
from sphinx_gallery.sorting import ExplicitOrder

import metriclearn

sys.path.insert(0, str(Path(__file__).parent))  # the extension formulas
matplotlib.use("Agg")
warnings.filterwarnings("ignore", message=".*tqdm.*")

project, author = "metriclearn", "The metriclearn developers"
version = release = metriclearn.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "formulas",
]
templates_path = ["_templates"]
exclude_patterns = ["gallery/**"]  # the sources of the gallery, which it makes pages from
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_fence_as_directive = ["math"]
html_math_renderer = "mathml"
myst_heading_anchors = 3
autosummary_generate = True
toc_object_entries_show_parents = "hide"  # the list on the right has room for names of methods
autodoc_typehints = "none"  # types stand in the docstrings, with shapes and units
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"/plot_",
    "subsection_order": ExplicitOrder(
        [f"gallery/{part}" for part in ("segment", "partial", "cluster", "indices", "trust")]
    ),
    "within_subsection_order": "ExampleTitleSortKey",
    "doc_module": ("metriclearn",),
    "backreferences_dir": "reference/used",
    "reference_url": {"metriclearn": None},
    "plot_gallery": "True",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
}
html_theme = "pydata_sphinx_theme"
html_title = f"metriclearn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "start": [], "faq": []}
html_theme_options = {
    "logo": {"text": "metriclearn"},
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


def of_others(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Skip members that are not defined in metriclearn, such as those of scikit-learn."""
    module = getattr(getattr(member, "fget", member), "__module__", None)
    return True if module is None or not module.startswith("metriclearn") else None


def with_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape the bars of a size or an absolute value |x| in docstrings, because reStructuredText
    would take |x| for a substitution."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda match: match[1] or r"\|", line) for line in lines]


def without_outside(app: Any, name: str, source: list[str]) -> None:
    """Replace every link to a file of the repository that is not on the site by the file's
    path."""
    up = r"\.\./" * (name.count("/") + 1)
    source[0] = re.sub(rf"\[[^\]]*\]\({up}([^)]*)\)", r"`\1`", source[0])


# Addresses of earlier pages, and where they lead.
MOVED = {
    "consensus": "segmenter",
    "recordings": "console",
    "benchmarks/consensus": "confidence",
    "reference/metriclearn.Consensus": "metriclearn.Segmenter",
    "reference/metriclearn.RecordingSegmenter": "metriclearn.Segmenter",
    "reference/metriclearn.GapSegmenter": "metriclearn.Segmenter",
    "reference/metriclearn.ChangePointMetricLearnerCV": "metriclearn.Segmenter",
    "reference/metriclearn.estimators.ChangePointMetricLearnerCV": "metriclearn.Segmenter",
    "reference/metriclearn.auto_metric_learner": "metriclearn.Segmenter",
    "reference/metriclearn.ClusteringConsensus": "metriclearn.Clusterer",
    "reference/metriclearn.baselines.FrameClassifier": "metriclearn.estimators.Viterbi",
}
MOVED |= {
    f"reference/metriclearn.{name}": f"metriclearn.{folder}.{name}"
    for folder, names in metriclearn.MOVED.items()
    for name in names.split()
}


def redirect(app: Any, error: Exception | None) -> None:
    """Write a page at every earlier address that leads to the new one."""
    if error is None and app.builder.name == "html":
        for old, new in MOVED.items():
            page = f'<!doctype html><meta http-equiv="refresh" content="0; url={new}.html">\n'
            (Path(app.outdir) / f"{old}.html").write_text(page, encoding="utf-8")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", redirect)
    app.connect("autodoc-skip-member", of_others)
    app.connect("autodoc-process-docstring", with_bars)
    app.connect("source-read", without_outside)
