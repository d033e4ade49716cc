"""Flags of a verb, made from a function: its signature, its docstring and the notation.

An argument becomes the flag of the same name.  The notation says whether it is an integer, a real
number or text, and its range; the signature its default; the docstring what it means and, as
``{"a", "b"}``, between what one may choose.  What text on the command line is for an argument that
is no number is written down once, in flags.csv.
"""

import argparse
import ast
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from iclimit.cli import values
from iclimit.notation import PARAMETERS, read_table
from iclimit.tables import entry

Settings = dict[str, Any]

# Changes of flags by argument: another help text, settings of `add_flag`, or None for no flag.
Changes: TypeAlias = Mapping[str, str | Settings | None]


def _written(row: Mapping[str, str]) -> Settings:
    """Settings of a row of flags.csv; types and actions are those of `iclimit.cli.values`."""
    settings: Settings = {name: entry for name, entry in row.items() if entry and name != "name"}
    known = vars(values) | {"int": int}
    return settings | {
        name: known[settings[name]] for name in {"type", "action"} & settings.keys()
    }


# How arguments are written that are more than a number, a choice or a word.
WRITTEN = {row["name"]: _written(row) for row in read_table("cli/flags.csv")}

# Arguments that no flag gives a value to.
_BY_HAND = ("store", "progress", "announce", "finished")


def add_flags(
    parser: argparse._ActionsContainer, function: Callable[..., Any], changes: Changes
) -> None:
    """Add a flag for every argument of a function, with these changes."""
    for name, argument in inspect.signature(function).parameters.items():
        change = changes.get(name, {})
        if name in _BY_HAND or change is None or argument.kind is argument.VAR_KEYWORD:
            continue
        settings: Settings = {"text": change} if isinstance(change, str) else dict(change)
        if argument.default is not argument.empty:
            settings = {"default": argument.default} | settings
        settings.setdefault("required", "default" not in settings)
        add_flag(parser, name, described(function).get(name, ("", "")), **settings)


def add_flag(
    parser: argparse._ActionsContainer,
    name: str,
    description: tuple[str, str] = ("", ""),
    *,
    flag: str = "",
    text: str = "",
    default: Any = None,
    **settings: Any,
) -> None:
    """Add the flag of an argument, with its type, meaning, range and default."""
    written = dict(WRITTEN.get(name, {}))
    flag = flag or written.pop("flag", "") or f"--{name.replace('_', '-')}"
    kind, sentence = description
    parameter = PARAMETERS.get(name)
    text = text or written.pop("text", "") or sentence or (parameter.meaning if parameter else "")
    written.pop("text", None)
    if name == "rng" and default is None:
        default = 0
        settings["required"] = False
    if isinstance(default, bool):
        _add_switch(parser, name, flag, text, default)
        return
    ranged = name not in WRITTEN and settings.get("metavar") != "FILE"
    written = _kind(name, kind, written) | written
    notes = []
    if parameter and ranged and "choices" not in written:
        notes.append(parameter.allowed.removesuffix(" and finite"))
    if default not in (None, "", (), []) and "default" not in text:
        notes.append(f"default {entry(default, 6)}")
    note = "; ".join(filter(None, notes))
    settings = written | {"default": default} | settings
    if flag[0] == "-":
        settings["dest"] = settings.get("dest", name)
    else:
        settings.pop("required", None)
    parser.add_argument(flag, help=_escaped(f"{text} ({note})" if note else text), **settings)


def _add_switch(
    parser: argparse._ActionsContainer, name: str, flag: str, text: str, default: bool
) -> None:
    """Add a flag without a value, which changes the default."""
    if default:
        flag = flag.replace("--", "--no-", 1)
    action = "store_false" if default else "store_true"
    text = text.removeprefix("whether ")
    parser.add_argument(flag, dest=name, action=action, help=_escaped(text))


def _escaped(text: str) -> str:
    """Help text with arguments as flags, and per cent signs as argparse takes them."""
    flags = {name: parameter.flag for name, parameter in PARAMETERS.items() if "_" in name}
    text = re.sub(r"\w+", lambda match: flags.get(match[0], match[0]), text)
    return re.sub("%(?!%)", "%%", text)


def _kind(name: str, kind: str, written: Settings) -> Settings:
    """Choices, or type and placeholder of a number or a word unless these are written down."""
    if choices := re.match(r"\{(.*?)\}", kind):
        options = ast.literal_eval(f"[{choices[1]}]")
        return {"choices": options, "type": type(options[0])}
    if "type" in written or "metavar" in written:
        return {}
    parameter = PARAMETERS.get(name)
    if parameter and parameter.range:
        if parameter.integer:
            return {
                "type": values.parse_count if math.inf in parameter.range else int,
                "metavar": "N",
            }
        return {"type": float, "metavar": "X"}
    if kind.startswith("int"):
        return {"type": int, "metavar": "N"}
    return {"type": Path, "metavar": "FILE"} if kind.startswith("path") else {"metavar": "TEXT"}


@cache
def described(function: Callable[..., Any]) -> Mapping[str, tuple[str, str]]:
    """Kind and meaning of the arguments of a function, from its docstring."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=\n\n[^\n]+\n---|\Z)",
        inspect.getdoc(function) or "",
        re.M | re.S,
    )
    entries = re.findall(
        r"^([\w*, ]+?)(?: : (.*))?\n((?: +.*\n?|\n)*)", section[1] if section else "", re.M
    )
    meanings: dict[str, tuple[str, str]] = {}
    for names, kind, text in entries:
        arguments = names.split(", ")
        parts = _sentence(text).split("; ")
        # Several arguments have a part of the sentence each, or all the same.
        if len(parts) != len(arguments):
            parts = parts[:1] * len(arguments)
        meanings |= {name: (kind, part) for name, part in zip(arguments, parts, strict=True)}
    return meanings


def _sentence(text: str) -> str:
    """First sentence of a description in plain text; empty where it refers to something else."""
    first = re.split(r"\.(?:\s|$)", " ".join(text.split()))[0]
    if ":math:" in first or re.match("As |See |Of ", first):
        return ""
    plain = first.replace("`", "").replace("\\", "")
    return plain[:1].lower() + plain[1:]


def arguments(options: argparse.Namespace, function: Callable[..., Any]) -> Settings:
    """Arguments of a function that have a flag, and whether it shows progress."""
    names = inspect.signature(function).parameters
    given = {name: value for name, value in vars(options).items() if name in names}
    return given | ({"progress": sys.stderr.isatty()} if "progress" in names else {})
