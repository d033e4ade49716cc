r"""Merged linear attention trained on finitely many prompts: from the plateau to overfitting.

Setting.  As in `iclimit.asymptotics.pretraining.training_time`, but the model is
:math:`v\, x_q^\top U h`, a value v times a key-query matrix U (Zhang et al., arXiv:2501.16265).
Gradient flow of the mean squared error L on n prompts, at the time s of :math:`2\eta/\sqrt d` for
each step of rate :math:`\eta` on L, from a balanced start in a random direction,
:math:`v^2 = \lVert U\rVert_F^2 = \sqrt d\,w_0^2`, is

.. math:: \sqrt d\,\dot v = \langle U, b - S v U\rangle, \qquad
   \sqrt d\,\dot U = v\,(b - S v U) .

**Reduction.**  Let :math:`\omega = v^2/\sqrt d` and :math:`T = \int\omega\,ds`.  Then
:math:`\Gamma = vU` follows :math:`\frac{d\Gamma}{dT} = b - S\Gamma
+ \frac{\Gamma}{2\omega}\frac{d\omega}{dT}` and, but for the random start, which overlaps with b
by :math:`O(1/d)`,

.. math:: \Gamma(T) = \sqrt{\omega(T)} \int_0^T \frac{e^{-(T - T')S}\,b}{\sqrt{\omega(T')}}\,dT',
   \qquad \omega(T) = \omega_0 + \int_0^T\!\!\int_0^T
   \frac{B(2T - T' - T'')}{\sqrt{\omega(T')\,\omega(T'')}}\, dT' dT''

with :math:`B(t) = \frac1d b^\top e^{-tS} b`: a scalar Volterra equation.  With the effective ridge
:math:`\xi` at z its kernel has the transform

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
   \omega = \omega_0 + \frac1{2\pi i}\oint\beta(z)\,y_z^2\,dz, \qquad
   \Gamma = \frac{\sqrt\omega}{2\pi i}\oint y_z\,\Gamma_z\,dz .

These are as many equations as the contour has nodes, and errors are double sums over the same
nodes of the errors between two ridges.

.. page: pretraining/merged-training: How long is the plateau on few prompts?
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
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
    (array([1.08 , 1.013, 1.451]), array([1.042, 0.534, 0.809]))
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
    last = float(np.max(times))
    # The largest eigenvalue of S is at most that of R times that of a Wishart matrix.
    largest = (1 + tau**-0.5) ** 2 * (q + (1 + kappa**-0.5) ** 2)
    longest = LONGEST * max(last, TINY) * max(1.0, init_scale**2)
    for _ in range(MOST_GUESSES):
        at = Setting(*(np.array([number]) for number in (tau, kappa, rho, 0.0, 0.0, q)))
        nodes = _Nodes(closed_contour(largest, longest), at)
        states = nodes.followed(times, init_scale**2, longest)
        if states is not None:
            return nodes.errors(states)
        longest *= LONGER
    raise ArithmeticError(
        f"merged training to time {last:g} was not followed: arguments too extreme for float64"
    )


class _Nodes:
    """Ridges on a contour, and what the training takes from them."""

    def __init__(self, contour: Branch, at: Setting) -> None:
        host = numpy_namespace({})
        self.z = contour.z
        xi = real_start(host, np.array([contour.start]), at).astype(complex)
        xis = []
        for node in contour.z:
            xi = followed_ridge(xi, np.array([node]), at)
            xis.append(xi[0])
        xi = np.array(xis)
        zeros = np.zeros_like(xi)
        self.weights = contour.weights
        ridge = RidgePoint.of(xi, zeros, self.z / xi, at)
        self.label = 1 + float(at.rho[0])
        # Overlaps of what a ridge learns with labels: of fresh tasks, of the pretraining tasks on
        # new prompts, and on those of the training.
        known = 1 - (at.q + xi) * ridge.u
        self.beta = self.label - ridge.share * (self.label - known)
        self.linear = (ridge.u, known, self.beta)
        upper = {part.name: getattr(ridge, part.name) for part in fields(RidgePoint)}
        both = {name: np.concatenate([value, value.conj()]) for name, value in upper.items()}
        first = RidgePoint(**{name: value[:, None] for name, value in upper.items()})
        self.between = errors_between(first, RidgePoint(**both), at)

    def followed(
        self, times: np.ndarray, start: float, longest: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Integrals y (times, nodes), strengths, flow times; None if these are too long."""
        count = len(self.z)
        kernel = self.weights * self.beta

        def strength(y: np.ndarray) -> Any:
            return start + 2 * np.real((y * y) @ kernel)

        def velocity(time: float, state: np.ndarray) -> np.ndarray:  # noqa: ARG001
            y = state[:count] + 1j * state[count : 2 * count]
            omega = strength(y)
            moved = omega * self.z * y + math.sqrt(omega)
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
        return y, strength(y), states[:, -1]

    def errors(self, states: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
        """Fields of a `MergedTraining`, (fields, times)."""
        y, strength, flow_time = states
        shares = np.sqrt(strength)[:, None] * y * self.weights
        every = np.concatenate([shares, shares.conj()], axis=1)
        errors = []
        for linear, between in zip(self.linear, self.between, strict=True):
            # Shares sum to zero: of what is constant, or of one ridge alone, nothing is left.
            learnt = 2 * np.real(shares @ linear)
            squares = 2 * np.real(np.sum((shares @ between) * every, axis=1))
            errors.append(self.label - 2 * learnt + squares)
        # Rounding must not make a training loss negative that has fallen to nothing.
        errors[2] = np.maximum(errors[2], 0.0)
        return np.array([*errors, strength, flow_time])
