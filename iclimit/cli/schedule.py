"""Compute learning rates of several steps in context.

Compute the learning rates of several gradient-descent steps in context with
the least expected loss, in the limit (--ratio) or exactly at finite size
(--context and --dim, Gaussian inputs). The loss is that of a noiseless query
relative to predicting 0; lower_bound is that of any polynomial method.

Examples
--------
  iclimit schedule --steps 4 --ratio 0.5
  iclimit schedule --steps 4 --context 20 --dim 10 --noise-ratio 0.05
  iclimit schedule --steps 10 --ratio 0.5 --method constant --format json
  iclimit schedule --rates 0.5,1 --context 20 --dim 10
  iclimit schedule --steps 3 --latex
"""

import argparse
from typing import Any

from iclimit.cli.arguments import add_choice, add_parameter, add_verb, parse_values
from iclimit.cli.output import add_format, print_json


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "schedule", run, __doc__)
    for name in ("steps", "ratio", "context", "dim"):
        add_parameter(parser, name)
    add_parameter(parser, "noise_ratio", 0.0)
    text = "best schedule, best single rate, or best in the worst case"
    add_choice(parser, "--method", ("optimal", "constant", "chebyshev"), text)
    text = "evaluate these rates instead"
    parser.add_argument("--rates", type=parse_values, metavar="A,B,...", help=text)
    text = (
        "print the derivation of the noiseless optimum in LaTeX instead of numbers: at "
        "finite size with --context and --dim, else in the limit, where the ratio is c"
    )
    parser.add_argument("--latex", action="store_true", help=text)
    add_format(parser, ("text", "json"))


def run(options: argparse.Namespace) -> int:
    """Compute and print."""
    from iclimit.asymptotics import descent

    if (options.steps is None) == (options.rates is None):
        raise ValueError("give either --steps or --rates")
    size = {"context": options.context, "dim": options.dim}
    if options.latex:
        if options.rates is not None or options.method != "optimal" or options.noise_ratio:
            raise ValueError("--latex is for the optimal schedule without noise")
        if options.ratio is not None and options.context is not None:
            raise ValueError("give either --ratio or --context and --dim")
        print(descent.derive_schedule(options.steps, **size).latex())
        return 0
    setting = {**size, "ratio": options.ratio, "noise_ratio": options.noise_ratio}
    result: dict[str, list[float] | float]
    if options.rates is not None:
        if options.method != "optimal":
            raise ValueError("--method is for --steps, not for given --rates")
        loss = descent.schedule_loss(options.rates, **setting)
        result = {"rates": options.rates.tolist(), "loss": float(loss)}
    else:
        found = getattr(descent, f"{options.method}_schedule")(steps=options.steps, **setting)
        numbers = {name: float(getattr(found, name)) for name in ("loss", "lower_bound")}
        result = {"rates": found.rates.tolist(), **numbers}
    if options.format == "json":
        print_json(result)
        return 0
    for name, value in result.items():
        shown = value if isinstance(value, list) else [value]
        print(f"{name:11}  {'  '.join(f'{number:.10g}' for number in shown)}")
    return 0
