r"""Write prompts for a model that runs elsewhere.

Write prompts for a model that runs elsewhere: in PyTorch, in JAX, in another
language. The model answers each prompt with one number, and iclimit probe
judges the answers.

An .npz file has the arrays inputs (n, context, dim), labels (n, context) and
query (n, dim). A table (.csv, .parquet) has a row for each prompt with the
columns x_1_1, x_1_2, ..., y_1, ..., query_1, ..., and a description beside it
that ends in .json, which iclimit probe takes in its place. Save the answers as
an array predictions (n,) in an .npz file, or as a column prediction.

Prompts come in sections: fresh tasks, pretraining tasks, other orders, labels,
scales and noise. Inputs are scale times coordinates of the law; with --units
they are as in a paper. A .csv or .npy file of --tasks has one task in each row.

Examples
--------
  iclimit prompts --dim 20 --context 40 --noise-variance 0.25 -o prompts.npz
  iclimit prompts --dim 10 --context 10 --units vonoswald2023 --float32 -o prompts.npz
  iclimit prompts --dim 8 --context 16 --tasks tasks.npy --test-prompts 2000 -o prompts.csv
  iclimit prompts --dim 20 --context 20 --noise-law uniform:5 \
      --input-spectrum exponential:3 -o prompts.parquet
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_parameter, add_verb
from iclimit.cli.output import add_output, print_columns

if TYPE_CHECKING:
    import numpy as np

    from iclimit.problem import Problem

LAWS = {"input_law": "gaussian, uniform, rademacher or laplace", "task_law": "gaussian or sphere"}
SPECTRA = {
    "input_spectrum": "covariance of the inputs: SPEC as in iclimit curve, of mean 1 or a file",
    "task_spectrum": "the same for tasks",
}


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "prompts", run, __doc__)
    add_problem(parser, tasks="pretraining tasks (.npy, .csv), to ask about them too")
    text = "prompts with fresh tasks; other sections have a share of them"
    add_parameter(parser, "test_prompts", 20_000, text=text)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="root seed (default 0)")
    text = "round to single precision, which halves the file"
    parser.add_argument("--float32", action="store_true", help=text)
    text = "file of the prompts (.npz, .csv, .parquet)"
    add_output(parser, (".npz", ".csv", ".parquet"), text=text, required=True)


def add_problem(parser: argparse.ArgumentParser, *, tasks: str) -> None:
    """Add the flags that `parse_problem` reads; ``tasks`` says what a file of tasks is for."""
    for name in ("dim", "context"):
        add_parameter(parser, name, required=True)
    add_parameter(parser, "noise_variance", text="variance of the label noise; default 0")
    add_parameter(parser, "noise_law")
    for name, text in LAWS.items():
        metavar, meaning = "LAW", f"law of the {name.split('_')[0]} coordinates: {text}"
        add_parameter(parser, name, text=f"{meaning} (default gaussian)", metavar=metavar)
    for name in ("scale", "task_variance"):
        add_parameter(parser, name)
    text = "inputs and tasks as in a paper: lu2025, vonoswald2023, blog2024, ..."
    parser.add_argument("--units", metavar="NAME", help=text)
    for name, text in SPECTRA.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="SPEC", help=text)
    parser.add_argument("--tasks", type=Path, metavar="FILE", help=tasks)


def run(options: argparse.Namespace) -> int:
    """Draw and write, and say what was written."""
    from iclimit.validation.yours.models.files import PromptFile, write_prompts

    prompts = PromptFile(
        parse_problem(options), options.test_prompts, options.seed, options.float32
    )
    write_prompts(options.output, prompts)
    rows = [[section.name, str(len(section)), section.description] for section in prompts.sections]
    print_columns(["section", "prompts", "question"], rows, cut=True)
    judged = options.output
    if judged.suffix != ".npz":
        judged = judged.with_suffix(".json")
    print(
        f"{len(prompts)} prompts in {options.output}. When the model has answered them: "
        f"iclimit probe {judged} PREDICTIONS",
        file=sys.stderr,
    )
    return 0


def parse_problem(options: argparse.Namespace) -> Problem:
    """Problem that the options describe."""
    from iclimit.asymptotics.pretraining.structure import parse_structure
    from iclimit.checks import given
    from iclimit.problem import Problem
    from iclimit.validation.yours.models.convention_problem import convention_problem

    names = ("noise_variance", "noise_law", *LAWS, "scale", "task_variance")
    settings = given(**{name: getattr(options, name) for name in names})
    size = {"context": options.context, "dim": options.dim}
    spectra = {name: getattr(options, name) for name in SPECTRA}
    if (structure := parse_structure(**spectra)) is not None:
        covariances = structure.covariances(options.dim)
        settings |= {
            covariance: covariances[covariance]
            for name in given(**spectra)
            for covariance in [name.replace("spectrum", "covariance")]
        }
    if options.tasks is not None:
        settings["tasks"] = read_tasks(options.tasks)
    if options.units is not None:
        return convention_problem(options.units, **size, **settings)
    return Problem(**size, **{"scale": 1.0} | settings)


def read_tasks(path: Path) -> np.ndarray:
    """Tasks in the rows of a .npy or .csv file."""
    import numpy as np

    from iclimit.validation.yours.models.files import parse_npy

    if path.suffix not in (".npy", ".csv"):
        raise ValueError(f"--tasks must be a file .npy or .csv, got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"--tasks must be a file, but there is none called {str(path)!r}")
    if path.suffix == ".npy":
        with path.open("rb") as stream:
            return parse_npy(f"--tasks in {path}", stream, path.stat().st_size).whole()
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"--tasks must have a task in each row, got the empty file {str(path)!r}")
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"--tasks must be rows of numbers, got {str(path)!r}: {error}") from error
