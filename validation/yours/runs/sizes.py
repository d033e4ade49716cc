"""Integers of runs, from columns of integers or of ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iclimit.notation import PARAMETERS, did_you_mean
from iclimit.validation.yours.runs.table import Table

RATIOS = {"context": "alpha", "tasks": "kappa", "prompts": "tau"}
"""Integers of a run, each with the ratio that may stand for it."""

WHOLE = 1e-6
"""A number is an integer if it is within this relative distance: ratios are written shortly."""

ROUNDINGS = {"exact": None, "nearest": round, "floor": math.floor, "ceil": math.ceil}
"""How integers come out of ratios; "exact": they must be integers."""

Columns = dict[str, list[float]]


def read_sizes(table: Table, rounding: str) -> tuple[Columns, Columns]:
    """Columns dim, context, tasks and prompts, and what of it came out of ratios, unrounded.

    Raises
    ------
    ValueError
        If a size is neither given nor a ratio stands for it, a ratio does not give an integer, or
        contradicts the integer beside it.
    """
    if rounding not in ROUNDINGS:
        names, hint = ", ".join(ROUNDINGS), did_you_mean(str(rounding), ROUNDINGS)
        raise ValueError(f"rounding must be one of {names}, got {rounding!r}{hint}")
    if "dim" not in table:
        raise ValueError("the table needs a column dim, or dim among the parameters")
    sizes, unrounded = {"dim": _integers(table, "dim")}, Columns()
    for name, ratio in RATIOS.items():
        if name in table:
            sizes[name] = _integers(table, name)
        elif ratio not in table:
            raise ValueError(f"the table needs a column {name} or {ratio}, or one as a parameter")
        if ratio in table:
            ratios = table.numbers(ratio, "(0, inf]" if ratio == "kappa" else "(0, inf)")
            exact = times_power(ratios, sizes["dim"], ratio)
            if name in table:
                _refuse_conflict(table, name, sizes[name], exact)
            else:
                sizes[name], unrounded[name] = _rounded(table, name, exact, rounding), exact
    return sizes, unrounded


def times_power(ratios: Sequence[float], dims: Sequence[float], ratio: str) -> list[float]:
    """Sizes that ratios stand for, unrounded."""
    power = 2 if ratio == "tau" else 1
    return [value * dim**power for value, dim in zip(ratios, dims, strict=True)]


def _integers(table: Table, name: str) -> list[float]:
    values = table.numbers(name)
    for row, value in enumerate(values, 1):
        if value not in (math.inf, round(value) if value < math.inf else value):
            raise table.fault(row, name, f"must be {PARAMETERS[name].allowed}, got {value:g}")
    return values


def _rounded(table: Table, name: str, exact: Sequence[float], rounding: str) -> list[float]:
    ratio, found = RATIOS[name], list[float]()
    for row, value in enumerate(exact, 1):
        whole = value == math.inf or abs(value - round(value)) <= WHOLE * max(1.0, value)
        function = round if whole else ROUNDINGS[rounding]
        if function is None:
            problem = (
                f"gives {value:.6g} {name}, which is no integer: give the integers, or say how "
                "they were rounded (rounding='nearest', --rounding nearest)"
            )
            raise table.fault(row, ratio, problem)
        size = value if value == math.inf else function(value)
        if size < 1:
            raise table.fault(row, ratio, f"gives {value:.3g} {name}, but there must be 1 or more")
        found.append(size)
    return found


def _refuse_conflict(
    table: Table, name: str, sizes: Sequence[float], exact: Sequence[float]
) -> None:
    for row, (size, value) in enumerate(zip(sizes, exact, strict=True), 1):
        if size != value and not abs(size - value) < 1:
            problem = f"gives {value:.6g} {name}, but the column {name} has {size:g}"
            raise table.fault(row, RATIOS[name], problem)
