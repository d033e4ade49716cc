"""Predictions of runs of gradient flow and descent: limits, ends, and simulated runs."""

import math

import numpy as np
import pytest

import iclimit
from iclimit import Descent, Experiment, Flow, Point, Problem, Ridge
from iclimit.asymptotics.pretraining import training_errors
from iclimit.asymptotics.pretraining.deterministic_equivalent import Inputs, equivalent_errors
from iclimit.asymptotics.pretraining.effective_ridges import largest_eigenvalue
from iclimit.asymptotics.pretraining.finite_flow import (
    Flowing,
    PromptLaw,
    flow_errors,
    heaviest_prompt,
    start_covariance,
)
from iclimit.asymptotics.pretraining.finite_flow_spread import predicted_flow_spread
from iclimit.asymptotics.pretraining.finite_size import read_run
from iclimit.asymptotics.pretraining.finite_size_spread import predicted_spread
from iclimit.asymptotics.pretraining.training_contours import descent_contour

POINT = {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1}

# Standard errors that are allowed; the test has 20 comparisons.
ALLOWED = 3.5


def mean_moments(dim, time, ridge=0.0, start_variance=0.0):
    run = read_run(Point(**POINT).at(dim=dim), 0, 8)
    training = Flow(time, ridge, start_variance)
    flows = [Flowing(law, run.test, 2 * dim**2, training) for law in run.laws]
    return np.mean([flow_errors(flow) for flow in flows], axis=0)


@pytest.mark.parametrize("time", [0.0, 0.1, 2.0, 100.0, math.inf])
def test_mean_moments_have_the_limit(time):
    limit = training_errors(time=time, ridge=0.02, start_variance=0.3, **POINT)
    for column, expected in enumerate((limit.icl, limit.idg)):
        gaps = [mean_moments(dim, time, 0.02, 0.3)[column] / expected - 1 for dim in (40, 160)]
        # Deviations fall as 1/d; task sets scatter by some tenths of a per cent.
        assert abs(gaps[1]) < max(abs(gaps[0]) / 2.5, 0.004)


def test_ends_are_those_of_ridge_regression():
    run = Point(**POINT).at(dim=12)
    for ridge in (0.0, 0.1):
        ended = iclimit.predict(run.with_(training=Flow(math.inf, ridge)), rng=0)
        late = iclimit.predict(run.with_(training=Flow(1e5, ridge)), rng=0)
        solved = iclimit.predict(run.with_(training=Ridge(ridge)), rng=0)
        for name in ("icl", "idg"):
            assert ended[name].mean == pytest.approx(solved[name].mean, rel=1e-9)
            assert late[name].mean == pytest.approx(solved[name].mean, rel=2e-3)
    for training in (Flow(0.0), Flow(1e-300), Descent(1, 1e-300)):
        begun = iclimit.predict(run.with_(training=training), rng=0, draws=2)
        assert begun.icl.mean == pytest.approx(1.1, rel=1e-12)
        assert begun.idg.mean == pytest.approx(1.1, rel=1e-12)
        assert begun.uncertainty == 0


@pytest.mark.parametrize("prompts", [120, 400])
def test_ends_with_leverages_are_those_of_the_equivalent_of_ridge_regression(prompts):
    law = read_run(Point(**POINT).at(dim=14), 0, 1)
    train = law.laws[0]
    for ridge in (0.0, 0.1):
        leverages = PromptLaw.of(Flowing(train, law.test, prompts, Flow(1.0)), ridge)
        ended = flow_errors(Flowing(train, law.test, prompts, Flow(math.inf, ridge)), leverages)
        expected = equivalent_errors(train, law.test, prompts, ridge, Inputs.of(None, 14))
        assert ended == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "point",
    [
        Point(**POINT, time=0.5),
        Point(**POINT, time=20.0),
        Point(tau=0.6, alpha=2, kappa=1, rho=0.2, time=2.0),
        Point(tau=0.6, alpha=2, kappa=1, rho=0.2, time=0.5, start_variance=0.4),
        Point(tau=2, alpha=2, kappa=2, rho=0.2, time=3.0, ridge=0.05, test_alpha=4, test_rho=0.4),
        # Leverages vary by much after short contexts: without them this is 5 % off.
        Point(tau=3, alpha=0.3, kappa=2, rho=0.8, time=0.2, start_variance=0.7),
    ],
)
def test_runs_are_as_predicted(point):
    run = point.at(dim=14)
    runs = iclimit.sample(run, rng=1, repeats=60)
    predicted = iclimit.predict(run, rng=2, draws=20)
    for name in ("icl", "idg"):
        error = predicted[name]
        deviation = runs[name].mean - error.mean
        # Nearly all runs are within the uncertainty, which so counts as two standard errors.
        doubt = predicted.uncertainty / 2 * error.mean
        scale = math.sqrt(runs[name].standard_error ** 2 + error.standard_error**2 + doubt**2)
        assert abs(deviation) < ALLOWED * scale
        assert scale < 0.03 * error.mean


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("steps", [1, 2, 3, 12, 13, 40, 400, 3000])
def test_contours_have_the_polynomials_of_descent(momentum, steps):
    """What a force of an eigenvalue moves: the recursion of the steps, one after the other."""
    step = 0.5
    # Up to just below the edge of stability.
    eigenvalues = np.linspace(0.0, 0.98 * 2 * (1 + momentum) / step, 50)
    before = np.zeros(50)
    moved = np.zeros(50)
    for _ in range(steps):
        after = moved + momentum * (moved - before) + step * (1 - eigenvalues * moved)
        before = moved
        moved = after
    found = sum(
        2 * np.sum(branch.weights / (eigenvalues[:, None] + branch.z), axis=1).real
        for branch in descent_contour(steps, step, momentum)
    )
    np.testing.assert_allclose(found, moved, atol=4e-9 * np.max(moved))


