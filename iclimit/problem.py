r"""The law of the prompts: inputs, tasks, noise, sizes and units of regression in context.

A prompt holds N pairs and a query, with labels

.. math:: y = \langle w, x\rangle + \epsilon, \qquad x = s\, T z, \qquad
   T T^\top = \Sigma, \qquad \epsilon \sim N(0, \sigma^2) .

The coordinates z are independent and follow one law.  Tasks w follow a law of their own, are one
of k tasks that do not change, or are a mixture of fresh tasks with one shared task.  The noise
level may differ between prompts.  A `Problem` says all this and draws nothing: its samplers are in
`iclimit.simulate.prompts`.

**Units.**  In the units of this library, ``scale=None``, input coordinates have variance 1/d, so
that labels without noise have the variance of a task coordinate, 1, and ``noise_variance`` is the
:math:`\rho` of the theory.  With ``scale=1`` coordinates are as their law has them: of variance 1
if Gaussian, 1/3 if uniform.  That is how the gradient-descent literature writes them.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any

import numpy as np

from iclimit.checks import (
    check_arguments,
    check_choice,
    check_flag,
    check_kernel,
    parse_array,
    parse_covariance,
    parse_kernel,
    parse_tasks,
)
from iclimit.links import ODD, LinkLike, link_text, parse_link, stored_link
from iclimit.notation import explaining, ratios_of
from iclimit.scale_laws import ScaleLawLike, parse_scale_law
from iclimit.units import Convention, get_convention

# Variances of one coordinate by law: N(0, 1), U(-1, 1), random signs, and the Laplace law with
# density exp(-|z|)/2.
COORDINATE_VARIANCE = {"gaussian": 1.0, "uniform": 1 / 3, "rademacher": 1.0, "laplace": 2.0}

TASK_LAWS = ("sphere", "gaussian")

# Least dimension for each of several outputs for which the theory counts them as prompts.
DIM_PER_OUTPUT = 10

# Link and flips of linear labels.
_LINEAR = {"link": "identity", "flips": 0.0}

# Largest noise level: its square and sums of such squares are finite.
LARGEST_LEVEL = 1e100

_NOISE_LAWS = (
    "fixed:SIGMA, uniform:SIGMA_MAX or categorical:SIGMA,SIGMA,... "
    f"with levels from 0 to {LARGEST_LEVEL:g}"
)


@dataclass(frozen=True)
class NoiseLaw:
    r"""Law of the noise level :math:`\sigma` of a prompt, a standard deviation.

    Attributes
    ----------
    kind : {"fixed", "uniform", "categorical"}
        One level; uniform from 0 to the level; one of the levels, all equally likely.
    levels : tuple of float
        From 0 to 1e100.

    Raises
    ------
    ValueError
        If it is no such law.

    Examples
    --------
    >>> from iclimit.problem import NoiseLaw
    >>> NoiseLaw.parse("categorical:1,3")
    NoiseLaw(kind='categorical', levels=(1.0, 3.0))
    >>> NoiseLaw.parse("uniform:3").mean_variance
    3.0
    """

    kind: str
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        known = self.kind in ("fixed", "uniform", "categorical")
        counted = len(self.levels) == 1 or (self.kind == "categorical" and self.levels)
        inside = all(0 <= level <= LARGEST_LEVEL for level in self.levels)
        if not (known and counted and inside):
            raise ValueError(f"noise_law must be {_NOISE_LAWS}, got {self}")

    @classmethod
    def parse(cls, noise_law: str | NoiseLaw) -> NoiseLaw:
        """Read "fixed:1", "uniform:5" or "categorical:1,3,5"; a law is returned as it is.

        Raises
        ------
        ValueError
            If the text is none of these.
        """
        if isinstance(noise_law, NoiseLaw):
            return noise_law
        kind, _, numbers = str(noise_law).partition(":")
        try:
            return cls(kind, tuple(float(number) for number in numbers.split(",")))
        except ValueError:
            raise ValueError(f"noise_law must be {_NOISE_LAWS}, got {noise_law!r}") from None

    def __str__(self) -> str:
        numbers = (repr(float(level)).removesuffix(".0") for level in self.levels)
        return f"{self.kind}:{','.join(numbers)}"

    @property
    def mean_variance(self) -> float:
        r"""Mean noise variance :math:`E \sigma^2`."""
        mean = math.fsum(level**2 for level in self.levels) / len(self.levels)
        return mean / 3 if self.kind == "uniform" else mean

    def times(self, factor: float) -> NoiseLaw:
        """The law of the levels times a number."""
        return NoiseLaw(self.kind, tuple(factor * level for level in self.levels))


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    r"""Law of the prompts that a model learns from and is judged on.

    Parameters
    ----------
    dim : int >= 1
        Dimension d of the inputs.
    context : int >= 1
        Number N of labelled pairs in a prompt.
    tasks : int >= 1, inf, or array (k, d)
        Number of tasks that all prompts of one run share; inf for a fresh task in every prompt; or
        the tasks themselves.
    noise_variance : float >= 0
        Variance of the label noise, in the context and in the label of the query.
    noise_law : str or NoiseLaw, optional
        Law of a noise level drawn for each prompt, instead of ``noise_variance``:
        "fixed:SIGMA", "uniform:SIGMA_MAX" or "categorical:SIGMA,SIGMA,..." in standard deviations.
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}
        Law of the independent coordinates z: N(0, 1), U(-1, 1), random signs, or the Laplace law
        with density exp(-\|z\|)/2.
    scale : float > 0, optional
        Factor s of the inputs.  By default it gives input coordinates the variance 1/d, the units
        of this library; 1 leaves them as their law has them.
    input_covariance : array (d,) or (d, d), optional
        Covariance :math:`\Sigma`, or the eigenvalues of a diagonal one; the identity by default.
    mixing : array (d, d), optional
        Root T of :math:`\Sigma`, instead of ``input_covariance``; otherwise T is the symmetric
        root.  Gaussian inputs do not depend on which root it is.
    task_law : {"gaussian", "sphere"}
        Law of tasks: normal, or uniform on a sphere; both with coordinates of variance
        task_variance.
    task_variance : float > 0
        Variance of a task coordinate.
    task_covariance : array (d,) or (d, d), optional
        Covariance of the tasks over their variance; the identity by default.
    fresh_fraction : float in [0, 1]
        Fraction of the prompts with tasks of their law; all others have one and the same task.
    shared_task : array (d,), optional
        That task; needed, and allowed, only for ``fresh_fraction`` below 1.
    drift : float >= 0
        Rate :math:`\vartheta` at which the task changes from pair to pair.  The law above is that
        of the query's task; a pair earlier it is :math:`e^{-\vartheta/d}` times this one plus a
        Gaussian part with the covariance of the tasks.
    correlation : float in (-1, 1), or array
        Correlation of the inputs of neighbouring pairs, a first-order autoregression, for Gaussian
        inputs; or the correlations at distances 0, 1, ... of any stationary process, the first of
        them 1, and 0 beyond those given.
    correlated_query : bool
        Whether the query continues the sequence; otherwise it is independent of the pairs.
    link : str, (str, number), (number, number) or callable
        Function g of the labels :math:`g(z) + \epsilon` with :math:`z = \langle w, x\rangle` of
        variance 1, as in `iclimit.pretraining.effective_labels`; the noise variance is then that
        of :math:`\epsilon`.  In other units z and the labels are over the unit of the labels.
    flips : float in [0, 1]
        Probability that a label, in the context or of the query, has the other sign.
    scale_law : ("student", number) or (points, probabilities), optional
        Law of a scale u of mean 1 that is drawn for every token: inputs are :math:`\sqrt u` times
        Gaussian ones, as in `iclimit.pretraining.elliptical_errors`.
    outputs : int >= 1
        Number C of labels of a token.  Each output of a prompt has its own of the tasks and its
        own noise.  All share the inputs, and one :math:`\Gamma` answers for all, trained on their
        mean loss.  Errors are those of one output.

    Raises
    ------
    ValueError
        If an argument is outside its range or has another shape, or two contradict each other.

    Examples
    --------
    >>> import iclimit
    >>> problem = iclimit.Problem(dim=40, context=40, tasks=20, noise_variance=0.01)
    >>> problem.limit
    {'alpha': 1.0, 'kappa': 0.5, 'rho': 0.01}
    >>> round(float(iclimit.icl_error(tau=2, **problem.limit, ridge=0.1)), 4)
    1.0714
    >>> classes = iclimit.Problem(dim=20, context=40, tasks=40, link="sign")
    >>> classes.limit
    {'alpha': 2.0, 'kappa': 2.0, 'rho': 0.0, 'link': 'sign'}
    >>> round(float(iclimit.icl_error(tau=2, **classes.limit, ridge=0.05)), 4)
    1.1933
    """

    dim: int
    context: int
    _: KW_ONLY
    tasks: Any = math.inf
    noise_variance: float = 0.0
    noise_law: str | NoiseLaw | None = None
    input_law: str = "gaussian"
    scale: float | None = None
    input_covariance: Any = None
    mixing: Any = None
    task_law: str = "gaussian"
    task_variance: float = 1.0
    task_covariance: Any = None
    fresh_fraction: float = 1.0
    shared_task: Any = None
    drift: float = 0.0
    correlation: Any = 0.0
    correlated_query: bool = False
    link: LinkLike = "identity"
    flips: float = 0.0
    scale_law: ScaleLawLike | None = None
    outputs: int = 1

    def __post_init__(self) -> None:
        numbers = ["dim", "context", "task_variance", "noise_variance", "fresh_fraction"]
        numbers += ["drift", "flips", "outputs"]
        if self.scale is not None:
            numbers.append("scale")
        check_arguments(**{name: getattr(self, name) for name in numbers})
        check_flag("correlated_query", self.correlated_query)
        check_choice("input_law", self.input_law, tuple(COORDINATE_VARIANCE))
        check_choice("task_law", self.task_law, TASK_LAWS)
        self._set("link", stored_link(self.link))
        self._parse_scale_law()
        self._parse_correlation()
        count, given = parse_tasks(self.tasks, self.dim)
        self._set("tasks", count if given is None else given)
        self._parse_covariances()
        if self.noise_law is not None:
            if self.noise_variance:
                raise ValueError(
                    "noise_law must be None where noise_variance is given, got both "
                    f"noise_variance={self.noise_variance!r} and {self.noise_law!r}"
                )
            self._set("noise_law", NoiseLaw.parse(self.noise_law))
        self._parse_mixture()

    def _parse_scale_law(self) -> None:
        if self.scale_law is None:
            return
        self._set("scale_law", parse_scale_law(self.scale_law).stored)
        if self.input_law != "gaussian":
            raise ValueError(
                f"input_law must be gaussian where scale_law is given, got {self.input_law!r}"
            )
        if self.is_correlated:
            raise ValueError(
                f"correlation must be 0 where scale_law is given, got {self.correlation!r}"
            )
        if not self.has_linear_labels:
            raise ValueError(f"link must be identity where scale_law is given, got {self.link!r}")

    def _parse_correlation(self) -> None:
        check_kernel("correlation", self.correlation, self.context + self.correlated_query)
        if np.ndim(self.correlation):
            lags = np.asarray(self.correlation, dtype=float)
            self._set("correlation", lags if np.any(lags[1:]) else 0.0)
        if self.is_correlated and self.input_law != "gaussian":
            raise ValueError(
                f"input_law must be gaussian for correlated inputs, got {self.input_law!r}"
            )

    def _parse_covariances(self) -> None:
        if self.mixing is not None:
            if self.input_covariance is not None:
                raise ValueError("input_covariance must be None where mixing is given")
            self._set("mixing", parse_array("mixing", self.mixing, 2 * (self.dim,)))
        for name in ("input_covariance", "task_covariance"):
            if getattr(self, name) is not None:
                self._set(name, parse_covariance(name, getattr(self, name), self.dim))

    def _parse_mixture(self) -> None:
        if (self.fresh_fraction < 1) != (self.shared_task is not None):
            raise ValueError(
                "shared_task must be given for fresh_fraction below 1, and only then, "
                f"got {self.shared_task!r} with fresh_fraction = {self.fresh_fraction!r}"
            )
        if self.shared_task is None:
            return
        task = parse_array("shared_task", self.shared_task, (self.dim,))
        if not task @ self.covariance_of_inputs @ task > 0:
            raise ValueError(f"shared_task must have labels other than zero, got {task!r}")
        self._set("shared_task", task)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((self.dim, self.context))

    def _set(self, name: str, value: Any) -> None:
        kept = value.copy() if isinstance(value, np.ndarray) else value
        object.__setattr__(self, name, kept)

    def with_fresh_tasks(self, **changes: Any) -> Problem:
        """The same law with a fresh task in every prompt, and with other changes."""
        return replace(self, tasks=math.inf, fresh_fraction=1.0, shared_task=None, **changes)

    @classmethod
    def of_paper(
        cls, convention: str | Convention, *, dim: int, context: int, **settings: Any
    ) -> Problem:
        """Problem with inputs and tasks as in a paper.

        Parameters
        ----------
        convention : str or Convention
            Its name, such as "vonoswald2023".
        dim : int >= 1
            Dimension of the inputs.
        context : int >= 1
            Number of labelled pairs in a prompt.
        **settings
            What else a `Problem` takes; a noise variance is one of labels in these units.

        Raises
        ------
        ValueError
            If the convention is unknown, or a setting is what it says.

        Examples
        --------
        >>> import iclimit
        >>> problem = iclimit.Problem.of_paper("vonoswald2023", dim=10, context=10)
        >>> problem.input_law, problem.scale
        ('uniform', 0.5)
        """
        chosen = get_convention(convention)
        law: dict[str, Any] = {"input_law": chosen.input_law, "task_law": chosen.task_law}
        law |= _units(chosen, dim, context, chosen.input_law)
        for name in sorted(law.keys() & settings.keys()):
            raise ValueError(
                f"{name} must not be given with units of {chosen.name}, which fix it, "
                f"got {settings[name]!r}"
            )
        return cls(dim, context, **law, **settings)

    def in_units(self, convention: str | Convention) -> Problem:
        """The same law in the units of a paper: inputs, tasks and noise times numbers.

        Parameters
        ----------
        convention : str or Convention
            Its name, such as "vonoswald2023".

        Raises
        ------
        ValueError
            If the convention is unknown.

        Examples
        --------
        >>> import iclimit
        >>> problem = iclimit.Problem(dim=20, context=40, noise_variance=0.25)
        >>> problem.in_units("versatile2024").noise_variance
        5.0
        """
        chosen = get_convention(convention)
        units = _units(chosen, self.dim, self.context, self.input_law)
        scaled = replace(self, **units)
        labels = scaled.label_unit / self.label_unit
        tasks = math.sqrt(scaled.task_variance / self.task_variance)
        return replace(
            scaled,
            tasks=self.tasks if self.task_set is None else tasks * self.task_set,
            shared_task=None if self.shared_task is None else tasks * self.shared_task,
            noise_variance=labels * self.noise_variance,
            noise_law=None if self.noise_law is None else self.level_law.times(math.sqrt(labels)),
        )

    @property
    def limit(self) -> dict[str, Any]:
        """Parameters of the limit that are defined, as keywords of the theory."""
        ratios = ratios_of(self.dim, {"context": self.context, "tasks": self.task_count})
        limit = ratios | {"rho": self.mean_noise_variance / self.label_unit} | self.labels
        return limit if self.scale_law is None else limit | {"scale_law": self.scale_law}

    @property
    def labels(self) -> dict[str, Any]:
        """Link and flips as keywords of the theory; nothing for linear labels."""
        stated = {"link": self.link, "flips": self.flips}
        return {name: stated[name] for name in stated if stated[name] != _LINEAR[name]}

    @property
    def has_linear_labels(self) -> bool:
        """Whether labels without noise are linear in the inputs."""
        return not self.labels

    @property
    def task_set(self) -> np.ndarray | None:
        """The tasks (k, d) that are given; None where they follow their law."""
        return self.tasks if isinstance(self.tasks, np.ndarray) else None

    @property
    def task_count(self) -> float:
        """Number of tasks; inf where every prompt has one of its own."""
        return len(self.tasks) if isinstance(self.tasks, np.ndarray) else self.tasks

    @property
    def is_correlated(self) -> bool:
        """Whether inputs of different pairs are correlated."""
        return bool(np.any(self.correlation))

    @property
    def kernel(self) -> np.ndarray:
        """Correlations at distances 0, 1, ... of the inputs of pairs and of a correlated query."""
        tokens = self.context + self.correlated_query
        return parse_kernel("correlation", self.correlation, tokens)

    @property
    def input_scale(self) -> float:
        """Factor s of the inputs."""
        if self.scale is not None:
            return self.scale
        return 1 / math.sqrt(COORDINATE_VARIANCE[self.input_law] * self.dim)

    @property
    def input_variance(self) -> float:
        """Variance of an input coordinate where the covariance is the identity."""
        if self.scale is None:
            return 1 / self.dim
        return self.scale**2 * COORDINATE_VARIANCE[self.input_law]

    @property
    def label_unit(self) -> float:
        """Variance of a label without noise where both covariances are the identity."""
        return self.task_variance * self.input_variance * self.dim

    @property
    def mean_noise_variance(self) -> float:
        """Variance of the label noise, on average over prompts."""
        if isinstance(self.noise_law, NoiseLaw):
            return self.noise_law.mean_variance
        return float(self.noise_variance)

    @property
    def level_law(self) -> NoiseLaw:
        """Law of the noise level of a prompt."""
        if isinstance(self.noise_law, NoiseLaw):
            return self.noise_law
        return NoiseLaw("fixed", (math.sqrt(self.noise_variance),))

    @property
    def covariance_of_inputs(self) -> np.ndarray:
        """Covariance of the inputs in the units of the problem, (d, d)."""
        if self.mixing is not None:
            return self.input_variance * self.mixing @ self.mixing.T
        return self.input_variance * _matrix(self.input_covariance, self.dim)

    @property
    def covariance_of_tasks(self) -> np.ndarray:
        """Covariance of the tasks of their law in the units of the problem, (d, d)."""
        return self.task_variance * _matrix(self.task_covariance, self.dim)

    @property
    def label_square(self) -> float:
        """Mean square of a label: the loss of predicting zero.

        Raises
        ------
        ValueError
            If labels are not linear.
        """
        check_linear(self)
        inputs = self.covariance_of_inputs
        square = self.fresh_fraction * float(np.sum(inputs * self.covariance_of_tasks))
        if self.shared_task is not None:
            own = self.shared_task @ inputs @ self.shared_task
            square += (1 - self.fresh_fraction) * float(own)
        return square + self.mean_noise_variance

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.describe().items())
        return f"Problem({', '.join(shown)})"

    def describe(self) -> dict[str, Any]:
        """What differs from the defaults, as numbers, text and lists."""
        content: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, np.ndarray):
                content[each.name] = value.tolist()
            elif each.name in ("dim", "context") or value != each.default:
                content[each.name] = str(value) if isinstance(value, NoiseLaw) else value
        return content


Problem.__init__ = explaining(Problem.__init__)  # type: ignore[method-assign]


def _matrix(covariance: np.ndarray | None, dim: int) -> np.ndarray:
    if covariance is None:
        return np.eye(dim)
    return np.diag(covariance) if covariance.ndim == 1 else covariance


def _units(convention: Convention, dim: int, context: int, input_law: str) -> dict[str, Any]:
    """Scale and variance of the tasks in a convention."""
    units = convention.units(dim=dim, context=context)
    variance = units.value("input_variance") / COORDINATE_VARIANCE[input_law]
    return {"scale": math.sqrt(variance), "task_variance": units.value("task_variance")}


def check_linear(problem: Problem) -> None:
    """Check that labels without noise are linear in the inputs.

    Raises
    ------
    ValueError
        If they are not.
    """
    for name, value in problem.labels.items():
        raise ValueError(f"problem must have {name} = {_LINEAR[name]} here, got {value!r}")


def check_one_output(problem: Problem) -> None:
    """Check that tokens have one label.

    Raises
    ------
    ValueError
        If they have several.
    """
    if problem.outputs != 1:
        raise ValueError(f"problem must have outputs = 1 here, got {problem.outputs!r}")


def check_few_outputs(problem: Problem) -> None:
    """Check that several outputs are such that the theory can count them as prompts.

    Raises
    ------
    ValueError
        If they are more than a tenth of the dimension, or their labels have a mean in common.
    """
    if problem.outputs == 1:
        return
    if problem.outputs * DIM_PER_OUTPUT > problem.dim:
        raise ValueError(
            f"outputs must be at most dim / {DIM_PER_OUTPUT} = {problem.dim / DIM_PER_OUTPUT:g} "
            f"here, got {problem.outputs!r}: the theory counts the outputs of a prompt as "
            "prompts, but they share its inputs, which changes errors in proportion to "
            "outputs / dim; iclimit.sample draws such runs"
        )
    link = parse_link(problem.link)
    if link.name not in ODD:
        raise ValueError(
            f"link must be one of {', '.join(ODD)} for several outputs here, got "
            f"{link_text(link)}: labels whose mean over the tasks is not 0 have a part of their "
            "context summaries and noise in common; iclimit.sample draws such runs"
        )


def check_problem(problem: Problem, *settings: str) -> None:
    """Check that a value is a problem with no other settings than a function understands.

    Parameters
    ----------
    problem : Problem
    *settings : str
        Fields, other than dim and context, that may differ from their defaults.

    Raises
    ------
    TypeError
        If it is no problem.
    ValueError
        If another field is set.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {problem!r}")
    given = problem.describe()
    for each in fields(problem):
        if each.name in given and each.name not in ("dim", "context", *settings):
            raise ValueError(
                f"problem must have {each.name} = {each.default} here, got {given[each.name]!r}"
            )


def parse_problem(problem: Problem | None, **settings: Any) -> Problem:
    """A problem as it is given, or from keywords, with a ``scale`` of 1 by default.

    Raises
    ------
    TypeError
        If it is no problem, or given twice.
    """
    if problem is None:
        made = Problem(**settings)
        return made if "scale" in settings else replace(made, scale=1.0)
    if settings:
        raise TypeError(f"{', '.join(settings)} must not be given beside a problem")
    check_problem(problem, *(each.name for each in fields(Problem)))
    return problem
