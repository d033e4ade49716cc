"""The one-step learning rate against term-by-term expectations and published numbers."""

import itertools

import mpmath
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from iclimit.asymptotics.descent import learning_rate_loss, optimal_learning_rate
from iclimit.asymptotics.descent.learning_rate import MOMENTS

# A handful of operations, all on positive terms; measured worst 9e-16.
FLOAT64 = 1e-12
# The published numbers are rounded to the last digit printed, one of them (10.6597) twice.
PRINTED = 1.05

m2, m3, m4, a2, s2, eta = sympy.symbols("m2 m3 m4 a2 s2 eta", positive=True)


def expected_loss(N, d):
    """Expand the squared error of one step of the sum and integrate it monomial by monomial."""
    x = sympy.symbols(f"x:{N * d}")
    q = sympy.symbols(f"q:{d}")
    w = sympy.symbols(f"w:{d}")
    e = sympy.symbols(f"e:{N + 1}")
    rows = [x[n * d : (n + 1) * d] for n in range(N)]

    def dot(a, b):
        return sum(i * j for i, j in zip(a, b, strict=True))

    error = dot(w, q) + e[N]
    error -= eta * sum((dot(w, row) + e[n]) * dot(row, q) for n, row in enumerate(rows))
    moments = {0: 1, 1: 0, 2: m2, 3: m3, 4: m4}
    variance = (
        [moments] * ((N + 1) * d) + [{0: 1, 1: 0, 2: a2}] * d + [{0: 1, 1: 0, 2: s2}] * (N + 1)
    )
    terms = sympy.Poly(sympy.expand(error**2), *x, *q, *w, *e).terms()
    return sympy.expand(
        sum(
            c * sympy.prod([table[k] for table, k in zip(variance, powers, strict=True)])
            for powers, c in terms
        )
    )


@pytest.mark.parametrize(("N", "d"), [(1, 1), (2, 1), (1, 2), (2, 2), (3, 2)])
def test_loss_is_the_mean_over_every_variable(N, d):
    """The third moment is left free: it must drop out."""
    brute = expected_loss(N, d)
    setting = {"context": sympy.Integer(N), "dim": d, "input_law": (m2, m4), "noise_variance": s2}
    setting |= {"task_variance": a2}
    loss = learning_rate_loss(eta, **setting, normalization="sum")
    assert sympy.expand(loss - brute) == 0
    mean = learning_rate_loss(N * eta, **setting)
    assert sympy.expand(mean - brute) == 0
    (rate,) = sympy.solve(sympy.diff(brute, eta), eta)
    best = optimal_learning_rate(**setting, normalization="sum")
    assert sympy.simplify(best.rate - rate) == 0
    assert sympy.simplify(best.loss - brute.subs(eta, rate)) == 0


DENSITIES = {
    "gaussian": lambda x: sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi),
    "laplace": lambda x: sympy.exp(-x) / 2,
    "uniform": lambda x: sympy.Piecewise((sympy.Rational(1, 2), x < 1), (0, True)),
}


