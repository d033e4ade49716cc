"""Training of merged attention for any covariance: the reduced flow, integrated.

The equations and their range are in `iclimit.asymptotics.dynamics.merged`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.dynamics.merged import BEFORE_THE_DROP, effective_init_scale_moments
from iclimit.asymptotics.dynamics.plateaus import (
    PredictedTraining,
    excess,
    parse_eigenvalues,
    plateau_losses,
)
from iclimit.asymptotics.numbers import Number, Value

# Below these weights, in units of the inverse root of the largest eigenvalue, the growth is taken
# as exponential: the terms that this neglects are of the order of the square.
_LINEAR = 1e-7

# Relative tolerance of the integration of the reduced flow.
_RTOL = 1e-12

# Absolute tolerance of the integration.  It is far below the weights at the start, so that
# directions of small eigenvalue have a small relative error as well.
_ATOL = 1e-21

# A loss that exceeds the final one by this relative amount counts as final.
_CONVERGED = 1e-12

# A search gives up at this time, in units of the inverse square of the largest eigenvalue.
_HORIZON = 1e30

# The integration was tested up to weights so many times their final values.
_STIFF = 1e50


def merged_attention_curve(
    t: Number, *, eigenvalues: Number, context: int, init_scale: float, noise_variance: float = 0
) -> Value:
    r"""Loss of merged attention during training, for inputs of any covariance.

    Parameters
    ----------
    t : number or array >= 0
        Training times in units of :math:`\tau`, in any order, infinity included.
    eigenvalues : array (D,)
        Eigenvalues of :math:`\Lambda`, >= 0 and not all zero; the largest from about 1e-154 to
        1e154.
    context : number >= 1
        Number N of context pairs.
    init_scale : number > 0
        Norm of either layer at the start, which is balanced and aligned; the
        `effective_init_scale` of a random one.
    noise_variance : number >= 0
        Variance of the label noise.

    Returns
    -------
    float or ndarray
        Mean squared error on a noisy query label (no 1/2), of the shape of t.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If the integration fails.

    Notes
    -----
    The exponential growth from a tiny start is computed analytically, the rest is integrated.  The
    loss has a relative error below 1e-9 for contexts up to a million.  Longer contexts without
    noise leave almost no loss at the end, so that its relative error is larger.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.merged`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import merged_attention_curve
    >>> times, more = [0, 10, 20, 100], {"context": 31, "init_scale": 1e-6}
    >>> merged_attention_curve(times, eigenvalues=[1, 0.7, 0.45, 0.25], **more).round(4)
    array([2.4   , 2.3842, 0.419 , 0.3264])
    """
    math_, values = checked(systems="numpy", t=t)
    times = values.t
    flow = _ReducedFlow(eigenvalues, context, init_scale, noise_variance)
    with math_.quiet():
        distinct, places = np.unique(times * flow.time_unit, return_inverse=True)
    missing = np.zeros(distinct.shape)
    early = distinct <= flow.begin
    missing[early] = flow.missing(flow.linear(distinct[early]))
    late = ~early & (distinct < np.inf)
    if np.any(late):
        at = distinct[late]
        solution = flow.solve(at[-1], t_eval=at, events=flow.converged)
        if count := len(solution.t):  # none if the loss is the final one before
            missing[np.flatnonzero(late)[:count]] = flow.missing(solution.y)
    return math_.finish((flow.final + missing)[places].reshape(times.shape))


def merged_curve_drop_time(
    drop_fraction: float = 0.5,
    *,
    eigenvalues: Number,
    context: int,
    init_scale: float,
    noise_variance: float = 0,
) -> float:
    r"""Time at which the loss of merged attention has fallen by a fraction, for any covariance.

    Parameters
    ----------
    drop_fraction : number in (0, 1)
        Part of the way from the loss at zero weights to the final loss.
    eigenvalues, context, init_scale, noise_variance
        As in `merged_attention_curve`.

    Returns
    -------
    float
        Time in units of :math:`\tau`.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the weights start beyond the fraction or beyond
        their final values.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If the integration fails.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.merged`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import merged_curve_drop_time
    >>> more = {"eigenvalues": [1, 0.7, 0.45, 0.25], "context": 31, "init_scale": 1e-6}
    >>> [round(merged_curve_drop_time(part, **more), 3) for part in (0.5, 0.9)]
    [12.255, 15.971]
    """
    _, values = checked(systems="numpy", single=True, drop_fraction=drop_fraction)
    part = values.drop_fraction
    flow = _ReducedFlow(eigenvalues, context, init_scale, noise_variance)
    total = float(np.sum(flow.weights))
    target = float(part) * total
    rest = float(1 - part) * total

    def ahead(_: float, y: np.ndarray) -> float:
        # The smaller of the two parts resolves the fraction better.
        return target - float(flow.gone(y)) if target < rest else float(flow.missing(y)) - rest

    start = flow.linear(0.0)
    if ahead(0.0, start) < 0 or np.any(flow.shares(start) > 1):
        raise ValueError(f"init_scale must be {BEFORE_THE_DROP}, got {init_scale}")
    if ahead(0.0, flow.linear(flow.begin)) < 0:
        # In the exponential growth the loss falls as the square of the weights.
        late = float(np.log(target / flow.gone(flow.linear(flow.begin)))) / 2
        return (flow.begin + late / flow.rate) / flow.time_unit
    ahead.terminal = True  # type: ignore[attr-defined]
    solution = flow.solve(_HORIZON, events=ahead)
    if not solution.t_events[0].size:
        raise ArithmeticError(
            f"the loss does not resolve drop_fraction {drop_fraction} in float64"
        )
    return float(solution.t_events[0][0] / flow.time_unit)


@dataclass(frozen=True, eq=False, repr=False)
class MergedDrop(PredictedTraining):
    """Predicted course of the training of merged attention.

    Attributes
    ----------
    effective_scale : float
        Norm of either layer of the balanced start whose loss drops at the same time.
    losses : ndarray (2,)
        Mean squared error at zero weights and at the end, as of `plateau_losses`.
    drop_times : ndarray (1,)
        Time at which half of the drop has happened, in units of the time constant.
    std_over_seeds : float
        Standard deviation of this time over random starts; 0 for a given start.
    """

    effective_scale: float
    losses: np.ndarray
    drop_times: np.ndarray
    std_over_seeds: float
    _setting: dict[str, Any] = field(repr=False)

    @property
    def end(self) -> float:
        """Time beyond the drop."""
        return 4 * float(self.drop_times[0])

    def loss(self, t: Number) -> np.ndarray:
        """Loss at given times >= 0, of any shape, infinity included."""
        return merged_attention_curve(t, init_scale=self.effective_scale, **self._setting)

    def rows(self) -> list[dict[str, Any]]:
        """Return the numbers as one row of a table."""
        first, last = self.losses.tolist()
        row = {"effective_scale": self.effective_scale, "initial_loss": first}
        row["half_drop_time"] = float(self.drop_times[0])
        spread = {"std_over_seeds": self.std_over_seeds} if self.std_over_seeds else {}
        return [row | spread | {"final_loss": last}]


def merged_attention_drop(
    *,
    eigenvalues: Number,
    context: int,
    init_scale: float,
    heads: int | None = None,
    noise_variance: float = 0,
) -> MergedDrop:
    r"""Predict the drop of the loss of merged attention from the size of its initial weights.

    Parameters
    ----------
    eigenvalues, context, noise_variance
        As in `merged_attention_curve`.
    init_scale : number > 0
        With ``heads`` the standard deviation of the initial weights.  Otherwise the norm of either
        layer at the start, which is balanced and aligned: the `effective_init_scale` of given
        weights.
    heads : int >= 1, optional
        Number of heads of a random start.

    Returns
    -------
    MergedDrop
        The drop, with ``loss(t)``; for a random start that of the mean of the logarithm of its
        effective scale.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the weights are so large that the loss at the
        start is not near that at zero weights.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If the integration fails.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.merged`; the spread over random starts is that of
    `effective_init_scale_moments`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import merged_attention_drop
    >>> drop = merged_attention_drop(eigenvalues=[0.5, 1], context=31, init_scale=1e-5, heads=8)
    >>> drop.drop_times.round(3), round(drop.std_over_seeds, 3)
    (array([10.393]), 0.258)
    >>> drop.loss([0, 10, 20]).round(3)
    array([1.5  , 1.063, 0.133])
    """
    setting: dict[str, Any] = {"eigenvalues": eigenvalues, "context": context}
    setting["noise_variance"] = noise_variance
    losses = plateau_losses(**setting)[[0, -1]]
    scale = init_scale
    spread = 0.0
    if heads is not None:
        law = effective_init_scale_moments(heads)
        growth = np.linalg.norm(np.square(np.asarray(eigenvalues, dtype=float)))
        scale = init_scale * math.exp(law.mean)
        spread = float(law.std / growth)
    with np.errstate(over="ignore"):
        start = float(merged_attention_curve(0.0, init_scale=scale, **setting))
    if abs(start - losses[0]) > (losses[0] - losses[-1]) / 4:
        raise ValueError(
            f"init_scale must be so small that the loss at the start is near {losses[0]:.6g}, "
            f"got {init_scale!r}"
        )
    half = merged_curve_drop_time(init_scale=scale, **setting)
    return MergedDrop(scale, losses, np.array([half]), spread, setting)


class _ReducedFlow:
    """The flow of w and b in units in which the largest eigenvalue is 1."""

    def __init__(
        self, eigenvalues: Number, context: Number, init_scale: Number, noise_variance: Number
    ) -> None:
        _, values = parse_eigenvalues(
            eigenvalues,
            systems="numpy",
            single=True,
            context=context,
            init_scale=init_scale,
            noise_variance=noise_variance,
        )
        lam = np.array(values.eigenvalues)
        noise = values.noise_variance
        top = float(np.max(lam))
        with np.errstate(all="ignore"):
            self.time_unit = top * top
        if not np.finfo(float).tiny <= self.time_unit < np.inf:
            raise ValueError(
                f"largest of eigenvalues must have a square in the range of float64, got {top}"
            )
        fluctuation = excess(lam, np.sum(lam), values.context, noise)
        self.final = float(noise + np.sum(lam * fluctuation / (lam + fluctuation)))
        self.weights = lam * (lam / (lam + fluctuation))
        self.slopes = (lam + fluctuation) / top
        self.squares = (lam / top) ** 2
        self.rate = float(np.sqrt(np.sum(self.squares**2)))
        self.log_start = float(np.log(values.init_scale) + np.log(top) / 2)
        self.begin = max(0.0, (np.log(_LINEAR) - self.log_start) / self.rate)

    def shares(self, y: np.ndarray) -> np.ndarray:
        """Weights of the model over their final values: (D,) or (D, times)."""
        return (y[1:].T * self.slopes).T * y[0]

    def linear(self, time: Number) -> np.ndarray:
        """State during the exponential growth: (D + 1,) or (D + 1, times)."""
        w = np.exp(self.log_start + self.rate * np.asarray(time, dtype=float))
        return np.concatenate([w[None], np.multiply.outer(self.squares / self.rate, w)])

    def missing(self, y: np.ndarray) -> np.ndarray:
        """Loss above the final one."""
        # Large shares come with small weights: their square alone can overflow.
        return np.sum(((1 - self.shares(y)).T * np.sqrt(self.weights)) ** 2, axis=-1)

    def gone(self, y: np.ndarray) -> np.ndarray:
        """Loss at zero weights minus the present one, without cancellation."""
        part = self.shares(y).T
        return np.sum((self.weights * part) * (2 - part), axis=-1)

    def converged(self, _: float, y: np.ndarray) -> float:
        """Event at which the loss is final; solvers stall beyond it."""
        return float(self.missing(y)) - _CONVERGED * self.final

    converged.terminal = True  # type: ignore[attr-defined]

    def derivative(self, _: float, y: np.ndarray) -> np.ndarray:
        w = y[0]
        b = y[1:]
        force = self.squares * (1 - self.shares(y))
        return np.concatenate([[b @ force], w * force])

    def jacobian(self, _: float, y: np.ndarray) -> np.ndarray:
        w = y[0]
        b = y[1:]
        curvature = self.squares * self.slopes
        matrix = np.diag(np.concatenate([[-curvature @ b**2], -(w**2) * curvature]))
        mixed = self.squares - 2 * curvature * w * b
        matrix[0, 1:] = mixed
        matrix[1:, 0] = mixed
        return matrix

    def solve(self, end: float, **options: Any) -> Value:
        if np.max(self.shares(self.linear(self.begin))) > _STIFF:
            raise ArithmeticError("the weights start too far beyond their final values")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the status says it
            solution = solve_ivp(
                self.derivative,
                (self.begin, end),
                self.linear(self.begin),
                method="LSODA",
                jac=self.jacobian,
                rtol=_RTOL,
                atol=_ATOL,
                **options,
            )
        if not solution.success:
            raise ArithmeticError(f"the flow could not be integrated: {solution.message}")
        return solution
