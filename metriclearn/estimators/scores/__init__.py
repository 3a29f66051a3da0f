"""Prediction with a metric: segmentations, clusterings, cuts, and how certain they are."""

import pkgutil

import lazy_loader

_FILES = [file.name for file in pkgutil.iter_modules(__path__)]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, _FILES)
