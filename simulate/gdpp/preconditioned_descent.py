r"""GD++: gradient descent on inputs that the layers precondition.

A layer turns inputs Z and residuals r, from Z = X and r = y, into

.. math:: r' = r - \frac\eta N Z Z^\top r, \qquad Z' = Z - \gamma Z\, \frac{Z^\top Z}N,

both from the old ones, and likewise for the query (von Oswald et al., arXiv:2212.07677; Vladymyrov
et al., arXiv:2402.14180, equation 11).  The last :math:`\gamma` has no effect, so L layers have L
rates and L - 1 of the :math:`\gamma`.

With :math:`Z = X M` and weights :math:`w = B X^\top y/N` this is, in :math:`H = X^\top X/N`,

.. math:: B' = B + \eta\, M M^\top (I - H B), \qquad M' = M (I - \gamma\, M^\top H M),

from B = 0 and M = I.  For tasks of independent coordinates of variance :math:`a^2` and label noise
of variance :math:`\sigma^2` the mean square of the error of the weights given the inputs, over
:math:`a^2 d`, is

.. math:: \frac1d \bigl[\lVert I - B H\rVert_F^2 + v \operatorname{tr} B H B^\top\bigr],
   \qquad v = \frac{\sigma^2}{a^2 N}:

tasks, labels and queries need no sampling.  The recursion runs on matrices as a layer does; no
eigenvalue is computed.
"""

from collections.abc import Sequence

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments, parse_array
from iclimit.simulate.arrays import Array, Seed, to_host
from iclimit.simulate.descent.schedules import ContextLosses, context_blocks
from iclimit.simulate.models.linear_transformer import LinearTransformer, build
from iclimit.statement import named_cell


@named_cell("simulate_gdpp")
def simulate_gdpp(
    rates: ArrayLike,
    gammas: ArrayLike,
    *,
    context: int,
    dim: int,
    noise_ratio: float = 0.0,
    input_law: str = "gaussian",
    contexts: int = 1000,
    rng: Seed,
    backend: str = "numpy",
) -> ContextLosses:
    r"""Losses of GD++ on simulated contexts.

    Parameters
    ----------
    rates : array (L,)
        Rates :math:`\eta` of the steps on the mean-normalised loss, one for each layer.
    gammas : array (L - 1,)
        Strengths :math:`\gamma` of the preconditioning between them.
    context, dim : int >= 1
        Number N of pairs and dimension d of the inputs.
    noise_ratio : float >= 0
        Noise :math:`v`: label noise variance over N times the task variance.
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}
        Law of the input coordinates, as in `iclimit.Problem`.
    contexts : int >= 1
        Number of contexts.
    rng : int, SeedSequence or Generator
        Root seed.  Context r depends on (root, r) and the size of a context only, and is that of
        `simulate_schedule`.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    ContextLosses
        Mean squared error of the weights over its value at zero weights.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    >>> from iclimit.simulate.descent import simulate_schedule
    >>> from iclimit.simulate.gdpp.preconditioned_descent import simulate_gdpp
    >>> size = {"context": 20, "dim": 10, "rng": 0}
    >>> plain = simulate_schedule([0.42, 1.18], **size).loss.mean
    >>> simulate_gdpp([0.42, 3.5], [0.4], **size).loss.mean < plain / 2
    True
    """
    etas, strengths = _parse_layers(rates, gammas)
    numbers = {"context": context, "dim": dim, "noise_ratio": noise_ratio}
    check_arguments(noise_ratio=noise_ratio)
    losses = [
        to_host(_loss(context_covariance(x), etas.tolist(), strengths.tolist(), noise_ratio))
        for x in context_blocks(context, dim, input_law, contexts, rng, backend)
    ]
    layers = {"rates": etas, "gammas": strengths}
    parameters = {**layers, **numbers, "input_law": input_law, "backend": backend}
    return ContextLosses.of(np.concat(losses)[:, None], parameters)


