"""Minimize a risk plus a regularizer over a cone of metrics. Nothing here depends on partitions."""

import pkgutil

import lazy_loader

_FILES = [file.name for file in pkgutil.iter_modules(__path__)]
__getattr__, __dir__, _ = lazy_loader.attach(__name__, _FILES)
