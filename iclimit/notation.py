r"""Notation: every parameter by name, with its symbol, meaning and range.

One meaning has one name, and one name has one meaning, in every room.  Argument checks, axis
labels, command-line flags, quantities, file attributes and the notation page all read the table
``notation.csv``.  There is no mathematics here.

Greek names are the parameters of a limit, words are the integers of a run.
"""

from __future__ import annotations

import ast
import csv
import difflib
import functools
import importlib
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

# Fields of the theory, and what every simulation shares.
SHELVES = (
    *("pretraining", "descent", "gdpp", "dynamics", "networks", "softmax"),
    *("depth", "recurrent", "spectra", "runs"),
)


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers or integers.

    Attributes
    ----------
    lower, upper : float
        Its ends.
    open_lower, open_upper : bool
        Whether an end is excluded; an included ``inf`` is an allowed value.
    """

    lower: float
    upper: float
    open_lower: bool
    open_upper: bool

    @classmethod
    def parse(cls, text: str) -> Interval:
        """Read an interval in mathematical notation, such as ``(0, inf]``."""
        lower, upper = text[1:-1].split(",")
        return cls(float(lower), float(upper), text[0] == "(", text[-1] == ")")

    def __contains__(self, value: float) -> bool:
        above = self.lower < value if self.open_lower else self.lower <= value
        return above and (value < self.upper if self.open_upper else value <= self.upper)

    def __str__(self) -> str:
        if self.lower == -math.inf:
            return "finite" if self.open_upper else "a number"
        above = f"{'>' if self.open_lower else '>='} {self.lower:g}"
        if math.isinf(self.upper):
            return f"{above} and finite" if self.open_upper else f"{above}, or inf"
        if not self.open_lower and not self.open_upper:
            return f"from {self.lower:g} to {self.upper:g}"
        return f"{above} and {'<' if self.open_upper else '<='} {self.upper:g}"


@dataclass(frozen=True)
class Parameter:
    """One row of the notation table.

    Attributes
    ----------
    name : str
        Argument, column and (with dashes) command-line flag.
    symbol : str
        LaTeX, without dollar signs.
    meaning : str
        In words, with its normalisation.
    shelf : str
        Field of the theory that it belongs to.
    range : Interval or None
        Allowed numbers; None where the value is no number.
    integer : bool
        Whether it counts something.
    definition : str
        LaTeX of what it is a ratio of, if it is one.
    synonyms : tuple of str
        What it is called elsewhere, the likeliest first, for hints in error messages.
    size : str
        Integer of a run that it is a ratio of, such as ``prompts/dim^2``.
    typical : number, list of numbers, str or None
        A value that every function takes, with those of the other rows: tests call by it.
    """

    name: str
    symbol: str
    meaning: str
    shelf: str
    range: Interval | None = None
    integer: bool = False
    definition: str = ""
    synonyms: tuple[str, ...] = ()
    size: str = ""
    typical: Any = None

    @property
    def label(self) -> str:
        """Axis label: the symbol, and what it is a ratio of; the name where there is no symbol."""
        if not self.symbol:
            return self.name.replace("_", " ")
        return f"${self.symbol} = {self.definition}$" if self.definition else f"${self.symbol}$"

    @property
    def flag(self) -> str:
        """Command-line flag."""
        return "--" + self.name.replace("_", "-")

    @property
    def allowed(self) -> str:
        """Range in words, as error messages and help texts give it."""
        if self.range is None:
            return ""
        if not self.integer:
            return str(self.range)
        if self.range.upper == math.inf and not self.range.open_upper:
            return f"an integer >= {self.range.lower:g}, or inf"
        return f"an integer {self.range}".removesuffix(" and finite")


# Arguments by name that a message shows.
MOST_SHOWN = 5

# Fewest letters of a name that stand for it, as icl for icl_error.
SHORTEST_START = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Hint for an error message at the name that was probably meant; empty if there is none.

    A synonym of the notation counts first, such as ``n`` for ``prompts``, then what is near.
    """
    known = list(known)
    rows = [PARAMETERS[candidate] for candidate in known if candidate in PARAMETERS]
    meant = [row for row in rows if name in row.synonyms]
    if meant:
        row = min(meant, key=lambda row: row.synonyms.index(name))
        return f"; did you mean {row.name} ({re.split('[:;,(]', row.meaning)[0].strip()})?"
    near = difflib.get_close_matches(name, known, 1)
    if not near and len(name) >= SHORTEST_START:
        near = sorted((longer for longer in known if longer.startswith(name)), key=len)
    return f"; did you mean {near[0]}?" if near else ""


def replacement(name: str) -> str:
    """Hint at what there is in place of a verb or an argument of 1.0; empty if it is neither."""
    for row in read_table("replaced.csv"):
        if row["old"] == name:
            return f"; now it is {row['now']}"
    return ""


def attach_shelf(package: str, file: str) -> list[str]:
    """Load the names that the stub of a shelf lists, and return them.

    Each function answers an unknown keyword argument with the name that was meant.  It is replaced
    where it is defined, too, because worker processes look for it there.
    """
    shelf = vars(sys.modules[package])
    names = []
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        assert isinstance(node, ast.ImportFrom)
        module = vars(importlib.import_module("." * node.level + (node.module or ""), package))
        for name in (alias.name for alias in node.names):
            member = module[name]
            if inspect.isfunction(member):
                member = explaining(member)
                vars(sys.modules[member.__module__])[name] = member
            elif "__init__" in vars(member):
                member.__init__ = explaining(member.__init__)
            shelf[name] = member
            names.append(name)
    return sorted(names)


