"""Passes on Gram matrices against passes on tokens, their derivatives against complex steps."""

import array_api_strict
import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp.contexts import gram_matrices
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.models.linear_transformer import KINDS, build, random_parameters, to_backend
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


def test_inputs_are_left_alone():
    prompts = draw(4)
    for kind in KINDS:
        model = build(kind, parameters_of(kind, 3, 2, 4), DIM)
        gram = gram_matrices(prompts.inputs, prompts.labels)
        directions = prompts.query.copy()
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
@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (3, 2)])
def test_strict_arrays(kind, layers, heads, strict_backend):
    prompts = draw(6)
    gram = gram_matrices(prompts.inputs, prompts.labels)
    model = build(kind, parameters_of(kind, layers, heads, 6), DIM)
    there = GramPass(array_api_strict.asarray(gram), to_backend(model, strict_backend))
    here = GramPass(gram, model)
    assert_close(np.from_dlpack(there.weights), here.weights)
    found = there.derivatives(array_api_strict.asarray(prompts.query))
    assert_close(np.from_dlpack(found), here.derivatives(prompts.query))
