"""Parts of the claims on gradient descent: traces of contexts, paired losses, wrong layers."""

from dataclasses import replace

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.models.transformer import Layer, prediction
from iclimit.simulate.prompts import draw_prompts, regression_tokens
from iclimit.validation.claims.descent import (
    constructions,
    contexts,
    dampening,
    paired,
    preconditioner,
    transfer,
)


def test_losses_from_traces_are_those_of_polynomials():
    values = np.array([0.2, 0.9, 1.7])
    rates = [0.4, 0.8]
    noise = 0.3
    traces = np.array([np.mean(values**k) for k in range(5)])
    P = (1 - 0.4 * values) * (1 - 0.8 * values)
    expected = np.mean(P**2 + noise * (1 - P) ** 2 / values)
    assert contexts.mean_loss(traces, rates, noise) == pytest.approx(expected, rel=1e-13)


def test_best_rates_are_the_roots_of_as_few_eigenvalues():
    """As many steps as eigenvalues remove the error; a constant rate minimises by calculus."""
    values = np.array([0.5, 1.0, 2.0])
    traces = np.array([np.mean(values**k) for k in range(7)])
    assert contexts.best_rates(traces, 3, 0.0) == pytest.approx([0.5, 1.0, 2.0], rel=1e-4)
    (rate,) = contexts.best_rates(traces, 2, 0.0, constant=True)
    slope = np.sum(values * (1 - rate * values) ** 3)
    assert slope == pytest.approx(0.0, abs=1e-6)


def test_traces_are_those_of_eigenvalues():
    options = {"context": 5, "dim": 3, "contexts": 200, "rng": 4}
    traces = contexts.mean_traces(most=5, **options)
    assert traces.shape == (contexts.BLOCKS, 6)
    (x,) = contexts.context_blocks(5, 3, "gaussian", 200, 4, "numpy")
    values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 5)
    expected = [np.mean(values**k) for k in range(6)]
    assert np.mean(traces, axis=0) == pytest.approx(expected, rel=1e-12)


def test_the_jackknife_of_a_mean_is_its_standard_error():
    blocks = np.random.default_rng(0).standard_normal((20, 2))
    first, second = contexts.jackknife(lambda mean: mean, blocks)
    for found, column in ((first, blocks[:, 0]), (second, blocks[:, 1])):
        expected = Estimate.of(column)
        assert found.mean == pytest.approx(expected.mean)
        assert found.standard_error == pytest.approx(expected.standard_error)


def trained_layer(noise):
    """A step on uniform inputs whose weights are all a bit off, as training leaves them."""
    problem = Problem(dim=4, context=6, input_law="uniform", noise_variance=0.2, scale=1)
    step = descent_layer(1.5, context=6, dim=4)
    generator = np.random.default_rng(1)
    weights = [
        getattr(step, name) + noise * generator.standard_normal((1, 5, 5))
        for name in ("key", "query", "value", "projection")
    ]
    return problem, Layer(*weights)


def test_a_layer_is_its_own_step_and_a_rest_that_is_even_in_the_labels():
    problem, layer = trained_layer(0.1)
    prompts = draw_prompts(problem, get_backend("numpy"), np.random.default_rng(0), 50)
    flipped = replace(prompts, labels=-prompts.labels)
    first, second = (prediction(regression_tokens(p), [layer]) for p in (prompts, flipped))
    own = paired.own_preconditioner(layer, 6)
    step = descent_layer(1.0, context=6, dim=4, preconditioner=own)
    assert prediction(regression_tokens(prompts), [step]) == pytest.approx((first - second) / 2)
    assert np.max(np.abs(first + second)) > 0.01


def test_paired_losses_add_up_to_that_of_the_layer():
    problem, layer = trained_layer(0.05)
    count = 20_000
    matrix = 1.4 * np.eye(4)
    found = paired.paired_losses(problem, layer, matrix, count, np.random.default_rng(2))
    prompts = draw_prompts(problem, get_backend("numpy"), np.random.default_rng(3), count)
    errors = (prediction(regression_tokens(prompts), [layer]) - prompts.query_label) ** 2
    direct = Estimate.of(errors)
    assert abs(found.loss.mean - direct.mean) < 4 * direct.standard_error
    assert found.loss.standard_error < 0.3 * direct.standard_error
    law = {"input_covariance": np.full(4, 1 / 3), "excess_kurtosis": -1.2}
    setting = {"context": 6, "noise_variance": 0.2}
    exact = preconditioner.preconditioner_loss(matrix, **law, **setting)
    assert abs(found.step.z(exact)) < 4
    own = preconditioner.preconditioner_loss(found.matrix, **law, **setting)
    assert abs(found.descent.z(own)) < 4


def test_the_best_preconditioner_of_contexts_is_the_one_of_least_loss():
    """Isotropic, it is the best rate on the same contexts, a ratio of traces."""
    problem = Problem(dim=5, context=5, noise_variance=0.3, scale=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preconditioner, "TASK_ROOT", np.eye(5))
        patch.setattr(preconditioner, "MIXING", np.eye(5))
        found = preconditioner.best_diagonal(problem, 20_000, 0)
    assert all(abs(each.z(5 / (5 + 5 + 1 + 0.3))) < 4 for each in found)


def test_losses_of_the_step_elsewhere_are_sums_over_a_sample():
    """The step that is optimal at scale 1, applied to inputs and tasks of other sizes."""
    generator = np.random.default_rng(2)
    x = generator.uniform(-1, 1, (40_000, 11, 10))
    w = generator.standard_normal((40_000, 10))
    rate = 15 / (5 * 20 - 1)
    for kind, factor in (("inputs", 1.0), ("inputs", 2.0), ("inputs", 0.5), ("tasks", 5.0)):
        scale, task = (factor, 1.0) if kind == "inputs" else (1.0, factor)
        exact = transfer.step_loss((kind, factor))
        y = task * np.einsum("nid,nd->ni", scale * x, w)
        step = rate * np.einsum("ni,nid->nd", y[:, :-1], scale * x[:, :-1])
        errors = (y[:, -1] - np.einsum("nd,nd->n", step, scale * x[:, -1])) ** 2
        deviation = np.mean(errors) - exact
        assert abs(deviation) < 4 * np.std(errors) / 200


def test_a_published_factor_is_one_draw_of_the_law():
    """Its spread is that of the quartiles, which are 6 % apart: a factor out of reach is seen."""
    quantiles = [Estimate(q, 0.002, 500_000) for q in (0.709, 0.734, 0.755)]
    for value in dampening.PUBLISHED:
        assert abs(dampening.one_draw(value, quantiles).z(0.734)) < 3
        assert abs(dampening.one_draw(1.3 * value, quantiles).z(0.734)) > 4


@pytest.mark.parametrize(
    ("name", "label"),
    [("rate", "after"), ("initial", "after"), ("preconditioner", "preconditioned")],
)
def test_a_wrong_layer_is_seen(name, label, monkeypatch):
    right = constructions.descent_layer

    def wrong(rate, **options):
        if name == "rate":
            return right(rate * (1 + 1e-6), **options)
        if options.get(name) is not None:
            options[name] = options[name].T if name == "preconditioner" else -options[name]
        return right(rate, **options)

    monkeypatch.setattr(constructions, "descent_layer", wrong)
    errors = constructions.construction_errors(noise_variance=0.3, initial=True, rng=0)
    # What compares layers with the same layers is not concerned.
    assert any(label in each and error > 1e-11 for each, error in errors.items())
