r"""Errors of linear attention after a time of gradient flow on finitely many prompts.

Setting.  As in `iclimit.asymptotics.pretraining.icl`, but :math:`\Gamma` is not the minimiser.
With :math:`S = \frac dn \sum \phi\phi^\top` and :math:`b = \frac dn \sum y\phi` over the features
:math:`\phi = x_q h^\top` of the n prompts it follows

.. math:: \dot\Gamma = b - (S + \lambda)\Gamma, \qquad \Gamma(0) \sim N(0, \sigma_0^2/d)
   \text{ entrywise},

the gradient flow of :math:`\frac d2 \cdot \frac1n\sum(y - \langle\Gamma, \phi\rangle)^2` with the
weight decay :math:`\lambda`.  A step of rate :math:`\eta` on the mean squared error lasts
:math:`2\eta/d`.

**Reduction.**  :math:`\Gamma(t)` is linear in the ridge solutions :math:`\Gamma_z = (S + z)^{-1}
b` at complex ridges,

.. math:: \Gamma(t) = \frac1{2\pi i}\int \frac{e^{zt}}z\, \Gamma_{\lambda + z}\, dz
   + \frac1{2\pi i}\int e^{zt} (S + \lambda + z)^{-1} dz\; \Gamma(0),

so that an error, which is quadratic in :math:`\Gamma`, is the double integral of its form between
two ridges :math:`\lambda + z_1` and :math:`\lambda + z_2`.

**Two ridges.**  Let :math:`\xi_i` be the effective ridge at :math:`\lambda + z_i`,
:math:`\nu_i = q + \xi_i`, :math:`M_i = M_\kappa(\nu_i)`, :math:`w_i = 1 + M_i/\kappa`,
:math:`u_i = M_i/w_i` and :math:`p = u_1 u_2/\kappa`.  Averages over the task eigenvalues c are

.. math::

   P &= \Bigl\langle \tfrac1{(c + \nu_1)(c + \nu_2)}\Bigr\rangle = \frac{M_1 M_2}{1 - p}, \qquad
   \Bigl\langle \tfrac c{(c + \nu_1)(c + \nu_2)}\Bigr\rangle = \frac{u_1 u_2}{1 - p}, \\
   K &= \Bigl\langle \tfrac{c^2}{(c + \nu_1)(c + \nu_2)}\Bigr\rangle
      = \frac{u_1 u_2}{1 - p}\Bigl(1 + \frac{1 - u_1 - u_2}\kappa\Bigr), \qquad
   Q = \frac{u_1 u_2}{1 - p} + qP,

and the error between two ridges on the training law is, with :math:`a_i = \xi_i z_i/(\lambda +
z_i)`,

.. math:: E_{12} = \frac{\rho + \frac{(1 - u_1)(1 - u_2)}{w_1 w_2 (1 - p)} + q K
   + \sigma_0^2 a_1 a_2 Q}{1 - \frac1\tau\bigl(K + 2q \frac{u_1 u_2}{1 - p} + q^2 P\bigr)}.

The IDG error is the double integral of :math:`E_{12}`, the training loss that of
:math:`\frac{(\lambda + z_1)(\lambda + z_2)}{\xi_1 \xi_2} E_{12}`, and the ICL error that of

.. math:: \rho + \frac{(1 - u_1)(1 - u_2)}{1 - p} + q K
   + (1 + q)\Bigl(\sigma_0^2 a_1 a_2 P + \frac{Q E_{12}}\tau\Bigr).

At :math:`z_1 = z_2 \to 0` these are the errors of ridge regression.

**Integrals.**  On the parabola :math:`z = \frac{\pi N}{24 t}(1 + iv)^2` the trapezoidal rule of N
nodes in :math:`|v| < 3` converges as :math:`2.85^{-N}` (Weideman and Trefethen, Math. Comp. 76,
1341 (2007)), for every time and spectrum.  The effective ridges of all nodes are found at once by
Newton's method; where this fails they are followed along the parabola from its real point.

.. page: pretraining/training-time: When should pretraining stop?
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from iclimit.asymptotics.blocks import in_blocks
from iclimit.asymptotics.checks import CheckedValues, checked, flattened
from iclimit.asymptotics.numbers import ArrayMath, Number, Value, numpy_namespace
from iclimit.asymptotics.pretraining.icl import context_noise, ridge_bracket, solve_fixed_point
from iclimit.asymptotics.searches import find_minimum, find_roots
from iclimit.checks import check_choice
from iclimit.results import Result

# Nodes of the parabola on either side of the real axis: accurate to 5e-11; ten are to 4e-9.
NODES = 12

# Half the range of v on the parabola.
RANGE = 3.0

# Point at which the parabola crosses the real axis, times the time.
PARABOLA = math.pi * NODES / 12

# Most steps of Newton's method from one node to the next; 5 were the most at 4000 random points.
MOST_NEWTON_STEPS = 20

# Most of them for all nodes at once, from a guess; of 20000 points with times from 1e-5 to 1e8 and
# ratios from 0.01 to 1000 all but 1 % need no more, and of those with ratios from 0.1 to 10 all.
MOST_NEWTON_STEPS_AT_ONCE = 8

# A smaller step of log xi ends it: its convergence is quadratic.
CLOSE = 1e-7

# Points that are evaluated together: with the pairs of nodes they fill the cache of a core.
BLOCK = 256

# Pairs of nodes that are evaluated together: their arrays stay below the 128 kB from which each
# array is fresh memory of the system, which took three quarters of the time.
PAIRS = 6144

# Times among which the best one is looked for: their logarithms.
_TIMES = np.linspace(math.log(1e-5), math.log(1e8), 131)

# Stopping must gain more than the accuracy of the integrals.
_BETTER = 1 - 1e-9


@dataclass(frozen=True, repr=False)
class TrainingErrors(Result):
    """Errors at a time of training.

    Attributes
    ----------
    icl : number or array
        Squared error on a noisy query label for fresh tasks.
    idg : number or array
        The same for fresh prompts of the pretraining tasks.
    training : number or array
        Mean squared error on the training prompts, without the penalty.
    """

    icl: Value
    idg: Value
    training: Value


def training_errors(
    *,
    time: Number,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    start_variance: Number = 0.0,
) -> TrainingErrors:
    r"""Errors of linear attention after a time of gradient flow on n prompts.

    Parameters
    ----------
    time : number or array, time >= 0
        Training time: :math:`2\eta/d` for each step of rate :math:`\eta` on the mean squared
        error, for small steps.  0 is the start and ``inf`` the end.
    tau, alpha, kappa, rho : number or array
        As in `icl_error`; alpha is finite where a time is infinite.
    ridge : number or array, 0 <= ridge < inf
        Weight decay during the flow, in the units of the ridge of `icl_error`.
    start_variance : number or array, 0 <= start_variance <= 1e9
        d times the variance of the entries of :math:`\Gamma` at the start; 0 starts at 0.

    Returns
    -------
    TrainingErrors
        With fields ``icl``, ``idg`` and ``training``, broadcast over the arguments.  ``inf`` for
        the test errors at time = inf, tau = 1, ridge = 0.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is no number or array: SymPy and mpmath have no such integrals here.
    ArithmeticError
        If the effective ridge is not found: at arguments that are too extreme for float64.

    Notes
    -----
    Test errors above 1e-6 are within 1e-8 relative for times from 1e-4 to 1e6, over the ranges of
    `icl_error`, and 99 of 100 points within 1e-9; smaller errors, and training losses relative to
    1 + rho, within 1e-8.  A point takes 1 ms, and each of many together 0.06 ms.

    References
    ----------
    The reduction: module `iclimit.asymptotics.pretraining.training_time`.  Training time of
    ridge-like models: Bodin and Macris, arXiv:2212.06757.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import training_errors
    >>> errors = training_errors(time=[0.0, 0.2, 50.0], tau=2, alpha=1, kappa=0.5, rho=0.1)
    >>> errors.icl.round(4), errors.idg.round(4)
    (array([1.1   , 0.9698, 1.471 ]), array([1.1   , 0.6137, 0.8225]))
    """
    math_, values = _checked(
        time=time,
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        start_variance=start_variance,
    )
    with math_.quiet():
        return TrainingErrors(*map(math_.finish, _errors(math_, values)))


@dataclass(frozen=True, repr=False)
class OptimalStopping(Result):
    """Training time of least error, and this error."""

    time: Value
    error: Value


def optimal_stopping(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    start_variance: Number = 0.0,
    objective: str = "icl",
) -> OptimalStopping:
    """Find the time at which gradient flow on n prompts has the least error.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, start_variance : number or array
        As in `training_errors`, with alpha < inf.
    objective : {"icl", "idg"}
        Error to minimise: on fresh tasks or on the pretraining tasks.

    Returns
    -------
    OptimalStopping
        With fields ``time`` and ``error``, NumPy floats or arrays.  The time is ``inf`` where
        stopping gains nothing and 0 where training does.  The error is accurate to 1e-8 relative,
        the time to about 1e-4, since the error is flat at its minimum.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    The least of 131 times from 1e-5 to 1e8 is refined.  A setting takes 0.2 s, each further one
    of an array 10 ms.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import optimal_ridge, optimal_stopping
    >>> point = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "objective": "idg"}
    >>> best = optimal_stopping(**point)
    >>> round(float(best.time), 3), round(float(best.error), 4)
    (0.571, 0.535)
    >>> round(float(optimal_ridge(**point).error), 4)
    0.5479
    """
    check_choice("objective", objective, ("icl", "idg"))
    math_, values = checked(
        systems="numpy",
        ranges={"alpha": "(0, inf)"},
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        start_variance=start_variance,
    )
    shape, points = flattened(values)
    arguments = tuple(vars(points).values())

    def error(log_time: Value, *numbers: Value) -> Value:
        setting = dict(zip(vars(points), numbers, strict=True))
        return getattr(training_errors(time=np.exp(log_time), **setting), objective)

    log_time, value = find_minimum(math_, error, _TIMES, arguments)
    time = np.exp(log_time)
    for end in (math.inf, 0.0):
        with np.errstate(divide="ignore"):
            at_end = error(np.log(np.full(time.shape, end)), *arguments)
        better = value < at_end * _BETTER
        time = np.where(better, time, end)
        value = np.where(better, value, at_end)
    return OptimalStopping(np.reshape(time, shape)[()], np.reshape(value, shape)[()])


def _checked(**arguments: Any) -> tuple[ArrayMath, CheckedValues]:
    """Arguments of `training_errors`, converted."""
    math_, values = checked(**arguments)
    if not isinstance(math_, ArrayMath):
        raise TypeError("time must be a number or an array, and so all others: no SymPy or mpmath")
    endless = math_.all_of(math_.isinf(values.time), math_.isinf(values.alpha))
    if bool(math_.host(endless).any()):
        raise ValueError("alpha must be finite where time is inf, got inf")
    return math_, values


def _errors(math_: ArrayMath, values: CheckedValues) -> tuple[Value, ...]:
    """ICL error, IDG error and training loss, from checked arguments."""
    return in_blocks(
        partial(_errors_of_block, math_),
        values.time,
        values.tau,
        values.kappa,
        values.rho,
        values.ridge,
        values.start_variance,
        context_noise(math_, values.alpha, values.rho),
        results=3,
        block=BLOCK,
    )


@dataclass(frozen=True)
class Setting:
    """Parameters of all times, as flat arrays of one shape."""

    tau: Value
    kappa: Value
    rho: Value
    ridge: Value
    start_variance: Value
    q: Value

    def at(self, chosen: Value) -> Setting:
        """Setting of the chosen points, a mask."""
        return Setting(*(getattr(self, part.name)[chosen] for part in fields(self)))

    def resolvent(self, xi: Value) -> Value:
        """Wishart resolvent at q + xi, off its spectrum, as `resolvent` has it for real ones."""
        nu = self.q + xi
        xp = array_namespace(nu)
        linear = nu + self.offset
        root = xp.sqrt(nu + self.edges[0]) * xp.sqrt(nu + self.edges[1])
        aligned = xp.real(linear * xp.conj(root)) >= 0
        return xp.where(aligned, 2 / (linear + root), (root - linear) * self.kappa / (2 * nu))

    @cached_property
    def left(self) -> Value:
        """Return 1 - 1/tau without cancellation, and 1 at infinity."""
        return _without_cancellation(self.tau)

    @cached_property
    def offset(self) -> Value:
        """Return 1 - 1/kappa likewise."""
        return _without_cancellation(self.kappa)

    @cached_property
    def edges(self) -> tuple[Value, Value]:
        """Least and largest eigenvalue of the tasks' covariance, but for an atom at 0."""
        largest = 1 + array_namespace(self.kappa).sqrt(1 / self.kappa)
        return (self.offset / largest) ** 2, largest**2


