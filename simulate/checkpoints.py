"""Files that an interrupted training goes on from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def save_checkpoint(
    path: Path, settings: Mapping[str, Any], record: Mapping[str, Any], **arrays: Any
) -> None:
    """Write a checkpoint; an interruption leaves the old one.

    Parameters
    ----------
    path : Path
        The file.
    settings : mapping
        What identifies the training, see `load_checkpoint`.
    record : mapping
        Numbers, strings and lists to be kept.
    **arrays : ndarray
        Arrays to be kept.
    """
    partial = path.with_name(path.name + ".partial")
    described = json.dumps({"settings": settings, "record": record}, default=int)
    with partial.open("wb") as file:
        np.savez(file, described=np.array(described), **arrays)
    os.replace(partial, path)


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
        with path.open("rb") as stream, np.load(stream) as file:
            described = json.loads(str(file["described"]))
            arrays = {name: file[name] for name in file.files if name != "described"}
        found, record = described["settings"], described["record"]
    except Exception as error:  # there is no end of ways in which a file can be broken
        raise ValueError(f"checkpoint must be a training's own file, got {path}") from error
    wanted = json.loads(json.dumps(settings, default=int))
    differing = [key for key in wanted if found.get(key) != wanted[key]]
    if differing:
        raise ValueError(
            f"checkpoint must be of the same training, got {path} with another {differing[0]}"
        )
    return record, arrays
