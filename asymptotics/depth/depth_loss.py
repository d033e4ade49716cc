r"""Loss of depth-L linear attention: the public function.

The theory is in `iclimit.asymptotics.depth.tied_loss`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import checked, flattened, real_array
from iclimit.asymptotics.depth.population import Inputs, Population
from iclimit.asymptotics.depth.tied_loss import TiedLoss, largest_gamma
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra import TwoPoint
from iclimit.results import Result
from iclimit.threads import one_blas_thread

RANGES = {"depth": "[1, inf]", "gamma": "[0, inf)"}

# Residual at the upper end of the spectrum beyond which the loss counts as infinite.
_LARGEST = 1e150


# Losses at the best gamma with a larger relative error are computed again for this gamma.
_AGAIN = 1e-11

# Losses with a larger relative error are refused, unless the error itself is negligible.
_RESOLVED = 1e-4

# Errors below this times the scale of the loss are negligible.
_NEGLIGIBLE = 1e-10


@dataclass(frozen=True, repr=False)
class DepthLoss(Result):
    r"""Loss of tied layers.

    Attributes
    ----------
    loss : float or ndarray
        Mean squared error on a noiseless query label, whose variance is
        :math:`\operatorname{tr} \Omega \Sigma/d`.
    gamma : float or ndarray
        Size of the reduced matrix, given or optimal; inf where only the limit is optimal.
    error : float or ndarray
        Numerical error of the loss.
    headroom : float or ndarray
        :math:`2L/(\gamma \lambda_{\max}) - 1`, with the upper end :math:`\lambda_{\max}` of the
        spectrum of a context: by how much it may grow until the steps diverge on it; NaN where
        gamma is inf.
    """

    loss: Value
    gamma: Value
    error: Value
    headroom: Value

    def margin(self, context: Number) -> Value:
        r"""Distance from divergence, in standard deviations of the largest eigenvalue.

        An isolated largest eigenvalue of a context of P tokens fluctuates by :math:`\sqrt{2/P}` of
        its size, and the end of the spectrum lies some :math:`\sqrt 2` such deviations above it.
        Where this is below 4, rare contexts may carry the mean loss; compare medians.

        Parameters
        ----------
        context : int or array >= 1
            Context length P.

        Returns
        -------
        float or ndarray
        """
        P = real_array("context", context)
        return self.headroom * np.sqrt(P / 2) + np.sqrt(2)


@one_blas_thread
def depth_loss(
    *,
    depth: Number,
    spectrum: Inputs | None = None,
    task_spectrum: ArrayLike | None = None,
    alpha: Number = np.inf,
    width_ratio: Number = np.inf,
    noise_variance: Number = 0.0,
    setting: str = "rrs",
    gamma: Value = None,
) -> DepthLoss:
    r"""Loss of linear attention with L tied layers, and its optimum over the reduced matrix.

    Parameters
    ----------
    depth : int or array >= 1, or inf
        Number L of layers; all depths of one call cost little more than the deepest.
    spectrum : array (d,), str, SpectralMeasure or JointSpectrum, optional
        Spectrum of the inputs, bounded: eigenvalues, a description
        (`iclimit.asymptotics.spectra.spectrum`), a measure, or the joint spectrum of inputs and
        tasks.  Needed unless the setting is ``"iso"``.
    task_spectrum : array (d,), optional
        Eigenvalues of the tasks, in the order of those of the inputs; 1 by default.
    alpha : number or array > 0, or inf
        Context length over dimension.
    width_ratio : number or array > 0, or inf
        Width of the residual stream over dimension; at 1 or above it does not matter.
    noise_variance : number or array >= 0
        Variance of the label noise in the context, up to 1e15 alpha.
    setting : {"rrs", "iso", "fs"}
        Covariances of inputs and tasks: fixed eigenvalues in a random basis, isotropic, or fixed.
    gamma : number or array, optional
        Reduced matrix :math:`\Gamma = \gamma I`; None: the best.  With fixed covariances
        :math:`\Gamma = \gamma \Sigma^{-1}`, or an array of d numbers > 0, its eigenvalues in the
        order of the spectrum.

    Returns
    -------
    DepthLoss
        In the limit of large dimension, broadcast over depth, alpha, width_ratio, noise_variance
        and gamma.  The loss is inf where it exceeds float64.

    Raises
    ------
    ValueError
        If an argument is outside its range or missing, or the spectrum is unbounded.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If float64 does not resolve the loss.

    Notes
    -----
    The relative error of the loss is below 1e-10 unless it is as small as 1e-8 of that of the null
    predictor; ``error`` says what it is.  A curve of depths 1 to 256 with 1000 eigenvalues takes
    0.7 to 0.8 s on one core, at contexts of half and four times the dimension and at half the
    width.

    The loss is that of the deterministic equivalent: a finite dimension adds O(1/d), and the mean
    over contexts may be carried by rare ones (`DepthLoss.margin`).

    With isotropic data, infinite width and no noise the optimum is
    :math:`\gamma/L = 1/(1 + 1/\alpha)` at any depth.

    References
    ----------
    Bordelon, Letey, Pehlevan, arXiv:2510.01098v1, for the model and the limits; finite context,
    width and noise as they are computed here: module `iclimit.asymptotics.depth.tied_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.depth import depth_loss
    >>> best = depth_loss(depth=[1, 4, 16], alpha=1.0, setting="iso")
    >>> best.loss.round(6), best.gamma
    (array([0.5     , 0.273438, 0.13995 ]), array([0.5, 2. , 8. ]))
    >>> lam = np.arange(1, 201) ** -1.2
    >>> deep = depth_loss(depth=16, spectrum=lam, alpha=2.0, width_ratio=0.5)
    >>> round(float(deep.loss / lam.mean()), 6), round(float(deep.gamma), 4)
    (0.23752, 51.7945)
    """
    matrix = None
    if setting == "fs" and np.ndim(gamma):
        matrix = real_array("gamma", gamma, "(0, inf)")
        gamma = 1.0
    _, values = checked(
        systems="numpy",
        ranges=RANGES,
        optional=("gamma",),
        depth=depth,
        alpha=alpha,
        width_ratio=width_ratio,
        noise_variance=noise_variance,
        gamma=gamma,
    )
    check_depths(values.depth)
    Population.check_noise(values.noise_variance, values.alpha)
    population, scale = Population.of_setting(
        setting, spectrum, task_spectrum, values.width_ratio, matrix
    )
    shape, points = flattened(values)
    widths = np.minimum(points.width_ratio, 1.0)
    results = np.zeros((4, widths.size))
    for aspect, width in np.unique(np.stack([points.alpha, widths]), axis=1).T:
        chosen = (points.alpha == aspect) & (widths == width)
        law = population.law(float(aspect), float(width))
        L = points.depth[chosen]
        noise = points.noise_variance[chosen]
        if points.gamma is None:
            results[:, chosen] = _best(population, law, L, noise)
        else:
            results[:, chosen] = _given(population, law, L, noise, points.gamma[chosen])
    unresolved = (results[2] > _RESOLVED * abs(results[0])) & (results[2] > _NEGLIGIBLE * scale)
    if np.any(unresolved & np.isfinite(results[0])):
        raise ArithmeticError(
            f"float64 does not resolve the loss at depth {points.depth[unresolved][0]:g} and "
            f"gamma {results[1][unresolved][0]:g}: more steps or a larger gamma than its contours "
            "allow"
        )
    loss, gammas, error, headroom = results.reshape(4, *shape)
    gammas = gammas if matrix is None else matrix
    return DepthLoss(loss * scale, gammas, error * scale, headroom)


def check_depths(L: np.ndarray) -> None:
    """Raise ValueError for a depth that is neither an integer nor infinite."""
    wrong = np.ravel(L)[np.ravel((np.inf > L) & (np.floor(L) != L))]
    if wrong.size:
        raise ValueError(f"depth must be an integer >= 1, or inf, got {wrong[0]}")


def _given(
    population: Population, law: TwoPoint, depth: np.ndarray, noise: np.ndarray, gamma: np.ndarray
) -> np.ndarray:
    """Loss, gamma, error and headroom at given gamma, at one context and width; shape (4, n)."""
    top = law.edges[1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        growth = np.where(depth < np.inf, abs(1 - gamma * top / depth) ** depth, 0.0)
        headroom = np.where(gamma > 0, 2 * depth / (gamma * top) - 1, np.inf)
    finite = growth < _LARGEST
    results = np.stack(
        [np.full(depth.shape, np.inf), gamma, np.full(depth.shape, np.inf), headroom]
    )
    if np.any(finite):
        L = depth[finite]
        sigma2 = noise[finite]
        g = gamma[finite]
        loss = TiedLoss.reaching(law, population.tasks_at(law), L, g)
        results[0, finite] = loss.value(L, g, sigma2)
        results[2, finite] = loss.error(L, g, sigma2)
    return results


def _best(
    population: Population, law: TwoPoint, depth: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """The same at the best gamma."""
    tasks = population.tasks_at(law)
    silent = (noise == 0) | (law.alpha == np.inf)
    # Infinitely many steps leave the null space of the sample covariance.
    limit = silent & (depth == np.inf)
    results = np.zeros((4, depth.size))
    if np.any(limit):
        results[0, limit] = law.null_mean(outer=tasks, inner=law.values)
        results[1, limit] = np.inf
        results[3, limit] = np.nan
    if np.any(~limit):
        L = depth[~limit]
        sigma2 = noise[~limit]
        most = largest_gamma(law, L)
        # The contour is for optima as they are with many layers; with few it hardly matters.
        loss = TiedLoss.reaching(law, tasks, L, np.minimum(most, 2.0 * L / law.edges[1]))
        gamma = loss.optimum(L, sigma2, most)
        if law.values.size == 1 and law.width_ratio == np.inf:
            closed = L / (1 + 1 / law.alpha) / law.values[0]
            gamma = np.where(sigma2 == 0, closed, gamma)
        headroom = 2 * L / (gamma * law.edges[1]) - 1
        values = loss.value(L, gamma, sigma2), gamma, loss.error(L, gamma, sigma2), headroom
        rest = np.stack(values)
        # Noise may make the best gamma so small that another contour is better.
        rough = rest[2] > _AGAIN * abs(rest[0])
        if np.any(rough):
            rest[:, rough] = _given(population, law, L[rough], sigma2[rough], gamma[rough])
        results[:, ~limit] = rest
    return results
