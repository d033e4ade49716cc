r"""Adjusted loss of linear transformers: minimised on fixed contexts, or measured on fresh ones.

The adjusted loss :math:`\frac12 \lVert w_\theta - w_{\text{oracle}}\rVert^2` is a sum of squares,
so the Levenberg-Marquardt method applies.  It needs tens of steps where gradient methods need
thousands, since the scales of the parameters and the curvatures differ by many orders of
magnitude.  The gradient is exact.  The Gauss-Newton matrix
:math:`\mathbb E_v\, (\nabla \langle w, v\rangle)(\nabla \langle w, v\rangle)^\top` takes one
standard normal vector v per context, at the cost of a second gradient.

Deep transformers have huge losses on rare contexts: one context in a million with a loss of 1e12
would determine the mean.  So the loss f of a context enters as :math:`c \log(1 + f/c)` with
c = 5000 d, ten thousand times the loss of predicting zero.  This equals f to a percent up to
f = 100 d.  With c = 10 d, three layers at noise "uniform:5" were one or two per cent better on
most contexts, but so bad on a few of 400,000 that the mean was up to ten times as large.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.checks import check_arguments
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, Backend, Seed, get_backend, to_host
from iclimit.simulate.gdpp.contexts import ContextSummaries, check_versatile, context_blocks
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.models.linear_transformer import (
    LinearTransformer,
    build,
    free_parameters,
    to_backend,
)

# Contexts held at a time; on a CPU the matrices of a block stay in its cache.
BLOCK = {"numpy": 512, "cupy": 2**15}

# The constant c of the robust loss, over the dimension.
ROBUST_SCALE = 5000

# Damping of the first step.
_FIRST_DAMPING = 1e-2

# Least damping.
_LEAST_DAMPING = 1e-10

# A step that lowers the loss divides the damping by this number.
_EASE = 5.0

# A step that does not lower the loss multiplies the damping by this number and is tried again.
_TIGHTEN = 4.0

# Most tries of a step.
_TRIES = 14

# Least diagonal entry of the damping, relative: some parameters have no effect.
_FLOOR = 1e-12

# Stands for an infinite loss; such a context has no influence on a step, at any rate.
_OVERFLOWN = 1e300

# Largest diagonal entry below which damping underflows; 0 where no parameter has an effect.
_LEAST_CURVATURE = 1e-280

# Steps in a row that must gain little before a descent has converged.
_CALM = 3


class AdjustedLoss:
    """Mean robust adjusted loss over fixed contexts as a function of the free parameters.

    Parameters
    ----------
    summaries : ContextSummaries
        On the host.
    kind : str
        Kind of the transformer.
    backend : Backend
        Where to compute.
    generator : numpy.random.Generator
        Draws the directions of the Gauss-Newton matrix.
    run : callable
        Runs a function on the blocks of contexts, like `map`; that of a pool of threads shares
        them among cores, with the same result.
    """

    def __init__(
        self,
        summaries: ContextSummaries,
        kind: str,
        backend: Backend,
        generator: np.random.Generator,
        run: Callable[..., Iterable[tuple]] = map,
    ) -> None:
        self.kind = kind
        self.backend = backend
        self.run = run
        self.count, self.dim = summaries.oracle.shape
        self.scale = ROBUST_SCALE * self.dim
        probes = generator.standard_normal(summaries.oracle.shape)
        size = BLOCK[backend.name]
        self.blocks = [
            tuple(
                backend.asarray(array[start : start + size])
                for array in (summaries.gram, summaries.oracle, summaries.weights[:, None], probes)
            )
            for start in range(0, self.count, size)
        ]

    def loss(self, parameters: np.ndarray) -> float:
        """Mean robust loss, infinite where it overflows."""
        return self._mean(parameters, derivatives=False)[0]

    def expand(self, parameters: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Loss, gradient (n,) and Gauss-Newton matrix (n, n)."""
        return self._mean(parameters, derivatives=True)

    def _mean(self, parameters: np.ndarray, *, derivatives: bool) -> Any:
        moved = self.backend.asarray(parameters)
        parts = list(self.run(lambda block: self._sums(moved, block, derivatives), self.blocks))
        with np.errstate(over="ignore", invalid="ignore"):
            totals = [to_host(sum(part[k] for part in parts)) for k in range(len(parts[0]))]
        mean = float(totals[0]) / self.count
        if not math.isfinite(mean):
            mean = math.inf
        return (mean, *(total / self.count for total in totals[1:]))

    def _sums(self, parameters: Array, block: tuple[Array, ...], derivatives: bool) -> tuple:
        """Robust loss of a block and, if asked for, its gradient and Gauss-Newton matrix."""
        xp = self.backend.xp
        gram, oracle, weights, probes = block
        with np.errstate(over="ignore", invalid="ignore"):
            forward = GramPass(gram, build(self.kind, parameters, self.dim))
            residual = forward.weights - oracle
            excess = self._excess(residual)
            loss = self.scale * xp.sum(weights * xp.log1p(excess))
            if not derivatives:
                return (loss,)
            influence = xp.where(excess < _OVERFLOWN, weights / (1 + excess), 0.0)
            gradient = self._finite(forward.derivatives(influence * residual))
            jacobian = self._finite(forward.derivatives(xp.sqrt(influence) * probes))
            return loss, xp.sum(gradient, axis=0), jacobian.T @ jacobian

    def _excess(self, residual: Array) -> Array:
        """Losses over c, (n, 1); a finite number where they overflow, unless all do."""
        xp = self.backend.xp
        excess = xp.sum(residual**2, axis=1, keepdims=True) / (2 * self.scale)
        finite = xp.isfinite(excess)
        overflown = xp.where(xp.any(finite), xp.asarray(_OVERFLOWN), xp.asarray(math.inf))
        return xp.where(finite, excess, overflown)

    def _finite(self, derivatives: Array) -> Array:
        """Derivatives of contexts that do not overflow; the others have no influence."""
        xp = self.backend.xp
        finite = xp.all(xp.isfinite(derivatives), axis=1, keepdims=True)
        return xp.where(finite, derivatives, 0.0)


