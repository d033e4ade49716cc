"""Statistics of comparisons: extrapolation in size, z-scores, thresholds."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import (
    chdtrc,
    fdtrc,
    gammainc,
    gammaincc,
    gammaln,
    ndtr,
    ndtri,
    ndtri_exp,
    polygamma,
    stdtr,
    stdtrit,
)

from iclimit.results import Estimate, Result

# Probability that a true claim fails because of chance, over all its comparisons.
FALSE_ALARM = 1e-3

# How far beyond a threshold the mean must lie to exceed it with the probability of 95 %.
POWER = float(ndtri(0.95))

# Relative, stands for the spread of predictions that have none.
ROUNDING = 1e-12

# A variable whose skewness is smaller than this counts as normal.
NORMAL = 0.02

# Largest skewness that is used: minus the logarithm of a gamma variable has less than 2.
LARGEST_SKEWNESS = 1.99

# Smallest probability of a skewed variable that has a normal deviate.
LEAST_SHARE = 1e-300


def z_score(
    estimate: float,
    theory: float,
    standard_error: float,
    allowance: float = 0.0,
    degrees: float = math.inf,
) -> float:
    """Signed deviation beyond the allowance, in standard errors.

    A standard error estimated from few samples makes large ratios likelier than for a normal
    variable: the ratio, a Student t of ``degrees`` degrees of freedom, is mapped to the normal
    deviate of the same probability.  Without a standard error (a deterministic comparison) the
    result is 0 within the allowance and infinite outside.  With an unknown standard error, an
    infinite one, it is NaN: nothing was compared.
    """
    if math.isinf(standard_error):
        return math.nan
    excess = max(abs(estimate - theory) - allowance, 0.0)
    if excess == 0.0:
        return 0.0
    size = excess / standard_error if standard_error > 0 else math.inf
    if math.isfinite(degrees) and math.isfinite(size):
        # Importing the law of scipy.stats would take longer than most comparisons.
        share = stdtr(degrees, -size)
        size = float(-ndtri_exp(math.log(share) if share > 0 else _far_tail(size, degrees)))
    return math.copysign(size, estimate - theory)


def _far_tail(size: float, degrees: float) -> float:
    """Logarithm of the share of Student's law beyond a large size: the leading term."""
    half = (degrees + 1) / 2
    density = gammaln(half) - gammaln(degrees / 2) - math.log(math.pi * degrees) / 2
    density -= half * math.log1p(size**2 / degrees)
    return float(density - math.log((degrees + 1) * size / (degrees + size**2)))


def skewed_deviate(x: float, skewness: float) -> float:
    """Normal deviate of the same probability as a standardised variable of this skewness.

    The variable is taken to be minus the logarithm of a gamma variable, as are times of merged
    attention; its shape is found from the skewness, which is then exact.
    """
    if skewness < 0:
        return -skewed_deviate(-x, -skewness)
    if skewness < NORMAL or x == 0 or math.isinf(x):
        return x
    shape = _gamma_shape(min(skewness, LARGEST_SKEWNESS))
    log = float(polygamma(0, shape)) - x * math.sqrt(float(polygamma(1, shape)))
    value = math.exp(min(log, 700.0))
    if x > 0:
        return -float(ndtri(max(gammainc(shape, value), LEAST_SHARE)))
    return float(ndtri(max(gammaincc(shape, value), LEAST_SHARE)))


@lru_cache(maxsize=64)
def _gamma_shape(skewness: float) -> float:
    """Shape of the gamma variable, minus the logarithm of which has this skewness."""
    from scipy.optimize import brentq  # most comparisons are not skewed

    def excess(log_shape: float) -> float:
        shape = math.exp(log_shape)
        return float(-polygamma(2, shape) / polygamma(1, shape) ** 1.5) - skewness

    return math.exp(brentq(excess, -7.0, 10.0))


def student_deviate(z: float, degrees: float) -> float:
    """Student's t of as many degrees of freedom that is as unlikely as a normal deviate."""
    return z if math.isinf(degrees) else float(-stdtrit(degrees, ndtr(-z)))


