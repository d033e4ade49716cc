"""Labels that are a function of the linear one: values, flips, and the law of summaries."""

import math

import numpy as np
import pytest

from iclimit import Experiment, Problem, Ridge, Test, sample, sample_prompts
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts.links import link_values
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.simulate.prompts.summary_moments import squared_errors

# Standard errors that a mean may be off by.
Z = 4.0


@pytest.mark.parametrize(
    ("link", "values"),
    [
        ("identity", [-2.0, 0.5]),
        ("sign", [-1.0, 1.0]),
        ("relu", [0.0, 0.5]),
        ("cube", [-8.0, 0.125]),
        ("tanh", [math.tanh(-2), math.tanh(0.5)]),
        (("sin", 3.0), [math.sin(-6), math.sin(1.5)]),
        (lambda z: z + z**2, [2.0, 0.75]),
    ],
)
def test_values(link, values):
    assert link_values(link, np.array([-2.0, 0.5])) == pytest.approx(values, rel=1e-15)


@pytest.mark.parametrize(
    ("link", "message"),
    [((0.5, 1.0), "name or a function here, where labels are drawn"), (np.sum, "of the shape")],
)
def test_links_without_values(link, message):
    with pytest.raises(ValueError, match=message):
        link_values(link, np.zeros(3))


def test_prompts_have_labels_of_the_link():
    problem = Problem(6, 9, link="sign", flips=0.2)
    prompts = sample_prompts(problem, 4000, rng=0)
    z = np.einsum("nli,ni->nl", prompts.inputs, prompts.tasks)
    wrong = np.mean(prompts.labels != np.sign(z))
    assert abs(wrong - 0.2) < Z * math.sqrt(0.16 / z.size)
    assert np.array_equal(prompts.target, np.sign(np.sum(prompts.query * prompts.tasks, axis=1)))
    assert abs(np.mean(prompts.query_label != prompts.target) - 0.2) < Z * math.sqrt(0.16 / 4000)


def test_other_units_only_scale():
    plain = Problem(5, 7, link="tanh", noise_variance=0.3)
    scaled = Problem(5, 7, link="tanh", noise_variance=0.3 * 5 * 4, scale=1.0, task_variance=4.0)
    assert scaled.limit["rho"] == pytest.approx(plain.limit["rho"], rel=1e-12)
    labels = sample_prompts(scaled, 3, rng=0).labels
    assert labels == pytest.approx(math.sqrt(20) * sample_prompts(plain, 3, rng=0).labels)


def test_linear_prompts_are_as_they_were():
    plain = sample_prompts(Problem(5, 7, noise_variance=0.1), 3, rng=0)
    # Noise is drawn last, so flips with probability 0 leave every number as it is.
    again = sample_prompts(Problem(5, 7, noise_variance=0.1, flips=0.0, link="identity"), 3, rng=0)
    assert np.array_equal(plain.labels, again.labels)
    assert plain.clean_label is None


@pytest.mark.parametrize(
    ("link", "flips", "rho"), [("sign", 0.1, 0.05), ("cube", 0.0, 0.2), ("relu", 0.0, 0.1)]
)
def test_summaries_follow_the_law_of_tokens(link, flips, rho):
    """Means and mean squares of summaries, from their law and from tokens, for Gaussian tasks."""
    problem = Problem(5, 8, noise_variance=rho, link=link, flips=flips)
    moments = []
    for number, sampler in enumerate(("summaries", "tokens")):
        backend = get_backend("numpy")
        law = SummaryLaw(backend, problem, sampler)
        generator = backend.generator(np.random.SeedSequence(number))
        x, h, y = law.draw(generator, 40_000, None)
        aligned = y * np.sum(x * h[:, :5], axis=1)
        numbers = np.stack([h[:, 0] ** 2, h[:, 5], h[:, 5] ** 2, y**2, aligned])
        moments.append((numbers.mean(axis=1), numbers.var(axis=1) / numbers.shape[1]))
    (first, first_square), (second, second_square) = moments
    z = (first - second) / np.sqrt(first_square + second_square)
    assert np.max(np.abs(z)) < Z


@pytest.mark.parametrize("tasks", [math.inf, 3])
@pytest.mark.parametrize(("link", "flips", "rho"), [("sign", 0.1, 0.2), ("relu", 0.0, 0.1)])
def test_exact_errors_are_those_of_prompts(tasks, link, flips, rho):
    """Errors of a matrix from moments, against many prompts of tokens."""
    backend = get_backend("numpy")
    problem = Problem(4, 6, task_law="sphere", noise_variance=rho, link=link, flips=flips)
    law = SummaryLaw(backend, problem, "tokens")
    generator = backend.generator(np.random.SeedSequence(3))
    gamma = np.eye(4, 5) + 0.3 * generator.standard_normal((4, 5))
    task_set = None if tasks == math.inf else law.fresh_tasks(generator, tasks)
    exact = law.test_error(generator, gamma, 1, task_set)
    errors = squared_errors(gamma, *law.draw(generator, 200_000, task_set))
    assert abs(np.mean(errors) - exact) < Z * np.std(errors) / math.sqrt(len(errors))


def test_a_run_states_its_link():
    law = Problem(6, 12, tasks=4, task_law="sphere", link=("sin", 3.0))
    run = Experiment(law, prompts=60, training=Ridge(0.1))
    assert run.statement()["link"] == ["sin", 3]
    assert sample(run, rng=0).parameters["link"] == "sin:3"
    assert "link" not in Experiment(Problem(6, 12, tasks=4), prompts=60).statement()
    assert run.limit["link"] == ("sin", 3.0)


def test_functions_run_where_nothing_is_stored():
    law = Problem(6, 12, tasks=4, task_law="sphere", link=np.sign)
    run = Experiment(law, prompts=60, training=Ridge(0.1))
    named = run.with_(problem=Problem(6, 12, tasks=4, task_law="sphere", link="sign"))
    # The same training; errors of functions are those of 10,000 test prompts, known to 2 %.
    np.testing.assert_allclose(sample(run, rng=0).samples, sample(named, rng=0).samples, rtol=0.08)
    with pytest.raises(TypeError, match="got <ufunc 'sign'>"):
        run.statement()


def test_tests_may_have_another_link():
    law = Problem(6, 12, tasks=4, task_law="sphere", link="sign")
    other = Test(law.with_fresh_tasks(link="identity"))
    run = Experiment(law, prompts=60, training=Ridge(0.1), test=other)
    assert run.statement()["test_link"] == "identity"
    assert sample(run, rng=0).icl.mean > 0


def test_readers_of_linear_labels_refuse_others():
    problem = Problem(6, 12, link="sign")
    with pytest.raises(ValueError, match="problem must have link = identity here, got 'sign'"):
        problem.label_square  # noqa: B018