@dataclass
class Descent:
    """Where a Levenberg-Marquardt descent is.

    Attributes
    ----------
    parameters : ndarray
        Of the transformer, any shape.
    loss : float
        At these parameters; before the first step that on other contexts, infinite without any.
    damping : float
    steps, calm : int
        Steps taken, and the number of last steps in a row that gained little.
    stuck : bool
        Whether no damping made the loss fall.
    """

    parameters: np.ndarray
    loss: float = math.inf
    damping: float = _FIRST_DAMPING
    steps: int = 0
    calm: int = 0
    stuck: bool = False

    @property
    def converged(self) -> bool:
        """Whether the loss no longer falls."""
        return self.stuck or self.calm >= _CALM

    def advance(self, objective: AdjustedLoss, tolerance: float) -> None:
        """Take one step; a gain below the relative tolerance counts as little."""
        expansion = objective.expand(self.parameters)
        self.steps += 1
        if not all(np.all(np.isfinite(part)) for part in expansion):
            self.loss = math.inf
            self.stuck = True
            return
        loss, gradient, curvature = expansion
        self.loss = loss
        largest = np.diag(curvature).max()
        if largest < _LEAST_CURVATURE:
            self.stuck = True
            return
        diagonal = np.diag(np.diag(curvature) + _FLOOR * largest)
        for _ in range(_TRIES):
            with np.errstate(over="ignore", invalid="ignore"):
                step = np.linalg.solve(curvature + self.damping * diagonal, gradient)
                trial = self.parameters - step.reshape(self.parameters.shape)
            value = objective.loss(trial)
            if value < loss:
                self._accept(trial, value, tolerance)
                return
            self.damping *= _TIGHTEN
        self.stuck = True

    def _accept(self, parameters: np.ndarray, loss: float, tolerance: float) -> None:
        """Go to parameters with a smaller loss."""
        self.calm = self.calm + 1 if self.loss - loss < tolerance * self.loss else 0
        self.parameters = parameters
        self.loss = loss
        self.damping = max(self.damping / _EASE, _LEAST_DAMPING)


