"""Libraries that are not installed with iclimit, but with one of its extras."""

from importlib import import_module
from typing import Any


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a library that an extra brings.

    Parameters
    ----------
    module : str
        Its name.
    extra : str
        The extra that installs it: ``pip install 'iclimit[extra]'``.
    purpose : str
        What needs it, the beginning of the message.

    Raises
    ------
    RuntimeError
        If it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise RuntimeError(
            f"{purpose} needs {module.split('.')[0]}, which is not installed: "
            f"pip install 'iclimit[{extra}]'"
        ) from error


def import_xarray(purpose: str = "labelled data") -> Any:
    """Import xarray, with what it writes NetCDF with."""
    for module in ("h5netcdf", "xarray"):
        library = import_extra(module, "labelled", purpose)
    return library
