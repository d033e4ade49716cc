r"""Regression with forgetting on simulated contexts, averaged over tasks and noise.

The memory :math:`u = B y`, with :math:`B = (X^\top g X + \lambda)^{-1} X^\top g` and :math:`g_i =
e^{-\omega (\ell - i)/d}`, is linear in the labels.  With labels of tasks that drift, :math:`E\,
w_i w_j^\top = c_{ij} I` and
:math:`E\, w_i w^\top = m_i I`, its error given the inputs is

.. math:: \rho + 1 - \frac2d \sum_i m_i\, (X B)_{ii}
   + \frac1d \sum_{ij} (B^\top B)_{ij} \bigl[c_{ij} (X X^\top)_{ij} + \rho\, \delta_{ij}\bigr] .
"""

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_arguments
from iclimit.results import Estimate
from iclimit.simulate.arrays import Array, Seed, get_backend, to_host
from iclimit.simulate.descent.schedules import context_blocks


def simulate_forgetting(
    *,
    dim: int,
    context: int,
    rho: float,
    penalty: float,
    forgetting: float = 0.0,
    drift: float = 0.0,
    rng: Seed,
    contexts: int = 1000,
    backend: str = "numpy",
) -> Estimate:
    r"""Error of ridge regression that gives recent pairs more weight, on simulated contexts.

    Parameters
    ----------
    dim : int >= 1
        Dimension d of the inputs.
    context : int >= 1
        Number of pairs.
    rho : float >= 0
        Variance of the label noise.
    penalty : float > 0
        Penalty :math:`\lambda`; inputs have squared norm 1 on average.
    forgetting : float >= 0
        Rate :math:`\omega` at which pairs lose weight.
    drift : float >= 0
        Rate :math:`\vartheta` at which tasks change.
    rng : int, SeedSequence or Generator
        Root seed.  Context r depends on (root, r) and the size of a context only.
    contexts : int >= 1
        Number of contexts.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    Estimate
        Mean squared error on a noisy query label; its samples are the mean errors of contexts.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    >>> from iclimit.simulate.recurrent import simulate_forgetting
    >>> print(simulate_forgetting(dim=20, context=40, rho=0.3, penalty=0.3, forgetting=0.5, rng=0))
    0.52009(35)
    """
    check_arguments(dim=dim, context=context, rho=rho, contexts=contexts)
    check_arguments(penalty=penalty, forgetting=forgetting, drift=drift)
    if not penalty:
        raise ValueError("penalty must be > 0, got 0")
    device = get_backend(backend)
    ages = np.arange(context, 0, -1) / dim
    arrays = [
        device.asarray(array)
        for array in (
            np.exp(-forgetting * (ages - 1 / dim)),
            np.exp(-drift * ages),
            np.exp(-drift * np.abs(ages[:, None] - ages)),
        )
    ]
    errors = [
        to_host(_errors(z / dim**0.5, rho, penalty, *arrays))
        for z in context_blocks(context, dim, "gaussian", contexts, rng, backend)
    ]
    return Estimate.of(np.concat(errors))


def _errors(
    x: Array, rho: float, penalty: float, gates: Array, kept: Array, kernel: Array
) -> Array:
    """Errors of contexts of inputs (n, context, dim)."""
    xp = array_namespace(x)
    weighted = xp.matrix_transpose(x * gates[:, None])
    gram = weighted @ x + penalty * xp.eye(x.shape[2])
    memory = xp.linalg.solve(gram, weighted)
    first = xp.sum(xp.matrix_transpose(memory) * x * kept[:, None], axis=(1, 2))
    second = xp.sum((memory @ (kernel * (x @ xp.matrix_transpose(x)))) * memory, axis=(1, 2))
    noise = rho * xp.sum(memory**2, axis=(1, 2))
    return rho + 1 + (second + noise - 2 * first) / x.shape[2]
