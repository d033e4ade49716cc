"""The predicted staircase against quadrature, motion of one head, and the flow of all heads."""

import math

import mpmath
import numpy as np
import pytest
from refusals import arithmetic_error, value_error
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from iclimit.asymptotics.dynamics import (
    escape_time,
    fixed_point_losses,
    growth_time,
    plateau_head_values,
    plateau_losses,
    separate_attention_staircase,
)

# Integration with relative tolerance 1e-11; measured 3e-11 against quadrature.
INTEGRATION = 1e-9
# After an escape: its residual is taken away a millionth of the wait early; measured 7e-8.
LATER = 1e-6
# The prediction takes the value of a head as constant while the second direction makes it grow;
# median over seeds 3 % for small scales, 6 % for 0.01.
RANK_TWO = 0.1
# Sums of a handful of terms.
FLOAT64 = 1e-12

LAM = np.array([0.4, 0.3, 0.2, 0.1])
N = 31


def staircase(v, k, q, lam=LAM, **more):
    return separate_attention_staircase(
        v, key=k, query=q, eigenvalues=lam, **{"context": N, **more}
    )


def random_start(seed, heads, rank=1, dim=4, scale=1.0):
    rng = np.random.default_rng(seed)
    shapes = (heads,), (heads, rank, dim), (heads, rank, dim)
    v, k, q = (scale * rng.standard_normal(shape) for shape in shapes)
    return v, k, q


# One head


def quadrature(v, k, q, lam):
    """Escape time of one head: the energy of the particle gives its speed at every place."""
    # Twice the digits of float64: a root in the integrand where the particle turns halves them.
    with mpmath.workdps(24):
        rates = [mpmath.mpf(x) ** 2 for x in lam]
        up, down = (
            [(mpmath.mpf(a) + sign * b) ** 2 / 4 for a, b in zip(k, q, strict=True)]
            for sign in (1, -1)
        )
        if v < 0:
            v, up, down = -v, down, up

        def square(s):
            return mpmath.mpf(v) ** 2 + sum(
                p * mpmath.expm1(2 * r * s) + m * mpmath.expm1(-2 * r * s)
                for r, p, m in zip(rates, up, down, strict=True)
            )

        # Without a place to turn on the way to infinity the particle gets there at once.
        unit = 1 / rates[0]
        places = np.arange(1, 2000) / 50 * float(unit)
        grown = 2 * np.outer(places, np.array(rates, float))
        squares = float(v) ** 2 + np.expm1(grown) @ np.array(up, float)
        squares += np.expm1(-grown) @ np.array(down, float)
        turn = mpmath.mpf(places[np.argmax(squares < 0)]) if np.any(squares < 0) else None

        def time(a, b, direction=1):
            points = [a, *(x * unit for x in (1, 3, 10, 30, 100) if a < x * unit < b), b]
            # At the place to turn rounding can make the square negative.
            return mpmath.quad(lambda s: 1 / mpmath.sqrt(abs(square(direction * s))), points)

        if turn is None:
            return time(0, mpmath.inf)
        turn = mpmath.findroot(square, (turn - unit / 50, turn), solver="anderson")
        return 2 * time(0, turn) + time(0, mpmath.inf, -1)


@pytest.mark.parametrize("seed", [0, 2, 4, 7])
def test_escape_of_one_head_is_the_quadrature(seed):
    """Values of either sign (seed 4); heads that run away at once, also after a turn (2 and 7)."""
    v, k, q = (x[0] for x in random_start(seed, 1))
    k = k[0]
    q = q[0]
    found = staircase([v], [k], [q])
    expected = float(quadrature(float(v), k, q, LAM))
    assert found.times[0] == pytest.approx(expected, rel=INTEGRATION)
    assert found.heads.tolist() == [0, -1, -1, -1]
    assert np.all(np.isinf(found.times[1:]))


def test_weights_of_exactly_one_wait_as_others_do():
    """Weights a third as large escape three times later, all others the same."""
    v = np.array([0.5, 0.4])
    k = np.ones((2, 1, 4))
    q = np.ones((2, 1, 4))
    q[1, 0, 2] = -1.0
    found, scaled = (staircase(c * v, c * k, c * q) for c in (1.0, 1 / 3))
    assert np.isfinite(found.times).tolist() == [True, True, False, False]
    assert np.allclose(scaled.times / 3, found.times, rtol=INTEGRATION, atol=0)


