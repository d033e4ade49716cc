r"""Effective ridge of the pretraining regression for isotropic tasks.

With :math:`q = (1+\rho)/\alpha` and the Wishart resolvent :math:`M_\kappa`, the effective ridge
:math:`\xi` is the unique root of

.. math:: \tau(1 - \lambda/\xi) = 1 - \xi M_\kappa(q + \xi).

At :math:`\lambda = 0` it is explicit: :math:`\xi = 0` for :math:`\tau \ge 1`, and otherwise
:math:`\xi = (1-\tau) / (\tau M_{\kappa/\tau}(q))`.  At :math:`\lambda > 0` the same closed form
holds with :math:`\tau` replaced by :math:`\tau(1 - \lambda/\xi)`.  The root of that equation is
found in :math:`\log \xi`, where its slope is at least one everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.numbers import ArrayMath, MpMath, Namespace, SymPyMath
from iclimit.asymptotics.spectra.resolvent import excess, resolvent


def context_noise(math_: Namespace, alpha: Any, rho: Any) -> Any:
    """Variance q = (1 + rho)/alpha that a finite context adds to each task coordinate.

    Infinite context is the limit of q to 0 from above.
    """
    return math_.where(math_.isinf(alpha), lambda: math_.tiny, lambda: (1 + rho) / alpha)


def ridgeless_point(math_: Namespace, below: Any, tau: Any, q: Any, kappa: Any) -> tuple[Any, Any]:
    """Effective ridge xi and eta = lim ridge/xi as the ridge tends to 0; below is tau < 1."""

    def left_by_too_few_prompts() -> Any:
        return (1 - tau) / (tau * resolvent(math_, q, kappa / tau, excess(math_, kappa, tau)))

    xi = math_.where(below, left_by_too_few_prompts, lambda: 0)
    return xi, math_.where(below, lambda: 0, lambda: excess(math_, tau, 1))


def solve_fixed_point(
    math_: Namespace, below: Any, tau: Any, q: Any, kappa: Any, ridge: Any
) -> tuple[Any, Any]:
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
    chosen = arrays[3] > 0
    if not np.any(chosen):
        return xi, eta
    xi, eta = arrays[4].copy(), arrays[5].copy()
    xi[chosen] = _effective_ridge(*(v[chosen] for v in arrays[:4]))
    eta[chosen] = arrays[3][chosen] / xi[chosen]
    return math_.convert(xi), math_.convert(eta)


def ridge_bracket(math_: Namespace, tau: Any, eigenvalue: Any, ridge: Any) -> Any:
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
    math_: Namespace, log_xi: Any, exp: Any, tau: Any, q: Any, kappa: Any, ridge: Any
) -> Any:
    """Residual of the fixed point, increasing: the ridgeless form at tau (1 - ridge/xi)."""
    xi = exp(log_xi)
    spent = tau * ridge / xi
    remaining = math_.where(spent < tau, lambda: tau - spent, lambda: 0)
    offset = math_.where(math_.isinf(kappa), lambda: 1, lambda: ((kappa - tau) + spent) / kappa)
    M = resolvent(math_, q, math_.divide(kappa, remaining), offset)
    return xi * remaining * M - ((1 - tau) + spent)


_UNSOLVED = "the fixed point was not solved at tau={}, q={}, kappa={}, ridge={}"


def _effective_ridge(tau: Any, q: Any, kappa: Any, ridge: Any) -> np.ndarray:
    """Effective ridge xi at ridge > 0 for flat NumPy arrays of equal shape."""
    math_ = ArrayMath(np)
    xi = ridge.copy()  # the limit at tau = inf
    finite = np.isfinite(tau)
    tau, q, kappa, ridge = arguments = tuple(v[finite] for v in (tau, q, kappa, ridge))
    # Widened so that rounding cannot hide the change of sign when the bracket is a few ulp wide.
    lower = np.log(ridge_bracket(math_, tau, q, ridge)) - 1e-13
    upper = np.log(ridge_bracket(math_, tau, 1 + q, ridge)) + 1e-13
    result = elementwise.find_root(
        lambda u, *args: _residual(math_, u, np.exp, *args),
        (lower, upper),
        args=arguments,
        tolerances={"xatol": 1e-15, "xrtol": 1e-15, "fatol": 0, "frtol": 0},
    )
    if not np.all(result.success):
        worst = int(np.argmin(result.success))
        raise ArithmeticError(_UNSOLVED.format(*(v[worst] for v in arguments)))
    xi[finite] = np.exp(result.x)
    return xi


def effective_ridge_mp(tau: Any, q: Any, kappa: Any, ridge: Any) -> Any:
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

        def residual(log_xi: Any) -> Any:
            return _residual(math_, log_xi, mpmath.exp, tau, q, kappa, ridge)

        log_xi = mpmath.findroot(
            residual,
            (lower, upper),
            solver="illinois",
            tol=mpmath.mp.eps,
            maxsteps=1000,
            verify=False,  # by the change of sign below: the residual can be very steep
        )
        if not residual(log_xi - margin) < 0 < residual(log_xi + margin):
            raise ArithmeticError(_UNSOLVED.format(tau, q, kappa, ridge))
    return mpmath.exp(log_xi)
