"""Gradient flow of untied layers against solutions in closed form and numerical gradients."""

import numpy as np
import pytest

from iclimit.simulate.depth import simulate_untied_flow

LAM = np.array([1.5, 0.8, 0.3])
MASS = np.array([1.0, 3.0, 2.0])

ROUNDING = 1e-12
"""Slopes of order one that vanish: some ten roundings, times what is left of the descent."""

REPEATED = 1e-10
"""Two integrations of one flow: each has an error of some 1e-11."""


def test_one_layer_relaxes_exponentially():
    times = np.array([0.0, 0.5, 3.0, 20.0])
    flow = simulate_untied_flow(eigenvalues=LAM, weights=MASS, initial=[0.2], times=times)
    share = MASS / MASS.sum()
    goal = np.sum(share * LAM) / np.sum(share * LAM**2)
    gains = goal + (0.2 - goal) * np.exp(-2 * np.sum(share * LAM**2) * times)
    np.testing.assert_allclose(flow.gains[:, 0], gains, rtol=1e-10)
    loss = np.sum(share * (1 - gains[:, None] * LAM) ** 2, axis=1)
    np.testing.assert_allclose(flow.losses, loss, rtol=1e-10)


def test_one_eigenvalue_conserves_differences_of_squares():
    """Residual factors u obey du_l/dt = -(2 lam^2/L) (prod u)^2/u_l."""
    initial = np.array([0.0, 0.3, -0.2])
    flow = simulate_untied_flow(
        eigenvalues=[0.9], weights=[4.0], initial=initial, times=[1, 5, 40]
    )
    squares = (1 - flow.gains * 0.9 / 3) ** 2
    kept = (1 - initial * 0.9 / 3) ** 2
    expected = np.tile(kept - kept[0], (3, 1))
    np.testing.assert_allclose(squares - squares[:, :1], expected, rtol=0, atol=1e-11)
    equal = simulate_untied_flow(eigenvalues=[0.9], weights=[1.0], initial=[0.0] * 3, times=[5.0])
    factor = (1 + 4 * 2 * 0.9**2 / 3 * 5) ** (-1 / 4)
    np.testing.assert_allclose(1 - equal.gains * 0.9 / 3, factor, rtol=1e-10)


def test_velocity_is_the_gradient_of_the_loss():
    def loss(gains):
        factors = 1 - gains[:, None] * LAM / gains.size
        return float(np.sum(MASS * np.prod(factors, axis=0) ** 2) / MASS.sum())

    start = np.array([0.5, 1.4, -0.3])
    step = 1e-4
    slopes = [
        (loss(start + step * unit) - loss(start - step * unit)) / (2 * step) for unit in np.eye(3)
    ]
    setting = {"eigenvalues": LAM, "weights": MASS, "initial": start}
    flow = simulate_untied_flow(**setting, times=[0.0, step, 2 * step])
    velocity = (4 * flow.gains[1] - 3 * flow.gains[0] - flow.gains[2]) / (2 * step)
    np.testing.assert_allclose(velocity, -3 * np.array(slopes), rtol=1e-6)
    assert flow.losses[0] == pytest.approx(loss(start), rel=1e-14)


@pytest.mark.machine
@pytest.mark.parametrize("layers", [6, 7])
def test_equal_gains_stay_equal(layers):
    """On the way to a saddle, whose unstable direction would amplify any difference."""
    setting = {"eigenvalues": LAM, "weights": MASS, "times": [0.0, 100.0, 3000.0, 1e4]}
    flow = simulate_untied_flow(**setting, initial=np.full(layers, 0.1))
    assert np.all(np.ptp(flow.gains, axis=1) == 0)
    # Along the saddle's own direction the flow has come to rest.
    factors = 1 - flow.gains[-1, 0] * LAM / layers
    slope = np.sum(MASS * LAM * factors ** (2 * layers - 1)) / MASS.sum()
    assert abs(slope) < ROUNDING
    # Also beside a gain that differs; the order of the layers does not matter.
    first = simulate_untied_flow(**setting, initial=[0.1, 0.3, 0.1])
    last = simulate_untied_flow(**setting, initial=[0.1, 0.1, 0.3])
    assert np.all(first.gains[:, 0] == first.gains[:, 2])
    assert np.all(last.gains[:, 0] == last.gains[:, 1])
    np.testing.assert_allclose(first.gains[:, [0, 2, 1]], last.gains, rtol=REPEATED)


def test_no_time_changes_nothing():
    still = simulate_untied_flow(eigenvalues=LAM, weights=MASS, initial=[1.0, 2.0], times=[0.0])
    np.testing.assert_array_equal(still.gains, [[1.0, 2.0]])


def test_refuses():
    for change, message in (
        ({"weights": [1.0, 2.0]}, "weights must have shape"),
        ({"weights": [0.0, 0.0, 0.0]}, "weights must have a positive sum"),
        ({"initial": []}, "initial must have shape"),
        ({"times": [2.0, 1.0]}, "times must be >= 0 and in increasing order"),
        ({"times": [-1.0, 1.0]}, "times must be >= 0"),
    ):
        setting = {"eigenvalues": LAM, "weights": MASS, "initial": [0.0, 0.1], "times": [1.0]}
        with pytest.raises(ValueError, match=message):
            simulate_untied_flow(**setting | change)
