"""Finite-size predictions for labels that are not linear, against brute force and simulation."""

import math

import numpy as np
import pytest

from iclimit import Experiment, Point, Problem, Ridge, Test, icl_error, predict, sample
from iclimit import sample_prompts as draw
from iclimit.asymptotics.pretraining.finite_size_spread import predicted_spread
from iclimit.asymptotics.pretraining.linked_contexts import LinkedContexts
from iclimit.asymptotics.pretraining.summary_moments import task_set_moments
from iclimit.links import parse_link

# Standard errors that a simulated mean may be off by.
Z = 4.0

# Relative difference between the rule of drawn contexts and that of the chi-square law.
RULES = 0.004

# Largest share of the errors by which classes, ReLU and cubes may be off at these sizes, beside
# the standard error: the stated doubt of these predictions is 1.0 to 1.8 %.
SETTINGS = (
    (Point(tau=2, alpha=2, kappa=2, ridge=0.05, link="sign"), 12, 60),
    (Point(tau=0.5, alpha=1, kappa=1, ridge=0.1, link="sign", flips=0.1), 8, 100),
    (Point(tau=2, alpha=1, kappa=0.5, rho=0.1, link="relu"), 12, 60),
    (Point(tau=2, alpha=4, kappa=2, ridge=0.5, link="cube"), 12, 100),
    (Point(tau=2, alpha=2, kappa=math.inf, ridge=0.05, rho=0.2, link=("sin", 2.0)), 10, 60),
    # Short contexts: without `bend` the prediction is 5.7 % below these runs.
    (Point(tau=1, alpha=0.375, kappa=math.inf, ridge=0.1, link="sign"), 8, 400),
)


@pytest.mark.parametrize(
    ("link", "flips", "rho"), [("sign", 0.2, 0.1), ("relu", 0.0, 0.1), ("tanh", 0.0, 0.0)]
)
def test_moments_of_summaries(link, flips, rho):
    """Second moments of summaries over contexts, by brute force over tokens."""
    d = 4
    context = 6
    task = math.sqrt(d) * np.array([[0.6, 0.8, 0.0, 0.0]])
    problem = Problem(d, context, tasks=task, noise_variance=rho, link=link, flips=flips)
    prompts = draw(problem, 200_000, rng=1)
    contexts = LinkedContexts(d, context, rho, parse_link(link), flips)
    slope = contexts.labels.slope
    head = d / context * np.einsum("nl,nli->ni", prompts.labels, prompts.inputs) / slope
    tail = np.mean(prompts.labels**2, axis=1) / slope
    h = np.column_stack([head, tail])
    products = h[:, :, None] * h[:, None, :]
    error = np.std(products, axis=0) / math.sqrt(len(h))
    moments = task_set_moments(task, None, contexts.labels.square - 1)
    second = contexts.moments.second(moments, contexts.labels.square - 1, np.zeros((d, d)))
    assert np.max(np.abs(np.mean(products, axis=0) - second) / error) < Z
    cross = contexts.moments.cross(moments, contexts.labels.square - 1)
    difference = np.mean(h, axis=0) - cross @ task[0] / d
    assert np.max(np.abs(difference) / (np.std(h, axis=0) / math.sqrt(len(h)))) < Z


