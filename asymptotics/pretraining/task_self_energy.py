r"""Errors of a run of finite size, task by task, given the numbers of prompts of each task.

The prompts of a run are divided among k training tasks at random.  Their numbers :math:`n_t` have
a relative variance k/n, and all prompts of a task share its deviation, so it is not averaged out
as other fluctuations are.  Ridgeless below the interpolation threshold it raises the errors by up
to 30 % at d = 16.  This module therefore treats each task by itself, given
:math:`p_t = n_t/n`; the errors are then averaged over task sets and multinomial numbers.

**The errors as a derivative.**  Let :math:`\bar h = (h, w/\sqrt d)` be the context summary with
its task appended, and R(s) the resolvent of ridge regression on the features :math:`x_q \otimes
\bar h` with the ridge :math:`\lambda_s = \lambda + s\rho d/n`, where the appended features have
the prior variance s instead of 1.  For inputs of an isotropic law

.. math:: e - \rho_{test} = \frac{d}{ds} \operatorname{tr}[\bar G N(s)]_{s=0}, \qquad
   N(s) = \bigl(S^{-1} + \Sigma\bigr)^{-1}, \qquad S = \operatorname{diag}(1_{d+1}, s 1_d),

exactly, where N is :math:`\lambda_s` times the mean of R over data and over the d directions of
the query (which defines the self-energy :math:`\Sigma`), and :math:`\bar G = E\,\bar h \bar
h^\top` belongs to the test law.  Bias, misfit and variance all follow from the mean resolvent.  To
first order in s, with :math:`M = N_{aa}` the block of the summary,

.. math:: M = (1 + \Sigma_{aa} - s\,\Sigma_{ab}\Sigma_{ba})^{-1}, \qquad
   N_{ab} = -s M \Sigma_{ab}, \qquad N_{bb} = s, \\
   e - \rho_{test} = \operatorname{tr} G_{aa} M' - 2 \operatorname{tr} G_{ab}^\top M \Sigma_{ab}
   + \operatorname{tr} G_{bb} .

**Self-energy.**  With :math:`r = |x_q|^2` and the leverage :math:`q = \bar h^\top N \bar h`,

.. math:: \Sigma = \sum_t p_t\, E\Bigl[\frac{r\,\bar h \bar h^\top}{\lambda_s + \frac dn r q}
   \Bigm| t\Bigr] .

Given the task and the labels of the context, :math:`\bar h` has the mean
:math:`m = (c w, \eta, w/\sqrt d)`, and the covariance S on its first d components (module
`iclimit.asymptotics.pretraining.summary_nodes`).  Then q is taken as a Gamma variable of its exact
mean and variance, and its correlation with the direction of :math:`\bar h` enters linearly:

.. math:: E[\bar h \bar h^\top f(q)] = (m m^\top + S)\,E f
   + D\,\frac{E[(q - Eq) f]}{\operatorname{Var} q}, \\
   D = 2 S N S + 2 (m m^\top N S + S N m m^\top), \qquad
   \operatorname{Var} q = \operatorname{tr} N D .

**Solution.**  The fixed point is real at s = 0.  The derivative M' then solves a linear fixed
point, whose map is the derivative of the same code along a complex step of 1e-20; the averages
over q enter it with their derivatives, which are found once.  Both are accelerated, for all draws
at once, in the coordinates in which the solution without fluctuations is the identity.  M and s
are scaled by :math:`\lambda` where that makes a vanishing ridge regular.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    SummaryLaw,
    effective_ridge,
    gamma_rule,
    task_set_law,
)
from iclimit.asymptotics.pretraining.summary_nodes import Form, Nodes, dot, quadratic_form
from iclimit.asymptotics.pretraining.task_draws import NODES, TaskDraws
from iclimit.asymptotics.searches import fixed_points

# Complex step: its square vanishes against the real parts, so derivatives are exact.
STEP = 1e-20

# Levels of the continued fraction.
_LEVELS = 6

# Of the fixed points; 8 to 25 steps are usual.
_TOLERANCE = 1e-6
_LIMIT = 100
_SLOW = 1000

# E f and E[(q - Eq) f]/Var q, given s and the mean and variance of q.
Saturations = Callable[[complex, np.ndarray, np.ndarray], tuple[np.ndarray, ...]]


class SelfEnergy(NamedTuple):
    """Blocks of Sigma: (b, d + 1, d + 1) and (b, d + 1, d)."""

    summary: np.ndarray
    cross: np.ndarray


class Correction(NamedTuple):
    r"""Correction of the self-energy.

    Attributes
    ----------
    value : SelfEnergy
        At s = 0.
    slope : ndarray (b, d + 1, d + 1)
        Derivative of its first block with s.
    radius : ndarray (b,)
        Spectral radius of :math:`T \operatorname{diag}(p O^2 d/n)`, 1 at a threshold.
    """

    value: SelfEnergy
    slope: np.ndarray
    radius: np.ndarray

    def of(self, chosen: np.ndarray) -> Correction:
        """That of some of the draws."""
        value = SelfEnergy(*(x[chosen] for x in self.value))
        return Correction(value, self.slope[chosen], self.radius[chosen])

    def times(self, part: float) -> Correction:
        """A part of it."""
        value = SelfEnergy(*(part * x for x in self.value))
        return Correction(value, part * self.slope, self.radius)


_NONE = Correction(SelfEnergy(np.zeros(()), np.zeros(())), np.zeros(()), np.zeros(()))


class Resolvent(NamedTuple):
    """M, M' and M Sigma_ab of a batch."""

    value: np.ndarray
    slope: np.ndarray
    cross: np.ndarray

    def errors(
        self, draws: TaskDraws, test: SummaryLaw, train: SummaryLaw | None = None
    ) -> np.ndarray:
        """Error on the test law, and on the training law, (b, 2).

        The latter is by default that of the training tasks with equal weights.
        """
        variances = []
        for i, tasks in enumerate(draws.tasks):
            own = task_set_law(tasks, draws.context, draws.rho, draws.timed, draws.innovations)
            for law in (test, train or own):
                linear = np.vdot(law.cross, self.cross[i]) / math.sqrt(draws.dim)
                variances.append(law.label + np.vdot(law.second, self.slope[i]) - 2 * linear)
        return np.reshape(variances, (-1, 2))


