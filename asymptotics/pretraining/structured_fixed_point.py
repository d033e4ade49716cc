r"""Fixed point of linear attention for tasks and inputs of any covariance.

Symbols and setting are those of `iclimit.asymptotics.pretraining.structured`.  The resolvent

.. math:: G_i = (S + q + \Delta_i)^{-1}, \qquad
   \Delta_i = \frac{\xi}{\sigma_i} \Sigma^{-1}, \qquad
   q = \frac{\operatorname{tr}(C\Sigma)/d + \rho}{\alpha}

has the deterministic equivalent :math:`F_i = (s_i T + q + \Delta_i)^{-1}`.  Its scalars and the
effective ridge :math:`\xi` of the features :math:`x_q h^\top` solve

.. math:: \kappa (1 - s_i) = \frac1d \operatorname{tr} s_i T F_i, \qquad
   \tau \Bigl(1 - \frac\lambda\xi\Bigr)
   = \frac{1}{d^2} \sum_i \operatorname{tr} (s_i T + q) F_i.

These are the stationarity conditions in :math:`\log s_i` and :math:`\log \xi` of

.. math:: \frac{1}{d^2} \sum_i \bigl[\operatorname{tr} \log (s_i T + q + \Delta_i)
   + k (s_i - \log s_i)\bigr] - (1 - \tau) \log\xi + \tau\lambda/\xi.

That is a sum of logarithms of sums of exponentials, of exponentials and of linear terms, and so it
is strictly convex.  Hence the solution is unique, the equation for :math:`s_i` is monotone in
:math:`s_i`, and the equation for :math:`\xi` is monotone once the :math:`s_i` follow :math:`\xi`.
Both are solved by Newton's method between bounds; where it would leave them, the bracket is halved
in the logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev

from iclimit.asymptotics.checks import checked, flattened
from iclimit.asymptotics.numbers import ArrayMath, Number
from iclimit.asymptotics.pretraining.icl import ridge_bracket
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum, check_spectrum
from iclimit.asymptotics.searches import find_roots
from iclimit.asymptotics.spectra.resolvent import excess

# Numbers in an array at a time, so that they stay in the cache.
_CHUNK = 2**14

# Rows of the problem that gives a first solution where there are more than twice as many.  With
# input variances that differ by up to a factor of 10 it is right to 1e-9.
_NODES = 12

# Stands for infinite kappa: its square root is beyond the rounding error of everything else.
_LARGE = 1e300

TINY = ArrayMath.tiny


@dataclass(frozen=True)
class Settings:
    """Checked parameters, flat, of equal length."""

    tau: np.ndarray
    kappa: np.ndarray
    rho: np.ndarray
    ridge: np.ndarray
    per_context: np.ndarray
    test_rho: np.ndarray
    per_test_context: np.ndarray
    shape: tuple[int, ...]

    @property
    def training(self) -> tuple[np.ndarray, ...]:
        """What training depends on."""
        return self.tau, self.kappa, self.rho, self.ridge, self.per_context

    def test_noise(self, spectrum: JointSpectrum) -> np.ndarray:
        """Noise q' of a test context."""
        variance = spectrum.weight @ (spectrum.inputs * spectrum.test)
        return (variance + self.test_rho) * self.per_test_context


def check_settings(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number,
    test_alpha: Number | None = None,
    test_rho: Number | None = None,
    finite_context: bool = False,
) -> Settings:
    """Check the parameters and broadcast them; tests that are None are as in training."""
    _, values = checked(
        systems="numpy",
        ranges={"alpha": "(0, inf)"} if finite_context else {},
        optional=("test_alpha", "test_rho"),
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
    )
    shape, points = flattened(values)
    tested_alpha = points.alpha if points.test_alpha is None else points.test_alpha
    # Infinite context is a limit, with as many context pairs in tests as in training.
    endless = np.isinf(points.alpha)
    endless_tests = np.isinf(tested_alpha)
    return Settings(
        tau=points.tau,
        kappa=np.minimum(points.kappa, _LARGE),
        rho=points.rho,
        ridge=points.ridge,
        per_context=np.where(endless, TINY, 1 / points.alpha),
        test_rho=points.rho if points.test_rho is None else points.test_rho,
        per_test_context=np.where(endless & endless_tests, TINY, 1 / tested_alpha),
        shape=shape,
    )


