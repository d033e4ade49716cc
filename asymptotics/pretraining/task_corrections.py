r"""Corrections of the self-energy of relative order 1/d, and the errors with them.

**Prompts of the same task.**  A prompt contributes to its own resolvent, and :math:`x_q^\top R
x_q` fluctuates.  In the notation of `iclimit.asymptotics.pretraining.task_self_energy`, with
:math:`O_t = (\lambda_s + \frac dn q_t)^{-1}`, :math:`T_{tt'} = \operatorname{tr} G_t N G_{t'} N`
and :math:`Y = (1 - T \operatorname{diag}(p O^2 d/n))^{-1} T`,

.. math:: \delta\Sigma = \sum_t p_t c_t c_t^\top \Bigl[\frac{O_t^2}{n} c_t^\top N c_t
   + \frac{d}{n^2} O_t^3 (Y_{tt} - 2 T_{tt})\Bigr] - \frac{d}{n^2} \sum_{tt'} p_t p_{t'} O_t^2
   O_{t'}^2 Y_{tt'} \tfrac12 (c_t c_t^\top N G_{t'} + G_{t'} N c_t c_t^\top) .

For a single task with endless contexts it gives the exact n/(n - d - 1) to order 1/n.  It is the
first term of a series in powers of about :math:`1/(d (1 - R_t))`, :math:`R_t` being the spectral
radius of :math:`T \operatorname{diag}(p O^2 d/n)`: near a threshold the series is of no use.

**Real matrices.**  For features :math:`\phi = \sqrt u\, g`, g Gaussian of covariance
:math:`\Gamma`, the resolvent R of ridge regression on n prompts obeys :math:`\lambda E R + E R
\phi\phi^\top = 1`, and with the resolvent :math:`R_-` without that prompt

.. math:: R\, \phi\phi^\top = R_-\, gg^\top f(\tfrac1n g^\top R_- g), \qquad
   f(\kappa) = \frac{u}{1 + u\kappa} .

To second order in the deviations of :math:`g^\top R_- g/n` from its mean :math:`\kappa`, of
variance :math:`2 \operatorname{tr}(\Gamma R)^2/n^2`, with :math:`E R_- - E R = \frac1n E f\, E[R
\Gamma R]`, :math:`E[R \Gamma R] = N \Gamma N/(1 - R)`, and with the fluctuations of the mean of f
over the n prompts, of variance :math:`V/(n \kappa^2)`, the self-energy gains

.. math:: \delta\Sigma = \frac1{n S^2} \Bigl\{ G M G \Bigl[\frac{L_1^2 - 2 L_2}{1 - R}
   - \frac{R V}{(1 - R)^2}\Bigr] + S\, G \Bigl[\frac{(2 L_3 - L_1 L_2)\, g}{1 - R}
   + \frac{L_3 V g^2}{(1 - R)^2}\Bigr] \Bigr\} ,

where :math:`l = \frac dn r q/(\lambda_s + \frac dn r q)` is a prompt's leverage, :math:`L_j = E
l^j`, V the mean over tasks of its variance, :math:`G = E h h^\top`, :math:`S = \frac dn
\operatorname{tr} G M`, :math:`g = \frac nd \operatorname{tr}(G M)^2/(\operatorname{tr} G M)^2` and
:math:`R = L_2 g`, which is 1 at n = d (d + 1).  With appended tasks the same holds for
:math:`\bar G` and N(s).  For isotropic Gaussian features without a ridge the errors change by the
factor 1 + 1/(n - p) that turns n - p into n - p - 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import SummaryLaw, gamma_rule
from iclimit.asymptotics.pretraining.summary_nodes import dot
from iclimit.asymptotics.pretraining.task_draws import NODES, TaskDraws
from iclimit.asymptotics.pretraining.task_self_energy import (
    STEP,
    Correction,
    Resolvent,
    SelfEnergy,
    appended_drift,
    diagonal,
    leverage,
    self_energy,
    solve,
    transposed,
)

# Tasks of all draws that are solved together, and that the corrections are found for.
_ROWS = 1000
_CORRECTED_ROWS = 200

# Representatives of fresh tasks for which corrections are found.
_REPRESENTATIVES = 500

# Relative error far from a threshold: the first, plus the others over d^2 and context^2.
_FLOOR = 0.004
_SIZE_ERROR = 1.3
_CONTEXT_ERROR = 0.01

# Added for drift of another covariance than the identity: a number times `drifted_spread` over the
# effective context.
#
# Measured at d = 17 with eigenvalues from .1 to 4, drift 1 to 10, 5 and 25 pairs, with and without
# correlated inputs: errors of .8(4), 1.1(4), 2.6(6), 3.6(6), 1.5(9), 2.7(9) and 4.0(9) %, where
# this adds 1.3, 1.2, 5.5, 5.6, 1.8, 4.0 and 5.7 %.
_DRIFT_ERROR = 2.0

# Relative change by the correction for shared prompts beyond which its series is of no use.
_MOST_SHARED = 0.2

# Relative errors of the two corrections, far from the threshold.
_REAL_ERROR = 0.3
_SHARED_ERROR = 0.5

# Radii R between which the correction for real matrices becomes that of Gaussian features.
_CLOSE = 0.965, 0.99

# Nodes of the rule for the leverage given the label norm.
_NORMAL_NODES = 5

# Part of a correction whose effect counts as linear.
_LINEAR = 1e-3


def task_errors(
    draws: TaskDraws, test: SummaryLaw, train: SummaryLaw | None = None
) -> tuple[np.ndarray, float]:
    r"""ICL and IDG error of each draw, and the estimated relative error of the prediction.

    The corrections are found for the first draws, since they vary little, and scale all of them.
    That for prompts of the same task has a weight that vanishes near the thresholds, where its
    series diverges.  Weights and error estimate were fitted to simulations.
    """
    batches = draws.batches(_ROWS)
    solutions = [solve(batch) for batch in batches]
    pairs = zip(solutions, batches, strict=True)
    errors = np.concatenate([solution.errors(batch, test, train) for solution, batch in pairs])
    whole = batches[0].head(_CORRECTED_ROWS)
    first = whole.thinned(_REPRESENTATIVES)
    start = Resolvent(*(x[: len(first.tasks)] for x in solutions[0]))
    plain = errors[: len(first.tasks)]
    if first is not whole:
        start = solve(first, near=start)
        plain = start.errors(first, test, train)
    change = _Uncorrected(first, start, plain, test, train).change
    real = real_correction_at(first, start)
    by_real, doubt = _change_by_real(draws, real, change)
    by_shared = np.zeros(2)
    if not draws.fresh:
        by_shared = _change_by_shared(correction_at(first, start), real, change)
    uncertainty = _size_uncertainty(draws)
    uncertainty += doubt + _SHARED_ERROR * float(np.max(np.abs(by_shared)))
    return errors * (1 + by_real + by_shared), min(uncertainty, 1.0)


@dataclass(frozen=True)
class _Uncorrected:
    """Draws with their solution and their errors (draws, 2) before any correction."""

    draws: TaskDraws
    solution: Resolvent
    errors: np.ndarray
    test: SummaryLaw
    train: SummaryLaw | None

    def change(self, correction: Correction, chosen: np.ndarray) -> np.ndarray:
        """Relative changes of the errors of chosen draws by a correction, (draws, 2)."""
        part = self.draws.chosen(chosen)
        near = Resolvent(*(x[chosen] for x in self.solution))
        own = correction.of(chosen)
        plain = self.errors[chosen]
        try:
            return solve(part, own, near).errors(part, self.test, self.train) / plain - 1
        except (ArithmeticError, np.linalg.LinAlgError):  # to first order
            solved = solve(part, own.times(_LINEAR), near).errors(part, self.test, self.train)
            return (solved / plain - 1) / _LINEAR


def _change_by_shared(
    shared: Correction, real: Correction, change: Callable[[Correction, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Change of the errors by the correction for shared tasks, which vanishes near a threshold."""
    radius = min(float(np.mean(shared.radius)), 1.0)
    closeness = min(float(np.mean(real.radius)), 1.0)
    weight = (1 - radius**8) * (1 - closeness**4)
    if weight == 0:  # there the correction has no solution, and a long search for it
        return np.zeros(2)
    changed = np.mean(change(shared, np.full(len(shared.radius), True)), axis=0)
    return weight * np.clip(changed, -_MOST_SHARED, _MOST_SHARED)


