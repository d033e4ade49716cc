"""Search for the best temperature of softmax heads at one context length and dimension.

The loss needs averages of softmax weights at the temperatures of all norms of the query.  They
are smooth functions of these temperatures, so that a Chebyshev series of them serves the whole
search; the loss of the temperature found is then computed without it.
"""

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import minimize_scalar

from iclimit.asymptotics.softmax.brackets import Brackets, brackets, query_norms
from iclimit.asymptotics.softmax.pair_averages import pair_averages
from iclimit.asymptotics.softmax.weight_averages import weight_averages

# Steps of a second quadrature, which tells the error, over those of the quadrature itself.
COARSE = 1.2

# Relative error of rounding, which both quadratures share; largest measured 3e-14.
_ROUNDING = 1e-13

# Steps of the averages that the best temperature is searched with, by the number of heads: those
# of two heads nearly cancel.
_SEARCH = {1: 1.5, 2: 1.0}

# Chebyshev nodes of these averages.
_NODES = 48

# Smallest temperature in units of 1/sqrt(d) that is searched, by the number of heads.  The best
# one of one head is at least 0.48, that of d = 1 and many pairs.  Pairs of heads that are warmer
# differ in loss by less than 1e-12.
_SMALLEST = {1: 0.3, 2: 1e-3}


class TemperatureSearch:
    """Search for the best temperature at one size, with averages interpolated in t."""

    def __init__(self, N: float, d: float, heads: int) -> None:
        self._size = N, d, heads
        # For two or three pairs the best head nearly takes the label of the largest score.
        largest = 1.5 + 90 / N**2 if heads == 1 else 1.2 + 10 / N**2
        self._scale = np.array([_SMALLEST[heads], largest]) / np.sqrt(d)
        self._norm, self._weight = query_norms(d, N, _SEARCH[heads])
        # In arsinh(t) the averages are smooth over warm and cold scores.
        ends = np.arcsinh(self._scale * self._norm[[0, -1]])
        self._center, self._half = np.mean(ends), np.ptp(ends) / 2
        angles = np.pi * (np.arange(_NODES) + 0.5) / _NODES
        t = np.sinh(self._center + self._half * np.cos(angles))
        averages = (weight_averages if heads == 1 else pair_averages)(N, t, _SEARCH[heads])
        # Those of two heads vanish as t^2: what is interpolated must not.
        power = t ** (2 * heads - 2)
        table = np.log(
            np.stack(
                [averages.concentration / power, averages.spread, averages.variance / power],
                axis=-1,
            )
        )
        self._series = 2 / _NODES * np.cos(np.outer(np.arange(_NODES), angles)) @ table
        self._series[0] /= 2

    def _profile(self, log_beta: float, noise: float) -> float:
        """Least loss over the value, with averages from the table."""
        t = np.exp(log_beta) * self._norm
        place = (np.arcsinh(t) - self._center) / self._half
        q, spread, variance = np.exp(chebyshev.chebval(place, self._series))
        _, d, heads = self._size
        power = t ** (2 * heads - 2)
        losses = Brackets(d, self._norm, self._weight, t * spread, power * variance, power * q)
        return losses.loss(losses.best_value(noise), noise)

    def optimum(self, noise: float) -> tuple[float, float, float, float]:
        """Inverse temperature, value, loss and its relative error."""
        low, high = np.log(self._scale)
        best = minimize_scalar(
            self._profile,
            bounds=(low, high),
            args=(noise,),
            method="bounded",
            options={"xatol": 1e-8},
        ).x
        # Where the loss of a pair hardly depends on the temperature the search may miss its end.
        ends = (best,) if self._size[2] == 1 else (best, low)
        tried = [brackets(float(np.exp(each)), *self._size) for each in ends]
        losses = [each.loss(each.best_value(noise), noise) for each in tried]
        chosen = int(np.argmin(losses))
        beta, fine = float(np.exp(ends[chosen])), tried[chosen]
        coarse = brackets(beta, *self._size, COARSE)
        value = fine.best_value(noise)
        loss = fine.loss(value, noise)
        return beta, value, loss, abs(coarse.loss(value, noise) / loss - 1) + _ROUNDING
