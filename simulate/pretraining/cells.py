"""One simulated cell: pretrain linear attention at given integers, test it, with error bars."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.simulate.arrays import Array, Backend, get_backend, seed_sequences
from iclimit.simulate.blocks import row_blocks
from iclimit.simulate.checks import (
    check_choice,
    check_first_repeat,
    check_integers,
    check_nonnegative,
    parse_tasks,
)
from iclimit.simulate.pretraining import risk
from iclimit.simulate.pretraining.attention import context_summary
from iclimit.simulate.pretraining.covariances import (
    covariance_rank,
    covariance_root,
    fingerprint,
    given_covariance,
    times_root,
)
from iclimit.simulate.pretraining.prompts import (
    INPUT_LAWS,
    TASK_LAWS,
    sample_prompts,
    sample_tasks,
)
from iclimit.simulate.pretraining.ridge import choose_method, solve_ridge
from iclimit.simulate.pretraining.summaries import (
    SummaryMoments,
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
    icl, idg : Estimate
        Test error on fresh and on the pretraining tasks; one sample per repeat.
    parameters : dict
        The integers and numbers simulated, with tau, alpha and kappa as they come out.
    residuals : ndarray (repeats,)
        Relative residual of the linear solve of each repeat; empty where nothing is solved.
    iteration_counts : ndarray (repeats,)
        Iterations of each solve; empty where nothing is solved.
    """

    icl: Estimate
    idg: Estimate
    parameters: dict[str, Any] = field(repr=False)
    residuals: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    iteration_counts: np.ndarray = field(default_factory=lambda: np.empty(0, int), repr=False)

    @property
    def repeats(self) -> int:
        """Number of independent runs."""
        return self.icl.repeats

    @property
    def residual(self) -> float:
        """Worst relative residual of the linear solves."""
        return float(np.max(self.residuals, initial=0.0))

    @property
    def iterations(self) -> int:
        """Most iterations of a solve."""
        return int(np.max(self.iteration_counts, initial=0))

    @property
    def gap(self) -> Estimate:
        """ICL minus IDG error, paired within each repeat."""
        return Estimate.of(self.icl.samples - self.idg.samples)

    @property
    def correlation(self) -> float:
        """Correlation of the two errors over repeats (they share Gamma); 0 if undefined."""
        if self.repeats < 2 or 0 in (self.icl.standard_error, self.idg.standard_error):
            return 0.0
        return float(np.corrcoef(self.icl.samples, self.idg.samples)[0, 1])

    def concatenate(self, other: SimulatedErrors) -> SimulatedErrors:
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
        return SimulatedErrors._of(self.parameters, *map(np.concatenate, pairs))

    def head(self, count: int) -> SimulatedErrors:
        """Keep the first ``count`` repeats.

        Raises
        ------
        ValueError
            If there are fewer.
        """
        check_integers(count=count)
        if count > self.repeats:
            raise ValueError(f"count must be at most the {self.repeats} repeats, got {count}")
        columns = (column[:count] for column in self._columns())
        return SimulatedErrors._of(self.parameters, *columns)

    def _columns(self) -> tuple[Any, ...]:
        return self.icl.samples, self.idg.samples, self.residuals, self.iteration_counts

    @classmethod
    def _of(
        cls, parameters: dict[str, Any], icl: Any, idg: Any, residuals: Any, counts: Any
    ) -> SimulatedErrors:
        return cls(Estimate.of(icl), Estimate.of(idg), parameters, residuals, counts)


