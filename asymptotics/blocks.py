"""Elementwise functions of many points: in blocks on a processor, as one kernel on a GPU."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import array_api_compat
import numpy as np

from iclimit.asymptotics.numbers import Namespace, Value

# Points at which large arrays are evaluated together.  The ICL and IDG errors with a ridge hold
# some 60 numbers a point at a time: 30 MB.
BLOCK = 2**16


def in_blocks(
    function: Callable[..., tuple[Any, ...]], *values: Any, results: int, block: int = BLOCK
) -> tuple[Any, ...]:
    """Evaluate an elementwise function with so many results, large NumPy arrays in blocks."""
    host = all(isinstance(value, np.ndarray) for value in values)
    if not host or math.prod(np.broadcast_shapes(*(value.shape for value in values))) <= block:
        return function(*values)
    flags: Any = [["readonly"]] * len(values) + [["writeonly", "allocate"]] * results
    blocks = np.nditer(
        [*values, *[None] * results],
        flags=["buffered", "external_loop"],
        op_flags=flags,
        op_dtypes=np.float64,
        buffersize=block,
    )
    with blocks:
        for arrays in blocks:
            computed = function(*arrays[: len(values)])
            for place, result in zip(arrays[len(values) :], computed, strict=True):
                place[...] = result
        return blocks.operands[len(values) :]


def point_by_point(
    function: Callable[..., tuple[Value, ...]], math_: Namespace, *values: Value, results: int
) -> tuple[Value, ...]:
    """Evaluate ``function(math_, *values)``, elementwise, where it fits the arrays best.

    CuPy arrays go through one kernel that is compiled from the function, large NumPy arrays come
    in blocks, and all other numbers at once.
    """
    if array_api_compat.is_cupy_array(values[0]):
        from iclimit.asymptotics.recording.kernels import kernel

        return kernel(function, len(values), results)(*values)
    return in_blocks(partial(function, math_), *values, results=results)
