r"""How strongly the noise of a pretrained matrix feeds on itself: overthinking without growth.

:math:`\Gamma = gI + E` with :math:`g = \operatorname{tr}\Gamma/d`.  White pushes that are the same
in each step, or change their sign, :math:`z^j u` with :math:`z = \pm 1`, leave in the residuals
:math:`z^j R_0 u`, if nothing but the mean of :math:`\Gamma` acts, and :math:`z^j R u` in all,

.. math:: R_0 = S (z - 1 + sgS)^{-1}, \qquad R = S (z - 1 + s\,\Gamma S)^{-1} .

What E makes of :math:`R_0 u` are new pushes.  The ratio of their mean square to that of the first,

.. math:: \frac{s^2}d \lVert E R_0 \rVert_F^2 ,

is how much comes back in one round.  If rounds add up as in the limit, where those of E are
independent, :math:`\lVert R \rVert^2 = \lVert R_0 \rVert^2/(1 - \text{ratio})`, which goes to
infinity where the ratio goes to 1: beyond, errors grow.

With :math:`S = T T^\top`, also for contexts shorter than d,
:math:`R = T (z - 1 + s\,T^\top \Gamma T)^{-1} T^\top`.
"""

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from iclimit.checks import by_name, check_arguments
from iclimit.results import Estimate
from iclimit.simulate.arrays import Array, Seed, get_backend, row_blocks
from iclimit.simulate.depth.pretrained import (
    learned_matrix,
    parse_pretraining,
    prompt_law,
    sample_factors,
)

# Matrices of a context that are held at once.
_MATRICES = 6


@dataclass(frozen=True)
class SimulatedRatio:
    r"""Feedback of the noise of pretrained matrices.

    Attributes
    ----------
    returned : ndarray (repeats, 2)
        For each pretraining what comes back of pushes in one round: of such that are the same in
        each step, and of such that change their sign.
    resummed : ndarray (repeats, 2)
        The same from all rounds, one minus the mean of :math:`1/\lVert R \rVert^2` over that of
        :math:`1/\lVert R_0 \rVert^2`.  It stays below 1.
    parameters : dict
        What was simulated.
    """

    returned: np.ndarray = field(repr=False)
    resummed: np.ndarray = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)

    @property
    def estimate(self) -> Estimate:
        """Mean over pretrainings of what comes back in one round, of the larger kind."""
        return max(map(Estimate.of, self.returned.T), key=lambda estimate: estimate.mean)


def simulate_overthinking_ratio(
    *,
    dim: int,
    context: int,
    prompts: int,
    noise_variance: float = 0.0,
    ridge: float = 0.0,
    dampening: float = 1.0,
    target: str = "labels",
    rng: Seed,
    repeats: int = 64,
    contexts: int = 4,
    backend: str = "numpy",
) -> SimulatedRatio:
    r"""Pretrain linear attention and measure how the noise of its matrix feeds on itself.

    Parameters
    ----------
    dim : int >= 1
        Dimension d of the inputs.
    context : int >= 1
        Context length, of pretraining and test.
    prompts : int >= 1
        Number of pretraining prompts, with a fresh task in each.
    noise_variance : float >= 0
        Variance :math:`\sigma^2` of the label noise; noiseless labels have variance 1.
    ridge : float >= 0
        Ridge of pretraining from labels.
    dampening : float
        Factor s of the steps.
    target : {"labels", "weights"}
        What pretraining predicts: query labels, or the tasks.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent pretrainings.
    contexts : int >= 1
        Test contexts of each, over which is averaged.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    SimulatedRatio
        What `overthinking_ratio` predicts for large d.

    Raises
    ------
    ValueError
        If an argument is outside its range, or a ridge is given for weights.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If a solve did not converge.

    Notes
    -----
    Undampened steps with few pairs in a context nearly diverge, and alternating pushes then see
    the edge of the spectrum of S: rare contexts carry their part, unless d is large.

    Examples
    --------
    >>> from iclimit.simulate.depth import simulate_overthinking_ratio
    >>> run = simulate_overthinking_ratio(
    ...     dim=32,
    ...     context=96,
    ...     prompts=96,
    ...     noise_variance=0.3,
    ...     dampening=0.6,
    ...     target="weights",
    ...     rng=0,
    ... )
    >>> run.returned.shape
    (64, 2)
    >>> abs(run.estimate.mean - 0.2167) < 0.02  # in the limit of large d
    True
    """
    check_arguments(
        dim=dim,
        context=context,
        prompts=prompts,
        noise_variance=noise_variance,
        ridge=ridge,
        dampening=dampening,
        repeats=repeats,
        contexts=contexts,
    )
    parse_pretraining(target, dim, prompts, np.inf, ridge)
    device = get_backend(backend)
    law = prompt_law(device, dim, context, noise_variance)
    returned = np.empty((repeats, 2))
    resummed = np.empty((repeats, 2))
    for repeat, generator in enumerate(device.generators(rng, repeats)):
        gamma = dampening * learned_matrix(law, generator, prompts, target=target, ridge=ridge)
        sums = np.zeros((3, 2))
        for rows in row_blocks(device.xp, contexts, 8 * _MATRICES * dim * dim):
            T = sample_factors(device, generator, dim, context, rows.stop - rows.start)
            sums += _sums(device.xp, gamma, T)
        returned[repeat] = sums[0] / contexts
        resummed[repeat] = 1 - sums[1] / sums[2]
    parameters = by_name(
        dim=dim,
        context=context,
        prompts=prompts,
        noise_variance=noise_variance,
        ridge=ridge,
        dampening=dampening,
        target=target,
        backend=backend,
    )
    return SimulatedRatio(returned, resummed, parameters)


def _sums(xp: ModuleType, gamma: Array, T: Array) -> np.ndarray:
    """Sums over contexts of what is returned and of the inverse squares of R and of R_0."""
    size, rank = T.shape[1:]
    across = xp.matrix_transpose(T)
    identity = xp.eye(rank)
    mean = xp.linalg.trace(gamma) / size
    noise = gamma - mean * xp.eye(size)
    step = across @ (gamma @ T)
    mean_step = mean * (across @ T)
    sums = np.empty((3, 2))
    for column, shift in enumerate((0.0, -2.0)):
        whole = T @ xp.linalg.solve(step + shift * identity, across)
        first = T @ xp.linalg.solve(mean_step + shift * identity, across)
        sums[0, column] = float(xp.sum((noise @ first) ** 2)) / size
        for row, answer in enumerate((whole, first), start=1):
            sums[row, column] = float(xp.sum(size / xp.sum(answer**2, axis=(1, 2))))
    return sums
