r"""Losses of attention heads with given weights, by simulation.

Heads with the inverse temperatures :math:`\beta_h` and the values :math:`v_h` predict

.. math:: \hat y = \sum_h v_h \sum_i p^h_i\,y_i, \qquad
   p^h = \mathrm{softmax}_i\,(\beta_h\, x_q^\top A\, x_i)

or :math:`p^h_i = f(\beta_h x_q^\top A x_i)` for another kernel f.  Labels are linear in task and
noise, so the mean over both is known once the inputs are drawn.  With tasks of covariance W,
noise of variance :math:`\sigma^2` and :math:`S_h = \sum_i p^h_i x_i` the loss on a noiseless query
label is

.. math:: x_q^\top W x_q - 2 \sum_h v_h\, x_q^\top W S_h
   + \sum_{hk} v_h v_k \bigl( S_h^\top W S_k + \sigma^2\, p^h \cdot p^k \bigr),

which is quadratic in the values: one simulation has the losses of all values at some temperatures.

*Scores instead of tokens.*  Of independent Gaussian inputs only the norm r of the query and the
scores :math:`s_i = x_q \cdot x_i/r`, independent and normal, need be drawn.  The other d - 1
components of :math:`S_h` are independent of them, and :math:`S_h \cdot S_k` has the mean
:math:`\sum_i p^h_i s_i \sum_i p^k_i s_i + (d - 1)\,p^h \cdot p^k`.  The norms of a group of 100
prompts are stratified: one from each of 100 equally likely intervals.  Groups are independent, and
their means have a fourth to a half of the variance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.special import gammaincinv

from iclimit.checks import check_arguments, check_choice, parse_array
from iclimit.problem import Problem, check_problem, parse_problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, Backend, Generator, Seed, get_backend, softmax, to_host
from iclimit.simulate.prompts import draw_prompts
from iclimit.simulate.prompts.covariances import times_root

SAMPLERS = ("auto", "scores", "tokens")

# Fields of a problem that may be set, beside its sizes.
LAW = (
    *("noise_variance", "noise_law", "input_law", "scale", "input_covariance", "mixing"),
    *("task_law", "task_variance", "task_covariance", "prompts"),
)

# Prompts whose mean is one sample: part of what a seed means.
GROUP = 100

# Numbers that are drawn from one seed, unless a group of prompts takes more (1 MiB).
BLOCK_NUMBERS = 2**17

Kernel = Callable[[Array], Array]


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedHeads(Result):
    """What the losses of heads at given temperatures depend on.

    Attributes
    ----------
    null : ndarray (groups,)
        Loss of predicting 0: means over groups of 100 prompts, as of all that follows.
    signal : ndarray (groups, heads)
        Products of the query label and the prediction of a head with value 1.
    power : ndarray (groups, heads, heads)
        Products of the predictions of two heads with values 1.
    prompts : int
        Prompts that were drawn.
    """

    null: np.ndarray = field(repr=False)
    signal: np.ndarray = field(repr=False)
    power: np.ndarray = field(repr=False)
    prompts: int

    def loss(self, value: Any) -> Estimate:
        """Mean squared error on noiseless query labels.

        Parameters
        ----------
        value : number, or array (heads,)
            Values v of the heads; 0 leaves a head out.

        Returns
        -------
        Estimate
            With a sample for each group of prompts.  Losses of the same simulation are paired.
        """
        heads = self.signal.shape[1]
        v = parse_array("value", np.atleast_1d(value), (heads,))
        power = np.einsum("h,ghk,k->g", v, self.power, v)
        return Estimate.of(self.null - 2 * self.signal @ v + power)

    @property
    def best_value(self) -> np.ndarray:
        """Values (heads,) of least loss on these prompts; their loss is a little too small."""
        power = np.mean(self.power, axis=0)
        signal = np.mean(self.signal, axis=0)
        return np.linalg.lstsq(power, signal, rcond=None)[0]


def simulate_softmax(
    inverse_temperatures: Any,
    problem: Problem | None = None,
    *,
    score_function: Kernel | None = None,
    key_query: Any = None,
    contexts: int = 10_000,
    sampler: str = "auto",
    rng: Seed,
    backend: str = "numpy",
    **settings: Any,
) -> SimulatedHeads:
    r"""Simulate attention heads on linear regression, on the same prompts for all.

    Parameters
    ----------
    inverse_temperatures : number, or array (heads,)
        :math:`\beta_h`, the factors of the scores :math:`x_q \cdot x_i`.
    problem : Problem, optional
        Law of the prompts, each with a fresh task: the loss is the mean over tasks.
    score_function : callable, optional
        Kernel f, from an array of scores to the weights of their pairs; softmax by default.
    key_query : array (d, d), optional
        Matrix A of the scores :math:`x_q^\top A x_i`; the identity by default.
    contexts : int >= 1
        Prompts, rounded up to hundreds, at least 200.
    sampler : {"auto", "scores", "tokens"}
        Whether inputs are drawn, or only their scores: that is faster and has smaller errors, but
        is for independent Gaussian inputs and scores :math:`x_q \cdot x_i`.  "auto": scores where
        it can.
    rng : int, SeedSequence or Generator
        Root seed.  More prompts extend fewer.
    backend : {"numpy", "cupy"}
        Where to compute.
    **settings
        Arguments of `iclimit.Problem` instead of a problem, with a ``scale`` of 1 by default.

    Returns
    -------
    SimulatedHeads
        With the method ``loss(value)``.

    Raises
    ------
    ValueError
        If an argument is outside its range or has another shape.
    TypeError
        If score_function is not a function.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    One head, and two with keys and values of opposite signs:

    >>> from iclimit.simulate.softmax import simulate_softmax
    >>> size = {"context": 10, "dim": 10}
    >>> head = simulate_softmax(0.5789, contexts=100_000, rng=0, **size)
    >>> abs(head.loss(0.7496).z(7.305908)) < 4
    True
    >>> pair = simulate_softmax([0.3, -0.3], contexts=100_000, rng=0, **size)
    >>> pair.loss([1.0, -1.0]).mean < head.loss(0.7496).mean
    True
    """
    check_arguments(contexts=contexts)
    check_choice("sampler", sampler, SAMPLERS)
    law = parse_problem(problem, **settings)
    check_problem(law, *LAW)
    betas = np.atleast_1d(parse_array("inverse_temperatures", inverse_temperatures, (), (None,)))
    if score_function is not None and not callable(score_function):
        raise TypeError(f"score_function must be a function of a score, got {score_function!r}")
    kernel = softmax if score_function is None else score_function
    by_scores = _takes_scores(law, key_query, sampler)
    device = get_backend(backend)
    if by_scores:
        moments = _score_moments
        numbers = law.context + 1
    else:
        matrix = None if key_query is None else parse_array("key_query", key_query, 2 * (law.dim,))
        moments = partial(_token_moments, key_query=matrix)
        numbers = (law.context + 1) * law.dim
    column = device.asarray(betas)[:, None]

    def weigh(scores: Array) -> Array:
        return _weights(kernel, column * scores[:, None, :])

    groups = max(2, math.ceil(contexts / GROUP))
    block = max(1, BLOCK_NUMBERS // (GROUP * numbers))
    blocks = [
        [to_host(_grouped(x)) for x in moments(device, law, generator, block * GROUP, weigh)]
        for generator in device.generators(rng, math.ceil(groups / block))
    ]
    sums = [np.concatenate(parts)[:groups] for parts in zip(*blocks, strict=True)]
    null, signal, power = sums
    return SimulatedHeads(null, signal, power, groups * GROUP)


def _takes_scores(law: Problem, key_query: Any, sampler: str) -> bool:
    """Whether scores are drawn and not tokens, which only a white Gaussian law allows."""
    tokens_only = {
        "input_law": law.input_law != "gaussian",
        "input_covariance": law.input_covariance is not None,
        "mixing": law.mixing is not None,
        "task_covariance": law.task_covariance is not None,
        "key_query": key_query is not None,
    }
    other = [name for name, given in tokens_only.items() if given]
    if sampler == "scores" and other:
        raise ValueError(f"sampler must be 'tokens' with this {other[0]}, got 'scores'")
    return sampler != "tokens" and not other


def _token_moments(
    device: Backend,
    law: Problem,
    generator: Generator,
    count: int,
    weigh: Kernel,
    *,
    key_query: np.ndarray | None,
) -> tuple[Array, Array, Array]:
    """Null loss (n,), signal (n, heads) and power (n, heads, heads) of prompts that are drawn."""
    xp = device.xp
    drawn = draw_prompts(law, device, generator, count)
    query = drawn.query
    transformed = query if key_query is None else query @ device.asarray(key_query)
    weights = weigh((drawn.inputs @ transformed[:, :, None])[:, :, 0])
    sums = weights @ drawn.inputs
    W = None if law.task_covariance is None else device.asarray(law.task_covariance)
    weighted = times_root(sums, W)
    weighted_query = times_root(query, W)
    a2 = law.task_variance
    power = a2 * weighted @ xp.matrix_transpose(sums)
    power = power + law.mean_noise_variance * weights @ xp.matrix_transpose(weights)
    signal = a2 * (sums @ weighted_query[:, :, None])[:, :, 0]
    return a2 * xp.vecdot(query, weighted_query), signal, power


def _score_moments(
    device: Backend, law: Problem, generator: Generator, count: int, weigh: Kernel
) -> tuple[Array, Array, Array]:
    """The same for independent Gaussian inputs, of which the scores are drawn."""
    xp = device.xp
    place = np.tile(np.arange(GROUP), count // GROUP) + to_host(generator.random(count))
    chi_square = 2 * gammaincinv(law.dim / 2, place / GROUP)
    norm = law.input_scale * xp.sqrt(device.asarray(chi_square))
    along = law.input_scale * generator.standard_normal((count, law.context))
    weights = weigh(norm[:, None] * along)
    sums = (weights @ along[:, :, None])[:, :, 0]
    a2 = law.task_variance
    across = a2 * law.input_scale**2 * (law.dim - 1) + law.mean_noise_variance
    power = a2 * sums[:, :, None] * sums[:, None, :]
    power = power + across * weights @ xp.matrix_transpose(weights)
    return a2 * norm**2, a2 * norm[:, None] * sums, power


def _weights(weigh: Kernel, scores: Array) -> Array:
    """Weights of pairs, of which each must be a finite number."""
    weights = weigh(scores)
    if getattr(weights, "shape", ()) != scores.shape:
        raise ValueError(
            "score_function must return a weight for each entry of an array of scores, "
            f"got {weights!r}"
        )
    if not bool(array_namespace(scores).all(array_namespace(scores).isfinite(weights))):
        raise ValueError("score_function must return finite weights, got NaN or inf among them")
    return weights


def _grouped(values: Array) -> Array:
    """Means over groups of prompts."""
    xp = array_namespace(values)
    return xp.mean(xp.reshape(values, (-1, GROUP, *values.shape[1:])), axis=1)
