"""Closed-form test error of a given Gamma equals Monte Carlo over tokens.

The test error of random attention matrices from exact moments equals the mean squared error
over token-level prompts: for fresh and for training tasks, and for tasks and inputs of covariances
that do not commute, also where test prompts differ in covariance, length and noise from those of
the pretraining.  So does the least error of any matrix, which the simulation's own moments have,
too.

Source: Moments of the context summary at finite context length; derived in the documentation.
"""

import itertools
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining import errors_of_gamma, optimal_gamma
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import context_summary, draw_prompts, summary_moments
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.rows import Rows, exact, mean, run

# Dimension of the inputs.
DIM = 10
# Pairs of a prompt of the pretraining.
CONTEXT = 8
# Pretraining tasks.
TASKS = 5
# Variance of the label noise in the pretraining.
RHO = 0.2
# Law of tasks on the sphere.
SPHERE = Problem(DIM, CONTEXT, task_law="sphere")
# Pairs of test prompts that differ from those of the pretraining.
TEST_CONTEXT = 20
# Variance of the label noise of these test prompts.
TEST_RHO = 0.6
# Random attention matrices.
MATRICES = 6

# Relative difference of two ways to compute the same number; 1e-14 was seen.
ROUNDING = 1e-12

# Theory, matrix, law of the prompts and tasks, by name.
Cases: TypeAlias = dict[str, tuple[float, np.ndarray, Problem, np.ndarray]]


def wishart(generator: np.random.Generator, dim: int = DIM) -> np.ndarray:
    """Covariance in a random basis."""
    factors = generator.standard_normal((dim, 2 * dim))
    return factors @ factors.T / (2 * dim)


