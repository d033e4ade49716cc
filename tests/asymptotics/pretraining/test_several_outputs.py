"""Several outputs: brute force with dense features, the change by shared inputs, refusals."""

import math

import array_api_strict
import numpy as np
import pytest
from refusals import refuse
from strict_arrays import StrictBackend

from iclimit import (
    SGD,
    AllPositions,
    Experiment,
    Flow,
    Problem,
    Ridge,
    Test,
    icl_error,
    predict,
    sample,
    sample_prompts,
)
from iclimit.asymptotics.pretraining.several_outputs import one_output
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining import cost
from iclimit.simulate.pretraining.cells import trained_models

# Standard errors that a mean may be off by.
Z = 4.0

# A run at d = 6, whose theory is not asked for: three outputs are half of the dimension.
DIM = 6
CONTEXT = 5
TASKS = 4
PROMPTS = 20
OUTPUTS = 3
RHO = 0.2
RIDGE = 0.3
LAW = Problem(DIM, CONTEXT, tasks=TASKS, noise_variance=RHO, task_law="sphere", outputs=OUTPUTS)
RUN = Experiment(LAW, prompts=PROMPTS, training=Ridge(RIDGE))


def drawn_rows(rng, prompts, outputs, tasks):
    """Dense features x h^T (n, C, d (d + 1)) and labels (n, C) of prompts, from the definition."""
    features = np.empty((prompts, outputs, DIM * (DIM + 1)))
    labels = np.empty((prompts, outputs))
    for prompt in range(prompts):
        x = rng.standard_normal((CONTEXT + 1, DIM)) / math.sqrt(DIM)
        for output in range(outputs):
            y = x @ tasks[rng.integers(len(tasks))]
            y += math.sqrt(RHO) * rng.standard_normal(len(y))
            context = y[:-1]
            h = np.append(DIM / CONTEXT * context @ x[:-1], np.mean(context**2))
            features[prompt, output] = np.outer(x[-1], h).ravel()
            labels[prompt, output] = y[-1]
    return features, labels


def sphere(rng, count):
    """Tasks of squared norm d."""
    tasks = rng.standard_normal((count, DIM))
    return math.sqrt(DIM) * tasks / np.linalg.norm(tasks, axis=1, keepdims=True)


def brute_errors(rng):
    """ICL and IDG error of a run: the minimum of the mean loss over outputs plus its penalty."""
    tasks = sphere(rng, TASKS)
    features, labels = drawn_rows(rng, PROMPTS, OUTPUTS, tasks)
    hessian = np.einsum("ncp,ncq->pq", features, features) / (PROMPTS * OUTPUTS)
    hessian += RIDGE / DIM * np.eye(len(hessian))
    target = np.einsum("ncp,nc->p", features, labels) / (PROMPTS * OUTPUTS)
    weights = np.linalg.solve(hessian, target)
    errors = []
    for own in (sphere(rng, 150), tasks):
        tested, answers = drawn_rows(rng, 150, 1, own)
        errors.append(np.mean((answers - tested @ weights) ** 2))
    return errors


def test_brute_force():
    rng = np.random.default_rng(0)
    brute = np.array([brute_errors(rng) for _ in range(40)])
    simulated = sample(RUN, rng=0, repeats=400)
    for name, errors in zip(("icl", "idg"), brute.T, strict=True):
        own = simulated[name]
        scatter = math.hypot(np.std(errors) / math.sqrt(len(errors)), own.standard_error)
        assert abs(np.mean(errors) - own.mean) < Z * scatter
    assert simulated.parameters["tau"] == PROMPTS * OUTPUTS / DIM**2


def test_ridge_is_that_of_the_mean_loss():
    """The matrix solves the normal equations of the mean over prompts and outputs."""
    model = next(trained_models(RUN, get_backend("numpy"), 0, 1, 0))
    x, h, y = model.drawn
    assert len(y) == PROMPTS * OUTPUTS
    # Rows of a prompt share the query, and nothing else.
    queries = x.reshape(PROMPTS, OUTPUTS, DIM)
    assert np.array_equal(queries[:, 0], queries[:, 1])
    assert not np.any(queries[0, 0] == queries[1, 0])
    gamma = model.solution.gamma
    misfit = np.einsum("ni,ij,nj->n", x, gamma, h) - y
    slope = np.einsum("n,ni,nj->ij", misfit, x, h) / len(y) + RIDGE / DIM * gamma
    assert np.max(np.abs(slope)) < 1e-6


