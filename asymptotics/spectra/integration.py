"""Integrals of many functions at once, each with a pole near or far from the support."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iclimit.asymptotics.spectra.charts import Chart

FEWEST, MOST = 64, 4096
"""Nodes per interval: doubled from the first number until two results agree."""

AGREEMENT, _ACCEPTED = 1e-13, 1e-8
"""Relative change of an integral at which the doubling stops, and the largest one that is
accepted at the largest number of nodes."""

FAR = -1e300
"""Stands for a pole at infinity."""

_BLOCK = 2**20
"""Numbers held at once while an array of points is integrated over."""

Rule = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Poles, shape (m,) -> nodes (m, n) and weights (m, n) or (n,)."""


def sum_over_atoms(
    kernel: Callable, flat: list[np.ndarray], positions: np.ndarray, masses: np.ndarray
) -> np.ndarray:
    """Integrals over atoms; ``flat`` holds the poles and the arguments of the kernel."""

    def rule(pole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.broadcast_to(positions, (len(pole), len(positions))), masses

    return _integrals(kernel, flat, rule, len(positions))[0]


def integrate_near(
    kernel: Callable, flat: list[np.ndarray], chart: Chart, weighted: Callable, name: object
) -> np.ndarray:
    """Integrals over the interval of a chart, with as many nodes as each pole needs.

    ``weighted`` turns nodes and weights for dx into nodes and weights of the measure.
    """

    def integrals(which: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        def rule(pole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return weighted(*chart.rule_near(pole, count))

        return _integrals(kernel, [v[which] for v in flat], rule, count)

    open_, count = np.arange(len(flat[0])), FEWEST
    latest, _ = integrals(open_, count)
    result = latest.copy()
    least = np.full(len(open_), np.inf)
    while len(open_) and count < MOST:
        count *= 2
        values, scales = integrals(open_, count)
        with np.errstate(all="ignore"):
            change = abs(values - latest) / scales
        change = np.where(scales == 0, 0.0, change)
        better = change < least[open_]
        result[open_[better]] = values[better]
        # Once 8 digits agree, a change that grows again is rounding.
        settled = (change <= AGREEMENT) | (~better & (least[open_] <= _ACCEPTED))
        least[open_] = np.minimum(change, least[open_])
        open_, latest = open_[~settled], values[~settled]
    if len(open_) and np.any(least[open_] > _ACCEPTED):
        point = flat[0][open_][np.argmax(least[open_])]
        raise ArithmeticError(
            f"float64 does not resolve the integral over {name} near {point}: "
            "it is too near to the support, or the density too rough"
        )
    return result


def _integrals(
    kernel: Callable, flat: list[np.ndarray], rule: Rule, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Integrals by the rule of each pole, and those of absolute values, in blocks of memory."""
    parts, size = [], max(1, _BLOCK // max(1, count))
    for first in range(0, len(flat[0]), size):
        pole, *rest = (v[first : first + size] for v in flat)
        x, mass = rule(pole)
        # Powers of far nodes may overflow in a denominator.
        with np.errstate(over="ignore"):
            terms = kernel(x, *(v[:, None] for v in rest)) * mass
        parts.append((terms.sum(axis=-1), abs(terms).sum(axis=-1)))
    values, scales = (np.concatenate(part) for part in zip(*parts, strict=True))
    return values, scales
