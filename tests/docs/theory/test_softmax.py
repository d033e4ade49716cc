"""Sentences of the page on softmax attention, computed."""

import math

import numpy as np
import pytest
from statements import states

import iclimit
from iclimit.softmax import (
    attention_loss,
    heads_efficiency,
    kernel_efficiency,
    long_context_softmax,
    optimal_softmax_matrix,
    sine_optimum,
    softmax_loss,
    uniform_softmax,
)

pytestmark = pytest.mark.slow

PAGE = "softmax/softmax"


@states(
    PAGE,
    "lies between 0.48 (d = 1, long contexts) and 16.3 (d = 1, two pairs); in high dimension it "
    "tends "
    "to 1 as N grows and to 5.1985 at two pairs",
)
def test_best_temperatures():
    dim = np.array([1, 2, 4, 16, 64, 256])[:, None]
    context = np.array([2, 3, 10, 100, 10**5])
    best = iclimit.optimal_softmax(context=context, dim=dim).inverse_temperature * np.sqrt(dim)
    assert best.min() == best[0, -1]
    assert best.max() == best[0, 0]
    assert best[0, -1] == pytest.approx(0.48, abs=0.01)
    assert best[0, 0] == pytest.approx(16.3, abs=0.05)
    high = iclimit.optimal_softmax(context=np.array([2, 10**5]), dim=10_000)
    assert high.inverse_temperature * 100 == pytest.approx([5.1985, 1], rel=0.03)


@states(PAGE, "head sees e times less context.**", "its loss stays above :math:`(1 - u)^2`")
def test_one_head_is_worth_a_factor_e():
    ratio = np.geomspace(0.01, 10, 20)
    best = iclimit.optimal_softmax(ratio=ratio, noise_ratio=0.2)
    assert best.loss == pytest.approx(
        attention_loss(1.0, ratio=math.e * ratio, noise_ratio=math.e * 0.2)
    )
    value = 0.5
    for tested in (1.0, 1e-3, 1e-9):
        loss = softmax_loss(1.0, value=value, ratio=tested, noise_ratio=0.0)
        assert loss > (1 - value) ** 2


@states(PAGE, "is *larger* than e, as one temperature serves queries of all norms")
def test_long_contexts():
    dims = np.unique(np.round(np.geomspace(1, 1e5, 40)))
    ratio = np.array([float(long_context_softmax(dim=int(d)).loss) / (d * (d + 1)) for d in dims])
    assert np.all(ratio > math.e)
    assert np.all(np.diff(ratio) < 0)
    noisy = float(long_context_softmax(dim=10, noise_variance=5.0).loss) / (10 * 16)
    assert noisy > math.e


@states(PAGE, "The least factor is e again")
def test_any_covariance():
    spectrum = np.array([2.0, 1.0, 0.5, 0.1])
    best = optimal_softmax_matrix(np.diag(spectrum), context=30, noise_variance=0.4)
    c = math.e * (spectrum.sum() + 0.4) / 30
    assert best.loss == pytest.approx(np.sum(c * spectrum / (spectrum + c)))


@states(
    PAGE,
    "**linear attention is the best kernel in the limit**",
    "Softmax has 1/e, ReLU 1/2",
    "Any two different small temperatures come close to 1",
    "not that the keys have opposite signs",
)
def test_efficiencies():
    assert kernel_efficiency(lambda s: s) == pytest.approx(1)
    assert kernel_efficiency(math.exp) == pytest.approx(1 / math.e)
    assert kernel_efficiency(lambda s: max(s, 0.0)) == pytest.approx(0.5)
    for t in (0.2, 0.5, 0.8, 1.2, 2.0):
        assert kernel_efficiency(lambda s, t=t: math.exp(t * s)) <= 1 / math.e + 1e-12
    generator = np.random.default_rng(0)
    for _ in range(20):
        cubic = generator.standard_normal(4)
        assert kernel_efficiency(lambda s, c=cubic: float(np.polyval(c, s))) <= 1
    for pair in ((0.01, 0.02), (0.05, 0.1), (-0.1, 0.1), (-0.02, 0.05)):
        assert heads_efficiency(pair) > 0.98
    assert heads_efficiency([0.1, 0.2]) > heads_efficiency([-1.0, 1.0])


@states(
    PAGE,
    "linear attention with one pair less.  The best temperature is finite and gains a little "
    "more; "
    "with long contexts it tends to zero",
)
def test_two_heads():
    temperatures = []
    for context in (5, 10, 40, 200, 2000):
        for dim, noise in ((10, 0.0), (4, 1.0)):
            best = iclimit.optimal_softmax(context=context, dim=dim, heads=2, noise_variance=noise)
            warm = dim * (dim + 1 + noise) / (context + dim + noise)
            linear = dim * (dim + 1 + noise) / (context + dim + 1 + noise)
            assert 0.97 * warm < best.loss < warm
            assert best.loss > linear
            assert best.inverse_temperature > 0
        temperatures.append(best.inverse_temperature)
    assert np.all(np.diff(temperatures) < 0)
    assert temperatures[-1] < 0.02


@states(
    PAGE,
    "In long contexts two heads *beat* the best linear layer",
    "10, 10, 2.32949, 1.72282, 1.64983",
    "50, 5, 0.26870, 0.13641, 0.14599",
)
def test_uniform_inputs():
    rows = ((10, 10, 2.32949, 1.72282, 1.64983), (50, 5, 0.26870, 0.13641, 0.14599))
    for context, dim, one, two, linear in rows:
        found = [uniform_softmax(context=context, dim=dim, heads=heads).loss for heads in (1, 2)]
        assert found == pytest.approx([one, two], abs=6e-6)
        best = iclimit.optimal_learning_rate(context=context, dim=dim, input_law="uniform").loss
        assert best == pytest.approx(linear, abs=6e-6)
    for context, beats in ((10, False), (20, True)):
        two = uniform_softmax(context=context, dim=5, heads=2).loss
        linear = iclimit.optimal_learning_rate(context=context, dim=5, input_law="uniform").loss
        assert bool(two < linear) is beats


@states(
    PAGE,
    "need not be linear in the labels, and the optimum is lower",
    "the transformer and gradient descent on a deep embedding, which is linear in the labels, "
    "have "
    "*different* optima",
)
def test_whole_tokens():
    for tied in (False, True):
        for context in (4, 20):
            inputs = sine_optimum(context=context, tied=tied).loss
            tokens = sine_optimum(context=context, tied=tied, whole_tokens=True).loss
            assert tokens < 0.8 * inputs