@pytest.mark.slow
def test_symmetries():
    v, k, q = random_start(7, 2)
    found = staircase(v, k, q)
    for same in ((-v, k, -q), (-v, -k, q), (v, q, k), (v, -k, -q)):
        assert np.allclose(staircase(*same).times, found.times, rtol=INTEGRATION, atol=0)
    # Weights times c: escapes earlier by c.  The drop follows at a distance that does not scale.
    for c in (1e-200, 1e5):
        scaled = staircase(c * v, c * k, c * q)
        assert np.allclose(scaled.times * c, found.times, rtol=INTEGRATION, atol=0)
        assert scaled.heads.tolist() == found.heads.tolist()
    small = staircase(1e-3 * v, 1e-3 * k, 1e-3 * q)
    delay, same = (x.drop_times[:2] - x.times[:2] for x in (found, small))
    assert np.allclose(same, delay, rtol=1e-6)
    # Order of the directions and a rotation of the rows of a head do not matter.
    order = [2, 0, 3, 1]
    moved = staircase(v, k[..., order], q[..., order], LAM[order])
    assert np.allclose(moved.times, found.times, rtol=INTEGRATION, atol=0)
    v, k, q = random_start(8, 3, rank=2)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    first, second = (staircase(v, x @ k, x @ q) for x in (np.eye(2), turn))
    assert np.allclose(first.times, second.times, rtol=LATER)
    assert np.allclose(first.drop_times, second.drop_times, rtol=LATER)


# Aligned heads, for which everything is known


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 3, 1, 0)])
@pytest.mark.parametrize(("sign", "noise"), [(1, 0.0), (-1, 0.5)])
def test_aligned_heads(order, sign, noise):
    """Each head learns its own direction, which need not be the largest that is left."""
    starts = np.array([1.0, 3.0, 0.7, 12.0]) * 1e-3
    v = starts[list(order)]
    k = np.diag(starts)[list(order)]
    found = staircase(sign * v, k, sign * k, noise_variance=noise)
    assert np.allclose(found.times, escape_time(starts, eigenvalue=LAM), rtol=INTEGRATION)
    assert found.heads.tolist() == np.argsort(order).tolist()
    values = plateau_head_values(LAM, context=N, noise_variance=noise)
    # Half of the drop: 1 - (1 - share)^2 = 1/2.
    half = values * brentq(lambda x: 1 - (1 - x**3) ** 2 - 0.5, 0, 1, xtol=1e-15)
    more = {"eigenvalue": LAM, "trace": 1.0, "context": N}
    expected = growth_time(half, initial_value=starts, noise_variance=noise, **more)
    # The pole leaves out the saturation before the start, the integral of A v / lambda^2.
    saturation = starts**2 / (2 * values**3 * LAM**2)
    assert np.allclose(found.drop_times - expected, saturation, rtol=1e-2, atol=1e-4)


def test_aligned_heads_of_very_different_eigenvalues():
    """Weights of exactly zero must not meet exponentials that overflow."""
    lam = np.array([1.0, 1e-2, 1e-3])
    found = staircase([0.0, 1e-2, 1e-2], 1e-2 * np.eye(3), 1e-2 * np.eye(3), lam)
    assert np.allclose(found.times[1:], 100 / lam[1:] ** 2, rtol=INTEGRATION)
    # With value zero at the start the head is that of s'' = p e^{2s} from rest.
    expected = mpmath.quad(
        lambda s: 100 / mpmath.sqrt(mpmath.expm1(2 * s)), [0, 1, 10, mpmath.inf]
    )
    assert found.times[0] == pytest.approx(float(expected), rel=INTEGRATION)
    # A head without key and query drifts for ever.
    assert np.all(np.isinf(staircase([1.0], [[0, 0, 0]], [[0, 0, 0]], lam).times))
    weights = [[0, 0, 0], [1e-12, 0, 0]]
    both = staircase([1.0, 1e-12], weights, weights, lam)
    assert both.heads.tolist() == [1, -1, -1]
    assert both.times[0] == pytest.approx(1e12, rel=INTEGRATION)


