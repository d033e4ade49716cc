r"""Law of the squared error of single test prompts: medians, quantiles, errors of test sets.

Given its weights linear attention errs by :math:`y - f`.  For linear labels this is Gaussian, of a
variance that hardly differs between prompts of a large dimension: a squared error is the mean
error e times a chi-square variable of one degree of freedom.  So

.. math:: \text{median} = 0.4549\, e, \qquad E\,|y - f| = \sqrt{2 e/\pi}, \qquad
   E \log (y - f)^2 = \log e - 1.2704, \qquad 90\,\%\ \text{quantile} = 2.7055\, e,

and a mean over N test prompts has the relative standard error :math:`\sqrt{2/N}`.  Who reports
medians is off by a factor of 2.2.

For other labels (module `iclimit.asymptotics.pretraining.labels`) the pair of z and f is Gaussian
(module `iclimit.asymptotics.pretraining.accuracy`), with :math:`E\,zf = g m` and
:math:`E\,f^2 = g^2 V` for the linear part g of the labels.  Given z and the sign s of the label
the error is again Gaussian,

.. math:: y - f \sim N\bigl(s\,g(z) - g m z,\ \rho + g^2 (V - m^2)\bigr) .

At a finite dimension the variance differs between prompts by O(1/d), which lowers medians: ratios
of median and mean were .406 to .426 at d = 16 and .427 to .438 at d = 32.

Source: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammaln, ndtr

from iclimit.asymptotics.checks import check_integers, checked, real_array
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.pretraining.accuracy import label_pairs
from iclimit.asymptotics.pretraining.labels import effective_labels, link_function, link_moments
from iclimit.checks import check_choice
from iclimit.links import Link, LinkLike, parse_link
from iclimit.results import Result

# Half of the range of z, and the midpoints in it, none at 0 where labels may jump.
_END = 9.0
_POINTS = 4000

# Errors whose squares are in the range of float64.
_ERRORS = (1e-150, 1e150)

# A deviation of this share of the root of the error stands for none.
_SHARP = 1e-9

# Terms of the Poisson series of a logarithm, and the non-centrality from which its expansion for
# large ones is within 1e-5.
_TERMS = 300
_CENTRAL = 120.0


@dataclass(frozen=True, repr=False)
class ErrorLaw(Result):
    """Law of the squared errors of the test prompts of one run.

    Attributes
    ----------
    mean : float
        Mean squared error.
    median : float
        Median of the squared errors.
    absolute : float
        Mean of the absolute errors.
    log : float
        Mean of the logarithms of the squared errors.
    kurtosis : float
        Mean square of the squared errors over their squared mean; 3 for Gaussian errors.
    offsets, weights : ndarray (m,)
        Means of the errors given z and the sign of the label, and their probabilities.
    deviation : float
        Standard deviation of an error given these.
    """

    mean: float
    median: float
    absolute: float
    log: float
    kurtosis: float
    offsets: np.ndarray
    weights: np.ndarray
    deviation: float

    def quantile(self, probability: Number) -> Value:
        """Squared error that so many of the test prompts stay below.

        Parameters
        ----------
        probability : number or array in (0, 1)

        Raises
        ------
        ValueError
            If it is outside its range.
        """
        chances = real_array("probability", probability, "(0, 1)")
        squares = [
            _quantile(self.offsets, self.weights, self.deviation, chance)
            for chance in chances.ravel().tolist()
        ]
        return np.reshape(squares, chances.shape)[()]

    def relative_error(self, prompts: int) -> float:
        """Relative standard error of the mean squared error over so many test prompts.

        Raises
        ------
        ValueError
            If it is no number of prompts.
        """
        check_integers(prompts=prompts)
        return math.sqrt((self.kurtosis - 1) / prompts)


def error_law(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float = 0.0,
    link: LinkLike = "identity",
    flips: float = 0.0,
    objective: str = "icl",
) -> ErrorLaw:
    r"""Law of the squared errors of single test prompts in the limit.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, link, flips
        As in `icl_error`, single numbers; a link must be a name or a function.
    objective : {"icl", "idg"}
        Whether test prompts have fresh tasks or the pretraining tasks.

    Returns
    -------
    ErrorLaw
        With fields ``mean``, ``median``, ``absolute``, ``log`` and ``kurtosis``, and methods
        ``quantile(probability)`` and ``relative_error(prompts)``.

    Raises
    ------
    ValueError
        If an argument is outside its range, the error diverges, or labels have no linear part.
    TypeError
        If an argument is not one number.

    Notes
    -----
    Exact to 1e-10 for linear labels, to 1e-4 for others; jumps of functions other than at 0 leave
    1e-3.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.error_law`.

    Examples
    --------
    >>> from iclimit.pretraining import error_law
    >>> law = error_law(tau=2, alpha=1, kappa=0.5, rho=0.1, ridge=0.1)
    >>> round(law.median / law.mean, 4), round(float(law.quantile(0.9)) / law.mean, 3)
    (0.4549, 2.706)
    >>> round(law.relative_error(10_000), 4)
    0.0141
    """
    check_choice("objective", objective, ("icl", "idg"))
    math_, values = checked(
        systems="numpy",
        single=True,
        flips=flips,
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
    )
    own = parse_link(link)
    labels = effective_labels(own, values.rho, flips=values.flips)
    pair = label_pairs(math_, values, labels)[0 if objective == "icl" else 1]
    slope = (1 - 2 * values.flips) * link_moments(math_, own)[0]
    error = labels.factor * (1 + labels.rho - 2 * pair.mean + pair.square)
    if not _ERRORS[0] < error < _ERRORS[1]:
        raise ValueError(
            "tau, alpha, kappa, rho and ridge must leave an error that is finite and not 0, got "
            f"the error {error:.3g}"
        )
    if own.is_identity and values.flips == 0:
        return _law(np.zeros(1), np.ones(1), math.sqrt(error))
    variance = values.rho + labels.factor * max(pair.square - pair.mean**2, 0.0)
    offsets, weights = _given_targets(own, float(values.flips), float(slope * pair.mean))
    return _law(offsets, weights, max(math.sqrt(variance), _SHARP * math.sqrt(error)))


def _given_targets(link: Link, flips: float, fit: float) -> tuple[np.ndarray, np.ndarray]:
    """Means of the errors given z and the sign of the label, with weights; f is fit * z there."""
    z = ((np.arange(_POINTS) + 0.5) / _POINTS * 2 - 1) * _END
    weight = np.exp(-(z**2) / 2)
    weight /= np.sum(weight)
    label = np.asarray(link_function(link)(z), dtype=float)
    offsets = np.concatenate([label - fit * z, -label - fit * z])
    return offsets, np.concatenate([(1 - flips) * weight, flips * weight])


def _law(offsets: np.ndarray, weights: np.ndarray, deviation: float) -> ErrorLaw:
    """Law of a mixture of Gaussian errors of one deviation."""
    squares = offsets**2
    variance = deviation**2
    mean = float(weights @ (squares + variance))
    fourth = float(weights @ (squares**2 + 6 * squares * variance + 3 * variance**2))
    scaled = offsets / deviation
    normal = np.exp(-(scaled**2) / 2) * math.sqrt(2 / math.pi)
    absolute = deviation * normal + offsets * (1 - 2 * ndtr(-scaled))
    return ErrorLaw(
        mean=mean,
        median=_quantile(offsets, weights, deviation, 0.5),
        absolute=float(weights @ absolute),
        log=float(weights @ _mean_logs(scaled**2)) + math.log(variance),
        kurtosis=fourth / mean**2,
        offsets=offsets,
        weights=weights,
        deviation=deviation,
    )


def _quantile(
    offsets: np.ndarray, weights: np.ndarray, deviation: float, probability: float
) -> float:
    """Squared error that is exceeded with one minus the probability."""

    def excess(size: float) -> float:
        inside = ndtr((size - offsets) / deviation) - ndtr((-size - offsets) / deviation)
        return float(weights @ inside) - probability

    # No error is larger than its mean by more than 40 standard deviations, for float64.
    largest = float(np.max(np.abs(offsets))) + 40 * deviation
    return float(brentq(excess, 0.0, largest, xtol=1e-14 * largest, rtol=1e-14)) ** 2


def _mean_logs(central: np.ndarray) -> np.ndarray:
    """Means of the logarithm of a chi-square variable of one degree, by non-centrality.

    A chi-square variable of 1 + 2 j degrees, j from a Poisson law; or the expansion of
    log (a + n)^2 in the normal variable n.
    """
    few = np.minimum(central, _CENTRAL)[:, None] / 2
    j = np.arange(_TERMS)
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = np.exp(np.where(j == 0, 0.0, j * np.log(few)) - few - gammaln(j + 1))
    series = chances @ (digamma(0.5 + j) + math.log(2))
    many = np.maximum(central, _CENTRAL)
    expansion = np.log(many) - 1 / many - 1.5 / many**2 - 5 / many**3
    return np.where(central < _CENTRAL, series, expansion)