def _by_name_only(function: Function) -> list[str]:
    """First arguments that are taken by name only."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ["NAME"]
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY][:MOST_SHOWN]


def explaining(function: Function) -> Function:
    """Return a function that says by name which keyword arguments are missing or unknown."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError as error:
            # An error of the call itself is raised before the function has a frame.
            within = error.__traceback__ and error.__traceback__.tb_next
            if within:
                raise
            label = function.__qualname__.removesuffix(".__init__")
            if missing := re.search(r"missing \d+ required .*argument.*?: (.*)", str(error)):
                needed = ", ".join(re.findall(r"'(\w+)'", missing[1]))
                raise TypeError(f"{label} needs {needed}, got {', '.join(named)}") from None
            if counts := re.search(r"takes (.*?) positional arguments? but (\d+)", str(error)):
                needed = ", ".join(f"{name}=..." for name in _by_name_only(function))
                raise TypeError(
                    f"{label} takes {counts[1]} arguments without their names, and others as "
                    f"{needed}; got {counts[2]} without"
                ) from None
            if "unexpected keyword argument" not in str(error):
                raise
        known = [name for name in inspect.signature(function).parameters if name != "self"]
        wrong = next(name for name in named if name not in known)
        hint = replacement(f"{label}({wrong})") or did_you_mean(wrong, known)
        raise TypeError(f"{label} takes {', '.join(known)}, got {wrong!r}{hint}")

    return cast(Function, call)


def read_table(file: str) -> Iterable[dict[str, str]]:
    """Rows of a table (CSV) in this package."""
    text = resources.files("iclimit").joinpath(file).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines(), restval="")


def _typical(text: str) -> Any:
    """Number or list of the table, or a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text or None


def _parameters() -> dict[str, Parameter]:
    texts = ("name", "symbol", "meaning", "shelf", "definition", "size")
    return {
        row["name"]: Parameter(
            **{name: row[name] for name in texts},
            range=Interval.parse(row["range"]) if row["range"] else None,
            integer=row["number"] == "integer",
            synonyms=tuple(row["synonyms"].split()),
            typical=_typical(row["typical"]),
        )
        for row in read_table("notation.csv")
    }


# The table ``notation.csv``, by name.
PARAMETERS = _parameters()

# Parameters of a limit, each with the integer of a run and the power of the dimension that it is
# over.
RATIOS = {
    parameter.name: (parameter.size.partition("/")[0], 2 if parameter.size.endswith("^2") else 1)
    for parameter in PARAMETERS.values()
    if parameter.size
}


def size_of(ratio: str, value: float, dim: float) -> float:
    """Integer that a parameter of a limit stands for at a dimension, not rounded.

    Parameters
    ----------
    ratio : {"tau", "alpha", "kappa", "test_alpha"}
    value : float
        Its value.
    dim : int
        Dimension of the inputs.
    """
    return value * dim ** RATIOS[ratio][1]


def sizes_of(dim: int, ratios: Mapping[str, float]) -> dict[str, int | float]:
    """Integers of a run at a dimension: the nearest ones, at least 1; inf stays inf.

    Examples
    --------
    >>> from iclimit.notation import sizes_of
    >>> sizes_of(20, {"tau": 2, "alpha": 0.51, "kappa": float("inf")})
    {'prompts': 800, 'context': 10, 'tasks': inf}
    """
    sizes = {}
    for ratio, value in ratios.items():
        size = size_of(ratio, value, dim)
        sizes[RATIOS[ratio][0]] = size if math.isinf(size) else max(1, round(size))
    return sizes


def ratios_of(dim: int, sizes: Mapping[str, float]) -> dict[str, float]:
    """Parameters of the limit that the integers of a run stand for.

    Examples
    --------
    >>> from iclimit.notation import ratios_of
    >>> ratios_of(20, {"prompts": 800, "context": 10})
    {'tau': 2.0, 'alpha': 0.5}
    """
    return {
        ratio: sizes[size] / dim**power for ratio, (size, power) in RATIOS.items() if size in sizes
    }


# Symbols of the errors.
ERRORS = {
    "icl_error": r"e_{\mathrm{ICL}}",
    "idg_error": r"e_{\mathrm{IDG}}",
    "task_gap": r"e_{\mathrm{ICL}} - e_{\mathrm{IDG}}",
}

# The most common ones, in words that fit below a panel.
WORDS = {
    **{"dim": "dimension", "tau": "prompts", "alpha": "context length", "kappa": "tasks"},
    **{"rho": "noise variance", "ridge": "ridge"},
    **{"icl_error": "error on new tasks", "idg_error": "error on pretraining tasks"},
    "task_gap": "difference of the errors",
}

# Axis labels by name.
LABELS = {name: parameter.label for name, parameter in PARAMETERS.items()} | {
    name: f"${symbol}$" for name, symbol in ERRORS.items()
}
LABELS |= {name: f"{words}, {LABELS[name]}" for name, words in WORDS.items()}


def axis_label(parameter: Parameter) -> str:
    """Label of an axis, in words where the parameter means what it does in the notation."""
    words = LABELS.get(parameter.name, "")
    return words if words.endswith(parameter.label) else parameter.label
