r"""Loss of ridge regression averaged over Gaussian contexts, in excess of the oracle's.

The formulas are those of `iclimit.asymptotics.gdpp.ridge_losses`: sums of positive terms over the
eigenvalues of :math:`X^\top X` and over the chi-square variable of the residuals.
"""

import math

import numpy as np
from scipy.special import expit, gammaincc, gammaln

from iclimit.asymptotics.spectra.wishart_eigenvalues import eigenvalue_rule

# Largest spacing of the rule over the chi-square variable, in its logarithm.
_SPACING = 0.15

# Largest spacing times the root of the degrees of freedom: the logarithm of the variable has the
# standard deviation sqrt(2/freedom).
_SPACING_TIMES_ROOT = 0.6

# exp(-38) is below rounding.
_NEGLIGIBLE = 38.0


def risk(ridge: np.ndarray, variance: np.ndarray, context: int, dim: int) -> np.ndarray:
    """Loss of ridge regression, broadcast."""
    nodes, weights = eigenvalue_rule(context, dim)
    ridge, variance = np.broadcast_arrays(ridge, variance)
    kept = 1 / (nodes + ridge[..., None])
    error = ((ridge[..., None] * kept) ** 2 + variance[..., None] * nodes * kept**2) @ weights
    diverges = (ridge == 0) & (variance > 0) & (abs(context - dim) <= 1)
    # Directions without data keep the error 1 at every ridge.
    return np.where(diverges, np.inf, (error + max(dim - context, 0)) / 2)


def pair_excess(ridge: np.ndarray, variance: np.ndarray, context: int, dim: int) -> np.ndarray:
    """Adjusted loss of ridge regression for all pairs, shape (variances, ridges)."""
    nodes, weights = eigenvalue_rule(context, dim)
    # A product of matrices, scaled so that nothing overflows.
    scale = ridge + context
    by_ridge = weights[:, None] * (scale / (nodes[:, None] + ridge)) ** 2
    by_variance = nodes / (nodes + variance[:, None])
    return ((ridge - variance[:, None]) / scale) ** 2 * (by_variance @ by_ridge) / 2


def step_excess(rate: float, variance: np.ndarray, context: int, dim: int) -> np.ndarray:
    """Adjusted loss of a step of gradient descent on the summed loss, shape (variances,)."""
    nodes, weights = eigenvalue_rule(context, dim)
    total = nodes + variance[:, None]
    return (nodes * (rate * total - 1) ** 2 / total) @ weights / 2


def constant_excess(ridge: float, variance: np.ndarray, context: int, dim: int) -> np.ndarray:
    """Adjusted loss of ridge regression with one parameter, shape (variances,)."""
    excess = pair_excess(np.array([ridge]), variance, context, dim)[:, 0]
    diverges = (ridge == 0) & (variance > 0) & (abs(context - dim) <= 1)
    return np.where(diverges, np.inf, excess)


def adaptive_excess(
    multiplier: float, threshold: float, variance: np.ndarray, context: int, dim: int
) -> np.ndarray:
    """Adjusted loss of ridge regression with min(multiplier * estimate, threshold)."""
    if multiplier == math.inf:
        return constant_excess(threshold, variance, context, dim)
    freedom = context - dim
    excess = np.zeros_like(variance)
    noisy = variance > 0  # without noise the estimate is the oracle's
    if threshold == math.inf:
        chi_square, weights = eigenvalue_rule(freedom, 1)
        factors = multiplier / freedom * chi_square
        excess[noisy] = [
            pair_excess(v * factors, np.array([v]), context, dim)[0] @ weights
            for v in variance[noisy]
        ]
    else:
        clipped = clipped_excess(np.array([multiplier]), threshold, variance[noisy], context, dim)
        excess[noisy] = clipped[0]
    return excess


def clipped_excess(
    multiplier: np.ndarray, threshold: float, variance: np.ndarray, context: int, dim: int
) -> np.ndarray:
    """Adjusted losses with finite multipliers and threshold, shape (multipliers, variances).

    The chi-square variable up to the kink is u r, 0 < r < 1, with the trapezoidal rule in the
    logit of r: nodes even in log r where r is small, so that one rule serves all variances.
    """
    freedom = context - dim
    half = freedom / 2
    kink = freedom * threshold / (multiplier[:, None] * variance)
    spacing = min(_SPACING, _SPACING_TIMES_ROOT / math.sqrt(freedom))
    upper = math.log(max(kink.max(initial=1.0), 1.0)) + _NEGLIGIBLE / half + 5
    logit = np.arange(-_NEGLIGIBLE, upper + spacing, spacing)
    chi_square = kink[..., None] * expit(-logit)
    density = np.exp(half * np.log(chi_square / 2) - chi_square / 2 - gammaln(half))
    weights = spacing * expit(logit) * density
    ridges = np.append(threshold * expit(-logit), threshold)
    excess = pair_excess(ridges, variance, context, dim)
    beyond = gammaincc(half, kink / 2)
    return np.einsum("mvr,vr->mv", weights, excess[:, :-1]) + beyond * excess[:, -1]
