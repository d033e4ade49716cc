"""Estimated cost of a cell against what cells take."""

import math
import tracemalloc

import numpy as np
import pytest
from refusals import value_error

from iclimit.experiment import Experiment
from iclimit.simulate.pretraining import cell_cost, simulate_errors
from iclimit.simulate.pretraining.cell_cost import (
    NORMAL_OPERATIONS,
    RUN_OPERATIONS,
    CellCost,
    cell_memory,
    count_operations,
    estimate_cost,
    largest_dimension,
)

FACTOR = 2.0  # what is promised
CASES = [  # d, tau, alpha, kappa, ridge
    (16, 0.3, 1.0, 0.5, 0.0),
    (16, 1.1, 1.0, 0.5, 0.0),
    (16, 8.0, 0.3, 0.3, 0.1),
    (30, 0.9, 1.0, 0.5, 0.0),
    (30, 1.1, 10.0, 8.0, 0.0),
    (30, 2.0, 20.0, 0.2, 0.1),
    (30, 2.0, 1.0, math.inf, 0.0),
    (50, 0.9, 1.0, 0.5, 0.0),
    (50, 0.9, 0.3, 0.3, 0.1),
    (50, 1.1, 20.0, 0.2, 0.01),
    (50, 2.0, 1.0, 0.5, 1.0),
]


def cell(d, tau, alpha, kappa, ridge):
    """Arguments of a cell."""
    return {
        "dim": d,
        "context": max(1, round(alpha * d)),
        "prompts": round(tau * d**2),
        "rho": 0.1,
        "tasks": kappa if kappa == math.inf else max(1, round(kappa * d)),
        "ridge": ridge,
    }


