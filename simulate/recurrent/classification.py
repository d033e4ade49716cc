r"""Classification in context by the memory of linear attention, on simulated contexts.

Inputs of two classes :math:`\pm 1` have means :math:`\pm\mu` and the identity as covariance, and
labels are flipped with a given probability.  The memory weighs pair i by
:math:`\gamma_\ell \cdots \gamma_{i + 1}`.  Given the memory u the answer to a query is right with
probability :math:`\Phi(\langle u, \mu\rangle/|u|)`, so queries need no sampling.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from iclimit.checks import check_arguments
from iclimit.results import Estimate
from iclimit.simulate.arrays import Seed, get_backend, to_host
from iclimit.simulate.descent.schedules import BLOCK_NUMBERS
from iclimit.simulate.recurrent.layers import parse_numbers
from iclimit.statement import named_cell


@named_cell("simulate_classification")
def simulate_classification(
    *,
    dim: int,
    context: int,
    separation: float,
    flips: float = 0.0,
    gates: ArrayLike = 1.0,
    rng: Seed,
    contexts: int = 1000,
    backend: str = "numpy",
) -> Estimate:
    r"""Accuracy of linear attention that classifies in context, with flipped labels.

    Parameters
    ----------
    dim : int >= 1
        Dimension d of the inputs.
    context : int >= 1
        Number of pairs.
    separation : float >= 0
        Half the distance of the means of the classes, in standard deviations of a coordinate.
    flips : float in [0, 1]
        Probability that a label of the context is flipped.
    gates : float or array (context,) in [0, 1]
        What the memory keeps at each token.
    rng : int, SeedSequence or Generator
        Root seed.  Context r depends on (root, r) and the size of a context only.
    contexts : int >= 1
        Number of contexts.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    Estimate
        Probability that the class of a query is found; its samples are those of the contexts.

    Raises
    ------
    ValueError
        If an argument is outside its range or has another length.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    >>> from iclimit.simulate.recurrent import simulate_classification
    >>> print(simulate_classification(dim=10, context=20, separation=1.5, flips=0.1, rng=0))
    0.90063(78)
    """
    check_arguments(dim=dim, context=context, contexts=contexts)
    check_arguments(separation=separation, flips=flips)
    keeps = parse_numbers("gates", gates, context)
    device = get_backend(backend)
    xp = device.xp
    weights = device.asarray(np.append(np.cumprod(keeps[:0:-1])[::-1], 1.0))
    mean = device.asarray(np.eye(1, dim)[0] * separation)
    block = max(1, BLOCK_NUMBERS // (context * dim))
    scores: list[Any] = []
    for generator, size in device.blocks(rng, contexts, block):
        classes = 1.0 - 2.0 * xp.astype(generator.random((block, context)) < 0.5, xp.float64)
        labels = xp.where(generator.random((block, context)) < flips, -classes, classes)
        inputs = classes[..., None] * mean + generator.standard_normal((block, context, dim))
        memory = xp.sum((weights * labels)[..., None] * inputs, axis=1)[:size, :]
        scores.append(to_host(memory @ mean / xp.linalg.vector_norm(memory, axis=1)))
    return Estimate.of(ndtr(np.concat(scores)))