def _without_cancellation(ratio: Value) -> Value:
    """Return 1 - 1/ratio, which is 1 at infinity."""
    xp = array_namespace(ratio)
    return xp.where(xp.isinf(ratio), xp.ones_like(ratio), (ratio - 1) / ratio)


def _errors_of_block(math_: ArrayMath, *numbers: Value) -> tuple[Value, ...]:
    """The three errors from time and setting; at the ends of training without integrals."""
    xp = array_namespace(*numbers)
    arrays = xp.broadcast_arrays(*numbers)
    flat = [xp.reshape(array, (-1,)) for array in arrays]
    time = flat[0]
    at = Setting(*flat[1:])
    running = math_.all_of(time > 0, time < math_.inf)
    during = _integrated(math_, math_.where(running, lambda: time, lambda: 1), at)
    if bool(xp.all(running)):
        return tuple(xp.reshape(integral, arrays[0].shape) for integral in during)
    start = 1 + at.rho + at.start_variance * (1 + at.q)
    final = _at_end(math_, at)

    def at_its_time(integral: Value, last: Value) -> Value:
        ends = math_.where(time <= 0, lambda: start, lambda: last)
        return xp.reshape(math_.where(running, lambda: integral, lambda: ends), arrays[0].shape)

    return tuple(map(at_its_time, during, final))


