r"""A run: what is learned from which prompts, how, and what it is tested on.

A `Problem` is the law of one set of prompts.  An `Experiment` adds how many of them are learned
from, how, by which model, and which prompts the model is tested on.  A `Point` is an experiment
in the limit: ratios in the place of integers.  All of them are data and compute nothing; rooms
have one function each that takes them, such as `iclimit.predict` and `iclimit.sample`.

Nothing about computing belongs here: random numbers, repeats, where and by which method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, get_args

import numpy as np

from iclimit.checks import (
    check_arguments,
    check_choice,
    check_flag,
    check_integers,
    check_kernel,
    given,
    parse_covariance,
    parse_gates,
)
from iclimit.links import parse_link
from iclimit.losses import LAST_POSITION, AllPositions, LastPosition, Loss, RandomLength
from iclimit.notation import explaining, ratios_of, sizes_of
from iclimit.problem import Problem, check_few_outputs
from iclimit.statement import canonical
from iclimit.trainings import (
    BY_THEIR_CLASS,
    LEAST_NORM,
    OF_FLOW,
    OF_TRAINING,
    SGD,
    Descent,
    Flow,
    Ridge,  # noqa: F401 - it is imported from here, beside what it is a part of
    Training,
    training_of,
)

# What the context summary of reduced attention can be divided by.
NORMALIZATIONS = ("mean", "length")


@dataclass(frozen=True, eq=False)
class Reduced:
    r"""Reduced linear attention, a matrix :math:`\Gamma` of the context summary.

    Parameters
    ----------
    gates : array (context,) of numbers in [0, 1], optional
        Weights of the pairs in the context summary, as gated linear attention has them; equal
        ones by default.
    normalization : {"mean", "length"}
        Whether the summary of l examples is divided by l, or by the fixed length of the whole
        context of training.  The latter is unnormalised attention with a learned scale.
    """

    gates: Any = None
    normalization: str = "mean"

    def __post_init__(self) -> None:
        check_choice("normalization", self.normalization, NORMALIZATIONS)


@dataclass(frozen=True, eq=False)
class Test:
    """What a model is tested on: the prompts behind the ICL error.

    Parameters
    ----------
    problem : Problem
        Law of the test prompts, with fresh tasks, of the dimension and units of the run.
    gates : array (context,) of numbers in [0, 1], optional
        Weights of their pairs; those of training by default, which then must fit.
    prompts : int >= 1, optional
        Number of test prompts that measure an error; errors are exact by default, where a room
        knows them.
    """

    # pytest collects what is called Test otherwise.
    __test__: ClassVar[bool] = False

    problem: Problem
    gates: Any = None
    prompts: int | None = None

    def __post_init__(self) -> None:
        if self.problem.task_count != math.inf:
            raise ValueError(
                "problem of a test must have fresh tasks, such as problem.with_fresh_tasks(), "
                f"got {self.problem.task_count} tasks"
            )
        if self.prompts is not None:
            check_arguments(test_prompts=self.prompts)


# Defaults of the fields of a problem that are keywords of the same name.  Tasks are on the sphere
# unless they are said to be of another law.
_OF_PROBLEM: dict[str, Any] = {
    part.name: part.default
    for part in fields(Problem)
    if part.name not in ("dim", "context", "tasks", "noise_variance")
} | {"task_law": "sphere"}

# Fields of a problem that tests may change, by the keyword that says so.
_OF_TESTS = {
    f"test_{name}": name
    for name in ("context", *_OF_PROBLEM)
    if name not in ("task_covariance", "fresh_fraction", "shared_task", "outputs")
} | {"test_rho": "noise_variance", "test_covariance": "task_covariance"}

# Keywords for which None stands for what is left out.
_MAY_BE_NONE = {
    "gates",
    "test_gates",
    "test_prompts",
    "time",
    "learning_rate",
    "first_position",
    "position_weights",
    "lengths",
    "length_probabilities",
    "steps",
    *_OF_TESTS,
    *(name for name, usual in _OF_PROBLEM.items() if usual is None),
}

# Keywords that a run must have, and those that are about it as a whole.
_NEEDED = ("dim", "context", "tasks", "prompts", "rho")
_OF_RUN = (
    *OF_TRAINING,
    *("balanced", "gates", "test_gates", "test_prompts", "normalization"),
    *("first_position", "position_weights", "lengths", "length_probabilities"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    r"""A run of finite size: pretrain on prompts, then test.

    Parameters
    ----------
    problem : Problem
        Law of the training prompts.
    prompts : int >= 1
        Number of training prompts, n; of whole sequences where the loss is of all positions.
    balanced : bool
        Whether all tasks have the same number of prompts; otherwise every prompt draws its task.
    loss : LastPosition, AllPositions or RandomLength
        What is minimised.
    training : Ridge, Flow, Descent or SGD
        How.
    model : Reduced
        What is trained.
    test : Test, optional
        What it is tested on for the ICL error: fresh tasks of the law of training by default.
        The IDG error keeps the training law.
    point : Point, optional
        The point of the limit that it was made from; it is no part of the identity.

    Raises
    ------
    TypeError
        If a part is of another kind.
    ValueError
        If parts do not fit.

    Examples
    --------
    >>> from iclimit import Experiment, Problem, Ridge, Test
    >>> law = Problem(24, 48, tasks=24, noise_variance=0.1)
    >>> run = Experiment(law, prompts=1152, training=Ridge(0.05))
    >>> run.limit["tau"], run.limit["ridge"]
    (2.0, 0.05)
    >>> longer = run.with_(test=Test(law.with_fresh_tasks(context=96)))
    >>> longer == run, longer.statement()["test_context"]
    (False, 96)
    """

    problem: Problem
    _: KW_ONLY
    prompts: int
    balanced: bool = False
    loss: Loss = LAST_POSITION
    training: Training = LEAST_NORM
    model: Reduced = Reduced()
    test: Test | None = None
    point: Point | None = field(default=None)

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and not (name == "test" and value is None):
                kinds = " or ".join(own.__name__ for own in _alternatives(kind))
                raise TypeError(f"{name} must be a {kinds}, got {value!r}")
        check_arguments(prompts=self.prompts)
        if isinstance(self.training, SGD):
            self.training.steps(self.prompts)
        check_flag("balanced", self.balanced)
        if self.problem.outputs != 1 and not isinstance(self.loss, LastPosition):
            raise ValueError(
                f"outputs must be 1 for {type(self.loss).__name__}, got {self.problem.outputs!r}"
            )
        gates = parse_gates("gates", self.model.gates, self.problem.context)
        object.__setattr__(self, "model", replace(self.model, gates=gates))
        self.loss.positions(self.problem.context)
        if self.model.normalization != "mean" and isinstance(self.loss, LastPosition):
            raise ValueError(
                "normalization must be 'mean' for LastPosition, which has one length, got "
                f"{self.model.normalization!r}"
            )
        test = self.test
        if test is None:
            return
        if test.problem.dim != self.problem.dim:
            raise ValueError(
                f"test must have the dim of the run, {self.problem.dim}, got {test.problem.dim}"
            )
        if test.problem.outputs != self.problem.outputs:
            raise ValueError(
                f"test must have the outputs of the run, {self.problem.outputs}, got "
                f"{test.problem.outputs}"
            )
        if test.problem.label_unit != self.problem.label_unit:
            raise ValueError(
                f"test must be in the units of the run, with labels of variance "
                f"{self.problem.label_unit}, got {test.problem.label_unit}"
            )
        own = parse_gates("test_gates", test.gates, test.problem.context)
        object.__setattr__(self, "test", replace(test, gates=own))

    @property
    def dim(self) -> int:
        """Dimension d of the inputs."""
        return self.problem.dim

    @property
    def ridge(self) -> float:
        """Ridge of the training."""
        return self.training.ridge

    @property
    def tests(self) -> Test:
        """What the model is tested on, with its gates.

        Raises
        ------
        ValueError
            If the gates of training do not fit the test prompts.
        """
        test = self.test or Test(self.problem.with_fresh_tasks())
        if test.gates is not None:
            return test
        gates = parse_gates("gates", self.model.gates, test.problem.context)
        return replace(test, gates=gates)

    @property
    def ratios(self) -> dict[str, float]:
        """Tau, alpha and kappa, where each output of a prompt counts as a prompt."""
        sizes = {"prompts": self.prompts * self.problem.outputs, "context": self.problem.context}
        return ratios_of(self.dim, sizes | {"tasks": self.problem.task_count})

    @property
    def limit(self) -> dict[str, Any]:
        """Parameters of the limit that are defined, as keywords of the theory, with tests.

        Each output of a prompt counts as a prompt, with the same ridge.

        Raises
        ------
        ValueError
            If outputs are more than a tenth of the dimension, or their labels have a mean.
        """
        check_few_outputs(self.problem)
        problem = self.tests.problem
        found = self.ratios | {"rho": self.problem.limit["rho"]}
        found |= self.problem.labels
        training = self.training
        if isinstance(training, Descent):
            training = Flow(training.time(self.dim), training.ridge, training.start_variance)
        if not isinstance(training, SGD):
            found |= vars(training)
        if isinstance(self.loss, AllPositions):
            found["sequence_ratio"] = self.prompts / self.dim
        if problem.context != self.problem.context:
            found["test_alpha"] = problem.context / self.dim
        if problem.noise_variance != self.problem.noise_variance:
            found["test_rho"] = problem.limit["rho"]
        return found

    def at(self, dim: int) -> Experiment:
        """The same point of the limit at another dimension.

        Raises
        ------
        ValueError
            If it was made from integers, which say nothing of another dimension.
        """
        if self.point is None:
            raise ValueError("an Experiment has another dim only if it was made from a Point")
        return self.point.at(dim)

    def with_(self, **changes: Any) -> Experiment:
        """The same run with other parts; it knows no point of the limit then."""
        return replace(replace(self, point=None), **changes)

    @classmethod
    def of(cls, **keywords: Any) -> Experiment:
        """A run from flat keywords, those of `iclimit.simulate_errors` and its like.

        Parameters
        ----------
        **keywords
            ``dim``, ``context``, ``tasks``, ``prompts`` and ``rho``; ``ridge``, ``time`` and
            ``start_variance`` (a `Flow`), ``learning_rate`` and ``batch`` (an `SGD`) or ``steps``,
            ``momentum`` and those of a flow but ``time`` (a `Descent`), ``balanced``, ``gates``,
            ``normalization`` and other fields of a `Problem`; ``first_position`` and
            ``position_weights`` (`AllPositions`), or ``lengths`` and ``length_probabilities``
            (`RandomLength`); ``test_context``, ``test_rho``, ``test_drift``, ``test_correlation``,
            ``test_covariance`` and other fields of the tests' problem; ``test_gates`` and
            ``test_prompts``.  None stands for what is left out.

        Raises
        ------
        TypeError
            If one is missing or unknown.
        ValueError
            If one is outside its range.
        """
        stated = {
            name: value
            for name, value in keywords.items()
            if value is not None or name not in _MAY_BE_NONE
        }
        missing = [name for name in _NEEDED if name not in stated]
        if missing:
            raise TypeError(f"an Experiment needs {', '.join(missing)}")
        unknown = stated.keys() - {*_NEEDED, *_OF_PROBLEM, *_OF_TESTS, *_OF_RUN}
        if unknown:
            raise TypeError(f"an Experiment has no {', '.join(sorted(unknown))}")
        training = [name for name in OF_TRAINING if name not in BY_THEIR_CLASS]
        checked = ("rho", *training, "test_context", "test_rho", "test_drift", "test_prompts")
        check_arguments(**{name: stated[name] for name in checked if name in stated})
        problem = _problem(stated)
        test = _test(stated, problem)
        return cls(
            problem,
            prompts=stated["prompts"],
            balanced=stated.get("balanced", False),
            loss=_loss(stated),
            training=training_of(stated),
            model=Reduced(stated.get("gates"), stated.get("normalization", "mean")),
            test=test,
        )

    def keywords(self) -> dict[str, Any]:
        """Flat keywords of the run, those of `of`, without what has its default there."""
        problem = self.problem
        found: dict[str, Any] = {"dim": self.dim, "context": problem.context}
        found["tasks"] = problem.tasks
        found["prompts"] = self.prompts
        found["rho"] = problem.noise_variance
        for name, usual in _OF_PROBLEM.items():
            if _differs(getattr(problem, name), usual):
                found[name] = getattr(problem, name)
        if "task_covariance" in found:
            found.pop("task_law", None)
        for part in fields(self.training):
            value = getattr(self.training, part.name)
            if value != part.default:
                found[part.name] = value
        if self.balanced:
            found["balanced"] = True
        found |= _loss_keywords(self.loss)
        if self.model.normalization != "mean":
            found["normalization"] = self.model.normalization
        if self.model.gates is not None:
            found["gates"] = self.model.gates
        if self.test is not None:
            for name, own in _OF_TESTS.items():
                value = getattr(self.test.problem, own)
                if _differs(value, getattr(problem, own)):
                    found[name] = value
            if "test_covariance" in found:
                found.pop("test_task_law", None)
            found |= given({"test_gates": self.test.gates, "test_prompts": self.test.prompts})
        return found

    def statement(self) -> dict[str, Any]:
        """What makes its name and its seed: flat, sorted by name, arrays by their digest."""
        return dict(self._statement)

    @cached_property
    def _statement(self) -> dict[str, Any]:
        """The statement, found once: digests of arrays take time."""
        stated = {name: canonical(value) for name, value in self.keywords().items()}
        return dict(sorted(stated.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and self._statement == other._statement

    def __hash__(self) -> int:
        return hash((self.problem, self.prompts))

    def __repr__(self) -> str:
        parts = [repr(self.problem), f"prompts={self.prompts!r}"]
        usual = {each.name: each.default for each in fields(Experiment)}
        for name in ("balanced", "loss", "training"):
            if getattr(self, name) != usual[name]:
                parts.append(f"{name}={getattr(self, name)!r}")
        model = []
        if self.model.gates is not None:
            model.append(f"gates={self.model.gates.tolist()}")
        if self.model.normalization != "mean":
            model.append(f"normalization={self.model.normalization!r}")
        if model:
            parts.append(f"model=Reduced({', '.join(model)})")
        if self.test is not None:
            parts.append(f"test={self.test!r}")
        return f"Experiment({', '.join(parts)})"


Experiment.__init__ = explaining(Experiment.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True, eq=False)
class Point:
    r"""A run in the limit: ratios in the place of integers.

    Numbers are single ones; one of them may be a tuple, which makes the point a sweep.

    Parameters
    ----------
    tau, alpha, kappa : float > 0
        Prompts over squared dimension, context length and number of tasks over dimension.
    rho : float >= 0
        Variance of the label noise over that of labels without noise.
    ridge : float >= 0
        Short for ``training=Ridge(ridge)``.
    time : float >= 0, optional
        Short for ``training=Flow(time, ridge, start_variance)``.
    start_variance : float, 0 <= start_variance <= 1e9
        Of a flow.
    task_law, input_law, drift, correlation, correlated_query, link, flips
        As in `Problem`; tasks are on the sphere.
    test_alpha, test_rho : float, optional
        Those of the test prompts; as in training by default.
    sequence_ratio : float > 0, optional
        Sequences over dimension, in place of ``tau``: the loss is then that of `AllPositions`.
    alpha_min : float >= 0
        First position that counts over dimension, where there is a ``sequence_ratio``.
    normalization : {"mean", "length"}
        As of `Reduced`, where there is a ``sequence_ratio``.

    Raises
    ------
    TypeError
        If neither tau nor sequence_ratio is given, or both.
    ValueError
        If a number is outside its range, or several parameters are tuples.

    Examples
    --------
    >>> from iclimit import Point
    >>> point = Point(tau=4, alpha=2, kappa=1, rho=0.1, ridge=0.1)
    >>> run = point.at(dim=40)
    >>> run.prompts, run.problem.context, run.problem.tasks
    (6400, 80, 40)
    >>> [run.prompts for run in Point(tau=(1, 2), alpha=1, rho=0.1).at(dim=20)]
    [400, 800]
    >>> run = Point(sequence_ratio=2, alpha=1, alpha_min=0.25, rho=0.1, ridge=0.1).at(dim=20)
    >>> run.prompts, run.loss
    (40, AllPositions(first=5, weights=None))
    """

    _: KW_ONLY
    tau: Any = None
    alpha: Any
    kappa: Any = math.inf
    rho: Any = 0.0
    ridge: Any = 0.0
    task_law: str = "sphere"
    input_law: str = "gaussian"
    drift: Any = 0.0
    correlation: Any = 0.0
    correlated_query: bool = False
    link: Any = "identity"
    flips: Any = 0.0
    test_alpha: Any = None
    test_rho: Any = None
    time: Any = None
    start_variance: Any = 0.0
    sequence_ratio: Any = None
    alpha_min: Any = 0.0
    normalization: str = "mean"

    def __post_init__(self) -> None:
        self._check_prompts()
        if isinstance(self.link, tuple):  # a link in two parts is no sweep
            object.__setattr__(self, "link", parse_link(self.link))
        swept = [part.name for part in fields(self) if isinstance(getattr(self, part.name), tuple)]
        if len(swept) > 1:
            raise ValueError(f"a Point has at most one tuple, got {' and '.join(swept)}")
        for name in swept:
            if not getattr(self, name):
                raise ValueError(f"{name} must be a number or a tuple of numbers, got ()")
        for point in self.singles():
            numbers = {name: getattr(point, name) for name in _RATIOS}
            check_arguments(**given(numbers))
            if self.sequence_ratio is not None and point.alpha_min >= point.alpha:
                raise ValueError(
                    f"alpha_min must be below alpha, got {point.alpha_min:g} at alpha = "
                    f"{point.alpha:g}: it is where the loss begins"
                )

    def _check_prompts(self) -> None:
        """Raise a TypeError unless there are prompts or sequences, and what belongs to them."""
        if (self.tau is None) == (self.sequence_ratio is None):
            given_both = "not both" if self.tau is not None else "got neither"
            raise TypeError(
                "a Point needs tau, prompts over squared dimension, or sequence_ratio, sequences "
                f"over dimension where every position counts: {given_both}"
            )
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        if self.sequence_ratio is None and (self.alpha_min or self.normalization != "mean"):
            name = "alpha_min" if self.alpha_min else "normalization"
            raise TypeError(f"{name} needs a sequence_ratio: it is of runs on all positions")
        if self.sequence_ratio is None:
            return
        for name in ("time", "link", "flips", "drift", "correlation", "correlated_query"):
            if _differs(getattr(self, name), getattr(Point, name)):
                raise ValueError(
                    f"{name} must be left out beside sequence_ratio, got {getattr(self, name)!r}: "
                    "the limit of runs on all positions is that of linear labels and of ridge "
                    "regression"
                )

    def singles(self) -> tuple[Point, ...]:
        """The points of a sweep; the point itself where nothing is swept."""
        for part in fields(self):
            values = getattr(self, part.name)
            if isinstance(values, tuple):
                return tuple(replace(self, **{part.name: value}) for value in values)
        return (self,)

    @property
    def limit(self) -> dict[str, Any]:
        """Keywords of the theory in the limit; a swept parameter is an array."""
        numbers = given({name: getattr(self, name) for name in _LIMIT})
        if self.sequence_ratio is not None:
            numbers["alpha_min"] = self.alpha_min
            if self.normalization != "mean":
                numbers["normalization"] = self.normalization
        numbers |= {
            name: getattr(self, name)
            for name in ("link", "flips")
            if getattr(self, name) != getattr(Point, name)
        }
        if self.time is not None:
            numbers |= {name: getattr(self, name) for name in ("time", "start_variance")}
        return {
            name: np.array(value, dtype=float) if isinstance(value, tuple) else value
            for name, value in numbers.items()
        }

    def at(self, dim: int) -> Any:
        """The run at a dimension, with integers rounded; a tuple of runs for a sweep."""
        check_integers(dim=dim)
        points = self.singles()
        if points != (self,):
            return tuple(point.at(dim) for point in points)
        ratios = given({name: getattr(self, name) for name in ("tau", "alpha", "kappa")})
        stated: dict[str, Any] = {"dim": dim, "rho": self.rho} | sizes_of(dim, ratios)
        if self.sequence_ratio is not None:
            stated["prompts"] = max(1, round(self.sequence_ratio * dim))
            stated["first_position"] = max(1, round(self.alpha_min * dim))
            stated["normalization"] = self.normalization
        stated |= given({name: getattr(self, name) for name in OF_FLOW})
        stated |= {name: getattr(self, name) for name in _LAWS}
        if self.test_alpha is not None:
            stated |= sizes_of(dim, {"test_alpha": self.test_alpha})
        stated["test_rho"] = self.test_rho
        return replace(Experiment.of(**stated), point=self)


Point.__init__ = explaining(Point.__init__)  # type: ignore[method-assign]

# Parameters of a point that are those of the limit, those whose range is checked, and laws.
_LIMIT = ("tau", "sequence_ratio", "alpha", "kappa", "rho", "ridge", "test_alpha", "test_rho")
_RATIOS = (*_LIMIT, "drift", "flips", "time", "start_variance", "alpha_min")
_LAWS = ("task_law", "input_law", "drift", "correlation", "correlated_query", "link", "flips")

# Kinds of the parts of an experiment.
_KINDS: dict[str, Any] = {
    "problem": Problem,
    "loss": Loss,
    "training": Training,
    "model": Reduced,
    "test": Test,
}


def _alternatives(kind: Any) -> tuple[type, ...]:
    """Types that a part may be of."""
    return get_args(kind) or (kind,)


def check_training(run: Experiment, *kinds: type) -> None:
    """Check that a run is trained in one of these ways.

    Raises
    ------
    ValueError
        If it is not.
    """
    if not isinstance(run.training, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"training must be {names} here, got {run.training!r}")


def check_loss(run: Experiment, *kinds: type) -> None:
    """Check that a run minimises one of these losses, by default that of the last position.

    Raises
    ------
    ValueError
        If it does not.
    """
    allowed = kinds or (LastPosition,)
    if not isinstance(run.loss, allowed):
        names = " or ".join(kind.__name__ for kind in allowed)
        raise ValueError(f"loss must be {names} here, got {run.loss!r}")


def _loss(stated: Mapping[str, Any]) -> Loss:
    """Loss from flat keywords: of all positions where there is a first one, or of lengths."""
    first = stated.get("first_position")
    weights = stated.get("position_weights")
    lengths = stated.get("lengths")
    probabilities = stated.get("length_probabilities")
    if weights is not None and first is None:
        raise TypeError("position_weights needs a first_position")
    if probabilities is not None and lengths is None:
        raise TypeError("length_probabilities needs lengths")
    if first is not None and lengths is not None:
        raise TypeError("first_position and lengths are of different losses: give one of them")
    if first is not None:
        return AllPositions(first, weights)
    return LastPosition() if lengths is None else RandomLength(lengths, probabilities)


def _loss_keywords(loss: Loss) -> dict[str, Any]:
    """Flat keywords of a loss, none for that of the last position."""
    if isinstance(loss, AllPositions):
        return given({"first_position": loss.first, "position_weights": loss.weights})
    if isinstance(loss, RandomLength):
        return given({"lengths": loss.lengths, "length_probabilities": loss.probabilities})
    return {}


def check_is_experiment(run: object) -> None:
    """Raise a TypeError for what is no experiment; of a point it says what is missing."""
    if isinstance(run, Experiment):
        return
    hint = "; a Point is run at a dimension: point.at(dim=40)" if isinstance(run, Point) else ""
    raise TypeError(f"run must be an Experiment, got {run!r}{hint}")


def _problem(stated: Mapping[str, Any]) -> Problem:
    """Law of the training prompts, from flat keywords."""
    law = {name: stated[name] for name in _OF_PROBLEM if name in stated}
    law.setdefault("task_law", "sphere")
    if "task_covariance" in law:
        law["task_law"] = "gaussian"
    dim = stated["dim"]
    context = stated["context"]
    return Problem(dim, context, tasks=stated["tasks"], noise_variance=float(stated["rho"]), **law)


def _test(stated: Mapping[str, Any], problem: Problem) -> Test | None:
    """Test prompts, from flat keywords; None where they are as in training."""
    changes = {own: stated[name] for name, own in _OF_TESTS.items() if name in stated}
    gates = stated.get("test_gates")
    prompts = stated.get("test_prompts")
    if not changes and gates is None and prompts is None:
        return None
    if "correlation" in changes:
        tokens = changes.get("context", problem.context) + problem.correlated_query
        check_kernel("test_correlation", changes["correlation"], tokens)
    if "task_covariance" in changes:
        covariance = parse_covariance("test_covariance", changes["task_covariance"], problem.dim)
        changes |= {"task_covariance": covariance, "task_law": "gaussian"}
    return Test(problem.with_fresh_tasks(**changes), gates, prompts)


def _differs(value: object, usual: object) -> bool:
    """Whether a value is another one than usual, of arrays entry by entry."""
    if callable(value) or callable(usual):  # functions as links, which no statement can hold
        return value is not usual
    return canonical(value) != canonical(usual)