def _size_uncertainty(draws: TaskDraws) -> float:
    """Relative error far from a threshold, by the size and by drift."""
    uncertainty = _FLOOR + _SIZE_ERROR / draws.dim**2 + _CONTEXT_ERROR / draws.effective_context**2
    return uncertainty + _DRIFT_ERROR * draws.drifted_spread / draws.effective_context


def _change_by_real(
    draws: TaskDraws, real: Correction, change: Callable[[Correction, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, float]:
    """Change of the errors by the correction for real matrices, and its relative error.

    It is at most what it would be for isotropic Gaussian features, and becomes that next to the
    threshold, where the correction diverges.
    """
    distance = max(abs(draws.prompts - draws.dim * (draws.dim + 1)), 1)
    spare = draws.prompts * (1 - np.minimum(real.radius, 1.0))
    limit = 1 / np.maximum(distance, np.maximum(spare, 1.0))
    start, end = _CLOSE
    close = np.clip((real.radius - start) / (end - start), 0.0, 1.0)
    changes = np.repeat(limit[:, None], 2, axis=1)
    useful = close < 1
    if np.any(useful):
        bound = limit[useful, None]
        part = close[useful, None]
        bounded = np.clip(change(real, useful), -bound, bound)
        changes[useful] = (1 - part) * bounded + part * bound
    doubts = (_REAL_ERROR * (1 - close) + close)[:, None] * np.abs(changes)
    return np.mean(changes, axis=0), float(np.max(np.mean(doubts, axis=0)))


def correction_at(draws: TaskDraws, solution: Resolvent) -> Correction:
    """Correction at a solution, and its derivative along s."""
    M = solution.value
    cross = self_energy(draws, M).cross
    s = 1j * STEP
    dual, coupling = _correction(draws, M + s * solution.slope, s, appended_drift(draws, M, cross))
    radius = np.max(np.linalg.eigvalsh(coupling.real), axis=1)
    return Correction(SelfEnergy(*(x.real for x in dual)), dual.summary.imag / STEP, radius)


def _correction(
    draws: TaskDraws, M: np.ndarray, s: complex, drift: np.ndarray
) -> tuple[SelfEnergy, np.ndarray]:
    r"""Correction of the self-energy and the symmetric form of :math:`T \operatorname{diag}`.

    Of the cross block only the real part is right.
    """
    d = draws.dim
    p = draws.shares
    C = draws.means
    ratio = d / draws.prompts
    x, along, inner, T, q = _overlaps(draws, M, s, drift)
    saturated = 1 / (draws.scales[1] + ratio * (s * draws.rho + q))
    identity = np.eye(T.shape[-1])
    root = saturated * np.sqrt(p * ratio)
    coupling = root[:, :, None] * T * root[:, None, :]
    Y = np.linalg.solve(identity - T * (root**2)[:, None, :], T)
    own = saturated**2 * diagonal(inner) / draws.prompts
    own = own + ratio / draws.prompts * saturated**3 * (diagonal(Y) - 2 * diagonal(T))
    weight = p * saturated**2
    K = -ratio / draws.prompts * weight[:, :, None] * weight[:, None, :] * Y
    J = (p * own)[..., None] * identity + (K * inner + transposed(K * inner)) / 2
    Ka = K * draws.noise[:, None, :]
    side = (np.sum(Ka, axis=2)[..., None] * x - (Ka * along) @ draws.units) / 2
    Sigma = transposed(C) @ J @ C
    Sigma[:, :d] += transposed(side) @ C
    Sigma[:, :, :d] += transposed(C) @ side
    cross = J @ C
    cross[..., :d] += side
    return SelfEnergy(Sigma, transposed(cross) @ draws.tasks / math.sqrt(d)), coupling


class _Overlaps(NamedTuple):
    """Overlaps of the summaries of two tasks in a resolvent N, with the appended entries.

    Attributes
    ----------
    x : ndarray (b, k, d)
        :math:`N c_t`, without the label.
    along, inner : ndarray (b, k, k)
        :math:`x_t u_t'` and :math:`c_t N c_{t'}`.
    squares : ndarray (b, k, k)
        Means of :math:`(h_t N h_{t'})^2`.
    means : ndarray (b, k)
        Means of :math:`h_t N h_t`.
    """

    x: np.ndarray
    along: np.ndarray
    inner: np.ndarray
    squares: np.ndarray
    means: np.ndarray


def _overlaps(draws: TaskDraws, M: np.ndarray, s: complex, drift: np.ndarray) -> _Overlaps:
    """Overlaps given M and N times the appended entries, which is s times the drift."""
    d = draws.dim
    a = draws.noise
    C = draws.means
    W = draws.tasks
    pushed = C @ M + s * drift
    x = pushed[..., :d]
    inner = pushed @ transposed(C) + s * (C @ transposed(drift) + W @ transposed(W) / d)
    along = x @ transposed(draws.units)
    free, noise = _noise_overlaps(draws.units, M[:, :d, :d])
    mixed = a[:, None, :] * (dot(x, x)[..., None] - along**2)
    squares = inner**2 + mixed + transposed(mixed) + a[:, :, None] * a[:, None, :] * noise
    return _Overlaps(x, along, inner, squares, diagonal(inner) + a * free)


def _noise_overlaps(U: np.ndarray, head: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Traces of M and of products of two, without the directions of one task and of both.

    They are (b, k) and (b, k, k); U are the directions, and ``head`` is M without the label.
    """
    Mu = U @ head
    between = Mu @ transposed(U)
    twice = dot(Mu, Mu)
    trace = np.sum(head * np.eye(U.shape[-1]), axis=(1, 2))
    square = np.sum(head**2, axis=(1, 2))
    products = square[:, None, None] - twice[:, :, None] - twice[:, None, :] + between**2
    return trace[:, None] - diagonal(between), products


def real_correction_at(draws: TaskDraws, solution: Resolvent) -> Correction:
    """Correction for real matrices at a solution, and its derivative along s."""
    d = draws.dim
    s = 1j * STEP
    M = solution.value
    G = draws.second_moment
    tasks = draws.tasks / math.sqrt(d)
    weighed = draws.shares[..., None] * tasks
    mixed = draws.averaged(transposed(draws.means) @ weighed)  # mean of h with the appended task
    appended = draws.averaged(transposed(tasks) @ weighed)
    across = G @ M @ mixed
    # N to first order in s, and mean(h h) N mean(h h).
    N = M + s * solution.slope
    coupled = -s * solution.cross
    one_sided = G @ coupled @ transposed(mixed)
    GNG = G @ N @ G + one_sided + transposed(one_sided) + s * mixed @ transposed(mixed)
    trace = _product_trace(G, N) + 2 * _product_trace(mixed, coupled) + s * _trace(appended)
    square = _product_trace(GNG, N) + 2 * _product_trace(across, coupled)
    square = square + s * _trace(transposed(mixed) @ M @ mixed)

    cross = self_energy(draws, M).cross
    leverages, spread = _leverage_moments(draws, N, s, appended_drift(draws, M, cross))
    squared, linear, radius = _coefficients(draws, trace, square, leverages, spread)
    summary = squared * GNG + linear * G
    value = SelfEnergy(summary.real, squared.real * across + linear.real * mixed)
    return Correction(value, summary.imag / STEP, radius.real)


def _coefficients(
    draws: TaskDraws,
    trace: np.ndarray,
    square: np.ndarray,
    leverages: list[np.ndarray],
    spread: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients of mean(h h) N mean(h h) and of mean(h h) in the correction, and the radius R.

    They follow from the traces of mean(h h) N and of its square, and from moments of the leverage.
    """
    L1, L2, L3 = leverages
    samples = draws.prompts / draws.dim
    S = trace / samples
    g = samples * square / trace**2
    R = L2 * g
    scale = draws.prompts * S**2
    squared = ((L1**2 - 2 * L2) / (1 - R) - R * spread / (1 - R) ** 2) / scale
    linear = (2 * L3 - L1 * L2) * g / (1 - R) + L3 * spread * g**2 / (1 - R) ** 2
    return squared[:, None, None], (S * linear / scale)[:, None, None], R


def _leverage_moments(
    draws: TaskDraws, M: np.ndarray, s: complex, drift: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Means of the powers 1 to 3 of the leverage, and its mean variance within tasks, (b,)."""
    q = leverage(draws, M, s, drift)
    z, z_weight = np.polynomial.hermite_e.hermegauss(_NORMAL_NODES)
    r, r_weight = gamma_rule(2 / draws.dim, NODES, tilt=1)
    # The cube root of a quadratic form is nearly normal (Wilson and Hilferty).
    c = (q.variance / (9 * q.mean**2))[..., None]
    y = (q.mean[..., None] * (1 - c + z * np.sqrt(c)) ** 3)[..., None] * r
    level = y / (draws.prompts / draws.dim * draws.scales[1] + s * draws.rho + y)
    weight = draws.nodes.weight, z_weight / z_weight.sum(), r_weight
    means = [np.einsum("cbkzr,c,z,r->bk", level**power, *weight) for power in (1, 2, 3)]
    averages = [np.sum(draws.shares * mean, axis=1) for mean in means]
    within = averages[0] ** 2 if draws.fresh else np.sum(draws.shares * means[0] ** 2, axis=1)
    return averages, averages[1] - within


def _trace(x: np.ndarray) -> np.ndarray:
    return np.sum(diagonal(x), axis=-1)


def _product_trace(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Trace of x times the transpose of y."""
    return np.sum(x * y, axis=(1, 2))
