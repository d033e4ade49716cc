r"""Test-time steps with the matrix that linear attention learns from labels.

The model is that of `iclimit.asymptotics.pretraining.icl`: :math:`\Gamma` is ridge regression of
labels on the features of :math:`n = \tau d^2` prompts from :math:`k = \kappa d` tasks.  At test
time, on prompts of fresh tasks, it is applied again and again to what is left of the labels,

.. math:: w_{j+1} = w_j + s\,\Gamma\,(h - S w_j), \qquad w_0 = 0, \qquad S = \frac d\ell X X^\top .

One step is what `icl_error` predicts.  In the limit :math:`\Gamma = K + E` with the mean
:math:`K = \hat C F`, :math:`F = (\hat C + \nu)^{-1}`, and noise with independent rows of
covariance :math:`Q/d`, :math:`Q = \frac{e_{IDG}}\tau F G F`, :math:`G = \hat C + q`.  The
covariance :math:`\hat C` of the training tasks is free of S.  As in
`iclimit.asymptotics.depth.test_time`, E turns each residual into white noise, so that

.. math::

   V(j, j') &= A(j, j') + \sum_{i < j} \sum_{i' < j'} B(j - 1 - i, j' - 1 - i')\, V(i, i'), \\
   e(j) &= D(j) + \sum_{i, i' < j} C(j - 1 - i, j - 1 - i')\, V(i, i'),

with s absorbed in K and Q, :math:`P = I - KS`, traces over d, and

.. math::

   C(j, j') &= \operatorname{tr} P^j P^{j'\top}, \qquad
   B(j, j') = \operatorname{tr} Q\, S P^j P^{j'\top} S, \\
   A &= B + \frac\rho\alpha \operatorname{tr} Q\, S P^{j + j'}, \qquad
   D = C(j, j) + \frac\rho\alpha \operatorname{tr} K^2 \sum_{i, i' < j} S P^{i + i'} .

**Two-time averages.**  They are those of a sample covariance :math:`T = K^{1/2} S K^{1/2}` of
population K from :math:`\alpha d` samples, and follow from two functions of time, f for each
eigenvalue :math:`\lambda` of K, of mean :math:`\langle\cdot\rangle`, and s for all,

.. math:: f_{j+1} = f_j - \lambda h_j, \qquad h_j = \sum_{i \le j} s_{j-i} f_i, \qquad
   s_{j+1} = -\frac1\alpha \Bigl\langle \lambda \sum_{i \le j} s_{j-i} f_i \Bigr\rangle,

from :math:`f_0 = s_0 = 1`: f is the mean of :math:`(I - T)^j` along an eigenvector of K, and h
that of :math:`S P^j`.  With :math:`\tilde f_j = f_j - f_{j-1}` and two-time convolutions (*), in
which :math:`\uparrow` delays both times by one,

.. math::

   W &= \Bigl\langle \tfrac1\alpha h h' \Bigr\rangle
     + \uparrow\Bigl\langle \tfrac1\alpha \lambda^2 h h' \Bigr\rangle * W, \\
   C &= \langle f f' \rangle + \langle \lambda^2 f f' \rangle * \uparrow W, \qquad
   B = \langle Q h h' \rangle + \langle Q \tilde f \tilde f' \rangle * W,

and the averages at a single time are
:math:`\operatorname{tr} Q S P^j = \langle Q h_j \rangle`,
:math:`\operatorname{tr} K^2 S P^j = \langle \lambda^2 h_j \rangle`.
"""

from __future__ import annotations

import math

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, check_integers, checked
from iclimit.asymptotics.depth.overthinking import feedback_at_pi
from iclimit.asymptotics.numbers import ArrayMath, Number, Value
from iclimit.asymptotics.pretraining.icl import context_noise, errors_at, solve_fixed_point
from iclimit.asymptotics.spectra import MarchenkoPastur

_RANGES = {"alpha": "(0, inf)", "dampening": "(0, inf)"}

