"""Passes on Gram matrices against passes on tokens, their derivatives against complex steps."""

import array_api_strict
import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp.contexts import gram_matrices
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.gdpp.linear_transformer import (
    KINDS,
    LinearTransformer,
    build,
    free_parameters,
    random_parameters,
    ties,
    to_backend,
)
from iclimit.simulate.models.gram_stack import run_stack
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.prompts import draw_prompts, regression_tokens

ROUNDING = 1e-11  # of the largest entry; four layers of sums with cancellation
STEP = 1e-30  # complex
N, DIM = 5, 3
CASES = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (4, 3)]


def draw(context, dim=DIM, seed=1):
    law = Problem(dim=dim, context=context, noise_law="uniform:2", scale=1)
    return draw_prompts(law, get_backend("numpy"), np.random.default_rng(seed), N)


def parameters_of(kind, layers, heads, context, dim=DIM):
    """Random ones that move all tokens, with full matrices that are not nearly diagonal."""
    generator = np.random.default_rng([layers, heads])
    parameters = random_parameters(
        generator, kind=kind, layers=layers, heads=heads, dim=dim, context=context, variance=1.0
    )
    if kind == "full":
        parameters += 0.1 * np.std(parameters) * generator.standard_normal(parameters.shape)
    return parameters


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads"), CASES)
@pytest.mark.parametrize(("context", "dim"), [(1, 1), (2, 3), (3, 3), (8, 3)])
def test_predictions_equal_those_on_tokens(kind, layers, heads, context, dim):
    prompts = draw(context, dim)
    model = build(kind, parameters_of(kind, layers, heads, context, dim), dim)
    weights = GramPass(gram_matrices(prompts.inputs, prompts.labels), model).weights
    tokens = regression_tokens(prompts)
    assert weights.shape == (N, dim)
    expected = prediction(tokens, model.layers)
    assert np.max(np.abs(expected)) > 1e-6
    assert_close(np.sum(weights * prompts.query, axis=1), expected)


def test_transformer_that_does_nothing_predicts_zero():
    prompts = draw(4)
    zero = np.zeros((2, 1, DIM + 1, DIM + 1))
    for kind in KINDS:
        forward = GramPass(
            gram_matrices(prompts.inputs, prompts.labels), LinearTransformer(kind, zero, zero)
        )
        assert not np.any(forward.weights)
        assert not np.any(forward.derivatives(prompts.query))


def test_inputs_are_left_alone():
    prompts = draw(4)
    for kind in KINDS:
        model = build(kind, parameters_of(kind, 3, 2, 4), DIM)
        gram, directions = gram_matrices(prompts.inputs, prompts.labels), prompts.query.copy()
        kept = gram.copy(), directions.copy(), model.projection.copy(), model.lookup.copy()
        GramPass(gram, model).derivatives(directions)
        for before, after in zip(
            kept, (gram, directions, model.projection, model.lookup), strict=True
        ):
            np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads"), CASES)
