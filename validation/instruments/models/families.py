r"""Families of algorithms with parameters, which are data, not code of their own.

Most algorithms of linear regression are filters: with the covariance :math:`H = X^\top X/N` of the
inputs of a context and :math:`b = X^\top y/N` their weights are :math:`w = \varphi(H)\, b`, for
example

* ridge regression, :math:`\varphi(h) = 1/(h + \lambda/N)`,
* L steps of gradient descent, :math:`\varphi(h) = [1 - (1 - \eta h)^L]/h`,
* gradient flow for a time t, :math:`\varphi(h) = (1 - e^{-th})/h`.

In the eigenbasis of H they are sums over the eigenvalues, so a context is decomposed once for all
filters and parameters.  The other families run as algorithms do.

The delta rule with the best steps (`iclimit.asymptotics.recurrent.delta_rule`) is the best of all
recurrences with as many numbers in memory.  In a gated delta rule the weights decay before each
pair is read.  Where they decay after it, the answers have one factor of the decay more.  DeltaNets
divide keys, and most of them queries, by their norms; the step then has no unit, and the scale of
the values is a factor of the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.special import expit, logit

from iclimit.asymptotics.recurrent import recurrent_errors
from iclimit.notation import read_table
from iclimit.problem import Problem
from iclimit.simulate.gdpp.preconditioned_descent import context_covariance
from iclimit.simulate.probing import predictors
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.covariances import covariance_root, times_root
from iclimit.validation.instruments.models.problem_units import ProblemUnits

# Most steps of gradient descent that are told from gradient flow.
MOST_STEPS = 200

# Inputs are divided by no less than this norm: zero stays zero.
LEAST_NORM = 1e-150


class Examples:
    """Prompts with what the families compute from them once."""

    def __init__(self, prompts: Prompts) -> None:
        self.prompts = prompts
        self._parts: dict[object, Examples] = {}

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def pairs(self) -> int:
        """Number of pairs of a context."""
        return int(self.prompts.labels.shape[1])

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues h (n, d) of contexts, and loads a (n, d): answers are sums of phi(h) a."""
        prompts = self.prompts
        values, vectors = np.linalg.eigh(context_covariance(prompts.inputs))
        moments = np.vecdot(prompts.inputs.mT, prompts.labels[:, None, :])
        sides = (np.vecdot(vectors.mT, side[:, None, :]) for side in (prompts.query, moments))
        return np.maximum(values, 0.0), math.prod(sides) / self.pairs

    @cached_property
    def products(self) -> np.ndarray:
        """Labels times inner products of their inputs with the query, (n, context)."""
        return self.prompts.labels * np.vecdot(self.prompts.inputs, self.prompts.query[:, None, :])

    def changed(self, key: object, change: Callable[[Prompts], Prompts]) -> Examples:
        """Examples of changed prompts, kept under a key."""
        if key not in self._parts:
            self._parts[key] = Examples(change(self.prompts))
        return self._parts[key]

    def last(self, pairs: int) -> Examples:
        """The same queries after the last pairs of the context."""
        return self.changed(
            pairs, lambda p: Prompts(p.inputs[:, -pairs:], p.labels[:, -pairs:], p.query)
        )

    def unit(self, queries: bool) -> Examples:
        """The same with inputs, and perhaps queries, divided by their norms."""

        def change(prompts: Prompts) -> Prompts:
            query = _unit_vectors(prompts.query) if queries else prompts.query
            return Prompts(_unit_vectors(prompts.inputs), prompts.labels, query)

        return self.changed(("unit", queries), change)

    def rotated(self, root: np.ndarray) -> Examples:
        """The same with inputs in coordinates in which the tasks are isotropic."""

        def change(prompts: Prompts) -> Prompts:
            inputs = times_root(prompts.inputs, root)
            query = times_root(prompts.query, root)
            return Prompts(inputs, prompts.labels, query)

        return self.changed("rotated", change)


def _unit_vectors(x: np.ndarray) -> np.ndarray:
    """Vectors (..., d) divided by their norms; one of length 0 stays."""
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), LEAST_NORM)


def filtered(examples: Examples, name: str, **parameters: float) -> np.ndarray:
    """Answers (n,) of a family of `FILTERS`."""
    values, loads = examples.spectrum
    return np.vecdot(FILTERS[name](values, examples.pairs, **parameters), loads)


