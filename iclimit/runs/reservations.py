"""Reservations: which of several processes with one run store computes a piece of work."""

from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows: everything is free
    fcntl = None  # type: ignore[assignment]


class Reservations:
    """What this process computes for a run store, so that others of the machine leave it alone.

    A reservation is a lock on one byte of a file beside the store.  The system releases it when
    the process ends, however it does.  Where files cannot be locked, everything is free.
    """

    def __init__(self, store: Path) -> None:
        self._path = store.with_name(f"{store.name}-reserved")
        self._file: IO[bytes] | None = None

    def reserve(self, identity: str) -> bool:
        """Reserve a cell; False if another process has it."""
        self._file = self._file or self._path.open("ab")
        return not fcntl or self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(identity))

    def release(self, identity: str) -> None:
        """Leave a cell to others."""
        if self._file and fcntl:
            self._lock(fcntl.LOCK_UN, 1, _byte(identity))

    def close(self) -> None:
        """Leave everything to others; the last to leave removes the file."""
        if self._file:
            if not fcntl or self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 0):
                self._path.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _lock(self, kind: int, length: int, start: int) -> bool:
        """Lock or release bytes, all from the start on for length 0; False if others have any."""
        try:
            fcntl.lockf(self._file, kind, length, start)  # type: ignore[arg-type]
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            return True
        return True


def _byte(identity: str) -> int:
    return int(identity[:15], 16)
