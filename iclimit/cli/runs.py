"""The verbs ``runs``: list, show, export and delete results on record; and ``devices``."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from iclimit.cli.execution import add_store, store_path
from iclimit.cli.flags import Settings
from iclimit.cli.output import add_format, add_output, output
from iclimit.cli.values import parse_positive, parse_time
from iclimit.cli.verbs import GROUPS, OneLineParser, verb
from iclimit.files import printable
from iclimit.tables import TABLES, aligned, entry, rows_text, shortened

if TYPE_CHECKING:
    from iclimit.runs.store import RunStore, StoredBatch

# Digits of an identity that are shown.
SHORT = 10

# Length of a list that is shown in a line.
_MOST_NUMBERS = 4

# Runs that are listed as text unless --limit says how many.
FEW = 20

# Columns of the list.
ROW = ("run", "finished", "seconds", "repeats", "seed", "what")

GROUPS["runs"] = (
    "ACTION",
    """List, show, export and delete simulated results.

Simulations and trainings keep their results in a file, the store of runs, and
take from it what they need again. TIME is an age (90m, 12h, 30d, 4w) or a date
(2026-01-31, 2026-01-31T18:00; local time).

Examples
--------
  iclimit runs list --function simulate_errors --since 7d
  iclimit runs show 3f2a
  iclimit runs export --function simulate_errors -o errors.nc
  iclimit runs prune --obsolete --dry-run
  iclimit runs prune 3f2a
