r"""Several queries after one shared context: prompts that are cheap but not independent.

The setting is that of `iclimit.asymptotics.pretraining.icl` with a fresh task in each of
:math:`n = \nu d` contexts of :math:`\alpha d` examples, and :math:`\beta d` queries after each.
No query is an example of a later one, so that of
`iclimit.asymptotics.pretraining.all_positions` the nesting is absent, t = 0, and the kernel is a
constant: :math:`K = k 1 1^\top`, :math:`k = 1 + q`, :math:`q = (1 + \rho)/\alpha`.  All
responses are equal.  With their sum R and :math:`s = \phi k`,

.. math::

   \beta s R^2 + (\beta + s - \beta s) R = \beta, \qquad \lambda\nu\phi = 1 - \nu\beta (1 - R),
   \qquad F = \frac{R}{1 + s R},

and with :math:`D = -d/d\phi`

.. formula: shared

.. math:: c = \frac{F}{\lambda + k F}, \qquad
   z = \frac{\nu\phi^2 \{[(1 - c)^2 + c^2 q]\, D F + \rho\, D R\}}{1 - \nu\phi^2 k\, D F},

from which the error of every test is :math:`\rho + (1 - c)^2 + c^2 q' + z (1 + q')`.

.. page: pretraining/all-positions: Training on every position of a sequence
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.checks import checked, flattened
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.searches import find_root
from iclimit.results import Result

# Widening of the bracket of log phi: rounding must not hide the change of sign.
_SLACK = 1e-9


@dataclass(frozen=True, repr=False)
class SharedContextErrors(Result):
    r"""Errors of linear attention that is trained on several queries after each context.

    Attributes
    ----------
    icl : number or array
        Squared error on a noisy query label for fresh tasks.
    training : number or array
        Mean squared error on the training queries, without the penalty.
    rate : number or array
        c: what a summary is multiplied by on average.
    variance : number or array
        z: squared norm of the rest of :math:`\Gamma`, over d.
    """

    icl: Value
    training: Value
    rate: Value
    variance: Value


def shared_context_errors(
    *,
    sequence_ratio: Number,
    query_ratio: Number,
    alpha: Number,
    rho: Number,
    ridge: Number,
    test_alpha: Number | None = None,
) -> SharedContextErrors:
    r"""Errors after training on several queries after each context, in the limit of large d.

    Parameters
    ----------
    sequence_ratio : number or array > 0
        :math:`\nu`: contexts over dimension, each with a fresh task.
    query_ratio : number or array > 0
        :math:`\beta`: queries after each context, over dimension.
    alpha : number or array > 0
        Context length over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    ridge : number or array > 0
        Ridge in the units of `icl_error`, for a loss that is the mean over contexts and queries.
    test_alpha : number or array > 0, optional
        Context length of the tests over dimension; by default ``alpha``.

    Returns
    -------
    SharedContextErrors
        With fields ``icl``, ``training``, ``rate`` and ``variance``, broadcast.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.shared_context`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import shared_context_errors
    >>> errors = shared_context_errors(
    ...     sequence_ratio=2, query_ratio=[0.5, 1, 100], alpha=1.5, rho=0.1, ridge=0.1
    ... )
    >>> errors.icl.round(4)
    array([1.358 , 1.0762, 0.8269])
    """
    math_, values = checked(
        systems="numpy",
        ranges={
            "query_ratio": "(0, inf)",
            "alpha": "(0, inf)",
            "test_alpha": "(0, inf)",
            "ridge": "(0, inf)",
        },
        optional=("test_alpha",),
        sequence_ratio=sequence_ratio,
        query_ratio=query_ratio,
        alpha=alpha,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
    )
    if values.test_alpha is None:
        values.test_alpha = values.alpha
    shape, points = flattened(values)
    nu = points.sequence_ratio
    beta = points.query_ratio
    rho = points.rho
    q = (1 + rho) / points.alpha
    k = 1 + q

    def excess(
        log_phi: np.ndarray, nu: np.ndarray, beta: np.ndarray, ridge: np.ndarray, k: np.ndarray
    ) -> np.ndarray:
        phi = np.exp(log_phi)
        return ridge * nu * phi - 1 + nu * beta * (1 - _responses(beta, phi * k))

    arguments = {"sequence_ratio": nu, "query_ratio": beta, "ridge": points.ridge, "k": k}
    bracket = (-np.log(nu * (points.ridge + k)) - _SLACK, -np.log(nu * points.ridge) + _SLACK)
    phi = np.exp(find_root(math_, excess, bracket, arguments, "response of the queries"))
    R, R_slope, F, F_slope = _forms(beta, k, phi)
    c = F / (points.ridge + k * F)
    missed = (1 - c) ** 2 + c**2 * q
    spent = missed * F_slope + rho * R_slope
    z = -nu * phi**2 * spent / (1 + nu * phi**2 * k * F_slope)
    training = missed * F + rho * R + z * k * F - z / (phi * nu)
    test_noise = (1 + rho) / points.test_alpha
    icl = rho + (1 - c) ** 2 + c**2 * test_noise + z * (1 + test_noise)
    return SharedContextErrors(*(part.reshape(shape)[()] for part in (icl, training, c, z)))


def _responses(beta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Root R of the quadratic equation, without cancellation."""
    linear = beta + s - beta * s
    root = np.sqrt(linear**2 + 4 * beta**2 * s)
    return np.where(linear > 0, 2 * beta / (linear + root), (root - linear) / (2 * beta * s))


def _forms(beta: np.ndarray, k: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, ...]:
    """R and F with their derivatives by phi."""
    s = phi * k
    R = _responses(beta, s)
    slope = -R * (beta * R + 1 - beta) / (2 * beta * s * R + beta + s - beta * s)
    F = R / (1 + s * R)
    return R, k * slope, F, k * (slope - R**2) / (1 + s * R) ** 2
