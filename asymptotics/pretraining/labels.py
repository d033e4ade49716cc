r"""Labels that are no linear function: their unexplained variance is noise.

Labels are :math:`y = s\,(g(z) + \epsilon)` with :math:`z = \langle w, x\rangle \sim N(0, 1)`,
noise :math:`\epsilon \sim N(0, \rho)` and a sign s that is -1 with probability p.  By Hermite's
expansion :math:`g(z) = g_0 + g_1 z + r(z)` with :math:`g_1 = E\,z g(z)`, and the rest r is
uncorrelated with z.  Linear attention sees a label through features that are linear in the query:

1. The context summary has the mean :math:`(1 - 2p)\, g_1 w` given the task, and its covariance is
   that of linear labels with the same mean square, up to one direction.
2. In a query's label the rest :math:`g_0 + r(z)` is uncorrelated with the features.
3. Ridge regression depends on the law of what is unexplained through its variance.

So in the limit of `iclimit.asymptotics.pretraining.icl` errors are those of linear labels of the
noise :math:`\rho_{\mathrm{eff}}` at another ridge, in other units:

.. math:: e(g, \rho, \lambda) = c\; e\Bigl(\mathrm{linear},\ \rho_{\mathrm{eff}},\
   \frac\lambda c\Bigr), \qquad c = (1 - 2p)^2 g_1^2, \qquad
   \rho_{\mathrm{eff}} = \frac{E g^2 + \rho}c - 1 .

Thresholds, best ridges, budgets and training times carry over in the same way: a time t of
gradient flow is :math:`c\,t` of linear labels, and a learning rate c times as large.  Simulations
at finite size are described by `iclimit.asymptotics.pretraining.linked_contexts`.

Source: derived here.  Demir and Dogan (arXiv:2509.15152, 2510.25753) prove Gaussian equivalents
for nonlinear tasks with nonlinear heads; the linear head is their baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import quad

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import ArrayMath, Namespace, Number, Value
from iclimit.links import Link, LinkLike, check_link_values, link_text, parse_link

# Ends of the pieces of the normal law that are integrated one by one, and the subdivisions of one.
_ENDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
_SUBDIVISIONS = 200

# Relative error of an integral that is accepted; named links reach 1e-12.
_ACCURACY = 1e-7

# Share of the second moment below which the linear part of labels counts as none.
_LEAST_LINEAR = 1e-12


class EffectiveLabels(NamedTuple):
    """Linear labels that stand for others in the limit.

    Attributes
    ----------
    factor : number or array
        Square of the linear part; errors are so many times those of linear labels.
    rho : number or array
        Noise variance of the linear labels.
    ridge_factor : number or array
        The ridge of the linear labels over the ridge.
    """

    factor: Value
    rho: Value
    ridge_factor: Value


def effective_labels(
    link: LinkLike = "identity", rho: Number = 0.0, *, flips: Number = 0.0
) -> EffectiveLabels:
    r"""Linear labels whose errors, times a factor, are those of other labels in the limit.

    Parameters
    ----------
    link : str, (str, number), (number, number) or callable
        Function g of :math:`z \sim N(0, 1)`: "identity", "sign", "relu", "cube", "tanh" or "sin";
        a name with the number that z is multiplied by, such as ``("sin", 3.0)``; two moments
        :math:`(E\,z g(z),\ E\,g(z)^2)`; or a function of an array.
    rho : number or array >= 0
        Variance of the noise that is added to g(z), whose own variance need not be 1.
    flips : number or array in [0, 1]
        Probability that a label, in the context or of the query, has the other sign.

    Returns
    -------
    EffectiveLabels
        Factor :math:`c`, noise :math:`\rho_{\mathrm{eff}}` and factor of the ridge :math:`1/c`, by
        which a limit f of linear labels becomes
        ``factor * f(rho=labels.rho, ridge=labels.ridge_factor * ridge)``.

    Raises
    ------
    ValueError
        If the link is none, an argument is outside its range, or labels have no linear part:
        linear attention learns nothing of those.
    TypeError
        If mpmath or SymPy numbers come with a link whose moments are found numerically, or a
        function returns no real numbers.
    ArithmeticError
        If the moments of a function are not finite, or not found to 1e-7.

    Notes
    -----
    Moments of names are exact but for tanh, which is within 1e-12; those of functions are within
    1e-7, jumps and kinks included.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.labels`; Demir and Dogan, arXiv:2509.15152.

    Examples
    --------
    Classes are linear labels with noise, and four of ten flipped ones are much noise:

    >>> from iclimit import icl_error
    >>> from iclimit.pretraining import effective_labels
    >>> labels = effective_labels("sign", flips=[0.0, 0.1, 0.4])
    >>> labels.rho.round(4)
    array([ 0.5708,  1.4544, 38.2699])
    >>> labels = effective_labels("sign")
    >>> ridge = 0.05 * labels.ridge_factor
    >>> error = labels.factor * icl_error(tau=2, alpha=2, kappa=2, rho=labels.rho, ridge=ridge)
    >>> round(float(error), 4)
    1.1933
    """
    own = parse_link(link)
    math_, values = checked(rho=rho, flips=flips)
    first, second = link_moments(math_, own)
    sign = 1 - 2 * values.flips
    factor = (sign * first) ** 2
    if math_.violates(factor, lambda value: value > _LEAST_LINEAR * second) is not None:
        raise ValueError(
            "link and flips must leave labels a linear part, E z g(z) (1 - 2 flips) other than 0, "
            f"got {link_text(own)} with flips = {flips!r}: linear attention learns nothing of "
            "such labels"
        )
    with math_.quiet():
        noise = ((second - factor) + values.rho) / factor
        return EffectiveLabels(math_.finish(factor), math_.finish(noise), math_.finish(1 / factor))


def link_moments(math_: Namespace, link: Link) -> tuple[Value, Value]:
    """Moments E z g(z) and E g(z)^2 of a link, in a number system."""
    if link.moments is not None:
        first, second = link.moments
        return math_.convert(first), math_.convert(second)
    if link.name in _CLOSED_FORMS:
        return _CLOSED_FORMS[link.name](math_, link.slope)
    if not isinstance(math_, ArrayMath):
        raise TypeError(
            "link must be a name other than tanh, or two moments, where numbers are mpmath's or "
            f"SymPy's, got {link_text(link)}"
        )
    g = link_function(link)
    first = normal_mean(lambda z: z * g(z), link)
    # Of a linear function the two differ by rounding.
    second = max(normal_mean(lambda z: g(z) ** 2, link), first**2)
    return math_.convert(first), math_.convert(second)


def _identity(math_: Namespace, slope: float) -> tuple[Value, Value]:  # noqa: ARG001
    return math_.convert(1), math_.convert(1)


def _sign(math_: Namespace, slope: float) -> tuple[Value, Value]:  # noqa: ARG001
    return math_.sqrt(math_.convert(2) / math_.pi), math_.convert(1)


def _relu(math_: Namespace, slope: float) -> tuple[Value, Value]:  # noqa: ARG001
    return math_.convert(1) / 2, math_.convert(1) / 2


def _cube(math_: Namespace, slope: float) -> tuple[Value, Value]:  # noqa: ARG001
    return math_.convert(3), math_.convert(15)


def _sin(math_: Namespace, slope: float) -> tuple[Value, Value]:
    a = math_.convert(slope)
    return a * math_.exp(-(a**2) / 2), -math_.expm1(-2 * a**2) / 2


# Moments E z g(z) and E g(z)^2 of links that have closed forms.
_CLOSED_FORMS: dict[str, Callable[[Namespace, float], tuple[Value, Value]]] = {
    "identity": _identity,
    "sign": _sign,
    "relu": _relu,
    "cube": _cube,
    "sin": _sin,
}

# Links as functions of a number or an array.
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "identity": np.asarray,
    "sign": np.sign,
    "relu": lambda z: np.maximum(z, 0.0),
    "cube": lambda z: z**3,
    "tanh": np.tanh,
    "sin": np.sin,
}


def link_function(link: Link) -> Callable[[Any], Any]:
    """The function g of a link.

    Raises
    ------
    ValueError
        If only two moments are known.
    """
    if link.function is not None:
        return partial(_own_values, link.function)
    if link.moments is not None:
        raise ValueError(
            "link must be a name or a function here, where more than two moments count, got "
            f"{link_text(link)}"
        )
    g = _FUNCTIONS[link.name]
    return lambda z: g(link.slope * z)


def _own_values(function: Callable[[Any], Any], z: np.ndarray) -> np.ndarray:
    """Values of a user's function."""
    values = function(z)
    check_link_values(values, z.shape)
    return np.asarray(values, dtype=float)


def normal_mean(function: Callable[[Any], Any], link: Link) -> float:
    """Mean of a function of one normal variable.

    Raises
    ------
    ArithmeticError
        If it is not finite, or not found to the accuracy.
    """

    def weighed(z: float) -> float:
        both = np.asarray(function(np.array([z, -z])), dtype=float)
        return float(np.sum(both)) * float(np.exp(-(z**2) / 2)) / float(np.sqrt(2 * np.pi))

    total = 0.0
    doubt = 0.0
    size = 0.0
    for lower, upper in pairwise(_ENDS):
        # With full output quad returns its warnings, instead of giving them.
        value, error, _, *warning = quad(weighed, lower, upper, limit=_SUBDIVISIONS, full_output=1)
        total += value
        doubt += np.inf if warning and "divergent" in warning[0] else error
        size += abs(value)
    # What is beyond the last end counts as no more than the piece before it.
    doubt += abs(value)
    if not doubt <= _ACCURACY * max(size, _ACCURACY):
        raise ArithmeticError(
            f"the moments of the link {link_text(link)} are not finite, or not found to "
            f"{_ACCURACY:g}: pass two moments (E z g(z), E g(z)^2)"
        )
    return total


class LabelMoments(NamedTuple):
    """Moments of a label y and its z, over those of linear labels, with y divided by its slope.

    Attributes
    ----------
    slope : float
        Linear part of the labels, (1 - 2 p) g1.
    square : float
        E y^2.
    across : float
        E u y^2, u being the scale of the input: E y^2 where inputs have none.
    fourth : float
        E y^4.
    along : float
        E y^2 z^2.
    third : float
        E y^3 z.
    bent : float
        E y z^3.
    """

    slope: float
    square: float
    across: float
    fourth: float
    along: float
    third: float
    bent: float

    @property
    def rest_slope(self) -> float:
        """Half of E r^2 (z^2 - 1) over E r^2 of the rest r = y - z; 1 for r in proportion to z."""
        rest = self.square - 1
        if rest <= 0:
            return 0.0
        return (self.along - 2 * self.bent + 3 - rest) / (2 * rest)


def label_moments(link: LinkLike, rho: float, flips: float) -> LabelMoments:
    """Moments of labels over their slope, to the accuracy of `normal_mean`."""
    own = parse_link(link)
    g = link_function(own)
    sign = 1 - 2 * flips
    slope = sign * normal_mean(lambda z: z * g(z), own)
    effective_labels(own, rho, flips=flips)  # refuses labels without a linear part
    square = normal_mean(lambda z: g(z) ** 2, own)
    fourth = normal_mean(lambda z: g(z) ** 4, own)
    along = normal_mean(lambda z: (z * g(z)) ** 2, own)
    third = sign * normal_mean(lambda z: z * g(z) ** 3, own)
    bent = sign * normal_mean(lambda z: z**3 * g(z), own)
    return LabelMoments(
        slope=slope,
        square=(square + rho) / slope**2,
        across=(square + rho) / slope**2,
        fourth=(fourth + 6 * square * rho + 3 * rho**2) / slope**4,
        along=(along + rho) / slope**2,
        third=(third + 3 * rho * slope) / slope**3,
        bent=bent / slope,
    )


def scaled_label_moments(scale_square: float, rho: float) -> LabelMoments:
    """Moments of linear labels of inputs whose scale has this mean square."""
    return LabelMoments(
        slope=1.0,
        square=1 + rho,
        across=scale_square + rho,
        fourth=3 * (scale_square + 2 * rho + rho**2),
        along=3 * scale_square + rho,
        third=3 * (scale_square + rho),
        bent=3 * scale_square,
    )