def solve(
    draws: TaskDraws, correction: Correction = _NONE, near: Resolvent | None = None
) -> Resolvent:
    """Solve for M and M', with the self-energy or with a correction added to it.

    The iterations start near another solution, if there is one.

    Raises
    ------
    ArithmeticError
        If there is no positive solution in float64.
    """
    root = np.linalg.cholesky(_start(draws))
    inverse = np.linalg.inv(root)
    bare = draws.scales[0] * np.eye(draws.dim + 1)

    def outwards(x: np.ndarray) -> np.ndarray:
        return root @ x @ transposed(root)

    def inwards(x: np.ndarray) -> np.ndarray:
        return inverse @ x @ transposed(inverse)

    def step(x: np.ndarray) -> np.ndarray:
        Sigma = self_energy(draws, outwards(x)).summary + correction.value.summary
        return inwards(np.linalg.inv(bare + Sigma))

    start = np.broadcast_to(np.eye(len(bare)), root.shape) if near is None else inwards(near.value)
    M = outwards(positive_fixed_point(step, start))
    cross = self_energy(draws, M).cross + correction.value.cross
    averages = linear_saturations(draws, M)
    source = correction.slope - cross @ transposed(cross)
    drift = appended_drift(draws, M, cross)

    def response(x: np.ndarray) -> np.ndarray:
        dual = M + 1j * STEP * outwards(x)
        slope = self_energy(draws, dual, 1j * STEP, drift, averages).summary.imag / STEP
        return inwards(-M @ (slope + source) @ M)

    slope = response_fixed_point(response, 0 * M if near is None else inwards(near.slope))
    return Resolvent(M, outwards(slope), M @ cross)