def simulate_errors(
    *,
    dim: int,
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
    input_law: str = "gaussian",
    input_covariance: Any = None,
    sampler: str = "auto",
    test_prompts: int = 10_000,
    task_covariance: Any = None,
    test_covariance: Any = None,
    test_context: int | None = None,
    test_rho: float | None = None,
) -> SimulatedErrors:
    r"""Pretrain reduced linear attention on random prompts and measure its test errors.

    Every repeat draws its own task set and prompts, solves the ridge regression for
    :math:`\Gamma` and evaluates it on fresh and on its pretraining tasks.  Fresh tasks, with their
    context length and label noise, may be of another distribution than in training; pretraining
    tasks are tested as they were trained on.

    Parameters
    ----------
    dim : int >= 1
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
        Law of tasks without a given covariance: uniform on the sphere of squared norm d, or
        N(0, I).
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}
        Law of the input coordinates, which have mean 0 and variance 1/d.
    input_covariance : array (d,) or (d, d), optional
        Covariance of Gaussian inputs times d: a positive semidefinite matrix, or the eigenvalues
        of a diagonal one.
    sampler : {"auto", "summaries", "tokens"}
        Draw context summaries from their exact law in O(d), or token by token.  "auto" takes the
        former for Gaussian inputs, the only ones it can do.
    test_prompts : int >= 1
        Test prompts per error for inputs that are not Gaussian, whose error is found by
        Monte Carlo; for Gaussian inputs it is exact.
    task_covariance : array (d,) or (d, d), optional
        Covariance C of training tasks from N(0, C), positive semidefinite, or the eigenvalues of
        a diagonal one.  Without it they follow ``task_law``.
    test_covariance : array (d,) or (d, d), optional
        The same for fresh tasks.  Without it they are as in training; where the task vectors are
        given, as ``task_law`` says.
    test_context : int >= 1, optional
        Context length of prompts with fresh tasks; ``context`` by default.
    test_rho : float >= 0, optional
        Variance of the label noise in prompts with fresh tasks; ``rho`` by default.

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
    >>> from iclimit.simulate.pretraining import simulate_errors
    >>> run = simulate_errors(
    ...     dim=20, context=20, tasks=10, prompts=800, rho=0.1, ridge=0.1, rng=0, repeats=8
    ... )
    >>> run.repeats, run.parameters["tau"], run.parameters["alpha"]
    (8, 2.0, 1.0)
    >>> 1.0 < run.icl.mean < 1.4
    True
    """
    check_integers(
        dim=dim, context=context, prompts=prompts, repeats=repeats, test_prompts=test_prompts
    )
    check_nonnegative(rho=rho, ridge=ridge)
    check_first_repeat(first_repeat)
    check_choice("task_law", task_law, TASK_LAWS)
    check_choice("sampler", sampler, ("auto", *SAMPLERS))
    fixed = parse_tasks(tasks, dim)
    if fixed is not None and task_covariance is not None:
        raise ValueError("task_covariance must be None where the task vectors are given")
    check_integers(**_given(test_context=test_context))
    check_nonnegative(**_given(test_rho=test_rho))
    check_choice("input_law", input_law, INPUT_LAWS)
    gaussian = input_law == "gaussian"
    if input_covariance is not None and not gaussian:
        raise ValueError(
            f"input_law must be gaussian where input_covariance is given, got {input_law!r}"
        )
    covariances = {
        name: given_covariance(name, value, dim)
        for name, value in _given(
            task_covariance=task_covariance,
            test_covariance=test_covariance,
            input_covariance=input_covariance,
        ).items()
    }
    if sampler == "auto":
        sampler = "summaries" if gaussian else "tokens"
    if sampler == "summaries" and not gaussian:
        raise ValueError(f"sampler must be 'tokens' for such inputs, got {sampler!r}")
    place = get_backend(backend)
    roots = {name: place.asarray(covariance_root(each)) for name, each in covariances.items()}
    train = _PromptLaw(
        place,
        dim,
        context,
        rho,
        "gaussian" if "task_covariance" in roots else task_law,
        roots.get("task_covariance"),
        input_law,
        roots.get("input_covariance"),
        sampler,
    )
    test = replace(train, **_given(context=test_context, rho=test_rho))
    if "test_covariance" in roots:
        test = replace(test, task_law="gaussian", task_root=roots["test_covariance"])
    # Features that differ, r (r + 1) of them, decide whether prompts can be interpolated.
    rank = dim
    if "input_covariance" in covariances:
        rank = covariance_rank(covariances["input_covariance"])
    method = choose_method(prompts, rank)
    runs = []
    for seed in seed_sequences(rng, first_repeat + repeats)[first_repeat:]:
        generator = place.generator(seed)
        if fixed is not None:
            task_set = place.asarray(fixed)
        elif tasks == math.inf:
            task_set = None
        else:
            task_set = train.fresh_tasks(generator, int(tasks))
        solution = solve_ridge(
            *train.draw(generator, prompts, task_set), ridge, method=method, tolerance=TOLERANCE
        )
        tested = ((test, None), (train, task_set))
        if gaussian:
            gamma = risk.whitened_gamma(solution.gamma, roots.get("input_covariance"))
            errors = [float(risk.exact_error(gamma, law.moments(given))) for law, given in tested]
        else:
            errors = [
                float(
                    place.xp.mean(
                        risk.squared_errors(
                            solution.gamma, *law.draw(generator, test_prompts, given)
                        )
                    )
                )
                for law, given in tested
            ]
        runs.append((*errors, solution.residual, solution.iterations))
    icl, idg, residuals, counts = (np.array(column) for column in zip(*runs, strict=True))
    count = tasks if fixed is None else len(fixed)
    parameters = {
        "dim": dim,
        "context": context,
        "tasks": count,
        "prompts": prompts,
        "tau": prompts / dim**2,
        "alpha": context / dim,
        "kappa": count / dim,
        "rho": rho,
        "ridge": ridge,
        "task_law": train.task_law,
        "sampler": sampler,
        "backend": backend,
        **_given(test_context=test_context, test_rho=test_rho),
        **({} if gaussian else {"input_law": input_law}),
        **{name: fingerprint(covariance) for name, covariance in covariances.items()},
    }
    return SimulatedErrors._of(parameters, icl, idg, residuals, counts)


