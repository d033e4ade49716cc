"""Trained networks next to gradient descent, in the measures of `iclimit.simulate.descent`."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.descent.alignment import Predictor
from iclimit.simulate.models.network import Network
from iclimit.simulate.pretraining.prompts import Prompts


def network_predictor(network: Network, weights: Mapping[str, Array]) -> Predictor:
    """A network as `iclimit.simulate.descent.alignment.alignment` takes predictors.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.arrays import get_backend
    >>> from iclimit.simulate.descent.alignment import alignment, descent_predictor
    >>> from iclimit.simulate.descent.regression import Regression
    >>> from iclimit.simulate.networks import LstmNetwork
    >>> from iclimit.simulate.networks.alignment import network_predictor
    >>> network = LstmNetwork(dim=5, hidden=8)
    >>> weights = network.initial(np.random.default_rng(0))
    >>> law = Regression(context=10, dim=5, input_law="uniform")
    >>> prompts = law.sample(get_backend("numpy"), np.random.default_rng(1), 100)
    >>> step = descent_predictor([1.9], scale=1)
    >>> found = alignment(network_predictor(network, weights), step, prompts)
    >>> abs(found.cosine.mean) < 4 * found.cosine.standard_error  # not trained
    True
    """

    def predictor(prompts: Prompts) -> tuple[Array, Array]:
        examples = SimpleNamespace(inputs=prompts.x, labels=prompts.y, query=prompts.x_query)
        predictions, pullback = network.forward(weights, examples)
        return predictions, pullback(array_namespace(predictions).ones_like(predictions)).query

    return predictor
