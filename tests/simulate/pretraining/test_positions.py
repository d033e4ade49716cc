"""Training on all positions and on random lengths, against dense code with loops."""

import math

import numpy as np
import pytest
from refusals import value_error

from iclimit import (
    SGD,
    AllPositions,
    Experiment,
    Flow,
    Problem,
    RandomLength,
    Reduced,
    Ridge,
    Test,
    sample,
)
from iclimit.pretraining import simulate_positions
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.cells import trained_models
from iclimit.simulate.pretraining.sequences import draw_rows
from iclimit.simulate.prompts.sampling import draw_prompts, draw_task_set
from iclimit.simulate.prompts.summaries import SummaryLaw

HOST = get_backend("numpy")
LAW = Problem(4, 6, tasks=3, noise_variance=0.2, task_law="sphere")
RUN = Experiment(LAW, prompts=12, loss=AllPositions(), training=Ridge(0.1), balanced=True)
LENGTH = Reduced(normalization="length")

# Runs of all positions by what they differ in.
CASES = {
    "plain": RUN,
    "fixed divisor": RUN.with_(model=LENGTH),
    "from the second": RUN.with_(loss=AllPositions(first=2)),
    "weights": RUN.with_(loss=AllPositions(weights=(0, 1, 2, 3, 4, 5)), model=LENGTH),
    "fresh tasks": RUN.with_(
        problem=Problem(5, 4, noise_variance=0.1), prompts=30, balanced=False
    ),
}

# Largest |z| of a comparison of simulations here.
LARGEST_Z = 4.0


def dense_gamma(run, tasks, seed):
    """Least loss of sequences of these tasks, by loops over sequences and positions."""
    prompts = draw_prompts(run.problem, HOST, seed, tasks=tasks)
    dim = run.dim
    length = run.problem.context
    loss = run.loss
    weights = np.ones(length - loss.first + 1) if loss.weights is None else loss.weights
    normal = run.ridge / dim * np.eye(dim * (dim + 1))
    right = np.zeros(dim * (dim + 1))
    for number in range(run.prompts):
        x = np.vstack([prompts.inputs[number], prompts.query[number]])
        y = np.append(prompts.labels[number], prompts.query_label[number])
        for weight, seen in zip(weights, range(loss.first, length + 1), strict=True):
            divisor = seen if run.model.normalization == "mean" else length
            head = dim * sum(y[i] * x[i] for i in range(seen)) / divisor
            tail = sum(y[i] ** 2 for i in range(seen)) / divisor
            feature = np.outer(x[seen], np.append(head, tail)).ravel()
            share = weight / np.sum(weights) / run.prompts
            normal += share * np.outer(feature, feature)
            right += share * y[seen] * feature
    return np.linalg.solve(normal, right).reshape(dim, dim + 1)


@pytest.mark.parametrize("name", CASES)
def test_gamma_of_sequences_is_that_of_dense_code(name):
    run = CASES[name]
    (model,) = trained_models(run, HOST, 5, 1, 0)
    # The same numbers again.
    generator = HOST.generators(5, 1)[0]
    task_set = draw_task_set(run.problem, HOST, generator)
    if task_set is None:
        tasks = SummaryLaw(HOST, run.problem).fresh_tasks(generator, run.prompts)
    else:
        tasks = task_set[np.arange(run.prompts) % len(task_set)]
    gamma = dense_gamma(run, tasks, generator)
    np.testing.assert_allclose(model.solution.gamma, gamma, atol=2e-5 * np.max(np.abs(gamma)))


def test_flow_ends_at_the_ridge_and_starts_at_zero():
    ridge = sample(RUN, rng=1, repeats=2)
    flow = sample(RUN.with_(training=Flow(math.inf, ridge=0.1)), rng=1, repeats=2)
    np.testing.assert_allclose(flow.samples[:, :2], ridge.samples, rtol=1e-3)
    start = sample(RUN.with_(training=Flow(0.0)), rng=1, repeats=2)
    np.testing.assert_allclose(start.icl.samples, 1.2, rtol=1e-12)


