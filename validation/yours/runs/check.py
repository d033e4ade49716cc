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
from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish, log_scale, panels
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Seed
from iclimit.tables import aligned, plain
from iclimit.units import Convention, get_convention
from iclimit.validation.judge.comparisons import Comparison
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.yours.runs.explanations import Fit, explain, likeliest
from iclimit.validation.yours.runs.judgement import (
    ChiSquare,
    RowDeviation,
    ZDistribution,
    chi_square,
    compare_run,
    verdict,
)
from iclimit.validation.yours.runs.measured import MEASURED, read_runs
from iclimit.validation.yours.runs.predictions import Prediction, Theory, limits, predict

# Least number of z whose distribution is shown: that of fewer says less than the z themselves.
FEWEST_Z = 5

# Most lines of the printed table; of more, those with the largest z are shown.
PRINTED = 24

HEAD = [
    "row",
    "d",
    "l",
    "k",
    "n",
    "rho",
    "ridge",
    "error",
    "measured",
    "limit",
    "predicted",
    "%",
    "z",
]


def row_numbers(row: RowDeviation, limit: Mapping[str, float]) -> dict[str, Any]:
    """Settings and measured errors of a row, with limits, predictions, deviations and z.

    What cannot be said, as z without a standard error, is None.
    """
    run, prediction = row.run, row.prediction
    numbers: dict[str, Any] = {"row": run.rows[0], "rows": len(run.rows)}
    numbers |= {**run.sizes, "rho": run.rho, "ridge": run.ridge}
    for name, each in row.comparisons.items():
        weights = np.array(MEASURED[name])
        variances = {
            "prediction_se": prediction.covariance,
            "task_set_sd": prediction.spread,
            "uncertainty": 4 * prediction.doubt,
        }
        numbers |= {name: each.estimate, f"{name}_se": run.errors[name].standard_error}
        numbers |= {
            f"{name}_limit": _number(limit[name]),
            f"{name}_prediction": _number(each.theory),
        }
        for ending, variance in variances.items():
            finite = math.isfinite(each.theory)
            value = math.sqrt(weights @ variance @ weights) if finite else None
            numbers[f"{name}_{ending}"] = value
        numbers |= {f"{name}_deviation": relative_deviation(each), f"{name}_z": _number(each.z)}
    return numbers


def relative_deviation(row: Comparison) -> float | None:
    """Measured over predicted minus 1; None where that means nothing."""
    usable = math.isfinite(row.theory) and row.theory != 0
    return row.estimate / row.theory - 1 if usable else None


def table_lines(rows: Sequence[RowDeviation], limits: Sequence[Mapping[str, float]]) -> list[str]:
    """Lines of the printed table, one for each measured error."""
    lines = [
        (abs(_number(each.z) or 0.0), _cells(row, limit[name], name, each))
        for row, limit in zip(rows, limits, strict=True)
        for name, each in row.comparisons.items()
    ]
    hidden = max(len(lines) - PRINTED, 0)
    if hidden:
        least = sorted(size for size, _ in lines)[-PRINTED]
        lines = [line for line in lines if line[0] >= least][:PRINTED]
    shown = aligned([HEAD, *(line for _, line in lines)])
    return [*shown, *([f"({hidden} more with smaller z)"] if hidden else [])]


def summary_lines(
    total: ChiSquare, z: Mapping[str, ZDistribution], resolutions: Mapping[str, float]
) -> list[str]:
    """Lines on chi-square, the distribution of z and what would have been noticed."""
    errors = "1 error" if total.count == 1 else f"{total.count} errors"
    lines = [
        f"chi-square {total.value:.1f} for {errors} "
        f"({total.degrees:.1f} degrees of freedom), p = {total.p_value:.2g}"
    ]
    for name, law in z.items():
        if law.count >= FEWEST_Z:
            lines.append(
                f"z of {name.upper()}: mean {law.mean:.2f}, width {law.width:.2f} over "
                f"{law.count} rows, p = {law.p_value:.2g} for a standard normal law"
            )
    noticed = ", ".join(
        f"{100 * value:.2g} % of {name.upper()}"
        for name, value in resolutions.items()
        if math.isfinite(value)
    )
    return [
        *lines,
        *([f"would have been noticed: a common deviation of {noticed}"] * bool(noticed)),
    ]


def outcome_lines(verdict: Verdict, fits: Sequence[Fit], tried: int) -> list[str]:
    """Lines on whether the table agrees, and on what would explain it if not."""
    if verdict.holds:
        return ["The table agrees with the theory."]
    worst, count = verdict.worst, len(verdict.failures)
    label = worst.label
    if worst.pooled:
        label = f"common factor of {worst.pooled} {worst.of.rpartition('.')[2].upper()} errors"
    lines = [
        f"The table contradicts the theory: {count} of {len(verdict.evidence)} comparisons; worst "
        f"{label}, z = {worst.z:.1f}."
    ]
    if not fits:
        return [*lines, f"None of {tried} mistakes that were tried would explain it."]
    lines[0] += f" {tried} mistakes were tried."
    for fit in fits:
        words = "It fits if" if fit.fits else "It comes nearer, but does not fit, if"
        lines.append(f"{words} {fit.text} (chi-square {fit.chi_square.value:.1f}).")
    return [*lines, *(["This table does not tell these apart."] * (len(fits) > 1))]


