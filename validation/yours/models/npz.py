"""Arrays in .npz files of somebody else, read in parts and without running what is in them.

A file may lie about what it holds.  Only the header of an array is believed, after a check of its
kind and size: arrays of objects, which are pickled code, are refused, and so is what would take
far more memory than the file has bytes.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.lib import format as npy

from iclimit.notation import did_you_mean

FREE_BYTES = 2**26
"""Bytes that an array may take whatever the size of its file."""

LARGEST_RATIO = 2
"""Bytes of a larger array over those in the file.  Random numbers do not compress."""


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
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    stream: IO[bytes]
    name: str

    def read(self, rows: int) -> np.ndarray:
        """Next rows.

        Raises
        ------
        ValueError
            If the file is damaged.
        """
        return self._read((rows, *self.shape[1:]))

    def whole(self) -> np.ndarray:
        """All of it, where nothing has been read."""
        return self._read(self.shape)

    def _read(self, shape: tuple[int, ...]) -> np.ndarray:
        wanted = math.prod(shape) * self.dtype.itemsize
        with naming_damage(self.name):
            found = self.stream.read(wanted)
        if len(found) < wanted:
            raise ValueError(f"{self.name} must be intact, got {len(found)} of {wanted} bytes")
        return np.frombuffer(found, self.dtype).reshape(shape)


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
        return [each.removesuffix(".npy") for each in files if each.endswith(".npy")]

    def __contains__(self, array: str) -> bool:
        return array in self.names

    def __getitem__(self, array: str) -> StoredArray:
        if array not in self:
            found = ", ".join(self.names[:10]) or "none"
            hint = did_you_mean(array, self.names)
            raise ValueError(f"{self.path} must have an array {array!r}, got {found}{hint}")
        member, name = self.archive.getinfo(f"{array}.npy"), f"{array} in {self.path}"
        if member.file_size > max(FREE_BYTES, LARGEST_RATIO * member.compress_size):
            raise ValueError(
                f"{name} must not be larger than the file, got {member.file_size} bytes made of "
                f"{member.compress_size}"
            )
        with naming_damage(name):
            stream = self.archive.open(member)
        return parse_npy(name, stream, member.file_size)


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
        If it is damaged or no such file.
    FileNotFoundError
        If there is no file.
    """
    with path.open("rb") as file:
        with naming_damage(str(path)):
            archive = zipfile.ZipFile(file)
        yield NpzFile(path, archive)


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
    if by_columns and len(shape) > 1:
        raise ValueError(f"{name} must be stored row by row, got column by column")
    stored = size - stream.tell()
    if math.prod(shape) * dtype.itemsize != stored or min(shape, default=0) < 0:
        found = f"{stored} bytes for the shape {shape} of {dtype}"
        raise ValueError(f"{name} must be intact, got {found}")
    return StoredArray(shape, dtype, stream, name)


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


def write_array(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    parts: Iterable[np.ndarray],
) -> None:
    """Write an array into an .npz file part by part, so that it is never whole in memory."""
    # A fixed date, so that the same prompts are the same bytes.
    member = zipfile.ZipInfo(f"{name}.npy")
    with archive.open(member, "w", force_zip64=True) as stream:
        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(stream, header)
        for part in parts:
            stream.write(np.ascontiguousarray(part, dtype=dtype).tobytes())
