r"""The sum of four power laws with its constants, and the shape that spends compute best.

For eigenvalues :math:`\lambda_k = k^{-\nu}` and tasks with :math:`\omega_k \lambda_k =
k^{-\nu\beta - 1}`, k = 1, 2, ..., in a basis that is rotated in each context, the loss of tied
layers of linear attention without label noise is

.. math:: \mathcal L \approx c_t\, t^{-\beta/(2 + \beta)} + c_L\, L^{-\beta}
   + c_N\, N^{-\nu\beta} + c_P\, P^{-\nu\beta},

Result 8 of Bordelon, Letey and Pehlevan (arXiv:2510.01098v1).  Each term is the leading order with
the three other resources infinite; the sum is an approximation.  The constants follow from the
variance below x, :math:`\sum_{\lambda_k < x} \omega_k \lambda_k \simeq x^\beta/(\nu\beta)`.

* A gain :math:`\gamma` at infinite depth leaves
  :math:`\int e^{-2\gamma x}\, x^{\beta - 1} dx/\nu = \Gamma(\beta)(2\gamma)^{-\beta}/\nu`, and
  gradient flow :math:`\gamma' = \Gamma(\beta + 1)(2\gamma)^{-\beta - 1}/\nu` makes
  :math:`(2\gamma)^{\beta + 2} = 2(\beta + 2)\Gamma(\beta + 1)\, t/\nu`.
* At depth L the best gain tends to 2L: :math:`c_L = \Gamma(\beta)\, 4^{-\beta}/\nu`.
* N random directions leave :math:`\sum \omega\lambda\, \kappa/(\lambda + \kappa)` with
  :math:`\sum \lambda/(\lambda + \kappa) = N`.  For :math:`\nu > 1` this is
  :math:`\kappa^{1/\nu} = \theta/N`, :math:`\theta = \pi/(\nu \sin(\pi/\nu))`, and for
  :math:`\beta < 1` the sum is :math:`\Gamma(\beta)\Gamma(1 - \beta)\, \kappa^\beta/\nu`.
* P tokens leave :math:`\sum \omega\lambda\, \kappa^2/(\lambda + \kappa)^2` over
  :math:`1 - \frac1P \sum \lambda^2/(\lambda + \kappa)^2 = 1/\nu`, which is
  :math:`\Gamma(\beta)\Gamma(2 - \beta)\, \kappa^\beta`.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import ArrayMath, Namespace, Number, SymPyMath, Value
from iclimit.results import Result

# Outside, width or context are limited by the largest or the smallest eigenvalues: the exponents
# of `scaling_exponents` hold, but not these constants.
_RANGES = {"nu": "(1, inf)", "beta": "(0, 1)"}

# Exponents of time, depth, width and context in the compute.
_COSTS = (1, 1, 2, 2)


@dataclass(frozen=True, repr=False)
class ScalingTerms(Result):
    r"""Constants of the sum of four power laws, of the number system of the arguments.

    Attributes
    ----------
    time : number or array
        :math:`c_t`, in the time of :math:`\gamma' = -\frac12 \partial_\gamma \mathcal L`.
    depth : number or array
        :math:`c_L`.
    width : number or array
        :math:`c_N`.
    context : number or array
        :math:`c_P`.
    """

    time: Value
    depth: Value
    width: Value
    context: Value


@dataclass(frozen=True, repr=False)
class OptimalShape(Result):
    """Shape of least loss at a given compute, as real numbers.

    Attributes
    ----------
    loss : number or array
        The sum of the four power laws.
    time, depth, width, context : number or array
        Training time, layers, width and tokens.
    """

    loss: Value
    time: Value
    depth: Value
    width: Value
    context: Value


def scaling_terms(*, nu: Number, beta: Number) -> ScalingTerms:
    r"""Constants of the four power laws of time, depth, width and context.

    Parameters
    ----------
    nu : number or array > 1
        Exponent of the eigenvalues, :math:`\lambda_k = k^{-\nu}`.
    beta : number or array in (0, 1)
        Exponent of the tasks, :math:`\omega_k \lambda_k = k^{-\nu\beta - 1}`.

    Returns
    -------
    ScalingTerms
        For losses that are sums over k, not means.  Arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an exponent is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Exponents: Bordelon, Letey, Pehlevan, arXiv:2510.01098v1, Result 8.  Constants: module
    `iclimit.asymptotics.depth.joint_law`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import scaling_terms
    >>> terms = scaling_terms(nu=2.0, beta=0.5)
    >>> round(float(terms.depth), 6), round(float(terms.width), 6)
    (0.443113, 2.467401)
    """
    math_, values = checked(systems="host", ranges=_RANGES, nu=nu, beta=beta)
    terms = _terms(math_, values.nu, values.beta)
    return ScalingTerms(*map(math_.finish, terms))


def compute_optimal(*, compute: Number, nu: Number, beta: Number) -> OptimalShape:
    r"""Training time, depth, width and context that minimise the loss at a given compute.

    Parameters
    ----------
    compute : number or array > 0
        :math:`C = t P^2 N^2 L`.
    nu, beta : number or array
        As in `scaling_terms`.

    Returns
    -------
    OptimalShape
        Minimum of the sum of the four power laws; in closed form, of the same number systems.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The terms are those of losses that are much smaller than at the start.  Where a depth or width
    below 1 comes out, the compute is too small for them.

    References
    ----------
    Module `iclimit.asymptotics.depth.joint_law`; the exponents are those of `scaling_exponents`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import compute_optimal
    >>> best = compute_optimal(compute=1e20, nu=1.5, beta=0.7)
    >>> [round(float(v), 1) for v in (best.time, best.depth, best.width, best.context)]
    [3506632.4, 425.4, 744.2, 347.9]
    """
    math_, values = checked(systems="host", ranges=_RANGES, compute=compute, nu=nu, beta=beta)
    nu = values.nu
    beta = values.beta
    exponents = beta / (2 + beta), beta, nu * beta, nu * beta
    terms = list(zip(_terms(math_, nu, beta), exponents, _COSTS, strict=True))
    # At the minimum a_i c_i r_i^-a_i = price m_i for all resources, with the compute's price.
    worth = [math_.log(c * a / m) for c, a, m in terms]
    weight = sum(m / a for _, a, m in terms)
    total = sum(m / a * w for w, (_, a, m) in zip(worth, terms, strict=True))
    price = (total - math_.log(values.compute)) / weight
    shape = [math_.exp((w - price) / a) for w, (_, a, _) in zip(worth, terms, strict=True)]
    loss = math_.exp(price) * weight
    return OptimalShape(*(math_.finish(value) for value in (loss, *shape)))


def _terms(math_: Namespace, nu: Value, beta: Value) -> tuple[Value, Value, Value, Value]:
    """Constants of time, depth, width and context."""
    # The sine of pi/nu.
    theta = math_.pi / nu / math_.cos(math_.pi / 2 - math_.pi / nu)
    g = _gamma(math_, beta)
    flow = 2 * (beta + 2) * _gamma(math_, beta + 1) / nu
    time = g / nu * flow ** (-beta / (beta + 2))
    spread = theta ** (nu * beta)
    width = g * _gamma(math_, 1 - beta) / nu * spread
    return time, g / nu * 4 ** (-beta), width, g * _gamma(math_, 2 - beta) * spread


def _gamma(math_: Namespace, x: Value) -> Value:
    """Gamma function."""
    if isinstance(math_, ArrayMath):
        return special.gamma(x)
    if isinstance(math_, SymPyMath):
        import sympy

        return sympy.gamma(x)
    return math_.gamma(x)
