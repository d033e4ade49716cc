"""Trained networks next to gradient descent, in the measures of `iclimit.simulate.descent`."""

from __future__ import annotations

from collections.abc import Mapping

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.descent.alignment import Predictor
from iclimit.simulate.models.network import Network
from iclimit.simulate.prompts import Prompts


def network_predictor(network: Network, weights: Mapping[str, Array]) -> Predictor:
    """A network as `iclimit.simulate.descent.alignment.alignment` takes predictors.

    Examples
    --------
    >>> import iclimit
    >>> import numpy as np
    >>> from iclimit.simulate.descent.alignment import alignment, descent_predictor
    >>> from iclimit.simulate.networks import LstmNetwork
    >>> from iclimit.simulate.networks.alignment import network_predictor
    >>> network = LstmNetwork(dim=5, hidden=8)
    >>> weights = network.initial(np.random.default_rng(0))
    >>> problem = iclimit.Problem(dim=5, context=10, input_law="uniform", scale=1)
    >>> prompts = iclimit.sample_prompts(problem, 100, rng=1)
    >>> step = descent_predictor([1.9], scale=1)
    >>> found = alignment(network_predictor(network, weights), step, prompts)
    >>> abs(found.cosine.mean) < 4 * found.cosine.standard_error  # not trained
    True
    """

    def predictor(prompts: Prompts) -> tuple[Array, Array]:
        predictions, pullback = network.forward(weights, prompts)
        return predictions, pullback(array_namespace(predictions).ones_like(predictions)).query

    return predictor
