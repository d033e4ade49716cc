r"""Regression with forgetting: what a layer that solves, and weighs recent pairs more, can reach.

The Mesa layer and recursive least squares minimise over u

.. math:: \sum_i g_i\, (y_i - \langle x_i, u\rangle)^2 + \lambda |u|^2, \qquad
   g_i = e^{-\omega (\ell - i)/d} .

In the setting of `iclimit.asymptotics.recurrent.delta_rule`, with t the age of a pair in units of
d tokens and all integrals from 0 to :math:`\alpha`, the trace T of the inverse of
:math:`\sum_i g_i x_i x_i^\top + \lambda` over d solves

.. math:: \lambda T = 1 - \int F\, dt, \qquad F = \frac{g T}{1 + g T} .

Leaving out one pair, and two, the loss v = e - :math:`\rho` is

.. math:: v = 1 - 2 \int F m\, dt + \frac{(1 + \rho) \int F^2 dt
   + \iint F F' c\, (1 - F - F')\, dt\, dt'}{1 - \int F^2 dt}, \qquad
   m = e^{-\vartheta t}, \quad c = e^{-\vartheta |t - t'|} .

Without drift, c = m = 1, this is
:math:`v = (\lambda^2 T^2 + \rho \int F^2 dt)/(1 - \int F^2 dt)`, and without forgetting the
ridge curve.  Without penalty, contexts of :math:`\alpha \le 1` are interpolated: F = 1, gates drop
out, and at :math:`\alpha = 1` the loss is infinite.

*Numbers.*  The integrals take Gauss-Legendre nodes in panels of t.  The kernel c has a kink at
equal ages, so the double integral uses :math:`J' = -\vartheta J + f`, whose solution
:math:`J(t) = \int_0^t e^{-\vartheta (t - t')} f\, dt'` is smooth.  The formulas
are derived here; the Mesa layer is that of von Oswald et al. (arXiv:2506.05233).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import minimize

from iclimit.asymptotics.checks import checked, flattened
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.searches import find_roots
from iclimit.results import Result

# Panels of the ages, narrower for recent pairs.  Twice as many panels and nodes change errors by
# 1e-12 at most.
_PANELS = 14

# Gauss-Legendre nodes in each panel.
_NODES = 20

# Ages, times the rate of forgetting, at which weights are rounding.
_FORGOTTEN = 40.0

# Points at which the double integral is computed together, 50 MB.
_BLOCK = 1024

_RANGES = {"alpha": "(0, inf)", "forgetting": "[0, 300]"}


@dataclass(frozen=True, repr=False)
class BestMemory(Result):
    """Best regression with forgetting.

    Attributes
    ----------
    forgetting : float or ndarray
        Rate at which pairs lose weight.
    penalty : float or ndarray
        Penalty of the regression.
    error : float or ndarray
        Mean squared error on a noisy query label.
    """

    forgetting: Value
    penalty: Value
    error: Value


def forgetting_error(
    *, alpha: Number, rho: Number, penalty: Number, forgetting: Number = 0.0, drift: Number = 0.0
) -> Value:
    r"""Error of ridge regression that gives recent pairs more weight.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    penalty : number or array >= 0
        Penalty :math:`\lambda`; inputs have squared norm 1.
    forgetting : number or array >= 0
        Rate :math:`\omega` at which pairs lose weight.
    drift : number or array >= 0
        Rate :math:`\vartheta` at which tasks change.

    Returns
    -------
    float or ndarray
        Mean squared error on a noisy query label, in the limit; ``inf`` without penalty at
        alpha = 1.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.forgetting`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import forgetting_error
    >>> forgetting_error(
    ...     alpha=2, rho=0.3, penalty=0.3, forgetting=0.5, drift=[0, 0.3]
    ... ).round(4)
    array([0.5161, 0.8087])
    """
    math_, values = checked(
        systems="numpy",
        ranges=_RANGES,
        alpha=alpha,
        rho=rho,
        penalty=penalty,
        forgetting=forgetting,
        drift=drift,
    )
    shape, points = flattened(values)
    with math_.quiet():
        error = _error(points.alpha, points.rho, points.penalty, points.forgetting, points.drift)
        return math_.finish(error.reshape(shape))


def optimal_memory(*, alpha: Number, rho: Number, drift: Number = 0.0) -> BestMemory:
    r"""Forgetting and penalty with the least error of regression.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension.
    rho : number or array > 0
        Variance of the label noise.
    drift : number or array >= 0
        Rate :math:`\vartheta` at which tasks change.

    Returns
    -------
    BestMemory
        With fields ``forgetting``, ``penalty`` and ``error``, numbers or NumPy arrays.  Without
        drift this is the Bayes estimator: no forgetting, and the noise variance as penalty.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    Found by a search that takes a tenth of a second for a point.  With drift the Bayes estimator,
    a Kalman filter with the whole covariance, is better still; its error is not known in the
    limit.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.forgetting`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import optimal_memory
    >>> best = optimal_memory(alpha=20, rho=0.25, drift=0.2)
    >>> [round(float(number), 4) for number in (best.forgetting, best.penalty, best.error)]
    [1.0722, 0.1771, 0.6302]
    """
    ranges = _RANGES | {"rho": "(0, inf)"}
    _, values = checked(systems="numpy", ranges=ranges, alpha=alpha, rho=rho, drift=drift)
    shape, points = flattened(values)
    forgetting = np.empty(points.alpha.shape)
    penalty = np.empty(points.alpha.shape)
    error = np.empty(points.alpha.shape)
    for k in range(error.size):
        best = _search(points.alpha[k], points.rho[k], points.drift[k])
        forgetting[k], penalty[k], error[k] = best
    return BestMemory(
        forgetting=forgetting.reshape(shape)[()],
        penalty=penalty.reshape(shape)[()],
        error=error.reshape(shape)[()],
    )


def _search(alpha: float, rho: float, theta: float) -> tuple[float, float, float]:
    """Forgetting, penalty and error of the best memory."""

    def error(logarithms: np.ndarray) -> float:
        omega, penalty = np.exp(logarithms)
        with np.errstate(all="ignore"):
            return float(_error(*np.array([[alpha], [rho], [penalty], [omega], [theta]]))[0])

    if theta == 0:
        return 0.0, rho, error(np.array([-np.inf, np.log(rho)]))
    start = np.log([np.sqrt(theta**2 + 2 * theta / (1 + rho)), rho])
    options = {"xatol": 1e-6, "fatol": 1e-13, "maxiter": 1000}
    solution = minimize(error, start, method="Nelder-Mead", options=options)
    omega, penalty = np.exp(solution.x)
    return float(omega), float(penalty), float(solution.fun)


def _error(
    alpha: np.ndarray, rho: np.ndarray, penalty: np.ndarray, omega: np.ndarray, theta: np.ndarray
) -> np.ndarray:
    """Error at points (n,)."""
    trace = _trace(alpha, penalty, omega)
    last = np.exp(-omega * alpha)
    end = np.minimum(alpha, np.where(omega > 0, _FORGOTTEN + np.log1p(trace), np.inf) / omega)
    nodes, weights, _, _ = _rule()
    t = nodes * end[:, None, None]
    weight = weights * end[:, None, None]
    F = 1 / (1 + np.exp(omega[:, None, None] * t) / trace[:, None, None])
    square = np.sum(weight * F**2, axis=(1, 2))
    # Integral of F (1 - F).
    spread = alpha * _mean_decay(omega * alpha) / ((1 + 1 / trace) * (1 + trace * last))
    unexplained = np.where(np.isinf(trace), 1 - alpha, penalty * trace)
    changed = np.zeros(len(alpha))
    drifting = np.flatnonzero(theta > 0)
    for index in np.split(drifting, range(_BLOCK, len(drifting), _BLOCK)):
        changed[index] = _changed(theta[index], end[index], F[index], weight[index])
    top = unexplained**2 + rho * square + changed
    bottom = unexplained + spread
    m = -np.expm1(-theta[:, None, None] * t)
    late = 2 * np.sum(weight * F * m, axis=(1, 2))
    loss = np.where((bottom == 0) & (top == 0), 0, top / bottom)
    return rho + loss + late


def _mean_decay(z: np.ndarray) -> np.ndarray:
    return np.where(z == 0, 1, -np.expm1(-z) / z)


def _trace(alpha: np.ndarray, penalty: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """Trace T of the inverse; inf where a context is interpolated."""
    weight = alpha * _mean_decay(omega * alpha)
    last = np.exp(-omega * alpha)
    unpenalised = np.where(
        alpha > 1, _mean_decay(-omega) / ((alpha - 1) * _mean_decay(omega * (alpha - 1))), np.inf
    )
    upper = np.minimum(1 / penalty, unpenalised)
    lower = 1 / (penalty + weight)
    trace = upper.copy()
    solved = np.flatnonzero((penalty > 0) & (lower < upper))

    def step(T: np.ndarray, index: np.ndarray) -> np.ndarray:
        at = solved[index]
        z = T * weight[at] / (1 + T * last[at])
        explained = z * np.where(z * omega[at] == 0, 1, np.log1p(omega[at] * z) / (omega[at] * z))
        slope = penalty[at] * T + z / (1 + T)
        return (1 - penalty[at] * T - explained) / slope

    start = np.sqrt(lower[solved]) * np.sqrt(upper[solved])
    trace[solved] = find_roots(step, lower[solved], upper[solved], start)
    return trace


def _changed(theta: np.ndarray, end: np.ndarray, F: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What drift adds to the double integral, which is negative without drift."""
    first = _filtered(theta, end, F)
    second = _filtered(theta, end, F**2)
    kept = np.sum(weight * (F * first - F**2 * first - F * second), axis=(1, 2))
    total = np.sum(weight * F, axis=(1, 2))
    square = np.sum(weight * F**2, axis=(1, 2))
    return 2 * kept - total * (total - 2 * square)