@dataclass(frozen=True)
class Atoms:
    """Atoms as arrays: rows are the different input eigenvalues, columns the atoms.

    Attributes
    ----------
    T : ndarray (m,)
        Whitened task eigenvalues; (n, 1, m) to differentiate `response_at`.
    weight : ndarray (m,)
    row : ndarray (r,)
        Different input eigenvalues.
    row_weight : ndarray (r,)
    row_of : ndarray (m,)
        Row of the input eigenvalue of each atom.
    inverse_inputs : ndarray (r, m)
        One over the products of input eigenvalues.
    """

    T: np.ndarray
    weight: np.ndarray
    row: np.ndarray
    row_weight: np.ndarray
    row_of: np.ndarray
    inverse_inputs: np.ndarray

    @classmethod
    def of(cls, spectrum: JointSpectrum) -> Atoms:
        check_spectrum(spectrum)
        row, row_of = np.unique(spectrum.inputs, return_inverse=True)
        row_of = row_of.ravel()
        row_weight = np.bincount(row_of, spectrum.weight)
        return cls(
            spectrum.task * spectrum.inputs,
            spectrum.weight,
            row,
            row_weight / math.fsum(row_weight),
            row_of,
            1 / (row[:, None] * spectrum.inputs),
        )

    @cached_property
    def coarse(self) -> tuple[Atoms, np.ndarray] | None:
        """The same columns with few rows, and what interpolates from these to all rows.

        A row depends smoothly on the logarithm of its eigenvalue: Chebyshev nodes stand for all.
        """
        if len(self.row) <= 2 * _NODES:
            return None
        place = np.log(self.row)
        middle = (place[-1] + place[0]) / 2
        half = (place[-1] - place[0]) / 2
        nodes = chebyshev.chebpts1(_NODES)
        values = chebyshev.chebvander(nodes, _NODES - 1)
        to_rows = chebyshev.chebvander((place - middle) / half, _NODES - 1) @ np.linalg.inv(values)
        row = np.exp(middle + half * nodes)
        inverse_inputs = self.inverse_inputs[0] * self.row[0] / row[:, None]
        weight = self.row_weight @ to_rows
        return replace(self, row=row, row_weight=weight, inverse_inputs=inverse_inputs), to_rows

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean over the columns, (..., m) to (...)."""
        return values @ self.weight

    def own(self, values: np.ndarray) -> np.ndarray:
        """Entries of each atom in its own row, (n, r, m) to (n, m)."""
        return values[..., self.row_of, np.arange(len(self.row_of))]


@dataclass(frozen=True)
class Point:
    """A solution of the fixed point, and its parameters; arrays (n,) but s, (n, r)."""

    tau: np.ndarray
    kappa: np.ndarray
    rho: np.ndarray
    q: np.ndarray
    xi: np.ndarray
    eta: np.ndarray
    s: np.ndarray


def solve(
    atoms: Atoms, training: tuple[np.ndarray, ...], first: tuple[np.ndarray, ...] | None = None
) -> Point:
    """Solve the fixed point at what training depends on, see `Settings`.

    It starts from a first solution xi and s, infinite and 0 where nothing is known.
    """
    tau, kappa, rho, ridge, per_context = training
    if first is None:
        first = _first_solution(atoms, training)
    q = (atoms.mean(atoms.T) + rho) * per_context
    xi = np.where(np.isinf(tau), ridge, 0.0)
    eta = np.where(xi > 0, 1.0, np.maximum(excess(ArrayMath(np), tau, 1), 0.0))
    s = np.empty((len(tau), len(atoms.row)))
    free = np.isfinite(tau) & ((ridge > 0) | (tau < 1))
    if np.any(free):
        starts = [v[free] for v in first]
        xi[free], s[free] = _effective_ridge(
            atoms, tau[free], kappa[free], ridge[free], q[free], *starts
        )
        eta[free] = ridge[free] / xi[free]
    fixed = ~free
    if np.any(fixed):
        s[fixed] = _scales(atoms, kappa[fixed], q[fixed], xi[fixed], first[1][fixed])
    return Point(tau, kappa, rho, q, xi, eta, s)


def _first_solution(
    atoms: Atoms, training: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """First solution, from few rows where there are many."""
    if atoms.coarse is not None:
        few, to_rows = atoms.coarse
        try:
            xi, s = _in_chunks(few, (training,), lambda point: (point.xi, point.s))
            return xi, np.nan_to_num(np.exp(np.log(s) @ to_rows.T))
        except ArithmeticError:
            pass
    return np.full(len(training[0]), np.inf), np.zeros((len(training[0]), len(atoms.row)))


def solve_settings(
    atoms: Atoms, settings: Settings, evaluate: Callable[[Point], tuple[np.ndarray, ...]]
) -> tuple[np.ndarray, ...]:
    """Solve the fixed point chunk by chunk, and return what a function makes of the solutions."""
    with np.errstate(all="ignore"):
        first = _first_solution(atoms, settings.training)
        return _in_chunks(atoms, (settings.training, first), evaluate)


def _in_chunks(
    atoms: Atoms,
    arguments: tuple[tuple[np.ndarray, ...], ...],
    evaluate: Callable[[Point], tuple[np.ndarray, ...]],
) -> tuple[np.ndarray, ...]:
    """Evaluate a function of solutions, for chunks of the arguments of `solve`."""
    size = max(1, _CHUNK // atoms.inverse_inputs.size)
    parts = [
        evaluate(solve(atoms, *(tuple(v[start : start + size] for v in a) for a in arguments)))
        for start in range(0, max(len(arguments[0][0]), 1), size)
    ]
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _scales(
    atoms: Atoms, kappa: np.ndarray, q: np.ndarray, xi: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Scalars s of every row, shape (n, r), at given xi; start zero where nothing is known."""

    all_D = q[:, None, None] + xi[:, None, None] * atoms.inverse_inputs
    all_D = all_D.reshape(-1, len(atoms.T))
    all_kappa = np.repeat(kappa, len(atoms.row))

    def step(s: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Newton step of kappa s + <s T F> - kappa, formed without cancellation.

        Where s T > D the summand is 1 - u with u small: the ones are collected with kappa.
        """
        everywhere = len(index) == len(all_D)
        D = all_D if everywhere else all_D[index]
        kappa = all_kappa if everywhere else all_kappa[index]
        scaled = atoms.T * s[:, None]
        F = 1 / (scaled + D)
        signal = scaled * F
        u = D * F
        large = scaled > D
        ones = atoms.mean(large)
        others = atoms.mean(~large)
        offset = np.where(ones < 0.5, kappa - ones, (kappa - 1) + others)
        residual = kappa * s + atoms.mean(np.where(large, -u, signal)) - offset
        return -residual / (kappa * s + atoms.mean(signal * u))

    # One atom of the mean T/D bounds s from below, as <s T F> is concave in T/D.
    ratio = atoms.mean(atoms.T / all_D)
    linear = 1 - ratio * ((all_kappa - 1) / all_kappa)
    root = np.hypot(linear, 2 * np.sqrt(ratio))
    bound = np.where(linear >= 0, 2 / (linear + root), (root - linear) / (2 * ratio))
    guess = np.clip(start.ravel(), bound, 1.0)
    return find_roots(step, bound / 2, np.ones_like(bound), guess).reshape(start.shape)


@dataclass(frozen=True)
class Rows:
    """Quantities of the module docstring at a point, arrays (n, r, m) and (n, r)."""

    D: np.ndarray
    F: np.ndarray
    u: np.ndarray
    signal: np.ndarray
    beta: np.ndarray
    beta_one: np.ndarray
    beta_delta: np.ndarray
    B: np.ndarray
    V: np.ndarray
    spent: np.ndarray

    @classmethod
    def at(
        cls, atoms: Atoms, kappa: np.ndarray, q: np.ndarray, xi: np.ndarray, s: np.ndarray
    ) -> Rows:
        q = q[:, None]
        s = s[..., None]
        delta = xi[:, None, None] * atoms.inverse_inputs
        D = q[..., None] + delta
        scaled = atoms.T * s
        F = 1 / (scaled + D)
        signal = scaled * F
        beta = atoms.T * F**2 / kappa[:, None, None]
        beta_one = atoms.mean(beta)
        beta_delta = atoms.mean(beta * delta)
        B = 1 + q * beta_one + beta_delta
        V = F * (q[..., None] * F + signal * ((1 + q * beta_one) / B)[..., None])
        spent = atoms.mean(V * delta) @ atoms.row_weight
        return cls(D, F, D * F, signal, beta, beta_one, beta_delta, B, V, spent)


def _effective_ridge(
    atoms: Atoms,
    tau: np.ndarray,
    kappa: np.ndarray,
    ridge: np.ndarray,
    q: np.ndarray,
    start: np.ndarray,
    scales: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Effective ridge xi > 0 at finite tau with ridge > 0 or tau < 1, and the scalars s there."""

    def step(xi: np.ndarray, index: np.ndarray) -> np.ndarray:
        t = tau[index]
        k = kappa[index]
        q_ = q[index]
        s = _scales(atoms, k, q_, xi, scales[index])
        rows = Rows.at(atoms, k, q_, xi, s)
        eta = ridge[index] / xi
        lost = atoms.mean(xi[:, None, None] * atoms.inverse_inputs * rows.F) @ atoms.row_weight
        kept = atoms.mean(rows.signal + q_[:, None, None] * rows.F) @ atoms.row_weight
        residual = np.where(lost < 0.5, lost - ((1 - t) + t * eta), t * (1 - eta) - kept)
        move = -residual / (rows.spent + t * eta)
        # The scalars follow xi: exactly for the last step, whose square is below rounding; before
        # it, this guess makes the next solution of their equations short.
        scales[index] = s * np.exp(np.clip(rows.beta_delta / rows.B * move[:, None], -1, 1))
        return move

    math_ = ArrayMath(np)
    inputs = 1 / (atoms.row[0] * atoms.inverse_inputs[0])
    smallest = q * atoms.row[0] * np.min(inputs)
    mean = atoms.mean(inputs) * (atoms.mean(atoms.T * inputs) + q * atoms.mean(inputs))
    # Widened so that rounding cannot hide the root where the bounds are a few ulp apart.
    lower = ridge_bracket(math_, tau, smallest, ridge) * (1 - 1e-9)
    upper = ridge_bracket(math_, tau, mean, ridge) * (1 + 1e-9)
    return find_roots(step, lower, upper, np.clip(start, lower, upper)), scales
