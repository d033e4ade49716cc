r"""ICL and IDG error for elliptical inputs, whose scale differs from token to token.

Inputs are :math:`x = \sqrt u\, N(0, I/d)` with a scale u of mean 1 that is drawn for every token,
the query included: two points, Student's law, any law with finite :math:`E u^2`.  The rest is the
setting of `iclimit.asymptotics.pretraining.icl`, whose symbols are used here.

The context has the noise :math:`q = (E u^2 + \rho)/\alpha`.  A prompt has u in its leverage, so
ridge regression acts as

.. math:: G = (\theta R + \lambda)^{-1}, \qquad R = \hat C + q, \qquad
   \theta = E \frac u{1 + u g}, \qquad g = \frac1\tau \langle r G\rangle ,

where g is the leverage of a query of unit scale: without the prompt its residual is
:math:`1 + u g` times as large.
With :math:`f = \theta g = E\, u g/(1 + u g)`, :math:`\xi = \lambda/\theta` and
:math:`\nu = q + \xi` this is

.. formula: fixed_point

.. math:: \tau f(g) = 1 - \xi M(\nu), \qquad \lambda = \xi\, f(g)/g .

A residual without the prompt has the mean square :math:`\rho + u m`, m being the excess error at
u = 1.  With :math:`K = 1/(c + \nu)`,

.. math::

   a &= \frac1{\theta^2} E \frac u{(1 + u g)^2}, \qquad
   b = \frac1{\theta^2} E \frac{u^2}{(1 + u g)^2}, \\
   m &= \frac{\nu^2 \langle c K^2\rangle + q \langle c^2 K^2\rangle
   + \frac a\tau \langle r^2 K^2\rangle\, \rho}{1 - \frac b\tau \langle r^2 K^2\rangle}, \\
   e_{IDG} &= \rho + m, \qquad e_{ICL} = \rho + \nu^2 \langle K^2\rangle + q \langle c^2 K^2\rangle
   + \frac{1 + q}\tau \langle r K^2\rangle\, (a \rho + b m) .

At u = 1 these are the errors of Gaussian inputs.  Without a ridge and with fewer prompts than
features :math:`g \to \infty`, so that :math:`a = E\,1/u` and b = 1.

Source: derived here, by leave-one-out heuristics; simulations are in the claim ``elliptical``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from iclimit.asymptotics.checks import CheckedValues, checked, flattened
from iclimit.asymptotics.losses import TaskErrors
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.pretraining.icl import ridgeless_point
from iclimit.asymptotics.searches import find_root_above
from iclimit.asymptotics.spectra.resolvent import excess, resolvent
from iclimit.scale_laws import ScaleLaw, ScaleLawLike, parse_scale_law

# Largest distance of the nodes of Student's law in the logarithm of its chi-square variable.
_STEP = 0.05

# Range of that variable: exponent to which the mass of u^2 falls, with a longest range for laws
# whose u^2 is hardly finite, standard deviations, and a distance to the right.
_TAIL = 40.0
_LONGEST = 200.0
_WIDTHS = 12.0
_FAR = 200.0

# Logarithm of the leverage that a search starts from: below all that are solutions.
_LOWEST = -60.0


class ScaleNodes(NamedTuple):
    """Nodes of a law of the scale, with the mean square and the mean reciprocal."""

    u: np.ndarray
    weight: np.ndarray
    square: float
    inverse: float

    @classmethod
    def of(cls, law: ScaleLaw) -> ScaleNodes:
        """Nodes of a law."""
        if law.points:
            u = np.array(law.points)
            weight = np.array(law.probabilities)
            return cls(u, weight, float(weight @ u**2), float(weight @ (1 / u)))
        df = law.degrees
        # u = (df - 2)/chi^2; the trapezoidal rule in log chi^2 converges exponentially.
        width = np.sqrt(2 / df)
        low = min(_TAIL / (df / 2 - 2), _LONGEST) + _WIDTHS * width
        high = np.log(df + _WIDTHS * np.sqrt(2 * df) + _FAR)
        t = np.arange(np.log(df) - low, high, min(_STEP, width / 2))
        weight = np.exp(df / 2 * (t - np.log(2)) - np.exp(t) / 2 - gammaln(df / 2))
        weight /= np.sum(weight)
        u = (df - 2) * np.exp(-t)
        return cls(u, weight, (df - 2) / (df - 4), df / (df - 2))

    def mean(self, g: Value, power: int, order: int) -> Value:
        """Mean of (u g)^power / (1 + u g)^order."""
        v = np.multiply.outer(g, self.u)
        return (v**power / (1 + v) ** order) @ self.weight


def elliptical_errors(
    *,
    scale_law: ScaleLawLike,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
) -> TaskErrors:
    r"""Asymptotic ICL and IDG error of linear attention for elliptical inputs.

    Parameters
    ----------
    scale_law : ("student", number) or (points, probabilities)
        Law of the scale u of an input :math:`x = \sqrt u\, N(0, I/d)`: Student's t inputs with
        more than 4 degrees of freedom, scaled to the variance 1/d, or points of u, divided by
        their mean.
    tau, alpha, kappa, rho, ridge : number or array
        As in `icl_error`; NumPy's numbers, tau and alpha finite.

    Returns
    -------
    TaskErrors
        With fields ``icl`` and ``idg``, broadcast over the arguments; inf at tau = 1 without a
        ridge.

    Raises
    ------
    ValueError
        If an argument is outside its range; Student's law with 4 or fewer degrees of freedom has
        contexts that say nothing.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If float64 does not solve the fixed point.

    Notes
    -----
    Corrections of order 1/d are large: at tau = 0.5, alpha = kappa = 1, rho = 0.3, ridge = 0.1 and
    u of .25 or 1.75 simulated errors were 32 % above the limit at d = 12, 11 % at d = 40.  Up to 8
    degrees of freedom the scatter of runs is infinite.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.elliptical`.

    Examples
    --------
    >>> from iclimit.pretraining import elliptical_errors
    >>> point = {"tau": 1.5, "alpha": 2, "kappa": 2, "rho": 0.2, "ridge": 0.1}
    >>> round(float(elliptical_errors(scale_law=((0.25, 1.75), (0.5, 0.5)), **point).icl), 4)
    1.5551
    >>> round(float(elliptical_errors(scale_law=("student", 8), **point).icl), 4)
    1.4695
    """
    scale = ScaleNodes.of(parse_scale_law(scale_law))
    ranges = {"tau": "(0, inf)", "alpha": "(0, inf)"}
    math_, values = checked(
        systems="numpy", ranges=ranges, tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge
    )
    shape, points = flattened(values)
    with math_.quiet():
        q = (scale.square + points.rho) / points.alpha
        xi, g = _solved(math_, scale, points, q)
        icl, idg = _errors(math_, scale, points, q, xi, g)
        singular = (points.ridge == 0) & (points.tau == 1)
        icl = np.where(singular, np.inf, icl).reshape(shape)
        idg = np.where(singular, np.inf, idg).reshape(shape)
    return TaskErrors(icl=math_.finish(icl), idg=math_.finish(idg))


def _freedom(math_: Namespace, q: Value, kappa: Value, xi: Value) -> Value:
    """Degrees of freedom over the number of features."""
    return 1 - xi * resolvent(math_, q + xi, kappa, excess(math_, kappa, 1))


def _solved(
    math_: Namespace, scale: ScaleNodes, points: CheckedValues, q: Value
) -> tuple[Value, Value]:
    """Effective ridge and leverage; the leverage is inf where prompts are interpolated."""
    xi, _ = ridgeless_point(math_, points.tau < 1, points.tau, q, points.kappa)
    g = np.full_like(xi, np.inf)
    free = (points.ridge > 0) | (points.tau > 1)
    if not np.any(free):
        return xi, g

    def residual(log_g: Value, tau: Value, ridge: Value, q: Value, kappa: Value) -> Value:
        leverage = np.exp(log_g)
        own = scale.mean(leverage, 1, 1)
        return own - _freedom(math_, q, kappa, ridge * leverage / own) / tau

    setting = {"tau": points.tau[free], "ridge": points.ridge[free]}
    setting |= {"q": q[free], "kappa": points.kappa[free]}
    start = np.full(np.count_nonzero(free), _LOWEST)
    g[free] = np.exp(find_root_above(math_, residual, start, setting, "leverage"))
    xi[free] = points.ridge[free] * g[free] / scale.mean(g[free], 1, 1)
    return xi, g


def _errors(
    math_: Namespace, scale: ScaleNodes, points: CheckedValues, q: Value, xi: Value, g: Value
) -> tuple[Value, Value]:
    """ICL and IDG error at the solution."""
    tau = points.tau
    rho = points.rho
    nu = q + xi
    M = resolvent(math_, nu, points.kappa, excess(math_, points.kappa, 1))
    more = M / points.kappa
    w = 1 + more
    r = 1 + nu * w**2
    # <K^2>, <c K^2> and <c^2 K^2>
    flat = M * w**2 / r
    linear = M / r
    square = M / w * (1 + nu * w * more) / r
    features = (square + 2 * q * linear + q**2 * flat) / tau
    infinite = np.isinf(g)
    leverage = np.where(infinite, 1.0, g)
    own = scale.mean(leverage, 1, 1)
    a = np.where(infinite, scale.inverse, leverage * scale.mean(leverage, 1, 2) / own**2)
    b = np.where(infinite, 1.0, scale.mean(leverage, 2, 2) / own**2)
    m = (nu**2 * linear + q * square + features * a * rho) / (1 - features * b)
    noise = (1 + q) / tau * (linear + q * flat) * (a * rho + b * m)
    return rho + nu**2 * flat + q * square + noise, rho + m
