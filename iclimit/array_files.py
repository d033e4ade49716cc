"""Arrays in files of NumPy, read in parts and without running what is in a file.

A file may lie about what it holds.  Only the header of an array is believed, after a check of its
kind and size: arrays of objects, which are pickled code, are refused, and so is what would take
far more memory than the file has bytes.
"""

from __future__ import annotations

import math
import os
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.lib import format as npy

from iclimit.notation import did_you_mean

# Bytes that arrays may take whatever the size of their file.
FREE_BYTES = 2**26

# Bytes of larger arrays over those of the file.  Random numbers do not compress.
LARGEST_RATIO = 2


@dataclass
class StoredArray:
    """An array in a file, which can be read in parts.

    Attributes
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its type.
    stream : file
        Where it is read from.
    name : str
        What it is, for messages.
    by_columns : bool
        Whether it is stored column by column, and so can only be read as a whole.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    stream: IO[bytes]
    name: str
    by_columns: bool = False

    def read(self, rows: int | None = None) -> np.ndarray:
        """Next rows, or all of it where nothing has been read.

        Raises
        ------
        ValueError
            If the file is damaged, or rows are asked for where it is stored by columns.
        """
        if self.by_columns and rows is not None:
            raise ValueError(f"{self.name} must be stored row by row, got column by column")
        shape = self.shape if rows is None else (rows, *self.shape[1:])
        wanted = math.prod(shape) * self.dtype.itemsize
        with naming_damage(self.name):
            content = self.stream.read(wanted)
        if len(content) < wanted:
            raise ValueError(f"{self.name} must be intact, got {len(content)} of {wanted} bytes")
        order: Literal["F", "C"] = "F" if self.by_columns else "C"
        return np.frombuffer(content, self.dtype).reshape(shape, order=order)


@dataclass
class NpzFile:
    """Arrays of an .npz file by name; `open_npz` makes one.

    Attributes
    ----------
    path : Path
        Where it is.
    archive : ZipFile
        What it contains.
    """

    path: Path
    archive: zipfile.ZipFile

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        files = self.archive.namelist()
        return [name.removesuffix(".npy") for name in files if name.endswith(".npy")]

    def __contains__(self, array: str) -> bool:
        return array in self.names

    def __getitem__(self, array: str) -> StoredArray:
        if array not in self:
            present = ", ".join(self.names[:10]) or "none"
            hint = did_you_mean(array, self.names)
            raise ValueError(f"{self.path} must have an array {array!r}, got {present}{hint}")
        member = self.archive.getinfo(f"{array}.npy")
        name = f"{array} in {self.path}"
        with naming_damage(name):
            stream = self.archive.open(member)
        return parse_npy(name, stream, member.file_size)


def check_file(path: Path) -> None:
    """Raise a FileNotFoundError that names the file if there is none."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}")


@contextmanager
def open_npz(path: Path) -> Iterator[NpzFile]:
    """Open a file.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    NpzFile

    Raises
    ------
    ValueError
        If it is damaged or no such file, or its arrays would take far more memory than it has
        bytes.
    FileNotFoundError
        If there is no file.
    """
    check_file(path)
    with path.open("rb") as file:
        with naming_damage(str(path)):
            archive = zipfile.ZipFile(file)
        _check_size(path, archive)
        yield NpzFile(path, archive)


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All arrays of an .npz file.

    Raises
    ------
    ValueError
        If there is no such file, or it is damaged or holds other than numbers and text.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}")
    with open_npz(path) as file:
        return {name: file[name].read() for name in file.names}


def _check_size(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise a ValueError if all that an archive says it holds is far larger than its file.

    Several names may lead to the same bytes, so that no single one tells.
    """
    size = sum(member.file_size for member in archive.infolist())
    stored = path.stat().st_size
    if size > max(FREE_BYTES, LARGEST_RATIO * stored):
        raise ValueError(
            f"arrays in {path} must not be larger than the file, got {size} bytes made of {stored}"
        )


def parse_npy(name: str, stream: IO[bytes], size: int) -> StoredArray:
    """Array in a stream of so many bytes, in the format of numpy.save.

    Raises
    ------
    ValueError
        If it is no array of numbers or text, or of another size than it says.
    """
    with naming_damage(name):
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        shape, by_columns, dtype = read[npy.read_magic(stream)](stream)
    if dtype.kind not in "fiubcU":
        raise ValueError(f"{name} must be an array of numbers, got {dtype}")
    stored = size - stream.tell()
    if math.prod(shape) * dtype.itemsize != stored or min(shape, default=0) < 0:
        problem = f"{stored} bytes for the shape {shape} of {dtype}"
        raise ValueError(f"{name} must be intact, got {problem}")
    return StoredArray(shape, dtype, stream, name, by_columns=by_columns and len(shape) > 1)


@contextmanager
def naming_damage(name: str) -> Iterator[None]:
    """Raise a ValueError of one line that names what could not be read, and let no warning out."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:  # a file can be broken in any way
        reason = (str(error).splitlines() or [""])[0][:80] or type(error).__name__
        raise ValueError(f"{name} must be intact and without pickle, got: {reason}") from error
