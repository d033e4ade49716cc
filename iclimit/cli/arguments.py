"""Arguments shared by several verbs."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iclimit.cli.output import output_file
from iclimit.notation import PARAMETERS

if TYPE_CHECKING:
    import numpy as np

    from iclimit.runs.store import RunStore

Parsed = TypeVar("Parsed")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Descriptions and examples as they are, and help beside flags and verbs if there is room."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)

    def add_argument(self, action: argparse.Action) -> None:
        """Add an argument; argparse forgets that the verbs below it are indented once more."""
        super().add_argument(action)
        for verb in self._iter_indented_subactions(action):
            length = len(self._format_action_invocation(verb)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)


class PrintAndExit(argparse.Action):
    """Call the function ``const``, which prints something, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        self.const()
        parser.exit()


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
        formatter_class=HelpFormatter,
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
    notes = parameter.allowed.removesuffix(" and finite"), f"default {shown}" if shown else ""
    note = "; ".join(filter(None, notes))
    text = f"{text or parameter.meaning}{f' ({note})' if note else ''}"
    settings = {"type": kind, "metavar": metavar, "default": default, "help": text} | more
    parser.add_argument(flag or parameter.flag, **settings)


def add_choice(
    parser: argparse._ActionsContainer, flag: str, choices: Sequence[str], text: str
) -> None:
    """Add a flag with choices, of which the first is the default."""
    text = f"{text} (default {choices[0]})"
    parser.add_argument(flag, choices=choices, default=choices[0], help=text)


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

    if ":" not in text:
        values = np.array([float(part) for part in text.split(",")])
        if np.any(np.isnan(values)):
            raise argparse.ArgumentTypeError(f"must not be NaN, got {text!r}")
        return values
    first, last, number, *log = text.split(":")
    if log not in ([], ["log"]):
        raise ValueError
    start, stop, points = float(first), float(last), int(number)
    if not (points >= 2 and -math.inf < start < stop < math.inf):
        raise argparse.ArgumentTypeError(f"must have start < stop and points >= 2, got {text!r}")
    if log and start <= 0:
        raise argparse.ArgumentTypeError(f"must have start > 0 for log, got {text!r}")
    return np.geomspace(start, stop, points) if log else np.linspace(start, stop, points)


@expects("be an integer or inf")
def parse_count(text: str) -> float:
    """Parse an integer or inf."""
    return math.inf if text == "inf" else int(text)


@expects("be NAME=VALUES")
def parse_setting(text: str) -> tuple[str, np.ndarray]:
    """Parse NAME=VALUES; a range of an integer goes over integers."""
    name, separator, values = text.partition("=")
    if not separator or not name:
        raise ValueError
    numbers = parse_values(values)
    if ":" in values and name in PARAMETERS and PARAMETERS[name].integer:
        import numpy as np

        numbers = np.unique(numbers.round())
    return name, numbers


@expects("look like 0.01 or 1%")
def parse_share(text: str) -> float:
    """Parse 0.01 or 1%."""
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


@expects("look like 90s, 10m, 1.5h or 30d")
def parse_duration(text: str) -> float:
    """Parse 90, 90s, 10m, 1.5h, 2d or 4w to seconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    seconds = float(number) * _UNITS[unit]
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError
    return seconds


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add --seed and --backend."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="root seed (default 0)")
    add_choice(parser, "--backend", ("numpy", "cupy"), "where to compute")


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add --seed, --backend, --jobs, --scheduler, --time, --store and --no-store."""
    add_backend(parser)
    text = "worker processes (default: all cores)"
    parser.add_argument("--jobs", type=int, default=-1, metavar="N", help=text)
    text = "simulate on this Dask cluster, tcp://HOST:PORT"
    parser.add_argument("--scheduler", metavar="ADDRESS", help=text)
    text = "stop after 90s, 10m, 1.5h, ... with what is finished (default: no limit)"
    parser.add_argument("--time", type=parse_duration, metavar="DURATION", help=text)
    add_store(parser)


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add --seed, --backend, --checkpoint, --store and --no-store."""
    add_backend(parser)
    parser.add_argument(
        "--checkpoint",
        type=output_file((".npz",)),
        metavar="FILE",
        help="keep the state in this file (.npz) instead of the store of runs, and go on from it "
        "if it exists",
    )
    add_store(parser)


def check_execution(options: argparse.Namespace) -> None:
    """Check --seed, --jobs and --backend before any work is done."""
    from iclimit.runs.execution import check_run
    from iclimit.simulate.arrays import get_backend

    check_run(options.seed, getattr(options, "jobs", 1))
    get_backend(options.backend)


def execution(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments that say where and from which seed to simulate, after a check of them."""
    check_execution(options)
    where = {name: getattr(options, name) for name in ("jobs", "backend", "scheduler")}
    return where | {"rng": options.seed, "progress": sys.stderr.isatty()}


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


def run_training(
    options: argparse.Namespace,
    train: Callable[..., Parsed],
    settings: dict[str, Any],
    *,
    complete: Callable[[Parsed], bool],
    **arguments: Any,
) -> Parsed:
    """Result of a training with the options of `add_training`, put on record if it is complete.

    The settings identify it; ``train`` gets ``arguments`` in place of those of the same name.
    """
    from iclimit.runs.cell import Cell
    from iclimit.runs.execution import run_recorded

    check_execution(options)
    place = {"rng": options.seed, "backend": options.backend}
    shown = {"checkpoint": options.checkpoint, "progress": sys.stderr.isatty()}
    with open_store(options) as store:
        return run_recorded(
            Cell.of(train, **settings),
            lambda: train(**settings | arguments, **place, **shown),
            store=None if options.checkpoint else store,
            complete=complete,
            **place,
        )
