"""Noisy prompts against moments, the oracle against joint Gaussians, the adjusted loss."""

import math
from functools import partial
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iclimit.simulate.arrays import Backend, get_backend
from iclimit.simulate.gdpp.noisy_regression import NoiseLevels, NoisyRegression, gram_matrices
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.simulate.pretraining.prompts import Prompts

NUMPY = get_backend("numpy")
Z_MAX = 4.0  # about 80 comparisons: one beyond in 200 seeds
ROUNDING = 1e-12  # relative; the same sums in another order
SQUARED_CONDITION = 1e-7  # square systems without ridge: X^T X has squared conditions up to 1e8
COUNT = 20_000
LAWS = ("fixed:0", "fixed:1.5", "uniform:3", "categorical:1,3")
SQUARE_AND_FOURTH = {  # of the noise level
    "fixed:0": (0, 0),
    "fixed:1.5": (2.25, 5.0625),
    "uniform:3": (3, 16.2),
    "categorical:1,3": (5, 41),
}


def assert_mean(values: np.ndarray, expected: float) -> None:
    """Sample mean within so many standard errors; constant samples exactly."""
    error = np.std(values) / math.sqrt(values.size)
    assert abs(np.mean(values) - expected) <= Z_MAX * error + ROUNDING * abs(expected)


@pytest.mark.parametrize(
    ("spec", "kind", "levels", "mean_variance"),
    [
        ("fixed:0", "fixed", (0.0,), 0.0),
        ("fixed:2", "fixed", (2.0,), 4.0),
        ("uniform:3", "uniform", (3.0,), 3.0),
        ("uniform: 1e-3", "uniform", (1e-3,), 1e-6 / 3),
        ("categorical:1,3", "categorical", (1.0, 3.0), 5.0),
        ("categorical:2", "categorical", (2.0,), 4.0),
        ("categorical:1,1,4", "categorical", (1.0, 1.0, 4.0), 6.0),
        ("fixed:1e100", "fixed", (1e100,), 1e200),
    ],
)
def test_specs(spec: str, kind: str, levels: tuple[float, ...], mean_variance: float) -> None:
    law = NoiseLevels.parse(spec)
    assert (law.kind, law.levels) == (kind, levels)
    assert law.mean_variance == pytest.approx(mean_variance, rel=1e-15)
    assert NoiseLevels.parse(law) is law
    assert NoisyRegression(spec) == NoisyRegression(law)


@given(
    st.sampled_from(["fixed", "uniform", "categorical"]),
    st.lists(st.floats(0, 1e100), min_size=1, max_size=4),
)
def test_text_keeps_every_digit(kind: str, levels: list[float]) -> None:
    law = NoiseLevels(kind, tuple(levels if kind == "categorical" else levels[:1]))
    assert NoiseLevels.parse(str(law)) == law


def test_text_is_as_given() -> None:
    for spec in ("fixed:1", "uniform:0.25", "categorical:1,3,5", "fixed:1.23456789", "fixed:0"):
        assert str(NoiseLevels.parse(spec)) == spec


@pytest.mark.parametrize(
    "spec",
    [
        "",
        ":",
        "fixed",
        "fixed:",
        "fixed:-1",
        "fixed:nan",
        "fixed:inf",
        "fixed:1e101",
        "fixed:1,2",
        "fixed:1:2",
        "uniform:1,2",
        "uniform:x",
        "categorical:",
        "categorical:1,",
        "categorical:,1",
        "categorical:1,-2",
        "categorical:1,nan",
        "gauss:1",
        "FIXED:1",
        "1",
        1.0,
        None,
        ["fixed", 1],
        b"fixed:1",
    ],
)
def test_wrong_specs(spec: Any) -> None:
    with pytest.raises(ValueError, match=r"^noise_law must be fixed:SIGMA, .* got ") as caught:
        NoisyRegression(spec)
    assert str(caught.value).endswith(f"got {spec!r}")


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        ("fixed", ()),
        ("fixed", (1.0, 2.0)),
        ("fixed", (-1.0,)),
        ("uniform", (math.nan,)),
        ("categorical", ()),
        ("categorical", (1.0, math.inf)),
        ("normal", (1.0,)),
    ],
)
def test_wrong_laws(kind: str, levels: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"noise_law must be fixed:SIGMA, .* from 0 to 1e"):
        NoiseLevels(kind, levels)


