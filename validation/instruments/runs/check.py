"""Check of a table of results of pretrained linear attention against the theory."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.descent.learning_rate import MOMENTS
from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.checks import check_choice, given
from iclimit.comparison import Comparison
from iclimit.drawing import Axes, Figure
from iclimit.problem import TASK_LAWS
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Seed
from iclimit.tables import aligned, plain
from iclimit.units import Convention, get_convention
from iclimit.validation.instruments.runs.explanations import Explanations, Fit, explain
from iclimit.validation.instruments.runs.figure import draw_check, draw_errors
from iclimit.validation.instruments.runs.judgement import (
    ChiSquare,
    RowDeviation,
    ZDistribution,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.instruments.runs.limits import limits
from iclimit.validation.instruments.runs.measured import ACCURACY, MEASURED, MeasuredRun
from iclimit.validation.instruments.runs.positions import position_hints
from iclimit.validation.instruments.runs.possible import Impossible, impossible_errors
from iclimit.validation.instruments.runs.predictions import Prediction, Theory, predict
from iclimit.validation.instruments.runs.scatter import ScatterRatio, scatter_hints, scatter_ratios
from iclimit.validation.instruments.runs.table import COLUMNS, read_runs
from iclimit.verdict import Verdict
from iclimit.words import counted, percent, z_text

TASK_SETS = ("many", "one")

# Least number of z whose distribution is shown: that of fewer says less than the z themselves.
FEWEST_Z = 5

# Deviations of so many standard errors and more are only said to be larger.
LARGE_Z = 100

# Most lines of the printed table: a longer one shows those with the largest z.
PRINTED = 24

# Most explanations that are printed, and the least likelihood relative to the best one.
MOST_FITS = 8
LEAST_LIKELY = 1e-3

# Explanations that are as likely as this, relative to the best one, are hardly told from it.
HARDLY_TOLD = 0.1

# Smaller deviations that would have been noticed are printed as smaller than this.
LEAST_NOTICED = 1e-4

# Headings of the printed table, and what its sizes are called in the notation.
SIZES = {"d": "dim", "l": "context", "k": "tasks", "n": "prompts"}
HEAD = ["row", *SIZES, "rho", "ridge", "error", "measured", "limit", "predicted", "%", "z"]


@dataclass(frozen=True, repr=False)
class RunCheck(Result):
    """A table of results, compared with the theory (`check_runs`).

    Attributes
    ----------
    deviations : list of RowDeviation
        What was measured and predicted, row by row.
    limits : list of dict
        Asymptotic errors of the rows by name.
    fits : list of Fit
        All explanations with which the table agrees, the likeliest first, with likelihoods.  Empty
        where nothing contradicts the theory, or nothing that was tried explains it.
    tried : int
        How many explanations were tried.
    hints : list of str
        What else is remarkable, such as a scatter far below the error bars.
    notes : list of str
        What was assumed.
    theory : Theory
        What the table was compared with.
    scatter : dict of ScatterRatio
        By error: whether runs scatter as predicted, where the table says how they do.
    impossible : list of Impossible
        Errors that no predictor has, with what usually causes them.
    """

    deviations: list[RowDeviation]
    limits: list[dict[str, float]]
    fits: list[Fit]
    tried: int
    hints: list[str]
    notes: list[str]
    theory: Theory
    scatter: dict[str, ScatterRatio]
    impossible: list[Impossible]

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict on all z, their sum of squares, and a common factor of each error."""
        return verdict(self.deviations, self.draw_figure, self.notes)

    @property
    def judged(self) -> int:
        """Number of measured errors that have a z."""
        return self.chi_square.count

    @property
    def holds(self) -> bool | None:
        """Whether nothing contradicts the theory; None if nothing was judged."""
        if self.impossible:
            return False
        return self.verdict.holds if self.judged else None

    @cached_property
    def chi_square(self) -> ChiSquare:
        """Sum of squares of all z."""
        return chi_square(self.deviations)

    @cached_property
    def z(self) -> dict[str, ZDistribution]:
        """Distribution of z over the rows, for each error."""
        scores: dict[str, list[float]] = {name: [] for name in COLUMNS}
        for row in self.deviations:
            for name, comparison in row.comparisons.items():
                scores[row.run.column(name)].append(comparison.z)
        return {name: ZDistribution.of(values) for name, values in scores.items() if values}

    @property
    def resolutions(self) -> dict[str, float]:
        """For each error, the least common relative deviation that would have been noticed."""
        return {of.rpartition(".")[2]: value for of, value in self.verdict.resolutions.items()}

    def rows(self) -> list[dict[str, Any]]:
        """What was measured, with limits, predictions, deviations and z, row by row."""
        return list(map(_numbers, self.deviations, self.limits))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, for JSON."""
        total = self.chi_square
        judged = self.verdict
        entries: dict[str, Any] = plain(
            {
                "holds": self.holds,
                "judged": self.judged,
                "chi_square": vars(total) | {"p_value": total.p_value},
                "z": self.z,
                "resolutions": self.resolutions,
                "failures": [
                    {"label": row.label, "z": row.z, "accepted": judged.threshold(row)}
                    for row in judged.failures
                ],
                "impossible": [row.sentence for row in self.impossible],
                "fits": [vars(fit) | {"chi_square": fit.chi_square.value} for fit in self.fits],
                "explanations_tried": self.tried,
                "scatter": {
                    name: {"ratio": ratio.ratio, "p_value": ratio.p_value, "holds": ratio.holds}
                    for name, ratio in self.scatter.items()
                },
                "hints": self.hints,
                "notes": self.notes,
                "rows": self.rows(),
            }
        )
        return entries

    def draw(self, ax: Axes) -> None:
        """Draw the errors on predicted curves, by the most varied parameter."""
        draw_errors(ax, self.deviations, self.theory)

    def draw_figure(self, figure: Figure, /, **_: Any) -> list[Axes]:
        """Draw the errors on predicted curves, z by row, and the conclusions."""
        head = self._headline()
        if self.judged and not self.verdict.holds:
            head += f", by {self._largest(signed=False)} standard errors at worst"
        head += "."
        reasons = [
            sentence
            for sentence in self.conclusions
            if sentence not in (head, *self.hints, *self.notes)
        ]
        if self.fits:
            head += f"\nIt would agree if {self.fits[0].text}."
        draw_check(figure, self.deviations, self.verdict, self.theory, head, reasons)
        return figure.axes

    def __str__(self) -> str:
        """Table of the rows, and what they say together."""
        lines = [
            (
                0.0 if math.isnan(comparison.z) else abs(comparison.z),
                _cells(row, limit[name], name, comparison),
            )
            for row, limit in zip(self.deviations, self.limits, strict=True)
            for name, comparison in row.comparisons.items()
        ]
        hidden = max(len(lines) - PRINTED, 0)
        if hidden:
            least = sorted(size for size, _ in lines)[-PRINTED]
            lines = [line for line in lines if line[0] >= least][:PRINTED]
        shown = aligned([HEAD, *(line for _, line in lines)])
        if hidden:
            shown.append(f"({hidden} more with smaller z)")
        return "\n".join([*shown, *self.conclusions])

    @property
    def conclusions(self) -> list[str]:
        """What all rows say together, in sentences."""
        impossible = [row.sentence for row in self.impossible[:MOST_FITS]]
        hidden = len(self.impossible) - len(impossible)
        if hidden:
            impossible.append(f"So are {hidden} more.")
        if not self.judged:
            reason = "No row has a standard error and a finite prediction"
            return [*impossible, f"{reason}: nothing is judged.", *self.notes]
        return [*impossible, *self._summary(), *self._outcome(), *self.hints, *self.notes]

    def _headline(self) -> str:
        if not self.judged:
            return "Nothing is judged"
        verb = "agrees with" if self.holds else "contradicts"
        return f"The table {verb} the theory"

    def _summary(self) -> Iterator[str]:
        """Lines on chi-square, the distribution of z and what would have been noticed."""
        total = self.chi_square
        errors = counted(total.count, "error")
        yield (
            f"chi-square {total.value:.1f} for {errors} "
            f"({total.degrees:.1f} degrees of freedom), p = {total.p_value:.2g}"
        )
        courses = {row.run.course for row in self.deviations if row.run.in_course}
        shared = len(courses) < sum(row.run.in_course for row in self.deviations)
        for name, law in self.z.items():
            # Of a table that contradicts the theory the test of the law of z says nothing, nor of
            # rows of the same runs.
            if law.count >= FEWEST_Z and self.verdict.holds and not shared:
                yield (
                    f"z of {name.upper()} over {law.count} rows: mean {law.mean:.2f}, standard "
                    f"deviation {law.width:.2f} (expected 0 and 1; p = {law.p_value:.2g})"
                )
        noticed = " or ".join(
            f"of all {name.upper()} errors by {percent(value, least=LEAST_NOTICED)}"
            for name, value in sorted(self.resolutions.items())
            if math.isfinite(value)
        )
        if noticed:
            yield f"A deviation {noticed} would have been noticed (probability 95 %)."

    def _outcome(self) -> Iterator[str]:
        """Lines on whether the table agrees, and on all that explains it if not."""
        verdict = self.verdict
        if verdict.holds:
            if not self.impossible:
                yield "The table agrees with the theory."
            return
        worst = verdict.worst
        count = len(verdict.failures)
        label = worst.label
        if worst.pooled:
            label = f"common factor of {worst.pooled} {worst.of.rpartition('.')[2].upper()} errors"
        yield (
            f"The table contradicts the theory: {count} of {len(verdict.evidence)} comparisons; "
            f"worst {label}, by {self._largest()} standard errors."
        )
        yield from self._explanations()

    def _largest(self, *, signed: bool = True) -> str:
        """The largest deviation in standard errors, or its size."""
        z = self.verdict.worst.z
        if abs(z) >= LARGE_Z:
            return f"more than {LARGE_Z}"
        return z_text(z) if signed else f"{abs(z):.1f}"

    def _explanations(self) -> Iterator[str]:
        """Lines on what explains a contradiction."""
        fits = self.fits
        if not fits:
            yield (
                f"None of {self.tried} explanations that were tried agrees with it: the mistake "
                "is another one, or there are several."
            )
            return
        yield f"{self.tried} explanations were tried. It would agree"
        shown = [fit for fit in fits if fit.likelihood >= LEAST_LIKELY * fits[0].likelihood]
        for fit in shown[:MOST_FITS]:
            lead = "or, indistinguishable in this table, if" if fit.like else "if"
            yield f"- {lead} {_in_words(fit)}"
        hidden = len(fits) - len(shown[:MOST_FITS])
        if hidden:
            yield f"- in {counted(hidden, 'less likely case')}"
        least = HARDLY_TOLD * fits[0].likelihood
        alike = list(takewhile(lambda fit: fit.likelihood >= least, fits))
        if any(not fit.like for fit in alike[1:]):
            yield f"This table hardly distinguishes the first {len(alike)}."
        if not any(fit.exact for fit in fits):
            yield (
                "Only fitted values or left-out rows explain the table: they say how it differs, "
                "not why."
            )


def _in_words(fit: Fit) -> str:
    """An explanation with its chi-square and its likelihood."""
    numbers = f"chi-square {fit.chi_square.value:.1f}, likelihood {fit.likelihood:.2g}"
    if fit.simulated:
        numbers = f"{numbers}, from {fit.simulated} simulated runs of a row"
    if fit.left_out:
        return f"{fit.text}: {numbers} (all other rows agree; why these deviate is not known)"
    if fit.effective:
        return f"{fit.text}: {numbers} (may stand for: {fit.effective})"
    return f"{fit.text}: {numbers}"


def _numbers(row: RowDeviation, limit: Mapping[str, float]) -> dict[str, Any]:
    """Settings and measured errors of a row, with limits, predictions, deviations and z.

    What cannot be said, as z without a standard error, is None.
    """
    run = row.run
    prediction = row.prediction
    numbers: dict[str, Any] = {"row": run.rows[0], "rows": len(run.rows), **run.sizes}
    if run.by_position:
        numbers["position"] = run.position
    numbers |= {"rho": run.rho, "ridge": run.ridge, "estimator": run.estimator}
    numbers |= run.training | run.labels
    doubt = prediction.doubts @ prediction.doubts.T
    variances = {
        "prediction_se": prediction.covariance,
        "task_set_sd": prediction.spread,
        "uncertainty": 4 * doubt,
    }
    for name, comparison in row.comparisons.items():
        weights = np.array(MEASURED[name])
        column = run.column(name)
        numbers |= {
            column: run.errors[name].mean,
            f"{column}_se": row.errors[name].standard_error,
            f"{column}_limit": _number(limit[name]),
            f"{column}_prediction": _number(comparison.theory),
        }
        for ending, variance in variances.items():
            value = math.sqrt(weights @ variance @ weights) if prediction.finite else None
            numbers[f"{column}_{ending}"] = value
        deviation = row.relative(name)
        numbers |= {f"{column}_deviation": deviation, f"{column}_z": _number(comparison.z)}
    return numbers


def _cells(row: RowDeviation, limit: float, name: str, comparison: Comparison) -> tuple[str, ...]:
    run = row.run
    deviation = row.relative(name)
    variance = comparison.standard_error**2 - row.errors[name].standard_error ** 2
    known = math.isfinite(comparison.standard_error) and variance > 0
    predicted = Estimate(comparison.theory, math.sqrt(variance) if known else math.inf, 0)
    sizes = {name: f"{run.sizes[name]:g}" for name in SIZES.values()}
    if not run.learned:
        sizes["prompts"] = ""
    if run.by_position:
        sizes["context"] = f"{run.position}/{sizes['context']}"
    return (
        str(run.rows[0]),
        *sizes.values(),
        f"{run.rho:g}",
        _ridge_cell(run),
        run.column(name).upper(),
        str(row.errors[name]),
        "" if run.by_position else f"{limit:.4g}",
        str(predicted),
        "" if deviation is None else f"{100 * deviation:+.2f}",
        z_text(comparison.z),
    )


def _ridge_cell(run: MeasuredRun) -> str:
    """Ridge of a row, with the time of its training or the word SGD."""
    if not run.learned:
        return ""
    if run.sgd:
        return "SGD"
    return f"{run.ridge:g}, t={run.time:g}" if run.trained else f"{run.ridge:g}"


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def check_runs(
    table: object,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
    parameters: Mapping[str, Any] | None = None,
    convention: str | Convention = "lu2025",
    rounding: str = "exact",
    ddof: int = 1,
    task_sets: str = "many",
    balanced: bool = False,
    task_law: str | None = None,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    draws: int | None = None,
    rng: Seed = 0,
    progress: bool = False,
) -> RunCheck:
    r"""Compare your own errors of pretrained linear attention with the theory.

    Parameters
    ----------
    table : path, data frame, mapping of columns or sequence of rows
        A file (.csv, .json, .parquet or .npz), or anything with columns or rows that are mappings.
        Columns: ``dim``; ``context`` or ``alpha``; ``tasks`` or ``kappa``; ``prompts`` or
        ``tau``; ``rho`` or ``noise_variance``; ``ridge`` (0 without it); ``test_context`` and
        ``test_rho`` where test prompts differ from the pretraining; how runs were trained, if not
        to the minimiser: ``time`` as of `iclimit.Flow`, or ``steps`` and ``learning_rate`` on the
        mean squared error in the units of the convention, and ``start_variance`` (of the entries
        of Gamma, times d); of one pass of SGD ``batch`` and ``learning_rate``; one or more of
        ``icl``, ``idg`` and ``gap`` (their difference), or ``accuracy`` and ``idg_accuracy``; the
        ``link`` and ``flips`` of labels that are not linear, as of `iclimit.Problem`.  A row is
        either a mean, with its standard error (``icl_se``) or the standard deviation of its runs
        (``icl_sd`` and ``runs``), or a single run: without such columns, rows of one setting are
        taken together.  Where there is no error bar it is predicted from the scatter of runs, also
        for fewer than ten single runs.
        Runs that are trained on every position of ``prompts`` sequences have ``first_position``,
        where the loss begins (1: everywhere), ``position``, after how many examples the row's
        errors were measured, and ``normalization`` of the summaries as of `iclimit.Reduced`.
        Errors of a Bayes estimator have ``estimator``: "dmmse" or "ridge" instead of "attention";
        those of ridge regression may have ``penalty``, the :math:`\lambda` of
        :math:`(X^\top X + \lambda)^{-1} X^\top y` with inputs in the units of the convention.
    columns : mapping of str, optional
        What your columns are called: ``{"icl": "test_loss", "dim": "d"}``.
    ignore : sequence of str or "others"
        Columns that are not used.  Any other unknown column is an error; ``"others"``: none is.
    parameters : mapping, optional
        Parameters that all rows share and the table has no columns for: ``{"rho": 0.1}``.
    convention : str or Convention
        Units of the table (`iclimit.units`): "lu2025", "vonoswald2023",
        "blog2024", "versatile2024" or "linattn2025".  ``rho`` is always relative to the variance
        of noiseless labels; ``noise_variance`` is in these units.
    rounding : {"exact", "nearest", "floor", "ceil"}
        How alpha, kappa and tau of the table were rounded to integers.  "exact": they must give
        integers.
    ddof : {0, 1}
        Whether standard deviations are divided by the number of runs (0) or by one less (1).
    task_sets : {"many", "one"}
        Whether every run of a row drew its own pretraining tasks, or all of them share one set.
        With one set the spread of the prediction over task sets is part of the error bar.
    balanced : bool
        Whether all tasks have the same number of prompts.
    task_law : {"sphere", "gaussian"}, optional
        Law of the tasks; by default that of the convention.
    task_spectrum, test_spectrum, input_spectrum : str, SpectralMeasure or array (n,), optional
        Structured data, as of `iclimit.curve`.
    draws : int >= 1, optional
        Task sets that a prediction is averaged over; by default 10 (from d = 100) to 100 (up to
        d = 31).
    rng : int, SeedSequence or Generator
        Root of these task sets.
    progress : bool
        Whether to show a progress bar: at d = 100 a row takes a third of a second.

    Returns
    -------
    RunCheck
        ``holds`` says whether nothing contradicts the theory, ``print`` shows why, ``rows`` has
        the numbers and ``plot`` the figure.

    Raises
    ------
    ValueError
        If the table cannot be read without guessing, with row and column; or an argument is
        outside its range.
    TypeError
        If ``table`` is no table.

    Notes
    -----
    Runs are compared with the finite-size prediction at exactly their integers
    (`iclimit.finite_size_errors`); half of its stated uncertainty counts as one standard error.
    For uniform inputs, as some conventions have them, it is corrected by their kurtosis to order
    1/d, and the size of the correction is added to the uncertainty.

    The scatter of runs is predicted, too (`iclimit.pretraining.finite_size_spread`), for errors
    that are computed exactly or tested on many prompts.  Single runs are compared by the logarithm
    of the error, since errors are skewed.  Where the table says how runs scatter, ``scatter`` says
    whether they do as predicted; ``hints`` say what may be wrong if not.

    Where rows of one setting differ in their time, or their steps, they are a curve of training:
    errors at two of its times are correlated.  Rows of one setting at several positions are the
    same runs: their deviations count as fully correlated.  Their limit is not shown.
    Where rows have no error bars, the scatter is that of 60 simulated runs, at d = 16 or below.

    Accuracies at finite size are simulated, up to d = 48, and so is their scatter; that of errors
    of labels by a link is not predicted, so these need error bars.

    If the table contradicts the theory, some eighty possible mistakes are tried: halved losses, a
    ridge off by a factor d, noise left out, and so on; factors of errors and settings are fitted,
    and rows left out or exchanged.  Of tables without a time it is fitted, too: training may have
    been too brief or stopped early, or have begun with other weights than zero.  Experiments
    without a theory, such as inputs on a sphere, are simulated up to d = 32 if nothing else
    explains the table.  All with which the table agrees are in ``fits``.  Errors that no
    predictor has are in ``impossible``.

    Examples
    --------
    >>> import iclimit
    >>> table = {"dim": [40, 40], "alpha": [1, 2], "tau": [2, 2], "kappa": [0.5, 0.5]}
    >>> table |= {"test_loss": [1.371, 1.188], "icl_se": [0.007, 0.006], "lam": [0, 0]}
    >>> names = {"icl": "test_loss", "ridge": "lam"}
    >>> check = iclimit.check_runs(table, columns=names, parameters={"rho": 0.01})
    >>> check.holds
    True
    """
    runs, theory, units, one_set = read_with_theory(
        table,
        columns=columns,
        ignore=ignore,
        parameters=parameters,
        convention=convention,
        rounding=rounding,
        ddof=ddof,
        task_sets=task_sets,
        balanced=balanced,
        task_law=task_law,
        task_spectrum=task_spectrum,
        test_spectrum=test_spectrum,
        input_spectrum=input_spectrum,
        draws=draws,
        rng=rng,
    )
    bar = tqdm(runs, disable=not progress, unit="row", desc="predicting", leave=False)
    rows = []
    unpredicted = []
    for run in bar:
        try:
            prediction = predict(run, theory)
        except ValueError as error:
            unpredicted.append(f"{error}; it is not judged.")
            prediction = Prediction(np.full(2, math.nan))
        rows.append(compare_run(run, prediction, one_set=one_set))
    explained = Explanations([], 0, [])
    if not verdict(rows).holds:
        explained = explain(rows, theory, one_set=one_set, progress=progress)
    impossible = impossible_errors(rows, theory)
    notes = [*unpredicted, *explained.notes, *_notes(rows, units)]
    scatter = scatter_ratios(rows, one_set=one_set)
    hints = [*scatter_hints(rows, scatter), *position_hints(runs)]
    errors = limits(runs, theory.structure)
    return RunCheck(
        deviations=rows,
        limits=errors,
        fits=explained.fits,
        tried=explained.tried,
        hints=hints,
        notes=notes,
        theory=theory,
        scatter=scatter,
        impossible=impossible,
    )


def read_with_theory(
    table: object,
    *,
    convention: str | Convention = "lu2025",
    task_sets: str = "many",
    balanced: bool = False,
    task_law: str | None = None,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    draws: int | None = None,
    rng: Seed = 0,
    **reading: Any,
) -> tuple[list[MeasuredRun], Theory, Convention, bool]:
    """Runs of a table, its theory and convention, and whether the runs of a row share a task set.

    Arguments and errors are those of `check_runs`; ``reading`` is for `read_runs`.
    """
    check_choice("task_sets", task_sets, TASK_SETS)
    if task_law is not None:
        check_choice("task_law", task_law, TASK_LAWS)
    check_integers(**given({"draws": draws}))
    if task_sets == "one" and draws == 1:
        raise ValueError(f"draws must be >= 2 for the spread over task sets, got {draws}")
    units = get_convention(convention)
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum)
    runs = read_runs(table, convention=units, **reading)
    if task_sets == "one" and any(run.by_position for run in runs):
        raise ValueError(
            "task_sets must be 'many' for runs that are trained on all positions, of which the "
            "spread over task sets is not known, got 'one'"
        )
    theory = Theory(
        task_law=task_law or units.task_law,
        balanced=bool(balanced),
        structure=structure,
        draws=draws,
        root=int(np.random.default_rng(rng).integers(2**62)),
        excess_kurtosis=_excess_kurtosis(units.input_law),
    )
    return runs, theory, units, task_sets == "one"


def _excess_kurtosis(input_law: str) -> float:
    """Excess kurtosis of the coordinates of inputs."""
    check_choice("input_law", input_law, tuple(MOMENTS))
    (second, second_divisor), (fourth, fourth_divisor) = MOMENTS[input_law]
    return fourth / fourth_divisor / (second / second_divisor) ** 2 - 3


def _training_notes(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """What was assumed of runs that are no minimisers."""
    if any(run.trained and not run.sgd for run in runs):
        yield "Training is that of gradient flow, which small steps follow (time 2/d rate steps)."
    courses = [run.course for run in runs if run.trained]
    if len(set(courses)) < len(courses):
        yield "Rows that differ in the length of training alone are taken to be the same runs."
    sequences = [run.course for run in runs if run.by_position]
    if len(set(sequences)) < len(sequences):
        yield "Rows that differ in the position alone are taken to be the same runs."


def _accuracy_notes(runs: Sequence[MeasuredRun]) -> Iterator[str]:
    """What was assumed of accuracies."""
    if any(run.estimator == ACCURACY for run in runs):
        yield "Accuracies are compared with simulated runs."
        if any(run.estimator != ACCURACY for run in runs):
            yield "Errors and accuracies of the same runs count as independent."


def _notes(rows: Sequence[RowDeviation], units: Convention) -> Iterator[str]:
    """What was assumed, in sentences."""
    runs = [row.run for row in rows]
    if any(len(run.rows) > 1 for run in runs):
        count = sum(len(run.rows) for run in runs)
        settings = "one setting" if len(runs) == 1 else f"{len(runs)} settings"
        single = any(len(error.samples) for run in runs for error in run.errors.values())
        kind = "single runs" if single else "means"
        yield f"{count} {kind} of {settings} are taken together."
    yield from _training_notes(runs)
    yield from _accuracy_notes(runs)
    attention = [run for run in runs if run.learned]
    if attention and not any(run.ridge for run in attention):
        yield "The ridge is 0."
    if any(run.estimator == "ridge" and run.penalty is None for run in runs):
        yield "The penalty of ridge regression is the best one, the noise variance."
    lacking = [row for row in rows if any(row.run.lacks_error_bar(name) for name in row.judged)]
    if lacking:
        which = counted(len(lacking), "row")
        scatter = "the scatter of runs with exact test errors"
        yield f"The error bars of {which} are predicted: {scatter}."
    two = [
        run.errors for run in runs if run.correlation is None and {"icl", "idg"} <= set(run.errors)
    ]
    if any(
        math.isfinite(errors["icl"].standard_error + errors["idg"].standard_error)
        for errors in two
    ):
        yield "ICL and IDG of one row may share their scatter; chi-square assumes that they do."
    if any(np.any(np.isinf(row.prediction.mean)) for row in rows):
        yield "Rows at the threshold prompts = d (d + 1) have no finite prediction."
    if units.input_law != "gaussian":
        yield f"Predictions are corrected to order 1/d for {units.input_law} inputs."
