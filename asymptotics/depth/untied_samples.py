r"""Best untied layers at finite context and finite width.

At a finite context the layers act on the sample covariance S of each prompt, and one schedule
serves all prompts.  For covariances in a random basis the loss of the residual polynomial p is the
quadratic form

.. math:: \mathcal L = \frac1d E \operatorname{tr} \Omega\, p(S)^\top \Lambda\, p(S),

whose large-d equivalent is that of `iclimit.asymptotics.spectra.TwoPoint`; at finite width S is
projected first.  In polynomials :math:`q_j` that are orthonormal on the support of the spectrum of
S (`iclimit.asymptotics.spectra.polynomial_form`) it is a matrix K, the constraint p(0) = 1 a
vector :math:`c_j = q_j(0)`, and

.. math:: \min_{c^\top p = 1} p^\top K p = \frac1{c^\top K^{-1} c}, \qquad
   p = \frac{K^{-1} c}{c^\top K^{-1} c} .

With :math:`K = R^\top R` and :math:`y = R^{-\top} c` the least loss of degree n is
:math:`1/\sum_{j \le n} y_j^2`, for all n at once.

*Errors.*  The numerical error of K is known in norm, :math:`\delta`.  K + :math:`\delta` I is
positive, and its minimum is above that of K.  How much the minimum rises from :math:`\delta` to
:math:`16 \delta` is the stated error.

*Real layers.*  The zeros of p need not be real, since the mean over samples is no integral over a
measure.  The best real layers minimise :math:`|R p|^2`, a sum of squares, over L real steps; the
Levenberg-Marquardt method starts from the real parts of the zeros.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import least_squares

from iclimit.asymptotics.spectra import Atoms, TwoPoint
from iclimit.asymptotics.spectra.interval_polynomials import IntervalPolynomials
from iclimit.asymptotics.spectra.polynomial_form import PolynomialForm
from iclimit.results import Result

# Factor of the error of the matrix for the error of the loss.
_MORE = 16.0

# Relative error of a loss from which on it is refused.
_UNRESOLVED = 0.01

# Imaginary parts below this share count as rounding.
_REAL = 1e-8

# Evaluations in this search: some seconds at 128 layers.
_TRIALS = 200

# Starts of the search for real layers: a pair of complex steps becomes two real ones, apart by
# this share.
_SPREAD = (0.03, 0.3)


@dataclass(frozen=True, repr=False)
class UntiedDepth(Result):
    r"""Best untied layers.

    Attributes
    ----------
    losses : ndarray (depth,)
        Least loss of 1, 2, ..., depth layers, relative to the null predictor.
    steps : ndarray (depth,)
        Steps :math:`s_l = \gamma_l/L` of the best layers at the full depth, in ascending order;
        the loss does not depend on their order.  Where fewer steps make the loss as small, the
        remaining ones are 0.  Complex where no real layers reach the loss.
    error : float
        Numerical error of the loss at the full depth.
    real_loss : float
        Loss of the best real layers: the same loss unless the steps are complex.
    real_steps : ndarray (depth,)
        Their steps.  Where the others are complex, these are found by a local search: up to some
        24 layers it ends at the same loss from all starts, at 64 layers within 1 %.
    """

    losses: np.ndarray
    steps: np.ndarray
    error: float
    real_loss: float
    real_steps: np.ndarray

    @property
    def loss(self) -> float:
        """Least loss at the full depth."""
        return float(self.losses[-1])


def best_polynomial(law: TwoPoint, outer: np.ndarray, depth: int) -> UntiedDepth:
    """Best polynomial of a law; ``outer`` holds the eigenvalues of Omega at ``law.values``.

    Raises
    ------
    ArithmeticError
        If float64 does not resolve the loss.
    """
    form = PolynomialForm.of(law, depth, outer, law.values)
    at_zero = form.basis(np.zeros(1))[:, 0]
    above = solve_triangular(_root(form, _MORE), at_zero, trans="T")
    R = _root(form, 1.0)
    y = solve_triangular(R, at_zero, trans="T")
    losses = 1 / np.cumsum(y**2)
    error = float(1 / (above @ above) - losses[-1])
    if error > _UNRESOLVED * losses[-1]:
        raise ArithmeticError(
            f"float64 does not resolve the loss at depth {depth}: {losses[-1]:.3g} with an error "
            f"of {error:.1g}; give fewer layers"
        )
    p = solve_triangular(R, y) * losses[-1]
    steps = np.sort_complex(1 / form.basis.zeros(p))
    if np.all(abs(steps.imag) <= _REAL * abs(steps)):
        return UntiedDepth(losses[1:], steps.real, error, float(losses[-1]), steps.real)
    real_loss, real_steps = _best_real(form.basis, R, steps)
    return UntiedDepth(losses[1:], steps, error, real_loss, real_steps)


def _root(form: PolynomialForm, factor: float) -> np.ndarray:
    """Triangular R with R'R = K + factor times its error."""
    matrix = form.matrix + factor * form.error * np.eye(len(form.matrix))
    return np.asarray(cholesky(matrix))


