"""Oracles maximize ⟨A, M⟩: exact programs, relaxations, local search and completions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
