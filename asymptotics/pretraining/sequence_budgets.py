r"""What a sequence is worth in prompts, the best ridge, and the sequences that an error needs.

All are for training on every position of sequences
(`iclimit.asymptotics.pretraining.all_positions`).

**Worth.**  For many sequences of fresh tasks, without a ridge, the variance of :math:`\Gamma` is
:math:`z \simeq B/\nu`, where B sums the covariances of the gradients of two positions.  With the
error :math:`e_a` and the mean square :math:`K_{aa}` of the summary at infinitely many sequences,

.. math::

   B \propto \int u^2 e_a K_{aa}\, da + 2 \iint_{a < b} u^2 K_{ab} \bigl\{(1 - c p_a)(1 - c p_b)
   + c^2 K_q(a, b) - c N_{ba} (1 - c p_a + \rho)\bigr\}\, da\, db .

Independent prompts of the same contexts have the first integral only.  So a sequence is worth as
many of them as it has queries, times the first integral over the sum.

.. page: pretraining/all-positions: Training on every position of a sequence
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from iclimit.asymptotics.checks import checked, flattened
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.pretraining.all_positions import (
    PositionsPoint,
    check_first,
    poisson_counts,
    solve_positions,
)
from iclimit.asymptotics.pretraining.phase_margins import OptimalRidge
from iclimit.checks import check_choice
from iclimit.experiment import NORMALIZATIONS
from iclimit.results import Result

# Logarithms of the ridges among which the best one is looked for.
_LOG_RIDGES = (math.log(1e-6), math.log(1e3))

# Distance of log ridge within which that of a neighbouring number of sequences is looked for.
_NEAR = 2.0

# Change of log ridge that ends the search: the error is flat at its minimum, and loses 1e-7.
_RIDGE_CHANGE = 1e-3

# Relative accuracy of the rate and the variance of Gamma in searches.
_ACCURACY = 1e-6

# Logarithms of the sequences over dimension among which those are looked for that reach an error.
_LOG_SEQUENCES = (math.log(1e-2), math.log(1e4))

# Change of log sequences from one to the next, until an error is between them.
_FACTOR = math.log(4)

# Change of log sequences that ends this search.
_SEQUENCE_CHANGE = 1e-5

# Nodes of the Gauss rules: over later positions in log a, and over the earlier ones, in which the
# integrand is a polynomial of degree 3.
_LATER = 64
_EARLIER = 4


@dataclass(frozen=True, repr=False)
class SequenceWorth(Result):
    """Prompts that a sequence is worth.

    Attributes
    ----------
    prompts : number or array
        Independent prompts with the same contexts, over dimension.
    efficiency : number or array
        The same for each query of the sequence.
    """

    prompts: Value
    efficiency: Value


def sequence_worth(
    *, alpha: Number, alpha_min: Number = 0.0, rho: Number, normalization: str = "mean"
) -> SequenceWorth:
    r"""Prompts of one query each that a sequence is worth which is trained on at every position.

    Parameters
    ----------
    alpha, alpha_min, rho, normalization
        As in `all_position_errors`.

    Returns
    -------
    SequenceWorth
        With fields ``prompts`` and ``efficiency``, broadcast.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    For many sequences of fresh tasks and small ridges: it compares the variances of
    :math:`\Gamma`.  Accurate to 1e-10.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.sequence_budgets`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import sequence_worth
    >>> worth = sequence_worth(alpha=[1, 2, 8], rho=0.1, normalization="length")
    >>> worth.efficiency.round(3), worth.prompts.round(2)
    (array([0.889, 0.745, 0.417]), array([0.89, 1.49, 3.33]))
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    _, values = checked(
        systems="numpy", ranges={"alpha": "(0, inf)"}, alpha=alpha, alpha_min=alpha_min, rho=rho
    )
    shape, points = flattened(values)
    check_first(points.alpha_min, points.alpha, normalization)
    efficiency = np.empty(points.alpha.shape)
    for place in range(efficiency.size):
        point = {name: float(array[place]) for name, array in vars(points).items()}
        efficiency[place] = _efficiency(**point, normalization=normalization)
    prompts = efficiency * (points.alpha - points.alpha_min)
    return SequenceWorth(prompts.reshape(shape)[()], efficiency.reshape(shape)[()])


def _later_places(
    alpha: float, alpha_min: float, *, in_logarithm: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss rule for integrals over the places."""
    nodes, weights = np.polynomial.legendre.leggauss(_LATER)
    shares = (1 + nodes) / 2
    if in_logarithm:
        places = alpha_min * (alpha / alpha_min) ** shares
        return places, places * math.log(alpha / alpha_min) * weights / 2
    width = alpha - alpha_min
    return alpha_min + width * shares, width * weights / 2


def _efficiency(*, alpha: float, alpha_min: float, rho: float, normalization: str) -> float:
    """First integral over the sum (module docstring)."""
    v = 1 + rho
    own = normalization == "mean"
    later, later_weights = _later_places(alpha, alpha_min, in_logarithm=own)
    inner, inner_weights = np.polynomial.legendre.leggauss(_EARLIER)
    spans = later - alpha_min
    earlier = alpha_min + np.outer(spans, (1 + inner) / 2)
    earlier_weights = np.outer(spans, inner_weights / 2)
    p = np.ones_like(later) if own else later / alpha
    p_earlier = np.ones_like(earlier) if own else earlier / alpha
    nested = 1 / later if own else np.full(later.shape, 1 / alpha)
    squares = p**2 * (1 + v / later)
    c = float(later_weights @ p) / float(later_weights @ squares)
    errors = rho + (1 - c * p) ** 2 + c**2 * p**2 * v / later
    alone = float(later_weights @ (errors * squares))
    both = p_earlier * p[:, None]
    missed = (1 - c * p_earlier) * (1 - c * p)[:, None] + c**2 * both * (v / later)[:, None]
    missed -= c * nested[:, None] * (1 - c * p_earlier + rho)
    covariances = both * (1 + v / later)[:, None] * missed
    pairs = later_weights @ np.sum(earlier_weights * covariances, axis=1)
    return alone / (alone + 2 * float(pairs))


def optimal_sequence_ridge(
    *,
    sequence_ratio: Number,
    alpha: Number,
    alpha_min: Number = 0.0,
    kappa: Number = math.inf,
    rho: Number,
    normalization: str = "mean",
    objective: str = "icl",
) -> OptimalRidge:
    """Find the ridge with the least mean error over all positions.

    Parameters
    ----------
    sequence_ratio, alpha, alpha_min, kappa, rho, normalization
        As in `all_position_errors`.
    objective : {"icl", "idg"}
        Error whose mean over the positions is minimised.

    Returns
    -------
    OptimalRidge
        With fields ``ridge`` and ``error``, broadcast.  The error is accurate to 1e-7, the ridge
        to about 1e-3, since the error is flat at its minimum.  Ridges from 1e-6 to 1000 are
        searched: an end of this range means that no ridge within it is better.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If responses are not found: arguments too extreme for float64.

    Notes
    -----
    A point takes one to two seconds with fresh tasks and ten with drawn ones.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.all_positions`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import optimal_sequence_ridge
    >>> best = optimal_sequence_ridge(
    ...     sequence_ratio=2, alpha=2, rho=0.1, normalization="length"
    ... )
    >>> round(float(best.ridge), 2), round(float(best.error), 4)
    (0.38, 0.9058)
    """
    check_choice("objective", objective, ("icl", "idg"))

    def best(point: dict[str, float]) -> tuple[float, float]:
        setting = PositionsPoint(**point, normalization=normalization)
        log_ridge, error = _best_ridge(objective, setting)
        return math.exp(log_ridge), error

    shape, ridges, errors = _each_point(
        best,
        normalization,
        sequence_ratio=sequence_ratio,
        alpha=alpha,
        alpha_min=alpha_min,
        kappa=kappa,
        rho=rho,
    )
    return OptimalRidge(ridges.reshape(shape)[()], errors.reshape(shape)[()])


def sequences_needed(
    *,
    target_error: Number,
    alpha: Number,
    alpha_min: Number = 0.0,
    kappa: Number = math.inf,
    rho: Number,
    normalization: str = "mean",
) -> Value:
    """Sequences over dimension that reach a mean error over all positions, at the best ridge.

    Parameters
    ----------
    target_error : number or array > 0
        Mean over the positions of the error on fresh tasks.
    alpha, alpha_min, kappa, rho, normalization
        As in `all_position_errors`.

    Returns
    -------
    number or array
        nu = n/d, broadcast, to 1e-4 relative; ``inf`` where 10,000 d sequences do not reach the
        error, and 0 where d/100 do.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If responses are not found: arguments too extreme for float64.

    Notes
    -----
    A point takes some five seconds with fresh tasks: the root of a search for a ridge.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.all_positions`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import sequences_needed
    >>> needed = sequences_needed(target_error=0.8, alpha=2, rho=0.1, normalization="length")
    >>> round(float(needed), 2)
    4.24
    """

    def needed(point: dict[str, float]) -> tuple[float, float]:
        wanted = point.pop("target_error")
        return _needed(wanted, PositionsPoint(**point, normalization=normalization)), wanted

    shape, ratios, _ = _each_point(
        needed,
        normalization,
        target_error=target_error,
        alpha=alpha,
        alpha_min=alpha_min,
        kappa=kappa,
        rho=rho,
    )
    return ratios.reshape(shape)[()]


def _each_point(
    function: Callable[[dict[str, float]], tuple[float, float]],
    normalization: str,
    **arguments: Any,
) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """Shape of the arguments, and two numbers for each of their points."""
    check_choice("normalization", normalization, NORMALIZATIONS)
    _, values = checked(systems="numpy", ranges={"alpha": "(0, inf)"}, **arguments)
    shape, points = flattened(values)
    check_first(points.alpha_min, points.alpha, normalization)
    found = np.empty((2, points.alpha.size))
    for place in range(points.alpha.size):
        point = {name: float(array[place]) for name, array in vars(points).items()}
        found[:, place] = function(point)
    return shape, found[0], found[1]


def _best_ridge(
    objective: str, setting: PositionsPoint, ends: tuple[float, float] = _LOG_RIDGES
) -> tuple[float, float]:
    """Log of the ridge with the least mean error, and this error."""
    means = setting.trained_means()

    def error(log_ridge: float) -> float:
        point = replace(setting, ridge=math.exp(log_ridge))
        icl, idg = solve_positions(point, poisson_counts, close=_ACCURACY).errors(
            point.rho, *means
        )
        return float(icl if objective == "icl" else idg)

    search = minimize_scalar(
        error, bounds=ends, method="bounded", options={"xatol": _RIDGE_CHANGE}
    )
    return float(search.x), float(search.fun)


class _Excess:
    """Log of the error at the best ridge over a wanted one, at log numbers of sequences.

    Each ridge is looked for near the last one first.
    """

    def __init__(self, wanted: float, setting: PositionsPoint) -> None:
        self.wanted = wanted
        self.setting = setting
        self.log_ridge: float | None = None

    def __call__(self, log_ratio: float) -> float:
        point = replace(self.setting, sequence_ratio=math.exp(log_ratio))
        ends = _LOG_RIDGES
        if self.log_ridge is not None:
            ends = (self.log_ridge - _NEAR, self.log_ridge + _NEAR)
        self.log_ridge, error = _best_ridge("icl", point, ends)
        if min(abs(self.log_ridge - end) for end in ends) < 10 * _RIDGE_CHANGE:
            self.log_ridge, error = _best_ridge("icl", point)
        return math.log(error / self.wanted)


def _needed(wanted: float, setting: PositionsPoint) -> float:
    """Sequences over dimension that reach an error at the best ridge."""
    excess = _Excess(wanted, setting)
    place = 0.0
    value = excess(place)
    move = _FACTOR if value > 0 else -_FACTOR
    while _LOG_SEQUENCES[0] <= place <= _LOG_SEQUENCES[1]:
        beyond = excess(place + move)
        if value * beyond <= 0:
            ends = sorted((place, place + move))
            return math.exp(brentq(excess, *ends, xtol=_SEQUENCE_CHANGE))
        place += move
        value = beyond
    return math.inf if value > 0 else 0.0
