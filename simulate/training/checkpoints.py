"""Checkpoints: files that an interrupted training goes on from.

A checkpoint holds what identifies the training and its state, mappings and lists of numbers, texts
and arrays.  It is an .npz file without pickle, with the arrays by number and a JSON text.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.simulate.arrays import to_host
from iclimit.simulate.npz import load_npz, save_npz


def check_checkpoint(path: Path) -> None:
    """Raise an OSError if no checkpoint can be written there, before the training begins."""
    try:
        with tempfile.TemporaryFile(dir=path.resolve().parent):
            pass
    except OSError as error:
        raise type(error)(f"checkpoint must be a file that can be written: {error}") from error


def identify(value: Any) -> Any:
    """Text that tells objects of different content apart; that of an array is a hash."""
    if isinstance(value, np.ndarray):
        return [list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if is_dataclass(value):
        parts = {each.name: identify(getattr(value, each.name)) for each in fields(value)}
        return {"type": type(value).__qualname__, **parts}
    return repr(value.item() if isinstance(value, np.generic) else value)


def save_checkpoint(path: Path, settings: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write a checkpoint; if that is interrupted, the old one stays.

    Parameters
    ----------
    path : Path
        The file.
    settings : mapping
        What identifies the training, see `load_checkpoint`.
    state : mapping
        Numbers, texts, lists, mappings and arrays of any backend.
    """
    arrays: dict[str, np.ndarray] = {}

    def encode(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        name = f"array{len(arrays)}"
        arrays[name] = to_host(value)
        return {"array": name}

    text = json.dumps({"settings": settings, "state": state}, default=encode)
    save_npz(path, described=np.array(text), **arrays)


def load_checkpoint(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read the state of a checkpoint, with arrays of NumPy.

    Raises
    ------
    ValueError
        If it is no checkpoint, or one of a training with other settings.
    """

    def decode(value: dict[str, Any]) -> Any:
        return arrays[value["array"]] if value.keys() == {"array"} else value

    try:
        arrays = load_npz(path)
        described = json.loads(str(arrays["described"]), object_hook=decode)
        known, state = dict(described["settings"]), dict(described["state"])
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"checkpoint must be a training's own file, got {path}") from error
    wanted = json.loads(json.dumps(settings, default=lambda number: number.item()))
    differing = [key for key in wanted if known.get(key) != wanted[key]]
    if differing:
        raise ValueError(
            f"checkpoint must be of the same training, got {path} with another {differing[0]}"
        )
    return state
