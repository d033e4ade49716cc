r"""Training on every position of a sequence: how many sequences, and which error at each position.

The setting is that of `iclimit.asymptotics.pretraining.icl`, but the loss is the mean over all
positions of n sequences: after :math:`\ell` examples comes a query, which is then the next
example.  With :math:`\nu = n/d` sequences, positions from :math:`\ell = \alpha_0 d` to
:math:`\alpha d` and a ridge :math:`\lambda` as in `icl_error`, the limit of large d is a matrix
equation of one sequence.

**Summaries.**  At the place :math:`a = \ell/d` the context summary is :math:`p_a` times the task
and noise, with :math:`p_a = 1` (mean over the examples seen) or :math:`p_a = a/\alpha` (divided by
the whole length).  The noise has the kernel :math:`K_q(a, b) = p_a p_b v/\max(a, b)`,
:math:`v = 1 + \rho`, since later contexts hold the earlier ones; :math:`K = p p^\top + K_q`, and
between sequences of one task :math:`p p^\top`.

**Responses.**  :math:`\Gamma = c I + Z`, since rotations of inputs and tasks leave the law alone.
With :math:`(S + \lambda)^{-1} \simeq g I` and :math:`\phi = g/\nu`, a task's sequences respond by

.. formula: responses

.. math:: T = \Bigl(\frac1r + \phi K\Bigr)^{-1}, \qquad
   \frac1{r_a} = \frac1{u_a} + \phi P_a, \qquad
   P_a = \frac{1}{\phi r_a^2} \Bigl(\frac{r_a - T_{aa}}{da}\Bigr), \qquad
   1 - \lambda g = \kappa\, E_m \operatorname{tr} (1 - T/r),

where u are the weights of the positions, P the posterior variance of a Gaussian process, and m
the sequences of a task: one for fresh tasks, otherwise Poisson or :math:`\nu/\kappa`.

**Nesting.**  A query is an example of later contexts, with the weight :math:`N_{ab} = 1/a` or
:math:`1/\alpha` in that of :math:`a > b`.  Its label therefore has the weight
:math:`t_b = \sum_{a > b} N_{ab} T_{ab}/r_b` in what the sequence adds.

**Errors.**  With :math:`f = p + t` and sums over all m sequences,

.. math::

   F_{yy} &= 1^\top T 1 + \rho \operatorname{tr} r, \qquad
   F_{fy} = f^\top T 1 + \rho\, t^\top r, \qquad F_K = \operatorname{tr} T K, \\
   F_{ff} &= f^\top T f + \rho \sum t^2 r + \operatorname{tr} T K_q, \\
   c &= \frac{E F_{fy}}{\nu\lambda/\kappa + E F_{ff}}, \qquad
   z = \frac{\kappa\phi^2 (D_{yy} - 2 c D_{fy} + c^2 D_{ff})}{1 - \kappa\phi^2 D_K}, \qquad
   D_x = -\frac{d E F_x}{d\phi},

with K in F_K and K_q in F_ff held.  Two numbers then give the error at every place,

.. formula: errors

.. math:: e_{ICL}(a) = \rho + (1 - c p_a)^2 + c^2 p_a^2 q_a + z p_a^2 (1 + q_a), \qquad
   q_a = v/a,

and the error on pretraining tasks has the response of their own sequences taken off (module
page).  Without a ridge the errors are infinite at :math:`\nu(\alpha - \alpha_0) = 1`.

**Numerics.**  Places are midpoints of cells, of which half the diagonal nests, on three grids
that double; the error falls as the square of the width, and two Richardson steps leave 1e-9.
Responses and :math:`\phi` are Newton's, all derivatives exact.  The mean over Poisson numbers is a
Gauss rule for the sequences that share a task with a given one, 1 + Poisson.

.. page: pretraining/all-positions: Training on every position of a sequence
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import eigh_tridiagonal

from iclimit.asymptotics.checks import checked, flattened
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.pretraining.sequence_response import (
    BlockResponse,
    Forms,
    Positions,
    Slope,
)
from iclimit.checks import check_choice, parse_array
from iclimit.experiment import NORMALIZATIONS
from iclimit.results import Result

# Cells of the coarsest grid, and the most doublings of it.
_CELLS = 12
_MOST_DOUBLINGS = 4

# Relative difference of the two best extrapolations that ends the doubling.
CLOSE = 1e-8

# Newton steps for phi; drawn settings took up to 9.
_MOST_STEPS = 100

# Relative change of phi that ends them.
_SETTLED = 1e-9

# Nodes of the Gauss rule for Poisson numbers: the errors are within 1e-7.
_NODES = 7

# Distance of the positions over parameters from 1 that counts as the ridgeless peak.
_PEAK = 1e-9


# Weights of positions, as a function of context lengths over dimension.
Weights: TypeAlias = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, repr=False)
class AllPositionErrors(Result):
    r"""Errors of linear attention that is trained on every position of sequences.

    Attributes
    ----------
    icl : number or array
        Squared error on a noisy query label for fresh tasks, at the tested context length.
    idg : number or array
        The same for new sequences of the pretraining tasks.
    mean_icl, mean_idg : number or array
        Their means over the positions that are trained on.
    training : number or array
        Mean squared error on the training sequences, without the penalty.
    rate : number or array
        c: what a summary is multiplied by on average.
    variance : number or array
        z: squared norm of the rest of :math:`\Gamma`, over d.
    response : number or array
        g: mean response of :math:`\Gamma` to its gradient.
    """

    icl: Value
    idg: Value
    mean_icl: Value
    mean_idg: Value
    training: Value
    rate: Value
    variance: Value
    response: Value


def all_position_errors(
    *,
    sequence_ratio: Number,
    alpha: Number,
    alpha_min: Number = 0.0,
    kappa: Number = math.inf,
    rho: Number,
    ridge: Number = 0.0,
    normalization: str = "mean",
    test_alpha: Number | None = None,
    weights: Weights | None = None,
) -> AllPositionErrors:
    r"""Errors after training on every position of n = nu d sequences, in the limit of large d.

    Parameters
    ----------
    sequence_ratio : number or array > 0
        :math:`\nu = n/d`: sequences over dimension.
    alpha : number or array > 0
        Context length at the last position over dimension.
    alpha_min : number or array >= 0
        The same at the first position of the loss, below ``alpha``; above 0 with the
        normalization "mean", whose errors have no limit otherwise.
    kappa : number or array > 0
        Pretraining tasks over dimension, of which each sequence draws one; ``inf``: fresh tasks.
    rho : number or array >= 0
        Variance of the label noise.
    ridge : number or array >= 0
        Ridge in the units of `icl_error`, for a loss that is the mean over sequences and
        positions.  0 is the limit of small ridges.
    normalization : {"mean", "length"}
        Divisor of the context summaries: the examples seen so far, or the whole length.
    test_alpha : number or array > 0, optional
        Context length of the tests over dimension, any; by default ``alpha``.
    weights : callable, optional
        Weights > 0 of the positions in the loss, up to a factor: a smooth function of an array of
        context lengths over dimension.  Equal ones by default.  Means over the positions
        (``mean_icl``, ``mean_idg``) are not weighted, ``training`` is.

    Returns
    -------
    AllPositionErrors
        With fields ``icl``, ``idg``, ``mean_icl``, ``mean_idg``, ``training``, ``rate``,
        ``variance`` and ``response``, broadcast.  Without a ridge the errors are ``inf`` at
        :math:`\nu (\alpha - \alpha_{min}) = 1`.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If responses are not found: arguments too extreme for float64.

    See Also
    --------
    balanced_position_errors : With the same number of sequences for every task.

    Notes
    -----
    Relative errors are below 1e-7; near the peak, at ridges below 1e-5, they are below 1e-5.  A
    point takes 50 ms with fresh tasks and 0.4 s with drawn ones; further test lengths are free.
    With as many tasks as sequences, balanced, ``idg`` is the error on a new sequence of a task
    that was seen once.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.all_positions`; trained so: Garg et al.,
    arXiv:2208.01066.  A search of the literature did not find this limit.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import all_position_errors
    >>> few = all_position_errors(
    ...     sequence_ratio=[1, 4, 16], alpha=2, rho=0.1, ridge=0.3, normalization="length"
    ... )
    >>> few.mean_icl.round(4), few.icl.round(4)
    (array([1.0507, 0.8194, 0.7541]), array([1.1404, 0.6483, 0.5108]))
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    return _errors(
        normalization,
        poisson_counts,
        _checked_weights(weights),
        sequence_ratio=sequence_ratio,
        alpha=alpha,
        alpha_min=alpha_min,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
    )


def balanced_position_errors(
    *,
    sequence_ratio: Number,
    alpha: Number,
    alpha_min: Number = 0.0,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    normalization: str = "mean",
    test_alpha: Number | None = None,
    weights: Weights | None = None,
) -> AllPositionErrors:
    r"""Errors as of `all_position_errors`, where all tasks have the same number of sequences.

    Parameters
    ----------
    sequence_ratio, alpha, alpha_min, kappa, rho, ridge, normalization, test_alpha, weights
        As in `all_position_errors`.  Where nu/kappa is no integer, numbers of sequences differ
        by one; where it is below 1, a share of the tasks has no sequence.

    Returns
    -------
    AllPositionErrors
        With fields ``icl``, ``idg``, ``mean_icl``, ``mean_idg``, ``training``, ``rate``,
        ``variance`` and ``response``, broadcast.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If responses are not found: arguments too extreme for float64.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.all_positions`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import balanced_position_errors
    >>> errors = balanced_position_errors(
    ...     sequence_ratio=4, alpha=2, alpha_min=0.5, kappa=2, rho=0.1, ridge=0.1
    ... )
    >>> errors.icl.round(6), errors.idg.round(6)
    (np.float64(0.713632), np.float64(0.544301))
    """
    check_choice("normalization", normalization, NORMALIZATIONS)
    return _errors(
        normalization,
        balanced_counts,
        _checked_weights(weights),
        sequence_ratio=sequence_ratio,
        alpha=alpha,
        alpha_min=alpha_min,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
    )


def _checked_weights(weights: object) -> Weights | None:
    """Weights of positions; a TypeError unless they are a function or left out."""
    if weights is None or callable(weights):
        return weights
    raise TypeError(
        "weights must be a function of context lengths over dimension, such as lambda a: a, got "
        f"{weights!r}; those of AllPositions are of integers"
    )


# Numbers of sequences of a task from nu and kappa, each with the density of these tasks over d.
Counts = Callable[[float, float], list[tuple[float, float]]]


def poisson_counts(sequence_ratio: float, kappa: float) -> list[tuple[float, float]]:
    """Gauss rule for sequences that draw their tasks."""
    if math.isinf(kappa):
        return [(1.0, sequence_ratio)]
    mean = sequence_ratio / kappa
    orders = np.arange(_NODES)
    # Recurrence of the Charlier polynomials.
    others, vectors = eigh_tridiagonal(orders + mean, np.sqrt(mean * orders[1:]))
    counts = 1 + others
    densities = sequence_ratio * vectors[0] ** 2 / counts
    return list(zip(counts.tolist(), densities.tolist(), strict=True))


def balanced_counts(sequence_ratio: float, kappa: float) -> list[tuple[float, float]]:
    """Two neighbouring integers."""
    if math.isinf(kappa):
        return [(1.0, sequence_ratio)]
    mean = sequence_ratio / kappa
    lower = math.floor(mean)
    upper_share = mean - lower
    counts = [(lower, kappa * (1 - upper_share)), (lower + 1, kappa * upper_share)]
    return [(float(count), density) for count, density in counts if count and density > 0]


@dataclass(frozen=True)
class PositionsPoint:
    """A point of the limit, as single numbers."""

    alpha: float
    alpha_min: float
    kappa: float
    rho: float
    normalization: str
    sequence_ratio: float = 1.0
    ridge: float = 0.0

    def trained_means(self) -> tuple[float, float, float]:
        """Means of p, p^2 and p^2 q over the positions that are trained on."""
        first = self.alpha_min
        last = self.alpha
        v = 1 + self.rho
        if self.normalization == "mean":
            return 1.0, 1.0, v * math.log(last / first) / (last - first)
        mean = (last + first) / (2 * last)
        return mean, (last**2 + last * first + first**2) / (3 * last**2), v * mean / last

    def grid(self, cells: int) -> Positions:
        """Midpoints of cells: equal ones in log a for means, otherwise in a."""
        alpha = self.alpha
        alpha_min = self.alpha_min
        middles = (np.arange(cells) + 0.5) / cells
        if self.normalization == "mean":
            ratio = alpha / alpha_min
            places = alpha_min * ratio**middles
            widths = 2 * places * math.sinh(math.log(ratio) / (2 * cells))
            factors = np.ones(cells)
            shares = 1 / places
        else:
            places = alpha_min + (alpha - alpha_min) * middles
            widths = np.full(cells, (alpha - alpha_min) / cells)
            factors = places / alpha
            shares = np.full(cells, 1 / alpha)
        nesting = np.tril(np.repeat(shares[:, None], cells, axis=1), -1) + np.diag(shares / 2)
        weights = widths / (alpha - alpha_min)
        return Positions(places, widths, weights, factors, (1 + self.rho) / places, nesting)


@dataclass(frozen=True)
class Solution:
    """Numbers that give the error at every position."""

    rate: float
    variance: float
    response: float
    own_linear: float
    own_variance: float
    own_square: float
    training: float

    def errors(
        self, rho: Value, factor: Value, square: Value, noise: Value
    ) -> tuple[Value, Value]:
        """ICL and IDG error from means of p, p^2 and p^2 q over the tested positions."""
        c = self.rate
        z = self.variance
        icl = rho + 1 - 2 * c * factor + c**2 * (square + noise) + z * (square + noise)
        if math.isinf(z):
            return icl, icl
        own = (factor - c * square) * self.own_linear + z * square * self.own_variance
        return icl, icl - 2 * own + square * self.own_square


def _errors(
    normalization: str, counts: Counts, weights: Weights | None, **arguments: Any
) -> AllPositionErrors:
    """Errors of every point of the arguments."""
    _, values = checked(
        systems="numpy",
        ranges={"alpha": "(0, inf)", "test_alpha": "(0, inf)"},
        optional=("test_alpha",),
        **arguments,
    )
    if values.test_alpha is None:
        values.test_alpha = values.alpha
    shape, points = flattened(values)
    check_first(points.alpha_min, points.alpha, normalization)
    found = np.empty((len(fields(AllPositionErrors)), points.alpha.size))
    for place in range(points.alpha.size):
        point = {name: float(array[place]) for name, array in vars(points).items()}
        test_alpha = point.pop("test_alpha")
        setting = PositionsPoint(**point, normalization=normalization)
        solution = solve_positions(setting, counts, weights)
        found[:, place] = _fields(solution, setting, test_alpha)
    return AllPositionErrors(*(field.reshape(shape)[()] for field in found))


def check_first(alpha_min: np.ndarray, alpha: np.ndarray, normalization: str) -> None:
    """Raise a ValueError for a first position that is not before the last one, or at 0."""
    wrong = alpha_min >= alpha
    if np.any(wrong):
        raise ValueError(
            f"alpha_min must be below alpha, got {alpha_min[wrong][0]:g} at alpha = "
            f"{alpha[wrong][0]:g}"
        )
    if normalization == "mean" and not np.all(alpha_min):
        raise ValueError(
            "alpha_min must be > 0 with the normalization 'mean', got 0: the first means are all "
            "noise, and the best rate falls to 0 as 1/log d; did you mean normalization='length'?"
        )


def _fields(solution: Solution, point: PositionsPoint, test_alpha: float) -> tuple[Value, ...]:
    """Fields of the result at a point."""
    rho = point.rho
    factor = 1.0 if point.normalization == "mean" else test_alpha / point.alpha
    tested = solution.errors(rho, factor, factor**2, factor**2 * (1 + rho) / test_alpha)
    averaged = solution.errors(rho, *point.trained_means())
    numbers = (solution.training, solution.rate, solution.variance, solution.response)
    return (*tested, *averaged, *numbers)


@lru_cache(maxsize=4096)
def solve_positions(
    setting: PositionsPoint, counts: Counts, weights: Weights | None = None, close: float = CLOSE
) -> Solution:
    """Solve for the numbers of all positions, on grids that double until they agree.

    ``close`` is the relative difference of the two best extrapolations that ends the doubling.
    """
    kappa = setting.kappa
    blocks = counts(setting.sequence_ratio, kappa)
    point = None
    table: list[list[np.ndarray]] = []
    for doubling in range(_MOST_DOUBLINGS + 1):
        positions = setting.grid(_CELLS * 2**doubling)
        if weights is not None:
            positions = replace(positions, weight=_shares(positions, weights))
        system = System(positions, setting.rho, setting.ridge, setting.sequence_ratio, blocks)
        point = system.solve(point)
        row = _extrapolated(system.numbers(point, kappa), table)
        if math.isinf(row[0][1]):
            break
        table.append(row)
        if doubling > 1 and _agree(row, table[-2], close):
            break
    return _solution(system, row[-1])


def _solution(system: System, numbers: np.ndarray) -> Solution:
    """Numbers of all positions; infinite ones where there is no ridge."""
    rate, variance, phi, *others = numbers.tolist()
    if system.at_peak:
        variance = math.inf
    response = math.inf if system.interpolates else system.sequence_ratio * phi
    return Solution(rate, variance, response, *others)


def _agree(row: list[np.ndarray], coarser: list[np.ndarray], close: float) -> bool:
    """Whether the best numbers of two grids agree: rate and variance, which enter every error."""
    change = np.abs(row[-1] - coarser[-1])[:2]
    return bool(np.all(change <= close * np.abs(row[-1][:2])))


def _extrapolated(numbers: np.ndarray, table: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Numbers of a grid and their Richardson extrapolations, the best one last."""
    row = [numbers]
    if table and np.all(np.isfinite(numbers)):
        for order, coarser in enumerate(table[-1], start=1):
            row.append(row[-1] + (row[-1] - coarser) / (4**order - 1))
    return row