@named_cell("risk_pair")
def risk_pair(*, prompts: int, rng: SeedSequence) -> dict[str, tuple[float, Estimate]]:
    """Closed-form and Monte Carlo errors of a random Gamma and of the best one."""
    backend = get_backend("numpy")
    generator = np.random.default_rng(rng)
    task_set = draw_fresh_tasks(SPHERE, backend, generator, TASKS)
    gamma = generator.standard_normal((DIM, DIM + 1)) / DIM
    C = wishart(generator)
    sigma = wishart(generator)
    size: dict[str, Any] = {"context": CONTEXT, "rho": RHO}
    exact = errors_of_gamma(gamma, **size, tasks=task_set)
    structured = errors_of_gamma(gamma, **size, task_covariance=C, input_covariance=sigma)
    best = optimal_gamma(**size, tasks=task_set)
    fresh = draw_fresh_tasks(SPHERE, backend, generator, prompts)
    drawn = task_set[generator.integers(0, TASKS, prompts)]
    law = Problem(DIM, CONTEXT, task_covariance=C)
    correlated = draw_fresh_tasks(law, backend, generator, prompts)
    plain = Problem(DIM, CONTEXT, noise_variance=RHO)
    cases: Cases = {
        "fresh": (exact.icl, gamma, plain, fresh),
        "training": (exact.idg, gamma, plain, drawn),
        "structured": (structured.icl, gamma, replace(plain, input_covariance=sigma), correlated),
        "best": (best.error, best.gamma, plain, drawn),
    }
    pairs = simulated(cases, generator)
    return pairs | options_pair(gamma, task_set, (C, sigma), prompts // 4, generator)


def simulated(cases: Cases, generator: np.random.Generator) -> dict[str, tuple[float, Estimate]]:
    """Theory, and the error over prompts."""
    return {
        name: (theory, monte_carlo(matrix, law, truth, generator))
        for name, (theory, matrix, law, truth) in cases.items()
    }


def options_pair(
    gamma: np.ndarray,
    task_set: np.ndarray,
    covariances: tuple[np.ndarray, np.ndarray],
    prompts: int,
    generator: np.random.Generator,
) -> dict[str, tuple[float, Estimate]]:
    """The same for laws of tasks, inputs and test prompts that differ from the simplest."""
    backend = get_backend("numpy")
    C, sigma = covariances
    size: dict[str, Any] = {"context": CONTEXT, "rho": RHO, "input_covariance": sigma}
    correlated = {"task_covariance": C}
    test: dict[str, Any] = {"test_context": TEST_CONTEXT, "test_rho": TEST_RHO}
    fixed = errors_of_gamma(gamma, **size, tasks=task_set)
    best = optimal_gamma(**size, dim=DIM, task_covariance=C)
    spheres = optimal_gamma(**size, dim=DIM, task_law="gaussian")
    train = Problem(DIM, CONTEXT, noise_variance=RHO, input_covariance=sigma)
    longer = Problem(DIM, TEST_CONTEXT, noise_variance=TEST_RHO, input_covariance=sigma)
    shifted = errors_of_gamma(gamma, **size, tasks=task_set, test_covariance=C, **test)
    gaussian = errors_of_gamma(gamma, **size, task_law="gaussian")

    def tasks(**law: Any) -> np.ndarray:
        return draw_fresh_tasks(Problem(DIM, CONTEXT, **law), backend, generator, prompts)

    fresh = tasks(task_law="sphere")
    drawn = task_set[generator.integers(0, TASKS, prompts)]
    cases: Cases = {
        "sphere, correlated inputs": (fixed.icl, gamma, train, fresh),
        "training, correlated inputs": (fixed.idg, gamma, train, drawn),
        "Gaussian, correlated inputs": (gaussian.icl, gamma, train, tasks(task_law="gaussian")),
        "shifted": (shifted.icl, gamma, longer, tasks(**correlated)),
        "best, correlated": (best.error, best.gamma, train, tasks(**correlated)),
        "best, Gaussian": (spheres.error, spheres.gamma, train, tasks(task_law="gaussian")),
    }
    return simulated(cases, generator)


def monte_carlo(
    matrix: np.ndarray, law: Problem, tasks: np.ndarray, generator: np.random.Generator
) -> Estimate:
    """Squared error of a matrix over prompts of these tasks."""
    prompts = draw_prompts(law, get_backend("numpy"), generator, tasks=tasks)
    squared = summary_moments.squared_errors(
        matrix, prompts.query, context_summary(prompts), prompts.query_label
    )
    return Estimate.of(squared, keep=False)


@named_cell("moment_pair")
def moment_pair(*, rng: SeedSequence) -> dict[str, tuple[float, float]]:
    """Theory, and the same numbers from the moments that the simulation has."""
    backend = get_backend("numpy")
    generator = np.random.default_rng(rng)
    task_set = draw_fresh_tasks(SPHERE, backend, generator, TASKS)
    gamma = generator.standard_normal((DIM, DIM + 1)) / DIM
    exact = errors_of_gamma(gamma, context=CONTEXT, rho=RHO, tasks=task_set)
    fresh = summary_moments.fresh_task_moments(backend, DIM, CONTEXT, RHO, "sphere")
    training = summary_moments.task_set_moments(backend, task_set, CONTEXT, RHO)
    least = np.linalg.solve(training.second, training.cross).T
    best = optimal_gamma(context=CONTEXT, rho=RHO, tasks=task_set)
    # Means over the corners of the 24-cell are those over the sphere for polynomials of degree 5.
    corners = [*(2 * np.eye(4)), *(-2 * np.eye(4)), *itertools.product((-1.0, 1.0), repeat=4)]
    narrow: dict[str, Any] = {"context": CONTEXT, "rho": RHO}
    narrow["input_covariance"] = wishart(generator, 4)
    matrix = generator.standard_normal((4, 5)) / 4
    sphere = errors_of_gamma(matrix, **narrow)
    cell = errors_of_gamma(matrix, **narrow, tasks=np.array(corners))
    return {
        "sphere": (sphere.icl, cell.idg),
        "fresh": (exact.icl, float(summary_moments.exact_error(gamma, fresh))),
        "training": (exact.idg, float(summary_moments.exact_error(gamma, training))),
        "best": (best.error, float(summary_moments.exact_error(least, training))),
    }


def rows(effort: Effort) -> Rows:
    """All errors of every matrix; cells differ by a prompt, and so in their seeds."""
    functions = dict.fromkeys(("fresh", "training", "structured"), "errors_of_gamma")
    functions["best"] = "optimal_gamma.error"
    kinds = ("sphere", "training", "Gaussian")
    functions |= dict.fromkeys([f"{kind}, correlated inputs" for kind in kinds], "errors_of_gamma")
    functions["shifted"] = "errors_of_gamma"
    functions |= dict.fromkeys(["best, correlated", "best, Gaussian"], "optimal_gamma.error")
    for k in range(MATRICES):
        pairs = run(risk_pair, prompts=effort(25_000) + k)
        for name, of in functions.items():
            theory = pairs[name][0]
            simulated = pairs[name][1]
            yield mean(f"Gamma {k + 1}, {name} tasks", theory, simulated, of=of)
    pairs = run(moment_pair)
    for name in ("fresh", "training", "best"):
        label = f"moments of the simulation, {name} tasks"
        theory = pairs[name][0]
        same = pairs[name][1]
        yield exact(label, theory, same, relative=ROUNDING, of=functions[name])
    label = "sphere and 24-cell, correlated inputs"
    both = pairs["sphere"]
    yield exact(label, both[0], both[1], relative=ROUNDING, of="")  # theory against theory


claim = Claim.of("test-error", __doc__, rows, figure=False)
