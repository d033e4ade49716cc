r"""Pretraining where the query continues a sequence of correlated tokens.

In the setting of `iclimit.asymptotics.recurrent.context` without drift, neighbouring inputs have
the correlation r, and so have the last one and the query: :math:`E\, x_i x_q^\top = k_i I/d`.  The
part of the summary along the query acts on a prediction through :math:`\operatorname{tr} \Gamma`
only,

.. math:: x_q^\top \Gamma h = x_q^\top \Gamma h_\perp + \frac{\operatorname{tr} \Gamma}d\, \phi,
   \qquad \phi = \frac1\alpha \sum_i g_i k_i y_i .

So the features gain a spike along one direction, :math:`E = [I\ 0]/\sqrt d`.  With
:math:`p = r^2`, and gates that are 1 for the tokens next to the query, its size is

.. math:: f_1 = E \phi^2 = \frac1{\alpha^2} \Bigl[\frac{p (1 + p)}{(1 - p)^2}
   + \frac{\rho\, p}{1 - p}\Bigr], \qquad
   f_2 = E\, \phi \langle x_q, w\rangle = \frac1\alpha\, \frac p{1 - p} .

One direction changes neither the effective ridge :math:`\xi` nor the degrees of freedom, but the
bias and the target do change.  After the summary is divided by a (so that q, :math:`f_1` and the
ridge are over :math:`a^2`, and :math:`f_2` over a) the best matrix at :math:`\xi` is
:math:`X = (b - E y - (V + f_1 E) x) K`, with :math:`b = (\hat C + f_2)/\sqrt d`,
:math:`V = f_2 \hat C/\sqrt d`, :math:`K = 1/(\hat C + \nu)`, :math:`\nu = q + \xi`, and the two
numbers :math:`x = \langle E, X\rangle`, :math:`y = \langle V, X\rangle` solve

.. math:: \begin{pmatrix} 1 + \langle E, (V + f_1 E) K\rangle & \langle E, E K\rangle \\
   \langle V, (V + f_1 E) K\rangle & 1 + \langle V, E K\rangle \end{pmatrix}
   \begin{pmatrix} x \\ y \end{pmatrix} =
   \begin{pmatrix} \langle E, b K\rangle \\ \langle V, b K\rangle \end{pmatrix} .

With :math:`G = \hat C + q` the errors are

.. formula: errors

.. math::

   e_{IDG} &= \frac{1 + \rho - 2 \langle b, X\rangle + \langle X, X G\rangle + 2 x y + f_1 x^2}
   {\eta + \frac\xi\tau \langle G K^2\rangle}, \\
   e_{ICL} &= 1 + \rho - 2 (1 + f_2) x + (1 + q) |X|^2 + (f_1 + 2 f_2) x^2
   + \frac{1 + q}\tau\, \langle G K^2\rangle\, e_{IDG},

where the denominator is :math:`1 - \langle (G K)^2\rangle/\tau` as a sum of positive terms: with
:math:`G K = 1 - \xi K` and the equation :math:`\tau (1 - \eta) = 1 - \xi \langle K\rangle` of
the effective ridge, :math:`\tau - \langle (G K)^2\rangle = \tau \eta + \xi \langle K - \xi
K^2\rangle`.  It vanishes at :math:`\tau = 1` without a ridge, where both errors are infinite.

All averages over the spectrum of :math:`\hat C` follow from the Wishart resolvent
:math:`M(\nu)` and its derivative.  With :math:`u = 1 + M/\kappa` and :math:`D = \nu u + 1/u`
all of them are sums of positive terms, as :math:`\langle K^2\rangle = M u/D` and
:math:`\langle \hat C K\rangle = M/u`.  Many prompts and tasks leave

.. math:: e = 1 + \rho - \frac{(1 + f_2)^2}{1 + q + f_1 + 2 f_2} .

Without gates and ridge the ICL error is that of Letey, Lu, Pehlevan and Zavatone-Veth ("Sequential
correlations change in-context learning", 2026); the rest is derived here.

.. page: recurrent/contexts: What gates leave of a context

.. symbols:
   e_{ICL}: error on fresh tasks
   e_{IDG}: error on the pretraining tasks
   X: best matrix at the effective ridge
   b: target, (c + f₂)/√d with the eigenvalues c of the covariance of the pretraining tasks
   G: c + q
   K: 1/(c + q + ξ), with the effective ridge ξ
   q: noise of the context summary over the square of its signal
   \xi: effective ridge
   \eta: λ/(a²ξ); without a ridge the larger of 0 and 1 − 1/τ
   f_1,\ f_2: mean square of what the last labels alone answer, and its mean product with the
      answer
   x,\ y: products ⟨E, X⟩ and ⟨V, X⟩ with the directions E = I/√d and V = f₂c/√d
   \langle\ \rangle: mean over the eigenvalues c; of two matrices their inner product
"""

from __future__ import annotations

from dataclasses import dataclass

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.pretraining.icl import solve_fixed_point
from iclimit.asymptotics.recurrent.delta_rule import mean_decay
from iclimit.asymptotics.spectra.resolvent import excess, resolvent
from iclimit.results import Result