def test_nodes_have_the_moments():
    contexts = LinkedContexts(10, 20, 0.2, parse_link("relu"), 0.0)
    nodes = contexts.nodes(np.ones(1), lambda pairs: (np.ones(1), np.ones(1)))  # noqa: ARG005
    signal = nodes.signal[:, 0]
    tail = nodes.tail[:, 0]
    moments = contexts.moments
    d = contexts.dim
    assert nodes.weight @ signal == pytest.approx(moments.signal, rel=1e-12)
    assert nodes.weight @ tail == pytest.approx(moments.tail[0], rel=1e-12)
    along = nodes.weight @ (signal**2 + (nodes.noise / d - nodes.along)[:, 0])
    whole = moments.square + moments.noise[0] / d
    # Of 16,000 drawn contexts, and of groups without their own variance.
    assert along == pytest.approx(whole, rel=0.005)
    assert nodes.weight @ tail**2 == pytest.approx(moments.tail_square[0], rel=0.01)
    assert nodes.weight @ (signal * tail) == pytest.approx(moments.mixed[0], rel=0.005)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_a_function_that_is_linear(ridge):
    """The rules of drawn contexts and of the chi-square law give the same errors."""
    point = {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.3, "ridge": ridge}
    known = predict(Point(**point).at(16), rng=0)
    by_function = predict(Point(**point, link=lambda z: z).at(16), rng=0)
    assert by_function.icl.mean == pytest.approx(known.icl.mean, rel=RULES)
    assert by_function.idg.mean == pytest.approx(known.idg.mean, rel=RULES)


@pytest.mark.parametrize(("point", "dim", "repeats"), SETTINGS, ids=lambda value: str(value)[-40:])
def test_simulated_errors(point, dim, repeats):
    run = point.at(dim)
    predicted = predict(run, rng=0)
    simulated = sample(run, rng=1, repeats=repeats)
    for name in ("icl", "idg"):
        theory = getattr(predicted, name)
        error = getattr(simulated, name)
        doubt = float(np.max(predicted.doubt)) * theory.mean
        total = math.hypot(Z * error.standard_error, Z * theory.standard_error)
        assert abs(error.mean - theory.mean) < doubt + total


def test_large_sizes_tend_to_the_limit():
    point = Point(tau=2, alpha=2, kappa=2, ridge=0.05, link="relu", rho=0.1)
    limit = icl_error(**point.limit)
    ratios = [
        predict(point.at(dim), rng=0, approach="moments").icl.mean / limit - 1
        for dim in (40, 80, 160)
    ]
    # The differences halve with every doubling of the dimension.
    assert ratios[2] < 0.02
    assert ratios[0] / ratios[1] == pytest.approx(2, abs=0.2)


def test_signs_do_not_see_the_norm_of_a_task():
    tasks = np.random.default_rng(0).standard_normal((6, 8))
    unit = tasks * math.sqrt(8) / np.linalg.norm(tasks, axis=1, keepdims=True)
    errors = []
    for own, law in ((tasks, "gaussian"), (unit, "sphere")):
        problem = Problem(8, 16, tasks=own, task_law=law, link="sign")
        errors.append(predict(Experiment(problem, prompts=150, training=Ridge(0.1)), rng=0))
    assert errors[0].icl.mean == pytest.approx(errors[1].icl.mean, rel=1e-12)


LAW = Problem(8, 16, tasks=6, task_law="sphere", link="relu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"problem": Problem(8, 16, tasks=6, link="relu")}, "task_law must be sphere where link"),
        (
            {"problem": Problem(8, 16, tasks=6, task_law="sphere", link="relu", drift=1.0)},
            "problem must have drift = 0",
        ),
        (
            {"test": Test(LAW.with_fresh_tasks(link="identity"))},
            "test must have the link and flips of training",
        ),
        (
            {"problem": Problem(8, 16, tasks=6, task_law="sphere", link=(0.5, 1.0))},
            "more than two moments count",
        ),
        (
            {"problem": Problem(8, 16, tasks=np.ones((3, 8)) * 2, task_law="sphere", link="relu")},
            "tasks must have squared norm 8",
        ),
    ],
)
def test_what_is_not_predicted(changes, message):
    run = Experiment(LAW, prompts=150, training=Ridge(0.1)).with_(**changes)
    with pytest.raises(ValueError, match=message):
        predict(run, rng=0)


def test_spread_is_refused():
    run = Experiment(LAW, prompts=150, training=Ridge(0.1))
    with pytest.raises(ValueError, match="spread must be False for labels"):
        predict(run, rng=0, spread=True)
    with pytest.raises(ValueError, match="link = identity here"):
        predicted_spread(run)
