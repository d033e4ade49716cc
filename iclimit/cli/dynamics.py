"""Predict plateaus, drops and losses of training.

Predict the training of one linear attention layer from small random weights
by gradient flow on fresh data (arXiv:2501.16265). Losses are mean squared
errors. Times are in units of the time constant, for attention scores divided
by N: s steps of gradient descent at the learning rate r are the time 2 r s.
Scores that are not divided by N, as with iclimit train attention
--normalization sum, make initial weights X and times t count as N^(1/2) X and
N t for merged, and as N^(1/3) X and N^(2/3) t for separate.

For merged there is one drop: half_drop_time is when half of it has happened,
std_over_seeds its standard deviation over initial weights, effective_scale
what the weights of all heads come to. For separate there is a row for each
plateau: its loss, how many directions are learned there, and the eigenvalue,
the head and the half_drop_time of the drop before it (inf if no head is left
to learn it). half_drop_time is that of iclimit train attention.

Examples
--------
  iclimit dynamics merged --heads 8 --init-scale 1e-6
  iclimit dynamics merged --white 8 --seed 0 --curve 200 -o curve.csv
  iclimit dynamics separate --heads 5 --init-scale 1e-2 --seed 3 -o staircase.png
  iclimit dynamics separate --dim 8 --heads 9 --rank 2 --init-scale 5e-3
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_parameter, add_verb, parse_values
from iclimit.cli.output import FORMATS, PICTURES, add_output, write_output

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from iclimit.asymptotics.dynamics import Staircase

Loss = Callable[["np.ndarray"], "np.ndarray"]
Prediction = tuple[list[dict[str, Any]], float, Loss]
"""Rows of the summary, the end of the curve, and the curve."""

INIT_SCALE = (
    "standard deviation of the initial weights; of keys and queries of separate times "
    "1 / sqrt(R (D + 1))"
)

RANGE = 1e-50, 1e50
"""Eigenvalues and initial weights whose powers are numbers."""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "dynamics", run, __doc__)
    text = "one matrix for key and query, or one for each"
    parser.add_argument("model", choices=("merged", "separate"), help=text)
    add_problem(parser)
    add_parameter(parser, "heads", 8)
    add_parameter(parser, "rank", 1)
    add_parameter(parser, "init_scale", 1e-3, text=INIT_SCALE)
    text = (
        "seed of the initial weights, the same as in iclimit train attention (default: 0 for "
        "separate; for merged the mean drop time and its spread over seeds)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help=text)
    text = "losses at so many times, from 0 to beyond the last drop, instead of a summary"
    parser.add_argument("--curve", type=int, metavar="POINTS", help=text)
    text = "write a table (.csv, .json), or a picture of the curve (.png, .pdf, .svg)"
    add_output(parser, formats=FORMATS, text=text)


def run(options: argparse.Namespace) -> int:
    """Predict, and print or write."""
    import numpy as np

    if options.curve is not None and options.curve < 2:
        raise ValueError(f"--curve must be an integer >= 2, got {options.curve!r}")
    setting = {name: getattr(options, name) for name in ("context", "noise_variance")}
    setting["eigenvalues"] = parse_problem(options)
    predict = _merged if options.model == "merged" else _separate
    rows, last, loss = predict(options, setting)
    picture = options.output is not None and options.output.suffix in PICTURES
    if picture or options.curve is not None:
        times = np.linspace(0, last, options.curve or 1000)
        losses = loss(times)
        pairs = zip(times.tolist(), losses.tolist(), strict=True)
        rows = [{"time": time, "loss": value} for time, value in pairs]
    write_output(options, lambda: rows, lambda figure: _draw(options, figure, times, losses))
    return 0


def add_problem(parser: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add --dim, --white, --eigenvalues, --context and --noise-variance.

    Eigenvalues and context have defaults unless they are required.
    """
    spectrum = parser.add_mutually_exclusive_group(required=required)
    text = "dimension; eigenvalues in the proportions D, ..., 2, 1 with the sum 1"
    add_parameter(spectrum, "dim", text=text if required else f"{text}; default 4")
    spectrum.add_argument(
        "--white", type=int, metavar="N", help="dimension; all eigenvalues 1/N instead"
    )
    spectrum.add_argument(
        "--eigenvalues", type=parse_values, metavar="LIST", help="eigenvalues a,b,c instead"
    )
    add_parameter(parser, "context", None if required else 31, required=required)
    add_parameter(parser, "noise_variance", 0.0)


def parse_problem(options: argparse.Namespace) -> np.ndarray:
    """Return the eigenvalues of the inputs, once all that `add_problem` added is checked.

    The model, its size and its initial weights are checked too.
    """
    import numpy as np

    from iclimit.checks import check_arguments, check_integers, given
    from iclimit.simulate.dynamics import AttentionModel

    names = ("context", "noise_variance", "init_scale")
    check_arguments(**{name: getattr(options, name) for name in names}, **given(dim=options.dim))
    check_integers(**given(**{"--white": options.white}))
    if options.seed is not None and options.seed < 0:
        raise ValueError(f"--seed must be an integer >= 0, got {options.seed!r}")
    least, most = RANGE
    if not least <= options.init_scale <= most:
        raise ValueError(f"init_scale must be from {least} to {most}, got {options.init_scale!r}")
    if options.eigenvalues is not None:
        lam = np.asarray(options.eigenvalues)
    elif options.white is not None:
        lam = np.full(options.white, 1 / options.white)
    else:
        lam = np.arange(options.dim or 4, 0, -1.0)
        lam /= lam.sum()
    for value in lam.tolist():
        if value and not least <= value <= most:
            raise ValueError(f"eigenvalues must be 0 or from {least} to {most}, got {value!r}")
    if not np.any(lam):
        raise ValueError("eigenvalues must not all be 0")
    AttentionModel(options.model, len(lam), options.heads, options.rank)
    return lam