def response_fixed_point(
    response: Callable[[np.ndarray], np.ndarray], start: np.ndarray
) -> np.ndarray:
    """Fixed point of the map of a derivative along s."""
    slope, solved = fixed_points(response, start, tolerance=_TOLERANCE, limit=_LIMIT)
    if not solved:
        raise ArithmeticError("the response of the self-energy did not converge")
    return slope


def positive_fixed_point(
    step: Callable[[np.ndarray], np.ndarray], start: np.ndarray
) -> np.ndarray:
    """Fixed point whose first square block has positive eigenvalues."""

    def positive(x: np.ndarray) -> np.ndarray:
        return np.linalg.eigvalsh(x[:, :, : x.shape[1]])[:, 0] > 0

    x, solved = fixed_points(step, start, tolerance=_TOLERANCE, limit=_LIMIT)
    if not (solved and _all_positive(x)):  # diverged, or another root: watch every step
        x, solved = fixed_points(step, start, tolerance=_TOLERANCE, limit=_SLOW, allowed=positive)
    if not (solved and _all_positive(x)):
        raise ArithmeticError("the self-energy has no positive solution in float64")
    return x


def _all_positive(x: np.ndarray) -> bool:
    """Whether all matrices are positive definite, at a tenth of the cost of eigenvalues."""
    try:
        np.linalg.cholesky(x[:, :, : x.shape[1]])
    except np.linalg.LinAlgError:
        return False
    return True


def _start(draws: TaskDraws) -> np.ndarray:
    """Resolvent without fluctuations, for the mean effective ridge of the draws."""
    d = draws.dim
    G = draws.second_moment
    samples = draws.prompts / draws.dim
    xi = effective_ridge(np.linalg.eigvalsh(G), len(G) * samples, draws.ridge)
    scale = draws.scales[0]
    strength = scale / xi if xi > 0 else 1 - (d + 1) / samples
    return np.linalg.inv(strength * G + scale * np.eye(d + 1))


class Leverage(NamedTuple):
    r"""Leverage q given the numbers of a context.

    Attributes
    ----------
    mean, variance : ndarray (nodes, b, k)
        Of q at the nodes.
    form : Form
        The quadratic form without its s-terms.
    added : ndarray (b, k, d)
        First d entries of s times the drift.
    """

    mean: np.ndarray
    variance: np.ndarray
    form: Form
    added: np.ndarray


def leverage(draws: TaskDraws, M: np.ndarray, s: complex, drift: np.ndarray | None) -> Leverage:
    """Leverage at the nodes of the contexts."""
    d = draws.dim
    W = draws.tasks
    nodes = draws.nodes
    form = quadratic_form(W, nodes, M, draws.innovations)
    if drift is None:
        return Leverage(form.mean, form.variance, form, np.zeros_like(W[..., :1]))
    c = nodes.signal
    noise = nodes.noise
    along = nodes.along
    eta = nodes.tail
    added = s * drift[..., :d]
    own = dot(W, added)
    mean = form.mean + 2 * (c * own + s * eta * drift[..., d]) + s * dot(W, W) / d
    crossed = noise * (c * dot(form.pushed, added) + eta * dot(form.tail, added))
    crossed = crossed - along * (c * form.once + eta * form.across) * own
    if draws.innovations is not None:
        turned = added @ draws.innovations
        crossed = crossed + nodes.drifted * (
            c * dot(form.pushed, turned) + eta * dot(form.tail, turned)
        )
    return Leverage(mean, form.variance + 8 * crossed, form, added)


class _Parts(NamedTuple):
    """Parts of the self-energy, summed over nodes.

    Attributes
    ----------
    beside, column, crossed : ndarray (b, k, d)
        Vectors that go with w, with the last row, and with the appended task.
    matrix : ndarray (b, d, d)
        What all tasks share.
    """

    beside: np.ndarray
    column: np.ndarray
    crossed: np.ndarray
    matrix: np.ndarray


