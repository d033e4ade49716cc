"""Loss of given steps: exact moments, schedules of isotropic data, tied and best untied layers."""

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from pair_moments import pair_moments

from iclimit.asymptotics.depth import depth_loss, depth_schedule_loss, untied_depth
from iclimit.asymptotics.descent import chebyshev_schedule, optimal_schedule, schedule_loss
from iclimit.asymptotics.gdpp import gdpp_loss
from iclimit.simulate.depth import simulate_depth_loss

# What the docstring promises.
PROMISED = 1e-10
# Standard errors that the worst of the simulated means may lie off.
SIGMAS = 4.0

LAM, TASKS = np.array([0.1, 0.4, 1.0, 1.5]), np.array([2.0, 1.0, 0.5, 3.0])


@pytest.mark.parametrize(
    ("rates", "gammas"),
    [
        ([0.3, 0.9, 0.1], None),
        ([0.4 + 0.2j, 0.5, 0.4 - 0.2j], None),
        ([0.4, 0.7], [0.3]),
        ([0.3, -0.2, 0.4], [0.2, 0.1]),
    ],
)
@pytest.mark.parametrize("alpha", [0.7, 3.0])
def test_any_polynomial_by_exact_moments(rates, gammas, alpha):
    """A power series of the resolvents, without contours, in the coefficients of the steps."""
    p = Polynomial([1.0])
    value = Polynomial([0.0, 1.0])
    for rate, gamma in zip(rates, [*(gammas or [0.0] * len(rates)), 0.0], strict=False):
        p = p * (1 - rate * value)
        value = value * (1 - gamma * value) ** 2
    moments = pair_moments(LAM, order=p.degree(), alpha=alpha, outer=TASKS, inner=LAM)
    exact = p.coef.real @ moments @ p.coef.real
    found = depth_schedule_loss(
        rates, gammas=gammas, spectrum=LAM, task_spectrum=TASKS, alpha=alpha
    )
    assert found.loss == pytest.approx(exact, rel=PROMISED)
    assert found.error < PROMISED * found.loss


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("alpha", [0.5, 4.0])
def test_isotropic_data(alpha, noise):
    """By Gauss rules of the Marchenko-Pastur law: Chebyshev and optimal steps, and GD++."""
    law = {"ratio": 1 / alpha, "noise_ratio": noise / alpha}
    setting = {"alpha": alpha, "noise_variance": noise, "setting": "iso"}
    for schedule in (chebyshev_schedule(steps=12, **law), optimal_schedule(steps=5, **law)):
        found = depth_schedule_loss(schedule.rates, **setting)
        exact = float(schedule_loss(schedule.rates, **law))
        assert found.loss == pytest.approx(exact, rel=PROMISED)
    found = depth_schedule_loss([0.3, 0.2, 0.4], gammas=[0.1, 0.15], **setting)
    exact = float(gdpp_loss([0.3, 0.2, 0.4], gammas=[0.1, 0.15], **law))
    assert found.loss == pytest.approx(exact, rel=PROMISED)


def test_equal_steps_are_tied_layers():
    """Another contour, also with width and noise; fixed covariances and a matrix."""
    lam = np.arange(1, 41) ** -1.2
    for depth, gamma in ((3, 2.0), (24, 20.0)):
        given = {"spectrum": lam, "task_spectrum": 1 / lam, "noise_variance": 0.2}
        given |= {"alpha": np.array([0.6, 2.0, np.inf])[:, None], "width_ratio": [0.4, np.inf]}
        tied = depth_loss(depth=depth, gamma=gamma, **given)
        found = depth_schedule_loss([gamma / depth] * depth, **given)
        assert found.loss.shape == (3, 2)
        assert found.loss == pytest.approx(tied.loss, rel=PROMISED)
    fixed = {"spectrum": lam, "alpha": 3.0, "setting": "fs"}
    for matrix in (None, 0.5 / lam):
        tied = depth_loss(depth=2, gamma=1.0 if matrix is None else matrix, **fixed)
        found = depth_schedule_loss([0.5, 0.5], gamma=matrix, **fixed)
        assert found.loss == pytest.approx(tied.loss, rel=PROMISED)


@pytest.mark.parametrize("width", [0.5, np.inf])
@pytest.mark.parametrize("alpha", [1.0, np.inf])
def test_best_steps_reach_their_loss(alpha, width):
    """Also where they are complex, and where the residual is huge beside the spectrum."""
    k = np.arange(1.0, 101.0)
    exact = alpha == width == np.inf
    depth = 6 if exact else 16
    best = untied_depth(k**-1.2, weights=k**-2.2, depth=depth, alpha=alpha, width_ratio=width)
    setting = {"spectrum": k**-1.2, "task_spectrum": 1 / k}
    setting |= {"alpha": alpha, "width_ratio": width}
    if exact:
        # Steps that hit eigenvalues one by one: rounding decides on the loss.
        deep = untied_depth(k**-1.2, weights=k**-2.2, depth=16).steps
        with pytest.raises(ArithmeticError, match="float64 does not resolve the loss"):
            depth_schedule_loss(deep, **setting)
    null = np.mean(k**-2.2)
    for steps, loss in ((best.steps, best.loss), (best.real_steps, best.real_loss)):
        found = depth_schedule_loss(steps, **setting)
        assert found.loss / null == pytest.approx(loss, rel=1e-5 if width < 1 else 1e-9)


def test_drawn_contexts():
    """Steps of different size with noise, context and width finite; extrapolated in 1/d."""
    rates = [0.2, 0.7]
    alpha = 2.0
    width = 0.5
    noise = 0.3
    setting = {"spectrum": LAM, "task_spectrum": TASKS, "noise_variance": noise}
    theory = depth_schedule_loss(rates, alpha=alpha, width_ratio=width, **setting).loss
    small, large = (
        simulate_depth_loss(
            eigenvalues=np.repeat(LAM, dim // 4),
            task_spectrum=np.repeat(TASKS, dim // 4),
            rates=rates,
            context=int(alpha * dim),
            width=int(width * dim),
            noise_variance=noise,
            rng=dim,
            repeats=8000 // dim,
        ).loss
        for dim in (16, 32)
    )
    error = np.hypot(2 * large.standard_error, small.standard_error)
    assert error < 0.02 * theory
    assert abs(2 * large.mean - small.mean - theory) < SIGMAS * error


@pytest.mark.parametrize("width", [0.4, 0.8])
def test_two_best_layers_of_finite_width(width):
    sizes = {"alpha": 3.0, "width_ratio": width}
    best = untied_depth(LAM, weights=LAM * TASKS, depth=2, **sizes)
    by_steps = depth_schedule_loss(best.steps, spectrum=LAM, task_spectrum=TASKS, **sizes)
    assert by_steps.loss == pytest.approx(best.loss * np.mean(LAM * TASKS), rel=1e-7)
