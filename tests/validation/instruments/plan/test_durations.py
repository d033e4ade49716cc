"""Plans of runs that are trained for a time: steps, their size and their cost."""

import math

import numpy as np
import pytest
from refusals import value_error

import iclimit
from iclimit.validation.instruments.plan.durations import (
    SMALL_STEP,
    descent_operations,
    duration_notes,
    small_step,
)

POINT = iclimit.Point(tau=2, alpha=1, kappa=0.5, rho=0.1, time=1.0)


def largest_eigenvalue(rng, dim, *, tau, alpha, kappa, rho):
    """Largest eigenvalue of the flow of one draw of prompts, with features written out."""
    count = round(tau * dim**2)
    context = round(alpha * dim)
    w = rng.normal(size=(round(kappa * dim), dim))
    w *= math.sqrt(dim) / np.linalg.norm(w, axis=1, keepdims=True)
    drawn = w[rng.integers(len(w), size=count)]
    x = rng.normal(size=(count, context + 1, dim)) / math.sqrt(dim)
    y = np.einsum("nld,nd->nl", x, drawn) + math.sqrt(rho) * rng.normal(size=x.shape[:2])
    h = dim / context * np.einsum("nl,nld->nd", y[:, :-1], x[:, :-1])
    h = np.column_stack([h, np.mean(y[:, :-1] ** 2, axis=1)])
    features = (x[:, -1, :, None] * h[:, None, :]).reshape(count, -1)
    return dim / count * np.linalg.norm(features, 2) ** 2


@pytest.mark.parametrize(
    "ratios",
    [
        {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1},
        {"tau": 0.5, "alpha": 4.0, "kappa": 2.0, "rho": 0.3},
    ],
)
def test_small_steps_are_a_tenth_of_the_stable_ones(ratios):
    # The bound of the limit is reached to some 20 %, also at d = 14.
    largest = largest_eigenvalue(np.random.default_rng(0), 14, **ratios)
    assert 0.7 * 2 / largest < small_step(ratios) / SMALL_STEP < 1.3 * 2 / largest


def test_a_plan_says_how_many_steps_a_run_takes():
    plan = iclimit.plan_runs("precision", POINT, effect=0.05, dim=16)
    steps = math.ceil(1 / small_step(POINT.limit))
    assert any(f"takes {steps} steps" in note for note in plan.notes)
    assert any("0.235 (ICL) and 0.571 (IDG)" in note for note in plan.notes)
    run = POINT.at(dim=16)
    assert descent_operations(run) == 4 * steps * run.prompts * 16 * 17
    assert plan.best.design.points[0].run.experiment == run
    assert "iclimit.sample(iclimit.Experiment.of(" in plan.commands[0]
    assert "time=1.0" in plan.commands[0]
    assert iclimit.check_runs(plan.runs()).holds


def test_a_plan_of_minimisers_says_nothing_of_steps():
    assert not list(duration_notes(iclimit.Point(tau=2, alpha=1, kappa=0.5, rho=0.1)))
    assert descent_operations(iclimit.Point(tau=2, alpha=1, rho=0.1).at(dim=8)) == 0


def test_times_with_other_tests_are_refused():
    point = iclimit.Point(tau=2, alpha=1, kappa=0.5, rho=0.1, time=1.0, test_alpha=2)
    value_error("time must be left out", iclimit.plan_runs, "precision", point, effect=0.1)