@pytest.mark.parametrize("case", CASES)
def test_iterations_and_memory(case):
    arguments = cell(*case)
    simulate_errors(**arguments, rng=0)  # what is loaded once is not of the cell
    tracemalloc.start()
    found = simulate_errors(**arguments, rng=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    value = cell_memory(dim=arguments["dim"], prompts=arguments["prompts"]) / peak
    assert 1 / FACTOR < value < FACTOR
    expected = estimate_cost(**arguments).iterations
    if found.iterations == 0:
        assert expected == 0
    else:
        assert 1 / FACTOR < expected / found.iterations < FACTOR


@pytest.mark.machine
def test_iterations_of_structured_data():
    for structure in (
        {"task_covariance": [*[2.0] * 15, *[0.0] * 15]},
        {"task_covariance": np.diag(1 / np.arange(1.0, 31.0)), "ridge": 0.1},
        # Half the directions: 25 * 26 features.
        {"dim": 50, "input_covariance": [*[2.0] * 25, *[0.0] * 25]},
        {"dim": 50, "input_covariance": [*[2.0] * 25, *[0.0] * 25], "prompts": 1100, "ridge": 0.1},
        {"tasks": math.inf, "task_covariance": np.full(30, 3.0), "ridge": 0.1},
    ):
        arguments = cell(30, 2.0, 1.0, 0.5, 0.0) | structure
        found = simulate_errors(**arguments, rng=0)
        expected = estimate_cost(**arguments).iterations
        assert 1 / FACTOR < expected / found.iterations < FACTOR


@pytest.mark.machine
def test_eigenvalues_that_are_rounding_are_none():
    """Half the directions again, in a basis in which their zeros are rounding of either sign."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 50)))[0]
    half = np.diag([*[2.0] * 25, *[0.0] * 25])
    estimates = [
        estimate_cost(**cell(30, 2.0, 1.0, 0.5, 0.0) | {"dim": 50, "input_covariance": covariance})
        for covariance in (half, turn @ half @ turn.T)
    ]
    diagonal, turned = (each.iterations for each in estimates)
    assert abs(diagonal - turned) <= 1


@pytest.mark.parametrize("ridge", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("prompts", [400, 800])
def test_edges_are_those_of_explicit_random_features(prompts, ridge):
    """Gram matrix of features with fresh tasks, whose summaries have nearly equal variances."""
    d = 30
    alpha = 2.0
    rho = 0.1
    generator = np.random.default_rng(0)
    variances = np.full(d, 1 + (1 + rho) / alpha)
    u = generator.standard_normal((prompts, d * (d + 1))) / math.sqrt(prompts)
    gram = u @ u.T * variances[0]
    values = np.linalg.eigvalsh(gram)
    low, high = cell_cost._dual_edges(variances, prompts, ridge)
    # Eigenvalues leave the support by a share of order n^(-2/3), far below this.
    allowance = 0.05 * values[-1]
    assert low == pytest.approx(values[0] + ridge, abs=allowance)
    assert high == pytest.approx(values[-1] + ridge, abs=allowance)


def test_edges_of_whitened_normal_equations():
    """Without a ridge they are those of a sample covariance, whatever the variances."""
    d = 15
    prompts = 800
    u = np.random.default_rng(1).standard_normal((prompts, d * (d + 1)))
    values = np.linalg.eigvalsh(u.T @ u / prompts)
    low, high = cell_cost._primal_edges(np.geomspace(0.1, 3.0, d), prompts, 0.0)
    assert low == pytest.approx(values[0], abs=0.03 * values[-1])
    assert high == pytest.approx(values[-1], abs=0.03 * values[-1])


def test_time_grows_as_it_must():
    """Repeats multiply; a clock is not asserted on."""
    once = estimate_cost(**cell(20, 2.0, 1.0, 0.5, 0.0))
    assert isinstance(once, CellCost)
    assert once.seconds > 0
    more = estimate_cost(**cell(20, 2.0, 1.0, 0.5, 0.0), repeats=7)
    assert more.seconds == pytest.approx(7 * once.seconds)  # the machine is measured once
    assert more.memory_bytes == once.memory_bytes
    assert (more.method, more.iterations) == (once.method, once.iterations)


@pytest.mark.parametrize("d", [12, 16, 48])
def test_operations_are_those_of_the_products(d):
    """A direct solve against the matrix products of explicit features, counted by their shapes."""
    run = Experiment.of(**cell(d, 2.0, 1.0, 0.5, 0.0))
    found = count_operations(run) - RUN_OPERATIONS - 2 * NORMAL_OPERATIONS * run.prompts * d
    method = cell_cost.cost(run).method
    features = d * (d + 1)
    gram = run.prompts * features**2
    if method == "primal-dense":
        assert gram < found < 2 * gram
    else:
        assert found < gram  # why iterations are used
        assert found > 4 * run.prompts * features
    assert cell_cost.cost(run, repeats=3).operations == 3 * count_operations(run)


def test_given_tasks_count():
    arguments = cell(12, 2.0, 1.0, 0.5, 0.0)
    given = estimate_cost(**arguments | {"tasks": np.ones((6, 12))})
    assert given.iterations == estimate_cost(**arguments).iterations


@pytest.mark.parametrize("tau", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("memory", [2.0**20, 2.0**30, 2.0**36])
def test_largest_dimension_fits_and_the_next_does_not(tau, memory):
    d = largest_dimension(tau=tau, memory=memory)
    assert cell_memory(dim=d, prompts=math.ceil(tau * d**2)) <= memory
    found = cell_memory(dim=d + 1, prompts=math.ceil(tau * (d + 1) ** 2)) + 24 * (d + 1) ** 2
    assert found > memory


def test_free_memory(monkeypatch):
    monkeypatch.setattr(cell_cost, "free_memory", lambda: 2**30)
    assert largest_dimension(tau=2.0) == largest_dimension(tau=2.0, memory=2**30)
    monkeypatch.undo()
    assert 2**20 < cell_cost.free_memory() < 2**60


def test_arguments_are_checked():
    for changes, message in (
        (
            {"input_covariance": np.ones(4)},
            r"input_covariance must have shape \(10,\) or \(10, 10\)",
        ),
        ({"task_covariance": -np.ones(10)}, "task_covariance must have eigenvalues >= 0, got -1"),
    ):
        value_error(message, estimate_cost, **cell(10, 2.0, 1.0, 0.5, 0.0) | changes)


def test_arguments_of_the_largest_dimension():
    for changes, message in (({"memory": 10.0}, "memory must be enough for d = 1, got 10.0"),):
        value_error(message, largest_dimension, **{"tau": 2.0, "memory": 2.0**30} | changes)