# Natural logarithm of the accuracy of the quadrature over tasks, 2e-16.
_DIGITS = 36

# Most numbers in an array over nodes and times, 0.5 GB.
_NUMBERS = 2**26


def iterated_icl_errors(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    steps: int,
    noise_variance: float = 0.0,
    ridge: float = 0.0,
    dampening: float = 1.0,
) -> np.ndarray:
    r"""ICL errors of linear attention that is applied 0, 1, ..., steps times.

    Parameters
    ----------
    tau : number > 0
        Prompts over squared dimension, :math:`n/d^2`; ``inf`` is the limit of infinite data.
    alpha : number in (0, inf)
        Context length over dimension, of pretraining and test.
    kappa : number > 0
        Pretraining tasks over dimension; ``inf``: a fresh task in every prompt.
    steps : int >= 1
        Largest number of applications.
    noise_variance : number >= 0
        Variance :math:`\rho` of the label noise, the rho of `icl_error`; noiseless labels have
        variance 1.
    ridge : number >= 0
        Ridge :math:`\lambda` of pretraining.
    dampening : number in (0, inf)
        Factor s of the steps; 1 is the step that pretraining has learned.

    Returns
    -------
    ndarray (steps + 1,)
        Mean squared error on a noisy query label for fresh tasks: that of predicting 0 without a
        step, `icl_error` after one.  ``inf`` where it diverges or exceeds float64.

    Raises
    ------
    ValueError
        If an argument is outside its range or no single number.
    TypeError
        If an argument is not a number.
    ArithmeticError
        If contexts are so long that kappa near 1 takes more memory than 1 GB; above 1e10.

    Notes
    -----
    The matrix is that of a whole Gamma of d columns: the column of the squared labels is 0 in the
    limit.  At finite d means are carried by rare contexts: compare medians.

    With fresh tasks, tau > 1 and no ridge or noise the errors are those of `test_time_errors`.

    Takes some 10 ms for 20 steps and seconds for 200.  One step is within 1e-12 of `icl_error` for
    alpha up to 1e8.

    References
    ----------
    Setting: Lu et al., arXiv:2405.11751.  Steps: module
    `iclimit.asymptotics.depth.iterated_icl`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import iterated_icl_errors
    >>> setting = {"tau": 3, "alpha": 4, "kappa": 1.5, "ridge": 0.2}
    >>> iterated_icl_errors(**setting, noise_variance=0.1, steps=4).round(4)
    array([1.1   , 0.5542, 0.4066, 0.3496, 0.3169])
    >>> from iclimit.asymptotics.pretraining import icl_error
    >>> round(float(icl_error(**setting, rho=0.1)), 4)
    0.5542
    """
    check_integers(steps=steps)
    math_, values = checked(
        systems="numpy",
        single=True,
        ranges=_RANGES,
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        steps=steps,
        noise_variance=noise_variance,
        ridge=ridge,
        dampening=dampening,
    )
    assert isinstance(math_, ArrayMath)
    alpha = float(values.alpha)
    rho = float(values.noise_variance)
    dampening = float(values.dampening)
    with math_.quiet():
        K, Q, share = _learned_matrix(math_, values, steps)
        mean = _Mean(dampening * K, dampening * (dampening * Q), share, alpha, 2 * steps + 1)
        errors = rho + mean.errors(steps, rho / alpha)
    errors[1:][~np.isfinite(errors[1:])] = math.inf
    return errors