@dataclass(frozen=True)
class RidgePoint:
    r"""What errors between an effective ridge, real or complex, and others are made of.

    In the symbols of the module: ``missed`` is 1 - u and ``misfit`` the same over w; ``features``
    is :math:`\sqrt q M`; ``kept`` and ``forgotten`` are :math:`\sigma_0 a u` and
    :math:`\sigma_0 a M`; ``noise`` is :math:`\frac q2(1 + \frac1\kappa) - \frac{qu}\kappa`;
    ``overlap`` is :math:`\xi M/\sqrt\tau` and ``left`` is
    :math:`\frac12(1 - \frac1\tau) + \frac{\xi M}\tau`.  ``share`` is
    :math:`(\lambda + z)/\xi`, by which residuals of training are smaller than those of new
    prompts.
    """

    u: Value
    missed: Value
    misfit: Value
    features: Value
    kept: Value
    forgotten: Value
    noise: Value
    overlap: Value
    left: Value
    share: Value

    @classmethod
    def of(cls, xi: Value, kept: Value, share: Value, at: Setting) -> RidgePoint:
        """At the effective ridge xi, where the start is multiplied by ``kept``."""
        xp = array_namespace(xi)
        M = at.resolvent(xi)
        w = 1 + M / at.kappa
        u = M / w
        started = xp.sqrt(at.start_variance) * kept
        return cls(
            u=u,
            missed=1 - u,
            misfit=(1 - u) / w,
            features=xp.sqrt(at.q) * M,
            kept=started * u,
            forgotten=started * M,
            noise=at.q * ((1 + 1 / at.kappa) / 2 - u / at.kappa),
            overlap=xi * M / xp.sqrt(at.tau),
            left=at.left / 2 + xi * M / at.tau,
            share=share,
        )


