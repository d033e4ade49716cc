"""Ridge baselines under mixed noise against a published table, simulation and other integrals."""

import math
from functools import lru_cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from iclimit.asymptotics.descent import optimal_schedule, schedule_loss
from iclimit.asymptotics.gdpp import (
    adaptive_ridge_loss,
    baseline_profiles,
    constant_ridge_loss,
    one_layer,
    oracle_risk,
    ridge_baselines,
    ridge_risk,
)
from iclimit.asymptotics.gdpp.ridge_losses import level_rule
from iclimit.asymptotics.spectra import Wishart, wishart_resolvent
from iclimit.problem import NoiseLaw, Problem
from iclimit.simulate.gdpp import simulate_ridge_baselines

N, D = 20, 10
SIZE = {"context": N, "dim": D}

# Sums of some three hundred positive terms; measured worst 3e-15 where the reference is exact.
ROUNDING = 1e-12
# Gauss rules of finite degree at noise levels of order 1 and more; measured worst 2e-11.
GAUSS = 1e-9
# scipy's adaptive quadrature over the noise level, asked for 1e-10.
ADAPTIVE = 1e-8
# Grid of multipliers and thresholds around the tuned ones: the minimum is quadratic.
TUNED = 1e-9
# Standard errors that the worst of a dozen simulated losses may lie off.
SIGMAS = 4.0


@lru_cache
def baselines(spec, context=N, dim=D):
    """Tuned once for all tests: a second for a uniform law."""
    return ridge_baselines(spec, context=context, dim=dim)


@pytest.mark.parametrize("spec", ["uniform:1", "uniform:5", "categorical:1,3", "categorical:0,4"])
def test_simulated_prompts_have_these_losses(spec):
    best = baselines(spec)
    run = simulate_ridge_baselines(
        Problem(dim=D, context=N, scale=1.0, noise_law=spec),
        contexts=10_000,
        rng=1,
        multiplier=best.multiplier,
        threshold=best.threshold,
    )
    expected = {"ConstRR": best.constant, "AdaRR": best.adaptive, "TunedRR": best.tuned}
    for name, loss in expected.items():
        found = run.losses[name]
        assert abs(found.mean - loss) < SIGMAS * found.standard_error + ROUNDING, name


@pytest.mark.parametrize("ridge", [20.0, 300.0])
@pytest.mark.parametrize("variance", [0.0, 0.3, 9.0, 1e4])
def test_risk_by_the_gauss_rule_of_exact_moments(ridge, variance):
    nodes, weights = Wishart(context=N, dim=D).quadrature(24)
    e = N * nodes
    q = 1 / (e + ridge)
    expected = D / 2 * weights @ ((1 - e * q) ** 2 + variance * e * q**2)
    assert ridge_risk(ridge, noise_variance=variance, **SIZE) == pytest.approx(expected, rel=GAUSS)


@pytest.mark.parametrize(("multiplier", "threshold"), [(1.0, math.inf), (1.3, 5.0), (40.0, 3.0)])
@pytest.mark.parametrize("sigma", [0.2, 2.0, 5.0])
def test_adaptive_loss_by_adaptive_quadrature(sigma, multiplier, threshold):
    """scipy's integral over its chi-square law of differences of risks."""
    law = stats.chi2(N - D)
    v = sigma**2

    def integrand(u):
        parameter = min(multiplier * v * u / (N - D), threshold)
        return law.pdf(u) * (
            ridge_risk(parameter, noise_variance=v, **SIZE)
            - ridge_risk(v, noise_variance=v, **SIZE)
        )

    kink = min((N - D) * threshold / (multiplier * v), 60.0)
    points = pairwise(sorted({1e-6, 5.0, 10.0, 20.0, 60.0, kink, 120.0}))
    pieces = (integrate.quad(integrand, a, b, epsrel=1e-10, epsabs=1e-15)[0] for a, b in points)
    cut = {"multiplier": multiplier, "threshold": threshold}
    found = adaptive_ridge_loss(f"fixed:{sigma}", **SIZE, **cut)
    assert found == pytest.approx(sum(pieces), rel=ADAPTIVE)


