r"""Errors at every position of a model that is trained at all of them, with infinite data.

A sequence of L examples has the summary :math:`p_l h_l` at position l: the sum over the first l
examples divided by l (:math:`p_l = 1`) or by the fixed length (:math:`p_l = l/L`).  The loss is
:math:`\sum_l u_l E(y_{l+1} - x_{l+1}^\top\Gamma p_l h_l)^2
+ \frac\lambda d\lVert\Gamma\rVert_F^2` with :math:`\sum_l u_l = 1`.  A query is independent of its
context, so the normal equations are :math:`\Gamma\,(\sum_l u_l p_l^2 G_l + \lambda) =
\sum_l u_l p_l A_l^\top` with the moments G and A of
`iclimit.asymptotics.pretraining.summary_moments`.  For a fresh task in every sequence
:math:`\Gamma = (c I, 0)`: **the model is a step of one rate**,

.. formula: rate

.. math:: c = \frac{\sum_l u_l p_l}{\lambda + \sum_l u_l p_l^2/c_l}, \qquad
   \frac1{c_l} = 1 + \frac{1 + (1 + \rho) d}l, \qquad
   e_l = 1 + \rho - 2 c p_l + c^2 p_l^2/c_l ,

at any dimension, while the best rate at position l is :math:`c_l`.  Without a ridge the one rate
is right for the *effective context*

.. math:: l_{\mathrm{eff}} = \frac{\sum_l u_l p_l^2}{\sum_l u_l p_l^2/l}\bigg|_{p = 1}
   = \Bigl(\sum_l u_l/l\Bigr)^{-1} \quad\text{or}\quad
   \frac{\sum_l u_l\,l^2}{\sum_l u_l\,l}\bigg|_{p = l/L}:

the harmonic mean for a mean over examples, :math:`L/H_L` for equal weights, which is
logarithmically short; and :math:`(2L + 1)/3` for a fixed divisor.  A divisor
:math:`l + 1 + (1 + \rho)d` would make every position optimal with one matrix, since
:math:`l\,c_l^{-1}` is that number.

In these terms, with equal weights and no ridge, the factor of the summed examples over l is
:math:`c\,p_l = l_{\mathrm{eff}}/(l_{\mathrm{eff}} + 1 + (1 + \rho)d)` or
:math:`l/(l_{\mathrm{eff}} + 1 + (1 + \rho)d)`, and :math:`l_{\mathrm{eff}}` needs no sums.

.. symbols:
   c: rate of the step that the model makes
   l: examples seen at a position
   u: weights of the positions, equal here
   p: 1 for means over the examples seen, l/L for a fixed divisor
   e: error at a position

.. page: pretraining/random-lengths: Prompts of random length, and the context a model is best for
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.numbers import Value
from iclimit.asymptotics.pretraining.summary_moments import (
    TaskMoments,
    centred_moments,
    summary_moments,
    task_set_moments,
)
from iclimit.checks import check_arguments, check_choice, parse_array
from iclimit.experiment import NORMALIZATIONS
from iclimit.losses import AllPositions
from iclimit.results import Result


@dataclass(frozen=True, eq=False, repr=False)
class ExactPositions(Result):
    r"""Errors of a model at the positions of its training.

    Attributes
    ----------
    positions : ndarray (m,)
        Numbers of examples seen.
    icl : ndarray (m,)
        Squared errors on noisy labels for fresh tasks.
    idg : ndarray (m,)
        The same for the pretraining tasks; those of ``icl`` where every sequence had a fresh task.
    best : ndarray (m,)
        Least error for fresh tasks of a step whose rate is chosen at each position.
    gamma : ndarray (d, d + 1)
        Matrix that is learned.
    effective_context : float
        Context for which a step of one rate is best that is trained at these positions without a
        ridge.
    """

    positions: np.ndarray
    icl: np.ndarray
    idg: np.ndarray
    best: np.ndarray
    gamma: np.ndarray
    effective_context: float

    @property
    def rate(self) -> float:
        """Rate c of the step that the model makes: the mean over the diagonal of its matrix."""
        dim = len(self.gamma)
        return float(np.trace(self.gamma[:, :dim])) / dim


def exact_position_errors(
    *,
    dim: int,
    context: int,
    rho: float,
    first: int = 1,
    weights: ArrayLike | None = None,
    normalization: str = "mean",
    ridge: float = 0.0,
    task_set: ArrayLike | None = None,
) -> ExactPositions:
    """Exact errors by position of linear attention that is trained at all positions, n = inf.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    context : int >= 1
        Number L of examples in a sequence; its query makes the last position.
    rho : float >= 0
        Variance of the label noise.
    first : int >= 1
        First position that counts: the number of examples it sees.
    weights : array (context - first + 1,) of numbers >= 0, optional
        Weights of the positions in the loss, which are divided by their sum; equal ones by
        default.  The same errors are those of prompts of random length with these probabilities.
    normalization : {"mean", "length"}
        Whether the summary of l examples is divided by l, or by the context L.
    ridge : float >= 0
        Ridge of the mean loss.  A loss that is summed over positions instead has an m-th of it.
    task_set : array (k, d), optional
        The pretraining tasks; by default every sequence has a fresh task of the sphere.

    Returns
    -------
    ExactPositions
        Errors by position, the best ones, the learned matrix and its effective context.

    Raises
    ------
    ValueError
        If an argument is outside its range or has another shape.

    References
    ----------
    Derived here: module `iclimit.asymptotics.pretraining.exact_position_errors`.  Training on all
    positions: Garg, Tsipras, Liang, Valiant, arXiv:2208.01066.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import exact_position_errors
    >>> errors = exact_position_errors(dim=20, context=40, rho=0.0)
    >>> round(errors.rate, 6), round(errors.effective_context, 4)
    (0.308049, 9.349)
    >>> errors.icl[[9, 39]].round(6), errors.best[[9, 39]].round(6)
    (array([0.678074, 0.528615]), array([0.677419, 0.344262]))
    """
    check_arguments(dim=dim, context=context, rho=rho, ridge=ridge)
    check_integers(dim=dim, context=context)
    check_choice("normalization", normalization, NORMALIZATIONS)
    loss = AllPositions(first, None if weights is None else tuple(np.ravel(weights).tolist()))
    positions = loss.positions(context)
    shares = loss.shares(context)
    fresh = centred_moments(np.eye(dim), None, rho, sphere=True)
    trained = fresh
    if task_set is not None:
        trained = task_set_moments(parse_array("task_set", task_set, (None, dim)), None, rho)
    factors = positions / context if normalization == "length" else np.ones(len(positions))
    gamma = _learned(trained, positions, factors, shares, ridge)
    icl = _errors(gamma, fresh, positions, factors, rho)
    own = icl if task_set is None else _errors(gamma, trained, positions, factors, rho)
    squares = shares * factors**2
    return ExactPositions(
        positions=positions,
        icl=icl,
        idg=own,
        best=1 + rho - positions / (positions + 1 + (1 + rho) * dim),
        gamma=gamma,
        effective_context=float(np.sum(squares) / np.sum(squares / positions)),
    )


def _learned(
    tasks: TaskMoments,
    positions: np.ndarray,
    factors: np.ndarray,
    shares: np.ndarray,
    ridge: float,
) -> np.ndarray:
    """Matrix of least loss, of least norm where several are."""
    squares = shares * factors**2
    # Moments are linear in 1/l, so their mean is that at the mean of 1/l.
    total = np.sum(squares)
    G, A = summary_moments(tasks, total / np.sum(squares / positions))
    second = total * G + ridge * np.eye(len(G))
    right = np.sum(shares * factors) * A
    return np.asarray(np.linalg.lstsq(second, right)[0].T)


def _errors(
    gamma: np.ndarray, tasks: TaskMoments, positions: np.ndarray, factors: np.ndarray, rho: float
) -> np.ndarray:
    """Errors at the positions for tasks of these moments."""
    dim = len(gamma)
    label = float(np.trace(tasks.second)) / dim + rho
    errors = np.empty(len(positions))
    for place, (position, factor) in enumerate(zip(positions, factors, strict=True)):
        G, A = summary_moments(tasks, position)
        learned = factor * gamma
        moments: Any = np.sum(learned * (learned @ G)) - 2 * np.sum(learned.T * A)
        errors[place] = label + moments / dim
    return errors


def one_rate_errors(
    *,
    test_context: Value,
    context: Value,
    first: Value,
    dim: Value,
    rho: Value,
    normalization: str = "mean",
) -> tuple[Value, Value, Value]:
    """Error at a position, the best there, and the effective context, in closed form.

    These are numbers of `exact_position_errors` with fresh tasks, equal weights and no ridge.
    """
    lacking = 1 + (1 + rho) * dim
    count = context - first + 1
    if normalization == "mean":
        effective = count / _reciprocal_sum(first, count)
        factor = effective / (effective + lacking)
    else:
        middle = (first + context) / 2
        effective = middle + (count**2 - 1) / (12 * middle)
        factor = test_context / (effective + lacking)
    wanted = test_context / (test_context + lacking)
    best = 1 + rho - wanted
    return best + (factor - wanted) ** 2 / wanted, best, effective


# Terms that are added one by one before the series of the digamma function, which is then exact to
# 1e-14.
_SHIFT = 10

# Coefficients of its powers of 1/x^2.
_SERIES = (-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132)


def _reciprocal_sum(first: Value, count: Value) -> Value:
    """Sum of 1/l over ``count`` positions, from the first one on."""
    total = _far_digamma(first + count + _SHIFT) - _far_digamma(first + _SHIFT)
    for step in range(_SHIFT):
        total = total + 1 / (first + step) - 1 / (first + count + step)
    return total


def _far_digamma(x: Value) -> Value:
    """Digamma function of numbers above `_SHIFT`, in terms that a page of the explorer has too."""
    series = sum(factor / x ** (2 * power) for power, factor in enumerate(_SERIES, start=1))
    return np.log(x) - 1 / (2 * x) + series
