"""Losses and gradients against attention computed token by token with full weight matrices."""

import math

import numpy as np
import pytest
from prompt_arrays import arrays_of
from refusals import type_error, value_error

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.dynamics.attention_models import AttentionModel, MomentLoss, SequenceLoss
from iclimit.simulate.dynamics.feature_moments import (
    population_moments,
    sequence_moments,
    stack_moments,
)
from iclimit.simulate.models.moments import FeatureMoments
from iclimit.simulate.prompts import Prompts, draw_prompts

NUMPY = get_backend("numpy")
ROUNDING = 1e-11  # relative to the largest entry
MODELS = [
    AttentionModel("merged", 3, 4),
    AttentionModel("merged", 1, 1),
    AttentionModel("separate", 3, 2),
    AttentionModel("separate", 3, 2, 2),
    AttentionModel("separate", 3, 1, 3),
    AttentionModel("cubic", 3, 4),
    AttentionModel("cubic", 1, 2),
]


def sequences(dim, rng=0, count=12):
    problem = Problem(
        dim=len(np.arange(1.0, dim + 1)),
        context=5,
        input_covariance=np.arange(1.0, dim + 1),
        noise_variance=0.2,
        scale=1,
    )
    return draw_prompts(problem, NUMPY, np.random.default_rng(rng), count)


def some_weights(model, repeats, rng=1):
    """Weights of which none is zero."""
    generator = np.random.default_rng(rng)
    return [generator.standard_normal((repeats, *shape)) for shape in model.shapes]


def attention_predictions(model, weights, prompts):
    """Last entries of the queries' tokens after one layer, weights of one run.

    Full value matrices, and key and query matrices of D + 1 columns: their other entries are
    random, as they must not matter.
    """
    generator = np.random.default_rng(99)
    dim = model.dim
    found = []
    for x, y, query in zip(prompts.inputs, prompts.labels, prompts.query, strict=True):
        context = len(y)
        tokens = np.zeros((dim + 1, context + 1))
        tokens[:dim, :context] = x.T
        tokens[:dim, context] = query
        tokens[dim, :context] = y
        out = tokens.astype(complex)
        for head in range(model.heads):
            value = generator.standard_normal((dim + 1, dim + 1)).astype(complex)
            merged = np.zeros((dim + 1, dim + 1), dtype=complex)
            merged[:, dim] = generator.standard_normal(dim + 1)
            if model.kind == "cubic":  # the layer that reads labels and looks inputs up
                value[-1] = 0
                value[-1, -1] = weights[0][head, 0]
                merged[:dim, :dim] = weights[1][head]
            elif model.kind == "merged":
                value[-1] = weights[0][head]
                merged[:, :dim] = weights[1][head]
            else:
                value[-1] = weights[0][head]
                wide = np.concatenate(
                    [weights[2][head], generator.standard_normal((model.rank, 1))], axis=1
                )
                merged = weights[1][head].T @ wide
            out += value @ tokens @ (tokens.T @ merged @ tokens) / context
        found.append(out[-1, -1])
    return np.array(found)


def complex_step(function, weights):
    gradients = [np.empty_like(each) for each in weights]
    for place, gradient in enumerate(gradients):
        for index in np.ndindex(gradient.shape):
            moved = [each.astype(complex) for each in weights]
            moved[place][index] += 1e-30j
            gradient[index] = function(moved).imag / 1e-30
    return gradients


def assert_equal(found, expected):
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * scale)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_losses_and_gradients_of_attention(model):
    prompts = sequences(model.dim)
    weights = some_weights(model, 2)

    def loss(run):
        return np.mean((attention_predictions(model, run, prompts) - prompts.query_label) ** 2)

    by_moments = MomentLoss(model, sequence_moments(prompts))(weights)
    by_sequences = SequenceLoss(model, [prompts, prompts])(weights)
    for repeat in range(2):
        run = [each[repeat] for each in weights]
        gradients = complex_step(loss, run)
        for losses, halves in (by_moments, by_sequences):
            assert losses.shape == (2,)
            assert losses[repeat] == pytest.approx(loss(run).real, rel=ROUNDING)
            for half, gradient in zip(halves, gradients, strict=True):
                assert_equal(2 * half[repeat], gradient)