@pytest.mark.parametrize("name", ["context", "dim"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None, math.inf])
def test_wrong_sizes(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got "):
        NoisyRegression("fixed:1", **{name: value})


@pytest.mark.parametrize("spec", LAWS)
def test_levels_have_their_law(spec: str) -> None:
    law = NoiseLevels.parse(spec)
    levels = law.sample(NUMPY, np.random.default_rng(1), COUNT)
    assert levels.shape == (COUNT,)
    square, fourth = SQUARE_AND_FOURTH[spec]
    assert_mean(levels**2, square)
    assert_mean(levels**4, fourth)
    if law.kind == "uniform":
        share, _ = np.histogram(levels, bins=10, range=(0, 3))
        spread = math.sqrt(COUNT * 0.1 * 0.9)
        assert share.sum() == COUNT
        assert np.max(np.abs(share - COUNT / 10)) < Z_MAX * spread
    else:
        assert set(levels) == set(law.levels)


@pytest.mark.parametrize("spec", LAWS)
def test_prompts_have_their_law(spec: str) -> None:
    context, dim = 3, 2
    found = NoisyRegression(spec, context, dim).sample(NUMPY, np.random.default_rng(2), COUNT)
    prompts, square = found.prompts, SQUARE_AND_FOURTH[spec][0]
    x = np.concatenate([prompts.x, prompts.x_query[:, None]], axis=1)
    y = np.concatenate([prompts.y, prompts.y_query[:, None]], axis=1)
    assert (x.shape, y.shape) == ((COUNT, context + 1, dim), (COUNT, context + 1))
    assert (found.tasks.shape, found.levels.shape) == ((COUNT, dim), (COUNT,))
    noise = y - np.einsum("nti,ni->nt", x, found.tasks)
    for t in range(context + 1):  # the query's label is as noisy as the others
        assert_mean(y[:, t] ** 2, dim + square)
        np.testing.assert_array_less(noise[found.levels == 0] ** 2, ROUNDING)
        scaled = noise[:, t] / np.where(found.levels > 0, found.levels, 1)
        assert_mean(scaled[found.levels > 0] ** 2 if spec != "fixed:0" else np.ones(1), 1)
    assert_mean(noise[:, 0] * noise[:, -1], 0)
    assert_mean(x[:, 0, 0] * x[:, 0, 1], 0)
    assert_mean(x[:, 0, 0] * x[:, -1, 0], 0)
    assert_mean(x[:, 1, 1] ** 4, 3)
    assert_mean(found.tasks[:, 0] ** 4, 3)


@pytest.mark.parametrize("spec", LAWS)
@pytest.mark.parametrize(("context", "dim"), [(4, 2), (2, 3), (20, 10)])
def test_weighted_contexts_have_the_plain_means(spec: str, context: int, dim: int) -> None:
    found = NoisyRegression(spec, context, dim).summaries(
        NUMPY, np.random.default_rng(3), COUNT, rare=True
    )
    square, fourth = SQUARE_AND_FOURTH[spec]
    gram, weights = found.gram, found.weights
    assert (gram.shape, found.oracle.shape) == ((COUNT, dim + 1, dim + 1), (COUNT, dim))
    assert np.all(weights > 0)
    assert np.max(weights) <= 5 / 3 * (1 + ROUNDING)  # the plain part has a share of 6/10
    assert_mean(weights, 1)
    assert_mean(weights * found.levels**4, fourth)
    labels = gram[:, -1, -1]
    assert_mean(weights * labels, context * (dim + square))
    assert_mean(weights * gram[:, 0, 0] ** 2, context * (context + 2))
    assert_mean(weights * gram[:, 0, 0] * gram[:, 1, 1], context**2)
    assert_mean(weights * gram[:, 0, 1] ** 2, context)
    moment = context * dim * (context + dim + 1 + square)  # E tr S^2 = N d (N + d + 1)
    assert_mean(weights * np.sum(gram[:, -1, :-1] ** 2, axis=1), moment)


def test_contexts_of_the_law_itself() -> None:
    """Weights of one, and the contexts of the mixture's plain part."""
    problem = NoisyRegression("uniform:2", 4, 3)
    plain, mixed = (
        problem.summaries(NUMPY, np.random.default_rng(15), 200, rare=rare)
        for rare in (False, True)
    )
    np.testing.assert_array_equal(plain.weights, np.ones(200))
    np.testing.assert_array_equal(plain.levels, mixed.levels)
    same = np.all(plain.gram == mixed.gram, axis=(1, 2))
    assert abs(np.mean(same) - 0.6) < Z_MAX * math.sqrt(0.24 / 200)
    assert_mean(
        problem.summaries(NUMPY, np.random.default_rng(16), COUNT).gram[:, -1, -1], 4 * (3 + 4 / 3)
    )


def test_weights_cut_the_error_of_rare_contexts() -> None:
    """Eighth power of the sum of squares of 20 inputs, whose moments are known."""
    moment, square = (math.prod(20 + 2 * k for k in range(power)) for power in (8, 16))
    plain = math.sqrt(square / moment**2 - 1)
    found = NoisyRegression("fixed:1", 20, 1).summaries(
        NUMPY, np.random.default_rng(4), COUNT, rare=True
    )
    heavy = found.weights * found.gram[:, 0, 0] ** 8 / moment
    assert_mean(heavy, 1)
    assert np.std(heavy) < 0.5 * plain  # plain sampling does not even see its standard deviation


def test_weights_of_thousands_of_numbers() -> None:
    """Densities beyond the largest float: weight 0, no warning."""
    found = NoisyRegression("fixed:1", context=8000, dim=1).summaries(
        NUMPY, np.random.default_rng(6), 60, rare=True
    )
    assert np.all(np.isfinite(found.weights))
    assert np.all(found.weights >= 0)
    assert np.max(found.weights) == pytest.approx(5 / 3, rel=ROUNDING)
    assert_mean(found.weights, 1)


def test_gram_matrices_are_sums_over_tokens() -> None:
    generator = np.random.default_rng(7)
    x, y = generator.standard_normal((3, 4, 2)), generator.standard_normal((3, 4))
    found = gram_matrices(x, y)
    for m in range(3):
        tokens = [np.append(x[m, i], y[m, i]) for i in range(4)]
        expected = sum(np.outer(token, token) for token in tokens)
        np.testing.assert_allclose(found[m], expected, rtol=ROUNDING, atol=ROUNDING)


SHAPES = [(1, 1), (1, 4), (3, 5), (4, 4), (5, 4), (9, 2)]


@pytest.mark.parametrize(("context", "dim"), SHAPES)
def test_oracle_is_the_posterior_mean(context: int, dim: int) -> None:
    generator = np.random.default_rng([context, dim])
    x, y = generator.standard_normal((6, context, dim)), generator.standard_normal((6, context))
    sigma = np.array([1e-3, 0.1, 1.0, 3.0, 30.0, 1e6])
    found = ridge_weights(x, y, sigma**2)
    for m in range(6):
        # Joint covariance of task and labels, both linear in independent normals.
        to_labels = np.hstack([x[m], sigma[m] * np.eye(context)])
        to_task = np.hstack([np.eye(dim), np.zeros((dim, context))])
        gain = to_task @ to_labels.T @ np.linalg.inv(to_labels @ to_labels.T)
        np.testing.assert_allclose(
            found[m], gain @ y[m], rtol=SQUARED_CONDITION, atol=1e-9 * np.max(np.abs(gain @ y[m]))
        )
        # Ridge regression as plain least squares on extended data: no squared conditions.
        data = np.vstack([x[m], sigma[m] * np.eye(dim)])
        extended = np.linalg.lstsq(data, np.append(y[m], np.zeros(dim)))[0]
        np.testing.assert_allclose(found[m], extended, rtol=SQUARED_CONDITION, atol=1e-30)


@pytest.mark.parametrize(("context", "dim"), SHAPES)
def test_oracle_without_noise_is_the_least_norm_fit(context: int, dim: int) -> None:
    generator = np.random.default_rng([1, context, dim])
    x, y = generator.standard_normal((20, context, dim)), generator.standard_normal((20, context))
    expected = np.stack([np.linalg.pinv(x[m]) @ y[m] for m in range(20)])
    found = ridge_weights(x, y, np.zeros(20))
    np.testing.assert_allclose(found, expected, rtol=SQUARED_CONDITION, atol=1e-9)


def test_noiseless_long_contexts_tell_the_task() -> None:
    found = NoisyRegression("fixed:0", 12, 4).sample(NUMPY, np.random.default_rng(8), 50)
    prompts = found.prompts
    oracle = ridge_weights(prompts.x, prompts.y, found.levels**2)
    np.testing.assert_allclose(oracle, found.tasks, rtol=0, atol=1e-10)


@pytest.mark.parametrize("spec", LAWS)
@pytest.mark.parametrize(("context", "dim"), [(6, 3), (3, 3), (2, 4)])
def test_adjusted_loss_is_the_gap_of_half_squared_errors(
    spec: str, context: int, dim: int
) -> None:
    """For predictors that know the context only, whatever they are; from both samplers."""
    problem = NoisyRegression(spec, context, dim)
    found = problem.sample(NUMPY, np.random.default_rng(9), COUNT)
    prompts = found.prompts
    oracle = ridge_weights(prompts.x, prompts.y, found.levels**2)
    weighted = problem.summaries(NUMPY, np.random.default_rng(10), COUNT, rare=True)
    best = np.sum(oracle * prompts.x_query, axis=1)
    moments = np.einsum("nti,nt->ni", prompts.x, prompts.y), weighted.gram[:, -1, :-1]
    skewed = np.linspace(0.5, 1.5, dim)
    for rate in (0.0, 0.5 / (context + dim), -0.1):
        guess, other_guess = (
            rate * skewed * moment / (1 + square[:, None] / dim**2)
            for moment, square in zip(
                moments, (np.sum(prompts.y**2, axis=1), weighted.gram[:, -1, -1]), strict=True
            )
        )
        adjusted = np.sum((guess - oracle) ** 2, axis=1) / 2
        error = (prompts.y_query - np.sum(guess * prompts.x_query, axis=1)) ** 2 / 2
        gap = error - (prompts.y_query - best) ** 2 / 2
        if not (spec == "fixed:0" and context == dim):  # the oracle's rounding is squared there
            assert_mean(gap - adjusted, 0)
        by_weights = weighted.weights * np.sum((other_guess - weighted.oracle) ** 2, axis=1) / 2
        spread = math.hypot(np.std(by_weights), np.std(adjusted)) / math.sqrt(COUNT)
        assert abs(np.mean(by_weights) - np.mean(adjusted)) < Z_MAX * spread


def test_same_seed_same_contexts() -> None:
    problem = NoisyRegression("uniform:2", 4, 3)
    first, second, other = (
        problem.summaries(NUMPY, np.random.default_rng(seed), 30, rare=True)
        for seed in (11, 11, 12)
    )
    np.testing.assert_array_equal(first.gram, second.gram)
    np.testing.assert_array_equal(first.weights, second.weights)
    assert not np.any(first.gram == other.gram)


@pytest.mark.parametrize("spec", LAWS)
@pytest.mark.parametrize(("context", "dim"), [(6, 3), (2, 4)])
def test_strict_arrays(spec: str, context: int, dim: int, strict_backend: Backend) -> None:
    problem, seed = NoisyRegression(spec, context, dim), np.random.SeedSequence(13)
    samples = problem.sample, problem.summaries, partial(problem.summaries, rare=True)
    for sample in samples:
        expected = vars(sample(NUMPY, NUMPY.generator(seed), 40))
        found = vars(sample(strict_backend, strict_backend.generator(seed), 40))
        if "prompts" in expected:
            expected, found = (
                {**{k: v for k, v in each.items() if k != "prompts"}, **vars(each["prompts"])}
                for each in (expected, found)
            )
        for name, value in found.items():
            assert isinstance(value, type(array_api_strict.asarray(0.0)))
            np.testing.assert_allclose(
                np.from_dlpack(value), expected[name], rtol=1e-9, atol=ROUNDING
            )


def test_prompts_are_the_common_kind() -> None:
    found = NoisyRegression("fixed:1", 3, 2).sample(NUMPY, np.random.default_rng(14), 2)
    assert isinstance(found.prompts, Prompts)
