"""Softmax heads against brute force, many digits, other integrals and known limits."""

import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import quad
from scipy.stats import norm
from stationary import assert_least

from iclimit.asymptotics.softmax import optimal_softmax, softmax_loss
from iclimit.asymptotics.softmax.brackets import brackets, query_norms
from iclimit.asymptotics.softmax.heads import TemperatureSearch
from iclimit.asymptotics.softmax.pair_averages import _differences, pair_averages
from iclimit.asymptotics.softmax.weight_averages import weight_averages

# The averages are trapezoidal sums; measured 3e-14 for few pairs, 3e-11 for the variance at 1e6.
AVERAGES = 1e-10
# What the functions promise for the loss.
PROMISED = 1e-8
# Standard errors that the worst of five simulated losses may lie off.
SIGMAS = 4.0
# Numbers of the notes are rounded to the last digit printed.
PRINTED = 1.01


def moments_of_two(t):
    """q, 1 - q and the variance of m for two scores, by integrals over their difference."""
    t = mpmath.mpf(t)

    def mean(function):
        density = lambda z: mpmath.exp(-z * z / 4) / mpmath.sqrt(4 * mpmath.pi)  # noqa: E731
        points = [0, *(p for p in (1 / t, 5 / t, 20 / t) if p < 20), 2, 6, 20]
        points = sorted(set(points))
        # Each integrand is even in the difference.
        return 2 * mpmath.quad(lambda z: density(z) * function(z), points)

    p = lambda z: 1 / (1 + mpmath.exp(-t * z))  # noqa: E731
    spread = mean(lambda z: 2 * p(z) * (1 - p(z)))
    # m = average + (p - 1/2) z, whose terms are independent of each other's sign.
    square = mpmath.mpf(1) / 2 + mean(lambda z: ((p(z) - mpmath.mpf(1) / 2) * z) ** 2)
    first = mean(lambda z: (p(z) - mpmath.mpf(1) / 2) * z)
    return 1 - spread, spread, square - first**2


@pytest.mark.parametrize("t", [0.01, 0.7, 1.49, 1.51, 8.0, 200.0])
def test_averages_of_two_scores(t):
    found = weight_averages(2, np.array([t]), 1.0)
    with mpmath.workdps(25):
        exact = moments_of_two(t)
    values = found.concentration, found.spread, found.variance
    for value, truth in zip(values, exact, strict=True):
        assert abs(float(value[0] / truth) - 1) < AVERAGES


def test_averages_of_three_scores():
    """Against a product rule over all scores, also of two heads."""
    node, weight = np.polynomial.hermite_e.hermegauss(64)
    weight = weight / weight.sum()
    s = np.stack(np.meshgrid(node, node, node), axis=-1).reshape(-1, 3)
    mass = np.einsum("i,j,k->ijk", weight, weight, weight).reshape(-1)
    p, opposite = (np.exp(sign * 0.6 * s) for sign in (1, -1))
    p, opposite = (each / each.sum(axis=1, keepdims=True) for each in (p, opposite))
    for difference, averages in ((p, weight_averages), (p - opposite, pair_averages)):
        found = averages(3, np.array([0.6]), 1.0)
        m = np.sum(difference * s, axis=1)
        first = mass @ m
        # Gauss-Hermite with 64 nodes; measured 1e-11.
        assert found.concentration[0] == pytest.approx(mass @ np.sum(difference**2, 1), rel=1e-9)
        assert 0.6 * found.spread[0] == pytest.approx(first, rel=1e-9)
        assert found.variance[0] == pytest.approx(mass @ m**2 - first**2, rel=1e-9)


