"""The run store: results of cells on record, in one SQLite file.

A row is a finished batch: a cell's result, or that of some repeats of an extendable cell.  It is
written by one statement and flushed to the disk before `RunStore.add` returns, so that a process
or machine may stop at any moment: a row is there as a whole or not at all.  Several processes can
write to one file.  A digest over all columns is checked whenever a row is read, so that what has
changed on the disk is never given out.
"""

from __future__ import annotations

import hashlib
import json
import math
import pkgutil
import platform
import sqlite3
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, reduce
from pathlib import Path
from typing import Any

from iclimit.runs.cell import Cell
from iclimit.runs.code_version import code_version
from iclimit.runs.encoding import decode, encode
from iclimit.runs.mending import bad_rows, is_sound, rebuild
from iclimit.runs.records import TIME_FORMAT, check_record
from iclimit.runs.summary_numbers import summary_numbers
from iclimit.statement import disagreement
from iclimit.versions import versions

# Version of the file format.
FORMAT = 3

# Marks SQLite files as run stores ("icLm").
APPLICATION = 0x69634C6D

# Seconds to wait for another process that writes.
TIMEOUT = 60.0

PACKAGE = __name__.partition(".")[0]

# Bytes of the smallest SQLite file.
_HEADER = 512

# Advice for a store of another format.  Runs of an earlier one have other names and seeds.
_NEWER = "use that version or name another file"
_OLDER = (
    "its runs cannot be used here: name another file with --store, or move this one away and "
    "they are computed again (iclimit 1.0 reads format 2)"
)

_SCHEMA = """
CREATE TABLE runs (
    identity TEXT NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL,
    function TEXT NOT NULL, parameters TEXT NOT NULL, seed TEXT NOT NULL, backend TEXT NOT NULL,
    code TEXT NOT NULL, seconds REAL NOT NULL, residual REAL, numbers TEXT NOT NULL,
    host TEXT NOT NULL, finished TEXT NOT NULL, versions TEXT NOT NULL, result TEXT NOT NULL,
    derived TEXT NOT NULL, note TEXT NOT NULL,
    digest TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (identity, first)
)
"""


class StoreError(OSError):
    """A run store cannot be opened, read or written; the message names the file and the remedy."""


