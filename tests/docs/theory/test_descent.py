"""Sentences of the pages on gradient descent, computed."""

import math

import numpy as np
import pytest
from scipy.special import gamma, gammaincc
from statements import states

import iclimit
from iclimit.descent import (
    chebyshev_schedule,
    constant_schedule,
    critical_dampening,
    learning_rate_loss,
    preconditioner_loss,
    schedule_loss,
)
from iclimit.spectra import largest_eigenvalue_cdf

pytestmark = pytest.mark.slow

STEP = "descent/gradient-descent"
SCHEDULES = "descent/schedules"


@states(STEP, "kurtosis drops out", "it performs this step")
def test_the_limit_of_one_step():
    dim = 20_000
    context = 40_000
    for law in ("gaussian", "uniform", "rademacher"):
        best = iclimit.optimal_learning_rate(
            context=context, dim=dim, input_law=law, noise_variance=0.0
        )
        second = 1 / 3 if law == "uniform" else 1.0
        assert best.loss / (second * dim) == pytest.approx(0.5 / 1.5, rel=1e-3)
    pretrained = iclimit.icl_error(tau=1e10, alpha=2.0, kappa=1e10, rho=0.3) - 0.3
    q = 1.3 / 2
    assert pretrained == pytest.approx(q / (1 + q), rel=1e-6)


@states(STEP, "No layer of linear attention does better")
def test_even_features_do_not_help():
    """Least squares on all features of a layer, on contexts and their mirror images."""
    generator = np.random.default_rng(0)
    count = 20_000
    dim = 2
    context = 4
    x = generator.standard_normal((count, context, dim))
    w = generator.standard_normal((count, dim))
    query = generator.standard_normal((count, dim))
    y = np.einsum("nid,nd->ni", x, w) + 0.5 * generator.standard_normal((count, context))
    label = np.vecdot(query, w)
    odd = np.einsum("ni,nid,ne->nde", y, x, query).reshape(count, -1)
    inputs = np.einsum("nid,nie,nf->ndef", x, x, query).reshape(count, -1)
    labels = np.einsum("ni,nf->nf", y**2, query)
    even = np.hstack([inputs, labels])
    # With the signs of task and noise changed the label and the odd features change sign.
    features = np.vstack([np.hstack([odd, even]), np.hstack([-odd, even])])
    weights = np.linalg.lstsq(features, np.concatenate([label, -label]), rcond=None)[0]
    assert np.abs(weights[odd.shape[1] :]).max() < 1e-10
    assert np.abs(weights[: odd.shape[1]]).max() > 0.01


