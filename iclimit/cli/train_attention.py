r"""One linear attention layer by gradient descent, to see its dynamics.

Train one linear attention layer by gradient descent on the mean squared
error, from small random weights, as in arXiv:2501.16265. A step on the whole
training set costs the same for any number of sequences.

Merged and cubic have one drop of the loss, from zero weights to the limit;
separate has one for each direction, in rows by the number of directions then
learned. half_drop_step is the first recorded step with a loss below the middle
of the drop, for infinite training sets; half_drop_time is its time in the
units of iclimit dynamics. predicted_time is what iclimit dynamics predicts for
the initial weights of the repeat, which a picture shows as dashes; it is left
out where they are too large for that.

Examples
--------
  iclimit train attention --model merged --heads 8 --init-scale 1e-6 --normalization sum
  iclimit train attention --model separate --heads 5 --init-scale 1e-2 --learning-rate 0.02 \
      --steps 10000 --training-set 80000 --normalization sum -o curves.png
  iclimit train attention --model separate --dim 8 --heads 9 --rank 2 --init-scale 5e-3 \
      --learning-rate 0.02 --steps 20000 --training-set 80000 --normalization sum --repeats 4
  iclimit train attention --white 4 --fresh-fraction 0.4 --init-scale 1e-6 \
      --learning-rate 0.0005 --steps 4000 --normalization sum --tests
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_choice, add_parameter, add_training, add_verb, run_training
from iclimit.cli.dynamics import (
    INIT_SCALE,
    Loss,
    add_problem,
    parse_problem,
    predicted_drops,
    weights_of,
)
from iclimit.cli.output import FORMATS, add_output, write_file, write_rows

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from iclimit.simulate.dynamics import TrainingCurves


CHOICES = {
    "model": ("merged", "separate", "cubic"),
    "initialization": ("per-head", "per-layer"),
    "normalization": ("mean", "sum"),
}
"""Choices, of which the first is the default."""

NUMBERS: dict[str, float | None] = {
    **{"training_set": 5000, "batch": None, "heads": 8, "rank": 1, "steps": 6000, "repeats": 1},
    **{"record": None, "init_scale": 0.01, "learning_rate": 0.001, "fresh_fraction": 1.0},
}
"""Parameters of the notation, with their defaults."""

MEANINGS = {
    "model": "one matrix for key and query, one for each, or two layers on cubic features",
    "initialization": "for separate: --init-scale as below, or over the root of the number of "
    "weights in the layer",
    "normalization": "divide attention scores by N, or not, like the published script",
    "training_set": "training sequences, standardised as by the published script, or inf for "
    "their law",
    "batch": "sequences drawn for every step; default: all",
    "heads": "heads, or hidden units of cubic",
    "rank": "rows of key and query of separate",
    "repeats": "independent runs, each with its own data and initial weights",
    "record": "steps from one recorded loss to the next; default 10, at most --steps",
    "init_scale": INIT_SCALE,
    "learning_rate": "step length, in units of the gradient",
    "fresh_fraction": "fraction of sequences with their own tasks; the others share the task "
    "(1, ..., 1)",
}

NAMES = (*CHOICES, *NUMBERS, "context", "noise_variance", "tests")
"""Options that identify a training, with the eigenvalues."""


def add_parser(models: Any) -> None:
    """Add the model to ``iclimit train``."""
    parser = add_verb(models, "attention", run, __doc__)
    add_problem(parser)
    for name, choices in CHOICES.items():
        add_choice(parser, f"--{name}", choices, MEANINGS[name])
    for name, default in NUMBERS.items():
        add_parameter(parser, name, default, text=MEANINGS.get(name, ""))
    text = "record the losses on random tasks, and on the shared task with noise as labels"
    parser.add_argument("--tests", action="store_true", help=text)
    add_training(parser)
    text = "write the curves as a table (.csv, .json) or a picture (.png, .pdf, .svg)"
    add_output(parser, formats=FORMATS, text=text)


def run(options: argparse.Namespace) -> int:
    """Train, print a summary and write the curves."""
    from iclimit.simulate.dynamics import UnstableTraining

    lam = parse_problem(options)
    if options.record is None:
        options.record = min(10, options.steps)
    settings = {name: getattr(options, name) for name in NAMES} | {"eigenvalues": lam}
    unstable = None
    try:
        curves = run_training(
            options, train_mixture, settings, complete=lambda found: not found.interrupted
        )
    except UnstableTraining as error:
        unstable, curves = error, error.curves
    if len(curves.recorded_at):
        predicted = _predicted(options, lam, len(curves.losses))
        if options.output is not None:
            losses = [loss for _, loss in predicted]
            write_file(
                options,
                options.output,
                lambda: _rows(curves),
                lambda figure: _draw(curves, figure, losses, _unit(options)),
            )
        times = [times for times, _ in predicted]
        write_rows(_summary(curves, lam, options, times), options.format)
    if unstable is not None:
        raise unstable
    if curves.interrupted:
        print("interrupted: the curves end where the training did", file=sys.stderr)
        return 130
    return 0


def train_mixture(
    *,
    eigenvalues: Any,
    context: int,
    noise_variance: float,
    fresh_fraction: float,
    rng: int,
    backend: str = "numpy",
    **settings: Any,
) -> TrainingCurves:
    """Training curves on random tasks and, for fresh_fraction < 1, a shared task of ones."""
    import numpy as np

    from iclimit.problem import Problem
    from iclimit.simulate.dynamics import simulate_gradient_descent

    problem = Problem(
        dim=len(eigenvalues),
        context=context,
        input_covariance=np.asarray(eigenvalues),
        noise_variance=noise_variance,
        fresh_fraction=fresh_fraction,
        shared_task=np.ones(len(eigenvalues)) if fresh_fraction < 1 else None,
        scale=1,
    )
    return simulate_gradient_descent(problem, rng=rng, backend=backend, **settings)


def _unit(options: argparse.Namespace) -> float:
    """Time of a step, in time constants of the flow with scores divided by N."""
    from iclimit.validation.yours.curves.setting import time_factor

    factor = time_factor(options.model, options.context, options.normalization)
    return 2 * options.learning_rate * factor


def _predicted(
    options: argparse.Namespace, lam: np.ndarray, repeats: int
) -> list[tuple[list[float], Loss]]:
    """Half-drop times and losses that theory predicts for each repeat; none where it cannot."""
    if options.model == "cubic" or options.fresh_fraction < 1:
        return []
    setting = {name: getattr(options, name) for name in ("context", "noise_variance")}
    # Weights count as larger by a root of the factor of time, the same in all layers.
    factor = math.sqrt(_unit(options) / (2 * options.learning_rate))
    more = {"initialization": options.initialization}
    try:
        return [
            predicted_drops(
                options,
                setting | {"eigenvalues": lam},
                [factor * each for each in weights_of(options, len(lam), first_repeat=r, **more)],
            )
            for r in range(repeats)
        ]
    except (ValueError, ArithmeticError):
        return []


def _summary(
    curves: TrainingCurves,
    lam: np.ndarray,
    options: argparse.Namespace,
    predicted: list[list[float]],
) -> list[dict[str, Any]]:
    """Losses of every repeat and, for random tasks only, when half of each drop has happened."""
    from iclimit.asymptotics.dynamics import plateau_losses

    levels = plateau_losses(lam, context=options.context, noise_variance=options.noise_variance)
    separate, random = options.model == "separate", options.fresh_fraction == 1
    if not separate:
        levels = levels[[0, -1]]
    rows = []
    for repeat, losses in enumerate(curves.losses):
        first = {"repeat": repeat, "first_loss": float(losses[0])}
        last = {"last_step": int(curves.recorded_at[-1]), "last_loss": float(losses[-1])}
        last |= {f"last_{k}_loss": float(v[repeat, -1]) for k, v in curves.measures.items()}
        if not random:
            rows.append(first | last)
            continue
        for drop, middle in enumerate((levels[1:] + levels[:-1]) / 2):
            below = curves.recorded_at[losses < middle]
            step = int(below[0]) if len(below) else math.inf
            row: dict[str, Any] = first | ({"learned": drop + 1} if separate else {})
            row |= {"half_drop_step": step, "half_drop_time": _unit(options) * step}
            row |= {"predicted_time": predicted[repeat][drop]} if predicted else {}
            rows.append(row | last | {"limit_loss": float(levels[-1])})
    return rows


def _rows(curves: TrainingCurves) -> list[dict[str, Any]]:
    """Losses of all repeats."""
    named = {"loss": curves.losses, **{f"{k}_loss": v for k, v in curves.measures.items()}}
    return [
        {"repeat": repeat, "step": int(step)}
        | {name: float(v[repeat, k]) for name, v in named.items()}
        for repeat in range(len(curves.losses))
        for k, step in enumerate(curves.recorded_at)
    ]


def _draw(curves: TrainingCurves, figure: Figure, predicted: Sequence[Loss], unit: float) -> None:
    """Draw the losses as lines, and what is predicted of them as dashes."""
    from iclimit.drawing import COLOURS

    labels = {"icl": "random tasks", "iwl": "shared task, noise as labels"}
    named = {"training": curves.losses, **{labels[k]: v for k, v in curves.measures.items()}}
    ax = figure.subplots()
    for (name, found), colour in zip(named.items(), COLOURS, strict=False):
        lines = ax.plot(curves.recorded_at, found.T, color=colour, linewidth=1.2)
        lines[0].set_label(name)
    for index, loss in enumerate(predicted):
        label = None if index else "predicted"
        ax.plot(
            curves.recorded_at, loss(unit * curves.recorded_at), "k--", linewidth=0.8, label=label
        )
    ax.set(xlabel="step", ylabel="loss")
    if len(ax.get_legend_handles_labels()[0]) > 1:
        ax.legend()
