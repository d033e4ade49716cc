"""Sentences of the pages on recurrent layers, computed."""

import math

import numpy as np
import pytest
from drawn_points import drawn
from scipy.stats import norm
from statements import states

import iclimit
from iclimit.recurrent import (
    classification_accuracy,
    constant_delta_step,
    delta_rule_error,
    effective_context,
    gated_context,
    gated_error,
    gated_pretraining_errors,
    memory_weights,
    optimal_delta_step,
    optimal_forgetting,
    optimal_gates,
    optimal_memory,
    optimal_tracking,
    recurrent_errors,
    simulate_recurrent,
    tracking_error,
)

pytestmark = pytest.mark.slow

# Two float64 numbers that are equal but for rounding.
ROUNDING = 1e-9

LAYERS = "recurrent/layers"
CONTEXTS = "recurrent/contexts"


@states(
    CONTEXTS,
    "A gate that forgets half of the first token, :math:`\\omega\\alpha = \\ln 2`, costs 4 % of "
    "the "
    "context",
    "exactly at every size",
)
def test_a_gate_that_forgets_half():
    alpha = np.geomspace(0.01, 100, 30)
    left = effective_context(alpha=alpha, rho=0.3, forgetting=math.log(2) / alpha) / alpha
    assert np.all(np.round(100 * (1 - left)) == 4)
    for dim, context, omega in ((3, 5, 2.0), (10, 40, 0.7)):
        gates = np.exp(-omega / dim * np.arange(context - 1, -1, -1))
        stated = math.tanh(omega * context / dim / 2) / (dim * math.tanh(omega / (2 * dim)))
        assert gated_context(gates, dim=dim, rho=0.3).alpha == pytest.approx(stated)


@states(
    CONTEXTS,
    "a gate :math:`e^{-\\omega/d}` is best, and more than :math:`d/(\\vartheta + \\omega)` "
    "tokens are "
    "not worth having",
)
def test_the_best_gate_under_drift():
    point = drawn(0, 200, rho=(0.01, 3), drift=(0.01, 5))
    best = optimal_forgetting(**point)
    for factor in (0.5, 0.9, 1.1, 2):
        other = effective_context(alpha=1e4, **point, forgetting=best.forgetting * factor)
        assert np.all(other < best.alpha)
    assert np.all(best.alpha <= 1 / (point["drift"] + best.forgetting) * (1 + 1e-9))


@states(
    CONTEXTS,
    "the best gates are :math:`g = B^{-1} m`",
    "In long contexts they are exponential",
    "At the early end of a short context they are larger",
)
def test_best_gates():
    setting = {"dim": 20, "rho": 0.25, "drift": 0.4}
    best = optimal_gates(context=60, **setting)
    generator = np.random.default_rng(1)
    for size in (0.01, 0.1, 0.5):
        for _ in range(40):
            other = best.gates * np.exp(size * generator.standard_normal(60))
            other /= other.max()
            assert gated_context(other, **setting).alpha <= best.alpha
    long = optimal_gates(context=300, **setting).gates
    ratios = long[1:] / long[:-1]
    assert np.ptp(ratios[100:250]) < 1e-3
    exponential = best.gates[40] / np.mean(ratios[100:250]) ** 40
    assert best.gates[0] > 1.01 * exponential


@states(
    CONTEXTS,
    "every kernel is worth the autoregression with :math:`r^2 = (\\kappa_2 - 1)/(\\kappa_2 + 1)`",
)
def test_kernels_are_worth_an_autoregression():
    dim = 600
    context = 900
    gates = np.exp(-np.arange(context - 1, -1, -1) / dim)
    for kernel in ([1, 0.6, 0.3, 0.1], [1, -0.5], [1, 0.2, 0.2, 0.2, 0.2]):
        square = 2 * np.sum(np.square(kernel)) - 1
        found = gated_context(gates, dim=dim, rho=0.1, correlation=kernel).alpha
        same = effective_context(
            alpha=1.5, rho=0.1, forgetting=1, correlation=math.sqrt((square - 1) / (square + 1))
        )
        assert found == pytest.approx(same, rel=3e-3)