@pytest.mark.parametrize("context", [2, 8])
def test_derivatives_equal_complex_steps(kind, layers, heads, context):
    prompts = draw(context)
    gram = gram_matrices(prompts.inputs, prompts.labels)
    parameters = parameters_of(kind, layers, heads, context)
    directions = np.random.default_rng(3).standard_normal((N, DIM))
    found = GramPass(gram, build(kind, parameters, DIM)).derivatives(directions)
    assert found.shape == (N, parameters.size)
    expected = np.empty_like(found)
    for entry, index in enumerate(np.ndindex(parameters.shape)):
        moved = parameters.astype(complex)
        moved[index] += STEP * 1j
        weights = GramPass(gram.astype(complex), build(kind, moved, DIM)).weights
        expected[:, entry] = np.sum(weights * directions, axis=1).imag / STEP
    # Parameters differ in size and so do derivatives by them: each in its own scale.
    scale = np.max(np.abs(expected), axis=0)
    assert np.all(np.abs(found - expected) <= ROUNDING * (scale + 1e-3))
    assert np.count_nonzero(scale) >= layers * heads


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads"), CASES)
def test_derivatives_equal_those_on_tokens(kind, layers, heads):
    """Of the mean squared error on the query labels, by the chain rule."""
    prompts = draw(6)
    model = build(kind, parameters_of(kind, layers, heads, 6), DIM)
    tokens = regression_tokens(prompts)
    predictions, pullback = run_stack(tokens, model.layers, False)
    gradients, _ = pullback(2 / N * (predictions - prompts.query_label))
    # Keys and values are identities: the derivatives by query and projection are those by Q and P.
    by_entry = np.stack([np.stack([g.projection, g.query], axis=1) for g in gradients])
    expected = by_entry.reshape(layers, heads, -1) @ ties(kind, DIM).T
    forward = GramPass(gram_matrices(prompts.inputs, prompts.labels), model)
    residual = np.sum(forward.weights * prompts.query, axis=1) - prompts.query_label
    seeds = 2 / N * residual[:, None] * prompts.query
    assert_close(np.sum(forward.derivatives(seeds), axis=0), expected.ravel())


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_linear_in_the_direction(kind):
    prompts = draw(6)
    forward = GramPass(
        gram_matrices(prompts.inputs, prompts.labels),
        build(kind, parameters_of(kind, 3, 2, 6), DIM),
    )
    u, v = np.random.default_rng(4).standard_normal((2, N, DIM))
    row = np.linspace(-1, 2, N)[:, None]
    expected = row * forward.derivatives(u) - 3 * forward.derivatives(v)
    assert_close(forward.derivatives(row * u - 3 * v), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_heads_add(kind):
    """Heads in another order, or one with its P halved twice, are the same transformer."""
    prompts, parameters = draw(6), parameters_of(kind, 3, 2, 6)
    gram, split = gram_matrices(prompts.inputs, prompts.labels), len(ties(kind, DIM))
    projection = slice(0, split // 2 if kind in ("full", "axial") else 2)
    halves = np.concatenate([parameters, parameters[:, :1]], axis=1)
    for head in (0, 2):
        halves[:, head, projection] /= 2
    one, two, three = (
        GramPass(gram, build(kind, each, DIM))
        for each in (parameters, parameters[:, ::-1], halves)
    )
    assert_close(two.weights, one.weights)
    assert_close(three.weights, one.weights)
    shape = (N, 3, -1, split)
    by_one, by_two, by_three = (
        each.derivatives(prompts.query).reshape(shape) for each in (one, two, three)
    )
    assert_close(by_two[:, :, ::-1], by_one)
    assert_close(by_three[:, :, 0, projection], by_one[:, :, 0, projection])
    assert_close(by_three[:, :, 1], by_one[:, :, 1])


@pytest.mark.parametrize("layers", [1, 3])
def test_last_layer_acts_by_its_last_row(layers):
    prompts, parameters = draw(6), parameters_of("full", layers, 2, 6)
    gram, size = gram_matrices(prompts.inputs, prompts.labels), DIM + 1
    found = GramPass(gram, build("full", parameters, DIM)).derivatives(prompts.query)
    by_last = found.reshape(N, layers, 2, 2, size, size)[:, -1]
    assert not np.any(by_last[:, :, 0, :-1])
    if layers == 1:  # the query has no label yet
        assert not np.any(by_last[:, :, 1, :, -1])
    assert np.all(by_last[:, :, 0, -1] != 0)


@pytest.mark.parametrize(
    ("small", "large"), [("gd++", "diag"), ("gd++", "full"), ("diag", "full")]
)
def test_kinds_agree_where_they_overlap(small, large):
    prompts = draw(6)
    gram, model = (
        gram_matrices(prompts.inputs, prompts.labels),
        build(small, parameters_of(small, 3, 2, 6), 3),
    )
    within = build(large, free_parameters(model, large), DIM)
    one, other = GramPass(gram, model), GramPass(gram, within)
    assert_close(other.weights, one.weights)
    by_large = other.derivatives(prompts.query).reshape(N, 3, 2, -1)
    inside = ties(small, DIM) @ ties(large, DIM).T / np.sum(ties(large, DIM), axis=1)
    by_small = one.derivatives(prompts.query).reshape(N, 3, 2, -1)
    # Moving a parameter of the small kind moves those of the large one by `inside`.
    assert_close(by_large @ inside.T, by_small)


@pytest.mark.parametrize("kind", KINDS)
def test_contexts_do_not_see_each_other(kind):
    prompts, parameters = draw(6), parameters_of(kind, 3, 2, 6)
    gram, model = gram_matrices(prompts.inputs, prompts.labels), build(kind, parameters, DIM)
    whole = GramPass(gram, model)
    by_all = whole.derivatives(prompts.query)
    for m in range(N):
        one = GramPass(gram[m : m + 1], model)
        assert_close(one.weights[0], whole.weights[m])
        assert_close(one.derivatives(prompts.query[m : m + 1])[0], by_all[m])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (3, 2)])
def test_strict_arrays(kind, layers, heads, strict_backend):
    prompts = draw(6)
    gram, model = (
        gram_matrices(prompts.inputs, prompts.labels),
        build(kind, parameters_of(kind, layers, heads, 6), DIM),
    )
    there = GramPass(array_api_strict.asarray(gram), to_backend(model, strict_backend))
    here = GramPass(gram, model)
    assert_close(np.from_dlpack(there.weights), here.weights)
    found = there.derivatives(array_api_strict.asarray(prompts.query))
    assert_close(np.from_dlpack(found), here.derivatives(prompts.query))
