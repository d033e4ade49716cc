"""Gradient descent against loops, exact conditional losses against matrices and sampling."""

import math

import array_api_strict
import numpy as np
import pytest
from prompt_arrays import arrays_of

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.descent import schedules as descent
from iclimit.simulate.descent.schedules import largest_eigenvalues, simulate_schedule
from iclimit.simulate.descent.steps import descend, query_predictions
from iclimit.simulate.prompts import Prompts, draw_prompts

ROUNDING = 1e-12  # relative or of numbers of order one to ten
Z_LIMIT = 4.0  # 57 comparisons, many on shared contexts: one beyond in 250 seeds or so
NUMPY = get_backend("numpy")
RATES = [0.3, 0.9, 0.5]


def samples(run):
    """Losses (contexts, schedules) of the contexts."""
    return np.stack([loss.samples for loss in run.losses], axis=1)


def draw(context, dim, n=5):
    law = Problem(dim=dim, context=context, noise_variance=0.4, scale=1)
    return draw_prompts(law, NUMPY, np.random.default_rng([context, dim]), n)


def block_inputs(context, dim, block):
    """Gaussian inputs of the first block of contexts of root 3."""
    generator = np.random.default_rng(seed_sequences(3, 1)[0])
    return generator.standard_normal((block, context, dim))


@pytest.mark.parametrize(("context", "dim"), [(1, 1), (3, 5), (8, 4)])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_descent_equals_loops(context, dim, started, preconditioned):
    generator = np.random.default_rng(1)
    prompts = draw(context, dim)
    start = generator.standard_normal(dim)
    matrix = np.eye(dim) + 0.2 * generator.standard_normal((dim, dim))
    kwargs = {"initial": start} if started else {}
    if preconditioned:
        kwargs["preconditioner"] = matrix
    weights = descend(prompts, RATES, **kwargs)
    predicted = query_predictions(prompts, weights)
    assert weights.shape == (5, dim)
    for m in range(5):
        w = start if started else np.zeros(dim)
        for rate in RATES:
            gradient = np.zeros(dim)
            for i in range(context):
                error = prompts.labels[m, i] - w @ prompts.inputs[m, i]
                gradient += error * prompts.inputs[m, i] / context
            w = w + rate * (matrix @ gradient if preconditioned else gradient)
        np.testing.assert_allclose(weights[m], w, rtol=ROUNDING, atol=ROUNDING)
        assert predicted[m] == pytest.approx(w @ prompts.query[m], rel=1e-10, abs=ROUNDING)


@pytest.mark.parametrize(("context", "dim"), [(3, 5), (5, 5), (8, 4), (1, 3), (4, 1)])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_conditional_loss_and_top_eigenvalue_equal_explicit_matrices(
    context, dim, noise, monkeypatch
):
    block = 6
    monkeypatch.setattr(descent, "BLOCK_NUMBERS", block * context * dim)
    size = {"context": context, "dim": dim, "scale": 0.7}
    run = simulate_schedule(RATES, **size, noise_ratio=noise, rng=3, contexts=block)
    top = largest_eigenvalues(**size, contexts=block, rng=3)
    for r, z in enumerate(block_inputs(context, dim, block)):
        X = 0.7 * z
        from_labels = np.zeros((dim, context))  # w_L = from_labels @ y
        for rate in RATES:
            from_labels += rate / context * X.T @ (np.eye(context) - X @ from_labels)
        by_task = np.sum((np.eye(dim) - from_labels @ X) ** 2)
        by_noise = noise * context * np.sum(from_labels**2)
        assert samples(run)[r, 0] == pytest.approx((by_task + by_noise) / dim, rel=ROUNDING)
        assert top[r] == pytest.approx(np.linalg.norm(X, 2) ** 2 / context, rel=ROUNDING)


@pytest.mark.parametrize(
    ("law", "second", "kurtosis"),
    [("gaussian", 1, 3), ("uniform", 1 / 3, 1.8), ("rademacher", 1, 1), ("laplace", 2, 6)],
)
@pytest.mark.parametrize(("context", "dim"), [(3, 6), (10, 5)])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_one_step_has_the_exact_mean(law, second, kurtosis, context, dim, noise):
    """(1/d) E tr H^2 = m2^2 (N - 1 + d - 1 + kurtosis)/N."""
    scale = 0.8
    m = scale**2 * second
    rates = np.array([[0.2], [0.5], [1.0]]) / m
    setting = {"context": context, "dim": dim, "input_law": law}
    run = simulate_schedule(rates, **setting, scale=scale, noise_ratio=noise, rng=5, contexts=4000)
    rate = rates[:, 0]
    square = m**2 * (context + dim - 2 + kurtosis) / context
    expected = 1 - 2 * rate * m + rate**2 * (square + noise * m)
    for loss, exact in zip(run.losses, expected, strict=True):
        assert abs(loss.z(exact)) < Z_LIMIT


