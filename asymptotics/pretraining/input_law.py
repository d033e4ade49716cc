r"""Errors of linear attention for inputs that are not Gaussian, to order 1/d.

Coordinates of the inputs are independent, with variance 1/d and excess kurtosis :math:`\chi`
(0 for Gaussian ones, -6/5 for uniform ones, -2 for signs).  The limits do not depend on
:math:`\chi`; at finite d it enters at order 1/d in two places.  Symbols are those of
`iclimit.asymptotics.pretraining.icl`.

**The context.**  Given a task, the summary has the covariance

.. math::

   \operatorname{Cov}\Bigl(\frac d\ell \sum_i y_i x_i\Bigr) = \frac d\ell \Bigl[\Bigl(
   \frac{\lvert w\rvert^2}d + \rho\Bigr) I + \frac{w w^\top}d
   + \frac\chi d \operatorname{diag}(w_a^2)\Bigr] .

The mean of the last term over tasks is :math:`\chi I/d`, and what a task deviates from it by is of
higher order.  So :math:`q = (1 + \rho)/\alpha` becomes :math:`(1 + \rho + \chi/d)/\alpha`, while
the noise of the query label stays :math:`\rho`.

**The query.**  Of the query only second moments enter the error of a given :math:`\Gamma`, but
the fit has :math:`r = \lvert x_q\rvert^2`, whose variance is :math:`(2 + \chi)/d`.  A prompt has
the weight :math:`r/(\lambda + r K)`, where :math:`K = \xi\, \mathrm{df}_1/\tau`,
:math:`\mathrm{df}_1 = 1 - \xi M`, and :math:`1/\xi` is the mean weight.  The error is the
derivative of a mean resolvent by the weight of the labels, so it has derivatives of the mean
weight by K and by :math:`\lambda`.  Let :math:`\mathrm{df}_2 = \mathrm{df}_1 - \xi A`,
:math:`\eta = 1 - \mathrm{df}_1/\tau`, and let the variance of r be larger by v.  Then to first
order in v

.. math::

   \frac{\delta\xi}\xi = \frac{v\,\eta\,(1 - \eta)}{1 - \mathrm{df}_2/\tau},
   \qquad
   X = \frac{(1 + v\eta^2)\, m + (1 + v(1 - \eta)^2)\, \rho}
   {1 - (1 + v\eta^2)\, \mathrm{df}_2/\tau},

.. math:: e_{IDG} = \rho + m + \frac{\mathrm{df}_2}\tau X, \qquad
   e_{ICL} = e_{ICL}^\infty + (1 + q) \frac A\tau X,

where m and :math:`e_{ICL}^\infty` are the misfit on training tasks and the ICL error of infinitely
many prompts with the ridge :math:`\xi`.  Without v, X is the IDG error.  Without a ridge and with
fewer prompts than features v multiplies the label noise by :math:`1 + v`, as the mean of 1/r does.

Source: derived here from the moments and from the limit of Lu et al. (arXiv:2405.11751).
"""

import numpy as np

from iclimit.asymptotics.numbers import numpy_namespace
from iclimit.asymptotics.pretraining.icl import error_parts, solve_fixed_point
from iclimit.asymptotics.spectra.resolvent import excess, resolvent

# Change of the variance of the squared query over which the logarithms of errors are differenced.
STEP = 1e-4


def input_law_factors(
    *,
    dim: int,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float,
    excess_kurtosis: float,
) -> np.ndarray:
    """Factors (2,) of the ICL and the IDG error by the law of the inputs, to order 1/d.

    Parameters
    ----------
    dim : int
        Dimension of the inputs.
    tau, alpha, kappa, rho, ridge : float
        Parameters of the limit, with finite tau and alpha.
    excess_kurtosis : float >= -2
        Of the coordinates of the inputs, relative to Gaussian ones.

    Returns
    -------
    ndarray (2,)
        1 where the limit is infinite or 0.
    """
    shift = excess_kurtosis / dim
    stated = {"tau": tau, "kappa": kappa, "rho": rho, "ridge": ridge}
    q = (1 + rho) / alpha
    # Signs at a dimension of 1 or 2 without noise would leave no variance at all.
    moved = max(1 + rho + shift, 0.0) / alpha
    with np.errstate(all="ignore"):
        context = _log_errors(q=moved, variance=0.0, **stated) - _log_errors(
            q=q, variance=0.0, **stated
        )
        high = _log_errors(q=q, variance=STEP, **stated)
        low = _log_errors(q=q, variance=-STEP, **stated)
        logs = context + shift * (high - low) / (2 * STEP)
    return np.where(np.isfinite(logs), np.exp(logs), 1.0)


def _log_errors(
    *, q: float, tau: float, kappa: float, rho: float, ridge: float, variance: float
) -> np.ndarray:
    """Logarithms of the ICL and the IDG error if the variance of r is larger by this."""
    arrays = [np.array(number, dtype=float) for number in (tau, q, kappa, ridge)]
    math_ = numpy_namespace({"tau": arrays[0]})
    root, weight = solve_fixed_point(math_, arrays[0] < 1, *arrays)
    xi = np.float64(root)  # whose division by 0 is no error
    eta = np.float64(weight)
    lost, *_ = _parts(tau, q, kappa, rho, xi)
    xi *= 1 + variance * eta * (1 - eta) / (1 - lost)
    lost, fitted, own, factor = _parts(tau, q, kappa, rho, xi)
    misfit = (1 + variance * eta**2) * (fitted - rho)
    noise = (1 + variance * (1 - eta) ** 2) * rho
    spread = (misfit + noise) / (1 - (1 + variance * eta**2) * lost)
    return np.log([own + factor * spread, fitted + lost * spread])


def _parts(tau: float, q: float, kappa: float, rho: float, xi: float) -> np.ndarray:
    """df_2 / tau, IDG and ICL error of infinitely many prompts, and the factor of X."""
    t = np.array(tau, dtype=float)
    context = np.array(q, dtype=float)
    k = np.array(kappa, dtype=float)
    noise = np.array(rho, dtype=float)
    root = np.array(xi, dtype=float)
    math_ = numpy_namespace({"tau": t})
    M = resolvent(math_, context + root, k, excess(math_, k, 1))
    A, fitted, own, factor = error_parts(t, k, noise, context, root, M)
    return np.array([(1 - root * M - root * A) / t, fitted, own, factor])
