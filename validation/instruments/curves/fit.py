"""Initial scale, learning rate and law of the data that training curves were made with.

Plateaus, drops and their durations are found in the curves as by `iclimit.check_curve`, and the
theory of training is fitted to them.

**Covariance.**  A number that was found has the standard error that the check gives it, and half
of its allowance counts as a further one.  Half-drops of random initial weights have the covariance
of their law.  Losses and times vary together over training sets, as small sets that are drawn at
random do.  The law of merged half-drops is skewed: deviations are those of normal numbers with the
same probability.

**Expansion.**  Losses and times are nearly powers of the parameters.  So their logarithms are
expanded to first order about the best values, and these are found again until they stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from iclimit.drawing import Axes
from iclimit.validation.instruments.curves.check import check_curve, draw_curves
from iclimit.validation.instruments.curves.reading import StatedCurves, read_stated_curves
from iclimit.validation.instruments.curves.rows import CurveRow, compare_curves
from iclimit.validation.instruments.curves.setting import CurveSetting
from iclimit.validation.instruments.curves.table import Curve
from iclimit.validation.instruments.curves.theory import (
    DURATION_SPREAD,
    CurveTheory,
    predict_curve,
)
from iclimit.validation.instruments.fitted_parameters import ParameterFit, Stated, check_free
from iclimit.validation.instruments.fitting import Solution, solve
from iclimit.validation.instruments.least_squares import (
    Bounds,
    Precision,
    sums_of_squares,
    values_and_slopes,
)

# What may be free, as fields of the setting with their name or another one, and by themselves:
# ``eigenvalues`` stands for one parameter each, ``trace`` for their common factor.
FIELDS = {
    **{name: name for name in ("init_scale", "learning_rate", "noise_variance")},
    **{"context": "context_factor", "factor": "loss_unit"},
}
FREE = (*FIELDS, "eigenvalues", "trace")

# Smallest and largest fitted value of a parameter, over the stated one.
FACTORS = (0.02, 50.0)

# The same for the units of losses and steps.
UNITS = (1e-4, 1e4)

# The same for the initial scale, which may be off by orders of magnitude.
SCALES = (1e-6, 1e3)

# No number that is found in a curve is known better than this.
SHARPEST = 1e-3

# An expansion is used so many standard errors from its centre.  Numbers are found in the curves
# again at each centre, as theory there says where to look.
MOVED = 0.02

# If chi-square divided by the count of numbers is larger than this, the search is repeated from
# other places.
MISFIT = 4.0

# Distances of these other places from the stated parameters, in logarithms of one parameter.
FAR = np.array([[0.5], [-0.5], [1.0], [-1.0]])

# Step of the logarithms of parameters in the finite differences of theory.
STEP = 0.05

# Largest change of the logarithm of a parameter in one round.
FURTHEST = 2.0


@dataclass(frozen=True, eq=False, repr=False)
class CurveFit(ParameterFit):
    """Parameters that training curves were made with (`fit_curve`).

    Attributes
    ----------
    rows_found : list of CurveRow
        What was found in the curves, beside the fitted theory.
    curves : list of Curve
        The curves that were used.
    theory : CurveTheory
        The prediction at the fitted values.
    """

    rows_found: list[CurveRow]
    curves: list[Curve]
    theory: CurveTheory

    kind: ClassVar[str] = "number"
    data: ClassVar[str] = "curves"
    advice: ClassVar[str] = "iclimit check-curve says which numbers of the curves deviate."

    def draw(self, ax: Axes) -> None:
        """Draw the curves as lines, and the fitted theory as dashes."""
        draw_curves(ax, self.curves, self.theory)


def fit_curve(
    table: object, free: str | Sequence[str] = ("init_scale",), **stated: Any
) -> CurveFit:
    r"""Fit initial scale, learning rate or the law of the data to your own training curves.

    Parameters
    ----------
    table : path, data frame, mapping of columns, sequence of rows, or TrainingCurves
        As of `check_curve`.
    free : str or sequence of str
        What is fitted: ``init_scale``; ``learning_rate``; ``eigenvalues``, each of them;
        ``trace``, their sum; ``context``, the number of pairs that a prompt is worth;
        ``noise_variance``; ``factor``, of the recorded losses.
    **stated
        How the curves were trained: the other arguments of `check_curve`.  Those of free
        parameters are where the search begins.

    Returns
    -------
    CurveFit
        Values with intervals of 68 and 95 %, ``chi_square`` and ``holds``; ``print`` shows them,
        ``plot`` draws the profiles and the curves.

    Raises
    ------
    ValueError
        If an argument is outside its range, a name in ``free`` is unknown or cannot be fitted to
        this table, or the curves have nothing to fit it to.
    TypeError
        If an argument is of another kind, or unknown.

    Notes
    -----
    Plateaus, half-drops, durations and the losses at both ends are fitted by least squares on
    logarithms; their errors are those of `check_curve`.  Initial weights that are not given are
    random: for one run of merged attention with H heads that leaves the initial scale uncertain by
    a factor of about :math:`1 \pm 1/\sqrt{2H}`.

    Context and noise enter a plateau by :math:`(\lambda + \operatorname{tr}\Lambda + \sigma^2)/N`.
    So they are told apart by several plateaus, or if query labels are noisy, as the initial loss
    then has the noise.

    References
    ----------
    Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265).

    Examples
    --------
    >>> import iclimit
    >>> law = {"eigenvalues": [0.4, 0.3, 0.2, 0.1], "context": 31}
    >>> times = [5 * k for k in range(40)]
    >>> curve = iclimit.dynamics.merged_attention_curve(times, init_scale=1.5e-3, **law)
    >>> more = {"model": "merged", "heads": 8, "init_scale": 1e-2, **law}
    >>> fit = iclimit.fit_curve({"time": times, "loss": curve}, **more)
    >>> fit.holds, 0.0005 < fit.values["init_scale"] < 0.002
    (True, True)
    """
    names = check_free(free, FREE)
    given = signature(check_curve).bind(table, **stated)
    given.apply_defaults()
    reading = read_stated_curves(**given.arguments)
    setting = reading.setting
    _refuse_free(names, setting, known_start=reading.starts.known)
    every = [parameter for name in names for parameter in _parameters(name, setting)]
    solutions = fit_curves(reading, every)
    model = solutions[0].data
    values = {name: _stated(name, setting) for name in every}
    return CurveFit.of(
        solutions,
        {name: Stated(value, value) for name, value in values.items()},
        notes=reading.left_out,
        rows_found=model.rows,
        curves=reading.curves,
        theory=model.theory,
    )


def fit_curves(stated: StatedCurves, names: Sequence[str]) -> list[Solution[CurveModel]]:
    """All minima that are found of the misfit of these parameters, the lowest first."""
    expand = partial(CurveModel.of, stated, names)
    solutions = solve(expand, np.zeros(len(names)), FURTHEST)
    if _misfit(solutions) <= MISFIT:
        return solutions
    # Drops that are taken for others hold a search at a wrong place.
    searches = [solutions]
    for move in np.kron(FAR, np.eye(len(names))):
        with suppress(ValueError):  # there is nothing to compare, or no theory
            place = np.clip(move, *solutions[0].data.bounds)
            searches.append(solve(expand, place, FURTHEST))
    return min(searches, key=_misfit)


def _misfit(solutions: Sequence[Solution[CurveModel]]) -> float:
    """Chi-square by number of the best one."""
    best = solutions[0]
    return best.height / best.data.count


def _refuse_free(names: Sequence[str], setting: CurveSetting, *, known_start: bool) -> None:
    """Refuse what cannot be fitted."""
    if not setting.timed and {"init_scale", "learning_rate"} & set(names):
        raise ValueError(
            "free must be eigenvalues, trace or factor where theory has no times (mixtures, other "
            f"optimizers), got {', '.join(names)}"
        )
    if "init_scale" in names and known_start:
        raise ValueError("free must not have init_scale if initial weights are given")
    if "learning_rate" in names and setting.learning_rate is None:
        raise ValueError("free must not have learning_rate for a table with times")
    if "context" in names and setting.mixed:
        raise ValueError("free must not have context for mixtures of tasks")
    if "noise_variance" in names and not setting.noise_variance:
        raise ValueError("noise_variance must be > 0, where the search begins, if it is free")
    if {"eigenvalues", "trace"} <= set(names):
        raise ValueError("free must have eigenvalues or trace, their common factor, not both")


def _parameters(name: str, setting: CurveSetting) -> list[str]:
    """Names of the numbers that a free name stands for."""
    if name != "eigenvalues":
        return [name]
    return [f"eigenvalue_{number}" for number in range(1, len(setting.eigenvalues) + 1)]


def _range(name: str, setting: CurveSetting) -> tuple[float, float]:
    """Ends of the factors of a parameter that are searched."""
    if name == "init_scale":
        return SCALES
    if name in ("factor", "learning_rate"):
        return UNITS
    # Theory has no contexts of less than a pair.
    least = 1 / setting.context if name == "context" else 0.0
    return max(FACTORS[0], least), FACTORS[1]


def _stated(name: str, setting: CurveSetting) -> float:
    """What is stated of a parameter."""
    if name.startswith("eigenvalue_"):
        return setting.eigenvalues[int(name.removeprefix("eigenvalue_")) - 1]
    special = {"trace": sum(setting.eigenvalues), "context": setting.context}
    return float(special[name] if name in special else getattr(setting, FIELDS[name]))


def changed_setting(setting: CurveSetting, names: Sequence[str], x: np.ndarray) -> CurveSetting:
    """The setting with parameters multiplied by the exponentials of x."""
    factors = dict(zip(names, np.exp(x).tolist(), strict=True))
    eigenvalues = tuple(
        value * factors.get("trace", 1.0) * factors.get(f"eigenvalue_{number}", 1.0)
        for number, value in enumerate(setting.eigenvalues, 1)
    )
    fields = {FIELDS[name]: factor for name, factor in factors.items() if name in FIELDS}
    scaled = {field: getattr(setting, field) * factor for field, factor in fields.items()}
    return replace(setting, eigenvalues=eigenvalues, **scaled)


@dataclass(frozen=True, eq=False)
class CurveModel:
    """What was found in curves, and what theory says of it at other parameters.

    Attributes
    ----------
    names : sequence of str
        Free parameters.
    centre : ndarray (p,)
        Where the numbers were found, and theory is expanded.
    theory : CurveTheory
        Prediction there.
    rows : list of CurveRow
        The numbers, with one standard error each.
    slopes : ndarray (rows, p)
        Of the logarithms of what theory says.
    whitening : ndarray (rows, rows)
        Makes the deviations independent.
    bounds : pair of ndarray (p,)
        Range of the parameters.
    """

    names: Sequence[str]
    centre: np.ndarray
    theory: CurveTheory
    rows: list[CurveRow]
    slopes: np.ndarray
    whitening: np.ndarray
    bounds: Bounds

    @property
    def count(self) -> int:
        """Number of measured values."""
        return len(self.rows)

    def reach(self, errors: np.ndarray) -> np.ndarray:
        """How far (p,) the expansion is used, where parameters have these errors (p,)."""
        return MOVED * np.maximum(errors, SHARPEST)

    def chi_square(self, x: np.ndarray) -> float:
        """Sum of squared deviations."""
        return float(sums_of_squares(self.residuals, x))

    height = chi_square

    @classmethod
    def of(cls, stated: StatedCurves, names: Sequence[str], x: np.ndarray) -> CurveModel:
        """Model of what is found in the curves with the theory at these parameters."""
        theory = predict_curve(changed_setting(stated.setting, names, x), stated.starts)
        # What all half-drops have in common is no further number.
        rows = [row for row in compare_curves(stated.curves, theory)[0] if not row.pooled]
        rows = [row for row in rows if row.estimate > 0 and math.isfinite(row.theory)]
        if sum(not row.upper_bound for row in rows) < 2:
            raise ValueError(_why_unusable(stated.curves, theory))

        def predict(at: np.ndarray) -> CurveTheory:
            moved = changed_setting(stated.setting, names, at)
            return predict_curve(moved, stated.starts, theory.fluctuations)

        columns = []
        for move in STEP * np.eye(len(x)):
            high = predict(x + move)
            low = predict(x - move)
            columns.append([math.log(_value(r, high) / _value(r, low)) / (2 * STEP) for r in rows])
        sized = [_with_one_error(row) for row in rows]
        cholesky = np.linalg.cholesky(_correlations(rows, sized, theory))
        ranges = [_range(name, stated.setting) for name in names]
        return cls(
            names=names,
            centre=x,
            theory=theory,
            rows=sized,
            slopes=np.transpose(columns),
            whitening=np.linalg.inv(cholesky),
            bounds=(np.log([low for low, _ in ranges]), np.log([high for _, high in ranges])),
        )

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """Independent deviations of variance 1 (..., rows) at parameters (..., p)."""
        factors = np.exp(np.asarray(x - self.centre) @ self.slopes.T)
        lines = factors.reshape(-1, len(self.rows)).tolist()
        z = [
            [replace(row, theory=row.theory * f).z for row, f in zip(self.rows, line, strict=True)]
            for line in lines
        ]
        return np.reshape(z, factors.shape) @ self.whitening.T

    def precision(self, x: np.ndarray) -> Precision:
        """Fisher matrix at these parameters."""
        _, slopes = values_and_slopes(self.residuals, x)
        return Precision(list(self.names), slopes.T @ slopes)


def _why_unusable(curves: Sequence[Curve], theory: CurveTheory) -> str:
    """Why there is nothing to fit: a drop that has not come yet only bounds the parameters."""
    message = "nothing but the initial loss is found in the curves"
    if not theory.setting.timed:
        return message
    last = max(float(curve.steps[-1]) for curve in curves)
    return (
        f"{message}: not all reach half of their first drop before the end at {last:g}, which "
        "only bounds the parameters; train for longer, or check the curves instead"
    )


def _value(row: CurveRow, theory: CurveTheory) -> float:
    """What theory says of a row, up to a factor that hardly depends on the parameters."""
    number = theory.setting.learned.index(row.learned)
    if row.quantity in ("half-drop", "duration"):
        times = theory.half_drops if row.quantity == "half-drop" else theory.durations
        return float(times[number - 1])
    return (
        2 * float(theory.growth[0]) if row.quantity == "growth" else float(theory.levels[number])
    )


def _with_one_error(row: CurveRow) -> CurveRow:
    """The row with half of its allowance as a further standard error."""
    error = math.hypot(row.standard_error, row.allowed / 2, SHARPEST)
    return replace(row, standard_error=error, allowance=0.0, below=0.0, above=0.0)


def _correlations(
    rows: Sequence[CurveRow], sized: Sequence[CurveRow], theory: CurveTheory
) -> np.ndarray:
    """Correlations of the deviations: of half-drops over starts, of all over training sets."""
    fluctuations = theory.fluctuations
    start = theory.start
    losses = len(theory.levels)
    numbers = [theory.setting.learned.index(row.learned) for row in rows]
    halves = np.array([row.quantity == "half-drop" for row in rows])
    timed = np.array([row.quantity in ("half-drop", "duration", "growth") for row in rows])
    drops = np.maximum(np.array(numbers) - 1, 0)
    counts = np.sqrt([row.curves for row in rows])
    # Training sets on which weights grow faster have larger losses and earlier drops.
    sizes = np.where(timed, -fluctuations.rates[drops], fluctuations.losses[numbers])
    sizes *= np.where([row.quantity == "duration" for row in rows], DURATION_SPREAD, 1.0)
    sizes *= np.where([row.quantity == "growth" for row in rows], -1.0, 1.0) / counts
    places = np.where(timed, losses + drops, numbers)
    covariance = np.outer(sizes, sizes) * fluctuations.correlations[np.ix_(places, places)]
    of_starts = np.nan_to_num(start.covariance[np.ix_(drops, drops)])
    shares = 1 / np.outer(counts, counts) + 1 / start.draws
    covariance += np.outer(halves, halves) * of_starts * shares
    errors = np.array([row.standard_error for row in sized])
    correlations = covariance / np.outer(errors, errors)
    np.fill_diagonal(correlations, 1.0)
    return correlations
