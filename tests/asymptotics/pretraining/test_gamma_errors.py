"""Exact errors of a given Gamma: simulation, tokens, other number systems, by hand."""

import math

import array_api_strict
import mpmath
import numpy as np
import pytest
import sympy
from sampled_means import assert_mean

from iclimit.asymptotics.descent import optimal_preconditioner, preconditioner_loss
from iclimit.asymptotics.pretraining import errors_of_gamma, expected_gamma, optimal_gamma
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import context_summary, draw_prompts
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.simulate.prompts.summary_moments import (
    exact_error,
    fresh_task_moments,
    squared_errors,
    task_set_moments,
    whitened_gamma,
)

BACKEND = get_backend("numpy")
ROUNDING = 1e-12
TEST_PROMPTS = 40_000


def root(covariance):
    values, basis = np.linalg.eigh(covariance)
    return (basis * np.sqrt(values)) @ basis.T


def made_up(d, seed):
    """Gamma, tasks, and covariances of tasks and inputs that do not commute."""
    generator = np.random.default_rng([d, seed])
    gamma = np.eye(d, d + 1) + generator.standard_normal((d, d + 1)) / math.sqrt(d)
    wishart = [each @ each.T / 9 for each in generator.standard_normal((2, d, 9))]
    return gamma, generator.standard_normal((3, d)), wishart[0], wishart[1]


@pytest.mark.parametrize("task_law", ["sphere", "gaussian"])
@pytest.mark.parametrize(("d", "context", "rho"), [(1, 1, 0.3), (4, 6, 0.0), (7, 40, 0.2)])
def test_the_simulation_has_the_same_errors(d, context, rho, task_law):
    gamma, tasks, C, sigma = made_up(d, 1)
    isotropic = errors_of_gamma(gamma, context=context, rho=rho, tasks=tasks, task_law=task_law)
    fresh = fresh_task_moments(BACKEND, d, context, rho, task_law)
    given = task_set_moments(BACKEND, tasks, context, rho)
    assert isotropic.icl == pytest.approx(float(exact_error(gamma, fresh)), rel=ROUNDING)
    assert isotropic.idg == pytest.approx(float(exact_error(gamma, given)), rel=ROUNDING)

    test = {"test_covariance": C, "test_context": context + 3, "test_rho": rho + 0.1}
    setting = {"context": context, "rho": rho, "task_law": task_law, "input_covariance": sigma}
    found = errors_of_gamma(gamma, tasks=tasks, **test, **setting)
    half = root(sigma)
    seen = whitened_gamma(gamma, half)
    scatter = half @ C @ half
    test = fresh_task_moments(BACKEND, d, context + 3, rho + 0.1, "gaussian", covariance=scatter)
    assert found.icl == pytest.approx(float(exact_error(seen, test)), rel=ROUNDING)
    given = task_set_moments(BACKEND, tasks @ half, context, rho)
    assert found.idg == pytest.approx(float(exact_error(seen, given)), rel=ROUNDING)
    # Tasks on the sphere and inputs that are not isotropic.
    found = errors_of_gamma(gamma, **setting)
    moments = fresh_task_moments(BACKEND, d, context, rho, task_law, covariance=sigma)
    assert found.icl == found.idg == pytest.approx(float(exact_error(seen, moments)), rel=ROUNDING)


@pytest.mark.parametrize("fresh", [True, False])
def test_tokens_show_these_errors(fresh):
    d = 3
    context = 5
    rho = 0.2
    gamma, task_set, C, sigma = made_up(d, 2)
    generator = np.random.default_rng(3)
    tasks = task_set[generator.integers(0, len(task_set), TEST_PROMPTS)]
    if fresh:
        law = Problem(d, 1, task_law="gaussian", task_covariance=C)
        tasks = draw_fresh_tasks(law, BACKEND, generator, TEST_PROMPTS)
    law = Problem(d, context, noise_variance=rho, input_covariance=sigma)
    prompts = draw_prompts(law, BACKEND, generator, len(tasks), tasks=tasks)
    samples = squared_errors(gamma, prompts.query, context_summary(prompts), prompts.query_label)
    exact = errors_of_gamma(
        gamma, context=context, rho=rho, tasks=task_set, task_covariance=C, input_covariance=sigma
    )
    assert_mean(samples, exact.icl if fresh else exact.idg)


def test_stacks_and_square_matrices():
    gamma, tasks, C, sigma = made_up(5, 4)
    setting = {"context": 7, "rho": 0.1, "tasks": tasks, "task_covariance": C}
    setting["input_covariance"] = sigma
    stack = gamma * np.arange(6).reshape(2, 3, 1, 1)
    found = errors_of_gamma(stack, **setting)
    assert found.icl.shape == found.idg.shape == (2, 3)
    for index in np.ndindex(2, 3):
        single = errors_of_gamma(stack[index], **setting)
        assert isinstance(single.icl, float)
        assert (found.icl[index], found.idg[index]) == pytest.approx((single.icl, single.idg))
    padded = np.concatenate([stack[..., :5], 0 * stack[..., :1]], axis=-1)
    square = errors_of_gamma(stack[..., :5], **setting)
    assert square.idg == pytest.approx(errors_of_gamma(padded, **setting).idg, rel=ROUNDING)
    assert square.icl[0, 0] == pytest.approx(np.trace(C @ sigma) / 5 + 0.1)


