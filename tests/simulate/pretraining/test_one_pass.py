"""SGD on fresh prompts against plain training on drawn tokens, and what it refuses."""

import numpy as np
import pytest

import iclimit
from iclimit.simulate.pretraining import simulate_one_pass

LAW = iclimit.Problem(dim=5, context=8, tasks=3, noise_variance=0.2, task_law="sphere")
RUN = {"batch": 4, "steps": 30, "learning_rate": 0.05, "rng": 3}
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

    for _ in range(RUN["steps"]):
        missed, query, h = missed_features(chosen(RUN["batch"]))
        gradient = np.einsum("rb,rbi,rbj->rij", missed, query, h)
        gamma -= 2 * RUN["learning_rate"] / RUN["batch"] * gradient
    return np.array(
        [np.mean(missed_features(w)[0] ** 2, axis=1) for w in (sphere(repeats, 20), chosen(20))]
    )


def test_fixed_tasks_as_by_plain_training():
    runs = simulate_one_pass(LAW, **RUN, repeats=600)
    errors = np.stack([runs.icl[:, -1], runs.idg[:, -1]])
    other = plain(2000)
    spread = np.hypot(np.std(errors, axis=1) / np.sqrt(600), np.std(other, axis=1) / np.sqrt(2000))
    assert np.all(spread < 0.03 * np.mean(errors, axis=1))
    assert np.all(abs(np.mean(errors, axis=1) - np.mean(other, axis=1)) < SIGMAS * spread)


def test_rates_records_and_repeats():
    every = simulate_one_pass(LAW, **RUN, repeats=3, record=10)
    assert every.steps.tolist() == [10, 20, 30]
    schedule = RUN | {"learning_rate": np.full(30, 0.05)}
    np.testing.assert_array_equal(
        simulate_one_pass(LAW, **schedule, repeats=3, record=10).icl, every.icl
    )
    rest = simulate_one_pass(LAW, **RUN, repeats=1, first_repeat=2)
    np.testing.assert_allclose(rest.idg[0], every.idg[2, -1:], rtol=1e-12)
    # Blocks of prompts change nothing but the order of random draws.
    assert simulate_one_pass(LAW, **(RUN | {"steps": 2500, "batch": 7})).icl.shape == (1, 1)


def test_fresh_tasks_have_one_error():
    law = iclimit.Problem(dim=4, context=6, noise_variance=0.1, task_law="sphere")
    runs = simulate_one_pass(law, **RUN)
    np.testing.assert_array_equal(runs.icl, runs.idg)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch must be"),
        ({"steps": 2.5}, "steps must be"),
        ({"record": 0}, "record must be"),
        ({"record": 31}, "record must be at most the 30 steps"),
        ({"learning_rate": 0}, "learning_rate must be"),
        ({"learning_rate": [0.1, 0.1]}, "learning_rate must"),
        ({"learning_rate": [-0.1] * 30}, "learning_rate must be"),
    ],
)
def test_bad_input_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        simulate_one_pass(LAW, **(RUN | changes))


def test_an_overflow_is_said():
    with pytest.raises(ArithmeticError, match="learning_rate is too large"):
        simulate_one_pass(LAW, **(RUN | {"learning_rate": 50.0, "steps": 3000}))


def test_other_problems_are_refused():
    with pytest.raises(ValueError, match="drift"):
        simulate_one_pass(iclimit.Problem(dim=4, context=6, drift=1.0), **RUN)
