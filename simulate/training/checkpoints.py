"""Checkpoints: files that an interrupted training goes on from.

A checkpoint holds what identifies the training and its state.  Checkpoints and files of trained
models have one form: an .npz file without pickle, with arrays by name and the rest as JSON.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.array_files import open_npz
from iclimit.files import replacing
from iclimit.simulate.arrays import to_host

# Version of the form of checkpoints and of files of models.
FORMAT = 1


class FormatError(ValueError):
    """A file has another format, because an older or a newer version has written it."""


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
        parts = {field.name: identify(getattr(value, field.name)) for field in fields(value)}
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
    write_tree(path, {"settings": settings, "state": state})


def load_checkpoint(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read the state of a checkpoint, with arrays of NumPy.

    Raises
    ------
    ValueError
        If it is no checkpoint, one of another format, or one of a training with other settings.
    """
    try:
        tree = read_tree(path)
        known = dict(tree["settings"])
        state = dict(tree["state"])
    except FormatError:
        raise
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"checkpoint must be a training's own file, got {path}") from error
    wanted = json.loads(json.dumps(settings, default=lambda number: number.item()))
    differing = [key for key in wanted if known.get(key) != wanted[key]]
    if differing:
        raise ValueError(
            f"checkpoint must be of the same training, got {path} with another {differing[0]}"
        )
    return state


def write_tree(path: Path, tree: Mapping[str, Any]) -> None:
    """Write numbers, texts, lists, mappings and arrays to an .npz file, whole or not at all.

    Arrays are named by their places, such as ``weights.key``; the array description holds the
    rest, and the `FORMAT`, as JSON.
    """
    arrays: dict[str, Any] = {}

    def encode(value: Any, place: str) -> Any:
        if isinstance(value, Mapping):
            return {name: encode(entry, f"{place}.{name}") for name, entry in value.items()}
        if isinstance(value, (list, tuple)):
            return [encode(entry, f"{place}.{number}") for number, entry in enumerate(value)]
        if isinstance(value, np.generic):
            return value.item()
        if not hasattr(value, "shape"):
            return value
        arrays[place[1:]] = to_host(value)
        return {"array": place[1:]}

    description = np.array(json.dumps(encode({"format": FORMAT, **tree}, "")))
    # Given a name savez would append .npz.
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, description=description, **arrays)


def read_tree(path: Path) -> dict[str, Any]:
    """Read what `write_tree` has written, without pickle; a broken file raises any error.

    Raises
    ------
    FormatError
        If the file has another format.
    """
    with open_npz(path) as file:
        names = set(file.names)

        def decode(value: dict[str, Any]) -> Any:
            if value.keys() != {"array"}:
                return value
            names.remove(value["array"])  # each one is read once, whatever the description says
            return file[value["array"]].read().copy(order="K")

        description = file["description"]
        if description.shape:
            raise ValueError(f"description must be a text, got the shape {description.shape}")
        tree: dict[str, Any] = json.loads(str(description.read()), object_hook=decode)
    if tree["format"] != FORMAT:
        raise FormatError(
            f"{path} must have the format {FORMAT} of this iclimit, got {tree['format']!r}, "
            "which another version has written"
        )
    return tree
