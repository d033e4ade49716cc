"""The verb that plans runs."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.flags import Settings, add_flags, arguments
from iclimit.cli.output import add_output, output
from iclimit.cli.values import expects, output_file, parse_names, parse_range_of
from iclimit.cli.verbs import OneLineParser, verb
from iclimit.tables import TABLES

if TYPE_CHECKING:
    from iclimit.validation.instruments.plan.questions import Against

# Parameters of the setting, and those of them without a default.
SETTING = ("tau", "sequence_ratio", "alpha", "kappa", "rho", "ridge")
NEEDED = ("alpha", "kappa", "rho")

# Questions about two settings or theories, with an example of the second one.
AGAINST = {"theories": "dmmse", "difference": "kappa=1"}


@expects("be NAME=VALUE,..., dmmse, ridge or a quantity of iclimit phase --list")
def parse_against(text: str) -> Against:
    """Parse parameters that differ, a Bayes estimator or a quantity."""
    from iclimit.validation.instruments.runs.measured import ESTIMATORS

    if "=" in text:
        pairs = (part.split("=") for part in text.split(","))
        return {name.strip(): float(value) for name, value in pairs}
    if text in ESTIMATORS:
        return text
    from iclimit.checks import check_choice
    from iclimit.diagrams.quantities import QUANTITIES, find_quantity

    try:
        check_choice("against", text, [*ESTIMATORS[1:], *QUANTITIES])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    quantity = find_quantity(text)

    def theory(**given: Any) -> Any:
        known = quantity.all_parameters
        if missing := [name for name in quantity.parameters if name not in given]:
            raise ValueError(f"against may take {', '.join(given)}, {text} takes {missing[0]}")
        return quantity.function(**{name: given[name] for name in given if name in known})

    return theory


@expects("be FILE.py:FUNCTION")
def parse_function(text: str) -> Callable[..., float]:
    """Load a function from a file of Python."""
    path, _, name = text.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ValueError
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {error}"
        raise argparse.ArgumentTypeError(f"must be a file that runs, got {problem}") from None
    if not callable(function := getattr(module, name, None)):
        raise ValueError
    return function


def _plan_flags(parser: OneLineParser) -> None:
    from iclimit.validation import plan_runs

    changes: dict[str, str | Settings | None] = {
        name: {"type": parse_range_of(name), "metavar": "X"} for name in SETTING
    }
    changes |= {
        name: {"type": parse_range_of(name), "metavar": "X", "required": True} for name in NEEDED
    }
    changes["run"] = None
    text = (
        "what the runs should answer: precision, difference, theories, transition, bend or "
        "forecast"
    )
    changes["question"] = {"flag": "question", "metavar": "QUESTION", "text": text}
    text = "second setting or theory: kappa=1,rho=0.2, or dmmse, ridge or a quantity"
    changes["against"] = {"type": parse_against, "metavar": "WHAT", "text": text}
    changes["free"] = {"type": parse_names, "metavar": "NAME,..."}
    text = "function of dim, context, tasks and prompts that returns the cost of a run"
    changes["cost"] = {"type": parse_function, "metavar": "FILE.py:NAME", "text": text}
    dims: Settings = {"type": parse_range_of("dim"), "metavar": "LIST", "default": None}
    changes["dim"] = dims | {"text": "dimensions that are tried"}
    add_flags(parser, plan_runs, changes)
    text = "write the runs of the best proposal as a table for iclimit check (.csv, .json)"
    parser.add_argument("--runs", type=output_file(TABLES), metavar="FILE", help=text)
    add_output(parser)


@verb("plan", _plan_flags)
def plan(options: argparse.Namespace) -> int:
    r"""Plan runs: which sizes, and how many, answer a question for the least cost.

    QUESTION is one of

      precision   measure an error to a relative --effect
      difference  tell the errors of two settings from each other; without
                  --against and with --quantity gap, ICL from IDG errors
      theories    tell two theories of the same runs from each other
      transition  find the place of a transition, along the parameter that has
                  several values, to a relative --effect
      bend        is a transition there at all: tell the curve along this
                  parameter from a straight line in its logarithm
      forecast    fit the parameters --free, each within a relative --effect;
                  lists of values are one planned run each

    Of --effect, --significance, --power and the number of runs (--repeats or
    --max-cost) one is left out and computed. Sizes are ranked by cost: by default
    the operations of the simulator of this library, in seconds at 1e10 a second.

    Errors, their scatter from run to run and the uncertainty of the theory are
    those that are predicted at each size. With --sequence-ratio in the place of --tau,
    runs are trained on all positions of sequences.

    The exit status is 0 if a size is proposed, otherwise 1.

    Examples
    --------
      iclimit plan precision --tau 2 --alpha 1 --kappa 0.5 --rho 0.1 --effect 0.02
      iclimit plan precision --sequence-ratio 4 --alpha 2 --alpha-min 0.5 --kappa 2 \
          --rho 0.1 --ridge 0.1 --effect 0.06
      iclimit plan theories --tau 2 --alpha 1 --kappa 0.5 --rho 0.1 --against dmmse
      iclimit plan difference --tau 0.5 --alpha 1 --kappa 0.5 --rho 0.1 --against tau=2 \
          --significance 3 -o power.png --runs runs.csv
      iclimit plan transition --tau 4 --alpha 2 --kappa 0.25:4:6:log --rho 0.1 --max-cost 60 \
          --dim 24,32
      iclimit plan forecast --tau 2 --alpha 0.5,1,2 --kappa 1 --rho 0.2 --ridge 0.1 \
          --free rho,tau --effect 0.2 --dim 24
    """
    from iclimit.validation import plan_runs

    gap = options.question == "difference" and options.quantity == "gap"
    if options.question in AGAINST and options.against is None and not gap:
        example = AGAINST[options.question]
        raise ValueError(
            f"--against is needed for {options.question}, for example --against {example}"
        )
    # ``run`` of the options is the verb; of the function it is a point, which has no flag.
    given = {
        name: value
        for name, value in arguments(options, plan_runs).items()
        if value is not None and name != "run"
    }
    if "dim" in given:
        given["dim"] = [int(size) if size.is_integer() else size for size in given["dim"].tolist()]
    result = plan_runs(**given)
    output(options, result)
    if not result.proposals:
        return 1
    if options.runs is not None:
        result.write_runs(options.runs)
    return 0