def _shares(positions: Positions, weights: Weights) -> np.ndarray:
    """Shares of the loss of the cells of a grid, for weights that are a function.

    Raises
    ------
    ValueError
        If they are no finite numbers > 0, one for each position.
    """
    values = parse_array("weights", weights(positions.place.copy()), positions.place.shape)
    if np.any(values <= 0):
        raise ValueError(f"weights must be > 0, got {values[values <= 0][0]:g}")
    shares = positions.width * values
    return shares / np.sum(shares)


@dataclass(frozen=True)
class SolvedPoint:
    """phi with the responses of all blocks."""

    phi: float
    responses: list[BlockResponse]


@dataclass(frozen=True)
class System:
    """Equations for given positions; ``extra`` are parameters beyond those of h over d^2."""

    positions: Positions
    rho: float
    ridge: float
    sequence_ratio: float
    blocks: list[tuple[float, float]]
    extra: float = 0.0

    @property
    def queries(self) -> float:
        """Queries over parameters."""
        return self.sequence_ratio * float(np.sum(self.positions.width))

    @property
    def at_peak(self) -> bool:
        """Whether there is no ridge, and as many queries as parameters."""
        return self.ridge == 0 and abs(self.queries - 1) < _PEAK

    @property
    def interpolates(self) -> bool:
        """Whether there is no ridge, and no more queries than parameters."""
        return self.ridge == 0 and self.queries < 1 + _PEAK

    def respond(self, phi: float, starts: Sequence[np.ndarray | None]) -> SolvedPoint:
        """Responses of all blocks at phi."""
        return SolvedPoint(
            phi,
            [
                BlockResponse.of(
                    self.positions,
                    self.rho,
                    count,
                    phi,
                    interpolating=self.interpolates,
                    start=start,
                )
                for (count, _), start in zip(self.blocks, starts, strict=True)
            ],
        )

    def solve(self, coarser: SolvedPoint | None) -> SolvedPoint:
        """Phi and responses, from those on a coarser grid."""
        starts: list[np.ndarray | None] = [None] * len(self.blocks)
        if coarser is not None:
            starts = [_refined(response, self.positions) for response in coarser.responses]
        if self.interpolates:
            # Responses scale with phi, and errors do not depend on it.
            return self.respond(1.0, starts)
        lower, upper = self._bracket()
        phi = _within(math.nan if coarser is None else coarser.phi, lower, upper)
        for _ in range(_MOST_STEPS):
            point = self.respond(phi, starts)
            slopes = [response.slope() for response in point.responses]
            excess, growth = self._excess(point, slopes)
            step = -excess / (growth * phi)
            if abs(step) < _SETTLED:
                return point
            lower, upper = (lower, phi) if excess > 0 else (phi, upper)
            phi = _within(phi * math.exp(min(step, 2.0)), lower, upper)
            starts = [
                response.reciprocals + slope.reciprocals * (phi - point.phi)
                for response, slope in zip(point.responses, slopes, strict=True)
            ]
        raise ArithmeticError(
            f"the response was not found in {_MOST_STEPS} steps: arguments too extreme for float64"
        )

    def _bracket(self) -> tuple[float, float]:
        """Numbers between which phi is; infinite above without a ridge."""
        nu = self.sequence_ratio
        lower = 1 / (nu * (self.ridge + self.positions.mean_prior))
        return lower, (1 + self.extra) / (nu * self.ridge) if self.ridge else math.inf

    def _excess(self, point: SolvedPoint, slopes: list[Slope]) -> tuple[float, float]:
        """Determined and penalised parameters beyond all of them, and the derivative by phi."""
        excess = self.ridge * self.sequence_ratio * point.phi - 1 - self.extra
        growth = self.ridge * self.sequence_ratio
        for (_, density), response, slope in zip(
            self.blocks, point.responses, slopes, strict=True
        ):
            excess += density * response.freedom
            growth += density * response.freedom_slope(slope)
        return excess, growth

    def numbers(self, point: SolvedPoint, kappa: float) -> np.ndarray:
        """Numbers of `Solution` on this grid, at the solved responses."""
        phi = point.phi
        nu = self.sequence_ratio
        # nu ridge, which is (1 - queries)/phi in the limit of small ridges.
        penalty = max(0.0, 1 - self.queries) / phi if self.interpolates else nu * self.ridge
        forms = self.sum([response.forms() for response in point.responses])
        slopes = self.sum([response.form_slopes(response.slope()) for response in point.responses])
        c = forms.mixed / (penalty + forms.features)
        if self.at_peak:
            # The variance is infinite, and the rate is not.
            return np.array([c, 0.0, phi, 0.0, 0.0, 0.0, 0.0])
        z = variance_of(slopes.misfit(c), slopes.trace, phi)
        task_slopes = self.sum(
            [response.form_slopes(response.task_slope()) for response in point.responses]
        )
        products = np.zeros(3)
        for (_, density), response in zip(self.blocks, point.responses, strict=True):
            products += density * response.task_products()
        own_linear = products[0] - c * products[1]
        own_square = -task_slopes.misfit(c) - z * task_slopes.trace
        own = phi / kappa * np.array([own_linear, products[2], own_square])
        training = (forms.misfit(c) + z * forms.trace - z / phi) / nu
        return np.array([c, z, phi, *own, 0.0 if self.interpolates else training])

    def sum(self, forms: list[Forms]) -> Forms:
        """Forms summed over the tasks, over d."""
        total = {
            field.name: sum(
                density * getattr(form, field.name)
                for (_, density), form in zip(self.blocks, forms, strict=True)
            )
            for field in fields(Forms)
        }
        return Forms(**total)


def variance_of(misfit_slope: float, trace_slope: float, phi: float) -> float:
    """Variance z from derivatives of the forms by phi; inf where noise would feed itself."""
    spare = 1 + phi**2 * trace_slope
    return -(phi**2) * misfit_slope / spare if spare > 0 else math.inf


def _refined(response: BlockResponse, positions: Positions) -> np.ndarray:
    """Responses on a finer grid, from those on a coarser one or on the same."""
    coarse = response.positions
    scaled = np.interp(positions.place, coarse.place, response.reciprocals * coarse.width)
    return scaled / positions.width


def _within(value: float, lower: float, upper: float) -> float:
    """Number in an open bracket: the given one, or its middle."""
    if lower < value < upper:
        return value
    return math.sqrt(lower * upper) if math.isfinite(upper) else 2 * lower
