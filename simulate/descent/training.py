r"""Training of linear attention layers from random weights.

All of key, query, value and projection are trained.  Adam (Kingma and Ba, arXiv:1412.6980) draws
fresh prompts at every step.  Its learning rate is constant until the loss no longer falls and then
goes linearly to zero: at a constant rate the weights keep jittering (at 0.01 for N = 50, D = 10,
two percent above the least loss).  L-BFGS minimises the loss over one fixed batch.  The loss
of a single layer depends on that batch through its moments only, so that an iteration costs the
same for any number of prompts.

Settings of von Oswald et al., arXiv:2212.07677, for comparison: 5000 steps of Adam at a rate of
1e-3 on batches of 2048 prompts, gradients clipped to a norm of 1e-3, initial standard deviation
0.0135.  Defaults here reach the loss of one gradient-descent step in a tenth of that.
"""

from typing import Any

from iclimit.problem import Problem
from iclimit.simulate.arrays import Seed
from iclimit.simulate.models.linear_attention import LinearAttention
from iclimit.simulate.training.networks import TrainedNetwork, train_network

# Prompts by default, for each optimizer.
BATCH = {"adam": 2048, "lbfgs": 2**16}


def train_attention(
    problem: Problem,
    *,
    layers: int = 1,
    heads: int = 1,
    shared: bool = False,
    include_query: bool = False,
    init_scale: float = 0.03,
    optimizer: str = "adam",
    batch: int | None = None,
    learning_rate: float = 0.02,
    rng: Seed,
    **settings: Any,
) -> TrainedNetwork[LinearAttention]:
    r"""Train a stack of linear attention layers on regression in context.

    The loss is the mean squared error on the query label, with its noise.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    layers, heads, shared, include_query, init_scale
        The stack, see `iclimit.networks.LinearAttention`.
    optimizer : {"adam", "lbfgs"}
        Adam on fresh prompts in every step, or L-BFGS on one fixed batch.
    batch : int >= 1, optional
        Prompts per step, 2048 by default; for "lbfgs" all prompts, 65,536 by default.
    learning_rate : float > 0
        Of Adam, before its decay over the last third of the run.
    rng : int, SeedSequence or Generator
        Seed of initial weights and prompts.
    **settings
        Further arguments of `iclimit.networks.train_network`.

    Returns
    -------
    TrainedNetwork
        Its property ``layers`` has the stack, in the form of `iclimit.reduced_stack`.

    Raises
    ------
    ValueError, TypeError, RuntimeError, OSError, ArithmeticError
        As `iclimit.networks.train_network` does.

    Notes
    -----
    The loss of L layers is a polynomial of degree :math:`3^L` in the tokens, so rare prompts have
    huge gradients: without clipping (``clip=1`` by default) three layers do not train, with a loss
    of .3 against .008 at N = 8, D = 4.  One layer does not notice.

    The loss has other stationary points than its minimum.  On isotropic inputs all of 60 runs of
    one layer reached the minimum; on anisotropic ones half ended where the layer reads out inputs
    instead of labels, a step of rank one.  ``converged`` only says that the loss stopped falling:
    take several seeds and keep the best.

    Examples
    --------
    >>> import iclimit
    >>> problem = iclimit.Problem(dim=2, context=8, input_law="uniform", scale=1)
    >>> run = iclimit.train_attention(problem, optimizer="lbfgs", batch=4096, rng=0)
    >>> run.converged, bool(run.losses[-1] < 0.5 * run.losses[0])
    (True, True)
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {problem!r}")
    return train_network(
        LinearAttention(problem.dim, layers, heads, shared, include_query, init_scale),
        problem,
        optimizer=optimizer,
        batch=BATCH.get(optimizer) if batch is None else batch,
        learning_rate=learning_rate,
        query_noise=True,
        rng=rng,
        **settings,
    )
