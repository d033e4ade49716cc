"""Arguments shared by several verbs."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from iclimit.diagrams.planning import Plan
    from iclimit.runs.store import RunStore

PARAMETERS = {
    "tau": "prompts over squared dimension, n/d^2",
    "alpha": "context length over dimension, l/d",
    "kappa": "pretraining tasks over dimension, k/d",
    "rho": "variance of the label noise",
    "ridge": "ridge (default 0)",
    "test_alpha": "context length of tests over dimension, if it differs; with a spectrum",
    "test_rho": "variance of the label noise of tests, if it differs; with a spectrum",
    "theta": "log k/d, for the dmmse quantities",
}
STRUCTURED_DATA = """\
SPEC is powerlaw:0.9, exponential:3 or mp:0.5 (of mean 1), isotropic, uniform:0.5,1.5,
atoms:0.4,1.6, "atoms:0.4,1.6;0.3,0.7" (with weights), or a .csv or .txt file of one eigenvalue
per row or of a square matrix.  Spectra are paired in the order of their eigenvalues, with
reversed:SPEC in the opposite order.  Simulations have as eigenvalues the means over d cells of
each spectrum: of a file with d of them exactly these.  A million points take minutes, with an
input spectrum hours.
"""
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


def parse_simulation(text: str) -> dict[str, Any]:
    """Parse dim=80,repeats=10,points=12; several sizes as dim=16:24:32, points also as 6x5."""
    try:
        pairs = [item.split("=") for item in text.split(",")]
        values: dict[str, Any] = {name: _parse_count(name, value) for name, value in pairs}
        if len(values) < len(pairs):
            raise ValueError
        return values
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must look like dim=80,repeats=10,points=12 or dim=16:24:32, got {text!r}"
        ) from None


def _parse_count(name: str, text: str) -> Any:
    separator = {"dim": ":", "points": "x"}.get(name, " ")
    numbers = tuple(int(part) for part in text.split(separator))
    return numbers[0] if len(numbers) == 1 else numbers


def parse_share(text: str) -> float:
    """Parse 0.01 or 1%."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must look like 0.01 or 1%, got {text!r}") from None


def parse_duration(text: str) -> float:
    """Parse 90, 90s, 10m, 1.5h or 2d to seconds."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise argparse.ArgumentTypeError(f"must look like 90s, 10m or 1.5h, got {text!r}")
    return seconds


def add_parameters(parser: argparse.ArgumentParser, metavar: str) -> None:
    """Add --tau, --alpha, ... ."""
    for name, text in PARAMETERS.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=parse_values, metavar=metavar, help=text)


def given_parameters(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Parameters given on the command line."""
    return {name: v for name in PARAMETERS if (v := getattr(options, name)) is not None}


def add_spectra(parser: argparse.ArgumentParser) -> None:
    """Add --task-spectrum, --test-spectrum and --input-spectrum."""
    group = parser.add_argument_group("structured data", STRUCTURED_DATA)
    group.add_argument("--task-spectrum", metavar="SPEC", help="covariance of the training tasks")
    group.add_argument(
        "--test-spectrum",
        metavar="SPEC",
        help="covariance of the test tasks: SPEC, reversed:SPEC, or reversed for that of the "
        "training tasks in the opposite order (default: as in training)",
    )
    group.add_argument(
        "--input-spectrum",
        metavar="SPEC",
        help="covariance of the inputs: SPEC or reversed:SPEC (default: isotropic)",
    )


def given_spectra(options: argparse.Namespace) -> dict[str, str]:
    """Spectra given on the command line."""
    names = ("task_spectrum", "test_spectrum", "input_spectrum")
    return {name: v for name in names if (v := getattr(options, name)) is not None}


def parse_setting(text: str) -> tuple[str, np.ndarray]:
    """Parse NAME=VALUE."""
    name, separator, values = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, got {text!r}")
    return name, parse_values(values)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --set."""
    parser.add_argument(
        "--set",
        type=parse_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other parameter of the quantity; may be repeated",
    )


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
    """Add --seed, --jobs, --backend, --scheduler and --time."""
    parser.add_argument("--seed", type=int, default=0, help="root seed (default 0)")
    parser.add_argument(
        "--jobs", type=int, default=-1, metavar="N", help="worker processes (default: all cores)"
    )
    parser.add_argument(
        "--backend", choices=("numpy", "cupy"), default="numpy", help="where to simulate"
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="simulate on this Dask cluster, tcp://HOST:PORT"
    )
    parser.add_argument(
        "--time",
        type=parse_duration,
        metavar="DURATION",
        help="stop after 90s, 10m, 1.5h, ... with what is finished (default: no limit)",
    )


def add_precision(parser: argparse.ArgumentParser) -> None:
    """Add --target-se and --target-rel-se."""
    parser.add_argument(
        "--target-se", type=float, metavar="SE", help="repeat until standard errors are this small"
    )
    parser.add_argument(
        "--target-rel-se",
        type=parse_share,
        metavar="SHARE",
        help="the same, relative to the value: 0.01 or 1%%",
    )


def given_simulation(options: argparse.Namespace) -> dict[str, Any] | None:
    """Simulation that was asked for, with its precision and time limit."""
    for flag in ("target_se", "target_rel_se"):
        if options.simulate is None and getattr(options, flag) is not None:
            raise ValueError(f"--{flag.replace('_', '-')} needs --simulate")
    if options.simulate is None:
        return None
    given = {
        "target_se": options.target_se,
        "target_rel_se": options.target_rel_se,
        "time_limit": options.time,
    }
    return options.simulate | {name: v for name, v in given.items() if v is not None}


def tell_plan(plan: Plan) -> None:
    """Print what a simulation will cost."""
    print(plan, file=sys.stderr)


def check_execution(options: argparse.Namespace) -> None:
    """Check --seed, --jobs and --backend before any work is done."""
    from iclimit.runs.execution import check_run
    from iclimit.simulate.arrays import get_backend

    check_run(options.seed, getattr(options, "jobs", 1))
    get_backend(options.backend)


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add --store and --no-store."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="put results on record in this file and take from it what is there (default: "
        "ICLIMIT_STORE of the environment, else runs.sqlite in the user's data folder)",
    )
    group.add_argument(
        "--no-store", action="store_true", help="compute everything, put nothing on record"
    )


def store_path(options: argparse.Namespace) -> Path:
    """Where the store of runs is."""
    if options.store is not None:
        return Path(options.store)
    if named := os.environ.get("ICLIMIT_STORE"):
        return Path(named)
    from platformdirs import user_data_path

    return user_data_path("iclimit", appauthor=False) / "runs.sqlite"


@contextmanager
def open_store(options: argparse.Namespace) -> Iterator[RunStore | None]:
    """Open the store of runs, None with --no-store; only the default folder is made."""
    from iclimit.runs.store import RunStore

    if options.no_store:
        yield None
        return
    path = store_path(options)
    if options.store is None and not os.environ.get("ICLIMIT_STORE"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with RunStore(path) as store:
        yield store


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
