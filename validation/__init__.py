"""Pairs theory and simulation: claims, statistics, reports, published reference data.

Names are loaded on first use; the stub ``__init__.pyi`` lists them.
"""

import lazy_loader

if __name__ != "iclimit.validation":
    raise ImportError("import this package as iclimit.validation")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
