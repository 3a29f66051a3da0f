"""metriclearn: learn a metric from partitions people have already made.

The public names stand in ``__init__.pyi`` and load on first use, so that ``import metriclearn`` is
instant.
"""

import pkgutil

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
# ``import *`` brings the names, not the folders that they live in
__all__ = sorted(set(__all__) - {module.name for module in pkgutil.iter_modules(__path__)})