def test_waits_of_any_length():
    """Long waits are found, nothing that grows is infinite, and giving up is an error."""
    weights = [[0, 0.01]]
    found = staircase([0.01], weights, weights, [1, 1e-5]).times
    assert found == pytest.approx([np.inf, 1e12], rel=INTEGRATION)
    assert np.all(np.isinf(staircase([0.0], [[1, 2]], [[0, 0]], [1, 0.5]).times))  # at rest
    assert np.all(np.isinf(staircase([-2.0], [[1, 1]], [[1, 1]], [1, 0.5]).times))  # runs away
    arithmetic_error("gave up", staircase, [0.0], [[1e-300, 0.01]], [[1e-300, 0.01]], [1, 1e-8])
    with pytest.raises(ValueError, match="so large that times fit"):
        staircase([1e-320], [[0, 1e-320]], [[0, 1e-320]], [1, 0.5])
    value_error("squares of eigenvalues", staircase, [0.01], weights, weights, [1, 1e-160])


# The flow of all heads, written from its formula


def flow(v, k, q, lam, duration):
    """Times and losses of tau v' = k^T R q and so on, R = Lambda^2 - E[beta beta^T] M Lambda."""
    moment = lam**2 + (lam + np.sum(lam)) * lam / N
    heads, (rows, dim) = len(v), k.shape[1:]

    def split(y):
        """Values, one for each row of a head, and the rows of keys and queries."""
        key, query = y[heads:].reshape(2, heads * rows, dim)
        return np.repeat(y[:heads], rows)[:, None], key, query

    def motion(_, y):
        value, key, query = split(y)
        model = (value * key).T @ query
        R = np.diag(lam**2) - moment[:, None] * model * lam
        by_key = query @ R.T
        by_query = key @ R
        by_value = np.sum((key * by_key).reshape(heads, -1), axis=1)
        return np.concatenate([by_value, (value * by_key).ravel(), (value * by_query).ravel()])

    def loss(y):
        value, key, query = split(y)
        M = (value * key).T @ query
        learned = np.sum(np.diag(M) * lam**2)
        return float(np.sum(lam) - 2 * learned + np.sum(moment[:, None] * M**2 * lam))

    start = np.concatenate([x.ravel() for x in (v, k, q)])
    run = solve_ivp(
        motion, (0, duration), start, method="LSODA", rtol=1e-9, atol=1e-9 * np.max(np.abs(start))
    )
    assert run.success
    return run.t, np.array([loss(y) for y in run.y.T])


def half_times(times, losses, lam):
    """Times at which the loss is half-way between two plateaus; infinite if it never is."""
    levels = plateau_losses(lam, context=N)
    middles = (levels[1:] + levels[:-1]) / 2
    found = np.interp(-middles, -np.minimum.accumulate(losses), times)
    return np.where(middles > losses[-1], found, np.inf)


@pytest.mark.slow
def test_drop_times_of_the_flow():
    """The error falls with the scale of the start; the loss is right except close to the drops."""
    errors = []
    for scale in (1e-2, 1e-4):
        start = random_start(0, 6, scale=scale)
        found = staircase(*start)
        assert np.all(np.diff(found.times) > 0)
        times, losses = flow(*start, LAM, 1.2 * found.times[-1])
        seen = half_times(times, losses, LAM)
        errors.append(np.max(np.abs(found.drop_times / seen - 1)))
        quiet = np.all(np.abs(times[:, None] / seen - 1) > 0.2, axis=1)
        if scale == 1e-4:
            assert np.max(np.abs(found.loss(times) - losses)[quiet]) < 2e-3
    assert errors[1] < min(errors[0] / 4, 5e-3), errors


