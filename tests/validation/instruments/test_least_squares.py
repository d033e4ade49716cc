"""Least squares: against linear algebra where the model is linear, and against known minima."""

import math

import numpy as np
import pytest

from iclimit.validation.instruments.least_squares import (
    Precision,
    fisher_matrix,
    minima,
    profile,
    values_and_slopes,
)

# Error of the ends of an interval over the standard error: they are read from a profile between
# its points.  The worst that was measured is 4e-4.
INTERPOLATED = 1e-3

WIDE = np.full(2, -50.0), np.full(2, 50.0)


@pytest.fixture
def linear():
    """Three data of two parameters, with their exact solution and covariance."""
    slopes = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 1.0]])
    covariance = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.1], [0.0, 0.1, 0.5]])
    data = np.array([1.0, 2.0, -1.0])
    root = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(covariance)
    normal = slopes.T @ inverse @ slopes
    best = np.linalg.solve(normal, slopes.T @ inverse @ data)
    whitening = np.linalg.inv(root).T
    return lambda x: (x @ slopes.T - data) @ whitening, slopes, covariance, normal, best


def test_linear_model_has_the_exact_minimum_and_slopes(linear):
    residuals, slopes, covariance, normal, best = linear
    np.testing.assert_allclose(minima(residuals, np.zeros(2), WIDE)[0], best, atol=1e-7)
    np.testing.assert_allclose(fisher_matrix(slopes, covariance), normal)
    whitened = values_and_slopes(residuals, best)[1]
    np.testing.assert_allclose(whitened.T @ whitened, normal, rtol=1e-8)


@pytest.mark.parametrize("index", [0, 1])
def test_profile_of_a_linear_model_is_that_of_the_fisher_matrix(linear, index):
    residuals, _, _, normal, best = linear
    error = math.sqrt(np.linalg.inv(normal)[index, index])
    curve = profile(residuals, best, index, error, WIDE)
    np.testing.assert_allclose(curve.rises, ((curve.values - best[index]) / error) ** 2, atol=1e-6)
    for level, size in ((68, 0.9945), (95, 1.9600)):  # 68 and 95 per cent of a normal law
        low, high = curve.interval(level)
        assert low == pytest.approx(best[index] - size * error, abs=2e-3 * error)
        assert high == pytest.approx(best[index] + size * error, abs=2e-3 * error)


def test_intervals_of_a_curved_model_are_those_of_minos():
    """A decay, of whose rate the interval of 95 % reaches 1.6 errors down and 2.6 up."""
    iminuit = pytest.importorskip("iminuit")
    times = np.linspace(0, 4, 9)
    data = 1.3 * np.exp(-0.7 * times) + 0.2 * np.cos(5 * times)

    def residuals(x):
        size, rate = np.moveaxis(np.asarray(x), -1, 0)[..., None]
        return (size * np.exp(-rate * times) - data) / 0.2

    ends = np.array([0.1, 0.05]), np.array([5.0, 5.0])
    best = minima(residuals, np.array([1.0, 1.0]), ends)[0]
    judge = iminuit.Minuit(lambda x: np.sum(residuals(x) ** 2), best)
    judge.strategy = 2
    judge.migrad()
    np.testing.assert_allclose(best, np.array(judge.values), rtol=1e-5)
    for level in (68, 95):
        judge.minos(cl=level / 100)
        for index, error in enumerate(judge.merrors.values()):
            curve = profile(residuals, best, index, judge.errors[index], ends)
            low, high = curve.interval(level)
            size = judge.errors[index]
            assert low == pytest.approx(best[index] + error.lower, abs=INTERPOLATED * size)
            assert high == pytest.approx(best[index] + error.upper, abs=INTERPOLATED * size)


def test_interval_is_open_where_the_range_ends():
    def residuals(x):
        return np.exp(x) - 0.01

    ends = np.array([-5.0]), np.array([5.0])
    best = minima(residuals, np.array([0.0]), ends)[0]
    assert profile(residuals, best, 0, 100.0, ends).interval(95)[0] == -5


def two_valleys(x):
    """Two minima, near -1 and 1, of which the left one is lower."""
    return np.concatenate([3 * (x**2 - 1), 0.3 * (x + 1)], axis=-1)


