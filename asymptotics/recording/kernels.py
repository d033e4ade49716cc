"""Kernels of a GPU from recorded functions: one pass over the memory for a whole formula.

Operations are rounded as NumPy rounds them: products and sums are not contracted.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from iclimit.asymptotics.recording.arrays import Recorded
from iclimit.asymptotics.recording.nodes import Node
from iclimit.asymptotics.recording.statements import FUNCTIONS, OPERATORS, Language, Writer


def _constant(value: float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isinf(value):
        return "(1 / 0.0)" if value > 0 else "(-1 / 0.0)"
    if math.isnan(value):
        return 'nan("")'
    return f"({value!r})"


CUDA = Language(
    name="CUDA",
    operators=OPERATORS | {"equal": "==", "not_equal": "!="},
    calls={name: name for name in (*FUNCTIONS, "hypot", "isinf", "isnan", "isfinite")}
    | {
        "arctan": "atan",
        "arctan2": "atan2",
        "absolute": "fabs",
        "maximum": "larger",
        "minimum": "smaller",
        "power": "pow",
        "negative": "-",
        "logical_not": "!",
        "invert": "!",
    },
    searches={"root": "root({function}, {points})"},
    constant=_constant,
    declared="const auto",
    changing="double",
    counter="int",
    table="const double {name}[] = {{{entries}}};",
    function="[&](double {variable}) {{ {body} }}",
)


def kernel_body(results: Sequence[Node]) -> str:
    """Statements that compute results ``y0, y1, ...`` from variables of any names."""
    writer = Writer(CUDA, list(results))
    lines = writer.statements()
    lines += [f"y{number} = {writer.text[node]};" for number, node in enumerate(results)]
    return "\n".join(lines)


@cache
def kernel(function: Callable[..., Any], arguments: int, results: int) -> Callable[..., Any]:
    """Kernel of an elementwise function of a number system and so many CuPy arrays.

    CuPy compiles it at its first call, for each device, and keeps it on the disk.
    """
    import cupy

    given = [Recorded.variable(f"x{number}") for number in range(arguments)]
    found = function(Recorded.number_system, *given)
    runtime = resources.files("iclimit.asymptotics.recording").joinpath("kernel_runtime.cuh")
    return cupy.ElementwiseKernel(
        ", ".join(f"float64 x{number}" for number in range(arguments)),
        ", ".join(f"float64 y{number}" for number in range(results)),
        kernel_body([value.node for value in found]),
        name=function.__name__.strip("_"),
        preamble=runtime.read_text(encoding="utf-8"),
        options=("--fmad=false",),
        return_tuple=True,
    )
