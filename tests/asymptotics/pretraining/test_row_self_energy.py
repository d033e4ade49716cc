"""Rows of structured inputs: alike ones, whitened ones, and bases that stand for the sphere."""

import math
from dataclasses import replace

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.asymptotics.pretraining.deterministic_equivalent import Inputs, fresh_task_law
from iclimit.asymptotics.pretraining.row_self_energy import solve_rows
from iclimit.asymptotics.pretraining.task_draws import TaskDraws
from iclimit.asymptotics.pretraining.task_self_energy import solve

D, CONTEXT, RHO = 12, 20, 0.2
BASIS = np.linalg.qr(np.random.default_rng(0).standard_normal((D, D)))[0]


def drawn(prompts, ridge):
    rng = np.random.default_rng(1)
    tasks = rng.standard_normal((2, 9, D))
    shares = rng.multinomial(prompts, np.full((2, 9), 1 / 9)) / prompts
    return TaskDraws(tasks, shares, CONTEXT, prompts, RHO, ridge)


@pytest.mark.parametrize(("prompts", "ridge"), [(100, 0.05), (100, 0.0), (300, 0.1)])
def test_rows_of_isotropic_inputs_are_alike(prompts, ridge):
    draws = drawn(prompts, ridge)
    test = fresh_task_law(D, CONTEXT, RHO, "gaussian")
    rows = solve_rows(draws, Inputs(np.ones((D, 1)), 1, BASIS, np.eye(D)))
    assert rows.errors(draws, test) == pytest.approx(solve(draws).errors(draws, test), rel=1e-5)


def test_a_vanishing_ridge_is_that_of_whitened_inputs_if_the_prompts_determine_the_solution():
    draws = drawn(300, 1e-7)
    test = fresh_task_law(D, CONTEXT, RHO, "gaussian")
    inputs = Inputs.of(BASIS @ np.diag(np.geomspace(0.2, 3, D)) @ BASIS.T, D)
    white = replace(draws, ridge=0.0)
    rows = solve_rows(draws, inputs).errors(draws, test)
    assert rows == pytest.approx(solve(white).errors(white, test), rel=1e-5)


def test_orthogonal_bases_stand_for_the_sphere():
    """With both signs they have its odd and its second moments; 2e-5 was seen."""
    normal = np.random.default_rng(2).standard_normal((400, D, D))
    bases = np.linalg.qr(normal)[0].reshape(-1, D)
    signed = np.concatenate([bases, -bases]) * math.sqrt(D)
    run = {"dim": D, "context": CONTEXT, "rho": RHO, "prompts": 300, "ridge": 0.1, "rng": 0}
    run |= {"task_law": "sphere", "approach": "moments"}
    run |= {"input_covariance": np.linspace(0.3, 1.7, D)}
    fresh = finite_size_errors(**run, tasks=math.inf).icl.mean
    of_bases = finite_size_errors(**run, tasks=signed).icl.mean
    assert of_bases == pytest.approx(fresh, rel=2e-4)
