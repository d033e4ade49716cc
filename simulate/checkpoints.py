"""Files that an interrupted training goes on from."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.simulate.npz import load_npz, save_npz


def check_checkpoint(path: Path) -> None:
    """Raise an OSError if no checkpoint can be written there, before the training begins."""
    try:
        with tempfile.TemporaryFile(dir=path.resolve().parent):
            pass
    except OSError as error:
        raise type(error)(f"checkpoint must be a file that can be written: {error}") from error


def save_checkpoint(
    path: Path, settings: Mapping[str, Any], record: Mapping[str, Any], **arrays: Any
) -> None:
    """Write a checkpoint; if it is interrupted, the old one stays.

    Parameters
    ----------
    path : Path
        The file.
    settings : mapping
        What identifies the training, see `load_checkpoint`.
    record : mapping
        Numbers, strings, lists and mappings to be kept.
    **arrays : ndarray
        Arrays to be kept.
    """
    described = _json({"settings": settings, "record": record})
    save_npz(path, described=np.array(described), **arrays)


def load_checkpoint(
    path: Path, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read the record and the arrays of a checkpoint.

    Raises
    ------
    ValueError
        If it is no checkpoint, or one of a training with other settings.
    """
    try:
        arrays = load_npz(path)
        described = json.loads(str(arrays.pop("described")))
        found, record = dict(described["settings"]), dict(described["record"])
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"checkpoint must be a training's own file, got {path}") from error
    wanted = json.loads(_json(settings))
    differing = [key for key in wanted if found.get(key) != wanted[key]]
    if differing:
        raise ValueError(
            f"checkpoint must be of the same training, got {path} with another {differing[0]}"
        )
    return record, arrays


def _json(value: Any) -> str:
    """Text of mappings and lists, NumPy's numbers as Python's."""
    return json.dumps(value, default=lambda number: number.item())