def test_strict_arrays():
    """The backend's arrays train as NumPy's do."""
    strict = next(trained_models(RUN, StrictBackend("strict", array_api_strict), 0, 1, 0))
    plain = next(trained_models(RUN, get_backend("numpy"), 0, 1, 0))
    for own, expected in zip(strict.drawn, plain.drawn, strict=True):
        np.testing.assert_allclose(np.from_dlpack(own), expected, rtol=1e-12)


def test_one_output_is_the_option_left_out():
    settings = {"tasks": 4, "noise_variance": 0.1, "task_law": "sphere"}
    run = Experiment(Problem(6, 8, **settings), prompts=50, training=Ridge(0.1))
    stated = run.with_(problem=Problem(6, 8, **settings, outputs=1))
    assert run == stated
    assert run.statement() == stated.statement()
    assert np.array_equal(sample(run, rng=3).samples, sample(stated, rng=3).samples)
    assert predict(run, rng=0).icl.mean == predict(stated, rng=0).icl.mean


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        {"tau": 0.5, "context": 20, "tasks": 20, "rho": 0.1, "ridge": 0.1, "link": "identity"},
        {"tau": 2.0, "context": 40, "tasks": math.inf, "rho": 0.3, "ridge": 0.01, "link": "sign"},
    ],
    ids=["few", "many"],
)
def test_simulated_errors(point):
    """Runs are within the stated uncertainty, and without the change they are not."""
    law = Problem(
        20,
        point["context"],
        tasks=point["tasks"],
        noise_variance=point["rho"],
        task_law="sphere",
        outputs=2,
        link=point["link"],
    )
    run = Experiment(law, prompts=round(point["tau"] * 200), training=Ridge(point["ridge"]))
    simulated = sample(run, rng=0, repeats=100).icl
    predicted = predict(run, rng=0)
    allowed = predicted.uncertainty * predicted.icl.mean + 2 * simulated.standard_error
    assert abs(simulated.mean - predicted.icl.mean) < allowed
    assert predict(one_output(run), rng=0).icl.mean < predicted.icl.mean


def test_the_limit_counts_outputs():
    law = Problem(200, 400, tasks=200, noise_variance=0.1, task_law="sphere", outputs=4)
    run = Experiment(law, prompts=15_000, training=Ridge(0.1))
    assert run.limit["tau"] == 1.5
    assert run.limit["ridge"] == 0.1
    limit = icl_error(**run.limit)
    predicted = predict(run, rng=0, draws=1, approach="moments")
    assert predicted.icl.mean == pytest.approx(limit, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"outputs": 3}, "outputs must be at most dim / 10 = 2 here, got 3"),
        ({"outputs": 2, "link": "relu"}, "link must be one of identity, sign, cube, tanh, sin"),
        ({"outputs": 2, "link": (0.5, 1.0)}, "got moments 0.5, 1"),
    ],
)
def test_what_the_theory_refuses(settings, message):
    run = Experiment(Problem(20, 20, tasks=20, **settings), prompts=100, training=Ridge(0.1))
    refuse(message, predict, run)
    refuse(message, getattr, run, "limit")


def test_outputs_that_are_refused_by_name():
    refuse("outputs must be", Problem, 20, 20, outputs=0)
    law = Problem(20, 20, tasks=20, outputs=2)
    single = Problem(20, 20, tasks=20)
    run = Experiment(law, prompts=100, training=Ridge(0.1))
    refuse("outputs must be 1 for AllPositions", run.with_, loss=AllPositions())
    refuse(
        "test must have the outputs of the run, 2, got 1",
        run.with_,
        test=Test(single.with_fresh_tasks()),
    )
    refuse("spread must be False for several outputs", predict, run, spread=True)
    for training in (SGD(0.1), Flow(1.0)):
        refuse("training must be Ridge", predict, run.with_(training=training))
        refuse("training must be Ridge", sample, run.with_(training=training), rng=0)
    refuse("sampler must be 'tokens'", sample, run, rng=0, sampler="summaries")
    refuse("problem must have outputs = 1 here, got 2", cost, run)
    refuse("problem must have outputs = 1 here, got 2", sample_prompts, law, 3, rng=0)
    timed = Problem(20, 20, tasks=20, outputs=2, drift=0.1)
    refuse("problem must have drift = 0.0", predict, Experiment(timed, prompts=100))