def _given(**values: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class _PromptLaw:
    """Law of tasks and of their prompts, drawn token by token or from the exact law."""

    backend: Backend
    dim: int
    context: int
    rho: float
    task_law: str
    task_root: Array | None
    input_law: str
    input_root: Array | None
    sampler: str

    def fresh_tasks(self, generator: Any, count: int) -> Array:
        """Draw task vectors, shape (count, d)."""
        return sample_tasks(
            self.backend, generator, count, self.dim, self.task_law, root=self.task_root
        )

    def draw(
        self, generator: Any, count: int, task_set: Array | None
    ) -> tuple[Array, Array, Array]:
        """Draw (x_query, summary, y_query) of prompts with fresh tasks, or tasks of a set."""
        if self.sampler == "summaries":
            return self._from_law(generator, *self._tasks(generator, count, task_set))
        block = max(1, TOKEN_BLOCK // (self.dim * (self.context + 1)))
        parts = [
            self._from_tokens(
                generator, *self._tasks(generator, min(block, count - start), task_set)
            )
            for start in range(0, count, block)
        ]
        x, h, y = (self.backend.xp.concat(column) for column in zip(*parts, strict=True))
        return x, h, y

    def moments(self, task_set: Array | None) -> SummaryMoments:
        """Moments of fresh tasks, or tasks of a set, as inputs of covariance I/d see them."""
        place, sizes = self.backend, (self.context, self.rho)
        if task_set is not None:
            return task_set_moments(place, times_root(task_set, self.input_root), *sizes)
        factor = times_root(times_root(place.xp.eye(self.dim), self.task_root), self.input_root)
        return fresh_task_moments(
            place, self.dim, *sizes, self.task_law, covariance=factor.T @ factor
        )

    def _tasks(
        self, generator: Any, count: int, task_set: Array | None
    ) -> tuple[Array, Array | None]:
        """Tasks, and which of them each prompt has; None if prompt i has task i."""
        if task_set is None:
            return self.fresh_tasks(generator, count), None
        return task_set, generator.integers(0, task_set.shape[0], size=count)

    def _from_law(
        self, generator: Any, tasks: Array, chosen: Array | None
    ) -> tuple[Array, Array, Array]:
        xp, dim, root = self.backend.xp, self.dim, self.input_root
        seen = times_root(tasks, root)
        summary = sample_summaries(
            self.backend, generator, seen, self.context, self.rho, chosen=chosen
        )
        n = summary.shape[0]
        x, y = generator.standard_normal((n, dim)), xp.empty(n)
        for rows in row_blocks(xp, n, 8 * dim):
            x[rows, :] /= math.sqrt(dim)
            y[rows] = xp.vecdot(x[rows, :], tasks_of(seen, chosen, rows))
            if root is not None:
                x[rows, :] = times_root(x[rows, :], root)
                summary[rows, :dim] = times_root(summary[rows, :dim], root)
        y += math.sqrt(self.rho) * generator.standard_normal(n)
        return x, summary, y

    def _from_tokens(
        self, generator: Any, tasks: Array, chosen: Array | None
    ) -> tuple[Array, Array, Array]:
        prompts = sample_prompts(
            self.backend,
            generator,
            tasks_of(tasks, chosen, slice(None)),
            self.context,
            self.rho,
            self.input_law,
            input_root=self.input_root,
        )
        return prompts.x_query, context_summary(prompts), prompts.y_query
