r"""Softmax heads in merged form: one matrix for keys and queries, one vector for values.

With tokens :math:`e_i = (x_i, y_i)` of the context, and the query's input :math:`x_q`,

.. math:: \hat y = \sum_h \sum_i p^h_i \langle a_h, e_i\rangle, \qquad
   p^h = \mathrm{softmax}_i\, \langle e_i, B_h x_q\rangle .

These are all heads that one layer of softmax attention can have, where the query is not among the
keys and only the last entry of its token is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_fields, parse_array
from iclimit.results import Result
from iclimit.simulate.arrays import Array, softmax
from iclimit.simulate.models.network import Network, Pullback, Pulled
from iclimit.simulate.prompts import Prompts


@dataclass(frozen=True, eq=False, repr=False)
class IsotropicHeads(Result):
    r"""The isotropic heads that are nearest to others.

    A head is :math:`v \sum_i \mathrm{softmax}_i(\beta x_q \cdot x_i)\,y_i`.

    Attributes
    ----------
    inverse_temperature : ndarray (heads,)
        Factors :math:`\beta` of the scores: the isotropic part of the key-query matrices.
    value : ndarray (heads,)
        Factors v of the labels.
    lookup_rest : ndarray (heads,)
        Root mean square of what else is in the key-query matrices.
    value_rest : ndarray (heads,)
        Root mean square of the factors of the inputs.
    """

    inverse_temperature: np.ndarray
    value: np.ndarray
    lookup_rest: np.ndarray
    value_rest: np.ndarray


@dataclass(frozen=True)
class MergedHeads(Network):
    """One layer of softmax heads with merged weights.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    heads : int >= 1
        Number of heads.
    init_scale : float > 0
        Standard deviation of the initial weights.
    """

    dim: int
    heads: int = 1
    init_scale: float = 0.1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Key-query matrices B and values a."""
        token = self.dim + 1
        return {"lookup": (self.heads, token, self.dim), "value": (self.heads, token)}

    def initial(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent normal weights."""
        return {
            name: self.init_scale * generator.standard_normal(shape)
            for name, shape in self.shapes.items()
        }

    def isotropic(self, inverse_temperature: Any, value: Any) -> dict[str, np.ndarray]:
        r"""Weights of heads :math:`v_h \sum_i \mathrm{softmax}_i(\beta_h x_q \cdot x_i)\,y_i`.

        Parameters
        ----------
        inverse_temperature : number, or array (heads,)
            Factors :math:`\beta_h` of the scores.
        value : number, or array (heads,)
            Factors of the labels.
        """
        weights = {name: np.zeros(shape) for name, shape in self.shapes.items()}
        beta = parse_array("inverse_temperature", inverse_temperature, (), (self.heads,))
        v = parse_array("value", value, (), (self.heads,))
        entries = np.arange(self.dim)
        weights["lookup"][:, entries, entries] = np.broadcast_to(beta, self.heads)[:, None]
        weights["value"][:, -1] = v
        return weights

    def nearest_isotropic(self, weights: Mapping[str, np.ndarray]) -> IsotropicHeads:
        """Isotropic heads that are nearest to given ones, and how far these are from them."""
        entries = np.arange(self.dim)
        beta = np.mean(weights["lookup"][:, entries, entries], axis=1)
        value = weights["value"][:, -1]
        lookup = weights["lookup"] - self.isotropic(beta, value)["lookup"]
        inputs = weights["value"][:, :-1]
        return IsotropicHeads(
            inverse_temperature=beta,
            value=value,
            lookup_rest=np.sqrt(np.mean(lookup**2, axis=(1, 2))),
            value_rest=np.sqrt(np.mean(inputs**2, axis=1)),
        )

    def forward(self, weights: Mapping[str, Array], examples: Prompts) -> tuple[Array, Pullback]:
        """Predictions (n,) of the query labels, and how derivatives go back."""
        lookup = weights["lookup"]
        value = weights["value"]
        xp = array_namespace(lookup)
        query = examples.query
        n, dim = query.shape
        tokens = xp.concat([examples.inputs, examples.labels[:, :, None]], axis=2)
        flat = xp.reshape(lookup, (-1, dim))
        looked_up = xp.reshape(query @ flat.T, (n, self.heads, dim + 1))
        scores = looked_up @ xp.matrix_transpose(tokens)
        weight = softmax(scores)
        mixed = weight @ tokens
        predictions = xp.sum(mixed * value, axis=(1, 2))

        def pullback(by_prediction: Array) -> Pulled:
            by_mixed = by_prediction[:, None, None] * value
            by_weight = by_mixed @ xp.matrix_transpose(tokens)
            by_score = weight * (by_weight - xp.sum(weight * by_weight, axis=2, keepdims=True))
            by_asked = xp.reshape(by_score @ tokens, (n, -1))
            gradients = {
                "lookup": xp.reshape(by_asked.T @ query, lookup.shape),
                "value": xp.sum(by_prediction[:, None, None] * mixed, axis=0),
            }
            return Pulled(gradients, by_asked @ flat)

        return predictions, pullback
