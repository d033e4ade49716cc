r"""Response of ridge regression on sequences of which every position is a query.

The equations are those of `iclimit.asymptotics.pretraining.all_positions`.  All sequences of one
task are a *block*: m sequences with the same positions, whose contexts share the task.

**Symmetry.**  All sequences of a block have the same kernel :math:`K_q` within and
:math:`p p^\top` between each other.  So matrices over a block are given by two L x L matrices,
:math:`T_A` on differences of sequences and :math:`T_S` on their sum:

.. math:: T_A = (s + \phi K_q)^{-1}, \qquad T_S = (s + \phi K_q + m \phi\, p p^\top)^{-1},

with :math:`s = \operatorname{diag}(1/r)`.  Within a sequence the block of T is
:math:`T_A + (T_S - T_A)/m`, and between two it is :math:`(T_S - T_A)/m`.  Any m costs what one
sequence costs, and m need not be an integer.

**Cavities.**  In the equation of the responses,

.. math:: s_i = \frac1{u_i} + \frac1{h_i} (s_i - s_i^2 T_{ii}),

the last term is :math:`\phi/h_i` times the posterior variance of a Gaussian process that is
observed with the noise :math:`s/\phi`.  It is increasing and concave in s.  So Newton's method
descends to the root from every point above it, and the prior variance gives such a point.

.. page: pretraining/all-positions: Training on every position of a sequence
"""

from dataclasses import dataclass

import numpy as np

# Newton steps for the responses: from the prior variance they take up to some 30.
_MOST_STEPS = 200

# Relative change that ends them: they converge quadratically, so only rounding is left.
_CLOSE = 1e-8

# Factor by which a step may lower a response at most, against steps from below the root.
_LOWEST = 0.1


@dataclass(frozen=True)
class Positions:
    """Positions of a sequence that are trained on, as arrays (L,).

    ``place`` is the number of examples seen over the dimension, ``width`` the width h of a cell,
    ``weight`` u, ``factor`` p, and ``noise`` q of a mean over the examples.  ``nesting`` (L, L) is
    the weight of a query (column) in the context of each position (row).  ``tail`` is what squared
    labels add to the product of the factors in the kernel of the response.
    """

    place: np.ndarray
    width: np.ndarray
    weight: np.ndarray
    factor: np.ndarray
    noise: np.ndarray
    nesting: np.ndarray
    tail: float = 0.0

    @property
    def own_kernel(self) -> np.ndarray:
        """Kernel of the noise of the summaries within a sequence, (L, L)."""
        common = np.minimum(self.noise[:, None], self.noise[None, :])
        return np.outer(self.factor, self.factor) * common

    @property
    def priors(self) -> np.ndarray:
        """Prior variances of the responses, (L,)."""
        return self.factor**2 * (1 + self.tail + self.noise)

    @property
    def mean_prior(self) -> float:
        """Their mean over the positions."""
        return float(self.weight @ self.priors)


@dataclass(frozen=True)
class Forms:
    """Quadratic forms of a block: F_yy, F_fy, F_ff and F_K, or their derivatives."""

    labels: float
    mixed: float
    features: float
    trace: float

    def misfit(self, c: float) -> float:
        """Form of the labels minus c times the features."""
        return self.labels - 2 * c * self.mixed + c**2 * self.features


@dataclass(frozen=True)
class Slope:
    """Derivative of a response: of s, (L,), and of both matrices, (L, L)."""

    reciprocals: np.ndarray
    differences: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True)
