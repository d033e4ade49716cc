"""Linear transformer on regression with random noise levels.

Train a linear transformer on regression in context with a noise level that
differs between prompts (arXiv:2402.14180). Losses are adjusted: half the
squared error minus half that of ridge regression which knows the noise
variance.

Examples
--------
  iclimit train linear-transformer --kind diag --layers 3 --noise-law uniform:5
  iclimit train linear-transformer --kind gd++ --layers 2 --noise-law fixed:0 --starts 32
  iclimit train linear-transformer --layers 7 --noise-law categorical:1,3 --checkpoint run.npz
  iclimit train linear-transformer --kind axial --layers 2 --noise-law uniform:5 -o two.npz
  iclimit train linear-transformer --kind axial --layers 3 --noise-law uniform:5 --initial two.npz
"""

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

from iclimit.cli import train_attention, train_network, train_softmax
from iclimit.cli.arguments import add_choice, add_parameter, add_training, add_verb, run_training
from iclimit.cli.output import FORMATS, add_output, print_json, write_rows

SIZES = {"layers": 1, "heads": 1, "context": 20, "dim": 10, "starts": 16}
"""Integers of a training with their defaults, besides those that need another explanation."""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs, "train", None, "train a finite-size model and measure it on fresh prompts"
    )
    models = parser.add_subparsers(dest="what", metavar="MODEL", required=True)
    for each in (train_attention, train_softmax, train_network):
        each.add_parser(models)
    model = add_verb(models, "linear-transformer", run, __doc__)
    text = "law of the noise level: fixed:SIGMA, uniform:MOST or categorical:SIGMA,SIGMA,..."
    add_parameter(model, "noise_law", required=True, metavar="LAW", text=text)
    add_choice(
        model,
        "--kind",
        ("diag", "gd++", "axial", "full"),
        "what is free in the weights: one number for all inputs and one for the label (diag), "
        "gradient descent with preconditioning (gd++), what keeps the symmetry of the inputs "
        "about the first axis (axial), all (full)",
    )
    for name, default in SIZES.items():
        add_parameter(model, name, default)
    add_parameter(model, "contexts", 2**15, text="contexts of the last round of the training")
    add_parameter(model, "steps", 80, text="most steps of a descent in a round")
    text = "fresh contexts that the loss is measured on"
    add_parameter(model, "contexts", 100_000, flag="--held-out", text=text)
    model.add_argument(
        "--initial",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        metavar="FILE",
        help="start from these weights too (.npz, as -o writes them): of the same depth or less, "
        "of the same kind or one it contains",
    )
    add_training(model)
    add_output(model, (".npz",), formats=FORMATS, text="write the weights (.npz)")


def run(options: argparse.Namespace) -> int:
    """Train and measure, unless that is on record, and print."""
    from iclimit.checks import check_integers
    from iclimit.problem import Problem
    from iclimit.simulate.networks import load_model, save_model

    paths = [each.resolve() for each in (options.output, options.checkpoint) if each]
    if len(paths) > len(set(paths)):
        raise ValueError(f"--output must not be the checkpoint, got {str(options.output)!r}")
    check_integers(**{"--held-out": options.held_out})
    problem = Problem(
        dim=options.dim, context=options.context, noise_law=options.noise_law, scale=1
    )
    names = ("kind", *SIZES, "contexts", "steps", "held_out")
    settings = {name: getattr(options, name) for name in names}
    settings["noise_law"] = str(problem.noise_law)
    try:
        initial = [load_model(path) for path in options.initial]
    except OSError as error:
        raise ValueError(f"cannot read a file: {error}") from error
    weights = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in options.initial)
    found = run_training(
        options,
        train_and_measure,
        settings | {"initial": weights},
        complete=lambda found: not found["interrupted"],
        initial=initial,
    )
    if options.output:
        save_model(found["model"], options.output)
    result = {name: settings[name] for name in ("kind", "layers", "noise_law")} | found["summary"]
    omegas: list[dict[str, float]] = []
    if options.kind in ("diag", "gd++"):
        scalars = ("omega_xx", "omega_xy", "omega_yx", "omega_yy")
        for layer, matrix in enumerate(found["model"].omegas, start=1):
            omegas.append(
                {"layer": layer, **dict(zip(scalars, matrix.ravel().tolist(), strict=True))}
            )
    if options.format == "json":
        print_json({**result, "omegas": omegas})
    else:
        write_rows([result], options.format)
    if omegas and options.format == "text":
        print()
        write_rows(omegas, "text")
    if found["interrupted"]:
        print("interrupted: the best so far was measured", file=sys.stderr)
        return 130
    return 0


def train_and_measure(
    *,
    noise_law: str,
    context: int,
    dim: int,
    held_out: int,
    rng: int,
    backend: str = "numpy",
    **settings: Any,
) -> dict[str, Any]:
    """Train a linear transformer and measure it on fresh contexts."""
    import numpy as np

    from iclimit.problem import Problem
    from iclimit.simulate.gdpp import held_out_losses, train_linear_transformer

    problem = Problem(dim=dim, context=context, noise_law=noise_law, scale=1)
    run = train_linear_transformer(problem, rng=rng, backend=backend, **settings)
    seed = np.random.SeedSequence([rng, 1])
    fresh = held_out_losses(run.model, problem, contexts=held_out, rng=seed, backend=backend)
    summary = {
        "training_loss": run.loss,
        "held_out_loss": fresh.loss.mean,
        "standard_error": fresh.loss.standard_error,
        "starts_at_best": int((run.start_losses <= 1.01 * run.start_losses.min()).sum()),
        "steps": run.steps,
        "converged": run.converged,
    }
    return {"summary": summary, "model": run.model, "interrupted": run.interrupted}
