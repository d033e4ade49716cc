r"""Training of linear attention with separate key and query: plateaus, one for each direction.

The model predicts :math:`\hat y = \beta^\top \bigl(\sum_h v_h k_h q_h^\top\bigr) x_q` from
:math:`\beta = \frac1N \sum_n y_n x_n`.  Inputs, tasks, noise, loss and flow are those of
`iclimit.asymptotics.dynamics.merged`: :math:`E \beta \beta^\top` has the eigenvalues
:math:`\lambda_d^2 c_d` with :math:`\lambda_d c_d = \lambda_d + (\lambda_d + \operatorname{tr}
\Lambda + \sigma^2)/N =: A_d`.  The flow

.. math:: \tau \dot v = k^\top R q, \quad \tau \dot k = v R q, \quad \tau \dot q = v R^\top k,
   \qquad R = \Lambda^2 - E[\beta \beta^\top] \Bigl(\sum_h v_h k_h q_h^\top\Bigr) \Lambda

of each head has :math:`2^D` fixed points of different losses, one for each set S of directions,

.. formula: losses

.. math:: \sum_h v_h k_h q_h^\top = \sum_{d \in S} A_d^{-1} e_d e_d^\top, \qquad
   L_S = \operatorname{tr} \Lambda + \sigma^2 - \sum_{d \in S} \lambda_d/c_d .

From a small start training passes close to the fixed points of the m largest eigenvalues,
m = 0, 1, ..., D.  There the model performs principal component regression in context.  Merged
attention ends at the last of these points too.

References
----------
Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265), section 4 and its appendix.  The
label noise is not in the paper.

.. symbols:
   L: loss of the plateau of S
   S: directions that are learned
   v: value weights of the heads h
   k_h: their keys
   q_h: their queries
   e_d: direction d, an eigenvector of Λ
   \Lambda: covariance of the inputs
   \lambda_d: eigenvalue of Λ in direction d
   A: λ_d c_d
   c_d: 1 + (1 + (tr Λ + σ²)/λ_d)/N for contexts of N pairs
   \operatorname{tr}: trace
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import CheckedValues, check_range, checked
from iclimit.asymptotics.numbers import ArrayMath, Namespace, Number, SymPyMath, Value
from iclimit.drawing import Axes, log_scale
from iclimit.results import Result

# Most directions: these have a million fixed points.
_MOST_DIRECTIONS = 20

# Share of a linear axis that two drops take at least to be seen apart.
_NARROW = 0.03


@dataclass(frozen=True, eq=False, repr=False)
class PredictedTraining(Result, ABC):
    """Base of predicted courses of a training: the loss over time, and its figure."""

    @property
    @abstractmethod
    def end(self) -> float:
        """Time beyond the last drop."""

    @abstractmethod
    def loss(self, t: Number) -> np.ndarray:
        """Loss at given times >= 0, of any shape, infinity included."""

    @property
    def drops(self) -> np.ndarray:
        """Times of the drops that are shown apart, in their order."""
        return np.array([self.end])

    def draw(self, ax: Axes, *, count: int = 1000, **line: Any) -> None:
        """Draw the loss at so many times from the start to `end`.

        Times are on a logarithmic axis where drops would merge on a linear one.
        """
        start = self.drops[0] / 3
        gap = float(np.diff(self.drops, append=np.inf).min()) / self.end
        apart = np.diff(np.log(self.drops), append=np.inf).min() / np.log(self.end / start)
        merged = bool(gap < _NARROW and apart > 2 * gap)
        space = np.geomspace if merged else np.linspace
        times = space(start if merged else 0, self.end, count)
        ax.plot(times, self.loss(times), **line)
        log_scale(ax, "x" if merged else "")
        ax.set(xlabel=r"time $t/\tau$", ylabel="loss")


def plateau_losses(eigenvalues: Number, *, context: Number, noise_variance: Number = 0.0) -> Value:
    r"""Losses of the plateaus that separate attention passes, and of its end.

    Parameters
    ----------
    eigenvalues : array (..., D), or sequence of D mpmath or SymPy numbers
        Eigenvalues of :math:`\Lambda`, >= 0 and not all zero, in any order; SymPy expressions in
        descending order, as they are not sorted.
    context : number or array >= 1
        Number N of context pairs.
    noise_variance : number or array >= 0
        Variance of the label noise.

    Returns
    -------
    ndarray (..., D + 1), or tuple of mpmath or SymPy numbers
        Mean squared error on a noisy query label (no 1/2) when the m largest directions are
        learned, m = 0, ..., D.  The first is the loss at zero weights.  The last is the loss to
        which separate and merged attention converge.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import plateau_losses
    >>> plateau_losses([0.25, 0.45, 0.7, 1], context=31).round(4)
    array([2.4   , 1.4988, 0.8863, 0.5127, 0.3264])
    >>> from sympy import symbols
    >>> N, lam = symbols("N lambda", positive=True)
    >>> plateau_losses([lam], context=N)[1].factor()
    2*lambda/(N + 2)
    """
    math_, values = parse_eigenvalues(eigenvalues, context=context, noise_variance=noise_variance)
    N = values.context
    noise = values.noise_variance
    lam = descending(math_, values.eigenvalues)
    with math_.quiet():
        residuals = _residuals(lam, N, noise)
        # Sums of positive terms: what is left of the learned directions, and the others.
        others = [0 * N * noise * lam[0]]
        for value in reversed(lam):
            others.append(others[-1] + value)
        losses = [noise + others[-1]]
        learned = noise
        for residual, other in zip(residuals, reversed(others[:-1]), strict=True):
            learned = learned + residual
            losses.append(learned + other)
        return collected(math_, losses)


def plateau_head_values(
    eigenvalues: Number, *, context: Number, noise_variance: Number = 0.0
) -> Value:
    r"""Value weight of a head that has learned a direction, :math:`(\lambda_d c_d)^{-1/3}`.

    For rank one and a balanced start, where the norms of key and query are the same.

    Parameters
    ----------
    eigenvalues : array (..., D), or sequence of D mpmath or SymPy numbers
        Eigenvalues of :math:`\Lambda`, > 0, in any order; SymPy expressions in descending order.
    context, noise_variance
        As in `plateau_losses`.

    Returns
    -------
    ndarray (..., D), or tuple of mpmath or SymPy numbers
        For the directions in descending order of the eigenvalues, as they are learned.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import plateau_head_values
    >>> plateau_head_values([1, 0.7, 0.45, 0.25], context=31).round(4)
    array([0.9659, 1.0772, 1.2265, 1.4392])
    """
    math_, values = parse_eigenvalues(
        eigenvalues, allowed="(0, inf)", context=context, noise_variance=noise_variance
    )
    N = values.context
    noise = values.noise_variance
    lam = descending(math_, values.eigenvalues)
    with math_.quiet():
        trace = sum(lam)
        return collected(
            math_, [1 / cube_root(math_, x + excess(x, trace, N, noise)) for x in lam]
        )


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoints(Result):
    """Fixed points of separate attention of rank one.

    Attributes
    ----------
    learned : ndarray of bool (2^D, D)
        Which directions each of them has learned.
    losses : ndarray (2^D,), or tuple of mpmath or SymPy numbers
        Mean squared error on a noisy query label (no 1/2).
    """

    learned: np.ndarray
    losses: Value


def fixed_point_losses(
    eigenvalues: Number, *, context: Number, noise_variance: Number = 0.0
) -> FixedPoints:
    r"""Losses at all fixed points of the training of separate attention of rank one.

    Parameters
    ----------
    eigenvalues : array (D,), or sequence of D mpmath or SymPy numbers
        Eigenvalues of :math:`\Lambda`, > 0, D <= 20.
    context : number >= 1
        Number N of context pairs.
    noise_variance : number >= 0
        Variance of the label noise.

    Returns
    -------
    FixedPoints
        With fields ``learned`` and ``losses``.  Directions are in the order of the eigenvalues.
        Points are in the order of binary numbers, with the first direction as the first digit.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import fixed_point_losses
    >>> points = fixed_point_losses([1, 0.5], context=10)
    >>> points.learned.astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> points.losses.round(3)
    array([1.5  , 1.143, 0.7  , 0.343])
    """
    math_, values = parse_eigenvalues(
        eigenvalues,
        allowed="(0, inf)",
        single=True,
        context=context,
        noise_variance=noise_variance,
    )
    lam = values.eigenvalues
    noise = values.noise_variance
    if len(lam) > _MOST_DIRECTIONS:
        raise ValueError(f"eigenvalues must be at most {_MOST_DIRECTIONS}, got {len(lam)}")
    residuals = _residuals(lam, values.context, noise)
    losses = np.array([noise], dtype=float if isinstance(math_, ArrayMath) else object)
    for value, residual in zip(reversed(lam), reversed(residuals), strict=True):
        losses = np.concatenate([losses + value, losses + residual])
    numbers = np.arange(2 ** len(lam))[:, None] >> np.arange(len(lam))[::-1]
    learned = (numbers & 1).astype(bool)
    return FixedPoints(learned, losses if isinstance(math_, ArrayMath) else tuple(losses))


def _residuals(lam: list[Value], context: Value, noise_variance: Value) -> list[Value]:
    """Part of the loss that remains when a direction is learned, lambda (1 - 1/c)."""
    trace = sum(lam)
    extra = [excess(x, trace, context, noise_variance) for x in lam]
    return [x * e / (x + e) for x, e in zip(lam, extra, strict=True)]


def parse_eigenvalues(
    eigenvalues: ArrayLike, *, allowed: str = "[0, inf)", **others: Any
) -> tuple[Namespace, CheckedValues]:
    """Number system, and checked arguments; eigenvalues, not all zero, come as a list of numbers.

    Those of arrays are along the last axis.  Other arguments and options are those of `checked`.
    """
    math_, values = checked(
        sequences=("eigenvalues",),
        ranges={"eigenvalues": allowed},
        eigenvalues=eigenvalues,
        **others,
    )
    check_range(math_, "trace of eigenvalues", sum(values.eigenvalues), "(0, inf)")
    return math_, values


def descending(math_: Namespace, values: list[Value]) -> list[Value]:
    """Numbers in descending order; SymPy expressions, which may not compare, as they are."""
    if isinstance(math_, ArrayMath):
        return [*-np.sort(-np.stack(values), axis=0)]
    return values if isinstance(math_, SymPyMath) else sorted(values, reverse=True)


def collected(math_: Namespace, values: Sequence[Value]) -> Value:
    """Arrays along a last axis; other numbers in a tuple."""
    if not isinstance(math_, ArrayMath):
        return tuple(math_.finish(value) for value in values)
    return math_.finish(np.stack(np.broadcast_arrays(*values), axis=-1))


def excess(lam: Value, trace: Value, context: Value, noise_variance: Value) -> Value:
    r"""What the fluctuations of the context add to :math:`\lambda`: :math:`\lambda (c - 1)`."""
    return (lam + trace + noise_variance) / context


def cube_root(math_: Namespace, value: Value) -> Value:
    """Cube root of a positive number, in its number system."""
    return value ** (math_.convert(1) / 3)
