r"""Merged linear attention trained on finitely many prompts: from the plateau to overfitting.

Setting.  As in `iclimit.asymptotics.pretraining.training_time`, but the model is
:math:`v\, x_q^\top U h`, a value v times a key-query matrix U (Zhang et al., arXiv:2501.16265).
Gradient flow of the mean squared error L on n prompts, at the time s of :math:`2\eta/\sqrt d` for
each step of rate :math:`\eta` on L, from a balanced start in a random direction,
:math:`v^2 = \lVert U\rVert_F^2 = \sqrt d\,w_0^2`, is

.. math:: \sqrt d\,\dot v = \langle U, b - S v U\rangle, \qquad
   \sqrt d\,\dot U = v\,(b - S v U) .

**Reduction.**  Let :math:`\omega = v^2/\sqrt d`, which is :math:`\lVert\Gamma\rVert_F/\sqrt d` for
:math:`\Gamma = vU`, and :math:`T = \int\omega\,ds`.  Then
:math:`\frac{d\Gamma}{dT} = b - S\Gamma + \frac{\Gamma}{2\omega}\frac{d\omega}{dT}`, so that

.. math:: \frac{\Gamma(T)}{\sqrt{\omega(T)}} = e^{-TS}\,\frac{\Gamma(0)}{\sqrt{\omega_0}}
   + \int_0^T \frac{e^{-(T - T')S}\,b}{\sqrt{\omega(T')}}\,dT',

whose norm squared is :math:`d\,\omega(T)`.  The random start overlaps with b by O(1/d) only, and

.. math:: \omega(T) = \omega_0\, h(2T) + \int_0^T\!\!\int_0^T
   \frac{B(2T - T' - T'')}{\sqrt{\omega(T')\,\omega(T'')}}\, dT' dT'', \qquad
   h(t) = \tfrac1{d^2}\operatorname{tr} e^{-tS}, \quad B(t) = \tfrac1d b^\top e^{-tS} b,

is a scalar Volterra equation.  With the effective ridge :math:`\xi` at z, the transform of h is
:math:`\frac\xi z M`, and that of B

.. math:: \beta(z) = \tfrac1d b^\top (S + z)^{-1} b
   = 1 + \rho - \frac z\xi\,\bigl(1 + \rho - A(\xi)\bigr), \qquad
   A = \Bigl\langle\frac{c^2}{c + \nu}\Bigr\rangle = 1 - \nu u

in the symbols of that module: the residual of a training prompt is :math:`z/\xi` times that of a
new one.

**Plateau.**  As long as the weights are small,
:math:`\omega = \omega_0\cosh^2(\sqrt{B(0)}\,s)` with

.. math:: B(0) = 1 + \frac1\kappa + \frac{(1 + \rho)(1 + q)}\tau,

so that it ends at :math:`s = \ln(2/w_0)/\sqrt{B(0)}`: few tasks and few prompts shorten it.

**One contour.**  On a closed contour around the spectrum of -S,
:math:`B(t) = \frac1{2\pi i}\oint e^{zt}\beta(z)\,dz`, and with
:math:`y_z(T) = \int_0^T e^{z(T - T')}\omega(T')^{-1/2}\,dT'` the double integral factorises:

.. math:: \frac{dy_z}{ds} = \omega z\, y_z + \sqrt\omega, \qquad
   \omega = \frac1{2\pi i}\oint\Bigl(\omega_0\, e^{2zT}\,\frac\xi z M
   + \beta(z)\,y_z^2\Bigr) dz, \qquad
   \Gamma = \frac{\sqrt\omega}{2\pi i}\oint \Bigl(y_z\,\Gamma_z
   + e^{zT} (S + z)^{-1}\,\frac{\Gamma(0)}{\sqrt{\omega_0}}\Bigr) dz .

These are as many equations as the contour has nodes, and errors are double sums over the same
nodes of the errors between two ridges, with the start of variance :math:`\omega_0^2/d` an entry.

.. page: pretraining/merged-training: How long is the plateau on few prompts?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from iclimit.asymptotics.checks import checked, flattened
from iclimit.asymptotics.numbers import Number, Value, numpy_namespace
from iclimit.asymptotics.pretraining.icl import context_noise
from iclimit.asymptotics.pretraining.training_contours import Branch, closed_contour
from iclimit.asymptotics.pretraining.training_time import (
    RidgePoint,
    Setting,
    errors_between,
    followed_ridge,
    real_start,
)
from iclimit.results import Result

# Relative and absolute tolerance of the differential equations.
TOLERANCE = 1e-9
ABSOLUTE = 1e-12

# Time that stands for none.
TINY = 1e-9

# Longest first guess of the flow time T, over the time s: it is the mean of omega, which is below
# 1 unless prompts are just as many as features.
LONGEST = 2.0

# Factor of a guess that was too short, and most guesses.
LONGER = 4.0
MOST_GUESSES = 12


@dataclass(frozen=True, repr=False)
class MergedTraining(Result):
    r"""Errors of merged attention at a time of training.

    Attributes
    ----------
    icl, idg, training : number or array
        As of `training_errors`.
    strength : number or array
        Square :math:`\omega = v^2/\sqrt d` of the value, which is the norm
        :math:`\lVert\Gamma\rVert_F/\sqrt d`, too.
    flow_time : number or array
        Time T at which gradient flow of :math:`\Gamma` itself has seen as many gradients.
    """

    icl: Value
    idg: Value
    training: Value
    strength: Value
    flow_time: Value


def merged_training_errors(
    *, time: Number, tau: Number, alpha: Number, kappa: Number, rho: Number, init_scale: Number
) -> MergedTraining:
    r"""Errors of merged linear attention after a time of gradient flow on n prompts.

    Parameters
    ----------
    time : number or array, 0 <= time < inf
        Training time: :math:`2\eta/\sqrt d` for each step of rate :math:`\eta` on the mean squared
        error, for small steps.
    tau, alpha, kappa, rho : number or array
        As in `icl_error`.
    init_scale : number or array, init_scale > 0
        Scale :math:`w_0` of the start: the value is :math:`d^{1/4} w_0`, and so is the norm of the
        key-query matrix, which has a random direction.

    Returns
    -------
    MergedTraining
        With fields ``icl``, ``idg``, ``training``, ``strength`` and ``flow_time``, NumPy floats or
        arrays, broadcast over the arguments.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is no number or NumPy array.
    ArithmeticError
        If the differential equations or effective ridges are not solved: at arguments that are
        too extreme for float64.

    Notes
    -----
    Errors are accurate to 1e-7.  A setting takes about a second, for all of its times together.

    References
    ----------
    The reduction: module `iclimit.asymptotics.pretraining.merged_training`.  The model at
    infinitely many prompts: Zhang et al., arXiv:2501.16265.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import merged_training_errors
    >>> point = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
    >>> errors = merged_training_errors(time=[1.0, 3.0, 30.0], **point, init_scale=0.05)
    >>> errors.icl.round(3), errors.idg.round(3)
    (array([1.07 , 1.031, 1.461]), array([1.007, 0.541, 0.816]))
    """
    math_, values = checked(
        systems="numpy",
        ranges={"time": "[0, inf)"},
        time=time,
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        init_scale=init_scale,
    )
    shape, points = flattened(values)
    columns = vars(points)
    times = columns.pop("time")
    settings = np.stack(list(columns.values()), axis=1)
    unique, number = np.unique(settings, axis=0, return_inverse=True)
    found = np.empty((len(fields(MergedTraining)), len(times)))
    for index, numbers in enumerate(unique):
        own = np.ravel(number) == index
        setting = dict(zip(columns, numbers.tolist(), strict=True))
        with math_.quiet():
            found[:, own] = _at_times(times[own], **setting)
    return MergedTraining(*(np.reshape(values, shape)[()] for values in found))


def plateau_end(
    *, tau: Number, alpha: Number, kappa: Number, rho: Number, init_scale: Number
) -> Value:
    r"""Time at which the plateau of merged linear attention on n prompts ends.

    Parameters
    ----------
    tau, alpha, kappa, rho, init_scale : number or array
        As in `merged_training_errors`, with init_scale < 2; SymPy and mpmath are taken, too.

    Returns
    -------
    number or array
        Time :math:`\ln(2/w_0)/\sqrt{1 + \frac1\kappa + \frac{(1 + \rho)(1 + q)}\tau}`, in the
        units of `merged_training_errors`.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.merged_training`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import plateau_end
    >>> scale = {"init_scale": 0.01, "rho": 0.1, "alpha": 1.0}
    >>> few = plateau_end(tau=2.0, kappa=0.5, **scale)
    >>> many = plateau_end(tau=float("inf"), kappa=float("inf"), **scale)
    >>> round(float(few), 2), round(float(many), 2)
    (2.6, 5.3)
    """
    math_, values = checked(
        ranges={"init_scale": "(0, 2)"},
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        init_scale=init_scale,
    )
    with math_.quiet():
        q = context_noise(math_, values.alpha, values.rho)
        growth = 1 + 1 / values.kappa + (1 + values.rho) * (1 + q) / values.tau
        return math_.finish(math_.log(2 / values.init_scale) / math_.sqrt(growth))


def _at_times(
    times: np.ndarray, tau: float, alpha: float, kappa: float, rho: float, init_scale: float
) -> np.ndarray:
    """Fields of a `MergedTraining` at times of one setting, (fields, times)."""
    host = numpy_namespace({})
    q = float(context_noise(host, alpha, rho))
    # The largest eigenvalue of S is at most that of R times that of a Wishart matrix.
    largest = (1 + tau**-0.5) ** 2 * (q + (1 + kappa**-0.5) ** 2)

    def learners(contour: Branch) -> Learners:
        at = Setting(*(np.array([number]) for number in (tau, kappa, rho, 0.0, 0.0, q)))
        return _learners(contour, at)

    return trained_errors(learners, largest, times, init_scale)


@dataclass(frozen=True)
class Learners:
    """Ridge regressions on a contour, of which merged attention is a mixture at all times.

    Three errors are those of fresh tasks, of the pretraining tasks on new prompts, and on the
    prompts of the training.

    Attributes
    ----------
    contour : Branch
        The ridges.
    labels : sequence of 3 floats
        Errors of zero.
    linear : sequence of 3 ndarray (nodes,)
        Means of label times prediction.
    between : sequence of 3 ndarray (nodes, 2 nodes)
        Means of the product of the predictions of two ridges, the second ones with their mirror
        images, up to what is constant along a row or a column.
    kernel : ndarray (nodes,)
        Transform of h.
    starts : sequence of 3 ndarray (nodes, 2 nodes)
        Means of the product of the predictions of a random start of strength 1, after
        :math:`(S + z)^{-1}` for two of the ridges.
    """

    contour: Branch
    labels: Sequence[float]
    linear: Sequence[np.ndarray]
    between: Sequence[np.ndarray]
    kernel: np.ndarray
    starts: Sequence[np.ndarray]

    def errors(self, shares: np.ndarray, left: np.ndarray) -> list[np.ndarray]:
        """The three errors of mixtures with shares (times, nodes), and with these of the start.

        The shares sum to zero.
        """
        errors = []
        for number, label in enumerate(self.labels):
            learnt = 2 * np.real(shares @ self.linear[number])
            squares = _quadratic(self.between[number], shares)
            errors.append(label - 2 * learnt + squares + _quadratic(self.starts[number], left))
        # Rounding must not make a training loss negative that has fallen to nothing.
        errors[-1] = np.maximum(errors[-1], 0.0)
        return errors


def _quadratic(form: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Quadratic form (nodes, 2 nodes) of shares (times, nodes) and their mirror images."""
    every = np.concatenate([shares, shares.conj()], axis=1)
    return np.asarray(2 * np.real(np.sum((shares @ form) * every, axis=1)))


def trained_errors(
    learners: Callable[[Branch], Learners], largest: float, times: np.ndarray, init_scale: float
) -> np.ndarray:
    """Fields of a `MergedTraining`, (fields, times), with the spectrum in [0, largest].

    Raises
    ------
    ArithmeticError
        If the differential equations are not solved.
    """
    last = float(np.max(times))
    start = init_scale**2
    longest = LONGEST * max(last, TINY) * max(1.0, start)
    for _ in range(MOST_GUESSES):
        # Functions on the contour go up to exp(2 z T).
        own = learners(closed_contour(largest, 2 * longest))
        states = _followed(own, times, start, longest)
        if states is not None:
            y, strength, flow_time = states
            weights = np.sqrt(strength)[:, None] * own.contour.weights
            left = math.sqrt(start) * np.exp(np.multiply.outer(flow_time, own.contour.z))
            return np.array([*own.errors(weights * y, weights * left), strength, flow_time])
        longest *= LONGER
    raise ArithmeticError(
        f"merged training to time {last:g} was not followed: arguments too extreme for float64"
    )


def _learners(contour: Branch, at: Setting) -> Learners:
    """Those of the limit."""
    xi = real_start(numpy_namespace({}), np.array([contour.start]), at).astype(complex)
    xis = []
    for node in contour.z:
        xi = followed_ridge(xi, np.array([node]), at)
        xis.append(xi[0])
    xi = np.array(xis)
    ridge = RidgePoint.of(xi, xi / contour.z, contour.z / xi, at)
    scattered = replace(at, start_variance=np.ones(1))
    started = RidgePoint.of(xi, xi / contour.z, contour.z / xi, scattered)
    label = 1 + float(at.rho[0])
    known = 1 - (at.q + xi) * ridge.u
    between = _between(ridge, at)
    from_start = _between(started, at)
    return Learners(
        contour=contour,
        labels=(label,) * 3,
        linear=(ridge.u, known, label - ridge.share * (label - known)),
        between=between,
        kernel=started.forgotten,
        starts=[
            with_start - without for with_start, without in zip(from_start, between, strict=True)
        ],
    )


def _between(ridge: RidgePoint, at: Setting) -> tuple[np.ndarray, ...]:
    """Errors between ridges on the upper half of a contour and those on all of it."""
    first = RidgePoint(**{name: value[:, None] for name, value in vars(ridge).items()})
    both = {name: np.concatenate([value, value.conj()]) for name, value in vars(ridge).items()}
    return errors_between(first, RidgePoint(**both), at)


def _followed(
    learners: Learners, times: np.ndarray, start: float, longest: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Integrals y (times, nodes), strengths, flow times; None if these are too long."""
    z = learners.contour.z
    count = len(z)
    # The transform of B is what predictions share with labels of the training.
    kernel = learners.contour.weights * learners.linear[-1]
    of_start = start * learners.contour.weights * learners.kernel

    def strength(y: np.ndarray, flow_time: Any) -> Any:
        left = np.exp(np.multiply.outer(flow_time, 2 * z))
        return 2 * np.real(left @ of_start + (y * y) @ kernel)

    def velocity(time: float, state: np.ndarray) -> np.ndarray:  # noqa: ARG001
        y = state[:count] + 1j * state[count : 2 * count]
        omega = strength(y, state[-1])
        moved = omega * z * y + math.sqrt(omega)
        return np.concatenate([moved.real, moved.imag, [omega]])

    def left(time: float, state: np.ndarray) -> float:  # noqa: ARG001
        return longest - float(state[-1])

    left.terminal = True  # type: ignore[attr-defined]
    moments, number = np.unique(times, return_inverse=True)
    solution = solve_ivp(
        velocity,
        (0.0, max(float(moments[-1]), TINY)),
        np.zeros(2 * count + 1),
        method="LSODA",
        t_eval=moments,
        events=left,
        rtol=TOLERANCE,
        atol=ABSOLUTE,
    )
    if solution.status != 0:
        return None
    states = solution.y.T[np.ravel(number)]
    y = states[:, :count] + 1j * states[:, count : 2 * count]
    return y, strength(y, states[:, -1]), states[:, -1]
