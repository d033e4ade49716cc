"""An algorithm of linear regression in context: one row of what is known of it.

`iclimit.validation.instruments.models.algorithms` has the rows.  An algorithm is compared with a
model at the parameters that are best for the problem (`Baseline`), at those that are nearest to
the model, which a fit finds, and at every position of a prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit

from iclimit.problem import Problem
from iclimit.simulate.gdpp.preconditioned_descent import context_covariance
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.covariances import times_root
from iclimit.validation.instruments.models.labels import effective_problem
from iclimit.validation.instruments.models.problem_units import ProblemUnits

# Inputs are divided by no less than this norm: zero stays zero.
LEAST_NORM = 1e-150


class Examples:
    """Prompts with what algorithms compute from them once.

    Parameters
    ----------
    prompts : Prompts
        The prompts.
    problem : Problem
        What an algorithm knows of the law of prompts; these may have another one.  Of labels that
        are not linear it knows their linear part, and the rest as noise.
    """

    def __init__(self, prompts: Prompts, problem: Problem) -> None:
        self.prompts = prompts
        self.problem = effective_problem(problem)
        self._parts: dict[object, Examples] = {}

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def pairs(self) -> int:
        """Number of pairs of a context."""
        return int(self.prompts.labels.shape[1])

    @cached_property
    def units(self) -> ProblemUnits:
        """The problem as the theory sees it."""
        return ProblemUnits(self.problem)

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

    def last(self, pairs: int) -> Examples:
        """The same queries after the last pairs of the context."""
        return self._changed(
            pairs, lambda p: Prompts(p.inputs[:, -pairs:], p.labels[:, -pairs:], p.query)
        )

    def unit(self, queries: bool) -> Examples:
        """The same with inputs, and perhaps queries, divided by their norms."""

        def change(prompts: Prompts) -> Prompts:
            query = _unit_vectors(prompts.query) if queries else prompts.query
            return Prompts(_unit_vectors(prompts.inputs), prompts.labels, query)

        return self._changed(("unit", queries), change)

    @cached_property
    def centred(self) -> Examples:
        """The same with means over the context taken from inputs, labels and query."""

        def change(prompts: Prompts) -> Prompts:
            inputs = np.mean(prompts.inputs, axis=1)
            labels = prompts.labels - np.mean(prompts.labels, axis=1, keepdims=True)
            return Prompts(prompts.inputs - inputs[:, None, :], labels, prompts.query - inputs)

        return self._changed("centred", change)

    def beside(self, task: np.ndarray) -> Examples:
        """The same with the labels of a task (d,) taken from the labels."""
        return self._changed(
            ("beside", task.tobytes()),
            lambda p: Prompts(p.inputs, p.labels - p.inputs @ task, p.query),
        )

    def _changed(self, key: object, change: Callable[[Prompts], Prompts]) -> Examples:
        """Examples of changed prompts, kept under a key."""
        if key not in self._parts:
            self._parts[key] = Examples(change(self.prompts), self.problem)
        return self._parts[key]

    @cached_property
    def whitened(self) -> Examples:
        """The same in coordinates in which the tasks are isotropic."""
        inputs = times_root(self.prompts.inputs, self.units.task_root)
        query = times_root(self.prompts.query, self.units.task_root)
        return Examples(Prompts(inputs, self.prompts.labels, query), self.problem)


def _unit_vectors(x: np.ndarray) -> np.ndarray:
    """Vectors (..., d) divided by their norms; one of length 0 stays."""
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), LEAST_NORM)


def filtered(
    examples: Examples, spectral: Callable[..., np.ndarray], **parameters: float
) -> np.ndarray:
    """Answers (n,) of a filter, a function of eigenvalues, the number of pairs and parameters."""
    values, loads = examples.spectrum
    return np.vecdot(spectral(values, examples.pairs, **parameters), loads)


@dataclass(frozen=True)
class Parameter:
    """A parameter that is fitted: where its search starts, and in which coordinate it runs.

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
class Whole:
    """A whole number that is fitted, such as that of the steps.

    Attributes
    ----------
    name : str
        The parameter.
    one, many : str
        What one of them is called, and many, with braces for the number.
    values : callable
        From the problem to the values that are tried first, which increase.
    """

    name: str
    one: str
    many: str
    values: Callable[[ProblemUnits], Sequence[int]]

    def words(self, value: int) -> str:
        """What so many of them are called."""
        return self.one if value == 1 else self.many.format(value)


