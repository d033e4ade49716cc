"""One pass of SGD over prompts of fixed tasks: moments by quadrature, runs, fresh tasks."""

from itertools import product

import numpy as np
import pytest

import iclimit
from iclimit.asymptotics.pretraining import one_pass_errors, one_pass_task_errors
from iclimit.asymptotics.pretraining.one_pass_tasks import TaskSetContexts
from iclimit.simulate.pretraining import simulate_one_pass

# Standard errors that the worst of some ten simulated numbers may lie off.
SIGMAS = 4.0
RHO = 0.3


def contexts(tasks, context):
    """Tasks, summaries and weights of Gauss-Hermite nodes, exact for polynomials to order 9."""
    dim = tasks.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    tokens = context * (dim + 1)
    values = np.array(list(product(nodes, repeat=tokens)))
    weight = np.prod(list(product(weights / weights.sum(), repeat=tokens)), axis=1)
    x = values[:, : context * dim].reshape(-1, context, dim) / np.sqrt(dim)
    noise = np.sqrt(RHO) * values[:, context * dim :]
    for w in tasks:
        y = x @ w + noise
        h = np.empty((len(x), dim + 1))
        h[:, :-1] = dim / context * np.einsum("nl,nld->nd", y, x)
        h[:, -1] = np.mean(y**2, axis=1)
        yield w, h, weight / len(tasks)


@pytest.mark.parametrize(("dim", "context"), [(1, 2), (2, 1), (2, 2)])
def test_moments_by_quadrature(dim, context):
    rng = np.random.default_rng(dim)
    tasks = rng.standard_normal((3, dim))
    tasks[2] = 0  # a task without labels
    square = rng.standard_normal((dim + 1, dim + 1))
    square = square @ square.T
    mean = rng.standard_normal((dim, dim + 1))
    moments = TaskSetContexts.of(tasks, context, RHO)
    second = np.zeros_like(square)
    cross = np.zeros_like(mean)
    misfit = np.zeros_like(square)
    for w, h, weight in contexts(tasks, context):
        second += (h * weight[:, None]).T @ h
        cross += np.outer(w, weight @ h)
        squared = np.einsum("ni,ij,nj->n", h, square, h) - 2 * h @ mean.T @ w + w @ w
        misfit += (h * (weight * squared)[:, None]).T @ h
    np.testing.assert_allclose(moments.second(), second, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.cross(), cross, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.misfit(square, mean), misfit, rtol=1e-11, atol=1e-11)


def test_runs_have_these_means():
    rng = np.random.default_rng(1)
    tasks = rng.standard_normal((3, 4))
    law = iclimit.Problem(dim=4, context=6, tasks=tasks, noise_variance=0.2, task_law="sphere")
    run = iclimit.Experiment(law, prompts=180, training=iclimit.SGD(0.04, batch=3))
    runs = simulate_one_pass(run, record=20, rng=1, repeats=600)
    training = {"batch": 3, "learning_rate": 0.04}
    theory = one_pass_task_errors(steps=runs.steps, task_set=tasks, context=6, rho=0.2, **training)
    for name in ("icl", "idg"):
        errors = getattr(runs, name)
        standard_error = np.std(errors, axis=0) / np.sqrt(len(errors))
        assert np.all(standard_error < 0.03 * np.mean(errors, axis=0))
        deviation = np.mean(errors, axis=0) - getattr(theory, name)
        assert np.max(abs(deviation / standard_error)) < SIGMAS