@pytest.mark.parametrize("normalization", ["mean", "length"])
def test_infinite_data_gives_a_step_of_one_rate(normalization):
    """Gamma is c times the identity; its c from the normal equation of one number by hand."""
    dim = 6
    context = 12
    noise = 0.1
    law = Problem(dim, context, noise_variance=noise, task_law="sphere")
    model = Reduced(normalization=normalization)
    run = Experiment(law, prompts=1500, loss=AllPositions(first=2), model=model)
    runs = simulate_positions(run, rng=0, repeats=8)
    seen = np.arange(2, context + 1)
    factor = np.ones(len(seen)) if normalization == "mean" else seen / context
    square = factor**2 * (1 + 1 / seen + (1 + noise) * dim / seen)
    c = np.sum(factor) / np.sum(square)
    errors = 1 + noise - 2 * c * factor + c**2 * square
    for place, error in zip(seen, errors, strict=True):
        simulated = Estimate.of(np.ascontiguousarray(runs.icl[:, place - 1]))
        # Of 1500 sequences the excess is below 3 %.
        assert error < simulated.mean + 3 * simulated.standard_error < 1.04 * error


def test_the_last_position_is_what_sample_shows():
    run = RUN.with_(test=Test(LAW.with_fresh_tasks(context=9)), model=LENGTH)
    runs = simulate_positions(run, rng=2, repeats=3, positions=[6, 9])
    whole = sample(run, rng=2, repeats=3)
    np.testing.assert_array_equal(whole.idg.samples, runs.idg[:, 0])
    np.testing.assert_array_equal(whole.icl.samples, runs.icl[:, 1])


def test_errors_at_a_position_are_those_of_tokens():
    (model,) = trained_models(RUN.with_(model=LENGTH), HOST, 5, 1, 0)
    runs = simulate_positions(RUN.with_(model=LENGTH), rng=5, positions=[3])
    rng = np.random.default_rng(0)
    tasks = rng.normal(size=(40000, 4))
    tasks *= 2 / np.linalg.norm(tasks, axis=1, keepdims=True)
    x = rng.normal(size=(40000, 4, 4)) / 2
    y = np.einsum("nli,ni->nl", x, tasks) + math.sqrt(0.2) * rng.normal(size=(40000, 4))
    head = 4 * np.einsum("nl,nli->ni", y[:, :3], x[:, :3]) / 6
    h = np.column_stack([head, np.sum(y[:, :3] ** 2, axis=1) / 6])
    missed = (y[:, 3] - np.einsum("ni,ij,nj->n", x[:, 3], model.solution.gamma, h)) ** 2
    tested = Estimate.of(missed)
    assert abs(tested.mean - runs.icl[0, 0]) < LARGEST_Z * tested.standard_error


@pytest.mark.parametrize("normalization", ["mean", "length"])
def test_rows_of_random_lengths(normalization):
    loss = RandomLength((2, 3, 6), (0.2, 0.5, 0.3))
    run = RUN.with_(
        loss=loss, prompts=30000, balanced=False, model=Reduced(normalization=normalization)
    )
    law = SummaryLaw(HOST, LAW)
    _, h, y = draw_rows(run, law, np.random.default_rng(0), np.eye(4)[:1] * 2)
    assert h.shape == (30000, 5)
    assert y.shape == (30000,)
    divisor = 6 if normalization == "length" else np.array([2, 3, 6])
    lengths = np.array([2, 3, 6])
    # The last entry is a sum of squares of labels of variance 1.2 over the divisor.
    second = np.sum([0.2, 0.5, 0.3] * (lengths**2 + 2 * lengths) / divisor**2) * 1.2**2
    squares = Estimate.of(h[:, 4] ** 2)
    assert abs(squares.mean - second) < LARGEST_Z * squares.standard_error


def test_one_length_is_the_last_position():
    """The same numbers are drawn after one more number a prompt, so they agree in law only."""
    one = sample(RUN.with_(loss=RandomLength((6,)), balanced=False), rng=0, repeats=200)
    last = Experiment(LAW, prompts=12, training=Ridge(0.1))
    other = sample(last, rng=1, repeats=200)
    for name in ("icl", "idg"):
        error = math.hypot(one[name].standard_error, other[name].standard_error)
        assert abs(one[name].mean - other[name].mean) < LARGEST_Z * error


def test_what_is_not_simulated_is_refused_by_name():
    value_error("gates must be None", sample, RUN.with_(model=Reduced(np.ones(6))), rng=0)
    value_error("training must not be SGD", sample, RUN.with_(training=SGD(0.1)), rng=0)
    value_error("multiple of the 3 tasks", sample, RUN.with_(prompts=13), rng=0)
    value_error("balanced must be False", sample, RUN.with_(loss=RandomLength((6,))), rng=0)
    drifting = RUN.with_(problem=Problem(4, 6, tasks=3, drift=0.5))
    value_error("drift", sample, drifting, rng=0)
    value_error("positions must be", simulate_positions, RUN, rng=0, positions=[0])
    gated = Experiment(LAW, prompts=12, model=Reduced(np.ones(6)))
    value_error("gates must be None", simulate_positions, gated, rng=0)
