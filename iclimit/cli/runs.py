"""List, show, export and delete results on record.

What simulations have put on record, in the store of runs. TIME is an age
(90m, 12h, 30d, 4w) or a date (2026-01-31, 2026-01-31T18:00; local time).

Examples
--------
  iclimit runs list --function simulate_errors --since 7d
  iclimit runs show 3f2a
  iclimit runs export --function simulate_errors -o errors.nc
  iclimit runs prune --obsolete --dry-run
  iclimit runs prune 3f2a
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_verb, expects, parse_duration, store_path
from iclimit.cli.output import add_output, cut_to_terminal, print_columns
from iclimit.files import printable

if TYPE_CHECKING:
    from iclimit.runs.store import RunStore, StoredBatch

SHORT = 10
"""Digits of an identity that are shown."""

_MOST_NUMBERS = 4
"""Length of a list that is shown in a line."""


@expects("be an age like 30d or a date like 2026-01-31")
def parse_time(text: str) -> datetime:
    """Parse an age before now, or a date with or without a time."""
    if re.fullmatch(r"\d+[mhdw]", text):
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    return datetime.fromisoformat(text).astimezone()


@expects("be an integer >= 1")
def parse_count(text: str) -> int:
    """Parse a number of lines."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "runs", None, __doc__)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    listing = _action(actions, "list", list_runs, "one line per run, newest first")
    _add_filters(listing)
    listing.add_argument("--limit", type=parse_count, metavar="N", help="only the newest N")

    showing = _action(actions, "show", show_run, "everything about one run")
    text = "the identity of a run or how it begins"
    showing.add_argument("identity", metavar="ID", help=text)

    exporting = _action(actions, "export", export_runs, "write the numbers of runs to a file")
    _add_filters(exporting)
    text = "a table with a row per run and number (.csv), or a labelled data set (.nc)"
    add_output(exporting, (".csv", ".nc"), text=text, required=True)

    pruning = _action(actions, "prune", prune_runs, "delete runs; criteria hold together")
    pruning.add_argument("identity", metavar="ID", nargs="?", help=text)
    text = "computed by code that has changed since"
    pruning.add_argument("--obsolete", action="store_true", help=text)
    pruning.add_argument("--older-than", type=parse_time, metavar="TIME", help="finished before")
    _add_function(pruning)
    pruning.add_argument("--dry-run", action="store_true", help="only say what would be deleted")


def _action(actions: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser = add_verb(actions, name, run, text)
    parser.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="the file (default: ICLIMIT_STORE of the environment, else runs.sqlite in the user's "
        "data folder)",
    )
    return parser


def _add_filters(parser: argparse.ArgumentParser) -> None:
    _add_function(parser)
    parser.add_argument("--since", type=parse_time, metavar="TIME", help="finished since")


def _add_function(parser: argparse.ArgumentParser) -> None:
    text = "text in the name of the function"
    parser.add_argument("--function", metavar="TEXT", default="", help=text)


def list_runs(options: argparse.Namespace) -> int:
    """Print a line per run, and totals."""
    with _opened(options) as store:
        runs = store.runs(function=options.function, since=options.since)
    shown = runs[: options.limit]
    if shown:
        lines = []
        for run in shown:
            repeats = str(run.arguments.get("repeats", run.count))
            facts = f"{run.seconds:.4g}", repeats, run.seed, _what(run)
            lines.append((run.identity[:SHORT], _local(run.finished), *facts))
        header = ("run", "finished", "seconds", "repeats", "seed", "what")
        print_columns(header, lines, cut=True)
    functions = len({run.function for run in runs})
    hidden = "" if len(shown) == len(runs) else f" ({len(shown)} shown)"
    print(
        f"{_counted(len(runs), 'run')}{hidden} of {_counted(functions, 'function')}, "
        f"{sum(run.seconds for run in runs):.4g} s of computation, in {store.path}"
    )
    return 0


def show_run(options: argparse.Namespace) -> int:
    """Print everything about a run."""
    from iclimit.runs.store import concatenated_numbers, obsolete

    with _opened(options) as store:
        run = _the_run(store, options.identity)
        batches = store.find(run.identity)
    lines = [f"run         {run.identity}", f"function    {run.function}"]
    lines += [f"  {name} = {_text(value)}" for name, value in run.arguments.items()]
    lines += [f"seed        {run.seed}", f"backend     {run.backend or 'no choice'}"]
    lines += [f"code        {run.code}{' (has changed since)' if obsolete([run]) else ''}"]
    for batch in batches:
        libraries = ", ".join(map(" ".join, json.loads(batch.versions).items()))
        lines += [
            f"repeats     {batch.first} to {batch.first + batch.count - 1}",
            f"  finished {_local(batch.finished)} on {batch.host} after {batch.seconds:.4g} s",
        ]
        if batch.residual is not None:
            lines.append(f"  worst residual {batch.residual:.3g}")
        lines.append(f"  {libraries}; {len(batch.result)} bytes")
    try:
        numbers = concatenated_numbers(batches)
        lines.append("numbers")
    except ValueError as reason:
        numbers = {}
        lines.append(f"numbers     not readable: {reason}")
    for name, (value, error) in numbers.items():
        lines.append(f"  {name} = {value:.10g}" + ("" if error is None else f" +- {error:.3g}"))
    print("\n".join(map(printable, lines)))
    return 0


