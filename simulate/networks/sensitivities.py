"""How much tokens after the first layer depend on those of the prompt: what it copies."""

from collections.abc import Mapping
from dataclasses import dataclass

from array_api_compat import array_namespace

from iclimit.results import Result
from iclimit.simulate.arrays import Array
from iclimit.simulate.models.stack import AttentionNetwork
from iclimit.simulate.prompts import Prompts


@dataclass(frozen=True, repr=False)
class TokenSensitivities(Result):
    """Dependence of tokens after the first layer on those of the prompt.

    Each number is the norm of the mean over prompts of the derivative of the sum of the entries
    of a token after the first layer by an input token, averaged over all tokens but the last two.

    Attributes
    ----------
    own : float
        By the token at the same position.
    following : float
        By the token at the next one.
    others : float
        By any other, on average.
    """

    own: float
    following: float
    others: float


def token_sensitivities(
    network: AttentionNetwork, weights: Mapping[str, Array], examples: Prompts
) -> TokenSensitivities:
    """How much tokens after the first layer depend on those of the prompt.

    A first layer that copies labels to their inputs, where these are separate tokens, depends on
    the token itself and on the following one only.  The measure is that of the published code of
    von Oswald et al., ICML 2023 (arXiv:2212.07677), which counts the following token among the
    others too.

    Parameters
    ----------
    network : AttentionNetwork
        A network of any number of layers.
    weights : dict of array
        Its weights.
    examples : Prompts or other prompts
        Prompts of two tokens or more before the query.

    Returns
    -------
    TokenSensitivities

    Raises
    ------
    ValueError
        If prompts are shorter.

    Examples
    --------
    A layer whose weights are zero leaves tokens as they are: a token of 2 entries has the
    derivative (1, 1) by itself, of norm 1.414.

    >>> import numpy as np
    >>> from iclimit.simulate.networks import AttentionNetwork, token_sensitivities
    >>> import iclimit
    >>> network = AttentionNetwork(dim=2, tokens="separate")
    >>> zeros = network.unpack(0.0 * network.pack(network.initial(np.random.default_rng(0))))
    >>> prompts = iclimit.sample_prompts(iclimit.Problem(dim=2, context=3, scale=1), 5, rng=0)
    >>> token_sensitivities(network, zeros, prompts)
    TokenSensitivities(own=1.41421, following=0, others=0)
    """
    state, back = network.first_layer(weights, examples)
    xp = array_namespace(state)
    count = state.shape[1]
    if count < 3:
        raise ValueError(f"examples must have two tokens before the query, got {count - 1}")
    norms = []
    for position in range(count - 2):
        by_state = xp.zeros_like(state)
        by_state[:, position, :] = 1.0
        mean = xp.mean(back(by_state), axis=0)
        norms.append(xp.sqrt(xp.sum(mean**2, axis=1)))
    rows_read = len(norms)
    own = sum(float(row[j]) for j, row in enumerate(norms)) / rows_read
    following = sum(float(row[j + 1]) for j, row in enumerate(norms)) / rows_read
    total = sum(float(xp.sum(row)) for row in norms) / rows_read
    return TokenSensitivities(own, following, (total - own - following) / (count - 2))
