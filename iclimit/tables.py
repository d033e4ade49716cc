"""Tables: the one place where rows become text, CSV, JSON or HTML, and files of these.

Numbers have ten digits in columns of text and are exact in CSV and JSON.  JSON is strict: numbers
that it has no words for are the strings ``inf``, ``-inf`` and ``nan``.
"""

import csv
import html
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

from iclimit.files import harmless, printable, replacing

# Rows of a table, each by column.
Rows = Sequence[Mapping[str, Any]]

# Formats of tables.
FORMATS = ("text", "csv", "json")

# Endings of tables.
TABLES = (".csv", ".json")

# Endings of pictures.
PICTURES = (".png", ".pdf", ".svg")


def entry(value: object, digits: int = 10) -> str:
    """Return an entry of a table as text; None is empty.

    Examples
    --------
    >>> from iclimit.tables import entry
    >>> entry(1 / 3), entry(None), entry(True)
    ('0.3333333333', '', 'True')
    """
    if isinstance(value, float) or str(getattr(value, "dtype", "")).startswith("float"):
        return f"{value:.{digits}g}"
    return "" if value is None else str(value)


def aligned(
    lines: Iterable[Iterable[str]], align: str = ">", *, width: int | None = None
) -> list[str]:
    """Lines of text in columns, two spaces apart.

    Parameters
    ----------
    lines : iterable of sequences of str
        Entries, line by line; short lines are filled up.
    align : str
        ">" or "<" for each column, the last one for all further columns.
    width : int, optional
        Width of the terminal: the last column is then left-aligned, and cut to fit into it.

    Examples
    --------
    >>> from iclimit.tables import aligned
    >>> aligned([["name", "loss"], ["ridge", "0.25"], ["zero", "1"]], "<>")
    ['name   loss', 'ridge  0.25', 'zero      1']
    """
    texts = [[*map(printable, line)] for line in lines]
    count = max(map(len, texts), default=0)
    filled = [[*line, *[""] * (count - len(line))] for line in texts]
    widths = [max(map(len, column)) for column in zip(*filled, strict=True)]
    sides = align[:count].ljust(count, align[-1])
    if width is not None:
        sides = f"{sides[: count - 1]}<"
        room = max(width - sum(widths[:-1]) - 2 * (count - 1), 20)
        for line in filled:
            line[-1] = shortened(line[-1], room)
        widths[-1] = 0
    return [
        "  ".join(
            f"{text:{side}{size}}" for text, side, size in zip(line, sides, widths, strict=True)
        ).rstrip()
        for line in filled
    ]


def shortened(text: str, length: int) -> str:
    """Text of at most this length, with dots where something is cut off."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def column_names(rows: Rows) -> list[str]:
    """All columns of rows, in the order in which they occur first."""
    return list(dict.fromkeys(name for row in rows for name in row))


def rows_text(rows: Rows, kind: str = "text", *, columns: Sequence[str] | None = None) -> str:
    """Rows as text in columns, CSV or JSON, with a line break at the end.

    Parameters
    ----------
    rows : sequence of mappings
        What a row lacks is empty.
    kind : {"text", "csv", "json"}
        In CSV, text that a spreadsheet would compute gets an apostrophe before it, and what could
        steer a terminal is escaped.
    columns : sequence of str, optional
        Columns and their order, except in JSON; by default all of them.

    Examples
    --------
    >>> from iclimit.tables import rows_text
    >>> print(rows_text([{"loss": 0.5, "z": float("inf")}], "csv"), end="")
    loss,z
    0.5,inf
    """
    if kind == "json":
        return json_text([dict(row) for row in rows])
    names = column_names(rows) if columns is None else list(columns)
    lines = [[row.get(name) for name in names] for row in rows]
    if kind == "text":
        return "\n".join([*aligned([names, *([*map(entry, line)] for line in lines)]), ""])
    file = io.StringIO()
    write_csv(file, map(harmless, names), (map(harmless, line) for line in lines))
    return file.getvalue()


def write_csv(file: IO[str], names: Iterable[str], lines: Iterable[Iterable[Any]]) -> None:
    """Write a heading and lines of a table, one by one, to a file opened with ``newline=""``."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(lines)


def plain(value: object) -> Any:
    """Value made of dicts, lists, numbers and text only.

    What has a ``to_dict`` becomes what that returns, as `Estimate` its mean and standard error;
    other data classes become dicts of their public fields unless they print as text; arrays become
    lists; anything else becomes text.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.tables import plain
    >>> plain({"rates": np.array([1.0, 0.5]), "size": (2, None)})
    {'rates': [1.0, 0.5], 'size': [2, None]}
    """
    if hasattr(value, "tolist"):  # of NumPy, which the command line does without
        return plain(value.tolist())
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        names = (field.name for field in fields(value) if not field.name.startswith("_"))
        return {name: plain(getattr(value, name)) for name in names}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def json_text(value: object) -> str:
    """Strict JSON of a value, as `plain` has it, with a line break at the end.

    Examples
    --------
    >>> from iclimit.tables import json_text
    >>> print(json_text({"z": float("inf")}), end="")
    {
     "z": "inf"
    }
    """
    return json.dumps(_strict(plain(value)), indent=1, allow_nan=False) + "\n"


def _strict(value: object) -> object:
    """Plain value with text in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {name: _strict(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_strict(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def html_row(*entries: object, tag: str = "td", style: str = "") -> str:
    """Row of a table in HTML; entries are HTML."""
    cells = "".join(f"<{tag}>{entry}</{tag}>" for entry in entries)
    return f"<tr class='{style}'>{cells}</tr>" if style else f"<tr>{cells}</tr>"


def html_table(rows: Iterable[str], style: str = "") -> str:
    """Table in HTML of rows such as `html_row` makes."""
    named = f" class='{style}'" if style else ""
    return f"<table{named}>{''.join(rows)}</table>"


def escaped_table(lines: Iterable[Sequence[str]], *, heading: bool = True) -> str:
    """Table in HTML of text, which is escaped; the first line is the heading."""
    return html_table(
        html_row(*map(html.escape, line), tag="th" if heading and not number else "td")
        for number, line in enumerate(lines)
    )


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write a file of text, whole or not at all."""
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        file.write(text)


def write_rows(
    path: str | os.PathLike, rows: Rows, *, columns: Sequence[str] | None = None
) -> None:
    """Write rows to a file that ends in .csv or .json, whole or not at all."""
    kind = Path(path).suffix[1:]
    if kind not in FORMATS[1:]:
        raise ValueError(f"path must end in .csv or .json, got {os.fspath(path)!r}")
    write_text(path, rows_text(rows, kind, columns=columns))


def write_netcdf(path: str | os.PathLike, dataset: Any) -> None:
    """Write an `xarray.Dataset` as NetCDF, whole or not at all."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    content = io.BytesIO()  # on a full disk HDF5 ends the process
    with h5netcdf.File(content, "w") as file:
        dataset.dump_to_store(H5NetCDFStore(file))
    with replacing(path) as partial:
        partial.write_bytes(content.getvalue())
