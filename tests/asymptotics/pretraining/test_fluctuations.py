"""Spread of the errors of a run: other derivations, other arithmetic, values known elsewhere."""

import mpmath
import numpy as np
import pytest
from scipy.fft import dct
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import error_spread, icl_error, idg_error
from iclimit.simulate.pretraining import simulate_errors

POINTS = [
    {"tau": 1.5, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": 0.05},
    {"tau": 0.5, "alpha": 1.0, "kappa": 4.0, "rho": 0.3, "ridge": 0.2},
    {"tau": 2.2, "alpha": 1.2, "kappa": 3.0, "rho": 0.0, "ridge": 0.01},
    {"tau": 3.0, "alpha": 0.5, "kappa": 0.6, "rho": 1.0, "ridge": 0.5},
]


def task_eigenvalues(kappa, count=400):
    """Angles, eigenvalues and weights of the Marchenko-Pastur law, an atom at 0 last."""
    t = np.pi * (np.arange(count) + 0.5) / count
    c = 1 + 1 / kappa + 2 * np.sqrt(1 / kappa) * np.cos(t)
    weights = 2 * np.sin(t) ** 2 / (count * c)
    return t, np.append(c, 0.0), np.append(weights, max(0.0, 1 - kappa))


def covariance_of_minima(c, weights, at, B, target, u):
    """Covariance of two minima of cost + u error: one ladder (first docstring of the module)."""
    tau = at["tau"]
    rho = at["rho"]
    ridge = at["ridge"]
    G = c + (1 + rho) / at["alpha"]
    best = c / G
    risk = 1 + rho - weights @ (c * best)

    def minimum(B, target, u):
        A = ridge + u * B

        def theta_equation(theta):
            return 1 / theta - 1 - weights @ (G / (A + theta * G)) / tau

        theta = brentq(theta_equation, 1e-9, 1.0, xtol=1e-15, rtol=1e-15)
        inverse = 1 / (A + theta * G)
        return theta, inverse, inverse * (ridge * best + u * B * (best - target))

    (a, K, left), (b, L, right) = (minimum(*each) for each in zip(B, target, u, strict=True))
    chi = weights @ (G**2 * K * L) / tau
    overlap = risk + weights @ (left * G * right)
    return 2 / tau * a * b / (1 - a * b * chi) * overlap**2


@pytest.mark.parametrize("at", POINTS, ids=str)
def test_prompts_against_derivatives_of_minima(at):
    _, c, weights = task_eigenvalues(at["kappa"])
    q = (1 + at["rho"]) / at["alpha"]
    laws = {"icl": (np.full_like(c, 1 + q), 1 / (1 + q)), "idg": (c + q, c / (c + q))}
    step = 1e-3

    def covariance(first, second):
        (B, target), (other_B, other) = laws[first], laws[second]
        pair = (B, other_B), (target, other)
        corners = [(a, b) for a in (step, -step) for b in (step, -step)]
        changes = [covariance_of_minima(c, weights, at, *pair, u) * np.prod(u) for u in corners]
        return sum(changes) / (4 * step**4)

    spread = error_spread(**at)
    icl, idg, cross = (covariance(*each) for each in (("icl",) * 2, ("idg",) * 2, ("icl", "idg")))
    assert spread.icl_prompts**2 == pytest.approx(icl, rel=2e-4)
    assert spread.idg_prompts**2 == pytest.approx(idg, rel=2e-4)
    assert spread.gap_prompts**2 == pytest.approx(icl + idg - 2 * cross, rel=2e-4)


def errors_of_spectrum(c, weights, at):
    """ICL and IDG error for task sets with this spectrum, from the matrix formulas."""
    q = (1 + at["rho"]) / at["alpha"]
    G = c + q

    def equation(log_xi):
        xi = np.exp(log_xi)
        return at["tau"] * (1 - at["ridge"] / xi) - weights @ (G / (G + xi))

    xi = np.exp(brentq(equation, np.log(at["ridge"]), 20.0, xtol=1e-14))
    K = 1 / (G + xi)
    gamma = c * K
    idg = 1 + at["rho"] + weights @ (-2 * gamma * c + gamma**2 * G)
    idg /= 1 - weights @ (G**2 * K**2) / at["tau"]
    bias = 1 + at["rho"] + weights @ (-2 * gamma + (1 + q) * gamma**2)
    return np.array([bias + (1 + q) * (weights @ (G * K**2)) * idg / at["tau"], idg])


@pytest.mark.slow
def test_simulated_runs_scatter_as_the_limit_says_to_two_per_cent():
    """Of 12,000 runs the ratios are 1.012(6) and 1.026(7) at d = 16, 1.000 and 1.009 at 24."""
    at = {"tau": 2.0, "alpha": 2.0, "kappa": 2.0, "rho": 0.1, "ridge": 0.5}
    sizes = {"dim": 24, "context": 48, "tasks": 48, "prompts": 1152}
    runs = simulate_errors(**sizes, rho=0.1, ridge=0.5, rng=5, repeats=3000)
    limit = error_spread(**at)
    assert 24 * np.std(runs.icl.samples) == pytest.approx(limit.icl, rel=0.02)
    assert 24 * np.std(runs.idg.samples) == pytest.approx(limit.idg, rel=0.02)


def test_task_sets_against_chebyshev_modes():
    for at in POINTS[:3]:
        # The variance of a linear statistic of eigenvalues is the sum of m f_m^2 / 2 over its
        # Chebyshev coefficients f_m; tasks on the sphere have no mode m = 1.
        _, c, weights = task_eigenvalues(at["kappa"])
        expected = icl_error(**at), idg_error(**at)
        np.testing.assert_allclose(errors_of_spectrum(c, weights, at), expected, rtol=1e-9)
        step = 1e-6
        above, below = (
            np.array([errors_of_spectrum(c, weights + e, at) for e in sign * np.eye(len(c))[:-1]])
            for sign in (step, -step)
        )
        influence = (above - below) / (2 * step)
        influence = np.column_stack([influence, influence[:, 0] - influence[:, 1]])
        modes = dct(influence, axis=0)[2:] / len(influence)
        variances = np.arange(2, len(influence)) @ modes**2 / 2
        spread = error_spread(**at)
        found = [spread.icl_tasks, spread.idg_tasks, spread.gap_tasks]
        np.testing.assert_allclose(np.square(found), variances, rtol=1e-4)


def test_fifty_digits():
    rng = np.random.default_rng(0)
    ranges = {"tau": (0.05, 1000), "alpha": (0.05, 50), "kappa": (0.05, 50)}
    for ridge in (0.0, 1e-6, 1e-3, 1.0, 100.0):
        for rho in (0.0, 0.1, 10.0):
            at = {name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in ranges.items()}
            at |= {"rho": rho, "ridge": ridge}
            with mpmath.workdps(50):
                exact = error_spread(**{name: mpmath.mpf(each) for name, each in at.items()})
            for name in ("icl", "idg", "icl_tasks", "idg_tasks", "correlation"):
                wanted = float(getattr(exact, name))
                assert getattr(error_spread(**at), name) == pytest.approx(wanted, rel=1e-12), at


def test_fresh_tasks_leave_no_gap_and_thresholds_have_no_finite_spread():
    fresh = error_spread(tau=1.5, alpha=2.0, kappa=np.inf, rho=0.1, ridge=0.05)
    assert fresh.icl == pytest.approx(fresh.idg, rel=1e-14)
    assert (fresh.icl_tasks, fresh.gap_tasks) == (0, 0)
    assert fresh.gap < 1e-7
    assert fresh.correlation == pytest.approx(1)
    threshold = error_spread(tau=[0.9, 1.0, 1.1], alpha=1.0, kappa=0.5, rho=0.1)
    assert np.isfinite(threshold.icl).tolist() == [True, False, True]
    assert threshold.correlation[1] == 1
    with pytest.raises(ValueError, match="alpha"):
        error_spread(tau=1.5, alpha=np.inf, kappa=1.0, rho=0.1)
