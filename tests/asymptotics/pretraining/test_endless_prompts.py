"""Errors after endless prompts: ridge regression with the moments of contexts drawn from tokens.

With endlessly many prompts the learned matrix is the ridge solution of the population, and the
errors are functions of second moments of the features only.  These are taken here from contexts
that are drawn token by token.
"""

import math

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import finite_size_errors

DIM, PROMPTS, RIDGE = 3, 10**12, 0.3

# Draws in all, and the parts of them that are left out in turn for standard errors.
DRAWS, PARTS = 80_000, 20
STANDARD_ERRORS = 4.0

GATES = np.array([0.4, 1.0, 0.7, 0.2, 0.9])


def path(rng, kept, count, length):
    """Stationary Gaussian sequences (length, count, DIM) with this correlation of neighbours."""
    values = [rng.standard_normal((count, DIM))]
    for _ in range(length - 1):
        fresh = rng.standard_normal((count, DIM))
        values.append(kept * values[-1] + math.sqrt(1 - kept**2) * fresh)
    return values


def prompts(rng, last_task, setting):
    """Features x_q h^T and query labels of prompts, from tokens, backwards from the query."""
    count = len(last_task)
    gates = setting["gates"]
    length = len(gates)
    inputs = [x / math.sqrt(DIM) for x in path(rng, setting["correlation"], count, length + 1)]
    query = inputs[0]
    if not setting["correlated_query"]:
        query = rng.standard_normal((count, DIM)) / math.sqrt(DIM)
    noise = math.sqrt(setting["rho"]) * rng.standard_normal((length + 1, count))
    label = np.sum(query * last_task, axis=1) + noise[0]
    kept = math.exp(-setting["drift"] / DIM)
    task = last_task
    head = np.zeros((count, DIM))
    tail = np.zeros(count)
    for age in range(1, length + 1):
        task = kept * task + math.sqrt(1 - kept**2) * rng.standard_normal((count, DIM))
        y = np.sum(inputs[age] * task, axis=1) + noise[age]
        gate = gates[length - age]
        head += DIM / length * (gate * y)[:, None] * inputs[age]
        tail += gate * y**2 / length
    h = np.column_stack([head, tail])
    return (query[:, :, None] * h[:, None, :]).reshape(count, -1), label


def on_sphere(rng, count):
    tasks = rng.standard_normal((count, DIM))
    return math.sqrt(DIM) * tasks / np.linalg.norm(tasks, axis=1, keepdims=True)


def moments(features, labels):
    """Second moments of the features, their products with the labels, and those of the labels."""
    count = len(labels)
    return features.T @ features / count, features.T @ labels / count, labels @ labels / count


def parts_of(rng, draw_tasks, setting):
    parts = [moments(*prompts(rng, draw_tasks(DRAWS // PARTS), setting)) for _ in range(PARTS)]
    return [np.array(column) for column in zip(*parts, strict=True)]


def error(train, test):
    """Error on a law of the matrix that is learned from another one; both are given by moments."""
    second, products, _ = train
    weights = np.linalg.solve(second + RIDGE / DIM * np.eye(len(second)), products)
    second, products, square = test
    return square - 2 * weights @ products + weights @ second @ weights


def jackknife(train, test):
    """Error for the means over parts, and its standard error."""
    whole = error([x.mean(axis=0) for x in train], [x.mean(axis=0) for x in test])
    left_out = [
        error(*([np.delete(x, i, axis=0).mean(axis=0) for x in law] for law in (train, test)))
        for i in range(PARTS)
    ]
    bias = (PARTS - 1) * (np.mean(left_out) - whole)
    return whole - bias, math.sqrt((PARTS - 1) * np.var(left_out))


PLAIN = {"gates": np.ones(5), "drift": 0.0, "correlation": 0.0, "correlated_query": False}
CASES = {
    "noise and gates": {"gates": GATES, "rho": 1.5},
    "correlated": {"gates": GATES, "correlation": 0.8},
    "drifting": {"gates": GATES, "drift": 3.0, "correlation": 0.7},
    "query": {"correlation": 0.7, "correlated_query": True},
    "drifting query": {
        **{"gates": GATES, "drift": 3.0, "correlation": 0.8, "correlated_query": True}
    },
}


@pytest.mark.parametrize("case", CASES)
def test_errors_after_endless_prompts(case):
    rng = np.random.default_rng(7)
    setting = PLAIN | {"rho": 0.2} | CASES[case]
    tasks = on_sphere(rng, 2)
    if setting["correlated_query"]:
        # Moments of the last column are of first order in 1/d there; it is zero for such tasks.
        tasks = np.concatenate([tasks, -tasks])
    train = parts_of(rng, lambda count: tasks[rng.integers(0, len(tasks), count)], setting)
    fresh = parts_of(rng, lambda count: on_sphere(rng, count), setting)
    run = {"dim": DIM, "context": len(setting["gates"]), "prompts": PROMPTS, "ridge": RIDGE}
    found = finite_size_errors(**run, **setting, tasks=tasks, approach="moments")
    for theory, test in ((found.icl.mean, fresh), (found.idg.mean, train)):
        expected, standard_error = jackknife(train, test)
        assert standard_error < 0.02 * expected
        assert abs(theory - expected) < STANDARD_ERRORS * standard_error
