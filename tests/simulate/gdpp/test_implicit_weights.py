"""Implicit weights against tokens and Gram matrices, and the theorems that go with them."""

import math

import array_api_strict
import numpy as np
import pytest
from prompt_arrays import arrays_of

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp.contexts import gram_matrices
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.gdpp.implicit_weights import (
    alignment_bound,
    alignment_cosine,
    diagonal_recursion,
    implicit_weights,
)
from iclimit.simulate.models.linear_transformer import (
    LinearTransformer,
    build,
    random_parameters,
    two_level_ridge_transformer,
)
from iclimit.simulate.models.transformer import forward, prediction
from iclimit.simulate.prompts import Prompts, draw_prompts, regression_tokens

ROUNDING = 1e-10  # of the largest number of a comparison; 3e-12 measured, 1e-14 but for Lemma 4.4
NUMPY = get_backend("numpy")
SIZES = [(12, 4), (3, 5), (5, 5), (4, 1), (1, 3)]
RECURSIONS = {
    "full": [implicit_weights],
    "diag": [implicit_weights, diagonal_recursion],
    "gd++": [implicit_weights, diagonal_recursion],
}
CASES = [(kind, recursion) for kind, several in RECURSIONS.items() for recursion in several]


def draw(context, dim, n=6, noise="uniform:2"):
    law = Problem(dim=dim, context=context, noise_law=noise, scale=1)
    return draw_prompts(law, NUMPY, np.random.default_rng([context, dim]), n)


def random_model(kind, context, dim, layers=4, heads=1, spread=False):
    """Full weights are diagonal but for a hundredth; with spread all entries are alike."""
    generator = np.random.default_rng([layers, heads])
    parameters = random_parameters(
        generator, kind=kind, layers=layers, heads=heads, dim=dim, context=context, variance=1.3
    )
    if spread:
        parameters = 0.3 / math.sqrt(context + dim) * generator.standard_normal(parameters.shape)
    return build(kind, parameters, dim)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


@pytest.mark.machine
@pytest.mark.parametrize(
    ("kind", "recursion", "spread"),
    [(*case, False) for case in CASES] + [(*case, True) for case in CASES if case[0] == "full"],
)
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(("context", "dim"), SIZES)
def test_tokens_after_every_layer(kind, recursion, spread, heads, context, dim):
    prompts = draw(context, dim)
    model = random_model(kind, context, dim, heads=heads, spread=spread)
    found = recursion(prompts, model)
    assert found.matrix.shape == (5, 6, dim, dim)
    assert found.scale.shape == (5, 6)
    tokens = regression_tokens(prompts)
    x = np.concat([prompts.inputs, prompts.query[:, None]], axis=1)
    y = np.concat([prompts.labels, np.zeros((6, 1))], axis=1)
    for depth in range(5):
        layer = forward(tokens, model.layers[:depth])
        inputs = np.einsum("nij,nkj->nki", found.matrix[depth], x)
        inputs += y[:, :, None] * found.shift[depth][:, None, :]
        labels = y * found.scale[depth][:, None]
        labels -= np.einsum("nj,nkj->nk", found.weights[depth], x)
        assert_close(inputs, layer[:, :, :-1])
        assert_close(labels, layer[:, :, -1])
        assert_close(found.labels(prompts)[depth], layer[:, :-1, -1])
    expected = GramPass(gram_matrices(prompts.inputs, prompts.labels), model).weights
    assert_close(found.weights[-1], expected)
    predicted = np.sum(found.weights[-1] * prompts.query, axis=1)
    assert_close(predicted, prediction(tokens, model.layers))


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["diag", "gd++"])
@pytest.mark.parametrize(("context", "dim"), SIZES)
def test_recursions_agree_in_all_quantities(kind, context, dim):
    """Tokens alone do not determine M and w in contexts shorter than the dimension."""
    prompts = draw(context, dim)
    model = random_model(kind, context, dim, heads=2)
    expected = implicit_weights(prompts, model)
    for recursion in RECURSIONS[kind][1:]:
        found = recursion(prompts, model)
        for name in ("matrix", "scale", "weights"):
            assert_close(getattr(found, name), getattr(expected, name))
        scale = max(1.0, np.max(np.abs(expected.shift)))
        exact = expected.shift
        np.testing.assert_allclose(found.shift, exact, rtol=0, atol=ROUNDING * float(scale))


def test_the_printed_lemma_fails_from_the_second_layer_on():
    r"""M + a u w*^T for M + u w*^T, with everything else right."""
    prompts = draw(12, 4, n=1)
    model = random_model("diag", 12, 4, heads=2)
    right = diagonal_recursion(prompts, model)
    x = prompts.inputs[0]
    y = prompts.labels[0]
    sigma = x.T @ x
    solved = np.linalg.lstsq(x, y)[0]
    rho = np.sum((y - x @ solved) ** 2)
    errors = []
    for depth in range(3):
        a = right.scale[depth, 0]
        w = right.weights[depth, 0]
        M = right.matrix[depth, 0]
        u = right.shift[depth, 0]
        (_, _), (yx, yy) = model.omegas[depth]
        gradient = sigma @ (a * solved - w)
        lam = np.sum((a * y - x @ w) ** 2)
        printed = M + a * np.outer(u, solved)
        after = (1 + yy * lam) * w - yx * M.T @ (printed @ gradient + a * rho * u)
        exact = right.weights[depth + 1, 0]
        errors.append(np.linalg.norm(after - exact) / np.linalg.norm(exact))
    assert errors[0] < ROUNDING
    assert min(errors[1:]) > 1e-3