@dataclass(frozen=True, eq=False, repr=False)
class HeldOutLosses(Result):
    """Adjusted losses of a predictor on fresh contexts.

    Attributes
    ----------
    losses, levels : ndarray (n,)
        Adjusted loss of every context, averaged over query and task, and its noise level.
    weights : ndarray (n,)
        Importance weights of the contexts, of mean one: all are one unless rare contexts are
        drawn more often.
    """

    losses: np.ndarray
    levels: np.ndarray
    weights: np.ndarray

    @property
    def loss(self) -> Estimate:
        """Mean adjusted loss; infinite, with an infinite error, where one overflows."""
        with np.errstate(over="ignore"):
            return Estimate.of(self.weights * self.losses, keep=False)


def held_out_losses(
    model: LinearTransformer,
    problem: Problem,
    *,
    contexts: int = 100_000,
    rare: bool = False,
    rng: Seed,
    backend: str = "numpy",
) -> HeldOutLosses:
    """Adjusted losses of a linear transformer on fresh contexts.

    Parameters
    ----------
    model : LinearTransformer
        On the host.
    problem : Problem
        Law of the prompts, with standard normal inputs and tasks.
    contexts : int >= 1
        Number of contexts; only their losses, levels and weights are kept in memory.
    rare : bool
        Draw weighted contexts from a mixture with more rare ones, which shows the effect of one
        context in a million on the mean; see `iclimit.simulate.gdpp.contexts`.
    rng : int, SeedSequence or Generator
        Seed of the contexts.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    HeldOutLosses
        Infinite losses where the prediction overflows.

    Raises
    ------
    ValueError
        If an argument is outside its range, the dimensions differ, or the weights are not of the
        model's kind.
    TypeError
        If model or problem is of another kind.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.gdpp import gdpp_transformer, held_out_losses
    >>> problem = iclimit.Problem(dim=3, context=20, scale=1, noise_law="uniform:1")
    >>> model = gdpp_transformer([0.9], [], context=20, dim=3)
    >>> held_out_losses(model, problem, contexts=4000, rng=0).loss.mean > 0
    True
    """
    if not isinstance(model, LinearTransformer):
        raise TypeError(f"model must be a LinearTransformer, got {model!r}")
    check_versatile(problem)
    check_arguments(contexts=contexts)
    free_parameters(model, model.kind)  # refuses weights that a pass of this kind would ignore
    if model.dim != problem.dim:
        raise ValueError(f"model must be of dimension {problem.dim}, got {model.dim}")
    device = get_backend(backend)
    moved = to_backend(model, device)
    losses = []
    levels = []
    weights = []
    size = BLOCK[backend]
    for summaries in context_blocks(problem, device, contexts, rng, rare=rare):
        for start in range(0, summaries.oracle.shape[0], size):
            part = slice(start, start + size)
            with np.errstate(over="ignore", invalid="ignore"):
                weights_by_pass = GramPass(summaries.gram[part, :, :], moved).weights
                residual = weights_by_pass - summaries.oracle[part, :]
                error = device.xp.sum(residual**2, axis=1) / 2
            # Only overflow gives NaN, as inf - inf.
            losses.append(to_host(device.xp.where(device.xp.isnan(error), math.inf, error)))
        levels.append(to_host(summaries.levels))
        weights.append(to_host(summaries.weights))
    return HeldOutLosses(*(np.concatenate(parts) for parts in (losses, levels, weights)))
