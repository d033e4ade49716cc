"""Where results go: rows as text, CSV or JSON, pictures, NetCDF."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit import tables
from iclimit.tables import (
    FORMATS,
    PICTURES,
    TABLES,
    Rows,
    aligned,
    json_text,
    rows_text,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        tables.write_rows(path, rows())


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


def write_rows(rows: Rows, kind: str) -> None:
    """Print rows as CSV, JSON or text in columns; infinite values are the string inf."""
    print(rows_text(rows, kind), end="")


def write_columns(columns: Mapping[str, Iterable[Any]], kind: str) -> None:
    """Print columns of equal length in the same formats."""
    rows = zip(*columns.values(), strict=True)
    write_rows([dict(zip(columns, row, strict=True)) for row in rows], kind)


def print_json(value: Any) -> None:
    """Print strict JSON, which has no infinite numbers: they become strings."""
    print(json_text(value), end="")


def print_columns(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, cut: bool = False
) -> None:
    """Print right-aligned columns.

    With ``cut`` the last column is left-aligned, and cut to the width of a terminal.
    """
    width = (shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6) if cut else None
    print("\n".join(aligned([header, *rows], width=width)))


def cut_to_terminal(text: str, used: int) -> str:
    """Text that fits into the rest of a line of the terminal, of which some is used."""
    if not sys.stdout.isatty():
        return text
    return shortened(text, max(shutil.get_terminal_size().columns - used, 20))