def test_averages_of_many_scores_with_many_digits():
    """Integrals over u instead of its logarithm, with many digits, for 1e5 scores."""
    N = 100_000
    t = mpmath.mpf("0.8")
    with mpmath.workdps(30):
        h = mpmath.mpf("0.25")
        scores = [(k * h, h * mpmath.npdf(k * h)) for k in range(-40, 41)]

        def one(u):
            terms = [(mpmath.exp(t * s), w) for s, w in scores]
            left = [w * mpmath.exp(-u * e) for e, w in terms]
            return tuple(
                mpmath.fsum(e**k * each for (e, _), each in zip(terms, left, strict=True))
                for k in range(3)
            )

        scale = mpmath.exp(t * t / 2)
        nodes = [mpmath.mpf(k) / 3 for k in range(-36, 12)]
        q = mpmath.mpf(0)
        spread = q
        for z in nodes:
            u = mpmath.exp(z) / N / scale
            h0, h1, h2 = one(u)
            q += u**2 / 3 * N * h2 * h0 ** (N - 1)
            spread += u**2 / 3 * N * (N - 1) * h1**2 * h0 ** (N - 2)
    found = weight_averages(N, np.array([0.8]), 1.0)
    # The step 1/3 of this sum leaves 4e-11.
    assert found.concentration[0] == pytest.approx(float(q), rel=2e-10)
    assert found.spread[0] == pytest.approx(float(spread), rel=2e-10)


