"""Limits and closed forms of in-context learning theory: no simulation."""

import lazy_loader

if __name__ != "iclimit.asymptotics":
    raise ImportError("import this package as iclimit.asymptotics")

SHELVES = (
    *("spectra", "pretraining", "descent", "gdpp", "dynamics"),
    *("softmax", "depth", "recurrent"),
)

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=SHELVES)
