"""Context summaries from their exact law against token-level prompts, and exact moments."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from sampled_means import P_VALUE, assert_mean, assert_same_mean
from scipy import stats

from iclimit.problem import TASK_LAWS, Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import context_summary, draw_prompts
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.simulate.prompts.summaries import SummaryLaw, sample_summaries
from iclimit.simulate.prompts.summary_moments import fresh_task_moments, task_set_moments

SAMPLES = 40_000
BACKEND = get_backend("numpy")


class Case(NamedTuple):
    """One law of summaries; norm is |w|/sqrt(d), which is 1 on the sphere."""

    d: int
    context: int
    rho: float
    norm: float


CASES = [
    Case(5, 7, 0.3, 1.0),
    Case(5, 7, 0.3, 1.7),  # a Gaussian task is longer or shorter
    Case(3, 1, 0.5, 0.6),  # one pair: no degree of freedom is left for the corner
    Case(4, 2, 0.1, 1.0),
    Case(4, 3, 0.0, 1.0),  # no noise
    Case(4, 1, 0.0, 1.0),
    Case(1, 4, 0.2, 1.0),  # nothing across the task
    Case(3, 40, 2.0, 1.0),
    Case(3, 5, 0.4, 0.0),  # labels of noise only
]


def both(case, n=SAMPLES):
    """A task with summaries of n contexts from tokens and from the exact law."""
    generator = np.random.default_rng([case.d, case.context, int(10 * case.rho), 1])
    task = (
        draw_fresh_tasks(Problem(case.d, 1, task_law="sphere"), BACKEND, generator, 1) * case.norm
    )
    tasks = np.repeat(task, n, axis=0)
    tokens = context_summary(
        draw_prompts(
            Problem(tasks.shape[1], case.context, noise_variance=case.rho),
            BACKEND,
            generator,
            tasks=tasks,
        )
    )
    law = sample_summaries(BACKEND, generator, tasks, case.context, case.rho)
    assert law.shape == tokens.shape == (n, case.d + 1)
    return task[0], tokens, law


@pytest.mark.parametrize("case", CASES)
def test_moments_agree_with_tokens(case):
    task, tokens, law = both(case)
    assert_mean(law, np.append(task, case.norm**2 + case.rho))
    assert_same_mean(tokens, law)
    assert_same_mean(tokens[:, :, None] * tokens[:, None, :], law[:, :, None] * law[:, None, :])
    assert_same_mean(tokens**3, law**3)


@pytest.mark.parametrize("case", CASES)
def test_law_agrees_with_tokens(case):
    task, tokens, law = both(case)
    d = case.d
    axis = task / np.linalg.norm(task) if case.norm else np.eye(d)[0]
    basis = np.linalg.qr(np.column_stack([axis, np.eye(d)]))[0][:, :d]

    def projections(h):
        along = h[:, :d] @ axis
        last = h[:, d]
        views = {
            "last": last,
            "along": along,
            "norm": np.sum(h[:, :d] ** 2, axis=1),
            "along times last": along * last,
            "mixture": h @ np.linspace(-1, 1, d + 1),
        }
        if d > 1:
            across = h[:, :d] @ basis[:, 1]
            views |= {
                "across": across,
                "across times last": across * last,
                "all three": along * across**2 * last,
                # The conditional variance of the transverse part is that of the labels.
                "across over label norm": across / np.sqrt(last),
            }
        return views

    first = projections(tokens)
    second = projections(law)
    for name, values in first.items():
        assert stats.ks_2samp(values, second[name]).pvalue > P_VALUE, name


@pytest.mark.parametrize("task_law", TASK_LAWS)
def test_law_agrees_with_tokens_for_random_tasks(task_law):
    d = 3
    context = 4
    rho = 0.3
    generator = np.random.default_rng(20)

    def views(from_tokens):
        tasks = draw_fresh_tasks(Problem(d, 1, task_law=task_law), BACKEND, generator, SAMPLES)
        if from_tokens:
            h = context_summary(
                draw_prompts(
                    Problem(tasks.shape[1], context, noise_variance=rho),
                    BACKEND,
                    generator,
                    tasks=tasks,
                )
            )
        else:
            h = sample_summaries(BACKEND, generator, tasks, context, rho)
        return [
            h[:, 0],
            h[:, d],
            np.sum(h[:, :d] ** 2, axis=1),
            np.sum(h[:, :d] * tasks, axis=1),
            np.sum(h[:, :d] * tasks, axis=1) * h[:, d],
            np.sum((h[:, :d] - tasks) ** 2, axis=1),
        ]

    for first, second in zip(views(True), views(False), strict=True):
        assert stats.ks_2samp(first, second).pvalue > P_VALUE


def test_without_noise_the_parts_are_bound():
    """With rho = 0, <w, h_1..d> = (d/l) sum y_i^2 = d h_{d+1} for every prompt."""
    for context in (1, 2, 9):
        generator = np.random.default_rng(21)
        tasks = draw_fresh_tasks(Problem(6, 1, task_law="gaussian"), BACKEND, generator, 500)
        h = sample_summaries(BACKEND, generator, tasks, context, 0.0)
        np.testing.assert_allclose(np.sum(h[:, :6] * tasks, axis=1), 6 * h[:, 6], rtol=1e-10)


def test_rows_use_their_own_task():
    """With a long context the summary is its mean (w, |w|^2/d + rho), row by row."""
    generator = np.random.default_rng(22)
    tasks = draw_fresh_tasks(Problem(4, 1, task_law="gaussian"), BACKEND, generator, 50)
    context = 10**8
    h = sample_summaries(BACKEND, generator, tasks, context, 0.5)
    expected = np.column_stack([tasks, np.sum(tasks**2, axis=1) / 4 + 0.5])
    # Standard deviation of an entry: at most sqrt(10 d |w|^2 / context), norms up to sqrt(20).
    np.testing.assert_allclose(h, expected, rtol=0, atol=6 * math.sqrt(10 * 20 / context))


def assert_moments(moments, h, tasks, y):
    """Monte Carlo estimates of E h h^T, E h w^T and E y^2 against exact moments."""
    assert_mean(h[:, :, None] * h[:, None, :], moments.second)
    assert_mean(h[:, :, None] * tasks[:, None, :], moments.cross)
    assert_mean(y**2, float(moments.label))


def test_task_set_moments_against_tokens():
    for context, rho in ((1, 0.3), (3, 0.0), (6, 0.5)):
        generator = np.random.default_rng(23)
        # Tasks of unequal norms: the covariance of |w|^2 and w must be right too.
        given = draw_fresh_tasks(
            Problem(4, 1, task_law="gaussian"), BACKEND, generator, 3
        ) * np.array([[0.5], [1.0], [2.0]])
        tasks = given[generator.integers(0, 3, size=SAMPLES)]
        prompts = draw_prompts(
            Problem(tasks.shape[1], context, noise_variance=rho), BACKEND, generator, tasks=tasks
        )
        moments = task_set_moments(BACKEND, given, context, rho)
        assert moments.second.shape == (5, 5)
        assert moments.cross.shape == (5, 4)
        assert_moments(moments, context_summary(prompts), tasks, prompts.query_label)


@pytest.mark.parametrize("task_law", TASK_LAWS)
@pytest.mark.parametrize(("context", "rho"), [(1, 0.3), (3, 0.0), (6, 0.5)])
def test_fresh_task_moments_against_tokens(task_law, context, rho):
    generator = np.random.default_rng(24)
    tasks = draw_fresh_tasks(Problem(4, 1, task_law=task_law), BACKEND, generator, SAMPLES)
    prompts = draw_prompts(
        Problem(tasks.shape[1], context, noise_variance=rho), BACKEND, generator, tasks=tasks
    )
    moments = fresh_task_moments(BACKEND, 4, context, rho, task_law)
    assert_moments(moments, context_summary(prompts), tasks, prompts.query_label)


@pytest.mark.parametrize("gated", [False, True])
def test_moments_where_the_order_of_pairs_matters(gated):
    """Against tokens: gates, drift and correlated inputs, for few tasks and for fresh ones."""
    problem = Problem(3, 5, task_law="sphere", noise_variance=0.3, drift=0.8, correlation=0.6)
    gates = np.linspace(0.3, 1, 5) if gated else None
    law = SummaryLaw(get_backend("numpy"), problem, "tokens", gates)
    rng = np.random.default_rng(2)
    few = law.fresh_tasks(rng, 2)
    for task_set in (few, None):
        tasks = (
            law.fresh_tasks(rng, 60_000) if task_set is None else few[rng.integers(0, 2, 60_000)]
        )
        prompts = draw_prompts(problem, law.backend, rng, tasks=tasks)
        summaries = context_summary(prompts, gates)
        assert_moments(law.moments(task_set), summaries, tasks, prompts.query_label)


def test_errors_of_other_tasks_are_sampled():
    """Exact errors are for tasks of norm sqrt(d); given tasks may have any."""
    rng = np.random.default_rng(4)
    gates = np.linspace(0.3, 1, 5)
    law = Problem(3, 5, task_law="sphere", noise_variance=0.3, drift=0.8)
    tasks = draw_fresh_tasks(law, BACKEND, rng, 2)
    gamma = 0.3 * rng.standard_normal((3, 4))
    exact, sampled = (
        SummaryLaw(BACKEND, each, "tokens", gates).test_error(rng, gamma, 40_000, tasks)
        for each in (law, replace(law, tasks=tasks))
    )
    assert sampled == pytest.approx(exact, rel=0.03)
    assert sampled != pytest.approx(exact, rel=1e-9)