@pytest.mark.parametrize(
    ("context", "dim", "largest"), [(20, 10, 1e-3), (20, 10, 5.0), (20, 10, 1e3), (70, 10, 5.0)]
)
def test_uniform_level_by_adaptive_quadrature(context, dim, largest):
    """The rule over noise levels against scipy's, at a fixed multiplier and threshold."""
    size = {"context": context, "dim": dim}
    cut = {"multiplier": 1.3, "threshold": 0.7 * largest**2}

    def mean(f):
        switch = math.sqrt(0.7 / 1.3) * largest
        scale = min(3.0, largest / 4)
        points = sorted({1e-6 * largest, scale / 4, scale, 0.8 * switch, 1.2 * switch, largest})
        pieces = (integrate.quad(f, a, b, epsrel=1e-10, epsabs=0)[0] for a, b in pairwise(points))
        return sum(pieces) / largest

    spec = f"uniform:{largest}"
    exact = mean(lambda s: ridge_risk(s**2, noise_variance=s**2, **size))
    assert oracle_risk(spec, **size) == pytest.approx(exact, rel=ADAPTIVE)
    expected = mean(lambda s: adaptive_ridge_loss(NoiseLaw("fixed", (s,)), **size, **cut))
    assert adaptive_ridge_loss(spec, **size, **cut) == pytest.approx(expected, rel=ADAPTIVE)


@pytest.mark.slow
# The last has a narrow valley beside the plateau of thresholds that never bind.
@pytest.mark.parametrize(
    ("spec", "context"), [("uniform:7", 20), ("categorical:1,3,5", 20), ("uniform:200", 160)]
)
def test_tuned_parameters_cannot_be_bettered_nearby(spec, context):
    size = {"context": context, "dim": D}
    best = baselines(spec, **size)
    own = {"multiplier": best.multiplier, "threshold": best.threshold}
    assert adaptive_ridge_loss(spec, **size, **own) == best.tuned
    for name, value in own.items():
        for factor in (0.9, 0.99, 1.01, 1.1):
            moved = adaptive_ridge_loss(spec, **size, **{**own, name: factor * value})
            assert moved > best.tuned * (1 - TUNED)


@pytest.mark.slow
@pytest.mark.parametrize(("context", "dim"), [(2, 1), (60, 10)])
@pytest.mark.parametrize("spec", ["uniform:3", "categorical:0.01,1,100"])
def test_tuned_parameters_are_the_best_of_a_grid(spec, context, dim):
    size = {"context": context, "dim": dim}
    best = baselines(spec, **size)
    largest = max(NoiseLaw.parse(spec).levels) ** 2
    grid = [
        adaptive_ridge_loss(spec, **size, multiplier=m, threshold=t * largest)
        for m in (0.7, 1.5, 3.0, 1e3)
        for t in (0.01, 0.1, 0.3, 0.6, 3.0)
    ]
    assert best.tuned <= min(*grid, best.constant, best.adaptive) * (1 + TUNED)


def test_labels_do_not_help_where_the_level_is_known():
    best = ridge_baselines("fixed:2", **SIZE)
    assert (best.constant, best.tuned, best.multiplier, best.threshold) == (0, 0, math.inf, 4)
    assert best.adaptive > 0
    # Two levels that residuals on one degree of freedom do not tell apart.
    close = ridge_baselines("categorical:1,1.05", context=11, dim=10)
    assert close.multiplier == math.inf
    assert close.tuned == close.constant > 0


def test_levels_far_apart_are_told_apart():
    """With many degrees of freedom TunedRR becomes the oracle; ConstRR does not."""
    best = ridge_baselines("categorical:0.1,10", context=200, dim=10)
    assert best.tuned < 1e-6 * best.constant


