"""The run store: results of cells on record, in one SQLite file.

A row is a finished batch: a cell's result, or that of some repeats of an extendable cell.  It is
written in one transaction and flushed to the disk before `RunStore.add` returns, so that a process
or machine may stop at any moment: a row is there as a whole or not at all.  Several processes of
one machine can write to one file; on network file systems one machine at a time.
"""

from __future__ import annotations

import json
import math
import platform
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field, fields
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Any

from iclimit.runs.cell import Cell
from iclimit.runs.encoding import decode, encode
from iclimit.runs.summary_numbers import summary_numbers
from iclimit.runs.versions import versions

FORMAT = 1
"""Version of the file format."""

APPLICATION = 0x69634C6D
"""Marks SQLite files as run stores ("icLm")."""

TIMEOUT = 60.0
"""Seconds to wait for another process that writes."""

TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"
"""UTC, of fixed width, so that times sort as text."""

_HEADER = 512
"""Bytes of the smallest SQLite file."""

_SCHEMA = """
CREATE TABLE runs (
    identity TEXT NOT NULL,
    first INTEGER NOT NULL CHECK (first >= 0),
    count INTEGER NOT NULL CHECK (count >= 1),
    function TEXT NOT NULL,
    parameters TEXT NOT NULL,
    seed TEXT NOT NULL,
    backend TEXT NOT NULL,
    code TEXT NOT NULL,
    seconds REAL NOT NULL,
    residual REAL,
    numbers TEXT NOT NULL,
    host TEXT NOT NULL,
    finished TEXT NOT NULL,
    versions TEXT NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (identity, first)
)
"""


class StoreError(OSError):
    """A run store cannot be opened, read or written; the message names the file and the remedy."""


class UnwrittenError(StoreError):
    """Results are known but could not be put on record."""


@dataclass(frozen=True)
class StoredBatch:
    """A finished batch, as it is on record.

    Attributes
    ----------
    identity : str
        Of the cell, see `Cell.identity`.
    first, count : int
        The repeats first, ..., first + count - 1; 0 and 1 for a cell without repeats.
    function, parameters, seed, backend, code : str
        Module and name, canonical JSON, root seed, place and code version.
    seconds : float
        Time of the computation.
    residual : float or None
        Worst residual of a linear solve, if the result tells.
    numbers : str
        JSON of the named numbers with their standard errors.
    host, finished, versions : str
        Where, when (UTC, ISO 8601) and with which libraries (JSON).
    result : str
        The encoded result.
    """

    identity: str
    first: int
    count: int
    function: str
    parameters: str
    seed: str
    backend: str
    code: str
    seconds: float
    residual: float | None
    numbers: str
    host: str
    finished: str
    versions: str
    result: str = field(repr=False)

    @classmethod
    def of(
        cls,
        cell: Cell,
        result: Any,
        *,
        rng: int,
        backend: str,
        seconds: float,
        first: int = 0,
        count: int = 1,
    ) -> StoredBatch:
        """Record of a result that has just been computed.

        Raises
        ------
        TypeError
            If the result cannot be encoded.
        """
        residual = getattr(result, "residual", None)
        return cls(
            identity=cell.identity(rng, backend),
            first=first,
            count=count,
            function=f"{cell.function.__module__}.{cell.function.__qualname__}",
            parameters=cell.arguments,
            seed=str(rng),
            backend=backend if cell.depends_on_backend else "",
            code=cell.version,
            seconds=seconds,
            residual=None if residual is None else float(residual),
            numbers=_numbers_text(result),
            host=platform.node(),
            finished=datetime.now(UTC).strftime(TIME_FORMAT),
            versions=json.dumps(versions()),
            result=encode(result),
        )

    @property
    def value(self) -> Any:
        """The result itself; a ValueError if this version of iclimit cannot read it."""
        return decode(self.result)


