"""The theory in JavaScript: which functions, and the text that defines them.

A row of the registry (`iclimit.registry`) that has a formula is a function of the explorer, under
the same name in JavaScript.  Integers that the Python source counts with, such as steps, become
cases of the function, and so do the sizes of `SIZES`.

Nothing else is to be done.  The Python function is called once with recorded arrays
(`iclimit.asymptotics.recording.arrays`), and what it does to them is printed
(`iclimit.explorer.javascript`).  If it needs what is not recorded, the TypeError says so.
"""

import gc
import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from iclimit.asymptotics.recording.arrays import Recorded
from iclimit.asymptotics.recurrent.errors import token_moments
from iclimit.diagrams.boundaries import BOUNDARIES
from iclimit.diagrams.quantities import find_function, python_call
from iclimit.explorer.javascript import javascript_function
from iclimit.explorer.symbols import plain_label
from iclimit.registry import REGISTRY, Row, parse_ranges

# Arguments that the Python source counts with: each value is a case of its own.
COUNTED = ("steps", "layers", "heads", "depth")

# Fields of ``theory.meta`` about a function, as they are here.
_DESCRIBED = ("arguments", "python", "latex", "source", "ranges")

# Context and dimension of functions whose averages have a quadrature rule for each size.
SIZES = {"ridge_risk": ((10, 5), (20, 10), (40, 10), (40, 20))}


