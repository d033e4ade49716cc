r"""Regression prompts whose noise level is drawn anew for every prompt.

The setting of Vladymyrov, von Oswald, Sandler and Ge, "Linear Transformers are Versatile
In-Context Learners" (arXiv:2402.14180): inputs and tasks are standard normal, labels are
:math:`y = \langle w, x\rangle + \sigma\epsilon`, and :math:`\sigma` is fixed, uniform on
:math:`[0, \sigma_{\max}]` or one of a few levels.  The oracle is ridge regression that is told
:math:`\sigma^2`; it is the posterior mean of the task.

A predictor :math:`\hat y = \langle\hat w, x\rangle` that knows the context (X, y) only has the
adjusted loss, half its squared error minus half that of the oracle,

.. math:: \tfrac12\mathbb E\lVert\hat w - w_{\text{oracle}}\rVert^2,

because the query is standard normal and, given the context and :math:`\sigma`, the task is
distributed about the oracle's weights whatever :math:`\hat w` is.  This is exact, needs neither
queries nor tasks, and its sampling error vanishes with the loss itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, Backend
from iclimit.simulate.checks import check_integers
from iclimit.simulate.prompts import Prompts

NOISE_KINDS = ("fixed", "uniform", "categorical")


@dataclass(frozen=True)
class NoiseLaw:
    r"""Law of the noise level :math:`\sigma` of a prompt.

    Attributes
    ----------
    kind : {"fixed", "uniform", "categorical"}
        One level; uniform between 0 and the level; one of the levels, all equally likely.
    levels : tuple of float >= 0

    Examples
    --------
    >>> from iclimit.simulate.noisy_regression import NoiseLaw
    >>> NoiseLaw.parse("categorical:1,3")
    NoiseLaw(kind='categorical', levels=(1.0, 3.0))
    >>> NoiseLaw.parse("uniform:3").mean_variance
    3.0
    """

    kind: str
    levels: tuple[float, ...]

    @classmethod
    def parse(cls, spec: Any) -> NoiseLaw:
        """Read "fixed:1", "uniform:5" or "categorical:1,3,5"; a law is returned as it is.

        Raises
        ------
        ValueError
            If the text is none of these.
        """
        if isinstance(spec, NoiseLaw):
            return spec
        kind, _, numbers = spec.partition(":") if isinstance(spec, str) else ("", "", "")
        try:
            levels = tuple(float(number) for number in numbers.split(","))
        except ValueError:
            levels = ()
        single = kind != "categorical"
        valid = all(0 <= level < math.inf for level in levels)
        if kind not in NOISE_KINDS or not levels or not valid or (single and len(levels) > 1):
            raise ValueError(
                "noise must be fixed:SIGMA, uniform:SIGMA_MAX or categorical:SIGMA,SIGMA,... "
                f"with levels >= 0, got {spec!r}"
            )
        return cls(kind, levels)

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(f'{level:g}' for level in self.levels)}"

    @property
    def mean_variance(self) -> float:
        """Mean of the noise variance."""
        share = 3 if self.kind == "uniform" else 1
        return sum(level**2 for level in self.levels) / len(self.levels) / share

    def sample(self, backend: Backend, generator: Any, count: int) -> Array:
        """Draw noise levels, shape (count,)."""
        if self.kind == "uniform":
            return self.levels[0] * generator.random(count)
        index = backend.xp.astype(generator.random(count) * len(self.levels), backend.xp.int64)
        return backend.asarray(self.levels)[index]


@dataclass(frozen=True, eq=False)
class NoisyPrompts:
    """Prompts with what only the oracle and the experimenter know.

    Attributes
    ----------
    prompts : Prompts
        Context and query; the query label is noisy too.
    levels : array (n,)
        Noise levels.
    tasks : array (n, dim)
        Task vectors.
    """

    prompts: Prompts
    levels: Array
    tasks: Array


@dataclass(frozen=True, eq=False)
class ContextSummaries:
    """All that linear attention and the oracle know of contexts.

    Attributes
    ----------
    gram : array (n, dim + 1, dim + 1)
        Sums of the products of the context's tokens (x_i, y_i).
    oracle : array (n, dim)
        Weights of ridge regression with the true noise variance.
    levels : array (n,)
        Noise levels.
    """

    gram: Array
    oracle: Array
    levels: Array


@dataclass(frozen=True)
class NoisyRegression:
    """Law of prompts with standard normal inputs and tasks and a random noise level.

    Parameters
    ----------
    noise : NoiseLaw or str
        "fixed:SIGMA", "uniform:SIGMA_MAX" or "categorical:SIGMA,SIGMA,...".
    context : int >= 1
        Number of pairs; 20 in arXiv:2402.14180.
    dim : int >= 1
        Dimension of the inputs; 10 in arXiv:2402.14180.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> from iclimit.simulate import NoisyRegression
    >>> NoisyRegression("uniform:5").noise.levels
    (5.0,)
    """

    noise: Any
    context: int = 20
    dim: int = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", NoiseLaw.parse(self.noise))
        check_integers(context=self.context, dim=self.dim)

    def sample(self, backend: Backend, generator: Any, count: int) -> NoisyPrompts:
        """Draw prompts, each with its own task and noise level."""
        levels = self.noise.sample(backend, generator, count)
        tasks = generator.standard_normal((count, self.dim))
        x = generator.standard_normal((count, self.context + 1, self.dim))
        noise = generator.standard_normal((count, self.context + 1))
        y = (x @ tasks[:, :, None])[:, :, 0] + levels[:, None] * noise
        prompts = Prompts(x=x[:, :-1, :], y=y[:, :-1], x_query=x[:, -1, :], y_query=y[:, -1])
        return NoisyPrompts(prompts, levels, tasks)

    def summaries(self, backend: Backend, generator: Any, count: int) -> ContextSummaries:
        """Draw contexts and keep their Gram matrices and oracle weights."""
        drawn = self.sample(backend, generator, count)
        x, y = drawn.prompts.x, drawn.prompts.y
        oracle = ridge_weights(x, y, drawn.levels**2)
        return ContextSummaries(gram_matrices(drawn.prompts), oracle, drawn.levels)


def gram_matrices(prompts: Prompts) -> Array:
    """Sums of the products of the context's tokens, shape (n, dim + 1, dim + 1)."""
    xp = array_namespace(prompts.x)
    tokens = xp.concat([prompts.x, prompts.y[:, :, None]], axis=2)
    return xp.matrix_transpose(tokens) @ tokens


def ridge_weights(x: Array, y: Array, ridge: Array) -> Array:
    """Ridge regression weights (X^T X + ridge)^-1 X^T y, shape (n, dim).

    Parameters
    ----------
    x, y : array (n, context, dim) and (n, context)
    ridge : array (n,), >= 0
        At 0 the least squares solution of least norm.
    """
    xp = array_namespace(x)
    transposed = xp.matrix_transpose(x)
    context, dim = x.shape[1:]
    gram = transposed @ x if dim <= context else x @ transposed
    gram = gram + ridge[:, None, None] * xp.eye(min(context, dim), dtype=x.dtype)
    right = transposed @ y[:, :, None] if dim <= context else y[:, :, None]
    solution = xp.linalg.solve(gram, right)
    return (solution if dim <= context else transposed @ solution)[:, :, 0]