def on_full_disk(error: StoreError) -> bool:
    """Whether a store could not be written because the disk is full."""
    return getattr(error.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL


@dataclass(frozen=True)
class StoredBatch:
    """A finished batch, as it is on record, or all batches of a cell together.

    Attributes
    ----------
    identity : str
        Of the cell, see `Cell.identity`.
    first, count : int
        The repeats first, ..., first + count - 1; 0 and 1 for a cell without repeats.
    function, parameters, seed, backend, code : str
        Module and name, canonical JSON, root seed, backend and code version.
    seconds : float
        Time of the computation.
    residual : float or None
        Worst residual of a linear solve, if the result has one.
    numbers : str
        JSON of the named numbers with their standard errors.
    host, finished, versions : str
        Where, when (UTC, ISO 8601) and with which libraries (JSON).
    result : str
        The encoded result.
    derived : str
        The encoded derived values, by the place where they stand among the arguments.
    note : str
        Why it was computed again, if it was: another derived value was on record.
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
    derived: str = field(repr=False)
    note: str

    @classmethod
    def of(
        cls,
        cell: Cell,
        result: object,
        *,
        rng: int,
        backend: str,
        seconds: float,
        first: int = 0,
        count: int = 1,
    ) -> StoredBatch:
        """Record of a result that has just been computed, on this machine.

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
            seconds=float(seconds),
            residual=None if residual is None or math.isnan(residual) else float(residual),
            numbers=json.dumps(summary_numbers(result)),
            host=platform.node(),
            finished=datetime.now(UTC).strftime(TIME_FORMAT),
            versions=json.dumps(versions()),
            result=encode(result),
            derived=encode(cell.derived),
            note="",
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """What was stated, as a dict."""
        arguments: dict[str, Any] = json.loads(self.parameters)
        return arguments

    @property
    def derived_values(self) -> dict[str, Any]:
        """Derived values by the place where they stand."""
        values: dict[str, Any] = decode(self.derived)
        return values

    def deviation(self, cell: Cell) -> str:
        """Where the derived values of a cell differ from those on record, in words, or nothing."""
        return disagreement(self.derived_values, cell.derived, where=("on record", "now"))

    @property
    def value(self) -> Any:
        """The result itself; a ValueError if this version of iclimit cannot read it."""
        return decode(self.result)


_COLUMNS = ", ".join(column.name for column in fields(StoredBatch))
_ALL_COLUMNS = f"{_COLUMNS}, digest"


def _digest(row: Sequence[Any]) -> str:
    """Digest of a row; empty if it is none that `StoredBatch.of` makes."""
    try:
        check_record(vars(StoredBatch(*row)))
    except ValueError:
        return ""
    return hashlib.sha256(json.dumps(row).encode()).hexdigest()


def _is_intact(row: Sequence[Any]) -> bool:
    """Whether a row, with its digest at the end, is as it was written."""
    *values, digest = row
    return bool(digest) and _digest(values) == digest


def concatenated_numbers(batches: Iterable[StoredBatch]) -> dict[str, tuple[float, float | None]]:
    """Named numbers of all batches of one cell together, with standard errors.

    Raises
    ------
    ValueError
        If there are several batches and this version of iclimit cannot read their results.
    """
    first, *others = batches
    if others:
        values = (batch.value for batch in (first, *others))
        return summary_numbers(reduce(lambda first, more: first.concatenate(more), values))
    return {
        name: (float(number), None if error is None else float(error))
        for name, (number, error) in json.loads(first.numbers).items()
    }


def obsolete(runs: Iterable[StoredBatch]) -> list[StoredBatch]:
    """Runs that will never be used again, because the code that computed them has changed.

    Functions outside iclimit are not looked at (their modules would have to be imported): runs of
    these are not obsolete.  A run that needed the results of others is obsolete with any of them
    that is among ``runs``.
    """
    ours = [run for run in runs if run.function.partition(".")[0] == PACKAGE]
    outdated = {
        run.code
        for run in ours
        if "-" not in run.code and run.code != _current_version(run.function)
    }
    return [
        run
        for run in ours
        if _current_version(run.function) not in run.code.split("-")
        or not outdated.isdisjoint(run.code.split("-"))
    ]


@cache
def _current_version(function: str) -> str:
    """Code version of a function of iclimit by its full name; empty if there is none now."""
    try:
        return code_version(pkgutil.resolve_name(function))
    except (ImportError, AttributeError, ValueError):
        return ""


class RunStore:
    """Results on record in one SQLite file, which is made if it does not exist.

    Parameters
    ----------
    path : str or Path
        The file; its folder must exist.
    readonly : bool
        Open an existing file for reading; works where nothing can be written.
    journal_in_memory : bool
        Keep what undoes a change in memory, so as to delete runs on a full disk. A process that is
        killed within a change then leaves a damaged file.

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
    ...         [each.value == batch.value for each in store.find(batch.identity)]
    (True, False)
    [True]
    """

    def __init__(
        self, path: str | Path, *, readonly: bool = False, journal_in_memory: bool = False
    ) -> None:
        self.path = Path(path)
        self._readonly = readonly
        # The rows, and the places of those of them that are not read.
        self._source = "runs"
        self._left_out: dict[int, str] = {}
        _check_path(self.path, readonly)
        # SQLite needs leave to write even to read, so as to undo what a killed process has begun.
        uri = f"{self.path.absolute().as_uri()}?mode={'rw' if readonly else 'rwc'}"
        with _explained(self.path):
            self._connection = sqlite3.connect(
                uri, uri=True, timeout=TIMEOUT, isolation_level=None
            )
            # What is no text makes a damaged row, and not an error of SQLite.
            self._connection.text_factory = lambda data: data.decode(errors="replace")
            try:
                if journal_in_memory:
                    self._connection.execute("PRAGMA journal_mode = MEMORY")
                self._prepare(readonly)
                self._report(self._look_for_damage())
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def find(self, identity: str) -> list[StoredBatch]:
        """Batches of a cell, in the order of their repeats."""
        return list(self._batches("WHERE identity = ? ORDER BY first", [identity]))

    def add(self, batch: StoredBatch, *, replacing: Sequence[StoredBatch] = ()) -> bool:
        """Put a batch on record, in place of others of its cell.

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
        row = astuple(batch)
        query = f"""
            INSERT INTO runs ({_ALL_COLUMNS}) SELECT {", ".join("?" * (len(row) + 1))}
            WHERE NOT EXISTS
                (SELECT 1 FROM runs WHERE identity = ? AND first < ? AND first + count > ?)
        """
        overlap = (batch.identity, batch.first + batch.count, batch.first)
        with _explained(self.path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for old in replacing:
                self._connection.execute(
                    "DELETE FROM runs WHERE identity = ? AND first = ? AND finished = ?",
                    (old.identity, old.first, old.finished),
                )
            added = self._connection.execute(query, (*row, _digest(row), *overlap))
        return added.rowcount == 1

    def runs(
        self, *, identity: str = "", function: str = "", since: datetime | None = None
    ) -> list[StoredBatch]:
        """What is on record, newest first: the batches of a cell as one, without the result.

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
        list of StoredBatch
            The newest batch of each cell, with the ``count`` and the ``seconds`` of all.
        """
        earliest = "" if since is None else since.astimezone(UTC).strftime(TIME_FORMAT)
        # What is no text here has been damaged, and is reported.
        condition = """
            WHERE typeof(identity) <> 'text' OR typeof(function) <> 'text'
                OR substr(identity, 1, ?) = ? AND instr(function, ?) > 0
            ORDER BY finished DESC, rowid DESC
        """
        newest: dict[str, StoredBatch] = {}
        for batch in self._batches(condition, [len(identity), identity, function]):
            run = newest.get(batch.identity, replace(batch, count=0, seconds=0.0, result=""))
            count = run.count + batch.count
            seconds = run.seconds + batch.seconds
            newest[batch.identity] = replace(run, count=count, seconds=seconds)
        return [run for run in newest.values() if run.finished >= earliest]

    def prune(self, identities: Iterable[str]) -> int:
        """Delete all batches of cells, give their space back, and return how many batches.

        On a full disk, what undoes the change is kept in memory.
        """
        query = "DELETE FROM runs WHERE identity IN (SELECT value FROM json_each(?))"
        chosen = [json.dumps(list(identities))]
        try:
            deleted = self._execute(query, chosen).rowcount
        except StoreError as error:
            if not on_full_disk(error):
                raise
            self._execute("PRAGMA journal_mode = MEMORY")
            deleted = self._execute(query, chosen).rowcount
        if deleted:
            self._give_back_space()
        return deleted

    def _give_back_space(self) -> None:
        # Needs room for a second copy, and nobody else in the file: if not now, then later.
        with suppress(sqlite3.DatabaseError):
            self._connection.execute("VACUUM")

    def _batches(self, condition: str, values: Sequence[Any]) -> Iterator[StoredBatch]:
        """Rows as they were written; what has changed since is reported and set aside."""
        query = f"SELECT rowid, {_ALL_COLUMNS} FROM {self._source} {condition}"
        damaged = {}
        with _explained(self.path):
            for place, *row in self._connection.execute(query, values):
                if place in self._left_out:
                    continue
                if _is_intact(row):
                    yield StoredBatch(*row[:-1])
                else:
                    damaged[place] = f"a damaged result of run {row[0]}"
            if damaged and not self._readonly:
                damaged = self._mend()
        self._report(damaged)

    def _mend(self) -> dict[int, str]:
        """Set all rows aside that are not as they were written; what is wrong with them."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            bad = bad_rows(self._connection, _ALL_COLUMNS, _is_intact)
            rebuild(self._connection, _SCHEMA, _ALL_COLUMNS, list(bad))
        self._give_back_space()
        return bad

    def _report(self, bad: Mapping[int, str]) -> None:
        """Warn of rows that are bad."""
        done = "left out" if self._readonly else "moved to the table 'damaged'"
        for problem in bad.values():
            warnings.warn(
                f"run store {str(self.path)!r} has {problem}, {done}", RuntimeWarning, stacklevel=5
            )

    def _execute(self, query: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        with _explained(self.path):
            return self._connection.execute(query, tuple(values))

    def _prepare(self, readonly: bool) -> None:
        """Make an empty file a run store; refuse a file that is none of this format."""
        execute = self._connection.execute
        if readonly:
            execute("PRAGMA query_only = TRUE")
        else:
            execute("PRAGMA synchronous = EXTRA")
        execute("BEGIN DEFERRED" if readonly else "BEGIN IMMEDIATE")
        (tables,) = execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = execute("PRAGMA application_id").fetchone()
        (version,) = execute("PRAGMA user_version").fetchone()
        if tables == application == version == 0:
            if readonly:
                raise StoreError(f"run store {str(self.path)!r} is an empty file")
            execute(_SCHEMA)
        elif application != APPLICATION:
            raise StoreError(
                f"{str(self.path)!r} is a database of another program; name another file"
            )
        elif version != FORMAT:
            age = "a newer" if version > FORMAT else "an older"
            remedy = _NEWER if version > FORMAT else _OLDER
            raise StoreError(
                f"run store {str(self.path)!r} was written by {age} iclimit (format {version}, "
                f"this one reads {FORMAT}); {remedy}"
            )
        self._check_columns()
        if not readonly:
            # Fails now where nothing can be written, and not after the first computation.
            execute(f"PRAGMA application_id = {APPLICATION}")
            execute(f"PRAGMA user_version = {FORMAT}")
        execute("COMMIT")

    def _check_columns(self) -> None:
        """Raise a StoreError for other columns, and for what would compute when it is read."""
        execute = self._connection.execute
        (others,) = execute(
            "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"
        ).fetchone()
        definition = execute("SELECT sql FROM sqlite_master WHERE name = 'runs'").fetchone()
        aside = [column for _, column, *_ in execute("PRAGMA table_xinfo(damaged)")]
        ours = definition is not None and str(definition[0]).split() == _SCHEMA.split()
        if others or not ours or aside not in ([], _ALL_COLUMNS.split(", ")):
            raise StoreError(
                f"run store {str(self.path)!r} is none that iclimit has written; name another file"
            )

    def _look_for_damage(self) -> dict[int, str]:
        """Mend an index that does not lead to all rows, or do without it; what is wrong with rows.

        Otherwise what it hides would be computed again, and counted twice.
        """
        if is_sound(self._connection):
            return {}
        if self._readonly:
            self._source = "runs NOT INDEXED"
            self._left_out = bad_rows(self._connection, _ALL_COLUMNS, _is_intact)
            return self._left_out
        return self._mend()


def _check_path(path: Path, readonly: bool) -> None:
    """Raise a StoreError unless there can be a store."""
    problem = ""
    if not path.parent.is_dir() or (path.exists() and not path.is_file()):
        problem = "must be a file in an existing folder"
    elif readonly and not path.exists():
        problem = "does not exist"
    elif path.exists() and 0 < path.stat().st_size < _HEADER:
        problem = _CAUSES[sqlite3.SQLITE_NOTADB]  # SQLite would take it for an empty file
    if problem:
        raise StoreError(f"run store {str(path)!r} {problem}")


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
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; file and folder need read and write permission",
}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors of SQLite as StoreErrors that name the file and what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # SQLite quotes a damaged schema, which may be no text.
        unreadable = sqlite3.SQLITE_CORRUPT if isinstance(error, UnicodeDecodeError) else None
        code = getattr(error, "sqlite_errorcode", unreadable)
        if code is None:  # misuse, no trouble with the file
            raise
        cause = _CAUSES.get(code & 0xFF, f"cannot be read or written: {error}")
        raise StoreError(f"run store {str(path)!r} {cause}") from error
