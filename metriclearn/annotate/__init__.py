"""The page of ``metriclearn label``, and suggestions of stretches to label next."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