def gdpp_transformer(
    rates: ArrayLike, gammas: ArrayLike, *, context: int, dim: int
) -> LinearTransformer:
    r"""Linear transformer that performs GD++.

    A layer has :math:`\omega_{yx} = -\eta/N` and :math:`\omega_{xx} = -\gamma/N`.

    Parameters
    ----------
    rates : array (L,)
    gammas : array (L - 1,)
    context, dim : int >= 1
        As in `simulate_gdpp`.

    Returns
    -------
    LinearTransformer
        Of kind "gd++" with L layers and one head.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from iclimit.gdpp import gdpp_transformer
    >>> model = gdpp_transformer([0.8, 1.0], [0.2], context=20, dim=3)
    >>> model.kind, len(model.layers)
    ('gd++', 2)
    """
    etas, strengths = _parse_layers(rates, gammas)
    check_arguments(context=context, dim=dim)
    # Parameters p_x, p_y, q_x of a head.
    columns = [-np.append(strengths, 0.0) / context, -etas / context, np.ones_like(etas)]
    return build("gd++", np.stack(columns, axis=1)[:, None, :], dim)


def layer_spectra(x: Array, gammas: ArrayLike) -> Array:
    r"""Eigenvalues of the covariance of the inputs before and after each preconditioning.

    Parameters
    ----------
    x : array (n, N, d)
        Context inputs.
    gammas : array (L,)
        Strengths :math:`\gamma`.

    Returns
    -------
    array (L + 1, n, d)
        Ascending eigenvalues of :math:`Z^\top Z/N`, from the matrices Z of every layer.

    Raises
    ------
    ValueError
        If gammas are not finite numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.gdpp import layer_spectra
    >>> x = np.diag([2.0, 1.0])[None]  # one prompt of two inputs
    >>> layer_spectra(x, [0.25])[:, 0]
    array([[0.5      , 2.       ],
           [0.3828125, 0.5      ]])
    """
    xp = array_namespace(x)
    spectra = []
    for gamma in [*parse_array("gammas", gammas, (None,)).tolist(), 0.0]:
        covariance = context_covariance(x)
        spectra.append(xp.linalg.eigvalsh(covariance))
        x = x - gamma * (x @ covariance)
    return xp.stack(spectra)


def _parse_layers(rates: ArrayLike, gammas: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    etas = parse_array("rates", rates, (None,))
    return etas, parse_array("gammas", gammas, (len(etas) - 1,))


def context_covariance(x: Array) -> Array:
    """Covariances X^T X/N of context inputs, (n, N, d) -> (n, d, d)."""
    return array_namespace(x).matrix_transpose(x) @ x / x.shape[1]


def gdpp_matrices(H: Array, rates: Sequence[float], gammas: Sequence[float]) -> Array:
    """Matrices B of the weights B X^T y/N, from covariances H of contexts, shape (n, d, d)."""
    xp = array_namespace(H)
    eye = xp.eye(H.shape[-1], dtype=H.dtype)
    B = xp.zeros_like(H)
    M = xp.zeros_like(H) + eye
    for rate, gamma in zip(rates, [*gammas, 0.0], strict=True):
        transposed = xp.matrix_transpose(M)
        B = B + rate * (M @ (transposed @ (eye - H @ B)))
        if gamma:
            M = M - gamma * (M @ (transposed @ H @ M))
    return B


def _loss(H: Array, rates: list[float], gammas: list[float], noise: float) -> Array:
    """Conditional losses of contexts given their covariances H."""
    xp = array_namespace(H)
    dim = H.shape[-1]
    with np.errstate(over="ignore", invalid="ignore"):
        B = gdpp_matrices(H, rates, gammas)
        BH = B @ H
        total = xp.sum((xp.eye(dim, dtype=H.dtype) - BH) ** 2 + noise * BH * B, axis=(1, 2))
    # Only overflow gives NaN, as inf - inf.
    return xp.where(xp.isnan(total), xp.inf, total / dim)
