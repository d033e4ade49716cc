r"""Losses of deep linear attention on drawn contexts, exact given each context.

Inputs have the covariance :math:`\Lambda = \operatorname{diag}(\lambda)`, tasks
:math:`\Omega = \operatorname{diag}(\omega)`, labels
:math:`y = x \cdot \beta/\sqrt d + \sigma\epsilon`.  A context of P tokens has the covariance
:math:`S = X^\top X/P`.  A residual stream of width N sees the inputs through a random projection
:math:`\Pi` of rank N.  Layers are gradient steps :math:`\eta_l = \gamma_l/L` of their own:

.. math:: p_0 = 1, \qquad p_{l+1} = p_l - \eta_l\, \Pi S\, p_l, \qquad
   q = \sum_l \eta_l\, p_l .

Given S and :math:`\Pi` the loss on a noiseless query is averaged over queries, tasks and label
noise in closed form,

.. math:: \frac1d \operatorname{tr} \Omega\, p_L^\top \Lambda\, p_L
   + \frac{\sigma^2}P \operatorname{tr} \Lambda\, q\, \Pi S \Pi\, q^\top .

Only S and :math:`\Pi` are drawn, so the only scatter is that between contexts.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments, parse_array
from iclimit.simulate.arrays import Seed, get_backend, row_blocks, to_host
from iclimit.simulate.depth.draws import ContextLaw, check_sizes, parse_spectra
from iclimit.simulate.depth.stacks import mean_losses
from iclimit.simulate.descent.schedules import ContextLosses

# Matrices of a context that are held at once.
_MATRICES = 6


def simulate_depth_loss(
    *,
    eigenvalues: ArrayLike,
    rates: ArrayLike,
    task_spectrum: ArrayLike | None = None,
    context: int | float = math.inf,
    width: int | float = math.inf,
    noise_variance: float = 0.0,
    rng: Seed,
    repeats: int = 200,
    backend: str = "numpy",
) -> ContextLosses:
    r"""Draw contexts and compute the loss of deep linear attention on each.

    Parameters
    ----------
    eigenvalues : array (d,)
        Eigenvalues of the covariance of the inputs, >= 0.
    rates : array (L,)
        Steps :math:`\gamma_l/L` of the layers, all equal for tied ones.
    task_spectrum : array (d,), optional
        Eigenvalues of the covariance of the tasks, >= 0, in the order of those of the inputs; 1 by
        default.
    context : int >= 1, or inf
        Context length P; without end the covariance of a context is that of the inputs.
    width : int >= 1, or inf
        Width N of the residual stream; from d on it does not matter.
    noise_variance : float >= 0
        Variance of the label noise.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of contexts, each with a fresh projection.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    ContextLosses
        With ``losses``, their ``mean`` and ``median``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not fit.
    RuntimeError
        If the backend is not available.

    Notes
    -----
    A context whose largest eigenvalue exceeds :math:`2/\eta` makes the steps diverge.  Such rare
    contexts may carry the mean, whose standard error then says little; the median does not notice
    them.

    References
    ----------
    Model: Bordelon, Letey, Pehlevan, arXiv:2510.01098.  Loss given a context: module
    `iclimit.simulate.depth.contexts`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.depth import simulate_depth_loss
    >>> lam = np.repeat([0.5, 1.5], 20)
    >>> run = simulate_depth_loss(
    ...     eigenvalues=lam, rates=[0.4] * 4, context=80, width=30, rng=0, repeats=100
    ... )
    >>> 0.3 < run.median.mean < run.loss.mean < 0.5
    True
    """
    lam, omega = parse_spectra(eigenvalues, task_spectrum)
    steps = parse_array("rates", rates, (None,))
    check_sizes({"context": context, "width": width})
    check_arguments(noise_variance=noise_variance, repeats=repeats)
    device = get_backend(backend)
    dim = lam.size
    losses = np.empty(repeats)
    generators = device.generators(rng, repeats)
    law = ContextLaw(device, lam, omega, False, context, math.inf, noise_variance, 0.0)
    # Layers are of the form Gamma/L.
    layers = [len(steps) * rate for rate in steps.tolist()]
    numbers = dim * (_MATRICES * dim + (0 if math.isinf(context) else int(context)))
    for rows in row_blocks(device.xp, repeats, 8 * numbers):
        drawn = law.draw_held_out(generators[rows], 1)
        projector = law.draw_projector(generators[rows], width)
        with np.errstate(over="ignore", invalid="ignore"):
            roots = drawn.query_root, drawn.task_root
            means = mean_losses(layers, drawn.covariance, *roots, law.relative_noise, projector)
        losses[rows] = to_host(means)[:, 0]
    # What exceeds float64 becomes inf - inf.
    losses[np.isnan(losses)] = math.inf
    parameters = {
        "eigenvalues": lam.tolist(),
        "task_spectrum": omega.tolist(),
        "rates": steps.tolist(),
        "context": context,
        "width": width,
        "noise_variance": noise_variance,
        "backend": backend,
    }
    return ContextLosses.of(losses[:, None], parameters)
