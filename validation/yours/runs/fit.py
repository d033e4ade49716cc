"""Effective parameters of a table of results of pretrained linear attention."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import chdtrc
from tqdm.auto import tqdm

from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish, panels
from iclimit.notation import PARAMETERS
from iclimit.results import Result, Table
from iclimit.statistics import FALSE_ALARM
from iclimit.tables import aligned
from iclimit.validation.yours.least_squares import (
    LEVELS,
    Precision,
    Profile,
    profile,
    values_and_slopes,
)
from iclimit.validation.yours.runs.check import read_with_theory
from iclimit.validation.yours.runs.figure import whole_numbers
from iclimit.validation.yours.runs.fitting import (
    LIMIT,
    Measurements,
    RunModel,
    check_free,
    fit_model,
    fit_residuals,
    precision,
    predictors,
)
from iclimit.validation.yours.runs.measured import ATTENTION, MEASURED
from iclimit.validation.yours.runs.predictions import predict

# Where the search begins for free parameters that the table does not have.
STARTS = {"tau": 2.0, "alpha": 1.0, "kappa": 1.0, "rho": 0.1}


@dataclass(frozen=True)
class FittedParameter:
    """An effective parameter.

    Attributes
    ----------
    name : str
        Name of the parameter.
    value : float
        The best value; the factor of what the table says if the rows have different values.
    standard_error : float
        By the Fisher matrix.
    low_68, high_68, low_95, high_95 : float
        Ends of intervals by the profile of chi-square; an end of the searched range where open.
    start : float
        Where the search began: what the table says, if it says anything.
    factor : bool
        Whether the value is a factor of what the rows say.
    """

    name: str
    value: float
    standard_error: float
    low_68: float
    high_68: float
    low_95: float
    high_95: float
    start: float
    factor: bool


@dataclass(frozen=True, eq=False, repr=False)
class RunFit(Result):
    """Effective parameters of a table (`fit_runs`).

    Attributes
    ----------
    parameters : list of FittedParameter
        The free parameters with their intervals.
    chi_square : float
        Weighted sum of squared deviations at the best values.
    count : int
        Number of measured errors.
    precision : Precision
        Fisher matrix, standard errors, correlations and degeneracies of the logarithms.
    profiles : dict of Profile
        Chi-square around the best values by name, over logarithms.
    notes : list of str
        What was assumed.
    """

    parameters: list[FittedParameter]
    chi_square: float
    count: int
    precision: Precision
    profiles: dict[str, Profile]
    notes: list[str]
    _model: RunModel
    _data: Measurements
    _best: np.ndarray
    _reading: Mapping[str, Any]

    @property
    def values(self) -> dict[str, float]:
        """Best values by name."""
        return {each.name: each.value for each in self.parameters}

    @property
    def degrees(self) -> int:
        """Degrees of freedom: errors minus parameters."""
        return self.count - len(self.parameters)

    @property
    def p_value(self) -> float:
        """Probability of a larger chi-square if runs follow the theory at some parameters."""
        return float(chdtrc(self.degrees, self.chi_square)) if self.degrees > 0 else 1.0

    @property
    def holds(self) -> bool:
        """Whether the theory at these parameters explains the table."""
        return self.p_value >= FALSE_ALARM

    @property
    def conclusions(self) -> list[str]:
        """Whether the parameters explain the table, and what is not told apart."""
        words = (
            "1 parameter" if len(self.parameters) == 1 else f"{len(self.parameters)} parameters"
        )
        head = f"chi-square {self.chi_square:.1f} for {self.count} errors and {words}"
        verdict = f"p = {self.p_value:.2g}: "
        verdict += "the theory explains the table" if self.holds else "no values explain the table"
        if self.degrees <= 0:
            verdict = "as many parameters as errors: nothing is left to contradict them"
        return [f"{head}, {verdict}.", *self.precision.degeneracies, *self.notes]

    def rows(self) -> list[dict[str, Any]]:
        """The parameters with their intervals."""
        return [vars(each) for each in self.parameters]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and lists."""
        names = ("chi_square", "count", "degrees", "p_value", "holds", "conclusions")
        numbers = {name: getattr(self, name) for name in names}
        return numbers | {
            "rows": self.rows(),
            "correlations": self.precision.correlations.tolist(),
        }

    def __str__(self) -> str:
        """Table of the parameters, and what they say."""
        lines = [["", "value", *(f"{level} %" for level in LEVELS), "started from"]]
        for each in self.parameters:
            spans = [
                f"{low:.4g} to {high:.4g}"
                for low, high in ((each.low_68, each.high_68), (each.low_95, each.high_95))
            ]
            lines.append(
                [
                    each.name,
                    f"{each.value:.4g}",
                    *spans,
                    f"{each.start:.4g}{' (factor)' * each.factor}",
                ]
            )
        return "\n".join([*aligned(lines, "<>"), *self.conclusions])

    def predict(self, table: Any) -> Table:
        """Predict errors at other settings with the fitted parameters.

        Parameters
        ----------
        table : path, data frame, mapping of columns or sequence of rows
            Settings as the fitted table states them, without errors; those of free parameters
            are replaced by fitted values, or multiplied by fitted factors.

        Returns
        -------
        Table
            Rows with ``icl`` and ``idg``, and standard errors ``icl_se`` and ``idg_se`` because of
            those of the parameters.

        Raises
        ------
        ValueError
            If the table cannot be read, or there is no prediction.
        """
        starts = {
            each.name: each.start
            for each in self.parameters
            if each.name in (*STARTS, "ridge") and not each.factor
        }
        reading = {**self._reading, "starts": STARTS | starts}
        runs, theory, *_ = read_with_theory(table, **reading, planned=True)
        free = self._model.free, self._model.structure, self._model.absolute
        model = RunModel(runs, *free, slopes=np.zeros((len(runs), len(LIMIT), 2)))
        x, logs = self._best, model.logs(self._best)
        model = model.centred(x, partial(predict, theory=theory))
        _, slopes = values_and_slopes(lambda x: model.errors(x).reshape(len(x), -1), x)
        bars = np.sqrt(np.sum((slopes @ self.precision.covariance) * slopes, axis=1))
        lines = []
        for run, errors, sizes in zip(runs, model.errors(x), bars.reshape(-1, 2), strict=True):
            true = model.moved(run, logs, whole=True)
            line = {"row": run.rows[0], **run.sizes, "rho": true.rho, "ridge": true.ridge}
            for name, error, bar in zip(("icl", "idg"), errors, sizes, strict=True):
                line |= {name: float(error), f"{name}_se": float(bar)}
            lines.append(line)
        return Table(lines)

    def _natural(self, name: str, x: np.ndarray) -> np.ndarray:
        """Values of a parameter from logarithms, or from offsets themselves."""
        return _value(self._model, name, x)

    def draw(self, ax: Axes) -> None:
        """Draw measured over fitted errors, with the band of the fit."""
        data = self._data
        fitted = data.predicted(self._model.errors(self._best))
        _, slopes = values_and_slopes(lambda x: data.predicted(self._model.errors(x)), self._best)
        band = np.sqrt(np.sum((slopes @ self.precision.covariance) * slopes, axis=1))
        ratio, bars = data.values - fitted, np.sqrt(np.diag(data.covariance))
        numbers = np.array([self._model.runs[row].rows[0] for row in data.rows])
        for name, colour in zip(MEASURED, COLOURS, strict=False):
            here = np.array(data.names) == name
            if np.any(here):
                order = np.argsort(numbers[here], kind="stable")
                at, size = numbers[here][order], band[here][order]
                ax.fill_between(at, -size, size, color=colour, alpha=0.2, linewidth=0)
                draw_points(ax, numbers[here], ratio[here], bars[here], colour, label=name.upper())
        ax.axhline(0, color="0.4", linewidth=0.8)
        finish(ax, "row", "ln(measured / fitted)", legend="")
        whole_numbers(ax)

    def draw_figure(self, figure: Figure, /, **_: Any) -> list[Axes]:
        """Draw profiles of chi-square, ellipses of pairs of parameters, and the deviations."""
        names, size = self.precision.names, max(len(self.parameters), 2)
        axes = panels(
            figure,
            size,
            size if len(names) > 1 else 1,
            width=3.6 * size,
            height=3.2 * (size if len(names) > 1 else 1),
        )
        for i, first in enumerate(names):
            self._draw_profile(axes[i * size + i], first)
            for j in range(i):
                self._draw_pair(axes[i * size + j], j, i)
            for j in range(i + 1, size):
                axes[i * size + j].set_visible(j == size - 1 and i == 0)
        self.draw(axes[size - 1])
        return axes

    def _draw_profile(self, ax: Axes, name: str) -> None:
        curve = self.profiles[name]
        fine = np.linspace(curve.values[0], curve.values[-1], 200)
        ax.plot(self._natural(name, fine), curve.root(fine) ** 2)
        for level, rise in LEVELS.items():
            ax.axhline(rise, color="0.6", linewidth=0.8, linestyle="--")
            ax.text(0.02, rise, f"{level} %", transform=ax.get_yaxis_transform(), fontsize="small")
        ax.set_ylim(0, 2 * LEVELS[95])
        finish(ax, _label(self._model, name), "rise of chi-square")

    def _draw_pair(self, ax: Axes, j: int, i: int) -> None:
        names = self.precision.names
        part = self.precision.covariance[np.ix_([j, i], [j, i])]
        circle = np.exp(1j * np.linspace(0, 2 * np.pi, 200))
        for level, colour in zip((0.68, 0.95), ("0.2", "0.6"), strict=True):
            radius = math.sqrt(-2 * math.log(1 - level))
            ring = radius * np.linalg.cholesky(part) @ [circle.real, circle.imag]
            places = [
                self._natural(names[k], self._best[k] + each)
                for k, each in zip((j, i), ring, strict=True)
            ]
            ax.plot(*places, color=colour)
        for k in (j, i):
            points = self.profiles[names[k]].points
            ax.plot(*(self._natural(names[m], points[:, m]) for m in (j, i)), ":", linewidth=1)
        ax.plot(*(self._natural(names[m], self._best[m]) for m in (j, i)), "k+")
        finish(ax, _label(self._model, names[j]), _label(self._model, names[i]))


