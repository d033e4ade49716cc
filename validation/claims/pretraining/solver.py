"""Gamma from the structured solver equals dense least squares.

The attention matrix found without forming the features, directly and by conjugate gradients,
equals the solution of the explicit d (d + 1)-dimensional least-squares problem to 1e-8, ridgeless
and with ridge, below and above threshold.

Source: Khatri-Rao structure of the features; see iclimit.simulate.pretraining.ridge.
"""

import math

import numpy as np
from numpy.random import SeedSequence

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.prompts import context_summary, draw_prompts
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, exact, run

# Dimension of the inputs.
DIM = 12
# Number of features.
FEATURES = DIM * (DIM + 1)
# Numbers of prompts below, near and above the number of features, 156.
PROMPTS = (80, 140, 180, 400)
# Ridges of the regression.
RIDGES = (0.0, 1e-6, 0.1)
# Relative difference of Gamma; 1e-9 was seen.  The solver stops at a residual of 1e-10, and the
# worst condition number among the cases is of order 100.
TOLERANCE = 1e-8


@named_cell("solver_difference")
def solver_difference(*, prompts: int, ridge: float, rng: SeedSequence) -> float:
    """Relative difference of Gamma from the structured solver and from dense least squares."""
    backend = get_backend("numpy")
    generator = np.random.default_rng(rng)
    law = Problem(DIM, 2 * DIM, noise_variance=0.1, task_law="sphere")
    drawn = draw_prompts(law, backend, generator, prompts)
    summary = context_summary(drawn)
    features = drawn.query[:, :, None] * summary[:, None, :]
    matrix = features.reshape(prompts, -1)
    penalty = math.sqrt(prompts / DIM * ridge) * np.eye(FEATURES)
    stacked = np.vstack([matrix, penalty]) if ridge else matrix
    target = np.concatenate([drawn.query_label, np.zeros(len(stacked) - prompts)])
    dense = np.linalg.lstsq(stacked, target, rcond=1e-13)[0]
    differences = []
    for method in ("auto", "dual-cg" if prompts < FEATURES else "primal-cg"):
        solution = solve_ridge(
            drawn.query, summary, drawn.query_label, ridge, method=method, tolerance=1e-10
        )
        differences.append(np.max(abs(solution.gamma.ravel() - dense)))
    return float(max(differences) / np.max(abs(dense)))


def rows(_: Effort) -> Rows:
    """Difference of the solutions by prompts and ridge."""
    for prompts in PROMPTS:
        for ridge in RIDGES:
            difference = run(solver_difference, prompts=prompts, ridge=ridge)
            label = f"Gamma at n={prompts} ridge={ridge:g}"
            yield exact(label, 0.0, difference, allowance=TOLERANCE)


claim = Claim.of("solver", __doc__, rows, figure=False)
