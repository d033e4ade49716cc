r"""Errors of a run of finite size that is trained on every position of its sequences.

The equations are those of `iclimit.asymptotics.pretraining.all_positions`, at the integers of the
run instead of on a grid.  Three things are of a finite size:

* the noise of a summary has the kernel :math:`p p' (v + 1/d)/\max(a, b)`, as tasks have norm
  :math:`\sqrt d` and a context holds :math:`\ell` inputs;
* the last entry of a summary is the mean of squared labels.  It adds
  :math:`\gamma v^2/d\; p p^\top` to the kernel of the response, and one column to the parameters:

  .. math:: \gamma = \frac{g_t}g, \qquad \frac1{g_t} = \lambda + \frac{v^2}\nu \kappa E \sum p^2 r,
     \qquad (1 - \lambda g) + \frac{1 - \lambda g_t}d = \kappa\, E \operatorname{tr}(1 - T/r);

* in a new sequence of a pretraining task the noise of the summary meets what its sequences have
  learned from theirs, which adds

  .. math:: \frac{p^2 q}{\kappa d} \bigl[2 c\phi (F_{fy} - c F_{ff}) + z - 2\phi z F_K\bigr]

  to the error.

Other terms of order 1/d are left out: leverages that fluctuate with the labels, and the variance
of the last column of :math:`\Gamma`.  They are of both signs, and `LOSS` bounds what they do.

.. page: pretraining/all-positions: Training on every position of a sequence
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh_tridiagonal

from iclimit.asymptotics.checks import check_integers, real_number
from iclimit.asymptotics.pretraining.all_positions import (
    Solution,
    SolvedPoint,
    System,
    balanced_counts,
)
from iclimit.asymptotics.pretraining.finite_random_lengths import length_factors
from iclimit.asymptotics.pretraining.finite_size import APPROACHES
from iclimit.asymptotics.pretraining.sampled_sequences import (
    DrawnSequences,
    draw_blocks,
    drawn_task_count,
)
from iclimit.asymptotics.pretraining.sequence_response import Positions
from iclimit.checks import Seed, check_choice, check_flag
from iclimit.experiment import NORMALIZATIONS, Experiment, Ridge, check_loss, check_training
from iclimit.losses import AllPositions
from iclimit.prediction import Prediction
from iclimit.problem import check_problem
from iclimit.results import Result

# Names of the predicted errors.
NAMES = ("icl", "idg")

# Bound on the relative error of the theory times d, for the ICL and the IDG error: from a ridge of
# .1 on, and below.
LOSS = ((1.0, 1.3), (1.3, 1.6))

# Ridge that separates them.
_SMALL_RIDGE = 0.1

# Repetitions in which gamma settles; each gains a factor of about d.
_MOST_REPEATS = 60

# Relative change of gamma that ends them.
_SETTLED = 1e-10

# Nodes of the Gauss rule for the sequences that share a task.
_NODES = 7


@dataclass(frozen=True, repr=False)
class PositionErrors(Result):
    r"""Predicted mean errors of a run at each of its positions.

    Attributes
    ----------
    position : ndarray (L,)
        Examples seen.
    icl, idg : ndarray (L,)
        Mean squared errors on a noisy query label, for fresh tasks and for new sequences of the
        pretraining tasks.
    training : float
        Mean squared error on the training sequences, without the penalty.
    rate, variance, response, last_response : float
        c, z, g and gamma of the module.
    uncertainty : tuple of float
        Relative error of the theory for the ICL and the IDG error: nearly all tested runs are
        within it.
    """

    dims: ClassVar[tuple[str, ...]] = ("position",)

    position: np.ndarray
    icl: np.ndarray
    idg: np.ndarray
    training: float
    rate: float
    variance: float
    response: float
    last_response: float
    uncertainty: tuple[float, float]


def position_errors_at_size(
    *,
    dim: int,
    positions: Sequence[int],
    prompts: int,
    tasks: int | float,
    rho: float,
    ridge: float,
    normalization: str = "mean",
    balanced: bool = False,
) -> PositionErrors:
    r"""Mean errors at every position of a run that is trained on all of them.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs, d.
    positions : sequence of int >= 1
        Examples seen at the positions of the loss, ascending, with equal weights.  The last one
        is the length of a sequence.
    prompts : int >= 1
        Pretraining sequences, n.
    tasks : int >= 1 or inf
        Pretraining tasks, of which each sequence draws one; ``inf``: a fresh task in each.
    rho : float >= 0
        Variance of the label noise.
    ridge : float > 0
        Ridge in the units of `icl_error`, for a loss that is the mean over sequences and
        positions: the penalty of a sum over positions is larger by their number.
    normalization : {"mean", "length"}
        Divisor of the context summaries: the examples seen so far, or the length of a sequence.
    balanced : bool
        Whether all tasks have the same number of sequences, up to one.

    Returns
    -------
    PositionErrors
        With fields ``position``, ``icl``, ``idg``, ``training``, ``rate``, ``variance``,
        ``response``, ``last_response`` and ``uncertainty``.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument has the wrong type.
    ArithmeticError
        If responses are not found.

    Notes
    -----
    For isotropic inputs and tasks on the sphere of squared norm d.  The uncertainty is 1/d (ICL)
    and 1.3/d (IDG) from a ridge of .1 on, and 1.3/d and 1.6/d below.  With the normalization
    "mean", contexts of a few examples have heavy tails: IDG errors at them are up to 3/d too low.
    The training error is a third too low where there are fewer queries than parameters.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.finite_all_positions`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import position_errors_at_size
    >>> run = position_errors_at_size(
    ...     dim=16, positions=range(8, 33), prompts=64, tasks=8, rho=0.1, ridge=0.1, balanced=True
    ... )
    >>> run.icl[[0, -1]].round(4), run.idg[[0, -1]].round(4)
    (array([1.4401, 1.0018]), array([0.805 , 0.4012]))
    """
    check_integers(dim=dim, prompts=prompts)
    seen = _checked_positions(positions)
    if tasks != math.inf:
        check_integers(tasks=tasks)
    check_choice("normalization", normalization, NORMALIZATIONS)
    check_flag("balanced", balanced)
    noise = real_number("rho", rho)
    penalty = real_number("ridge", ridge, "(0, inf)")
    places = _positions(seen, dim, noise, normalization)
    blocks = _counts(prompts, tasks, dim, balanced=balanced)
    system = System(places, noise, penalty, prompts / dim, blocks)
    trained = _Trained.of(system, dim, tasks / dim)
    icl, idg = trained.errors(places.factor, seen)
    solution = trained.solution
    return PositionErrors(
        position=seen,
        icl=icl,
        idg=idg,
        training=solution.training,
        rate=solution.rate,
        variance=solution.variance,
        response=solution.response,
        last_response=trained.last_response,
        uncertainty=trained.uncertainty,
    )


def predicted_position_errors(
    run: Experiment, *, rng: Seed | None = None, approach: str = "tasks"
) -> Prediction:
    """Mean errors of a run that is trained on all positions; arguments as of `predict`.

    With the approach "tasks" they are those of `iclimit.asymptotics.pretraining.sampled_sequences`
    where that is quick.

    Raises
    ------
    ValueError
        If it has parts that are not known here: gates, structured inputs, Gaussian or given tasks,
        tests with other noise, no ridge, or another training.
    """
    trained = _solved(run, rng, approach)
    # Contexts of the tests, and those of training, which the IDG error keeps.
    tested = np.array([run.tests.problem.context, run.problem.context])
    icl, idg = trained.errors(length_factors(run, tested), tested)
    return Prediction(NAMES, np.array([[icl[0], idg[1]]]), np.array([trained.uncertainty]))


def trained_position_errors(
    run: Experiment, positions: Sequence[int], *, rng: Seed | None = None, approach: str = "tasks"
) -> tuple[np.ndarray, np.ndarray]:
    """Errors (2, positions) of a run after any numbers of examples, and their uncertainty (2,).

    Both errors are at these positions.  Errors and other arguments are those of
    `predicted_position_errors`.
    """
    trained = _solved(run, rng, approach)
    seen = np.asarray(positions)
    errors = trained.errors(length_factors(run, seen), seen)
    return np.array(errors), np.array(trained.uncertainty)


def independent_context_error(run: Experiment) -> float:
    """ICL error of a run by equations in which no query joins the contexts after it.

    A sequence would then be as many queries with contexts of their own, which share a task and
    their summaries.  Claim ``nesting`` rejects it.
    """
    trained = _trained(run, nested=False)
    tested = np.array([run.tests.problem.context])
    icl, _ = trained.errors(length_factors(run, tested), tested)
    return float(icl[0])


def _solved(run: Experiment, rng: Seed | None, approach: str) -> _Trained | DrawnSequences:
    """Solved equations of drawn tasks where that is quick, otherwise those of mean kernels."""
    check_choice("approach", approach, APPROACHES)
    trained = _trained(run)
    drawn = drawn_task_count(run) if approach == "tasks" else 0
    if not drawn:
        return trained
    blocks = draw_blocks(run, np.random.default_rng(rng), drawn)
    try:
        solved = DrawnSequences.of(run, blocks, trained.point.phi * run.dim, trained.last_response)
    except ArithmeticError:
        return trained
    return solved if math.isfinite(solved.variances[0]) else trained


def _trained(run: Experiment, *, nested: bool = True) -> _Trained:
    """Solved equations of a run, if all its parts are known here."""
    check_training(run, Ridge)
    check_loss(run, AllPositions)
    _check_predicted(run)
    training = run.training
    if not isinstance(training, Ridge) or training.ridge == 0:
        raise ValueError("ridge must be > 0 for AllPositions, got 0")
    seen = run.loss.positions(run.problem.context)
    shares = run.loss.shares(run.problem.context)
    dim = run.dim
    rho = float(run.problem.noise_variance)
    places = _positions(seen[shares > 0], dim, rho, run.model.normalization, seen[-1])
    places = replace(places, weight=shares[shares > 0])
    if not nested:
        places = replace(places, nesting=np.zeros_like(places.nesting))
    tasks = run.problem.task_count
    blocks = _counts(run.prompts, tasks, dim, balanced=run.balanced)
    system = System(places, rho, float(training.ridge), run.prompts / dim, blocks)
    return _Trained.of(system, dim, tasks / dim)


def _check_predicted(run: Experiment) -> None:
    """Raise a ValueError for a problem, tests or gates that are not known here."""
    for problem in (run.problem, run.tests.problem):
        check_problem(problem, "tasks", "noise_variance", "task_law")
        if problem.task_law != "sphere":
            raise ValueError(
                f"task_law must be 'sphere' for AllPositions, got {problem.task_law!r}"
            )
    if np.ndim(run.problem.tasks):
        raise ValueError("tasks must be a number for AllPositions: errors are means over sets")
    if run.model.gates is not None or run.tests.gates is not None:
        raise ValueError("gates must be None for AllPositions: errors with gates are not known")
    if run.tests.problem.noise_variance != run.problem.noise_variance:
        raise ValueError("tests must have the noise_variance of training for AllPositions")


def _checked_positions(positions: Sequence[int]) -> np.ndarray:
    """Positions as an array; a ValueError unless they are ascending integers >= 1."""
    places = np.asarray(positions)
    if places.ndim != 1 or not places.size or places.dtype.kind not in "iu":
        raise ValueError(f"positions must be a sequence of integers, got {positions!r}")
    if places[0] < 1 or np.any(np.diff(places) < 1):
        raise ValueError(f"positions must be >= 1 and ascending, got {positions!r}")
    return places


def _positions(
    seen: np.ndarray, dim: int, rho: float, normalization: str, length: int | None = None
) -> Positions:
    """Positions at the integers of a run, of which the last one is the length by default."""
    size = seen.size
    if normalization == "mean":
        factors = np.ones(size)
        shares = dim / seen
    else:
        whole = seen[-1] if length is None else length
        factors = seen / whole
        shares = np.full(size, dim / whole)
    nesting = np.tril(np.repeat(shares[:, None], size, axis=1), -1)
    noise = ((1 + rho) * dim + 1) / seen
    widths = np.full(size, 1 / dim)
    return Positions(seen / dim, widths, np.full(size, 1 / size), factors, noise, nesting)


def _counts(prompts: int, tasks: float, dim: int, *, balanced: bool) -> list[tuple[float, float]]:
    """Numbers of sequences of a task, each with the density of these tasks over d."""
    if balanced or math.isinf(tasks):
        return balanced_counts(prompts / dim, tasks / dim)
    return binomial_counts(prompts, int(tasks), prompts / dim)


def binomial_counts(prompts: int, tasks: int, nu: float) -> list[tuple[float, float]]:
    """Gauss rule for the sequences of a task, seen from one of them."""
    share = 1 / tasks
    others = prompts - 1
    orders = np.arange(min(_NODES, others + 1))
    # Recurrence of the Krawtchouk polynomials.
    means = share * (others - orders) + orders * (1 - share)
    squares = orders * share * (1 - share) * (others - orders + 1)
    numbers, vectors = eigh_tridiagonal(means, np.sqrt(squares[1:]))
    counts = 1 + numbers
    densities = nu * vectors[0] ** 2 / counts
    return list(zip(counts.tolist(), densities.tolist(), strict=True))


@dataclass(frozen=True)
class _Trained:
    """Solved equations of a run."""

    system: System
    point: SolvedPoint
    solution: Solution
    dim: int
    kappa: float
    last_response: float

    @classmethod
    def of(cls, system: System, dim: int, kappa: float) -> _Trained:
        """Solve together with the response of the last column, over that of the others."""
        v = 1 + system.rho
        gamma = 1.0
        extra = 0.0
        point = None
        for _ in range(_MOST_REPEATS):
            positions = replace(system.positions, tail=gamma * v**2 / dim)
            system = replace(system, positions=positions, extra=extra)
            point = system.solve(point)
            responses = 0.0
            for (count, density), response in zip(system.blocks, point.responses, strict=True):
                squares = positions.factor**2 / response.reciprocals
                responses += density * count * float(np.sum(squares))
            last = 1 / (system.ridge + v**2 / system.sequence_ratio * responses)
            change = last / (system.sequence_ratio * point.phi) / gamma
            gamma *= change
            extra = (1 - system.ridge * last) / dim
            if abs(change - 1) < _SETTLED:
                rate, variance, phi, *others = system.numbers(point, kappa).tolist()
                response = system.sequence_ratio * phi
                solution = Solution(rate, variance, response, *others)
                return cls(system, point, solution, dim, kappa, gamma)
        raise ArithmeticError(
            f"the response of the last column was not found in {_MOST_REPEATS} repeats"
        )

    @property
    def uncertainty(self) -> tuple[float, float]:
        """Bounds on the relative errors of the theory."""
        loss = LOSS[0 if self.system.ridge >= _SMALL_RIDGE else 1]
        return loss[0] / self.dim, loss[1] / self.dim

    def errors(self, factor: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ICL and IDG error after numbers of examples, whose summaries have a factor."""
        v = 1 + self.system.rho
        square = factor**2
        noise = square * (v * self.dim + 1) / seen
        icl, idg = self.solution.errors(self.system.rho, factor, square, noise)
        # The mean of squared labels fluctuates, by 2 v^2 over the examples.
        c = self.solution.rate
        z = self.solution.variance
        fluctuation = z * 2 * v**2 * square / (self.dim * seen)
        forms = self.system.sum([response.forms() for response in self.point.responses])
        phi = self.point.phi
        met = 2 * c * phi * (forms.mixed - c * forms.features) + z - 2 * phi * z * forms.trace
        met /= self.kappa * self.dim
        return icl + fluctuation, idg + fluctuation + noise * met
