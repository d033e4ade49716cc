"""Arguments shared by several verbs."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.output import output_file
from iclimit.notation import PARAMETERS

if TYPE_CHECKING:
    import numpy as np

    from iclimit.runs.store import RunStore

HELP_FORMATTER: Any = partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
"""Descriptions and examples as they are, and help beside the flags where there is room."""

BACKENDS = ("numpy", "cupy")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def add_verb(
    verbs: Any, name: str, run: Callable[[argparse.Namespace], int] | None, text: str | None
) -> argparse.ArgumentParser:
    """Add a verb: its line in the list of verbs, its help and the function that runs it.

    The text is the docstring of the verb's module: a line, a description and examples.
    """
    summary, _, rest = (text or name).strip().partition("\n\n")
    description, _, examples = rest.partition("\n\nExamples\n--------\n")
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=f"{summary[0].lower()}{summary[1:].rstrip('.')}",
        description=description or f"{summary[0].upper()}{summary[1:].rstrip('.')}.",
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=HELP_FORMATTER,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_parameter(
    parser: argparse._ActionsContainer,
    name: str,
    default: float | str | None = None,
    *,
    flag: str = "",
    text: str = "",
    **more: Any,
) -> None:
    """Add the flag of a parameter of the notation, with its meaning, type and range."""
    parameter = PARAMETERS[name]
    kind: Callable[[str], Any]
    if parameter.range is None:
        kind, metavar = str, "TEXT"
    elif parameter.integer:
        kind, metavar = (parse_count if math.inf in parameter.range else int), "N"
    else:
        kind, metavar = float, "X"
    shown = f"{default:g}" if isinstance(default, float) else default
    notes = [
        parameter.allowed.removesuffix(" and finite"),
        "" if default is None else f"default {shown}",
    ]
    note = "; ".join(filter(None, notes))
    text = f"{text or parameter.meaning}{f' ({note})' if note else ''}"
    settings: dict[str, Any] = {
        "type": kind,
        "metavar": metavar,
        "default": default,
        "help": text,
    } | more
    parser.add_argument(flag or parameter.flag, **settings)


def parse_values(text: str) -> np.ndarray:
    """Parse a number, a list a,b,c or a range start:stop:points[:log].

    Raises
    ------
    argparse.ArgumentTypeError
        If the text is none of these.
    """
    import numpy as np

    try:
        if ":" not in text:
            values = np.array([float(part) for part in text.split(",")])
            if np.any(np.isnan(values)):
                raise argparse.ArgumentTypeError(f"must not be NaN, got {text!r}")
            return values
        first, last, number, *log = text.split(":")
        if log not in ([], ["log"]):
            raise ValueError
        start, stop, points = float(first), float(last), int(number)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a number, a list a,b,c or a range start:stop:points[:log], got {text!r}"
        ) from None
    if not (points >= 2 and -math.inf < start < stop < math.inf):
        raise argparse.ArgumentTypeError(f"must have start < stop and points >= 2, got {text!r}")
    if log and start <= 0:
        raise argparse.ArgumentTypeError(f"must have start > 0 for log, got {text!r}")
    return np.geomspace(start, stop, points) if log else np.linspace(start, stop, points)


def parse_count(text: str) -> float:
    """Parse an integer or inf."""
    try:
        return math.inf if text == "inf" else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer or inf, got {text!r}") from None


def parse_setting(text: str) -> tuple[str, np.ndarray]:
    """Parse NAME=VALUES."""
    name, separator, values = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUES, got {text!r}")
    return name, parse_values(values)


def parse_share(text: str) -> float:
    """Parse 0.01 or 1%."""
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must look like 0.01 or 1%, got {text!r}") from None


def parse_duration(text: str) -> float:
    """Parse 90, 90s, 10m, 1.5h, 2d or 4w to seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise argparse.ArgumentTypeError(f"must look like 90s, 10m, 1.5h or 30d, got {text!r}")
    return seconds


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add --seed and --backend."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="root seed (default 0)")
    parser.add_argument(
        "--backend", choices=BACKENDS, default="numpy", help="where to compute (default numpy)"
    )


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add --seed, --backend, --jobs, --scheduler, --time, --store and --no-store."""
    add_backend(parser)
    parser.add_argument(
        "--jobs", type=int, default=-1, metavar="N", help="worker processes (default: all cores)"
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
    add_store(parser)


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add --checkpoint."""
    parser.add_argument(
        "--checkpoint",
        type=output_file((".npz",)),
        metavar="FILE",
        help="keep the state in this file (.npz) instead of the store of runs, and go on from it "
        "if it exists",
    )


def check_execution(options: argparse.Namespace) -> None:
    """Check --seed, --jobs and --backend before any work is done."""
    from iclimit.runs.execution import check_run
    from iclimit.simulate.arrays import get_backend

    check_run(options.seed, getattr(options, "jobs", 1))
    get_backend(options.backend)


def execution(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments that say where and from which seed to simulate, after a check of them."""
    check_execution(options)
    return {
        "rng": options.seed,
        "jobs": options.jobs,
        "backend": options.backend,
        "scheduler": options.scheduler,
        "progress": sys.stderr.isatty(),
    }


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
