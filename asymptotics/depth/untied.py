r"""Untied layers: the least loss of L steps of different size, and these steps.

Linear attention of depth L on prompts of infinite context, with a covariance that is rotated
afresh in each prompt (setting RRS of arXiv:2510.01098), makes the residual polynomial
:math:`p(x) = \prod_l (1 - s_l x)` of the eigenvalue x, :math:`s_l = \gamma_l/L` being the step of
layer l.  Its loss is

.. math:: \mathcal L = \int p(x)^2\, d\sigma(x), \qquad p(0) = 1,

where :math:`\sigma` puts the share :math:`\omega_k \lambda_k` of the label variance on the
eigenvalue :math:`\lambda_k`.  With tied layers :math:`p = (1 - \gamma x/L)^L`.

**Optimum.**  With untied layers p is any polynomial of degree L with real zeros and p(0) = 1.  The
least loss is the Christoffel function of :math:`\sigma` at 0, and the steps are the reciprocal
zeros of the orthogonal polynomial of degree L of :math:`x\,d\sigma`.
The module `iclimit.asymptotics.depth.continued_fraction` computes both.

**Power law.**  For :math:`d\sigma = \beta x^{\beta - 1} dx` on [0, 1] the polynomials are those of
Jacobi,

.. formula: power_law

.. math:: \mathcal L = \binom{L + \beta}{L}^{-2}, \qquad q_k = \frac{(\beta + k - 1)^2}
   {(\beta + 2k - 2)(\beta + 2k - 1)}, \qquad e_k = \frac{k^2}{(\beta + 2k - 1)(\beta + 2k)} .

.. page: depth/untied: Depth: tied layers, untied layers and exponents

.. symbols:
   \mathcal L: least loss over that of predicting 0
   \beta: exponent of the power law of the label variance
   q_k: coefficient of the continued fraction that gives the steps
   e_k: coefficient of the continued fraction that gives the steps
   k: number of a coefficient
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import check_integers, checked, real_array, real_number
from iclimit.asymptotics.depth.continued_fraction import (
    christoffel_losses,
    continued_fraction,
    reciprocal_zeros,
)
from iclimit.asymptotics.depth.untied_samples import UntiedDepth, best_on_samples
from iclimit.asymptotics.numbers import ArrayMath, Number, SymPyMath, Value
from iclimit.threads import one_blas_thread

# Relative error for each eigenvalue.
_ROUNDING = float(np.finfo(float).eps)

# Most layers at finite context or width: some ten seconds.
_DEEPEST = 400


@one_blas_thread
def untied_depth(
    eigenvalues: ArrayLike,
    *,
    weights: Number,
    depth: int,
    alpha: float = np.inf,
    width_ratio: float = np.inf,
) -> UntiedDepth:
    r"""Least loss of untied layers, and the steps that reach it.

    Parameters
    ----------
    eigenvalues : array (n,)
        Eigenvalues :math:`\lambda_k \ge 0` of the covariance of the inputs, in any order.
    weights : array (n,)
        Shares of the label variance, :math:`\omega_k \lambda_k \ge 0`, of any positive sum: the
        loss is normalised to weights of sum one.
    depth : int >= 1
        Number L of layers, at most 400 at finite context or width.
    alpha : number > 0, or inf
        Context length over the number n of eigenvalues, which is the dimension then.
    width_ratio : number > 0, or inf
        Width of the residual stream over that dimension; from 1 on it does not matter.

    Returns
    -------
    UntiedDepth
        With fields ``losses``, of all depths up to L, ``steps``, ``error``, ``real_loss``,
        ``real_steps``, and the property ``loss``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not fit.
    TypeError
        If an argument is not a number.
    ArithmeticError
        If float64 does not resolve the loss to 1 % at finite context or width.

    Notes
    -----
    *Infinite context and width.*  Losses and steps are accurate to about n units of rounding,
    however small: 1e-14 at a thousand eigenvalues.  A loss below 1e-300 is returned as 0.  With no
    more eigenvalues than layers the loss is the share of the eigenvalue 0.

    It takes O(n + L) vectorised operations of length L: 0.1 s for 3000 eigenvalues and 256 layers.

    The best steps hit the largest eigenvalues one by one.  At great depth they do so more closely
    than float64 can tell: the loss of the *rounded* steps can then be much larger.

    *Finite context or width.*  The limit of large dimension at the eigenvalues given.  Losses of
    1e-100 come with a relative ``error`` below 1e-8 at infinite width: contours keep to each part
    of the spectrum (`iclimit.asymptotics.spectra.polynomial_form`).  At finite width it is 1e-5 at
    worst for power laws; a width a little below the dimension at infinite context is not resolved.
    With 400 eigenvalues 16 layers take 0.2 s and 128 layers 2 to 5 s.  Rare contexts may carry the
    mean of a simulation.

    The loss is that of the best polynomial.  At infinite context and width its zeros are real.
    Otherwise some can be complex, mostly where more layers hardly help; then so are the steps.
    ``real_loss`` is what the best real layers have, up to a few per cent more.

    All losses are without label noise.

    References
    ----------
    Setting: Bordelon, Letey, Pehlevan, arXiv:2510.01098.  Optimum: module
    `iclimit.asymptotics.depth.untied`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.depth import untied_depth
    >>> k = np.arange(1.0, 1001.0)
    >>> best = untied_depth(1 / k, weights=1 / k**2, depth=3)
    >>> best.losses.round(4), best.steps.round(3)
    (array([0.1879, 0.0656, 0.0301]), array([1.   , 2.123, 5.876]))

    A context of twice the dimension, and layers of half the width:

    >>> untied_depth(1 / k, weights=1 / k**2, depth=3, alpha=2.0, width_ratio=0.5).losses.round(4)
    array([0.1956, 0.0771, 0.0498])
    """
    x, mass = parse_label_spectrum(eigenvalues, weights)
    check_integers(depth=depth)
    context = real_number("alpha", alpha)
    width = real_number("width_ratio", width_ratio)
    if (context < np.inf or width < 1) and x[-1] > 0:
        if depth > _DEEPEST:
            raise ValueError(
                f"depth must be <= {_DEEPEST} at finite context or width, got {depth}"
            )
        given = np.asarray(eigenvalues, dtype=float), np.asarray(weights, dtype=float)
        return best_on_samples(*given, depth, context, width)
    at_zero = float(mass[x == 0].sum())
    total = float(mass.sum())
    mass = mass[x > 0]
    x = x[x > 0]
    if len(x) <= depth:
        steps = np.concatenate([np.zeros(depth - len(x)), 1 / x[::-1]])
        losses = np.full(depth, at_zero / total)
        if len(x) > 1:
            losses[: len(x) - 1] = christoffel_losses(
                *continued_fraction(x, mass, len(x) - 1), at_zero, total
            )
        return _real(losses, np.sort(steps), len(x))
    q, e = continued_fraction(x, mass, depth)
    losses = christoffel_losses(q, e, at_zero, total)
    return _real(losses, reciprocal_zeros(q, e), len(x))


def _real(losses: np.ndarray, steps: np.ndarray, count: int) -> UntiedDepth:
    """Layers of infinite context and width, of so many eigenvalues."""
    error = float(_ROUNDING * count * losses[-1])
    return UntiedDepth(losses, steps, error, float(losses[-1]), steps)


def untied_power_law_loss(beta: Number, *, depth: int) -> Value:
    r"""Least loss of untied layers for a continuous power law.

    Parameters
    ----------
    beta : number or array > 0
        Exponent :math:`\beta`: eigenvalues below x hold the share :math:`x^\beta` of the label
        variance, the largest eigenvalue being 1.
    depth : int >= 1
        Number L of layers.

    Returns
    -------
    number or array
        :math:`\binom{L + \beta}{L}^{-2}`; NumPy and other arrays, mpmath numbers, SymPy
        expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number.

    References
    ----------
    Module `iclimit.asymptotics.depth.untied`.  As an exponent of iterative methods, 2 beta is that
    of Brakhage (1987) and Nemirovskii and Polyak (1984).

    Examples
    --------
    >>> from iclimit.asymptotics.depth import untied_power_law_loss
    >>> untied_power_law_loss([0.5, 1.0], depth=4).round(6)
    array([0.16512, 0.04   ])
    >>> import sympy
    >>> sympy.factor(untied_power_law_loss(sympy.Symbol("beta", positive=True), depth=2))
    4/((beta + 1)**2*(beta + 2)**2)
    """
    check_integers(depth=depth)
    math_, values = checked(beta=beta)
    with math_.quiet():
        root = math_.convert(1)
        for layer in range(1, depth + 1):
            root = root * (layer / (layer + values.beta))
        return math_.finish(root**2)


def untied_power_law_steps(beta: Number, *, depth: int) -> Value:
    r"""Steps of the best untied layers for a continuous power law.

    Parameters
    ----------
    beta, depth
        As in `untied_power_law_loss`; one number beta, of NumPy or mpmath.

    Returns
    -------
    ndarray (depth,), or tuple of mpmath numbers
        Steps in ascending order, the reciprocal zeros of the Jacobi polynomial
        :math:`P_L^{(0, \beta)}` on [0, 1].

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or a SymPy expression: the zeros have no closed form.

    References
    ----------
    Module `iclimit.asymptotics.depth.untied`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import untied_power_law_steps
    >>> untied_power_law_steps(1.0, depth=2).round(6)
    array([1.183503, 2.816497])
    """
    check_integers(depth=depth)
    math_, values = checked(single=True, beta=beta)
    exponent = values.beta
    if isinstance(math_, SymPyMath):
        raise TypeError(f"beta must be a number of NumPy or mpmath, got {beta!r}")
    fractions = [
        (
            (exponent + k - 1) ** 2 / ((exponent + 2 * k - 2) * (exponent + 2 * k - 1)),
            k**2 / ((exponent + 2 * k - 1) * (exponent + 2 * k)),
        )
        for k in range(1, depth + 1)
    ]
    if isinstance(math_, ArrayMath):
        q, e = np.array(fractions, dtype=float).T
        return reciprocal_zeros(q, e)
    jacobi = math_.zeros(depth)
    for k, (q, e) in enumerate(fractions):
        jacobi[k, k] = q + e
        if k + 1 < depth:
            coupling = math_.sqrt(e * fractions[k + 1][0])
            jacobi[k, k + 1] = coupling
            jacobi[k + 1, k] = coupling
    zeros = math_.eigsy(jacobi, eigvals_only=True)
    return tuple(sorted(1 / zero for zero in zeros))


def parse_label_spectrum(eigenvalues: ArrayLike, weights: Number) -> tuple[np.ndarray, np.ndarray]:
    """Distinct eigenvalues in ascending order with their positive weights."""
    x = real_array("eigenvalues", eigenvalues)
    mass = real_array("weights", weights, "[0, inf)")
    if x.ndim != 1 or x.shape != mass.shape:
        raise ValueError(
            "eigenvalues and weights must be lists of the same length, got shapes "
            f"{x.shape} and {mass.shape}"
        )
    if not mass.sum() > 0:
        raise ValueError("weights must have a positive sum")
    values, which = np.unique(x[mass > 0], return_inverse=True)
    return values, np.bincount(which, mass[mass > 0])