@pytest.mark.parametrize("dim", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("context", [2, 1e6])
def test_norms_of_queries(dim, context):
    norm, weight = query_norms(dim, context, 1.0)
    for power in (2, 4):
        exact = math.prod(dim + 2 * k for k in range(power // 2))
        # Nodes below 1e-16 of the largest weight are left out.
        assert weight @ norm**power == pytest.approx(exact, rel=1e-12)


def simulated(prompts, beta, v, N, d, noise, heads, seed):
    """Loss and its standard error from prompts, token by token."""
    rng = np.random.default_rng(seed)
    x, query, w = (rng.standard_normal((prompts, *size)) for size in ((N, d), (d,), (d,)))
    y = np.einsum("pnd,pd->pn", x, w) + math.sqrt(noise) * rng.standard_normal((prompts, N))
    scores = beta * np.einsum("pnd,pd->pn", x, query)
    prediction = 0
    for sign in (1, -1)[:heads]:
        weights = np.exp(sign * scores - np.max(sign * scores, axis=1, keepdims=True))
        prediction += sign * v * np.sum(weights * y, axis=1) / weights.sum(axis=1)
    losses = (prediction - np.sum(w * query, axis=1)) ** 2
    return losses.mean(), losses.std() / math.sqrt(prompts)


@pytest.mark.parametrize(
    ("beta", "v", "N", "d", "noise", "heads"),
    [
        (0.579, 0.75, 10, 10, 0.0, 1),
        (-2.0, -0.4, 3, 2, 1.5, 1),
        (3.0, 0.6, 2, 1, 0.5, 1),
        (0.33, 0.65, 5, 10, 0.0, 2),
        (0.9, -0.3, 3, 2, 1.0, 2),
    ],
)
def test_loss_is_that_of_prompts(beta, v, N, d, noise, heads):
    exact = softmax_loss(beta, value=v, context=N, dim=d, noise_variance=noise, heads=heads)
    mean, error = simulated(30_000, beta, v, N, d, noise, heads, seed=N * d + heads)
    assert abs(mean - exact) < SIGMAS * error


@pytest.mark.parametrize(
    ("context", "heads", "temperature", "least"),
    [(10, 1, 1.831, 7.30591), (20, 1, 1.409, 5.81860), (20, 2, 0.234, 3.66533)],
)
def test_best_heads(context, heads, temperature, least):
    size = {"context": context, "dim": 10, "heads": heads}
    best = optimal_softmax(**size)
    assert best.loss == pytest.approx(least, abs=PRINTED * 5e-6)
    assert best.inverse_temperature * math.sqrt(10) == pytest.approx(temperature, abs=1e-3)
    loss = softmax_loss(best.inverse_temperature, value=best.value, **size)
    assert loss == pytest.approx(best.loss, rel=PROMISED)


@pytest.mark.parametrize(
    ("context", "dim", "noise"),
    [(2, 1, 0.0), (2, 1, 0.6), (10**6, 1, 0.0), (10**6, 300, 0.0), (2, 1000, 1e6), (30, 4, 40.0)],
)
def test_optimum_is_one(context, dim, noise):
    size = {"context": context, "dim": dim, "noise_variance": noise}
    best = optimal_softmax(**size)
    assert best.error < 1e-10
    for beta, value in ((0.97, 1.0), (1.03, 1.0), (1.0, 0.97), (1.0, 1.03)):
        other = softmax_loss(beta * best.inverse_temperature, value=value * best.value, **size)
        assert other > best.loss * (1 - best.error)


@pytest.mark.parametrize(("context", "heads"), [(2, 1), (3, 2)])
def test_best_temperature_is_no_end_of_the_search(context, heads, monkeypatch):
    """Of short contexts in one dimension, whose best temperatures are largest."""
    monkeypatch.setattr("iclimit.asymptotics.softmax.heads._SEARCH", {1: 1.5, 2: 1.5})
    search = TemperatureSearch(context, 1, heads)
    assert 1.03 * search.optimum(0.0)[0] < search._scale[1]


@pytest.mark.parametrize(("context", "dim"), [(2, 1), (7, 3), (1000, 1), (10**5, 30)])
@pytest.mark.parametrize("scaled", [0.5, 4.0, 60.0])
def test_stated_error_is_honest(context, dim, scaled):
    """Against the same integrals with finer steps."""
    beta = scaled / math.sqrt(dim)
    fine, rule, coarse = (brackets(beta, context, dim, 1, each) for each in (0.7, 1.0, 1.2))
    value = fine.best_value(0.1)
    truth, found, other = (each.loss(value, 0.1) for each in (fine, rule, coarse))
    assert abs(found - truth) <= abs(other - found) + 1e-13 * truth
    if context * dim != 1000 or scaled < 50:
        assert abs(found - truth) < PROMISED * truth


def test_warm_pair_is_gradient_descent_on_centred_inputs():
    """Least loss d (d + 1 + s) / (N + d + s): that of linear attention with N - 1 pairs."""
    d = 5
    noise = 2.0
    for N in (3, 40):
        value = N / (N + d + noise) / 2
        centred = d * (d + 1 + noise) / (N + d + noise)
        losses = [brackets(t, N, d, 2).loss(value / t, noise) / centred - 1 for t in (0.01, 0.005)]
        # The excess is proportional to t^2.
        assert losses[0] / losses[1] == pytest.approx(4, rel=0.03)
        assert abs(losses[1]) < 1e-3
    # With long contexts the best temperature is small.
    best = optimal_softmax(context=2000, dim=5, heads=2)
    gain = 1 - best.loss / (5 * 6 / 2005)
    assert 0 < gain < 1e-6
    assert best.inverse_temperature * best.value == pytest.approx(2000 / 2005 / 2, rel=1e-3)


def test_warm_pairs_are_continued():
    """Interpolated averages against integrals, whose terms cancel to 1e-14/t^2."""
    t = np.array([0.05, 0.09, 0.115])
    for N in (2, 10, 10_000):
        found = pair_averages(N, t, 1.0)
        direct = _differences(N, t, 1.0)
        values = found.concentration, found.spread, found.variance
        for value, exact in zip(values, direct, strict=True):
            assert value == pytest.approx(exact, rel=2e-9)
    for N, d in ((1000, 10), (12, 8), (10**6, 2)):
        best = optimal_softmax(context=N, dim=d, heads=2)
        fine = brackets(best.inverse_temperature, N, d, 2, 0.8)
        assert best.error < PROMISED
        assert abs(fine.loss(best.value, 0.0) / best.loss - 1) < best.error
        assert best.loss < d * (d + 1) / (N + d)


def test_loss_tends_to_the_limit():
    """One correction in 1/d is extrapolated away; the next one is 2e-5 here."""
    for noise in (0.0, 0.3):
        limit = optimal_softmax(ratio=0.5, noise_ratio=noise)
        found = [
            optimal_softmax(context=2 * d, dim=d, noise_variance=noise * 2 * d) for d in (400, 800)
        ]
        first, second = (each.loss / d for each, d in zip(found, (400, 800), strict=True))
        assert 2 * second - first == pytest.approx(limit.loss, rel=5e-5)
        assert found[1].inverse_temperature * math.sqrt(800) == pytest.approx(1, abs=0.02)
        assert found[1].value / math.sqrt(800) == pytest.approx(limit.value, rel=0.02)


def test_limit_in_every_number_system():
    c, v, t, u = sympy.symbols("c v t u", positive=True)
    loss = softmax_loss(t, value=u, ratio=c, noise_ratio=v)
    best = optimal_softmax(ratio=c, noise_ratio=v)
    at_best = {t: best.inverse_temperature, u: best.value}
    assert sympy.simplify(loss.subs(at_best) - best.loss) == 0
    for variable in (t, u):
        assert sympy.simplify(sympy.diff(loss, variable).subs(at_best)) == 0
    with mpmath.workdps(40):
        many = optimal_softmax(ratio=mpmath.mpf("0.5")).loss
        assert abs(many - 1 / (1 + 2 / mpmath.e)) < mpmath.mpf("1e-38")
    array = optimal_softmax(ratio=np.array([0.5, 2.0]), heads=3)
    assert array.loss == pytest.approx([1 / 3, 2 / 3])
    assert np.all(np.isinf(array.value))


def test_two_heads_in_the_limit():
    """Losses of two opposite heads approach linear attention's from above, and those of sizes."""
    c = 0.4
    t = np.array([1e-3, 0.1, 0.5])
    both = 2 * (np.exp(t**2) - np.exp(-(t**2)))
    u = 2 * t / (4 * t**2 + both * c)
    loss = softmax_loss(t, value=u, ratio=c, heads=2)
    assert loss[0] == pytest.approx(c / (1 + c), rel=1e-6)
    assert np.all(np.diff(loss) > 0)
    sizes = []
    for d in (200, 400):
        size = {"value": u[2] * math.sqrt(d), "context": d * 5 // 2, "dim": d, "heads": 2}
        sizes.append(softmax_loss(0.5 / math.sqrt(d), **size) / d)
    assert 2 * sizes[1] - sizes[0] == pytest.approx(loss[2], rel=1e-3)


@pytest.mark.machine
def test_mirrored_heads_are_alike_and_one_pair_teaches_nothing():
    losses = softmax_loss([0.5, -0.5], value=[1.0, -1.0], context=5, dim=2)
    assert losses[0] == losses[1]
    nothing = optimal_softmax(context=1, dim=4)
    assert (nothing.loss, nothing.value) == (4.0, 0.0)


@pytest.mark.parametrize(("context", "dim"), [(2, 1), (10, 10), (10**6, 3)])
def test_coldest_head_takes_the_label_of_the_largest_score(context, dim):
    """At temperature zero the loss is one of order statistics; it is near by 1/temperature."""
    density = lambda s: context * norm.pdf(s) * norm.cdf(s) ** (context - 1)  # noqa: E731
    top, square = (quad(lambda s, k=k: s**k * density(s), -9, 9)[0] for k in (1, 2))
    length = math.sqrt(2) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))
    value = 0.7
    limit = dim - 2 * value * length * top + value**2 * (square + dim - 1)
    for temperature in (1e6, 1e12, 1e90):
        found = softmax_loss(temperature, value=value, context=context, dim=dim)
        assert found == pytest.approx(limit, rel=1e-8 + 10 / temperature)


def test_losses_and_temperatures_too_large_for_a_number():
    assert softmax_loss(0.5, value=1e200, context=10, dim=10) == math.inf
    with pytest.raises(ValueError, match=r"inverse_temperature must be from -9\.86e\+98 to "):
        softmax_loss(1e300, value=1.0, context=10, dim=10)


@pytest.mark.parametrize(("heads", "context", "noise"), [(1, 9, 0.4), (2, 25, 1.7)])
def test_best_heads_are_stationary(heads, context, noise):
    size = {"context": context, "dim": 5, "noise_variance": noise, "heads": heads}
    best = optimal_softmax(**size)

    def loss(temperature, value):
        return softmax_loss(temperature, value=value, **size)

    assert_least(loss, [best.inverse_temperature, best.value], best.loss)


@pytest.mark.parametrize(("temperature", "value", "noise"), [(0.3, 0.9, 0.0), (0.8, 0.4, 0.7)])
def test_one_pair_has_all_the_weight(temperature, value, noise):
    """A head answers with its label, and two opposite ones with nothing."""
    size = {"context": 1, "dim": 3, "noise_variance": noise, "value": value}
    one_head = softmax_loss(temperature, heads=1, **size)
    assert one_head == pytest.approx(3 + value**2 * (3 + noise), rel=AVERAGES)
    assert softmax_loss(temperature, heads=2, **size) == pytest.approx(3.0, rel=AVERAGES)
