"""Trained linear transformers against closed forms, and trainings that are cut and go on."""

import math
import os

import numpy as np
import pytest
from refusals import arithmetic_error, type_error, value_error

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.gdpp import contexts as context_module
from iclimit.simulate.gdpp import transformer_training
from iclimit.simulate.gdpp.adjusted_loss import (
    BLOCK,
    AdjustedLoss,
    Descent,
    HeldOutLosses,
    held_out_losses,
)
from iclimit.simulate.gdpp.contexts import draw_contexts
from iclimit.simulate.gdpp.transformer_training import train_linear_transformer
from iclimit.simulate.models.linear_transformer import (
    KINDS,
    LinearTransformer,
    build,
    free_parameters,
    random_parameters,
)
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.simulate.prompts import draw_prompts, regression_tokens

NUMPY = get_backend("numpy")
SMALL = Problem(dim=2, context=6, noise_law="uniform:2", scale=1)
SOME_KINDS = [
    "diag",
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "diag"),
]
QUICK = {"starts": 3, "contexts": 600, "steps": 12, "rng": 1}
Z_MAX = 4.0  # about 15 comparisons
HELD_OUT = 20_000
RATE_ERROR = 0.02  # relative; of a rate fitted to 2^13 contexts, .001 to .007 measured


def best_step(problem):
    """Rate of the best single step of descent and its mean squared error of the weights."""
    n = problem.context
    d = problem.dim
    variance = problem.noise_law.mean_variance
    return 1 / (n + d + 1 + variance), d * (1 - n / (n + d + 1 + variance))


def parameters_of(run):
    return free_parameters(run.model, run.model.kind)


def assert_same(one, other):
    """To the last bit, but for the interruption."""
    np.testing.assert_array_equal(one.model.projection, other.model.projection)
    np.testing.assert_array_equal(one.model.lookup, other.model.lookup)
    np.testing.assert_array_equal(one.start_losses, other.start_losses)
    assert (one.loss, one.steps, one.converged) == (other.loss, other.steps, other.converged)


def last_round(problem, contexts, rng):
    """The contexts of the last round, if they are fewer than are drawn at a time."""
    sample_seed, _ = seed_sequences(rng, 4)[3].spawn(2)
    generator = np.random.default_rng(seed_sequences(sample_seed, 1)[0])
    return draw_contexts(problem, NUMPY, generator, contexts, rare=True)


@pytest.mark.machine
@pytest.mark.parametrize(
    ("kind", "heads", "spec"),
    [
        ("gd++", 1, "uniform:3"),
        ("diag", 2, "categorical:1,3"),
        ("axial", 1, "uniform:1"),
        ("full", 1, "fixed:0.5"),
    ],
)
def test_one_layer_takes_the_best_step(kind, heads, spec):
    """Its rate and its loss, minus that of the oracle on plain prompts."""
    problem = Problem(dim=4, context=10, noise_law=spec, scale=1)
    run = train_linear_transformer(
        problem, kind=kind, heads=heads, starts=4, contexts=2**13, rng=2
    )
    assert run.converged
    assert not run.interrupted
    rate, error = best_step(problem)
    P = run.model.projection[0]
    Q = run.model.lookup[0]
    acting = np.einsum("hi,hjk->ijk", P[:, -1], Q)  # of G_ij times the query's entry k
    slopes = acting[-1, :-1, :-1] + acting[:-1, -1, :-1]
    np.testing.assert_allclose(slopes, -rate * np.eye(4), rtol=0, atol=4 * RATE_ERROR * rate)
    assert np.mean(np.diag(slopes)) == pytest.approx(-rate, rel=RATE_ERROR)
    sample = draw_prompts(problem, NUMPY, np.random.default_rng(3), HELD_OUT)
    oracle = ridge_weights(sample.inputs, sample.labels, sample.noise_variance)
    gaps = error / 2 - np.sum((sample.tasks - oracle) ** 2, axis=1) / 2
    fresh = held_out_losses(run.model, problem, contexts=HELD_OUT, rng=4)
    spread = math.hypot(np.std(gaps) / math.sqrt(HELD_OUT), fresh.loss.standard_error)
    assert abs(fresh.loss.mean - np.mean(gaps)) < Z_MAX * spread
    assert spread < 0.02 * fresh.loss.mean


@pytest.mark.parametrize("kind", ["gd++", "diag"])
def test_noiseless_layer_of_the_paper(kind):
    """Adjusted loss (d/2)(d + 1)/(N + d + 1) = 1.774 for N = 20 and d = 10."""
    problem = Problem(dim=10, context=20, noise_law="fixed:0", scale=1)
    run = train_linear_transformer(problem, kind=kind, starts=6, contexts=4096, rng=5)
    fresh = held_out_losses(run.model, problem, contexts=HELD_OUT, rng=6)
    assert abs(fresh.loss.mean - 5 * 11 / 31) < Z_MAX * fresh.loss.standard_error
    assert fresh.loss.standard_error < 0.02
    assert run.model.omegas[0, 1, 0] == pytest.approx(-1 / 31, rel=RATE_ERROR)