@pytest.mark.parametrize("normalization", ["mean", "sum"])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_moments_and_sequences_of_each_repeat(model, normalization):
    sets = [sequences(model.dim, rng) for rng in range(3)]
    weights = some_weights(model, 3)
    moments = [sequence_moments(each, normalization=normalization) for each in sets]
    losses, halves = MomentLoss(model, stack_moments(NUMPY, moments))(weights)
    by_sequences = SequenceLoss(model, sets, normalization)(weights)
    assert_equal(by_sequences[0], losses)
    for half, other in zip(halves, by_sequences[1], strict=True):
        assert_equal(other, half)
    for repeat in range(3):
        run = [each[repeat : repeat + 1] for each in weights]
        alone, gradients = MomentLoss(model, moments[repeat])(run)
        assert alone[0] == pytest.approx(losses[repeat], rel=1e-13)
        for half, gradient in zip(halves, gradients, strict=True):
            assert_equal(gradient[0], half[repeat])


def test_chosen_sequences():
    for model in MODELS:
        sets = [sequences(model.dim, rng) for rng in range(2)]
        weights = some_weights(model, 2)
        chosen = np.array([[3, 3, 11, 0], [5, 2, 2, 2]])
        parts = [
            Prompts(*(array[rows] for array in arrays_of(each).values()))
            for each, rows in zip(sets, chosen, strict=True)
        ]
        losses, halves = SequenceLoss(model, sets)(weights, chosen)
        expected, others = SequenceLoss(model, parts)(weights)
        assert_equal(losses, expected)
        for half, other in zip(halves, others, strict=True):
            assert_equal(half, other)


@pytest.mark.parametrize("kind", ["merged", "separate"])
def test_random_tasks_do_not_leave_the_small_network(kind):
    # For random tasks the weights that start at zero have no gradient: moments odd in the task.
    model = AttentionModel(kind, 3, 2)
    start = model.random_weights(np.random.default_rng(2), 0.5)
    moments = population_moments(
        Problem(dim=3, context=4, input_covariance=[1.0, 0.5, 0.2], noise_variance=0.1, scale=1)
    )
    _, halves = MomentLoss(model, moments)([each[None] for each in start])
    frozen = halves[1][..., -1, :] if kind == "merged" else halves[1][..., -1]
    assert np.max(np.abs(frozen)) < 1e-16
    assert np.max(np.abs(halves[0][..., :-1])) < 1e-16
    assert np.max(np.abs(halves[0][..., -1])) > 1e-3


def test_conserved_along_the_gradient():
    for model in MODELS:
        weights = some_weights(model, 2)
        _, halves = MomentLoss(model, sequence_moments(sequences(model.dim)))(weights)
        moved = [old - 1e-30j * half for old, half in zip(weights, halves, strict=True)]
        rate = model.conserved(moved).imag / 1e-30
        number = model.heads * (1 + model.rank) if model.kind == "separate" else model.heads**2
        assert rate.shape == model.conserved(weights).shape == (2, number)
        scale = max(
            np.max(np.abs(w)) * np.max(np.abs(h)) for w, h in zip(weights, halves, strict=True)
        )
        assert np.max(np.abs(rate)) < ROUNDING * scale
        assert np.all(model.conserved(weights) != 0)


def test_what_is_conserved():
    value = np.array([[[1.0, 2.0], [0.0, 3.0]]])
    key = np.array([[[[1.0, 0.0]], [[2.0, 2.0]]]])
    query = np.array([[[[2.0]], [[1.0]]]])
    model = AttentionModel("separate", 1, 2)
    np.testing.assert_array_equal(model.conserved([value, key, query]), [[4, -3, 1, 7]])
    model = AttentionModel("merged", 1, 2)
    lookup = np.array([[[[1.0], [0.0]], [[2.0], [2.0]]]])
    np.testing.assert_array_equal(model.conserved([value, lookup]), [[4, 4, 4, 1]])


HEADS = 400  # so many random weights of a kind at least