def _the_run(store: RunStore, beginning: str) -> StoredBatch:
    found = store.runs(identity=beginning.lower()) if beginning else []
    if not found:
        raise ValueError(f"ID must be that of a run (iclimit runs list), got {beginning!r}")
    if len(found) > 1:
        some = ", ".join(run.identity[: max(SHORT, len(beginning) + 4)] for run in found[:3])
        raise ValueError(
            f"ID must be that of one run, got {beginning!r} of {len(found)} runs ({some}, ...)"
        )
    return found[0]


def export_runs(options: argparse.Namespace) -> int:
    """Write the numbers of runs to a file."""
    from iclimit.runs.exports import write_csv, write_netcdf
    from iclimit.runs.store import concatenated_numbers

    numbers, unread = {}, 0
    with _opened(options) as store:
        for run in store.runs(function=options.function, since=options.since):
            try:
                numbers[run] = concatenated_numbers(store.find(run.identity))
            except ValueError:
                unread += 1
    if unread:
        text = f"left out {_counted(unread, 'run')} of several parts whose code has changed since"
        print(text, file=sys.stderr)
    if not numbers:
        raise ValueError(f"there must be runs to export, got none from {str(store.path)!r}")
    write = write_csv if options.output.suffix == ".csv" else write_netcdf
    write(numbers, options.output)
    print(f"{_counted(len(numbers), 'run')} written to {options.output}")
    return 0


def prune_runs(options: argparse.Namespace) -> int:
    """Delete runs."""
    from iclimit.runs.store import TIME_FORMAT, obsolete

    if not (options.identity or options.obsolete or options.older_than or options.function):
        raise ValueError(
            "at least one of ID, --obsolete, --older-than and --function must be given"
        )
    with _opened(options, write=not options.dry_run) as store:
        runs = store.runs(function=options.function)
        if options.identity:
            runs = [run for run in [_the_run(store, options.identity)] if run in runs]
        if options.obsolete:
            # Runs of other functions count too: these may have needed their results.
            runs = [run for run in obsolete(store.runs()) if run in runs]
        if options.older_than:
            latest = options.older_than.astimezone(UTC).strftime(TIME_FORMAT)
            runs = [run for run in runs if run.finished < latest]
        for run in runs:
            what = cut_to_terminal(_what(run), 36)
            print(printable(f"{run.identity[:SHORT]}  {_local(run.finished)}  {what}"))
        if not options.dry_run:
            store.prune(run.identity for run in runs)
        done = "would be deleted" if options.dry_run else "deleted"
        print(f"{_counted(len(runs), 'run')} {done} from {store.path}")
    return 0


def _opened(options: argparse.Namespace, *, write: bool = False) -> RunStore:
    from iclimit.runs.store import RunStore, StoreError

    path = store_path(options)
    if not path.exists():
        raise StoreError(f"run store {str(path)!r} does not exist: nothing is on record there")
    return RunStore(path, readonly=not write)


def _what(run: StoredBatch) -> str:
    """Function and parameters in a line."""
    arguments = (f"{name}={_text(value, brief=True)}" for name, value in run.arguments.items())
    return f"{run.function.rpartition('.')[2]}({', '.join(arguments)})"


def _text(value: Any, *, brief: bool = False) -> str:
    """Value of a parameter; in brief, long lists and the arguments of cells are cut."""
    if isinstance(value, dict):
        given = (f"{name}={_text(each)}" for name, each in value["arguments"].items())
        return f"{value['cell']}({'...' if brief else ', '.join(given)})"
    if isinstance(value, list):
        shown = [_text(each, brief=brief) for each in value]
        if brief and len(value) > _MOST_NUMBERS:
            return f"[{shown[0]}, ..., {shown[-1]}] ({len(value)})"
        return f"[{', '.join(shown)}]"
    return f"{value:.4g}" if brief and isinstance(value, float) else str(value)


def _local(finished: str) -> str:
    return datetime.fromisoformat(finished).astimezone().strftime("%Y-%m-%d %H:%M")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
