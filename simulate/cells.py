"""One simulated cell: pretrain linear attention at given integers, test it, with error bars."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np

from iclimit.simulate import risk
from iclimit.simulate.arrays import Array, Backend, get_backend, seed_sequences
from iclimit.simulate.attention import context_summary
from iclimit.simulate.blocks import row_blocks
from iclimit.simulate.checks import (
    check_choice,
    check_integers,
    check_nonnegative,
    given_tasks,
    is_isotropic_gaussian,
)
from iclimit.simulate.prompts import (
    INPUT_LAWS,
    TASK_LAWS,
    sample_prompts,
    sample_tasks,
)
from iclimit.simulate.ridge import solve_ridge
from iclimit.simulate.summaries import (
    fresh_task_moments,
    sample_summaries,
    task_set_moments,
    tasks_of,
)

SAMPLERS = ("summaries", "tokens")
TOLERANCE = 1e-6
"""Relative residual of the linear solves.  At tau = 2, d = 80 it moves the errors by less than
1e-6 relative, far below any standard error, and takes three quarters of the time of 1e-8."""

TOKEN_BLOCK = 2**22
"""Most input numbers that token-level sampling holds at a time (32 MiB)."""


@dataclass(frozen=True)
class SimulatedErrors:
    """Errors of repeated finite-size runs at one set of integers.

    Attributes
    ----------
    icl, idg : ndarray (repeats,)
        Test error on fresh and on the pretraining tasks, one entry per repeat.
    parameters : dict
        The integers and numbers simulated, with tau, alpha and kappa as they come out.
    residuals : ndarray (repeats,)
        Relative residual of the linear solve of each repeat; empty where nothing is solved.
    iteration_counts : ndarray (repeats,)
        Iterations of each solve; empty where nothing is solved.
    """

    icl: np.ndarray
    idg: np.ndarray
    parameters: dict[str, Any] = field(repr=False)
    residuals: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    iteration_counts: np.ndarray = field(default_factory=lambda: np.empty(0, int), repr=False)

    @property
    def repeats(self) -> int:
        """Number of independent runs."""
        return len(self.icl)

    @property
    def residual(self) -> float:
        """Worst relative residual of the linear solves."""
        return float(np.max(self.residuals, initial=0.0))

    @property
    def iterations(self) -> int:
        """Most iterations of a solve."""
        return int(np.max(self.iteration_counts, initial=0))

    @property
    def icl_mean(self) -> float:
        """Mean ICL error over the repeats."""
        return float(np.mean(self.icl))

    @property
    def idg_mean(self) -> float:
        """Mean IDG error over the repeats."""
        return float(np.mean(self.idg))

    @property
    def icl_se(self) -> float:
        """Standard error of the mean ICL error; ``inf`` for a single repeat."""
        return _standard_error(self.icl)

    @property
    def idg_se(self) -> float:
        """Standard error of the mean IDG error; ``inf`` for a single repeat."""
        return _standard_error(self.idg)

    @property
    def correlation(self) -> float:
        """Correlation of the two errors over repeats (they share Gamma); 0 if undefined."""
        if self.repeats < 2 or np.std(self.icl) == 0 or np.std(self.idg) == 0:
            return 0.0
        return float(np.corrcoef(self.icl, self.idg)[0, 1])

    def joined(self, other: SimulatedErrors) -> SimulatedErrors:
        """Append the repeats of another run with the same parameters.

        Raises
        ------
        ValueError
            If its parameters differ.
        """
        if other.parameters != self.parameters:
            raise ValueError(
                f"other must have the parameters {self.parameters}, got {other.parameters}"
            )
        pairs = zip(self._columns(), other._columns(), strict=True)
        icl, idg, residuals, counts = (np.concatenate(pair) for pair in pairs)
        return SimulatedErrors(icl, idg, self.parameters, residuals, counts)

    def leading(self, count: int) -> SimulatedErrors:
        """Keep the first repeats, so many.

        Raises
        ------
        ValueError
            If there are fewer.
        """
        check_integers(count=count)
        if count > self.repeats:
            raise ValueError(f"count must be at most the {self.repeats} repeats, got {count}")
        icl, idg, residuals, counts = (column[:count] for column in self._columns())
        return SimulatedErrors(icl, idg, self.parameters, residuals, counts)

    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.icl, self.idg, self.residuals, self.iteration_counts


def _standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf


def simulate_errors(
    *,
    d: int,
    context: int,
    tasks: Any,
    prompts: int,
    rho: float,
    ridge: float = 0.0,
    rng: Any,
    repeats: int = 1,
    first_repeat: int = 0,
    backend: str = "numpy",
    task_law: str = "sphere",
    inputs: Any = "gaussian",
    sampler: str = "auto",
    test_prompts: int = 10_000,
) -> SimulatedErrors:
    r"""Pretrain reduced linear attention on random prompts and measure its test errors.

    Every repeat draws its own task set and prompts, solves the ridge regression for
    :math:`\Gamma` and evaluates it on fresh and on its pretraining tasks.

    Parameters
    ----------
    d : int >= 1
        Dimension of the inputs.
    context : int >= 1
        Context length, :math:`\ell`.
    tasks : int >= 1, inf, or array of shape (k, d)
        Number of training tasks; ``inf`` for a fresh task in every prompt; or the task vectors.
    prompts : int >= 1
        Number of training prompts, n.
    rho : float >= 0
        Variance of the label noise.
    ridge : float >= 0
        Ridge :math:`\lambda` of the penalty :math:`\frac nd \lambda \lVert\Gamma\rVert_F^2`; 0 is
        the least-norm solution.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent runs.
    first_repeat : int >= 0
        Number of the first of them: ``first_repeat=8, repeats=4`` continues a run of 8 repeats
        with the same int or SeedSequence as root.
    backend : {"numpy", "cupy"}
        Where to compute.
    task_law : {"sphere", "gaussian"}
        Law of training and fresh tasks.
    inputs : {"gaussian", "uniform", "rademacher", "laplace"} or array (d, d)
        Law of the input coordinates, or covariance of Gaussian inputs times d.
    sampler : {"auto", "summaries", "tokens"}
        Draw context summaries from their exact law in O(d), or token by token.  "auto" takes the
        former for "gaussian" inputs, the only ones it can do.
    test_prompts : int >= 1
        Test prompts per error for inputs other than "gaussian", whose error is found by
        Monte Carlo; for "gaussian" it is exact.

    Returns
    -------
    SimulatedErrors
        Errors per repeat with means, standard errors and correlation.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If a solve did not converge (ridgeless, very near n = d (d + 1)).

    Examples
    --------
    >>> from iclimit.simulate import simulate_errors
    >>> run = simulate_errors(
    ...     d=20, context=20, tasks=10, prompts=800, rho=0.1, ridge=0.1, rng=0, repeats=8
    ... )
    >>> run.repeats, run.parameters["tau"], run.parameters["alpha"]
    (8, 2.0, 1.0)
    >>> 1.0 < run.icl_mean < 1.4
    True
    """
    check_integers(
        d=d, context=context, prompts=prompts, repeats=repeats, test_prompts=test_prompts
    )
    check_nonnegative(rho=rho, ridge=ridge)
    if not isinstance(first_repeat, Integral) or first_repeat < 0:
        raise ValueError(f"first_repeat must be an integer >= 0, got {first_repeat!r}")
    check_choice("task_law", task_law, TASK_LAWS)
    check_choice("sampler", sampler, ("auto", *SAMPLERS))
    fixed = given_tasks(tasks, d)
    gaussian = is_isotropic_gaussian(inputs, d, INPUT_LAWS)
    if sampler == "auto":
        sampler = "summaries" if gaussian else "tokens"
    if sampler == "summaries" and not gaussian:
        raise ValueError(f"sampler must be 'tokens' for such inputs, got {sampler!r}")
    place = get_backend(backend)
    runs = []
    for seed in seed_sequences(rng, first_repeat + repeats)[first_repeat:]:
        generator = place.generator(seed)
        if fixed is not None:
            task_set = place.asarray(fixed)
        elif tasks == math.inf:
            task_set = None
        else:
            task_set = sample_tasks(place, generator, int(tasks), d, task_law)
        draw = _Sampler(place, generator, task_set, d, context, rho, task_law, inputs, sampler)
        solution = solve_ridge(*draw(prompts, fresh=False), ridge, tolerance=TOLERANCE)
        if gaussian:
            fresh = fresh_task_moments(place, d, context, rho, task_law)
            train = fresh if task_set is None else task_set_moments(place, task_set, context, rho)
            errors = [float(risk.exact_error(solution.gamma, m)) for m in (fresh, train)]
        else:
            xp = place.xp
            errors = [
                float(xp.mean(risk.squared_errors(solution.gamma, *draw(test_prompts, fresh=f))))
                for f in (True, False)
            ]
        runs.append((*errors, solution.residual, solution.iterations))
    icl, idg, residuals, counts = (np.array(column) for column in zip(*runs, strict=True))
    count = tasks if fixed is None else len(fixed)
    parameters = {
        "d": d, "context": context, "tasks": count, "prompts": prompts,
        "tau": prompts / d**2, "alpha": context / d, "kappa": count / d,
        "rho": rho, "ridge": ridge, "task_law": task_law, "sampler": sampler, "backend": backend,
    }  # fmt: skip
    return SimulatedErrors(icl, idg, parameters, residuals, counts)


@dataclass(frozen=True)
class _Sampler:
    """Draws (x_query, summary, y_query) of many prompts, token by token or from the exact law."""

    backend: Backend
    generator: Any
    task_set: Array | None
    d: int
    context: int
    rho: float
    task_law: str
    inputs: Any
    sampler: str

    def __call__(self, count: int, *, fresh: bool) -> tuple[Array, Array, Array]:
        if self.sampler == "summaries":
            return self._from_law(*self._tasks(count, fresh))
        block = max(1, TOKEN_BLOCK // (self.d * (self.context + 1)))
        parts = [
            self._from_tokens(*self._tasks(min(block, count - start), fresh))
            for start in range(0, count, block)
        ]
        x, h, y = (self.backend.xp.concat(column) for column in zip(*parts, strict=True))
        return x, h, y

    def _tasks(self, count: int, fresh: bool) -> tuple[Array, Array | None]:
        """Tasks, and which of them each prompt has; None if prompt i has task i."""
        if fresh or self.task_set is None:
            drawn = sample_tasks(self.backend, self.generator, count, self.d, self.task_law)
            return drawn, None
        return self.task_set, self.generator.integers(0, self.task_set.shape[0], size=count)

    def _from_law(self, tasks: Array, chosen: Array | None) -> tuple[Array, Array, Array]:
        xp, d = self.backend.xp, self.d
        summary = sample_summaries(
            self.backend, self.generator, tasks, self.context, self.rho, chosen=chosen
        )
        n = summary.shape[0]
        x, y = self.generator.standard_normal((n, d)), xp.empty(n)
        for rows in row_blocks(xp, n, 8 * d):
            x[rows, :] /= math.sqrt(d)
            y[rows] = xp.vecdot(x[rows, :], tasks_of(tasks, chosen, rows))
        y += math.sqrt(self.rho) * self.generator.standard_normal(n)
        return x, summary, y

    def _from_tokens(self, tasks: Array, chosen: Array | None) -> tuple[Array, Array, Array]:
        prompts = sample_prompts(
            self.backend,
            self.generator,
            tasks_of(tasks, chosen, slice(None)),
            self.context,
            self.rho,
            self.inputs,
        )
        return prompts.x_query, context_summary(prompts), prompts.y_query