@pytest.mark.parametrize(("tau", "alpha", "task_law"), [(0.5, 1, "sphere"), (2, 0.5, "gaussian")])
def test_few_runs_have_larger_eigenvalues(tau, alpha, task_law):
    """Rates are refused from which one run of a hundred is unstable."""
    dim, context, tasks, prompts = 12, round(12 * alpha), 9, round(144 * tau)
    rng = np.random.default_rng(0)
    tops = []
    law = Problem(dim, context, tasks=tasks, noise_variance=0.1, task_law=task_law)
    run = Experiment(law, prompts=prompts, training=Ridge(0.1))
    for own in read_run(run, 0, 10).laws:
        flow = Flowing(own, own, prompts, Flow(1.0))
        g = np.linalg.eigvalsh(own.second)
        limit = largest_eigenvalue(g, dim / prompts, heaviest_prompt(flow))
        for _ in range(30):
            w = own.tasks[rng.integers(tasks, size=prompts)]
            x = rng.standard_normal((prompts, context, dim)) / math.sqrt(dim)
            noise = math.sqrt(0.1) * rng.standard_normal((prompts, context))
            y = np.einsum("nld,nd->nl", x, w) + noise
            h = np.hstack([np.einsum("nl,nld->nd", y, x) * dim, np.sum(y**2, axis=1)[:, None]])
            query = rng.standard_normal((prompts, dim)) / math.sqrt(dim)
            features = np.einsum("ni,nj->nij", query, h / context).reshape(prompts, -1)
            tops.append(np.linalg.norm(features, 2) ** 2 * dim / prompts / limit)
    assert np.mean(np.array(tops) > 1) < 0.04
    assert np.max(tops) > 0.75


def test_one_step_is_that_of_the_moments():
    """After one step Gamma is its rate times b, whose mean and covariance have closed forms."""
    run = Point(**POINT).at(dim=14)
    rate = 0.4
    read = read_run(run, 0, 4)
    for law in read.laws:
        flow = Flowing(law, read.test, run.prompts, Descent(1, rate))
        step = 2 * rate / 14
        # E |b|^2 in one direction of queries: signal, and the scatter of n independent prompts.
        mean = step * law.cross.T
        signal = np.sum(mean * (mean @ law.second)) - 2 * np.sum(mean * law.cross.T)
        scatter = step**2 * 14 / run.prompts * np.sum(law.second**2) * law.label
        idg = law.label + signal / 14 + scatter
        assert flow_errors(flow)[1] == pytest.approx(idg, rel=1e-8)


def test_many_small_steps_are_the_flow():
    run = Point(**POINT).at(dim=12)
    flowed = iclimit.predict(run.with_(training=Flow(2.0, 0.05, 0.2)), rng=0)
    gaps = []
    for steps in (100, 1000, 10000):
        rate = 2.0 * 12 / 2 / steps
        stepped = iclimit.predict(run.with_(training=Descent(steps, rate, 0.05, 0.2)), rng=0)
        gaps.append(abs(stepped.icl.mean / flowed.icl.mean - 1))
    # The difference is of the first order in the step.
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=0.2)
    assert gaps[2] == pytest.approx(gaps[1] / 10, rel=0.1)
    assert gaps[2] < 1e-4


