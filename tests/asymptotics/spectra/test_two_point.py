"""Two-point equivalents: 40 digits by another contour, exact moments, sampled covariances."""

import functools
import itertools
from fractions import Fraction
from math import comb, prod

import mpmath
import numpy as np
import pytest
from pair_moments import pair_moments
from scipy.optimize import brentq

from iclimit.asymptotics.spectra import Atoms, TwoPoint, Uniform

# What the contours are for; measured 1e-12 of the largest.
PROMISED = 1e-10
# Rounding of sums of a few products.
ROUNDING = 1e-12

VALUES, OUTER = np.array([0.1, 0.4, 1.0, 1.5]), np.array([2.0, 1.0, 0.5, 3.0])


def by_fixed_point(function, alpha):
    """The double integral on a circle in the plane of the eigenvalues, 40 digits.

    The resolvent of each point is (s lam - z)^-1 with s from fixed-point iteration.
    """
    with mpmath.workdps(40):
        lam = [mpmath.mpf(float(x)) for x in VALUES]
        B = [mpmath.mpf(float(x)) for x in OUTER]
        aspect = mpmath.mpf(alpha)
        count = 40
        top = max(lam) * (1 + 1 / mpmath.sqrt(aspect)) ** 2
        rows = []
        for j in range(count // 2):
            z = top * (1 + 3 * mpmath.expjpi(mpmath.mpf(2 * j + 1) / count)) / 2
            s = mpmath.mpf(1)
            for _ in range(400):
                before = s
                s = 1 / (1 + sum(x / (s * x - z) for x in lam) / 4 / aspect)
                if abs(s - before) < mpmath.mpf(10) ** -38:
                    break
            F = [1 / (s * x - z) for x in lam]
            rows.append((s, F, function(z) * (z - top / 2) / count))
        rows += [(mpmath.conj(s), [mpmath.conj(f) for f in F], mpmath.conj(w)) for s, F, w in rows]
        total = mpmath.mpf(0)
        for s1, F1, w1 in rows:
            for s2, F2, w2 in rows:
                pair = [f * g / 4 for f, g in zip(F1, F2, strict=True)]
                plain = sum(x * b * f for x, b, f in zip(lam, B, pair, strict=True))
                square = sum(x * x * f for x, f in zip(lam, pair, strict=True))
                # With A = lam the sums of B lam F F and of A B F F are the same.
                t = s1 * s2 / aspect * square
                total += w1 * w2 * plain * (1 + t / (1 - t))
        return total.real


@pytest.mark.machine
@pytest.mark.parametrize("alpha", [0.7, 3.0])
def test_forty_digits(alpha):
    law = TwoPoint(Atoms(VALUES), alpha=alpha)
    value, error = law.mean(lambda z: (1 - 0.4 * z) ** 3, outer=OUTER, inner=VALUES)
    exact = float(by_fixed_point(lambda z: (1 - z * mpmath.mpf(0.4)) ** 3, alpha))
    assert value == pytest.approx(exact, rel=PROMISED)
    # The error estimate is honest, and small.
    assert abs(value - exact) <= error + 1e-14 * exact
    assert error < PROMISED * value


def constant_steps(z, rate, steps):
    return (1 - rate * z) ** steps


@pytest.mark.machine
@pytest.mark.parametrize("alpha", [0.05, 1.0, 1.001, 40.0])
@pytest.mark.parametrize(("steps", "share"), [(6, 1.9), (100, 1.0)])
def test_many_steps_against_power_series(alpha, steps, share):
    """Also narrow spectra, a spectrum that reaches its edge, and rates next to divergence."""
    lam = np.arange(30, 0, -1) ** -1.2
    for values in (lam, 1 + 0.01 * lam, np.array([1.0])):
        outer = values + 1
        law = TwoPoint(Atoms(values), alpha=alpha)
        rate = share / law.edges[1]
        series = pair_moments(
            values, order=steps, alpha=alpha, outer=outer, inner=values, rate=rate
        )
        function = functools.partial(constant_steps, rate=rate, steps=steps)
        value, error = law.mean(function, outer=outer, inner=values)
        # Both are as accurate as rounding of their largest terms, of size 1, allows.
        assert abs(value - series[-1, -1]) < PROMISED * value + 1e-15
        assert abs(value - series[-1, -1]) < 10 * error + ROUNDING * value + 1e-15


def test_exact_moments():
    """Fractions against second moments by hand and the expansion of steps into powers."""
    lam = [Fraction(1, 2), Fraction(3, 2), Fraction(1)]
    outer = [Fraction(1), Fraction(3), Fraction(2)]
    alpha = Fraction(5, 3)
    moments = pair_moments(lam, order=3, alpha=alpha, outer=outer, inner=lam)
    mean = [sum(b * x**k for b, x in zip(outer, lam, strict=True)) / 3 for k in range(4)]
    square = sum(x * x for x in lam) / 3
    assert moments[0, 1] == mean[2]
    assert moments[1, 1] == mean[3] + mean[1] * square / alpha
    rate = Fraction(2, 7)
    stepped = pair_moments(lam, order=3, alpha=alpha, outer=outer, inner=lam, rate=rate)
    powers = [comb(3, k) * (-rate) ** k for k in range(4)]
    assert stepped[3, 3] == np.array(powers) @ moments @ np.array(powers)
    value, _ = TwoPoint(Atoms([0.5, 1.0, 1.5]), alpha=5 / 3).mean(
        lambda z: (1 - 2 / 7 * z) ** 3, outer=[1.0, 2.0, 3.0], inner=lambda x: x
    )
    assert value == pytest.approx(float(stepped[3, 3]), rel=ROUNDING)


@pytest.mark.parametrize("alpha", [0.6, 2.5, np.inf])
@pytest.mark.parametrize("width", [0.3, 0.9])
def test_width_by_freeness(alpha, width):
    r"""One power: the mean of Pi X Pi is a^2 X + a (1 - a) tr X/d."""
    law = TwoPoint(Atoms(VALUES), alpha=alpha, width_ratio=width)
    found, _ = law.mean(lambda z: z, outer=OUTER, inner=VALUES)
    aspect = min(alpha, 1e18)
    inside, plain = (
        pair_moments(VALUES, order=1, alpha=aspect, outer=OUTER, inner=inner)[1, 1]
        for inner in (VALUES, np.ones(4))
    )
    expected = width**2 * inside + width * (1 - width) * VALUES.mean() * plain
    assert found == pytest.approx(expected, rel=PROMISED)
    # The trace of a single function: E tr A M Pi = a^2 S plus a (1 - a) tr S tr A.
    form = law.form(lambda z: z[None], outer=OUTER, inner=VALUES)
    trace = width**2 * (VALUES**2).mean() + width * (1 - width) * VALUES.mean() ** 2
    assert form.single(form.nodes) == pytest.approx(trace, rel=PROMISED)


def non_crossing(count):
    """Non-crossing partitions of 0, ..., count - 1."""
    if not count:
        yield []
        return
    for size in range(count):
        for others in itertools.combinations(range(1, count), size):
            block = [0, *others]
            gaps = itertools.pairwise([*block, count])
            inner = [[(a, part) for part in non_crossing(b - a - 1)] for a, b in gaps]
            for parts in itertools.product(*inner):
                yield [block, *([x + a + 1 for x in each] for a, part in parts for each in part)]


@functools.cache
def free_cumulant(rank, order):
    """Of a projection, all of whose moments are its rank."""
    rest = (each for each in non_crossing(order) if len(each) > 1)
    return rank - sum(prod(free_cumulant(rank, len(b)) for b in each) for each in rest)


def by_partitions(p, alpha, rank):
    r"""Mean of B p(M)' A p(M), M = Pi S, over partitions of the projections Pi; A = Lambda.

    In a mean of Pi X_1 Pi X_2 ... each partition has the cumulants of its blocks and the means of
    the products of X in those of its complement, moments of S that are exact.
    """
    lam, B = ([Fraction(str(x)) for x in each.tolist()] for each in (VALUES, OUTER))
    given = {"order": 2 * len(p), "alpha": alpha}
    one = [Fraction(1)] * len(lam)
    moments = {
        (b, a): pair_moments(lam, outer=B if b else one, inner=lam if a else one, **given)
        for b in (False, True)
        for a in (False, True)
    }

    def mean(word):
        """Of a cyclic word in A, B and S."""
        start = word.find("A")
        turned = word[start:] + word[:start] if start >= 0 else word
        before, _, after = turned.replace("A", "").partition("B")
        return Fraction(moments["B" in word, "A" in word][len(before), len(after)])

    def term(i, j):
        """Mean of B (S Pi)^i A (Pi S)^j."""
        word = "B" + "SP" * i + "A" + "PS" * j
        first, *rest = word.split("P")
        if not rest:
            return mean(word)
        X = [*rest[:-1], rest[-1] + first]
        count = i + j
        total = Fraction(0)
        for partition in non_crossing(count):
            cycles = (zip(block[1:] + block[:1], block, strict=True) for block in partition)
            before = dict(itertools.chain(*cycles))
            weight = prod(free_cumulant(rank, len(block)) for block in partition)
            left = set(range(count))
            while left:
                x = min(left)
                letters = ""
                while x in left:
                    left.remove(x)
                    letters += X[x]
                    x = before[(x + 1) % count]
                weight *= mean(letters)
            total += weight
        return total

    return sum(a * b * term(i, j) for i, a in enumerate(p) for j, b in enumerate(p))


@pytest.mark.machine
@pytest.mark.parametrize(("alpha", "width"), [(0.7, 0.9), (3.0, 0.3), (np.inf, 0.9)])
def test_width_by_partitions(alpha, width):
    """Exact fractions for three steps, at finite width and with both finite."""
    rate = Fraction(2, 5)
    p = [comb(3, k) * (-rate) ** k for k in range(4)]
    aspect = Fraction(10) ** 40 if alpha == np.inf else Fraction(str(alpha))
    exact = float(by_partitions(p, aspect, Fraction(str(width))))
    law = TwoPoint(Atoms(VALUES), alpha=alpha, width_ratio=width)
    value, error = law.mean(lambda z: (1 - 0.4 * z) ** 3, outer=OUTER, inner=VALUES)
    assert value == pytest.approx(exact, rel=PROMISED)
    assert abs(value - exact) <= error + 1e-14 * exact
    assert error < PROMISED * value


def test_limits():
    """Infinite context; the null space; populations with a density; one matrix is the identity."""
    law = TwoPoint(Atoms(VALUES))
    value, _ = law.mean(lambda z: 1 - z / 2, outer=OUTER, inner=VALUES)
    assert value == pytest.approx((OUTER * VALUES * (1 - VALUES / 2) ** 2).mean(), rel=ROUNDING)
    short = TwoPoint(Atoms(VALUES), alpha=0.4, width_ratio=0.7)
    deep, _ = short.mean(lambda z: np.exp(-1e3 * z), outer=OUTER, inner=VALUES)
    assert short.null_mean(outer=OUTER, inner=VALUES) == pytest.approx(deep, rel=1e-8)
    assert TwoPoint(Atoms(VALUES), alpha=2.0).null_mean() == 0.0
    # A random projection at infinite context: one resolvent at the kappa of its rank.
    projected = TwoPoint(Atoms(VALUES), width_ratio=0.3)
    kappa = brentq(lambda k: (VALUES / (VALUES + k)).mean() - 0.3, 0.1, 10.0)
    expected = (OUTER * VALUES * kappa / (VALUES + kappa)).mean()
    assert projected.null_mean(outer=OUTER, inner=VALUES) == pytest.approx(expected, rel=1e-9)
    # As many samples: the bias of interpolation.
    drawn = TwoPoint(Atoms(VALUES), alpha=0.3)
    share = kappa / (VALUES + kappa)
    bias = (OUTER * VALUES * share**2).mean() / (1 - ((1 - share) ** 2).mean() / 0.3)
    assert drawn.null_mean(outer=OUTER, inner=VALUES) == pytest.approx(bias, rel=1e-9)
    smooth = TwoPoint(Uniform(0.2, 1.8), alpha=2.0)
    fine = TwoPoint(Atoms(Uniform(0.2, 1.8).quantiles(2000)), alpha=2.0)
    one, other = (
        each.mean(lambda z: (1 - z / 3) ** 5, inner=lambda x: x)[0] for each in (smooth, fine)
    )
    # The midpoint rule converges as the square of the number of quantiles.
    assert one == pytest.approx(other, rel=1e-6)