def errors_between(first: RidgePoint, second: RidgePoint, at: Setting) -> tuple[Value, ...]:
    """ICL, IDG and training error between two ridges (module docstring).

    What only depends on one of them is in their fields: there are many more pairs.  Sums are
    taken in place, to use less memory.
    """
    once = first.u * second.u
    inverse = 1 / (1 - once * (1 / at.kappa))
    started = first.forgotten * second.forgotten
    noise = first.noise + second.noise
    noise *= once
    idg = first.misfit * second.misfit
    idg += noise
    idg += first.kept * second.kept
    idg += at.q * started
    idg *= inverse
    idg += at.rho
    # 1 minus the overlap of the features, in terms that stay accurate near the threshold.
    overlap = first.overlap * second.overlap
    overlap *= inverse
    denominator = first.left + second.left
    denominator -= overlap
    idg /= denominator
    icl = first.features * second.features
    icl += once
    icl *= (1 + at.q) / at.tau
    icl *= idg
    icl += noise
    icl += first.missed * second.missed
    started *= 1 + at.q
    icl += started
    icl *= inverse
    icl += at.rho
    training = first.share * second.share
    training *= idg
    return icl, idg, training


def _at_end(math_: ArrayMath, at: Setting) -> tuple[Value, ...]:
    """Errors of the ridge regression in which the flow ends."""
    xi, eta = solve_fixed_point(math_, at.tau < 1, at.tau, at.q, at.kappa, at.ridge)
    # Without weight decay the start stays where the prompts do not reach.
    kept = math_.where(at.ridge > 0, lambda: 0, lambda: xi)
    end = RidgePoint.of(xi, kept, eta, at)
    icl, idg, _ = errors_between(end, end, at)
    # At tau = 1 without a ridge the test errors are infinite, and the prompts are interpolated.
    return icl, idg, math_.where(eta > 0, lambda: eta**2 * idg, lambda: 0)