def overthinking_ratio(
    *,
    tau: Number,
    alpha: Number,
    noise_variance: Number = 0.0,
    ridge: Number = 0.0,
    dampening: Number = 1.0,
) -> Value:
    r"""How strongly errors feed on themselves as linear attention is applied again and again.

    Fresh tasks in every prompt of pretraining.  Above 1 the errors of `iterated_icl_errors` grow
    in the end; below they converge.

    Parameters
    ----------
    tau : number or array > 0
        Prompts over squared dimension, :math:`n/d^2`.
    alpha : number or array in (0, inf)
        Context length over dimension, of pretraining and test.
    noise_variance : number or array >= 0
        Variance of the label noise; noiseless labels have variance 1.
    ridge : number or array >= 0
        Ridge :math:`\lambda` of pretraining.
    dampening : number or array in (0, inf)
        Factor s of the steps.

    Returns
    -------
    number or array
        :math:`s^2 v \max(f_0, f_\pi)` with :math:`g = 1/(1 + q + \xi)` and
        :math:`v = \frac{e_{IDG}}\tau (1 + q) g^2` in the notation of
        `iclimit.asymptotics.depth.overthinking`.  NumPy and other arrays, mpmath numbers, SymPy
        expressions (ridge 0).

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    Without ridge, noise and dampening it is
    :math:`(\tau^* - 1)/(\tau - 1)` for tau > 1, with the `overthinking_threshold`.  For tau < 1
    steps still converge where :math:`(1 - \tau)(2\tau - 1) > 1/\alpha`, which takes contexts of
    more than 8 d pairs.

    References
    ----------
    Module `iclimit.asymptotics.depth.iterated_icl`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import overthinking_ratio
    >>> setting = {"tau": [0.75, 1.2, 1.6, 2.0], "alpha": [12, 4, 4, 4]}
    >>> overthinking_ratio(**setting).round(3)
    array([0.778, 2.917, 0.972, 0.583])
    """
    math_, values = checked(
        ranges=_RANGES,
        tau=tau,
        alpha=alpha,
        noise_variance=noise_variance,
        ridge=ridge,
        dampening=dampening,
    )
    tau = values.tau
    alpha = values.alpha
    rho = values.noise_variance
    many = math_.convert(math_.inf)
    q = (1 + rho) / alpha

    def cases(below: Value) -> tuple[Value]:
        xi, eta = solve_fixed_point(math_, below, tau, q, many, values.ridge)
        _, idg = errors_at(math_, tau, many, rho, q, xi, eta)
        step = values.dampening / (1 + q + xi)
        scatter = idg / tau * (1 + q) * step**2
        return (math_.where(math_.isinf(idg), lambda: math_.inf, lambda: largest(step, scatter)),)

    def largest(step: Value, scatter: Value) -> Value:
        shown = math_.where(alpha < 1, lambda: alpha, lambda: 1 + 0 * alpha)
        at_zero = scatter * shown / step**2
        at_pi = feedback_at_pi(math_, alpha, step)
        # Where the mean steps diverge, so do they with infinite data.
        at_pi = math_.where(math_.isinf(at_pi), lambda: at_pi, lambda: scatter * at_pi)
        return math_.where(at_zero > at_pi, lambda: at_zero, lambda: at_pi)

    with math_.quiet():
        return math_.finish(math_.branch(tau < 1, cases)[0])