_RANGES = {"alpha": "(0, inf)"}


@dataclass(frozen=True, repr=False)
class QueryErrors(Result):
    """Errors after pretraining on contexts in which the order of the pairs matters.

    Attributes
    ----------
    icl, idg : number or array
        Mean squared errors on noisy query labels, for fresh and for the training tasks.
    """

    icl: Value
    idg: Value


def correlated_query_errors(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    correlation: Number,
    ridge: Number = 0.0,
    forgetting: Number = 0.0,
) -> QueryErrors:
    r"""ICL and IDG error where the query continues a sequence of correlated tokens.

    Parameters
    ----------
    tau : number or array > 0
        Number of training prompts over the squared dimension.
    alpha : number or array > 0
        Context length over dimension.
    kappa : number or array > 0, or inf
        Number of training tasks over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    correlation : number or array in (-1, 1)
        Correlation r of the inputs of neighbouring tokens, and of the last one and the query.
    ridge : number or array >= 0
        Ridge :math:`\lambda`, on the summary with its gates.
    forgetting : number or array >= 0
        Rate :math:`\omega` of the gate, which is :math:`e^{-\omega/d}` a token.

    Returns
    -------
    QueryErrors
        With fields ``icl`` and ``idg``; NumPy and other arrays, mpmath numbers.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The limit of large dimensions at a correlation length of some tokens.  Where the query is
    independent, all formulas of `iclimit.pretraining` hold at the `effective_context`.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.correlated_query`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import correlated_query_errors
    >>> setting = {"tau": 4, "alpha": 4, "kappa": 10, "rho": 0.01}
    >>> correlated_query_errors(**setting, correlation=[0, 0.6]).icl.round(4)
    array([0.2897, 0.4384])
    """
    math_, values = checked(
        ranges=_RANGES,
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        correlation=correlation,
        ridge=ridge,
        forgetting=forgetting,
    )
    tau = values.tau
    kappa = values.kappa
    rho = values.rho
    with math_.quiet():
        q, f2, own, a = _spike(math_, values.alpha, rho, values.correlation, values.forgetting)

        def cases(below: Value) -> tuple[Value, Value]:
            fixed_point = solve_fixed_point(math_, below, tau, q, kappa, values.ridge / a**2)
            return _errors(math_, tau, kappa, rho, q, f2, own, fixed_point)

        return QueryErrors(*map(math_.finish, math_.branch(tau < 1, cases)))


def _spike(
    math_: Namespace, alpha: Value, rho: Value, r: Value, omega: Value
) -> tuple[Value, Value, Value, Value]:
    """Noise q, spike f2 and f1 - f2**2 of the summary over its signal a, and a."""
    p = r**2
    a = mean_decay(math_, omega * alpha)
    noise = ((1 + p) / (1 - p) + rho) * mean_decay(math_, 2 * omega * alpha) / alpha
    f2 = p / (1 - p) / (alpha * a)
    return noise / a**2, f2, f2 * (1 / (1 - p) + rho) / (alpha * a), a


def _errors(
    math_: Namespace,
    tau: Value,
    kappa: Value,
    rho: Value,
    q: Value,
    f2: Value,
    own: Value,
    fixed_point: tuple[Value, Value],
) -> tuple[Value, Value]:
    """ICL and IDG error, in sums of positive terms where there are some.

    The fixed point is the effective ridge xi and eta, the ridge over a^2 xi or its limit.
    """
    xi, eta = fixed_point
    nu = q + xi
    M = resolvent(math_, nu, kappa, excess(math_, kappa, 1))
    g = M / kappa
    u = 1 + g
    D = nu * u + 1 / u
    # Means of K^2, c K, c^2 K, c K^2, c^2 K^2 and c^3 K^2.
    K2 = M * u / D
    cK = M / u
    ccK = (g * u + M) / u**2
    cK2 = K2 / u**2
    ccK2 = cK * (nu * g + 1 / u) / D
    cccK2 = (nu * g * (g + 2 * M / u) + (g + M / u) / u) / (u * D)
    # The numbers x and y, and X = (slope c + constant) K.
    determinant = 1 + 2 * f2 * cK + M * (own + f2**2 / u)
    x = (cK + f2 * M / u) / determinant
    y = f2 * (ccK + f2 * cK + own * M * g / u) / determinant
    slope = (1 + f2 * cK + own * M) / determinant
    constant = cK * (f2 * nu - own) / determinant
    square = slope**2 * ccK2 + 2 * slope * constant * cK2 + constant**2 * K2
    weighted = slope**2 * cccK2 + 2 * slope * constant * ccK2 + constant**2 * cK2
    linear = slope * ccK + constant * cK + f2 * x  # mean of c X, and f2 x
    bias = 1 + rho - 2 * linear + weighted + q * square + 2 * x * y + (own + f2**2) * x**2
    A = cK2 + q * K2  # mean of G K^2
    idg = math_.divide(bias, eta + xi * A / tau)
    noise = (1 + q) * (square + A / tau * idg)
    return 1 + rho - 2 * (1 + f2) * x + (own + f2**2 + 2 * f2) * x**2 + noise, idg
