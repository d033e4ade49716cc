"""Training of deep linear attention against tokens, autograd and exact moments."""

import math

import autograd
import autograd.numpy as anp
import numpy as np
import pytest

from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.depth import simulate_depth_loss, train_depth
from iclimit.simulate.depth.draws import ContextLaw
from iclimit.simulate.depth.stacks import loss_and_gradient, mean_losses

LAM = np.array([1.7, 1.1, 0.6, 0.4])
OMEGA = np.array([0.3, 2.0, 1.0, 0.5])
DIM, DEPTH, CONTEXT, QUERIES, BATCH = 4, 3, 6, 5, 2

NUMPY = get_backend("numpy")


def attention(gammas, x, y, queries):
    """Predictions of residual linear attention on whole tokens.

    A token has x in its first entries and the label part in the last one.  Scores are masked, so
    that only tokens of the context are looked at.
    """
    context, dim = x.shape
    tokens = anp.concatenate(
        [anp.hstack([x, y[:, None]]), anp.hstack([queries, np.zeros((len(queries), 1))])]
    )
    seen = np.arange(len(tokens)) < context
    sign = np.where(seen, -1.0, 1.0)
    value = np.zeros((dim + 1, dim + 1))
    value[dim, dim] = 1.0
    embed = np.eye(dim, dim + 1)
    for gamma in gammas:
        scores = tokens @ embed.T @ gamma @ embed @ tokens.T * seen
        update = scores @ tokens @ value.T
        tokens = tokens + sign[:, None] * update / (len(gammas) * context)
    return tokens[context:, dim]


@pytest.fixture(scope="module")
def drawn():
    """Contexts of two repeats, in full."""
    rng = np.random.default_rng(3)
    shape = 2, BATCH
    return {
        "gammas": rng.standard_normal((2, DEPTH, DIM, DIM)),
        "x": rng.standard_normal((*shape, CONTEXT, DIM)),
        "y": rng.standard_normal((*shape, CONTEXT)),
        "queries": rng.standard_normal((*shape, QUERIES, DIM)),
        "targets": rng.standard_normal((*shape, QUERIES)),
    }


def descend(drawn):
    """Losses and gradients of the module, (repeats, contexts) and (repeats, layers, d, d)."""
    x = drawn["x"] / math.sqrt(CONTEXT)
    h = math.sqrt(DIM / CONTEXT) * drawn["y"][..., None, :] @ x
    losses, gradients = loss_and_gradient(
        list(np.moveaxis(drawn["gammas"], 1, 0)),
        h,
        lambda rows: (rows @ np.matrix_transpose(x)) @ x,
        drawn["queries"] / math.sqrt(QUERIES),
        math.sqrt(DIM / QUERIES) * drawn["targets"][..., None, :],
    )
    return losses, np.stack(gradients, axis=1)


def test_losses_and_gradients_are_those_of_attention_on_tokens(drawn):
    losses, gradients = descend(drawn)
    for repeat in range(2):

        def loss(gammas, repeat=repeat):
            total = 0.0
            for context in range(BATCH):
                x, y, queries, targets = (
                    drawn[name][repeat, context] for name in ("x", "y", "queries", "targets")
                )
                total += anp.mean((attention(gammas, x, y, queries) - targets) ** 2)
            return total / BATCH

        gammas = drawn["gammas"][repeat]
        assert losses[repeat].mean() == pytest.approx(loss(gammas), rel=1e-12)
        slope = autograd.grad(loss)(gammas)
        np.testing.assert_allclose(DIM / 2 * slope, gradients[repeat], rtol=1e-10, atol=1e-12)


def test_mean_losses_sum_over_tasks_and_noises(drawn):
    """One label or one task direction at a time, on tokens, with as many queries as dimensions."""
    noise = 0.3
    gammas = list(np.moveaxis(drawn["gammas"], 1, 0))
    x = drawn["x"] / math.sqrt(CONTEXT)
    found = mean_losses(
        gammas,
        np.matrix_transpose(x) @ x,
        np.diag(np.sqrt(LAM))[None, None],
        np.diag(np.sqrt(OMEGA))[None, None],
        noise / CONTEXT,
    )
    queries = np.diag(np.sqrt(LAM))
    for repeat in range(2):
        for context in range(BATCH):
            tokens = drawn["x"][repeat, context]
            layers = drawn["gammas"][repeat]
            total = 0.0
            for task in np.diag(np.sqrt(OMEGA / DIM)):
                total += np.sum(
                    (attention(layers, tokens, tokens @ task, queries) - queries @ task) ** 2
                )
            for label in math.sqrt(noise) * np.eye(CONTEXT):
                total += np.sum(attention(layers, tokens, label, queries) ** 2)
            assert found[repeat, context] == pytest.approx(total, rel=1e-10)


def test_multiples_of_the_identity_lose_what_other_simulations_say():
    """The whole law of contexts, width and noise against independent draws."""
    rates = np.array([0.5, 0.9])
    setting = {"eigenvalues": LAM, "task_spectrum": OMEGA, "context": 7, "width": 3}
    setting |= {"noise_variance": 0.4}
    expected = simulate_depth_loss(**setting, rates=rates, rng=1, repeats=4000).loss
    for law in ("rrs", "fs"):
        run = train_depth(
            **setting,
            depth=2,
            setting=law,
            initial=2 * rates,
            batch=1,
            learning_rate=1e-9,
            steps=1,
            held_out=4,
            repeats=1000,
            rng=2,
        )
        found = Estimate.of(run.measures["held_out"][:, 0])
        error = math.hypot(found.standard_error, expected.standard_error)
        assert abs(found.mean - expected.mean) < 4 * error
        assert error < 0.04 * expected.mean
        exact = np.tile(2 * rates * 3 / 4, (len(run.measures["held_out"]), 1))
        np.testing.assert_allclose(run.measures["traces"][:, 0], exact)


