"""``iclimit train``: train a finite-size model and measure it on fresh prompts."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

from iclimit.cli import train_attention
from iclimit.cli.arguments import add_store, check_execution, check_output, open_store, print_rows

EXAMPLES = """\
examples:
  iclimit train linear-transformer --kind diag --layers 3 --noise-law uniform:5
  iclimit train linear-transformer --kind gd++ --layers 2 --noise-law fixed:0 --starts 32
  iclimit train linear-transformer --layers 7 --noise-law categorical:1,3 --checkpoint run.npz
  iclimit train linear-transformer --kind axial --layers 2 --noise-law uniform:5 -o two.npz
  iclimit train linear-transformer --kind axial --layers 3 --noise-law uniform:5 --initial two.npz"""


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
        "--noise-law",
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
        help="keep the state in this file (.npz) instead of the run store, and go on from it "
        "if it exists",
    )
    model.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the weights (.npz)"
    )
    model.add_argument("--format", choices=("text", "csv", "json"), default="text")
    add_store(model)
    model.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Train and measure, unless that is on record, and print."""
    from iclimit.runs.cell import Cell
    from iclimit.runs.recorded import run_recorded
    from iclimit.simulate.checks import check_integers
    from iclimit.simulate.gdpp import NoisyRegression
    from iclimit.simulate.gdpp.linear_transformer import load_transformer, save_transformer

    check_execution(options)
    check_output(options.output, (".npz",))
    check_output(options.checkpoint, (".npz",), flag="--checkpoint")
    paths = [each.resolve() for each in (options.output, options.checkpoint) if each]
    if len(paths) > len(set(paths)):
        raise ValueError(f"--output must not be the checkpoint, got {str(options.output)!r}")
    check_integers(**{"--held-out": options.held_out})
    noise_law = str(
        NoisyRegression(options.noise_law, context=options.context, dim=options.dim).noise_law
    )
    initial = [load_transformer(path) for path in options.initial]
    settings = {
        name: getattr(options, name)
        for name in ("kind", "layers", "heads", "context", "dim", "starts", "contexts", "steps")
    }
    settings |= {"noise_law": noise_law, "held_out": options.held_out}
    weights = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in options.initial)
    with open_store(options) as store:
        found = run_recorded(
            Cell.of(train_and_measure, **settings, initial=weights),
            lambda: train_and_measure(
                **settings,
                initial=initial,
                rng=options.seed,
                backend=options.backend,
                checkpoint=options.checkpoint,
                progress=sys.stderr.isatty(),
            ),
            rng=options.seed,
            backend=options.backend,
            store=None if options.checkpoint else store,
            complete=lambda found: not found["interrupted"],
        )
    model = found["model"]
    if options.output:
        save_transformer(model, options.output)
    result = {
        "kind": options.kind,
        "layers": options.layers,
        "noise_law": noise_law,
        **found["summary"],
    }
    omegas = _omega_rows(model) if options.kind in ("diag", "gd++") else []
    if options.format == "json":
        strict = {k: str(v) if v == math.inf else v for k, v in result.items()}
        print(json.dumps({**strict, "omegas": omegas}, indent=1))
    else:
        print_rows([result], options.format)
    if omegas and options.format == "text":
        print()
        print_rows(omegas, "text")
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

    from iclimit.simulate.gdpp import NoisyRegression, held_out_losses, train_linear_transformer

    problem = NoisyRegression(noise_law, context=context, dim=dim)
    run = train_linear_transformer(problem, rng=rng, backend=backend, **settings)
    fresh = held_out_losses(
        run.model,
        problem,
        contexts=held_out,
        rng=np.random.SeedSequence([rng, 1]),
        backend=backend,
    )
    summary = {
        "training_loss": run.loss,
        "held_out_loss": fresh.mean,
        "standard_error": fresh.standard_error,
        "starts_at_best": int((run.start_losses <= 1.01 * run.start_losses.min()).sum()),
        "steps": run.steps,
        "converged": run.converged,
    }
    return {"summary": summary, "model": run.model, "interrupted": run.interrupted}


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
