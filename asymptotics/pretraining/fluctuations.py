r"""How much the errors of one pretraining run scatter, in the limit.

Over pretraining sets, :math:`d\,(e - \bar e)` tends to a Gaussian for the ICL and the IDG error
together.  Two independent sources add to its covariance: the prompts at given tasks, and the task
set.  The setting and the symbols :math:`q, \xi, \nu, \eta, M` are those of
`iclimit.asymptotics.pretraining.icl`.

**Prompts.**  An error is the derivative of the minimum of the training cost plus u times the
error, at u = 0, for every data set.  The minimum is a quadratic form of a resolvent, whose
covariance over samples is a geometric series of one ladder; its mixed derivative is the covariance
of the errors.  For the features of linear attention everything is a function of the eigenvalue c
of the task covariance.  With :math:`K = 1/(c + \nu)`, :math:`G = c + q`, the average
:math:`\langle\cdot\rangle` over c, :math:`Q = 1 - \langle G^2 K^2\rangle/\tau = \eta + \xi A/\tau`
and the error :math:`r_0 = Q\, e_{IDG}` of the prediction on the training law,

.. formula: covariance

.. math::

   d^2 \operatorname{Cov}(e, e') = \frac{2 r_0^2}{\tau Q}\Bigl\{ l l'
      + 2\Bigl[\frac{\langle C G C'\rangle}{r_0} - \frac{r r'}{r_0^2}\Bigr]
      + \frac{\langle K^4 G^2 N N'\rangle}{\tau Q} + \frac{x x'}{Q^2} \Bigr\},

where each error has :math:`B = 1 + q` (ICL) or :math:`G` (IDG), :math:`a = \langle G B K^2\rangle
/(\tau Q)`, :math:`N = B - \xi a`, :math:`x = -\langle K^3 G^2 N\rangle/\tau`, :math:`r = \xi
\langle C c K\rangle`, :math:`l = a + 2r/r_0 + x/Q` and

.. math:: C_{ICL} = K^2\bigl((q - \xi a)\,c - \nu\bigr), \qquad C_{IDG} = -\xi (1 + a)\, c K^2.

**Task sets.**  For k tasks on the sphere the trace of the resolvent of their covariance fluctuates
as (Bai and Silverstein 2004, with the kurtosis of the sphere)

.. math:: \operatorname{tr} R(z) - d\,M(z) = \frac{d}{dz} \sum_{m \ge 2}
   \sqrt{\frac{2}{m \kappa^m}}\; u(z)^m \zeta_m, \qquad u = 1 - z M(z),

with independent :math:`\zeta_m \sim N(0, 1)`.  The errors depend on the task set through M and
:math:`M'` at :math:`\nu`, and :math:`\xi` moves with them.

Averages are positive: :math:`\langle c^i K^{p+1}\rangle` is the p-th coefficient of the power
series of :math:`\langle c^i K\rangle` at :math:`\nu - h`, and these series follow from that of M.

.. page: pretraining/fluctuations: How much one run scatters

.. symbols:
   e,\ e': two errors of one run, or twice the same
   \operatorname{Cov}: covariance over prompts for given tasks; the task set adds to it
   \langle\ \rangle: mean over the eigenvalues c of the covariance of the pretraining tasks
   G: c + q, with q = (1 + ρ)/α
   K: 1/(c + q + ξ), with the effective ridge ξ
   Q: 1 − ⟨G²K²⟩/τ
   r_0: Q times the error on the pretraining tasks
   N: B − ξa, with B = 1 + q for new tasks or G for pretraining tasks, and a = ⟨GBK²⟩/(τQ)
   C: K²((q − ξa)c − q − ξ) for new tasks, −ξ(1 + a)cK² for pretraining tasks
   r: ξ⟨CcK⟩
   x: −⟨K³G²N⟩/τ
   l: a + 2r/r₀ + x/Q
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import NamedTuple

from iclimit.asymptotics.blocks import point_by_point
from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.pretraining.icl import context_noise, solve_fixed_point
from iclimit.asymptotics.spectra.resolvent import excess, resolvent
from iclimit.results import Result

# Averages of c^i K^p are needed up to this power.
POWER = 4


@dataclass(frozen=True, eq=False, repr=False)
class ErrorSpread(Result):
    """Standard deviations of the errors of one run, times the dimension.

    Attributes
    ----------
    icl, idg, gap : number or array
        Limit of d times the standard deviation of the ICL error, of the IDG error and of their
        difference, over pretraining sets.
    correlation : number or array
        Correlation of the ICL and the IDG error of a run.
    icl_prompts, idg_prompts, gap_prompts : number or array
        The part of the prompts: the standard deviations for one set of tasks.
    icl_tasks, idg_tasks, gap_tasks : number or array
        The part of the task set, which would remain with infinitely many prompts of each size.
    """

    icl: Value
    idg: Value
    gap: Value
    correlation: Value
    icl_prompts: Value
    idg_prompts: Value
    gap_prompts: Value
    icl_tasks: Value
    idg_tasks: Value
    gap_tasks: Value


def error_spread(
    *, tau: Number, alpha: Number, kappa: Number, rho: Number, ridge: Number = 0.0
) -> ErrorSpread:
    r"""Limit of d times the standard deviation of the errors of one pretraining run.

    A run at dimension d has the relative error bar spread / (d times error): about 5 % at d = 24
    from one run, far from the thresholds.  `finite_size_errors` predicts the mean.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge
        As in `icl_error`; alpha is finite, and SymPy expressions are not accepted.

    Returns
    -------
    ErrorSpread
        With fields ``icl``, ``idg``, ``gap``, ``correlation``, and the parts of the two sources.
        ``inf`` where the error diverges (tau = 1 without ridge); the correlation is then 1.

    Raises
    ------
    ValueError
        If an argument is outside its range, or alpha is infinite.

    Notes
    -----
    The spread of a run approaches the limit slowly: at d = 16 to 32 it is 2 to 25 % larger with a
    ridge of .05 and more, and up to twice as large next to a threshold without a ridge.

    float64 is within 1e-12 relative of exact arithmetic for tau in [0.05, 1000], alpha and kappa
    in [0.05, 50], rho in [0, 10], ridge in {0} and [1e-6, 100], away from where the error
    diverges; the gap is accurate relative to the errors.  At larger alpha and kappa < 1 the
    spread of the IDG error is a difference of nearly equal terms (8e-10 at alpha = 700).

    The Gaussian law holds for the error at large d.  For single runs without a ridge the error is
    skewed: compare logarithms, where the spread is more than a tenth of the error.

    References
    ----------
    Bai and Silverstein, Ann. Probab. 32 (2004): linear statistics of sample covariances.  The
    fluctuation of the errors: module `iclimit.asymptotics.pretraining.fluctuations`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import error_spread
    >>> spread = error_spread(tau=1.5, alpha=2.0, kappa=1.5, rho=0.1, ridge=0.05)
    >>> round(float(spread.icl_prompts), 3), round(float(spread.icl_tasks), 3)
    (1.334, 0.164)
    """
    math_, values = checked(
        ranges={"alpha": "(0, inf)"}, tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge
    )
    point = (values.tau, values.alpha, values.kappa, values.rho, values.ridge)
    with math_.quiet():
        results = point_by_point(_spreads, math_, *point, results=10)
    return ErrorSpread(*map(math_.finish, results))


def _spreads(
    math_: Namespace, tau: Value, alpha: Value, kappa: Value, rho: Value, ridge: Value
) -> tuple[Value, ...]:
    """Fields of the result at checked arguments."""
    q = context_noise(math_, alpha, rho)
    xi, eta = solve_fixed_point(math_, tau < 1, tau, q, kappa, ridge)
    moments = averages(math_, q + xi, kappa)

    def average(power: int, *factors: Polynomial) -> Value:
        """Average of a product of polynomials in c times a power of K."""
        coefficients = reduce(_product, factors)
        return sum(c * moments[i][power] for i, c in enumerate(coefficients))

    icl, idg, Q, r0 = _changes(average, tau, rho, q, xi, eta)
    gap = Change(*(a - b for a, b in zip(icl, idg, strict=True)))

    def from_prompts(e: Change, f: Change) -> Value:
        G = (q, 1)
        field = average(4, G, (e.C_0, e.C_1), (f.C_0, f.C_1)) / r0 - e.r * f.r / r0**2
        pairs = average(4, G, G, (e.N_0, e.N_1), (f.N_0, f.N_1)) / (tau * Q)
        return 2 * r0**2 / (tau * Q) * (e.l * f.l + 2 * field + pairs + e.x * f.x / Q**2)

    from_tasks = partial(_from_tasks, 1 / kappa, 1 / kappa * average(1, (0, 1)) ** 2)

    def root(variance: Value) -> Value:
        known = math_.where(variance > 0, lambda: math_.sqrt(variance), lambda: 0)
        return math_.where(Q > 0, lambda: known, lambda: math_.inf)

    sources = [[part(e, e) for e in (icl, idg, gap)] for part in (from_prompts, from_tasks)]
    total = [prompts + tasks for prompts, tasks in zip(*sources, strict=True)]
    cross = from_prompts(icl, idg) + from_tasks(icl, idg)
    correlation = math_.where(Q > 0, lambda: cross / math_.sqrt(total[0] * total[1]), lambda: 1)
    prompts, tasks = sources
    return *map(root, total), correlation, *map(root, prompts), *map(root, tasks)


# Coefficients of a polynomial in an eigenvalue c of the task covariance, or of a power series.
Polynomial = Sequence[Value]


class Change(NamedTuple):
    """How an error answers to the prompts and to the task set (module docstring).

    C and N are K^2 (C_0 + C_1 c) and N_0 + N_1 c.  ``first`` and ``second`` are the parts of the
    answer to the m-th mode of the task set, over its standard deviation and u^(m-2) sqrt(2m):
    first + (m - 2) second.
    """

    l: Value  # noqa: E741
    r: Value
    x: Value
    C_0: Value
    C_1: Value
    N_0: Value
    N_1: Value
    first: Value
    second: Value


def _from_tasks(y: Value, s: Value, e: Change, f: Change) -> Value:
    """Covariance of two errors over the tasks, given 1/kappa and the square of u over kappa."""
    first = e.first * f.first * (2 - s)
    second = e.second * f.second * s * (3 + 4 * s - s**2)
    cross = (e.first * f.second + e.second * f.first) * s * (3 - s)
    return 2 * y**2 / (1 - s) ** 2 * (first + cross / (1 - s) + second / (1 - s) ** 2)


def _changes(
    average: Callable[..., Value], tau: Value, rho: Value, q: Value, xi: Value, eta: Value
) -> tuple[Change, Change, Value, Value]:
    """Answers of the ICL and the IDG error, Q and r_0 (module docstring)."""
    G = (q, 1)
    c = (0, 1)
    nu = q + xi
    Q = eta + xi * average(2, G) / tau
    r0 = rho + q * average(1, c) + xi * nu * average(2, c)
    by_icl, by_idg = _error_slopes(average, tau, q, xi, Q, r0)
    moved = -(xi**2) / (tau * Q)
    u = average(1, c)
    slope = -average(2, c)
    curvature = 2 * average(3, c)

    def change(B: Polynomial, C: Callable[[Value], Polynomial], *slopes: Value) -> Change:
        by_M, by_dM, by_xi = slopes
        by_M = by_M + by_xi * moved
        a = average(2, G, B) / (tau * Q)
        C_0, C_1 = C(a)
        N = (B[0] - xi * a, B[1])
        r = xi * average(3, c, (C_0, C_1))
        x = -average(3, G, G, N) / tau
        first = by_M * u * slope + by_dM * (slope**2 + u * curvature)
        return Change(a + 2 * r / r0 + x / Q, r, x, C_0, C_1, *N, first, by_dM * slope**2)

    icl = change((1 + q, 0), lambda a: (-nu, q - xi * a), *by_icl)
    idg = change(G, lambda a: (0, -xi * (1 + a)), *by_idg)
    return icl, idg, Q, r0


def _error_slopes(
    average: Callable[..., Value], tau: Value, q: Value, xi: Value, Q: Value, r0: Value
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Derivatives of the ICL and the IDG error by M and M' at fixed nu, and by xi."""
    G = (q, 1)
    c = (0, 1)
    nu = q + xi
    A = average(2, G)
    error = r0 / Q
    common = 2 * r0 / (tau * Q**2)
    idg_M = nu * (xi - q) / Q - common * xi
    idg_dM = xi * nu**2 / Q - common * xi**2 / 2
    idg_xi = 2 * xi * average(3, c, c) / Q - common * average(3, G, G)
    icl_M = 2 * nu + (1 + q) * ((error + A * idg_M) / tau - 2 * nu)
    icl_dM = (1 + q) * ((xi * error + A * idg_dM) / tau - nu**2)
    icl_xi = 2 * average(2, c) + (1 + q) * (
        (A * idg_xi - 2 * average(3, G) * error) / tau - 2 * average(3, c, c)
    )
    return (icl_M, icl_dM, icl_xi), (idg_M, idg_dM, idg_xi)