def _filtered(theta: np.ndarray, end: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Integral of exp(-theta (t - t')) f(t') over t' < t at all nodes (n, panels, nodes)."""
    _, weight, width, integral = _rule()
    rate = theta[:, None] * end[:, None] * width
    system = np.eye(_NODES) + rate[..., None, None] * integral
    scale = end[:, None] * width
    right = np.stack([scale[..., None] * (f @ integral.T), np.ones_like(f)], axis=-1)
    inner, decay = np.moveaxis(np.linalg.solve(system, right), -1, 0)
    weights = weight[0] / width[0]
    result = np.empty_like(f)
    at_start = np.zeros(len(f))
    for panel in range(_PANELS):
        here = inner[:, panel] + at_start[:, None] * decay[:, panel]
        result[:, panel] = here
        source = f[:, panel] - theta[:, None] * here
        at_start = at_start + scale[:, panel] * (source @ weights)
    return result


@cache
def _rule() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes and weights (panels, nodes) of [0, 1], widths of panels, and integrals from the left.

    The last is the matrix that integrates a polynomial from 0 to the nodes of [0, 1].
    """
    x, mass = np.polynomial.legendre.leggauss(_NODES)
    edges = np.linspace(0, 1, _PANELS + 1) ** 2
    width = np.diff(edges)
    values = np.polynomial.legendre.legvander(x, _NODES)
    lower = np.column_stack([-np.ones_like(x), values[:, :-2]])
    integrals = (values[:, 1:] - lower) / 2
    matrix = integrals @ (values[:, :-1] * mass[:, None]).T / 2
    nodes = edges[:-1, None] + width[:, None] * (1 + x) / 2
    return nodes, width[:, None] * mass / 2, width, matrix