@states(
    CONTEXTS,
    "So a test is another effective context only if s = 1.  Otherwise predictions are too large "
    "or "
    "too small, and more pairs do not mend it",
    "Then a gate is what makes a layer work in contexts longer than those of its training",
)
def test_tests_with_other_gates():
    layer = {"tau": 20.0, "alpha": 2.0, "kappa": 8.0, "rho": 0.1}
    trained = gated_pretraining_errors(**layer, forgetting=1.0).icl
    for rate in (0.0, 0.2):
        tests = {"test_forgetting": rate, "test_alpha": 2.0}
        more_pairs = gated_pretraining_errors(**layer, forgetting=1.0, **tests).icl
        plain = iclimit.icl_error(**(layer | {"alpha": 2.0}))
        assert more_pairs > max(trained, plain)
    points = drawn(2, 60, tau=(2, 50), alpha=(1, 8), kappa=(2, 20), rho=(0.01, 1))
    for forgetting, sums_hurt in ((0.0, True), (3.0, False)):
        longer = points["alpha"] * 4
        errors = [
            gated_pretraining_errors(
                **points, forgetting=forgetting, test_alpha=each, running_sum=True
            ).icl
            for each in (points["alpha"], longer)
        ]
        hurt = np.mean(errors[1] > errors[0])
        assert hurt == 1 if sums_hurt else hurt < 0.2


@states(LAYERS, "both agree in the limit, and differ at order 1/d and for strong gates")
def test_the_order_of_gate_and_write():
    gaps = []
    for dim in (20, 40, 80):
        errors = [
            recurrent_errors(
                "gated-delta",
                dim=dim,
                context=2 * dim,
                rho=0.2,
                drift=0.5,
                gates=math.exp(-0.5 / dim),
                step_sizes=0.6,
                gate_first=first,
            ).error[-1]
            for first in (True, False)
        ]
        gaps.append(dim * abs(errors[0] - errors[1]))
    assert gaps[0] > 1e-3
    assert gaps[2] == pytest.approx(gaps[1], rel=0.1)


@states(
    LAYERS,
    "Their steps are stable for :math:`\\beta < 2`, those of Gaussian keys for "
    ":math:`\\beta < 2/(1 + 2/d)`",
)
def test_stable_steps():
    for dim in (4, 10):
        for unit, threshold in ((True, 2.0), (False, 2 / (1 + 2 / dim))):
            for factor, grows in ((0.99, False), (1.01, True)):
                error = recurrent_errors(
                    "delta",
                    dim=dim,
                    context=4000,
                    rho=0.0,
                    unit_keys=unit,
                    step_sizes=factor * threshold,
                ).error
                assert bool(error[-1] > 1.1 * error[2000] + 1) is grows


@states(
    LAYERS,
    "At d = 8 and 16 pairs a context then scatters 5 times less than with drawn tasks and "
    "labels, at "
    "d = 40 and 80 pairs 12 times, although queries are averaged in both",
)
def test_what_averaging_over_tasks_saves():
    for dim, context, contexts, stated in ((8, 16, 6000, 5), (40, 80, 1500, 12)):
        generator = np.random.default_rng(3)
        tasks = generator.standard_normal((contexts, dim))
        inputs = generator.standard_normal((contexts, context, dim)) / math.sqrt(dim)
        noise = 0.5 * generator.standard_normal((contexts, context))
        labels = np.einsum("ntd,nd->nt", inputs, tasks) + noise
        memory = np.zeros((contexts, dim))
        for x, y in zip(inputs.swapaxes(0, 1), labels.T, strict=True):
            memory += 0.6 * (y - np.vecdot(memory, x))[:, None] * x
        drawn_labels = np.mean((memory - tasks) ** 2, axis=1)
        run = simulate_recurrent(
            dim=dim, context=context, rho=0.25, step_sizes=0.6, rng=4, contexts=contexts
        )
        assert drawn_labels.std() / run.errors[:, -1].std() == pytest.approx(stated, rel=0.2)


