from dataclasses import replace

import numpy as np
import pytest

from iclimit.asymptotics.pretraining.deterministic_equivalent import Inputs, fresh_task_law
from iclimit.asymptotics.pretraining.row_self_energy import solve_rows
from iclimit.asymptotics.pretraining.task_self_energy import TaskDraws, solve

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