def self_energy(
    draws: TaskDraws,
    M: np.ndarray,
    s: complex = 0.0,
    drift: np.ndarray | None = None,
    averages: Saturations | None = None,
) -> SelfEnergy:
    r"""Self-energy given M and :math:`N_{ab}w/\sqrt d`, which is s times the drift.

    The cross block is the one at s = 0.  The averages over q may be given as a function.
    """
    d = draws.dim
    W = draws.tasks
    c = draws.nodes.signal
    along = draws.nodes.along
    eta = draws.nodes.tail
    q = leverage(draws, M, s, drift)
    f, g = (averages or partial(saturations, draws))(s, q.mean, q.variance)
    share = draws.nodes.weight[:, None, None] * draws.shares
    f = share * f
    g = 2 * share * g

    # Mean of m m^T f + S f + D g; y = M m.  First what goes with vectors, then along w.
    parts = _noise_parts(draws.nodes, q, M[:, :d, :d], f, g)
    if draws.innovations is not None:
        drifted = _drift_parts(draws.nodes, q, M[:, :d, :d], f, g, draws.innovations)
        parts = _Parts(*(x + y for x, y in zip(parts, drifted, strict=True)))
    onto = c * q.form.once + eta * q.form.across  # w'y without its s-terms
    crossed = parts.crossed + _summed(f * c - g * along * onto) * W
    crossed = np.concatenate([crossed, _summed(f * eta)], axis=-1)
    if drift is not None:
        onto = onto + dot(W, q.added)
    own = f * (c**2 - along) + g * along * (along * q.form.once - 2 * c * onto)
    column = parts.column + _summed(f * c * eta - g * along * eta * onto) * W

    turned = transposed(parts.beside) @ W
    Sigma = np.empty((len(W), d + 1, d + 1), dtype=np.result_type(f, turned))
    Sigma[:, :d, :d] = gram(W, np.sum(own, axis=0)) + turned + transposed(turned) + parts.matrix
    mixed = np.sum(column, axis=1)
    Sigma[:, :d, d] = mixed
    Sigma[:, d, :d] = mixed
    Sigma[:, d, d] = np.sum(f * eta**2, axis=(0, 2))
    cross = transposed(crossed) @ W / math.sqrt(d)
    return SelfEnergy(draws.averaged(Sigma), draws.averaged(cross))


def _noise_parts(
    nodes: Nodes, q: Leverage, head: np.ndarray, f: np.ndarray, g: np.ndarray
) -> _Parts:
    """What the noise Q of the summaries adds."""
    gQ = g * nodes.noise
    c = nodes.signal
    eta = nodes.tail
    return _Parts(
        beside=_pushed(nodes, q, gQ * c) - _summed(gQ * nodes.along) * q.form.pushed,
        column=_pushed(nodes, q, gQ * eta),
        crossed=_pushed(nodes, q, gQ, appended=False),
        matrix=_shared(gQ * nodes.noise) * head + _shared(f * nodes.noise) * np.eye(len(head[0])),
    )


def _drift_parts(
    nodes: Nodes,
    q: Leverage,
    head: np.ndarray,
    f: np.ndarray,
    g: np.ndarray,
    innovations: np.ndarray,
) -> _Parts:
    """What the noise V B of drift adds, that its products with Q included."""
    gV = g * nodes.drifted
    turned = _shared(gV * nodes.noise) * (head @ innovations)
    matrix = turned + transposed(turned) + _shared(f * nodes.drifted) * innovations
    matrix = matrix + _shared(gV * nodes.drifted) * (innovations @ head @ innovations)
    beside = _pushed(nodes, q, gV * nodes.signal) - _summed(gV * nodes.along) * q.form.pushed
    return _Parts(
        beside=beside @ innovations,
        column=_pushed(nodes, q, gV * nodes.tail) @ innovations,
        crossed=_pushed(nodes, q, gV, appended=False) @ innovations,
        matrix=matrix,
    )