def test_both_of_two_minima_are_found_the_lowest_first():
    ends = np.array([-3.0]), np.array([3.0])
    for start in (-2.0, 1.0):
        found = minima(two_valleys, np.array([start]), ends)
        assert len(found) == 2
        assert found[0][0] == pytest.approx(-1)
        # The slope 36 x (x^2 - 1) + 0.18 (x + 1) vanishes here, too.
        (other,) = (x for x in np.roots([36, 0, 0.18 - 36, 0.18]).real if x > 0.5)
        assert found[1][0] == pytest.approx(other, abs=1e-6)
    # The right one is higher by 0.36.
    assert len(minima(two_valleys, np.array([1.0]), ends, within=0.3)) == 1


def test_minima_far_from_the_start_are_found():
    """In two dimensions, in a corner of the range."""

    def residuals(x):
        near = np.sum((x - [3.0, -3.0]) ** 2, axis=-1)
        far = 0.5 + np.sum((x - [-3.0, 3.0]) ** 2, axis=-1)
        return np.sqrt(np.minimum(near, far))[..., None]

    ends = np.full(2, -4.0), np.full(2, 4.0)
    found = minima(residuals, np.array([-2.0, 2.0]), ends)
    np.testing.assert_allclose(found, [[3, -3], [-3, 3]], atol=1e-4)


def test_a_curved_valley_is_one_minimum():
    """Its ends are parted by a barrier on the straight line, but not along the valley."""

    def residuals(x):
        return 10 * (x[..., 1:] - x[..., :1] ** 2)

    ends = np.full(2, -4.0), np.full(2, 4.0)
    assert len(minima(residuals, np.array([1.5, 2.0]), ends)) == 1


def test_an_interval_reaches_over_a_barrier_below_its_level():
    """Between two minima at -1 and 1 chi-square rises by 1.5; to 3.84 it rises beyond both."""

    def residuals(x):
        return math.sqrt(1.5) * (x**2 - 1)

    ends = np.array([-3.0]), np.array([3.0])
    curve = profile(residuals, np.array([-1.0]), 0, 0.2, ends)
    # 1.5 (x^2 - 1)^2 = 3.8415.
    reach = math.sqrt(1 + math.sqrt(3.8415 / 1.5))
    assert curve.interval(95)[0] == pytest.approx(-reach, abs=0.01)
    # Far from the best value the profile has few points.
    assert curve.interval(95)[1] == pytest.approx(reach, abs=0.15)
    # The interval of 68 % ends before the barrier, at a rise of 0.989, but goes on behind it.
    assert curve.interval(68)[1] == pytest.approx(math.sqrt(1 + math.sqrt(0.989 / 1.5)), abs=0.15)
    # Of a profile that is 2 higher, a rise of 1.8415 is left.
    left = math.sqrt(1 + math.sqrt(1.8415 / 1.5))
    assert curve.interval(95, raised=2.0)[0] == pytest.approx(-left, abs=0.01)
    assert curve.interval(95, raised=2.0)[1] == pytest.approx(left, abs=0.15)


def test_degeneracies_are_named():
    known = {"q": {"a": -1.0, "b": 0.5}}
    gradient = np.array([-1.0, 0.5, 0.0]) / math.sqrt(1.25)
    fisher = 1e4 * np.outer(gradient, gradient) + np.diag([1e-3, 1e-3, 100.0])
    (sentence,) = Precision(["a", "b", "c"], fisher, known).degeneracies
    assert sentence.startswith("a and b are hardly told apart")
    assert "only q is fixed, to 1 %" in sentence
    (sentence,) = Precision(["a", "b"], fisher[:2, :2]).degeneracies
    assert "a b^-0.5" in sentence
    (sentence,) = Precision(["a", "b"], np.diag([1e-8, 100.0])).degeneracies
    assert sentence.startswith("a is not fixed")
    assert not Precision(["a", "b"], np.diag([400.0, 100.0])).degeneracies


def test_inverse_of_a_singular_matrix_is_enormous():
    errors = Precision(["a", "b"], np.ones((2, 2))).standard_errors
    assert min(errors.values()) > 1e5
    assert Precision(["a"], np.zeros((1, 1))).standard_errors["a"] > 1e5
