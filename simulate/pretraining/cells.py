"""One simulated cell: pretrain linear attention at given integers, and test it repeatedly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iclimit.checks import check_arguments, check_choice, check_integers, given, parse_tasks
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, get_backend
from iclimit.simulate.pretraining.covariances import (
    covariance_rank,
    covariance_root,
    fingerprint,
    parse_covariances,
)
from iclimit.simulate.pretraining.prompts import INPUT_LAWS, TASK_LAWS
from iclimit.simulate.pretraining.ridge import choose_method, solve_ridge
from iclimit.simulate.pretraining.summaries import PromptLaw


@dataclass(frozen=True, repr=False)
class SimulatedErrors(Result):
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

    @classmethod
    def of(cls, parameters: dict[str, Any], columns: Sequence[Any]) -> SimulatedErrors:
        """Errors from one column for each field: ICL and IDG errors, and what solves report."""
        icl, idg, *solves = map(np.asarray, columns)
        return cls(Estimate.of(icl), Estimate.of(idg), parameters, *solves)

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
        pairs = zip(self._columns, other._columns, strict=True)
        return SimulatedErrors.of(self.parameters, [np.concatenate(pair) for pair in pairs])

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
        return SimulatedErrors.of(self.parameters, [column[:count] for column in self._columns])

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.icl.samples, self.idg.samples, self.residuals, self.iteration_counts


SAMPLERS = ("auto", "summaries", "tokens")

TOLERANCE = 1e-5
"""Relative residual of the linear solves.  It moves the errors by less than 1e-6 relative at
tau = 2, d = 48, and by 1e-4 next to the threshold (tau = 1.125, d = 32), where they scatter by a
third from run to run.  A tenth of it takes up to a quarter more time."""


def simulate_errors(
    *,
    dim: int,
    context: int,
    tasks: int | float | Array,
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
    numbers = {"dim": dim, "context": context, "prompts": prompts, "rho": rho, "ridge": ridge}
    shifts = given(test_context=test_context, test_rho=test_rho)
    check_arguments(**numbers, **shifts)
    check_arguments(repeats=repeats, first_repeat=first_repeat, test_prompts=test_prompts)
    check_choice("task_law", task_law, TASK_LAWS)
    check_choice("input_law", input_law, INPUT_LAWS)
    check_choice("sampler", sampler, SAMPLERS)
    count, fixed = parse_tasks(tasks, dim)
    if fixed is not None and task_covariance is not None:
        raise ValueError("task_covariance must be None where the task vectors are given")
    gaussian = input_law == "gaussian"
    if input_covariance is not None and not gaussian:
        raise ValueError(
            f"input_law must be gaussian where input_covariance is given, got {input_law!r}"
        )
    if sampler == "summaries" and not gaussian:
        raise ValueError(f"sampler must be 'tokens' for such inputs, got {sampler!r}")
    if sampler == "auto":
        sampler = "summaries" if gaussian else "tokens"
    covariances = parse_covariances(
        dim, task=task_covariance, test=test_covariance, input=input_covariance
    )
    arrays = get_backend(backend)
    roots = {name: arrays.asarray(covariance_root(each)) for name, each in covariances.items()}
    law = "gaussian" if "task" in roots else task_law
    task_root, input_root = roots.get("task"), roots.get("input")
    train = PromptLaw(arrays, dim, context, rho, law, task_root, input_law, input_root, sampler)
    test = replace(train, **given(context=test_context, rho=test_rho))
    if "test" in roots:
        test = replace(test, task_law="gaussian", task_root=roots["test"])
    # Features that differ, r (r + 1) of them, decide whether prompts can be interpolated.
    method = choose_method(prompts, covariance_rank(covariances.get("input"), dim))
    runs = []
    for generator in arrays.generators(rng, repeats, first_repeat):
        if fixed is not None:
            task_set = arrays.asarray(fixed)
        else:
            task_set = None if count == math.inf else train.fresh_tasks(generator, int(count))
        solution = solve_ridge(
            *train.draw(generator, prompts, task_set), ridge, method=method, tolerance=TOLERANCE
        )
        icl = test.test_error(generator, solution.gamma, test_prompts, None)
        idg = train.test_error(generator, solution.gamma, test_prompts, task_set)
        runs.append((icl, idg, solution.residual, solution.iterations))
    ratios = {"tau": prompts / dim**2, "alpha": context / dim, "kappa": count / dim}
    laws = {"task_law": law, "sampler": sampler, "backend": backend}
    if not gaussian:
        laws["input_law"] = input_law
    laws |= {f"{name}_covariance": fingerprint(each) for name, each in covariances.items()}
    parameters = {**numbers, "tasks": count, **ratios, **laws, **shifts}
    return SimulatedErrors.of(parameters, list(zip(*runs, strict=True)))
