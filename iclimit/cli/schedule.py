"""``iclimit schedule``: learning rates of multi-step gradient descent, and their loss."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

from iclimit.cli.arguments import parse_values

EXAMPLES = """\
examples:
  iclimit schedule --steps 4 --ratio 0.5
  iclimit schedule --steps 4 --context 20 --dim 10 --noise-ratio 0.05
  iclimit schedule --steps 10 --ratio 0.5 --method constant --format json
  iclimit schedule --rates 0.5,1 --context 20 --dim 10
  iclimit schedule --steps 3 --latex"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "schedule",
        help="compute learning rates of multi-step gradient descent",
        description=(
            "Compute the learning rates of several gradient-descent steps in context with the\n"
            "least expected loss, in the limit (--ratio) or exactly at finite size (--context\n"
            "and --dim, Gaussian inputs). The loss is that of a noiseless query relative to\n"
            "the null predictor; lower_bound is that of any polynomial method."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--steps", type=int, metavar="L", help="number of steps")
    parser.add_argument("--ratio", type=float, metavar="C", help="dimension over context, d/N")
    parser.add_argument("--context", type=int, metavar="N", help="number of context pairs")
    parser.add_argument("--dim", type=int, metavar="D", help="dimension")
    parser.add_argument(
        "--noise-ratio",
        type=float,
        default=0.0,
        metavar="V",
        help="noise variance over (task variance times N) (default 0)",
    )
    parser.add_argument(
        "--method",
        choices=("optimal", "constant", "chebyshev"),
        default="optimal",
        help="best schedule, best single rate, or best in the worst case (default optimal)",
    )
    parser.add_argument(
        "--rates", type=parse_values, metavar="A,B,...", help="evaluate these rates instead"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--latex",
        action="store_true",
        help=(
            "print the derivation of the noiseless optimum in LaTeX instead of numbers: at finite "
            "size with --context and --dim, else in the limit with the symbol c for the ratio"
        ),
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute and print."""
    from iclimit import asymptotics

    size = {"ratio": options.ratio, "context": options.context, "dim": options.dim}
    if (options.steps is None) == (options.rates is None):
        raise ValueError("give either --steps or --rates")
    if options.latex:
        if options.rates is not None or options.method != "optimal" or options.noise_ratio:
            raise ValueError("--latex is for the optimal schedule without noise")
        if options.ratio is not None and options.context is not None:
            raise ValueError("give either --ratio or --context and --dim")
        derivation = asymptotics.descent.derive_schedule(
            options.steps, context=options.context, dim=options.dim
        )
        print(derivation.latex())
        return 0
    if options.rates is not None:
        if options.method != "optimal":
            raise ValueError("--method is for --steps, not for given --rates")
        loss = asymptotics.descent.schedule_loss(
            options.rates, **size, noise_ratio=options.noise_ratio
        )
        result = {"rates": options.rates.tolist(), "loss": float(loss)}
    else:
        compute = getattr(asymptotics.descent, f"{options.method}_schedule")
        found = compute(steps=options.steps, **size, noise_ratio=options.noise_ratio)
        result = {
            "rates": found.rates.tolist(),
            "loss": float(found.loss),
            "lower_bound": float(found.lower_bound),
        }
    if options.format == "json":
        strict = {k: str(v) if v == math.inf else v for k, v in result.items()}
        print(json.dumps(strict, indent=1))
    else:
        for name, value in result.items():
            numbers = value if isinstance(value, list) else [value]
            print(f"{name:11}  {'  '.join(f'{number:.10g}' for number in numbers)}")
    return 0
