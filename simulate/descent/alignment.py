r"""How alike two predictors are: predictions, gradients in the query, interpolated weights.

The three measures of von Oswald et al. (arXiv:2212.07677, section 3), each a mean over prompts:
:math:`|\hat y_1 - \hat y_2|`, :math:`\lVert g_1 - g_2\rVert_2` and the cosine of :math:`g_1` and
:math:`g_2`, where :math:`g = \partial \hat y/\partial x_q` is for a predictor linear in the query
the weight vector it uses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments, check_finite, parse_array
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, to_host
from iclimit.simulate.descent.steps import descend, query_predictions
from iclimit.simulate.models.gram_stack import run_stack
from iclimit.simulate.models.network import Network
from iclimit.simulate.models.transformer import Layer, apply_layer
from iclimit.simulate.pretraining.estimators import ridge_weights
from iclimit.simulate.prompts import Prompts, regression_tokens

# From n prompts to predictions (n,) and their gradients in the query (n, dim).
Predictor = Callable[[Prompts], tuple[Array, Array]]


@dataclass(frozen=True, repr=False)
class Alignment(Result):
    """Means over prompts.

    Attributes
    ----------
    prediction_distance : Estimate
        Absolute difference of the predictions.
    gradient_distance : Estimate
        L2 norm of the difference of the gradients.
    cosine : Estimate
        Cosine of the gradients, 0 where one vanishes.
    """

    prediction_distance: Estimate
    gradient_distance: Estimate
    cosine: Estimate


def attention_predictor(layers: Sequence[Layer], *, include_query: bool = False) -> Predictor:
    """Stack of linear layers on the tokens of `regression_tokens`."""

    def predictor(prompts: Prompts) -> tuple[Array, Array]:
        predictions, pullback = run_stack(regression_tokens(prompts), layers, include_query)
        _, by_token = pullback(array_namespace(predictions).ones_like(predictions))
        return predictions, by_token[:, :-1]

    return predictor


def network_predictor(network: Network, weights: Mapping[str, Array]) -> Predictor:
    """Predictions of a network and their gradients in the query.

    Examples
    --------
    >>> import iclimit
    >>> import numpy as np
    >>> from iclimit.simulate.descent.alignment import (
    ...     alignment,
    ...     descent_predictor,
    ...     network_predictor,
    ... )
    >>> from iclimit.simulate.networks import LstmNetwork
    >>> network = LstmNetwork(dim=5, hidden=8)
    >>> weights = network.initial(np.random.default_rng(0))
    >>> problem = iclimit.Problem(dim=5, context=10, input_law="uniform", scale=1)
    >>> prompts = iclimit.sample_prompts(problem, 100, rng=1)
    >>> step = descent_predictor([1.9], scale=1)
    >>> distances = alignment(network_predictor(network, weights), step, prompts)
    >>> abs(distances.cosine.mean) < 4 * distances.cosine.standard_error  # not trained
    True
    """

    def predictor(prompts: Prompts) -> tuple[Array, Array]:
        predictions, pullback = network.forward(weights, prompts)
        return predictions, pullback(array_namespace(predictions).ones_like(predictions)).query

    return predictor


def descent_predictor(
    rates: ArrayLike,
    *,
    scale: float,
    initial: Array | None = None,
    preconditioner: Array | None = None,
) -> Predictor:
    """Gradient descent as in `descend`, at rates for inputs of unscaled coordinates.

    The factor of the coordinates has no default, since prompts of different papers differ in it:
    ``input_scale`` of their `iclimit.Problem`.
    """
    check_arguments(scale=scale)
    scaled = parse_array("rates", rates, (None,)) / scale**2

    def predictor(prompts: Prompts) -> tuple[Array, Array]:
        weights = descend(prompts, scaled, initial=initial, preconditioner=preconditioner)
        return query_predictions(prompts, weights), weights

    return predictor


def ridge_predictor(penalty: float) -> Predictor:
    """Minimiser of the squared error plus penalty times the squared norm of the weights.

    For Gaussian tasks it is Bayes' predictor if the penalty is the variance of the noise over that
    of a task coordinate.
    """
    check_arguments(penalty=penalty)

    def predictor(prompts: Prompts) -> tuple[Array, Array]:
        weights = ridge_weights(prompts.inputs, prompts.labels, penalty)
        return query_predictions(prompts, weights), weights

    return predictor


def alignment(first: Predictor, second: Predictor, prompts: Prompts) -> Alignment:
    """Compare two predictors on the same prompts.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.descent.alignment import (
    ...     alignment, attention_predictor, descent_predictor
    ... )
    >>> from iclimit.simulate.descent.constructions import descent_layer
    >>> problem = iclimit.Problem(dim=5, context=10, input_law="uniform", scale=1)
    >>> prompts = iclimit.sample_prompts(problem, 100, rng=0)
    >>> constructed = attention_predictor([descent_layer(0.8, context=10, dim=5)])
    >>> same = alignment(constructed, descent_predictor([0.8], scale=1), prompts)
    >>> round(same.cosine.mean, 12), same.prediction_distance.mean < 1e-14
    (1.0, True)
    """
    predicted, slope = first(prompts)
    other_predicted, other_slope = second(prompts)
    xp = array_namespace(predicted)
    product = xp.linalg.vector_norm(slope, axis=1) * xp.linalg.vector_norm(other_slope, axis=1)
    nonzero = product > 0
    cosine = xp.vecdot(slope, other_slope) / xp.where(nonzero, product, xp.ones_like(product))
    distance = xp.linalg.vector_norm(slope - other_slope, axis=1)
    columns = xp.abs(predicted - other_predicted), distance, cosine
    return Alignment(*(Estimate.of(to_host(column), keep=False) for column in columns))


def rescale(layer: Layer) -> Layer:
    """Same function with a K^T Q whose diagonal has mean 1 over the inputs, and P = K = I.

    Raises
    ------
    ValueError
        If the layer has several heads, or that mean is 0.
    """
    if layer.key.shape[0] != 1:
        raise ValueError(f"layer must have one head, got {layer.key.shape[0]}")
    lookup = layer.lookup
    output = layer.output
    xp = array_namespace(lookup)
    mean = float(xp.mean(xp.linalg.diagonal(lookup[0, :-1, :-1])))
    if mean == 0:
        raise ValueError("layer must have a K^T Q with a non-zero mean diagonal, got 0")
    return _from_products(lookup / mean, mean * output)


def interpolate(first: Layer, second: Layer, weight: float) -> Layer:
    """Weighted mean of two rescaled layers, weight being the second's.

    The factors of a layer are not unique, so K^T Q and P V are averaged, not K, Q, P and V.
    """
    check_finite("weight", weight)
    first = rescale(first)
    second = rescale(second)
    return _from_products(
        (1 - weight) * first.lookup + weight * second.lookup,
        (1 - weight) * first.output + weight * second.output,
    )


def _from_products(lookup: Array, output: Array) -> Layer:
    """One-head layer with given K^T Q and P V."""
    xp = array_namespace(lookup)
    identity = xp.eye(lookup.shape[-1], dtype=lookup.dtype)[None, :, :]
    return Layer(key=identity, query=lookup, value=output, projection=identity)


def labels_only(layer: Layer) -> Layer:
    """Layer with the same one-step predictions that updates labels and leaves inputs alone.

    Training a single layer changes the last row of P V only.  The other rows keep their random
    initial values, which have no effect until the layer is repeated.
    """
    xp = array_namespace(layer.projection)
    projection = xp.zeros_like(layer.projection)
    projection[:, -1, :] = layer.projection[:, -1, :]
    return Layer(layer.key, layer.query, layer.value, projection)


def roll_out(
    tokens: Array, layer: Layer, steps: int, dampening: float = 1.0, *, include_query: bool = False
) -> Array:
    """Predictions after 0 to `steps` repetitions of a layer, its update times dampening.

    Returns
    -------
    array (steps + 1, n)
    """
    check_arguments(steps=steps, dampening=dampening)
    predictions_by_step = [-tokens[:, -1, -1]]
    for _ in range(steps):
        tokens = apply_layer(tokens, layer, include_query=include_query, dampening=dampening)
        predictions_by_step.append(-tokens[:, -1, -1])
    return array_namespace(tokens).stack(predictions_by_step)