def weights_of(options: argparse.Namespace, dim: int, **more: Any) -> list[np.ndarray]:
    """Initial weights of a repeat of a training with these options."""
    from iclimit.simulate.dynamics import AttentionModel, initial_weights

    model = AttentionModel(options.model, dim, options.heads, options.rank)
    return initial_weights(model, options.init_scale, rng=options.seed or 0, **more)


def predicted_drops(
    options: argparse.Namespace, setting: dict[str, Any], weights: list[np.ndarray]
) -> tuple[list[float], Loss]:
    """Half-drop times, and the loss over time, from initial weights for scores divided by N."""
    if options.model == "merged":
        half, loss = _merged_drop(options, setting, _effective_scale(setting, weights))
        return [half], loss
    steps = _staircase(options, setting, weights)
    return steps.drop_times.tolist(), steps.loss


def _effective_scale(setting: dict[str, Any], weights: list[np.ndarray]) -> float:
    from iclimit.asymptotics.dynamics import effective_init_scale

    value, lookup = weights
    start = value[:, -1], lookup[:, :-1, :]
    return float(effective_init_scale(*start, eigenvalues=setting["eigenvalues"]))


def _merged_drop(
    options: argparse.Namespace, setting: dict[str, Any], scale: float
) -> tuple[float, Loss]:
    """Half-drop time of merged attention, and its loss over time."""
    import numpy as np

    from iclimit.asymptotics import dynamics

    def loss(times: np.ndarray) -> np.ndarray:
        return dynamics.merged_attention_curve(times, init_scale=scale, **setting)

    losses = dynamics.plateau_losses(**setting)
    with np.errstate(over="ignore"):
        start = float(loss(np.array(0.0)))
    if abs(start - losses[0]) > (losses[0] - losses[-1]) / 4:
        raise ValueError(
            f"init_scale must be so small that the loss at the start is near {losses[0]:.6g}, "
            f"got {options.init_scale!r}"
        )
    return dynamics.merged_curve_drop_time(init_scale=scale, **setting), loss


def _merged(options: argparse.Namespace, setting: dict[str, Any]) -> Prediction:
    import numpy as np

    from iclimit.asymptotics import dynamics

    lam = setting["eigenvalues"]
    spread: dict[str, float] = {}
    if options.seed is None:
        law = dynamics.effective_init_scale_moments(options.heads)
        scale = options.init_scale * math.exp(law.mean)
        spread = {"std_over_seeds": float(law.std / np.linalg.norm(lam**2))}
    else:
        scale = _effective_scale(setting, weights_of(options, len(lam)))
    half, loss = _merged_drop(options, setting, scale)
    first, *_, last = dynamics.plateau_losses(**setting).tolist()
    row = {"effective_scale": scale, "initial_loss": first, "half_drop_time": half}
    return [row | spread | {"final_loss": last}], 4 * half, loss


def _staircase(
    options: argparse.Namespace, setting: dict[str, Any], weights: list[np.ndarray]
) -> Staircase:
    """Drops of separate attention."""
    import numpy as np

    from iclimit.asymptotics.dynamics import separate_attention_staircase

    value, key, query = weights
    steps = separate_attention_staircase(value[:, -1], key[..., :-1], query, **setting)
    if np.any(steps.drop_times < steps.times / 2):
        raise ValueError(
            "init_scale must be so small that heads wait for longer than they learn, "
            f"got {options.init_scale!r}"
        )
    return steps


def _separate(options: argparse.Namespace, setting: dict[str, Any]) -> Prediction:
    import numpy as np

    lam = setting["eigenvalues"]
    steps = _staircase(options, setting, weights_of(options, len(lam)))
    columns = {
        "learned": range(len(lam) + 1),
        "loss": steps.losses.tolist(),
        "eigenvalue": [None, *np.sort(lam)[::-1].tolist()],
        "head": [None, *(head if head >= 0 else None for head in steps.heads.tolist())],
        "half_drop_time": [None, *steps.drop_times.tolist()],
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    ends = np.maximum(steps.times, steps.drop_times)
    return rows, 1.3 * float(ends[np.isfinite(ends)].max()), steps.loss


def _draw(
    options: argparse.Namespace, figure: Figure, times: np.ndarray, losses: np.ndarray
) -> None:
    """Draw the curve."""
    from iclimit.diagrams.legends import stated, write_title
    from iclimit.drawing import COLOURS
    from iclimit.notation import PARAMETERS

    ax = figure.subplots()
    ax.plot(times, losses, color=COLOURS[0])
    ax.set(xlabel=r"time $t/\tau$", ylabel="loss")
    # The context is N in this theory.
    symbols = PARAMETERS | {"context": replace(PARAMETERS["context"], symbol="N")}
    names = ("dim", "context", "noise_variance", "heads", "init_scale")
    known = {name: getattr(options, name) for name in names}
    given = {name: value for name, value in known.items() if value}
    write_title(ax, None, [f"{options.model}, {stated(symbols, given)}"])