def prompts(law, count, context, dim, noise, task):
    """Features g of the step and labels y, for one law of the coordinates."""
    generator = np.random.default_rng(1)
    draw = {
        "gaussian": generator.standard_normal,
        "uniform": lambda size: generator.uniform(-1, 1, size),
        "laplace": lambda size: generator.laplace(size=size),
    }[law]
    blocks = []
    for _ in range(count // 50_000):
        x = draw((50_000, context + 1, dim))
        w = math.sqrt(task) * generator.standard_normal((50_000, dim))
        y = np.vecdot(x, w[:, None])
        y += math.sqrt(noise) * generator.standard_normal(y.shape)
        summary = np.einsum("nid,ni->nd", x[:, :-1], y[:, :-1])
        blocks.append((np.vecdot(summary, x[:, -1]), y[:, -1]))
    return np.concatenate(blocks, axis=1)


@states(
    STEP,
    "in the table below by a factor 1.4 for Gaussian and 2.1 for Laplace inputs, and at N = d = "
    "10 by "
    "1.1 for uniform ones",
)
def test_the_textbook_error_is_too_small():
    for law, count, context, dim, noise, task, stated in (
        ("gaussian", 150_000, 10, 6, 0.4, 1.7, 1.4),
        ("laplace", 1_000_000, 10, 6, 0.4, 1.7, 2.1),
        ("uniform", 150_000, 10, 10, 0.0, 1.0, 1.1),
    ):
        g, y = prompts(law, count, context, dim, noise, task)
        rate = (g @ y) / (g @ g)
        residual = y - rate * g
        honest = math.sqrt(np.sum(g**2 * residual**2)) / (g @ g)
        textbook = residual.std() / math.sqrt(g @ g)
        assert honest / textbook == pytest.approx(stated, rel=0.08)


@states(
    STEP,
    "it is so in 24 % of the sets of one task, in 3.5 % of those of five, in 0.5 % of those of "
    "ten, "
    "and in none of 4000 sets of fifty",
)
def test_negative_estimates():
    g, y = prompts("uniform", 200_000, 10, 10, 0.0, 1.0)
    for tasks, stated in ((1, 24), (5, 3.5), (10, 0.5), (50, 0)):
        negative = np.mean(np.sum((g * y).reshape(-1, tasks), axis=1) < 0)
        assert 100 * negative == pytest.approx(stated, abs=0.05 + 0.06 * stated)


@states(STEP, "As :math:`M \\to \\infty` an error of order :math:`1/N^2` per direction remains")
def test_a_longer_context():
    eigenvalues = np.array([0.5, 1.0, 2.0])
    left = []
    for context in (100, 200, 400):
        best = iclimit.optimal_preconditioner(np.diag(eigenvalues), context=context)
        long = preconditioner_loss(
            best.matrix, input_covariance=np.diag(eigenvalues), context=10**12
        )
        left.append(context**2 * float(long))
    assert left[0] > 1
    assert left[2] == pytest.approx(left[1], rel=0.05)


@states(SCHEDULES, "The order of the rates does not matter")
def test_the_order_of_rates():
    for setting in ({"ratio": 0.5, "noise_ratio": 0.1}, {"context": 20, "dim": 10}):
        one, other = (
            schedule_loss(rates, **setting) for rates in ([1.2, 0.4, 0.7], [0.4, 0.7, 1.2])
        )
        assert one == pytest.approx(other)


@states(
    SCHEDULES,
    "It falls as :math:`(1 - c)\\,c^L` for c < 1, is :math:`1/(L + 1)` at c = 1, and tends to the "
    "weight of the atom :math:`1 - 1/c` for c > 1",
    "With noise s < 1 for every c, so the ridge error is approached geometrically",
)
def test_the_optimum_of_many_steps():
    for ratio in (0.3, 0.8):
        loss = iclimit.optimal_schedule(steps=30, ratio=ratio).loss
        assert loss == pytest.approx((1 - ratio) * ratio**30 / (1 - ratio**31))
    assert iclimit.optimal_schedule(steps=9, ratio=1.0).loss == pytest.approx(0.1)
    assert iclimit.optimal_schedule(steps=60, ratio=2.0).loss == pytest.approx(0.5)
    for ratio in (0.3, 1.0, 3.0):
        bounds = [
            iclimit.optimal_schedule(steps=steps, ratio=ratio, noise_ratio=0.3).lower_bound
            for steps in (1, 2, 3, 4, 30)
        ]
        excess = np.array(bounds[:-1]) - bounds[-1]
        assert np.all(excess[1:] / excess[:-1] < 0.6)


@states(
    SCHEDULES,
    "no estimator linear in the labels can beat",
    "The cost of real rates is small: at most 4.9 % for c = 0.5, 1, 2, up to 8 steps and v from "
    "0.05 "
    "to 10",
    "At c = 1/2, v = 0.1 and L = 4 the loss is 0.15846 against the bound 0.15778",
)
def test_the_cost_of_real_rates():
    found = iclimit.optimal_schedule(steps=4, ratio=0.5, noise_ratio=0.1)
    assert (round(found.loss, 5), round(found.lower_bound, 5)) == (0.15846, 0.15778)
    costs = []
    for ratio in (0.5, 1.0, 2.0):
        for noise in (0.05, 0.3, 1.0, 3.0, 10.0):
            ridge = iclimit.bayes_error(alpha=1 / ratio, rho=noise / ratio) - noise / ratio
            for steps in (2, 3, 5, 8):
                best = iclimit.optimal_schedule(steps=steps, ratio=ratio, noise_ratio=noise)
                assert best.loss >= best.lower_bound * (1 - 1e-12)
                assert best.lower_bound >= ridge * (1 - 1e-12)
                costs.append(best.loss / best.lower_bound - 1)
    assert 0.02 < max(costs) < 0.049


@states(
    SCHEDULES,
    "there is **one threshold**",
    "at one step there is no well and no threshold",
    "hence :math:`v_L(1/c) = v_L(c)/c`",
)
def test_the_threshold_of_real_rates():
    def is_real(noise, steps, ratio):
        best = iclimit.optimal_schedule(steps=steps, ratio=ratio, noise_ratio=noise)
        return best.loss < best.lower_bound * (1 + 1e-9)

    for steps, threshold in ((2, 0.2910), (3, 0.1371), (4, 0.0777), (8, 0.0146)):
        below, above = (threshold * factor for factor in (0.97, 1.03))
        assert [is_real(noise, steps, 0.5) for noise in (below / 3, below)] == [True, True]
        assert [is_real(noise, steps, 0.5) for noise in (above, 3 * above)] == [False, False]
        assert is_real(2 * below, steps, 2.0)
        assert not is_real(2 * above, steps, 2.0)
    assert all(is_real(noise, 1, 0.5) for noise in (0.01, 1, 100))


@states(
    SCHEDULES,
    "So the best constant rate in the limit is",
    "\\eta = \\frac1{1 + c}\\quad\\text{for every L}",
    "with noise there can be two minima",
)
def test_constant_rates():
    for ratio in (0.3, 1.0, 2.5):
        for steps in (1, 3, 10):
            best = constant_schedule(steps=steps, ratio=ratio)
            assert best.rates == pytest.approx(1 / (1 + ratio), rel=1e-6)
    rates = np.linspace(0.01, 3, 1500)
    counts = []
    for ratio, steps, noise in ((0.1, 2, 3.0), (0.05, 2, 10.0), (0.1, 4, 3.0), (0.5, 2, 3.0)):
        loss = np.array(
            [schedule_loss([r] * steps, ratio=ratio, noise_ratio=noise) for r in rates]
        )
        slope = np.sign(np.diff(loss))
        counts.append(np.count_nonzero((slope[:-1] < 0) & (slope[1:] > 0)))
    assert max(counts) == 2


@states(
    SCHEDULES,
    "So :math:`\\mathcal L \\simeq 2c^L`, which is :math:`2/(1 - c)` times the optimum.  At c = "
    "1, "
    "where the interval reaches 0, it is 1/2 for every L",
)
def test_chebyshev_rates():
    for ratio in (0.3, 0.7):
        loss = chebyshev_schedule(steps=40, ratio=ratio).loss
        best = iclimit.optimal_schedule(steps=40, ratio=ratio).loss
        assert loss == pytest.approx(2 * ratio**40, rel=1e-4)
        assert loss / best == pytest.approx(2 / (1 - ratio), rel=1e-4)
    for steps in (1, 4, 20):
        assert chebyshev_schedule(steps=steps, ratio=1.0).loss == pytest.approx(0.5)
    two, five = (
        [make(steps=steps, ratio=0.5).loss for make in (constant_schedule, chebyshev_schedule)]
        for steps in (2, 5)
    )
    assert np.round(two, 4).tolist() == [0.1852, 0.2800]
    assert np.round(five, 5).tolist() == [0.0600, 0.05785]


@states(
    SCHEDULES,
    "In the limit a constant rate diverges as L grows if and only if",
    "the *mean* loss of every constant rate :math:`\\eta > 0` diverges",
    "the exact mean is 0.040 after 10 steps, 2.8 after 16 and :math:`1.4\\cdot10^{13}` after "
    "30; the "
    "limit says 0.0015 there",
)
def test_divergence():
    for ratio in (0.3, 2.0):
        rate = iclimit.descent.divergence_rate(ratio)
        assert rate == pytest.approx(2 / (1 + math.sqrt(ratio)) ** 2)
        below, above = (
            [float(schedule_loss([factor * rate] * steps, ratio=ratio)) for steps in (50, 200)]
            for factor in (0.99, 1.01)
        )
        assert below[1] < below[0]
        assert above[1] > above[0]
    size = {"context": 20, "dim": 10}
    means = [float(schedule_loss([0.5] * steps, **size)) for steps in (10, 16, 30)]
    assert [f"{each:.2g}" for each in means] == ["0.04", "2.8", "1.4e+13"]
    assert round(float(schedule_loss([0.5] * 30, ratio=0.5)), 4) == 0.0015
    slow = [float(schedule_loss([0.3] * steps, **size)) for steps in (20, 40)]
    assert slow[1] > slow[0]


@states(
    SCHEDULES, "For U(-1, 1) or random signs :math:`\\lambda \\le d`, a value that is approached"
)
def test_the_largest_eigenvalue_of_bounded_inputs():
    generator = np.random.default_rng(2)
    x = generator.choice([-1.0, 1.0], (20_000, 3, 2))
    top = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 3)[:, -1]
    assert top.max() == pytest.approx(2)
    assert np.mean(top > 2 - 1e-9) == pytest.approx(0.25, abs=0.02)


