"""Text of the command line, parsed: numbers, ranges, times, files and lists of names."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iclimit.extras import import_xarray
from iclimit.files import printable
from iclimit.notation import PARAMETERS

if TYPE_CHECKING:
    import numpy as np

Parsed = TypeVar("Parsed")

# Eigenvalues and initial weights whose powers are numbers.
POWERS = 1e-50, 1e50

# Points of a range; each takes some microseconds to be rounded correctly.
MOST_POINTS = 1_000_000

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def expects(form: str) -> Callable[[Callable[[str], Parsed]], Callable[[str], Parsed]]:
    """Decorate a parser of text, which then says ``must {form}`` of what it cannot parse."""

    def decorate(parse: Callable[[str], Parsed]) -> Callable[[str], Parsed]:
        @wraps(parse)
        def parse_or_explain(text: str) -> Parsed:
            try:
                return parse(text)
            except (ValueError, OverflowError):
                raise argparse.ArgumentTypeError(f"must {form}, got {text!r}") from None

        return parse_or_explain

    return decorate


@expects("be a number, a list a,b,c or a range start:stop:points[:log]")
def parse_values(text: str) -> np.ndarray:
    """Parse a number, a list a,b,c or a range start:stop:points[:log]."""
    import numpy as np

    from iclimit.grids import geometric_grid, linear_grid

    if text.count(":") == 1:
        raise argparse.ArgumentTypeError(
            f"must be a number, a list a,b,c or a range start:stop:points[:log], got {text!r}; "
            f"did you mean {text}:100?"
        )
    if ":" not in text:
        values = np.array([float(part) for part in text.split(",")])
        if np.any(np.isnan(values)):
            raise argparse.ArgumentTypeError(f"must not be NaN, got {text!r}")
        return values
    first, last, number, *log = text.split(":")
    if log not in ([], ["log"]):
        raise ValueError
    start = float(first)
    stop = float(last)
    points = int(number)
    if not -math.inf < start < stop < math.inf:
        raise argparse.ArgumentTypeError(f"must have start < stop, got {text!r}")
    if not 2 <= points <= MOST_POINTS:
        raise argparse.ArgumentTypeError(f"must have 2 to {MOST_POINTS} points, got {text!r}")
    if log and start <= 0:
        raise argparse.ArgumentTypeError(f"must have start > 0 for log, got {text!r}")
    return geometric_grid(start, stop, points) if log else linear_grid(start, stop, points)


@expects("be a number or a list 1,a,b,...")
def parse_correlation(text: str) -> float | list[float]:
    """Parse the correlation of neighbours, or correlations at distances 0, 1, ..."""
    numbers = [float(part) for part in text.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


@expects("be an integer or inf")
def parse_count(text: str) -> float:
    """Parse an integer or inf."""
    return math.inf if text == "inf" else int(text)


@expects("be a number from 1e-50 to 1e50")
def parse_scale(text: str) -> float:
    """Parse the size of initial weights."""
    if not POWERS[0] <= float(text) <= POWERS[1]:
        raise ValueError
    return float(text)


def parse_from(least: int) -> Callable[[str], int]:
    """Return the parser of integers from ``least`` on."""

    @expects(f"be an integer >= {least}")
    def parse(text: str) -> int:
        if int(text) < least:
            raise ValueError
        return int(text)

    return parse


parse_seed = parse_from(0)
parse_positive = parse_from(1)


def parse_range_of(name: str, *, ends: bool = False) -> Callable[[str], np.ndarray]:
    """Return the parser of the values of a parameter: ranges of an integer go over integers.

    With ``ends`` start:stop stands for these two.
    """

    def parse(text: str) -> np.ndarray:
        if ends and text.count(":") == 1:
            text += ":2"
        values = parse_values(text)
        if ":" in text and name in PARAMETERS and PARAMETERS[name].integer:
            import numpy as np

            return np.unique(values.round())
        return values

    return parse


@expects("be NAME=VALUES")
def parse_setting(text: str) -> tuple[str, np.ndarray]:
    """Parse NAME=VALUES."""
    name, separator, values = text.partition("=")
    if not separator or not name:
        raise ValueError
    return name, parse_range_of(name)(values)


@expects("be NAME=COLUMN,...")
def parse_columns(text: str) -> dict[str, str]:
    """Parse NAME=COLUMN,NAME=COLUMN."""
    pairs = [part.split("=") for part in text.split(",")]
    if any(len(pair) != 2 or not all(pair) for pair in pairs):
        raise ValueError
    return {name.strip(): column.strip() for name, column in pairs}


class Merge(argparse.Action):
    """Collect the pairs of a flag that may be repeated, each name once."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, *__: object) -> None:
        known = getattr(namespace, self.dest) or {}
        if twice := known.keys() & values.keys():
            raise argparse.ArgumentError(self, f"must name {min(twice)} once")
        setattr(namespace, self.dest, known | values)


def parse_label(text: str) -> str:
    """Text of a picture, with escapes in place of what no font has."""
    return printable(text)


def parse_names(text: str) -> list[str]:
    """Parse NAME,NAME."""
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_ignored(text: str) -> list[str] | str:
    """Parse NAME,NAME or the word others."""
    return text if text == "others" else parse_names(text)


@expects("look like 0.01 or 1%")
def parse_share(text: str) -> float:
    """Parse 0.01 or 1%."""
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _word_or_moments(form: str) -> Callable[[str], str | tuple[float, float]]:
    """Return the parser of a word, or of two moments in its place."""

    @expects(form)
    def parse(text: str) -> str | tuple[float, float]:
        if "," not in text:
            return text
        first, second = text.split(",")
        return float(first), float(second)

    return parse


parse_law = _word_or_moments("be a law or two moments m2,m4")
parse_link_text = _word_or_moments("be a link such as sign or sin:3, or two moments m1,m2")


@expects("look like 90s, 10m, 1.5h or 30d")
def parse_duration(text: str) -> float:
    """Parse 90, 90s, 10m, 1.5h, 2d or 4w to seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    seconds = float(number) * _UNITS[unit]
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError
    return seconds


@expects("be an age like 30d or a date like 2026-01-31")
def parse_time(text: str) -> datetime:
    """Parse an age before now, or a date with or without a time."""
    if re.fullmatch(r"\d+[mhdw]", text):
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    return datetime.fromisoformat(text).astimezone()


def output_file(endings: Iterable[str]) -> Callable[[str], Path]:
    """Return a parser of names of files that can be written and have one of these endings."""

    def parse(text: str) -> Path:
        path = Path(text)
        if path.suffix not in endings:
            raise argparse.ArgumentTypeError(f"must end in {', '.join(endings)}, got {text!r}")
        if not path.parent.is_dir() or path.is_dir():
            raise argparse.ArgumentTypeError(f"must be a file in an existing folder, got {text!r}")
        file = path.resolve()
        if not all(os.access(place, os.W_OK) for place in (file, file.parent) if place.exists()):
            raise argparse.ArgumentTypeError(f"must be a file that can be written, got {text!r}")
        if path.suffix == ".nc":  # what writes it is missed before the work, not after it
            try:
                import_xarray("NetCDF")
            except RuntimeError as error:
                raise argparse.ArgumentTypeError(str(error)) from error
        return path

    return parse


# File of the state of a training.
parse_checkpoint = output_file((".npz",))