def ridge_filter(h: np.ndarray, pairs: int, penalty: float) -> np.ndarray:
    """Filter of ridge regression."""
    return 1 / (h + penalty / pairs)


def descent_filter(h: np.ndarray, _: int, steps: int, rate: float) -> np.ndarray:
    """Filter of steps of gradient descent of one rate."""
    return _divided(1 - (1 - rate * h) ** steps, h, steps * rate)


def flow_filter(h: np.ndarray, _: int, time: float) -> np.ndarray:
    """Filter of gradient flow."""
    return _divided(-np.expm1(-time * h), h, time)


def gdpp_filter(h: np.ndarray, _: int, layers: int, rate: float, gamma: float) -> np.ndarray:
    """Filter of layers of GD++ with one rate and gamma."""
    residual = np.ones_like(h)
    moved = h
    for _layer in range(layers):
        residual = residual * (1 - rate * moved)
        moved = moved * (1 - gamma * moved) ** 2
    return _divided(1 - residual, h, layers * rate)


def _divided(part: np.ndarray, h: np.ndarray, limit: float) -> np.ndarray:
    """Part over h, with its limit at 0; loads at such eigenvalues vanish."""
    small = h < 1e-12 * np.max(h, initial=0.0)
    return np.where(small, limit, part / np.where(small, 1.0, h))


