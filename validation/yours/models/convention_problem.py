"""Problems in the units of a paper."""

from __future__ import annotations

import math
from typing import Any

from iclimit.problem import COORDINATE_VARIANCE, Problem
from iclimit.validation.conventions import Convention, get_convention

CHOICES = ("input_law", "scale", "task_law", "task_variance")
"""What a convention says about the prompts."""


def convention_problem(
    convention: str | Convention, *, context: int, dim: int, **settings: Any
) -> Problem:
    """Problem with inputs and tasks as in a paper.

    Parameters
    ----------
    convention : str or Convention
        Its name, such as "vonoswald2023".
    context : int >= 1
        Number of labelled pairs in a prompt.
    dim : int >= 1
        Dimension of the inputs.
    **settings
        What else `Problem` takes; a noise variance is one of labels in these units.

    Raises
    ------
    ValueError
        If the convention is unknown, or a setting is what it says.

    Examples
    --------
    >>> from iclimit.validation.yours.models.convention_problem import convention_problem
    >>> problem = convention_problem("vonoswald2023", context=10, dim=10)
    >>> problem.input_law, problem.scale
    ('uniform', 0.5)
    """
    chosen = get_convention(convention)
    for name in CHOICES:
        if name in settings:
            said = f"the convention {chosen.name} says it"
            raise ValueError(f"{name} must not be given where {said}, got {settings[name]!r}")
    units = chosen.units(context=context, dim=dim)
    deviation = math.sqrt(COORDINATE_VARIANCE[chosen.input_law])
    return Problem(
        dim=dim,
        context=context,
        **settings,
        input_law=chosen.input_law,
        scale=math.sqrt(units.value("input_variance")) / deviation,
        task_law=chosen.task_law,
        task_variance=units.value("task_variance"),
    )
