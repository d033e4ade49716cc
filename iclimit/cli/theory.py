"""Verbs of the theory: learning rates, schedules, GD++ and the dynamics of training."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from iclimit.cli.flags import Settings, add_flag, add_flags, arguments
from iclimit.cli.output import add_output, output
from iclimit.cli.values import POWERS, expects, parse_positive, parse_seed, parse_values
from iclimit.cli.verbs import verb
from iclimit.tables import TABLES

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from iclimit.asymptotics.dynamics import MergedDrop, Staircase

# Arguments of a learning rate that take many values.
AXES = ("context", "dim", "noise_variance", "task_variance")


@expects("be a law or two moments m2,m4")
def parse_law(text: str) -> str | tuple[float, float]:
    """Parse the name of a law, or its second and fourth moment."""
    if "," not in text:
        return text
    second, fourth = text.split(",")
    return float(second), float(fourth)


def _learning_rate_flags(parser: argparse.ArgumentParser) -> None:
    from iclimit.asymptotics.descent import optimal_learning_rate

    values: Settings = {"type": parse_values, "metavar": "VALUES", "required": False}
    law = {"type": parse_law, "choices": None, "metavar": "LAW"}
    add_flags(parser, optimal_learning_rate, **dict.fromkeys(AXES, values), input_law=law)
    text = "print the derivation in LaTeX instead of numbers; moments m2,m4 stay symbols"
    parser.add_argument("--latex", action="store_true", help=text)
    add_output(parser, TABLES)


@verb("learning-rate", _learning_rate_flags)
def learning_rate(options: argparse.Namespace) -> None:
    """Compute the best learning rate of one step in context.

    Compute the learning rate with which one step of gradient descent on the
    context has the least expected loss, and that loss: the mean squared error on
    a noisy query label. VALUES are a number, a list a,b,c or a range start:stop:points[:log].
    LAW is gaussian, uniform, rademacher, laplace, or the moments m2,m4 of any other.

    Examples
    --------
      iclimit learning-rate --context 10 --dim 10 --input-law uniform
      iclimit learning-rate --context 5,10,20,50 --dim 10 --noise-variance 0.1 --format csv
      iclimit learning-rate --context 20 --dim 10 --input-law 0.0833333,0.0125 --normalization sum
      iclimit learning-rate --input-law uniform --latex
    """
    import numpy as np

    from iclimit.asymptotics.descent import derive_learning_rate, optimal_learning_rate
    from iclimit.results import Table

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
    output(options, Table.of(**grid, rate=best.rate, loss=best.loss))


def _schedule_flags(parser: argparse.ArgumentParser) -> None:
    from iclimit.asymptotics.descent import optimal_schedule

    add_flags(parser, optimal_schedule, steps={"required": False})
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
    output(options, compute(**arguments(options, compute)))


def _gdpp_flags(parser: argparse.ArgumentParser) -> None:
    from iclimit.asymptotics.gdpp import condition_number_schedule

    tol = "take the fewest layers after which the excess is at most this"
    cap = "safeguard: compute no gamma for a larger condition number than this"
    add_flags(parser, condition_number_schedule, tol=tol, cap=cap)
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

    output(options, condition_number_schedule(**setting), draw)


def parse_falling(text: str) -> np.ndarray:
    """Parse a dimension D to eigenvalues in the proportions D, ..., 2, 1 with the sum 1."""
    import numpy as np

    lam = np.arange(parse_positive(text), 0, -1.0)
    return lam / lam.sum()


def parse_white(text: str) -> np.ndarray:
    """Parse a dimension D to eigenvalues 1/D."""
    import numpy as np

    return np.full(parse_positive(text), 1 / int(text))


def parse_eigenvalues(text: str) -> np.ndarray:
    """Parse eigenvalues of a covariance."""
    lam = parse_values(text)
    for value in lam.tolist():
        least, most = POWERS
        if value and not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be 0 or from {least} to {most}, got {value!r}")
    if not lam.any():
        raise argparse.ArgumentTypeError(f"must not all be 0, got {text!r}")
    return lam


def add_covariance(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add --dim, --white and --eigenvalues, of which one gives the argument eigenvalues."""
    group = parser.add_mutually_exclusive_group(required=required)
    text = "dimension; eigenvalues in the proportions D, ..., 2, 1 with the sum 1"
    more: Settings = {} if required else {"default": "4"}
    for flag, parse, metavar, meaning in (
        ("--dim", parse_falling, "D", text if required else f"{text} (default 4)"),
        ("--white", parse_white, "D", "dimension; all eigenvalues 1/D instead"),
        ("--eigenvalues", parse_eigenvalues, "LIST", "eigenvalues a,b,c instead"),
    ):
        group.add_argument(
            flag, type=parse, dest="eigenvalues", metavar=metavar, help=meaning, **more
        )
        more = {}