@pytest.mark.machine
@pytest.mark.parametrize("kind", KINDS)
def test_loss_is_that_of_the_model_on_the_last_contexts(kind):
    run = train_linear_transformer(SMALL, kind=kind, layers=2, heads=2, **QUICK)
    assert (run.model.kind, run.model.depth, run.model.lookup.shape[1]) == (kind, 2, 2)
    summaries = last_round(SMALL, 600, 1)
    objective = AdjustedLoss(summaries, kind, NUMPY, np.random.default_rng(0))
    assert objective.loss(parameters_of(run)) == pytest.approx(run.loss, rel=1e-9)
    assert run.start_losses.shape == (3,)
    assert 3 <= run.steps <= (3 + 3 + 2) * 12
    assert run.parameters["problem"] is SMALL
    assert run.parameters["kind"] == kind


def test_cores_do_not_decide(monkeypatch):
    settings = {**QUICK, "layers": 2, "kind": "full", "steps": 3}
    monkeypatch.setitem(BLOCK, "numpy", 64)
    run = train_linear_transformer(SMALL, **settings)
    for cores in (1, 3, None):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert_same(train_linear_transformer(SMALL, **settings), run)


@pytest.mark.parametrize("kind", SOME_KINDS)
def test_deeper_is_not_worse(kind):
    """On the same contexts, and with a shallower one among the starts."""
    settings = {"kind": kind, "starts": 2, "contexts": 500, "steps": 20, "rng": 10}
    last = None
    for layers in (1, 2, 3):
        initial = () if last is None else (last.model,)
        run = train_linear_transformer(SMALL, layers=layers, initial=initial, **settings)
        assert run.start_losses.shape == (2 + (layers if last else 0),)
        if last is not None:
            assert run.loss < 0.95 * last.loss
        last = run


def test_given_start_of_full_depth_is_taken_as_it_is(monkeypatch):
    model = train_linear_transformer(SMALL, layers=2, **QUICK).model
    seen = []
    advance = Descent.advance

    def watched(self, *args):
        seen.append(self.parameters)
        advance(self, *args)

    monkeypatch.setattr(Descent, "advance", watched)
    train_linear_transformer(SMALL, layers=2, initial=[model], **{**QUICK, "starts": 1})
    wanted = free_parameters(model, "diag")
    assert any(np.array_equal(each, wanted) for each in seen)


def held_out_by_hand(model, problem, count):
    """Gaps of half squared errors on plain prompts, from tokens."""
    sample = draw_prompts(problem, NUMPY, np.random.default_rng(12), count)
    prompts = sample
    oracle = ridge_weights(prompts.inputs, prompts.labels, sample.noise_variance)
    guess = prediction(regression_tokens(prompts), model.layers)
    best = np.sum(oracle * prompts.query, axis=1)
    return ((prompts.query_label - guess) ** 2 - (prompts.query_label - best) ** 2) / 2


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_losses_are_those_on_prompts(kind):
    parameters = 0.7 * random_parameters(
        np.random.default_rng(13), kind=kind, layers=2, heads=2, dim=2, context=6, variance=4 / 3
    )
    model = build(kind, parameters, 2)
    fresh = held_out_losses(model, SMALL, contexts=HELD_OUT, rng=14)
    assert fresh.losses.shape == fresh.levels.shape == fresh.weights.shape == (HELD_OUT,)
    assert np.all((fresh.levels >= 0) & (fresh.levels <= 2))
    assert fresh.loss.mean == pytest.approx(fresh.weights @ fresh.losses / HELD_OUT, rel=1e-12)
    assert np.all(fresh.weights == 1)
    gaps = held_out_by_hand(model, SMALL, HELD_OUT)
    spread = math.hypot(fresh.loss.standard_error, np.std(gaps) / math.sqrt(HELD_OUT))
    assert abs(fresh.loss.mean - np.mean(gaps)) < Z_MAX * spread
    rare = held_out_losses(model, SMALL, contexts=HELD_OUT, rare=True, rng=14)
    assert np.ptp(rare.weights) > 1
    spread = math.hypot(rare.loss.standard_error, np.std(gaps) / math.sqrt(HELD_OUT))
    assert abs(rare.loss.mean - np.mean(gaps)) < Z_MAX * spread
    assert rare.loss.mean == pytest.approx(rare.weights @ rare.losses / HELD_OUT, rel=1e-12)


