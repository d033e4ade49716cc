"""Where results go: to the file of -o, and as text, CSV or JSON to stdout."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.values import output_file
from iclimit.tables import FORMATS, PICTURES, TABLES, json_text, rows_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from iclimit.results import Result

# Options that do not change what a picture shows.
_NOT_STATED = (
    *("run", "verb", "command_line", "output", "out", "format", "list", "action", "parameters"),
    *("jobs", "scheduler", "store", "no_store", "time_limit"),
)

# Numbers that metadata have one by one; more of them come from a range, as it is written.
_LONG = 12

# Formats by the ending of a file.
_CONTENTS = {
    "a table (.csv, .json)": TABLES,
    "labelled data (.nc)": (".nc",),
    "a picture (.png, .pdf, .svg)": PICTURES,
}


def add_output(
    parser: argparse.ArgumentParser,
    endings: Sequence[str] = TABLES + PICTURES,
    text: str = "",
    *,
    formats: Sequence[str] = FORMATS,
    **more: Any,
) -> None:
    """Add -o for files with these endings, --style for pictures, --format for what is printed.

    The text says what files of other endings than those of `_CONTENTS` hold.
    """
    endings = tuple(endings)
    if not text:
        contents = (content for content, known in _CONTENTS.items() if known[0] in endings)
        text = f"write {' or '.join(contents)}"
    parser.add_argument(
        "-o", "--output", type=output_file(endings), metavar="FILE", help=text, **more
    )
    if ".png" in endings:
        add_style(parser)
    if formats:
        add_format(parser, formats)


def add_format(parser: argparse.ArgumentParser, formats: Sequence[str] = FORMATS) -> None:
    """Add --format, of which the first one is the default."""
    text = f"format of what is printed (default {formats[0]})"
    parser.add_argument("--format", choices=formats, default=formats[0], help=text)


def add_style(parser: argparse.ArgumentParser) -> None:
    """Add --style."""
    from iclimit.drawing import STYLES

    text = (
        "size of a picture: screen; paper or paper-wide, with the width of one or two columns of "
        "text and 8 pt; talk (default screen)"
    )
    parser.add_argument("--style", choices=STYLES, default="screen", help=text)


def output(
    options: argparse.Namespace,
    result: Result,
    draw: Callable[[Figure], Any] | None = None,
    *,
    answer: bool = True,
    **line: Any,
) -> None:
    """Print a result as --format says, and write it to the file of -o.

    ``draw`` draws another figure than that of the result; other keywords are those of its own.
    Where it is no answer but a long table, as of a curve, a file is written instead.
    """
    if options.output is None or answer:
        print_result(result, options.format)
    if options.output is None:
        return
    if draw is not None and options.output.suffix in PICTURES:
        from iclimit.drawing import saved_figure

        with saved_figure(options.output, options.style, stated(options)) as figure:
            draw(figure)
    else:
        given = {"style": options.style} if "style" in options else {}
        result.write(options.output, **given, parameters=stated(options), **line)


def print_result(result: Result, kind: str) -> None:
    """Print a result as text, its rows as CSV, or all of it as JSON."""
    if kind == "json":
        text = json_text(result.to_dict())
    elif kind == "text" and type(result).__str__ is not object.__str__:
        text = f"{result}\n"
    else:
        text = rows_text(result.rows(), kind)
    sys.stdout.write(text)


# Options that are files which are written.
_WRITTEN = ("output", "runs", "checkpoint", "store")


def check_files(options: argparse.Namespace) -> None:
    """Raise a ValueError where a file would be written twice, or over one that is read."""
    given = vars(options)
    written: dict[Path, str] = {}
    for name in _WRITTEN:
        if not isinstance(given.get(name), Path):
            continue
        path = given[name].resolve()
        if path in written:
            raise ValueError(f"{written[path]} and --{name} must be two files, got {path}")
        written[path] = f"--{name}"
    for name, value in given.items():
        for entry in value if isinstance(value, list) else [value]:
            if name not in _WRITTEN and isinstance(entry, (str, Path)) and os.path.isfile(entry):
                path = Path(entry).resolve()
                if path in written:
                    raise ValueError(f"{written[path]} must be no file that is read, got {path}")
    if isinstance(given.get("checkpoint"), Path):
        _check_checkpoints(given["checkpoint"].resolve(), given.get("repeats") or 1, written)


def _check_checkpoints(first: Path, repeats: int, written: Mapping[Path, str]) -> None:
    """Raise a ValueError where the checkpoint of a repeat, as `train_repeats` calls it, is."""
    for path, flag in written.items():
        number = path.stem.removeprefix(f"{first.stem}-")
        if path.with_stem(first.stem) != first or not re.fullmatch("[1-9][0-9]*", number):
            continue
        if int(number) < repeats:
            raise ValueError(f"{flag} must be no checkpoint of a repeat, got {path}")


def stated(options: argparse.Namespace) -> dict[str, Any]:
    """Command and options that are given, as plain values."""
    given = {n: v for n, v in vars(options).items() if n not in _NOT_STATED and v is not None}
    given |= {"seed": given.pop("rng")} if "rng" in given else {}
    return {"command": options.command_line, **{n: _plain(v) for n, v in given.items()}}


def _plain(value: Any) -> Any:
    """Value for JSON: a single number as itself, arrays as lists, long ones as ranges."""
    if hasattr(value, "tolist"):
        numbers = value.tolist()
        if len(numbers) <= _LONG:
            return numbers[0] if len(numbers) == 1 else numbers
        from iclimit.axes import is_even, is_geometric

        text = f"{numbers[0]!r}:{numbers[-1]!r}:{len(numbers)}"
        return f"{text}:log" if is_geometric(value) else text if is_even(value) else numbers
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, (int, float, dict)) else str(value)