def _cells(row: RowDeviation, limit: float, name: str, each: Comparison) -> tuple[str, ...]:
    run, deviation = row.run, relative_deviation(each)
    variance = each.standard_error**2 - run.errors[name].standard_error ** 2
    known = math.isfinite(each.standard_error) and variance > 0
    predicted = Estimate(each.theory, math.sqrt(variance) if known else math.inf, 0)
    return (
        str(run.rows[0]),
        *(f"{run.sizes[size]:g}" for size in ("dim", "context", "tasks", "prompts")),
        f"{run.rho:g}",
        f"{run.ridge:g}",
        name.upper(),
        str(run.errors[name]),
        f"{limit:.4g}",
        str(predicted),
        "" if deviation is None else f"{100 * deviation:+.2f}",
        "" if _number(each.z) is None else f"{each.z:+.1f}",
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


# What deviations may be drawn against.
PARAMETERS = ("tau", "alpha", "kappa", "dim", "rho", "ridge")

MARKERS = dict(zip(MEASURED, "os^", strict=True))


def most_varied(rows: Sequence[RowDeviation]) -> str:
    """Return the parameter with the most different values; of several, the first."""
    return max(PARAMETERS, key=lambda name: len(set(_values(rows, name))))


def draw_check(figure: Figure, rows: Sequence[RowDeviation], verdict: Verdict) -> None:
    """Draw z by row, and relative deviations by row and by the most varied parameter."""
    from matplotlib.ticker import MaxNLocator

    scores, by_row, by_parameter = panels(figure, 3, width=11.4, height=3.5)
    names = _names(rows)
    grouped = any(len(row.run.rows) > 1 for row in rows)
    numbers = [number if grouped else row.run.rows[0] for number, row in enumerate(rows, 1)]
    counted = "setting" if grouped else "row"
    for name, colour in zip(names, COLOURS, strict=False):
        shift = 0.12 * (names.index(name) - (len(names) - 1) / 2)
        z = [_z(row, name) for row in rows]
        places = np.array(numbers) + shift
        scores.plot(places, z, MARKERS[name], color=colour, markersize=4, label=name.upper())
        _draw_deviations(by_row, places, rows, name, colour)
    judged = [row for row in verdict.comparisons if row.of]
    if judged:
        for side in (-1, 1):
            level = side * verdict.threshold(judged[0])
            scores.axhline(level, color="0.5", linestyle="--", linewidth=0.8)
    for ax in (scores, by_row):
        ax.axhline(0, color="0.4", linewidth=0.8, zorder=0)
    finish(scores, counted, "z", legend="" if len(names) > 1 else None)
    finish(by_row, counted, "measured / predicted - 1, in %")
    for ax in (scores, by_row):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    draw_deviations(by_parameter, rows)


def draw_deviations(ax: Axes, rows: Sequence[RowDeviation]) -> None:
    """Draw relative deviations by the most varied parameter."""
    parameter = most_varied(rows)
    for name, colour in zip(_names(rows), COLOURS, strict=False):
        _draw_deviations(ax, _values(rows, parameter), rows, name, colour)
    ax.axhline(0, color="0.4", linewidth=0.8, zorder=0)
    finish(ax, parameter, "measured / predicted - 1, in %")
    values = [value for value in _values(rows, parameter) if 0 < value < math.inf]
    if len(values) == len(rows) and max(values) > 20 * min(values):
        log_scale(ax, "x")


def _names(rows: Sequence[RowDeviation]) -> list[str]:
    """Errors that were measured."""
    return [name for name in MEASURED if any(name in row.comparisons for row in rows)]


def _draw_deviations(
    ax: Axes,
    places: Sequence[float] | np.ndarray,
    rows: Sequence[RowDeviation],
    name: str,
    colour: str,
) -> None:
    points = []
    for place, row in zip(places, rows, strict=True):
        each = row.comparisons.get(name)
        if each is not None and each.theory and math.isfinite(each.theory):
            error = each.standard_error if math.isfinite(each.standard_error) else 0.0
            scale = 100 / abs(each.theory)
            points.append((place, scale * (each.estimate - each.theory), scale * error))
    if points:
        x, deviations, errors = zip(*points, strict=True)
        draw_points(ax, x, deviations, errors, colour, fmt=MARKERS[name])


def _values(rows: Sequence[RowDeviation], name: str) -> list[float]:
    return [
        row.run.sizes["dim"] if name == "dim" else round(row.run.ratios[name], 12) for row in rows
    ]


def _z(row: RowDeviation, name: str) -> float:
    each = row.comparisons.get(name)
    return each.z if each is not None and math.isfinite(each.standard_error) else math.nan


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
        Mistakes that would explain a contradiction, the likeliest first; where none does, the one
        that comes nearest, if it comes much nearer.  Empty where nothing contradicts the theory.
    tried : int
        How many mistakes were tried.
    notes : list of str
        What was assumed.
    """

    deviations: list[RowDeviation]
    limits: list[dict[str, float]]
    fits: list[Fit]
    tried: int
    notes: list[str]

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict on all z, their sum of squares, and a common factor of each error."""
        return verdict(self.deviations, self.draw_figure, self.notes)

    @property
    def judged(self) -> int:
        """Number of measured errors that have a z."""
        return self.chi_square.count

    @property
    def holds(self) -> bool:
        """Whether errors were judged, and nothing contradicts the theory."""
        return self.judged > 0 and self.verdict.holds

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
                "fits": [
                    {"if": fit.text, "fits": fit.fits, "chi_square": fit.chi_square.value}
                    for fit in self.fits
                ],
                "mistakes_tried": self.tried,
                "notes": self.notes,
                "rows": self.rows(),
            }
        )
        return entries

    def draw(self, ax: Axes) -> None:
        """Draw relative deviations by the most varied parameter."""
        draw_deviations(ax, self.deviations)

    def draw_figure(self, figure: Figure, /, **_: Any) -> list[Axes]:
        """Draw z and relative deviations by row, and deviations by the most varied parameter."""
        draw_check(figure, self.deviations, self.verdict)
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
        return [*summary, *outcome, *self.notes]


