"""Trainings by steps against plain loops, derivatives and their own continuation."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import iclimit
from iclimit import SGD, Descent, Experiment, Problem
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.pretraining import simulate_descent
from iclimit.simulate.pretraining.descent import _objective, _slopes_on, _Trainee

LAW = Problem(6, 9, tasks=5, noise_variance=0.2, task_law="sphere")
RUN = Experiment(LAW, prompts=60, training=Descent(30, 0.2))


def trainee(run, seed=0):
    return _Trainee(run, get_backend("numpy"), seed_sequences(seed, 1)[0])


def features(own):
    return np.einsum("ni,nj->nij", own.x, own.h).reshape(len(own.y), -1)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("by_moments", [True, False])
def test_the_matrix_takes_dense_steps(momentum, ridge, by_moments, monkeypatch):
    if not by_moments:
        monkeypatch.setattr("iclimit.simulate.pretraining.descent.DENSE_NORMAL", 0)
    training = Descent(30, 0.1, ridge=ridge, momentum=momentum, start_variance=0.4)
    run = RUN.with_(training=training)
    curves = simulate_descent(run, record=10, rng=0)
    own = trainee(run)
    phi = features(own)
    gamma = math.sqrt(0.4 / 6) * own.start.standard_normal((6, 7)).ravel()
    velocity = np.zeros(42)
    for _ in range(30):
        slope = -2 / 60 * phi.T @ (own.y - phi @ gamma) + 2 * ridge / 6 * gamma
        velocity = momentum * velocity + slope
        gamma = gamma - 0.1 * velocity
    assert_allclose(curves.weights[0][0].ravel(), gamma, atol=1e-12)
    assert curves.losses[0, -1] == pytest.approx(np.mean((own.y - phi @ gamma) ** 2))
    # The error on the task set, by its law.
    matrix = gamma.reshape(6, 7)
    tested = own.train.draw(np.random.default_rng(1), 200_000, own.task_set)
    missed = (tested[2] - np.sum(tested[0] @ matrix * tested[1], axis=1)) ** 2
    assert abs(curves.measures["idg"][0, -1] - missed.mean()) < 4 * missed.std() / 200_000**0.5


def test_gradients_of_merged_attention_are_derivatives():
    slopes_on = _slopes_on([trainee(RUN, seed) for seed in (0, 1)], 60, RUN)
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal((2, 1, 1)), rng.standard_normal((2, 6, 7))]
    _, slopes = _objective(slopes_on, 0.0, 0, weights)
    step = 1e-6
    for number, entry in ((0, (1, 0, 0)), (1, (0, 2, 3)), (1, (1, 5, 6))):
        shifted = []
        for sign in (1, -1):
            changed = [weight.copy() for weight in weights]
            changed[number][entry] += sign * step
            shifted.append(_objective(slopes_on, 0.0, 0, changed)[0][entry[0]])
        slope = (shifted[0] - shifted[1]) / (2 * step)
        assert slopes[number][entry] == pytest.approx(slope, rel=1e-6)


def test_merged_attention_starts_balanced():
    run = RUN.with_(training=Descent(1, 1e-9))
    curves = simulate_descent(run, model="merged", init_scale=0.3, rng=0, repeats=200)
    value, lookup = curves.weights
    assert_allclose(value**2, math.sqrt(6) * 0.09, rtol=1e-6)
    squares = np.sum(lookup**2, axis=(1, 2))
    assert squares.mean() == pytest.approx(math.sqrt(6) * 0.09, rel=0.05)
    assert curves.times[1] == pytest.approx(2e-9 / math.sqrt(6))


def test_each_pass_takes_every_prompt_once():
    own = trainee(RUN)
    passes = [[own.rows(step, 12) for step in range(5 * part, 5 * part + 5)] for part in (0, 1)]
    orders = [np.concatenate(rows) for rows in passes]
    for order in orders:
        assert sorted(order) == list(range(60))
    assert not np.array_equal(*orders)


def test_batches_take_the_steps_of_sgd():
    curves = simulate_descent(RUN, batch=12, record=30, rng=0)
    own = trainee(RUN)
    phi = features(own)
    gamma = np.zeros(42)
    for step in range(30):
        rows = own.rows(step, 12)
        gamma = gamma + 0.2 * 2 / 12 * phi[rows].T @ (own.y[rows] - phi[rows] @ gamma)
    assert_allclose(curves.weights[0][0].ravel(), gamma, atol=1e-12)


def test_steps_end_where_samples_do():
    """Another draw of prompts, and Krylov spaces instead of steps."""
    run = RUN.with_(training=Descent(40, 0.15, momentum=0.5))
    curves = simulate_descent(run, record=40, rng=1, repeats=80)
    sampled = iclimit.sample(run, rng=2, repeats=80)
    for name in ("icl", "idg"):
        errors = curves.measures[name][:, -1]
        other = sampled[name]
        scatter = math.hypot(errors.std() / 80**0.5, other.standard_error)
        assert abs(errors.mean() - other.mean) < 3.5 * scatter


def test_adam_fits_the_prompts():
    curves = simulate_descent(
        RUN.with_(training=Descent(300, 0.01)), optimizer="adam", batch=20, rng=0, repeats=2
    )
    assert np.all(curves.losses[:, -1] < 0.6 * curves.losses[:, 0])


def test_a_training_goes_on_from_its_checkpoint(tmp_path):
    settings = {"model": "merged", "init_scale": 0.2, "batch": 20, "record": 5, "rng": 0}
    run = RUN.with_(training=Descent(30, 0.1, momentum=0.5))
    path = tmp_path / "run.npz"
    short = run.with_(training=Descent(10, 0.1, momentum=0.5))
    simulate_descent(short, checkpoint=path, **settings)
    went_on = simulate_descent(run, checkpoint=path, **settings)
    whole = simulate_descent(run, **settings)
    assert np.array_equal(went_on.losses, whole.losses)
    assert np.array_equal(went_on.weights[1], whole.weights[1])
    with pytest.raises(ValueError, match="checkpoint"):
        simulate_descent(run, checkpoint=path, **settings | {"rng": 1})


def test_repeats_extend():
    few = simulate_descent(RUN, batch=20, rng=0, repeats=1)
    more = simulate_descent(RUN, batch=20, rng=0, repeats=2)
    assert np.array_equal(few.losses[0], more.losses[0])


def test_unstable_steps_are_named():
    with pytest.raises(iclimit.simulate.training.loop.UnstableTraining, match="learning_rate"):
        simulate_descent(RUN.with_(training=Descent(300, 30.0)), rng=0)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"training": SGD(0.1)}, {}, "training must be Descent here"),
        ({}, {"model": "separate"}, "model must be"),
        ({}, {"model": "merged"}, "init_scale must be given"),
        ({}, {"init_scale": 0.1}, "init_scale must be None for the reduced model"),
        ({}, {"model": "merged", "init_scale": -0.1}, "init_scale must be > 0"),
        ({}, {"batch": 7}, "prompts must be a multiple of the batch of 7"),
        ({}, {"optimizer": "sgd"}, "optimizer must be"),
        ({"balanced": True}, {}, "balanced must be False"),
        ({"training": Descent(3, 0.1, momentum=0.1)}, {"optimizer": "adam"}, "momentum must be 0"),
        (
            {"training": Descent(3, 0.1, ridge=0.1)},
            {"model": "merged", "init_scale": 0.1},
            "ridge and start_variance must be 0",
        ),
    ],
)
def test_what_is_not_simulated_is_named(change, settings, message):
    with pytest.raises(ValueError, match=message):
        simulate_descent(RUN.with_(**change), rng=0, **settings)
