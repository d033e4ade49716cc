"""Constructed layers against gradient descent and copying written as loops."""

import array_api_strict
import numpy as np
import pytest
from prompt_arrays import arrays_of
from refusals import value_error

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent import constructions
from iclimit.simulate.descent.constructions import (
    copying_layer,
    descent_layer,
    one_hot_positions,
    separate_tokens,
    sinusoidal_positions,
    widen_layer,
)
from iclimit.simulate.models.transformer import apply_layer, forward, prediction
from iclimit.simulate.prompts import Prompts, draw_prompts, regression_tokens

ROUNDING = 1e-12  # absolute; labels and predictions are of order one to ten
N, D = 7, 4
RATES = [0.7, 0.2, 0.9]
NUMPY = get_backend("numpy")


def draw(context=N, dim=D, n=5):
    law = Problem(dim=dim, context=context, noise_variance=0.3, scale=1)
    return draw_prompts(law, NUMPY, np.random.default_rng([context, dim]), n)


def start_and_matrix(dim=D):
    """Initial weights and a preconditioner that is not symmetric."""
    generator = np.random.default_rng(3)
    start = generator.standard_normal(dim)
    matrix = generator.standard_normal((dim, dim))
    return start, np.eye(dim) + 0.3 * matrix


def descent_loop(x, y, rates, w, matrix):
    """Weights of one prompt, pair by pair."""
    for rate in rates:
        gradient = np.zeros_like(w)
        for x_i, y_i in zip(x, y, strict=True):
            gradient += (y_i - w @ x_i) * x_i / len(y)
        w = w + rate * matrix @ gradient
    return w


@pytest.mark.machine
@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("rates", [RATES[:1], RATES, [0.4] * 4])
def test_layers_are_descent_steps_on_every_token(rates, started, preconditioned):
    prompts = draw()
    start, matrix = start_and_matrix()
    kwargs = {"initial": start} if started else {}
    w0 = start if started else np.zeros(D)
    A = matrix if preconditioned else np.eye(D)
    layers = [
        descent_layer(
            rate, context=N, dim=D, preconditioner=matrix if preconditioned else None, **kwargs
        )
        for rate in rates
    ]
    tokens = regression_tokens(prompts, **kwargs)
    out = forward(tokens, layers)
    np.testing.assert_array_equal(out[:, :, :-1], tokens[:, :, :-1])
    for m in range(len(out)):
        w = descent_loop(prompts.inputs[m], prompts.labels[m], rates, w0, A)
        for i in range(N):
            residual = prompts.labels[m, i] - (w - w0) @ prompts.inputs[m, i]
            assert out[m, i, -1] == pytest.approx(residual, abs=ROUNDING)
        assert prediction(tokens, layers)[m] == pytest.approx(w @ prompts.query[m], abs=ROUNDING)


def test_sum_normalization_is_the_mean_at_n_times_the_rate():
    mean = descent_layer(0.7, context=N, dim=D)
    total = descent_layer(0.7 / N, context=N, dim=D, normalization="sum")
    np.testing.assert_allclose(total.output, mean.output, rtol=ROUNDING)
    np.testing.assert_array_equal(total.lookup, mean.lookup)