def check_runs(
    table: Any,
    *,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
    parameters: Mapping[str, float] | None = None,
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
        ``tau``; ``rho`` or ``noise_variance``; ``ridge`` (0 without it); one or more of ``icl``,
        ``idg`` and ``gap`` (their difference).  A row is either a mean, with its standard error
        (``icl_se``) or the standard deviation of its runs (``icl_sd`` and ``runs``), or a single
        run: without such columns, rows of one setting are taken together.
    columns : mapping of str, optional
        What your columns are called: ``{"icl": "test_loss", "dim": "d"}``.
    ignore : sequence of str or "others"
        Columns that are not used.  Any other unknown column is an error; ``"others"``: none is.
    parameters : mapping of numbers, optional
        Parameters that all rows share and the table has no columns for: ``{"rho": 0.1}``.
    convention : str or Convention
        Units of the table (`iclimit.units`): "lu2025", "vonoswald2023",
        "blog2024", "versatile2024" or "linattn2025".  ``rho`` is always relative to the variance
        of noiseless labels; ``noise_variance`` is in these units.
    rounding : {"exact", "nearest", "floor", "ceil"}
        How sizes came out of ratios.  "exact": ratios must give integers.
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

    If the table contradicts the theory, some thirty possible mistakes are tried: halved losses, a
    ridge off by a factor d, noise left out, and so on.  Those that would explain it are in
    ``fits``.

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
    runs = read_runs(
        table,
        columns=columns,
        ignore=ignore,
        parameters=parameters,
        convention=units,
        rounding=rounding,
        ddof=ddof,
    )
    theory = Theory(
        task_law=task_law or units.task_law,
        balanced=bool(balanced),
        structure=structure,
        draws=draws,
        root=int(np.random.default_rng(rng).integers(2**62)),
    )
    one_set = task_sets == "one"
    bar = tqdm(runs, disable=not progress, unit="row", desc="predicting", leave=False)
    rows, unpredicted = [], []
    for run in bar:
        try:
            prediction = predict(run, theory)
        except ValueError as error:
            unpredicted.append(f"{error}; it is not judged.")
            prediction = Prediction.missing()
        rows.append(compare_run(run, prediction, one_set=one_set))
    fits: list[Fit] = []
    tried = 0
    if not verdict(rows).holds:
        fits, tried = explain(rows, theory, one_set=one_set, progress=progress)
        fits = likeliest(fits, chi_square(rows))
    return RunCheck(rows, limits(runs, structure), fits, tried, unpredicted + _notes(rows, units))


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
    two = [
        run.errors for run in runs if run.correlation is None and {"icl", "idg"} <= set(run.errors)
    ]
    if any(math.isfinite(each["icl"].standard_error + each["idg"].standard_error) for each in two):
        notes.append(
            "The correlation of the two errors of a row is not known: chi-square counts it as 1."
        )
    predictions = [row.prediction for row in rows]
    if any(math.isfinite(each.uncertainty) and not each.finite for each in predictions):
        notes.append("Rows at the threshold prompts = d (d + 1) have no finite prediction.")
    if units.input_law != "gaussian":
        notes.append(f"Predictions are for Gaussian inputs, not {units.input_law} ones.")
    return notes
