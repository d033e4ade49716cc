r"""Training of softmax heads, and what isotropic heads their weights are.

The loss of heads has flat directions.  Those of a pair with opposite weights depend on the product
of temperature and value, and hardly on the temperature.  There training is slow, and noise of the
gradient drives it to colder heads: batches are larger here than for other networks.  At N = d = 10
these defaults leave 0.1 % of the loss of one head and 0.5 % of that of two, in some 6 and 12 CPU
seconds.  Batches of 512 prompts leave 1.2 % for two heads.
"""

from typing import Any

from iclimit.checks import check_arguments
from iclimit.problem import Problem
from iclimit.simulate.arrays import Seed
from iclimit.simulate.models.merged_heads import MergedHeads
from iclimit.simulate.training.networks import TrainedNetwork, train_network


def train_softmax(
    problem: Problem,
    *,
    heads: int = 1,
    init_scale: float = 0.2,
    batch: int = 2048,
    learning_rate: float = 0.005,
    patience: int = 200,
    rng: Seed,
    **settings: Any,
) -> TrainedNetwork[MergedHeads]:
    r"""Train softmax heads on linear regression from random weights.

    The heads are `MergedHeads`, all that one layer of softmax attention can have.

    Parameters
    ----------
    problem : Problem
        What to train on.
    heads : int >= 1
        Number of heads.
    init_scale : float > 0
        Standard deviation of the initial weights.
    batch, learning_rate, patience
        As of `iclimit.networks.train_network`; these defaults are better for softmax heads.
    rng : int, SeedSequence or Generator
        Seed of initial weights and prompts.
    **settings
        Further arguments of `iclimit.networks.train_network`.

    Returns
    -------
    TrainedNetwork
        ``run.network.nearest_isotropic(run.weights)`` has inverse temperatures and values, and how
        far the weights are from heads :math:`\mathrm{softmax}_i(\beta\, x_q \cdot x_i)` with
        labels as values.

    Raises
    ------
    ValueError, TypeError, RuntimeError, OSError, ArithmeticError
        As `iclimit.networks.train_network` does.

    Notes
    -----
    Keys and values of the opposite sign are another head of the same loss; the seed decides.
    Several heads begin on the plateau of one head, which smaller rates or a smaller patience may
    take for the end.

    Examples
    --------
    >>> import iclimit
    >>> problem = iclimit.Problem(dim=2, context=6, scale=1)
    >>> run = iclimit.softmax.train_softmax(problem, batch=512, learning_rate=0.01, rng=0)
    >>> bool(run.held_out.mean < 0.6 * run.null_loss), run.converged
    (True, True)
    >>> run.network.nearest_isotropic(run.weights).value.shape
    (1,)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {problem!r}")
    check_arguments(batch=batch)
    network = MergedHeads(problem.dim, heads, init_scale)
    return train_network(
        network,
        problem,
        batch=batch,
        learning_rate=learning_rate,
        patience=patience,
        rng=rng,
        **settings,
    )