@dataclass(frozen=True)
class StoredRun:
    """All batches of one cell, for listings.

    Attributes
    ----------
    identity, function, parameters, seed, backend, code : str
        See `StoredBatch`.
    batches, repeats : int
        Number of batches and of repeats in them.
    seconds : float
        Time of all batches.
    finished : str
        When the last of them was.
    """

    identity: str
    function: str
    parameters: str
    seed: str
    backend: str
    code: str
    batches: int
    repeats: int
    seconds: float
    finished: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Parameters as a dict."""
        arguments: dict[str, Any] = json.loads(self.parameters)
        return arguments


def _numbers_text(result: Any) -> str:
    numbers = {
        name: [_strict(number), _strict(error)]
        for name, (number, error) in summary_numbers(result).items()
    }
    return json.dumps(numbers, allow_nan=False)


def _strict(number: float | None) -> float | str | None:
    return number if number is None or math.isfinite(number) else str(number)


def joined_numbers(batches: Iterable[StoredBatch]) -> dict[str, tuple[float, float | None]]:
    """Named numbers of all batches of one cell together, with standard errors.

    Raises
    ------
    ValueError
        If there are several batches and this version of iclimit cannot read their results.
    """
    first, *others = batches
    if others:
        values = (batch.value for batch in (first, *others))
        return summary_numbers(reduce(lambda left, right: left.concatenate(right), values))
    return {
        name: (float(number), None if error is None else float(error))
        for name, (number, error) in json.loads(first.numbers).items()
    }


class RunStore:
    """Results on record in one SQLite file, which is made if it does not exist.

    Parameters
    ----------
    path : str or Path
        The file; its folder must exist.
    readonly : bool
        Open an existing file for reading; works where nothing can be written.

    Raises
    ------
    StoreError
        If the file cannot be opened, is no run store, is damaged or of a newer format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from iclimit.simulate.descent import simulate_learning_rate
    >>> from iclimit.runs.cell import Cell
    >>> from iclimit.runs.store import RunStore, StoredBatch
    >>> cell = Cell.of(simulate_learning_rate, contexts=100, dim=4, context=8)
    >>> batch = StoredBatch.of(cell, cell.run(0), rng=0, backend="numpy", seconds=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RunStore(Path(folder) / "runs.sqlite") as store:
    ...         store.add(batch), store.add(batch)
    ...         [found.value.tasks for found in store.find(batch.identity)]
    (True, False)
    [100]
    """

    def __init__(self, path: str | Path, *, readonly: bool = False) -> None:
        self.path = Path(path)
        _check_path(self.path, readonly)
        with _told(self.path):
            self._connection = _read_only(self.path) if readonly else _writable(self.path)

    def __enter__(self) -> RunStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def find(self, identity: str) -> list[StoredBatch]:
        """Batches of a cell, in the order of their repeats."""
        columns = ", ".join(column.name for column in fields(StoredBatch))
        query = f"SELECT {columns} FROM runs WHERE identity = ? ORDER BY first"
        return [StoredBatch(*row) for row in self._rows(query, [identity])]

    def add(self, batch: StoredBatch) -> bool:
        """Put a batch on record.

        Returns
        -------
        bool
            False if one of its repeats is there already; nothing is written then.

        Raises
        ------
        StoreError
            If the batch cannot be written, for instance because the disk is full; the store can
            still be used, and the batch added later.
        """
        marks = ", ".join("?" * len(fields(StoredBatch)))
        columns = ", ".join(column.name for column in fields(StoredBatch))
        with self._writing() as connection:
            known = connection.execute(
                "SELECT 1 FROM runs WHERE identity = ? AND first < ? AND first + count > ?",
                (batch.identity, batch.first + batch.count, batch.first),
            ).fetchone()
            if known is None:
                connection.execute(
                    f"INSERT INTO runs ({columns}) VALUES ({marks})", astuple(batch)
                )
        return known is None

    def runs(
        self, *, identity: str = "", function: str = "", since: datetime | None = None
    ) -> list[StoredRun]:
        """What is on record, newest first.

        Parameters
        ----------
        identity : str
            How the identity begins.
        function : str
            Text in the name of the function.
        since : datetime
            Finished at this time or later; must have a time zone.

        Returns
        -------
        list of StoredRun
        """
        earliest = "" if since is None else since.astimezone(UTC).strftime(TIME_FORMAT)
        query = """
            SELECT identity, function, parameters, seed, backend, code, count(*), sum(count),
                   sum(seconds), max(finished)
            FROM runs
            WHERE substr(identity, 1, ?) = ? AND instr(function, ?) > 0
            GROUP BY identity
            HAVING max(finished) >= ?
            ORDER BY max(finished) DESC, max(rowid) DESC
        """
        values = [len(identity), identity, function, earliest]
        return [StoredRun(*row) for row in self._rows(query, values)]

    def prune(self, identities: Iterable[str]) -> int:
        """Delete all batches of cells, give their space back, and return how many batches."""
        deleted = 0
        with self._writing() as connection:
            for identity in identities:
                query = "DELETE FROM runs WHERE identity = ?"
                deleted += connection.execute(query, [identity]).rowcount
        if deleted:
            # Needs room for a second copy, and nobody else in the file: if not now, then later.
            with suppress(sqlite3.OperationalError):
                self._connection.execute("VACUUM")
        return deleted

    def _rows(self, query: str, values: Iterable[Any]) -> list[Any]:
        with _told(self.path):
            return self._connection.execute(query, tuple(values)).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with _told(self.path), _transaction(self._connection):
            yield self._connection


def _check_path(path: Path, readonly: bool) -> None:
    """Raise a StoreError unless there can be a store."""
    if path.exists() and not path.is_file():
        raise StoreError(f"run store {str(path)!r} must be a file")
    if path.exists() and 0 < path.stat().st_size < _HEADER:
        # SQLite would take it for an empty file.
        raise StoreError(f"run store {str(path)!r} {_CAUSES[sqlite3.SQLITE_NOTADB]}")
    if readonly and not path.exists():
        raise StoreError(f"run store {str(path)!r} does not exist")
    if not path.parent.is_dir():
        raise StoreError(f"run store {str(path)!r} must be in an existing folder")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{mode}"
    return sqlite3.connect(uri, uri=True, timeout=TIMEOUT, isolation_level=None)


def _read_only(path: Path) -> sqlite3.Connection:
    # A connection that could write, if it is allowed to, leaves no files behind.
    connection = _connect(path, "mode=rw")
    try:
        connection.execute("PRAGMA query_only = TRUE")
        _check_store(connection, path)
    except sqlite3.OperationalError as error:
        connection.close()
        # In a folder that cannot be written, a file that nobody has open can be read as it is.
        log = path.with_name(f"{path.name}-wal")
        if error.sqlite_errorcode & 0xFF not in _UNWRITABLE or (
            log.exists() and log.stat().st_size
        ):
            raise
        connection = _connect(path, "mode=ro&immutable=1")
        _check_store(connection, path)
    return connection


def _writable(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "mode=rwc")
    try:
        if not _check_format(connection, path):
            with _transaction(connection):
                # Another process may have been faster.
                if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    connection.execute(_SCHEMA)
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {FORMAT}")
        _use_log(connection)
        connection.execute("PRAGMA synchronous = FULL")
        # Told now rather than after the first computation; BEGIN alone says nothing.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_log(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging; SQLite does not wait for others here by itself."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _check_store(connection: sqlite3.Connection, path: Path) -> None:
    if not _check_format(connection, path):
        raise StoreError(f"run store {str(path)!r} is an empty file")


def _check_format(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a store; False if it is empty, a StoreError if it is something else."""
    with _transaction(connection, "DEFERRED"):  # another process may be making the file
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application == 0 and version == 0 and tables == 0:
        return False
    if application != APPLICATION:
        raise StoreError(f"{str(path)!r} is a database of another program; name another file")
    if version > FORMAT:
        raise StoreError(
            f"run store {str(path)!r} was written by a newer iclimit (format {version}, this one "
            f"reads {FORMAT}); update iclimit or name another file"
        )
    return True


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    try:
        connection.execute(f"BEGIN {kind}")
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk or an I/O error has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)

_CAUSES = {
    sqlite3.SQLITE_NOTADB: "is no SQLite file; name another file",
    sqlite3.SQLITE_CORRUPT: (
        "is damaged; move it away (the sqlite3 program's .recover may save what is in it)"
    ),
    sqlite3.SQLITE_FULL: "cannot grow, the disk is full; free some space",
    sqlite3.SQLITE_BUSY: (
        f"has been locked by another process for {TIMEOUT:.0f} s; wait for it or stop it"
    ),
    sqlite3.SQLITE_READONLY: "cannot be written; file and folder need write permission",
    sqlite3.SQLITE_PERM: "cannot be written; file and folder need write permission",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; file and folder need read and write permission",
    sqlite3.SQLITE_TOOBIG: "cannot take a result of a gigabyte or more",
}


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Errors of SQLite as StoreErrors that name the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # misuse, no trouble with the file
            raise
        cause = _CAUSES.get(code & 0xFF, f"cannot be read or written: {error}")
        raise StoreError(f"run store {str(path)!r} {cause}") from error
