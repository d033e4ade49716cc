r"""Moments of a context and its task, and the linear map that a step of SGD makes of errors.

The setting and the recursion are those of `iclimit.asymptotics.pretraining.one_pass`.  Given the
squared norm :math:`u d` of the task and :math:`X \sim \chi^2_\ell`, :math:`h_1` has along the
task the coordinate :math:`(\sqrt d/\ell)\, Z` with :math:`Z \sim N(\sqrt u X, \rho X)`, and across
it the squared length :math:`(d/\ell^2)\, v X C` with :math:`v = u + \rho` and
:math:`C \sim \chi^2_{d - 1}`; :math:`h_2 = v X/\ell`.  A factor :math:`X^k` makes
:math:`\chi^2_{\ell + 2k}` of the law of X.  The misfit :math:`h_1/s - w` is small in long
contexts: its moments are sums of positive terms in :math:`m = X/(s \ell) - 1`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

# Coefficients of the powers 0, 1, 2, ... of the squared norm u of a task.
Polynomial = list[Any]


def _product(*factors: Polynomial) -> Polynomial:
    """Product of polynomials."""
    total: Polynomial = [1.0]
    for factor in factors:
        longer = [0.0] * (len(total) + len(factor) - 1)
        for i, first in enumerate(total):
            for j, second in enumerate(factor):
                longer[i + j] = longer[i + j] + first * second
        total = longer
    return total


def _sum(*terms: Polynomial) -> Polynomial:
    """Sum of polynomials."""
    longest = max(len(term) for term in terms)
    return [sum(term[k] for term in terms if k < len(term)) for k in range(longest)]


@dataclass(frozen=True)
class ContextLaw:
    """Law of a context and its task, as arrays over settings.

    Attributes
    ----------
    dim, context, rho : array
    gaussian_tasks : bool
        Whether the squared norm u of a task is chi-square over d, or 1.
    """

    dim: Any
    context: Any
    rho: Any
    gaussian_tasks: bool

    @property
    def excess(self) -> Any:
        """E|h_1|^2/d - 1."""
        return (2 + self.rho + (1 + self.rho) * self.across) / self.context

    @property
    def s(self) -> Any:
        """E|h_1|^2/d."""
        return 1 + self.excess

    @property
    def step(self) -> Any:
        """1/(s l)."""
        return 1 / (self.s * self.context)

    @property
    def across(self) -> Any:
        """Mean of C."""
        return self.dim - 1

    @property
    def across_square(self) -> Any:
        """Mean of C^2."""
        return (self.dim - 1) * (self.dim + 1)

    @property
    def label_variance(self) -> Polynomial:
        return [self.rho, 1.0]

    def power(self, k: int) -> Any:
        """Mean of X^k."""
        return np.prod([self.context + 2 * i for i in range(k)], axis=0)

    def noisy_power(self, k: int) -> Polynomial:
        """Mean of Z^2 X^(k - 2)."""
        return [self.rho * self.power(k - 1), self.power(k)]

    def misfit(self, k: int) -> Any:
        """Mean of m X^k."""
        return self.power(k) * self._centre(k)

    def square_misfit(self, k: int) -> Any:
        """Mean of m^2 X^k."""
        return self.power(k) * (self._centre(k) ** 2 + 2 * (self.context + 2 * k) * self.step**2)

    def _centre(self, k: int) -> Any:
        return 2 * k * self.step - self.excess / self.s

    def mean(self, polynomial: Polynomial) -> Any:
        """Mean over the squared norms of tasks."""
        total = polynomial[0]
        power = 1.0
        for k, coefficient in enumerate(polynomial[1:]):
            if self.gaussian_tasks:
                power = power * (1 + 2 * k / self.dim)
            total = total + coefficient * power
        return total

    def summary_square(self) -> Any:
        """E h_2^2."""
        square = _product(self.label_variance, self.label_variance)
        return self.mean(square) * self.power(2) / self.context**2

    def summary_moments(self) -> tuple[Any, Any, Any]:
        """E|h_1|^4, E|h_1|^2 h_2^2 and E h_2^4."""
        v = self.label_variance
        z_fourth = [3 * self.rho**2 * self.power(2), 6 * self.rho * self.power(3), self.power(4)]
        squares = _sum(
            z_fourth,
            _product([2 * self.across], v, self.noisy_power(3)),
            _product([self.across_square * self.power(2)], v, v),
        )
        mixed = _product(
            v, v, _sum(self.noisy_power(4), _product([self.across * self.power(3)], v))
        )
        fourth = self.mean(_product(v, v, v, v)) * self.power(4)
        scale = self.context**-4.0
        return (
            self.mean(squares) * self.dim**2 * scale,
            self.mean(mixed) * self.dim * scale,
            fourth * scale,
        )

    def misfit_moments(self) -> tuple[Any, Any]:
        """E|h_1/s - w|^2 |h_1|^2, and the same with h_2^2."""
        v = self.label_variance
        spread = self.rho * self.step**2
        along = _sum(
            [0.0, self.rho * self.square_misfit(1), self.square_misfit(2)],
            _product([spread], self.noisy_power(3)),
            [2 * self.rho * spread * self.power(2), 4 * self.rho * self.step * self.misfit(2)],
        )
        both = _product(
            [self.across],
            v,
            _sum(
                [spread * self.power(2), self.square_misfit(1)],
                _product([self.step**2], self.noisy_power(3)),
            ),
        )
        across = _product([self.across_square * self.step**2 * self.power(2)], v, v)
        labels = _sum(
            [spread * self.power(3), self.square_misfit(2)],
            _product([self.across * self.step**2 * self.power(3)], v),
        )
        scale = self.dim / self.context**2
        return (
            self.mean(_sum(along, both, across)) * self.dim * scale,
            self.mean(_product(v, v, labels)) * scale,
        )

    def slope_moments(self) -> tuple[Any, Any]:
        """E (h_1/s - w).h_1 |h_1|^2, and the same with h_2^2."""
        v = self.label_variance
        noise = self.rho * self.step
        along = _sum(
            [0.0, 3 * self.rho * self.misfit(2), self.misfit(3)],
            _product([3 * noise], self.noisy_power(3)),
        )
        both = _product(
            [self.across],
            v,
            _sum(
                [noise * self.power(2), self.misfit(2)], _product([self.step], self.noisy_power(3))
            ),
        )
        across = _product([self.across_square * self.step * self.power(2)], v, v)
        labels = _sum(
            [noise * self.power(3), self.misfit(3)],
            _product([self.across * self.step * self.power(3)], v),
        )
        scale = self.dim / self.context**3
        return (
            self.mean(_sum(along, both, across)) * self.dim * scale,
            self.mean(_product(v, v, labels)) * scale,
        )


@dataclass(frozen=True)
class StepMap:
    r"""What a step of SGD makes of (P, p, T).

    A step of time t takes :math:`t D x - t^2 (N x + n)` from the state x = (P, p, T).

    Attributes
    ----------
    decay : array (..., 3)
        Diagonal of D.
    growth : array (..., 3, 3)
        N; the trace T only decays.
    noise : array (..., 3)
        n.
    weights : array (..., 3)
        Excess error over the state.
    start : array (..., 3)
        State of the matrix 0.
    least_error : array
        Of any matrix.
    """

    decay: np.ndarray
    growth: np.ndarray
    noise: np.ndarray
    weights: np.ndarray
    start: np.ndarray
    least_error: np.ndarray

    @classmethod
    def of(cls, law: ContextLaw, batch: np.ndarray) -> "StepMap":
        """Step on a batch of fresh prompts."""
        d = law.dim
        s = law.s
        r = law.summary_square()
        zero = np.zeros_like(s)
        squares, mixed, fourth = law.summary_moments()
        misfit, misfit_of_labels = law.misfit_moments()
        slope, slope_of_labels = law.slope_moments()
        first = [squares / d, mixed, 2 * slope / d]
        second = [mixed / d, fourth, 2 * slope_of_labels / d]
        fresh = np.stack([np.stack(np.broadcast_arrays(*row), -1) for row in (first, second)], -2)
        growth = np.zeros((*np.shape(s), 3, 3))
        growth[..., :2, :] = fresh * ((d + 2) / batch)[..., None, None]
        # Two prompts of a batch: the mean step squared.
        growth[..., 0, 0] += (1 - 1 / batch) * s**2
        growth[..., 1, 1] += (1 - 1 / batch) * r**2
        noise = [
            (d + 2) * misfit + law.rho * d**3 * s,
            (d + 2) * misfit_of_labels + law.rho * d**2 * r,
            zero,
        ]
        return cls(
            decay=np.stack([2 * s, 2 * r, s], -1),
            growth=growth,
            noise=np.stack([part / batch for part in noise], -1),
            weights=np.stack([s / d, r / d, zero], -1),
            start=np.stack([d / s**2, zero, -d / s], -1),
            least_error=law.rho + law.excess / s,
        )

    def stable_time(self) -> np.ndarray:
        """Time of a step from which on the mean square grows: the spectral radius is 1."""
        d1 = self.decay[..., 0]
        d2 = self.decay[..., 1]
        n11 = self.growth[..., 0, 0]
        n22 = self.growth[..., 1, 1]
        crossed = self.growth[..., 0, 1] * self.growth[..., 1, 0]
        first = d1 * n22
        second = d2 * n11
        root = np.sqrt((first - second) ** 2 + 4 * d1 * d2 * crossed)
        return 2 * d1 * d2 / (first + second + root)

    def excess(self, state: np.ndarray) -> np.ndarray:
        return np.sum(self.weights * state, axis=-1)

    def best_time(self, state: np.ndarray) -> np.ndarray:
        """Time of the step after which the error is least."""
        gained = np.sum(self.weights * self.decay * state, axis=-1)
        added = np.sum(self.weights * self._second(state), axis=-1)
        return gained / (2 * added)

    def step(self, state: np.ndarray, time: np.ndarray) -> np.ndarray:
        """State after a step."""
        t = time[..., None]
        return state - t * self.decay * state + t**2 * self._second(state)

    def steps(self, number: np.ndarray, time: np.ndarray) -> np.ndarray:
        """State after so many equal steps, by repeated squaring of x -> x - (H x - c).

        H of two maps is H_1 + H_2 - H_2 H_1: nothing small is lost against 1.
        """
        t = time[..., None]
        taken = t[..., None] * self.decay[..., None] * np.eye(3) - t[..., None] ** 2 * self.growth
        given = t**2 * self.noise
        state = np.broadcast_to(self.start, np.broadcast_shapes(self.start.shape, given.shape))
        left = number.astype(np.int64)
        while np.any(left):
            odd = (left % 2 == 1)[..., None]
            state = np.where(odd, state - _applied(taken, state) + given, state)
            given = 2 * given - _applied(taken, given)
            taken = 2 * taken - taken @ taken
            left = left // 2
        return state

    def _second(self, state: np.ndarray) -> np.ndarray:
        return _applied(self.growth, state) + self.noise


def _applied(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    product: np.ndarray = (matrix @ vector[..., None])[..., 0]
    return product
