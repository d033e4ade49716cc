"""Affine images of spectral measures: scaled and shifted eigenvalues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import real_array, real_number
from iclimit.asymptotics.spectra.measure import SpectralMeasure


class Affine(SpectralMeasure):
    """Law of factor * x + shift, where x has a given law.

    Parameters
    ----------
    measure : SpectralMeasure
        Law of x.
    factor : float > 0
    shift : float

    Raises
    ------
    ValueError
        If factor is not positive and finite, or shift not finite.
    """

    def __init__(self, measure: SpectralMeasure, factor: float, shift: float) -> None:
        self.measure = measure
        self.factor, self.shift = real_number("factor", factor), real_number("shift", shift)
        self.support = tuple((self._image(a), self._image(b)) for a, b in measure.support)
        self.atoms = tuple((self._image(x), mass) for x, mass in measure.atoms)

    def _image(self, x: Any) -> Any:
        return self.factor * x + self.shift

    def _origin(self, x: Any) -> Any:
        return (x - self.shift) / self.factor

    def density(self, x: Any) -> Any:
        return self.measure.density(self._origin(real_array("x", x))) / self.factor

    def _rule(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        nodes, weights = self.measure._rule(order)
        return self._image(nodes), weights

    def expect(self, kernel: Callable[..., Any], pole: Any, *arguments: Any) -> Any:
        def at_image(x: np.ndarray, *rest: np.ndarray) -> Any:
            return kernel(self._image(x), *rest)

        return self.measure.expect(at_image, self._origin(np.asarray(pole)), *arguments)

    def cdf(self, x: Any) -> Any:
        return self.measure.cdf(self._origin(real_array("x", x)))

    def quantile(self, probability: Any) -> Any:
        return self._image(self.measure.quantile(probability))

    def stieltjes(self, z: Any, *, derivative: int = 0) -> Any:
        value = self.measure.stieltjes(self._origin(self._outside("z", z)), derivative=derivative)
        return value / self.factor ** (derivative + 1)

    def r_transform(self, x: Any, *, derivative: int = 0) -> Any:
        value = self.measure.r_transform(self.factor * real_array("x", x), derivative=derivative)
        return value * self.factor ** (derivative + 1) + (0.0 if derivative else self.shift)
