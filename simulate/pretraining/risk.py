r"""Test error of a given reduced matrix Gamma.

In closed form through the moments of the context summary, exact at finite context length: with
query inputs of covariance I/d the error is
:math:`E y^2 - \frac2d \operatorname{tr}\Gamma\, E[h w^\top]
+ \frac1d\operatorname{tr}\Gamma\, E[h h^\top]\, \Gamma^\top`.
Monte Carlo over prompts is its check, and the only way for inputs that are not Gaussian.

Inputs of covariance :math:`\Sigma/d` are :math:`\Sigma^{1/2} x` with x of covariance I/d.  Their
labels for a task w are those of x for the task :math:`\Sigma^{1/2} w`, so that the error is that
of :math:`\Sigma^{1/2}\, \Gamma\, \mathrm{diag}(\Sigma^{1/2}, 1)` on x and those tasks.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.pretraining.covariances import times_root
from iclimit.simulate.pretraining.summaries import SummaryMoments


def exact_error(gamma: Array, moments: SummaryMoments) -> Any:
    """Mean squared error on noisy query labels, Gaussian inputs of covariance I/d."""
    xp = array_namespace(gamma)
    d = gamma.shape[0]
    linear = xp.sum(gamma.T * moments.cross)
    quadratic = xp.sum((gamma @ moments.second) * gamma)
    return moments.label + (quadratic - 2 * linear) / d


def whitened_gamma(gamma: Array, root: Array | None) -> Array:
    """Gamma on inputs of covariance I/d that equals gamma on those times the root."""
    if root is None:
        return gamma
    d = gamma.shape[0]
    left = times_root(gamma.T, root).T
    return array_namespace(gamma).concat([times_root(left[:, :d], root), left[:, d:]], axis=1)


def squared_errors(gamma: Array, x_query: Array, summary: Array, y_query: Array) -> Array:
    """Squared error of each prompt, shape (n,)."""
    xp = array_namespace(gamma)
    return (y_query - xp.sum((x_query @ gamma) * summary, axis=1)) ** 2
