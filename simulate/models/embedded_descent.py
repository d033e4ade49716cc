r"""One step of gradient descent on a learned embedding of the inputs.

With an embedding :math:`\phi` the prediction of one step of gradient descent from zero is

.. math:: \hat y = \frac{\eta}{N} \sum_i \langle \phi(x_q), \phi(x_i)\rangle\, y_i ,

which is a layer of linear attention with the weights of the construction.  The embedding, a linear
map and a perceptron with a residual connection, is trained; it takes the rate :math:`\eta` in.
This is "gradient descent on a deep embedding" of von Oswald et al. (arXiv:2212.07677).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_fields
from iclimit.simulate.arrays import Array
from iclimit.simulate.models.blocks import add_perceptron, dense, perceptron_shapes
from iclimit.simulate.models.network import Network, Pullback, Pulled
from iclimit.simulate.prompts import Prompts


@dataclass(frozen=True)
class EmbeddedDescent(Network):
    """Gradient descent on a learned embedding.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    width : int >= 1
        Entries of an embedded input.
    mlp : int >= 1
        Hidden units (GELU) of the perceptron.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from iclimit.simulate.networks import EmbeddedDescent, SineTask, train_network
    >>> network = EmbeddedDescent(dim=1, width=8, mlp=16)
    >>> run = train_network(network, SineTask(context=10), steps=50, batch=64, rng=0)
    >>> run.held_out.mean < run.null_loss
    True
    """

    dim: int
    width: int = 40
    mlp: int = 160

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights by name."""
        embedding = {"embedding": (self.dim, self.width), "embedding_bias": (self.width,)}
        return embedding | perceptron_shapes("mlp", self.width, self.mlp)

    def initial(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Normal matrices with the variance 1/inputs, and biases to bend at different inputs."""
        return {
            name: generator.standard_normal(shape) / np.sqrt(shape[0] if len(shape) > 1 else 4)
            for name, shape in self.shapes.items()
        }

    def forward(self, weights: Mapping[str, Array], examples: Prompts) -> tuple[Array, Pullback]:
        """Predictions (n,) of the query labels, and how derivatives go back."""
        xp = array_namespace(examples.inputs)
        context = examples.inputs.shape[1]
        x = xp.concat([examples.inputs, examples.query[:, None, :]], axis=1)
        embedded, back_embedding = dense(x, weights, "embedding")
        features, back_mlp = add_perceptron(embedded, weights, "mlp")
        of_context = features[:, :-1, :]
        of_query = features[:, -1, :]
        mean = (examples.labels[:, None, :] @ of_context)[:, 0, :] / context

        def pullback(by_prediction: Array) -> Pulled:
            by_features = xp.empty_like(features)
            by_features[:, -1, :] = by_prediction[:, None] * mean
            share = by_prediction[:, None] * examples.labels / context
            by_features[:, :-1, :] = share[:, :, None] * of_query[:, None, :]
            by_embedded, of_mlp = back_mlp(by_features)
            by_x, of_embedding = back_embedding(by_embedded)
            return Pulled(of_mlp | of_embedding, by_x[:, -1, :])

        return xp.vecdot(of_query, mean), pullback
