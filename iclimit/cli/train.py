"""``iclimit train``: train a finite-size model and measure it on fresh prompts."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from iclimit.cli import train_attention
from iclimit.cli.arguments import check_output, print_rows

EXAMPLES = """\
examples:
  iclimit train linear-transformer --kind diag --layers 3 --noise uniform:5
  iclimit train linear-transformer --kind gd++ --layers 2 --noise fixed:0 --starts 32
  iclimit train linear-transformer --layers 7 --noise categorical:1,3 --checkpoint run.npz
  iclimit train linear-transformer --kind axial --layers 2 --noise uniform:5 -o two.npz
  iclimit train linear-transformer --kind axial --layers 3 --noise uniform:5 --initial two.npz"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "train",
        help="train a finite-size model and measure it on fresh prompts",
        description="Train a finite-size model and measure it on fresh prompts.",
    )
    models = parser.add_subparsers(dest="what", metavar="MODEL", required=True)
    train_attention.add_parser(models)
    model = models.add_parser(
        "linear-transformer",
        help="linear transformer on regression with random noise levels",
        description=(
            "Train a linear transformer on regression in context with a noise level that differs\n"
            "between prompts (arXiv:2402.14180). Losses are adjusted: half the squared error\n"
            "minus half that of ridge regression which is told the noise variance."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    model.add_argument(
        "--noise",
        required=True,
        metavar="LAW",
        help="fixed:SIGMA, uniform:SIGMA_MAX or categorical:SIGMA,SIGMA,...",
    )
    model.add_argument(
        "--kind",
        choices=("full", "axial", "diag", "gd++"),
        default="diag",
        help="what is free in the weights: all (full), those that keep the symmetry of the inputs "
        "about the first axis (axial), one number for all inputs and one for the label (diag), "
        "gradient descent with preconditioning (gd++); default diag",
    )
    for name, default, text in (
        ("layers", 1, "number of layers"),
        ("heads", 1, "heads per layer"),
        ("context", 20, "number of context pairs"),
        ("dim", 10, "dimension of the inputs"),
        ("starts", 16, "random starts"),
        ("contexts", 2**15, "contexts of the last round of the training"),
        ("steps", 80, "most steps of a descent in a round"),
        ("held-out", 100_000, "fresh contexts that the loss is measured on"),
    ):
        model.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default {default})"
        )
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
    model.add_argument("--seed", type=int, default=0, help="root seed (default 0)")
    model.add_argument("--backend", choices=("numpy", "cupy"), default="numpy")
    model.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="keep the state in this file (.npz), and go on from it if it exists",
    )
    model.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the weights (.npz)"
    )
    model.add_argument("--format", choices=("text", "csv", "json"), default="text")
    model.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train, measure and print."""
    import numpy as np

    from iclimit.simulate import NoisyRegression, held_out_losses, train_linear_transformer
    from iclimit.simulate.checks import check_integers
    from iclimit.simulate.linear_transformer import load_transformer, save_transformer
    from iclimit.validation.execution import check_run

    check_run(options.seed, 1, options.backend)
    check_output(options.output, (".npz",))
    check_output(options.checkpoint, (".npz",), flag="--checkpoint")
    paths = [each.resolve() for each in (options.output, options.checkpoint) if each]
    if len(paths) > len(set(paths)):
        raise ValueError(f"--output must not be the checkpoint, got {str(options.output)!r}")
    check_integers(**{"--held-out": options.held_out})
    problem = NoisyRegression(options.noise, context=options.context, dim=options.dim)
    run = train_linear_transformer(
        problem,
        kind=options.kind,
        layers=options.layers,
        heads=options.heads,
        starts=options.starts,
        contexts=options.contexts,
        steps=options.steps,
        initial=[load_transformer(path) for path in options.initial],
        rng=options.seed,
        backend=options.backend,
        checkpoint=options.checkpoint,
        progress=sys.stderr.isatty(),
    )
    if options.output:
        save_transformer(run.model, options.output)
    fresh = held_out_losses(
        run.model,
        problem,
        contexts=options.held_out,
        rng=np.random.SeedSequence([options.seed, 1]),
        backend=options.backend,
    )
    result: dict[str, Any] = {
        "kind": options.kind,
        "layers": options.layers,
        "noise": str(problem.noise),
        "training_loss": run.loss,
        "held_out_loss": fresh.mean,
        "standard_error": fresh.standard_error,
        "starts_at_best": int((run.start_losses <= 1.01 * run.start_losses.min()).sum()),
        "steps": run.steps,
        "converged": run.converged,
    }
    omegas = _omega_rows(run.model) if options.kind in ("diag", "gd++") else []
    if options.format == "json":
        strict = {k: str(v) if v == math.inf else v for k, v in result.items()}
        print(json.dumps({**strict, "omegas": omegas}, indent=1))
    else:
        print_rows([result], options.format)
    if omegas and options.format == "text":
        print()
        print_rows(omegas, "text")
    if run.interrupted:
        print("interrupted: the best so far was measured", file=sys.stderr)
        return 130
    return 0


def _omega_rows(model: Any) -> list[dict[str, Any]]:
    """Effective scalars of every layer."""
    return [
        {
            "layer": layer,
            **{
                f"omega_{to}{source}": float(matrix[i, j])
                for i, to in enumerate("xy")
                for j, source in enumerate("xy")
            },
        }
        for layer, matrix in enumerate(model.omegas, start=1)
    ]
