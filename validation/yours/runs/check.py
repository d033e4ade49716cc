"""Check of a table of results of pretrained linear attention against the theory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.pretraining.finite_size import TASK_LAWS
from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.checks import check_choice
from iclimit.drawing import Axes, Figure
from iclimit.results import Result
from iclimit.simulate.arrays import Seed
from iclimit.tables import plain
from iclimit.units import Convention, get_convention
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.yours.runs.explanations import Fit, explain
from iclimit.validation.yours.runs.figure import draw_check, draw_errors
from iclimit.validation.yours.runs.judgement import (
    ChiSquare,
    RowDeviation,
    ZDistribution,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.yours.runs.measured import MEASURED, MeasuredRun, read_runs
from iclimit.validation.yours.runs.predictions import Prediction, Theory, limits, predict
from iclimit.validation.yours.runs.report import (
    outcome_lines,
    row_numbers,
    scatter_hint,
    summary_lines,
    table_lines,
)
from iclimit.validation.yours.runs.scatter import ScatterRatio, scatter_lines, scatter_ratios

TASK_SETS = ("many", "one")


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
    """

    deviations: list[RowDeviation]
    limits: list[dict[str, float]]
    fits: list[Fit]
    tried: int
    hints: list[str]
    notes: list[str]
    theory: Theory
    scatter: dict[str, ScatterRatio]

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
        return self.verdict.holds if self.judged else None

    @cached_property
    def chi_square(self) -> ChiSquare:
        """Sum of squares of all z."""
        return chi_square(self.deviations)

    @cached_property
    def z(self) -> dict[str, ZDistribution]:
        """Distribution of z over the rows, for each error."""
        scores = {
            name: [row.comparisons[name].z for row in self.deviations if name in row.comparisons]
            for name in MEASURED
        }
        return {name: ZDistribution.of(values) for name, values in scores.items() if values}

    @property
    def resolutions(self) -> dict[str, float]:
        """For each error, the least common relative deviation that would have been noticed."""
        return {of.rpartition(".")[2]: value for of, value in self.verdict.resolutions.items()}

    def rows(self) -> list[dict[str, Any]]:
        """What was measured, with limits, predictions, deviations and z, row by row."""
        return list(map(row_numbers, self.deviations, self.limits))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, for JSON."""
        total, judged = self.chi_square, self.verdict
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
                "fits": [vars(fit) | {"chi_square": fit.chi_square.value} for fit in self.fits],
                "explanations_tried": self.tried,
                "scatter": {
                    name: {"ratio": each.ratio, "p_value": each.p_value, "holds": each.holds}
                    for name, each in self.scatter.items()
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
        sentences = outcome_lines(self.verdict, self.fits, self.tried) if self.judged else []
        draw_check(figure, self.deviations, self.verdict, self.theory, sentences)
        return figure.axes

    def __str__(self) -> str:
        """Table of the rows, and what they say together."""
        return "\n".join([*table_lines(self.deviations, self.limits), *self.conclusions])

    @property
    def conclusions(self) -> list[str]:
        """What all rows say together, in sentences."""
        if not self.judged:
            reason = "No row has a standard error and a finite prediction"
            return [f"{reason}: nothing is judged.", *self.notes]
        summary = summary_lines(self.chi_square, self.z, self.resolutions)
        outcome = outcome_lines(self.verdict, self.fits, self.tried)
        return [*summary, *outcome, *self.hints, *self.notes]


def check_runs(
    table: Any,
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
        A file (.csv, .json or .parquet), or anything with columns or with rows that are mappings.
        Columns: ``dim``; ``context`` or ``alpha``; ``tasks`` or ``kappa``; ``prompts`` or
        ``tau``; ``rho`` or ``noise_variance``; ``ridge`` (0 without it); ``test_context`` and
        ``test_rho`` where test prompts differ from the pretraining; one or more of ``icl``,
        ``idg`` and ``gap`` (their difference).  A row is either a mean, with its standard error
        (``icl_se``) or the standard deviation of its runs (``icl_sd`` and ``runs``), or a single
        run: without such columns, rows of one setting are taken together.  Where there is no error
        bar it is predicted from the scatter of runs, also for fewer than ten single runs.  Errors
        of a Bayes estimator have ``estimator``: "dmmse" or "ridge" instead of "attention".
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
    The prediction is for Gaussian inputs; other laws differ from it by O(1/d).

    The scatter of runs is predicted, too (`iclimit.pretraining.finite_size_spread`), for errors
    that are computed exactly or tested on many prompts.  Single runs are compared by the logarithm
    of the error, since errors are skewed.  Where the table says how runs scatter, ``scatter`` says
    whether they do as predicted; ``hints`` say what may be wrong if not.

    If the table contradicts the theory, some forty possible mistakes are tried: halved losses, a
    ridge off by a factor d, noise left out, and so on; factors of errors and settings are fitted,
    and rows left out or exchanged.  All with which the table agrees are in ``fits``.

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
    rows, unpredicted = [], []
    for run in bar:
        try:
            prediction = predict(run, theory)
        except ValueError as error:
            unpredicted.append(f"{error}; it is not judged.")
            prediction = Prediction(np.full(2, math.nan))
        rows.append(compare_run(run, prediction, one_set=one_set))
    fits: list[Fit] = []
    tried = 0
    if not verdict(rows).holds:
        fits, tried = explain(rows, theory, one_set=one_set, progress=progress)
    notes = unpredicted + _notes(rows, units)
    scatter = scatter_ratios(rows, one_set=one_set)
    hints = scatter_lines(scatter) + scatter_hint(rows)
    return RunCheck(
        rows, limits(runs, theory.structure), fits, tried, hints, notes, theory, scatter
    )


def read_with_theory(
    table: Any,
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
    for name, value, choices in (
        ("task_sets", task_sets, TASK_SETS),
        ("task_law", task_law, (None, *TASK_LAWS)),
    ):
        if value is not None:
            check_choice(name, value, [each for each in choices if each])
    if draws is not None:
        check_integers(draws=draws)
    if task_sets == "one" and draws == 1:
        raise ValueError(f"draws must be >= 2 for the spread over task sets, got {draws}")
    units = get_convention(convention)
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum)
    runs = read_runs(table, convention=units, **reading)
    theory = Theory(
        task_law=task_law or units.task_law,
        balanced=bool(balanced),
        structure=structure,
        draws=draws,
        root=int(np.random.default_rng(rng).integers(2**62)),
    )
    return runs, theory, units, task_sets == "one"


def _notes(rows: Sequence[RowDeviation], units: Convention) -> list[str]:
    """What was assumed, in sentences."""
    notes = []
    runs = [row.run for row in rows]
    if any(len(run.rows) > 1 for run in runs):
        count = sum(len(run.rows) for run in runs)
        settings = "one setting" if len(runs) == 1 else f"{len(runs)} settings"
        notes.append(f"{count} single runs of {settings} are taken together.")
    if not any(run.ridge for run in runs):
        notes.append("The ridge is 0.")
    lacking = [row for row in rows if any(row.run.lacks_error_bar(name) for name in row.judged)]
    if lacking:
        which = "1 row" if len(lacking) == 1 else f"{len(lacking)} rows"
        notes.append(
            f"The error bars of {which} are predicted: the scatter of runs with exact test errors."
        )
    two = [
        run.errors for run in runs if run.correlation is None and {"icl", "idg"} <= set(run.errors)
    ]
    if any(math.isfinite(each["icl"].standard_error + each["idg"].standard_error) for each in two):
        notes.append(
            "The correlation of the two errors of a row is not known: chi-square counts it as 1."
        )
    if any(np.any(np.isinf(row.prediction.mean)) for row in rows):
        notes.append("Rows at the threshold prompts = d (d + 1) have no finite prediction.")
    if units.input_law != "gaussian":
        notes.append(f"Predictions are for Gaussian inputs, not {units.input_law} ones.")
    return notes
