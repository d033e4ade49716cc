"""Kinds of linear transformers: what is free in them, their scalars, files, and sizes."""

import math

import numpy as np
import pytest
from refusals import value_error

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.models.linear_transformer import (
    KINDS,
    LinearTransformer,
    build,
    free_parameters,
    parameter_count,
    random_parameters,
    ties,
)
from iclimit.simulate.models.transformer import apply_layer, forward
from iclimit.simulate.prompts import draw_prompts, regression_tokens

ROUNDING = 1e-12  # relative, a few products
COPYING = 1e-15  # relative; means of equal numbers
Z_MAX = 4.0
CHAIN = [
    ("gd++", "diag"),
    ("gd++", "axial"),
    ("gd++", "full"),
    ("diag", "axial"),
    ("diag", "full"),
    ("axial", "full"),
]


def random_model(kind, *, layers=2, heads=2, dim=3, seed=0):
    """Entries of order one."""
    generator = np.random.default_rng(seed)
    shape = (layers, heads, parameter_count(kind, dim))
    return build(kind, generator.standard_normal(shape), dim)


def tokens_of(n, context, dim):
    law = Problem(dim=dim, context=context, noise_law="fixed:0.7", scale=1)
    return regression_tokens(draw_prompts(law, get_backend("numpy"), np.random.default_rng(5), n))


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_free_parameters_are_those_of_the_paper(dim):
    generator = np.random.default_rng(1)
    counts = {
        "full": 2 * (dim + 1) ** 2,
        "axial": min(8 + 2 * (dim - 1), 10),
        "diag": 4,
        "gd++": 3,
    }
    for kind in KINDS:
        assert parameter_count(kind, dim) == counts[kind] == len(ties(kind, dim))
        assert np.max(np.sum(ties(kind, dim), axis=0)) <= 1  # one parameter to an entry at most
    a, b, c, e = generator.standard_normal(4)
    P = np.diag([a] * dim + [b])
    Q = np.diag([c] * dim + [e])
    model = build("diag", np.array([[[a, b, c, e]]]), dim)
    np.testing.assert_array_equal(model.projection, P[None, None])
    np.testing.assert_array_equal(model.lookup, Q[None, None])
    model = build("gd++", np.array([[[a, b, c]]]), dim)
    np.testing.assert_array_equal(model.projection, P[None, None])
    np.testing.assert_array_equal(model.lookup, np.diag([c] * dim + [0.0])[None, None])
    entries = generator.standard_normal((2, dim + 1, dim + 1))
    model = build("full", entries.reshape(1, 1, -1), dim)
    np.testing.assert_array_equal(model.projection[0, 0], entries[0])
    np.testing.assert_array_equal(model.lookup[0, 0], entries[1])
    assert (model.depth, model.dim) == (1, dim)


def symmetries(dim):
    """Orthogonal maps of tokens that leave the first input and the label as they are.

    Reflections are among them: in less than four dimensions more commutes with rotations only.
    """
    found = [np.eye(dim + 1) for _ in range(4)]
    for seed, map_ in enumerate(found):
        other, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((dim - 1, dim - 1)))
        other[:1] *= (-1) ** seed * np.linalg.det(other)  # every second one is a reflection
        map_[1:-1, 1:-1] = other
    return found


@pytest.mark.machine
@pytest.mark.parametrize("dim", [1, 2, 3, 4, 7])
def test_axial_weights_are_all_that_commute_with_the_symmetries(dim):
    size = dim + 1
    equations = np.concatenate(
        [np.kron(map_, np.eye(size)) - np.kron(np.eye(size), map_.T) for map_ in symmetries(dim)]
    )
    free = size**2 - np.linalg.matrix_rank(equations)
    tie = ties("axial", dim).reshape(-1, 2, size**2)
    assert np.max(np.abs(tie @ equations.T)) < ROUNDING
    for side in (0, 1):
        assert np.linalg.matrix_rank(tie[:, side]) == free
    assert parameter_count("axial", dim) == 2 * free


