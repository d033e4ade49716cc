"""Choices of a layout that were given otherwise, and the variances that they imply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from iclimit.asymptotics.checks import real_number
from iclimit.validation.conventions import Units
from iclimit.validation.yours.weights.layouts import Layout, get_layout


def settle(
    layout: str | Layout,
    *,
    input_variance: float | None = None,
    task_variance: float | None = None,
    **changes: Any,
) -> Layout:
    """Layout by its name or as it is given, with those changes that are not None."""
    chosen = get_layout(layout, **changes)
    convention = chosen.convention
    if input_variance is not None:
        text = repr(real_number("input_variance", input_variance))
        convention = replace(convention, input_variance=text)
    if task_variance is not None:
        text = repr(real_number("task_variance", task_variance))
        convention = replace(convention, task_variance=text)
    return replace(chosen, convention=convention)


def of_sums(units: Units) -> Units:
    """The same units, with sums over the context in the summary."""
    convention = replace(units.convention, product_factor="1", square_factor="1")
    return replace(units, convention=convention)


def input_variance_of(units: Units) -> float:
    """Variance of an input coordinate: the rate of a step on sums is in its units."""
    return 1 / (units.context * float(of_sums(units).factor("rate")))


def task_variance_of(units: Units) -> float:
    """Variance of a task coordinate."""
    return float(units.factor("noise_variance")) / (input_variance_of(units) * units.dim)
