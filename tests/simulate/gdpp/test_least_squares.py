"""The adjusted loss on fixed contexts, its expansion, and the descents that minimise it."""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp.adjusted_loss import BLOCK, AdjustedLoss, Descent
from iclimit.simulate.gdpp.contexts import ContextSummaries, draw_contexts, gram_matrices
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.models.linear_transformer import KINDS, build, random_parameters
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.simulate.prompts import draw_prompts, regression_tokens

NUMPY = get_backend("numpy")
PROBLEM = Problem(dim=2, context=4, noise_law="uniform:2", scale=1)
ROUNDING = 1e-12  # relative; sums in another order
DIFFERENCES = 1e-8  # relative; central differences of sixth order leave 1e-10
Z_MAX = 4.5  # 36 + 36 + 210 entries, correlated


def summaries_of(count, problem=PROBLEM, seed=1):
    return draw_contexts(problem, NUMPY, np.random.default_rng(seed), count, rare=True)


def start(kind, layers=2, heads=1, seed=0, **law):
    size = {"dim": 2, "context": 4, "variance": 4 / 3, **law}
    return random_parameters(
        np.random.default_rng(seed), kind=kind, layers=layers, heads=heads, **size
    )


def objective_of(summaries, kind, run=map, seed=2):
    return AdjustedLoss(summaries, kind, NUMPY, np.random.default_rng(seed), run)


