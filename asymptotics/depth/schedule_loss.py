r"""Loss of linear attention with given steps: any schedule, and GD++.

Layer l makes the step :math:`\eta_l = \gamma_l/L`.  On a context of covariance S its residual and
weights are those of `iclimit.asymptotics.depth.tied_loss` with the polynomials

.. math:: p(z) = \prod_{l} (1 - \eta_l z_l), \qquad q(z) = \frac{1 - p(z)}z, \qquad
   z_{l+1} = z_l (1 - g_l z_l)^2, \qquad z_0 = z,

where :math:`g_l` is the preconditioning of GD++ (`iclimit.asymptotics.gdpp`) and 0 in plain
gradient descent.  The means are those of `iclimit.asymptotics.spectra.polynomial_form`, whose
contours serve all polynomials of a degree: one may be tiny on the spectrum and huge beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import checked, flattened, real_array
from iclimit.asymptotics.depth.population import Inputs, Population
from iclimit.asymptotics.gdpp.search import degree, residual
from iclimit.asymptotics.losses import BoundedLoss
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.polynomial_form import PolynomialForm
from iclimit.asymptotics.spectra.two_point import TwoPoint
from iclimit.threads import one_blas_thread

# Highest degree of the residual: its matrix takes some 10 s.
_HIGHEST = 400

# Relative error of a loss from which on it is refused.
_RESOLVED = 1e-4

# Relative change of the rates by which the rounding of their factors is estimated.
_MOVED = 4 * float(np.finfo(float).eps)

# Relative distance of conjugate pairs that counts as rounding.
_CONJUGATE = 1e-9


@one_blas_thread
def depth_schedule_loss(
    rates: Number,
    *,
    gammas: ArrayLike | None = None,
    spectrum: Inputs | None = None,
    task_spectrum: ArrayLike | None = None,
    alpha: Number = np.inf,
    width_ratio: Number = np.inf,
    noise_variance: Number = 0.0,
    setting: str = "rrs",
    gamma: Number | None = None,
) -> BoundedLoss:
    r"""Loss of linear attention whose layers make given steps: constant, Chebyshev, GD++, any.

    Parameters
    ----------
    rates : array (L,)
        Steps :math:`\eta_l = \gamma_l/L` of the layers: real, or complex in conjugate pairs, as
        in ``untied_depth(...).steps``.
    gammas : array (L - 1,), optional
        Preconditioning of the inputs by each layer but the last, of GD++; 0 by default.
    spectrum, task_spectrum, alpha, width_ratio, noise_variance, setting
        As in `depth_loss`.
    gamma : array (d,), optional
        Eigenvalues > 0 of the matrix that the steps are multiplied with, for fixed covariances
        (``"fs"``); by default those of :math:`\Sigma^{-1}`.

    Returns
    -------
    BoundedLoss
        With fields ``loss`` and ``error``, in the limit of large dimension, broadcast over alpha,
        width_ratio and noise_variance.

    Raises
    ------
    ValueError
        If an argument is outside its range or missing, or the degree of the residual, L or
        :math:`(3^L - 1)/2` for GD++, exceeds 400.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If float64 does not resolve the loss.

    Notes
    -----
    Relative errors are some 1e-12 at infinite width, and at worst 1e-5 at finite width and 32
    layers.  Each context length and width takes 0.1 s at 400 eigenvalues and up to 16 layers, and
    2 to 5 s at 128.  Rare contexts may carry the mean, as in `depth_loss`.

    At infinite context the best steps of many layers hit eigenvalues one by one, more closely than
    float64 can tell; then the loss of the given numbers is refused.

    References
    ----------
    Module `iclimit.asymptotics.depth.schedule_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.depth import depth_schedule_loss
    >>> lam = np.arange(1, 101) ** -1.2
    >>> law = {"spectrum": lam, "task_spectrum": 1 / lam, "alpha": 2.0}
    >>> depth_schedule_loss([0.9, 0.9], **law).loss.round(5).item()
    0.92131
    >>> depth_schedule_loss([0.5, 1.5], **law, width_ratio=[0.5, np.inf]).loss.round(5)
    array([0.94986, 0.91789])
    >>> depth_schedule_loss([0.5, 1.5], gammas=[0.3], **law).loss.round(5).item()
    0.91567
    """
    steps, inner = _parse_steps(rates, gammas)
    matrix = None if gamma is None else real_array("gamma", gamma, "(0, inf)")
    if matrix is not None and setting != "fs":
        raise ValueError(f"gamma must not be given for setting={setting!r}; scale the rates")
    _, values = checked(
        systems="numpy", alpha=alpha, width_ratio=width_ratio, noise_variance=noise_variance
    )
    Population.check_noise(values.noise_variance, values.alpha)
    population, scale = Population.of_setting(
        setting, spectrum, task_spectrum, values.width_ratio, matrix
    )
    shape, points = flattened(values)
    losses = np.empty((2, points.alpha.size))
    for aspect, width in np.unique(np.stack([points.alpha, points.width_ratio]), axis=1).T:
        chosen = (points.alpha == aspect) & (points.width_ratio == width)
        law = population.law(float(aspect), float(width))
        noise = points.noise_variance[chosen]
        losses[:, chosen] = _losses(law, population.tasks_at(law), steps, inner, noise)
    loss, error = losses.reshape(2, *shape) * scale
    return BoundedLoss(loss, error)


def _parse_steps(rates: Value, gammas: Value) -> tuple[np.ndarray, np.ndarray]:
    given = np.asarray(rates)
    if given.dtype.kind == "c":
        real = real_array("rates", given.real)
        imag = real_array("rates", given.imag)
        steps = np.asarray(real + 1j * imag)
    else:
        steps = real_array("rates", rates)
    if steps.ndim != 1 or not steps.size:
        raise ValueError(f"rates must be a list of one or more numbers, got shape {steps.shape}")
    if given.dtype.kind == "c":
        unpaired = abs(np.poly(steps).imag) > _CONJUGATE * np.poly(-abs(steps)).real
        if np.any(unpaired):
            raise ValueError(f"rates must be real or in conjugate pairs, got {rates}")
    inner = np.zeros(0) if gammas is None else real_array("gammas", gammas)
    if gammas is not None and inner.shape != (steps.size - 1,):
        raise ValueError(
            f"gammas must be one number less than rates, {steps.size - 1}, got shape {inner.shape}"
        )
    if _degree(steps, inner) > _HIGHEST:
        raise ValueError(
            f"rates must make a polynomial of degree <= {_HIGHEST}, got {steps.size} layers"
            f"{' of GD++' if np.any(inner) else ''}"
        )
    return steps, inner


def _degree(steps: np.ndarray, inner: np.ndarray) -> int:
    return degree(steps.size) if np.any(inner) else steps.size


def _losses(
    law: TwoPoint, tasks: np.ndarray, steps: np.ndarray, inner: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """Losses and errors at one context and width; shape (2, n)."""

    def pq(z: np.ndarray, rates: np.ndarray = steps) -> tuple[np.ndarray, np.ndarray]:
        return residual(rates, inner, z + 0j)

    def moved(z: np.ndarray) -> np.ndarray:
        return pq(z, steps * (1 + _MOVED))[0]

    error = 0.0
    variance = (0.0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        if law.is_deterministic:
            form = law.form(lambda z: pq(z)[0][None], outer=tasks, inner=law.values)
            z = form.nodes[0]
            first = form.pair([pq(z)[0].real])
            again = form.pair([moved(z).real])
        else:
            matrix = PolynomialForm.of(law, _degree(steps, inner), tasks, law.values)
            first, error = matrix.pair(lambda z: pq(z)[0])
            again, _ = matrix.pair(moved)
            if np.any(noise):
                variance = matrix.single(lambda z: z * pq(z)[1] ** 2)
        loss = first + noise / law.alpha * variance[0]
        error = error + abs(again - first) + _MOVED * loss + noise / law.alpha * variance[1]
    if not np.all(error <= _RESOLVED * loss):
        raise ArithmeticError(
            f"float64 does not resolve the loss of the rates {steps}: it is {loss.max():.3g} with "
            f"an error of {error.max():.1g}"
        )
    return np.stack([loss, error])
