"""Verbs of the theory: learning rates, schedules and GD++."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from iclimit.cli.flags import Settings, add_flag, add_flags, arguments
from iclimit.cli.output import add_output, output
from iclimit.cli.values import parse_law, parse_values
from iclimit.cli.verbs import verb
from iclimit.tables import TABLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Arguments of a learning rate that take many values.
AXES = ("context", "dim", "noise_variance", "task_variance")


def _learning_rate_flags(parser: argparse.ArgumentParser) -> None:
    from iclimit.asymptotics.descent import optimal_learning_rate

    values: Settings = {"type": parse_values, "metavar": "VALUES", "required": False}
    law = {"type": parse_law, "choices": None, "metavar": "LAW"}
    add_flags(parser, optimal_learning_rate, dict.fromkeys(AXES, values) | {"input_law": law})
    text = "print the derivation in LaTeX instead of numbers; moments m2,m4 stay symbols"
    parser.add_argument("--latex", action="store_true", help=text)
    add_output(parser, TABLES)


@verb("learning-rate", _learning_rate_flags)
def learning_rate(options: argparse.Namespace) -> None:
    """Compute the best learning rate of one step in context.

    Compute the learning rate with which one step of gradient descent on the
    context has the least expected loss, and that loss: the mean squared error on
    a noisy query label, between the variance of that noise and null, the loss of
    predicting zero. VALUES are a number, a list a,b,c or a range start:stop:points[:log].
    LAW is gaussian, uniform, rademacher, laplace, or the moments m2,m4 of any other.

    Examples
    --------
      iclimit learning-rate --context 10 --dim 10 --input-law uniform
      iclimit learning-rate --context 5,10,20,50 --dim 10 --noise-variance 0.1 --format csv
      iclimit learning-rate --context 20 --dim 10 --input-law 0.0833333,0.0125 --normalization sum
      iclimit learning-rate --input-law uniform --latex
    """
    import numpy as np

    from iclimit.asymptotics.descent import (
        derive_learning_rate,
        learning_rate_loss,
        optimal_learning_rate,
    )
    from iclimit.results import PlainRows

    given = arguments(options, optimal_learning_rate)
    sizes = {name: given[name] for name in ("context", "dim")}
    if options.latex:
        for name, values in sizes.items():
            if values is not None:
                raise ValueError(f"--{name} must not be given with --latex: sizes stay symbols")
        law = options.input_law if isinstance(options.input_law, str) else None
        print(derive_learning_rate(law, normalization=options.normalization).latex())
        return
    for name, values in sizes.items():
        if values is None:
            raise ValueError(f"--{name} is needed (or --latex)")
        if np.any(values != np.floor(values)):
            raise ValueError(f"--{name} must be integers, got {values.tolist()}")
    axes = np.meshgrid(*(given[name] for name in AXES), indexing="ij")
    grid = {name: axis.ravel() for name, axis in zip(AXES, axes, strict=True)}
    best = optimal_learning_rate(**given | grid)
    grid |= {name: grid[name].astype(int) for name in sizes}
    null = learning_rate_loss(0.0, **given | grid)
    output(options, PlainRows.of(grid | {"rate": best.rate, "loss": best.loss, "null": null}))


def _schedule_flags(parser: argparse.ArgumentParser) -> None:
    from iclimit.asymptotics.descent import optimal_schedule

    add_flags(parser, optimal_schedule, {"steps": {"required": False}})
    add_flag(
        parser,
        "method",
        ('{"optimal", "constant", "chebyshev"}', ""),
        text="optimal: the best rates; constant: the best single rate; chebyshev: the best rates "
        "for the least favourable eigenvalue",
        default="optimal",
    )
    add_flag(parser, "rates", text="compute the loss of these rates instead")
    text = (
        "print the derivation of the noiseless optimum in LaTeX instead of numbers, at finite "
        "size with --context and --dim, otherwise in the limit, where c is the ratio"
    )
    parser.add_argument("--latex", action="store_true", help=text)
    add_output(parser, TABLES)


@verb("schedule", _schedule_flags)
def schedule(options: argparse.Namespace) -> None:
    """Compute learning rates of several steps in context.

    Compute the learning rates with which several steps of gradient descent on the
    context have the least expected loss, in the limit (--ratio) or exactly at
    finite size (--context and --dim, Gaussian inputs). The loss is the squared
    error on a noiseless query, relative to predicting 0. No method that takes as
    many products with the Hessian has a loss below lower_bound.

    Examples
    --------
      iclimit schedule --steps 4 --ratio 0.5
      iclimit schedule --steps 4 --context 20 --dim 10 --noise-ratio 0.05
      iclimit schedule --steps 10 --ratio 0.5 --method constant --format json
      iclimit schedule --rates 0.5,1 --context 20 --dim 10
      iclimit schedule --steps 3 --latex
    """
    from iclimit.asymptotics import descent
    from iclimit.words import counted, percent

    if (options.steps is None) == (options.rates is None):
        raise ValueError("give either --steps or --rates")
    if options.latex:
        if options.rates is not None or options.method != "optimal" or options.noise_ratio:
            raise ValueError("--latex is for the optimal schedule without noise")
        if options.ratio is not None and options.context is not None:
            raise ValueError("give either --ratio or --context and --dim")
        size = arguments(options, descent.derive_schedule)
        print(descent.derive_schedule(**size).latex())
        return
    if options.rates is not None and options.method != "optimal":
        raise ValueError("--method is for --steps, not for given --rates")
    kind = "given" if options.steps is None else options.method
    compute = getattr(descent, f"{kind}_schedule")
    found = compute(**arguments(options, compute))
    output(options, found)
    if options.format == "text":
        steps = counted(len(found.rates), "step")
        products = counted(len(found.rates), "product")
        loss = percent(float(found.loss), 4)
        least = percent(float(found.lower_bound), 4)
        print(
            f"\n{steps}: {loss} of the loss of predicting 0; no method with "
            f"{products} with the Hessian does better than {least}"
        )


def _gdpp_flags(parser: argparse.ArgumentParser) -> None:
    from iclimit.asymptotics.gdpp import condition_number_schedule

    tol = "take the fewest layers after which the excess is at most this"
    cap = "safeguard: compute no gamma for a larger condition number than this"
    add_flags(parser, condition_number_schedule, {"tol": tol, "cap": cap})
    add_output(parser)


@verb("gdpp", _gdpp_flags)
def gdpp(options: argparse.Namespace) -> None:
    """Compute schedules of GD++ and their condition numbers.

    Compute the gamma of every layer of GD++. A layer takes each eigenvalue x of the
    context to x (1 - gamma x)^2; at the start the largest one is 1. The table has
    the condition number after each layer; excess, the condition number minus one;
    and the learning rate of a final gradient-descent step (final_rate) with its
    residual in the worst direction. A picture shows the excess of both methods.

    Examples
    --------
      iclimit gdpp --condition-number 1e4 --tol 1e-10
      iclimit gdpp --condition-number 100 --steps 4 --method monotone --format csv
      iclimit gdpp --excess 1e-3 --steps 5 -o layers.png
      iclimit gdpp --condition-number 1e6 --tol 1e-10 --cap 100 --margin 0.02
    """
    from iclimit.asymptotics.gdpp import condition_number_schedule
    from iclimit.words import counted

    setting = arguments(options, condition_number_schedule)

    def draw(figure: Figure) -> None:
        from iclimit.diagrams.legends import place_legend
        from iclimit.drawing import log_scale

        ax = figure.subplots()
        for method, label in (("optimal", "optimal"), ("monotone", "monotone (published)")):
            condition_number_schedule(**setting | {"method": method}).draw(ax, label=label)
        if options.tol is not None:
            ax.axhline(options.tol, color="0.4", linestyle="--", linewidth=1, label="tolerance")
        log_scale(ax, "y")
        place_legend(ax, legend=True)

    schedule = condition_number_schedule(**setting)
    output(options, schedule, draw)
    if options.format == "text":
        condition = schedule.condition_number
        layers = counted(len(schedule.gammas), "layer")
        print(
            f"\n{layers}: condition number {condition[0]:.4g} to {condition[-1]:.4g}, "
            f"which exceeds 1 by {schedule.excess[-1]:.4g}"
        )
