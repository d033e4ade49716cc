"""Alignment of predictors, interpolated layers and roll-outs against explicit loops."""

import math

import array_api_strict
import numpy as np
import pytest
from prompt_arrays import arrays_of
from refusals import type_error, value_error

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import (
    alignment,
    attention_predictor,
    descent_predictor,
    interpolate,
    labels_only,
    rescale,
    ridge_predictor,
    roll_out,
)
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.models.transformer import Layer, apply_layer, forward, prediction
from iclimit.simulate.prompts import Prompts, draw_prompts, regression_tokens

ROUNDING = 1e-12  # of numbers of order one
N, D = 8, 4
NUMPY = get_backend("numpy")


def draw(n=20):
    law = Problem(dim=D, context=N, noise_variance=0.2, scale=1)
    return draw_prompts(law, NUMPY, np.random.default_rng(1), n)


def random_layer(seed=2, heads=1):
    """Weights of order one over the size."""
    weights = np.random.default_rng(seed).standard_normal((4, heads, D + 1, D + 1)) / (D + 1)
    return Layer(*weights)


def moved(prompts, direction):
    return Prompts(prompts.inputs, prompts.labels, prompts.query + direction, prompts.query_label)


PREDICTORS = [
    attention_predictor([descent_layer(0.5, context=N, dim=D)] * 2),
    attention_predictor([random_layer(), random_layer(3, heads=2)]),
    attention_predictor([random_layer(), random_layer(3)], include_query=True),
    descent_predictor(
        [0.5, 0.2], scale=1, initial=np.arange(D), preconditioner=np.diag([1, 2, 1, 0.5])
    ),
    ridge_predictor(0.3),
]


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_gradients_are_those_of_the_predictions(predictor):
    prompts = draw()
    h = 1e-5
    _, gradient = predictor(prompts)
    assert gradient.shape == (20, D)
    for i, e in enumerate(np.eye(D)):
        ahead = predictor(moved(prompts, h * e))[0]
        behind = predictor(moved(prompts, -h * e))[0]
        # Central differences: rounding 1e-16/h times predictions of a few tens.
        expected = (ahead - behind) / (2 * h)
        np.testing.assert_allclose(gradient[:, i], expected, rtol=1e-6, atol=1e-8)


def numbers(found):
    """The three means, each with its standard error."""
    return np.array([(each.mean, each.standard_error) for each in vars(found).values()])


def test_constructed_layers_are_aligned_with_descent():
    rates = [0.4, 0.7, 0.2]
    constructed = attention_predictor([descent_layer(r, context=N, dim=D) for r in rates])
    found = alignment(constructed, descent_predictor(rates, scale=1), draw())
    np.testing.assert_allclose(numbers(found), [[0, 0], [0, 0], [1, 0]], rtol=0, atol=ROUNDING)


def test_rates_are_those_of_unscaled_coordinates():
    """Inputs of variance 1/d, as `sample_prompts` draws them, and tasks times the root of d."""
    prompts = draw()
    root = math.sqrt(D)
    small = Prompts(
        prompts.inputs / root, prompts.labels, prompts.query / root, prompts.query_label
    )
    expected, slope = descent_predictor([0.4, 0.2], scale=1)(prompts)
    predicted, small_slope = descent_predictor([0.4, 0.2], scale=1 / root)(small)
    np.testing.assert_allclose(predicted, expected, rtol=ROUNDING)
    np.testing.assert_allclose(small_slope, root * slope, rtol=ROUNDING)
    type_error("scale", descent_predictor, [0.4])


def test_alignment_equals_loops():
    prompts = draw()
    rows = []
    for m in range(20):
        w = prompts.inputs[m].T @ prompts.labels[m] * 0.4 / N
        X = prompts.inputs[m]
        y = prompts.labels[m]
        v = np.linalg.solve(X.T @ X + 0.3 * np.eye(D), X.T @ y)
        rows.append(
            [
                abs(float(w @ prompts.query[m] - v @ prompts.query[m])),
                math.sqrt(sum((w - v) ** 2)),
                float(w @ v) / math.sqrt(sum(w**2) * sum(v**2)),
            ]
        )
    mean = np.mean(rows, axis=0)
    se = np.std(rows, axis=0, ddof=1) / math.sqrt(20)
    found = alignment(descent_predictor([0.4], scale=1), ridge_predictor(0.3), prompts)
    np.testing.assert_allclose(numbers(found), np.stack([mean, se], axis=1), rtol=1e-11)
    swapped = alignment(ridge_predictor(0.3), descent_predictor([0.4], scale=1), prompts)
    assert swapped == found


