"""The spectral filter and the weights of positions of predictors that are known."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import iclimit
from iclimit.results import Estimate
from iclimit.simulate.prompts import Prompts, sample_prompts
from iclimit.validation.instruments.models.algorithm import Examples
from iclimit.validation.instruments.models.context_use import context_use, expected_weights
from iclimit.validation.instruments.models.fitting import Fit

D, N = 4, 12
PROBLEM = iclimit.Problem(dim=D, context=N, noise_variance=0.2, scale=1)
DRAWN = sample_prompts(PROBLEM, 2000, rng=0)


def function_of_covariance(function):
    """Answers of w = function(H) b, by the eigenvectors of each context."""
    H = DRAWN.inputs.mT @ DRAWN.inputs / N
    b = np.vecdot(DRAWN.inputs.mT, DRAWN.labels[:, None]) / N
    values, vectors = np.linalg.eigh(H)
    weights = (vectors * function(values)[:, None]) @ vectors.mT @ b[:, :, None]
    return np.vecdot(DRAWN.query, weights[:, :, 0])


def test_any_filter_is_found():
    for function in (
        lambda h: 1 / (h + 0.4),
        lambda h: 0.7 - 0.1 * h**2,
        lambda h: np.exp(-h),
        lambda h: 0 * h + 0.3,
    ):
        use = context_use(Examples(DRAWN, PROBLEM), function_of_covariance(function))
        found = np.array([each.mean for each in use.filter])
        # Between the knots it is linear.  The last ones are a wide interval apart.
        assert np.allclose(found[1:-1], function(use.eigenvalue)[1:-1], atol=0.06)
        assert use.explained.mean > 0.995


def test_what_is_no_filter_is_not_explained():
    nearest = np.argmin(np.linalg.norm(DRAWN.inputs - DRAWN.query[:, None], axis=2), axis=1)
    use = context_use(Examples(DRAWN, PROBLEM), DRAWN.labels[np.arange(len(DRAWN)), nearest])
    assert use.explained.mean < 0.7


@pytest.mark.parametrize("decay", [1.0, 0.7])
def test_weights_of_positions_and_the_number_of_examples_that_count(decay):
    weights = 0.5 * decay ** np.arange(N)[::-1]
    products = DRAWN.labels * np.vecdot(DRAWN.inputs, DRAWN.query[:, None])
    use = context_use(Examples(DRAWN, PROBLEM), products @ weights / N)
    assert [each.mean for each in use.weights] == pytest.approx(weights)
    # Two geometric sums.
    expected = (1 - decay**N) * (1 + decay) / (1 - decay) / (1 + decay**N) if decay < 1 else N
    assert use.examples == pytest.approx(expected)
    assert "12 examples count" in use.sentence


@pytest.mark.parametrize("unit", [None, 0, 1])
def test_positions_stand_beside_the_theory_of_a_gated_delta_rule(unit):
    """A memory that is written pair by pair, in units of unit inputs and other tasks."""
    problem = iclimit.Problem(
        dim=D, context=N, noise_variance=0.4, scale=1, task_variance=0.5, drift=0.3
    )
    drawn = sample_prompts(problem, 20_000, rng=1)
    memory = np.zeros_like(drawn.query)
    keys = drawn.inputs
    query = drawn.query
    step = 0.15 if unit is None else 0.6
    if unit is not None:
        keys = keys / np.sqrt(np.sum(keys**2, axis=2, keepdims=True))
    if unit:
        query = query / np.sqrt(np.sum(query**2, axis=1, keepdims=True))
    for x, y in zip(np.moveaxis(keys, 1, 0), drawn.labels.T, strict=True):
        memory = 0.9 * memory
        memory = memory + step * (y - np.vecdot(x, memory))[:, None] * x
    answers = 0.8 * np.vecdot(query, memory)
    values = {"readout": 0.8, "step": step, "decay": 0.9} | (
        {"unit_queries": unit} if unit is not None else {}
    )
    parameters = {name: Estimate(each, 0.0, 1) for name, each in values.items()}
    family = "gated_delta_rule" if unit is None else "gated_unit_delta_rule"
    fit = Fit(family, "", "", parameters, {}, Estimate(0.0, 0.0, 1))
    expected = expected_weights(fit, problem)
    use = context_use(Examples(drawn, problem), answers)
    z = [(w.mean - e) / w.standard_error for w, e in zip(use.weights, expected, strict=True)]
    assert np.max(np.abs(z)) < 4
    assert np.max([each.standard_error for each in use.weights]) < 0.03 * expected[-1]
    _, ax = plt.subplots()
    use.draw_positions(ax, fits=[fit], problem=problem)
    assert ax.get_legend_handles_labels()[1][0] == f"{family.replace('_', ' ')}, theory"
    plt.close()
    assert expected_weights(replace(fit, family="ridge"), problem) is None


def test_too_few_prompts_and_no_answers():
    answers = function_of_covariance(np.cos)
    assert context_use(Examples(DRAWN, PROBLEM), 0 * answers) is None
    assert context_use(Examples(DRAWN[:50], PROBLEM), answers[:50]) is None


def test_equal_eigenvalues_have_one_knot():
    """Signs in one dimension: every context has the covariance 1."""
    signs = np.sign(DRAWN.inputs[:, :, :1])
    flat = Prompts(signs, DRAWN.labels, DRAWN.query[:, :1])
    use = context_use(
        Examples(flat, PROBLEM),
        0.4 * DRAWN.query[:, 0] * np.mean(DRAWN.labels * signs[:, :, 0], axis=1),
    )
    assert [each.mean for each in use.filter] == pytest.approx([0.4])


def test_figures():
    use = context_use(Examples(DRAWN, PROBLEM), function_of_covariance(lambda h: 1 / (h + 0.4)))
    figure, axes = plt.subplots(1, 2)
    use.draw(axes[0])
    use.draw_positions(axes[1])
    assert axes[0].get_xlabel().startswith("eigenvalue")
    assert axes[1].get_ylim()[0] == 0
    plt.close(figure)