def _label(model: RunModel, name: str) -> str:
    symbol = PARAMETERS[name].symbol if name in STARTS or name == "ridge" else ""
    text = f"${symbol}$" if symbol else name.replace("_", " ")
    return text if _stated(model, name) is not None else f"factor of {text}"


def _stated(model: RunModel, name: str) -> float | None:
    """What all rows say of a parameter; 1 for a factor and 0 for an offset."""
    if name in ("factor", "task_norm", "offset"):
        return float(name != "offset")
    values = [run.ratios[name] for run in model.runs]
    return float(values[0]) if max(values) <= min(values) * (1 + 1e-9) else None


def _value(model: RunModel, name: str, x: np.ndarray) -> np.ndarray:
    """Value of a parameter, or the factor of what the rows say of it."""
    if name == "offset":
        return x
    stated = _stated(model, name)
    return np.asarray(np.exp(x) * (1.0 if name in model.absolute or not stated else stated))


def fit_runs(
    table: Any, free: str | Sequence[str] = ("rho",), *, progress: bool = False, **reading: Any
) -> RunFit:
    r"""Fit effective parameters to your own errors of pretrained linear attention.

    Parameters
    ----------
    table : path, data frame, mapping of columns or sequence of rows
        As of `check_runs`.  Rows without error bars are single runs: their scatter is predicted.
    free : str or sequence of str
        What is fitted: ``tau``, ``alpha``, ``kappa``, ``rho``, ``ridge``, a common ``factor`` of
        the errors, an ``offset`` that is added to them, or the squared norm of the tasks over d
        (``task_norm``).  A parameter for which all rows have the same value gets another value;
        otherwise what the rows have is multiplied by a factor.  The table need not have it.
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
    names = check_free(free)
    starts = {name: STARTS[name] for name in names if name in STARTS}
    runs, theory, units, one_set = read_with_theory(table, **reading, starts=starts)
    if any(run.estimator != ATTENTION for run in runs):
        raise ValueError(
            "estimator must be 'attention' in all rows: only its parameters are fitted"
        )
    steps = tqdm(total=3, disable=not progress, desc="fitting", leave=False)
    model = RunModel.of(runs, names, theory.structure)
    model, data, best = fit_model(model, *predictors(theory), one_set=one_set)
    steps.update()

    residuals = partial(fit_residuals, model, data)
    known = precision(model, data, best)
    profiles, parameters = {}, []
    for index, (name, error) in enumerate(known.standard_errors.items()):
        curve = profiles[name] = profile(residuals, best, index, error, model.bounds)
        ends = [end for level in LEVELS for end in curve.interval(level)]
        numbers = _value(model, name, np.array([best[index], model.start[index], *ends]))
        value, start, low_68, high_68, low_95, high_95 = numbers.tolist()
        error *= value if name != "offset" else 1.0
        spans = low_68, high_68, low_95, high_95
        factor = _stated(model, name) is None
        parameters.append(FittedParameter(name, value, error, *spans, start, factor))
        steps.update(2 / len(names))
    steps.close()
    notes = []
    if units.name != "lu2025":
        notes.append("Values are in the units of lu2025.")
    chi_square = float(np.sum(residuals(best)[:-1] ** 2))
    return RunFit(
        parameters,
        chi_square,
        len(data.values),
        known,
        profiles,
        notes,
        model,
        data,
        best,
        reading,
    )