def test_moments_of_the_named_laws():
    for law, order in itertools.product(MOMENTS, [2, 4]):
        x = sympy.Symbol("x", positive=True)
        if law == "rademacher":
            value = sympy.Integer(1)
        else:
            value = 2 * sympy.integrate(x**order * DENSITIES[law](x), (x, 0, sympy.oo))
        assert value == sympy.Rational(*MOMENTS[law][order // 2 - 1])


HALF = (1 / 12, 1 / 80)
"""Moments of U(-1/2, 1/2), the law in the code of von Oswald et al."""


def test_settings_of_the_published_experiments():
    for law, context, rate, half_loss in (
        (HALF, 10, 6.06061, 0.20623),
        (HALF, 4, 3.47826, 0.29589),
        (HALF, 20, 8.05369, 0.13702),
        ("uniform", 10, 1.51515, 0.82492),
    ):
        best = optimal_learning_rate(context=context, dim=10, input_law=law)
        assert abs(best.rate - rate) < PRINTED * 5e-6
        assert abs(best.loss / 2 - half_loss) < PRINTED * 5e-6


def test_settings_checked_by_simulation():
    """Four hundred thousand tasks each, table of section 1.3 of the theory notes."""
    for law, rate, loss, digits in (
        ("uniform", 0.181753, 1.74013, 5e-6),
        ("gaussian", 0.058020, 4.68191, 5e-6),
        ("rademacher", 0.065637, 3.90502, 5e-6),
        ("laplace", 0.024854, 10.6597, 5e-5),
        ((1, 9), 0.043038, 6.21013, 5e-6),  # Exp(1) - 1, skewed,
    ):
        options = {"context": 10, "dim": 6, "input_law": law, "noise_variance": 0.4}
        best = optimal_learning_rate(**options, task_variance=1.7, normalization="sum")
        assert abs(best.rate - rate) < PRINTED * 5e-7
        assert abs(best.loss - loss) < PRINTED * digits


GRID = list(
    itertools.product(
        [1, 2, 1e3, 1e12],  # context
        [1, 3, 1e12],  # dim
        ["gaussian", "rademacher", "laplace", (1e-6, 1e-11), (1e5, 3e12)],
        [0.0, 1e-300, 1e-12, 1e6],
        [1e-6, 1.0, 1e6],
    )
)


def test_float64_within_the_promise():
    worst = 0.0
    with mpmath.workdps(50):
        for N, d, law, noise, task in GRID:
            exact_law = law if isinstance(law, str) else tuple(map(mpmath.mpf, law))
            exact = {"context": mpmath.mpf(N), "dim": d, "input_law": exact_law}
            plain = {"context": N, "dim": d, "input_law": law}
            more = {"noise_variance": noise, "task_variance": task}
            best = optimal_learning_rate(**plain, **more)
            truth = optimal_learning_rate(**exact, **more)
            pairs = [(best.rate, truth.rate), (best.loss, truth.loss)]
            for factor in (0.5, 1.25):
                rate = factor * float(truth.rate)
                at = [learning_rate_loss(rate, **setting, **more) for setting in (plain, exact)]
                pairs.append((at[0], at[1]))
            for value, target in pairs:
                error = abs(value - target) / target if target else abs(value)
                worst = max(worst, float(error))
    assert worst < FLOAT64


def test_random_signs_in_one_dimension_need_one_example():
    best = optimal_learning_rate(context=1, dim=1, input_law="rademacher")
    assert (best.rate, best.loss) == (1.0, 0.0)


positive = st.floats(1e-3, 1e3)
settings_ = st.fixed_dictionaries(
    {
        "context": st.integers(1, 1000),
        "dim": st.integers(1, 1000),
        "input_law": st.one_of(
            st.sampled_from(sorted(MOMENTS)),
            st.tuples(positive, st.floats(1, 50)).map(lambda p: (p[0], p[1] * p[0] ** 2)),
        ),
        "noise_variance": st.one_of(st.just(0.0), positive),
        "task_variance": positive,
        "normalization": st.sampled_from(["mean", "sum"]),
    }
)


@given(settings_, st.floats(-3, 3))
def test_no_other_rate_is_better(setting, factor):
    best = optimal_learning_rate(**setting)
    noise = setting["noise_variance"]
    null = learning_rate_loss(0.0, **setting)
    assert noise * (1 - FLOAT64) <= best.loss <= null * (1 + FLOAT64)
    assert learning_rate_loss(best.rate, **setting) == pytest.approx(best.loss, rel=FLOAT64)
    assert learning_rate_loss(factor * best.rate, **setting) >= best.loss * (1 - FLOAT64)


@given(settings_, st.floats(1, 10))
def test_monotone_in_context_noise_and_dimension(setting, factor):
    best = optimal_learning_rate(**setting)
    for name, sign in (("context", -1), ("noise_variance", 1), ("dim", 1)):
        other = optimal_learning_rate(**{**setting, name: setting[name] * factor})
        assert sign * (other.loss - best.loss) >= -FLOAT64 * best.loss


def test_latex_of_the_symbolic_rate():
    N, d, sigma, a = sympy.symbols("N d sigma a", positive=True)
    best = optimal_learning_rate(
        context=N, dim=d, noise_variance=sigma**2, task_variance=a**2, normalization="sum"
    )
    assert sympy.simplify(best.rate - a**2 / (a**2 * (N + d + 1) + sigma**2)) == 0
    assert r"\sigma^{2}" in sympy.latex(best.rate)