def assert_as_predicted(run, *, draws, most):
    """Errors of runs agree with their prediction, and would not if it were this share off."""
    runs = iclimit.sample(run, rng=1, repeats=60)
    predicted = iclimit.predict(run, rng=2, draws=draws)
    for name in ("icl", "idg"):
        error = predicted[name]
        deviation = runs[name].mean - error.mean
        doubt = predicted.uncertainty / 2 * error.mean
        scale = math.sqrt(runs[name].standard_error ** 2 + error.standard_error**2 + doubt**2)
        assert abs(deviation) < ALLOWED * scale
        assert scale < most * error.mean


@pytest.mark.parametrize(
    "training",
    [
        Descent(3, 0.55),
        Descent(60, 0.5),
        Descent(25, 0.4, momentum=0.8, ridge=0.05, start_variance=0.2),
    ],
)
def test_steps_are_as_predicted(training):
    run = Point(**POINT).at(dim=14).with_(training=training)
    assert_as_predicted(run, draws=20, most=0.03)


def test_steps_that_are_too_long_or_remember_too_much_are_named():
    run = Point(**POINT).at(dim=12)
    with pytest.raises(ValueError, match=r"learning_rate must be at most 0\..*, got 3\.0: at 1"):
        iclimit.predict(run.with_(training=Descent(5, 3.0)), rng=0)
    with pytest.raises(ValueError, match="momentum must be smaller for 3000 steps"):
        iclimit.predict(run.with_(training=Descent(3000, 0.2, momentum=0.99)), rng=0)


@pytest.mark.parametrize(
    ("point", "icl", "idg", "correlation"),
    [
        (Point(**POINT, time=3.0), 0.0470, 0.0501, 0.434),
        (Point(**POINT, time=0.2, start_variance=1.0), 0.0770, 0.0970, 0.635),
        (Point(**POINT | {"tau": 0.5}, time=3.0), 0.0738, 0.0957, 0.715),
    ],
)
def test_runs_scatter_as_predicted(point, icl, idg, correlation):
    """Relative scatters of `iclimit.sample(point.at(dim=14), rng=5, repeats=400)`, to 3.5 %."""
    run = point.at(dim=14)
    predicted = iclimit.predict(run, rng=1, draws=3, approach="moments", spread=True)
    assert predicted.scatter.icl / predicted.icl.mean == pytest.approx(icl, rel=0.15)
    assert predicted.scatter.idg / predicted.idg.mean == pytest.approx(idg, rel=0.15)
    assert predicted.scatter.correlation == pytest.approx(correlation, abs=0.25)


def test_scatter_of_endless_training_is_that_of_ridge_regression():
    run = Point(**POINT | {"tau": 4}).at(dim=8)
    solved = predicted_spread(run.with_(training=Ridge(0.1)), rng=0, draws=2)
    ended = run.with_(training=Flow(math.inf, 0.1, 0.5))
    scatter = predicted_flow_spread(ended, solved.mean, rng=0, draws=2)
    np.testing.assert_allclose(scatter.covariance, solved.covariance, rtol=1e-9)


def test_errors_of_random_starts_scatter_by_a_quadratic_form():
    read = read_run(Point(**POINT, ridge=0.1).at(dim=8), 0, 1)
    flow = Flowing(read.laws[0], read.test, 128, Flow(1e-9, 0.0, 0.5))
    gammas = np.random.default_rng(0).standard_normal((4000, 8, 9)) * math.sqrt(0.5 / 8)
    errors = [
        (np.vdot(gamma @ law.second, gamma) - 2 * np.vdot(gamma.T, law.cross)) / 8
        for gamma in gammas
        for law in (read.test, read.laws[0])
    ]
    # Four standard errors of a variance over 4000 draws.
    expected = np.cov(np.reshape(errors, (-1, 2)).T)
    np.testing.assert_allclose(start_covariance(flow), expected, rtol=0.1)


def test_training_losses_are_refused_since_runs_of_few_prompts_are_far_above_their_limit():
    point = Point(tau=0.5, alpha=1, kappa=0.5, rho=0.1, time=1.0)
    run = point.at(dim=8)
    with pytest.raises(ValueError, match="training losses have no prediction at finite size"):
        iclimit.predict(run, rng=0, draws=2)["training"]
    found = iclimit.sample(run, rng=0, repeats=40)["training"]
    limit = training_errors(**point.limit).training
    # By a factor of 2.2; at d = 16 it is 1.7.
    assert found.mean - 4 * found.standard_error > 1.2 * limit


