"""Versions of the libraries that results come from."""

import platform
from functools import cache

VERSIONED = ("iclimit", "numpy", "scipy", "mpmath", "sympy", "matplotlib", "joblib")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that results come from."""
    from importlib import metadata  # loads for a hundredth of a second

    installed = {"python": platform.python_version()}
    for name in VERSIONED:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed[name] = "not installed"
    return installed
