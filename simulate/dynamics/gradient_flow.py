r"""Gradient flow of one linear attention layer on the law of its data, without sampling.

The flow :math:`\tau \dot W = -\frac12\, \partial L / \partial W` is integrated with the exact
moments of the data (`iclimit.simulate.dynamics.feature_moments`) by LSODA.  This solver changes to
an implicit method where learned weights relax much faster than the others grow.  Times are in
units of :math:`\tau`.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicHermiteSpline

from iclimit.checks import by_name, check_arguments, refuse_masked
from iclimit.problem import Problem
from iclimit.results import Result
from iclimit.simulate.arrays import Seed
from iclimit.simulate.dynamics.attention_models import AttentionModel, MomentLoss, initial_weights
from iclimit.simulate.dynamics.feature_moments import check_sequences, population_moments

# Size of an imaginary step, by which the derivatives of polynomials are exact.
COMPLEX_STEP = 1e-30


@dataclass(frozen=True, eq=False, repr=False)
class Plateaus(Result):
    """Where the loss of a flow falls slowest between two drops.

    Attributes
    ----------
    times, losses : ndarray (n,)
        Time and loss at every local minimum of the speed.
    contrasts : ndarray (n,)
        Speed there relative to the lower one of the two maxima around it; close to one for a mere
        shoulder of the curve.
    """

    times: np.ndarray
    losses: np.ndarray
    contrasts: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class FlowCurve(Result):
    """Loss along a gradient flow.

    Attributes
    ----------
    times, losses : ndarray (n,)
        At the steps of the integrator, from 0 to the duration.
    speeds : ndarray (n,)
        Minus the derivatives of the loss by the time.
    weights : list of ndarray
        Weights at the end, see `iclimit.simulate.dynamics.attention_models`.
    drift : float
        Largest change of what the flow conserves, from start to end, relative to the largest
        weight squared.  It estimates the error of the integration.
    parameters : dict
        The settings.
    """

    times: np.ndarray
    losses: np.ndarray
    speeds: np.ndarray
    weights: list[np.ndarray]
    drift: float
    parameters: dict[str, Any] = field(repr=False)

    @cached_property
    def _curve(self) -> CubicHermiteSpline:
        return CubicHermiteSpline(self.times, self.losses, -self.speeds)

    def at(self, times: ArrayLike) -> np.ndarray:
        """Loss at given times, any shape.

        The Hermite interpolation has an error of about 1e-7 of the initial loss at the default
        tolerance.
        """
        refuse_masked("times", times)
        times = np.asarray(times, dtype=float)
        last = float(self.times[-1])
        if not np.all((times >= 0) & (times <= last)):
            raise ValueError(f"times must lie between 0 and {last!r}, got {times}")
        return self._curve(times)

    def crossing_times(self, levels: Any) -> np.ndarray:
        """Times at which the loss falls through given levels, any shape.

        By Hermite interpolation as in `at`; ``inf`` where the loss stays above.
        """
        refuse_masked("levels", levels)
        levels = np.asarray(levels, dtype=float)
        if not np.all(levels < self.losses[0]):
            raise ValueError(
                f"levels must be below the initial loss {float(self.losses[0])!r}, got {levels}"
            )
        low = np.zeros(levels.shape)
        high = np.full(levels.shape, self.times[-1])
        for _ in range(100):
            middle = (low + high) / 2
            above = self._curve(middle) > levels
            low = np.where(above, middle, low)
            high = np.where(above, high, middle)
        return np.where(levels >= self.losses[-1], (low + high) / 2, np.inf)

    def plateaus(self, contrast: float = 0.5) -> Plateaus:
        """Where the loss falls slowest between two drops.

        Parameters
        ----------
        contrast : float from 0 to 1
            Minima with a larger contrast are shoulders and are left out.  So are minima whose loss
            is within a millionth of the initial loss of its values at the start and at the end.
        """
        check_arguments(contrast=contrast)
        small = 1e-6 * self.losses[0]
        moving = (self.losses < self.losses[0] - small) & (self.losses > self.losses[-1] + small)
        speed = self.speeds
        slowest = (speed[1:-1] < speed[:-2]) & (speed[1:-1] <= speed[2:]) & moving[1:-1]
        inner = np.flatnonzero(slowest) + 1
        peaks = [speed[a:b].max() for a, b in itertools.pairwise([0, *inner, len(speed)])]
        contrasts = speed[inner] / np.minimum(peaks[:-1], peaks[1:])
        kept = contrasts <= contrast
        inner = inner[kept]
        return Plateaus(self.times[inner], self.losses[inner], contrasts[kept])


def simulate_gradient_flow(
    problem: Problem,
    *,
    model: str = "merged",
    heads: int = 8,
    rank: int = 1,
    init_scale: float = 0.01,
    initialization: str = "per-head",
    initial: Sequence[Any] | None = None,
    duration: float,
    rtol: float = 1e-9,
    normalization: str = "mean",
    rng: Seed | None = None,
) -> FlowCurve:
    r"""Integrate the gradient flow of one linear attention layer.

    Parameters
    ----------
    problem : Problem
        Law of the sequences: Gaussian inputs, tasks N(0, I) or one that is shared.
    model, heads, rank, init_scale, initialization, normalization
        As in `simulate_gradient_descent`.
    initial : sequence of arrays, optional
        Initial weights of one run in the shapes of
        `iclimit.simulate.dynamics.AttentionModel`, not all zero, instead of random ones.
    duration : float > 0
        End of the flow, in units of the time constant.
    rtol : float from 1e-12 to 1e-3
        Relative tolerance of the integrator.
    rng : int, SeedSequence or Generator
        Seed of the initial weights.  These are the weights of `initial_weights` and of the first
        repeat of `simulate_gradient_descent`.

    Returns
    -------
    FlowCurve
        Loss, speed and plateaus.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If problem or initial is of another kind, or rng is missing where it is needed.
    ArithmeticError
        If the integrator fails.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.dynamics import simulate_gradient_flow
    >>> problem = iclimit.Problem(dim=2, context=31, input_covariance=[0.6, 0.4], scale=1)
    >>> run = simulate_gradient_flow(
    ...     problem, model="separate", heads=2, init_scale=0.05, duration=2000, rng=0
    ... )
    >>> run.plateaus().losses.round(4), round(float(run.losses[-1]), 4)
    (array([0.4475]), 0.0881)
    """
    settings = by_name(
        problem=problem,
        model=model,
        heads=heads,
        rank=rank,
        init_scale=init_scale,
        initialization=initialization,
        duration=duration,
        rtol=rtol,
        normalization=normalization,
    )
    check_sequences(problem)
    layer = AttentionModel(model, problem.dim, heads, rank)
    check_arguments(duration=duration, rtol=rtol)
    if initial is None:
        start = initial_weights(layer, init_scale, initialization, rng=rng)
    else:
        start = layer.parse_weights(initial)
    narrow = layer.narrowed(start)
    if narrow is not None and problem.fresh_fraction == 1:
        # Tasks w and -w are equally likely: weights that are left out never get a gradient.
        start = narrow
        flow = _Flow(replace(layer, narrow=True), problem, normalization)
    else:
        flow = _Flow(layer, problem, normalization)
    flat = np.concatenate([matrix.reshape(-1) for matrix in start])
    scale = float(np.abs(flat).max())
    if scale == 0:
        raise ValueError("initial must not all be zero, where the flow stands still")
    solution = solve_ivp(
        flow.derivative,
        (0.0, duration),
        flat,
        method="LSODA",
        jac=flow.jacobian,
        rtol=rtol,
        atol=rtol * 1e-3 * scale,
    )
    if not solution.success:
        last = solution.t[-1]
        raise ArithmeticError(f"the integrator stopped at t = {last:.6g}: {solution.message}")
    passed = flow.unpack(solution.y.T)
    losses, halves = flow.loss(passed)
    conserved = flow.layer.conserved(passed)
    end = [path[-1] for path in passed]
    return FlowCurve(
        solution.t,
        losses,
        2 * sum(np.sum(half.reshape(len(losses), -1) ** 2, axis=1) for half in halves),
        end if flow.layer is layer else layer.widened(end),
        float(np.abs(conserved[-1] - conserved[0]).max() / np.abs(solution.y[:, -1]).max() ** 2),
        settings,
    )


@dataclass(frozen=True)
class _Flow:
    """Gradient flow of the weights of a layer, flattened."""

    layer: AttentionModel
    problem: Problem
    normalization: str

    @cached_property
    def loss(self) -> MomentLoss:
        """Loss and halves of its gradient."""
        moments = population_moments(self.problem, normalization=self.normalization)
        return MomentLoss(self.layer, moments)

    @cached_property
    def places(self) -> list[slice]:
        """Places of the weights among flat ones."""
        cuts = np.cumsum([0, *map(math.prod, self.layer.shapes)]).tolist()
        return [slice(*pair) for pair in itertools.pairwise(cuts)]

    def unpack(self, flat: np.ndarray) -> list[np.ndarray]:
        """Weights (n, ...) from flat ones."""
        return [
            flat[..., place].reshape(-1, *shape)
            for place, shape in zip(self.places, self.layer.shapes, strict=True)
        ]

    def derivative(self, _: float, flat: np.ndarray) -> np.ndarray:
        """Derivative of the weights by time."""
        _, halves = self.loss(self.unpack(flat))
        return -np.concatenate([half.reshape(-1) for half in halves])

    def jacobian(self, _: float, flat: np.ndarray) -> np.ndarray:
        """Derivative of that by the weights."""
        shifted = flat + 1j * COMPLEX_STEP * np.eye(flat.size)
        _, halves = self.loss(self.unpack(shifted))
        rows = np.concatenate([half.reshape(flat.size, -1) for half in halves], axis=1)
        return -rows.imag.T / COMPLEX_STEP
