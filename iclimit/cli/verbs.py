"""The table of verbs: a verb is a row and the function that runs it.

The docstring of the function is the help: a line, a description and examples.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from iclimit.notation import did_you_mean, replacement


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

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        self.const()
        parser.exit()


class OneLineParser(argparse.ArgumentParser):
    """Parser whose errors are one line on standard error, with exit status 2.

    They say which name was probably meant.  The flags are added when they are needed, by
    ``add_flags``, as making them imports the functions that they are for.
    """

    def __init__(
        self, *, add_flags: Callable[[OneLineParser], None] | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=HelpFormatter)
        self.words: Sequence[str] = ()
        # Says for an unknown flag what else has it, or nothing.
        self.owners_of: Callable[[str], str] | None = None
        self._add_flags = add_flags

    def complete(self, words: Sequence[str] = ()) -> None:
        """Add the flags, for a command line of these words."""
        self.words = words
        add_flags = self._add_flags
        self._add_flags = None
        if add_flags is not None:
            add_flags(self)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments here, where the flags are known, not in the parser above."""
        self.complete(args or ())
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def format_help(self) -> str:
        """Help with all flags."""
        self.complete()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Print the message with the name that was probably meant, and exit."""
        hint = ""
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            hint = replacement(f"{self.prog} {choice[1]}")
            hint = hint or did_you_mean(choice[1], re.findall(r"[\w+-]+", choice[2]))
        elif flag := re.search("unrecognized arguments: --([^ =]+)", message):
            # Names of flags are those of the notation, with dashes.
            flags = [flag[2:].replace("-", "_") for flag in self._option_string_actions]
            name = flag[1].replace("-", "_")
            hint = did_you_mean(name, flags)
            hint = re.sub("mean ([a-z_]+)", lambda m: f"mean --{m[1].replace('_', '-')}", hint)
            if not hint and (names := self.get_default("parameters")):
                takes = ", ".join(f"--{name.replace('_', '-')}" for name in names)
                hint = f"; the parameters here are {takes}"
            if self.owners_of and (owners := self.owners_of(name)):
                hint += " " if hint.endswith("?") else "; "
                hint += owners
        self.exit(2, f"{self.prog}: error: {message}{hint}\n")


Run = Callable[[argparse.Namespace], int | None]
AddFlags = Callable[[OneLineParser], None]


@dataclass(frozen=True)
class Verb:
    """A verb of the command line.

    Attributes
    ----------
    name : str
        What is typed: one word, or two for one of a group.
    run : callable
        Function of the options; returns the exit status, or None for 0.
    add_flags : callable
        Adds the flags to a parser.
    """

    name: str
    run: Run
    add_flags: AddFlags


# Verbs by name.
VERBS: dict[str, Verb] = {}

# First words of verbs of two: what the second stands for, and the help.
GROUPS: dict[str, tuple[str, str]] = {}


def verb(name: str, add_flags: AddFlags) -> Callable[[Run], Run]:
    """Decorate the function that runs a verb."""

    def decorate(run: Run) -> Run:
        VERBS[name] = Verb(name, run, add_flags)
        return run

    return decorate


def add_parser(
    verbs: argparse._SubParsersAction, name: str, text: str, add_flags: AddFlags | None = None
) -> Any:
    """Add a word to a parser: its line in the list of verbs and its help."""
    summary, _, rest = inspect.cleandoc(text).partition("\n\n")
    description, _, examples = f"\n\n{rest}".partition("\n\nExamples\n--------\n")
    return verbs.add_parser(
        name,
        help=f"{summary[0].lower()}{summary[1:].rstrip('.')}",
        description=description.strip() or f"{summary[0].upper()}{summary[1:].rstrip('.')}.",
        epilog=f"examples:\n{examples}" if examples else None,
        add_flags=add_flags,
    )
