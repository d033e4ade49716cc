"""The command line: one verb per file."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """Parser whose errors are one line on standard error, with exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all verbs."""
    import iclimit
    from iclimit.cli import (
        claims,
        curve,
        dynamics,
        figure,
        gdpp,
        learning_rate,
        phase,
        runs,
        schedule,
        train,
        validate,
    )

    parser = OneLineParser(
        prog="iclimit", description="The theory of in-context learning, computed and checked."
    )
    parser.add_argument("--version", action="version", version=f"iclimit {iclimit.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    verb_modules = (
        validate,
        claims,
        curve,
        phase,
        figure,
        learning_rate,
        schedule,
        gdpp,
        dynamics,
        train,
        runs,
    )
    for module in verb_modules:
        module.add_parser(verbs)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    verb, options = "", None
    warnings.formatwarning = lambda message, *_, **__: f"iclimit{verb}: {message}\n"
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # on the age of fonts in PDF files
    try:
        options = build_parser().parse_args(arguments)
        verb = f" {options.verb}"
        return int(options.run(options))
    except BrokenPipeError:
        # The reader of a pipe has gone: not an error, and nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError) as error:
        print(f"iclimit{verb}: error: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print(f"iclimit{verb}: not enough memory for so many points", file=sys.stderr)
        return 1
    except (OSError, ArithmeticError, RuntimeError) as error:
        print(f"iclimit{verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kept = not getattr(options, "no_store", True)
        known = "; finished runs are on record, run again to go on" if kept else ""
        print(f"iclimit{verb}: interrupted{known}", file=sys.stderr)
        return 130
