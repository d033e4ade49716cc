"""What all predictions of training share: eigenvalues of the inputs, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_range, checked
from iclimit.asymptotics.numbers import ArrayMath, Namespace, SymPyMath


def parse_eigenvalues(
    eigenvalues: Any, allowed: str = "[0, inf)", **others: Any
) -> tuple[Namespace, list[Any], list[Any]]:
    """Number system, eigenvalues one by one (arrays: along the last axis), other arguments."""
    math_, (lam, *values) = checked(
        sequences=("eigenvalues",),
        ranges={"eigenvalues": allowed},
        eigenvalues=eigenvalues,
        **others,
    )
    check_range(math_, "trace of eigenvalues", sum(lam), "(0, inf)")
    return math_, lam, values


def descending(math_: Namespace, values: list[Any]) -> list[Any]:
    """Numbers in descending order; SymPy expressions, which may not compare, as they are."""
    if isinstance(math_, ArrayMath):
        return [*-np.sort(-np.stack(values), axis=0)]
    return values if isinstance(math_, SymPyMath) else sorted(values, reverse=True)


def collected(math_: Namespace, values: Sequence[Any]) -> Any:
    """Arrays along a last axis; other numbers in a tuple."""
    if not isinstance(math_, ArrayMath):
        return tuple(math_.finish(value) for value in values)
    return math_.finish(np.stack(np.broadcast_arrays(*values), axis=-1))


def excess(lam: Any, trace: Any, context: Any, noise_variance: Any) -> Any:
    r"""What the fluctuations of the context add to :math:`\lambda`: :math:`\lambda (c - 1)`."""
    return (lam + trace + noise_variance) / context


def cube_root(math_: Namespace, value: Any) -> Any:
    """Cube root of a positive number, in its number system."""
    return value ** (math_.convert(1) / 3)