def test_one_layer_on_long_contexts_descends_like_its_scalar_recursion():
    """Fixed covariance, exact in expectation over tasks: E (I - eta lam^2 z z')^t is a product."""
    eta = 0.05
    steps = 7
    options = {"depth": 1, "eigenvalues": LAM, "task_spectrum": OMEGA, "setting": "fs"}
    run = train_depth(**options, batch=3, learning_rate=eta, steps=steps, repeats=400, rng=5)
    goal = (1 - (1 - eta * OMEGA * LAM**3) ** steps) / LAM
    for k, exact in enumerate(goal):
        assert abs(Estimate.of(run.weights[0][:, 0, k, k]).z(exact)) < 4
    errors = np.eye(4) - run.weights[0][:, 0] * LAM
    loss = np.sum(LAM[:, None] * errors**2 * OMEGA, axis=(1, 2)) / 4
    np.testing.assert_allclose(run.measures["held_out"][:, -1], loss, rtol=1e-12)
    assert np.all(run.measures["standard_error"] == 0)
    expected = np.mean(run.weights[0][:, 0] ** 2, (1, 2)) * 4
    np.testing.assert_allclose(run.measures["squares"][:, -1, 0], expected)


def test_shared_layers_move_by_the_sum_of_gradients():
    """From equal layers one small step of each moves the loss alike, to first order."""
    setting = {"eigenvalues": LAM, "context": 9, "query_count": 4, "initial": 0.4, "batch": 5}
    setting |= {"learning_rate": 1e-7, "steps": 1, "rng": 4, "repeats": 2}
    one = train_depth(**setting, depth=3, shared=True)
    own = train_depth(**setting, depth=3)
    moved = one.weights[0] - 0.4 * np.eye(4)
    each = own.weights[0] - 0.4 * np.eye(4)
    np.testing.assert_allclose(moved[:, 0], each.mean(axis=1), rtol=1e-7)
    assert one.measures["traces"].shape == (2, 2, 1)
    assert own.measures["traces"].shape == (2, 2, 3)


def test_adam_makes_steps_of_the_size_of_its_rate():
    run = train_depth(
        depth=2, eigenvalues=LAM, optimizer="adam", batch=4, learning_rate=0.01, steps=1, rng=0
    )
    np.testing.assert_allclose(np.abs(run.weights[0][:, 0]), 0.01, rtol=1e-6)
    longer = train_depth(
        depth=2, eigenvalues=LAM, optimizer="adam", batch=16, learning_rate=0.01, steps=300, rng=0
    )
    assert np.all(longer.measures["held_out"][:, -1] < 0.2 * longer.measures["held_out"][:, 0])


@pytest.mark.machine
def test_repeats_extend_and_trainings_go_on_from_matrices():
    setting = {"depth": 2, "eigenvalues": LAM, "context": 12, "width": 3, "batch": 4}
    setting |= {"learning_rate": 0.1, "steps": 5, "record": 2}
    few = train_depth(**setting, rng=7, repeats=2)
    more = train_depth(**setting, rng=7, repeats=3)
    np.testing.assert_allclose(more.weights[0][:2], few.weights[0], rtol=1e-12)
    np.testing.assert_allclose(more.measures["held_out"][:2], few.measures["held_out"], rtol=1e-12)
    assert few.recorded_at.tolist() == [0, 2, 4, 5]
    np.testing.assert_allclose(few.times, 0.1 * few.recorded_at)
    again = train_depth(**setting, rng=7, repeats=2, initial=few.weights[0])
    expected = few.measures["traces"][:, -1]
    np.testing.assert_allclose(again.measures["traces"][:, 0], expected, rtol=1e-12)
    assert np.all(np.linalg.matrix_rank(few.weights[0]) == 3)
    assert few.parameters["width"] == 3


def test_rotations_have_no_direction():
    """Second moments of random covariances: those of a random rotation, to four errors."""
    law = ContextLaw(NUMPY, LAM, OMEGA, True, math.inf, math.inf, 0.0, 0.0)
    fresh = law.draw_held_out(NUMPY.generators(0, 1), 4000)
    mean = LAM.mean()
    square = np.mean(LAM**2)
    entries = fresh.covariance[0]
    assert abs(Estimate.of(entries[:, 0, 0]).z(mean)) < 4
    assert abs(Estimate.of(entries[:, 0, 1]).z(0.0)) < 4
    # E (o' Lam o)^2 = (2 tr Lam^2 + (tr Lam)^2)/(d (d + 2)).
    exact = (2 * DIM * square + (DIM * mean) ** 2) / (DIM * (DIM + 2))
    assert abs(Estimate.of(entries[:, 3, 3] ** 2).z(exact)) < 4


def test_refuses():
    for change, message in (
        ({"eigenvalues": [1.0, -1.0]}, "eigenvalues must be >= 0"),
        ({"task_spectrum": [1.0]}, "task_spectrum must have shape"),
        ({"initial": [0.0, 0.0, 0.0]}, "initial must have shape"),
    ):
        setting = {"depth": 2, "eigenvalues": LAM, "batch": 2, "learning_rate": 0.1, "steps": 2}
        with pytest.raises(ValueError, match=message):
            train_depth(**setting | {"rng": 0} | change)
