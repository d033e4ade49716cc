"""Errors at every position: sampled contexts, closed forms, searches for better recurrences."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from iclimit.asymptotics.recurrent import delta_rule_error, optimal_tracking, recurrent_errors
from iclimit.asymptotics.recurrent.errors import token_moments

# Standard errors that the worst of all positions may lie off; neighbours are correlated.
SIGMAS = 4.0
# Rounding over a few hundred tokens.
ROUNDING = 1e-12


def sampled(setting, contexts, rng):
    """Squared errors of the queries of simulated contexts, token by token, with vectors only."""
    dim = setting["dim"]
    context = setting["context"]

    def numbers(name, default, size):
        return np.broadcast_to(setting.get(name, default), size)

    lam = numbers("eigenvalues", 1.0, dim)
    omega = numbers("task_variances", 1.0, dim)
    phi = np.exp(-numbers("drift", 0.0, dim) / dim)
    gates = numbers("gates", 1.0, context)[:, None] * numbers("channel_gates", 1.0, dim)
    D = numbers("preconditioner", 1.0, dim)
    steps = numbers("step_sizes", 0.0, context)
    writes = numbers("writes", 1.0, context)
    w = np.sqrt(omega) * rng.standard_normal((contexts, dim))
    u = np.zeros((contexts, dim))
    errors = []
    for token in range(context + 1):
        # The mean square of an answer to a query, over queries and their noise.
        misses = w - setting["readout"] * u
        errors.append(setting["rho"] + misses**2 @ lam / dim)
        if token == context:
            return np.array(errors)
        x = np.sqrt(lam / dim) * rng.standard_normal((contexts, dim))
        y = np.sum(x * w, axis=1) + np.sqrt(setting["rho"]) * rng.standard_normal(contexts)
        key = x / np.linalg.norm(x, axis=1)[:, None] if setting.get("unit_keys") else x
        if setting.get("gate_first", True):
            u = gates[token] * u
        read = np.sum(key * u, axis=1)
        u = u + D * key * (writes[token] * y - steps[token] * read)[:, None]
        if not setting.get("gate_first", True):
            u = gates[token] * u
        w = phi * w + np.sqrt(omega * (1 - phi**2)) * rng.standard_normal((contexts, dim))


def random_setting(seed):
    """Everything differs by token and by channel."""
    rng = np.random.default_rng(seed)
    dim = 5
    context = 8
    return {
        "dim": dim,
        "context": context,
        "rho": 0.3,
        "eigenvalues": rng.uniform(0.3, 2, dim),
        "task_variances": rng.uniform(0.3, 2, dim),
        "drift": rng.uniform(0, 1.5, dim),
        "gates": rng.uniform(0.7, 1, context),
        "channel_gates": rng.uniform(0.7, 1, dim),
        "preconditioner": rng.uniform(0.3, 1.5, dim),
        "step_sizes": rng.uniform(0.2, 1.2, context),
        "writes": rng.uniform(0.2, 1.2, context),
        "gate_first": seed == 0,
        "readout": 0.8,
    }


UNIT = {"rho": 0.2, "drift": 0.5, "gates": 0.9, "step_sizes": 1.4, "writes": 1.4, "readout": 1.0}


def test_recursion_is_the_mean_over_contexts():
    for setting in (
        random_setting(0),
        random_setting(1),
        UNIT | {"dim": 4, "context": 8, "unit_keys": True},
    ):
        errors = sampled(setting, 20000, np.random.default_rng(3))
        theory = recurrent_errors("gated-delta", **setting).error
        deviation = errors.mean(axis=1) - theory
        spread = errors.std(axis=1) / math.sqrt(errors.shape[1])
        assert np.all(spread < 0.02 * theory)
        assert np.all(abs(deviation) < SIGMAS * spread)


def test_rules_are_special_cases():
    """Of the rule that has all arguments; the one-step loss of linear attention by hand."""
    sizes = {"dim": 6, "context": 9, "rho": 0.2}
    plain = recurrent_errors("linear", **sizes)
    N = np.arange(10)
    d = 6
    assert plain.error == pytest.approx(1.2 - N / (N + d + 1 + 0.2 * d), rel=ROUNDING)
    general = {"step_sizes": 0.0, "writes": 1.0, "readout": "best", **sizes}
    gates = np.linspace(0.8, 1, 9)
    channels = np.linspace(0.5, 1, 6)
    for rule, more in (
        ("linear", {}),
        ("decay", {"gates": gates}),
        ("channel-gated", {"gates": gates, "channel_gates": channels}),
    ):
        alike = recurrent_errors("gated-delta", **general, **more).error
        assert np.array_equal(recurrent_errors(rule, **sizes, **more).error, alike)
    D = np.linspace(0.5, 1.5, 6)
    for rule, more in (("delta", {}), ("preconditioned", {"preconditioner": D})):
        alike = recurrent_errors("gated-delta", **sizes, **more, gates=1.0).error
        assert np.array_equal(recurrent_errors(rule, **sizes, **more).error, alike)


def test_channels_that_are_alike_are_one():
    setting = {"context": 20, "rho": 0.1, "drift": 0.3, "step_sizes": 0.7, "gates": 0.98}
    one = recurrent_errors("gated-delta", dim=7, **setting)
    many = recurrent_errors("gated-delta", eigenvalues=np.ones(7), **setting)
    assert one.error == pytest.approx(many.error, rel=ROUNDING)


@pytest.mark.parametrize("drift", [0.0, 0.8])
def test_no_gates_steps_and_writes_beat_the_best_steps(drift):
    """All three free at each of 5 tokens."""
    sizes = {"dim": 4, "context": 5, "rho": 0.3, "drift": drift, "gate_first": False}
    best = recurrent_errors("gated-delta", **sizes)
    assert best.signal == pytest.approx(best.power, rel=ROUNDING)
    assert 1.3 - best.error == pytest.approx(best.signal, rel=ROUNDING)

    def error(parameters):
        gates, steps, writes = parameters.reshape(3, 5) ** 2
        layer = {"gates": np.minimum(gates, 1), "step_sizes": steps, "writes": writes}
        return recurrent_errors("gated-delta", **sizes, **layer, readout="best").error[-1]

    start = np.random.default_rng(5).uniform(0.6, 1, 15)
    least = minimize(error, start, options={"gtol": 1e-4}).fun
    assert best.error[-1] - 1e-12 < least < best.error[-1] + 1e-6


@pytest.mark.parametrize("gate_first", [True, False])
def test_best_step_is_a_minimum_also_for_unlike_channels(gate_first):
    lam = np.array([0.3, 1.0, 1.7])
    setting = {"eigenvalues": lam, "rho": 0.2, "context": 4, "drift": [0.1, 0.5, 1.0]}
    setting |= {"gate_first": gate_first, "readout": 0.9}
    steps = recurrent_errors("gated-delta", **setting).step_size[1:]

    def last(step):
        return recurrent_errors("gated-delta", **setting, step_sizes=[*steps[:3], step]).error[-1]

    assert last(steps[3]) < min(last(steps[3] - 1e-4), last(steps[3] + 1e-4))


UNLIKE = {
    "eigenvalues": np.array([0.3, 1.0, 2.5]),
    "task_variances": np.array([0.4, 1.5, 1.0]),
    "preconditioner": np.array([1.2, 0.5, 0.8]),
    "drift": np.array([0.1, 0.9, 2.0]),
    "rho": 0.2,
    "context": 7,
    "gates": np.linspace(0.8, 1, 7),
}
ALIKE = {"dim": 5, "rho": 0.25, "drift": 1.0, "context": 7}


@pytest.mark.parametrize(
    "setting",
    [
        ALIKE | {"gates": 1.0},
        ALIKE | {"gates": 0.95, "gate_first": False, "readout": 0.8},
        ALIKE | {"gates": 0.9, "unit_keys": True},
        ALIKE | {"gates": 1.0, "readout": "best"},
        UNLIKE,
        UNLIKE | {"gate_first": False, "readout": "best"},
    ],
)
def test_no_other_steps_are_better_at_the_end(setting):
    """Searches from random steps end at the steps that are the default."""
    best = recurrent_errors("gated-delta", **setting)

    def error(roots):
        return recurrent_errors("gated-delta", **setting, step_sizes=roots**2).error[-1]

    rng = np.random.default_rng(0)
    for _ in range(2):
        found = minimize(error, rng.uniform(0.1, 1.2, 7), options={"gtol": 1e-7})
        assert best.error[-1] == pytest.approx(found.fun, rel=1e-10)


def test_steps_that_are_best_for_each_next_error_are_not_best_for_the_last():
    """Under drift without a gate they end above predicting zero, which no best steps do."""
    setting = {"dim": 40, "context": 160, "rho": 0.25}
    for drift, next_best, constant in ((0.3, 0.830, 0.793), (1.0, 1.327, 1.130)):
        steps = []
        power = 0.0
        signal = 0.0
        for _ in range(160):
            # The slope and the curvature of the next error, by hand.
            kept = math.exp(-drift / 40)
            d = 40
            gain = kept * (1 - signal) - (signal - power)
            steps.append(gain / ((1 + 2 / d) * (power - 2 * signal + 1) + 0.25))
            b = steps[-1]
            noise = (1 + 2 / d) * (power - 2 * signal + 1) + 0.25
            power += (2 * b * (signal - power) + b**2 * noise) / d
            signal = kept * (signal + b * (1 - signal) / d)
        greedy = recurrent_errors("delta", **setting, drift=drift, step_sizes=np.maximum(steps, 0))
        assert greedy.error[-1] == pytest.approx(next_best, abs=2e-3)
        best = recurrent_errors("delta", **setting, drift=drift)
        assert best.error[-1] < constant - 0.04
        assert best.error[-1] < 1.25
        gated = recurrent_errors("gated-delta", **setting, drift=drift, gate_first=False)
        assert gated.error[-1] < best.error[-1]


def test_best_readout_is_a_minimum():
    setting = {"dim": 5, "context": 6, "rho": 0.2, "gates": 0.9}
    best = recurrent_errors("decay", **setting)
    assert best.readout[0] == 0
    for position in (1, 6):
        near = [
            recurrent_errors("decay", **setting, readout=c).error[position]
            for c in best.readout[position] * np.array([0.999, 1.0, 1.001])
        ]
        assert near[1] < min(near[0], near[2])
        assert near[1] == pytest.approx(best.error[position], rel=ROUNDING)


def test_constant_steps_have_the_closed_form_at_every_size():
    """Also with drift, where the memory decays after each pair as the tasks do."""
    for drift in (0.0, 0.7):
        setting = {"dim": 7, "rho": 0.1, "drift": drift}
        layer = {"step_sizes": 1.2, "gate_first": False}
        errors = recurrent_errors("gated-delta", context=30, **setting, **layer).error[1:]
        closed = delta_rule_error(alpha=np.arange(1, 31) / 7, step_size=1.2, **setting)
        assert errors == pytest.approx(closed, rel=ROUNDING)


def test_tracking_is_the_limit_of_long_contexts_at_large_size():
    theory = optimal_tracking(drift=0.4, rho=0.1)
    gaps = [
        recurrent_errors("gated-delta", dim=dim, context=12 * dim, rho=0.1, drift=0.4).error[-1]
        - theory.error
        for dim in (30, 60)
    ]
    assert abs(gaps[0]) < 0.05
    assert gaps[1] == pytest.approx(gaps[0] / 2, rel=0.1)


def test_unstable_steps_grow_to_infinity():
    """Beyond 2/(1 + 2/d), or 2 for unit keys; the best readout then answers zero."""
    setting = {"dim": 4, "context": 2000, "rho": 0.1}
    for key, edge in ((False, 4 / 3), (True, 2.0)):
        errors = [
            recurrent_errors("delta", step_sizes=step, unit_keys=key, **setting).error
            for step in (0.99 * edge, 1.01 * edge, 6.0)
        ]
        assert errors[0][-1] == pytest.approx(errors[0][-2], rel=1e-6)
        assert errors[1][-1] > 1.005 * errors[1][-2]
        assert errors[2][-1] == np.inf
    best = recurrent_errors("delta", step_sizes=6.0, readout="best", **setting)
    assert best.error[-1] == 1.1


def test_bad_input_is_named():
    for rule, more, message in (
        ("deltas", {}, "rule must be one of linear, .*, got 'deltas'; did you mean delta"),
        ("linear", {"gates": 0.9}, "gates must be None for rule linear, got 0.9"),
        ("decay", {"step_sizes": 0.9}, "step_sizes must be None for rule decay, got 0.9"),
        ("delta", {"writes": 0.9}, "writes must be None without step_sizes, got 0.9"),
        ("decay", {"gates": [0.9, 1]}, r"gates must be .* shape \(6,\), got \(2,\)"),
        ("decay", {"gates": 1.1}, "gates must be from 0 to 1, got 1.1"),
        ("linear", {"drift": [1.0]}, r"drift must be .* shape \(3,\), got \(1,\)"),
        ("linear", {"eigenvalues": 1.0}, r"eigenvalues must have shape \(dim,\), got 1.0"),
        ("linear", {"dim": None}, "dim must be given where eigenvalues are not"),
        ("linear", {"unit_keys": True, "eigenvalues": [1.0]}, "unit_keys must be False"),
        ("linear", {"unit_keys": True, "drift": [1.0, 1.0, 2.0]}, "unit_keys must be False"),
        ("linear", {"readout": "worst"}, "readout must be one of best, got 'worst'"),
    ):
        with pytest.raises(ValueError, match=message):
            recurrent_errors(rule, **{"dim": 3, "context": 6} | more)


def test_moments_token_by_token():
    """The recursion of alike channels, which is written out a second time."""
    law = {"dim": 3, "rho": 0.3, "drift": 0.4}
    gates = np.array([0.7, 0.95, 0.6, 0.8])
    steps = np.array([0.5, 0.3, 0.8, 0.6])
    layer = {"gates": gates, "step_sizes": steps, "writes": steps}
    errors = recurrent_errors("gated-delta", context=4, **law, **layer)
    power = 0.0
    signal = 0.0
    for gate, step in zip(gates, steps, strict=True):
        power, signal, _ = token_moments(
            power=power, signal=signal, gate=gate, step_size=step, write=step, **law
        )
    assert errors.power[-1] == pytest.approx(power, rel=ROUNDING)
    assert errors.signal[-1] == pytest.approx(signal, rel=ROUNDING)