class BlockResponse:
    """Response of the m sequences of a task at phi: s, (L,), T_A and T_S, (L, L)."""

    positions: Positions
    rho: float
    count: float
    phi: float
    reciprocals: np.ndarray
    differences: np.ndarray
    sums: np.ndarray

    @classmethod
    def of(
        cls,
        positions: Positions,
        rho: float,
        count: float,
        phi: float,
        *,
        interpolating: bool = False,
        start: np.ndarray | None = None,
    ) -> "BlockResponse":
        """Solve for the responses, from a start near them or from above.

        Interpolating weights are infinite: 1/u = 0.
        """
        weight_part = 0 if interpolating else 1 / positions.weight
        above = weight_part + phi / positions.width * positions.priors
        for reciprocals in (above if start is None else start, above):
            for _ in range(_MOST_STEPS):
                response = cls._at(positions, rho, count, phi, reciprocals)
                change = response._step(weight_part) / reciprocals
                reciprocals = reciprocals * np.maximum(1 + change, _LOWEST)
                if np.max(np.abs(change)) < _CLOSE:
                    return cls._at(positions, rho, count, phi, reciprocals)
        raise ArithmeticError(
            f"the responses of the positions were not found in {_MOST_STEPS} steps: arguments too "
            "extreme for float64"
        )

    @classmethod
    def _at(
        cls, positions: Positions, rho: float, count: float, phi: float, reciprocals: np.ndarray
    ) -> "BlockResponse":
        """With the matrices at given s."""
        noisy = np.diag(reciprocals) + phi * positions.own_kernel
        shared = (1 + positions.tail) * np.outer(positions.factor, positions.factor)
        sums = np.linalg.inv(noisy + count * phi * shared)
        # One sequence has no differences: they get the weight 0.
        differences = sums if count == 1 else np.linalg.inv(noisy)
        return cls(positions, rho, count, phi, reciprocals, differences, sums)

    @property
    def between(self) -> np.ndarray:
        """Block of T between two sequences of the task."""
        return (self.sums - self.differences) / self.count

    @property
    def within(self) -> np.ndarray:
        """Block of T within a sequence."""
        return self.differences + self.between

    @property
    def _squares(self) -> np.ndarray:
        """Squares of T summed over the sequences of the task."""
        return self.within**2 + (self.count - 1) * self.between**2

    @property
    def _jacobian(self) -> np.ndarray:
        """Derivative by s of the equation of the responses."""
        s = self.reciprocals
        width = self.positions.width
        own = 1 - (1 - 2 * s * np.diag(self.within)) / width
        return np.diag(own) - (s**2 / width)[:, None] * self._squares

    def _step(self, weight_part: np.ndarray | float) -> np.ndarray:
        """Newton step of the equation of the responses."""
        s = self.reciprocals
        cavity = (s - s**2 * np.diag(self.within)) / self.positions.width
        return np.linalg.solve(self._jacobian, weight_part + cavity - s)

    @property
    def freedom(self) -> float:
        """Degrees of freedom that the block takes: trace of 1 - sT."""
        taken = 1 - self.reciprocals * np.diag(self.within)
        return self.count * float(np.sum(taken))

    def freedom_slope(self, slope: Slope) -> float:
        """Its derivative."""
        within = self._within_slope(slope)
        taken = slope.reciprocals * np.diag(self.within) + self.reciprocals * np.diag(within)
        return -self.count * float(np.sum(taken))

    def slope(self) -> Slope:
        """Derivative by phi."""
        s = self.reciprocals
        moved = (self._squares @ s - np.diag(self.within)) / self.phi
        rates = self._moved(moved)
        weights = s / self.phi - rates
        return Slope(
            rates,
            (self.differences * weights) @ self.differences - self.differences / self.phi,
            (self.sums * weights) @ self.sums - self.sums / self.phi,
        )

    def task_slope(self) -> Slope:
        """Derivative by the factor of p p^T in the kernel, at 1."""
        along = self.sums @ self.positions.factor
        rates = self._moved(-self.phi * along**2)
        return Slope(
            rates,
            -(self.differences * rates) @ self.differences,
            -(self.sums * rates) @ self.sums - self.count * self.phi * np.outer(along, along),
        )

    def _moved(self, diagonal: np.ndarray) -> np.ndarray:
        """Derivative of s from that of the diagonal of T at fixed s."""
        change = self.reciprocals**2 / self.positions.width * diagonal
        return np.linalg.solve(self._jacobian, -change)

    def _within_slope(self, slope: Slope) -> np.ndarray:
        """Derivative of the block within a sequence."""
        return slope.differences + (slope.sums - slope.differences) / self.count

    @property
    def nested(self) -> np.ndarray:
        """Weight t of the labels of queries in the predictions for later positions, (L,)."""
        # The diagonal of T has the response of a position to itself, which is no nesting.
        later = self.within - np.diag(1 / self.reciprocals)
        return self.reciprocals * np.sum(self.positions.nesting * later, axis=0)

    def _nested_slope(self, slope: Slope) -> np.ndarray:
        """Its derivative."""
        s = self.reciprocals
        later = self._within_slope(slope) + np.diag(slope.reciprocals / s**2)
        change = np.sum(self.positions.nesting * later, axis=0)
        return self.nested * slope.reciprocals / s + s * change

    def forms(self) -> Forms:
        """Quadratic forms of the labels and of what a step of rate 1 predicts."""
        p = self.positions.factor
        t = self.nested
        r = 1 / self.reciprocals
        f = p + t
        label_sums = np.sum(self.sums, axis=1)
        trace = self._trace(self.differences, self.sums)
        return Forms(
            labels=self.count * (np.sum(label_sums) + self.rho * np.sum(r)),
            mixed=self.count * (f @ label_sums + self.rho * (t @ r)),
            features=self.count * (f @ self.sums @ f + self.rho * (t**2 @ r)) + trace,
            trace=self.count * (p @ self.sums @ p) + trace,
        )

    def form_slopes(self, slope: Slope) -> Forms:
        """Their derivatives; those of the kernel in the traces are left out."""
        p = self.positions.factor
        t = self.nested
        t_slope = self._nested_slope(slope)
        r = 1 / self.reciprocals
        r_slope = -(r**2) * slope.reciprocals
        f = p + t
        labels = np.sum(slope.sums) + self.rho * np.sum(r_slope)
        mixed = t_slope @ np.sum(self.sums, axis=1) + f @ np.sum(slope.sums, axis=1)
        mixed += self.rho * (t_slope @ r + t @ r_slope)
        features = 2 * (t_slope @ self.sums @ f) + f @ slope.sums @ f
        features += self.rho * (2 * (t * t_slope) @ r + t**2 @ r_slope)
        trace = self._trace(slope.differences, slope.sums)
        return Forms(
            labels=self.count * labels,
            mixed=self.count * mixed,
            features=self.count * features + trace,
            trace=self.count * (p @ slope.sums @ p) + trace,
        )

    def _trace(self, differences: np.ndarray, sums: np.ndarray) -> float:
        """Trace over a block with the kernel of the noise within sequences."""
        kernel = self.positions.own_kernel
        return float(np.sum(((self.count - 1) * differences + sums) * kernel))

    def task_products(self) -> np.ndarray:
        """Products of p with T and the labels, the features and p: (3,)."""
        p = self.positions.factor
        along = self.count * (self.sums @ p)
        return np.array([np.sum(along), along @ (p + self.nested), along @ p])
