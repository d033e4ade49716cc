"""The command line: one verb per file."""

import argparse
import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

from iclimit.files import printable

VERBS = (
    "curve",
    "phase",
    "learning_rate",
    "schedule",
    "gdpp",
    "dynamics",
    "train",
    "validate",
    "check",
    "check_curve",
    "prompts",
    "probe",
    "figure",
    "cite",
    "explorer",
    "runs",
)
"""Modules of the verbs, in the order of the help: theory, simulation, validation, record."""


class OneLineParser(argparse.ArgumentParser):
    """Parser whose errors are one line on standard error, with exit status 2.

    They say which name was probably meant.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here, where the flags are known, not in the parser above."""
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        from iclimit.notation import PARAMETERS, did_you_mean

        hint = ""
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            hint = did_you_mean(choice[1], re.findall(r"[\w+-]+", choice[2]))
        elif flag := re.search("unrecognized arguments: --([^ =]+)", message):
            # Names of flags are those of the notation, with dashes.
            flags = [each[2:].replace("-", "_") for each in self._option_string_actions]
            name = flag[1].replace("-", "_")
            hint = did_you_mean(name, flags)
            hint = re.sub("mean ([a-z_]+)", lambda m: f"mean --{m[1].replace('_', '-')}", hint)
            if "set" in flags and name in PARAMETERS:
                hint = f"; did you mean --set {name}=VALUES?"
        self.exit(2, f"{self.prog}: error: {message}{hint}\n")


@cache
def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all verbs."""
    import iclimit
    from iclimit.cli.arguments import HelpFormatter

    parser = OneLineParser(
        prog="iclimit",
        description="The theory of in-context learning, computed and checked.",
        formatter_class=HelpFormatter,
        epilog="iclimit VERB --help explains a verb and gives examples.",
    )
    parser.add_argument("--version", action="version", version=f"iclimit {iclimit.__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    for name in VERBS:
        import_module(f"iclimit.cli.{name}").add_parser(verbs)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    verb, options = "", None
    warnings.formatwarning = lambda message, *_, **__: printable(f"iclimit{verb}: {message}\n")
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # on the age of fonts in PDF files
    try:
        options = build_parser().parse_args(arguments)
        given = sys.argv[1:] if arguments is None else arguments
        options.command_line = shlex.join(["iclimit", *given])
        verb = f" {options.verb}"
        return int(options.run(options))
    except BrokenPipeError:
        # The reader of a pipe has gone: not an error, and nothing is left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError) as error:
        message, status = f"error: {error}", 2
    except MemoryError:
        message, status = "not enough memory for so many points", 1
    except (OSError, ArithmeticError, RuntimeError) as error:
        message, status = str(error), 1
    except KeyboardInterrupt:
        kept = not getattr(options, "no_store", True)
        known = "; finished runs are on record, run again to go on" if kept else ""
        message, status = f"interrupted{known}", 130
    print(printable(f"iclimit{verb}: {message}"), file=sys.stderr)
    return status
