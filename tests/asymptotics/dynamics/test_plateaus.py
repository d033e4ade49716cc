"""Plateaus, fixed points and the growth of a head against explicit moments and integrals."""

import itertools
from functools import lru_cache

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from iclimit.asymptotics.dynamics import (
    escape_time,
    fixed_point_losses,
    growth_time,
    head_growth,
    plateau_head_values,
    plateau_losses,
    time_from_pole,
)
from iclimit.asymptotics.dynamics.plateaus import PredictedTraining
from iclimit.drawing import new_figure

# A handful of operations on positive terms; measured 9e-15.
FLOAT64 = 1e-12
# An integration with tolerance 1e-12 over a growth by orders of magnitude.
FLOW = 1e-9
# Near the fixed point the distance is known to rounding of the value only.
RESOLVED = 4e-15

SPECTRUM = (1.0, 0.7, 0.45, 0.25)
s2 = sympy.Symbol("s2", positive=True)


@lru_cache
def population_loss(N, D):
    """Loss of beta^T M x_q, integrated monomial by monomial; M and the eigenvalues."""
    lam = sympy.symbols(f"l:{D}", positive=True)
    M = sympy.Matrix(D, D, sympy.symbols(f"m:{D * D}"))
    x = sympy.symbols(f"x:{N * D}")
    q = sympy.symbols(f"q:{D}")
    w = sympy.symbols(f"w:{D}")
    e = sympy.symbols(f"e:{N + 1}")
    rows = [x[n * D : (n + 1) * D] for n in range(N)]
    labels = [sum(a * b for a, b in zip(w, row, strict=True)) + e[n] for n, row in enumerate(rows)]
    error = sum(a * b for a, b in zip(w, q, strict=True)) + e[N]
    for label, row in zip(labels, rows, strict=True):
        error -= label * (sympy.Matrix([row]) * M * sympy.Matrix(q))[0] / N
    variables = (*x, *q, *w, *e)
    variances = [*lam * N, *lam, *[1] * D, *[s2] * (N + 1)]
    loss = sympy.Integer(0)
    for powers, coefficient in sympy.Poly(sympy.expand(error**2), *variables).terms():
        if all(k % 2 == 0 for k in powers):
            pairs = zip(powers, variances, strict=True)
            loss += coefficient * sympy.prod(
                sympy.factorial2(k - 1) * v ** (k // 2) for k, v in pairs
            )
    return sympy.expand(loss), M, lam


@pytest.mark.parametrize(("N", "D"), [(1, 1), (3, 1), (2, 2)])
def test_fixed_points_are_exact(N, D):
    """Loss at the fixed points, and its gradient in the weights of D heads, for symbols."""
    loss, M, lam = population_loss(N, D)
    trace = sum(lam)
    points = fixed_point_losses(lam, context=sympy.Integer(N), noise_variance=s2)
    values = plateau_head_values(lam, context=sympy.Integer(N), noise_variance=s2)
    assert points.learned.tolist() == [list(p) for p in itertools.product([False, True], repeat=D)]
    for learned, expected in zip(points.learned, points.losses, strict=True):
        # The weights of head d: v, k = q = v e_d.
        at = {
            M[i, j]: values[i] ** 3 if i == j and learned[i] else 0
            for i, j in itertools.product(range(D), repeat=2)
        }
        assert sympy.simplify(loss.subs(at) - expected) == 0
        slope = sympy.Matrix(D, D, [sympy.diff(loss, entry).subs(at) for entry in M])
        for d in range(D):
            size = values[d] if learned[d] else 0
            axis = sympy.Matrix([size if i == d else 0 for i in range(D)])
            gradient = [axis.T * slope * axis, size * slope * axis, size * slope.T * axis]
            assert all(sympy.simplify(entry) == 0 for block in gradient for entry in block)
    assert trace + s2 == points.losses[0]
    plateaus = plateau_losses(lam, context=sympy.Integer(N), noise_variance=s2)
    for m, plateau in enumerate(plateaus):
        row = points.learned.tolist().index([d < m for d in range(D)])
        assert sympy.simplify(plateau - points.losses[row]) == 0


def test_plateaus_in_float64_and_fifty_digits():
    rng = np.random.default_rng(1)
    for N, noise, spread in itertools.product([1, 31, 1e12], [0.0, 1e-6, 3.0], [0, 1, 30]):
        lam = np.exp(spread * rng.uniform(-1, 1, 6))
        more = {"context": N, "noise_variance": noise}
        with mpmath.workdps(50):
            exact = [mpmath.mpf(x) for x in lam]
            high = {name: mpmath.mpf(value) for name, value in more.items()}
            for function in (plateau_losses, plateau_head_values):
                truth = np.array(function(exact, **high), dtype=object)
                values = function(lam, **more)
                assert np.max(np.abs(values / truth - 1)) < FLOAT64
            truth = np.array(fixed_point_losses(exact, **high).losses, dtype=object)
            assert np.max(np.abs(fixed_point_losses(lam, **more).losses / truth - 1)) < FLOAT64


def test_plateaus_are_sorted_and_broadcast():
    lam = np.random.default_rng(2).uniform(0.1, 1, (3, 1, 5))
    N = np.array([10.0, 40.0])
    losses = plateau_losses(lam, context=N, noise_variance=0.1)
    assert losses.shape == (3, 2, 6)
    assert np.all(np.diff(losses, axis=-1) < 0)
    # The largest eigenvalues are learned first, and the steps get smaller.
    assert np.all(np.diff(losses, 2, axis=-1) > 0)
    assert plateau_head_values(lam, context=N).shape == (3, 2, 5)
    for i, j in np.ndindex(3, 2):
        one = plateau_losses(lam[i, 0, ::-1], context=N[j], noise_variance=0.1)
        assert np.allclose(one, losses[i, j], rtol=FLOAT64, atol=0)
    zero = plateau_losses([0.5, 0.0], context=7)
    assert np.allclose(zero, plateau_losses([0.5], context=7)[[0, 1, 1]], rtol=FLOAT64, atol=0)


def quadrature_time(v, start, lam, trace, N, noise):
    """Time by numerical integration of 1 over the speed."""
    a = lam * (1 + (1 + (trace + noise) / lam) / N)
    ends = [start]
    while ends[-1] * 4 < v:
        ends.append(ends[-1] * 4)
    return mpmath.quad(lambda s: 1 / (lam**2 * s**2 - lam**2 * a * s**5), [*ends, v])


DIRECTIONS = [
    {"eigenvalue": lam, "trace": trace, "context": N, "noise_variance": noise}
    for lam, trace, N, noise in [
        (1.0, 2.4, 31, 0.0),
        (0.25, 2.4, 31, 0.5),
        (1e-3, 1e-3, 1, 0.0),
        (40.0, 900.0, 1e9, 3.0),
    ]
]


def fixed_point(setting):
    lam, trace, N, noise = setting.values()
    return (lam * (1 + (1 + (trace + noise) / lam) / N)) ** (-mpmath.mpf(1) / 3)


@pytest.mark.parametrize("setting", DIRECTIONS)
def test_growth_time_against_quadrature(setting):
    with mpmath.workdps(60):
        exact = {name: mpmath.mpf(value) for name, value in setting.items()}
        end = fixed_point(exact)
        for low, high in ((1e-12, 0.5), (1e-3, 0.99), (0.3, 0.3000001), (0.9, 0.95), (0.01, 0.02)):
            v0, v = (mpmath.mpf(float(part * end)) for part in (low, high))
            truth = quadrature_time(v, v0, *exact.values())
            high_precision = growth_time(v, initial_value=v0, **exact)
            assert abs(high_precision / truth - 1) < 1e-30
            value = growth_time(float(v), initial_value=float(v0), **setting)
            assert abs(value / truth - 1) < FLOAT64
        # From the pole, where the value is infinitely small: the escape time is left out.
        tiny = mpmath.mpf("1e-25") * end
        pole = escape_time(1, eigenvalue=exact["eigenvalue"])
        for part in (1e-9, 0.5, 0.99):
            v = mpmath.mpf(float(part * end))
            limit = growth_time(v, initial_value=tiny, **exact) - pole / tiny
            scale = 1 / (exact["eigenvalue"] ** 2 * v)
            assert abs(time_from_pole(v, **exact) - limit) < 1e-30 * scale
            assert abs(time_from_pole(float(v), **setting) - limit) < FLOAT64 * scale


def test_growth_time_in_float64_up_to_both_ends():
    for setting in DIRECTIONS:
        with mpmath.workdps(50):
            exact = {name: mpmath.mpf(value) for name, value in setting.items()}
            end = fixed_point(exact)
            parts = [1e-300, 1e-100, 1e-9, 0.1, 0.6, 0.9, 0.999, 1 - 1e-6, 1 - 1e-12]
            for low, high in itertools.combinations(parts, 2):
                v0 = float(low * end)
                v = float(high * end)
                truth = growth_time(mpmath.mpf(v), initial_value=mpmath.mpf(v0), **exact)
                allowed = FLOAT64 + RESOLVED / (1 - high)
                assert abs(growth_time(v, initial_value=v0, **setting) / truth - 1) < allowed
                near = np.nextafter(v0, 2 * v0)
                truth = growth_time(mpmath.mpf(near), initial_value=mpmath.mpf(v0), **exact)
                allowed = FLOAT64 + RESOLVED / (1 - low)
                assert abs(growth_time(near, initial_value=v0, **setting) / truth - 1) < allowed


def test_fixed_point_takes_for_ever():
    for setting in DIRECTIONS:
        end = float(fixed_point(setting))
        assert growth_time(end, initial_value=0.1 * end, **setting) > 10
        assert time_from_pole(0.0, **setting) == -np.inf
        assert head_growth(np.inf, **setting) == pytest.approx(end, rel=RESOLVED)
        assert head_growth(-np.inf, **setting) == 0
    third = sympy.Rational(1, 3)
    unit = {"eigenvalue": third, "trace": third, "context": sympy.Integer(1)}
    assert growth_time(1, initial_value=sympy.Rational(1, 2), **unit) == sympy.oo
    assert time_from_pole(1, **unit) == sympy.oo
    assert growth_time(1.0, initial_value=0.5, eigenvalue=0.25, trace=0.5, context=1) == np.inf


def test_symbolic_growth_time_solves_the_flow():
    v, v0, lam, T, N, s = sympy.symbols("v v0 lambda T N s", positive=True)
    more = {"eigenvalue": lam, "trace": T, "context": N, "noise_variance": s}
    a = lam * (1 + (1 + (T + s) / lam) / N)
    speed = lam**2 * v**2 - lam**2 * a * v**5
    numbers = {v: "2/5", v0: "1/10", lam: "9/10", T: 2, N: 12, s: "3/10"}
    for time in (growth_time(v, initial_value=v0, **more), time_from_pole(v, **more)):
        slope = (sympy.diff(time, v) * speed).subs(numbers)
        assert abs(slope.evalf(30) - 1) < 1e-25
    assert growth_time(v, initial_value=v, **more) == 0


def test_head_growth_inverts_the_time():
    for setting in DIRECTIONS:
        worst = 0.0
        with mpmath.workdps(40):
            exact = {name: mpmath.mpf(value) for name, value in setting.items()}
            end = fixed_point(exact)
            parts = [1e-290, 1e-150, 1e-12, 1e-3, 0.2, 0.5, 0.7, 0.8, 0.95, 1 - 1e-4, 1 - 1e-15]
            for part in (*map(mpmath.mpf, parts), 1 - mpmath.mpf("1e-30")):
                v = part * end
                t = float(time_from_pole(v, **exact))
                # The rounded time is what the function is given.
                slope = exact["eigenvalue"] ** 2 * v**2 * (1 - (v / end) ** 3)
                truth = v + slope * (mpmath.mpf(t) - time_from_pole(v, **exact))
                worst = max(worst, float(abs(head_growth(t, **setting) / truth - 1)))
        assert worst < FLOAT64


@given(st.floats(-1e3, 1e3), st.floats(0.01, 10), st.floats(1, 20), st.floats(1, 1e6))
def test_head_growth_is_monotone_and_within_its_ends(t, lam, ratio, N):
    more = {"eigenvalue": lam, "trace": lam * ratio, "context": N}
    values = head_growth(t + np.array([0, 0.1, 1.0]), **more)
    assert np.all(np.diff(values) >= -FLOAT64 * values[0])
    assert 0 < values[0] <= head_growth(np.inf, **more) * (1 + FLOAT64)


@pytest.mark.parametrize(
    ("eigenvalue", "t", "expected"),
    [(1e-200, -np.inf, 0.0), (1e-160, -1e300, 1e20), (1.0, -1e300, 1e-300), (1e150, -1.0, 1e-300)],
)
def test_head_growth_long_before_the_pole(eigenvalue, t, expected):
    """The value is one over the time and the squared eigenvalue, which may leave float64."""
    setting = {"eigenvalue": eigenvalue, "trace": 2 * eigenvalue, "context": 31}
    assert head_growth(t, **setting) == pytest.approx(expected, rel=FLOAT64, abs=0)


def test_head_growth_takes_all_times_but_no_nan():
    setting = {"eigenvalue": 1e200, "trace": 2e200, "context": 31}
    values = head_growth([-np.inf, -1.0, 0.0, 1.0, np.inf], **setting)
    assert values[0] == 0 < values[2] < values[3] == values[4]
    with pytest.raises(ValueError, match="t must be a number, got nan"):
        head_growth(np.nan, **setting)


def test_head_growth_follows_the_flow():
    lam = 0.7
    trace = 2.4
    N = 31
    noise = 0.2
    more = {"eigenvalue": lam, "trace": trace, "context": N, "noise_variance": noise}
    a = lam * (1 + (1 + (trace + noise) / lam) / N)
    start = 0.01
    begin = float(time_from_pole(start, **more))
    times = np.linspace(0, 1.05, 40) * -begin
    run = solve_ivp(
        lambda _, v: lam**2 * v**2 * (1 - a * v**3),
        (0, times[-1]),
        [start],
        method="DOP853",
        t_eval=times,
        rtol=1e-12,
        atol=1e-14,
    )
    # The blow-up magnifies errors of the start by the ratio of the values.
    assert np.max(np.abs(head_growth(begin + times, **more) / run.y[0] - 1)) < FLOW
    assert head_growth(begin + times[:, None], **more | {"context": [31, 50]}).shape == (40, 2)
    assert isinstance(head_growth(1, **more), float)


def test_aligned_start_goes_through_the_plateaus():
    """All weights of four heads: each time of half a drop is that of its own head."""
    lam = np.array(SPECTRUM)
    N = 31
    w = 0.02
    trace = lam.sum()
    B = lam**2 * (1 + (1 + lam.sum() / lam) / N)

    def derivative(_, y):
        v = y[:4]
        k = y[4:20].reshape(4, 4)
        q = y[20:].reshape(4, 4)
        R = np.diag(lam**2) - B[:, None] * np.einsum("h,hi,hj->ij", v, k, q) * lam
        by_key = v * (R @ q.T)
        by_query = v * (R.T @ k.T)
        by_value = np.einsum("hi,ij,hj->h", k, R, q)
        return np.concatenate([by_value, by_key.T.ravel(), by_query.T.ravel()])

    start = np.concatenate([w * np.ones(4), w * np.eye(4).ravel(), w * np.eye(4).ravel()])
    ends = plateau_head_values(lam, context=N)
    halves = growth_time(0.5 * ends, initial_value=w, eigenvalue=lam, trace=trace, context=N)
    run = solve_ivp(
        derivative, (0, halves[-1]), start, method="DOP853", t_eval=halves, rtol=1e-11, atol=1e-13
    )
    assert np.allclose(run.y[:4].diagonal(), 0.5 * ends, rtol=1e-6, atol=0)
    escapes = escape_time(w, eigenvalue=lam)
    assert np.all(np.abs(halves / escapes - 1) < 2 * w / ends)


class ThreeDrops(PredictedTraining):
    """A loss that drops at given times, before 10."""

    def __init__(self, *drops):
        self._drops = np.array(drops)

    end = 10.0
    drops = property(lambda self: self._drops)

    def loss(self, t):
        return 3.0 - (np.asarray(t)[..., None] > self._drops).sum(-1)


@pytest.mark.parametrize(
    ("drops", "scale"),
    [((0.02, 0.05, 6.0), "log"), ((2.0, 5.0, 8.0), "linear"), ((9.0,), "linear")],
)
def test_times_are_logarithmic_where_drops_would_merge(drops, scale):
    figure = new_figure()
    ax = figure.subplots()
    ThreeDrops(*drops).draw(ax)
    assert ax.get_xscale() == scale
    assert set(ax.lines[0].get_ydata()) == set(range(3 - len(drops), 4))
