"""Run stores whose index has been damaged: what it hides, and how the table gets a new one.

The file is read by way of its index, in which a row is found by the identity of its cell.  Where a
bit of the index has changed, a row is not found: its cell is computed again, and stands there
twice.  Every function here looks at the table itself.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

# Rows that the index does not lead to.
_NOT_FOUND = """
    SELECT 1 FROM runs AS row NOT INDEXED WHERE NOT EXISTS (
        SELECT 1 FROM runs AS entry INDEXED BY sqlite_autoindex_runs_1
        WHERE entry.identity = row.identity AND entry.first = row.first AND entry.rowid = row.rowid
    )
"""

_ENTRIES = """
    SELECT (SELECT count(*) FROM runs INDEXED BY sqlite_autoindex_runs_1),
        (SELECT count(*) FROM runs NOT INDEXED)
"""

# Rows, but for some, with repeats that an earlier one has.
_SECOND_COPIES = """
    SELECT place, identity FROM (
        SELECT rowid AS place, identity, first, max(first + count) OVER (
            PARTITION BY identity ORDER BY first, rowid
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered
        FROM runs NOT INDEXED WHERE rowid NOT IN (SELECT value FROM json_each(?))
    ) WHERE first < covered
"""


def is_sound(connection: sqlite3.Connection) -> bool:
    """Whether the index leads to each row, and no repeat of a cell is there twice."""
    try:
        if connection.execute(f"SELECT EXISTS ({_NOT_FOUND})").fetchone() != (0,):
            return False
        entries, rows = connection.execute(_ENTRIES).fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
            raise
        return False
    copies = connection.execute(f"SELECT EXISTS ({_SECOND_COPIES})", ["[]"]).fetchone()
    return bool(entries == rows and copies == (0,))


def bad_rows(
    connection: sqlite3.Connection, columns: str, is_intact: Callable[[Sequence[Any]], bool]
) -> dict[int, str]:
    """What is wrong with rows, in words, by their place.

    Parameters
    ----------
    connection : sqlite3.Connection
    columns : str
        Names of the columns that decide, from ``identity`` on.
    is_intact : callable
        Whether what stands in these is a record.
    """
    rows = connection.execute(f"SELECT rowid, {columns} FROM runs NOT INDEXED")
    bad = {
        place: f"a damaged result of run {row[0]}" for place, *row in rows if not is_intact(row)
    }
    copies = connection.execute(_SECOND_COPIES, [json.dumps(list(bad))])
    return bad | {place: f"a second result of run {identity}" for place, identity in copies}


def rebuild(
    connection: sqlite3.Connection, schema: str, columns: str, left_out: Sequence[int]
) -> None:
    """Write the table and its index anew, and move some rows to a table of their own."""
    execute = connection.execute
    places = [json.dumps(left_out)]
    chosen = "rowid IN (SELECT value FROM json_each(?))"
    execute(f"CREATE TABLE IF NOT EXISTS damaged AS SELECT {columns} FROM runs WHERE FALSE")
    execute(f"INSERT INTO damaged SELECT {columns} FROM runs NOT INDEXED WHERE {chosen}", places)
    execute("ALTER TABLE runs RENAME TO before")
    execute(schema)
    execute(
        f"INSERT INTO runs (rowid, {columns}) "
        f"SELECT rowid, {columns} FROM before NOT INDEXED WHERE NOT {chosen}",
        places,
    )
    # To drop the table would follow its index.  The pages of both are given back by VACUUM.
    execute("PRAGMA writable_schema = TRUE")
    execute("DELETE FROM sqlite_master WHERE tbl_name = 'before'")
    execute("PRAGMA writable_schema = RESET")