@states(
    LAYERS,
    "Steps between 1 and 2, for which the memory has negative eigenvalues, are stable.  A step "
    ":math:`\\beta` of these learns as slowly as :math:`2 - \\beta` and ends with more noise",
)
def test_large_steps():
    point = drawn(5, alpha=(0.1, 30), rho=(0.01, 2))
    step = np.random.default_rng(6).uniform(1.01, 1.99, len(point["rho"]))
    noiseless = [
        delta_rule_error(alpha=point["alpha"], rho=0.0, step_size=each)
        for each in (step, 2 - step)
    ]
    assert noiseless[0] == pytest.approx(noiseless[1])
    noisy = [delta_rule_error(**point, step_size=each) for each in (step, 2 - step)]
    assert np.all(noisy[0] > noisy[1])


@states(LAYERS, "*No recurrence is better.*")
def test_no_recurrence_is_better():
    dim = 6
    context = 10
    rho = 0.3
    best = recurrent_errors("delta", dim=dim, context=context, rho=rho)
    steps = np.asarray(best.step_size)[-context:]
    generator = np.random.default_rng(7)
    for size in (0.003, 0.03, 0.3):
        for _ in range(60):
            gates = np.minimum(1, np.exp(size * generator.standard_normal(context)))
            beta, eta = (steps * np.exp(size * generator.standard_normal(context)) for _ in "ab")
            readout = np.exp(size * generator.standard_normal())
            error = recurrent_errors(
                "gated-delta",
                dim=dim,
                context=context,
                rho=rho,
                gates=gates,
                step_sizes=beta,
                writes=eta,
                readout=readout,
            ).error
            assert np.all(error[1:] >= best.error[1:] * (1 - 1e-12))


@states(LAYERS, "no multiple of the answers is better")
def test_readouts_of_the_best_delta_rule():
    for drift in (0.0, 0.4):
        rule = "gated-delta" if drift else "delta"
        setting = {"dim": 12, "context": 30, "rho": 0.3, "drift": drift, "gate_first": False}
        best = recurrent_errors(rule, **setting)
        assert best.signal == pytest.approx(best.power)


@states(
    LAYERS,
    "Long contexts end at :math:`v \\approx \\rho/(\\alpha - \\ln\\alpha)`: the rate "
    ":math:`\\rho/\\alpha` of the Bayes estimator",
)
def test_long_contexts():
    for rho in (0.1, 0.5, 1.0):
        for alpha, within in ((1e3, 0.01), (1e6, 1e-4)):
            v = optimal_delta_step(alpha=alpha, rho=rho).error - rho
            assert v * (alpha - math.log(alpha)) / rho == pytest.approx(1, rel=within)
            bayes = iclimit.bayes_error(alpha=alpha, rho=rho) - rho
            assert v / bayes == pytest.approx(1, rel=0.02)
            assert v > bayes


@states(LAYERS, "with a memory of d instead of :math:`d^2` numbers")
def test_more_memory_is_better():
    point = drawn(8, 100, alpha=(0.1, 30), rho=(0.01, 2))
    errors = [
        gated_error(**point),
        constant_delta_step(**point).error,
        optimal_delta_step(**point).error,
        iclimit.bayes_error(**point),
    ]
    assert np.all(np.diff(errors, axis=0) < 1e-12)


@states(
    LAYERS,
    "A delta rule forgets a pair by about :math:`\\gamma (1 - \\beta/d)` at each later token",
)
def test_weights_of_pairs():
    dim = 50
    step = 0.6
    weights = memory_weights(context=10, dim=dim, rho=1e6, step_sizes=step, gates=0.9)
    ratios = weights[:-1] / weights[1:]
    assert ratios == pytest.approx(0.9 * (1 - step / dim), rel=0.01)