def averages(math_: Namespace, nu: Value, kappa: Value) -> list[list[Value]]:
    """Averages of c^i K^p, as [i][p] (p >= 1), from power series in h at nu - h."""
    M0 = resolvent(math_, nu, kappa, excess(math_, kappa, 1))
    y = 1 / kappa
    u0 = 1 / (1 + M0 * y)
    # M solves (nu - h) M + M u = 1 with u = 1 - M u / kappa; all coefficients are positive.
    M = [M0]
    moved = [M0 * u0]
    for n in range(1, POWER):
        earlier = sum(M[k] * moved[n - k] for k in range(1, n)) * y
        M.append((M[-1] + u0 * earlier) / (nu + u0**2))
        moved.append(u0 * (M[n] * u0 - earlier))
    u = [u0, *(-y * term for term in moved[1:])]
    series = [M, moved]
    u2 = _product(u, u)
    third = [a + 2 * y * b for a, b in zip(u2, u, strict=False)]
    fourth = [a + 3 * y * b for a, b in zip(_product(u2, u), u2, strict=False)]
    fourth = [a + y * (2 + 3 * y) * b for a, b in zip(fourth, u, strict=False)]
    constants = y, y * (1 + y), y * (1 + y * (3 + y))
    for factor, constant in zip((u, third, fourth), constants, strict=True):
        series.append(_product(moved, [factor[0] + constant, *factor[1:]])[:POWER])
    return [[None, *coefficients] for coefficients in series]


def _product(a: Polynomial, b: Polynomial) -> list[Value]:
    """Coefficients of the product of two polynomials."""
    entries = [0] * (len(a) + len(b) - 1)
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            entries[i + j] = entries[i + j] + left * right
    return entries
