"""Penalties of features of the sequence or of the boundary, and the rate of boundaries."""

import pkgutil

import lazy_loader

_FILES = [file.name for file in pkgutil.iter_modules(__path__)]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, _FILES)