@states(
    LAYERS,
    "At the best gate :math:`\\omega = \\vartheta` the numerator and the denominator share a "
    "factor",
    "Without a gate and for slow drift :math:`v \\approx \\sqrt{2\\vartheta\\rho}`",
)
def test_tracking():
    point = drawn(9, 60, drift=(0.01, 3), rho=(0.05, 2))
    best = optimal_tracking(**point)
    assert best.forgetting == pytest.approx(point["drift"])
    generator = np.random.default_rng(10)
    for _ in range(40):
        step, gate = np.exp(0.3 * generator.standard_normal((2, 60)))
        other = tracking_error(
            **point, step_size=best.step_size * step, forgetting=point["drift"] * gate
        )
        assert np.all(other >= best.error - 1e-12)
    rho = np.array([0.1, 1.0])
    steps = np.geomspace(1e-6, 1, 4000)[:, None]
    slow = tracking_error(drift=1e-8, rho=rho, step_size=steps, forgetting=0.0).min(axis=0)
    assert slow - rho == pytest.approx(np.sqrt(2e-8 * rho), rel=1e-3)


@states(
    LAYERS,
    "the best memory does not forget and has the noise variance as penalty: the Bayes estimator",
    "With drift the best memory forgets.  For drift rates up to 9 it is better than every "
    "recurrence "
    "above, and at faster ones, where little is learnt at all, worse by 0.0003 at most",
)
def test_the_best_memory():
    static = optimal_memory(alpha=3.0, rho=0.3)
    assert (static.forgetting, static.penalty) == (0, 0.3)
    assert static.error == pytest.approx(iclimit.bayes_error(alpha=3.0, rho=0.3))
    slow = drawn(11, 40, rho=(0.01, 3), drift=(0.01, 9))
    fast = drawn(12, 20, rho=(0.01, 3), drift=(9, 40))
    for point, most in ((slow, 0.0), (fast, 3e-4)):
        alpha = np.maximum(20, 40 / point["drift"])
        memory = optimal_memory(alpha=alpha, **point)
        assert np.all(memory.forgetting > 0)
        for recurrence in (optimal_tracking(**point), optimal_forgetting(**point)):
            assert np.all(memory.error - recurrence.error < most)
    assert np.all(memory.error > 0.9 * (1 + fast["rho"]))


@states(
    LAYERS,
    "Flips cost as much as a context that is shorter by the factor :math:`(1 - 2p)^2`",
    "Contexts with :math:`\\alpha (1 - 2p)^2 < 1` are worse than this, by the chance number of "
    "flips "
    "and the chance length of u; nine of ten with more than 3 are better, by 0.004 at most",
)
def test_classification():
    generator = np.random.default_rng(13)
    count = 400
    separation = generator.uniform(0.3, 4, count)
    flips = generator.uniform(0, 0.45, count)
    dim = np.round(10 ** generator.uniform(0.7, 1.8, count)).astype(int)
    alpha = 10 ** generator.uniform(-1, 1.5, count)
    context = np.maximum(1, np.round(alpha * dim)).astype(int)
    alpha = context / dim

    def limit(alpha, flips):
        signal = 1 - 2 * flips
        return norm.cdf(signal * separation**2 / np.sqrt(signal**2 * separation**2 + 1 / alpha))

    assert limit(alpha, flips) == pytest.approx(limit(alpha * (1 - 2 * flips) ** 2, 0))
    exact = np.array(
        [
            classification_accuracy(context=int(k), dim=int(d), separation=R, flips=p)
            for k, d, R, p in zip(context, dim, separation, flips, strict=True)
        ]
    )
    excess = exact - limit(alpha, flips)
    worth = alpha * (1 - 2 * flips) ** 2
    assert np.all(excess[worth < 1] < ROUNDING)
    assert excess.max() < 0.004
    assert np.mean(excess[worth > 3] > 0) == pytest.approx(0.9, abs=0.05)
