r"""Errors of a run of finite size, task by task, for inputs with a covariance.

In the eigenbasis of the inputs' covariance the law of prompts does not change when a coordinate of
the query changes its sign, so the mean resolvent of
`iclimit.asymptotics.pretraining.task_self_energy` has one block for each row i of
:math:`\Gamma`, the one that multiplies the query's coordinate :math:`x_i`.  In whitened
coordinates the penalty on row i gives it the prior covariance :math:`P_i = \sigma_i\,
\operatorname{diag}(\sigma_1, \dots, \sigma_d, 1)`.  One feature :math:`x_i w_i` with the prior
variance s is appended to each row, and to first order in s

.. math:: M_i = (P_i^{-1} + \Sigma_i - s\, S_i S_i^\top)^{-1}, \qquad
   S_i = \sum_t p_t\, w_{ti}\, E[f_i h \mid t], \\
   e - \rho_{test} = \frac1d \sum_i \bigl[\operatorname{tr} G M_i' - 2 A_i^\top M_i S_i
   + E w_i^2\bigr], \qquad A_i = E\, h w_i .

**Self-energy.**  With :math:`x \sim N(0, 1)` and the mean block N = :math:`\frac1d \sum_i M_i`,

.. math:: \Sigma_i = \sum_t p_t\, E\Bigl[\frac{x_i^2\, h h^\top}{\lambda_s + \frac dn \cdot
   \frac1d \sum_j x_j^2\, h^\top M_j h}\Bigr], \qquad \frac1d \sum_j x_j^2\, h^\top M_j h
   \approx r\, h^\top N h ,

where r is a Gamma variable of mean 1 and variance :math:`\frac2d \overline{\beta^2}`, with the
parts :math:`\beta_j = \operatorname{tr} G M_j/\operatorname{tr} G N` of the rows in the
leverage.  The factor :math:`x_i^2` shifts the mean of r by :math:`\frac2d \beta_i`, where a factor
r shifts it by :math:`\frac2d \overline{\beta^2}`.  So :math:`\Sigma_i` is the self-energy of
isotropic inputs with the leverage times :math:`1 + \frac2d (\beta_i - \overline{\beta^2})`, to
first order in this shift.  The parts, and the variance of r, change along s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    Inputs,
    SummaryLaw,
    effective_ridge,
)
from iclimit.asymptotics.pretraining.summary_nodes import dot
from iclimit.asymptotics.pretraining.task_corrections import task_errors
from iclimit.asymptotics.pretraining.task_draws import TaskDraws
from iclimit.asymptotics.pretraining.task_self_energy import (
    STEP,
    Resolvent,
    Saturations,
    SelfEnergy,
    linear_saturations,
    positive_fixed_point,
    response_fixed_point,
    saturations,
    self_energy,
    solve,
    transposed,
)

# Change of the spread for a derivative by it.
_WIDER = 1e-4

# Draws whose rows are solved, times the fourth power of the dimension.
_SOLVED = 2e7


def row_errors(
    draws: TaskDraws, test: SummaryLaw, inputs: Inputs, train: SummaryLaw | None = None
) -> tuple[np.ndarray, float]:
    """ICL and IDG error of each draw of whitened tasks, and the estimated relative error.

    The errors are those of white inputs, at the ridge over the squared geometric mean of the
    eigenvalues, times a factor that varies little between draws and is found for the first ones.
    The corrections of the self-energy are those of white inputs.
    """
    scale = math.exp(2 * float(np.mean(np.log(inputs.values))))
    white = replace(draws, ridge=draws.ridge / scale)
    errors, uncertainty = task_errors(white, test, train)
    rows = max(1, round(_SOLVED / draws.dim**4)) * draws.tasks.shape[1]
    first = draws.head(rows)
    solved = np.mean(solve_rows(first, inputs).errors(first, test, train), axis=0)
    plain = np.mean(solve(white.head(rows)).errors(first, test, train), axis=0)
    corrected = np.mean(errors[: len(first.tasks)], axis=0)
    uncertainty += 0.5 * float(np.max(np.abs((corrected / plain - 1) * (solved / plain - 1))))
    return errors * solved / plain, min(uncertainty, 1.0)


def solve_rows(draws: TaskDraws, inputs: Inputs) -> Resolvent:
    """Solve for the mean blocks N and N' and for all :math:`M_i S_i`, of whitened tasks.

    Raises
    ------
    ArithmeticError
        If there is no positive solution in float64.
    """
    d = draws.dim
    basis = inputs.basis
    draws = _turned(draws, basis)
    second = draws.second_moment
    penalty = _penalty(draws, inputs)
    guess = _first_guess(draws, inputs, penalty)
    draws = replace(draws, spread=float(np.mean(_parts(second, guess) ** 2)))
    search = _Search.around(np.mean(guess, axis=1))

    def rows_at(N: np.ndarray, parts: np.ndarray) -> np.ndarray:
        level, tilt = _energies(draws, N)
        tilts = (parts - draws.spread)[..., None, None] * tilt.summary[:, None]
        return np.linalg.inv(penalty + level.summary[:, None] + tilts)

    def step(x: np.ndarray) -> np.ndarray:
        solved = rows_at(*search.outwards(x))
        return search.inwards(np.mean(solved, axis=1), _parts(second, solved))

    start = search.inwards(np.mean(guess, axis=1), _parts(second, guess))
    N, parts = search.outwards(positive_fixed_point(step, start))
    solution = _Solution.of(draws, second, N, parts, rows_at(N, parts))

    def response(x: np.ndarray) -> np.ndarray:
        rows = solution.rows_along(*search.outwards(x))
        return search.inwards(np.mean(rows, axis=1), solution.parts_along(rows))

    slope, _ = search.outwards(response_fixed_point(response, 0 * start))
    turn = np.eye(d + 1)
    turn[:d, :d] = basis
    return Resolvent(turn @ N @ turn.T, turn @ slope @ turn.T, turn @ solution.pushed @ basis.T)


def _turned(draws: TaskDraws, basis: np.ndarray) -> TaskDraws:
    """Tasks in the coordinates of a basis."""
    turned = replace(draws, tasks=draws.tasks @ basis)
    if draws.innovations is None:
        return turned
    return replace(turned, innovations=basis.T @ draws.innovations @ basis)


def _penalty(draws: TaskDraws, inputs: Inputs) -> np.ndarray:
    """Inverse prior covariance of each row, (d, d + 1, d + 1)."""
    spectrum = np.append(inputs.values[:, 0], 1.0)
    penalty = draws.scales[0] / (inputs.values * spectrum)  # of each row and entry, (d, d + 1)
    return penalty[..., None] * np.eye(draws.dim + 1)


def _first_guess(draws: TaskDraws, inputs: Inputs, penalty: np.ndarray) -> np.ndarray:
    """Blocks of the rows for a leverage that does not scatter."""
    second = draws.second_moment
    root = np.sqrt(np.append(inputs.values[:, 0], 1.0))
    g = np.linalg.eigvalsh(root[:, None] * second * root)
    levels = inputs.values * g[:, None, :]
    xi = effective_ridge(levels, len(second) * draws.prompts, draws.ridge)
    return np.linalg.inv(penalty + draws.scales[0] / xi * second[:, None])


@dataclass(frozen=True)
class _Search:
    """Coordinates in which the mean block and the parts of the rows are searched.

    Attributes
    ----------
    root, inverse : ndarray (b, d + 1, d + 1)
        Root of a mean block, between whose inverses other ones are near the identity.
    """

    root: np.ndarray
    inverse: np.ndarray

    @classmethod
    def around(cls, block: np.ndarray) -> _Search:
        """Coordinates in which a mean block is the identity."""
        root = np.linalg.cholesky(block)
        return cls(root, np.linalg.inv(root))

    def outwards(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Block N and parts of the rows from the coordinates of the search."""
        size = self.root.shape[-1]
        N = self.root @ x[:, :, :size] @ transposed(self.root)
        return N, x[:, : size - 1, size]

    def inwards(self, N: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """Coordinates of a block N and of parts of the rows."""
        column = np.pad(parts, ((0, 0), (0, 1)))[..., None]
        return np.concatenate([self.inverse @ N @ transposed(self.inverse), column], axis=2)


@dataclass(frozen=True)
class _Solution:
    r"""Rows at s = 0, and what their change along s follows from.

    Attributes
    ----------
    draws : TaskDraws
        Whitened tasks in the eigenbasis of the inputs, with the spread of the leverage.
    second : ndarray (b, d + 1, d + 1)
        Mean of :math:`h h^\top`.
    N, parts, rows : ndarray
        Mean block, parts of the rows and their blocks.
    tilt : SelfEnergy
        Change of the self-energy by a tilt.
    widening : ndarray (b, d + 1, d + 1)
        Its derivative by the spread.
    cross, pushed : ndarray (b, d, d + 1) and (b, d + 1, d)
        :math:`S_i` and :math:`M_i S_i`, over the root of d; the second in columns.
    """

    draws: TaskDraws
    second: np.ndarray
    N: np.ndarray
    parts: np.ndarray
    rows: np.ndarray
    tilt: SelfEnergy
    widening: np.ndarray
    cross: np.ndarray
    pushed: np.ndarray
    drift: np.ndarray
    linear: list[Saturations]

    @classmethod
    def of(
        cls,
        draws: TaskDraws,
        second: np.ndarray,
        N: np.ndarray,
        parts: np.ndarray,
        rows: np.ndarray,
    ) -> _Solution:
        """Solution with this mean block and these rows."""
        level, tilt = _energies(draws, N)
        wider = self_energy(replace(draws, spread=draws.spread + _WIDER), N).summary
        widening = (wider - level.summary) / _WIDER - tilt.summary
        cross = level.cross + (parts - draws.spread)[:, None, :] * tilt.cross
        pushed = np.einsum("biuv,bvi->bui", rows, cross)
        drift = -draws.tasks @ transposed(pushed) / math.sqrt(draws.dim)
        linear = [linear_saturations(draws, N, average) for average in _tilted(draws)]
        return cls(draws, second, N, parts, rows, tilt, widening, cross, pushed, drift, linear)

    def rows_along(self, N_slope: np.ndarray, parts_slope: np.ndarray) -> np.ndarray:
        """Change of the rows along s, with those of the mean block and of the parts."""
        dual = self.N + 1j * STEP * N_slope
        slopes = [
            part.summary.imag[:, None] / STEP
            for part in _energies(self.draws, dual, 1j * STEP, self.drift, self.linear)
        ]
        energy = slopes[0] + (self.parts - self.draws.spread)[..., None, None] * slopes[1]
        energy = energy + parts_slope[..., None, None] * self.tilt.summary[:, None]
        spread_slope = 2 * np.mean(self.parts * parts_slope, axis=1)
        energy = energy + (spread_slope[:, None, None] * self.widening)[:, None]
        return -self.rows @ (energy - np.moveaxis(self._source, -1, 1)) @ self.rows

    def parts_along(self, rows: np.ndarray) -> np.ndarray:
        """Change of the parts along s, with that of the rows."""
        change = np.einsum("buv,bivu->bi", self.second, rows) + self._appended
        mean = np.mean(np.einsum("buv,bivu->bi", self.second, self.rows), axis=1, keepdims=True)
        return (change - self.parts * np.mean(change, axis=1, keepdims=True)) / mean

    @cached_property
    def _source(self) -> np.ndarray:
        """Product of :math:`S_i` with itself, of each row in the last axis."""
        return self.draws.dim * self.cross[:, :, None] * self.cross[:, None]

    @cached_property
    def _appended(self) -> np.ndarray:
        """Change of the parts by the appended features."""
        draws = self.draws
        weighed = draws.shares[..., None] * draws.tasks
        mixed = np.sum(transposed(draws.means) @ weighed * self.pushed, axis=1)
        mixed = mixed * math.sqrt(draws.dim)
        return dot(transposed(draws.tasks), transposed(weighed)) - 2 * mixed


def _parts(second: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Parts of the rows in the mean leverage, of mean 1, (b, d)."""
    trace = np.einsum("buv,bivu->bi", second, rows)
    return trace / np.mean(trace, axis=1, keepdims=True)


def _tilted(draws: TaskDraws) -> list[Saturations]:
    """Averages over the leverage, and with the leverage times 1 + 2/d."""
    factor = 1 + 2 / draws.dim

    def tilted(
        s: complex, mean: np.ndarray, variance: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        f, g = saturations(draws, s, factor * mean, factor**2 * variance)
        return f, factor * g

    return [lambda *moments: saturations(draws, *moments), tilted]


def _energies(
    draws: TaskDraws,
    N: np.ndarray,
    s: complex = 0.0,
    drift: np.ndarray | None = None,
    averages: list[Saturations] | None = None,
) -> tuple[SelfEnergy, SelfEnergy]:
    """Self-energy without a tilt, and its change by one of 2/d."""
    at_leverage, at_larger = averages or _tilted(draws)
    plain = self_energy(draws, N, s, drift, at_leverage)
    tilted = self_energy(draws, N, s, drift, at_larger)
    return plain, SelfEnergy(*(b - a for a, b in zip(plain, tilted, strict=True)))
