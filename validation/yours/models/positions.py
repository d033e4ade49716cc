r"""Error of a model against the number of examples before a position, beside algorithms.

A prompt of N pairs and a query is a sequence of N + 1 inputs and labels, the last label being 0.
The model answers at every position from the pairs before it, so one sequence tests contexts of 0
to N examples: the standard figure since Garg, Tsipras, Liang and Valiant (arXiv:2208.01066).  All
algorithms answer the same sequences, and the model is compared with each on the same prompts.

Position i has i pairs before it.  An algorithm has the parameters that are best for each number of
pairs: at each position it is the one of `iclimit.validation.yours.models.baselines` for prompts of
this length.  A layer of a transformer cannot do that, since its weights are the same at all
positions; the best that one layer of causal linear attention can do is "fixed_step".  GD++, whose
best parameters take a search for every number of pairs, and estimates of a varying noise level are
left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.checks import check_arguments
from iclimit.drawing import COLOURS, Axes, draw_estimates, finish
from iclimit.notation import did_you_mean
from iclimit.results import Estimate, Result
from iclimit.simulate.pretraining.covariances import covariance_root
from iclimit.simulate.probing.predictors import (
    Predictor,
    descent_weights,
    in_blocks,
    linear_predictor,
)
from iclimit.simulate.probing.prefixes import (
    all_inputs,
    by_prefix,
    prefix_dmmse,
    prefix_regression,
)
from iclimit.simulate.probing.problem import DrawnPrompts, Problem
from iclimit.tables import aligned
from iclimit.validation.yours.models.baselines import (
    CACHED,
    Baseline,
    one_step_baselines,
    regression_baselines,
    simple_baselines,
    step_baselines,
)
from iclimit.validation.yours.models.fitted_layers import context_moments
from iclimit.validation.yours.models.model import Answering, Model
from iclimit.validation.yours.models.problem_units import ProblemUnits

if TYPE_CHECKING:
    from xarray import Dataset
else:  # xarray is loaded when it is asked for
    Dataset = Any


STEPS = (2, 5)
"""Numbers of steps of gradient descent beside one."""

SLOW = ("adaptive_ridge", "bayes")
"""Algorithms that take a decomposition of every prefix, and are left out."""

FITTED_CONTEXTS = 500
"""Contexts of each length to which rates are fitted where no theory gives them."""


@dataclass(frozen=True, eq=False)
class PositionBaseline:
    """An algorithm that answers at every position of a prompt.

    Attributes
    ----------
    name, description : str
        As of a `Baseline`; the description has the parameters of the last position.
    predict : callable
        Predictions (n, N + 1) for prompts of N pairs and a query, which is the last position.
    losses : array (N + 1,)
        Exact mean squared errors on noisy labels of fresh tasks; NaN where they are not known.
    """

    name: str
    description: str
    predict: Predictor
    losses: np.ndarray


def position_baselines(
    problem: Problem, names: Collection[str] | None = None
) -> list[PositionBaseline]:
    """Algorithms at every position, with the parameters that are best for each number of pairs.

    Parameters
    ----------
    problem : Problem
        Law of the prompts, whose context is what the last position has before it.
    names : collection of str, optional
        Only those of these names.

    Returns
    -------
    list of PositionBaseline
        "null", "averaging", "nearest_neighbours", "one_step", "fixed_step", "preconditioner"
        (where there is a covariance), "steps_2", "steps_5", "least_squares", "ridge" (where it is
        not least squares), "oracle_ridge" (where the noise level varies), "dmmse" (where tasks
        are given).

    Examples
    --------
    >>> from iclimit.simulate.probing.problem import Problem
    >>> from iclimit.validation.yours.models.positions import position_baselines
    >>> for each in position_baselines(Problem(context=40, dim=20))[3:5]:
    ...     print(each.name, each.losses[[0, 10, 20, 40]].round(2))
    one_step [20.   13.55 10.24  6.89]
    fixed_step [20.   14.36 10.45  7.85]
    """
    lengths = [
        ProblemUnits(replace(problem, context=count)) for count in range(1, problem.context + 1)
    ]
    at = [{each.name: each for each in _at_one_length(units, names)} for units in lengths]
    passes, found = _one_pass(problem), []
    for name in dict.fromkeys(name for there in at for name in there):
        chosen = [there[name] for there in at if name in there]
        predict = passes[name] if name in passes else _at_each_length(chosen)
        losses = [there[name].loss if name in there else None for there in at]
        found.append(_position_baseline(lengths, chosen[-1], predict, losses))
        if name == "one_step":
            found.append(_fixed_step(lengths))
    return [each for each in found if names is None or each.name in names]


def _at_one_length(units: ProblemUnits, names: Collection[str] | None) -> Iterator[Baseline]:
    """Algorithms with the parameters for one number of pairs."""
    steps = [count for count in STEPS if names is None or f"steps_{count}" in names]
    fitted = steps and not units.solved
    moments = context_moments(units, max(STEPS), FITTED_CONTEXTS) if fitted else None
    yield from simple_baselines(units)
    yield from one_step_baselines(units)
    yield from step_baselines(units, steps, moments)
    yield from (each for each in regression_baselines(units) if each.name not in SLOW)


def _at_each_length(chosen: Sequence[Baseline]) -> Predictor:
    """Predictor at all positions from those for each number of pairs, from 1 on."""
    return by_prefix(lambda count: chosen[count - 1].predict)


def _one_pass(problem: Problem) -> dict[str, Predictor]:
    """Predictors that take all prefixes at once."""
    a2, covariance = problem.task_variance, problem.task_covariance
    root = None if covariance is None else covariance_root(covariance)
    penalty = problem.mean_noise_variance / a2

    def told(prompts: DrawnPrompts) -> np.ndarray:
        return prefix_regression(prompts, prompts.noise_variance / a2, task_root=root)

    numbers = (problem.context + 1) * problem.dim + problem.dim**2
    passes = {
        "least_squares": in_blocks(prefix_regression, numbers),
        "ridge": in_blocks(partial(prefix_regression, penalty=penalty, task_root=root), numbers),
        "oracle_ridge": in_blocks(told, numbers),
    }
    if problem.tasks is not None:
        posterior = partial(prefix_dmmse, tasks=problem.tasks)
        numbers = CACHED * (problem.context + 1) * len(problem.tasks)
        passes["dmmse"] = in_blocks(posterior, numbers)
    return passes


def _fixed_step(lengths: Sequence[ProblemUnits]) -> PositionBaseline:
    """A step of one rate of the sum over the pairs, best for the mean error over positions."""
    last = lengths[-1]
    eye, unit = np.eye(last.problem.dim), 1 / (last.problem.context * last.input_variance)

    def losses(rate: float) -> list[float]:
        return [each.step_loss(rate * each.problem.context * eye) for each in lengths]

    # The mean loss is a quadratic function of the rate.
    lower, middle, upper = (math.fsum(losses(rate * unit)) for rate in (-1, 0, 1))
    rate = (lower - upper) / (lower + upper - 2 * middle) / 2 * unit
    text = f"a step of one rate of the sum over the pairs, {rate:.4g}, best for all positions"

    def predictor(count: int) -> Predictor:
        return linear_predictor(partial(descent_weights, rates=[rate * count]))

    step = Baseline("fixed_step", text, predictor(last.problem.context))
    return _position_baseline(lengths, step, by_prefix(predictor), losses(rate))


def _position_baseline(
    lengths: Sequence[ProblemUnits],
    last: Baseline,
    predict: Predictor,
    losses: Sequence[float | None],
) -> PositionBaseline:
    """Baseline from that for the last position; without pairs the error is that of zero."""
    zero = lengths[0].step_loss(0 * np.eye(lengths[0].problem.dim))
    known = [math.nan if loss is None else loss for loss in losses]
    # Without pairs dMMSE predicts with the mean of its tasks.
    first = math.nan if last.name == "dmmse" else zero
    return PositionBaseline(last.name, last.description, predict, np.array([first, *known]))


SHOWN = 8
"""Numbers of examples in a printed table, about."""

ROUNDING = 1e-20
"""Errors below this share of the mean square of a label are rounding."""

TOP = 1.3
"""Top of the figure in units of the mean square of a label; least squares has a peak beyond."""


@dataclass(frozen=True, eq=False, repr=False)
class PositionErrors(Result):
    """Errors on fresh tasks by the number of examples; ``print`` shows a table.

    Attributes
    ----------
    problem : Problem
        Law of the prompts.
    examples : array (N + 1,)
        Numbers of examples, from 0 to N.
    model : tuple of Estimate
        Mean squared errors of the model on noisy labels.
    baselines : mapping of str to tuple of Estimate
        The same of the algorithms on the same prompts.
    differences : mapping of str to tuple of Estimate
        Error of the model minus that of the algorithm, with standard errors of the differences.
    theory : mapping of str to array (N + 1,)
        Exact mean squared errors of the algorithms; NaN where they are not known.
    label_square : float
        Mean square of a label: the error of zero.
    """

    problem: Problem
    examples: np.ndarray
    model: tuple[Estimate, ...]
    baselines: Mapping[str, tuple[Estimate, ...]]
    differences: Mapping[str, tuple[Estimate, ...]]
    theory: Mapping[str, np.ndarray]
    label_square: float

    dims = ("algorithm", "examples")

    def columns(self) -> dict[str, Any]:
        """Errors of the model and of each algorithm, with their differences."""
        return {
            "algorithm": list(self.baselines),
            "examples": self.examples,
            "model_error": (self.model,) * len(self.baselines),
            "error": tuple(self.baselines.values()),
            "difference": tuple(self.differences.values()),
            "difference_z": [[_z(each) for each in line] for line in self.differences.values()],
            "theory": np.array(list(self.theory.values())),
        }

    def draw(self, ax: Axes) -> None:
        """Draw errors over the mean square of a label, the model's as points.

        Lines are the exact errors of the algorithms where they are known, otherwise measured.
        """
        styles = [
            (colour, line) for line in ("-", "--", ":") for colour in COLOURS if colour != _MODEL
        ]
        for (name, errors), (colour, line) in zip(self.baselines.items(), styles, strict=False):
            means = np.array([each.mean for each in errors])
            known = np.where(np.isnan(self.theory[name]), means, self.theory[name])
            label = name.replace("_", " ")
            ax.plot(self.examples, known / self.label_square, line, color=colour, label=label)
        scaled = [
            Estimate(each.mean / self.label_square, each.standard_error / self.label_square, 1)
            for each in self.model
        ]
        draw_estimates(ax, self.examples, scaled, _MODEL, label="model", zorder=3)
        ax.set_ylim(0, TOP)
        ylabel = "squared error / mean square of a label"
        finish(ax, "examples in the context", ylabel, legend="", beside=True)

    def __str__(self) -> str:
        last = len(self.examples) - 1
        shown = sorted({round(each) for each in np.linspace(0, last, min(SHOWN, last + 1))})
        lines = [["examples", *(str(self.examples[i]) for i in shown)]]
        lines.append(["model", *(self._cell(self.model[i]) for i in shown)])
        for name, errors in self.baselines.items():
            z = [_z(self.differences[name][i]) for i in shown]
            lines.append([name, *(self._cell(errors[i]) for i in shown)])
            lines.append(["  z of model", *(f"{each:.1f}" for each in z)])
        return "\n".join(aligned(lines, "<>"))

    def _cell(self, error: Estimate) -> str:
        """An error as text; what is rounding is 0."""
        return str(error) if error.mean > ROUNDING * self.label_square else "0"


def _z(difference: Estimate) -> float:
    """Difference in standard errors; 0 between equal answers."""
    return difference.z(0.0) if difference.mean else 0.0


_MODEL = COLOURS[1]


def probe_positions(
    predict: Callable[..., Any],
    problem: Problem,
    *,
    test_prompts: int = 5000,
    baselines: Sequence[str] | None = None,
    batch: int | None = None,
    deterministic: bool = True,
    rng: Any = 0,
    progress: bool = False,
) -> PositionErrors:
    """Error of a model against the number of examples, beside algorithms on the same prompts.

    Parameters
    ----------
    predict : callable
        The model: ``predict(inputs, labels)`` of arrays (batch, N + 1, dim) and (batch, N + 1)
        returns predictions (batch, N + 1), each of the label at its position from the pairs before
        it.  The last label is 0.
    problem : Problem
        Law of the prompts, with context N.
    test_prompts : int >= 1
        Prompts, each with a fresh task.
    baselines : sequence of str, optional
        Names of the algorithms, see `position_baselines`; all by default.
    batch : int >= 1, optional
        Most prompts that the model is given at once.
    deterministic : bool
        Whether a model that answers the same prompt differently is refused.
    rng : int, SeedSequence or Generator
        Root seed of the prompts.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    PositionErrors
        ``print`` shows a table, ``plot`` draws the figure.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the model's answers are no finite numbers of the
        right shape, depend on what comes later, or come with changed arguments.
    TypeError
        If an argument is of another kind.

    References
    ----------
    Garg, Tsipras, Liang and Valiant, NeurIPS 2022 (arXiv:2208.01066), Figure 2: inputs and tasks
    N(0, I), dim 20, without noise, errors over dim.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.probing.problem import Problem
    >>> from iclimit.validation.yours.models.positions import probe_positions
    >>> def averaging(inputs, labels):
    ...     before = np.cumsum(labels[:, :-1, None] * inputs[:, :-1], axis=1)
    ...     weights = before / np.arange(1, inputs.shape[1])[:, None]
    ...     return np.pad(np.sum(weights * inputs[:, 1:], axis=2), ((0, 0), (1, 0)))
    >>> found = probe_positions(averaging, Problem(context=20, dim=5), test_prompts=500)
    >>> max(abs(each.mean) for each in found.differences["averaging"]) < 1e-12
    True
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {problem!r}")
    check_arguments(test_prompts=test_prompts)
    chosen = _chosen(position_baselines(problem), baselines)
    model = Model(predict, batch, deterministic, per_position=True)
    blocks = problem.blocks(test_prompts, rng=rng)
    with tqdm(total=test_prompts, disable=not progress, unit="prompt", desc="positions") as bar:
        return ask_positions(model, chosen, problem, blocks, advance=bar.update)


