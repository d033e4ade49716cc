r"""Asymptotic ICL and IDG errors of linear attention.

Setting (Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 2025, arXiv:2405.11751).  A prompt holds
:math:`\ell` pairs :math:`(x_i, y_i)` with :math:`x_i \sim N(0, I_d/d)`,
:math:`y_i = \langle w, x_i\rangle + \epsilon_i`, noise variance :math:`\rho`, and a query.  Linear
attention predicts :math:`\langle\Gamma, x_{q} h^\top\rangle` with the context summary

.. math:: h = \Bigl(\tfrac d\ell \sum_i y_i x_i,\; \tfrac1\ell \sum_i y_i^2\Bigr) \in R^{d+1},

and :math:`\Gamma` minimises the squared error on n prompts plus
:math:`\frac nd \lambda \lVert\Gamma\rVert_F^2`.  The training tasks w are k fixed vectors of
squared norm d in uniformly random directions.  The limit is :math:`d \to \infty` at fixed

.. math:: \tau = n/d^2, \quad \alpha = \ell/d, \quad \kappa = k/d, \quad \lambda.

The *ICL error* is the squared error on a noisy query label for fresh tasks, the *IDG error*
(in-distribution generalisation) for the training tasks.  Both are at least :math:`\rho`; the null
predictor has :math:`1 + \rho`.

With :math:`q = (1+\rho)/\alpha`, ridge regression on :math:`n` samples of features with covariance
:math:`(\hat C + q) \otimes I` has an effective ridge :math:`\xi`, the root of a fixed point (see
below).  Let :math:`M = M_\kappa(\nu)` be the Wishart
resolvent at :math:`\nu = q + \xi`.

In :math:`w = 1 + M/\kappa`, :math:`r = 1 + \nu w^2`, :math:`\eta = \lambda/\xi` (at
:math:`\lambda = 0`: :math:`\max(0, 1 - 1/\tau)`) and :math:`A = M (1 + q w^2)/r` the errors are

.. formula: errors

.. math::

   e_{IDG} &= \frac{\rho + qM/w + \xi M \nu/r}{\eta + \xi A/\tau}, \\
   e_{ICL} &= \rho + \frac{qM}{w}\,\frac{1 + \nu w (w-1)}{r} + \frac{\nu^2 M w^2}{r}
              + (1+q)\,\frac{A}{\tau}\, e_{IDG}.

All terms are positive, so float64 keeps full relative accuracy.  These expressions equal the
published ridgeless ones (the tests prove it); the derivation is on the theory page of the
documentation.

**Effective ridge.**  With the Wishart resolvent :math:`M_\kappa`, the effective ridge
:math:`\xi` is the unique root of

.. formula: effective_ridge

.. math:: \tau(1 - \lambda/\xi) = 1 - \xi M_\kappa(q + \xi).

At :math:`\lambda = 0` it is explicit: :math:`\xi = 0` for :math:`\tau \ge 1`, and otherwise
:math:`\xi = (1-\tau) / (\tau M_{\kappa/\tau}(q))`.  At :math:`\lambda > 0` the same closed form
holds with :math:`\tau` replaced by :math:`\tau(1 - \lambda/\xi)`.  The root of that equation is
found in :math:`\log \xi`, where its slope is at least one everywhere.

.. page: pretraining/icl: ICL and IDG errors of linear attention

.. symbols:
   q: regularisation by short contexts, (1 + ρ)/α
   \xi: effective ridge
   \nu: argument of the resolvent: q + ξ
   M: resolvent of the covariance of the pretraining tasks, at ν: the mean of 1/(eigenvalue + ν)
   w: 1 + M/κ
   r: 1 + νw²
   \eta: λ/ξ; without a ridge the larger of 0 and 1 − 1/τ
   A: M(1 + qw²)/r
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from iclimit.asymptotics.blocks import point_by_point
from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import (
    ArrayMath,
    MpMath,
    Namespace,
    Number,
    SymPyMath,
    Value,
    namespace,
    numpy_namespace,
)
from iclimit.asymptotics.pretraining.labels import effective_labels
from iclimit.asymptotics.searches import find_root
from iclimit.asymptotics.spectra.resolvent import excess, resolvent
from iclimit.links import Link, LinkLike, parse_link


def icl_error(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    link: LinkLike = "identity",
    flips: Number = 0.0,
) -> Value:
    r"""Asymptotic error on fresh tasks (ICL error) of linear attention.

    Parameters
    ----------
    tau : number or array, tau > 0
        Prompts over squared dimension, :math:`n/d^2`; ``inf`` is the limit of infinite data.
    alpha : number or array, alpha > 0
        Context length over dimension, :math:`\ell/d`; ``inf`` is the limit of infinite context
        at fixed tau.
    kappa : number or array, kappa > 0
        Pretraining tasks over dimension, :math:`k/d`; ``inf``: a fresh task in every prompt.
    rho : number or array, rho >= 0
        Variance of the label noise (the noiseless label has variance 1).
    ridge : number or array, 0 <= ridge < inf
        Ridge :math:`\lambda` of the penalty :math:`\frac nd \lambda \lVert\Gamma\rVert_F^2`.  At 0
        the predictor of least norm.
    link : str, (str, number), (number, number) or callable
        Function g of the labels :math:`g(z) + \epsilon`, where :math:`z = \langle w, x\rangle`
        has variance 1, as in `effective_labels`; rho is then the variance of :math:`\epsilon`.
    flips : number or array in [0, 1]
        Probability that a label, in the context or of the query, has the other sign.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label, at least rho, broadcast over the arguments and
        of their number system.  NumPy or other array API arrays, mpmath numbers and SymPy
        expressions (ridge 0 and finite arguments only; for the rest take `sympy.limit`).  ``inf``
        where the error diverges: tau = 1 with ridge = 0, and
        alpha = inf with ridge = 0, rho > 0, kappa <= min(tau, 1), tau < inf.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    ArithmeticError
        If float64 cannot decide at extreme arguments, far outside the range of the Notes.
    TypeError
        If an argument is not a number, arrays meet mpmath or SymPy scalars, or a SymPy
        expression comes with a ridge (the fixed point is then the root of a quartic).

    Notes
    -----
    float64 is within 1e-12 relative of exact arithmetic for tau in [1e-2, 1e6], alpha in
    [1e-6, 1e10], kappa in [1e-3, 1e4], rho in [0, 10], ridge in {0} and [1e-12, 1e2].

    The limit is slow: finite-size runs deviate as 1/d with a large constant (1 to 15 % at
    d = 100).  `finite_size_errors` predicts what a run at given integers shows.

    References
    ----------
    Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751: ICL error in the
    ridgeless limit.  The form used here and finite ridge: module
    `iclimit.asymptotics.pretraining.icl`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import icl_error
    >>> round(float(icl_error(tau=1.6, alpha=1.0, kappa=0.5, rho=0.1)), 4)
    1.8464
    >>> icl_error(tau=[0.5, 1.0, 2.0], alpha=1.0, kappa=0.5, rho=0.1).round(3)
    array([1.483,   inf, 1.471])

    Labels that are classes, one in ten of them wrong:

    >>> classes = icl_error(tau=2, alpha=2, kappa=2, rho=0, ridge=0.05, link="sign", flips=0.1)
    >>> round(float(classes), 4)
    1.4355
    """
    return both_errors(
        tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge, link=link, flips=flips
    )[0]


def idg_error(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    link: LinkLike = "identity",
    flips: Number = 0.0,
) -> Value:
    """Asymptotic error on the pretraining tasks (IDG error) of linear attention.

    Parameters, number systems, errors and accuracy are those of `icl_error`.  At alpha = inf with
    ridge = 0 and rho > 0 the IDG error diverges only where kappa = tau < 1.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label for prompts from the pretraining tasks.

    Raises
    ------
    ValueError, TypeError
        As `icl_error`.

    References
    ----------
    Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751: IDG error in the
    ridgeless limit.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import idg_error
    >>> round(float(idg_error(tau=1.6, alpha=1.0, kappa=0.5, rho=0.1)), 4)
    1.0967
    """
    return both_errors(
        tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge, link=link, flips=flips
    )[1]


def task_gap(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    link: LinkLike = "identity",
    flips: Number = 0.0,
) -> Value:
    """Asymptotic ICL minus IDG error: what is lost on tasks not seen in pretraining.

    Parameters, number systems and errors are those of `icl_error`; the difference is formed from
    the two errors, so it is accurate relative to them.  ``inf`` wherever the ICL error diverges.

    Raises
    ------
    ValueError, TypeError
        As `icl_error`.

    References
    ----------
    Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751, as g_task.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import task_gap
    >>> round(float(task_gap(tau=1.6, alpha=1.0, kappa=0.5, rho=0.1)), 4)
    0.7497
    """
    icl, idg = both_errors(
        tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge, link=link, flips=flips
    )
    math_ = namespace({"icl": icl, "idg": idg})
    with math_.quiet():
        return math_.finish(
            math_.where(math_.isinf(math_.convert(icl)), lambda: icl, lambda: icl - idg)
        )


def both_errors(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    link: LinkLike = "identity",
    flips: Number = 0.0,
) -> tuple[Value, Value]:
    """ICL and IDG error, with the arguments of `icl_error`, at the cost of one."""
    own = parse_link(link)
    unflipped = isinstance(flips, (int, float)) and flips == 0
    if not (own.is_identity and unflipped):
        return _linked_errors(own, flips, tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge)
    math_, values = checked(tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge)
    point = (values.tau, values.alpha, values.kappa, values.rho, values.ridge)
    with math_.quiet():
        icl, idg = point_by_point(_errors_at_points, math_, *point, results=2)
    return math_.finish(icl), math_.finish(idg)


def _linked_errors(link: Link, flips: Number, **point: Any) -> tuple[Value, Value]:
    """Both errors for labels that are not linear, from those of linear ones (module `labels`)."""
    _, values = checked(flips=flips, **point)
    labels = effective_labels(link, values.rho, flips=values.flips)
    ridge = values.ridge * labels.ridge_factor
    linear = {"tau": values.tau, "alpha": values.alpha, "kappa": values.kappa}
    icl, idg = both_errors(**linear, rho=labels.rho, ridge=ridge)
    return labels.factor * icl, labels.factor * idg


def _errors_at_points(
    math_: Namespace, tau: Value, alpha: Value, kappa: Value, rho: Value, ridge: Value
) -> tuple[Value, Value]:
    """Both errors, from checked arguments."""
    q = context_noise(math_, alpha, rho)

    def cases(below: Value) -> tuple[Value, Value]:
        xi, eta = solve_fixed_point(math_, below, tau, q, kappa, ridge)
        icl, idg = errors_at(math_, tau, kappa, rho, q, xi, eta)
        free = math_.all_of(math_.isinf(alpha), ridge <= 0, rho > 0, tau < math_.inf)
        icl_diverges = math_.all_of(free, kappa <= 1, kappa <= tau)
        idg_diverges = math_.all_of(free, kappa < 1, kappa <= tau, kappa >= tau)
        return (
            math_.where(icl_diverges, lambda: math_.inf, lambda: settled(icl)),
            math_.where(idg_diverges, lambda: math_.inf, lambda: settled(idg)),
        )

    def settled(error: Value) -> Value:
        """Replace by 0 what the stand-in for infinite context leaves of an error of 0."""
        if isinstance(math_, SymPyMath):
            return error
        gone = math_.all_of(math_.isinf(alpha), error < math_.tiny**0.25)
        return math_.where(gone, lambda: 0, lambda: error)

    return math_.branch(tau < 1, cases)


# Function that is given the name and the value of an intermediate, and returns its value.
Let = Callable[[str, Any], Any]


def unnamed(name: str, value: Value) -> Value:  # noqa: ARG001
    """Return the value; a derivation returns a symbol in its place (`error_derivations`)."""
    return value


def errors_at(
    math_: Namespace,
    tau: Value,
    kappa: Value,
    rho: Value,
    q: Value,
    xi: Value,
    eta: Value,
    let: Let = unnamed,
) -> tuple[Value, Value]:
    """ICL and IDG errors at a solution (xi, eta) of the fixed point (module docstring)."""
    nu = let("nu", q + xi)
    M = let("M", resolvent(math_, nu, kappa, excess(math_, kappa, 1)))
    parts = error_parts(tau, kappa, rho, q, xi, M, let)
    return errors_of(math_, tau, xi, eta, parts, let)


def errors_of(
    math_: Namespace,
    tau: Value,
    xi: Value,
    eta: Value,
    parts: tuple[Value, ...],
    let: Let = unnamed,
) -> tuple[Value, Value]:
    """ICL and IDG errors at a solution of the fixed point, from the `error_parts` there."""
    A, noise, own, factor = parts
    idg = let("IDG", math_.divide(noise, eta + xi * A / tau))
    return let("ICL", own + factor * idg), idg


def error_parts(
    tau: Value, kappa: Value, rho: Value, q: Value, xi: Value, M: Value, let: Let = unnamed
) -> tuple[Value, ...]:
    """A, the numerator of the IDG error, and own and factor of ICL = own + factor * IDG."""
    nu = let("nu", q + xi)
    w = let("w", 1 + M / kappa)
    r = let("r", 1 + nu * w**2)
    A = let("A", M * (1 + q * w**2) / r)
    noise = rho + q * M / w + xi * M * (nu / r)
    own = rho + q * M / w * ((1 + nu * w * M / kappa) / r) + nu * M * (nu * w**2 / r)
    return A, noise, own, (1 + q) * A / tau


def context_noise(math_: Namespace, alpha: Value, rho: Value) -> Value:
    """Variance q = (1 + rho)/alpha that a finite context adds to each task coordinate.

    Infinite context is the limit of q to 0 from above.
    """
    return math_.where(math_.isinf(alpha), lambda: math_.tiny, lambda: (1 + rho) / alpha)


def ridgeless_point(
    math_: Namespace, below: Value, tau: Value, q: Value, kappa: Value
) -> tuple[Value, Value]:
    """Effective ridge xi and eta = lim ridge/xi as the ridge tends to 0; below is tau < 1."""

    def left_by_too_few_prompts() -> Value:
        return (1 - tau) / (tau * resolvent(math_, q, kappa / tau, excess(math_, kappa, tau)))

    xi = math_.where(below, left_by_too_few_prompts, lambda: 0)
    return xi, math_.where(below, lambda: 0, lambda: excess(math_, tau, 1))


def solve_fixed_point(
    math_: Namespace, below: Value, tau: Value, q: Value, kappa: Value, ridge: Value
) -> tuple[Value, Value]:
    """Effective ridge xi and eta = ridge/xi; below is tau < 1."""
    xi, eta = ridgeless_point(math_, below, tau, q, kappa)
    if isinstance(math_, SymPyMath):
        if not ridge.is_zero:
            raise TypeError(
                f"ridge must be 0 for SymPy expressions, got {ridge}: at positive ridge the fixed "
                "point is the root of a quartic; pass numbers or mpmath numbers"
            )
        return xi, eta
    if isinstance(math_, MpMath):
        if ridge > 0:
            xi = effective_ridge_mp(tau, q, kappa, ridge)
            eta = ridge / xi
        return xi, eta
    arrays = np.broadcast_arrays(*(math_.host(v) for v in (tau, q, kappa, ridge, xi, eta)))
    tau, q, kappa, ridge, ridgeless_xi, ridgeless_eta = arrays
    chosen = ridge > 0
    if not np.any(chosen):
        return xi, eta
    xi = np.where(chosen, ridge, ridgeless_xi)  # the limit at tau = inf
    free = chosen & np.isfinite(tau)
    xi[free] = _effective_ridge(tau[free], q[free], kappa[free], ridge[free])
    eta = np.where(chosen, ridge / xi, ridgeless_eta)
    return math_.convert(xi), math_.convert(eta)


def ridge_bracket(math_: Namespace, tau: Value, eigenvalue: Value, ridge: Value) -> Value:
    r"""Effective ridge if all features had this variance: a bound on it from either side.

    The root of :math:`\tau (1 - \lambda/\xi) = g/(g + \xi)`, a quadratic equation, grows with g.
    So the smallest feature variance bounds the effective ridge from below, and the largest (or, by
    concavity, the mean) from above.
    """
    linear = eigenvalue * excess(math_, tau, 1) - ridge
    root = math_.hypot(linear, 2 * math_.sqrt(ridge * eigenvalue))
    return math_.stable(
        linear >= 0, lambda: 2 * ridge * eigenvalue / (linear + root), lambda: (root - linear) / 2
    )


def _residual(
    math_: ArrayMath | MpMath, log_xi: Value, tau: Value, q: Value, kappa: Value, ridge: Value
) -> Value:
    """Residual of the fixed point, increasing: the ridgeless form at tau (1 - ridge/xi)."""
    xi = math_.exp(log_xi)
    spent = tau * ridge / xi
    remaining = math_.where(spent < tau, lambda: tau - spent, lambda: 0)
    offset = math_.where(math_.isinf(kappa), lambda: 1, lambda: ((kappa - tau) + spent) / kappa)
    M = resolvent(math_, q, math_.divide(kappa, remaining), offset)
    return xi * remaining * M - ((1 - tau) + spent)


def _effective_ridge(tau: Value, q: Value, kappa: Value, ridge: Value) -> np.ndarray:
    """Effective ridge xi at ridge > 0 and finite tau for flat NumPy arrays of equal shape."""
    math_ = numpy_namespace({"tau": tau, "ridge": ridge})
    setting = {"tau": tau, "q": q, "kappa": kappa, "ridge": ridge}
    # Widened so that rounding cannot hide the change of sign when the bracket is a few ulp wide.
    lower = np.log(ridge_bracket(math_, tau, q, ridge)) - 1e-13
    upper = np.log(ridge_bracket(math_, tau, 1 + q, ridge)) + 1e-13
    residual = partial(_residual, math_)
    return np.exp(find_root(math_, residual, (lower, upper), setting, "fixed point"))


def effective_ridge_mp(tau: Value, q: Value, kappa: Value, ridge: Value) -> Value:
    """Effective ridge xi at ridge > 0 at mpmath's current precision."""
    import mpmath

    math_ = MpMath()
    if mpmath.isinf(tau):
        return ridge
    margin = mpmath.mp.eps / 4
    with mpmath.workprec(2 * mpmath.mp.prec):
        # Widened as for float64: rounding must not hide the change of sign.
        lower = mpmath.log(ridge_bracket(math_, tau, q, ridge)) - margin
        upper = mpmath.log(ridge_bracket(math_, tau, 1 + q, ridge)) + margin

        def residual(log_xi: Value) -> Value:
            return _residual(math_, log_xi, tau, q, kappa, ridge)

        log_xi = mpmath.findroot(
            residual,
            (lower, upper),
            solver="illinois",
            tol=mpmath.mp.eps,
            maxsteps=1000,
            verify=False,  # by the change of sign below: the residual can be very steep
        )
        if not residual(log_xi - margin) < 0 < residual(log_xi + margin):
            raise ArithmeticError(
                f"the fixed point was not solved at {tau=!s}, {q=!s}, {kappa=!s}, {ridge=!s}"
            )
    return mpmath.exp(log_xi)