def test_random_weights():
    for kind, rank, initialization, deviations in (
        ("merged", 1, "per-head", (0.2, 0.2)),
        ("cubic", 1, "per-layer", (0.2, 0.2)),
        ("separate", 2, "per-head", (0.2, 0.2 / math.sqrt(8), 0.2 / math.sqrt(8))),
        (
            "separate",
            2,
            "per-layer",
            (0.2 / math.sqrt(HEADS * 16), 0.2 / math.sqrt(HEADS * 8), 0.2 / math.sqrt(HEADS * 8)),
        ),
    ):
        model = AttentionModel(kind, 3, HEADS, rank)
        weights = model.random_weights(np.random.default_rng(3), 0.2, initialization)
        assert [each.shape for each in weights] == list(model.shapes)
        value, lookup = weights[:2]
        free = [value[:, -1], lookup, *weights[2:]]
        if kind != "cubic":
            assert not np.any(value[:, :-1])
            unread, free[1] = (
                (lookup[:, -1], lookup[:, :-1])
                if kind == "merged"
                else (lookup[:, :, -1], lookup[:, :, :-1])
            )
            assert not np.any(unread)
        for each, deviation in zip(free, deviations, strict=True):
            ratio = np.mean(each**2) / deviation**2
            assert abs(ratio - 1) < 4 * math.sqrt(2 / each.size)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_strict_arrays(model, strict_backend):
    xp = strict_backend.xp
    prompts = sequences(model.dim)
    weights = some_weights(model, 2)
    there = Prompts(*map(xp.asarray, arrays_of(prompts).values()))
    moved = [xp.asarray(each) for each in weights]
    chosen = np.array([[3, 3, 11, 0], [5, 2, 2, 2]])
    moments = sequence_moments(there)
    for found, expected in (
        (MomentLoss(model, moments)(moved), MomentLoss(model, sequence_moments(prompts))(weights)),
        (SequenceLoss(model, [there] * 2)(moved), SequenceLoss(model, [prompts] * 2)(weights)),
        (
            SequenceLoss(model, [there] * 2)(moved, xp.asarray(chosen)),
            SequenceLoss(model, [prompts] * 2)(weights, chosen),
        ),
    ):
        assert_equal(np.from_dlpack(found[0]), expected[0])
        for half, other in zip(found[1], expected[1], strict=True):
            assert_equal(np.from_dlpack(half), other)
    assert_equal(np.from_dlpack(model.conserved(moved)), model.conserved(weights))


def test_wrong_models():
    for arguments, message in (
        (("softmax", 2, 1), "model must be one of merged, separate, cubic, got 'softmax'"),
        (("merged", 0, 1), "dim must be an integer >= 1, got 0"),
        (("merged", 2, 0), "heads must be an integer >= 1, got 0"),
        (("merged", 2, 1.5), "heads must be an integer >= 1, got 1.5"),
        (("separate", 2, 1, 0), "rank must be an integer >= 1, got 0"),
        (("separate", 2, 1, 3), "rank must be at most the dimension 2, got 3"),
        (("merged", 2, 1, 2), "rank must be 1 for model 'merged', got 2"),
    ):
        value_error(message, AttentionModel, *arguments)


def test_wrong_weights():
    model = AttentionModel("merged", 2, 3)
    generator = np.random.default_rng(0)
    for scale in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"init_scale must be > 0 .* got {scale}"):
            model.random_weights(generator, scale)
    with pytest.raises(ValueError, match="initialization must be one of per-head, per-layer"):
        model.random_weights(generator, 0.1, "xavier")
    good = [np.ones((3, 3)), np.ones((3, 3, 2))]
    assert all(a is b for a, b in zip(model.parse_weights(good), good, strict=True))
    with pytest.raises(ValueError, match="initial must hold 2 arrays for model 'merged', got 1"):
        model.parse_weights(good[:1])
    message = r"initial\[1\] must have shape \(3, 3, 2\), got \(3, 3\)"
    value_error(message, model.parse_weights, [good[0], good[0]])
    value_error(r"initial\[0\] must be finite", model.parse_weights, [math.nan * good[0], good[1]])
    type_error("initial must be a sequence of arrays, got 3", model.parse_weights, 3)


def test_moments_of_another_dimension():
    moments = FeatureMoments(1.0, np.ones(12), np.ones((12, 12)))
    message = "moments must have 30 features for dim 3, got 12"
    value_error(message, MomentLoss, AttentionModel("cubic", 3, 1), moments)