def ask_positions(
    model: Answering,
    baselines: Sequence[PositionBaseline],
    problem: Problem,
    blocks: Iterable[DrawnPrompts],
    *,
    advance: Callable[[int], object] | None = None,
) -> PositionErrors:
    """Errors of a model and of algorithms at all positions of prompts, see `probe_positions`.

    Parameters
    ----------
    model : Model or Recorded
        Of the form per position.
    baselines : sequence of PositionBaseline
        Algorithms.
    problem : Problem
        Law of the prompts.
    blocks : iterable of DrawnPrompts
        The prompts.
    advance : callable, optional
        Called with the number of prompts after each block.
    """
    names = [each.name for each in baselines]
    columns: list[list[np.ndarray]] = []
    first = 0
    for block in blocks:
        sequences = as_sequences(block)
        if not first:
            model.check(sequences, section="fresh")
        target = (sequences.inputs @ block.tasks[:, :, None])[:, :, 0]
        answers = [
            model.answer(sequences, section="fresh", first=first),
            *(each.predict(block) for each in baselines),
        ]
        columns.append([(each - target) ** 2 + block.noise_variance[:, None] for each in answers])
        first += len(block)
        if advance is not None:
            advance(len(block))
    own, *others = map(np.concatenate, zip(*columns, strict=True))
    units = ProblemUnits(problem)
    return PositionErrors(
        problem=problem,
        examples=np.arange(problem.context + 1),
        model=_estimates(own),
        baselines=dict(zip(names, map(_estimates, others), strict=True)),
        differences={
            name: _estimates(own - each) for name, each in zip(names, others, strict=True)
        },
        theory={each.name: each.losses for each in baselines},
        label_square=units.signal + units.noise_variance,
    )