def _pushed(nodes: Nodes, q: Leverage, weight: np.ndarray, *, appended: bool = True) -> np.ndarray:
    """Weighted sum over nodes of y = M m, with or without its s-terms, (b, k, d)."""
    form = q.form
    y = _summed(weight * nodes.signal) * form.pushed + _summed(weight * nodes.tail) * form.tail
    return y + _summed(weight) * q.added if appended else y


def _summed(values: np.ndarray) -> np.ndarray:
    """Sum over nodes of factors of vectors, (b, k, 1)."""
    return np.sum(values, axis=0)[..., None]


def _shared(values: np.ndarray) -> np.ndarray:
    """Sum over nodes and tasks of factors of matrices, (b, 1, 1)."""
    return np.sum(values, axis=(0, 2))[:, None, None]


def saturations(
    draws: TaskDraws, s: complex, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""E f and E[(q - Eq) f]/Var q for :math:`f = r/(\lambda_s + \frac dn r q)` and Gamma q.

    The Gauss rule for E 1/(z + q) is the continued fraction of the Laguerre polynomials, F =
    1/(z + Eq - K Var q), and E[(q - Eq)/(z + q)] = -K F Var q without cancellation.
    """
    samples = draws.prompts / draws.dim
    r, weight = gamma_rule(2 * draws.spread / draws.dim, NODES, tilt=1)
    # The query norm is the first axis, along which few numbers change: twice as fast as the last.
    r = r.reshape(-1, *(1,) * mean.ndim)
    z = (samples * draws.scales[1] + s * draws.rho) / r
    ratio = variance / mean**2
    K = 1 / (z + mean * (1 + 2 * _LEVELS * ratio))
    for i in range(_LEVELS - 1, 0, -1):
        K *= -(i + 1) * (1 + i * ratio) * variance
        K += mean * (1 + 2 * i * ratio)
        K += z
        np.divide(1, K, out=K)
    F = 1 / (z + mean - variance * K)
    K *= F
    return samples * np.tensordot(weight, F, 1), -samples * np.tensordot(weight, K, 1)


def linear_saturations(
    draws: TaskDraws, M: np.ndarray, averages: Saturations | None = None
) -> Saturations:
    """Averages over q to first order in s and in the deviations from the leverage of a real M.

    Complex steps through the continued fraction would be most of the time of each response.
    """
    q = leverage(draws, M, 0.0, None)
    average = averages or partial(saturations, draws)
    step = 1j * STEP
    values = average(0.0, q.mean, q.variance)
    along_s = average(step, q.mean, q.variance)
    along_mean = average(0.0, q.mean + step, q.variance)
    along_variance = average(0.0, q.mean, q.variance + step)
    slopes = [
        [value.imag / STEP for value in part]
        for part in zip(along_s, along_mean, along_variance, strict=True)
    ]

    def linear(s: complex, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, ...]:
        moves = s, mean - q.mean, variance - q.variance
        return tuple(
            value + sum(slope * move for slope, move in zip(partials, moves, strict=True))
            for value, partials in zip(values, slopes, strict=True)
        )

    return linear


def appended_drift(draws: TaskDraws, M: np.ndarray, cross: np.ndarray) -> np.ndarray:
    r"""Change of :math:`N_{ab}w/\sqrt d` with s, for each task, (b, k, d + 1)."""
    return -(draws.tasks @ transposed(cross)) @ M / math.sqrt(draws.dim)


def gram(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted sum over rows of their outer products with themselves, (b, i, i)."""
    return transposed(rows) @ (weights[..., None] * rows)


def diagonal(x: np.ndarray) -> np.ndarray:
    """Diagonals of a batch of matrices."""
    return np.einsum("bii->bi", x)


def transposed(x: np.ndarray) -> np.ndarray:
    """Transposes of a batch of matrices."""
    return np.swapaxes(x, -1, -2)
