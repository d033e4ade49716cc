"""Finite-size simulation of linear attention on NumPy or CuPy: no theory."""

import lazy_loader

if __name__ != "iclimit.simulate":
    raise ImportError("import this package as iclimit.simulate")

SHELVES = (
    *("pretraining", "descent", "gdpp", "dynamics", "networks"),
    *("softmax", "depth", "recurrent"),
)

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=SHELVES)
