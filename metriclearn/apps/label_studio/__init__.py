"""Label Studio: a backend that learns from annotations, and import and export of its tasks."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