def test_rank_two():
    """A head learns two directions, the second one soon after the first."""
    delays = []
    for scale in (1e-2, 1e-4):
        start = random_start(3, 4, rank=2, scale=scale)
        found = staircase(*start)
        assert found.heads[0] == found.heads[1] != found.heads[2] == found.heads[3]
        assert found.times[0] == found.times[1] < found.times[2] == found.times[3]
        seen = half_times(*flow(*start, LAM, 1.5 * found.times[-1]), LAM)
        delay, predicted = (x[1::2] - x[::2] for x in (seen, found.drop_times))
        assert np.allclose(predicted, delay, rtol=RANK_TWO)
        assert np.allclose(found.drop_times, seen, rtol=1000 * scale)
        delays.append(predicted)
    # The wait grows a hundredfold, the delay as a logarithm.
    assert np.all(delays[1] < 4 * delays[0])


def test_one_head_that_learns_every_direction():
    """The prediction takes the value as constant while a direction grows.

    That costs constants in units of 1/(lambda^2 v), which do not grow with the wait.
    """
    weights = 1e-5 * np.eye(4)[None]
    found = staircase([1e-5], weights, weights)
    times, losses = flow(np.array([1e-5]), weights, weights, LAM, found.drop_times[-1] + 300)
    delays = np.diff(half_times(times, losses, LAM))
    head_values = plateau_head_values(LAM, context=N)
    values = np.cumsum(head_values**3)[:-1] ** (1 / 3)
    missed = (np.diff(found.drop_times) - delays) * LAM[1:] ** 2 * values
    # The same for weights of 1e-3 and 1e-7 to 0.001.
    assert missed == pytest.approx([0.135, 0.009, 0.050], abs=0.01)
    # From a quarter to three quarters of a drop; predicted drops are 15 to 23 % longer.
    for j in (1, 2, 3):
        levels = np.interp([0.25, 0.75], [0, 1], found.losses[j : j + 2])
        own = np.linspace(found.drop_times[j] - 80, found.drop_times[j] + 80, 2000)
        durations = [
            np.diff(np.interp(-levels, -np.minimum.accumulate(loss), t))[0]
            for t, loss in ((own, found.loss(own)), (times, losses))
        ]
        assert 1.1 < durations[0] / durations[1] < 1.25


def test_rank_above_the_dimension():
    start = random_start(5, 2, rank=6, scale=1e-4)
    found = staircase(*start)
    assert len(set(found.heads.tolist())) == 1
    assert np.all(found.times == found.times[0])
    assert found.loss(np.inf) == pytest.approx(found.losses[-1], rel=FLOAT64)
    seen = half_times(*flow(*start, LAM, 1.5 * found.drop_times[-1]), LAM)
    assert np.allclose(found.drop_times, seen, rtol=0.02)


def test_rows_that_coincide_count_once():
    """A head of rank two with parallel rows is one of rank one."""
    v, k, q = random_start(11, 2, scale=1e-3)
    twice = (np.concatenate([0.6 * x, 0.8 * x], axis=1) for x in (k, q))
    both = staircase(v, *twice)
    one = staircase(v, k, q)
    assert both.heads.tolist() == one.heads.tolist()
    assert np.allclose(both.times, one.times, rtol=INTEGRATION)


# Equal eigenvalues


@pytest.mark.slow
def test_equal_eigenvalues_in_any_basis():
    """The flow does not know the basis of an eigenspace, and the prediction must not."""
    lam = np.array([0.4, 0.4, 0.4, 0.1])
    turn = np.eye(4)
    turn[:3, :3] = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    for rank in (1, 2):
        v, k, q = random_start(1, 6, rank=rank, scale=1e-4)
        found = staircase(v, k, q, lam)
        turned = staircase(v, k @ turn, q @ turn, lam)
        assert turned.heads.tolist() == found.heads.tolist()
        assert np.allclose(turned.drop_times, found.drop_times, rtol=LATER)
        seen = half_times(*flow(v, k, q, lam, 1.2 * found.times[-1]), lam)
        assert np.allclose(found.drop_times, seen, rtol=0.02)


# Few heads, no weights


def test_fewer_heads_than_directions():
    start = random_start(4, 2, scale=1e-3)
    found = staircase(*start)
    assert found.heads[2:].tolist() == [-1, -1]
    assert np.all(np.isinf(found.times[2:]))
    assert np.all(np.isinf(found.drop_times[2:]))
    assert found.loss(np.inf) == pytest.approx(found.losses[2], rel=FLOAT64)
    _, losses = flow(*start, LAM, 3 * found.times[1])
    assert losses[-1] == pytest.approx(found.losses[2], rel=1e-4)
    three = staircase(*random_start(4, 1, rank=3, scale=1e-3))
    assert three.heads.tolist() == [0, 0, 0, -1]


