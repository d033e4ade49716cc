r"""Error of a model against the number of examples before a position, beside algorithms.

A prompt of N pairs and a query is a sequence of N + 1 inputs and labels, the last label being 0.
The model answers at every position from the pairs before it, so one sequence tests contexts of 0
to N examples: the standard figure since Garg, Tsipras, Liang and Valiant (arXiv:2208.01066).  All
algorithms answer the same sequences, and the model is compared with each on the same prompts.

Position i has i pairs before it.  An algorithm has the parameters that are best for each number of
pairs: at each position it is the one of `iclimit.validation.instruments.models.baselines` for
prompts of this length.  A layer of a transformer cannot do that, since its weights are the same at
all positions; the best that one layer of causal linear attention can do is "fixed_step", and the
best that a linear recurrence with a vector of memory can do is "best_delta_rule".  GD++, whose
best parameters take a search for every number of pairs, and estimates of a varying noise level are
left out.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from iclimit.checks import check_arguments
from iclimit.drawing import COLOURS, Axes, draw_estimates, finish
from iclimit.problem import Problem, check_problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Seed
from iclimit.tables import aligned, plain
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.baselines import choose_baselines, named_algorithms
from iclimit.validation.instruments.models.labels import effective_problem
from iclimit.validation.instruments.models.ladder import Ladder, ladder
from iclimit.validation.instruments.models.model import Answering, Model, ask_all
from iclimit.validation.instruments.models.problem_units import ProblemUnits
from iclimit.validation.instruments.models.sections import LAW, Section
from iclimit.validation.instruments.ratios import z_of
from iclimit.words import counted, measured, z_text

# Contexts of each length to which rates are fitted where no theory gives them.
FITTED_CONTEXTS = 500


def position_baselines(problem: Problem, names: Collection[str] | None = None) -> list[Baseline]:
    """Algorithms at every position, with the parameters that are best for each number of pairs.

    Parameters
    ----------
    problem : Problem
        Law of the prompts, whose context is what the last position has before it.
    names : collection of str, optional
        Only those of these names.

    Returns
    -------
    list of Baseline
        Their predictions (n, N + 1) are for all positions, the query last, and so are their exact
        losses (N + 1,), NaN where they are not known; descriptions have the parameters of the last
        position.  "null", "averaging", "nearest_neighbours", "one_step", "fixed_step",
        "preconditioner" (where there is a covariance), "steps_2", "steps_5", "least_squares",
        "ridge" (where it is not least squares), "oracle_ridge" (where the noise level varies),
        "dmmse" (where tasks are given), "best_delta_rule" (for isotropic Gaussian inputs).

    Examples
    --------
    >>> from iclimit.problem import Problem
    >>> from iclimit.validation.instruments.models.positions import position_baselines
    >>> for baseline in position_baselines(Problem(scale=1, dim=20, context=40))[3:5]:
    ...     print(baseline.name, baseline.loss[[0, 10, 20, 40]].round(2))
    one_step [20.   13.55 10.24  6.89]
    fixed_step [20.   14.36 10.45  7.85]
    """
    counts = range(1, problem.context + 1)
    lengths = [ProblemUnits(replace(problem, context=n), FITTED_CONTEXTS) for n in counts]
    known = [row.at_positions(lengths) for row in named_algorithms(names)]
    return [baseline for baseline in known if baseline is not None]


# An error this many standard errors below the least possible one is no chance.
IMPOSSIBLE = -5.0

# Usual cause of an error below the least possible one.
LEAK = (
    "its answers know labels that they should not: is the mask off by one, so that a position "
    "sees its own label?"
)


def least_possible(problem: Problem, examples: int) -> tuple[str, float]:
    """Algorithm with the least possible error on fresh tasks, and the relative doubt of that.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    examples : int
        Number of examples before a position.

    Returns
    -------
    tuple of str and float
        Its name, empty where it is not known, as for labels that are not linear.  For tasks on a
        sphere Bayes' estimate is better than that of Gaussian tasks by a share of order 2/d at
        most, which is the doubt.
    """
    if not problem.has_linear_labels:
        return "", 0.0
    units = ProblemUnits(problem)
    doubt = 2 / problem.dim if problem.task_law == "sphere" else 0.0
    if examples == 0:
        return "null", 0.0
    if units.noise_varies:  # it is told the noise of each prompt: a bound
        return "oracle_ridge", doubt
    if units.noise_variance > 0:
        return "ridge", doubt
    return ("", 0.0) if problem.task_covariance is not None else ("least_squares", doubt)


@dataclass(frozen=True)
class Impossible:
    """An error below the least possible one.

    Attributes
    ----------
    examples : int
        Number of examples before the position.
    error : Estimate
        What was measured.
    least : float
        The least possible error.
    z : float
        Of the difference.
    """

    examples: int
    error: Estimate
    least: float
    z: float


def impossible_sentence(rows: Sequence[Impossible]) -> str:
    """The errors below the least possible ones, and what usually causes them."""
    first = rows[0]
    count = counted(first.examples, "example")
    others = [str(row.examples) for row in rows[1:]]
    listed = ", ".join(others[:SHOWN]) + (", ..." if len(others) > SHOWN else "")
    further = f" (so are those with {listed})" if others else ""
    z = f", z = {z_text(first.z)}" if math.isfinite(first.z) else ""
    return (
        f"Impossible: with {count} its error is {measured(first.error)}, below the least "
        f"possible, {first.least:.4g}{z}{further}: {LEAK}"
    )


# Numbers of examples in a printed table, about.
SHOWN = 8

# Errors below this share of the mean square of a label are rounding.
ROUNDING = 1e-20

# Colour of the model.
MODEL = COLOURS[1]

# Top of the figure in units of the mean square of a label; least squares has a peak beyond.
TOP = 1.3


@dataclass(frozen=True, eq=False, repr=False)
class PositionErrors(Result):
    """Errors on fresh tasks by the number of examples; ``print`` shows a table.

    Attributes
    ----------
    problem : Problem
        Law of the prompts.
    ladders : tuple of Ladder
        Errors of the model and of the algorithms with 0 to N examples, on the same prompts.
    algorithms : tuple of str
        Names of the algorithms.
    label_square : float
        Mean square of a label: the error of zero.
    """

    problem: Problem
    ladders: tuple[Ladder, ...]
    algorithms: tuple[str, ...]
    label_square: float
    dims = ("algorithm", "examples")

    @property
    def impossible(self) -> list[Impossible]:
        """Positions at which the error of the model is below the least possible one."""
        rows = []
        for examples, errors in enumerate(self.ladders):
            name, doubt = least_possible(self.problem, examples)
            if name not in self.algorithms:
                continue
            rung = errors[name]
            z = z_of(rung.difference, -doubt * rung.error.mean, self.label_square)
            if z < IMPOSSIBLE:
                least = rung.theory if math.isfinite(rung.theory) else rung.error.mean
                rows.append(Impossible(examples, errors.error, least, z))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """All errors, and which of them are impossible."""
        return super().to_dict() | {"impossible": [plain(vars(row)) for row in self.impossible]}

    def columns(self) -> dict[str, Any]:
        """Errors of the model and of the algorithms, by algorithm and number of examples."""
        rows = [[ladder[name].columns() for ladder in self.ladders] for name in self.algorithms]
        model = tuple(ladder.error for ladder in self.ladders)
        return {
            "algorithm": self.algorithms,
            "examples": np.arange(len(self.ladders)),
            "model_error": (model,) * len(self.algorithms),
            **{
                name: tuple(tuple(columns[name] for columns in row) for row in rows)
                for name in ("error", "difference", "difference_z", "theory")
            },
        }

    def draw(self, ax: Axes) -> None:
        """Draw errors over the mean square of a label, the model's as points.

        Lines are the exact errors of the algorithms where they are known, otherwise measured.
        """
        examples = range(len(self.ladders))
        colours = [colour for colour in COLOURS if colour != MODEL]
        styles = [(colour, line) for line in ("-", "--", ":") for colour in colours]
        for name, (colour, line) in zip(self.algorithms, styles, strict=False):
            rungs = [ladder[name] for ladder in self.ladders]
            known = [rung.theory if rung.theory >= 0 else rung.error.mean for rung in rungs]
            scaled = np.array(known) / self.label_square
            ax.plot(examples, scaled, line, color=colour, label=name.replace("_", " "))
        errors = [ladder.error.scaled(1 / self.label_square) for ladder in self.ladders]
        draw_estimates(ax, examples, errors, MODEL, label="model", zorder=3)
        ax.set_ylim(0, TOP)
        ylabel = "squared error / mean square of a label"
        finish(ax, "examples in the context", ylabel, legend="", beside=True)

    def __str__(self) -> str:
        last = len(self.ladders) - 1
        shown = sorted({round(place) for place in np.linspace(0, last, min(SHOWN, last + 1))})
        ladders = [self.ladders[i] for i in shown]
        lines = [["examples", *map(str, shown)]]
        lines.append(["model", *(self._cell(ladder.error) for ladder in ladders)])
        for name in self.algorithms:
            rungs = [ladder[name] for ladder in ladders]
            errors = [self._cell(rung.error) if rung.finite else "infinite" for rung in rungs]
            lines.append([name, *errors])
            z = [f"{rung.z:.1f}" if rung.finite else "" for rung in rungs]
            lines.append(["  z of model", *z])
        parts = [impossible_sentence(self.impossible)] if self.impossible else []
        return "\n\n".join([*parts, "\n".join(aligned(lines, "<>"))])

    def _cell(self, error: Estimate) -> str:
        """An error as text; what is rounding is 0."""
        return measured(error) if error.mean > ROUNDING * self.label_square else "0"


def probe_positions(
    predict: Callable[..., Any],
    problem: Problem,
    *,
    test_prompts: int = 5000,
    baselines: Sequence[str] | None = None,
    batch: int | None = None,
    deterministic: bool = True,
    rng: Seed = 0,
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
    >>> from iclimit.problem import Problem
    >>> from iclimit.validation.instruments.models.positions import probe_positions
    >>> def averaging(inputs, labels):
    ...     before = np.cumsum(labels[:, :-1, None] * inputs[:, :-1], axis=1)
    ...     weights = before / np.arange(1, inputs.shape[1])[:, None]
    ...     return np.pad(np.sum(weights * inputs[:, 1:], axis=2), ((0, 0), (1, 0)))
    >>> found = probe_positions(averaging, Problem(scale=1, dim=5, context=20), test_prompts=200)
    >>> max(abs(ladder["averaging"].difference.mean) for ladder in found.ladders) < 1e-12
    True
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be an iclimit.Problem, got {problem!r}")
    check_problem(problem, *LAW)
    check_arguments(test_prompts=test_prompts)
    chosen = choose_baselines(partial(position_baselines, problem), baselines)
    model = Model(predict, batch, deterministic, per_position=True)
    seed = int(rng.integers(2**63)) if isinstance(rng, np.random.Generator) else rng
    section = Section("fresh", "error", "fresh tasks", problem, test_prompts, seed)
    return ask_positions(model, chosen, section, progress=progress)


def ask_positions(
    model: Answering, baselines: Sequence[Baseline], section: Section, *, progress: bool = False
) -> PositionErrors:
    """Errors of a model and of algorithms at all positions of prompts, see `probe_positions`.

    Parameters
    ----------
    model : Model or Recorded
        Of the form per position.
    baselines : sequence of Baseline
        Algorithms at every position.
    section : Section
        The prompts.
    progress : bool
        Whether to show a progress bar.
    """
    answers_by_section = ask_all(model, baselines, [section], positions=True, progress=progress)
    answers = answers_by_section[section.name]
    return PositionErrors(
        problem=section.problem,
        ladders=tuple(
            ladder(
                answers.at(i), [replace(baseline, loss=baseline.loss[i]) for baseline in baselines]
            )
            for i in range(section.problem.context + 1)
        ),
        algorithms=tuple(baseline.name for baseline in baselines),
        label_square=effective_problem(section.problem.with_fresh_tasks()).label_square,
    )