def assert_close(found, expected):
    """Loss, gradient and matrix, each to rounding of its largest entry."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=ROUNDING * np.max(np.abs(b)))


def test_loss_is_the_weighted_mean_over_contexts():
    """Against predictions on tokens for unit queries; contexts of unequal weights and losses."""
    for kind in KINDS:
        count = 30
        dim = 2
        heads = 2
        prompts = draw_prompts(PROBLEM, NUMPY, np.random.default_rng(3), count)
        generator = np.random.default_rng(4)
        weights = generator.random(count)
        ridge = generator.random(count)
        oracle = ridge_weights(prompts.inputs, prompts.labels, ridge)
        summaries = ContextSummaries(
            gram_matrices(prompts.inputs, prompts.labels), oracle, ridge**0.5, weights
        )
        parameters = start(kind, heads=heads)
        layers = build(kind, parameters, dim).layers
        losses = np.zeros(count)
        for k in range(dim):
            query = np.tile(np.eye(dim)[k], (count, 1))
            guess = prediction(regression_tokens(replace(prompts, query=query)), layers)
            losses += (guess - oracle[:, k]) ** 2 / 2
        assert losses.max() > 3 * losses.mean() > 0
        expected = np.mean(weights * 1e4 * np.log(1 + losses / 1e4))
        objective = objective_of(summaries, kind)
        assert objective.loss(parameters) == pytest.approx(expected, rel=1e-11)
        assert objective.expand(parameters)[0] == pytest.approx(expected, rel=1e-11)


def test_gradient_is_exact():
    for kind in KINDS:
        objective = objective_of(summaries_of(40), kind)
        parameters = start(kind, 2, 2)
        _, gradient, matrix = objective.expand(parameters)
        assert (gradient.shape, matrix.shape) == ((parameters.size,), (parameters.size,) * 2)
        expected = np.empty_like(gradient)
        for entry, index in enumerate(np.ndindex(parameters.shape)):
            h = 1e-2 * np.std(parameters)
            moved = parameters.copy()
            values = {}
            for k in (-3, -2, -1, 1, 2, 3):
                moved[index] = parameters[index] + k * h
                values[k] = objective.loss(moved)
            slopes = [(values[k] - values[-k]) / (2 * k * h) for k in (1, 2, 3)]
            expected[entry] = 1.5 * slopes[0] - 0.6 * slopes[1] + 0.1 * slopes[2]
        np.testing.assert_allclose(
            gradient, expected, rtol=0, atol=DIFFERENCES * np.abs(gradient).max()
        )


@pytest.mark.parametrize(("kind", "layers"), [("gd++", 2), ("diag", 2), ("axial", 1), ("full", 1)])
def test_gauss_newton_matrix_is_unbiased(kind, layers):
    """Mean over many probes against the products of exact derivatives."""
    size = 3 if kind in ("gd++", "diag") else 6
    summaries = summaries_of(6)
    parameters = size * start(kind, layers)
    forward = GramPass(summaries.gram, build(kind, parameters, 2))
    jacobian = np.stack([forward.derivatives(np.tile(e, (6, 1))) for e in np.eye(2)])
    losses = np.sum((forward.weights - summaries.oracle) ** 2, axis=1) / 2
    assert losses.max() > 1
    influence = summaries.weights / (1 + losses / 1e4)  # over the weight of a small loss
    expected = np.einsum("c,kcp,kcq->pq", influence, jacobian, jacobian) / 6
    found = np.stack(
        [objective_of(summaries, kind, seed=s).expand(parameters)[2] for s in range(300)]
    )
    np.testing.assert_array_equal(found, np.swapaxes(found, 1, 2))
    error = np.std(found, axis=0) / math.sqrt(len(found))
    allowed = Z_MAX * error + ROUNDING * np.max(np.abs(expected))
    assert np.all(np.abs(np.mean(found, axis=0) - expected) <= allowed)
    assert np.max(error) < 0.1 * np.max(np.abs(expected))


@pytest.mark.machine
@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_blocks(kind, monkeypatch):
    """The same bits from any number of threads; other blocks only add in another order."""
    summaries = summaries_of(50)
    parameters = start(kind, 2, 2)
    whole = objective_of(summaries, kind)
    assert len(whole.blocks) == 1
    monkeypatch.setitem(BLOCK, "numpy", 7)

    def backwards(function, blocks):
        return reversed([function(block) for block in reversed(blocks)])

    def results(run):
        objective = objective_of(summaries, kind, run)
        assert len(objective.blocks) == 8
        return [objective.loss(parameters), *objective.expand(parameters)]

    one = results(map)
    found = [results(backwards)]
    for workers in (1, 3):
        with ThreadPoolExecutor(workers) as pool:
            found.append(results(pool.map))
    for other in found:
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert_close(one[1:], whole.expand(parameters))


@pytest.mark.parametrize(("seed", "kind"), [*enumerate(KINDS)])
def test_loss_never_rises(seed, kind):
    objective = objective_of(summaries_of(300), kind)
    descent = Descent(start(kind, 3, 1, seed))
    last = math.inf
    first = objective.loss(descent.parameters)
    assert descent.loss == math.inf
    while not descent.converged and descent.steps < 40:
        kept = descent.parameters
        descent.advance(objective, 1e-4)
        assert descent.loss < last or (descent.stuck and descent.loss == last)
        assert descent.stuck == (descent.parameters is kept)
        assert descent.loss == objective.loss(descent.parameters)
        last = descent.loss
    assert descent.loss < 0.5 * first


def objective_with_target(target, problem):
    """The oracle is a gd++ transformer with these parameters."""
    summaries = summaries_of(2000, problem)
    oracle = GramPass(summaries.gram, build("gd++", target, problem.dim)).weights
    return objective_of(replace(summaries, oracle=oracle), "gd++")


def descend(objective, parameters, steps):
    descent = Descent(parameters)
    losses = [objective.loss(parameters)]
    while not descent.converged and descent.steps < steps:
        descent.advance(objective, 1e-4)
        losses.append(descent.loss)
    return descent, losses


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_transformers_find_a_gd_transformer(layers, heads):
    """A loss that can vanish does.

    At a linear rate, as the matrix is sampled: 9 to 36 steps measured.  With 4 pairs rare contexts
    rule, each with one probe, and the loss falls by a factor of 1.2 to 2 a step only.
    """
    target = start("gd++", layers, heads, seed=5, context=20)
    objective = objective_with_target(
        target, Problem(dim=2, context=20, noise_law="uniform:2", scale=1)
    )
    descent, losses = descend(objective, target * 1.02, 60)
    assert losses[0] > 1e-6
    assert losses[-1] < 1e-25
    found, wanted = (build("gd++", each, 2).omegas for each in (descent.parameters, target))
    found[-1, 0] = wanted[-1, 0]  # x after the last layer does not matter
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.max(np.abs(wanted)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0, 1e-200, 1e-100])
def test_start_where_nothing_has_an_effect_is_stuck(kind, scale):
    objective = objective_of(summaries_of(20), kind)
    parameters = scale * start(kind)
    descent = Descent(parameters)
    descent.advance(objective, 1e-4)
    assert descent.stuck
    assert descent.converged
    assert descent.steps == 1
    assert descent.loss == objective.loss(0 * parameters)  # that of no prediction
    np.testing.assert_array_equal(descent.parameters, parameters)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("power", [10, 20, 40, 60, 80, 120, 160, 300])
def test_huge_starts_overflow_to_infinity_without_warning(kind, power):
    objective = objective_of(summaries_of(2 * BLOCK["numpy"]), kind)
    descent = Descent(10.0**power * start(kind))
    descent.advance(objective, 1e-4)
    assert descent.steps == 1
    if power >= 40:
        assert descent.loss == objective.loss(descent.parameters) == math.inf
        assert descent.stuck
    else:
        assert 1e3 < descent.loss < math.inf


@pytest.mark.parametrize("power", [60, 70, 90])
def test_contexts_that_overflow_do_not_steer(power):
    """Squares of residuals overflow long before residuals do."""
    summaries = summaries_of(50)
    parameters = start("diag", layers=2)
    gram = summaries.gram.copy()
    gram[7] *= 10.0**power
    # The weights of two layers are of degree five in the context: 10^300 and more.
    with_huge = objective_of(replace(summaries, gram=gram), "diag")
    plain = np.delete(np.arange(50), 7)
    probes = with_huge.blocks[0][3]
    without = objective_of(
        ContextSummaries(*(getattr(summaries, f.name)[plain] for f in fields(summaries))), "diag"
    )
    without.blocks = [(*without.blocks[0][:3], probes[plain])]
    _, gradient, curvature = with_huge.expand(parameters)
    _, expected, matrix = without.expand(parameters)
    np.testing.assert_allclose(50 * gradient, 49 * expected, rtol=1e-10)
    np.testing.assert_allclose(50 * curvature, 49 * matrix, rtol=1e-10)


class Scripted:
    """Objective in one parameter with the gains that are asked for."""

    def __init__(self, gains):
        self.losses = list(np.cumprod([1.0] + [1 - gain for gain in gains]))

    def expand(self, _):
        return self.losses.pop(0), np.ones(1), np.ones((1, 1))

    def loss(self, _):
        return self.losses[0]


def test_descents_end_after_three_small_gains_in_a_row():
    gains = [0.5, 0.001, 0.001, 0.5, 0.001, 0.002, 0.009, 0.5]
    objective = Scripted(gains)
    descent = Descent(np.zeros(1))
    while not descent.converged:
        descent.advance(objective, 1e-2)
    assert descent.steps == 7
    assert not descent.stuck
    assert descent.loss == objective.losses[0]


def test_interrupted_steps_leave_the_descent_alone():
    objective = objective_of(summaries_of(20), "diag")
    descent = Descent(start("diag"), loss=1.0)

    def interrupted(*_):
        raise KeyboardInterrupt

    objective.run = interrupted
    with pytest.raises(KeyboardInterrupt):
        descent.advance(objective, 1e-4)
    assert (descent.steps, descent.loss, descent.converged) == (0, 1.0, False)