def _learned_matrix(
    math_: ArrayMath, setting: CheckedValues, steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues of K and Q in the basis of the training tasks, and their shares."""
    tau = setting.tau
    alpha = setting.alpha
    kappa = setting.kappa
    rho = setting.noise_variance
    q = context_noise(math_, alpha, rho)
    xi, eta = solve_fixed_point(math_, tau < 1, tau, q, kappa, setting.ridge)
    _, idg = errors_at(math_, tau, kappa, rho, q, xi, eta)
    nu = float(q + xi)
    if not math.isfinite(nu) or math.isnan(idg) or (math.isinf(idg) and tau != 1):
        raise ArithmeticError(
            f"arguments are too extreme for float64, got tau = {float(tau):g}, "
            f"alpha = {float(alpha):g}, kappa = {float(kappa):g}, rho = {float(rho):g}"
        )
    law = MarchenkoPastur(1 / kappa) if kappa < math.inf else None
    lower = float(law.edges[0]) if law else 1.0
    upper = float(law.edges[1]) if law else 1.0
    if law is None or lower == upper:  # up to rounding
        # Very few tasks span a fraction kappa of all directions.
        nodes = np.array([0.0, max(1.0, 1 / kappa)])
        share = np.array([1 - kappa, kappa])
        share = np.clip(share, 0.0, 1.0)
    else:
        # The functions have a pole at -nu only: the ellipse through it sets the convergence.
        far = 1 + 2 * (nu + lower) / (upper - lower)
        # The logarithm of far + sqrt(far^2 - 1), also for far close to 1.
        order = steps + math.ceil(_DIGITS / max(math.acosh(far), 1e-300))
        if order * (2 * steps + 1) > _NUMBERS:
            raise ArithmeticError(
                f"alpha is too large for so few tasks, got alpha = {float(alpha):g} with "
                f"kappa = {float(kappa):g} and steps = {steps}: the eigenvalues of the tasks come "
                f"too close to 0"
            )
        nodes, share = law.quadrature(order)
    K = nodes / (nodes + nu)
    return K, idg / tau * ((nodes + q) / (nodes + nu)) / (nodes + nu), share


class _Mean:
    """Averages over S of the module docstring, up to a number of steps."""

    def __init__(
        self, K: np.ndarray, Q: np.ndarray, share: np.ndarray, alpha: float, count: int
    ) -> None:
        self.K = K
        self.Q = Q
        self.share = share
        self.alpha = alpha
        f = np.empty((count, len(K)))
        h = np.empty((count, len(K)))
        s = np.empty(count)
        f[0] = 1.0
        h[0] = 1.0
        s[0] = 1.0
        for j in range(1, count):
            s[j] = -(share @ (K * h[j - 1])) / alpha
            f[j] = f[j - 1] - K * h[j - 1]
            h[j] = s[j::-1] @ f[: j + 1]
        self.f = f
        self.h = h

    def errors(self, steps: int, noise: float) -> np.ndarray:
        """Errors without the noise of the query label, after 0..steps steps."""
        K = self.K
        Q = self.Q
        share = self.share
        f = self.f[: steps + 1]
        h = self.h[: steps + 1]
        change = np.diff(f, axis=0, prepend=0.0)

        def average(weight: Value, rows: np.ndarray) -> np.ndarray:
            return np.asarray((share * weight * rows) @ rows.T)

        W = _series(average(1, h) / self.alpha, average(K**2, h) / self.alpha)
        C = average(1, f)
        C[1:, 1:] += _product(average(K**2, f), W)[:-1, :-1]
        B = average(Q, h) + _product(average(Q, change), W)
        times = np.add.outer(np.arange(steps + 1), np.arange(steps + 1))
        V = _series(B + noise * (self.h @ (share * Q))[times], B)
        # Sums of tr K^2 S P^(i + i') over i, i' < j, and of C(j - 1 - i, j - 1 - i') V(i, i').
        fit = (self.h @ (share * K**2))[times].cumsum(0).cumsum(1).diagonal()
        errors = C.diagonal().copy()
        for j in range(1, steps + 1):
            errors[j] += noise * fit[j - 1] + np.vdot(C[j - 1 :: -1, j - 1 :: -1], V[:j, :j])
        return errors


def _series(source: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Symmetric solution V of V = source + (kernel delayed by one in both times) * V."""
    V = source.copy()
    flipped = kernel[::-1, ::-1]
    count = len(source)
    for j in range(1, count):
        for i in range(1, j + 1):
            V[j, i] += np.vdot(flipped[count - j :, count - i :], V[:j, :i])
            V[i, j] = V[j, i]
    return V


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Two-time convolution, as a sum over lags of the first time."""
    count = len(first)
    total = np.zeros_like(second)
    lag = np.subtract.outer(np.arange(count), np.arange(count))
    for m in range(count):
        total[m:] += second[: count - m] @ np.where(lag >= 0, first[m, lag], 0.0).T
    return total