def _dynamics_flags(parser: argparse.ArgumentParser) -> None:
    from iclimit.asymptotics.dynamics import merged_attention_drop

    text = "one matrix for key and query, or one for each"
    parser.add_argument("model", choices=("merged", "separate"), help=text)
    add_covariance(parser)
    defaults = {"context": 31, "heads": 8, "init_scale": 1e-3}
    changes: Settings = {name: {"default": default} for name, default in defaults.items()}
    changes["heads"]["text"] = "number of heads"
    changes["init_scale"]["text"] = "standard deviation of the initial weights"
    add_flags(parser, merged_attention_drop, eigenvalues=None, **changes)
    add_flag(parser, "rank", default=1)
    text = (
        "seed of the initial weights, the same as in iclimit train descent (default: 0 for "
        "separate; for merged the mean drop time and its spread over seeds)"
    )
    parser.add_argument("--seed", type=parse_seed, dest="rng", metavar="N", help=text)
    text = "print the loss at this many times, from 0 to beyond the last drop, not a summary"
    parser.add_argument("--curve", type=int, metavar="POINTS", help=text)
    add_output(parser)


@verb("dynamics", _dynamics_flags)
def dynamics(options: argparse.Namespace) -> None:
    """Predict plateaus, drops and losses of training.

    Predict how one linear attention layer learns from small random weights, by
    gradient flow on fresh data (arXiv:2501.16265). Losses are mean squared errors.
    s steps of gradient descent with the learning rate r take the time 2 r s.

    With merged the loss drops once. half_drop_time is the time at which half of
    the drop has happened, std_over_seeds its standard deviation over random
    initial weights, and effective_scale the size of the initial weights of all
    heads together. With separate there is a row for each plateau: its loss, the
    number of directions learned there, and of the drop before it the eigenvalue
    that was learned, the head that learned it and half_drop_time (inf if no head
    is left). iclimit train descent measures the same half_drop_time.

    Attention scores are divided by the context length N. If they are not (--normalization
    sum of iclimit train), give N^(1/2) X for the initial scale X, and divide times by N,
    for merged; for separate N^(1/3) X and N^(2/3).

    Examples
    --------
      iclimit dynamics merged --heads 8 --init-scale 1e-6
      iclimit dynamics merged --white 8 --seed 0 --curve 200 -o curve.csv
      iclimit dynamics separate --heads 5 --init-scale 1e-2 --seed 3 -o staircase.png
      iclimit dynamics separate --dim 8 --heads 9 --rank 2 --init-scale 5e-3
    """
    import numpy as np

    from iclimit.asymptotics.dynamics import merged_attention_drop
    from iclimit.results import Table
    from iclimit.simulate.dynamics import AttentionModel, initial_weights
    from iclimit.validation.instruments.curves.drops import predict_drops

    if options.curve is not None and options.curve < 2:
        raise ValueError(f"--curve must be an integer >= 2, got {options.curve!r}")
    setting = arguments(options, merged_attention_drop)
    model = AttentionModel(options.model, len(options.eigenvalues), options.heads, options.rank)
    if options.model == "merged" and options.rng is None:
        result: MergedDrop | Staircase = merged_attention_drop(**setting)
    else:
        weights = initial_weights(model, options.init_scale, rng=options.rng or 0)
        law = {name: setting[name] for name in ("eigenvalues", "context", "noise_variance")}
        result = predict_drops(weights, options.init_scale, **law)

    def draw(figure: Figure) -> None:
        from iclimit.diagrams.legends import stated, write_title
        from iclimit.notation import PARAMETERS

        ax = figure.subplots()
        result.draw(ax, count=options.curve or 1000)
        # The context is N in this theory.
        symbols = PARAMETERS | {"context": replace(PARAMETERS["context"], symbol="N")}
        names = ("context", "noise_variance", "heads", "init_scale")
        known = {"dim": model.dim} | {name: setting[name] for name in names if setting[name]}
        write_title(ax, None, [f"{options.model}, {stated(symbols, known)}"])

    if options.curve is None:
        output(options, result, draw)
        return
    times = np.linspace(0, result.end, options.curve)
    output(options, Table.of(time=times, loss=result.loss(times)), draw)
