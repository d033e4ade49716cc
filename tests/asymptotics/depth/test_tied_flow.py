"""Gradient flow of tied layers: one layer in closed form, other integrators, full matrices."""

import sys

import numpy as np
import pytest
from pair_moments import pair_moments
from scipy.integrate import solve_ivp

from iclimit.asymptotics.depth import depth_loss, scaling_exponents, tied_flow
from iclimit.asymptotics.spectra import MarchenkoPastur

# The docstring promises 1e-9 for gamma; the loss follows it.
PROMISED = 1e-8
# Other integrators are asked for ten digits.
INTEGRATED = 1e-7

RANK = np.arange(1.0, 31)
LAM, OMEGA = RANK**-1.2, RANK**-0.5
TIMES = np.array([0.0, 0.5, 20.0, 3.0])


def test_one_layer():
    """A parabola of exact moments: gamma relaxes exponentially."""
    alpha = 1.5
    noise = 0.1
    moments = pair_moments(LAM, order=1, alpha=alpha, outer=OMEGA, inner=LAM)
    curvature = moments[1, 1] + noise / alpha * np.mean(LAM**2)
    gamma = moments[0, 1] / curvature * -np.expm1(-curvature * TIMES)
    loss = moments[0, 0] - 2 * gamma * moments[0, 1] + gamma**2 * curvature
    found = tied_flow(
        times=TIMES, depth=1, spectrum=LAM, task_spectrum=OMEGA, alpha=alpha, noise_variance=noise
    )
    assert found.gamma == pytest.approx(gamma, rel=PROMISED, abs=1e-12)
    assert found.loss == pytest.approx(loss, rel=PROMISED)


def test_isotropic_data_by_quadrature():
    """An explicit Runge-Kutta method on the rule of the Marchenko-Pastur law."""
    nodes, weights = MarchenkoPastur(1 / 0.6).quadrature(200)
    depth = 5
    run = solve_ivp(
        lambda _, g: weights @ (nodes * (1 - g * nodes / depth) ** (2 * depth - 1)),
        (0, 20),
        [0.0],
        t_eval=np.sort(TIMES),
        rtol=1e-11,
        atol=1e-13,
    )
    found = tied_flow(times=np.sort(TIMES), depth=depth, alpha=0.6, setting="iso")
    assert found.gamma == pytest.approx(run.y[0], rel=INTEGRATED, abs=1e-10)


@pytest.mark.parametrize("depth", [1, 3, np.inf])
def test_fixed_covariances_by_integration(depth):
    """Each eigenvalue by a Runge-Kutta method."""

    def u(g, power):
        if depth == np.inf:
            return np.exp(-LAM * g * 2)
        return (1 - LAM * g / depth) ** power

    run = solve_ivp(
        lambda _, g: OMEGA * LAM**2 * u(g, 2 * depth - 1),
        (0, 20),
        np.zeros(LAM.size),
        t_eval=np.sort(TIMES),
        rtol=1e-10,
        atol=1e-12,
    )
    found = tied_flow(
        times=np.sort(TIMES), depth=depth, spectrum=LAM, task_spectrum=OMEGA, setting="fs"
    )
    assert found.gamma == pytest.approx(run.y.T[:, ::-1], rel=INTEGRATED, abs=1e-10)
    losses = [np.mean(OMEGA * LAM * u(g, 2 * depth)) for g in run.y.T]
    assert found.loss == pytest.approx(losses, rel=INTEGRATED)


def test_full_matrices():
    r"""Gradient of tr O p(G)' S p(G), p = (1 - G S/L)^L, over full matrices G, by differences."""
    lam = np.array([0.4, 1.0, 1.3])
    omega = np.array([2.0, 0.7, 1.0])
    depth = 2
    step = 0.01

    def loss(G):
        p = np.linalg.matrix_power(np.eye(3) - G * lam / depth, depth)
        return float(np.einsum("ij,i,ij,j->", p, lam, p, omega))

    entries = np.eye(9).reshape(9, 3, 3)

    def change(G):
        """Minus half of the gradient, times the step."""
        slopes = [(loss(G + 1e-5 * E) - loss(G - 1e-5 * E)) / 2e-5 for E in entries]
        return -step / 2 * np.tensordot(slopes, entries, axes=1)

    G = np.zeros((3, 3))
    for _ in range(100):
        # The midpoint rule: the error of 100 steps is 1e-5.
        G = G + change(G + change(G) / 2)
    found = tied_flow(times=1.0, depth=depth, spectrum=lam, task_spectrum=omega, setting="fs")
    assert np.diag(G) == pytest.approx(found.gamma, rel=1e-4)
    assert abs(G - np.diag(np.diag(G))).max() < 1e-9


def test_ends_and_exponents():
    """The flow ends at the optimum; power laws of time at infinite depth."""
    setting = {"spectrum": LAM, "alpha": 0.8, "width_ratio": 0.6, "noise_variance": 0.02}
    last = tied_flow(times=[1e6], depth=4, **setting)
    best = depth_loss(depth=4, **setting)
    assert last.loss == pytest.approx(best.loss, rel=PROMISED)
    assert last.gamma == pytest.approx(best.gamma, rel=1e-6)
    rank = np.arange(1.0, 2e4)
    lam = rank**-1.5
    for name in ("fs", "rrs"):
        options = {"times": [1e9, 1e10], "depth": np.inf}
        flow = tied_flow(**options, spectrum=lam, task_spectrum=rank**-2.5 / lam, setting=name)
        slope = -np.diff(np.log10(flow.loss))[0]
        expected = float(scaling_exponents(nu=1.5, beta=1.0, setting=name).time)
        # The local exponent; the next order is down by a power of the time.
        assert slope == pytest.approx(expected, rel=0.02)


def test_no_time():
    flow = tied_flow(times=[0.0, 0.0], depth=4, spectrum=LAM, alpha=0.8)
    assert flow.gamma.tolist() == [0, 0]
    assert flow.loss == pytest.approx(np.mean(LAM), rel=PROMISED)


def test_flow_that_float64_does_not_resolve_ends(monkeypatch):
    monkeypatch.setattr(sys.modules[tied_flow.__module__], "_MOST_CALLS", 5000)
    with pytest.raises(ArithmeticError, match=r"does not resolve the flow at alpha = 1e-06"):
        tied_flow(times=[1e6], depth=8, spectrum=LAM, alpha=1e-6)


@pytest.mark.parametrize("depth", [2, 4])
def test_loss_on_the_way_is_that_of_the_gain(depth):
    """With noise in the labels, at times at which the flow is under way."""
    setting = {"spectrum": LAM, "task_spectrum": OMEGA, "alpha": 2.5, "noise_variance": 0.4}
    flow = tied_flow(times=[0.5, 3.0], depth=depth, **setting)
    for gamma, loss in zip(flow.gamma, flow.loss, strict=True):
        at_gain = depth_loss(depth=depth, gamma=gamma, **setting).loss
        assert loss == pytest.approx(at_gain, rel=1e-7)
