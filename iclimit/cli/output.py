"""Where results go: rows as text, CSV or JSON, pictures, NetCDF."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from iclimit.files import no_formula, printable, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]

TABLES = (".csv", ".json")
PICTURES = (".png", ".pdf", ".svg")
FORMATS = ("text", "csv", "json")
_NOT_STATED = (
    *("run", "verb", "command_line", "output", "out", "plot", "format", "list"),
    *("jobs", "scheduler", "store", "no_store", "time"),
)
"""Options that do not change what a picture shows."""

_LONG = 12
"""Numbers that metadata have one by one; more of them come from a range, as it is written."""


def add_output(
    parser: argparse.ArgumentParser,
    endings: Iterable[str] = TABLES + PICTURES,
    *,
    formats: Sequence[str] = (),
    text: str = "write a table (.csv, .json) or a picture (.png, .pdf, .svg)",
    **more: Any,
) -> None:
    """Add -o for files with these endings, --style for pictures, --format for what is printed."""
    endings = tuple(endings)
    parser.add_argument(
        "-o", "--output", type=output_file(endings), metavar="FILE", help=text, **more
    )
    if ".png" in endings:
        add_style(parser)
    if formats:
        add_format(parser, formats)


def add_style(parser: argparse.ArgumentParser) -> None:
    """Add --style."""
    text = (
        "style of a picture: screen (default); paper or paper-wide, as wide as one or two columns "
        "of text, 8 pt; talk"
    )
    parser.add_argument(
        "--style", choices=("screen", "paper", "paper-wide", "talk"), default="screen", help=text
    )


def add_format(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """Add --format, of which the first one is the default."""
    text = f"format on stdout (default {formats[0]})"
    parser.add_argument("--format", choices=formats, default=formats[0], help=text)


def output_file(endings: Iterable[str]) -> Callable[[str], Path]:
    """Return a parser of names of files that can be written and have one of these endings."""

    def parse(text: str) -> Path:
        path = Path(text)
        if path.suffix not in endings:
            raise argparse.ArgumentTypeError(f"must end in {', '.join(endings)}, got {text!r}")
        if not path.parent.is_dir() or path.is_dir():
            raise argparse.ArgumentTypeError(f"must be a file in an existing folder, got {text!r}")
        file = path.resolve()
        if not all(os.access(each, os.W_OK) for each in (file, file.parent) if each.exists()):
            raise argparse.ArgumentTypeError(f"must be a file that can be written, got {text!r}")
        return path

    return parse


def write_output(
    options: argparse.Namespace, rows: Callable[[], Rows], draw: Callable[[Figure], object]
) -> None:
    """Write a picture or a table to the file of -o, or print the table."""
    if options.output is None:
        write_rows(rows(), options.format)
    else:
        write_file(options, options.output, rows, draw)


def write_file(
    options: argparse.Namespace,
    path: Path,
    rows: Callable[[], Rows],
    draw: Callable[[Figure], object],
) -> None:
    """Write a picture or a table, as the ending of the file says."""
    if path.suffix in PICTURES:
        with picture(options, path) as figure:
            draw(figure)
    else:
        with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
            write_rows(rows(), path.suffix[1:], file)


@contextmanager
def picture(options: argparse.Namespace, path: Path) -> Iterator[Figure]:
    """Figure in the style of the options, which is saved with them at the end."""
    from iclimit.drawing import house_style, new_figure, save_picture

    with house_style(options.style):
        figure = new_figure()
        yield figure
        save_picture(figure, path, stated(options))


def stated(options: argparse.Namespace) -> dict[str, Any]:
    """Command and options that are given, as plain values."""
    given = {n: v for n, v in vars(options).items() if n not in _NOT_STATED and v is not None}
    given |= dict(given.pop("set", ()))
    return {"command": options.command_line, **{n: _plain(v) for n, v in given.items()}}


def _plain(value: Any) -> Any:
    """Value for JSON: a single number as itself, arrays as lists, long ones as ranges."""
    if hasattr(value, "tolist"):
        numbers = value.tolist()
        if len(numbers) <= _LONG:
            return numbers[0] if len(numbers) == 1 else numbers
        from iclimit.diagrams.axes import is_even, is_geometric

        text = f"{numbers[0]!r}:{numbers[-1]!r}:{len(numbers)}"
        return f"{text}:log" if is_geometric(value) else text if is_even(value) else numbers
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (int, float, dict)) else str(value)


def write_rows(rows: Rows, kind: str, file: IO[str] | None = None) -> None:
    """Write rows as CSV, JSON or text in columns; infinite values are the string inf."""
    file = file or sys.stdout
    if kind == "text":
        cells = [[_short(value) for value in row.values()] for row in rows]
        print_columns(list(rows[0]), cells, file)
    elif kind == "csv":
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: no_formula(value) for name, value in row.items()} for row in rows)
    else:
        print_json([dict(row) for row in rows], file)


def write_columns(columns: Mapping[str, Iterable[Any]], kind: str) -> None:
    """Write columns of equal length in the same formats."""
    rows = zip(*columns.values(), strict=True)
    write_rows([dict(zip(columns, row, strict=True)) for row in rows], kind)


def print_json(value: Any, file: IO[str] | None = None) -> None:
    """Write strict JSON, which has no infinite numbers: they become strings."""
    print(json.dumps(_strict(value), indent=1), file=file)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_strict(each) for each in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def print_columns(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    file: IO[str] | None = None,
    *,
    cut: bool = False,
) -> None:
    """Print right-aligned columns.

    With ``cut`` the last column is left-aligned, and cut to the width of a terminal.
    """
    lines = [[*map(printable, line)] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if cut:
        widths[-1] = 0
    for line in lines:
        shown = [f"{text:>{width}}" for text, width in zip(line, widths, strict=True)]
        if cut:
            shown[-1] = cut_to_terminal(shown[-1], sum(widths) + 2 * (len(widths) - 1))
        print("  ".join(shown), file=file)


def cut_to_terminal(text: str, used: int) -> str:
    """Text that fits into the rest of a line of the terminal, of which some is used."""
    if not sys.stdout.isatty():
        return text
    room = max(shutil.get_terminal_size().columns - used, 20)
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _short(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else "" if value is None else str(value)
