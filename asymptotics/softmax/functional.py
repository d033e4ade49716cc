r"""The best of all attention on functions: an embedding of the inputs and one linear layer.

A network that embeds the inputs, by any function, and then applies one layer of linear attention
predicts :math:`\hat y = \sum_i K(x_q, x_i)\,y_i` with some kernel K.  For inputs :math:`x_i, x_q`
of any law and functions y(x) of covariance :math:`C(x, x') = E\,y(x) y(x')`, with label noise
:math:`\sigma^2`, the loss on a noiseless query label is quadratic in K.  Given
:math:`x_q = q` it vanishes to first order where

.. math:: \bigl(C(x, x) + \sigma^2\bigr) K(q, x) + (N - 1)\,E_{x'} C(x, x') K(q, x') = C(q, x)

for all x, and there

.. math:: \mathcal L^* = E_q \bigl[C(q, q) - N E_x K(q, x)\,C(q, x)\bigr] :

no embedding of the inputs does better.  The predictor is linear in the labels.  This is a linear
equation on the nodes of a quadrature of the input law (Nystroem's method).

*Functions of finite rank*, :math:`y = f(x) \cdot c` with :math:`M = E c c^\top`,
:math:`S = E f f^\top`, :math:`G = E\,f f^\top/(f^\top M f + \sigma^2)`:

.. math:: \mathcal L^* = \operatorname{tr} M S
   - N \operatorname{tr}\bigl[M G M (1 + (N - 1) G M)^{-1} S\bigr] .
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import checked, real_array
from iclimit.asymptotics.numbers import Number, Value
from iclimit.checks import parse_array
from iclimit.results import Result

Covariance = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Nodes of an interval to start with; doubled until the loss does not change.
_FEWEST = 24

# Nodes at which that ends.
_MOST = 800

# Change of the loss, relative to it, at which it ends earlier.
_ACCURACY = 1e-10

# Rounding of the loss, relative to that of the null predictor.
_ROUNDING = 1e-14


@dataclass(frozen=True, repr=False)
class FunctionalOptimum(Result):
    r"""Best kernel of attention on functions.

    Attributes
    ----------
    loss : float
        Mean squared error on a noiseless query label (no 1/2).
    error : float
        Its error: the change by the last refinement, and rounding.
    inputs : ndarray (n,) or (n, k)
        Nodes of the input law, with ``weights`` of sum 1.
    weights : ndarray (n,)
        Their probabilities.
    kernel : ndarray (n, n)
        :math:`K(x_q, x)` at the nodes, rows by query.
    """

    loss: float
    error: float
    inputs: np.ndarray
    weights: np.ndarray
    kernel: np.ndarray


def functional_optimum(
    *,
    covariance: Covariance,
    inputs: tuple[float, float] | np.ndarray,
    context: Number,
    noise_variance: Number = 0.0,
    weights: np.ndarray | None = None,
) -> FunctionalOptimum:
    r"""Least loss of any embedding of the inputs and one layer of linear attention.

    Parameters
    ----------
    covariance : callable
        :math:`C(x, x')`, from two arrays of inputs that broadcast, to an array; inputs of k
        coordinates have them along the last axis.
    inputs : tuple (lower, upper) or array (n,) or (n, k)
        Interval of uniform inputs; or points, or nodes of a quadrature of the input law.
    context : number >= 1
        Number N of context pairs.
    noise_variance : number >= 0
        Variance of the label noise.
    weights : array (n,), optional
        Probabilities > 0 of the points, of sum 1; equal by default.

    Returns
    -------
    FunctionalOptimum
        With fields ``loss``, ``error``, ``inputs``, ``weights`` and ``kernel``.

    Raises
    ------
    ValueError
        If an argument is outside its range, shapes do not fit or the covariance is not symmetric
        and positive on its diagonal.
    TypeError
        If covariance is not a function, or a number not one.

    Notes
    -----
    An interval is integrated over by Gauss-Legendre nodes, doubled in number until the loss has
    converged to 1e-10, at most 768: 5 ms for the sine task.  Covariances with a kink, such as
    Brownian motion's, converge as one over the square of the number of nodes.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.functional`.

    Examples
    --------
    Sines :math:`a \sin(x + \phi)` of random amplitude and phase, ten points in (-5, 5):

    >>> import numpy as np
    >>> from iclimit.asymptotics.softmax import functional_optimum
    >>> power = (0.5**3 - 0.1**3) / (3 * 0.4) / 2
    >>> best = functional_optimum(
    ...     covariance=lambda x, z: power * np.cos(x - z), inputs=(-5, 5), context=10
    ... )
    >>> round(best.loss, 7)
    0.0046924
    """
    if not callable(covariance):
        raise TypeError(f"covariance must be a function of two inputs, got {covariance!r}")
    _, values = checked(
        systems="numpy", single=True, context=context, noise_variance=noise_variance
    )
    N = float(values.context)
    noise = float(values.noise_variance)
    if not isinstance(inputs, tuple):
        points = real_array("inputs", inputs, "(-inf, inf)")
        return _optimum(covariance, points, _parse_weights(weights, points), N, noise, None)
    if weights is not None:
        raise ValueError("weights must not be given with an interval of inputs")
    if np.shape(inputs) != (2,) or not -np.inf < inputs[0] < inputs[1] < np.inf:
        raise ValueError(f"inputs must be (lower, upper) with lower < upper, got {inputs}")
    nodes = _FEWEST
    before = np.inf
    while True:
        x, weight = _legendre(*inputs, nodes)
        optimum = _optimum(covariance, x, weight, N, noise, before)
        null = float(weight @ np.diag(covariance(x[:, None], x[None])))
        converged = optimum.error <= _ACCURACY * optimum.loss + 3 * _ROUNDING * null
        if converged or 2 * nodes > _MOST:
            return optimum
        nodes = 2 * nodes
        before = optimum.loss


def _parse_weights(weights: np.ndarray | None, points: np.ndarray) -> np.ndarray:
    """Probabilities of points, by default the same for all."""
    n = len(points) if points.ndim in (1, 2) else 0
    if not n:
        raise ValueError("inputs must be an interval or an array (n,) or (n, k) of points")
    if weights is None:
        return np.full(n, 1 / n)
    given = parse_array("weights", weights, (n,))
    if np.any(given <= 0) or abs(given.sum() - 1) > 1e-9:
        raise ValueError(
            f"weights must be {n} probabilities > 0 of sum 1, got numbers from {given.min():g} to "
            f"{given.max():g} of sum {given.sum():.10g}"
        )
    return given


def _legendre(lower: float, upper: float, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    node, weight = np.polynomial.legendre.leggauss(nodes)
    return (lower + upper) / 2 + (upper - lower) / 2 * node, weight / 2


def _optimum(
    covariance: Covariance,
    x: np.ndarray,
    weight: np.ndarray,
    N: float,
    noise: float,
    before: float | None,
) -> FunctionalOptimum:
    """Solve the kernel equation on nodes; the loss before, with fewer nodes, tells the error."""
    C = np.asarray(covariance(x[:, None], x[None]), dtype=float)
    own = np.diag(C) if C.shape == (len(x), len(x)) else np.zeros(1)
    if not np.all(np.isfinite(C)):
        raise ValueError("covariance must be finite on the nodes of the inputs")
    scale = np.abs(own).max()
    if len(own) != len(x) or not np.allclose(C, C.T, rtol=0, atol=1e-10 * scale):
        raise ValueError("covariance must give a symmetric matrix on the nodes of the inputs")
    if not np.all(own + noise > 0):
        raise ValueError("covariance must be > 0 on its diagonal, where there is no noise")
    # Symmetric by the scale D^(1/2), where the pairs' own variance D + ... is diagonal.
    root = np.sqrt(weight / (own + noise))
    matrix = np.eye(len(x)) + (N - 1) * root[:, None] * C * root
    solved = np.linalg.solve(matrix, root[:, None] * C)
    kernel = (solved / np.sqrt((own + noise) * weight)[:, None]).T
    explained = np.sum((root[:, None] * C) * solved, axis=0)
    null = float(weight @ own)
    loss = max(null - N * float(weight @ explained), 0.0)
    error = _ROUNDING * null + (0.0 if before is None else abs(before - loss))
    return FunctionalOptimum(loss, error, x, weight, kernel)


def finite_rank_loss(
    *,
    task_covariance: ArrayLike | None,
    feature_moments: Number,
    scaled_moments: Number,
    context: Number,
) -> Value:
    r"""Least loss of attention on functions :math:`y = f(x) \cdot c` of finitely many features.

    Parameters
    ----------
    task_covariance : array or SymPy matrix (k, k)
        :math:`M = E c c^\top`.
    feature_moments : array or SymPy matrix (k, k)
        :math:`S = E f f^\top`.
    scaled_moments : array or SymPy matrix (k, k)
        :math:`G = E\,f f^\top/(f^\top M f + \sigma^2)`.
    context : number >= 1
        Number N of context pairs.

    Returns
    -------
    number
        Mean squared error on a noiseless query label; a float or a SymPy expression.

    Raises
    ------
    ValueError
        If shapes do not fit, or context is outside its range.
    TypeError
        If an argument is of another kind.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.functional`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import finite_rank_loss
    >>> from sympy import Matrix, Symbol
    >>> N = Symbol("N", positive=True)
    >>> finite_rank_loss(task_covariance=Matrix([[1]]), feature_moments=Matrix([[1]]),
    ...     scaled_moments=Matrix([[Symbol("g")]]), context=N)
    -(g - 1)/(N*g - g + 1)
    """
    given = {
        "task_covariance": task_covariance,
        "feature_moments": feature_moments,
        "scaled_moments": scaled_moments,
    }
    _, values = checked(single=True, context=context)
    N = values.context
    if any(hasattr(value, "free_symbols") for value in (*given.values(), context)):
        import sympy

        M = sympy.ImmutableMatrix(task_covariance)
        S = sympy.ImmutableMatrix(feature_moments)
        G = sympy.ImmutableMatrix(scaled_moments)
        _check_shapes(given, M.shape, S.shape, G.shape)
        best = M * G * M * (sympy.eye(M.rows) + (N - 1) * G * M).inv() * S
        return sympy.factor((M * S).trace() - N * best.trace())
    M = real_array("task_covariance", task_covariance, "(-inf, inf)")
    S = real_array("feature_moments", feature_moments, "(-inf, inf)")
    G = real_array("scaled_moments", scaled_moments, "(-inf, inf)")
    _check_shapes(given, M.shape, S.shape, G.shape)
    best = M @ G @ M @ np.linalg.solve(np.eye(len(M)) + (N - 1) * G @ M, S)
    return float(np.trace(M @ S) - N * np.trace(best))


def _check_shapes(names: Iterable[str], *shapes: tuple[int, ...]) -> None:
    if len(set(shapes)) > 1 or len(shapes[0]) != 2 or shapes[0][0] != shapes[0][1]:
        raise ValueError(
            f"{', '.join(names)} must be square matrices of one shape, got "
            + ", ".join(map(str, shapes))
        )
