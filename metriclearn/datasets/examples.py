"""The small data sets that come with the package."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from metriclearn.datasets.loaders.catalog import load_dataset
from metriclearn.datasets.loaders.images import load_images
from metriclearn.datasets.recordings import load_recordings

SHIPPED = Path(__file__).parent / "shipped"
_LOADERS: dict[str, Callable[..., Any]] = {  # functions of the folder, and options
    "bees": partial(load_dataset, "beedance"),
    "exercise": partial(load_dataset, "mocap6"),
    "horses": lambda folder, **options: load_images(folder / "images", folder / "masks", **options),
    "iris": partial(load_dataset, "iris"),
    "songs": load_recordings,
}


def load_example(name: str, **options: Any) -> Any:
    """Load a small data set that comes with the package.

    ========== ==================================== =============================================
    name       content                              source
    ========== ==================================== =============================================
    bees       tracks of four dancing bees          Oh, Rehg, Balch & Dellaert (2008)
    exercise   motion of four exercise routines     CMU Motion Capture, Fox et al. (2014)
    horses     four images of a horse, with masks   made from a silhouette by Andreas Preuss, CC0
    iris       150 flowers of three species         Fisher (1936), from scikit-learn
    songs      three songs of verses and refrains   generated
    ========== ==================================== =============================================

    Licenses are in ``metriclearn/datasets/shipped/README.md``.

    Parameters
    ----------
    name : str
        A name in the table.
    **options
        Options of the loader: :func:`load_dataset` for bees (beedance) and exercise (mocap6),
        :func:`load_images` for horses, and :func:`load_recordings` for songs. For songs, pass
        ``extractor=AudioFeatures()``.

    Returns
    -------
    LabeledSequences, LabeledImages or LabeledTable
        The data set. The class depends on the loader.

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> from metriclearn.datasets import load_example
    >>> bees = load_example("bees")
    >>> len(bees.sequences), bees.sequences[0].shape
    (4, (1057, 13))
    """
    if name not in _LOADERS:
        raise ValueError(f"load_example needs a name of {sorted(_LOADERS)}, got {name!r}.")
    return _LOADERS[name](SHIPPED / name, **options)
