"""Every algorithm against a plain computation on single prompts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from iclimit.problem import Problem
from iclimit.simulate.probing import predictors
from iclimit.simulate.prompts import Prompts, sample_prompts

ROOT = np.array([[1.2, 0.4, 0.0], [0.4, 0.9, 0.2], [0.0, 0.2, 0.5]])
ROUNDING = 1e-10  # relative, of solutions of well-conditioned systems


@pytest.fixture(params=[7, 2], ids=["long", "short"])
def prompts(request):
    """Contexts longer and shorter than the dimension."""
    return sample_prompts(
        Problem(dim=3, context=request.param, noise_law="categorical:0.5,1", scale=1), 5, rng=0
    )


def contexts(prompts):
    return list(zip(prompts.inputs, prompts.labels, strict=True))


def assert_weights(found, expected):
    assert np.allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)


def test_gdpp_is_the_layers_of_its_definition(prompts):
    rates = [0.3, 0.9, 2.0]
    gammas = [0.2, 0.7]
    weights = predictors.gdpp_weights(prompts, rates, gammas)
    found = predictors.linear_predictor(lambda _: weights)(prompts)
    for index, (x, y) in enumerate(contexts(prompts)):
        query = prompts.query[index]
        answer = 0.0
        residual = y
        length = len(y)
        for rate, gamma in zip(rates, [*gammas, 0.0], strict=True):
            answer += rate / length * query @ x.T @ residual
            residual = residual - rate / length * x @ x.T @ residual
            query = query - gamma / length * query @ x.T @ x
            x = x - gamma / length * x @ x.T @ x
        assert found[index] == pytest.approx(answer, rel=ROUNDING)


def test_ridge_regression_solves_the_augmented_least_squares(prompts):
    penalty = 0.1 + prompts.noise_variance
    for root in (None, ROOT):
        expected = []
        for (x, y), strength in zip(contexts(prompts), penalty, strict=True):
            inverse_root = np.eye(3) if root is None else np.linalg.inv(root)
            rows = np.concatenate([x, np.sqrt(strength) * inverse_root])
            expected.append(np.linalg.lstsq(rows, np.append(y, np.zeros(3)))[0])
        weights = predictors.regression_weights(prompts, penalty, task_root=root)
        assert_weights(weights, expected)


def test_least_squares_is_that_of_lapack(prompts):
    plain = [np.linalg.lstsq(x, y)[0] for x, y in contexts(prompts)]
    assert_weights(predictors.regression_weights(prompts, 0.0), plain)
    rooted = [ROOT @ np.linalg.lstsq(x @ ROOT, y)[0] for x, y in contexts(prompts)]
    assert_weights(predictors.regression_weights(prompts, 0.0, task_root=ROOT), rooted)


@pytest.mark.machine
def test_least_squares_takes_equal_inputs():
    x = np.array([[[1.0, 1.0], [1.0, 1.0], [-1.0, -1.0]]])
    prompts = Prompts(x, np.array([[2.0, 1.0, 0.0]]), x[:, 0], x[:, 0], np.ones(1))
    assert_weights(predictors.regression_weights(prompts, 0.0), [np.array([0.5, 0.5])])


def test_adaptive_ridge_estimates_the_noise_from_the_residuals(prompts):
    expected = []
    for x, y in contexts(prompts):
        residual = y - x @ np.linalg.lstsq(x, y)[0]
        penalty = residual @ residual / max(len(y) - 3, 1) / 2.5
        inverse = np.linalg.pinv(x.T @ x + penalty * np.eye(3), rcond=1e-12)
        expected.append(inverse @ x.T @ y)
    assert_weights(predictors.adaptive_ridge_weights(prompts, 2.5), expected)


def test_mixture_of_noise_levels_is_the_posterior_mean(prompts):
    variances = np.array([0.1, 0.5, 2.0])
    chances = np.array([0.2, 0.5, 0.3])
    expected = []
    for x, y in contexts(prompts):
        covariances = 1.7 * x @ ROOT @ ROOT @ x.T + variances[:, None, None] * np.eye(len(y))
        density = [stats.multivariate_normal.pdf(y, cov=each) for each in covariances]
        means = [1.7 * ROOT @ ROOT @ x.T @ np.linalg.solve(each, y) for each in covariances]
        posterior = chances * density / np.sum(chances * density)
        expected.append(posterior @ means)
    found = predictors.noise_mixture_weights(prompts, variances, chances, 1.7, task_root=ROOT)
    assert_weights(found, expected)


def test_labels_that_are_zero_have_no_weights(prompts):
    silent = replace(prompts, labels=0 * prompts.labels)
    mixture = predictors.noise_mixture_weights(silent, np.array([0.0, 1.0]), np.ones(2) / 2, 1.0)
    for weights in (mixture, predictors.adaptive_ridge_weights(silent, 1.0)):
        assert not np.any(weights)


def test_dmmse_is_the_posterior_mean(prompts):
    tasks = np.random.default_rng(1).standard_normal((4, 3))
    expected = []
    for (x, y), variance in zip(contexts(prompts), prompts.noise_variance, strict=True):
        likelihood = np.exp(-np.sum((y - tasks @ x.T) ** 2, axis=1) / (2 * variance))
        expected.append(likelihood @ tasks / np.sum(likelihood))
    assert_weights(predictors.dmmse_weights(prompts, tasks), expected)


def test_dmmse_without_noise_takes_the_task_that_fits():
    tasks = np.random.default_rng(1).standard_normal((4, 3))
    drawn = sample_prompts(Problem(dim=3, context=5, tasks=tasks, scale=1), 20, rng=0)
    assert np.array_equal(predictors.dmmse_weights(drawn, tasks), drawn.tasks)


def test_nearest_neighbours_are_those_of_a_sort(prompts):
    found = predictors.nearest_neighbours(prompts, 3)
    for index, (x, y) in enumerate(contexts(prompts)):
        order = np.argsort(np.linalg.norm(x - prompts.query[index], axis=1))
        assert found[index] == pytest.approx(np.mean(y[order[:3]]), rel=ROUNDING)


def test_softmax_heads_are_means_with_exponential_weights(prompts):
    one = predictors.softmax_heads(prompts, 0.7, 1.5)
    two = predictors.softmax_heads(prompts, 0.7, 1.5, opposite=True)
    for index, (x, y) in enumerate(contexts(prompts)):
        growth = np.exp(0.7 * x @ prompts.query[index])
        first, second = (1.5 * np.average(y, weights=each) for each in (growth, 1 / growth))
        assert one[index] == pytest.approx(first, rel=ROUNDING)
        assert two[index] == pytest.approx(first - second, rel=ROUNDING)


def test_neighbours_at_one_distance_share_their_places():
    x = np.array([[[0.0, 1.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 0.5]]])
    drawn = Prompts(x, np.array([[1.0, 2.0, 3.0, 10.0]]), 0 * x[:, 0], x[:, 0], np.ones(1))
    # The nearest counts once, the other three share two places.
    assert predictors.nearest_neighbours(drawn, 3)[0] == pytest.approx((10 + 2 / 3 * 6) / 3)


@pytest.mark.machine
def test_blocks_change_nothing():
    drawn = sample_prompts(Problem(dim=3, context=6, scale=1), 50, rng=0)
    predict = predictors.linear_predictor(lambda each: predictors.regression_weights(each, 0.0))
    blockwise = predictors.in_blocks(predict, predictors.BLOCK_NUMBERS // 7)
    assert np.array_equal(blockwise(drawn), predict(drawn))


@pytest.mark.parametrize("gate", [1.0, 0.85])
def test_delta_rule_takes_one_pair_after_the_other(prompts, gate):
    steps = np.linspace(0.2, 0.05, prompts.labels.shape[1])
    expected = []
    for x, y in contexts(prompts):
        w = np.zeros(3)
        for step, token, label in zip(steps, x, y, strict=True):
            w = gate * w
            w = w + step * (label - token @ w) * token
        expected.append(w)
    assert_weights(predictors.delta_rule_weights(prompts, steps, gate), expected)


def test_lasso_without_a_penalty_is_least_squares():
    """To the tolerance of its sweeps, where the contexts determine the weights."""
    drawn = sample_prompts(Problem(dim=3, context=12, noise_variance=0.5, scale=1), 5, rng=0)
    expected = predictors.regression_weights(drawn, 0.0)
    assert np.allclose(predictors.lasso_weights(drawn, 0.0), expected, rtol=1e-4, atol=1e-5)


def test_smoother_is_a_mean_with_gaussian_weights(prompts):
    answers = predictors.gaussian_smoother(prompts, 0.9)
    for index, (x, y) in enumerate(contexts(prompts)):
        distance = np.sum((x - prompts.query[index]) ** 2, axis=1)
        expected = np.average(y, weights=np.exp(-distance / (2 * 0.9**2)))
        assert answers[index] == pytest.approx(expected, rel=ROUNDING)