@pytest.mark.machine
def test_schedules_share_contexts_and_longer_runs_extend_shorter_ones(monkeypatch):
    monkeypatch.setattr(descent, "BLOCK_NUMBERS", 7 * 12)
    size = {"context": 4, "dim": 3, "input_law": "laplace", "rng": 8}
    rates = np.array([[0.3, 0.1], [0.2, 0.2]])
    both = simulate_schedule(rates, **size, contexts=20, noise_ratio=0.1)
    assert samples(both).shape == (20, 2)
    assert (both.loss.repeats, both.parameters["context"]) == (20, 4)
    for k in range(2):
        one = simulate_schedule(rates[k], **size, contexts=11, noise_ratio=0.1)
        np.testing.assert_array_equal(one.loss.samples, both.losses[k].samples[:11])
    expected = largest_eigenvalues(**size, contexts=25)[:10]
    np.testing.assert_array_equal(largest_eigenvalues(**size, contexts=10), expected)


def test_summaries_of_the_losses():
    run = simulate_schedule([[0.3], [0.1]], context=4, dim=3, rng=9, contexts=50)
    np.testing.assert_array_equal(run.medians, np.median(samples(run), axis=0))
    one = simulate_schedule([0.3], context=4, dim=3, rng=9)
    assert (one.loss.repeats, len(one.losses)) == (1000, 1)
    single = simulate_schedule([0.3], context=4, dim=3, rng=9, contexts=1)
    assert single.loss.standard_error == math.inf


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_overflowing_losses_are_infinite(noise):
    size = {"context": 6, "dim": 4, "rng": 10, "contexts": 40}
    rates = [[3.0] * 2000, [1e-3] * 2000]
    run = simulate_schedule(rates, **size, noise_ratio=noise)
    losses = samples(run)
    assert np.all(losses[:, 0] == math.inf)
    assert np.all(np.isfinite(losses[:, 1]))
    assert run.loss.mean == run.loss.standard_error == run.medians[0] == math.inf


def test_errors():
    for call, message in (
        (lambda: descend(draw(3, 2), []), r"rates must have shape \(any,\), got \(0,\)"),
        (lambda: descend(draw(3, 2), [math.nan]), "rates must be finite"),
        (
            lambda: descend(draw(3, 2), [1], initial=np.ones(3)),
            r"initial must have shape \(2,\), got \(3,\)",
        ),
        (
            lambda: descend(draw(3, 2), [1], preconditioner=np.ones(2)),
            r"preconditioner must have shape \(2, 2\), got \(2,\)",
        ),
        (
            lambda: simulate_schedule(0.1, context=3, dim=2, rng=0),
            r"rates must have shape \(any,\), got \(\)",
        ),
        (
            lambda: largest_eigenvalues(context=3, dim=0, rng=0, contexts=1),
            "dim must be an integer >= 1, got 0",
        ),
        (
            lambda: largest_eigenvalues(context=3, dim=2, rng=0, contexts=1, input_law="cauchy"),
            "input_law must be one of gaussian, uniform, rademacher, laplace, got 'cauchy'",
        ),
        (
            lambda: largest_eigenvalues(context=3, dim=2, rng=0, contexts=1, scale=0.0),
            "scale must be > 0 and finite, got 0.0",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(("context", "dim"), [(3, 5), (6, 4)])
def test_strict_arrays(context, dim, strict_backend, monkeypatch):
    strict = array_api_strict.asarray
    prompts = draw(context, dim)
    generator = np.random.default_rng(2)
    start = generator.standard_normal(dim)
    matrix = generator.standard_normal((dim, dim))
    expected = descend(prompts, RATES, initial=start, preconditioner=matrix)
    on_strict = Prompts(**{name: strict(value) for name, value in arrays_of(prompts).items()})
    found = descend(on_strict, RATES, initial=strict(start), preconditioner=strict(matrix))
    np.testing.assert_allclose(np.from_dlpack(found), expected, rtol=ROUNDING)
    exact = query_predictions(prompts, expected)
    np.testing.assert_allclose(
        np.from_dlpack(query_predictions(on_strict, found)), exact, rtol=1e-10
    )

    cell = {"context": context, "dim": dim, "input_law": "laplace", "rng": 4}
    losses = samples(simulate_schedule([RATES, RATES[::-1]], **cell, noise_ratio=0.1, contexts=8))
    top = largest_eigenvalues(**cell, contexts=8)
    monkeypatch.setattr(descent, "get_backend", lambda _: strict_backend)
    monkeypatch.setattr(descent, "to_host", np.from_dlpack)
    run = simulate_schedule([RATES, RATES[::-1]], **cell, noise_ratio=0.1, contexts=8)
    np.testing.assert_allclose(samples(run), losses, rtol=1e-10)
    np.testing.assert_allclose(largest_eigenvalues(**cell, contexts=8), top, rtol=1e-10)
