"""Sizes of runs: plain runs within the stated uncertainty, and another program's numbers."""

import math

import numpy as np
import pytest
from scipy.stats import binom
from sequence_runs import mean_of_runs

from iclimit import AllPositions, Experiment, Problem, Reduced, Ridge
from iclimit.asymptotics.pretraining import balanced_position_errors, position_errors_at_size
from iclimit.asymptotics.pretraining.finite_all_positions import (
    binomial_counts,
    trained_position_errors,
)
from iclimit.asymptotics.pretraining.sampled_sequences import DrawnSequences, draw_blocks

# Half a unit of the last digit of the numbers below.
ROUNDED = 6e-7
# Standard errors that the worst of some ten simulated numbers may lie off.
SIGMAS = 4.0

# Numbers of another program, which iterates responses and takes derivatives by differences:
# dim, last and first position, rho, sequences, ridge, tasks, normalization; c, z, g, gamma and the
# errors at the last position.  With sums over the context it leaves out p^2 in the response of the
# last column.
TABLE = [
    (
        (16, 24, 4, 0.1, 16, 0.1, 16, "mean"),
        (0.202221, 0.537762, 1.999818, 0.951020, 1.726060, 1.219639),
    ),
    (
        (16, 32, 8, 0.1, 64, 0.1, 8, "mean"),
        (0.247066, 0.188788, 0.892307, 0.998252, 1.001803, 0.401153),
    ),
]


def setting_of(dim, last, first, rho, prompts, ridge, tasks, normalization):
    return {
        "dim": dim,
        "positions": range(first, last + 1),
        "prompts": prompts,
        "tasks": tasks,
        "rho": rho,
        "ridge": ridge,
        "normalization": normalization,
    }


def run_of(setting, dim, last, first, rho, prompts, ridge, tasks, normalization):
    return Experiment(
        Problem(dim, last, tasks=tasks, noise_variance=rho, task_law="sphere"),
        prompts=prompts,
        balanced=setting["balanced"] and tasks < math.inf,
        loss=AllPositions(first),
        training=Ridge(ridge),
        model=Reduced(normalization=normalization),
    )


@pytest.mark.parametrize(("point", "numbers"), TABLE)
def test_numbers_of_another_program(point, numbers):
    errors = position_errors_at_size(balanced=True, **setting_of(*point))
    found = (errors.rate, errors.variance, errors.response, errors.last_response)
    np.testing.assert_allclose((*found, errors.icl[-1], errors.idg[-1]), numbers, atol=ROUNDED)


@pytest.mark.parametrize("normalization", ["mean", "length"])
def test_last_column_responds_about_as_with_drawn_sequences(normalization):
    """The kernel of drawn sequences fluctuates, which raises gamma by up to two thirds."""
    point = (12, 24, 1, 0.1, 24, 0.3, 12, normalization)
    setting = setting_of(*point) | {"balanced": True}
    gamma = position_errors_at_size(**setting).last_response
    run = run_of(setting, *point)
    blocks = draw_blocks(run, np.random.default_rng(1), 60)
    drawn = DrawnSequences.of(run, blocks, 1.0, gamma)
    assert 0.6 < gamma / drawn.gamma < 1


@pytest.mark.parametrize(
    ("point", "balanced", "repeats"),
    [
        ((8, 16, 3, 0.1, 32, 0.3, math.inf, "mean"), True, 200),
        ((8, 16, 1, 0.2, 24, 0.2, 8, "length"), False, 200),
        ((12, 24, 4, 0.1, 36, 0.3, 6, "mean"), False, 60),
        ((12, 18, 4, 0.3, 24, 0.05, 24, "length"), True, 60),
    ],
)
def test_plain_runs_are_within_the_uncertainty(point, balanced, repeats):
    setting = setting_of(*point) | {"balanced": balanced}
    theory = position_errors_at_size(**setting)
    means, errors, _, _ = mean_of_runs(5, repeats, **setting)
    predicted = np.stack([theory.icl, theory.idg], axis=-1)
    allowed = np.array(theory.uncertainty) * predicted + SIGMAS * errors
    assert np.all(abs(means - predicted) < allowed)
    assert np.all(errors < 0.05 * predicted)
    run = run_of(setting, *point)
    drawn, doubts = trained_position_errors(run, setting["positions"], rng=0)
    assert np.all(doubts < 0.6 * np.array(theory.uncertainty))
    # Plain runs test fresh tasks for the IDG error on their own ones, of which there is no theory.
    known = 1 if math.isinf(setting["tasks"]) else 2
    allowed = doubts * drawn.T + SIGMAS * errors
    assert np.all(abs(means - drawn.T)[:, :known] < allowed[:, :known])


def test_large_sizes_tend_to_the_limit():
    """The difference halves when the dimension doubles."""
    limit = balanced_position_errors(
        sequence_ratio=2, alpha=1.5, alpha_min=0.5, kappa=0.5, rho=0.1, ridge=0.2
    )
    differences = []
    for dim in (60, 120):
        theory = position_errors_at_size(
            dim=dim,
            positions=range(dim // 2, 3 * dim // 2 + 1),
            prompts=2 * dim,
            tasks=dim // 2,
            rho=0.1,
            ridge=0.2,
            balanced=True,
        )
        differences.append([theory.icl[-1] - limit.icl, theory.idg[-1] - limit.idg])
    ratios = np.divide(*differences)
    np.testing.assert_allclose(ratios, 2, rtol=0.1)


@pytest.mark.parametrize(("prompts", "tasks"), [(2, 2), (40, 5), (300, 9)])
def test_drawn_tasks_by_explicit_sums(prompts, tasks):
    """Means over the numbers of sequences of a task, of what a response is like."""
    numbers = np.arange(1, prompts + 1)
    probabilities = binom.pmf(numbers, prompts, 1 / tasks)
    # The rule has 7 nodes: it is the coarser, the faster responses saturate.
    for slope, accuracy in ((0.1, 1e-8), (1.0, 1e-4)):
        explicit = tasks * probabilities @ (numbers / (1 + slope * numbers))
        rule = binomial_counts(prompts, tasks, float(prompts))
        found = sum(density * count / (1 + slope * count) for count, density in rule)
        assert found == pytest.approx(explicit, rel=accuracy)


def test_wrong_sizes():
    for change, message in (
        ({"positions": [3, 2]}, "positions must be >= 1 and ascending"),
        ({"positions": [0.5]}, "positions must be a sequence of integers"),
        ({"dim": 2.5}, "dim must be an integer"),
        ({"tasks": 0}, "tasks must be"),
        ({"ridge": 0.0}, "ridge must be > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            position_errors_at_size(**setting_of(6, 6, 2, 0.2, 12, 0.5, 4, "mean") | change)