def test_other_arrays_are_computed_with_where_they_are():
    gamma, tasks, _, sigma = made_up(4, 5)
    setting = {"context": 7, "rho": 0.1, "tasks": tasks, "input_covariance": sigma}
    strict = errors_of_gamma(array_api_strict.asarray(gamma[None]), **setting)
    assert strict.icl.__array_namespace__() is array_api_strict
    expected = errors_of_gamma(gamma, **setting)
    assert float(strict.icl[0]) == pytest.approx(expected.icl, rel=ROUNDING)
    assert float(strict.idg[0]) == pytest.approx(expected.idg, rel=ROUNDING)


def test_fifty_digits():
    gamma, tasks, C, sigma = made_up(3, 6)
    setting = {"tasks": tasks, "task_covariance": C, "input_covariance": sigma}
    found = errors_of_gamma(gamma, context=4, rho=0.3, **setting)
    with mpmath.workdps(50):
        rho = mpmath.mpf("0.3")
        exact = errors_of_gamma(mpmath.matrix(gamma.tolist()), context=4, rho=rho, **setting)
        assert isinstance(exact.icl, mpmath.mpf)
        assert abs(found.icl / exact.icl - 1) < ROUNDING
        assert abs(found.idg / exact.idg - 1) < ROUNDING
        # Where float64 has lost all digits: the error of the best matrix in a long context.
        length = mpmath.mpf(10) ** 30
        step = mpmath.eye(2) / (1 + 3 / length)
        least = errors_of_gamma(step, context=length, rho=0).icl
        assert abs(least * length / 3 - 1) < mpmath.mpf(10) ** -15


def test_formula_of_one_step_by_hand():
    """Isotropic inputs: 1 + rho - 2 eta + eta^2 (1 + (d + 1 + d rho)/ell)."""
    eta, rho, length = sympy.symbols("eta rho ell", positive=True)
    for d in (1, 3):
        found = errors_of_gamma(eta * sympy.eye(d), context=length, rho=rho)
        by_hand = 1 + rho - 2 * eta + eta**2 * (1 + (d + 1 + d * rho) / length)
        assert sympy.simplify(found.icl - by_hand) == 0
    a, b, c = sympy.symbols("a b c", positive=True)
    found = errors_of_gamma(
        sympy.Matrix([[c, 0]]), context=length, rho=0, input_covariance=sympy.Matrix([[a]]),
        task_covariance=sympy.Matrix([[b]]),
    )  # fmt: skip
    # One dimension: y^ = c x_q w m with m the mean of x_i^2, E m^2 = a^2 (1 + 2/ell).
    by_hand = a * b * (1 - 2 * c * a + c**2 * a**2 * (1 + 2 / length))
    assert sympy.simplify(found.icl - by_hand) == 0


def test_the_best_gamma_on_fresh_tasks_is_the_best_preconditioner():
    d = 4
    context = 9
    rho = 0.2
    _, _, C, sigma = made_up(d, 7)
    best = optimal_gamma(context=context, rho=rho, task_covariance=C, input_covariance=sigma)
    step = optimal_preconditioner(
        sigma / d, task_covariance=C, context=context, noise_variance=rho
    )
    assert best.gamma[:, :d] == pytest.approx(step.matrix / d, rel=1e-9)
    assert best.gamma[:, d] == pytest.approx(0, abs=1e-12)
    assert best.error == pytest.approx(step.loss, rel=ROUNDING)
    gamma, *_ = made_up(d, 8)
    units = {"input_covariance": sigma / d, "noise_variance": rho, "context": context}
    loss = preconditioner_loss(d * gamma[:, :d], task_covariance=C, **units)
    setting = {"context": context, "rho": rho, "input_covariance": sigma}
    assert errors_of_gamma(gamma[:, :d], task_covariance=C, **setting).icl == pytest.approx(loss)


@pytest.mark.parametrize("given", [True, False])
def test_any_other_gamma_is_worse_by_a_quadratic(given):
    gamma, tasks, C, sigma = made_up(5, 9)
    setting = {"context": 6, "rho": 0.1, "input_covariance": sigma}
    setting |= {"tasks": tasks} if given else {"task_covariance": C}
    best = optimal_gamma(**setting)
    steps = np.array([-1.0, -1e-3, 0, 1e-3, 1.0])
    errors = errors_of_gamma(best.gamma + steps[:, None, None] * gamma, **setting).idg
    assert errors[2] == pytest.approx(best.error, rel=ROUNDING)
    excess = errors - best.error
    assert excess == pytest.approx(steps**2 * excess[-1], rel=1e-6, abs=1e-12)


