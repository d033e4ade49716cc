"""Loss of tied layers: closed forms, other schedules, published tables, sampled contexts."""

import numpy as np
import pytest
from pair_moments import pair_moments
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from iclimit.asymptotics.depth import depth_loss, depth_schedule_loss, tied_flow
from iclimit.asymptotics.descent import constant_schedule, schedule_loss
from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.spectra import Atoms, TwoPoint, Uniform
from iclimit.simulate.depth import simulate_depth_loss

# What the docstring promises.
PROMISED = 1e-10
# Numbers of tables are rounded to the last digit printed.
PRINTED = 0.51
# Standard errors that the worst of the simulated means may lie off.
SIGMAS = 4.0

DIM = 400
RANK = np.arange(1.0, DIM + 1)
LAM, OMEGA = RANK**-1.2, RANK**-1.0
DEPTHS = np.array([1, 2, 5, 16, 64])


@pytest.mark.parametrize("alpha", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_isotropic_data_by_schedules(alpha, noise):
    """The best constant rate of gradient descent, by the rule of the Marchenko-Pastur law."""
    found = depth_loss(depth=DEPTHS, alpha=alpha, noise_variance=noise, setting="iso")
    for loss, gamma, depth in zip(found.loss, found.gamma, DEPTHS, strict=True):
        setting = {"ratio": 1 / alpha, "noise_ratio": noise / alpha}
        best = constant_schedule(steps=depth, **setting)
        assert loss == pytest.approx(float(best.loss), rel=PROMISED, abs=1e-16)
        again = schedule_loss([gamma / depth] * depth, **setting)
        assert loss == pytest.approx(float(again), rel=PROMISED, abs=1e-16)


def test_isotropic_data_in_closed_form():
    """L* = 1/(1 + alpha) at one layer, (1 - alpha)_+ at infinite depth."""
    alphas = np.array([0.25, 1.0, 3.0])
    one = depth_loss(depth=1, alpha=alphas, setting="iso")
    assert one.loss == pytest.approx(1 / (1 + alphas), rel=PROMISED)
    assert one.gamma == pytest.approx(1 / (1 + 1 / alphas), rel=PROMISED)
    deep = depth_loss(depth=np.inf, alpha=alphas, setting="iso")
    assert deep.loss == pytest.approx([0.75, 0.0, 0.0], rel=PROMISED)
    assert np.all(np.isinf(deep.gamma))
    assert depth_loss(depth=7, setting="iso").loss == 0.0


def test_printed_table_of_contexts():
    """Tied optima at nu = 1.2, beta = 1, d = 400 that were found by another contour."""
    table = {
        200: (0.1013, 0.0513, 0.0265, 0.0144),
        800: (0.0939, 0.0455, 0.0218, 0.0106),
        3200: (0.0920, 0.0440, 0.0206, 0.0097),
        np.inf: (0.0914, 0.0434, 0.0202, 0.0093),
    }
    tasks = RANK**-2.2 / LAM
    for context, row in table.items():
        found = depth_loss(
            depth=[2, 4, 8, 16], spectrum=LAM, task_spectrum=tasks, alpha=context / DIM
        )
        assert found.loss / np.mean(LAM * tasks) == pytest.approx(row, abs=PRINTED * 1e-4)


def test_power_laws_at_infinite_context():
    """A continuous law of exponent beta has the loss Gamma(beta + 1) (4 L)^-beta for large L."""
    for beta in (0.5, 1.0):
        rank = np.arange(1, 5001) - 0.5
        lam = (rank / 5000) ** (1 / beta)
        # The mass of x^(beta - 1) dx is that of tasks 1/lam.
        found = depth_loss(depth=[256, 512], spectrum=lam, task_spectrum=1 / lam)
        limit = np.exp(gammaln(beta + 1) - beta * np.log(4 * np.array([256, 512])))
        # Corrections of order log(L)/L.
        assert found.loss == pytest.approx(limit, rel=0.02)
        assert found.gamma / np.array([256, 512]) == pytest.approx(2.0, rel=0.03)


@pytest.mark.parametrize("width", [0.4, np.inf])
def test_optimum_is_one(width):
    """Against a search over given gamma."""
    setting = {"spectrum": LAM[:40], "task_spectrum": OMEGA[:40], "alpha": 0.8}
    setting |= {"width_ratio": width, "noise_variance": 0.01}
    found = depth_loss(depth=[6, np.inf], **setting)
    for depth, loss, gamma in zip([6, np.inf], found.loss, found.gamma, strict=True):
        search = minimize_scalar(
            lambda g, L=depth: float(depth_loss(depth=L, gamma=g, **setting).loss),
            bounds=(gamma / 3, gamma * 1.5),
            method="bounded",
        )
        assert search.fun == pytest.approx(loss, rel=PROMISED)
        assert search.x == pytest.approx(gamma, rel=1e-4)


def test_settings_agree():
    """Isotropic data as a spectrum; fixed covariances as a matrix; kinds of spectra."""
    iso = depth_loss(depth=[1, 5], alpha=1.5, noise_variance=0.2, setting="iso")
    flat = depth_loss(depth=[1, 5], alpha=1.5, noise_variance=0.2, spectrum="isotropic")
    assert flat.loss == pytest.approx(iso.loss, rel=PROMISED)
    lam = LAM[:30]
    tasks = OMEGA[:30]
    setting = {"depth": 3, "spectrum": lam, "task_spectrum": tasks, "alpha": 2.0}
    fixed = depth_loss(**setting, setting="fs")
    matrix = depth_loss(**setting, setting="fs", gamma=2.0 / lam)
    assert fixed.gamma == pytest.approx(2.0, rel=PROMISED)
    assert matrix.loss == pytest.approx(fixed.loss, rel=PROMISED)
    joint = JointSpectrum(task=tasks, test=tasks, inputs=lam, weight=np.full(30, 1 / 30))
    one = depth_loss(depth=3, spectrum=joint, alpha=2.0, gamma=1.5)
    other = depth_loss(**setting, gamma=1.5)
    assert one.loss == pytest.approx(other.loss, rel=PROMISED)
    scaled = depth_loss(**setting, setting="fs", gamma=np.full(30, 1.5))
    assert scaled.loss == pytest.approx(other.loss, rel=PROMISED)
    smooth = depth_loss(depth=4, spectrum=Uniform(0.5, 1.5), alpha=3.0)
    fine = depth_loss(depth=4, spectrum=Uniform(0.5, 1.5).quantiles(1000), alpha=3.0)
    assert smooth.loss == pytest.approx(fine.loss, rel=1e-5)


@pytest.mark.machine
def test_edges():
    """No steps, divergence, the margin of the mean, and losses that float64 does not resolve."""
    null = depth_loss(depth=3, spectrum=LAM, alpha=1.0, gamma=0.0)
    assert null.loss == pytest.approx(LAM.mean(), rel=PROMISED)
    assert np.isinf(null.headroom)
    wild = depth_loss(depth=[2, 256, 256], alpha=1.0, gamma=[12.0, 128.0, 3e3], setting="iso")
    assert wild.loss[0] > 100
    assert wild.loss[1] < 1
    assert np.isinf(wild.loss[2])
    assert np.sign(wild.headroom).tolist() == [-1, 0, -1]
    # Zeros of the spectrum, a hard edge, and noise that keeps the best gamma far below the depth.
    for noise in (0.0, 1.0):
        hard = {"spectrum": [0.0, 1.0, 2.0], "alpha": 1.0001, "noise_variance": noise}
        rough = depth_loss(depth=[3, 256], **hard)
        assert np.all(rough.error < PROMISED * rough.loss)
        assert np.all(rough.loss < 1.0)
    # By the isolated eigenvalue itself: (2 L/gamma - 1) sqrt(P/2) = 15, 5.0 and 1.7.
    lam = RANK[:100] ** -1.2
    for rate, context, deviations in ((0.5, 50, 15.0), (1.0, 50, 5.0), (1.5, 50, 1.7)):
        found = depth_loss(depth=4, spectrum=lam, alpha=context / 100, gamma=4 * rate)
        assert found.margin(context) == pytest.approx(deviations, rel=0.3)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_sampled_contexts(noise):
    """Residual linear attention with width, on drawn contexts; extrapolated in 1/d."""
    depth = 3
    gamma = 1.5
    alpha = 1.5
    width = 0.5
    lam = [0.2, 0.5, 1.0, 1.5]
    tasks = [3.0, 1.0, 2.0, 0.5]
    small, large = (
        simulate_depth_loss(
            eigenvalues=np.repeat(lam, dim // 4),
            task_spectrum=np.repeat(tasks, dim // 4),
            rates=[gamma / depth] * depth,
            context=int(alpha * dim),
            width=int(width * dim),
            noise_variance=noise,
            rng=dim,
            repeats=12_000 // dim,
        ).loss
        for dim in (12, 24)
    )
    setting = {"alpha": alpha, "width_ratio": width, "noise_variance": noise}
    theory = depth_loss(depth=depth, gamma=gamma, spectrum=lam, task_spectrum=tasks, **setting)
    error = np.hypot(2 * large.standard_error, small.standard_error)
    assert SIGMAS * error < 0.2 * theory.loss
    assert abs(2 * large.mean - small.mean - theory.loss) < SIGMAS * error


def test_other_polynomials():
    """Chebyshev steps, by the coefficients of their polynomial."""
    values = LAM[:20][::-1]
    law = TwoPoint(Atoms(values), alpha=3.0)
    lower, upper = law.edges
    nodes = (upper + lower) / 2 + (upper - lower) / 2 * np.cos([np.pi / 8, 3 * np.pi / 8])
    value, error = law.mean(
        lambda z: np.prod(1 - z[..., None] / nodes, axis=-1), inner=lambda x: x
    )
    powers = np.array([1, -np.sum(1 / nodes), 1 / np.prod(nodes)])
    moments = pair_moments(values, order=2, alpha=3.0, outer=np.ones(values.size), inner=values)
    assert error < PROMISED * value
    assert value == pytest.approx(powers @ moments @ powers, rel=PROMISED)


def test_noise_that_drowns_the_signal_is_named():
    for compute in (
        lambda **given: depth_loss(depth=4, **given).loss,
        lambda **given: depth_schedule_loss([0.5, 0.5], **given).loss,
        lambda **given: tied_flow(times=[1.0], depth=4, **given).loss,
    ):
        assert np.isfinite(compute(alpha=2.0, noise_variance=1.9e15, setting="iso")).all()
        message = r"^noise_variance must be <= 1e\+15 alpha here, got 1e\+30 with alpha = 2$"
        with pytest.raises(ValueError, match=message):
            compute(alpha=2.0, noise_variance=1e30, setting="iso")


@pytest.mark.parametrize("depth", [1, 7, np.inf])
@pytest.mark.parametrize("ratio", [1e5, 1e10, 1e15])
def test_much_noise(depth, ratio):
    """The loss is a parabola near gamma = 0, the same for all depths."""
    lam = np.arange(1.0, 9) ** -1.2
    given = {"spectrum": lam, "alpha": 0.7, "noise_variance": 0.7 * ratio}
    best = 1 / ratio
    found = depth_loss(depth=depth, **given)
    # Relative corrections are those of gamma times the eigenvalues.
    assert found.gamma == pytest.approx(best, rel=20 / ratio + 1e-12)
    time = 1 / (ratio * np.mean(lam**2))
    flow = tied_flow(times=[0.5 * time, time, 1e3], depth=depth, **given)
    shares = -np.expm1([-0.5, -1, -np.inf])
    assert flow.gamma == pytest.approx(best * shares, rel=20 / ratio + 1e-9)
