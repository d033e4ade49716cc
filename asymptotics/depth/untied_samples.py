r"""Best untied layers at finite context and finite width.

At a finite context the layers act on the sample covariance S of each prompt, and one schedule
serves all prompts.  For covariances in a random basis the loss of the residual polynomial p is the
quadratic form

.. math:: \mathcal L = \frac1d E \operatorname{tr} \Omega\, p(S)^\top \Lambda\, p(S),

whose large-d equivalent is that of `iclimit.asymptotics.spectra.TwoPoint`; at finite width S is
projected first.  In the basis of Chebyshev polynomials :math:`T_j` on the spectrum of S it is a
matrix K, the constraint p(0) = 1 a vector :math:`c_j = T_j(0)`, and

.. math:: \min_{c^\top p = 1} p^\top K p = \frac1{c^\top K^{-1} c}, \qquad
   p = \frac{K^{-1} c}{c^\top K^{-1} c} .

The leading blocks of K give the least losses of all smaller depths.  The zeros of p need not be
real: the mean over samples is no integral over a measure.

*Contours.*  The form is a contour integral, whose contour must keep to where the polynomials are
small.  Chebyshev polynomials grow fast beside the spectrum, the best polynomials less so, since
they are small on most of it.  So the square of the best polynomial of half the degree chooses the
contour, from a depth of 4 on.  Rounding errors are amplified by the squares of Chebyshev
polynomials on the contour: 1e-8 of the loss at 16 layers.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.polynomial import chebyshev

from iclimit.asymptotics.spectra import Atoms, TwoPoint
from iclimit.asymptotics.spectra.two_point import QuadraticForm

_DIRECT = 4
"""Degree up to which Chebyshev polynomials choose the contour themselves."""

Polynomial = Callable[[np.ndarray], np.ndarray]


def best_polynomial(
    law: TwoPoint, outer: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Least losses of depths 1..depth, reciprocal zeros at the last one, and its error.

    ``outer`` holds the eigenvalues of Omega for those of the population, ``law.values``.
    """
    lower, upper = law.edges

    def basis(z: np.ndarray, degree: int = depth) -> np.ndarray:
        inside = (2 * np.asarray(z) - upper - lower) / (upper - lower)
        return np.moveaxis(chebyshev.chebvander(inside, degree), -1, 0)

    halves = [depth]
    while halves[-1] > _DIRECT:
        halves.append(math.ceil(halves[-1] / 2))
    guide: Polynomial | None = None
    for degree in reversed(halves):
        form = _form(law, outer, guide, partial(basis, degree=degree))
        values = [basis(nodes, degree) for nodes in form.nodes]
        K = np.array([form.pair([v[j] for v in values], values) for j in range(degree + 1)])
        K, c = (K + K.T) / 2, basis(np.zeros(1), degree)[:, 0]
        p = np.linalg.solve(K, c)
        p = p / (c @ p)

        def guide(z: np.ndarray, p: np.ndarray = p, n: int = degree) -> np.ndarray:
            return np.tensordot(p, basis(z, n), 1) ** 2

    losses = [1 / (c[:n] @ np.linalg.solve(K[:n, :n], c[:n])) for n in range(2, depth + 2)]
    error = form.pair_error([np.tensordot(p, v, 1) for v in values])
    zeros = (chebyshev.chebroots(p) * (upper - lower) + upper + lower) / 2
    steps = np.sort_complex(1 / zeros)
    return np.array(losses), np.real_if_close(steps), float(error)


def _form(
    law: TwoPoint, outer: np.ndarray, guide: Polynomial | None, basis: Polynomial
) -> QuadraticForm:
    """Quadratic form on a contour that suits the guide, or else the basis."""
    functions = basis if guide is None else lambda z: guide(z)[None]
    return law.form(functions, outer=outer, inner=law.values)


def losses_on_samples(
    eigenvalues: np.ndarray, weights: np.ndarray, depth: int, alpha: float, width_ratio: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Losses, steps and error as `untied_depth` returns them; eigenvalues as the user gave them.

    Raises
    ------
    ValueError
        If an eigenvalue is 0 at a finite width, for which the equivalent is not implemented.
    ArithmeticError
        If there are too many layers for float64.
    """
    positive, total = eigenvalues > 0, weights.sum()
    if width_ratio < 1 and not np.all(positive):
        raise ValueError("eigenvalues must be > 0 for width_ratio < 1, got a 0")
    # Samples have no part in directions of eigenvalue 0, whose label variance is not explained.
    at_zero = float(weights[~positive].sum() / total)
    rank = int(np.count_nonzero(positive))
    values, which = np.unique(eigenvalues[positive], return_inverse=True)
    outer = np.bincount(which, weights[positive]) / np.bincount(which) / values
    samples = alpha * len(eigenvalues) / rank
    law = TwoPoint(Atoms(eigenvalues[positive]), alpha=samples, width_ratio=width_ratio)
    losses, steps, error = best_polynomial(law, outer, depth)
    return at_zero + losses * rank / total, steps, error * rank / total
