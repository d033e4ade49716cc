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

from iclimit.drawing import COLOURS, Axes, finish
from iclimit.results import Result
from iclimit.tables import aligned
from iclimit.validation.instruments.curves.explanations import (
    explanations,
    explanations_of_impossible,
    is_explained,
)
from iclimit.validation.instruments.curves.judgement import CurveVerdict, judge_curves
from iclimit.validation.instruments.curves.reading import StatedCurves, read_stated_curves
from iclimit.validation.instruments.curves.rows import CurveRow, compare_curves
from iclimit.validation.instruments.curves.table import Curve, are_impossible, unusable
from iclimit.validation.instruments.curves.theory import CurveTheory, predict_curve
from iclimit.words import percent, z_text

# Remark if losses agree and times do not.
OTHER_OPTIMIZER = (
    "losses agree, only times do not: the theory is of gradient flow, and momentum, Adam, a "
    "changing learning rate and minibatches change times (optimizer = 'other' leaves them out)"
)

# Letters of a line of the verdict above the picture.
TITLE_WIDTH = 80

# Headings of the printed table.
HEADER = ("", "found", "theory", "deviation", "standard error", "allowance", "z")


@dataclass(frozen=True, eq=False, repr=False)
class CurveCheck(Result):
    """Training curves compared with theory.

    Attributes
    ----------
    verdict : CurveVerdict
        Of the kind "agrees", "contradicts" or "unusable", with all that was compared.
    remarks : tuple of str
        What could not be compared, and why; what does not belong to the theory.
    errors : tuple of str
        What the theory itself does not know, and how much of the deviations that allows.
    fits : tuple of str
        What would explain a contradiction; tried, never applied.
    curves : tuple of Curve
        The curves that were used.
    theory : CurveTheory
        The prediction, for the setting as stated.
    """

    verdict: CurveVerdict
    remarks: tuple[str, ...]
    errors: tuple[str, ...]
    fits: tuple[str, ...]
    curves: tuple[Curve, ...] = field(repr=False)
    theory: CurveTheory = field(repr=False)

    @property
    def comparisons(self) -> list[CurveRow]:
        """Losses, drops and durations that were found, each beside the theory."""
        return self.verdict.measured

    @property
    def axis(self) -> str:
        """What the losses are recorded against: "step" or "time"."""
        return self.curves[0].axis

    @property
    def holds(self) -> bool:
        """Whether the curves agree with the theory."""
        return self.verdict.holds

    def to_dict(self) -> dict[str, Any]:
        """All results by name, of numbers, text and lists, as JSON has them."""
        verdict = self.verdict
        return {
            "verdict": {name: getattr(verdict, name) for name in ("kind", "holds", "sentence")},
            "axis": self.axis,
            "curves": [curve.label for curve in self.curves],
            "rows": self.rows(),
            "outliers": [row.label for row in verdict.outliers],
            "unexpected": verdict.unexpected,
            "fits": self.fits,
            "resolutions": verdict.resolutions,
            "remarks": self.remarks,
            "errors": self.errors,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Numbers of the rows by name, as tables have them."""
        rows = self.comparisons
        return [row.numbers() | {"threshold": self.verdict.threshold(row)} for row in rows]

    @property
    def conclusions(self) -> list[str]:
        """Verdict, contradictions, what would explain them, remarks and errors of the theory."""
        words = {"loss": "a wrong factor of losses", "time": f"a wrong unit of {self.axis}s"}
        resolutions = self.verdict.resolutions
        noticed = [
            f"{text}, by {percent(resolutions[name], most=10)}"
            for name, text in words.items()
            if name in resolutions
        ]
        lines = [self.verdict.sentence]
        for title, texts in (
            ("contradicts", [*map(_outlier, self.verdict.outliers), *self.verdict.unexpected]),
            ("fits if", self.fits),
            ("would have been noticed", ["; ".join(noticed)] if noticed else []),
            ("remark", self.remarks),
            ("error of the theory", self.errors),
        ):
            lines += [f"{title}: {text}" for text in texts]
        return lines

    def __str__(self) -> str:
        """Verdict, a table of what was found beside the theory, and the other conclusions."""
        verdict, *others = self.conclusions
        rows = [HEADER, *map(_cells, self.comparisons)] if self.comparisons else []
        lines = aligned(rows, "<>")
        return "\n".join([verdict, *lines, *others])

    def draw(self, ax: Axes) -> None:
        """Draw the curves as lines, plateaus and the mean predicted curve as dashes."""
        lines = [self.verdict.sentence, *(f"It agrees if {text}." for text in self.fits[:1])]
        title = "\n".join(fill(line, TITLE_WIDTH) for line in lines)
        draw_curves(ax, self.curves, self.theory, title)


def draw_curves(ax: Axes, curves: Sequence[Curve], theory: CurveTheory, title: str = "") -> None:
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
    finish(ax, curves[0].axis, "loss", title=title, legend="")


def _outlier(row: CurveRow) -> str:
    """Row that contradicts the theory; without a random part it has no z."""
    if math.isfinite(row.z):
        return f"{row.label}, by {z_text(row.z)} standard errors"
    return f"{row.label}, {row.relative:+.2%} with an allowance of {row.allowed:.2%}"


def _cells(row: CurveRow) -> tuple[str, ...]:
    """Cells of a row in the printed table."""
    bound = ">= " if row.upper_bound else ""
    error = f"{row.standard_error:.2%}" if row.standard_error else "none"
    return (
        *(row.label, f"{bound}{row.estimate:.5g}", f"{row.theory:.5g}", f"{row.relative:+.2%}"),
        *(error, f"{row.allowed:.2%}", "beyond" if math.isinf(row.z) else z_text(row.z)),
    )


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
        the rows of several runs apart.  Files end in .csv, .json, .parquet or .npz.
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
    stated = read_stated_curves(
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
        impossible=True,
    )
    theory = predict_curve(stated.setting, stated.starts)
    if are_impossible(stated.curves):
        return _check_impossible(stated, theory)
    rows, remarks = compare_curves(stated.curves, theory)
    verdict = judge_curves(stated.curves, theory, rows)
    if verdict.failures and stated.setting.timed:
        losses = predict_curve(replace(stated.setting, optimizer="other"), stated.starts)
        if is_explained(stated.curves, losses):
            remarks.append(OTHER_OPTIMIZER)
    return CurveCheck(
        verdict=verdict,
        remarks=(*stated.left_out, *remarks),
        errors=tuple(_errors(theory, stated.starts.known)),
        fits=tuple(explanations(stated, theory, verdict)),
        curves=tuple(stated.curves),
        theory=theory,
    )


def _check_impossible(stated: StatedCurves, theory: CurveTheory) -> CurveCheck:
    """Curves that are no mean squared errors: nothing is compared, only what they may be."""
    fits = explanations_of_impossible(stated, theory)
    if not fits:
        raise ValueError(unusable(stated.left_out))
    return CurveCheck(
        verdict=CurveVerdict([], curves=len(stated.curves), unexpected=stated.left_out),
        remarks=(),
        errors=(),
        fits=tuple(fits),
        curves=tuple(stated.curves),
        theory=theory,
    )


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