def test_vanishing_gradient_and_a_single_prompt():
    found = alignment(
        descent_predictor([0.0], scale=1), descent_predictor([0.4], scale=1), draw(1)
    )
    assert (found.cosine.mean, found.cosine.standard_error) == (0.0, math.inf)
    assert found.gradient_distance.mean > 0


@pytest.mark.parametrize("include_query", [False, True])
def test_rescaled_layer_is_the_same_function(include_query):
    tokens = regression_tokens(draw())
    layer = random_layer()
    scaled = rescale(layer)
    assert np.mean(np.diag(scaled.lookup[0])[:D]) == pytest.approx(1, rel=ROUNDING)
    expected = forward(tokens, [layer], include_query=include_query)
    out = forward(tokens, [scaled], include_query=include_query)
    np.testing.assert_allclose(out, expected, rtol=ROUNDING, atol=ROUNDING)
    again = rescale(scaled)
    np.testing.assert_allclose(again.lookup, scaled.lookup, rtol=ROUNDING)
    np.testing.assert_allclose(again.output, scaled.output, rtol=ROUNDING)


def test_interpolation_between_constructions_is_a_construction():
    tokens = regression_tokens(draw())
    first, second, between = (descent_layer(r, context=N, dim=D) for r in (0.4, 0.8, 0.5))
    disguised = Layer(-3 * second.key, 2 * second.query, second.value, second.projection / -6)
    expected = forward(tokens, [between])
    found = forward(tokens, [interpolate(first, disguised, 0.25)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)


@pytest.mark.machine
def test_roll_out_of_any_layer_is_a_stack():
    tokens = regression_tokens(draw())
    layer = random_layer()
    found = roll_out(tokens, layer, 3, 0.75, include_query=True)
    for k in range(4):
        expected = prediction(tokens, [layer] * k, include_query=True, dampening=0.75)
        np.testing.assert_array_equal(found[k], expected)


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_labels_only_keeps_the_update_of_the_labels(heads, include_query):
    tokens = regression_tokens(draw())
    layer = random_layer(heads=heads)
    whole = apply_layer(tokens, layer, include_query=include_query)
    found = apply_layer(tokens, labels_only(layer), include_query=include_query)
    np.testing.assert_array_equal(found[:, :, :D], tokens[:, :, :D])
    np.testing.assert_allclose(found[:, :, D], whole[:, :, D], rtol=0, atol=ROUNDING)
    assert np.max(np.abs(whole[:, :, :D] - tokens[:, :, :D])) > 0.1  # the layer moves inputs
    again = labels_only(labels_only(layer))
    np.testing.assert_array_equal(again.projection, labels_only(layer).projection)


def test_errors():
    for call, message in (
        (lambda: ridge_predictor(-1.0), "penalty must be >= 0 and finite, got -1.0"),
        (lambda: rescale(random_layer(heads=2)), "layer must have one head, got 2"),
        (
            lambda: rescale(Layer(*np.zeros((4, 1, 3, 3)))),
            "layer must have a K\\^T Q with a non-zero mean diagonal, got 0",
        ),
        (
            lambda: interpolate(random_layer(), random_layer(), math.nan),
            "weight must be a finite number, got nan",
        ),
        (
            lambda: roll_out(regression_tokens(draw()), random_layer(), 0),
            "steps must be an integer >= 1, got 0",
        ),
        (
            lambda: roll_out(regression_tokens(draw()), random_layer(), 2, math.inf),
            "dampening must be finite, got inf",
        ),
    ):
        value_error(message, call)


def test_strict_arrays(monkeypatch):
    monkeypatch.setattr("iclimit.simulate.descent.alignment.to_host", np.from_dlpack)
    strict = array_api_strict.asarray
    prompts = draw()
    on_strict = Prompts(**{name: strict(value) for name, value in arrays_of(prompts).items()})

    def run(prompts, convert):
        layer, other = (
            Layer(**{name: convert(value) for name, value in vars(each).items()})
            for each in (random_layer(), descent_layer(0.4, context=N, dim=D))
        )
        between = labels_only(interpolate(layer, other, 0.3))
        found = alignment(attention_predictor([between] * 2), ridge_predictor(0.3), prompts)
        return numbers(found), roll_out(regression_tokens(prompts), between, 3, 0.5)

    metrics, rolled = run(on_strict, strict)
    expected_metrics, expected = run(prompts, np.asarray)
    np.testing.assert_allclose(metrics, expected_metrics, rtol=1e-10)
    np.testing.assert_allclose(np.from_dlpack(rolled), expected, rtol=1e-10, atol=ROUNDING)