def test_widened_layer_leaves_further_entries():
    tokens = regression_tokens(draw())
    layer = descent_layer(0.8, context=N, dim=D)
    extra = np.random.default_rng(4).standard_normal((*tokens.shape[:2], 3))
    out = apply_layer(np.concat([tokens, extra], axis=2), widen_layer(layer, D + 4))
    expected = apply_layer(tokens, layer)
    np.testing.assert_allclose(out[:, :, : D + 1], expected, rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(out[:, :, D + 1 :], extra)


def test_separate_tokens_entry_by_entry():
    prompts = draw(context=3, dim=2)
    positions = np.arange(14.0).reshape(7, 2)
    start = np.array([0.5, -1.0])
    tokens = separate_tokens(prompts, positions, start)
    assert tokens.shape == (5, 7, 5)
    for m in range(5):
        for i in range(3):
            expected = [*prompts.inputs[m, i], 0, *positions[2 * i]]
            np.testing.assert_array_equal(tokens[m, 2 * i], expected)
            exact = [0, 0, prompts.labels[m, i], *positions[2 * i + 1]]
            np.testing.assert_array_equal(tokens[m, 2 * i + 1], exact)
        guess = -(start @ prompts.query[m])
        np.testing.assert_allclose(
            tokens[m, -1], [*prompts.query[m], guess, *positions[-1]], rtol=ROUNDING
        )


def orthonormal_positions(context):
    """A random orthonormal basis: the harmonics are one such, one-hot vectors another."""
    size = 2 * context + 1
    return np.linalg.qr(np.random.default_rng(6).standard_normal((size, size)))[0]


@pytest.mark.machine
@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("encode", [one_hot_positions, orthonormal_positions])
@pytest.mark.parametrize("context", [1, 2, N])
def test_copying_then_descent_equals_merged_tokens(context, encode, include_query):
    prompts = draw(context)
    positions = encode(context)
    start, matrix = start_and_matrix()
    layers = [
        descent_layer(rate, context=context, dim=D, initial=start, preconditioner=matrix)
        for rate in RATES
    ]
    merged = regression_tokens(prompts, start)
    tokens = separate_tokens(prompts, positions, start)
    copied = apply_layer(tokens, copying_layer(positions, dim=D), include_query=include_query)
    np.testing.assert_allclose(copied[:, ::2, : D + 1], merged, rtol=0, atol=ROUNDING)
    np.testing.assert_array_equal(copied[:, 1::2, :D], 0)

    out = forward(copied, [widen_layer(layer, tokens.shape[2]) for layer in layers])
    np.testing.assert_allclose(
        out[:, ::2, : D + 1], forward(merged, layers), rtol=0, atol=1e-11
    )  # three steps amplify the rounding of the copies
    np.testing.assert_array_equal(out[:, 1::2], copied[:, 1::2])


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("pairs", [3, 5, N])
def test_softmax_copying_error_falls_exponentially_with_sharpness(pairs, include_query):
    prompts = draw()
    positions = sinusoidal_positions(N, pairs)
    start, _ = start_and_matrix()
    merged = regression_tokens(prompts, start)
    tokens = separate_tokens(prompts, positions, start)
    layer = descent_layer(0.7, context=N, dim=D, initial=start)
    expected = prediction(merged, [layer])
    overlap = positions @ positions.T
    gap = 1 - np.max(overlap - 2 * np.eye(len(overlap)))

    def error(sharpness):
        copying = copying_layer(positions, dim=D, sharpness=sharpness)
        copied = apply_layer(tokens, copying, include_query=include_query, softmax=True)
        out = forward(copied, [widen_layer(layer, tokens.shape[2])])
        return float(np.max(np.abs(-out[:, -1, D] - expected)))

    sharpness = np.array([10.0, 14.0, 18.0]) / gap
    log_error = np.log([error(value) for value in sharpness])
    # At e^-10 the further neighbours are still seen: measured within 0.2 %.
    np.testing.assert_allclose(np.diff(log_error) / np.diff(sharpness), -gap, rtol=0.01)
    assert error(40 / gap) < ROUNDING


def test_sinusoidal_positions_are_cyclic_and_of_unit_norm():
    positions = sinusoidal_positions(5, 2)
    assert positions.shape == (11, 4)
    overlap = positions @ positions.T
    for k in range(11):
        angle = 2 * np.pi / 11 * (np.arange(11) - k)
        expected = (np.cos(angle) + np.cos(2 * angle)) / 2
        np.testing.assert_allclose(overlap[k], expected, rtol=0, atol=ROUNDING)


def test_positions_need_a_linear_map_to_the_next():
    random = np.random.default_rng(5).standard_normal((7, 6))
    value_error("positions must be moved to the next, cyclically", copying_layer, random, dim=2)
    angle = np.arange(7.0)[:, None]  # moved by a rotation, but never back to the first
    with pytest.raises(ValueError, match="positions must be moved to the next, cyclically"):
        copying_layer(np.concat([np.cos(angle), np.sin(angle)], axis=1), dim=2)


def test_errors():
    for call, message in (
        (lambda: descent_layer(np.nan, context=3, dim=2), "rate must be finite, got nan"),
        (lambda: descent_layer(1, context=0, dim=2), "context must be an integer >= 1, got 0"),
        (
            lambda: descent_layer(1, context=3, dim=2, normalization="none"),
            "normalization must be one of mean, sum, got 'none'",
        ),
        (
            lambda: descent_layer(1, context=3, dim=2, initial=[1.0]),
            r"initial must have shape \(2,\), got \(1,\)",
        ),
        (
            lambda: descent_layer(1, context=3, dim=2, preconditioner=np.full((2, 2), np.inf)),
            "preconditioner must be finite",
        ),
        (lambda: widen_layer(descent_layer(1, context=3, dim=2), 2), "size must be >= 3"),
        (lambda: sinusoidal_positions(3, 4), "pairs must be <= context, got 4 > 3"),
        (
            lambda: separate_tokens(draw(3, 2), one_hot_positions(2)),
            r"positions must have shape \(7, any\), got \(5, 5\)",
        ),
        (
            lambda: copying_layer(one_hot_positions(2), dim=2, sharpness=0),
            "sharpness must be a number > 0 and finite, got 0",
        ),
    ):
        value_error(message, call)


def test_strict_arrays(strict_backend, monkeypatch):
    prompts = draw()
    positions = sinusoidal_positions(N, 4)
    start, matrix = start_and_matrix()

    def run(prompts, start):
        tokens = separate_tokens(prompts, positions, start)
        copying = copying_layer(positions, dim=D, sharpness=9.0)
        descent = descent_layer(0.7, context=N, dim=D, initial=start, preconditioner=matrix)
        copied = apply_layer(tokens, copying, softmax=True)
        return forward(copied, [widen_layer(descent, tokens.shape[2])])

    expected = run(prompts, start)
    monkeypatch.setattr(constructions, "get_backend", lambda _: strict_backend)
    strict = array_api_strict.asarray
    found = run(Prompts(**{k: strict(v) for k, v in arrays_of(prompts).items()}), strict(start))
    np.testing.assert_allclose(np.from_dlpack(found), expected, rtol=0, atol=ROUNDING)
