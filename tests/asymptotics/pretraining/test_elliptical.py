"""Elliptical inputs: Gaussian ones as a case, reference values, integrals, and simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import refuse
from scipy.integrate import quad
from scipy.stats import chi2

from iclimit import (
    Experiment,
    Problem,
    Ridge,
    Test,
    icl_error,
    idg_error,
    predict,
    sample,
    sample_prompts,
)
from iclimit.asymptotics.pretraining.elliptical import ScaleNodes
from iclimit.pretraining import elliptical_errors
from iclimit.scale_laws import parse_scale_law
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.simulate.prompts.summary_moments import squared_errors

TWO = ((0.25, 1.75), (0.5, 0.5))

# Standard errors that a mean may be off by.
Z = 4.0


@pytest.mark.parametrize(
    ("point", "icl", "idg"),
    [
        ({"tau": 1.5, "alpha": 2, "kappa": 2, "rho": 0.2, "ridge": 0.1}, 1.555135, 1.346181),
        ({"tau": 0.5, "alpha": 1, "kappa": 1, "rho": 0.3, "ridge": 0.1}, 2.113567, 1.913253),
    ],
)
def test_reference_values(point, icl, idg):
    errors = elliptical_errors(scale_law=TWO, **point)
    assert errors.icl == pytest.approx(icl, abs=5.1e-7)
    assert errors.idg == pytest.approx(idg, abs=5.1e-7)


def test_one_scale_is_gaussian():
    tau, ridge = np.meshgrid([0.3, 0.9, 1.5, 20], [0.0, 1e-3, 0.1, 30])
    point = {"tau": tau, "alpha": 2, "kappa": 0.7, "rho": 0.2, "ridge": ridge}
    errors = elliptical_errors(scale_law=((3.0,), (1.0,)), **point)
    np.testing.assert_allclose(errors.icl, icl_error(**point), rtol=1e-11)
    np.testing.assert_allclose(errors.idg, idg_error(**point), rtol=1e-11)


def test_many_degrees_of_freedom_tend_to_gaussian_inputs():
    point = {"tau": 1.5, "alpha": 2, "kappa": 2, "rho": 0.2, "ridge": 0.1}
    differences = [
        elliptical_errors(scale_law=("student", df), **point).icl / icl_error(**point) - 1
        for df in (1e3, 1e4)
    ]
    assert differences[0] < 2e-3
    assert differences[0] / differences[1] == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize(("df", "g"), [(4.5, 1e-3), (4.5, 40.0), (30, 0.5), (500, 40.0)])
def test_means_over_students_law(df, g):
    """The rule against adaptive integration over quantiles of chi-square."""
    scale = ScaleNodes.of(parse_scale_law(("student", df)))
    for power, order in ((1, 1), (1, 2), (2, 2)):

        def integrand(x, power=power, order=order):
            v = (df - 2) / x * g
            density = (df / 2 - 1) * math.log(x) - x / 2 - df / 2 * math.log(2)
            return v**power / (1 + v) ** order * math.exp(density - math.lgamma(df / 2))

        middle = chi2(df).median()
        parts = [(1e-30, middle / 8), (middle / 8, middle), (middle, 3 * middle)]
        parts.append((3 * middle, 3 * middle + 300))
        expected = sum(quad(integrand, *part, epsabs=1e-14, limit=200)[0] for part in parts)
        assert scale.mean(np.array(g), power, order) == pytest.approx(expected, rel=1e-8)


def test_no_ridge_is_the_limit_of_small_ones():
    for tau in (0.4, 2.5):
        point = {"tau": tau, "alpha": 2, "kappa": 2, "rho": 0.2, "scale_law": ("student", 9.0)}
        none = elliptical_errors(**point)
        small = elliptical_errors(**point, ridge=1e-9)
        assert none.icl == pytest.approx(small.icl, rel=1e-6)
        assert none.idg == pytest.approx(small.idg, rel=1e-6)
    threshold = elliptical_errors(tau=1, alpha=2, kappa=2, rho=0.2, scale_law=TWO)
    assert math.isinf(threshold.icl)


@pytest.mark.parametrize("law", [TWO, ("student", 20.0)], ids=["two", "student"])
@pytest.mark.parametrize("tasks", [math.inf, 3])
def test_exact_test_errors(law, tasks):
    """Errors from moments, against prompts from tokens and from the law of summaries."""
    backend = get_backend("numpy")
    problem = Problem(4, 6, task_law="sphere", noise_variance=0.2, scale_law=law)
    generator = backend.generator(np.random.SeedSequence(5))
    gamma = np.eye(4, 5) + 0.3 * generator.standard_normal((4, 5))
    exact = SummaryLaw(backend, problem)
    task_set = None if tasks == math.inf else exact.fresh_tasks(generator, tasks)
    error = exact.test_error(generator, gamma, 1, task_set)
    for sampler in ("summaries", "tokens"):
        drawn = SummaryLaw(backend, problem, sampler).draw(generator, 100_000, task_set)
        errors = squared_errors(gamma, *drawn)
        assert abs(np.mean(errors) - error) < Z * np.std(errors) / math.sqrt(len(errors))


def test_tokens_have_their_scales():
    problem = Problem(3, 4, scale_law=TWO)
    inputs = sample_prompts(problem, 20_000, rng=0).inputs
    squares = 3 * inputs**2
    fourth = np.mean(squares**2, axis=(1, 2))
    assert np.mean(squares) == pytest.approx(1, abs=0.02)
    expected = 3 * (0.25**2 + 1.75**2) / 2
    assert abs(np.mean(fourth) - expected) < Z * np.std(fourth) / math.sqrt(len(fourth))


def test_simulated_errors():
    """Two sizes, extrapolated by the 1/d law."""
    means = {}
    for dim in (12, 24):
        law = Problem(
            dim, 2 * dim, tasks=2 * dim, noise_variance=0.2, task_law="sphere", scale_law=TWO
        )
        run = Experiment(law, prompts=3 * dim**2 // 2, training=Ridge(0.3))
        means[dim] = sample(run, rng=0, repeats=60)
    theory = elliptical_errors(scale_law=TWO, tau=1.5, alpha=2, kappa=2, rho=0.2, ridge=0.3)
    for name in ("icl", "idg"):
        large = means[24][name]
        small = means[12][name]
        limit = 2 * large.mean - small.mean
        error = math.hypot(2 * large.standard_error, small.standard_error)
        # The next order in 1/d leaves some 1.5 % at these sizes.
        assert abs(limit - getattr(theory, name)) < Z * error + 0.015


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (("student", 4), "E u\\^2 is infinite, so that contexts say nothing"),
        (("student", "many"), "scale_law must be"),
        (("student", math.inf), "scale_law must be"),
        (("student", -1), "scale_law must be"),
        (("cauchy", 5), "scale_law must be"),
        (((1.0, 2.0), (0.5, 0.6)), "scale_law must be"),
        (((-1.0, 2.0), (0.5, 0.5)), "of positive numbers"),
        (3.0, "got 3.0"),
    ],
)
def test_bad_laws(law, message):
    with pytest.raises(ValueError, match=message):
        elliptical_errors(scale_law=law, tau=1.5, alpha=2, kappa=2, rho=0.2)
    with pytest.raises(ValueError, match=message):
        Problem(4, 4, scale_law=law)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input_law": "uniform"}, "input_law must be gaussian where scale_law"),
        ({"correlation": 0.5}, "correlation must be 0 where scale_law"),
        ({"link": "sign"}, "link must be identity where scale_law"),
    ],
)
def test_what_does_not_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        Problem(4, 4, scale_law=TWO, **settings)


def test_a_run_states_its_scales():
    law = Problem(6, 12, tasks=4, task_law="sphere", scale_law=((1.0, 7.0), (0.5, 0.5)))
    run = Experiment(law, prompts=60, training=Ridge(0.1))
    assert run.statement()["scale_law"] == [[0.25, 1.75], [0.5, 0.5]]
    assert law.limit["scale_law"] == TWO
    assert Problem(6, 12, scale_law="student:8").scale_law == ("student", 8.0)
    assert sample(run, rng=0).icl.mean > 0


def elliptical_run(law, *, dim=10, context=20, tasks=10, prompts=150, ridge=0.3):
    problem = Problem(
        dim, context, tasks=tasks, noise_variance=0.2, task_law="sphere", scale_law=law
    )
    return Experiment(problem, prompts=prompts, training=Ridge(ridge))


@pytest.mark.parametrize("law", [TWO, ("student", 12.0)], ids=["two", "student"])
def test_runs_of_finite_size_are_predicted(law):
    """Simulated runs, 6 to 9 % above the limit at these sizes, are 1 % from the prediction."""
    run = elliptical_run(law)
    samples = sample(run, rng=2, repeats=150)
    prediction = predict(run, rng=2, draws=16)
    for name in ("icl", "idg"):
        error = samples[name].standard_error
        doubt = prediction.uncertainty * prediction[name].mean
        own = prediction[name].standard_error
        deviation = abs(samples[name].mean - prediction[name].mean)
        assert deviation < doubt + Z * math.hypot(error, own)


@pytest.mark.parametrize("law", [((0.2, 1.8), (0.5, 0.5)), ("student", 16.4)])
def test_contexts_with_other_scales_have_other_leverages(law):
    """With one law of leverages errors of these runs were 26 % too small and 9 % too large."""
    size = {"dim": 21, "context": 6, "tasks": 60, "prompts": 262, "ridge": 0.0137}
    if law[0] == "student":
        size = {"dim": 15, "context": 15, "tasks": 54, "prompts": 208, "ridge": 0.006}
    run = elliptical_run(law, **size)
    prediction = predict(run, rng=3, draws=4)
    samples = sample(run, rng=7, repeats=60)
    stated = prediction.uncertainty
    for name in ("icl", "idg"):
        ratio = samples[name].mean / prediction[name].mean - 1
        error = samples[name].standard_error / prediction[name].mean
        assert abs(ratio) < min(stated, 0.06) + 2.5 * error


def test_a_scale_of_one_value_is_none():
    """Nodes of contexts are drawn, Gaussian inputs have Gauss rules."""
    run = elliptical_run(((1.0,), (1.0,)))
    plain = run.with_(problem=replace(run.problem, scale_law=None))
    for approach in ("tasks", "moments"):
        own, other = (predict(each, rng=1, draws=2, approach=approach) for each in (run, plain))
        for name in ("icl", "idg"):
            assert own[name].mean == pytest.approx(other[name].mean, rel=2e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale_law": ("student", 8.0)}, "scale_law must be of more than 8 degrees"),
        ({"task_law": "gaussian"}, "task_law must be sphere for a scale_law"),
        ({"drift": 0.1}, "problem must have drift = 0.0 here"),
    ],
)
def test_what_is_not_predicted(changes, message):
    run = elliptical_run(TWO)
    refuse(message, predict, run.with_(problem=replace(run.problem, **changes)))


def test_tests_have_the_law_of_training():
    run = elliptical_run(TWO)
    other = run.problem.with_fresh_tasks(scale_law=("student", 12.0))
    refuse("test must have the scale_law of training", predict, run.with_(test=Test(other)))
    refuse("spread must be False for a scale_law", predict, run, spread=True)


def test_a_law_that_was_read_is_read_again_as_it_is():
    """Also where the mean is 1 but for the last digit, after its points were divided by it."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        chance = float(rng.uniform(0.1, 0.9))
        law = (tuple(rng.uniform(0.1, 3, 2)), (chance, 1 - chance))
        problem = Problem(dim=4, context=4, scale_law=law)
        again = replace(problem, context=5)
        assert again.scale_law == problem.scale_law
        mean = math.fsum(map(float.__mul__, *problem.scale_law))
        assert mean == pytest.approx(1, rel=4e-16, abs=0)
