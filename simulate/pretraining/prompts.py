r"""Prompts at the token level: tasks, inputs and noisy labels.

A prompt holds :math:`\ell` context pairs and a query,
:math:`y_i = \langle w, x_i\rangle + \epsilon_i` with :math:`x_i` of mean zero and covariance
:math:`I/d` (or a given covariance over d) and noise variance :math:`\rho`.  This is the reference
that every faster path is tested against, and the path for inputs without structure.
"""

import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, Backend
from iclimit.simulate.pretraining.covariances import times_root

TASK_LAWS = ("sphere", "gaussian")
INPUT_LAWS = ("gaussian", "uniform", "rademacher", "laplace")
"""Laws of one coordinate: N(0, 1), U(-1, 1), random signs, Laplace with density exp(-|x|)/2."""

STANDARD_DEVIATION = {"uniform": math.sqrt(1 / 3), "laplace": math.sqrt(2)}
"""Standard deviations of those laws; 1 of the others."""


@dataclass(frozen=True)
class Prompts:
    """Token-level prompts.

    Attributes
    ----------
    x : array (n, context, d)
        Context inputs.
    y : array (n, context)
        Context labels.
    x_query : array (n, d)
        Query inputs.
    y_query : array (n,)
        Noisy query labels.
    """

    x: Array
    y: Array
    x_query: Array
    y_query: Array


def sample_tasks(
    backend: Backend,
    generator: Any,
    count: int,
    dim: int,
    task_law: str,
    *,
    root: Array | None = None,
) -> Array:
    """Draw task vectors, shape (count, d): uniform on the sphere of squared norm d, or N(0, I).

    A root of a covariance multiplies them, see `iclimit.simulate.pretraining.covariances`.
    """
    xp = backend.xp
    tasks = generator.standard_normal((count, dim))
    if task_law == "sphere":
        tasks = tasks * math.sqrt(dim) / xp.sqrt(xp.sum(tasks**2, axis=-1, keepdims=True))
    return times_root(tasks, root)


def sample_coordinates(
    backend: Backend, generator: Any, shape: tuple[int, ...], law: str
) -> Array:
    """Draw independent coordinates of one of INPUT_LAWS."""
    xp = backend.xp
    if law == "gaussian":
        return generator.standard_normal(shape)
    if law == "uniform":
        numbers = generator.random(shape)
        numbers *= 2
        numbers -= 1
        return numbers
    if law == "rademacher":
        return 2.0 * xp.astype(generator.integers(0, 2, size=shape), xp.float64) - 1.0
    signs = sample_coordinates(backend, generator, shape, "rademacher")
    return signs * generator.standard_exponential(shape)


def sample_inputs(
    backend: Backend, generator: Any, shape: tuple[int, ...], law: str, root: Array | None = None
) -> Array:
    """Draw inputs of covariance I/d, d being the last entry of shape, times a root."""
    coordinates = sample_coordinates(backend, generator, shape, law)
    scale = STANDARD_DEVIATION.get(law, 1.0) * math.sqrt(shape[-1])
    return times_root(coordinates / scale, root)


def sample_prompts(
    backend: Backend,
    generator: Any,
    tasks: Array,
    context: int,
    rho: float,
    input_law: str = "gaussian",
    *,
    input_root: Array | None = None,
) -> Prompts:
    """Draw one prompt for each row of tasks, shape (n, d)."""
    xp = backend.xp
    n, dim = tasks.shape
    x = sample_inputs(backend, generator, (n, context + 1, dim), input_law, root=input_root)
    noise = math.sqrt(rho) * generator.standard_normal((n, context + 1))
    y = (x @ tasks[:, :, None])[:, :, 0] + noise
    return Prompts(x=x[:, :-1, :], y=y[:, :-1], x_query=xp.asarray(x[:, -1, :]), y_query=y[:, -1])


def token_matrix(prompts: Prompts) -> Array:
    r"""Embedding matrices of shape (n, d + 1, context + 1).

    Column i holds :math:`(x_i, y_i)`, the last one the query and a zero for its label.
    """
    xp = array_namespace(prompts.x)
    x = xp.concat([prompts.x, prompts.x_query[:, None, :]], axis=1)
    y = xp.concat([prompts.y, xp.zeros_like(prompts.y[:, :1])], axis=1)
    return xp.matrix_transpose(xp.concat([x, y[:, :, None]], axis=2))
