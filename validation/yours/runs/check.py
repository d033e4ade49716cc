"""Check of a table of results of pretrained linear attention against the theory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.checks import check_choice, given
from iclimit.problem import TASK_LAWS
from iclimit.simulate.arrays import Seed
from iclimit.units import Convention, get_convention
from iclimit.validation.yours.runs.explanations import Fit, explain
from iclimit.validation.yours.runs.judgement import RowDeviation, compare_run, verdict
from iclimit.validation.yours.runs.measured import MeasuredRun, read_runs
from iclimit.validation.yours.runs.predictions import Prediction, Theory, limits, predict
from iclimit.validation.yours.runs.report import RunCheck
from iclimit.validation.yours.runs.scatter import scatter_hints, scatter_ratios

TASK_SETS = ("many", "one")


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
    stated = dict(locals())
    del stated["progress"]
    runs, theory, units, one_set = read_with_theory(**stated)
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
    hints = scatter_hints(rows, scatter)
    errors = limits(runs, theory.structure)
    return RunCheck(rows, errors, fits, tried, hints, notes, theory, scatter)


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
    check_integers(**given(draws=draws))
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
        single = any(len(each.samples) for run in runs for each in run.errors.values())
        kind = "single runs" if single else "means"
        notes.append(f"{count} {kind} of {settings} are taken together.")
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
