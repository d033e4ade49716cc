r"""Contexts for ridge regression with an estimated noise variance, in their eigenbases.

With the eigenvalues e of :math:`X^\top X` and the coordinates z of :math:`X^\top y` in its
eigenbasis, the adjusted loss of ridge regression given the context is

.. math:: \tfrac12 \lVert\hat w - w_{\text{oracle}}\rVert^2 = \tfrac12 \sum_i
   \Bigl[\frac{(\sigma^2 - \lambda)\, z_i}{(e_i + \lambda)(e_i + \sigma^2)}\Bigr]^2 .

This takes one decomposition for all :math:`\lambda`, and no difference of nearby numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, Backend
from iclimit.simulate.gdpp.noisy_regression import NoisyPrompts, NoisyRegression, blocks_of_draws

# Prompts of one seed: part of what a seed means.
_BLOCK = 2**12


@dataclass(frozen=True, eq=False)
class SpectralContexts:
    """Contexts in the eigenbases of X^T X.

    Attributes
    ----------
    eigenvalues, coordinates : array (n, d)
        Eigenvalues, and coordinates of X^T y.
    variance, rss : array (n,)
        Noise variance, and residual sum of squares of least squares.
    """

    eigenvalues: Array
    coordinates: Array
    variance: Array
    rss: Array

    @classmethod
    def of(cls, drawn: NoisyPrompts) -> SpectralContexts:
        """Decompose the contexts of prompts."""
        x, y = drawn.prompts.x, drawn.prompts.y[:, :, None]
        xp = array_namespace(x)
        transposed = xp.matrix_transpose(x)
        eigenvalues, basis = xp.linalg.eigh(transposed @ x)
        coordinates = xp.matrix_transpose(basis) @ (transposed @ y)
        residuals = y - x @ (basis @ (coordinates / eigenvalues[:, :, None]))
        rss = xp.sum(residuals[:, :, 0] ** 2, axis=1)
        return cls(eigenvalues, coordinates[:, :, 0], drawn.levels**2, rss)

    def adjusted_loss(self, penalty: Array) -> Array:
        """Adjusted losses of ridge regression with one penalty for each context."""
        xp, e = array_namespace(self.rss), self.eigenvalues
        variance, penalty = self.variance[:, None], penalty[:, None]
        difference = (variance - penalty) / (e + variance) * self.coordinates / (e + penalty)
        return xp.sum(difference**2, axis=1) / 2

    def oracle_loss(self) -> Array:
        """Half the oracle's squared error, averaged over query and task given the context."""
        xp, variance = array_namespace(self.rss), self.variance[:, None]
        return xp.sum(variance / (self.eigenvalues + variance), axis=1) / 2


def check_problem(problem: NoisyRegression) -> None:
    """Raise an error unless the noise of the problem can be estimated from residuals."""
    if not isinstance(problem, NoisyRegression):
        raise TypeError(f"problem must be a NoisyRegression, got {problem!r}")
    if problem.context <= problem.dim:
        raise ValueError(
            f"problem must have context > dim, got {problem.context} and {problem.dim}"
        )


def noise_denominators(problem: NoisyRegression) -> dict[str, int]:
    """Denominators of the estimates of the noise variance from the residual sum of squares.

    "unbiased": N - d; "biased", of maximum likelihood: N; "least-error", of least mean squared
    error: N - d + 2.
    """
    context, residual = problem.context, problem.context - problem.dim
    return {"unbiased": residual, "biased": context, "least-error": residual + 2}


def draw_prompts(
    problem: NoisyRegression, count: int, rng: Any, backend: Backend
) -> Iterator[NoisyPrompts]:
    """Fresh prompts in blocks, each from a seed of its own."""
    for generator, size in blocks_of_draws(backend, rng, count, _BLOCK):
        yield problem.sample(backend, generator, size)
