"""Theory of training on mixtures of random tasks and a shared one: losses and the first growth."""

from __future__ import annotations

from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import mixture_growth_rate, mixture_predictor
from iclimit.problem import Problem
from iclimit.simulate.dynamics.feature_moments import population_moments

# Largest dimension for which the least loss of merged attention is found: memory grows as D^6.
LARGEST_DIM = 12


def mixture_losses(problem: Problem) -> np.ndarray:
    """Loss at zero weights, and of the best predictor that is linear in the context labels."""
    return np.array([problem.label_square, mixture_predictor(**_law(problem)).train_loss])


def least_merged_loss(problem: Problem) -> float:
    """Bound that no merged attention goes below: least squares on all that it sees."""
    if problem.dim > LARGEST_DIM:
        return problem.noise_variance
    moments = population_moments(problem)
    weights = np.linalg.lstsq(moments.second, moments.cross, rcond=None)[0]
    return float(moments.label - moments.cross @ weights)


def first_growth_rate(problem: Problem, model: str) -> float:
    """Rate at which small weights grow first."""
    if model == "merged":
        return float(mixture_growth_rate(**_law(problem)))
    return float(np.linalg.norm(feature_correlations(problem)))


def feature_correlations(problem: Problem) -> np.ndarray:
    """Means of the cubic features times the label, which drive the growth of small weights."""
    lam = np.diag(problem.covariance_of_inputs)
    if problem.shared_task is None:
        return np.diag(lam**2)
    shared = lam * problem.shared_task
    fresh = problem.fresh_fraction
    return fresh * np.diag(lam**2) + (1 - fresh) * np.outer(shared, shared)


def _law(problem: Problem) -> dict[str, Any]:
    """Arguments of the theory."""
    return {
        "fresh_fraction": problem.fresh_fraction,
        "input_covariance": problem.covariance_of_inputs,
        "shared_task": problem.shared_task,
        "context": problem.context,
        "noise_variance": problem.noise_variance,
    }