def test_few_tasks_without_noise():
    """The moments are singular; the best matrix still beats that of fresh tasks."""
    tasks = np.array([[2.0, 0, 0, 0]])
    best = optimal_gamma(context=6, rho=0.0, tasks=tasks)
    assert np.all(np.isfinite(best.gamma))
    fresh = optimal_gamma(context=6, rho=0.0, dim=4)
    assert 0 <= best.error < 0.6 * fresh.error


@pytest.mark.parametrize(
    ("d", "structured", "deviation"), [(8, True, 0.16), (8, False, 0.16), (16, False, 0.07)]
)
def test_mean_matrix_of_ridge_regressions(d, structured, deviation):
    """Brute force on the features x h^T; what is left is the error of the equivalent, O(1/d)."""
    context = 2 * d
    rho = 0.2
    prompts = d**2
    ridge = 0.1
    _, tasks, _, sigma = made_up(d, 20)
    setting = {"context": context, "rho": rho, "tasks": tasks}
    covariance = np.eye(d)
    if structured:
        setting["input_covariance"] = covariance = sigma
    expected = expected_gamma(**setting, dim=d, prompts=prompts, ridge=ridge)
    generator = np.random.default_rng(21)
    total = np.zeros((d, d + 1))
    repeats = 400 // d
    for _ in range(repeats):
        drawn = tasks[generator.integers(0, len(tasks), prompts)]
        law = Problem(d, context, noise_variance=rho, input_covariance=covariance)
        found = draw_prompts(law, BACKEND, generator, tasks=drawn)
        features = found.query[:, :, None] * context_summary(found)[:, None, :]
        flat = features.reshape(prompts, -1)
        gram = flat.T @ flat + prompts / d * ridge * np.eye(flat.shape[1])
        total += np.linalg.solve(gram, flat.T @ found.query_label).reshape(d, d + 1)
    mean = total / repeats
    length = np.vdot(mean, expected) / np.sum(expected**2)
    best = np.vdot(optimal_gamma(**setting).gamma, expected) / np.sum(expected**2)
    assert abs(length - 1) < deviation < 0.17 < best - 1


def test_with_many_prompts_the_mean_matrix_is_the_best():
    _, tasks, _, sigma = made_up(4, 22)
    setting = {"context": 9, "rho": 0.2, "tasks": tasks, "input_covariance": sigma}
    many = expected_gamma(**setting, dim=4, prompts=10**9, ridge=1e-9)
    assert many == pytest.approx(optimal_gamma(**setting).gamma, rel=1e-5, abs=1e-7)
    none = expected_gamma(**setting, dim=4, prompts=10**9)
    assert none == pytest.approx(optimal_gamma(**setting).gamma, rel=1e-9, abs=1e-11)


TAIL = np.array([[0.5, 0.1, 0, 0.1], [0, 0.5, 0, -0.2], [0.2, 0, 0.5, 0.3]])


@pytest.mark.parametrize("gamma", [TAIL[:, :3], TAIL * [1, 1, 1, 0], TAIL, 1e-200 * TAIL])
@pytest.mark.parametrize(
    "law",
    [
        *({"tasks": size * np.eye(3)} for size in (1e80, 1e150, 1e200)),
        *({"rho": rho} for rho in (1e120, 1e300)),
        *({"task_covariance": size * np.eye(3)} for size in (1e100, 1e250)),
        *({"input_covariance": size * np.eye(3)} for size in (1e60, 1e200)),
    ],
)
def test_large_numbers(gamma, law):
    """Errors that float64 holds are those in 30 digits, and others are infinite."""
    law = {"rho": 0.1} | law
    found = errors_of_gamma(gamma, context=10, **law)
    with mpmath.workdps(30):
        exact = errors_of_gamma(
            mpmath.matrix(gamma.tolist()),
            context=10,
            **{n: mpmath.matrix(v.tolist()) if np.ndim(v) else v for n, v in law.items()},
        )
    for error, known in ((found.icl, exact.icl), (found.idg, exact.idg)):
        assert error == pytest.approx(float(known), rel=1e-13)


def test_the_best_gamma_of_large_tasks():
    """Tasks and noise of another unit have the same best matrix, in that unit."""
    tasks = np.array([[1.0, 0.5, 0], [0, 2, 1]])
    best = optimal_gamma(context=7, rho=0.3, tasks=tasks)
    large = optimal_gamma(context=7, rho=0.3e200, tasks=1e100 * tasks)
    np.testing.assert_allclose(large.gamma * [1, 1, 1, 1e100], best.gamma, rtol=1e-9, atol=1e-12)
    assert large.error == pytest.approx(1e200 * best.error, rel=1e-12)
