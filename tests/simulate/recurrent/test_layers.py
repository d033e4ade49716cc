"""Recurrent layers given their inputs: against sampled tasks and noise on the same inputs."""

import numpy as np
import pytest

from iclimit.simulate.descent.schedules import context_blocks
from iclimit.simulate.recurrent import simulate_recurrent

# Standard errors that the worst of all positions may lie off.
SIGMAS = 4.0
TASKS = 20000


def sampled(z, setting, rng):
    """Mean squared errors, with standard errors, of tasks and noise in one context (l, d)."""
    context, dim = z.shape
    lam, omega = (
        np.broadcast_to(setting[name], dim) for name in ("eigenvalues", "task_variances")
    )
    phi = np.exp(-np.broadcast_to(setting["drift"], dim) / dim)
    gates, steps, writes = (
        np.broadcast_to(setting[name], context) for name in ("gates", "step_sizes", "writes")
    )
    w = np.sqrt(omega) * rng.standard_normal((TASKS, dim))
    u = np.zeros_like(w)
    means = []
    for token in range(context):
        x = z[token] * np.sqrt(lam / dim)
        key = x / np.linalg.norm(x) if setting["unit_keys"] else x
        y = w @ x + np.sqrt(setting["rho"]) * rng.standard_normal(TASKS)
        gate = gates[token] * np.broadcast_to(setting["channel_gates"], dim)
        if setting["gate_first"]:
            u = gate * u
        u = u + np.outer(writes[token] * y - steps[token] * (u @ key), key) * setting["D"]
        if not setting["gate_first"]:
            u = gate * u
        w = phi * w + np.sqrt(omega * (1 - phi**2)) * rng.standard_normal((TASKS, dim))
        errors = setting["rho"] + (w - setting["readout"] * u) ** 2 @ lam / dim
        means.append((errors.mean(), errors.std() / np.sqrt(TASKS)))
    return np.array(means).T


@pytest.mark.parametrize(("gate_first", "unit_keys"), [(True, False), (False, True)])
def test_averages_over_tasks_and_noise_are_exact(gate_first, unit_keys):
    rng = np.random.default_rng(1)
    dim = 4
    context = 6
    setting = {
        "rho": 0.3,
        "eigenvalues": rng.uniform(0.3, 2, dim),
        "task_variances": rng.uniform(0.3, 2, dim),
        "drift": rng.uniform(0, 1.5, dim),
        "gates": rng.uniform(0.7, 1, context),
        "channel_gates": rng.uniform(0.7, 1, dim),
        "step_sizes": rng.uniform(0.2, 1.2, context),
        "writes": rng.uniform(0.2, 1.2, context),
        "readout": 0.8,
        "gate_first": gate_first,
        "unit_keys": unit_keys,
    }
    D = rng.uniform(0.3, 1.5, dim)
    run = simulate_recurrent(
        dim=dim, context=context, preconditioner=D, rng=5, contexts=2, **setting
    )
    inputs = next(context_blocks(context, dim, "gaussian", 2, 5, "numpy"))
    for z, errors in zip(inputs, run.errors, strict=True):
        means, spread = sampled(z, setting | {"D": D}, rng)
        assert np.all(abs(errors[1:] - means) < SIGMAS * spread)
        assert np.all(spread < 0.03 * means)


def test_plain_attention_by_hand():
    """The answer of linear attention is the sum of all pairs."""
    run = simulate_recurrent(dim=3, context=5, rho=0.2, readout=0.4, rng=0, contexts=1)
    z = next(context_blocks(5, 3, "gaussian", 1, 0, "numpy"))[0] / np.sqrt(3)
    moment = z.T @ z
    error = np.sum((np.eye(3) - 0.4 * moment) ** 2) / 3 + 0.2 * 0.16 * np.trace(moment) / 3 + 0.2
    assert run.errors[0, -1] == pytest.approx(error, rel=1e-12)
    assert run.errors[0, 0] == pytest.approx(1.2, rel=1e-12)
    assert run.means[5].mean == run.errors[0, -1]


def test_readouts_by_position_and_from_the_moments():
    setting = {"dim": 4, "context": 6, "rho": 0.1, "gates": 0.9, "rng": 0, "contexts": 3}
    readouts = np.linspace(0.2, 0.8, 7)
    run = simulate_recurrent(readout=readouts, **setting)
    expected = 1.1 - 2 * readouts * run.signal + readouts**2 * run.power
    np.testing.assert_allclose(run.errors, expected, rtol=1e-12)
    assert run.parameters["gates"] == 0.9


def test_unstable_steps_are_infinite():
    run = simulate_recurrent(dim=2, context=2000, step_sizes=40.0, rng=0, contexts=2)
    assert np.all(run.errors[:, -1] == np.inf)


def test_bad_input_is_named():
    for more, message in (
        ({"gates": 1.1}, "gates must be from 0 to 1, got 1.1"),
        ({"gates": [0.5, 1.0]}, r"gates must have shape \(\) or \(6,\), got \(2,\)"),
        ({"drift": [0.1, -0.1, 1]}, "drift must be >= 0 and finite, got -0.1"),
        ({"readout": [1.0]}, r"readout must have shape \(\) or \(7,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate_recurrent(dim=3, context=6, rng=0, **more)
