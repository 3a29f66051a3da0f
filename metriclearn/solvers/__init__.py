"""Metric cones, regularizers, and solvers with certificates. No code here depends on partitions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
