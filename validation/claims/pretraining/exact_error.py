"""Closed-form test error of a given Gamma equals Monte Carlo over tokens.

The test error of random attention matrices from exact moments equals the mean squared error
over token-level prompts: for fresh and for training tasks, and for tasks and inputs of covariances
that do not commute.  So does the least error of any matrix, which the simulation's own moments
have, too.

Source: Moments of the context summary at finite context length; derived in the documentation.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import errors_of_gamma, optimal_gamma
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import context_summary, draw_prompts, summaries
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.rows import Rows, exact, mean, run

DIM, CONTEXT, TASKS, RHO = 10, 8, 5, 0.2
SPHERE = Problem(DIM, CONTEXT, task_law="sphere")
# Random attention matrices.
MATRICES = 6

# Relative difference of two ways to compute the same number; 1e-14 was seen.
ROUNDING = 1e-12


def wishart(generator: np.random.Generator) -> np.ndarray:
    """Covariance in a random basis."""
    factors = generator.standard_normal((DIM, 2 * DIM))
    return factors @ factors.T / (2 * DIM)


def risk_pair(*, prompts: int, rng: Any) -> dict[str, tuple[float, Estimate]]:
    """Closed-form and Monte Carlo errors of a random Gamma and of the best one."""
    backend, generator = get_backend("numpy"), np.random.default_rng(rng)
    task_set = draw_fresh_tasks(SPHERE, backend, generator, TASKS)
    gamma = generator.standard_normal((DIM, DIM + 1)) / DIM
    C, sigma = wishart(generator), wishart(generator)
    size: dict[str, Any] = {"context": CONTEXT, "rho": RHO}
    exact = errors_of_gamma(gamma, **size, tasks=task_set)
    structured = errors_of_gamma(gamma, **size, task_covariance=C, input_covariance=sigma)
    best = optimal_gamma(**size, tasks=task_set)
    fresh = draw_fresh_tasks(SPHERE, backend, generator, prompts)
    drawn = task_set[generator.integers(0, TASKS, prompts)]
    law = Problem(DIM, CONTEXT, task_covariance=C)
    correlated = draw_fresh_tasks(law, backend, generator, prompts)
    cases: dict[str, tuple[float, np.ndarray, np.ndarray, np.ndarray | None]] = {
        "fresh": (exact.icl, gamma, fresh, None),
        "training": (exact.idg, gamma, drawn, None),
        "structured": (structured.icl, gamma, correlated, sigma),
        "best": (best.error, best.gamma, drawn, None),
    }
    found = {}
    for name, (theory, matrix, truth, covariance) in cases.items():
        law = Problem(DIM, CONTEXT, noise_variance=RHO, input_covariance=covariance)
        each = draw_prompts(law, backend, generator, tasks=truth)
        squared = summaries.squared_errors(
            matrix, each.query, context_summary(each), each.query_label
        )
        found[name] = theory, Estimate.of(squared, keep=False)
    return found


def moment_pair(*, rng: Any) -> dict[str, tuple[float, float]]:
    """Theory, and the same numbers from the moments that the simulation has."""
    backend, generator = get_backend("numpy"), np.random.default_rng(rng)
    task_set = draw_fresh_tasks(SPHERE, backend, generator, TASKS)
    gamma = generator.standard_normal((DIM, DIM + 1)) / DIM
    exact = errors_of_gamma(gamma, context=CONTEXT, rho=RHO, tasks=task_set)
    fresh = summaries.fresh_task_moments(backend, DIM, CONTEXT, RHO, "sphere")
    training = summaries.task_set_moments(backend, task_set, CONTEXT, RHO)
    least = np.linalg.solve(training.second, training.cross).T
    best = optimal_gamma(context=CONTEXT, rho=RHO, tasks=task_set)
    return {
        "fresh": (exact.icl, float(summaries.exact_error(gamma, fresh))),
        "training": (exact.idg, float(summaries.exact_error(gamma, training))),
        "best": (best.error, float(summaries.exact_error(least, training))),
    }


def rows(effort: Effort) -> Rows:
    """All errors of every matrix; cells differ by a prompt, and so in their seeds."""
    functions = dict.fromkeys(("fresh", "training", "structured"), "errors_of_gamma")
    functions["best"] = "optimal_gamma.error"
    for k in range(MATRICES):
        pairs = run(risk_pair, prompts=effort(25_000) + k)
        for name, of in functions.items():
            theory, simulated = pairs[name][0], pairs[name][1]
            yield mean(f"Gamma {k + 1}, {name} tasks", theory, simulated, of=of)
    pairs = run(moment_pair)
    for name in ("fresh", "training", "best"):
        label = f"moments of the simulation, {name} tasks"
        theory, same = pairs[name][0], pairs[name][1]
        yield exact(label, theory, same, relative=ROUNDING, of=functions[name])


claim = Claim.of("test-error", __doc__, rows, figure=False)