@dataclass(frozen=True)
class Function:
    """A function of the theory that the explorer has.

    Attributes
    ----------
    name : str
        Its name in JavaScript.
    function : callable
        The Python function, of keyword arguments.
    arguments : tuple of str
        Their order in JavaScript.
    defaults : dict
        Values of those that may be left out.
    python : str
        A call of it, with ``{}`` for the keyword arguments.
    latex : str
        Its formula, from the docstrings.
    source : str
        Module of the theory that explains it.
    ranges : dict
        Numbers for which it is held against Python.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    defaults: dict[str, float | None]
    python: str
    latex: str
    source: str
    ranges: dict[str, tuple[float, ...]]


@cache
def functions() -> tuple[Function, ...]:
    """All functions of the registry that have a formula, margins of boundaries, and tokens."""
    named = [_function(row) for row in REGISTRY.values() if row.formula]
    return (*named, *_margins({function.name: function for function in named}), *_tokens())


def _tokens() -> Iterator[Function]:
    """What a token does to a recurrent layer: with a step that is given, and with the best one."""
    common = "power=0..2 signal=0..1 dim=1..1e4 rho=0..10 drift=0..10 gate=0..1"
    layers = {"recurrent_token": " step_size=0..2 write=-1..2", "best_recurrent_token": ""}
    for name, own in layers.items():
        ranges = parse_ranges(common + own)
        yield Function(
            name,
            token_moments,
            tuple(ranges),
            {},
            "iclimit.asymptotics.recurrent.errors.token_moments({})",
            formula("recurrent.errors.tokens"),
            "iclimit.asymptotics.recurrent.errors",
            ranges,
        )


def _margins(quantities: Mapping[str, Function]) -> Iterator[Function]:
    """Margins of the boundaries of quantities, once for each list of arguments."""
    for name, boundary in BOUNDARIES.items():
        known = set()
        for quantity in boundary.quantities:
            if quantity in quantities and quantities[quantity].arguments not in known:
                known.add(quantities[quantity].arguments)
                yield replace(
                    quantities[quantity],
                    name=f"margin_{name}_of_{quantity}",
                    function=boundary.margin,
                    python=f'iclimit.diagrams.boundaries.BOUNDARIES["{name}"].margin({{}})',
                    latex=boundary.label.replace("$", ""),
                    source="iclimit.diagrams.boundaries",
                )


def _function(row: Row) -> Function:
    return Function(
        row.name,
        find_function(row.function),
        (*row.parameters, *row.optional),
        row.optional,
        python_call(row),
        formula(row.formula),
        f"iclimit.asymptotics.{row.formula.rpartition('.')[0]}",
        row.ranges,
    )


def formula(place: str) -> str:
    """LaTeX of a labelled ``math`` block in the docstrings of a module, as ``shelf.module.label``.

    The comment ``.. formula: label`` stands before the block.
    """
    module, _, label = place.rpartition(".")
    source = inspect.getsource(importlib.import_module(f"iclimit.asymptotics.{module}"))
    marked = rf"(?m)^( *)\.\. formula: {label}\n\n\1\.\. math::(.*(?:\n(?:\1 +.*|))*)"
    block = re.search(marked, source)
    if block is None:
        raise ValueError(f"formula must be labelled in a docstring, got {place}")
    return " ".join(line.strip() for line in block[2].splitlines() if line.strip())


@cache
def javascript() -> str:
    """Text that defines the global object ``theory``.

    It has a function of plain numbers for each row of the table and for each boundary,
    ``theory.meta`` with what a function takes, where it comes from and which margins vanish on its
    boundaries, and ``theory.curve`` and ``theory.grid``, which tabulate a function by name along
    one and two of its arguments.
    """
    gc.disable()  # records have no cycles, and the collector would go through all of them
    try:
        texts = [f"  {json.dumps(function.name)}: {_text(function)}," for function in functions()]
    finally:
        gc.enable()
    meta = {function.name: _description(function) for function in functions()}
    runtime = resources.files("iclimit.explorer").joinpath("assets/runtime.js")
    head = f"{runtime.read_text(encoding='utf-8')}\nconst theory = tabulate({{"
    return "\n".join([head, *texts, f"  meta: {json.dumps(meta)},", "});", ""])


def _description(function: Function) -> dict[str, Any]:
    """What ``theory.meta`` says about a function."""
    margins = [(function.name, function.arguments) for function in functions()]
    boundaries = {}
    for name, boundary in BOUNDARIES.items():
        if function.name in boundary.quantities:
            (boundaries[plain_label(boundary.label)],) = (
                margin
                for margin, arguments in margins
                if margin.startswith(f"margin_{name}_of_") and arguments == function.arguments
            )
    own = {name: getattr(function, name) for name in _DESCRIBED}
    return own | {"boundaries": boundaries, "sizes": SIZES.get(function.name, ())}


def _text(function: Function) -> str:
    """JavaScript of a function, with a case for each integer or size that it counts with."""
    names = ", ".join(function.arguments)
    parameters = _parameters(function)
    if sizes := SIZES.get(function.name):
        cases = ",\n".join(
            f'"{context},{dim}": {_record(function, {"context": context, "dim": dim})}'
            for context, dim in sizes
        )
        case = "cases[`${context},${dim}`]"
        return f"((cases) => ({parameters}) => {case}({names}))({{\n{cases}\n}})"
    counted = [name for name in function.arguments if name in COUNTED]
    if not counted:
        return _record(function, {})
    (name,) = counted
    least, most = function.ranges[name]
    low = int(least)
    counts = range(low, int(most) + 1)
    cases = ",\n".join(_record(function, {name: count}) for count in counts)
    return f"((cases) => ({parameters}) => cases[{name} - {low}]({names}))([\n{cases}\n])"


def _parameters(function: Function) -> str:
    defaults = {
        name: f" = {value}".replace("inf", "Infinity") for name, value in function.defaults.items()
    }
    return ", ".join(name + defaults.get(name, "") for name in function.arguments)


def _record(function: Function, counts: dict[str, int]) -> str:
    given: dict[str, Any] = {name: Recorded.variable(name) for name in function.arguments}
    given |= counts
    return javascript_function(_parameters(function), _nodes(function.function(**given)))


def _nodes(value: object) -> Any:
    """Nodes of a result; of an array a list."""
    if not isinstance(value, Recorded):
        raise TypeError(f"the result must be recorded, got {value!r}")
    return [_nodes(entry) for entry in value] if value.ndim else value.node
