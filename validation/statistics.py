"""Statistics of comparisons: extrapolation in size, z-scores, thresholds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtri, ndtri_exp

from iclimit.results import Estimate

FALSE_ALARM = 1e-3
"""Probability that a true claim fails because of chance, over all its comparisons."""


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
    result is 0 within the allowance and infinite outside.
    """
    excess = max(abs(estimate - theory) - allowance, 0.0)
    if excess == 0.0:
        return 0.0
    size = excess / standard_error if standard_error > 0 else math.inf
    if math.isfinite(degrees) and math.isfinite(size):
        from scipy.stats import t  # a second, which workers do without

        size = float(-ndtri_exp(t.logsf(size, degrees)))
    return math.copysign(size, estimate - theory)


def z_threshold(count: int, false_alarm: float = FALSE_ALARM) -> float:
    """Largest absolute z to accept so that ``count`` true comparisons fail with this probability.

    Sidak's bound, exact for independent comparisons and conservative for the positively
    correlated ones that occur here.
    """
    single = -math.expm1(math.log1p(-false_alarm) / max(count, 1))
    return float(-ndtri(single / 2))


@dataclass(frozen=True)
class Extrapolation:
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
    """

    value: np.ndarray
    covariance: np.ndarray
    order: int
    chi_square: float
    degrees: int
    coefficients: np.ndarray

    @property
    def p_value(self) -> float:
        """Probability of a worse fit if the polynomial is right."""
        return float(chdtrc(self.degrees, self.chi_square)) if self.degrees else 1.0

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
    orders: Sequence[int] | None = None,
    level: float = 0.05,
) -> Extrapolation:
    """Extrapolate correlated quantities to infinite size, the order chosen by goodness of fit.

    Finite-size deviations are power series in 1/d with large coefficients.  The order is the
    first whose chi-square is not rejected at ``level``; if all are, the last.  The default starts
    at the number of sizes minus 2, at most 3: lower orders often pass the test while they are off
    by up to three standard errors at infinite size (seen on noise-free predictions with the
    precision of real runs: order 1 for d = 16 to 48, order 2 for d = 16 to 96).

    Parameters
    ----------
    sizes : sequence of int, length s
        Sizes d, all different, more than the first order plus one.
    means : array (s, m)
        Estimates of the m quantities at each size.
    covariances : array (s, m, m)
        Covariance of the estimates at each size (sizes are independent).
    orders : sequence of int, optional
        Orders to try, ascending; those that leave no degree of freedom are not.
    level : float
        Significance level of the goodness-of-fit test.

    Returns
    -------
    Extrapolation

    Raises
    ------
    ValueError
        If sizes repeat, or are too few for the first order.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.validation import extrapolate
    >>> d = np.array([16, 32, 64])
    >>> fit = extrapolate(d, (2 + 3 / d)[:, None], np.full((3, 1, 1), 1e-4), orders=[1])
    >>> fit.order, round(float(fit.value[0]), 6)
    (1, 2.0)
    """
    if orders is None:
        start = max(1, min(3, len(sizes) - 2))
        orders = (start, start + 1)
    if len(set(sizes)) != len(sizes) or len(sizes) < orders[0] + 2:
        raise ValueError(
            f"sizes must be at least {orders[0] + 2} different ones, got {list(sizes)}"
        )
    for order in orders:
        if order + 2 <= len(sizes):
            fit = _fit(np.array(sizes, float), np.array(means), np.array(covariances), order)
            if fit.p_value >= level:
                break
    return fit


def extrapolate_runs(
    sizes: Sequence[int],
    runs: Sequence[Estimate | Sequence[Estimate] | np.ndarray],
    **options: Any,
) -> Extrapolation:
    """Extrapolate simulations: at each size an Estimate, several, or samples (m, repeats).

    Several quantities at one size are taken to come from the same repeats: the fit uses their
    correlation, for which Estimates must have their samples.  The options are those of
    `extrapolate`.
    """
    means, covariances = zip(*(_moments(run) for run in runs), strict=True)
    return extrapolate(sizes, np.array(means), np.array(covariances), **options)


def _moments(run: Estimate | Sequence[Estimate] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and their covariance."""
    if isinstance(run, Estimate):
        return np.array([run.mean]), np.array([[run.standard_error**2]])
    samples = np.array([each.samples if isinstance(each, Estimate) else each for each in run])
    return np.mean(samples, axis=1), np.atleast_2d(np.cov(samples)) / samples.shape[1]


def _fit(
    sizes: np.ndarray, means: np.ndarray, covariances: np.ndarray, order: int
) -> Extrapolation:
    """Generalised least squares with a block per size."""
    count, m = means.shape
    powers = np.vander(1 / sizes, order + 1, increasing=True)
    whiten = np.linalg.inv(np.linalg.cholesky(covariances))
    design = np.einsum("sk,sij->sikj", powers, whiten).reshape(count * m, -1)
    target = np.einsum("sij,sj->si", whiten, means).ravel()
    solution, *_ = np.linalg.lstsq(design, target, rcond=None)
    residual = target - design @ solution
    coefficients = solution.reshape(order + 1, m)
    return Extrapolation(
        value=coefficients[0],
        covariance=np.linalg.inv(design.T @ design)[:m, :m],
        order=order,
        chi_square=float(residual @ residual),
        degrees=count * m - solution.size,
        coefficients=coefficients,
    )
