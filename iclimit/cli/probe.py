"""Judge the answers of a model: which algorithm is it?

Judge the answers of a model to the prompts that iclimit prompts wrote. The
first line is the verdict. The table has the error of the model between those
of algorithms, asked the same prompts, and how near their answers are to its
own. With -o a folder gets report.html, report.json and the figures.

PROMPTS is the .npz file of iclimit prompts, or the .json file beside a table.
PREDICTIONS has an array predictions (.npz), an array (.npy), or a column
prediction (.csv, .parquet, .json), in the order of the prompts. Beside the
predictions, an .npz file may have an array positions (m, context + 1): answers
at every position of the first m prompts, the last one being the query.

In place of PREDICTIONS --model names a network that iclimit train softmax or
train network has written. It is asked the prompts here.

The exit status is 0 when there is a report, whatever the verdict, and 2 if a
file cannot be used.

Examples
--------
  iclimit prompts --dim 20 --context 40 --noise-variance 0.25 -o prompts.npz
  iclimit probe prompts.npz predictions.npz
  iclimit probe prompts.npz predictions.npz -o probe-report --format json
  iclimit probe prompts.json predictions.csv --baselines one_step,ridge --tolerance 0.05
  iclimit probe prompts.npz --model head.npz
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_parameter, add_verb
from iclimit.cli.output import add_format, add_style, print_json, stated, write_rows
from iclimit.cli.validate import check_folder

if TYPE_CHECKING:
    import numpy as np

    from iclimit.validation.yours.models.files import PromptFile


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "probe", run, __doc__)
    parser.add_argument("prompts", type=Path, metavar="PROMPTS", help="what the model was asked")
    text = "what it answered"
    parser.add_argument("predictions", type=Path, nargs="?", metavar="PREDICTIONS", help=text)
    text = "a trained network (.npz), which is asked instead"
    parser.add_argument("--model", type=Path, metavar="FILE", help=text)
    text = "folder for report.html, report.json and the figures"
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help=text)
    add_style(parser)
    text = "algorithms to compare with (default: all)"
    parser.add_argument("--baselines", type=_names, metavar="NAME,...", help=text)
    text = "train linear attention on so many prompts, to be one of the algorithms"
    # The argument before is the file.
    add_parameter(parser, "prompts", flag="--trained-on", dest="trained_on", text=text)
    text = "ridge of this training"
    add_parameter(parser, "ridge", 0.0, text=text)
    text = "share of the answers that an algorithm may leave unexplained"
    add_parameter(parser, "tolerance", 0.01, text=text)
    add_format(parser)


def _names(text: str) -> list[str]:
    return text.split(",")


def _answers(path: Path, prompts: PromptFile) -> np.ndarray:
    """Answers of a trained network to all prompts."""
    import numpy as np

    from iclimit.simulate.networks import load_model
    from iclimit.validation.yours.models.model import Model

    network = load_model(path)
    if network.dim != prompts.problem.dim:
        raise ValueError(
            f"--model must have the dimension of the prompts, {prompts.problem.dim}, got "
            f"{network.dim} in {path}"
        )
    model = Model(network)
    blocks = (model.answer(block, section=section.name) for section, block in prompts.blocks())
    return np.concatenate(list(blocks))


def run(options: argparse.Namespace) -> int:
    """Read, judge, print and write."""
    from iclimit.validation.yours.models.files import read_prompts
    from iclimit.validation.yours.models.predictions import read_positions, read_predictions
    from iclimit.validation.yours.models.probe import judge_predictions

    if (options.predictions is None) == (options.model is None):
        raise ValueError("PREDICTIONS or --model must be given, and not both")
    if options.out is not None:
        check_folder(options.out)
    positions = None
    try:
        prompts = read_prompts(options.prompts)
        if options.model is not None:
            predictions = _answers(options.model, prompts)
        else:
            predictions = read_predictions(options.predictions, prompts)
            positions = read_positions(options.predictions, prompts, predictions)
    except OSError as error:
        raise ValueError(f"cannot read a file: {error}") from error
    report = judge_predictions(
        prompts,
        predictions,
        positions=positions,
        baselines=options.baselines,
        trained_on=options.trained_on,
        ridge=options.ridge,
        tolerance=options.tolerance,
        progress=sys.stderr.isatty(),
    )
    if options.format == "json":
        print_json(report.to_dict())
    elif options.format == "csv":
        write_rows(report.rows(), "csv")
    else:
        print(report)
    if options.out is not None:
        report.write(options.out, style=options.style, parameters=stated(options))
        print(f"report: {options.out / 'report.html'}", file=sys.stderr)
    return 0
