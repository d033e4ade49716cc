"""GD++ by matrices against token-level layers, plain descent and sampled prompts."""

import math

import array_api_strict
import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.descent import schedules as descent
from iclimit.simulate.descent.schedules import simulate_schedule
from iclimit.simulate.gdpp.preconditioned_descent import (
    gdpp_transformer,
    layer_spectra,
    simulate_gdpp,
)
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.prompts import Prompts, draw_prompts, regression_tokens

ROUNDING = 1e-12  # relative, or of numbers of order one
Z_LIMIT = 4.0
NUMPY = get_backend("numpy")
RATES, GAMMAS = [0.3, 0.9, 0.7], [0.15, 0.2]
SIZES = [(3, 5), (5, 5), (8, 4), (1, 3), (4, 1)]


def draw(context, dim, n=5, **law):
    regression = Problem(dim=dim, context=context, **law, scale=1)
    return draw_prompts(regression, NUMPY, np.random.default_rng([context, dim]), n)


def literal_predictions(prompts):
    """The layers written out for one prompt after the other, the query carried along."""
    predictions = []
    for x, y, query in zip(prompts.inputs, prompts.labels, prompts.query, strict=True):
        Z = x.copy()
        r = y.copy()
        q = query.copy()
        left = 0.0
        for eta, gamma in zip(RATES, [*GAMMAS, 0.0], strict=True):
            mean = Z.T @ r / len(y)
            H = Z.T @ Z / len(y)
            left -= eta * q @ mean
            r = r - eta * Z @ mean
            Z = Z - gamma * Z @ H
            q = q - gamma * H @ q
        predictions.append(-left)
    return np.array(predictions)


def test_transformer_equals_literal_layers():
    for context, dim in SIZES:
        prompts = draw(context, dim, noise_variance=0.3)
        model = gdpp_transformer(RATES, GAMMAS, context=context, dim=dim)
        assert (model.kind, model.depth, model.dim) == ("gd++", 3, dim)
        expected = literal_predictions(prompts)
        found = prediction(regression_tokens(prompts), model.layers)
        np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize(("context", "dim"), SIZES)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_conditional_loss_equals_token_level_responses(context, dim, noise, monkeypatch):
    """The prediction is linear in the labels: feed it unit labels and unit queries."""
    block = 4
    monkeypatch.setattr(descent, "BLOCK_NUMBERS", block * context * dim)
    run = simulate_gdpp(
        RATES, GAMMAS, context=context, dim=dim, noise_ratio=noise, rng=3, contexts=block
    )
    layers = gdpp_transformer(RATES, GAMMAS, context=context, dim=dim).layers
    generator = np.random.default_rng(seed_sequences(3, 1)[0])
    for r, X in enumerate(generator.standard_normal((block, context, dim))):
        from_labels = np.empty((dim, context))  # w_L = from_labels @ y
        for i in range(context):
            unit = Prompts(
                np.broadcast_to(X, (dim, context, dim)),
                np.broadcast_to(np.eye(context)[i], (dim, context)),
                np.eye(dim),
                np.zeros(dim),
            )
            from_labels[:, i] = prediction(regression_tokens(unit), layers)
        by_task = np.sum((np.eye(dim) - from_labels @ X) ** 2)
        by_noise = noise * context * np.sum(from_labels**2)
        assert run.loss.samples[r] == pytest.approx((by_task + by_noise) / dim, rel=1e-11)


@pytest.mark.parametrize(("context", "dim"), SIZES)
def test_without_preconditioning_it_is_gradient_descent_on_the_same_contexts(context, dim):
    size = {"context": context, "dim": dim, "rng": 7}
    found = simulate_gdpp(RATES, [0, 0], **size, input_law="laplace", noise_ratio=0.2, contexts=30)
    expected = simulate_schedule(RATES, **size, input_law="laplace", noise_ratio=0.2, contexts=30)
    np.testing.assert_allclose(found.loss.samples, expected.loss.samples, rtol=1e-10)
    assert (found.loss.repeats, found.parameters["gammas"].tolist()) == (30, [0, 0])


@pytest.mark.machine
def test_longer_runs_extend_shorter_ones(monkeypatch):
    monkeypatch.setattr(descent, "BLOCK_NUMBERS", 7 * 12)
    size = {"context": 4, "dim": 3, "rng": 8}
    short = simulate_gdpp(RATES, GAMMAS, **size, contexts=11).loss.samples
    found = simulate_gdpp(RATES, GAMMAS, **size, contexts=20).loss.samples[:11]
    np.testing.assert_array_equal(found, short)


def test_one_layer_has_the_exact_mean():
    """1 - 2 eta + eta^2 (N + d + 1)/N for Gaussian inputs; no preconditioning matters."""
    run = simulate_gdpp([0.5], [], context=20, dim=10, rng=5, contexts=4000)
    assert abs(run.loss.z(0.25 * 31 / 20)) < Z_LIMIT


def test_overflowing_losses_are_infinite():
    run = simulate_gdpp(
        [3.0] * 12, [5.0] * 11, context=6, dim=4, noise_ratio=0.1, rng=1, contexts=20
    )
    assert np.all(run.loss.samples == math.inf)


@pytest.mark.parametrize(("context", "dim"), SIZES)
def test_spectra_are_those_of_the_layers_tokens(context, dim):
    prompts = draw(context, dim, n=3)
    gammas = [0.2, -0.1, 0.3]
    found = layer_spectra(prompts.inputs, gammas)
    assert found.shape == (4, 3, dim)
    start = np.linalg.svd(prompts.inputs, compute_uv=False) ** 2 / context
    for n in range(3):
        values = np.append(start[n], np.zeros(dim - len(start[n])))
        for depth in range(4):
            np.testing.assert_allclose(
                found[depth, n], np.sort(values), rtol=1e-10, atol=ROUNDING * (1 + values.max())
            )
            if depth < 3:
                values = values * (1 - gammas[depth] * values) ** 2


def test_errors():
    for call, message in (
        (
            lambda: simulate_gdpp([], [], context=3, dim=2, rng=0),
            r"rates must have shape \(any,\), got \(0,\)",
        ),
        (
            lambda: simulate_gdpp([0.1, 0.2], [0.1, 0.1], context=3, dim=2, rng=0),
            r"gammas must have shape \(1,\), got \(2,\)",
        ),
        (lambda: layer_spectra(np.ones((1, 2, 2)), []), "gammas must have shape"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_strict_arrays():
    x = draw(6, 4).inputs
    found = np.from_dlpack(layer_spectra(array_api_strict.asarray(x), GAMMAS))
    np.testing.assert_allclose(found, layer_spectra(x, GAMMAS), rtol=1e-10)
