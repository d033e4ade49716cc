"""SGD on fresh prompts against plain training on drawn tokens, and what it refuses."""

import numpy as np
import pytest

import iclimit
from iclimit.simulate.pretraining import simulate_one_pass

LAW = iclimit.Problem(dim=5, context=8, tasks=3, noise_variance=0.2, task_law="sphere")
STEPS = 30
RUN = iclimit.Experiment(LAW, prompts=4 * STEPS, training=iclimit.SGD(0.05, batch=4))
# Standard errors that the worst of four numbers may lie off.
SIGMAS = 4.0


def plain(repeats):
    """ICL and IDG error of plain SGD on tokens, on drawn tests, (2, repeats)."""
    rng = np.random.default_rng(7)
    dim = LAW.dim
    gamma = np.zeros((repeats, dim, dim + 1))

    def sphere(*shape):
        w = rng.standard_normal((*shape, dim))
        return w * np.sqrt(dim) / np.linalg.norm(w, axis=-1, keepdims=True)

    task_set = sphere(repeats, 3)

    def missed_features(w):
        x = rng.standard_normal((*w.shape[:2], LAW.context + 1, dim)) / np.sqrt(dim)
        y = np.einsum("rbld,rbd->rbl", x, w)
        y += np.sqrt(LAW.noise_variance) * rng.standard_normal(y.shape)
        h = np.empty((*w.shape[:2], dim + 1))
        h[..., :dim] = dim / LAW.context * np.einsum("rbl,rbld->rbd", y[..., :-1], x[..., :-1, :])
        h[..., dim] = np.mean(y[..., :-1] ** 2, axis=-1)
        query = x[..., -1, :]
        return np.einsum("rbi,rij,rbj->rb", query, gamma, h) - y[..., -1], query, h

    def chosen(count):
        rows = rng.integers(0, 3, (repeats, count))
        return np.take_along_axis(task_set, rows[..., None], axis=1)

    for _ in range(STEPS):
        missed, query, h = missed_features(chosen(RUN.training.batch))
        gradient = np.einsum("rb,rbi,rbj->rij", missed, query, h)
        gamma -= 2 * RUN.training.learning_rate / RUN.training.batch * gradient
    return np.array(
        [np.mean(missed_features(w)[0] ** 2, axis=1) for w in (sphere(repeats, 20), chosen(20))]
    )


def test_fixed_tasks_as_by_plain_training():
    runs = simulate_one_pass(RUN, rng=3, repeats=600)
    errors = np.stack([runs.icl[:, -1], runs.idg[:, -1]])
    other = plain(2000)
    spread = np.hypot(np.std(errors, axis=1) / np.sqrt(600), np.std(other, axis=1) / np.sqrt(2000))
    assert np.all(spread < 0.03 * np.mean(errors, axis=1))
    assert np.all(abs(np.mean(errors, axis=1) - np.mean(other, axis=1)) < SIGMAS * spread)


def test_rates_records_and_repeats():
    every = simulate_one_pass(RUN, rng=3, repeats=3, record=10)
    assert every.steps.tolist() == [10, 20, 30]
    schedule = RUN.with_(training=iclimit.SGD(np.full(STEPS, 0.05), batch=4))
    listed = simulate_one_pass(schedule, rng=3, repeats=3, record=10)
    np.testing.assert_allclose(listed.icl, every.icl, rtol=1e-12)
    rest = simulate_one_pass(RUN, rng=3, repeats=1, first_repeat=2)
    np.testing.assert_allclose(rest.idg[0], every.idg[2, -1:], rtol=1e-12)
    # Prompts of many steps are drawn in several blocks.
    long = RUN.with_(prompts=17500, training=iclimit.SGD(0.05, batch=7))
    assert simulate_one_pass(long, rng=3).icl.shape == (1, 1)


def test_the_last_record_is_what_a_sample_has():
    """Of more prompts than are drawn at a time the random numbers are others."""
    samples = iclimit.sample(RUN, rng=3, repeats=2)
    runs = simulate_one_pass(RUN, rng=3, repeats=2)
    np.testing.assert_allclose(samples.icl.samples, runs.icl[:, -1], rtol=1e-12)
    np.testing.assert_allclose(samples.idg.samples, runs.idg[:, -1], rtol=1e-12)


def test_fresh_tasks_have_one_error_but_for_other_tests():
    law = iclimit.Problem(dim=4, context=6, noise_variance=0.1, task_law="sphere")
    run = iclimit.Experiment(law, prompts=40, training=iclimit.SGD(0.05, batch=4))
    runs = simulate_one_pass(run, rng=3)
    np.testing.assert_allclose(runs.icl, runs.idg, rtol=1e-12)
    longer = simulate_one_pass(
        run.with_(test=iclimit.Test(law.with_fresh_tasks(context=60))), rng=3
    )
    assert longer.icl[0, 0] < longer.idg[0, 0]
    assert longer.idg[0, 0] == pytest.approx(runs.idg[0, 0], rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record": 0}, "record must be"),
        ({"record": 31}, "record must be at most the 30 steps"),
        ({"repeats": 0}, "repeats must be"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        simulate_one_pass(RUN, **({"rng": 3} | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": iclimit.Ridge()}, "training must be SGD here"),
        ({"balanced": True}, "balanced must be False"),
        ({"model": iclimit.Reduced(np.ones(8))}, "gates must be None"),
        ({"problem": iclimit.Problem(dim=5, context=8, drift=1.0)}, "drift"),
    ],
)
def test_other_runs_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        simulate_one_pass(RUN.with_(**changes), rng=3)


def test_what_is_no_run():
    with pytest.raises(TypeError, match="run must be an Experiment"):
        simulate_one_pass(LAW, rng=3)


def test_an_overflow_is_said():
    wild = RUN.with_(prompts=12000, training=iclimit.SGD(50.0, batch=4))
    with pytest.raises(ArithmeticError, match="learning_rate is too large"):
        simulate_one_pass(wild, rng=3)
