r"""Softmax heads, read from their weights.

A head with the products :math:`B_h` and :math:`O_h` of its weights
(`iclimit.validation.instruments.weights.layouts`) adds :math:`O_h \sum_s p_s e_s` to the token
z of the query, with :math:`p_s \propto \exp(c\, e_s^\top B_h z)`.  Of tokens (x, y) with
the label 0 for the query, a head that weighs labels by inputs has

* the inverse temperature :math:`\beta_h`, the mean diagonal of the block (d, d) of :math:`c B_h`,
* the value :math:`v_h`, the entry of :math:`O_h` that leads from labels to the prediction.

It predicts :math:`\sum_h v_h \sum_i p_i y_i` with :math:`p_i \propto \exp(\beta_h\, x_i \cdot
x_q)`.  Everything else in the weights does not fit: its share of the prediction is measured on
prompts.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from iclimit.asymptotics.checks import check_integers, real_number
from iclimit.notation import explaining
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Seed, softmax
from iclimit.simulate.probing.predictors import softmax_heads
from iclimit.simulate.prompts import Prompts, regression_tokens, sample_prompts
from iclimit.tables import aligned
from iclimit.validation.instruments.ratios import ratio
from iclimit.validation.instruments.weights.layouts import (
    Layout,
    Products,
    Weights,
    get_layout,
    off_identity,
    parse_layer,
)
from iclimit.words import percent


@dataclass(frozen=True, repr=False)
class ReducedSoftmax(Result):
    """Temperatures and values of softmax heads, and what they leave out.

    Attributes
    ----------
    inverse_temperature : ndarray (H,)
        Of each head, for inputs as they are.
    value : ndarray (H,)
        Of each head.
    off_identity : ndarray (H,)
        Share of the squared norm of the block of each head that is no multiple of the identity.
    ignored : Estimate
        Share of the mean square of the prediction that temperatures and values miss.
    layout : Layout
        How the weights were read.
    """

    inverse_temperature: np.ndarray
    value: np.ndarray
    off_identity: np.ndarray
    ignored: Estimate
    layout: Layout = field(repr=False)

    def __str__(self) -> str:
        """Short table."""
        rows = [["head", "inverse temperature", "value", "off the identity"]]
        columns = self.inverse_temperature, self.value, self.off_identity
        for number, (beta, value, off) in enumerate(zip(*columns, strict=True), 1):
            rows.append([str(number), f"{beta:.4f}", f"{value:.4f}", percent(off, 3)])
        heading = f"softmax heads in layout {self.layout.describe()}"
        return "\n".join([heading, *aligned(rows), f"missed: {percent(self.ignored)}"])


@explaining
def reduced_softmax(
    layer: Weights,
    *,
    layout: str | Layout = "lu2025",
    context: int,
    noise_variance: float,
    heads: int = 1,
    score_factor: float = 1.0,
    test_prompts: int = 10_000,
    rng: Seed = 0,
) -> ReducedSoftmax:
    r"""Temperature and value of each head of a layer of softmax attention.

    Parameters
    ----------
    layer : mapping of arrays, or Layer
        Weights by name, as in `iclimit.validation.reduced_gamma`, those of all heads at once.
    layout : str or Layout
        Arrangement of a paper, as there; inputs and tasks are Gaussian.
    context, noise_variance, heads
        As there.
    score_factor : float
        What scores are multiplied with before the softmax, such as :math:`1/\sqrt{d_k}`.
    test_prompts : int >= 2
        Prompts on which the predictions are compared.
    rng : int, SeedSequence or Generator
        Seed of the prompts.

    Returns
    -------
    ReducedSoftmax

    Raises
    ------
    ValueError
        If an argument is outside its range, a name is not known, or shapes do not fit.
    TypeError
        If an argument is of another kind.

    References
    ----------
    The best head and the best two: `iclimit.softmax.optimal_softmax`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.validation import get_layout, reduced_softmax
    >>> inputs, labels = np.diag([1.0, 1, 0]), np.diag([0, 0, 2.0])
    >>> layer = {"V": labels, "K": inputs, "Q": 0.7 * inputs}
    >>> layout = get_layout("lu2025", include_query=False)
    >>> found = reduced_softmax(layer, layout=layout, context=10, noise_variance=0.1)
    >>> found.inverse_temperature, found.value, found.ignored.mean
    (array([0.7]), array([2.]), 0.0)
    """
    chosen = get_layout(layout)
    check_integers(heads=heads, context=context)
    check_integers(least=2, test_prompts=test_prompts)
    products = parse_layer(layer, chosen, heads)
    factor = real_number("score_factor", score_factor, "(-inf, inf)")
    noise = real_number("noise_variance", noise_variance)
    d = products.dim
    units = chosen.convention.units(dim=d, context=context, noise_variance=noise)
    scale = math.sqrt(units.value("input_variance"))
    variance = units.value("task_variance")
    law = Problem(d, context, noise_variance=noise, scale=scale, task_variance=variance)
    blocks = factor * products.lookup[:, :d, :d]
    temperature = np.trace(blocks, axis1=1, axis2=2) / d
    value = chosen.sign * products.output[:, -1, d]
    prompts = sample_prompts(law, test_prompts, rng=rng)
    whole = _prediction(prompts, products, chosen, factor)
    parts = zip(temperature.tolist(), value.tolist(), strict=True)
    fitted = sum(softmax_heads(prompts, *head) for head in parts)
    return ReducedSoftmax(
        temperature, value, off_identity(blocks), ratio((whole - fitted) ** 2, whole**2), chosen
    )


def _prediction(prompts: Prompts, products: Products, layout: Layout, factor: float) -> np.ndarray:
    """What the layer itself predicts, from tokens (x, y) with the label 0 for the query."""
    tokens = regression_tokens(prompts)
    query = tokens[:, -1]
    tokens = tokens if layout.include_query else tokens[:, :-1]
    total = np.zeros(len(query))
    for lookup, output in zip(products.lookup, products.output, strict=True):
        weights = softmax(factor * np.vecdot(tokens, (query @ lookup.T)[:, None]))
        total = total + np.vecdot(tokens @ output[-1], weights)
    return layout.sign * total
