"""Regression with forgetting: against sampled tasks and noise on the same inputs."""

import numpy as np
import pytest

from iclimit.simulate.descent.schedules import context_blocks
from iclimit.simulate.recurrent import simulate_forgetting

TASKS = 40000


def test_averages_over_tasks_and_noise_are_exact():
    dim = 3
    context = 6
    rho = 0.3
    penalty = 0.4
    rate = 0.7
    drift = 0.9
    setting = {"dim": dim, "context": context, "rho": rho, "penalty": penalty}
    run = simulate_forgetting(**setting, forgetting=rate, drift=drift, rng=2, contexts=2)
    rng = np.random.default_rng(0)
    phi = np.exp(-drift / dim)
    for z, error in zip(
        next(context_blocks(context, dim, "gaussian", 2, 2, "numpy")), run.samples, strict=True
    ):
        x = z / np.sqrt(dim)
        # Rows of the regression: pairs with the roots of their weights, then the penalty.
        roots = np.exp(-rate / dim * np.arange(context - 1, -1, -1) / 2)
        rows = np.vstack([roots[:, None] * x, np.sqrt(penalty) * np.eye(dim)])
        w = rng.standard_normal((TASKS, dim))
        labels = np.zeros((TASKS, context + dim))
        for token in range(context):
            noise = np.sqrt(rho) * rng.standard_normal(TASKS)
            labels[:, token] = roots[token] * (w @ x[token] + noise)
            w = phi * w + np.sqrt(1 - phi**2) * rng.standard_normal((TASKS, dim))
        u = np.linalg.lstsq(rows, labels.T)[0].T
        errors = rho + np.mean((w - u) ** 2, axis=1)
        assert abs(error - errors.mean()) < 4 * errors.std() / np.sqrt(TASKS)


def test_penalty_is_needed():
    with pytest.raises(ValueError, match="penalty must be > 0, got 0"):
        simulate_forgetting(dim=3, context=6, rho=0.1, penalty=0, rng=0)