def test_what_is_not_known_is_named():
    run = Point(**POINT, time=1.0).at(dim=8)
    law = Problem(8, 8, tasks=4, correlation=0.5, correlated_query=True)
    for training in (Flow(1.0), Descent(3, 0.1)):
        following = run.with_(problem=law, training=training)
        with pytest.raises(ValueError, match="correlated_query must be False for a"):
            iclimit.predict(following, rng=0)


DIM = 12
GATES = np.exp(-np.arange(18)[::-1] / 5)
INPUTS = np.linspace(0.2, 1.8, DIM)
TASKS = DIM / np.arange(1, DIM + 1) / np.sum(1 / np.arange(1, DIM + 1))


def law(**settings):
    return Problem(DIM, 18, noise_variance=0.1, **settings)


@pytest.mark.parametrize(
    ("problem", "prompts", "training", "gates"),
    [
        (law(tasks=9), 200, Flow(0.5), GATES),
        (law(task_law="sphere"), 100, Descent(15, 0.2, 0.02, 0.3), np.linspace(0, 1, 18)),
        (law(task_law="sphere", correlation=0.7), 290, Flow(1.0), None),
        (law(correlation=-0.5), 90, Descent(20, 0.15, start_variance=0.4), None),
        (law(task_law="sphere", drift=1.0), 290, Flow(1.0), None),
        (law(tasks=9, input_covariance=INPUTS), 290, Flow(1.0, 0.0, 0.2), None),
        (law(input_covariance=INPUTS, task_covariance=TASKS), 90, Descent(30, 0.1), None),
        # Momentum carries what heavy prompts teach too far: with leverages of a flow 10 % off.
        (law(tasks=50, task_law="sphere"), 76, Descent(18, 0.42, momentum=0.9), None),
    ],
)
def test_runs_of_any_law_are_as_predicted(problem, prompts, training, gates):
    run = Experiment(problem, prompts=prompts, training=training, model=iclimit.Reduced(gates))
    assert_as_predicted(run, draws=10, most=0.04)


def test_inputs_of_one_variance_are_isotropic_ones():
    plain = Experiment(law(tasks=9), prompts=290, training=Flow(1.0, 0.02, 0.3))
    structured = plain.with_(problem=law(tasks=9, input_covariance=np.ones(DIM)))
    read = read_run(plain.with_(training=Ridge(0.6)), 0, 1)
    same = read_run(structured.with_(training=Ridge(0.6)), 0, 1)
    flows = [Flowing(r.laws[0], r.test, 290, plain.training, r.inputs) for r in (read, same)]
    assert flow_errors(flows[1]) == pytest.approx(flow_errors(flows[0]), rel=1e-10)
    covariances = [start_covariance(flow) for flow in flows]
    np.testing.assert_allclose(covariances[1], covariances[0], rtol=1e-10)


def test_ends_of_structured_inputs_are_those_of_the_equivalent_of_ridge_regression():
    run = Experiment(law(tasks=9, input_covariance=INPUTS), prompts=290, training=Ridge(0.1))
    read = read_run(run, 0, 1)
    flow = Flowing(read.laws[0], read.test, 290, Flow(math.inf, 0.1), read.inputs)
    expected = equivalent_errors(read.laws[0], read.test, 290, 0.1, read.inputs)
    assert flow_errors(flow, PromptLaw.of(flow, 0.1)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "training",
    [Flow(3.0, 0.0, 0.2), Descent(20, 0.4, momentum=0.3, ridge=0.01)],
    ids=["flow", "steps"],
)
def test_simulated_training_on_classes(training):
    law = Problem(8, 8, tasks=8, task_law="sphere", link="sign", flips=0.1)
    run = Experiment(law, prompts=100, training=training)
    predicted = iclimit.predict(run, rng=0)
    simulated = iclimit.sample(run, rng=1, repeats=100)
    for place, name in enumerate(("icl", "idg")):
        theory = getattr(predicted, name)
        found = getattr(simulated, name)
        doubt = float(np.linalg.norm(predicted.doubt[:, place])) * theory.mean
        error = math.hypot(found.standard_error, theory.standard_error)
        assert abs(found.mean - theory.mean) < doubt + 4 * error


def test_a_rate_of_classes_that_is_refused_is_the_given_one():
    law = Problem(8, 8, tasks=8, task_law="sphere", link="sign")
    run = Experiment(law, prompts=100, training=Descent(5, 33.0))
    with pytest.raises(ValueError, match=r"got 33\.0: at"):
        iclimit.predict(run, rng=0, draws=2)
