"""Moments of sample covariances of independent entries against Wishart, sums and simulation."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy

from iclimit.asymptotics.descent import learning_rate_loss, optimal_learning_rate
from iclimit.asymptotics.gdpp import gdpp_loss, gdpp_minima, optimal_gdpp
from iclimit.asymptotics.spectra import IndependentEntries, Wishart
from iclimit.simulate.gdpp import simulate_gdpp

# Standard errors that the worst of some ten simulated numbers may lie off.
SIGMAS = 4.0
LAWS = {"uniform": lambda k: Fraction(1, k + 1), "laplace": math.factorial}
"""Even moments of order k."""


@pytest.mark.parametrize(("context", "dim"), [(20, 10), (2, 3), (1, 1)])
def test_gaussian_entries_have_the_moments_of_wishart(context, dim):
    law = IndependentEntries(context=context, dim=dim, input_law="gaussian")
    right = Wishart(context=context, dim=dim)
    assert [law.moment(k) for k in range(9)] == [right.moment(k) for k in range(9)]


@pytest.mark.parametrize("input_law", LAWS)
def test_one_row_or_one_column_is_a_sum_of_squares(input_law):
    """tr (x x^T)^k = |x|^2k, whose mean is a sum over multinomials."""
    for size in (1, 2, 4):
        # Moments of |x|^2 by the binomial theorem, entry by entry.
        square = {k: Fraction(k == 0) for k in range(8)}
        for _ in range(size):
            square = {
                k: sum(
                    math.comb(k, j) * square[k - j] * LAWS[input_law](2 * j) for j in range(k + 1)
                )
                for k in range(8)
            }
        row = IndependentEntries(context=1, dim=size, input_law=input_law)
        column = IndependentEntries(context=size, dim=1, input_law=input_law)
        for k in range(1, 8):
            assert row.moment(k) == square[k] / size
            assert column.moment(k) == square[k] / size**k


def test_moments_of_simulated_matrices():
    x = np.random.default_rng(0).uniform(-1, 1, (100_000, 6, 4))
    eigenvalues = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 6)
    law = IndependentEntries(context=6, dim=4, input_law="uniform")
    for k in range(1, 9):
        samples = np.mean(eigenvalues**k, axis=1)
        error = np.std(samples) / math.sqrt(len(samples))
        assert abs(np.mean(samples) - float(law.moment(k))) < SIGMAS * error


def test_symbols_and_quadrature():
    N, d = sympy.symbols("N d", positive=True)
    for k in range(1, 5):
        found = IndependentEntries(context=N, dim=d, input_law="laplace").moment(k)
        number = IndependentEntries(context=7, dim=3, input_law="laplace").moment(k)
        assert found.subs({N: 7, d: 3}) == sympy.Rational(number.numerator, number.denominator)
    law = IndependentEntries(context=10, dim=5, input_law="uniform")
    assert repr(law) == "IndependentEntries(context=10, dim=5, input_law='uniform')"
    nodes, weights = law.quadrature(4)
    for k in range(9):
        assert weights @ nodes**k == pytest.approx(float(law.moment(k)), rel=1e-13)
    other = IndependentEntries(context=10, dim=5, input_law="laplace")
    assert law != other
    assert not np.allclose(other.quadrature(4)[0], nodes)


@pytest.mark.parametrize("noise_ratio", [0.0, 0.05])
def test_losses_of_layers_on_uniform_inputs(noise_ratio):
    """The best two layers, in theory and on simulated contexts; one layer by its closed form."""
    size = {"context": 10, "dim": 5, "input_law": "uniform"}
    best, *others = gdpp_minima(2, **size, noise_ratio=noise_ratio)
    assert best.lower_bound < best.loss < min(other.loss for other in others)
    for found in (best, others[0]):
        run = simulate_gdpp(
            found.rates, found.gammas, **size, noise_ratio=noise_ratio, contexts=40_000, rng=0
        )
        assert abs(run.loss.z(found.loss)) < SIGMAS
    one = optimal_learning_rate(**size, noise_variance=10 * noise_ratio)
    # A query without noise, over the null predictor.
    null = 5 / 3
    noise = 10 * noise_ratio
    single = optimal_gdpp(1, **size, noise_ratio=noise_ratio)
    assert single.loss == pytest.approx((one.loss - noise) / null, rel=1e-10)
    assert single.rates[0] == pytest.approx(one.rate, rel=1e-7)
    plain = learning_rate_loss(0.7, **size, noise_variance=noise)
    loss = gdpp_loss([0.7], gammas=[], **size, noise_ratio=noise_ratio)
    assert loss == pytest.approx((plain - noise) / null, rel=1e-12)