@states(
    SCHEDULES,
    "In the mean the rates of the limit get worse beyond three steps; in the median they stay "
    "slightly "
    "better than those of the finite optimum",
)
def test_rates_of_the_limit_at_finite_size():
    size = {"context": 20, "dim": 10}
    limit, best = (
        [iclimit.optimal_schedule(steps=steps, **where) for steps in (2, 3, 4, 6)]
        for where in ({"ratio": 0.5}, size)
    )
    means = [float(schedule_loss(each.rates, **size)) for each in limit]
    assert means[0] > means[1] < means[2] < means[3]
    generator = np.random.default_rng(3)
    x = generator.standard_normal((20_000, 20, 10))
    eigenvalues = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 20)

    def median(rates):
        factors = np.prod(1 - np.multiply.outer(eigenvalues, rates), axis=-1)
        return np.median(np.mean(factors**2, axis=1))

    for one, other in zip(limit, best, strict=True):
        assert median(one.rates) < median(other.rates)


@states(SCHEDULES, "It reaches the bound at any noise")
def test_weight_decay():
    """Steps 1/(theta + v) on the ridge objective, in a Gauss rule of higher order."""
    law = iclimit.MarchenkoPastur(0.5)
    nodes, weights = law.quadrature(64)
    for noise in (0.05, 1.0, 10.0):
        for steps in (2, 5):
            theta = 1.5 + math.sqrt(2) * np.cos(np.pi * np.arange(1, steps + 1) / (steps + 1))
            R = np.prod((theta - np.asarray(nodes)[:, None]) / (theta + noise), axis=1)
            P = (noise + nodes * R) / (nodes + noise)
            Q = (1 - R) / (nodes + noise)
            loss = float(weights @ (P**2 + noise * nodes * Q**2))
            bound = iclimit.optimal_schedule(steps=steps, ratio=0.5, noise_ratio=noise).lower_bound
            assert loss == pytest.approx(bound, rel=1e-8)


