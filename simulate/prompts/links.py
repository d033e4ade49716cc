r"""Values of links: labels that are a function of the linear one, with flips.

The theory has the moments of the same names (`iclimit.asymptotics.pretraining.labels`); those
here, which exact test errors need, are sums over a fine grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from iclimit.links import check_link_values, link_text, parse_link
from iclimit.problem import Problem
from iclimit.scale_laws import parse_scale_law
from iclimit.simulate.arrays import Array, Generator


def _relu(xp: ModuleType, z: Array) -> Array:
    return xp.where(z > 0, z, xp.zeros_like(z))


# Links by name, as functions of a namespace and of an array.
_VALUES: dict[str, Callable[[ModuleType, Array], Array]] = {
    "identity": lambda xp, z: z,  # noqa: ARG005
    "sign": lambda xp, z: xp.sign(z),
    "relu": _relu,
    "cube": lambda xp, z: z**3,  # noqa: ARG005
    "tanh": lambda xp, z: xp.tanh(z),
    "sin": lambda xp, z: xp.sin(z),
}


def link_values(link: Any, z: Array) -> Array:
    """Values g(z) of a link.

    Raises
    ------
    TypeError
        If a function returns no real numbers.
    ValueError
        If only moments of the link are known, or a function returns another shape.
    """
    own = parse_link(link)
    if own.function is not None:
        values = own.function(z)
        check_link_values(values, z.shape)
        return array_namespace(z).asarray(values, dtype=z.dtype)
    if own.moments is not None:
        raise ValueError(
            f"link must be a name or a function here, where labels are drawn, got {link_text(own)}"
        )
    return _VALUES[own.name](array_namespace(z), own.slope * z)


# Grid of z for moments, symmetric and without 0: with jumps at 0 only they are exact to 1e-8.
_END = 12.0
_POINTS = 200_000


class LinkMoments(NamedTuple):
    """Means over a label y, its z and the scale u: z y, y^2, u y^2, y^2 z^2, y^3 z and y^4."""

    slope: float
    square: float
    across: float
    along: float
    third: float
    fourth: float


def link_moments(problem: Problem) -> LinkMoments:
    """Moments of labels with noise and flips, in the units of the library."""
    z = np.linspace(-_END, _END, _POINTS)
    weight = np.exp(-(z**2) / 2)
    weight /= np.sum(weight)
    g = link_values(problem.link, z)
    rho = problem.noise_variance
    sign = 1 - 2 * problem.flips
    square = weight @ g**2
    return LinkMoments(
        slope=sign * (weight @ (z * g)),
        square=square + rho,
        across=square + rho,
        along=weight @ (z * g) ** 2 + rho,
        third=sign * (weight @ (z * g**3) + 3 * rho * (weight @ (z * g))),
        fourth=weight @ g**4 + 6 * rho * square + 3 * rho**2,
    )


def scaled_moments(problem: Problem) -> LinkMoments:
    """The same of linear labels of inputs with scales u; z is the root of u times a normal one."""
    law = parse_scale_law(problem.scale_law)
    spread = (law.degrees - 2) / (law.degrees - 4)
    if law.points:
        spread = sum(
            chance * u**2 for u, chance in zip(law.points, law.probabilities, strict=True)
        )
    rho = problem.noise_variance
    return LinkMoments(
        slope=1.0,
        square=1 + rho,
        across=spread + rho,
        along=3 * spread + rho,
        third=3 * (spread + rho),
        fourth=3 * (spread + 2 * rho + rho**2),
    )


def linked_labels(problem: Problem, linear: Array) -> Array:
    """Labels without noise and flips, from linear ones in the units of the problem."""
    if problem.has_linear_labels:
        return linear
    unit = math.sqrt(problem.label_unit)
    return unit * link_values(problem.link, linear / unit)


def flipped_labels(problem: Problem, generator: Generator, labels: Array) -> Array:
    """The labels, of which some have the other sign."""
    if not problem.flips:
        return labels
    xp = array_namespace(labels)
    return xp.where(generator.random(labels.shape) < problem.flips, -labels, labels)