def test_gdpp_has_neither_shift_nor_scale():
    prompts = draw(9, 3)
    found = implicit_weights(prompts, random_model("gd++", 9, 3))
    np.testing.assert_array_equal(found.shift, 0)
    np.testing.assert_array_equal(found.scale, 1)


def test_alignment_is_that_of_the_tokens_and_within_its_bound():
    for kind, noise in (("diag", "fixed:0"), ("full", "fixed:1.5")):
        prompts = draw(40, 3, n=50, noise=noise)
        model = random_model(kind, 40, 3)
        found = alignment_cosine(prompts, model)
        tokens = regression_tokens(prompts)
        bound = alignment_bound(prompts)
        assert found.shape == (5, 50)
        for depth in range(5):
            labels = forward(tokens, model.layers[:depth])[:, :-1, -1]
            for n in range(50):
                target = prompts.inputs[n, :, 0] ** 2
                cosine = labels[n] @ target / np.linalg.norm(labels[n]) / np.linalg.norm(target)
                assert found[depth, n] == pytest.approx(cosine, rel=1e-9, abs=ROUNDING)
        assert np.all(np.abs(found) <= bound * (1 + ROUNDING))


@pytest.mark.machine
def test_the_bound_is_attained_by_a_linear_label():
    """Labels equal to the least squares fit of the squares, which no search can beat."""
    prompts = draw(30, 3, noise="fixed:0")
    target = prompts.inputs[:, :, 0] ** 2
    best = np.stack(
        [x @ np.linalg.lstsq(x, t)[0] for x, t in zip(prompts.inputs, target, strict=True)]
    )
    aligned = Prompts(prompts.inputs, best, prompts.query, prompts.query_label)
    cosine = alignment_cosine(aligned, random_model("gd++", 30, 3, layers=1))[0]
    np.testing.assert_allclose(cosine, alignment_bound(prompts), rtol=1e-9)
    assert np.all(alignment_bound(draw(3, 5)) > 1 - ROUNDING)  # short contexts: all labels


def test_vanishing_labels_have_no_direction():
    prompts = draw(4, 2)
    silent = Prompts(prompts.inputs, 0 * prompts.labels, prompts.query, prompts.query_label)
    np.testing.assert_array_equal(alignment_cosine(silent, random_model("diag", 4, 2)), 0)


def test_two_layers_solve_the_equations_of_the_theorem():
    for levels in ((0.6, 1.5), (0.0, 1.0), (1.2, 1.2)):
        model = two_level_ridge_transformer(levels, context=50, dim=3, input_variance=1 / 50)
        (_, (yx, zero)), (_, (none, yy)) = model.omegas
        assert np.count_nonzero(model.omegas) == 2
        assert zero == none == 0
        for s in levels:
            assert -yx * (1 + 50 * s**2 * yy) == pytest.approx(1 / (1 + s**2), rel=1e-14)


def test_units_of_inputs_and_labels():
    """N(0, I/n) inputs with fixed levels are N(0, I) inputs with levels times the root of n."""
    n = 30
    root = math.sqrt(30)
    prompts = draw(n, 3, noise="fixed:5")
    small = Prompts(
        prompts.inputs / root, prompts.labels / root, prompts.query / root, prompts.query_label
    )
    levels = np.array([0.5, 1.0])
    one = two_level_ridge_transformer(levels, context=n, dim=3, input_variance=1 / n)
    other = two_level_ridge_transformer(root * levels, context=n, dim=3)
    expected = implicit_weights(prompts, other).weights[-1]
    assert_close(implicit_weights(small, one).weights[-1], expected)


def test_errors():
    for call, message in (
        (
            lambda: implicit_weights(draw(4, 3), random_model("diag", 4, 2)),
            "model must be of dimension 3, got 2",
        ),
        (
            lambda: diagonal_recursion(draw(4, 3), random_model("full", 4, 3)),
            "kind must be 'diag' or 'gd\\+\\+' for omegas, got 'full'",
        ),
        (
            lambda: two_level_ridge_transformer([1], context=4, dim=2),
            r"noise_levels must have shape \(2,\), got \(1,\)",
        ),
        (
            lambda: two_level_ridge_transformer([1, -1], context=4, dim=2),
            r"noise_levels must be >= 0, got \[1, -1\]",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_strict_arrays():
    strict = array_api_strict.asarray
    prompts = draw(6, 3)
    model = random_model("full", 6, 3, heads=2)
    there = Prompts(**{name: strict(value) for name, value in arrays_of(prompts).items()})
    moved = LinearTransformer("full", strict(model.projection), strict(model.lookup))
    expected = implicit_weights(prompts, model)
    for name, value in vars(implicit_weights(there, moved)).items():
        assert_close(np.from_dlpack(value), getattr(expected, name))
    assert_close(np.from_dlpack(alignment_cosine(there, moved)), alignment_cosine(prompts, model))
    assert_close(np.from_dlpack(alignment_bound(there)), alignment_bound(prompts))
