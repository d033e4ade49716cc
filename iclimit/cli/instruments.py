"""Verbs that judge what is yours: tables of runs, training curves and answers of a model."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from iclimit.cli.claims import add_folder, check_folder
from iclimit.cli.diagrams import SPECTRA, add_spectra
from iclimit.cli.flags import Settings, add_flag, add_flags, arguments
from iclimit.cli.output import add_format, add_output, add_style, output, print_result, stated
from iclimit.cli.values import (
    POWERS,
    Merge,
    parse_columns,
    parse_correlation,
    parse_names,
    parse_positive,
    parse_values,
)
from iclimit.cli.verbs import OneLineParser, verb
from iclimit.tables import rows_text

if TYPE_CHECKING:
    import numpy as np

    from iclimit.problem import Problem
    from iclimit.statement import Derived
    from iclimit.validation import CurveCheck, CurveFit, PositionCheck, RunCheck, RunFit
    from iclimit.validation.instruments.models.files import PromptFile

Checked = TypeVar("Checked", "RunCheck", "RunFit", "CurveCheck", "CurveFit", "PositionCheck")

TABLE: Settings = {"flag": "table", "metavar": "FILE", "text": "table of results"}


def _check_flags(parser: OneLineParser) -> None:
    from iclimit.validation.instruments.runs.check import check_runs
    from iclimit.validation.instruments.runs.table import PARAMETER_COLUMNS

    changes: Settings = dict.fromkeys((*SPECTRA, "parameters"))
    changes["convention"] = "units of the table: lu2025, vonoswald2023, ..."
    changes["rounding"] = "how alpha, kappa and tau of the table were rounded to integers"
    add_flags(parser, check_runs, {"table": TABLE} | changes)
    group = parser.add_argument_group("parameters that all rows share")
    written = {"runs": ("int", "runs behind each mean")}
    written["test_context"] = ("int", "examples in a test prompt, if not those of the pretraining")
    written["test_rho"] = ("float", "noise of test prompts, if not that of the pretraining")
    written["estimator"] = ('{"attention", "dmmse", "ridge"}', "whose errors these are")
    written["time"] = ("float", "training time, 2/d times rate times steps; without it to the end")
    written["start_variance"] = ("float", "variance of the entries of Gamma at the start, times d")
    written["steps"] = ("float", "steps of training, with a learning rate, instead of the time")
    written["learning_rate"] = ("float", "rate on the mean squared error, of steps or of SGD")
    written["batch"] = ("int", "fresh prompts in each step of one pass of SGD")
    written["flips"] = ("float", "probability of the other sign of a label, in training and tests")
    written["penalty"] = ("float", "penalty of ridge regression, if not the noise variance")
    written["position"] = ("int", "examples before the labels that errors are of")
    written["first_position"] = ("int", "first position of the loss, 1 for all of a sequence")
    written["normalization"] = ('{"mean", "length"}', "divisor of the context summaries")
    for name in PARAMETER_COLUMNS:
        add_flag(group, name, written.get(name, ("", "")))
    parser.set_defaults(parameters=PARAMETER_COLUMNS)
    add_spectra(parser)
    add_output(parser)


@verb("check", _check_flags)
def check(options: argparse.Namespace) -> int:
    """Check your own results of pretrained linear attention against the theory.

    FILE is a table (.csv, .json, .parquet, .npz). Its columns are dim; context or alpha;
    tasks or kappa; prompts or tau; rho or noise_variance; ridge (0 without it);
    test_context and test_rho, where tests differ from the pretraining; and what was
    measured: icl, the error on fresh tasks; idg, that on the pretraining
    tasks; gap, their difference; or accuracy and idg_accuracy. Labels that are not
    linear have link and flips. Runs that were not trained to the minimiser
    have time, or steps and learning_rate, and those of SGD batch. Runs that were
    trained on all positions of sequences have position (examples before the label)
    and first_position, and prompts counts sequences. A row is a mean,
    with its standard error (icl_se) or with the standard deviation and the number
    of runs (icl_sd, runs).
    Rows without these are single runs, and those of one setting are averaged.
    Errors of Bayes estimators have a column estimator (dmmse or ridge), and those
    of ridge regression may have its penalty. Other
    columns must be renamed (--columns) or ignored (--ignore).

    Every row is compared with the prediction for its finite sizes: z is the
    deviation in standard errors. All rows are judged together by a chi-square and
    by the distribution of z. If the table contradicts the theory, some eighty
    mistakes of normalisation, counting and reading are tried, factors are fitted,
    and all explanations are listed with their likelihoods. Experiments without a
    theory are simulated for this, up to d = 32, if nothing else agrees well.

    The exit status is 0 if the table agrees with the theory, 1 if it contradicts
    it, 2 if it cannot be used.

    Examples
    --------
      iclimit check runs.csv
      iclimit check runs.csv --columns icl=test_loss,dim=d --rho 0.01 --ignore seed
      iclimit check runs.json --convention vonoswald2023 --task-sets one -o check.png
      iclimit check runs.csv --rounding nearest --format json
    """
    from iclimit.validation.instruments.runs.check import check_runs

    result = _check(options, check_runs, _reading(options))
    if not result.judged:
        raise ValueError("no row has a standard error and a finite prediction: nothing is judged")
    return 0 if result.holds else 1


def _reading(options: argparse.Namespace) -> Settings:
    """Arguments of `check_runs`."""
    from iclimit.validation.instruments.runs.check import check_runs

    given = arguments(options, check_runs)
    shared = {name: getattr(options, name) for name in options.parameters}
    given["parameters"] = {name: value for name, value in shared.items() if value is not None}
    return given


def _free(
    text: str, default: str, more: Callable[[OneLineParser], None]
) -> Callable[[OneLineParser], None]:
    """Function that adds --free, whose help names what may be fitted, and more flags."""

    def add_flags(parser: OneLineParser) -> None:
        names: Settings = {"type": parse_names, "metavar": "LIST", "default": (default,)}
        names["help"] = f"what is fitted: {text} (default {default})"
        parser.add_argument("--free", **names)
        more(parser)

    return add_flags


# Parameters that may be fitted to tables, and to curves.
OF_RUNS = "tau, alpha, kappa, rho, ridge, time, start_variance, factor, offset, task_norm"
OF_CURVES = "init_scale, learning_rate, eigenvalues, trace, context, noise_variance, factor"


@verb("fit", _free(OF_RUNS, "rho", _check_flags))
def fit(options: argparse.Namespace) -> int:
    """Fit effective parameters to your own results of pretrained linear attention.

    FILE is a table as of iclimit check; rows without error bars are single runs.
    The parameters of --free are changed until the theory at finite size fits best,
    by least squares on the logarithms of the errors. A parameter for which all rows
    have the same value gets another one; otherwise the values of the rows are
    multiplied by a factor. A free parameter needs no column. factor multiplies all
    errors, offset is added to them, task_norm is the squared norm of the tasks
    over d.

    Intervals are those of the profile of chi-square. Parameters that the table does
    not tell apart are named, with the combination that it does fix.

    The exit status is 0 if the theory explains the table at the fitted values, 1 if
    it does not at any, 2 if the table cannot be used.

    Examples
    --------
      iclimit fit runs.csv
      iclimit fit runs.csv --free rho,tau --columns icl=test_loss -o fit.png
      iclimit fit runs.csv --free factor,offset --rho 0.1 --ignore seed --format json
    """
    from iclimit.validation import fit_runs

    result = _check(options, fit_runs, _reading(options) | {"free": options.free})
    return 0 if result.holds else 1


def _check(
    options: argparse.Namespace, function: Callable[..., Checked], given: Settings
) -> Checked:
    """Check, print the result, and write it to the file of -o."""
    try:
        result = function(**given)
    except (OSError, ArithmeticError) as error:  # the exit status 1 means a contradiction
        raise ValueError(str(error)) from None
    output(options, result)
    return result


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


def _add_covariance(parser: argparse.ArgumentParser) -> None:
    """Add --dim, --white and --eigenvalues, of which one gives the argument eigenvalues."""
    group = parser.add_mutually_exclusive_group(required=True)
    text = "dimension; eigenvalues in the proportions D, ..., 2, 1 with the sum 1"
    for flag, parse, metavar, meaning in (
        ("--dim", parse_falling, "D", text),
        ("--white", parse_white, "D", "dimension; all eigenvalues 1/D instead"),
        ("--eigenvalues", parse_eigenvalues, "LIST", "eigenvalues a,b,c instead"),
    ):
        group.add_argument(flag, type=parse, dest="eigenvalues", metavar=metavar, help=meaning)


def _check_curve_flags(parser: OneLineParser) -> None:
    from iclimit.validation import check_curve

    _add_covariance(parser)
    text = (
        "initial weights (.npz with value and key_query, or value, key and query), for several "
        "curves along a first axis; without them their random law is used"
    )
    initial: Settings = {"type": Path, "metavar": "FILE", "text": text}
    changes: Settings = {"eigenvalues": None, "initial": initial}
    changes["query_noise"] = "recorded losses are of query labels without noise"
    text = "task of all other sequences, in the eigenbasis of the covariance"
    changes["shared_task"] = {"type": parse_values, "metavar": "LIST", "text": text}
    add_flags(parser, check_curve, {"table": TABLE} | changes)
    add_output(parser)


@verb("check-curve", _check_curve_flags)
def check_training_curve(options: argparse.Namespace) -> int:
    r"""Check your own training curves against the theory of training dynamics.

    FILE is a table (.csv, .json, .parquet, .npz) with a column step, of gradient
    descent, or time, of its flow, and a column loss; several runs have columns loss_0,
    loss_1, ... or a column run. Other columns must be named (--columns) or ignored
    (--ignore).

    The curves are searched for plateaus, for the step at which half of each drop has
    happened, for the duration of each drop from a quarter to three quarters, and for
    the final loss. Each is compared with the theory of one linear attention layer
    that learns from small random weights (arXiv:2501.16265); z is the deviation in
    standard errors. The step of half a drop depends on the initial weights and is
    compared with its distribution over them; durations do not depend on them. If the
    curves contradict the theory, mistakes of learning rate, normalisation, loss,
    covariance and initial weights are tried, and those that would explain everything
    are named; the table is judged as it is.

    The theory is that of plain gradient descent with small steps. With --optimizer
    other (momentum, Adam, a changing learning rate, minibatches) only plateaus and
    the losses at both ends are compared. For mixtures of random tasks and a shared
    one the theory has the first growth of the weights and the final loss.

    The exit status is 0 if the curves agree with the theory, 1 if they contradict
    it, 2 if they cannot be used.

    Examples
    --------
      iclimit check-curve curve.csv --white 5 --context 20 --heads 8 --init-scale 1e-3 \
          --learning-rate 0.01
      iclimit check-curve runs.csv --model separate --eigenvalues 0.5,0.3,0.2 --context 20 \
          --heads 5 --init-scale 1e-2 --learning-rate 0.02 --columns run=seed -o check.png
      iclimit check-curve curve.json --dim 4 --context 31 --heads 8 --init-scale 1e-6 \
          --learning-rate 0.001 --normalization sum --training-set 5000 --standardize
    """
    from iclimit.validation import check_curve

    result = _check(options, check_curve, arguments(options, check_curve))
    if result.verdict.kind == "unusable":
        raise ValueError("nothing but the initial loss can be compared")
    return 0 if result.holds else 1


@verb("fit-curve", _free(OF_CURVES, "init_scale", _check_curve_flags))
def fit_training_curve(options: argparse.Namespace) -> int:
    r"""Fit initial scale, learning rate or law of the data to your own training curves.

    FILE and the other options are those of iclimit check-curve. The parameters of
    --free begin at what is stated and are changed until plateaus, drops, durations
    and the losses at both ends fit best. eigenvalues are fitted each by itself,
    trace is their sum, context is the number of pairs that a prompt is worth, factor
    multiplies the recorded losses.

    Intervals are those of the profile of chi-square. Parameters that the curves do
    not tell apart are named, with the combination that they do fix.

    The exit status is 0 if the theory explains the curves at the fitted values, 1 if
    it does not at any, 2 if they cannot be used.

    Examples
    --------
      iclimit fit-curve curve.csv --white 5 --context 20 --heads 8 --init-scale 1e-3 \
          --learning-rate 0.01
      iclimit fit-curve curve.csv --free learning_rate --white 5 --context 20 --heads 8 \
          --init-scale 1e-3 --learning-rate 0.01 -o fit.png
    """
    from iclimit.validation import check_curve, fit_curve

    result = _check(options, fit_curve, arguments(options, check_curve) | {"free": options.free})
    return 0 if result.holds else 1


def _check_positions_flags(parser: OneLineParser) -> None:
    from iclimit.validation import check_positions

    add_problem(parser, tasks="pretraining tasks (.npy, .csv)")
    text = "names of known algorithms in FILE, as in least_squares=solver; may be repeated"
    names: Settings = {"type": parse_columns, "action": Merge, "metavar": "LIST", "text": text}
    changes: Settings = {"problem": None, "baselines": names | {"default": None}}
    changes["test_prompts"] = "prompts behind each mean, for standard deviations"
    changes["query_noise"] = "errors are of query labels without noise"
    add_flags(parser, check_positions, {"table": TABLE} | changes)
    add_output(parser)


@verb("check-positions", _check_positions_flags)
def check_errors_by_position(options: argparse.Namespace) -> int:
    r"""Check your own errors against the number of examples with the theory.

    FILE is metrics.json of the code of Garg et al., or a table (.csv, .json, .parquet,
    .npz) with the columns examples, the number of examples before a position; error,
    the mean squared error there; error_se, its standard error, or error_sd, the
    standard deviation over prompts; and model, whose errors these are.

    Known baselines come first: averaging, least squares, ridge regression and others
    have exact errors after any number of examples, so they say whether prompts, units
    and positions are as stated. If they contradict the theory, other meanings of the
    numbers are tried, such as errors over the dimension. Then the model is compared
    with the least possible error, that of Bayes' estimate, and with all algorithms.

    The exit status is 0 if the known baselines agree and no model is better than
    possible, 1 if not, 2 if the table cannot be used.

    Examples
    --------
      iclimit check-positions metrics.json --dim 20 --context 40
      iclimit check-positions table.csv --dim 5 --context 10 --noise-variance 0.25 \
          --baselines averaging=mine --columns error=mse,error_se=sem -o check.png
    """
    from iclimit.validation import check_positions

    given = arguments(options, check_positions) | {"problem": parse_problem(options)}
    return 0 if _check(options, check_positions, given).holds else 1


def _prompts_flags(parser: OneLineParser) -> None:
    add_problem(parser, tasks="pretraining tasks (.npy, .csv), to ask about them too")
    text = "prompts with fresh tasks; the other sections have fewer"
    add_flag(parser, "test_prompts", text=text, default=5000)
    add_flag(parser, "rng")
    text = "round to single precision, which halves the file"
    parser.add_argument("--float32", action="store_true", help=text)
    add_output(parser, (".npz",), "file of the prompts (.npz)", formats=(), required=True)


# Arguments of a problem that no flag gives: spectra stand for covariances.
WITHOUT_FLAG = (
    *("input_covariance", "task_covariance", "mixing"),
    *("prompts", "fresh_fraction", "shared_task"),
)


def add_problem(parser: argparse.ArgumentParser, *, tasks: str) -> None:
    """Add the flags that `parse_problem` reads; ``tasks`` says what a file of tasks is for."""
    from iclimit.problem import Problem

    changes: Settings = dict.fromkeys(WITHOUT_FLAG)
    changes["tasks"] = {"type": Path, "metavar": "FILE", "text": tasks, "default": None}
    changes["scale"] = (
        "factor of the input coordinates (default 1: Gaussian ones then have variance 1; with "
        "--units that of the paper)"
    )
    changes["noise_law"] = {"metavar": "LAW"}
    changes["correlation"] = {
        "type": parse_correlation,
        "text": "correlation of the inputs of neighbouring pairs, or a list 1,a,b,... of those at "
        "distances 0, 1, 2, ... (default 0)",
    }
    add_flags(parser, Problem, changes)
    text = "inputs and tasks as in a paper: lu2025, vonoswald2023, blog2024, ..."
    add_flag(parser, "units", text=text, metavar="NAME")
    text = "covariance of the inputs: a SPEC of mean 1 or of a file, see iclimit curve --help"
    add_flag(parser, "input_spectrum", text=text)
    add_flag(parser, "task_spectrum", text="the same for tasks")


def stated_covariances(options: argparse.Namespace) -> dict[str, Derived]:
    """Eigenvalues of the covariances that spectra describe, called by their descriptions."""
    from iclimit.asymptotics.pretraining.structure import parse_structure

    spectra = {name: getattr(options, name) for name in ("input_spectrum", "task_spectrum")}
    structure = parse_structure(**spectra)
    if structure is None:
        return {}
    covariances = structure.stated_covariances(options.dim)
    return {
        name: values
        for name, values in covariances.items()
        if spectra[name.replace("covariance", "spectrum")]
    }


def parse_problem(options: argparse.Namespace) -> Problem:
    """Problem that the options describe."""
    from iclimit import problem
    from iclimit.validation.instruments.models.files import read_tasks

    given = arguments(options, problem.Problem)
    defaults = {field.name: field.default for field in fields(problem.Problem)} | {"tasks": None}
    settings = {name: value for name, value in given.items() if value != defaults[name]}
    for name, covariance in stated_covariances(options).items():
        settings[name] = covariance.value
    if options.tasks is not None:
        settings["tasks"] = read_tasks(options.tasks)
    if options.units is not None:
        return problem.Problem.of_paper(options.units, **settings)
    return problem.parse_problem(None, **settings)


@verb("prompts", _prompts_flags)
def prompts(options: argparse.Namespace) -> None:
    r"""Write prompts for a model that runs elsewhere.

    Write prompts for a model that runs elsewhere, such as in PyTorch or in JAX. The
    model answers each prompt with one number, and iclimit probe judges the answers.

    The file has the arrays inputs (n, context, dim), labels (n, context) and
    query (n, dim). Save the answers as an array predictions (n,) in an .npz file,
    or as a column prediction of a table (.csv, .parquet, .json).

    Prompts come in sections: with fresh tasks, with pretraining tasks, and with the
    order, labels, scale or noise of the examples changed. Inputs are scale times
    coordinates of the law; with --units they are as in a paper. A .csv or .npy file
    of --tasks has one task in each row.

    Examples
    --------
      iclimit prompts --dim 20 --context 40 --noise-variance 0.25 -o prompts.npz
      iclimit prompts --dim 10 --context 10 --units vonoswald2023 --float32 -o prompts.npz
      iclimit prompts --dim 8 --context 16 --tasks tasks.npy --test-prompts 2000 -o prompts.npz
      iclimit prompts --dim 20 --context 20 --noise-law uniform:5 \
          --input-spectrum exponential:3 -o prompts.npz
      iclimit prompts --dim 10 --context 20 --link sign --flips 0.1 -o classes.npz
    """
    from iclimit.validation.instruments.models.files import PromptFile, write_prompts

    law = parse_problem(options)
    written = PromptFile(law, options.test_prompts, options.rng, options.float32)
    _check_room(options.output, options.test_prompts, written)
    write_prompts(options.output, written)
    sections = [
        {"section": section.name, "prompts": len(section), "question": section.description}
        for section in written.sections
    ]
    print(rows_text(sections, "text"), end="")
    print(
        f"{len(written)} prompts in {options.output} ({options.output.stat().st_size / 1e6:.3g} "
        "MB). When the model has answered them: "
        f"iclimit probe {options.output} PREDICTIONS",
        file=sys.stderr,
    )


def _check_room(path: Path, test_prompts: int, written: PromptFile) -> None:
    """Refuse a file that the disk has no room for."""
    law = written.problem
    size = (law.context + 1) * (law.dim + 1) * (4 if written.float32 else 8) * len(written)
    free = shutil.disk_usage(path.resolve().parent).free
    if size > free:
        raise ValueError(
            f"--test-prompts must be so small that the file fits on the disk, got {test_prompts}: "
            f"it takes {size / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
        )


def _probe_flags(parser: OneLineParser) -> None:
    from iclimit.validation.instruments.models.probe import judge_predictions

    parser.add_argument("prompts", type=Path, metavar="PROMPTS", help="what the model was asked")
    text = "what it answered"
    parser.add_argument("predictions", type=Path, nargs="?", metavar="PREDICTIONS", help=text)
    text = "a trained network (.npz) that is asked the prompts here, instead of PREDICTIONS"
    parser.add_argument("--model", type=Path, metavar="FILE", help=text)
    add_folder(parser, "folder for report.html, report.json and the figures")
    changes: Settings = dict.fromkeys(("prompts", "predictions", "positions"))
    add_flags(parser, judge_predictions, changes)
    add_style(parser)
    add_format(parser)


@verb("probe", _probe_flags)
def probe(options: argparse.Namespace) -> None:
    """Judge the answers of a model: which algorithm is it?

    Judge the answers of a model to the prompts that iclimit prompts wrote. The
    first line is the verdict. The table has the error of the model among those of
    known algorithms on the same prompts, and how far their answers are from those
    of the model. -o writes a folder with report.html, report.json and the figures.

    PROMPTS is the .npz file of iclimit prompts.
    PREDICTIONS has an array predictions (.npz), an array (.npy), or a column
    prediction (.csv, .parquet, .json), in the order of the prompts. Beside the
    predictions, an .npz file may have an array positions (m, context + 1): answers
    at every position of the first m prompts, the last one being the query.

    Instead of PREDICTIONS, --model takes a network that iclimit train has written.

    The exit status is 0 when there is a report, whatever the verdict, and 2 if a
    file cannot be used.

    Examples
    --------
      iclimit prompts --dim 20 --context 40 --noise-variance 0.25 -o prompts.npz
      iclimit probe prompts.npz predictions.npz
      iclimit probe prompts.npz predictions.npz -o probe-report --format json
      iclimit probe prompts.npz predictions.csv --baselines one_step,ridge --tolerance 0.05
      iclimit probe prompts.npz --model head.npz
    """
    from iclimit.validation.instruments.models.files import read_prompts
    from iclimit.validation.instruments.models.predictions import (
        network_predictions,
        read_positions,
        read_predictions,
    )
    from iclimit.validation.instruments.models.probe import judge_predictions

    if (options.predictions is None) == (options.model is None):
        raise ValueError("PREDICTIONS or --model must be given, and not both")
    if options.out is not None:
        check_folder(options.out)
    positions = None
    try:
        prompts = read_prompts(options.prompts)
        if options.model is not None:
            predictions = network_predictions(options.model, prompts)
        else:
            predictions = read_predictions(options.predictions, prompts)
            positions = read_positions(options.predictions, prompts, predictions)
    except FileNotFoundError as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        raise ValueError(f"cannot read a file: {error}") from error
    answers = {"prompts": prompts, "predictions": predictions, "positions": positions}
    report = judge_predictions(**arguments(options, judge_predictions) | answers)
    print_result(report, options.format)
    if options.out is not None:
        report.write(options.out, style=options.style, parameters=stated(options))
        print(f"report: {options.out / 'report.html'}", file=sys.stderr)
