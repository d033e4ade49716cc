"""Where to compute and what is on record: flags and arguments that several verbs share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.flags import add_flag

if TYPE_CHECKING:
    from iclimit.runs.store import RunStore
    from iclimit.simulate.networks import TrainedRepeats

# Arguments of trainings that do not say what is trained.
PLACE = ("rng", "backend", "checkpoint", "progress")


class DryRun(Exception):
    """Ends a verb where it would begin to compute; what and where has been printed."""


def add_execution(parser: argparse.ArgumentParser) -> None:
    """Add --seed, --backend, --jobs, --scheduler, --time-limit, --dry-run, --store, --no-store."""
    add_flag(parser, "rng")
    add_flag(parser, "backend", ('{"numpy", "cupy"}', ""), default="numpy")
    add_flag(parser, "jobs", default=-1)
    add_flag(parser, "scheduler")
    add_flag(parser, "time_limit")
    text = "list what would be simulated and where, and simulate nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)
    add_recording(parser)


def add_recording(parser: argparse.ArgumentParser) -> None:
    """Add --store and --no-store."""
    group = parser.add_mutually_exclusive_group()
    add_store(group, "store of runs: what is in this file is not simulated again")
    text = "use no store: simulate everything, and keep nothing"
    group.add_argument("--no-store", action="store_true", help=text)


def add_store(parser: argparse._ActionsContainer, text: str) -> None:
    """Add --store."""
    text += " (default: $ICLIMIT_STORE, or runs.sqlite in your data folder)"
    parser.add_argument("--store", type=Path, metavar="FILE", help=text)


def check_execution(options: argparse.Namespace) -> None:
    """Check --jobs and --backend before any work is done."""
    from iclimit.runs.execution import check_run
    from iclimit.simulate.arrays import get_backend

    check_run(options.rng, getattr(options, "jobs", 1))
    get_backend(options.backend)


def execution(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments that say where and from which seed to simulate, after a check of them."""
    check_execution(options)
    where = {name: getattr(options, name) for name in ("jobs", "backend", "scheduler", "rng")}
    return where | {"progress": sys.stderr.isatty()}


def print_placement(options: argparse.Namespace) -> None:
    """Say on standard error where cells run, unless it is on the cores of this machine."""
    from iclimit.runs.execution import placement

    scheduler = getattr(options, "scheduler", None)
    jobs = getattr(options, "jobs", 1)
    if text := placement(jobs=jobs, backend=options.backend, scheduler=scheduler):
        print(text, file=sys.stderr)


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
    from iclimit.runs.store import RunStore, StoreError

    if options.no_store:
        yield None
        return
    path = store_path(options)
    if options.store is None and not os.environ.get("ICLIMIT_STORE"):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"run store {str(path)!r} cannot be made: {error.strerror}; name another file "
                "with --store, or put nothing on record with --no-store"
            ) from error
    with RunStore(path) as store:
        yield store


def run_training(
    options: argparse.Namespace,
    function: Callable[..., Any],
    train: Callable[..., TrainedRepeats],
    settings: Mapping[str, Any],
    identity: Mapping[str, Any],
) -> TrainedRepeats:
    """Result of a training with these settings, put on record if it is complete.

    It is known by the function, its settings and the ``identity``, which has precedence.
    """
    from iclimit.runs.cell import Cell
    from iclimit.runs.execution import run_recorded

    check_execution(options)
    print_placement(options)
    known = {name: value for name, value in settings.items() if name not in PLACE}
    known |= identity
    with open_store(options) as store:
        return run_recorded(
            Cell.of(function, **known),
            lambda: train(**settings),
            store=None if options.checkpoint else store,
            complete=lambda run: not run.interrupted,
            rng=options.rng,
            backend=options.backend,
        )