@given(
    st.floats(0.01, 100), st.floats(0.01, 100), st.sampled_from([(20, 10), (5, 9), (4, 4), (6, 5)])
)
@settings(max_examples=50, deadline=None)
def test_best_parameter_is_the_noise_variance(a, b, size):
    arguments = {"context": size[0], "dim": size[1]}
    own = ridge_risk(b, noise_variance=b, **arguments)
    other = ridge_risk(a, noise_variance=b, **arguments)
    assert own <= other * (1 + ROUNDING)
    assert own <= size[1] / 2
    assert ridge_risk(a, noise_variance=2 * b, **arguments) > other
    # The loss is linear in the noise variance at a fixed parameter ...
    mixed = ridge_risk(a, noise_variance=[b, 3 * b, 2 * b], **arguments)
    assert mixed[0] + mixed[1] == pytest.approx(2 * mixed[2], rel=ROUNDING)
    # ... so that only its mean counts where the labels are not looked at.
    law = NoiseLaw("categorical", (math.sqrt(b), math.sqrt(3 * b)))
    expected = ridge_risk(a, noise_variance=2 * b, **arguments) - oracle_risk(law, **arguments)
    found = constant_ridge_loss(law, **arguments, penalty=a)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-11)
    assert constant_ridge_loss(law, **arguments) <= found * (1 + ROUNDING)


@given(st.floats(0.1, 20), st.integers(1, 8), st.integers(2, 30))
@settings(max_examples=30, deadline=None)
def test_risk_falls_with_context(variance, dim, context):
    risks = [
        ridge_risk(variance, noise_variance=variance, context=context + k, dim=dim) for k in (0, 1)
    ]
    assert risks[1] < risks[0]


def test_gradient_descent_is_bounded_by_the_best_constant():
    """The best schedules for the mean noise approach ConstRR, from above."""
    for spec in ("uniform:3", "categorical:1,3", "categorical:0,6"):
        law = NoiseLaw.parse(spec)
        noise = law.mean_variance / N
        oracle = oracle_risk(spec, **SIZE)
        bound = constant_ridge_loss(spec, **SIZE)
        adjusted = [
            D / 2 * float(optimal_schedule(steps=steps, **SIZE, noise_ratio=noise).lower_bound)
            - oracle
            for steps in (1, 2, 4, 8)
        ]
        assert np.all(np.diff(adjusted) < 0)
        assert bound * (1 - GAUSS) < adjusted[-1] < bound * 1.02
        assert adjusted[0] == pytest.approx(baselines(spec).one_layer, rel=ROUNDING)


def test_small_noise():
    """To leading order the oracle loses sigma^2 E tr S^-1/2, an estimated variance of the order
    sigma^4: E (u/(N - d) - 1)^2 = 2/(N - d) times E tr S^-2/2."""
    for sigma in (1e-3, 1e-6, 1e-12):
        oracle = oracle_risk(f"fixed:{sigma}", **SIZE)
        expected = sigma**2 * D / (N - D - 1) / 2
        assert oracle == pytest.approx(expected, rel=10 * sigma**2 + ROUNDING)
        square = D * (N - 1) / ((N - D) * (N - D - 1) * (N - D - 3))
        adaptive = adaptive_ridge_loss(f"fixed:{sigma}", **SIZE)
        expected = sigma**4 * square / (N - D)
        assert adaptive == pytest.approx(expected, rel=100 * sigma**2 + ROUNDING)
    assert oracle_risk("fixed:0", **SIZE) == adaptive_ridge_loss("fixed:0", **SIZE) == 0
    assert vars(ridge_baselines("uniform:0", **SIZE))["tuned"] == 0


def test_least_squares():
    expected = D / (N - D - 1)
    assert ridge_risk(0.0, noise_variance=2.0, **SIZE) == pytest.approx(expected, rel=ROUNDING)
    # Minimal norm: d - N directions without data, N with the variance of least squares.
    found = ridge_risk(0.0, noise_variance=2.0, context=10, dim=20)
    assert found == pytest.approx(5 + 10 / 9, rel=ROUNDING)
    for context in (9, 10, 11):
        risk = ridge_risk(0.0, noise_variance=[0.0, 1.0], context=context, dim=10)
        assert list(risk) == [max(10 - context, 0) / 2, math.inf]
    assert constant_ridge_loss("fixed:1", context=10, dim=10, penalty=0.0) == math.inf


def test_large_noise_leaves_the_null_predictor():
    assert ridge_risk(1e30, noise_variance=1e30, **SIZE) == pytest.approx(D / 2, rel=ROUNDING)
    assert oracle_risk("fixed:1e15", **SIZE) == pytest.approx(D / 2, rel=ROUNDING)
    assert ridge_baselines("uniform:1e15", **SIZE).tuned < 1e-12


