r"""The Marchenko-Pastur law: limiting spectrum of a sample covariance matrix.

:math:`\frac1N Z^\top Z` with an :math:`N \times d` matrix Z of independent entries of mean 0 and
variance 1 has, at fixed ratio :math:`c = d/N`, the limiting spectral measure

.. formula: law

.. math:: \mu = \max(0, 1 - 1/c)\, \delta_0
   + \frac{\sqrt{(\lambda_+ - x)(x - \lambda_-)}}{2\pi c x}\, dx,
   \qquad \lambda_\pm = (1 \pm \sqrt c)^2.

Everything here rests on one fact: :math:`x\, d\mu` is a semicircle law of centre :math:`1 + c` and
half-width :math:`2\sqrt c`.  With :math:`x = 1 + c + 2\sqrt c \cos\varphi` the distribution
function is elementary and the quadrature nodes are Chebyshev's.

.. symbols:
   \mu: law of the eigenvalues, of Marchenko and Pastur
   x: eigenvalue
   c: dimension over context length
   \lambda: smallest (−) and largest (+) eigenvalue
   \delta_0: atom at 0
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.checks import (
    check_derivative,
    check_integers,
    checked,
    numpy_namespace,
    real_array,
)
from iclimit.asymptotics.numbers import ArrayMath, Namespace, Number, Value, require
from iclimit.asymptotics.spectra.integration import Intervals
from iclimit.asymptotics.spectra.measure import SpectralMeasure, reject_inside
from iclimit.asymptotics.spectra.resolvent import wishart_resolvent
from iclimit.checks import refuse_masked


class MarchenkoPastur(SpectralMeasure):
    """Marchenko-Pastur law of unit variance.

    Parameters
    ----------
    ratio : number or array, 0 < ratio < inf
        Dimension over number of samples, d/N.  An array is a family of laws: every method
        broadcasts it against its argument.  The generic methods of `SpectralMeasure` (support,
        atoms, integrate, expect) take one law.

    Raises
    ------
    ValueError
        If ratio is not positive and finite.

    References
    ----------
    Marchenko and Pastur, Math. USSR Sbornik 1 (1967) 457.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import MarchenkoPastur
    >>> law = MarchenkoPastur(0.25)
    >>> [float(edge) for edge in law.edges]
    [0.25, 2.25]
    >>> float(law.moment(2))
    1.25
    """

    def __init__(self, ratio: Number) -> None:
        math_, values = checked(ratio=ratio)
        self._math = math_
        self.ratio = values.ratio

    @cached_property
    def support(self) -> Intervals:
        """The interval of the continuous part, with 0 before it for ratio > 1.

        It is that of a single law: a ValueError is raised if ratio is an array.
        """
        lower, upper = self._single().edges
        interval = (float(lower), float(upper))
        return ((0.0, 0.0), interval) if self.ratio > 1 else (interval,)

    @cached_property
    def atoms(self) -> Intervals:
        """The `atom` at zero, for ratio > 1."""
        return ((0.0, float(self._single().atom)),) if self.ratio > 1 else ()

    def _single(self) -> MarchenkoPastur:
        if getattr(self.ratio, "ndim", 0):
            raise ValueError(f"ratio must be one number for this, got {self.ratio}")
        return self

    @property
    def edges(self) -> tuple[Value, Value]:
        """Lower and upper end of the continuous part, (1 -+ sqrt(c))^2."""
        math_ = self._math
        c = self.ratio
        root = math_.sqrt(c)
        return math_.finish(((1 - c) / (1 + root)) ** 2), math_.finish((1 + root) ** 2)

    @property
    def atom(self) -> Value:
        """Mass at zero, max(0, 1 - 1/c)."""
        math_ = self._math
        c = self.ratio
        return math_.finish(math_.where(c > 1, lambda: (c - 1) / c, lambda: 0 * c))

    def density(self, x: Number) -> Value:
        """Density of the continuous part at x; zero outside the edges."""
        x = real_array("x", x)
        lower, upper = self.edges
        inside = (x > lower) & (x < upper)
        with np.errstate(all="ignore"):
            value = np.sqrt((upper - x) * (x - lower)) / (2 * np.pi * self.ratio * x)
        return np.where(inside, value, 0.0)[()]

    def cdf(self, x: Number) -> Value:
        """Distribution function: mass of (-inf, x]."""
        x = real_array("x", x)
        lower, upper = self.edges
        # Half angles: an arccos would lose half the digits at the edges (1e-8 of mass at c = 1).
        angle = 2 * np.arctan2(
            np.sqrt(np.maximum(upper - x, 0.0)), np.sqrt(np.maximum(x - lower, 0.0))
        )
        value = 1 - self._mass_above(angle)
        return np.where(x >= 0, np.clip(value, 0.0, 1.0), 0.0)[()]

    def _mass_above(self, angle: Value) -> Value:
        """Mass of the part at angles below ``angle``: integral of (2/pi) sin^2 / x."""
        c = self.ratio
        root = np.sqrt(c)
        squeeze = abs(1 - c) / (1 + root) ** 2
        turned = np.arctan2(squeeze * np.sin(angle / 2), np.cos(angle / 2))
        area = (1 + c) * angle - 2 * abs(1 - c) * turned
        return (area / (2 * c) - np.sin(angle) / root) / np.pi

    def quantile(self, probability: Number) -> Value:
        """Inverse of the distribution function; zero on the atom.

        Raises
        ------
        ValueError
            If a probability lies outside [0, 1].
        """
        p = real_array("probability", probability)
        p, c = np.broadcast_arrays(p, np.asarray(self.ratio, dtype=float))
        flat = MarchenkoPastur(c.ravel())
        tail = np.minimum(1 - p.ravel(), flat._mass_above(np.pi))
        angle = elementwise.find_root(
            lambda t, c, tail: MarchenkoPastur(c)._mass_above(t) - tail,
            (np.zeros_like(tail), np.full_like(tail, np.pi)),
            args=(flat.ratio, tail),
        ).x
        # 1 + c + 2 sqrt(c) cos(angle) without cancellation at the lower edge.
        value = flat.edges[0] + 4 * np.sqrt(flat.ratio) * np.cos(angle / 2) ** 2
        value = np.where((p.ravel() > flat.atom) | (flat.atom == 0), value, 0.0)
        return value.reshape(p.shape)[()]

    def moment(self, order: int) -> Value:
        r"""Moment :math:`\int x^m d\mu = \sum_j N(m, j) c^{j-1}` with Narayana numbers N."""
        check_integers(order=order)
        c = self.ratio
        total = self._math.convert(1)
        narayana = total
        for j in range(1, order):
            narayana = narayana * ((order - j) * (order - j + 1)) / (j * (j + 1))
            total = total + narayana * c**j
        return self._math.finish(total + 0 * c)

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        r"""Stieltjes transform :math:`m(z) = \int d\mu(x) / (x - z)` or its derivative in z.

        Parameters
        ----------
        z : number or array, real or complex
            Real points must lie outside the support (the atom included).  Negative real z takes
            the number system of the arguments (mpmath, SymPy); the rest is NumPy's.
        derivative : {0, 1, 2}
            Order of the derivative.

        Raises
        ------
        ValueError
            If a real z lies in the support, or derivative is not 0, 1 or 2.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> MarchenkoPastur(0.5).stieltjes(0.0)
        np.float64(2.0)
        """
        check_derivative(derivative, most=2)
        if np.iscomplexobj(z):
            numpy_namespace({"z": z})
            refuse_masked("z", z)
            if np.any(np.isnan(z)):
                raise ValueError(f"z must be a number, got {z}")
            return self._stieltjes(np.asarray(z), derivative)
        z, _, negative = self._real_point(z)
        if negative:
            value = wishart_resolvent(-z, kappa=1 / self.ratio, derivative=derivative)
            return -value if derivative == 1 else value
        numpy_namespace({"z": z})
        self._require_outside(z, self.ratio > 1)
        with np.errstate(all="ignore"):
            value = self._stieltjes(np.asarray(z) + 0j, derivative).real
        return np.where(np.isinf(z), 0.0, value)[()]

    def _real_point(self, z: Value) -> tuple[Value, Value, bool]:
        """Convert a real point, and the ratio; tell whether it is negative.

        Nothing can go wrong at a negative one.
        """
        math_, values = checked(z=z, ratio=self.ratio)
        return values.z, values.ratio, math_.violates(values.z, lambda v: v < 0) is None

    def _require_outside(self, z: Value, atom: Value) -> None:
        """Raise a ValueError if a real z lies in the support or on an atom at zero."""
        lower, upper = self.edges
        outside = (z > upper) | ((z < lower) & ((z != 0) | ~np.asarray(atom)))
        points = np.broadcast_to(z, np.shape(outside))[~outside]
        reject_inside("z", points, f"[{lower}, {upper}] and its atom")

    def _stieltjes(self, z: np.ndarray, derivative: int) -> Value:
        c = np.asarray(self.ratio, dtype=float)
        lower, upper = self.edges
        # The product of the two principal roots is the branch that behaves as z at infinity.
        root = np.sqrt(z - lower) * np.sqrt(z - upper)
        linear = 1 - c - z
        with np.errstate(all="ignore"):
            m = np.where(
                abs(linear - root) >= abs(linear + root),
                2 / (linear - root),
                (linear + root) / (2 * c * z),
            )
            if derivative == 0:
                return m[()]
            slope = -m * (1 + c * m) / root
            if derivative == 1:
                return slope[()]
            # The derivative of c z m^2 - (1 - c - z) m + 1 = 0, taken twice.
            return (-2 * slope * (1 + 2 * c * m + c * z * slope) / root)[()]

    def companion_stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        r"""Transform of the companion law, the spectrum of :math:`ZZ^\top/N`.

        Equal to :math:`-(1-c)/z + c\, m(z)`.  It is computed as the transform of the law of ratio
        1/c scaled by c, which is what the companion law is: nothing cancels near z = 0.

        Parameters, errors and number systems are those of `stieltjes`, for the support of the
        companion law: zero is in it for c < 1 and not for c > 1.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> float(MarchenkoPastur(2.0).companion_stieltjes(0.0))
        1.0
        """
        c = self.ratio
        if np.iscomplexobj(z):
            numpy_namespace({"z": z})
        else:
            z, c, negative = self._real_point(z)
            if not negative:
                numpy_namespace({"z": z})
                self._require_outside(z, c < 1)
        scaled = MarchenkoPastur(1 / c).stieltjes(z / c, derivative=derivative)
        return scaled / c ** (1 + derivative)

    def shannon_transform(self, snr: Number, *, derivative: int = 0) -> Value:
        r"""Shannon transform :math:`\int \log(1 + \gamma x)\, d\mu(x)` or a derivative in gamma.

        Parameters
        ----------
        snr : number or array > 0
            The argument :math:`\gamma`.
        derivative : {0, 1, 2}
            Order of the derivative.

        Raises
        ------
        ValueError
            If snr is not positive, or derivative is not 0, 1 or 2.

        References
        ----------
        Tulino and Verdu, Random Matrix Theory and Wireless Communications (2004), section 2.2.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> round(float(MarchenkoPastur(1e-9).shannon_transform(1.0)), 6)
        0.693147
        """
        check_derivative(derivative, most=2)
        math_, values = checked(snr=snr, ratio=self.ratio, ranges={"snr": "(0, inf]"})
        snr = values.snr
        c = values.ratio
        w = _inflation(math_, snr, c)
        if derivative == 0:
            return math_.finish(math_.log1p(snr / w) + (math_.log(w) - (w - 1) / w) / c)
        eta = 1 / (1 + snr / w)
        if derivative == 1:
            return math_.finish(eta / w)
        return math_.finish(-eta * (1 + c * w * eta) / (w * (snr + w**2)))

    def eta_transform(self, snr: Number, *, derivative: int = 0) -> Value:
        r"""Eta transform :math:`\int d\mu(x) / (1 + \gamma x)` or a derivative in gamma.

        Parameters
        ----------
        snr : number or array
            The argument :math:`\gamma`, with 1 + snr x > 0 on the support.  It may be of any
            number system where none is negative.
        derivative : {0, 1, 2}
            Order of the derivative.

        Raises
        ------
        ValueError
            If -1/snr lies in the support, or derivative is not 0, 1 or 2.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> round(float(MarchenkoPastur(2.0).eta_transform(1.0)), 12)
        0.707106781187
        """
        check_derivative(derivative, most=2)
        math_, values = checked(snr=snr, ratio=self.ratio)
        point = values.snr
        if math_.violates(point, lambda v: v >= 0) is not None:
            return super().eta_transform(snr, derivative=derivative)
        c = values.ratio
        w = _inflation(math_, point, c)
        eta = 1 / (1 + point / w)
        slope = 1 / (point + w**2)
        if derivative == 0:
            return math_.finish(eta)
        if derivative == 1:
            return math_.finish(-eta * slope)
        # Sums of positive terms; 2 (1 + c) at gamma = 0.
        return math_.finish(2 * eta * slope**2 * (1 + c * w**3 * eta * slope))

    def r_transform(self, x: Number, *, derivative: int = 0) -> Value:
        r"""R-transform :math:`R(x) = 1/(1 - c x)` or its derivative.

        Parameters
        ----------
        x : number or array
            Between the values of G = -m at the edges, :math:`-1/(\sqrt c - c)` for c < 1 (else
            :math:`-\infty`) and :math:`1/(\sqrt c + c)`.
        derivative : {0, 1}
            Order of the derivative.

        Raises
        ------
        ValueError
            If x is outside that interval, or derivative is not 0 or 1.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> float(MarchenkoPastur(0.5).r_transform(0.5))
        1.3333333333333333
        """
        check_derivative(derivative, most=1)
        math_, values = checked(x=x, ratio=self.ratio)
        x = values.x
        c = values.ratio
        root = math_.sqrt(c)
        # The upper bound, and the lower one, which there is only for c < 1.
        require(math_, "x", x + 0 * c, lambda v: v * (root + c) < 1, "below 1/(sqrt(c) + c)")
        require(math_, "x", x + 0 * c, lambda v: v * (c - root) < 1, "above 1/(c - sqrt(c))")
        return math_.finish(c / (1 - c * x) ** 2 if derivative else 1 / (1 - c * x))

    def s_transform(self, x: Number, *, derivative: int = 0) -> Value:
        r"""S-transform :math:`S(x) = 1/(1 + c x)` or its derivative.

        Parameters
        ----------
        x : number or array
            In :math:`(-\min(1, 1/c), 1/\sqrt c)`.
        derivative : {0, 1}
            Order of the derivative.

        Raises
        ------
        ValueError
            If x is outside that interval, or derivative is not 0 or 1.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> float(MarchenkoPastur(0.5).s_transform(-0.5))
        1.3333333333333333
        """
        check_derivative(derivative, most=1)
        math_, values = checked(x=x, ratio=self.ratio)
        x = values.x
        c = values.ratio
        require(math_, "x", x + 0 * c, lambda v: v > -1, "> -1")
        require(math_, "x", x + 0 * c, lambda v: v * c > -1, "> -1/c")
        require(math_, "x", x + 0 * c, lambda v: v * math_.sqrt(c) < 1, "< 1/sqrt(c)")
        return math_.finish(-c / (1 + c * x) ** 2 if derivative else 1 / (1 + c * x))

    def quadrature(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        r"""Gauss-Radau rule with fixed node 0: exact for polynomials of degree 2 * order.

        The nodes are 0 and :math:`1 + c + 2\sqrt c \cos(k\pi/(n+1))`, the zeros of the
        orthogonal polynomials of :math:`x\,d\mu`.  The weight at 0 is the Christoffel number
        :math:`1/\sum_{j=0}^n c^{-j}`: it tends to the atom as the order n grows.

        Parameters
        ----------
        order : int >= 1
            Number n of nodes inside the support.

        Returns
        -------
        nodes, weights : ndarray, shape (..., order + 1)
            The last axis runs over the nodes, 0 first; leading axes are those of ratio.

        Raises
        ------
        ValueError
            If order is not a positive integer.

        Examples
        --------
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> nodes, weights = MarchenkoPastur(0.5).quadrature(20)
        >>> round(float(weights @ nodes**3), 12)
        2.75
        """
        check_integers(least=1, order=order)
        on_arrays = self._math if isinstance(self._math, ArrayMath) else ArrayMath(np)
        c = on_arrays.convert(self.ratio)[..., None]
        angle = np.pi * np.arange(1, order + 1) / (order + 1)
        # 1 + c + 2 sqrt(c) cos(t) without cancellation at the lower edge.
        inner = (1 - np.sqrt(c)) ** 2 + 4 * np.sqrt(c) * np.cos(angle / 2) ** 2
        inner_weights = 2 / (order + 1) * np.sin(angle) ** 2 / inner
        powers = np.where(c < 1, c, 1 / c) ** np.arange(order + 1)
        at_zero = np.where(c < 1, powers[..., -1:], 1.0) / np.sum(powers, axis=-1, keepdims=True)
        return (
            np.concatenate([np.zeros_like(c), inner], axis=-1),
            np.concatenate([at_zero, inner_weights], axis=-1),
        )


def _inflation(math_: Namespace, snr: Value, ratio: Value) -> Value:
    """The inflation 1 + M(1/snr)/kappa of `resolvent`."""
    with math_.quiet():
        return 1 + ratio * wishart_resolvent(math_.divide(1, snr), kappa=1 / ratio)
