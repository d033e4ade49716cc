"""A user's training curves against the theory of training dynamics.

Mistakes in the statement of a training that would explain a curve are tried, never applied.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import fill
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers
from iclimit.checks import given, parse_array
from iclimit.drawing import COLOURS, Axes, finish
from iclimit.results import Judgement, Result
from iclimit.statistics import POWER, z_threshold
from iclimit.tables import aligned
from iclimit.validation.instruments.curves.explanations import (
    explanations,
    is_explained,
    unexpected_plateaus,
)
from iclimit.validation.instruments.curves.rows import CurveRow, compare_curves, outliers_of
from iclimit.validation.instruments.curves.setting import OPTIMIZERS, CurveSetting
from iclimit.validation.instruments.curves.table import Curve, read_curves
from iclimit.validation.instruments.curves.theory import CurveTheory, predict_curve
from iclimit.validation.instruments.models.files import read_arrays

# Quantities that have the unit of time.
TIMES = "half-drop", "half-drops", "duration", "growth"

# What is said if losses agree and times do not.
OTHER_OPTIMIZER = (
    "losses agree, only times do not: the theory is of gradient flow, and momentum, Adam, a "
    "changing learning rate and minibatches change times (optimizer = 'other' leaves them out)"
)

# Letters of a line of the verdict above the picture.
TITLE_WIDTH = 80

# First words of the text, by verdict.
VERDICTS = {
    "agrees": "Agrees with the theory",
    "contradicts": "Contradicts the theory",
    "unusable": "Too little to compare",
}


@dataclass(frozen=True, eq=False, repr=False)
class CurveCheck(Result):
    """Training curves compared with theory.

    Attributes
    ----------
    comparisons : tuple of CurveRow
        Losses, drops and durations that were found, each beside the theory.
    remarks : tuple of str
        What could not be compared, and why; what does not belong to the theory.
    errors : tuple of str
        What the theory itself does not know, and how much of the deviations that allows.
    fits : tuple of str
        What would explain a contradiction; tried, never applied.
    outliers : tuple of CurveRow
        Rows that contradict the theory.
    unexpected : tuple of str
        Plateaus that the theory does not have.
    curves : tuple of Curve
        The curves that were used.
    theory : CurveTheory
        The prediction, for the setting as stated.
    axis : str
        "step" or "time".
    """

    comparisons: tuple[CurveRow, ...]
    remarks: tuple[str, ...]
    errors: tuple[str, ...]
    fits: tuple[str, ...]
    outliers: tuple[CurveRow, ...]
    unexpected: tuple[str, ...]
    curves: tuple[Curve, ...] = field(repr=False)
    theory: CurveTheory = field(repr=False)
    axis: str = "step"

    @property
    def verdict(self) -> Judgement:
        """Verdict of the kind "agrees", "contradicts" or "unusable".

        Curves are unusable if nothing but their initial loss could be compared.
        """
        kind = "agrees" if len(self.comparisons) > 1 else "unusable"
        if self.outliers or self.unexpected:
            kind = "contradicts"
        count = len(self.curves)
        curves = f"{count} curves" if count > 1 else f"{count} curve"
        sentence = f"{VERDICTS[kind]} ({curves})"
        return Judgement(kind, kind == "agrees", sentence)

    @property
    def holds(self) -> bool:
        """Whether the curves agree with the theory."""
        return self.verdict.holds

    @property
    def threshold(self) -> float:
        """Largest z that counts as agreement."""
        return z_threshold(len(self.comparisons))

    def to_dict(self) -> dict[str, Any]:
        """All results by name, of numbers, text and lists, as JSON has them."""
        as_they_are = ("unexpected", "fits", "resolutions", "remarks", "errors")
        return {
            "verdict": self.verdict.to_dict(),
            "threshold": self.threshold,
            "axis": self.axis,
            "curves": [curve.label for curve in self.curves],
            "rows": self.rows(),
            "outliers": [self.label(row) for row in self.outliers],
            **{name: getattr(self, name) for name in as_they_are},
        }

    @property
    def resolutions(self) -> dict[str, float]:
        """Smallest relative errors of "time" and "loss" that are noticed with a chance of 95 %."""
        smallest: dict[str, float] = {}
        for row in self.comparisons:
            name = "time" if row.quantity in TIMES else "loss"
            reach = row.allowance + max(row.below, row.above)
            reach += row.standard_error * (self.threshold + POWER)
            if not row.at_least:
                smallest[name] = min(smallest.get(name, math.inf), math.expm1(min(reach, 700.0)))
        return smallest

    def rows(self) -> list[dict[str, Any]]:
        """Numbers of the rows by name, as tables have them."""
        return [{"label": self.label(row)} | row.numbers() for row in self.comparisons]

    @property
    def conclusions(self) -> list[str]:
        """Verdict, contradictions, what would explain them, remarks and errors of the theory."""
        units = {"time": f"a wrong unit of {self.axis}s", "loss": "a wrong factor of losses"}
        noticed = "; ".join(f"{units[k]}, by {_percent(v)}" for k, v in self.resolutions.items())
        lines = [self.verdict.sentence]
        for title, texts in (
            ("contradicts", [self._outlier(row) for row in self.outliers]),
            ("contradicts", self.unexpected),
            ("fits if", self.fits),
            ("would have been noticed", [noticed] if noticed else []),
            ("remark", self.remarks),
            ("error of the theory", self.errors),
        ):
            lines += [f"{title}: {text}" for text in texts]
        return lines

    def __str__(self) -> str:
        """Verdict, a table of what was found beside the theory, and the other conclusions."""
        verdict, *others = self.conclusions
        header = ("", "found", "theory", "deviation", "standard error", "allowance", "z")
        lines = aligned([header, *(self._cells(row) for row in self.comparisons)], "<>")
        return "\n".join([verdict, *lines, *others])

    def _outlier(self, row: CurveRow) -> str:
        """Row that contradicts the theory; without a random part it has no z."""
        if math.isfinite(row.z):
            return f"{self.label(row)}, z = {_shown(row.z)}"
        return f"{self.label(row)}, {row.deviation:+.2%} with an allowance of {row.allowed:.2%}"

    def _cells(self, row: CurveRow) -> tuple[str, ...]:
        label = self.label(row)
        bound = ">= " if row.at_least else ""
        error = f"{row.standard_error:.2%}" if row.standard_error else "none"
        return (
            *(label, f"{bound}{row.found:.5g}", f"{row.theory:.5g}", f"{row.deviation:+.2%}"),
            *(error, f"{row.allowed:.2%}", _shown(row.z)),
        )

    def label(self, row: CurveRow) -> str:
        """Name of a row in words."""
        if row.quantity in ("initial loss", "final loss"):
            return row.quantity
        if row.quantity == "growth":
            return f"rate of the first growth of the drop, per {self.axis}"
        if row.quantity == "plateau":
            return f"loss with {row.learned} learned"
        if row.quantity == "half-drops":
            return f"{self.axis}s of all half-drops, common factor"
        half = row.quantity == "half-drop"
        kind = f"{self.axis} of half the drop" if half else f"{self.axis}s of the drop"
        several = self.theory.setting.model == "separate"
        return f"{kind} to {row.learned}" if several else kind

    def draw(self, ax: Axes) -> None:
        """Draw the curves as lines, plateaus and the mean predicted curve as dashes."""
        lines = [self.verdict.sentence, *(f"It agrees if {text}." for text in self.fits[:1])]
        title = "\n".join(fill(line, TITLE_WIDTH) for line in lines)
        draw_curves(ax, self.curves, self.theory, self.axis, title)


def draw_curves(
    ax: Axes, curves: Sequence[Curve], theory: CurveTheory, axis: str, title: str = ""
) -> None:
    """Draw curves as lines, plateaus and the mean predicted curve as dashes."""
    last = max(float(curve.steps[-1]) for curve in curves)
    for number, curve in enumerate(curves):
        label = "found" if number == 0 else None
        ax.plot(curve.steps, curve.losses, color=COLOURS[0], alpha=0.6, label=label)
    steps = np.linspace(0, last, 600)
    halves = theory.half_drops
    timed = theory.setting.timed
    for number, level in enumerate(theory.levels):
        label = None if timed or number else "losses of the theory"
        ax.axhline(level, color="0.8", linewidth=0.7, zorder=0, label=label)
    if timed:
        ax.plot(steps, theory.loss(steps), "k--", linewidth=1, label="theory")
    errors = np.sqrt(theory.start.variance + theory.staircase_variance)
    for drop, (at, error) in enumerate(zip(halves, errors, strict=True)):
        if at * math.exp(error) < 2 * last and error > 0:
            middle = float(np.mean(theory.levels[drop : drop + 2]))
            ends = [[at - at * math.exp(-error)], [at * math.exp(error) - at]]
            label = None if drop else "standard deviation over runs"
            style: dict[str, Any] = {"color": "k", "capsize": 2, "linewidth": 0.8}
            ax.errorbar(at, middle, xerr=ends, label=label, **style)
    ax.set_xlim(0, last)
    ax.grid(visible=False)
    finish(ax, axis, "loss", title=title, legend="")


def _percent(share: float) -> str:
    return f"{share:.2g}" if share >= 10 else f"{share:.2%}"


def _shown(z: float) -> str:
    if math.isinf(z):
        return "beyond"
    return f"{z:+.2f}" if abs(z) < 100 else f"{z:+.2g}"


# Names of the weights, of merged and of separate attention.
WEIGHTS = ("value", "key_query"), ("value", "key", "query")


def check_curve(
    table: object,
    *,
    model: str = "merged",
    eigenvalues: Sequence[float] | np.ndarray,
    context: int,
    heads: int,
    init_scale: float,
    learning_rate: float | None = None,
    rank: int = 1,
    initialization: str = "per-head",
    normalization: str = "mean",
    noise_variance: float = 0.0,
    query_noise: bool = True,
    loss_factor: float = 1.0,
    training_set: int | float = math.inf,
    standardize: bool = False,
    optimizer: str = "gradient-descent",
    fresh_fraction: float = 1.0,
    shared_task: Sequence[float] | None = None,
    initial: Mapping[str, Any] | str | os.PathLike | None = None,
    record: int | None = None,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
    draws: int = 16,
    rng: int = 0,
) -> CurveCheck:
    r"""Compare training curves of one linear attention layer with the theory of its training.

    Plateaus, drops, their durations and the final loss are found in the curves, and each is
    compared with the theory of gradient flow from small random weights.

    Parameters
    ----------
    table : path, data frame, mapping of columns, sequence of rows, or TrainingCurves
        Curves: a column ``step`` (of gradient descent) or ``time`` (of the flow), a column
        ``loss``, or ``loss_0``, ``loss_1``, ... of several runs; or a column ``run`` that tells
        the rows of several runs apart.  Files end in .csv, .json or .parquet.
    model : {"merged", "separate", "cubic"}
        One matrix for key and query, one for each, or a two-layer network on cubic features.
    eigenvalues : sequence of float > 0
        Eigenvalues of the covariance of the inputs.
    context : int >= 1
        Number N of pairs in a prompt, without the query.
    heads, rank : int >= 1
        Heads; rows of the key and query weights of "separate".
    init_scale : float > 0
        Standard deviation of the initial weights; of keys and queries of "separate" times
        :math:`1/\sqrt{R (D + 1)}`.
    learning_rate : float > 0, optional
        Learning rate of gradient descent, for a table with steps.
    initialization : {"per-head", "per-layer"}
        For "separate": ``init_scale`` as it is, or over the root of the number of weights in the
        layer, as in `simulate_gradient_descent`.
    normalization : {"mean", "sum"}
        Whether scores are divided by N.
    noise_variance : float >= 0
        Variance of the label noise, in the context and of the query label.
    query_noise : bool
        Whether the recorded loss is that of noisy query labels.
    loss_factor : float > 0
        Factor of the mean squared error in the loss that is trained on and recorded, such as 0.5.
    training_set : int >= 1 or inf
        Number of training sequences; ``inf`` for new ones in every step.  Recorded losses are
        training losses.
    standardize : bool
        Whether the training set is standardised, as in `simulate_gradient_descent`.
    optimizer : {"gradient-descent", "other"}
        "other" stands for momentum, Adam, a changing learning rate or minibatches: then only what
        does not depend on them is compared.
    fresh_fraction : float in [0, 1]
        Fraction of the sequences with a random task of their own.
    shared_task : sequence of float, optional
        Task vector of all other sequences, in the eigenbasis of the covariance, in the order of
        the eigenvalues.
    initial : mapping or path, optional
        Initial weights, also as an .npz file of these arrays, in the eigenbasis of the
        covariance: value (H,) and key_query (H, D, D),
        or for "separate" value (H,), key and query (H, R, D); several curves along a first axis.
        Without them the law of random weights is used.
    record : int >= 1, optional
        Steps from one row to the next, for a table without steps.
    columns : mapping of str, optional
        What the user's columns are called: ``{"loss": "train_mse"}``.
    ignore : sequence of str or "others"
        Columns that are not used.
    draws : int >= 2
        Random starts of "separate" from which the law of its drop times is found.
    rng : int
        Seed of these.

    Returns
    -------
    CurveCheck
        With ``comparisons``, ``rows()``, ``verdict``, ``fits``, ``plot()``; its text is a table.

    Raises
    ------
    ValueError
        If an argument is outside its range, the table cannot be read, or no curve can be used.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    The theory is that of gradient flow on the mean squared error.  Half-drop steps are compared in
    their law over initial weights.  Durations of drops, from a quarter to three quarters of them,
    do not depend on the start.  If the curves contradict the theory, likely mistakes in the
    statement are tried, and single parameters fitted: all that would explain everything is in
    ``fits``.  Times of momentum, Adam, changing learning rates and minibatches are not known: with
    ``optimizer = "other"`` plateaus and the losses at both ends are compared.  On mixtures of
    tasks these are the first growth and the losses at both ends.

    References
    ----------
    Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265).

    Examples
    --------
    >>> import iclimit
    >>> law = {"eigenvalues": [0.4, 0.3, 0.2, 0.1], "context": 31}
    >>> times = [5 * k for k in range(40)]
    >>> curve = iclimit.dynamics.merged_attention_curve(times, init_scale=1.5e-3, **law)
    >>> more = {"model": "merged", "heads": 8, "init_scale": 1e-3, **law}
    >>> check = iclimit.check_curve({"time": times, "loss": curve}, **more)
    >>> check.verdict.kind
    'agrees'
    >>> check = iclimit.check_curve({"time": times, "loss": curve / 2}, **more)
    >>> check.verdict.kind, check.fits
    ('contradicts', ('losses are recorded with half the stated factor',))
    """
    curves, axis, left_out, setting, weights, draws, rng = read_with_setting(
        table,
        model=model,
        eigenvalues=eigenvalues,
        context=context,
        heads=heads,
        init_scale=init_scale,
        learning_rate=learning_rate,
        rank=rank,
        initialization=initialization,
        normalization=normalization,
        noise_variance=noise_variance,
        query_noise=query_noise,
        loss_factor=loss_factor,
        training_set=training_set,
        standardize=standardize,
        optimizer=optimizer,
        fresh_fraction=fresh_fraction,
        shared_task=shared_task,
        initial=initial,
        record=record,
        columns=columns,
        ignore=ignore,
        draws=draws,
        rng=rng,
    )
    theory = predict_curve(setting, weights, draws, rng)
    rows, remarks = compare_curves(curves, theory)
    outliers = outliers_of(rows)
    unexpected = unexpected_plateaus(curves, theory)
    fits = explanations(curves, theory, rows, (weights, draws, rng))
    if outliers and setting.timed:
        losses = predict_curve(replace(setting, optimizer="other"), weights, draws, rng)
        if is_explained(curves, losses):
            remarks.append(OTHER_OPTIMIZER)
    return CurveCheck(
        tuple(rows),
        (*left_out, *remarks),
        tuple(_errors(theory, bool(weights))),
        tuple(fits),
        tuple(outliers),
        tuple(unexpected),
        tuple(curves),
        theory,
        axis,
    )


def read_with_setting(
    table: object, *, initial: Any, draws: int, rng: int, **stated: Any
) -> tuple[list[Curve], str, list[str], CurveSetting, list[dict[str, np.ndarray]], int, int]:
    """Curves of a table, their axis, what was left out, the setting, weights, draws and seed.

    Arguments, all of them, and errors are those of `check_curve`.
    """
    reading = {name: stated.pop(name) for name in ("columns", "ignore", "record")}
    check_integers(least=2, draws=draws)
    check_integers(**given(record=reading["record"]))
    if isinstance(rng, bool) or not isinstance(rng, int) or rng < 0:
        raise TypeError(f"rng must be an integer >= 0, got {rng!r}")
    curves, axis, left_out = read_curves(table, **reading)
    rate = stated["learning_rate"]
    if (axis == "step") != (rate is not None) and stated["optimizer"] != OPTIMIZERS[1]:
        needed = "be given for a table with steps" if axis == "step" else "not be given with times"
        raise ValueError(f"learning_rate must {needed}, got {rate!r}")
    for name in ("eigenvalues", "shared_task"):
        if stated[name] is not None:
            stated[name] = tuple(np.asarray(stated[name], dtype=float).ravel().tolist())
    setting = CurveSetting(**stated)
    weights = _parse_initial(initial, setting, len(curves))
    return curves, axis, left_out, setting, weights, draws, rng


def _parse_initial(
    initial: Mapping[str, Any] | str | os.PathLike | None, setting: CurveSetting, count: int
) -> list[dict[str, np.ndarray]]:
    """Initial weights of each curve; none if they are not given."""
    if initial is None:
        return []
    if not isinstance(initial, Mapping):
        initial = read_arrays(initial)
    names = WEIGHTS[setting.model == "separate"]
    if set(initial) != set(names):
        raise ValueError(
            f"initial must hold {', '.join(names)} for model {setting.model!r}, "
            f"got {', '.join(map(str, initial))}"
        )
    dim = len(setting.eigenvalues)
    heads = setting.heads
    last = (setting.rank, dim) if setting.model == "separate" else (dim, dim)
    weights = {}
    for name in names:
        shape = (heads,) if name == "value" else (heads, *last)
        shapes = [(count, *shape)]
        if count == 1:
            shapes.append(shape)
        array = parse_array(f"initial[{name!r}]", initial[name], *shapes)
        weights[name] = array.reshape(count, *shape)
    return [{name: array[k] for name, array in weights.items()} for k in range(count)]


def _errors(theory: CurveTheory, known_start: bool) -> Iterator[str]:
    """What the theory does not know."""
    setting = theory.setting
    fluctuations = theory.fluctuations
    if setting.optimizer != "gradient-descent":
        yield (
            "the theory is of gradient flow: times of this training are not compared, only the "
            "initial loss, plateaus and the final loss"
        )
    elif setting.mixed:
        yield "training on mixtures: the theory has the first growth and bounds of the end"
    if setting.timed and not known_start:
        spread = np.sqrt(theory.start.variance)
        shown = ", ".join(f"{deviation:.1%}" for deviation in spread)
        yield f"initial weights are not known: drop times of a run vary by {shown}"
    if setting.model == "separate" and np.any(theory.staircase_variance > 0):
        largest = math.sqrt(float(theory.staircase_variance.max()))
        words = "initial weights are not small: predicted times are uncertain"
        yield f"{words} by up to {largest:.1%}"
    if setting.timed and setting.model != "separate":
        yield f"order of the initial weights: {setting.start:.1g} of drop times"
    if math.isinf(setting.training_set):
        yield "training set: none, sequences are taken to be new in every step"
    else:
        yield (
            f"{setting.training_set:g} training sequences: losses vary by up to "
            f"{fluctuations.losses.max():.1%}, rates by {fluctuations.rates.max():.1%}; the final "
            f"loss is lower by up to {fluctuations.bias:.1%}"
        )
    if setting.timed and setting.learning_rate is not None:
        yield (
            f"steps of finite length: half-drops come later by up to {theory.delays[0].max():.1%},"
            f" durations are longer by up to {theory.delays[1].max():.1%}"
        )