@dataclass(frozen=True)
class LastPosition:
    """A model that answers at every position, asked for the query after a full context.

    Attributes
    ----------
    model : Model
        Of the form per position.
    """

    model: Model

    def answer(self, drawn: DrawnPrompts, *, section: str, first: int) -> np.ndarray:
        """Answers (n,) to the queries."""
        return self.model.answer(as_sequences(drawn), section=section, first=first)[:, -1]

    def check(self, drawn: DrawnPrompts, *, section: str) -> None:
        """Ask some first prompts again, also with other pairs behind a position."""
        self.model.check(as_sequences(drawn), section=section)


def as_sequences(prompts: DrawnPrompts) -> DrawnPrompts:
    """The same prompts with the query, labelled 0, behind the pairs."""
    labels = np.concatenate([prompts.labels, 0 * prompts.labels[:, :1]], axis=1)
    return replace(prompts, inputs=all_inputs(prompts), labels=labels)


def _estimates(samples: np.ndarray) -> tuple[Estimate, ...]:
    """Estimates of the columns of samples (n, N + 1)."""
    return tuple(Estimate.of(column, keep=False) for column in samples.T)


def _chosen(
    known: Sequence[PositionBaseline], names: Sequence[str] | None
) -> Sequence[PositionBaseline]:
    """Algorithms of these names, all by default."""
    if names is None:
        return known
    if isinstance(names, str):
        raise TypeError(f"baselines must be a list of names, got {names!r}")
    by_name = {each.name: each for each in known}
    for name in names:
        if name not in by_name:
            hint = did_you_mean(name, by_name)
            raise ValueError(f"baselines must be of {', '.join(by_name)}, got {name!r}{hint}")
    return [by_name[name] for name in names]
