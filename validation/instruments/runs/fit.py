"""Effective parameters of a table of results of pretrained linear attention."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.drawing import COLOURS, Axes, draw_points, finish
from iclimit.results import PlainRows
from iclimit.validation.instruments.fitted_parameters import ParameterFit, Stated, check_free
from iclimit.validation.instruments.least_squares import values_and_slopes
from iclimit.validation.instruments.runs.check import read_with_theory
from iclimit.validation.instruments.runs.fitting import fit_model, predictors
from iclimit.validation.instruments.runs.measured import ATTENTION, MEASURED
from iclimit.validation.instruments.runs.predictions import predict
from iclimit.validation.instruments.runs.run_model import FREE, LIMIT, RunModel, check_of_sequences

# Values of free parameters that the table does not have.  The search begins at them; at a noise of
# its own where the noise is 0, as in a table that says so.
STARTS = {"tau": 2.0, "alpha": 1.0, "kappa": 1.0, "rho": 0.0}

# The same of runs that are trained on all positions.
STARTS_OF_SEQUENCES = {"sequence_ratio": 2.0, "first_position": 1}

# Distance in rows between the points of different errors of a row.
BESIDE = 0.2

# Free parameters that a table says nothing of: factors, which are 1.
NEUTRAL = ("factor", "task_norm")


@dataclass(frozen=True, eq=False, repr=False)
class RunFit(ParameterFit):
    """Effective parameters of a table (`fit_runs`)."""

    _reading: Mapping[str, Any]

    def predict(self, table: object) -> PlainRows:
        """Predict errors at other settings with the fitted parameters.

        Parameters
        ----------
        table : path, data frame, mapping of columns or sequence of rows
            Settings as the fitted table states them, without errors; those of free parameters
            are replaced by fitted values, or multiplied by fitted factors.

        Returns
        -------
        PlainRows
            Rows with ``icl`` and ``idg``, and standard errors ``icl_se`` and ``idg_se`` because of
            those of the parameters.

        Raises
        ------
        ValueError
            If the table cannot be read, or there is no prediction.
        """
        own = {
            parameter.name: parameter.start
            for parameter in self.parameters
            if parameter.name in (*STARTS, *STARTS_OF_SEQUENCES, "ridge") and not parameter.factor
        }
        # Sequences are stated by their own ratio, or by prompts.
        sequences = any(run.by_position for run in self._solution.data.model.runs)
        starts = {name: STARTS[name] for name in STARTS if not (sequences and name == "tau")}
        reading = {**self._reading, "starts": starts | own}
        runs, theory, *_ = read_with_theory(table, **reading, planned=True)
        model = replace(
            self._solution.data.model, runs=runs, slopes=np.zeros((len(runs), len(LIMIT), 2))
        )
        x = self._solution.x
        logs = model.logs(self._solution.x)
        model = model.centred(x, partial(predict, theory=theory))
        _, slopes = values_and_slopes(lambda x: model.errors(x).reshape(len(x), -1), x)
        bars = self.precision.error_bars(slopes).reshape(-1, 2)
        lines = []
        for run, errors, sizes in zip(runs, model.errors(x), bars, strict=True):
            true = model.moved(run, logs)
            line = {"row": run.rows[0], **run.sizes, "rho": true.rho, "ridge": true.ridge}
            line |= {"position": run.position} if run.by_position else true.training
            for name, error, bar in zip(("icl", "idg"), errors, sizes, strict=True):
                line |= {name: float(error), f"{name}_se": float(bar)}
            lines.append(line)
        return PlainRows(lines)

    def draw(self, ax: Axes) -> None:
        """Draw measured over fitted errors, with bars of the errors of the fit."""
        data = self._solution.data
        fitted, slopes = values_and_slopes(data.predicted, self._solution.x)
        band = self.precision.error_bars(slopes)
        ratio = data.values - fitted
        bars = np.sqrt(np.diag(data.covariance))
        numbers = np.array([data.model.runs[row].rows[0] for row in data.rows])
        shown = [name for name in MEASURED if name in data.names]
        for number, (name, colour) in enumerate(zip(shown, COLOURS, strict=False)):
            here = np.array(data.names) == name
            at = numbers[here] + BESIDE * number
            size = band[here]
            style: dict[str, Any] = {"color": colour, "alpha": 0.2, "linewidth": 0}
            ax.bar(at, 2 * size, BESIDE, bottom=-size, **style)
            draw_points(ax, at, ratio[here], bars[here], colour, label=name.upper())
        ax.axhline(0, color="0.4", linewidth=0.8)
        finish(ax, "row", "ln(measured / fitted)", legend="shaded: errors of the fit")
        ax.set_xlim(min(numbers) - 0.6, max(numbers) + 0.6)
        ax.locator_params(axis="x", integer=True, min_n_ticks=1)


def _stated(model: RunModel, index: int) -> Stated:
    """What the table says of a parameter."""
    name = model.free[index]
    start = float(model.start[index])
    if name == "offset":
        return Stated(1.0, start + 0.0)
    values = [1.0] if name in NEUTRAL else [run.parameters[name] for run in model.runs]
    factor = max(values) > min(values) * (1 + 1e-9)
    unit = 1.0 if factor or name in model.absolute else float(values[0]) or 1.0
    return Stated(unit, unit * math.exp(start), factor)


def fit_runs(
    table: object, free: str | Sequence[str] = ("rho",), *, progress: bool = False, **reading: Any
) -> RunFit:
    r"""Fit effective parameters to your own errors of pretrained linear attention.

    Parameters
    ----------
    table : path, data frame, mapping of columns or sequence of rows
        As of `check_runs`.  Rows without error bars are single runs: their scatter is predicted.
    free : str or sequence of str
        What is fitted: ``tau``, ``alpha``, ``kappa``, ``rho``, ``ridge``, the training ``time``,
        the variance of the weights at its start (``start_variance``), a common ``factor`` of
        the errors, an ``offset`` that is added to them, or the squared norm of the tasks over d
        (``task_norm``); of runs that are trained on all positions also ``sequence_ratio``, in the
        place of ``tau`` and times, and ``first_position`` of the loss.  A parameter for which all
        rows have the same value gets another value; otherwise what the rows have is multiplied by
        a factor.  The table need not have it.
    progress : bool
        Whether to show a progress bar.
    **reading
        How the table is read and which theory it is compared with: the other arguments of
        `check_runs`.

    Returns
    -------
    RunFit
        Values with intervals of 68 and 95 %, ``chi_square`` and ``holds``; ``print`` shows them,
        ``plot`` draws the profiles, ``predict`` extrapolates.

    Raises
    ------
    ValueError
        If the table cannot be read without guessing, with row and column; a name in ``free`` is
        unknown; a row has no prediction, or neither an error bar nor a predicted scatter.
    TypeError
        If ``table`` is no table, or an argument is unknown.

    Notes
    -----
    Weighted least squares on the logarithms of the errors.  The covariance has the scatter of the
    runs (your error bars, with the predicted correlation of the two errors if the table does not
    tell it; without error bars, `iclimit.pretraining.finite_size_spread`), that of the prediction
    over task sets, and the doubt of the prediction.  Predictions are those for the integers of the
    runs, changed by the factor that the limit changes by.

    A ``time`` that is fitted to errors of minimisers is an effective one: a ridge of about
    0.6/time learns as much, and other optimisers such as Adam have times of their own.  The
    start matters where time is finite, or where prompts are fewer than weights and the ridge is 0.

    Runs that are trained on all positions have no limit that is quick: logarithms of predictions
    are linear about the best values, so that wide intervals are rough.  The scatter of rows
    without error bars, and correlations of positions, are those of 60 simulated runs.

    Values are in the units of the library (convention "lu2025").

    Examples
    --------
    >>> import iclimit
    >>> table = {"dim": [24] * 3, "tau": [1, 2, 4], "icl": [2.13, 1.36, 0.99]}
    >>> table |= {"icl_se": [0.01, 0.007, 0.006]}
    >>> shared = {"alpha": 2, "kappa": 1, "ridge": 0.05}
    >>> fit = iclimit.fit_runs(table, free="rho", parameters=shared)
    >>> round(fit.values["rho"], 2)
    0.2
    """
    names = check_free(free, FREE)
    every = STARTS | STARTS_OF_SEQUENCES
    starts = {name: every[name] for name in names if name in every}
    runs, theory, units, one_set = read_with_theory(table, **reading, starts=starts)
    if any(run.estimator != ATTENTION for run in runs):
        raise ValueError(
            "estimator must be 'attention' in all rows: only its parameters are fitted"
        )
    if not all(run.linear for run in runs):
        raise ValueError("link must be identity and flips 0: other labels are checked, not fitted")
    check_of_sequences(names, sequences=any(run.by_position for run in runs))
    if any(run.sgd for run in runs):
        raise ValueError(
            "batch must not be given: runs of one pass of SGD are checked, not fitted"
        )
    if {"time", "start_variance"} & set(names) and theory.structure is not None:
        raise ValueError("free must not have time or start_variance for structured data")
    with tqdm(total=2, disable=not progress, desc="fitting", leave=False) as steps:
        model = RunModel.of(runs, names, theory.structure)
        solutions = fit_model(model, *predictors(theory), one_set=one_set)
        steps.update()
        return RunFit.of(
            solutions,
            {name: _stated(model, index) for index, name in enumerate(names)},
            notes=[] if units.name == "lu2025" else ["Values are in the units of lu2025."],
            _reading=reading,
        )