# Filters by family, functions of the eigenvalues, the number of pairs and the parameters.
FILTERS: dict[str, Callable[..., np.ndarray]] = {
    "ridge": ridge_filter,
    "flow": flow_filter,
    "descent": descent_filter,
    "gdpp": gdpp_filter,
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a family: where its search starts, and in which coordinate it runs.

    Attributes
    ----------
    start : array
        Values that are tried first.
    scale : {"log", "logit", "linear"}
        Coordinate: logarithm of a positive number, logit of one in (0, 1), or the number over the
        largest start.
    """

    start: np.ndarray
    scale: str = "log"

    def to_free(self, value: float) -> float:
        """Coordinate of the search of a value."""
        unit = float(np.max(np.abs(self.start)))
        moved = {"log": np.log, "logit": logit}.get(self.scale, lambda x: x / unit)
        return float(moved(value))

    def from_free(self, free: float) -> float:
        """Value at a coordinate of the search."""
        unit = float(np.max(np.abs(self.start)))
        moved = {"log": np.exp, "logit": expit}.get(self.scale, lambda x: x * unit)
        return float(moved(free))


@dataclass(frozen=True)
class Family:
    """A family of algorithms.

    Attributes
    ----------
    name : str
        Its name.
    answer : callable
        Answers (n,) to `Examples`, given the parameters by name.
    parameters : mapping of str to Parameter
        Numbers that are fitted.
    words : str
        What it is in English, with its parameters in braces.
    count, counts : str and sequence of int
        Name of a whole number that is fitted, and values that are tried first.
    counted : tuple of str
        What one of them is called, and many.
    factor : str
        Name of a factor of the answers that is fitted.
    contains : tuple of str
        Algorithms and families that are special or limiting cases.
    limit : str
        Family that it tends to at the largest whole number.
    best : mapping of str to float
        Parameters that are best for the problem.
    """

    name: str
    answer: Callable[..., np.ndarray]
    parameters: Mapping[str, Parameter]
    words: str
    count: str
    counts: Sequence[int]
    counted: tuple[str, str]
    factor: str
    contains: tuple[str, ...]
    limit: str
    best: Mapping[str, float]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return len(self.parameters) + bool(self.count) + bool(self.factor)


# Names, words and relations of the families.
TABLE = {row["name"]: row for row in read_table("validation/instruments/models/families.csv")}


def _family(
    name: str,
    answer: Callable[..., np.ndarray],
    parameters: Mapping[str, Parameter],
    counts: Sequence[int] = (0,),
    best: Mapping[str, float] | None = None,
) -> Family:
    """The family of this name in the table."""
    row = TABLE[name]
    counted = (row["one"], row["many"])
    contains = tuple(row["contains"].split())
    described = row["words"], row["count"], counts, counted, row["factor"], contains, row["limit"]
    return Family(name, answer, parameters, *described, best or {})


def families(problem: Problem) -> list[Family]:
    """Families that may answer prompts of a problem; their searches start at its scales.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    """
    scales = _Scales.of(problem)
    return [
        *_spectral(scales),
        *_weighted(scales),
        *_online(scales),
        *_smoothers(scales),
        *_informed(scales),
    ]


@dataclass(frozen=True)
class _Scales:
    """Where the searches start: the scales of a problem and of its parameters."""

    problem: Problem
    units: ProblemUnits
    penalty: Parameter
    rate: Parameter
    pairs: Sequence[int]
    decay: Parameter

    @classmethod
    def of(cls, problem: Problem) -> _Scales:
        units = ProblemUnits(problem)
        N = problem.context
        penalty = Parameter(N * units.input_variance * np.geomspace(1e-4, 10, 11))
        # Answers vary fast with a rate at which steps diverge.
        rates = np.concatenate([np.geomspace(0.02, 0.3, 5), np.geomspace(0.4, 2, 17)])
        rate = Parameter(rates / units.input_variance)
        pairs = sorted({round(number) for number in np.geomspace(1, N, 8)})
        decay = Parameter(np.exp(-1 / (N * np.geomspace(1 / 16, 4, 7))), "logit")
        return cls(problem, units, penalty, rate, pairs, decay)

    @property
    def best(self) -> dict[str, float]:
        """The best penalty, where there is label noise."""
        penalty = self.units.noise_variance / self.problem.task_variance
        return {"penalty": penalty} if penalty else {}


def _spectral(scales: _Scales) -> Iterator[Family]:
    """Families of `FILTERS`."""
    m = scales.units.input_variance
    correlated = scales.problem.task_covariance is not None
    gammas = np.linspace(-0.5, 1, 7)[[0, 1, 3, 4, 6]] / 2 / m
    answers = {name: partial(filtered, name=name) for name in FILTERS}
    best = {} if correlated else scales.best
    yield _family("ridge", answers["ridge"], {"penalty": scales.penalty}, best=best)
    time = Parameter(np.geomspace(0.1, 100, 11) / m)
    yield _family("flow", answers["flow"], {"time": time})
    counts = (1, 2, 3, 5, 8, 13, 20, 30, 50, 80, 120, MOST_STEPS)
    yield _family("descent", answers["descent"], {"rate": scales.rate}, counts)
    parameters = {"rate": scales.rate, "gamma": Parameter(gammas, "linear")}
    yield _family("gdpp", answers["gdpp"], parameters, (2, 3, 4, 6))


def _weighted(scales: _Scales) -> Iterator[Family]:
    """Families in which the last pairs count more."""

    def last_ridge(examples: Examples, pairs: int, penalty: float) -> np.ndarray:
        return filtered(examples.last(pairs), "ridge", penalty=penalty)

    few_penalties = Parameter(scales.penalty.start[::2])
    parameters = {"penalty": few_penalties, "decay": scales.decay}
    yield _family("recency_ridge", _recency_ridge, parameters)
    yield _family("recency_step", _recency_step, {"decay": scales.decay})
    yield _family("last_ridge", last_ridge, {"penalty": scales.penalty}, scales.pairs)


def _online(scales: _Scales) -> Iterator[Family]:
    """Families that read the pairs one by one, and the lasso."""
    d = scales.problem.dim
    m = scales.units.input_variance
    signal = scales.units.signal

    def delta_rule(examples: Examples, step: float, decay: float = 1.0) -> np.ndarray:
        return _linear(examples, predictors.delta_rule_weights, steps=step, gate=decay)

    def best_delta_rule(examples: Examples, noise_variance: float) -> np.ndarray:
        steps = best_steps(examples.pairs, d, noise_variance / signal) / (d * m)
        return _linear(examples, predictors.delta_rule_weights, steps=steps)

    def unit_delta_rule(examples: Examples, unit_queries: int, **memory: float) -> np.ndarray:
        return delta_rule(examples.unit(bool(unit_queries)), **memory)

    def lasso(examples: Examples, penalty: float) -> np.ndarray:
        return _linear(examples, predictors.lasso_weights, penalty=penalty)

    step = Parameter(np.geomspace(0.02, 1.5, 9) / (d * m))
    yield _family("delta_rule", delta_rule, {"step": step})
    noise = Parameter(signal * np.geomspace(1e-3, 10, 7))
    yield _family("best_delta_rule", best_delta_rule, {"noise_variance": noise})
    few_steps = np.geomspace(0.05, 1.5, 6)
    memory = {"step": Parameter(few_steps / (d * m)), "decay": scales.decay}
    yield _family("gated_delta_rule", delta_rule, memory)
    # Keys have unit length, and queries unit length or their own.
    memory = {"step": Parameter(few_steps), "decay": scales.decay}
    yield _family("unit_delta_rule", unit_delta_rule, {"step": memory["step"]}, (0, 1))
    yield _family("gated_unit_delta_rule", unit_delta_rule, memory, (0, 1))
    penalty = Parameter(math.sqrt(m * signal / d) * np.geomspace(1e-3, 3, 7))
    yield _family("lasso", lasso, {"penalty": penalty})


def _smoothers(scales: _Scales) -> Iterator[Family]:
    """Families that average labels with weights of their inputs."""
    d = scales.problem.dim
    m = scales.units.input_variance

    def smoother(examples: Examples, bandwidth: float) -> np.ndarray:
        return predictors.gaussian_smoother(examples.prompts, bandwidth)

    def nearest(examples: Examples, neighbours: int) -> np.ndarray:
        return predictors.nearest_neighbours(examples.prompts, neighbours)

    temperatures = np.geomspace(0.02, 2, 7) / m
    both_signs = Parameter(np.concatenate([-temperatures[::-1], temperatures]), "linear")
    head = partial(_heads, opposite=False)
    pair = partial(_heads, opposite=True)
    yield _family("softmax", head, {"inverse_temperature": both_signs})
    yield _family("opposite_softmax", pair, {"inverse_temperature": Parameter(temperatures)})
    bandwidth = Parameter(math.sqrt(m * d) * np.geomspace(0.1, 3, 7))
    yield _family("gaussian_smoother", smoother, {"bandwidth": bandwidth})
    yield _family("neighbours", nearest, {}, scales.pairs)


def _informed(scales: _Scales) -> Iterator[Family]:
    """Families that know the covariance of the tasks, or the tasks."""
    problem = scales.problem
    noise = scales.units.noise_variance
    if problem.task_covariance is not None:
        root = covariance_root(problem.task_covariance)

        def prior_ridge(examples: Examples, penalty: float) -> np.ndarray:
            return filtered(examples.rotated(root), "ridge", penalty=penalty)

        yield _family("prior_ridge", prior_ridge, {"penalty": scales.penalty}, best=scales.best)
    if problem.task_set is not None:
        posterior = partial(_posterior, tasks=problem.task_set)
        start = Parameter((noise or scales.units.signal) * np.geomspace(0.01, 100, 9))
        best = {"noise_variance": noise} if noise else {}
        yield _family("dmmse", posterior, {"noise_variance": start}, best=best)


def _posterior(examples: Examples, noise_variance: float, *, tasks: np.ndarray) -> np.ndarray:
    prompts = replace(examples.prompts, noise_variance=np.full(len(examples), noise_variance))
    return np.vecdot(prompts.query, predictors.dmmse_weights(prompts, tasks))


def _recency_step(examples: Examples, decay: float) -> np.ndarray:
    return examples.products @ _decays(decay, examples.pairs) / examples.pairs


def _linear(
    examples: Examples, weights: Callable[..., np.ndarray], **parameters: object
) -> np.ndarray:
    return np.vecdot(examples.prompts.query, weights(examples.prompts, **parameters))


def _decays(decay: float, context: int) -> np.ndarray:
    """Weights of the pairs, 1 for the last one."""
    return np.asarray(decay ** np.arange(context)[::-1])


def _recency_ridge(examples: Examples, penalty: float, decay: float) -> np.ndarray:
    prompts = examples.prompts
    roots = np.sqrt(_decays(decay, examples.pairs))
    weighed = Prompts(prompts.inputs * roots[:, None], prompts.labels * roots, prompts.query)
    return np.vecdot(prompts.query, predictors.regression_weights(weighed, penalty))


def _heads(examples: Examples, inverse_temperature: float, *, opposite: bool) -> np.ndarray:
    return predictors.softmax_heads(examples.prompts, inverse_temperature, 1.0, opposite=opposite)


def best_steps(context: int, dim: int, noise_ratio: float) -> np.ndarray:
    """Best steps of the delta rule, (context,), for inputs of variance 1/dim."""
    return recurrent_errors("delta", context=context, dim=dim, rho=noise_ratio).step_size[1:]
