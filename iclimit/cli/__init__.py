"""The command line: made from signatures, docstrings and the notation."""

import argparse
import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from iclimit.cli.execution import DryRun
from iclimit.cli.output import check_files
from iclimit.cli.verbs import GROUPS, VERBS, OneLineParser, add_parser
from iclimit.files import printable
from iclimit.interrupts import deferred_interrupts

# Modules of the verbs, in the order of the help: theory, simulation, validation, record.
MODULES = (
    *("diagrams", "theory", "training", "claims", "planning", "instruments", "references", "runs"),
)

# What functions say if arguments are missing, or exclude each other.
MISSING = re.compile(r"(give either [\w, ]+?|\w+ needs [\w, ]+?)(, got .*)?")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all verbs."""
    import iclimit

    for module in MODULES:
        import_module(f"iclimit.cli.{module}")
    parser = OneLineParser(
        prog="iclimit",
        description="The theory of in-context learning, computed and checked.",
        epilog="iclimit VERB --help explains a verb and gives examples.",
    )
    parser.add_argument("--version", action="version", version=f"iclimit {iclimit.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    groups: dict[str, Any] = {}
    for name, verb in VERBS.items():
        group, _, last = name.rpartition(" ")
        if group and group not in groups:
            metavar, text = GROUPS[group]
            words = add_parser(verbs, group, text)
            groups[group] = words.add_subparsers(dest="action", metavar=metavar, required=True)
        verb_parser = add_parser(
            groups[group] if group else verbs, last, verb.run.__doc__ or "", verb.add_flags
        )
        verb_parser.set_defaults(run=verb.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    verb = ""
    options = None
    warnings.formatwarning = lambda message, *_, **__: printable(f"iclimit{verb}: {message}\n")
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # on the age of fonts in PDF files
    given = list(sys.argv[1:] if arguments is None else arguments)
    _replace_closed_streams()
    try:
        with deferred_interrupts():  # the flags of a verb take seconds of imports
            options = build_parser().parse_args(given)
        options.command_line = shlex.join(["iclimit", *given])
        verb = f" {options.verb}"
        check_files(options)
        status = options.run(options) or 0
        sys.stdout.flush()
        return status
    except DryRun:
        return 0
    except BrokenPipeError:
        # The reader of a pipe has gone: not an error, and nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError) as error:
        return _failed(verb, f"error: {_with_flags(str(error), options)}", 2)
    except (MemoryError, OSError, ArithmeticError, RuntimeError) as error:
        return _failed(verb, _explained(error), 1)
    except KeyboardInterrupt:
        message = "interrupted"
        if not getattr(options, "no_store", True):
            message += "; finished runs are on record, run again to go on"
        return _failed(verb, message, 130)


def _with_flags(message: str, options: argparse.Namespace | None) -> str:
    """The message, with flags in the place of arguments if it says which are missing."""
    missing = MISSING.fullmatch(message)
    if missing is None or options is None:
        return message
    known = vars(options)
    return re.sub(
        r"\w+",
        lambda word: f"--{word[0].replace('_', '-')}" if word[0] in known else word[0],
        missing[1],
    )


def _failed(verb: str, message: str, status: int) -> int:
    """Print why a verb ended, and return its exit status."""
    print(printable(f"iclimit{verb}: {message}"), file=sys.stderr)
    return status


def _replace_closed_streams() -> None:
    """Open what is printed to where it is closed: its number would go to the next file."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _explained(error: Exception) -> str:
    """Message of an error that is none of the command line."""
    if isinstance(error, MemoryError):
        return "not enough memory for so many points"
    if isinstance(error, OSError) and error.strerror:
        where = repr(error.filename) if error.filename else "what was to be printed"
        return f"{error.strerror}: {where}"
    return str(error)