@dataclass(frozen=True)
class Baseline:
    """An algorithm with its parameters, which answers prompts.

    Attributes
    ----------
    name : str
        Short name, such as "one_step".
    description : str
        What it is, with its parameters.
    predict : callable
        Predictions (n,) for prompts; it looks at inputs, labels, query and noise variance only.
    loss : float, optional
        Its exact mean squared error on noisy labels of fresh tasks, where the theory knows it; of
        algorithms that answer at every position an array, see `position_baselines`.
    title : str
        What a verdict calls it; by default its name.
    parameters : int
        Number of its parameters that were fitted to the model.
    contains : tuple of str
        Algorithms that are special or limiting cases, if it is a fitted one.
    family : str
        Algorithm of which it is a fitted member; by default it is its own.
    """

    name: str
    description: str
    predict: Callable[[Any], np.ndarray]
    loss: Any = None
    title: str = ""
    parameters: int = 0
    contains: tuple[str, ...] = ()
    family: str = ""

    @property
    def words(self) -> str:
        """What a verdict calls it."""
        return self.title or self.name

    @property
    def algorithm(self) -> str:
        """The algorithm without its parameters."""
        return self.family or self.name


@dataclass(frozen=True)
class Best:
    """What an algorithm does with the parameters that are best for a problem.

    Attributes
    ----------
    description : str
        What it is, with these parameters.
    predict : callable
        Predictions (n,) for prompts.
    loss : float, optional
        Exact mean squared error on noisy labels of fresh tasks, where it is known.
    """

    description: str
    predict: Callable[[Any], np.ndarray]
    loss: float | None = None


def _not_fitted(*_: object) -> np.ndarray:
    raise TypeError("this algorithm has no parameters that are fitted")


def _unknown(_: ProblemUnits) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class Algorithm:
    """An algorithm, with all that is known of it; what it does not have is left out.

    Attributes
    ----------
    name : str
        Its name.
    title : str
        What a verdict calls it with the parameters that are best for a problem.
    best : callable, optional
        From a problem to the algorithm with these parameters; None where it is not known, or
        coincides with another one.
    positions : callable, optional
        From the algorithm and problems of 1 to N pairs to one that answers at every position, or
        None.
    words : str
        What a fitted member is called, with its parameters in braces; empty where none are fitted.
    answer : callable
        Answers (n,) of a member to `Examples`, given its parameters by name but for the factor.
    parameters : mapping of str to callable
        Numbers that are fitted, from the problem to each `Parameter`.
    whole : Whole, optional
        A whole number that is fitted.
    factor : str
        Name of a factor of the answers that is fitted.
    contains : tuple of str
        Algorithms that are special or limiting cases of the fitted ones.
    limit : str
        Algorithm that it tends to at the largest whole number.
    optimum : callable
        From a problem to parameters that are best for it, by name, where they are known.
    fits : callable
        Whether it is fitted to models of a problem.
    weights : callable, optional
        Theory of the weight of each pair of a context, given a problem and the parameters.
    """

    name: str
    title: str = ""
    best: Callable[[ProblemUnits], Best | None] | None = None
    positions: Callable[[Algorithm, Sequence[ProblemUnits]], Baseline | None] | None = None
    words: str = ""
    answer: Callable[..., np.ndarray] = _not_fitted
    parameters: Mapping[str, Callable[[ProblemUnits], Parameter]] = field(default_factory=dict)
    whole: Whole | None = None
    factor: str = ""
    contains: tuple[str, ...] = ()
    limit: str = ""
    optimum: Callable[[ProblemUnits], dict[str, float]] = _unknown
    fits: Callable[[Problem], bool] = lambda _: True
    weights: Callable[..., np.ndarray] | None = None

    @property
    def size(self) -> int:
        """Number of parameters that are fitted."""
        return len(self.parameters) + bool(self.whole) + bool(self.factor)

    def at_best(self, units: ProblemUnits) -> Baseline | None:
        """The algorithm with the parameters that are best for a problem, if they are known."""
        best = None if self.best is None else self.best(units)
        if best is None:
            return None
        return self.with_best(best if units.exact else replace(best, loss=None))

    def at_positions(self, lengths: Sequence[ProblemUnits]) -> Baseline | None:
        """The algorithm at every position of prompts of 1 to N pairs, if it has such a form."""
        found = None if self.positions is None else self.positions(self, lengths)
        if found is None or lengths[-1].exact:
            return found
        return replace(found, loss=np.full(len(lengths) + 1, math.nan))

    def with_best(self, best: Best) -> Baseline:
        """The algorithm with these parameters."""
        return Baseline(self.name, best.description, best.predict, best.loss, self.title)
