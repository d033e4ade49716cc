r"""Means of products of two functions of a sample covariance, for any population spectrum.

S is the covariance of P Gaussian samples in dimension d, with population covariance
:math:`\Lambda`, and A and B are matrices that commute with :math:`\Lambda`.  The mean

.. math:: \frac1d E \operatorname{tr} B\, p(S)\, A\, p(S)

is not an integral over one spectrum unless A or B is the identity.  For large d at fixed
:math:`\alpha = P/d` its deterministic equivalent is a double contour integral.  It is written in
the plane of the subordination function w, where nothing has to be solved: with
:math:`\langle\cdot\rangle` the mean over the eigenvalues :math:`\lambda` of the population and
:math:`R = (\lambda - w)^{-1}`

.. math:: \tau(w) = \langle \lambda R \rangle, \qquad
   z(w) = w \Bigl(1 - \frac{\tau}{\alpha}\Bigr), \qquad
   E (S - z)^{-1} \simeq \frac wz (\Lambda - w)^{-1},

.. math:: \frac1d E \operatorname{tr} B (S - z_1)^{-1} A (S - z_2)^{-1} \simeq
   \frac{w_1 w_2}{z_1 z_2} \Bigl\{ \langle A B R_1 R_2 \rangle
   + \frac{\langle B \lambda R_1 R_2 \rangle \langle \lambda A R_1 R_2 \rangle}
   {\alpha - \langle \lambda^2 R_1 R_2 \rangle} \Bigr\} .

**Width.**  A random projection :math:`\Pi` of rank N in the same space makes :math:`M = \Pi S`,
whose products :math:`\operatorname{tr} B\, p(M)^\top A\, p(M)` are those of residual networks of
width N.  With :math:`a = N/d`

.. math:: \Psi = \frac{a - \tau}{1 - \tau}, \qquad Z(w) = \Psi\, z(w),

and a kernel that follows from that of S, in which :math:`\Pi` is averaged by freeness:
`_through_width`.  The theory page derives both.

The integrals are sums over the nodes of `iclimit.asymptotics.spectra.contours`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq

from iclimit.asymptotics.checks import real_array, real_number
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.contours import Ellipse, choose_ellipse
from iclimit.asymptotics.spectra.measure import SpectralMeasure, is_atomic, parse_measure

# Nodes per interval of a population with a density; contours keep away from it, so that the rule
# converges geometrically.
_ORDER = 400

# Nodes in the upper half plane at first; they are doubled until the error is small.
_FEWEST = 32

# Most nodes in the upper half plane.
_MOST = 512

# Relative error at which the nodes are not doubled any more.
_GOAL = 1e-12

# Points of a geometric grid on which the ends of the spectrum are looked for.
_SCAN = 2000

Function = Callable[[np.ndarray], Any]


class TwoPoint:
    r"""Deterministic equivalent of products of two functions of a sample covariance.

    Parameters
    ----------
    population : SpectralMeasure
        Spectrum of the population covariance, >= 0 and bounded.
    alpha : float
        Number of samples over dimension; inf makes the sample covariance that of the population.
    width_ratio : float
        Rank of a random projection of the covariance over dimension; at 1 or above there is none.

    Raises
    ------
    ValueError
        If the population is {0}, reaches below 0 or is unbounded, or a ratio is out of range.
    TypeError
        If population is no measure.

    Notes
    -----
    At dimension d the mean differs by O(1/d).  If a function grows fast above the spectrum, the
    mean may be carried by rare covariances whose largest eigenvalue leaves it; the error estimate
    does not know that.

    References
    ----------
    Derived in the documentation, page on depth; the projection at infinite :math:`\alpha` in
    Bordelon, Letey and Pehlevan, arXiv:2510.01098v1.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Atoms, TwoPoint
    >>> covariance = TwoPoint(Atoms([0.5, 1.5]), alpha=2.0)
    >>> value, error = covariance.mean(lambda z: (1 - 0.4 * z) ** 4, inner=lambda x: x)
    >>> round(float(value), 9), bool(error < 1e-12)
    (0.13943536, True)
    """

    def __init__(
        self, population: SpectralMeasure, *, alpha: float = np.inf, width_ratio: float = np.inf
    ) -> None:
        self.population = parse_measure("population", population, bounded=True)
        lower, upper = self.population.edges
        if not (lower >= 0 and upper > 0):
            raise ValueError(
                f"population must have a support in [0, inf), not {{0}}, got {population} on "
                f"{self.population.support}"
            )
        self.alpha = real_number("alpha", alpha)
        width = real_number("width_ratio", width_ratio)
        self.width_ratio = width if width < 1 else np.inf
        order = 1 if is_atomic(self.population) else _ORDER
        values, weights = self.population.quadrature(order)
        kept = weights > 0
        self.values = values[kept]
        self.weights = weights[kept]

    @property
    def is_deterministic(self) -> bool:
        """Whether the covariance is that of the population."""
        return bool(self.alpha == np.inf and self.width_ratio == np.inf)

    def mean(
        self, function: Function, *, outer: Number | None = None, inner: Number | None = None
    ) -> tuple[float, float]:
        r"""Mean of :math:`\operatorname{tr} B\, p(S)^\top A\, p(S)/d`.

        Parameters
        ----------
        function : callable
            p, analytic around the spectrum and real on it; takes complex arrays.
        outer, inner : callable or array, optional
            Eigenvalues of B and A as a function of those of the population, or an array with one
            number for each of ``values``; 1 by default.

        Returns
        -------
        value, error : float
            The error is the change under another contour, plus rounding.

        Raises
        ------
        ArithmeticError
            If the function grows too fast next to the spectrum.
        """
        form = self.form(lambda z: np.asarray(function(z))[None], outer=outer, inner=inner)
        p = [np.asarray(function(z)) for z in form.nodes]
        return float(form.pair(p)), float(form.pair_error(p))

    def form(
        self, functions: Function, *, outer: Number | None = None, inner: Number | None = None
    ) -> QuadraticForm:
        """Quadratic form of which `mean` is a value, for many functions.

        Parameters
        ----------
        functions : callable
            Values (k, m) of k functions at m complex points, which stand for all functions that
            the form is used with: the contour and the number of nodes are chosen by them.
        outer, inner : callable or array, optional
            As in `mean`.

        Returns
        -------
        QuadraticForm
        """
        B = self._eigenvalues("outer", outer)
        A = self._eigenvalues("inner", inner)
        if self.is_deterministic:
            return QuadraticForm([_Diagonal(self.values, self.weights * A * B, self.weights * A)])
        ellipse = choose_ellipse(
            functions, self._image, self._ends, self.edges, min(1.0, self.width_ratio)
        )
        count = _FEWEST
        ellipses = (ellipse, ellipse.nearer(self._ends))
        while True:
            rules = [Contour.along(self, ellipse, count, B, A) for ellipse in ellipses]
            form = QuadraticForm(rules)
            p = [functions(rule.nodes) for rule in rules]
            value = form.pair(p)
            error = form.pair_error(p)
            if count >= _MOST or np.all(error <= _GOAL * abs(value) + 2 * form.rounding(p)):
                break
            count *= 2
        return form

    def null_mean(self, *, outer: Number | None = None, inner: Number | None = None) -> float:
        r"""Mean of :math:`\operatorname{tr} B\, \Pi_0^\top A\, \Pi_0/d`, null projector of S.

        Parameters
        ----------
        outer, inner : callable or array, optional
            As in `mean`; inner must vanish where the population does.

        Returns
        -------
        float
            The limit of `mean` for functions that tend to 1 at 0 and to 0 elsewhere.
        """
        B = self._eigenvalues("outer", outer)
        A = self._eigenvalues("inner", inner)
        if self.is_deterministic:
            return float((self.weights * A * B)[self.values == 0].sum())
        pole = self._ends[0]
        if not pole < 0:
            return 0.0
        # Up to the lower edge of the rest of the spectrum, where Z turns back.
        inside = pole * np.geomspace(1.0, 1e-14, _SCAN)
        end = inside[np.flatnonzero(self._speed(inside) <= 0)[0]]
        radius = (end - pole) / 2
        circle = Ellipse(pole - radius, pole + radius, 1.0, 1.0)
        ones = np.ones(2 * _FEWEST)
        return float(Contour.along(self, circle, 2 * _FEWEST, B, A).pair(ones, ones))

    def _eigenvalues(self, name: str, given: Any) -> np.ndarray:
        if callable(given):
            given = given(self.values)
        values = real_array(name, 1.0 if given is None else given, "(-inf, inf)")
        if values.shape not in ((), self.values.shape):
            raise ValueError(
                f"{name} must have one number for each of the {self.values.size} eigenvalues, got "
                f"shape {values.shape}"
            )
        return np.broadcast_to(values, self.values.shape)

    # The map from w to the plane of the eigenvalues

    def _traces(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tau and its derivative."""
        # Zeros of the population do not count, and are poles at w = 0.
        kept = self.values > 0
        R = 1 / (self.values[kept] - np.asarray(w)[..., None])
        mass = (self.weights * self.values)[kept]
        return R @ mass, R**2 @ mass

    def _image(self, w: np.ndarray) -> np.ndarray:
        """Z(w), the point of the plane of the eigenvalues that belongs to w."""
        tau, _ = self._traces(w)
        return w * (1 - tau / self.alpha) * self._narrowing(tau)

    def _narrowing(self, tau: Value) -> Value:
        """Psi, by which a projection multiplies."""
        if self.width_ratio == np.inf:
            return 1.0
        return (self.width_ratio - tau) / (1 - tau)

    @np.errstate(over="ignore", invalid="ignore")  # of an alpha near the smallest float
    def _speed(self, w: np.ndarray) -> np.ndarray:
        """Derivative of Z(w)."""
        tau, slope = self._traces(w)
        shrunk = 1 - tau / self.alpha
        narrow = self._narrowing(tau)
        value = shrunk * narrow - w * slope / self.alpha * narrow
        if self.width_ratio < np.inf:
            value = value - w * shrunk * slope * (1 - self.width_ratio) / (1 - tau) ** 2
        return value

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """Ends of the spectrum in the plane of w: where Z turns back, or carries an atom at 0."""
        top = float(self.values[-1])
        above = top * (1 + np.geomspace(1e-12, 1e6, _SCAN))
        return self._lowest(top), self._last_turn(above)

    def _lowest(self, top: float) -> float:
        least = min(1.0, self.alpha, self.width_ratio)
        positive = self.values > 0
        # The sum of weights is 1 up to rounding.
        if least < self.weights[positive].sum() * (1 - 1e-12):  # an atom at 0
            start = -top
            while self._traces(np.array(start))[0] > least:
                start *= 4
            pole = self._root(lambda w: self._traces(np.array(w))[0] - least, start, 0.0)
            below = pole - top * np.geomspace(1e-12, 1e6, _SCAN)
            return self._last_turn(below)
        if not np.all(positive):
            return 0.0
        bottom = float(self.values[0])
        near = 1 - np.geomspace(1e-12, 0.5, _SCAN)
        below = bottom * np.concatenate([near, np.geomspace(0.5, 1e-14, _SCAN)])
        return self._last_turn(below)

    def _last_turn(self, grid: np.ndarray) -> float:
        """Zero of the derivative farthest from the start of a grid.

        Without a zero it is the start, which is next to the atom at 0 or to an eigenvalue of the
        population that survives a projection.
        """
        turned = np.flatnonzero(self._speed(grid) <= 0)
        if not turned.size:
            return float(grid[0])
        bracket = grid[turned[-1]], grid[min(turned[-1] + 1, grid.size - 1)]
        if bracket[0] == bracket[1]:
            return float(bracket[0])
        return self._root(lambda w: self._speed(np.array(w)), *bracket)

    def _root(self, function: Callable[[float], Any], start: float, stop: float) -> float:
        """Zero between two points, to rounding of the largest eigenvalue."""
        try:
            return float(brentq(function, start, stop, xtol=1e-15 * float(self.values[-1])))
        except ValueError as error:  # no change of sign, or NaN
            raise ArithmeticError("alpha or the spectrum is too extreme for float64") from error

    @cached_property
    def edges(self) -> tuple[float, float]:
        """Lower and upper end of the spectrum, an atom at 0 included."""
        if self.is_deterministic:
            return float(self.values[0]), float(self.values[-1])
        start, stop = self._ends
        lower = float(self._image(np.array(start)))
        upper = float(self._image(np.array(stop)))
        return (max(lower, 0.0) if start > 0 else 0.0), upper

    # Kernels

    def _of_samples(self, points: Points, side: int, B: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Kernel of the sample covariance, with resolvents at z."""
        total = points.mean(A * B, side)
        if self.alpha < np.inf:
            left = points.mean(self.values * B, side)
            right = points.mean(self.values * A, side)
            loop = points.mean(self.values * self.values, side)
            total = total + left * right / (self.alpha - loop)
        return points.outer(points.ratio, side) * total

    def _through_width(
        self, points: Points, side: int, B: np.ndarray, A: np.ndarray
    ) -> np.ndarray:
        r"""Kernel of :math:`M = \Pi S`, for A = :math:`\Lambda`, from that of S.

        With resolvents :math:`Q = (S - z)^{-1}`, the scalars :math:`\Psi` and
        :math:`\Sigma = \tau/\Psi` and, for the spectrum of the projection,
        :math:`\beta = (1 - a)/(s_1 s_2) + a/((1 + s_1)(1 + s_2))`, :math:`s = a/\tau - 1`.
        """
        if not np.allclose(A, self.values):
            raise ValueError("inner must be the eigenvalues of the population at finite width")
        a = self.width_ratio
        ones = np.ones_like(self.values)
        psi = points.outer(points.narrow, side)
        zz = points.outer(points.z, side)

        def squared(x: np.ndarray) -> np.ndarray:
            """Mean of x S^2 Q_1 Q_2."""
            single = points.z * points.ratio * (points.R @ (self.weights * x))
            other = np.conj(single) if side else single
            pair = zz * self._of_samples(points, side, x, ones)
            return self.weights @ x + single[:, None] + other + pair

        shift = a / points.tau - 1
        beta = (1 - a) / points.outer(shift, side) + a / points.outer(1 + shift, side)
        excess = psi / points.outer(points.tau, side) - 1 / beta
        dressed = squared(B) / psi * excess / (1 - excess * squared(ones) / psi)
        plain = self._of_samples(points, side, A, B)
        return (plain + dressed * self._of_samples(points, side, A, ones)) / psi


class Points:
    """Points of the plane of w with what the kernels need of them.

    Functions of two points come for pairs of these points (side 0), and for each of them with the
    complex conjugates of all (side 1).
    """

    def __init__(self, law: TwoPoint, w: np.ndarray) -> None:
        self._weights = law.weights
        self.tau, _ = law._traces(w)
        shrunk = 1 - self.tau / law.alpha
        self.z = w * shrunk
        self.ratio = 1 / shrunk
        self.narrow = law._narrowing(self.tau)
        self.R = 1 / (law.values - w[:, None])
        self._means: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    @staticmethod
    def outer(x: np.ndarray, side: int) -> np.ndarray:
        return np.multiply.outer(x, np.conj(x) if side else x)

    def mean(self, x: np.ndarray, side: int) -> np.ndarray:
        """Mean over the population of x R_1 R_2."""
        key = x.tobytes()
        if key not in self._means:
            # Three real products instead of two complex ones.
            mass = self._weights * x
            re = self.R.real.copy()
            im = self.R.imag.copy()
            rr = (re * mass) @ re.T
            ii = (im * mass) @ im.T
            ri = (re * mass) @ im.T
            self._means[key] = rr - ii + 1j * (ri + ri.T), rr + ii + 1j * (ri.T - ri)
        return self._means[key][side]


class _Diagonal:
    """The form where the covariance is that of the population: a sum over its eigenvalues."""

    def __init__(self, nodes: np.ndarray, pairs: np.ndarray, singles: np.ndarray) -> None:
        self.nodes = nodes
        self._pairs = pairs
        self._singles = singles

    def pair(self, p: np.ndarray, q: np.ndarray) -> Value:
        return (p * q) @ self._pairs

    def rounding(self, p: np.ndarray) -> Value:
        return 2 * np.finfo(float).eps * abs(self.pair(p, p))

    def single(self, p: np.ndarray) -> Value:
        return p @ self._singles


class Contour:
    """The form as a sum over nodes in the upper half plane, and their complex conjugates.

    ``weights`` are those of dz/(2 pi i) in the plane of the eigenvalues.
    """

    def __init__(
        self,
        law: TwoPoint,
        w: np.ndarray,
        nodes: np.ndarray,
        weights: np.ndarray,
        B: np.ndarray,
        A: np.ndarray,
    ) -> None:
        self.nodes = nodes
        self._weights = weights
        kernel = law._of_samples if law.width_ratio == np.inf else law._through_width
        points = Points(law, w)
        self._same = kernel(points, 0, B, A)
        self._mirrored = kernel(points, 1, B, A)
        self._single = -2 * weights * points.ratio * (points.R @ (law.weights * A))

    @classmethod
    def along(
        cls, law: TwoPoint, ellipse: Ellipse, count: int, B: np.ndarray, A: np.ndarray
    ) -> Contour:
        """Contour along an ellipse in the plane of w."""
        w, weights = ellipse.nodes(count)
        return cls(law, w, law._image(w), weights * law._speed(w), B, A)

    def matrix(self, p: np.ndarray) -> np.ndarray:
        """The form between all pairs of k functions, from their values (k, m)."""
        p = p * self._weights
        matrix = 2 * (p @ self._same @ p.T + p @ self._mirrored @ np.conj(p).T).real
        return (matrix + matrix.T) / 2

    def pair(self, p: np.ndarray, q: np.ndarray) -> Value:
        left = _real_parts(p)
        right = left if q is p else _real_parts(q)
        return np.vecdot(left @ self._real_form, right)

    @cached_property
    def _real_form(self) -> np.ndarray:
        """Matrix between real and imaginary parts of values at the nodes: half the work."""
        w = self._weights
        same = 2 * w[:, None] * self._same * w
        mirrored = 2 * w[:, None] * self._mirrored * np.conj(w)
        both = same + mirrored
        apart = mirrored - same
        return np.block([[both.real, apart.imag], [-both.imag, apart.real]])

    def rounding(self, p: np.ndarray) -> Value:
        """Machine epsilon times the sum of the sizes of all terms of the form."""
        size = abs(p * self._weights)
        sizes = abs(self._same) + abs(self._mirrored)
        return 2 * np.finfo(float).eps * (size @ sizes * size).sum(axis=-1)

    def single(self, p: np.ndarray) -> Value:
        return (p @ self._single).real


def _real_parts(p: np.ndarray) -> np.ndarray:
    return np.concatenate([p.real, p.imag], axis=-1)


class QuadraticForm:
    r"""Mean of :math:`\operatorname{tr} B\, p(S)^\top A\, q(S)/d` from p and q at nodes.

    Attributes
    ----------
    nodes : list of ndarray (m,)
        Points of the plane of the eigenvalues on one or two contours; functions are given by
        their values there, arrays (..., m).
    """

    def __init__(self, rules: list[Any]) -> None:
        self._rules = rules
        self.nodes = [rule.nodes for rule in rules]

    def pair(self, p: list[np.ndarray], q: list[np.ndarray] | None = None) -> Value:
        """The form at p and q, by default at p twice; shape (...)."""
        return self._rules[0].pair(p[0], (p if q is None else q)[0])

    def single(self, p: list[np.ndarray]) -> Value:
        r"""Value of :math:`\operatorname{tr} A\, p(S)/d`, of :math:`p(M) \Pi` at finite width."""
        return self._rules[0].single(p[0])

    def rounding(self, p: list[np.ndarray]) -> Value:
        """Bound of the rounding errors of the form."""
        return self._rules[0].rounding(p[0])

    def pair_error(self, p: list[np.ndarray]) -> Value:
        """Change of the form under another contour, plus rounding."""
        return abs(self._rules[-1].pair(p[-1], p[-1]) - self.pair(p)) + self.rounding(p)

    def single_error(self, p: list[np.ndarray]) -> Value:
        """Change of the value of a single function under another contour."""
        return abs(self._rules[-1].single(p[-1]) - self.single(p))