def _integrated(math_: ArrayMath, time: Value, at: Setting) -> tuple[Value, ...]:
    """Double integrals over the parabola, for finite positive times."""
    xp = array_namespace(time)
    nodes, weights = parabola()
    z = xp.asarray(nodes[:, None]) / time
    decayed = z + at.ridge
    xi = effective_ridges(math_, z, PARABOLA / time, at)
    upper = vars(RidgePoint.of(xi, xi * z / decayed, decayed / xi, at))
    second = RidgePoint(**{name: xp.concat([part, xp.conj(part)]) for name, part in upper.items()})
    # The integrals are real: the other half of the first contour doubles the real part.
    pairs = 2 * np.outer(weights, np.concatenate([weights, weights.conj()]))
    together = max(1, PAIRS // (2 * NODES * max(1, time.shape[0])))
    parts = []
    for start in range(0, NODES, together):
        rows = slice(start, min(start + together, NODES))
        first = RidgePoint(**{name: part[rows, None, :] for name, part in upper.items()})
        row = xp.asarray(np.reshape(pairs[rows], (1, -1)))
        between = errors_between(first, second, at)
        sums = [xp.matmul(row, xp.reshape(error, (row.shape[1], -1))) for error in between]
        parts.append(xp.real(xp.stack(sums)[:, 0, :]))
    total = sum(parts[1:], parts[0])
    # Rounding must not make a training loss negative that has fallen to nothing.
    training = total[2, :]
    return total[0, :], total[1, :], math_.where(training > 0, lambda: training, lambda: 0)


def parabola() -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes :math:`z t` above the real axis and weights of the integral with :math:`1/z`.

    Twice the real part of the sum of weights times F(z) is the inverse Laplace transform of
    :math:`F(z)/z` at the time t, for a transform that is real on the real axis.
    """
    step = RANGE / NODES
    v = (np.arange(NODES) + 0.5) * step
    nodes = PARABOLA * (1 + 1j * v) ** 2
    return nodes, step / math.pi * np.exp(nodes) / (1 + 1j * v)


def _newton(xi: Value, z: Value, at: Setting) -> Value:
    r"""Newton step in :math:`\log \xi` of :math:`1 - z/\xi = (1 - \xi M)/\tau`, increasing."""
    M = at.resolvent(xi)
    u = M / (1 + M / at.kappa)
    slope = M**2 / (1 - u**2 / at.kappa)
    residual = at.left - z / xi + xi * M / at.tau
    return -residual / (z / xi + xi * (M - xi * slope) / at.tau)


def effective_ridges(math_: ArrayMath, z: Value, real: Value, at: Setting) -> Value:
    """Effective ridges at the complex ridges z (nodes, points) plus the weight decay.

    The imaginary parts of z are positive, and those of the effective ridges are, too: nothing else
    that solves the equation has a positive one (Silverstein and Choi, J. Multivariate Anal. 54,
    295 (1995)), so that all nodes may start from a guess.  Where it does not lead there, they are
    followed from the real ridge.
    """
    xp = array_namespace(z)
    decayed = z + at.ridge
    xi = _guess(decayed, at)
    for _ in range(MOST_NEWTON_STEPS_AT_ONCE):
        move = _newton(xi, decayed, at)
        xi = xi * xp.exp(move)
        close = xp.abs(move) < CLOSE
        if bool(xp.all(close)):
            break
    lost = xp.logical_not(xp.all(xp.logical_and(close, xp.imag(xi) > 0), axis=0))
    if not bool(xp.any(lost)):
        return xi
    chosen = at.at(lost)
    point = xp.astype(real_start(math_, real[lost], chosen), xp.complex128)
    before = point
    for node in range(z.shape[0]):
        # log xi is extrapolated from the last nodes.
        guess = point**2 / before
        before = point
        point = followed_ridge(guess, decayed[node, :][lost], chosen)
        row = xi[node, :]
        row[lost] = point
    return xi


def _guess(z: Value, at: Setting) -> Value:
    """Effective ridge of features whose covariance has one eigenvalue, their mean square."""
    xp = array_namespace(z)
    r = 1 + at.q
    linear = z - r * at.left
    root = xp.sqrt(linear**2 + 4 * r * z)
    aligned = xp.real(linear * xp.conj(root)) >= 0
    large = xp.where(aligned, linear + root, linear - root) / 2
    return xp.where(xp.imag(large) > 0, large, -r * z / large)


def real_start(math_: ArrayMath, z: Value, at: Setting) -> Value:
    """Effective ridge at the real point of the parabola, z plus the weight decay."""
    host = numpy_namespace({})
    ridge = math_.host(z + at.ridge)
    setting = {part.name: math_.host(getattr(at, part.name)) for part in fields(at)}
    tau = setting["tau"]
    q = setting["q"]

    def step(xi: np.ndarray, index: np.ndarray) -> np.ndarray:
        chosen = Setting(**{name: value[index] for name, value in setting.items()})
        return np.asarray(_newton(xi, ridge[index], chosen))

    # Widened so that rounding cannot put the root outside.
    lower = ridge_bracket(host, tau, q, ridge) * (1 - 1e-12)
    upper = ridge_bracket(host, tau, 1 + q, ridge) * (1 + 1e-12)
    return math_.convert(find_roots(step, lower, upper, upper))


def followed_ridge(xi: Value, z: Value, at: Setting) -> Value:
    """Effective ridge at the complex ridge z, near that of a neighbouring one."""
    xp = array_namespace(xi)
    for _ in range(MOST_NEWTON_STEPS):
        move = _newton(xi, z, at)
        xi = xi * xp.exp(move)
        if bool(xp.all(xp.abs(move) < CLOSE)):
            return xi
    raise ArithmeticError(
        f"the effective ridge was not found in {MOST_NEWTON_STEPS} steps: arguments too extreme "
        "for float64"
    )