""",
)


def _flags(*names: str, more: Callable[[OneLineParser], Any] | None = None) -> Any:
    """Function that adds flags of these names, --store and more."""
    optional: Settings = {"nargs": "?"} if len(names) > 1 else {}
    time: Settings = {"type": parse_time, "metavar": "TIME"}
    word: Settings = {"metavar": "TEXT", "default": ""}
    number: Settings = {"type": parse_positive, "metavar": "N"}
    switch: Settings = {"action": "store_true"}
    known: dict[str, tuple[str, Settings]] = {
        "identity": ("the identity of a run, or its first digits", {"metavar": "ID", **optional}),
        "--function": ("only functions with this in their name", word),
        "--since": ("finished at this time or later", time),
        "--limit": (f"only the newest N (default: {FEW} as text, all as csv and json)", number),
        "--older-than": ("finished before this time", time),
        "--obsolete": ("computed by code that has changed since", switch),
        "--dry-run": ("list what would be deleted, delete nothing", switch),
    }

    def add_flags(parser: OneLineParser) -> None:
        for name in names:
            text, settings = known[name]
            parser.add_argument(name, help=text, **settings)
        add_store(parser, "store of runs")
        if more is not None:
            more(parser)

    return add_flags


@verb("runs list", _flags("--function", "--since", "--limit", more=add_format))
def list_runs(options: argparse.Namespace) -> None:
    """List runs, one on a line, the newest first."""
    from iclimit.words import counted

    with _opened(options) as store:
        runs = store.runs(function=options.function, since=options.since)
    limit = options.limit or (FEW if options.format == "text" else None)
    shown = runs[:limit]
    rows = [
        {
            "run": run.identity[:SHORT],
            "finished": _local(run.finished),
            "seconds": f"{run.seconds:.4g}",
            "repeats": str(run.arguments.get("repeats", run.count)),
            "seed": run.seed,
            "what": _what(run),
        }
        for run in shown
    ]
    if options.format != "text":
        print(rows_text(rows, options.format, columns=ROW), end="")
        return
    if rows:
        lines = [list(ROW), *([*row.values()] for row in rows)]
        print("\n".join(aligned(lines, width=_width())))
    functions = len({run.function for run in runs})
    hidden = "" if len(shown) == len(runs) else f" (the newest {len(shown)} shown, see --limit)"
    print(
        f"{counted(len(runs), 'run')}{hidden} of {counted(functions, 'function')}, "
        f"computed in {sum(run.seconds for run in runs):.4g} s, in the store {store.path}"
    )


@verb("runs show", _flags("identity"))
def show_run(options: argparse.Namespace) -> None:
    """Show everything about one run."""
    from iclimit.runs.store import concatenated_numbers, obsolete

    with _opened(options) as store:
        run = _the_run(store, options.identity)
        batches = store.find(run.identity)
    lines = [f"run         {run.identity}", f"function    {run.function}"]
    lines += [f"  {name} = {_text(value)}" for name, value in run.arguments.items()]
    derived = batches[0].derived_values
    if derived:
        lines.append("derived values")
    lines += [f"  {name} = {_text(_plain(value))}" for name, value in derived.items()]
    lines += [f"seed        {run.seed}", f"backend     {run.backend or 'always NumPy'}"]
    lines += [f"code        {run.code}{' (has changed since)' if obsolete([run]) else ''}"]
    for batch in batches:
        lines.extend(_batch_lines(batch))
    try:
        numbers = concatenated_numbers(batches)
        lines.append("numbers")
    except ValueError as reason:
        numbers = {}
        lines.append(f"numbers     not readable: {reason}")
    for name, (value, error) in numbers.items():
        lines.append(f"  {name} = {value:.10g}" + ("" if error is None else f" +- {error:.3g}"))
    print("\n".join(map(printable, lines)))


def _batch_lines(batch: StoredBatch) -> Iterator[str]:
    """Lines about some repeats of a run."""
    yield f"repeats     {batch.first} to {batch.first + batch.count - 1}"
    yield f"  finished {_local(batch.finished)} on {batch.host} after {batch.seconds:.4g} s"
    if batch.note:
        yield f"  {batch.note}"
    if batch.residual is not None:
        yield f"  worst residual {batch.residual:.3g}"
    libraries = ", ".join(map(" ".join, json.loads(batch.versions).items()))
    yield f"  {libraries}; {len(batch.result)} bytes"


def _the_run(store: RunStore, beginning: str) -> StoredBatch:
    runs = store.runs(identity=beginning.lower()) if beginning else []
    if not runs:
        raise ValueError(f"ID must be that of a run (iclimit runs list), got {beginning!r}")
    if len(runs) > 1:
        some = ", ".join(run.identity[: max(SHORT, len(beginning) + 4)] for run in runs[:3])
        raise ValueError(
            f"ID must be that of one run, got {beginning!r} of {len(runs)} runs ({some}, ...)"
        )
    return runs[0]


def _add_file(parser: OneLineParser) -> None:
    text = "a table with a row for each number of each run (.csv), or a data set (.nc)"
    add_output(parser, (".csv", ".nc"), text, formats=(), required=True)


@verb("runs export", _flags("--function", "--since", more=_add_file))
def export_runs(options: argparse.Namespace) -> None:
    """Write the numbers of runs to a file."""
    from iclimit.runs.exports import write_csv, write_netcdf
    from iclimit.runs.store import concatenated_numbers
    from iclimit.words import counted

    numbers = {}
    unread = 0
    with _opened(options) as store:
        for run in store.runs(function=options.function, since=options.since):
            try:
                numbers[run] = concatenated_numbers(store.find(run.identity))
            except ValueError:
                unread += 1
    if unread:
        text = f"left out {counted(unread, 'run')}, whose parts this version cannot read"
        print(text, file=sys.stderr)
    if not numbers:
        raise ValueError(f"there must be runs to export, got none from {str(store.path)!r}")
    write = write_csv if options.output.suffix == ".csv" else write_netcdf
    write(numbers, options.output)
    print(f"{counted(len(numbers), 'run')} written to {options.output}")


@verb("runs prune", _flags("identity", "--obsolete", "--older-than", "--function", "--dry-run"))
def prune_runs(options: argparse.Namespace) -> None:
    """Delete the runs that fulfil all given criteria."""
    from iclimit.runs.store import TIME_FORMAT, obsolete
    from iclimit.words import counted

    if not (options.identity or options.obsolete or options.older_than or options.function):
        raise ValueError(
            "at least one of ID, --obsolete, --older-than and --function must be given"
        )
    with _opened_to_delete(options) as store:
        runs = store.runs(function=options.function)
        if options.identity:
            runs = [run for run in [_the_run(store, options.identity)] if run in runs]
        if options.obsolete:
            # Runs of other functions count too: these may have needed their results.
            chosen = set(runs)
            runs = [run for run in obsolete(store.runs()) if run in chosen]
        if options.older_than:
            latest = options.older_than.astimezone(UTC).strftime(TIME_FORMAT)
            runs = [run for run in runs if run.finished < latest]
        for run in runs:
            what = shortened(_what(run), max(_width() - 36, 20))
            print(printable(f"{run.identity[:SHORT]}  {_local(run.finished)}  {what}"))
        if not options.dry_run:
            store.prune(run.identity for run in runs)
        done = "would be deleted" if options.dry_run else "deleted"
        print(f"{counted(len(runs), 'run')} {done} from {store.path}")


def _opened(options: argparse.Namespace, *, write: bool = False, **more: bool) -> RunStore:
    from iclimit.runs.store import RunStore, StoreError

    path = store_path(options)
    if not path.exists():
        raise StoreError(f"run store {str(path)!r} does not exist: nothing is on record there")
    return RunStore(path, readonly=not write, **more)


def _opened_to_delete(options: argparse.Namespace) -> RunStore:
    """The store; on a full disk, where deleting frees space, without a journal on the disk."""
    from iclimit.runs.store import StoreError, on_full_disk

    try:
        return _opened(options, write=not options.dry_run)
    except StoreError as error:
        if not on_full_disk(error):
            raise
    print("the disk is full: do not stop this until it is done", file=sys.stderr)
    return _opened(options, write=True, journal_in_memory=True)


def _what(run: StoredBatch) -> str:
    """Function and parameters in a line."""
    arguments = (f"{name}={_text(value, brief=True)}" for name, value in run.arguments.items())
    return f"{run.function.rpartition('.')[2]}({', '.join(arguments)})"


def _text(value: object, *, brief: bool = False) -> str:
    """Value of a parameter; in brief, long lists and the arguments of cells are cut."""
    if isinstance(value, dict):
        return _text_of_statement(value, brief=brief)
    if isinstance(value, list):
        shown = [_text(entry, brief=brief) for entry in value]
        if brief and len(value) > _MOST_NUMBERS:
            return f"[{shown[0]}, ..., {shown[-1]}] ({len(value)})"
        return f"[{', '.join(shown)}]"
    return entry(value, 4) if brief and isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Arrays and tuples as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def _text_of_statement(value: Mapping[str, Any], *, brief: bool) -> str:
    """What stands for a derived value, an array, another cell, or an object of a user."""
    match value:
        case {"derived": derived}:
            return _text(derived, brief=brief)
        case {"array": list(shape), "digest": str(digest)}:
            return f"array of shape {tuple(shape)} ({digest[:SHORT]})"
        case {"cell": str(name), "arguments": dict(arguments)}:
            given = (f"{key}={_text(entry)}" for key, entry in arguments.items())
            return f"{name}({'...' if brief else ', '.join(given)})"
    more = (f"{name}: {_text(entry)}" for name, entry in value.items() if name != "measure")
    return " ".join([str(value.get("measure", "")), *more])


def _local(finished: str) -> str:
    return datetime.fromisoformat(finished).astimezone().strftime("%Y-%m-%d %H:%M")


def _width() -> int:
    """Columns of the terminal, or more than any line has."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6


def _devices_flags(parser: OneLineParser) -> None:
    add_output(parser, TABLES)


@verb("devices", _devices_flags)
def print_devices(options: argparse.Namespace) -> int:
    """Show what this machine has for simulations, and check it.

    Solve, train and sample on every device that --backend can name, compare with
    NumPy, and print the deviations and the seconds. The exit status is 0 if every
    device computes what NumPy computes, otherwise 1.

    Examples
    --------
      iclimit devices
      iclimit devices --format json
      iclimit devices -o devices.csv
    """
    from iclimit.simulate.devices import check_devices

    devices = check_devices()
    output(options, devices)
    return 0 if devices.holds else 1
