r"""Linear regression in context in the convention of the gradient-descent literature.

A prompt holds N pairs and a query, :math:`y = \langle w, x\rangle + \epsilon`, with inputs
:math:`x = T z` of unscaled independent coordinates z, tasks :math:`w \sim N(0, W)` and noise
variance :math:`\sigma^2`.  Tokens are rows :math:`(x_i, y_i)`, the query's
:math:`(x_q, -\langle w_0, x_q\rangle)`: a layer that performs gradient descent from :math:`w_0`
leaves minus its prediction in the last entry (von Oswald et al., arXiv:2212.07677).

Gradient descent starts from :math:`w_0` and may be preconditioned.  On the loss
:math:`\frac1{2N}\sum_i (y_i - \langle w, x_i\rangle)^2` it takes the steps

.. math:: w_{l+1} = w_l + \frac{\eta_l}N\, A X^\top (y - X w_l).
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from array_api_compat import array_namespace

from iclimit.checks import check_arguments, check_choice, check_shape, parse_array
from iclimit.simulate.arrays import Array, Backend
from iclimit.simulate.pretraining.prompts import INPUT_LAWS, Prompts, sample_coordinates


@dataclass(frozen=True, eq=False)
class Regression:
    r"""Law of regression prompts.

    Parameters
    ----------
    context : int >= 1
        Number N of pairs before the query.
    dim : int >= 1
        Dimension of the inputs.
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}
        Law of the independent coordinates z: N(0, 1), U(-1, 1), random signs, or the Laplace law
        with density exp(-\|z\|)/2.
    scale : float > 0
        Factor of the inputs: 0.5 with "uniform" is U(-1/2, 1/2).
    noise_variance : float >= 0
        Variance of the label noise, in the context and in the query label.
    task_variance : float > 0
        Variance of the independent coordinates of the task.
    mixing : array (dim, dim), optional
        Matrix T of :math:`x = T z` (times scale); the identity by default.
    task_root : array (dim, dim), optional
        Matrix R of tasks :math:`w = R g` (times the root of task_variance), g standard normal;
        the identity by default.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """

    context: int
    dim: int
    input_law: str = "gaussian"
    scale: float = 1.0
    noise_variance: float = 0.0
    task_variance: float = 1.0
    mixing: Any = None
    task_root: Any = None

    def __post_init__(self) -> None:
        check_choice("input_law", self.input_law, INPUT_LAWS)
        numbers = ("context", "dim", "scale", "noise_variance", "task_variance")
        check_arguments(**{name: getattr(self, name) for name in numbers})
        for name in ("mixing", "task_root"):
            if getattr(self, name) is not None:
                parse_array(name, getattr(self, name), (self.dim, self.dim))

    def sample(self, backend: Backend, generator: Any, count: int) -> Prompts:
        """Draw prompts, each with its own task."""
        return self.prompts(backend, generator, self.sample_tasks(backend, generator, count))

    def draw(self, backend: Backend, generator: Any, count: int) -> Any:
        """Prompts as networks are trained on them, to predict the noisy label of the query."""
        prompts = self.sample(backend, generator, count)
        return SimpleNamespace(
            inputs=prompts.x,
            labels=prompts.y,
            query=prompts.x_query,
            target=prompts.y_query,
            noise_variance=0.0,
        )

    def sample_tasks(self, backend: Backend, generator: Any, count: int) -> Array:
        """Draw task vectors, shape (count, dim)."""
        unit = math.sqrt(self.task_variance) * generator.standard_normal((count, self.dim))
        return unit if self.task_root is None else unit @ backend.asarray(self.task_root).T

    def prompts(self, backend: Backend, generator: Any, task_vectors: Array) -> Prompts:
        """Draw one prompt for each row of task vectors, shape (count, dim)."""
        shape = (task_vectors.shape[0], self.context + 1, self.dim)
        x = sample_coordinates(backend, generator, shape, self.input_law)
        if self.scale != 1:
            x *= self.scale
        if self.mixing is not None:
            x = x @ backend.asarray(self.mixing).T
        y = (x @ task_vectors[:, :, None])[:, :, 0]
        if self.noise_variance:
            y = y + math.sqrt(self.noise_variance) * generator.standard_normal(shape[:2])
        return Prompts(x=x[:, :-1, :], y=y[:, :-1], x_query=x[:, -1, :], y_query=y[:, -1])


def regression_tokens(prompts: Prompts, initial: Array | None = None) -> Array:
    """Token rows of shape (n, context + 1, dim + 1), for initial weights w_0 of shape (dim,)."""
    xp = array_namespace(prompts.x)
    n, context, dim = prompts.x.shape
    if initial is not None:
        check_shape("initial", initial, (dim,))
    tokens = xp.empty((n, context + 1, dim + 1), dtype=prompts.x.dtype)
    tokens[:, :-1, :-1], tokens[:, :-1, -1] = prompts.x, prompts.y
    tokens[:, -1, :-1] = prompts.x_query
    tokens[:, -1, -1] = 0.0 if initial is None else -(prompts.x_query @ initial)
    return tokens


def descend(
    prompts: Prompts,
    rates: Any,
    *,
    initial: Array | None = None,
    preconditioner: Array | None = None,
) -> Array:
    r"""Weights after gradient descent on the context of each prompt.

    Parameters
    ----------
    prompts : Prompts
    rates : sequence of float, length L >= 1
        Learning rates :math:`\eta_l` of the mean over the pairs, one per step, for the inputs as
        they are.
    initial : array (dim,), optional
        Initial weights :math:`w_0`; zero by default.
    preconditioner : array (dim, dim), optional
        Matrix A; the identity by default.

    Returns
    -------
    array (n, dim)

    Raises
    ------
    ValueError
        If an argument has another shape or a rate is not finite.
    """
    xp = array_namespace(prompts.x)
    length, dim = prompts.x.shape[1:]
    weights = xp.zeros_like(prompts.x_query)
    if initial is not None:
        check_shape("initial", initial, (dim,))
        weights = weights + initial
    if preconditioner is not None:
        check_shape("preconditioner", preconditioner, (dim, dim))
    for rate in parse_array("rates", rates, (None,)):
        residual = prompts.y[:, :, None] - prompts.x @ weights[:, :, None]
        step = (xp.matrix_transpose(prompts.x) @ residual)[:, :, 0]
        if preconditioner is not None:
            step = step @ preconditioner.T
        weights = weights + float(rate) / length * step
    return weights


def query_predictions(prompts: Prompts, weights: Array) -> Array:
    """Predictions of linear models, weights (n, dim), for the queries: (n,)."""
    return array_namespace(weights).vecdot(prompts.x_query, weights)