@pytest.mark.machine
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads", "dim"), [(1, 1, 1), (3, 2, 4)])
def test_parameters_come_back(kind, layers, heads, dim):
    shape = (layers, heads, parameter_count(kind, dim))
    parameters = np.exp(5 * np.random.default_rng(2).standard_normal(shape))
    found = free_parameters(build(kind, parameters, dim), kind)
    np.testing.assert_allclose(found, parameters, rtol=COPYING)


@pytest.mark.machine
def test_kinds_that_contain_others():
    for small, large in CHAIN:
        model = random_model(small)
        same = build(large, free_parameters(model, large), model.dim)
        assert same.kind == large
        np.testing.assert_allclose(same.projection, model.projection, rtol=COPYING)
        np.testing.assert_allclose(same.lookup, model.lookup, rtol=COPYING)


def test_kinds_that_do_not_contain_others():
    for small, large in CHAIN:
        message = f"weights must be of kind '{small}'.*got other entries.*of kind '{large}'"
        value_error(message.replace("+", r"\+"), free_parameters, random_model(large), small)


@pytest.mark.parametrize("size", [1e-9, 1.0])
@pytest.mark.parametrize("entry", [(0, 1), (1, 1), (2, 0), (3, 1)])
def test_one_entry_out_of_place_is_seen(entry, size):
    model = random_model("diag", dim=3)
    model.lookup[1, 0, *entry] += size
    value_error("weights must be of kind 'diag'", free_parameters, model, "diag")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_weights_that_are_not_finite(bad):
    model = random_model("diag")
    model.projection[0, 0, 0, 0] = bad
    with pytest.raises(ValueError, match="weights must be finite, got NaN or inf among them"):
        free_parameters(model, "full")


