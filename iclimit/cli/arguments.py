"""Arguments shared by several verbs."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PARAMETERS = {
    "tau": "prompts over squared dimension, n/d^2",
    "alpha": "context length over dimension, l/d",
    "kappa": "pretraining tasks over dimension, k/d",
    "rho": "variance of the label noise",
    "ridge": "ridge (default 0)",
    "theta": "log k/d, for the dmmse quantities",
}
TABLES = (".csv", ".json")
PICTURES = (".png", ".pdf", ".svg")


def parse_values(text: str) -> np.ndarray:
    """Parse a number, a list a,b,c or a range start:stop:points[:log].

    Raises
    ------
    argparse.ArgumentTypeError
        If the text is none of these.
    """
    form = f"a number, a list a,b,c or a range start:stop:points[:log], got {text!r}"
    parts = text.split(":")
    try:
        if len(parts) == 1:
            values = np.array([float(part) for part in text.split(",")])
        elif len(parts) == 3 or (len(parts) == 4 and parts[3] == "log"):
            start, stop, points = float(parts[0]), float(parts[1]), int(parts[2])
            if points < 2 or not (math.isfinite(start) and math.isfinite(stop)) or start >= stop:
                raise argparse.ArgumentTypeError(
                    f"must have start < stop and points >= 2, got {text!r}"
                )
            if len(parts) == 4 and start <= 0:
                raise argparse.ArgumentTypeError(f"must have start > 0 for log, got {text!r}")
            values = (np.linspace if len(parts) == 3 else np.geomspace)(start, stop, points)
        else:
            raise argparse.ArgumentTypeError(f"must be {form}")
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {form}") from None
    if np.any(np.isnan(values)):
        raise argparse.ArgumentTypeError(f"must not be NaN, got {text!r}")
    return values


def parse_simulation(text: str) -> dict[str, int]:
    """Parse d=80,repeats=10,points=12."""
    try:
        pairs = [item.split("=") for item in text.split(",")]
        values = {name: int(value) for name, value in pairs}
        if len(values) < len(pairs):
            raise ValueError
        return values
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must look like d=80,repeats=10,points=12, got {text!r}"
        ) from None


def add_parameters(parser: argparse.ArgumentParser, metavar: str) -> None:
    """Add --tau, --alpha, ... ."""
    for name, text in PARAMETERS.items():
        parser.add_argument(f"--{name}", type=parse_values, metavar=metavar, help=text)


def given_parameters(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Parameters given on the command line."""
    return {name: v for name in PARAMETERS if (v := getattr(options, name)) is not None}


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add -o and --format."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="write a table (.csv, .json) or a picture (.png, .pdf, .svg) instead of stdout",
    )
    parser.add_argument(
        "--format", choices=("csv", "json"), default="csv", help="format on stdout (default csv)"
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add --seed, --jobs and --backend."""
    parser.add_argument("--seed", type=int, default=0, help="root seed (default 0)")
    parser.add_argument(
        "--jobs", type=int, default=-1, metavar="N", help="worker processes (default: all cores)"
    )
    parser.add_argument(
        "--backend", choices=("numpy", "cupy"), default="numpy", help="where to simulate"
    )


def check_execution(options: argparse.Namespace) -> None:
    """Check --seed, --jobs and --backend before any work is done."""
    from iclimit.validation.runs import check_run

    check_run(options.seed, options.jobs, options.backend)


def check_output(path: Path | None, allowed: Iterable[str], flag: str = "--output") -> None:
    """Check the ending and the folder of an output file before any work is done."""
    if path is None:
        return
    if path.suffix not in allowed:
        raise ValueError(f"{flag} must end in {', '.join(allowed)}, got {str(path)!r}")
    if not path.parent.is_dir() or path.is_dir():
        raise ValueError(f"{flag} must be a file in an existing folder, got {str(path)!r}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"cannot write {str(path)!r}")


def write_result(result: Any, options: argparse.Namespace) -> None:
    """Write a result with rows() and plot() where and as the options say."""
    path: Path | None = options.output
    if path is not None and path.suffix in PICTURES:
        from iclimit.validation.drawing import house_style, new_figure

        with house_style():
            figure = new_figure()
            result.plot(figure.subplots())
            figure.savefig(path)
        return
    kind = options.format if path is None else path.suffix[1:]
    if path is None:
        write_rows(result.rows(), kind, sys.stdout)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            write_rows(result.rows(), kind, file)


def print_rows(rows: Sequence[Mapping[str, Any]], kind: str) -> None:
    """Print rows as CSV, JSON or text in columns."""
    if kind != "text":
        write_rows(rows, kind, sys.stdout)
        return
    cells = [list(rows[0]), *([_short(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(f"{text:>{width}}" for text, width in zip(line, widths, strict=True)))


def _short(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def write_rows(rows: Sequence[Mapping[str, Any]], kind: str, file: Any) -> None:
    """Write rows as CSV or JSON; infinite values are the string inf in either."""
    if kind == "csv":
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        strict = [
            {k: str(v) if isinstance(v, float) and math.isinf(v) else v for k, v in row.items()}
            for row in rows
        ]
        json.dump(strict, file, indent=1)
        file.write("\n")