@pytest.mark.machine
def test_held_out_contexts_come_in_blocks(monkeypatch):
    model = build("gd++", np.array([[[0.0, -0.1, 1.0]]]), 2)
    monkeypatch.setattr(context_module, "_BLOCK", 50)
    monkeypatch.setitem(BLOCK, "numpy", 16)
    run = held_out_losses(model, SMALL, contexts=120, rng=16)
    again = held_out_losses(model, SMALL, contexts=120, rng=16)
    shorter = held_out_losses(model, SMALL, contexts=100, rng=16)
    np.testing.assert_array_equal(run.losses, again.losses)
    assert np.unique(run.losses).size == 120
    for name in ("losses", "levels", "weights"):
        np.testing.assert_array_equal(getattr(shorter, name), getattr(run, name)[:100])


def test_one_context_has_no_standard_error():
    model = build("gd++", np.array([[[0.0, -0.1, 1.0]]]), 2)
    run = held_out_losses(model, SMALL, contexts=1, rng=17)
    assert math.isfinite(run.loss.mean)
    assert run.loss.standard_error == math.inf


@pytest.mark.machine
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [10, 20, 40, 80, 160, 300])
def test_held_out_losses_overflow_to_infinity(kind, power):
    parameters = random_parameters(
        np.random.default_rng(18), kind=kind, layers=2, heads=1, dim=2, context=6, variance=1.0
    )
    run = held_out_losses(build(kind, 10.0**power * parameters, 2), SMALL, contexts=50, rng=19)
    assert not np.any(np.isnan(run.losses))
    assert run.loss.mean > 1e100
    assert run.loss.standard_error > 1e100
    if power >= 40:
        assert run.loss.mean == run.loss.standard_error == math.inf


def test_losses_near_the_largest_float():
    losses = np.array([1.7e308, 1e308, 1.7e308])
    run = HeldOutLosses(losses, np.zeros(3), np.ones(3))
    assert run.loss.mean == run.loss.standard_error == math.inf


def cut(monkeypatch, number):
    """Let Ctrl-C end a training before a step."""
    advance = Descent.advance
    calls = []

    def counted(*arguments):
        calls.append(1)
        if len(calls) == number:
            raise KeyboardInterrupt
        return advance(*arguments)

    monkeypatch.setattr(Descent, "advance", counted)


CHECKED = {"starts": 3, "contexts": 200, "steps": 6, "rng": 20, "layers": 2}


def test_interruption_returns_the_best_so_far(monkeypatch):
    whole = train_linear_transformer(SMALL, **CHECKED)
    cut(monkeypatch, 9)  # in the second start: 6 steps at most for each
    run = train_linear_transformer(SMALL, **CHECKED)
    assert run.interrupted
    assert not run.converged
    assert run.steps == 8
    assert run.start_losses[0] == whole.start_losses[0]
    assert run.start_losses[2] == math.inf
    assert run.loss == np.min(run.start_losses)


@pytest.mark.parametrize("later", [1, 2])
def test_interruption_between_rounds_returns_the_best_of_the_last(later, monkeypatch):
    whole = train_linear_transformer(SMALL, **CHECKED)
    calls = []
    summaries = context_module.draw_contexts

    def interrupted(*args, **kwargs):
        calls.append(1)
        if len(calls) == 1 + later:
            raise KeyboardInterrupt
        return summaries(*args, **kwargs)

    monkeypatch.setattr(context_module, "draw_contexts", interrupted)
    run = train_linear_transformer(SMALL, **CHECKED)
    assert run.interrupted
    np.testing.assert_array_equal(run.start_losses, whole.start_losses)
    assert math.isfinite(run.loss)
    if later == 1:
        assert run.loss == np.min(whole.start_losses)


MODEL = build("diag", np.array([[[0.01, -0.1, 1.0, 0.0]]]), 2)
OTHER = build("diag", np.array([[[0.01, -0.1, 1.0, 1e-9]]]), 2)


def huge_parameters(*args, **law):
    return 1e40 * random_parameters(*args, **law)


@pytest.mark.parametrize("kind", KINDS)
def test_starts_that_all_overflow(kind, monkeypatch):
    monkeypatch.setattr(transformer_training, "random_parameters", huge_parameters)
    message = "the loss of every start is infinite in round 1, after step 3$"
    arithmetic_error(message, train_linear_transformer, SMALL, kind=kind, **CHECKED)


def test_one_good_start_is_enough(monkeypatch):
    monkeypatch.setattr(transformer_training, "random_parameters", huge_parameters)
    good = build("diag", np.array([[[0.01, -0.1, 1.0, 0.0]]] * 2), 2)
    run = train_linear_transformer(SMALL, initial=[good], **CHECKED)
    np.testing.assert_array_equal(np.isfinite(run.start_losses), [False, False, False, True])
    assert run.loss < 0.5


