r"""Check errors against the number of examples: known baselines first, then the model.

An evaluation by position has two parts that can be wrong, the evaluation and the model.
Averaging, least squares and ridge regression have exact errors for every number of examples: where
a table has one of them, it says whether prompts, units and positions are as stated, whatever the
model does.  Then the model: its error cannot be below that of Bayes' estimate, and the algorithm
whose exact errors are nearest to its own is named.

Squared errors are skewed, those of averaging after few examples so much that of a thousand prompts
one in a hundred tables would have a mean that is five of its own standard errors too small.  So
the scatter and the skewness of the squared errors are those of the algorithm on simulated prompts;
the table only says how many prompts there were.

Least squares on noisy labels is left out at d - 5 to d + 5 examples, d being the dimension, where
its squared error has no third moment.  All positions have the same prompts: their deviations count
as fully correlated when they are pooled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.checks import check_arguments
from iclimit.comparison import Comparison
from iclimit.drawing import COLOURS, Axes, draw_points, finish
from iclimit.problem import Problem, check_problem
from iclimit.results import Estimate, Result
from iclimit.simulate.probing.prefixes import all_inputs
from iclimit.simulate.prompts import sample_prompts
from iclimit.tables import aligned, plain
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.positions import (
    IMPOSSIBLE,
    SHOWN,
    TOP,
    Impossible,
    impossible_sentence,
    least_possible,
    position_baselines,
)
from iclimit.validation.instruments.models.sections import LINEAR_LAW
from iclimit.validation.instruments.positions.reading import PositionCurve, read_position_curves
from iclimit.verdict import Verdict
from iclimit.words import counted, measured, percent

# Distance of the number of examples to the dimension within which squared errors of least squares
# on noisy labels have no third moment, so that the mean of a thousand is not normal: the inverse
# of the least eigenvalue of a context has moments of order below (distance + 1)/2.
HEAVY = 5

# Prompts whose squared errors give scatter and skewness of the algorithms, and their seed.
SCATTER_PROMPTS = 4000
SCATTER_SEED = 0

# Errors that are further away on average are called none of an algorithm.
NEAR = 0.2

# Share of the mean square of a label that single precision leaves where an error is 0: least
# squares of ill-conditioned contexts loses some four of its seven digits.
SINGLE_PRECISION = 1e-5


@dataclass(frozen=True)
class Convention:
    """Another meaning of the numbers of a table.

    Attributes
    ----------
    text : str
        What the errors then are.
    change : callable
        From a stated curve and the problem to errors and standard errors as the library has them.
    moved : int
        By how much the number of examples is then smaller.
    """

    text: str
    change: Callable[[PositionCurve, Problem], tuple[np.ndarray, np.ndarray]]
    moved: int = 0


def _times(factor: Callable[[Problem], float]) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    def change(curve: PositionCurve, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
        return curve.errors * factor(problem), curve.standard_errors * factor(problem)

    return change


def _squared(curve: PositionCurve, _: Problem) -> tuple[np.ndarray, np.ndarray]:
    return curve.errors**2, 2 * np.abs(curve.errors) * curve.standard_errors


def _noisy(curve: PositionCurve, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    return curve.errors + problem.mean_noise_variance, curve.standard_errors


# Other meanings that are tried where the known baselines contradict their theory.
CONVENTIONS = (
    Convention("errors are divided by the dimension", _times(lambda problem: problem.dim)),
    Convention("errors are halves of squares", _times(lambda _: 2.0)),
    Convention(
        "errors are halves of squares, divided by the dimension",
        _times(lambda problem: 2.0 * problem.dim),
    ),
    Convention("errors are of query labels without noise", _noisy),
    Convention("errors are roots", _squared),
    Convention("examples are counted with the query", _times(lambda _: 1.0), moved=1),
    Convention("examples are one more than stated", _times(lambda _: 1.0), moved=-1),
)


@dataclass(frozen=True, eq=False)
class Theory:
    """What is known of the algorithms at every position.

    Attributes
    ----------
    problem : Problem
        Law of the prompts.
    algorithms : mapping of str to Baseline
        With their exact errors, by name.
    deviations, skewness : mapping of str to ndarray (N + 1,)
        Standard deviation and skewness of the squared error of a prompt, from simulated prompts.
    """

    problem: Problem
    algorithms: Mapping[str, Baseline]
    deviations: Mapping[str, np.ndarray]
    skewness: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, problem: Problem, query_noise: bool, needed: Collection[str]) -> Theory:
        """Exact errors, and the scatter of squared errors of needed algorithms, simulated."""
        known = position_baselines(problem)
        algorithms = {row.name: row for row in known if np.any(np.isfinite(row.loss[1:]))}
        generator = np.random.default_rng(SCATTER_SEED)
        drawn = sample_prompts(problem.with_fresh_tasks(), SCATTER_PROMPTS, rng=generator)
        labels = np.einsum("nld,nd->nl", all_inputs(drawn), drawn.tasks)
        if query_noise:
            labels[:, :-1] = drawn.labels
            noise = generator.standard_normal(len(labels))
            labels[:, -1] += np.sqrt(drawn.noise_variance) * noise
        deviations = {}
        skewness = {}
        least = {least_possible(problem, examples)[0] for examples in (0, 1)}
        for name in algorithms.keys() & {*needed, *least}:
            squares = (algorithms[name].predict(drawn) - labels) ** 2
            deviations[name] = np.std(squares, axis=0)
            scale = np.where(deviations[name] > 0, deviations[name], 1.0)
            skewness[name] = np.mean(((squares - np.mean(squares, axis=0)) / scale) ** 3, axis=0)
        return cls(problem, algorithms, deviations, skewness)

    @property
    def rounding(self) -> float:
        """Errors that single precision leaves where they are 0."""
        return SINGLE_PRECISION * float(self.problem.with_fresh_tasks().label_square)

    def least(self, examples: int) -> float:
        """Least possible error after so many examples; NaN where it is not known."""
        name, doubt = least_possible(self.problem, examples)
        if name not in self.algorithms:
            return math.nan
        return float(self.algorithms[name].loss[examples]) * (1 - doubt)

    def prompts(self, curves: Sequence[PositionCurve]) -> float:
        """Number of prompts behind the means of known algorithms; infinite without one."""
        ratios: list[float] = []
        for curve in curves:
            if curve.algorithm:
                bars = curve.standard_errors
                deviations = self.deviations[curve.algorithm][curve.examples]
                used = (bars > 0) & (deviations > 0) & self.judged(curve)
                ratios += ((deviations[used] / bars[used]) ** 2).tolist()
        return float(np.median(ratios)) if ratios else math.inf

    def judged(self, curve: PositionCurve) -> np.ndarray:
        """Whether each point of a known algorithm can be compared."""
        finite = np.isfinite(self.algorithms[curve.algorithm].loss[curve.examples])
        if curve.algorithm != "least_squares" or self.problem.mean_noise_variance == 0:
            return finite
        return finite & (np.abs(curve.examples - self.problem.dim) > HEAVY)

    def compare(self, curve: PositionCurve, prompts: float) -> list[Comparison]:
        """A known algorithm beside its exact errors, or a model beside the least possible ones."""
        rows = []
        places: Sequence[int] = range(len(curve.examples))
        if curve.algorithm:
            places = np.flatnonzero(self.judged(curve)).tolist()
        for place in places:
            examples = int(curve.examples[place])
            name = curve.algorithm or least_possible(self.problem, examples)[0]
            if name not in self.algorithms:
                continue
            exact = float(self.algorithms[name].loss[examples])
            bar = float(self.deviations[name][examples]) / math.sqrt(prompts)
            if not curve.algorithm:
                exact = self.least(examples)
                bar = max(bar, float(curve.standard_errors[place]))
            if not math.isfinite(exact):
                continue
            rows.append(
                Comparison(
                    _label(curve, examples),
                    exact,
                    float(curve.errors[place]),
                    bar,
                    self.rounding,
                    of=f"position_baselines.{curve.algorithm}" if curve.algorithm else "",
                    draws=curve.name,
                    above=0.0 if curve.algorithm else math.inf,
                    skewness=float(self.skewness[name][examples]) / math.sqrt(prompts),
                )
            )
        return rows


@dataclass(frozen=True, eq=False, repr=False)
class PositionCheck(Result):
    """Errors by the number of examples beside the theory (`check_positions`).

    Attributes
    ----------
    curves : tuple of PositionCurve
        What was measured, with errors as the library has them.
    theory : Theory
        Law of the prompts, and algorithms with their exact errors at every position.
    verdict : Verdict
        On the known baselines, and on the models, which cannot be below the least possible error.
    fits : tuple of str
        Other meanings of the numbers with which the known baselines agree; empty where they agree
        as stated.
    """

    curves: tuple[PositionCurve, ...]
    theory: Theory
    verdict: Verdict
    fits: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the known baselines agree and no model is better than possible."""
        return self.verdict.holds

    @property
    def problem(self) -> Problem:
        """Law of the prompts."""
        return self.theory.problem

    @cached_property
    def impossible(self) -> dict[str, list[Impossible]]:
        """By model, errors below the least possible ones, beyond chance."""
        below = {
            row.label: row for row in self.verdict.comparisons if row.above and row.z < IMPOSSIBLE
        }
        by_model: dict[str, list[Impossible]] = {}
        for curve in self.curves:
            for place, examples in enumerate(curve.examples.tolist()):
                row = below.get(_label(curve, examples))
                if row is not None:
                    error = Estimate(row.estimate, float(curve.standard_errors[place]), 0)
                    impossible = Impossible(examples, error, row.theory, row.z)
                    by_model.setdefault(curve.name, []).append(impossible)
        return by_model

    @property
    def conclusions(self) -> list[str]:
        """The audit of the evaluation first, then what the models are."""
        known = [curve for curve in self.curves if curve.algorithm]
        lines = [self._audit(known)]
        lines += [f"It agrees if {text}." for text in self.fits]
        for name, rows in self.impossible.items():
            lines.append(f"{name}: {impossible_sentence(rows)}")
        lines += [self._model(curve) for curve in self.curves if not curve.algorithm]
        return lines + list(self.verdict.notes)

    def _audit(self, known: Sequence[PositionCurve]) -> str:
        """Sentence on the known baselines."""
        if not known:
            return (
                "No known baseline is in the table: prompts and units are not audited (averaging, "
                "least squares or ridge regression on the same prompts would)."
            )
        names = ", ".join(curve.name for curve in known)
        failing = [row for row in self.verdict.failures if not row.above]
        if not failing:
            return f"The known baselines agree with their exact errors: {names}."
        worst = max(failing, key=lambda row: abs(row.z))
        z = f", z = {worst.z:.3g}" if math.isfinite(worst.z) else ""
        ratio = worst.estimate / worst.theory if worst.theory else math.inf
        return (
            "The known baselines contradict their exact errors: prompts, units or positions are "
            f"not as stated. Worst: {worst.label}, {worst.estimate:.4g} instead of "
            f"{worst.theory:.4g} ({ratio:.3g} times){z}."
        )

    def _model(self, curve: PositionCurve) -> str:
        """Sentence on a model: excess over the least possible error, nearest algorithm."""
        parts = []
        for place in sorted({len(curve.examples) // 2, len(curve.examples) - 1}):
            examples = int(curve.examples[place])
            least = self.theory.least(examples)
            if least and math.isfinite(least):
                error = Estimate(curve.errors[place], curve.standard_errors[place], 0)
                parts.append(f"{measured(error.scaled(1 / least))} of it with {examples} examples")
        text = f"{curve.name}: the least possible error is that of ridge regression"
        if self.problem.mean_noise_variance == 0:
            text = f"{curve.name}: the least possible error is that of least squares"
        sentence = f"{text}; it has {' and '.join(parts)}" if parts else curve.name
        near = self.nearest(curve)
        if near is not None:
            name, share = near
            own = (
                "nearest are"
                if share < NEAR
                else "its errors are none of an algorithm: nearest are"
            )
            sentence += f"; {own} those of {self.theory.algorithms[name].words}"
            sentence += f", {percent(share)} away on average"
        return f"{sentence}."

    def nearest(self, curve: PositionCurve) -> tuple[str, float] | None:
        """Algorithm whose exact errors are nearest to a curve, and the mean relative distance."""
        shares = {}
        square = self.problem.with_fresh_tasks().label_square
        for name, algorithm in self.theory.algorithms.items():
            exact = algorithm.loss[curve.examples]
            used = np.isfinite(exact) & (exact > SINGLE_PRECISION * square) & (curve.errors > 0)
            if 2 * np.count_nonzero(used) > len(used):
                logs = np.log(curve.errors[used] / exact[used])
                shares[name] = float(np.expm1(np.mean(np.abs(logs))))
        return min(shares.items(), key=lambda pair: pair[1]) if shares else None

    def rows(self) -> list[dict[str, Any]]:
        """A row for each model and number of examples."""
        rows = []
        z = {row.label: row.z for row in self.verdict.comparisons}
        for curve in self.curves:
            for examples, error, bar in zip(
                curve.examples.tolist(), curve.errors, curve.standard_errors, strict=True
            ):
                exact = math.nan
                if curve.algorithm:
                    exact = float(self.theory.algorithms[curve.algorithm].loss[examples])
                row: dict[str, Any] = {"model": curve.name, "algorithm": curve.algorithm}
                row |= {"examples": examples, "error": float(error), "error_se": float(bar)}
                row["theory"] = exact
                row["least"] = self.theory.least(examples)
                row["z"] = z.get(_label(curve, examples), math.nan)
                rows.append(row)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, for JSON."""
        return {
            "holds": self.holds,
            "conclusions": self.conclusions,
            "fits": list(self.fits),
            "impossible": plain(
                {name: [vars(row) for row in rows] for name, rows in self.impossible.items()}
            ),
            "rows": plain([_without_gaps(row) for row in self.rows()]),
        }

    def draw(self, ax: Axes) -> None:
        """Draw errors as points, exact ones as lines, over the mean square of a label."""
        square = self.problem.with_fresh_tasks().label_square
        for number, curve in enumerate(self.curves):
            colour = COLOURS[number % len(COLOURS)]
            draw_points(
                ax,
                curve.examples,
                curve.errors / square,
                curve.standard_errors / square,
                colour,
                label=curve.name,
            )
            if curve.algorithm:
                exact = self.theory.algorithms[curve.algorithm].loss[curve.examples] / square
                ax.plot(curve.examples, exact, color=colour)
        examples = np.arange(self.problem.context + 1)
        least = [self.theory.least(int(i)) / square for i in examples]
        ax.plot(examples, least, "k--", label="least possible")
        ax.set_ylim(0, TOP)
        ylabel = "squared error / mean square of a label"
        finish(ax, "examples in the context", ylabel, legend="", beside=True)

    def __str__(self) -> str:
        """Conclusions, and a table of some positions."""
        first, *others = self.conclusions
        last = self.problem.context
        shown = sorted({round(place) for place in np.linspace(0, last, min(SHOWN, last + 1))})
        lines = [["examples", *map(str, shown)]]
        cells: dict[tuple[str, int], dict[str, Any]] = {
            (row["model"], row["examples"]): row for row in self.rows()
        }
        for curve in self.curves:
            own = [cells.get((curve.name, examples)) for examples in shown]
            lines.append([curve.name, *(_written(row) for row in own)])
            if curve.algorithm:
                theory = [f"{row['theory']:.4g}" if row else "" for row in own]
                lines.append(["  theory", *theory])
                z = [f"{row['z']:.1f}" if row and row["z"] == row["z"] else "" for row in own]
                lines.append(["  z", *z])
        least = [f"{self.theory.least(i):.4g}" for i in shown]
        lines.append(["least possible", *least])
        return "\n".join([first, *aligned(lines, "<>"), *others])


def _without_gaps(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in which what is not known is missing, for JSON."""
    return {
        name: None if isinstance(entry, float) and not math.isfinite(entry) else entry
        for name, entry in row.items()
    }


def _label(curve: PositionCurve, examples: int) -> str:
    return f"{curve.name}, {counted(examples, 'example')}"


def _verdict(curves: Sequence[PositionCurve], theory: Theory) -> Verdict | None:
    """Verdict on curves; None if nothing can be compared."""
    prompts = theory.prompts(curves)
    rows = [row for curve in curves for row in theory.compare(curve, prompts)]
    return Verdict(rows, notes=_notes(curves, theory.problem)) if rows else None


def _notes(curves: Sequence[PositionCurve], problem: Problem) -> list[str]:
    """What was left out."""
    noisy = problem.mean_noise_variance > 0
    if noisy and any(curve.algorithm == "least_squares" for curve in curves):
        least = problem.dim - HEAVY
        most = problem.dim + HEAVY
        return [
            f"Least squares is left out with {max(least, 0)} to {most} examples: its squared "
            "error has heavy tails there."
        ]
    return []


def _changed(curve: PositionCurve, convention: Convention, problem: Problem) -> PositionCurve:
    """The curve with another meaning of its numbers."""
    errors, bars = convention.change(curve, problem)
    examples = curve.examples - convention.moved
    kept = (examples >= 0) & (examples <= problem.context)
    return PositionCurve(curve.name, curve.algorithm, examples[kept], errors[kept], bars[kept])


def _fits(curves: Sequence[PositionCurve], theory: Theory) -> tuple[str, ...]:
    """Other meanings of the numbers with which known baselines agree."""
    known = [curve for curve in curves if curve.algorithm]
    verdict = _verdict(known, theory) if known else None
    if verdict is None or verdict.holds:
        return ()
    fits = []
    for convention in CONVENTIONS:
        changed = [_changed(curve, convention, theory.problem) for curve in known]
        other = _verdict(changed, theory)
        if other is not None and other.holds:
            fits.append(convention.text)
    return tuple(fits)


def check_positions(
    table: object,
    problem: Problem,
    *,
    evaluation: str = "standard",
    baselines: Mapping[str, str] | None = None,
    query_noise: bool = True,
    test_prompts: int | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
) -> PositionCheck:
    r"""Check errors against the number of examples: known baselines first, then the model.

    Parameters
    ----------
    table : path, data frame, mapping of columns or sequence of rows
        A table (.csv, .json, .parquet, .npz) with columns ``examples``, the number of examples
        before a position; ``error``, the mean squared error there; ``error_se``, its standard
        error, or ``error_sd``, the standard deviation over prompts; and ``model``, whose errors
        these are.  Or ``metrics.json`` of the code of Garg et al.: evaluation, model, then mean
        and ends of the resampled interval by position.
    problem : Problem
        Law of the prompts; its context is the largest number of examples.
    evaluation : str
        Which evaluation of ``metrics.json``.
    baselines : mapping of str, optional
        What the table calls known algorithms: ``{"least_squares": "my solver"}``.  Names such as
        averaging, OLS and ridge are known.
    query_noise : bool
        Whether the labels that answers are compared with have noise.
    test_prompts : int >= 1, optional
        Number of prompts behind each mean, for ``error_sd``.
    columns : mapping of str, optional
        What your columns are called: ``{"examples": "n_points"}``.
    ignore : sequence of str or "others"
        Columns that are not used.

    Returns
    -------
    PositionCheck
        ``print`` shows conclusions and a table, ``plot`` draws the errors; ``fits`` are meanings
        of the numbers with which known baselines would agree.

    Raises
    ------
    ValueError
        If the table cannot be read, has no row that can be compared, or more examples than the
        context of the problem.
    TypeError
        If the problem is none.

    References
    ----------
    Garg, Tsipras, Liang and Valiant (arXiv:2208.01066): evaluation by position, baselines.

    Examples
    --------
    >>> import iclimit
    >>> problem = iclimit.Problem(dim=5, context=4, scale=1)
    >>> table = {"examples": [0, 1, 2, 3, 4], "error": [1.0, 0.81, 0.6, 0.4, 0.2]}
    >>> table |= {"error_se": [0.01] * 5, "model": ["OLS"] * 5}
    >>> check = iclimit.validation.check_positions(table, problem)
    >>> check.holds, check.fits
    (False, ('errors are divided by the dimension',))
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be an iclimit.Problem, got {problem!r}")
    check_problem(problem, *LINEAR_LAW)
    if test_prompts is not None:
        check_arguments(test_prompts=test_prompts)
    curves = read_position_curves(
        table,
        evaluation=evaluation,
        baselines=baselines,
        test_prompts=test_prompts,
        columns=columns,
        ignore=ignore,
        known=[row.name for row in ALGORITHMS.values() if row.positions is not None],
    )
    for curve in curves:
        if curve.examples[-1] > problem.context:
            raise ValueError(
                f"context of the problem must be >= {curve.examples[-1]}, the most examples of "
                f"{curve.name}, got {problem.context}"
            )
    theory = Theory.of(problem, query_noise, [curve.algorithm for curve in curves])
    curves = [
        curve if curve.algorithm in theory.algorithms else replace(curve, algorithm="")
        for curve in curves
    ]
    if not query_noise:
        silent = next(row for row in CONVENTIONS if row.change is _noisy)
        curves = [_changed(curve, silent, problem) for curve in curves]
    verdict = _verdict(curves, theory)
    if verdict is None:
        raise ValueError(
            "table must have an error that the theory knows, got none (least squares on noisy "
            f"labels is known beyond {HEAVY} examples from the dimension)"
        )
    return PositionCheck(tuple(curves), theory, verdict, _fits(curves, theory))


def _written(row: dict[str, Any] | None) -> str:
    """Error of a row with the last digits' standard error; nothing where there is no row."""
    return measured(Estimate(row["error"], row["error_se"], 0)) if row else ""