@states(
    SCHEDULES,
    "a random variable, different for every test set, that decreases with T",
    "no factor is safe for all test sets",
)
def test_critical_dampening():
    size = {"context": 10, "dim": 10}
    for level in (0.05, 0.5, 0.95):
        quantiles = [
            float(critical_dampening(level, test_tasks=tasks, **size))
            for tasks in (100, 1000, 10_000, 10**8)
        ]
        assert np.all(np.diff(quantiles) < 0)
    assert float(critical_dampening(0.5, test_tasks=10_000, **size)) == pytest.approx(
        0.652, abs=6e-4
    )


def bound_of_the_tail(x, context, dim):
    """Bound of the probability that the largest eigenvalue exceeds x."""
    half = (context + dim - 1) / 2
    tail = math.sqrt(math.pi) * gammaincc(half, context * x / 2) * gamma(half)
    return tail / gamma(context / 2) / gamma(dim / 2)


@states(
    SCHEDULES,
    "*The tail* has a simple bound",
    "it puts the median at 0.617, the exact value is 0.652",
)
def test_the_bound_of_the_tail():
    for context, dim in ((10, 10), (20, 5), (4, 8)):
        for x in np.linspace(1, 8, 15):
            exact = 1 - largest_eigenvalue_cdf(x, context=context, dim=dim)
            assert exact <= bound_of_the_tail(x, context, dim) + 1e-12
    # The rate of one step is 10/21 there.
    x = np.linspace(5, 10, 5001)
    median = x[np.argmax(bound_of_the_tail(x, 10, 10) < 1 - 0.5**1e-4)]
    assert round(2 / (10 / 21 * median), 3) == 0.617


@states(STEP, "The loss is a quadratic in the rate")
def test_the_best_rate_is_best():
    setting = {"context": 12, "dim": 7, "noise_variance": 0.3, "input_law": "uniform"}
    best = iclimit.optimal_learning_rate(**setting)
    rates = best.rate * np.linspace(0, 3, 61)
    losses = learning_rate_loss(rates, **setting)
    assert np.all(losses >= best.loss * (1 - 1e-12))
    assert np.ptp(np.diff(losses, 2)) < 1e-9
