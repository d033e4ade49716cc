"""Versions of what computes results."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

VERSIONED = ("iclimit", "numpy", "scipy", "mpmath", "sympy", "matplotlib", "joblib")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that results come from."""
    found = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found