def test_transformer_of_zeros():
    for kind in KINDS:
        zero = LinearTransformer("gd++", np.zeros((2, 1, 3, 3)), np.zeros((2, 1, 3, 3)))
        assert not np.any(free_parameters(zero, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_those_of_the_definition(kind):
    model = random_model(kind)
    tokens = tokens_of(4, 5, 3)
    expected = tokens.copy()
    for depth in range(model.depth):
        updated = expected.copy()
        for m in range(4):
            gram = sum(np.outer(e, e) for e in expected[m, :-1])  # the query is no key
            for i in range(6):
                for head in range(2):
                    P = model.projection[depth, head]
                    Q = model.lookup[depth, head]
                    updated[m, i] += P @ gram @ Q @ expected[m, i]
        expected = updated
    found = forward(tokens, model.layers)
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * np.max(np.abs(expected)))


@pytest.mark.parametrize("kind", ["diag", "gd++"])
@pytest.mark.parametrize("heads", [1, 3])
def test_omegas_are_the_scalars_of_a_layer(kind, heads):
    """Equations (8) to (11) of arXiv:2402.14180."""
    dim = 3
    model = random_model(kind, heads=heads)
    assert model.omegas.shape == (2, 2, 2)
    tokens = tokens_of(5, 4, dim)
    (xx, xy), (yx, yy) = model.omegas[1]
    for m, after in enumerate(apply_layer(tokens, model.layers[1])):
        x = tokens[m, :-1, :-1]
        y = tokens[m, :-1, -1]
        sigma = x.T @ x
        alpha = x.T @ y
        lam = y @ y
        for i in range(5):
            at = tokens[m, i, :-1]
            label = tokens[m, i, -1]
            new_x = at + xx * sigma @ at + xy * label * alpha
            new_y = label + yx * alpha @ at + yy * lam * label
            np.testing.assert_allclose(after[i], [*new_x, new_y], rtol=1e-10, atol=1e-10)
    gap = xx * yy - xy * yx
    if heads == 1 or kind == "gd++":  # one product of two vectors, or a column of zeros
        assert abs(gap) <= ROUNDING * max(abs(xx * yy), 1)
    else:
        assert abs(gap) > 0.1
    assert (xy == yy == 0) == (kind == "gd++")


@pytest.mark.parametrize("kind", ["full", "axial"])
def test_other_weights_have_no_omegas(kind):
    message = rf"kind must be 'diag' or 'gd\+\+' for omegas, got '{kind}'"
    with pytest.raises(ValueError, match=message):
        _ = random_model(kind).omegas


SIZES = {"heads": 1, "dim": 3, "context": 6, "variance": 2.0}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heads", [1, 4])
def test_random_parameters_are_normal_in_their_units(kind, heads):
    layers = 4000 // heads
    found = random_parameters(
        np.random.default_rng(3), kind=kind, layers=layers, **{**SIZES, "heads": heads}
    )
    assert found.shape == (layers, heads, parameter_count(kind, 3))
    unit = (6 + 3 + 1 + 2) ** -0.5 * heads**-0.25
    label = 1 / (3 + 2)
    if kind == "full":
        unit *= 0.5
        column = np.array([1.0, 1.0, 1.0, label])
        apart = 0.002 * (1 - np.eye(4)) * column
        scales = np.eye(4) + apart, np.diag(column) + apart
        scale = np.ravel(scales)
    elif kind == "axial":
        unit *= 0.5
        scale = np.array([1, 1, 0.1 * label, 0.1, 1, 1, 1, 0.1 * label, 0.1, label])
    else:
        scale = np.array([1.0, 1.0, 1.0, label][: found.shape[-1]])
    squares = np.mean((found / (unit * scale)) ** 2, axis=(0, 1))
    assert np.max(np.abs(squares - 1)) < Z_MAX * math.sqrt(2 / 4000)
    if kind in ("diag", "gd++"):
        assert np.all(found[..., 1] * found[..., 2] < 0)  # descent
        found = np.copysign(found, np.random.default_rng(5).standard_normal(found.shape))
    correlation = np.corrcoef(found.reshape(4000, -1).T) - np.eye(found.shape[-1])
    assert np.max(np.abs(correlation)) < (Z_MAX + 0.5) / math.sqrt(4000)


@pytest.mark.parametrize("name", ["layers", "heads"])
def test_wrong_numbers_of_random_parameters(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got 0"):
        random_parameters(
            np.random.default_rng(0), **{"kind": "diag", "layers": 1, **SIZES, name: 0}
        )


def test_unknown_kinds():
    message = r"kind must be one of full, axial, diag, gd\+\+, got 'gd'"
    one = np.zeros((1, 1, 3, 3))
    value_error(message, ties, "gd", 2)
    value_error(message, LinearTransformer, "gd", one, one)
    value_error(message, random_parameters, np.random.default_rng(0), kind="gd", layers=1, **SIZES)
    value_error(message, free_parameters, LinearTransformer("diag", one, one), "gd")


def test_wrong_shapes():
    for projection, lookup, message in (
        ((1, 1, 3, 2), (1, 1, 3, 2), r"projection must have shape \(any, any, 2, 2\)"),
        ((1, 3, 3), (1, 3, 3), r"projection must have shape \(any, any, 3, 3\), got \(1, 3, 3\)"),
        ((0, 1, 3, 3), (0, 1, 3, 3), r"projection must have shape .* got \(0, 1, 3, 3\)"),
        ((), (), r"projection must have shape .* got \(\)"),
        ((1, 1, 3, 3), (1, 1, 4, 4), r"lookup must have shape \(1, 1, 3, 3\), got \(1, 1, 4, 4\)"),
        ((1, 1, 3, 3), (1, 2, 3, 3), r"lookup must have shape \(1, 1, 3, 3\), got \(1, 2, 3, 3\)"),
    ):
        value_error(message, LinearTransformer, "full", np.zeros(projection), np.zeros(lookup))
