"""Arguments of the theory of training dynamics: conversion, ranges, shapes, number systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat
import numpy as np

from iclimit.asymptotics.numbers import (
    ArrayMath,
    MpMath,
    Namespace,
    SymPyMath,
    convert,
    namespace,
    numpy_namespace,
    require,
)

Range = tuple[Callable[[Any], Any], str]

_INF = float("inf")

POSITIVE: Range = (lambda v: (v > 0) & (v < _INF), "> 0 and finite")
NOT_NEGATIVE: Range = (lambda v: (v >= 0) & (v < _INF), ">= 0 and finite")
AT_LEAST_ONE: Range = (lambda v: (v >= 1) & (v < _INF), ">= 1 and finite")
FRACTION: Range = (lambda v: (v > 0) & (v < 1), "> 0 and < 1")
TIME: Range = (lambda v: v >= 0, ">= 0")

RANGES: dict[str, Range] = {
    "context": AT_LEAST_ONE,
    "dim": AT_LEAST_ONE,
    "heads": AT_LEAST_ONE,
    "init_scale": POSITIVE,
    "input_variance": POSITIVE,
    "noise_variance": NOT_NEGATIVE,
    "eigenvalue": POSITIVE,
    "trace": POSITIVE,
    "initial_value": POSITIVE,
    "drop_fraction": FRACTION,
}


def given_numbers(numpy_only: bool = False, **given: Any) -> tuple[Namespace, dict[str, Any]]:
    """Convert named arguments and check the ranges of `RANGES`, and that shapes broadcast."""
    math_: Namespace = numpy_namespace(**given) if numpy_only else namespace(**given)
    values = {name: convert(math_, name, value) for name, value in given.items()}
    for name, value in values.items():
        if name in RANGES:
            require(math_, name, value, *RANGES[name])
    check_shapes(values)
    return math_, values


def check_shapes(values: dict[str, Any]) -> tuple[int, ...]:
    """Shape of the broadcast; a ValueError that names the arguments if there is none."""
    shapes = [tuple(np.shape(value)) for value in values.values()]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        names = ", ".join(values)
        raise ValueError(f"{names} must have shapes that broadcast, got {shapes}") from None


def given_eigenvalues(
    eigenvalues: Any, *, allow_zero: bool = False, **others: Any
) -> tuple[Namespace, list[Any], dict[str, Any]]:
    """Number system, eigenvalues one by one (arrays: the last axis), and the other arguments."""
    if isinstance(eigenvalues, (str, bytes)) or not (
        isinstance(eigenvalues, Sequence) or np.ndim(eigenvalues)
    ):
        raise TypeError(f"eigenvalues must be a sequence of numbers, got {eigenvalues!r}")
    items = list(eigenvalues)
    if not items:
        raise ValueError("eigenvalues must not be empty")
    math_ = namespace(**others, **{f"eigenvalues_{k}": item for k, item in enumerate(items)})
    if isinstance(math_, ArrayMath):
        math_ = numpy_namespace(**others, eigenvalues=eigenvalues)
        array = convert(math_, "eigenvalues", eigenvalues)
        if not array.shape[-1]:
            raise ValueError("eigenvalues must not be empty")
        lam = [*np.moveaxis(array, -1, 0)]
    else:
        lam = [convert(math_, "eigenvalues", item) for item in items]
    for value in lam:
        require(math_, "eigenvalues", value, *(NOT_NEGATIVE if allow_zero else POSITIVE))
    require(math_, "trace of eigenvalues", sum(lam), *POSITIVE)
    values = {name: convert(math_, name, value) for name, value in others.items()}
    for name, value in values.items():
        if name in RANGES:
            require(math_, name, value, *RANGES[name])
    check_shapes({"eigenvalues without its last axis": lam[0], **values})
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


def elementary(math_: Namespace, name: str, value: Any) -> Any:
    """Apply the function exp, expm1 or atan of the number system to a converted value."""
    if isinstance(math_, ArrayMath):
        return getattr(array_api_compat.array_namespace(value), name)(value)
    if isinstance(math_, MpMath):
        import mpmath

        return getattr(mpmath.mp, name)(value)
    import sympy

    return sympy.exp(value) - 1 if name == "expm1" else getattr(sympy, name)(value)


def cube_root(math_: Namespace, value: Any) -> Any:
    """Cube root of a positive number, in its number system."""
    return value ** (math_.convert(1) / 3)