def test_very_many_tasks_are_fresh_ones():
    """Means over task sets of two sizes, extrapolated in the inverse number of tasks."""
    rng = np.random.default_rng(2)
    setting = {"context": 8, "batch": 2, "rho": 0.1, "steps": 40, "learning_rate": 0.04}
    means = []
    standard_errors = []
    for number, sets in ((200, 20), (800, 10)):
        errors = []
        for _ in range(sets):
            tasks = rng.standard_normal((number, 4))
            tasks *= 2 / np.linalg.norm(tasks, axis=1, keepdims=True)
            result = one_pass_task_errors(task_set=tasks, **setting)
            errors.append((float(result.icl), float(result.idg)))
        means.append(np.mean(errors, axis=0))
        standard_errors.append(np.std(errors, axis=0) / np.sqrt(sets))
    limit = (4 * means[1] - means[0]) / 3
    standard_error = np.hypot(4 * standard_errors[1], standard_errors[0]) / 3
    assert np.all(standard_error < 3e-4)
    fresh = one_pass_errors(dim=4, **setting).icl
    assert np.all(abs(limit - fresh) < SIGMAS * standard_error)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rates": [0.1] * 9}, "pass one of them"),
        ({"learning_rate": None}, "pass one of them"),
        ({"learning_rate": None, "rates": [0.1]}, "one rate for each of 3 steps"),
        ({"task_set": np.ones(4)}, "task_set must have shape"),
        ({"steps": 1.5}, "steps must be an integer"),
        ({"steps": 2_000_000}, "steps must be at most"),
        ({"batch": 0}, "batch must be"),
        ({"rho": -1}, "rho must be"),
        ({"rho": [0.1, 0.2]}, "rho must be one number"),
    ],
)
def test_bad_input_is_named(changes, message):
    setting = {"steps": 3, "task_set": np.eye(4), "context": 5, "batch": 2, "rho": 0.1}
    with pytest.raises(ValueError, match=message):
        one_pass_task_errors(**(setting | {"learning_rate": 0.1} | changes))


def test_rates_without_a_mean_are_said():
    setting = {"task_set": np.eye(4), "context": 5, "batch": 1, "rho": 0.1}
    with pytest.raises(ValueError, match=r"learning_rate must be below .*, got 5: the mean"):
        one_pass_task_errors(steps=3000, learning_rate=5.0, **setting)
    with pytest.raises(ArithmeticError, match="rates are too large"):
        one_pass_task_errors(steps=3000, rates=np.full(3000, 5.0), **setting)


def on_sphere(rng, count, dim):
    tasks = rng.standard_normal((count, dim))
    return tasks * np.sqrt(dim) / np.linalg.norm(tasks, axis=1, keepdims=True)


@pytest.mark.parametrize(("dim", "batch"), [(5, 1), (6, 4)])
def test_the_stable_rate_is_where_the_mean_square_grows(dim, batch):
    """Spectral radius of the step on all symmetric matrices, from averages of contexts."""
    rng = np.random.default_rng(dim)
    tasks = on_sphere(rng, 3, dim)
    law = TaskSetContexts.of(tasks, 8, 0.1)
    time = law.stable_time(batch)
    R = law.second()
    size = dim + 1
    still = law.misfit(np.zeros((size, size)), np.zeros((dim, size)))

    def step(flat, t):
        G = flat.reshape(size, size)
        G = (G + G.T) / 2
        fourth = law.misfit(G, np.zeros((dim, size))) - still
        grown = (1 - 1 / batch) * R @ G @ R + (dim + 2) / batch * fourth
        return np.ravel(G - t * (G @ R + R @ G) + t**2 * grown)

    for factor in (0.98, 1.0, 1.02):
        whole = [step(unit, factor * time) for unit in np.eye(size**2)]
        radius = np.max(np.abs(np.linalg.eigvals(whole)))
        assert np.sign(round(radius - 1, 9)) == np.sign(factor - 1)


def test_contexts_that_are_zero_have_no_unstable_rate():
    setting = {"task_set": np.zeros((2, 4)), "context": 5, "batch": 2, "rho": 0.0}
    errors = one_pass_task_errors(steps=9, learning_rate=1e6, **setting)
    assert (errors.icl, errors.idg) == (1.0, 0.0)


def test_thousands_of_steps_next_to_the_stable_rate_stay_errors():
    """Rounding that is not symmetric grew until errors were -1e17."""
    rng = np.random.default_rng(0)
    setting = {"task_set": on_sphere(rng, 3, 6), "context": 8, "batch": 4, "rho": 0.1}
    law = TaskSetContexts.of(setting["task_set"], 8, 0.1)
    rate = 0.99 * law.stable_time(4) * 6 / 2
    errors = one_pass_task_errors(steps=[1000, 4000, 8000], learning_rate=rate, **setting)
    for values in (errors.icl, errors.idg):
        assert np.all(np.diff(values) >= 0)
        assert values[2] == pytest.approx(values[1], rel=0.05)