def _best_real(
    basis: IntervalPolynomials, R: np.ndarray, steps: np.ndarray
) -> tuple[float, np.ndarray]:
    """Least |R p|^2 over real steps, near the real parts of given ones."""
    x = basis.nodes
    project = R @ basis.projection
    scale = abs(steps)

    def factors(t: np.ndarray) -> np.ndarray:
        return 1 - (t * scale)[:, None] * x

    def misfit(t: np.ndarray) -> np.ndarray:
        return project @ np.prod(factors(t), axis=0)

    def slopes(t: np.ndarray) -> np.ndarray:
        factor = factors(t)
        before = np.ones_like(factor)
        after = np.ones_like(factor)
        before[1:] = np.cumprod(factor[:-1], axis=0)
        after[:-1] = np.cumprod(factor[:0:-1], axis=0)[::-1]
        return -project @ (before * after * x * scale[:, None]).T

    fits = []
    for spread in _SPREAD:
        start = (steps.real + spread * np.sign(steps.imag) * abs(steps)) / scale
        with np.errstate(over="ignore", invalid="ignore"):
            fits.append(
                least_squares(misfit, start, jac=slopes, method="lm", xtol=1e-12, max_nfev=_TRIALS)
            )
    best = min(fits, key=lambda fit: float(fit.cost))
    return float(2 * best.cost), np.sort(best.x * scale)


def best_on_samples(
    eigenvalues: np.ndarray, weights: np.ndarray, depth: int, alpha: float, width_ratio: float
) -> UntiedDepth:
    """Best polynomial relative to the null predictor; eigenvalues as the user gave them.

    Raises
    ------
    ArithmeticError
        If float64 does not resolve the loss.
    """
    positive = eigenvalues > 0
    total = weights.sum()
    # Samples have no part in directions of eigenvalue 0, whose label variance is not explained.
    at_zero = float(weights[~positive].sum() / total)
    kept = positive if width_ratio >= 1 else np.ones_like(positive)
    size = int(np.count_nonzero(kept))
    values, which = np.unique(eigenvalues[kept], return_inverse=True)
    labels = np.bincount(which, weights[kept]) / np.bincount(which)
    largest = float(values[-1])
    values = values / largest
    outer = np.divide(labels, values, out=np.zeros_like(values), where=values > 0)
    law = TwoPoint(
        Atoms(eigenvalues[kept] / largest),
        alpha=alpha * len(eigenvalues) / size,
        width_ratio=width_ratio,
    )
    best = best_polynomial(law, outer, depth)
    share = size / total
    return UntiedDepth(
        at_zero + best.losses * share,
        best.steps / largest,
        float(best.error * share),
        float(at_zero + best.real_loss * share),
        best.real_steps / largest,
    )
