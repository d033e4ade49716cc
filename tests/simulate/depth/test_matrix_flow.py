"""Gradient flow of full matrices against reduced flows, closed forms and finite differences."""

import numpy as np
import pytest

from iclimit.simulate.depth import simulate_matrix_flow, simulate_untied_flow, train_depth

LAM = np.array([1.4, 0.9, 0.5, 0.2])
OMEGA = np.array([0.4, 2.0, 1.0, 0.7])
SHIFTS = np.stack([np.roll(np.eye(4), k, axis=0) for k in range(4)])
TIMES = np.array([0.0, 3.0, 30.0])


@pytest.mark.parametrize("depth", [1, 3])
def test_shifts_reduce_to_gains(depth):
    gains = np.array([0.3, -0.2, 0.7])[:depth]
    options = {"depth": depth, "eigenvalues": LAM, "task_spectrum": OMEGA}
    flow = simulate_matrix_flow(**options, rotations=SHIFTS, initial=gains, times=TIMES)
    null = np.mean(LAM * OMEGA)
    reduced = simulate_untied_flow(
        eigenvalues=LAM, weights=LAM * OMEGA, initial=gains, times=TIMES * null / 2
    )
    expected = reduced.gains[..., None, None] * np.eye(4)
    np.testing.assert_allclose(flow.gammas, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(flow.losses, null * reduced.losses, rtol=1e-10)
    off = flow.gammas * (1 - np.eye(4))
    assert np.max(np.abs(off)) < 1e-14


def test_fixed_covariances_move_each_eigenvalue_on_its_own():
    """Shared layers: u' = -(om lam^3/L) u^(2L - 1), and so do equal layers of their own."""
    setting = {"eigenvalues": LAM, "task_spectrum": OMEGA, "times": TIMES}
    flow = simulate_matrix_flow(depth=3, shared=True, **setting)
    u = (1 + 4 / 3 * OMEGA * LAM**3 * TIMES[:, None]) ** (-1 / 4)
    expected = (3 * (1 - u) / LAM)[:, None, :, None] * np.eye(4)
    np.testing.assert_allclose(flow.gammas, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(flow.losses, np.mean(OMEGA * LAM * u**6, axis=1), rtol=1e-10)
    own = simulate_matrix_flow(depth=3, **setting)
    assert own.gammas.shape == (3, 3, 4, 4)
    np.testing.assert_allclose(own.gammas, np.repeat(expected, 3, axis=1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shared", [False, True])
def test_velocity_is_the_gradient_and_training_follows_it(shared):
    """Arbitrary matrices and rotations; one step on many contexts is the mean step."""
    rng = np.random.default_rng(0)
    turns = np.linalg.qr(rng.standard_normal((3, 4, 4)))[0]
    start = 0.5 * rng.standard_normal((1 if shared else 2, 4, 4))
    setting = {"depth": 2, "eigenvalues": LAM, "shared": shared}

    def loss(gammas):
        flow = simulate_matrix_flow(**setting, rotations=turns, initial=gammas, times=[0.0])
        return float(flow.losses[0])

    step = 1e-4
    flow = simulate_matrix_flow(
        **setting, rotations=turns, initial=start, times=[0.0, step, 2 * step]
    )
    velocity = (4 * flow.gammas[1] - 3 * flow.gammas[0] - flow.gammas[2]) / (2 * step)
    for place in [(0, 0, 1), (-1, 3, 3), (0, 2, 0)]:
        unit = np.zeros_like(start)
        unit[place] = step
        slope = (loss(start + unit) - loss(start - unit)) / (2 * step)
        factor = 1 if shared else 2
        assert velocity[place] == pytest.approx(-factor * 4 / 2 * slope, rel=1e-5, abs=1e-6)
    # Fixed covariances: the mean over tasks is the only one.
    fixed = simulate_matrix_flow(**setting, initial=start, times=[0.0, 1e-6])
    trained = train_depth(
        **setting,
        setting="fs",
        initial=np.broadcast_to(start, (1, *start.shape)),
        batch=20_000,
        learning_rate=1e-6,
        steps=1,
        repeats=1,
        rng=1,
    )
    moved = trained.weights[0][0] - start
    mean = fixed.gammas[1] - start
    np.testing.assert_allclose(moved, mean, rtol=0, atol=0.05 * np.max(np.abs(mean)))


def test_refuses():
    for change, message in (
        ({"task_spectrum": [1.0]}, "task_spectrum must have shape"),
        ({"rotations": 2 * np.eye(4)[None]}, "rotations must be orthogonal"),
        ({"rotations": np.eye(4)}, "rotations must have shape"),
        ({"initial": [0.0] * 3}, "initial must have shape"),
        ({"times": [1.0, 1.0]}, "times must be >= 0 and in increasing order"),
        ({"times": [-1.0]}, "times must be >= 0 and in increasing order"),
    ):
        setting = {"depth": 2, "eigenvalues": LAM, "times": [1.0]}
        with pytest.raises(ValueError, match=message):
            simulate_matrix_flow(**{**setting, **change})
