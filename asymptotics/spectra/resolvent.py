r"""The Wishart resolvent: normalised trace of the resolvent of a sample covariance matrix.

Let :math:`\hat C = \frac1k \sum_{j=1}^k w_j w_j^\top` with :math:`k` independent
:math:`w_j \sim N(0, I_d)`.  As :math:`d, k \to \infty` at fixed :math:`\kappa = k/d`,

.. formula: resolvent

.. math:: M_\kappa(q) = \lim \frac1d \operatorname{tr} (\hat C + q)^{-1},
   \qquad \frac q\kappa M^2 + \Bigl(q + 1 - \frac1\kappa\Bigr) M = 1,

the Stieltjes transform of the Marchenko-Pastur law (ratio :math:`1/\kappa`) at :math:`-q`;
:math:`\mathcal M_\kappa` of Lu, Letey, Zavatone-Veth, Maiti and Pehlevan (PNAS 2025,
arXiv:2405.11751).

Written in the inflation :math:`w = 1 + M/\kappa` all that follows from it is a product or a sum of
positive terms, so nothing cancels in floating point:

.. math:: M = \frac{1}{q + 1/w}, \quad 1 - qM = \frac Mw, \quad
   -M' = \frac{M w^2}{1 + q w^2}, \quad
   M'' = \frac{2 M w^3 (2w - 1 + q w^3)}{(1 + q w^2)^3}.

The derivatives follow by implicit differentiation of the quadratic equation.

.. symbols:
   M: resolvent: the mean of 1/(eigenvalue + q)
   q: argument of the resolvent
   \operatorname{tr}: trace
   \hat C: covariance of the k tasks
"""

from __future__ import annotations

from iclimit.asymptotics.checks import check_derivative, checked
from iclimit.asymptotics.numbers import Namespace, Number, Value


def excess(math_: Namespace, kappa: Value, start: Value) -> Value:
    """Return (kappa - start) / kappa, which is 1 at kappa = inf."""
    return math_.where(math_.isinf(kappa), lambda: 1, lambda: (kappa - start) / kappa)


def resolvent(math_: Namespace, q: Value, kappa: Value, offset: Value) -> Value:
    """Positive root M of (q/kappa) M^2 + (q + offset) M = 1, where offset = 1 - 1/kappa.

    The offset is an argument because it decides the accuracy near kappa = 1: the caller knows how
    to form it without cancellation.  The two forms of the root are equal; the sign of the linear
    coefficient says which of them adds numbers of equal sign (the other loses up to 11 digits).
    """
    linear = q + offset
    root = math_.hypot(linear, 2 * math_.sqrt(q) / math_.sqrt(kappa))
    return math_.stable(
        linear >= 0,
        lambda: math_.divide(2, linear + root),
        lambda: math_.divide((root - linear) * kappa, 2 * q),
    )


def wishart_resolvent(q: Number, *, kappa: Number, derivative: int = 0) -> Value:
    r"""Wishart resolvent :math:`M_\kappa(q)`, or its first or second derivative in q.

    Parameters
    ----------
    q : number or array, q >= 0
        Resolvent argument: minus the point at which the Stieltjes transform is taken.
    kappa : number or array, kappa > 0
        Ratio of the number of vectors to their dimension; ``inf`` is the identity covariance.
    derivative : {0, 1, 2}
        Order of the derivative in q.

    Returns
    -------
    number or array
        Broadcast of q and kappa; of the number system of the arguments (NumPy or another array
        library, mpmath, SymPy).  At q = 0 and kappa <= 1 the resolvent diverges: ``inf``
        (``-inf`` for the first derivative).

    Raises
    ------
    ValueError
        If q < 0, kappa <= 0, or derivative is not 0, 1 or 2.

    Notes
    -----
    float64 values are within 1e-14 relative of exact ones for q in [1e-20, 1e8] and kappa in
    [1e-3, 1e4], at kappa = 1 as well.

    References
    ----------
    Marchenko and Pastur (1967); as :math:`\mathcal M_\kappa` in Lu et al., arXiv:2405.11751.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import wishart_resolvent
    >>> float(wishart_resolvent(0.5, kappa=float("inf")))
    0.6666666666666666
    >>> import sympy
    >>> q, kappa = sympy.symbols("q kappa", positive=True)
    >>> M = wishart_resolvent(q, kappa=kappa)
    >>> sympy.simplify(q / kappa * M**2 + (q + 1 - 1 / kappa) * M)
    1
    """
    check_derivative(derivative, most=2)
    math_, values = checked(q=q, kappa=kappa)
    q = values.q
    kappa = values.kappa
    with math_.quiet():
        M = resolvent(math_, q, kappa, excess(math_, kappa, 1))
        if derivative == 0:
            return math_.finish(M)
        w = 1 + M / kappa
        curvature = 1 + q * w**2
        if derivative == 1:
            return math_.finish(
                math_.where(math_.isinf(M), lambda: -math_.inf, lambda: -M / (1 / w**2 + q))
            )
        second = 2 * M * (w / curvature) ** 3 * (2 * w - 1 + q * w**3)
        return math_.finish(math_.where(math_.isinf(M), lambda: math_.inf, lambda: second))