def test_only_small_weights_wait():
    """The rows are the plateaus, and the figure ends after the last drop."""
    v, k, q = ([[0.3], [0.2]] * np.eye(2) for _ in range(3))
    for size, waits in ((1e-3, True), (3.0, False)):
        weights = {"value": size * v.sum(axis=1), "key": size * k, "query": size * q}
        steps = separate_attention_staircase(**weights, eigenvalues=[1, 0.5], context=9)
        assert steps.waits == waits
        assert [row["learned"] for row in steps.rows()] == [0, 1, 2]
        assert [row["half_drop_time"] for row in steps.rows()] == [None, *steps.drop_times]
        assert steps.end > max(steps.drop_times)


def test_zero_weights_stay():
    zero = np.zeros((3, 4))
    found = staircase(np.zeros(3), zero, zero)
    assert np.all(np.isinf(found.times))
    assert found.heads.tolist() == [-1] * 4
    assert np.allclose(found.loss([0, 10, np.inf]), found.losses[0], rtol=FLOAT64)


# Loss


def test_loss():
    start = random_start(2, 5, scale=1e-4)
    found = staircase(*start, noise_variance=0.2)
    losses = plateau_losses(LAM, context=N, noise_variance=0.2)
    assert np.array_equal(found.losses, losses)
    expected = fixed_point_losses(LAM, context=N, noise_variance=0.2).losses[-1]
    assert found.losses[-1] == pytest.approx(expected, rel=FLOAT64)
    assert found.loss(0) == pytest.approx(losses[0], rel=1e-6)
    assert found.loss(math.inf) == pytest.approx(losses[-1], rel=FLOAT64)
    assert np.shape(found.loss(3.0)) == ()
    times = np.array([[9e5, 0.0, 3e4], [np.inf, 1e5, 2e3]])
    values = found.loss(times)
    assert values.shape == times.shape
    each = np.array([found.loss(t) for t in times.ravel()]).reshape(times.shape)
    assert np.array_equal(values, each)
    dense = found.loss(np.geomspace(1e2, 1e8, 3000))
    assert np.all(np.diff(dense) <= FLOAT64)
    assert found.loss(np.empty(0)).shape == (0,)
    # Half of every drop, and the plateau in between.
    middles = (losses[1:] + losses[:-1]) / 2
    assert np.allclose(found.loss(found.drop_times), middles, rtol=1e-3)
    between = np.sqrt(found.times[1:] * found.times[:-1])
    assert np.allclose(found.loss(between), losses[1:-1], rtol=1e-3)
    later = staircase(*random_start(3, 4, rank=2, scale=1e-6), noise_variance=0.2)
    assert np.allclose(later.loss(later.drop_times), middles, rtol=1e-2)


AXES = np.eye(3)
HEADS_OF_RANK = {1: AXES[:, None, :], 2: np.array([[AXES[0], AXES[1]], [AXES[2], 0.1 * AXES[0]]])}
"""Directions of the rows of heads, (heads, rank, 3)."""


@pytest.mark.parametrize("rank", HEADS_OF_RANK)
def test_half_way_down_each_step(rank):
    """From weights so small that the drops are far apart."""
    size = {"lam": np.array([1.0, 0.5, 0.25]), "context": 30, "noise_variance": 0.1}
    directions = HEADS_OF_RANK[rank]
    rng = np.random.default_rng(rank)
    value, norms = 1e-4 * rng.uniform(0.8, 1.2, (2, len(directions)))
    key = norms[:, None, None] * directions
    stair = staircase(value, key, rng.uniform(0.9, 1.1) * key, **size)
    levels = plateau_losses(size.pop("lam"), **size)
    assert stair.loss(0.0) == pytest.approx(levels[0], rel=1e-5)
    assert stair.loss(np.inf) == pytest.approx(levels[-1], rel=1e-5)
    middles = (levels[1:] + levels[:-1]) / 2
    assert stair.loss(stair.drop_times) == pytest.approx(middles, rel=1e-5)