def test_overflow_in_a_later_round(monkeypatch):
    expand = AdjustedLoss.expand
    first = 10 * 2 * 4  # contexts

    def overflowing(self, parameters):
        loss, *rest = expand(self, parameters)
        return (loss if self.count == first else math.inf, *rest)

    monkeypatch.setattr(AdjustedLoss, "expand", overflowing)
    message = r"infinite in round 3, after step \d+, 0\.\d+ in round 1$"
    arithmetic_error(message, train_linear_transformer, SMALL, **CHECKED)


def test_start_of_zeros_is_harmless():
    zero = LinearTransformer("gd++", np.zeros((1, 1, 3, 3)), np.zeros((1, 1, 3, 3)))
    run = train_linear_transformer(SMALL, initial=[zero], **{**CHECKED, "layers": 1})
    assert run.start_losses.shape == (4,)
    assert run.loss < run.start_losses[-1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", range(3))
def test_extreme_problems(kind, place):
    """Of each kind three problems: every two of kind, size and law of the noise meet."""
    spec = ("fixed:0", "fixed:1e100", "uniform:1e-100")[place]
    context, dim = ((1, 1), (1, 3), (3, 3))[(place + list(KINDS).index(kind)) % 3]
    problem = Problem(dim=dim, context=context, noise_law=spec, scale=1)
    run = train_linear_transformer(problem, kind=kind, **{**CHECKED, "contexts": 40})
    assert 0 <= run.loss <= np.min(run.start_losses) * 50 + 1
    assert np.all(np.isfinite(run.model.projection))


def test_one_context_is_overfitted():
    run = train_linear_transformer(SMALL, **{**CHECKED, "contexts": 1, "steps": 40})
    assert run.loss < 1e-6


def test_starts_that_do_not_fit():
    for initial, message in (
        ([MODEL, build("full", np.ones((1, 1, 18)), 2)], "weights must be of kind 'd"),
        ([build("diag", np.ones((3, 1, 4)), 2)], "initial must have at most 2 .*, got 3, 1 and 2"),
        ([build("diag", np.ones((1, 2, 4)), 2)], "initial must have at most 2 .*, got 1, 2 and 2"),
        ([build("diag", np.ones((1, 1, 4)), 3)], "initial must have at most 2 .*, got 1, 1 and 3"),
        ([build("diag", np.full((1, 1, 4), math.nan), 2)], "weights must be finite, got NaN"),
    ):
        value_error(message, train_linear_transformer, SMALL, **CHECKED, initial=initial)


def test_a_checkpoint_goes_on_to_the_same_result(tmp_path, monkeypatch):
    whole = train_linear_transformer(SMALL, **CHECKED)
    settings = CHECKED | {"checkpoint": tmp_path / "run.npz"}
    with monkeypatch.context() as patch:
        cut(patch, 9)
        assert train_linear_transformer(SMALL, **settings).interrupted
    assert_same(train_linear_transformer(SMALL, **settings), whole)
    # A finished training is only read.
    monkeypatch.setattr(Descent, "advance", pytest.fail)
    assert_same(train_linear_transformer(SMALL, **settings), whole)


def test_starts_tell_trainings_apart(tmp_path):
    settings = CHECKED | {"checkpoint": tmp_path / "run"}
    train_linear_transformer(SMALL, initial=[MODEL], **settings)
    for initial in ((), [OTHER], [MODEL, MODEL]):
        with pytest.raises(ValueError, match=r"same training, got .* another initial"):
            train_linear_transformer(SMALL, initial=initial, **settings)


def test_wrong_kinds():
    with pytest.raises(TypeError, match="initial must be a sequence of LinearTransformers, got L"):
        train_linear_transformer(SMALL, initial=MODEL, rng=0)
    with pytest.raises(TypeError, match="initial must hold LinearTransformers, got 3"):
        train_linear_transformer(SMALL, initial=[3], rng=0)
    type_error("model must be a LinearTransformer, got 'x'", held_out_losses, "x", SMALL, rng=0)
    type_error("problem must be a Problem, got 'x'", held_out_losses, MODEL, "x", rng=0)


def test_wrong_arguments_of_held_out_losses():
    with pytest.raises(ValueError, match="contexts must be an integer >= 1, got 0"):
        held_out_losses(MODEL, SMALL, contexts=0, rng=0)
    with pytest.raises(ValueError, match="model must be of dimension 3, got 2"):
        held_out_losses(MODEL, Problem(dim=3, context=20, noise_law="fixed:1", scale=1), rng=0)
    with pytest.raises(ValueError, match="backend must be one of numpy, cupy, got 'jax'"):
        held_out_losses(MODEL, SMALL, rng=0, backend="jax")
    dense = LinearTransformer("diag", np.ones((1, 1, 3, 3)), np.ones((1, 1, 3, 3)))
    with pytest.raises(ValueError, match="weights must be of kind 'diag', got other entries"):
        held_out_losses(dense, SMALL, rng=0)