def test_proportional_limit():
    """R = (d/2) (v/N) M at fixed N/d and v/N, with an error of order 1/d in proportion."""
    noise = 0.3
    kappa = 2.0
    limit = noise * wishart_resolvent(noise, kappa=kappa) / 2
    errors = []
    for d in (10, 40, 160):
        v = noise * 2 * d
        errors.append(ridge_risk(v, noise_variance=v, context=2 * d, dim=d) / limit - d)
    assert np.allclose(errors, errors[-1], rtol=0.1)


def test_profiles_average_to_the_baselines():
    for spec in ("uniform:4", "categorical:1,3,5"):
        levels, weights = level_rule(NoiseLaw.parse(spec))
        kept = levels > 1e-12
        best = baselines(spec)
        profiles = baseline_profiles(levels[kept], noise_law=spec, **SIZE)
        for name in ("oracle", "one_layer", "constant", "adaptive", "tuned"):
            mean = weights[kept] @ getattr(profiles, name)
            assert mean == pytest.approx(getattr(best, name), rel=1e-10)
    outside = baseline_profiles([[0.0, 1.0], [2.0, 50.0]], noise_law="uniform:4", **SIZE)
    assert outside.tuned.shape == (2, 2)
    assert outside.constant[1, 1] > outside.adaptive[1, 1]


def test_one_layer_in_all_number_systems():
    n, d, v = sympy.symbols("n d v", positive=True)
    found = one_layer(v, context=n, dim=d)
    # The minimum over the rate of d/2 - rate n d + rate^2 (n d (n + d + 1) + v n d)/2.
    eta = sympy.Symbol("eta")
    loss = d / 2 - eta * n * d + eta**2 * n * d * (n + d + 1 + v) / 2
    rate = sympy.solve(sympy.diff(loss, eta), eta)[0]
    assert sympy.simplify(found.rate - rate) == 0
    assert sympy.simplify(found.loss - loss.subs(eta, rate)) == 0
    with mpmath.workdps(50):
        exact = one_layer(mpmath.mpf("1e-9"), context=20, dim=10)
        arrays = one_layer(np.array([1e-9, 1.0]), context=20, dim=np.array([[10], [11]]))
        assert arrays.loss.shape == (2, 2)
        assert arrays.loss[0, 0] == pytest.approx(float(exact.loss), rel=1e-15)
        assert arrays.rate[0, 0] == pytest.approx(float(exact.rate), rel=1e-15)
    own = schedule_loss([float(exact.rate) * 20], **SIZE, noise_ratio=1e-9 / 20) * 5
    assert own == pytest.approx(float(exact.loss), rel=ROUNDING)


def test_chi_square_rule_is_scipys_law():
    """A threshold at the least noise makes TunedRR a mixture of two constants."""
    # At a huge threshold nothing is cut, at a tiny one everything is.
    kwargs = {"context": 14, "dim": 6}
    uncut = adaptive_ridge_loss("fixed:2", **kwargs, threshold=1e9)
    assert uncut == pytest.approx(adaptive_ridge_loss("fixed:2", **kwargs), rel=ROUNDING)
    cut = adaptive_ridge_loss("fixed:2", **kwargs, threshold=1e-6)
    constant = constant_ridge_loss("fixed:2", **kwargs, penalty=1e-6)
    missed = stats.chi2(8).cdf(8 * 1e-6 / 4)
    assert cut == pytest.approx(constant, rel=1e-12 + 2 * missed)


def test_levels_that_the_rules_cannot_take():
    for wrong in ("fixed:1e-20", "categorical:1,1e16"):
        with pytest.raises(ValueError, match=r"levels 0 or in \[1e-15, 1e\+15\], got '"):
            oracle_risk(wrong, **SIZE)


def test_the_rule_of_a_uniform_law():
    levels, weights = level_rule(NoiseLaw.parse("uniform:3"))
    for power in (0, 0.5, 1, 2, 7):
        assert weights @ levels**power == pytest.approx(3**power / (power + 1), rel=ROUNDING)