def z_threshold(count: int, false_alarm: float = FALSE_ALARM) -> float:
    """Largest absolute z to accept so that ``count`` true comparisons fail with this probability.

    Sidak's bound, exact for independent comparisons and conservative for the positively
    correlated ones that occur here.
    """
    single = -math.expm1(math.log1p(-false_alarm) / max(count, 1))
    return float(-ndtri(single / 2))


@dataclass(frozen=True, repr=False)
class Extrapolation(Result):
    """Polynomial fit in 1/d, evaluated at d = infinity.

    Attributes
    ----------
    value : ndarray (m,)
        Extrapolated quantities.
    covariance : ndarray (m, m)
        Their covariance, propagated from the data.
    order : int
        Degree of the polynomial.
    chi_square, degrees : float, int
        Goodness of fit.
    coefficients : ndarray (order + 1, m)
        Of the powers of 1/d.
    error_degrees : float
        Degrees of freedom of the standard errors; infinite if the covariances are known.
    shares : ndarray (s,)
        Weight of each size in the extrapolated quantities.
    deviations : ndarray (m, repeats)
        What each run contributes to the errors, size by size; empty if the runs are not known.
    """

    value: np.ndarray
    covariance: np.ndarray
    order: int
    chi_square: float
    degrees: int
    coefficients: np.ndarray
    error_degrees: float
    shares: np.ndarray
    deviations: np.ndarray

    @property
    def p_value(self) -> float:
        """Probability of a worse fit if the polynomial is right.

        Covariances that are estimated from few runs make large chi-squares likelier: the
        distribution is Hotelling's.
        """
        if not self.degrees:
            return 1.0
        remaining = self.error_degrees - len(self.value) + 1
        if math.isinf(remaining):
            return float(chdtrc(self.degrees, self.chi_square))
        scaled = self.chi_square / self.degrees * remaining / self.error_degrees
        return float(fdtrc(self.degrees, remaining, scaled))

    @property
    def standard_error(self) -> np.ndarray:
        """Standard errors of the extrapolated quantities."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def summary(self) -> str:
        """Order and goodness of fit in words."""
        return (
            f"order {self.order} in 1/d, chi-square {self.chi_square:.1f} for {self.degrees} "
            f"degrees of freedom (p = {self.p_value:.2f})"
        )

    def curve(self, d: np.ndarray) -> np.ndarray:
        """Fitted quantities at sizes d, shape (len(d), m)."""
        powers = np.vander(1 / np.asarray(d, float), self.order + 1, increasing=True)
        return powers @ self.coefficients


def extrapolate(
    sizes: Sequence[int],
    means: np.ndarray,
    covariances: np.ndarray,
    *,
    repeats: Sequence[int] | None = None,
    order: int | None = None,
) -> Extrapolation:
    """Extrapolate correlated quantities to infinite size by a polynomial in 1/d.

    The weights of the sizes are proportional to d^2 and to the number of repeats: they suit errors
    that shrink as 1/d, and they do not depend on the data.  Weights from the scatter would: where
    large values come with large scatter, the limit would be biased.

    Parameters
    ----------
    sizes : sequence of int, length s
        Sizes d, all different, more than the order plus one.
    means : array (s, m)
        Estimates of the m quantities at each size.
    covariances : array (s, m, m)
        Covariance of the estimates at each size (sizes are independent).
    repeats : sequence of int, optional
        Runs at each size that means and covariances come from; without it the covariances count
        as known, and the weights are their inverses.
    order : int, optional
        Degree of the polynomial; by default the number of sizes minus 2, at most 3: finite-size
        deviations are power series in 1/d with large coefficients, and lower orders often pass a
        test of goodness of fit while they are off by up to three standard errors at infinite size.

    Returns
    -------
    Extrapolation

    Raises
    ------
    ValueError
        If sizes repeat, or are too few for the order.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.statistics import extrapolate
    >>> d = np.array([16, 32, 64])
    >>> fit = extrapolate(d, (2 + 3 / d)[:, None], np.full((3, 1, 1), 1e-4), order=1)
    >>> fit.order, round(float(fit.value[0]), 6)
    (1, 2.0)
    """
    if order is None:
        order = max(1, min(3, len(sizes) - 2))
    if len(set(sizes)) != len(sizes) or len(sizes) < order + 2:
        raise ValueError(f"sizes must be at least {order + 2} different ones, got {list(sizes)}")
    d = np.array(sizes, float)
    means = np.array(means)
    covariances = np.array(covariances)
    powers = np.vander(1 / d, order + 1, increasing=True)
    variances = np.einsum("sii->si", covariances)
    scaled = np.mean(variances / np.mean(variances, axis=0), axis=1)
    weights = 1 / scaled if repeats is None else np.array(repeats) * d**2
    solve = np.linalg.pinv(np.sqrt(weights)[:, None] * powers) * np.sqrt(weights)
    coefficients = solve @ means
    return Extrapolation(
        value=coefficients[0],
        covariance=np.einsum("s,sij->ij", solve[0] ** 2, covariances),
        order=order,
        chi_square=_chi_square(powers, means, covariances),
        degrees=(len(d) - order - 1) * means.shape[1],
        coefficients=coefficients,
        error_degrees=_error_degrees(solve[0], variances, repeats),
        shares=solve[0],
        deviations=np.empty((means.shape[1], 0)),
    )


def extrapolate_runs(
    sizes: Sequence[int],
    runs: Sequence[Estimate | Sequence[Estimate] | np.ndarray],
    *,
    order: int | None = None,
    extra: Sequence[np.ndarray] | None = None,
) -> Extrapolation:
    """Extrapolate simulations: at each size an Estimate, several, or samples (m, repeats).

    Several quantities at one size are taken to come from the same repeats: the fit uses their
    correlation, for which Estimates must have their samples.

    Parameters
    ----------
    sizes : sequence of int, length s
        Sizes d, as in `extrapolate`.
    runs : sequence of Estimate, of several, or of array (m, repeats)
        What was simulated at each size.
    order : int, optional
        As in `extrapolate`.
    extra : sequence of array (m, m), optional
        Covariances at each size of errors that the runs do not have, such as those of a random
        prediction that they are divided by.

    Returns
    -------
    Extrapolation

    Raises
    ------
    ValueError
        If sizes repeat, or are too few for the order.
    """
    moments = [_moments(run) for run in runs]
    covariances = np.array([covariance for _, covariance, _, _ in moments])
    if extra is not None:
        covariances += np.array(extra)
    fit = extrapolate(
        sizes,
        np.array([mean for mean, _, _, _ in moments]),
        covariances,
        repeats=[count for _, _, _, count in moments],
        order=order,
    )
    parts = [deviations for _, _, deviations, _ in moments]
    if not all(part.size for part in parts):
        return fit
    return replace(
        fit, deviations=np.hstack([a * part for a, part in zip(fit.shares, parts, strict=True)])
    )


def extrapolate_ratios(
    sizes: Sequence[int],
    runs: Sequence[Sequence[Estimate] | np.ndarray],
    *,
    predictions: Mapping[int, Sequence[Estimate] | np.ndarray],
    anchors: Sequence[int],
    order: int = 1,
    anchored_order: int = 2,
) -> Extrapolation:
    """Extrapolate simulations by their ratios to predictions, and these from larger sizes.

    Parameters
    ----------
    sizes : sequence of int, length s
        Sizes d of the runs.
    runs : sequence of sequences of Estimate, or of array (m, repeats)
        Several quantities at each size, from the same repeats.
    predictions : dict
        Predictions of the quantities by size: Estimates with their samples where they are random,
        an array (m,) where they are not.
    anchors : sequence of int
        Sizes from which the limits of the predictions are extrapolated.
    order, anchored_order : int
        Degrees of the polynomials in 1/d, of the ratios and of the predictions.

    Returns
    -------
    Extrapolation
        Limit of the ratios times that of the predictions.  The goodness of fit is that of the
        ratios.
    """
    several = {size: list(map(_known, own)) for size, own in predictions.items()}
    means = {
        size: np.array([prediction.mean for prediction in own]) for size, own in several.items()
    }
    errors = [
        np.array([prediction.standard_error for prediction in several[size]]) for size in sizes
    ]
    ratios = [
        np.array([getattr(prediction, "samples", prediction) for prediction in run])
        / means[size][:, None]
        for size, run in zip(sizes, runs, strict=True)
    ]
    extra = [np.diag((e / means[size]) ** 2) for size, e in zip(sizes, errors, strict=True)]
    ratio = extrapolate_runs(sizes, ratios, order=order, extra=extra)
    limits = extrapolate_predictions(predictions, anchors, anchored_order)
    scale = limits.value
    return replace(
        ratio,
        value=ratio.value * scale,
        covariance=ratio.covariance * np.outer(scale, scale)
        + limits.covariance * np.outer(ratio.value, ratio.value),
        coefficients=ratio.coefficients * scale,
        deviations=ratio.deviations * scale[:, None],
    )


def extrapolate_predictions(
    predictions: Mapping[int, Sequence[Estimate] | np.ndarray],
    anchors: Sequence[int],
    anchored_order: int = 2,
) -> Extrapolation:
    """Extrapolate predictions from large sizes, as `extrapolate_ratios` does."""
    several = [[_known(prediction) for prediction in predictions[size]] for size in anchors]
    means = np.array([[prediction.mean for prediction in own] for own in several])
    covariances = np.array([_covariance(own) for own in several])
    return extrapolate(anchors, means, covariances, order=anchored_order)


def _known(prediction: Estimate | float) -> Estimate:
    if isinstance(prediction, Estimate):
        return prediction
    return Estimate(float(prediction), 0.0, 1, np.array([prediction]))


def _covariance(predictions: Sequence[Estimate]) -> np.ndarray:
    """Covariance of predictions over the same draws, with that of rounding for those without."""
    means = np.array([prediction.mean for prediction in predictions])
    samples = np.array([prediction.samples for prediction in predictions])
    count = samples.shape[1]
    own = np.cov(samples) / count if count > 1 else np.zeros((len(means), len(means)))
    return own + np.diag((ROUNDING * means) ** 2)


def estimates_of(run: Estimate | Sequence[Estimate | np.ndarray] | np.ndarray) -> list[Estimate]:
    """Estimates of the quantities of a run: an Estimate, several, or samples (m, repeats)."""
    several = [run] if isinstance(run, Estimate) else run
    return [values if isinstance(values, Estimate) else Estimate.of(values) for values in several]


def _moments(
    run: Estimate | Sequence[Estimate] | np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Means, their covariance, the contributions of the repeats, and the number of these."""
    if isinstance(run, Estimate) and not run.samples.size:
        mean = np.array([run.mean])
        variance = np.array([[run.standard_error**2]])
        return mean, variance, np.empty((1, 0)), run.repeats
    estimates = estimates_of(run)
    deviations = np.array([estimate.deviations for estimate in estimates])
    means = np.array([estimate.mean for estimate in estimates])
    return means, deviations @ deviations.T, deviations, estimates[0].repeats


def _chi_square(powers: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> float:
    """Residual of generalised least squares with a block per size."""
    whiten = np.linalg.inv(np.linalg.cholesky(covariances))
    design = np.einsum("sk,sij->sikj", powers, whiten).reshape(means.size, -1)
    target = np.einsum("sij,sj->si", whiten, means).ravel()
    solution, *_ = np.linalg.lstsq(design, target, rcond=None)
    return float(np.sum((target - design @ solution) ** 2))


def _error_degrees(
    shares: np.ndarray, variances: np.ndarray, repeats: Sequence[int] | None
) -> float:
    """Degrees of freedom of standard errors, as Welch and Satterthwaite have them.

    Of several quantities, the mean over them.
    """
    if repeats is None:
        return math.inf
    parts = shares[:, None] ** 2 * variances
    lost = np.sum(parts**2 / (np.array(repeats)[:, None] - 1), axis=0)
    return float(np.mean(np.sum(parts, axis=0) ** 2 / lost))
