"""Reservations: which of several processes with one run store computes a piece of work."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: everything is free
    fcntl = None  # type: ignore[assignment]


class Reservations:
    """What this process computes for a run store, such that other processes of the machine know.

    A reservation is a lock on one byte of a file beside the store.  The system releases it when
    the process ends, however it does.  Where files cannot be locked, everything is free.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(f"{store.name}-reserved")
        self._file: IO[bytes] | None = None

    def reserve(self, identity: str) -> bool:
        """Reserve a cell; False if another process has it."""
        if self._file is None:
            try:
                self._file = self._path.open("ab")
            except OSError:  # a full disk
                return True
        return _lock(self._file, 1, _byte(identity))

    def release(self, identity: str) -> None:
        """Leave a cell to others."""
        if self._file is not None and fcntl:
            with suppress(OSError):  # a file system without locks
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(identity))

    def close(self) -> None:
        """Leave everything to others; the last to leave removes the file."""
        if self._file is not None:
            if _lock(self._file, 0, 0):
                self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None


def _byte(identity: str) -> int:
    return int(identity[:15], 16)


def _lock(file: IO[bytes], length: int, start: int) -> bool:
    """Lock some bytes, or all from the start on for length 0; False if others have any."""
    if not fcntl:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        return True
    return True
