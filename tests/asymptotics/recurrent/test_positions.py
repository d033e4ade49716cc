"""Weights of positions against least squares on drawn contexts."""

import numpy as np
import pytest
from refusals import value_error

from iclimit.asymptotics.recurrent import memory_weights

D, N, COUNT = 3, 6, 40_000


def drawn(rho, drift):
    """Inputs, labels and tasks of contexts, token by token."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((COUNT, N, D)) / D**0.5
    task = rng.standard_normal((COUNT, D))
    kept = np.exp(-drift / D)
    y = np.empty((COUNT, N))
    for t in range(N):
        y[:, t] = np.sum(x[:, t] * task, axis=1) + rho**0.5 * rng.standard_normal(COUNT)
        task = kept * task + (1 - kept**2) ** 0.5 * rng.standard_normal((COUNT, D))
    return x, y


UNLIKE = 0.7, np.linspace(0.7, 1, N), np.linspace(1.1, 0.4, N), 0.9


@pytest.mark.parametrize(
    ("drift", "gates", "steps", "writes", "unit_keys"),
    [(0.0, 1.0, 0.8, None, False), (*UNLIKE, False), (*UNLIKE, True)],
)
def test_weights_are_those_of_least_squares(drift, gates, steps, writes, unit_keys):
    x, y = drawn(0.3, drift)
    layer = {"gates": gates, "step_sizes": steps, "unit_keys": unit_keys}
    gate, step, write = (
        np.broadcast_to(each, N) for each in (gates, steps, steps if writes is None else writes)
    )
    u = np.zeros((COUNT, D))
    keys = x
    if unit_keys:
        keys = x / np.sqrt(np.sum(x**2, axis=2, keepdims=True))
    for t in range(N):
        u = gate[t] * u
        answer = np.sum(keys[:, t] * u, axis=1)
        u = u + (write[t] * y[:, t] - step[t] * answer)[:, None] * keys[:, t]
    columns = np.moveaxis(y[:, :, None] * x, 1, 2).reshape(-1, N)
    found, *_ = np.linalg.lstsq(columns, u.ravel())
    expected = memory_weights(context=N, dim=D, rho=0.3, drift=drift, writes=writes, **layer)
    # The coefficients have errors of .004 and their scatter over seeds.
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_without_correction_they_are_products_of_gates():
    gates = np.array([0.3, 0.9, 0.5, 0.8])
    found = memory_weights(context=4, dim=5, rho=0.2, drift=0.4, gates=gates)
    np.testing.assert_allclose(found, [0.36, 0.4, 0.8, 1.0], rtol=1e-12)


def test_bad_input_is_named():
    value_error("gates must be from 0 to 1", memory_weights, context=4, dim=5, gates=1.1)
    value_error("context must be an integer >= 1", memory_weights, context=0, dim=5)
