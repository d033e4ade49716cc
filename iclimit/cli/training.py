"""The verbs ``train``: their flags describe a network, the law of its prompts and a training."""

import argparse
import hashlib
import inspect
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from iclimit.cli.execution import add_recording, run_training
from iclimit.cli.flags import Settings, add_flag, add_flags, arguments
from iclimit.cli.instruments import add_problem, parse_problem, stated_covariances
from iclimit.cli.output import add_output, output, print_result
from iclimit.cli.theory import add_covariance
from iclimit.cli.verbs import GROUPS, OneLineParser, verb
from iclimit.tables import PICTURES, json_text, rows_text

GROUPS["train"] = ("MODEL", "Train a finite-size model and measure it on fresh prompts.")


def _kind(name: str) -> tuple[Any, Settings]:
    """Class of a network, and its defaults where they are not those of `train_network`."""
    from iclimit.simulate import networks, softmax

    kinds: dict[str, tuple[Any, Settings]] = {
        "attention": (
            networks.LinearAttention,
            {"init_scale": 0.03, "learning_rate": 0.02, "batch": 2048},
        ),
        "softmax": (softmax.MergedHeads, {"init_scale": 0.2, **softmax.trained_heads.TRAINING}),
        "network": (networks.AttentionNetwork, {"batch": 512}),
        "lstm": (networks.LstmNetwork, {"batch": 512}),
    }
    return kinds[name]


def _parse_kinds(text: str) -> str | tuple[str, ...]:
    return tuple(text.split(",")) if "," in text else text


def _network_flags(kind: str, parser: OneLineParser) -> None:
    from iclimit.simulate.networks import train_network

    network, own = _kind(kind)
    defaults: Settings = {name: {"default": value} for name, value in own.items()}
    add_problem(parser, tasks="pretraining tasks (.npy, .csv) to train on, instead of fresh ones")
    kinds = {"type": _parse_kinds, "choices": None, "metavar": "KIND,..."}
    known = inspect.signature(network).parameters
    changes = {name: value for name, value in defaults.items() if name in known}
    add_flags(parser, network, **changes | {"dim": None, "attention": kinds})
    batch = f"prompts in a step (default {own['batch']}), or all prompts of L-BFGS"
    more: Settings = {name: value for name, value in defaults.items() if name not in known}
    more |= dict.fromkeys(("network", "problem", "snapshots"))
    add_flags(parser, train_network, **more | {"batch": batch})
    add_flag(parser, "repeats", text="number of independent trainings", default=1)
    add_recording(parser)
    add_output(parser, (".npz",), "write the network of least loss (.npz)")


@verb("train attention", partial(_network_flags, "attention"))
def train_attention(options: argparse.Namespace) -> int:
    """Stack of linear attention layers, by Adam or L-BFGS.

    Train layers of linear attention on regression in context, on the mean squared
    error of the query's label, and measure them on fresh prompts of the same law.
    The columns are those of iclimit train softmax.

    Examples
    --------
      iclimit train attention --dim 4 --context 8
      iclimit train attention --layers 3 --dim 4 --context 8 --repeats 4 -o stack.npz
    """
    return train_and_print(options, "attention")


@verb("train softmax", partial(_network_flags, "softmax"))
def train_softmax(options: argparse.Namespace) -> int:
    """One layer of softmax heads, beside the best of the theory.

    Train one layer of softmax heads in merged form, one matrix for key and query
    and one vector for the value of a head, on regression in context, and measure
    it on fresh prompts of the same law.

    null_loss is the loss of predicting zero. best_loss is the least loss that one
    head can have, or two heads with opposite weights, on isotropic Gaussian inputs;
    where no theory gives it the column is left out. Trainings from different seeds
    may end at different losses. A run has failed if its loss is above best_loss by
    more than a tenth of the difference between null_loss and best_loss. Without
    best_loss the best run takes its place, unless that has learned less than a
    tenth of null_loss: then all runs have failed. The mean loss is over the others.

    -o writes the network of least loss. iclimit probe tells which algorithm it is.

    Examples
    --------
      iclimit train softmax --dim 10 --context 10
      iclimit train softmax --dim 5 --context 10 --heads 2 --repeats 4
      iclimit train softmax --dim 5 --context 20 --noise-variance 0.25 -o head.npz
    """
    return train_and_print(options, "softmax")


@verb("train network", partial(_network_flags, "network"))
def train_attention_network(options: argparse.Namespace) -> int:
    r"""Network of attention layers, if wanted with perceptrons, layer norm and positions.

    Train a network on regression in context, on the mean squared error of the
    query's label, and measure it on fresh prompts of the same law. The columns are
    those of iclimit train softmax; best_loss is known for one layer of attention
    on tokens as they are.

    Examples
    --------
      iclimit train network --attention linear --dim 5 --context 10 \
          --learning-rate 0.01 -o layer.npz
      iclimit train network --layers 2 --width 32 --mlp 64 --layer-norm \
          --dim 5 --context 10 --steps 20000 --repeats 4
    """
    return train_and_print(options, "network")


@verb("train lstm", partial(_network_flags, "lstm"))
def train_lstm(options: argparse.Namespace) -> int:
    r"""Recurrent network, by Adam or L-BFGS.

    Train an LSTM on regression in context, on the mean squared error of the
    query's label, and measure it on fresh prompts of the same law. The columns are
    those of iclimit train softmax.

    Examples
    --------
      iclimit train lstm --hidden 32 --layers 2 --bidirectional --dim 3 --context 8 \
          --checkpoint lstm.npz
    """
    return train_and_print(options, "lstm")


def train_and_print(options: argparse.Namespace, kind: str) -> int:
    """Train what is not on record, write the best network and print the losses."""
    from iclimit.checks import check_arguments
    from iclimit.simulate.networks import TrainedRepeats, save_model, train_network, train_repeats
    from iclimit.validation import best_loss

    check_arguments(repeats=options.repeats)
    cls, own = _kind(kind)
    network = cls(**arguments(options, cls))
    problem = parse_problem(options)
    settings = arguments(options, train_network)
    if options.optimizer == "adam" and options.batch is None:
        settings["batch"] = own["batch"]
    law = problem.describe() | stated_covariances(options)
    what = {"kind": kind, **law, **asdict(network)}
    trained = TrainedRepeats((), best_loss=best_loss(network, problem))
    for repeat in range(options.repeats):
        own_settings = settings | {"repeats": 1, "first_repeat": repeat}
        train = partial(train_repeats, network, problem)
        run = run_training(options, train_repeats, train, own_settings, **what)
        trained = trained.concatenate(run)
        if trained.interrupted:
            break
    if trained.best is None:
        raise ArithmeticError("every training diverged: try a smaller learning_rate or init_scale")
    if options.output:
        save_model(trained.best, options.output)
    if options.format == "text":
        print(rows_text(trained.rows()), end="")
        if len(trained.runs) > 1:
            print(f"\n{trained}")
    else:
        print_result(trained, options.format)
    if trained.interrupted:
        print("interrupted: the last run was measured where it was", file=sys.stderr)
        return 130
    if all(trained.failed):
        print("every run failed: none has learned what can be learned", file=sys.stderr)
        return 1
    return 0


def _descent_flags(parser: OneLineParser) -> None:
    from iclimit.simulate.dynamics import simulate_gradient_descent

    add_covariance(parser)
    add_flag(parser, "context", default=31)
    add_flag(parser, "noise_variance", default=0.0)
    text = "fraction of sequences with tasks of their own; all others have the task (1, ..., 1)"
    add_flag(parser, "fresh_fraction", text=text, default=1.0)
    add_flags(parser, simulate_gradient_descent, problem=None, standardize=None)
    add_recording(parser)
    add_output(parser)


@verb("train descent", _descent_flags)
def train_descent(options: argparse.Namespace) -> int:
    r"""One linear attention layer by gradient descent, to see its dynamics.

    Train one linear attention layer by gradient descent on the mean squared
    error, from small random weights, as in arXiv:2501.16265. A step on the whole
    training set costs the same for any number of sequences. -o writes the curves.

    With merged and cubic the loss drops once, from that of zero weights to
    limit_loss. With separate it drops once for each direction, and there is a row
    for each drop: learned is the number of directions learned after it.
    half_drop_step is the first recorded step with a loss below the middle of the
    drop, as it is for an infinite training set; half_drop_time is its time in the
    units of iclimit dynamics, and predicted_time what iclimit dynamics predicts
    from the initial weights, dashed in a picture. Without a prediction, as for
    large initial weights, the column is left out.

    Examples
    --------
      iclimit train descent --model merged --heads 8 --init-scale 1e-6 --normalization sum
      iclimit train descent --model separate --heads 5 --init-scale 1e-2 --learning-rate 0.02 \
          --steps 10000 --training-set 80000 --normalization sum -o curves.png
      iclimit train descent --model separate --dim 8 --heads 9 --rank 2 --init-scale 5e-3 \
          --learning-rate 0.02 --steps 20000 --training-set 80000 --normalization sum --repeats 4
      iclimit train descent --white 4 --fresh-fraction 0.4 --init-scale 1e-6 \
          --learning-rate 0.0005 --steps 4000 --normalization sum --tests
    """
    import numpy as np

    from iclimit.problem import Problem
    from iclimit.simulate.dynamics import UnstableTraining, simulate_gradient_descent
    from iclimit.validation.instruments.curves.drops import TrainingDrops

    names = ("context", "noise_variance", "fresh_fraction")
    law = {name: getattr(options, name) for name in names}
    dim = len(options.eigenvalues)
    shared = np.ones(dim) if options.fresh_fraction < 1 else None
    problem = Problem(
        dim, **law, input_covariance=options.eigenvalues, scale=1, shared_task=shared
    )
    settings = arguments(options, simulate_gradient_descent)
    settings["record"] = min(options.record, options.steps)
    train = partial(simulate_gradient_descent, problem)
    law["eigenvalues"] = options.eigenvalues
    unstable = None
    try:
        curves = run_training(options, simulate_gradient_descent, train, settings, **law)
    except UnstableTraining as error:
        unstable = error
        curves = error.curves
    if len(curves.recorded_at):
        drops = TrainingDrops.of(curves, options.rng)
        if options.output is not None:
            output(options, drops if options.output.suffix in PICTURES else curves)
        print_result(drops, options.format)
    if unstable is not None:
        raise unstable
    if curves.interrupted:
        print("interrupted: the curves end where the training did", file=sys.stderr)
        return 130
    return 0


def _transformer_flags(parser: OneLineParser) -> None:
    from iclimit.simulate.gdpp import train_linear_transformer

    add_flag(parser, "noise_law", metavar="LAW", required=True)
    for name, default in {"context": 20, "dim": 10, "held_out": 100_000}.items():
        add_flag(parser, name, default=default)
    initial: Settings = {
        "type": Path,
        "nargs": "+",
        "action": "extend",
        "default": [],
        "metavar": "FILE",
        "text": "start from these weights, too (.npz, as -o writes them): they may have fewer "
        "layers and a narrower kind",
    }
    changes: Settings = {"problem": None, "rare": None, "initial": initial}
    add_flags(parser, train_linear_transformer, **changes)
    add_recording(parser)
    add_output(parser, (".npz",), "write the weights (.npz)")


@verb("train linear-transformer", _transformer_flags)
def train_transformer(options: argparse.Namespace) -> int:
    r"""Linear transformer on regression with random noise levels.

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
      iclimit train linear-transformer --kind axial --layers 3 --noise-law uniform:5 \
          --initial two.npz
    """
    import numpy as np

    from iclimit.problem import Problem
    from iclimit.results import Estimate
    from iclimit.simulate.gdpp import held_out_losses, train_linear_transformer
    from iclimit.simulate.gdpp.transformer_training import TrainedTransformer
    from iclimit.simulate.networks import load_model, save_model

    law = {name: getattr(options, name) for name in ("dim", "context", "noise_law")}
    problem = Problem(**law, scale=1)
    settings = arguments(options, train_linear_transformer)
    try:
        settings["initial"] = [load_model(path) for path in options.initial]
    except OSError as error:
        raise ValueError(f"cannot read a file: {error}") from error

    def train_and_measure(**settings: Any) -> tuple[TrainedTransformer, Estimate]:
        run = train_linear_transformer(problem, **settings)
        fresh = {"contexts": options.held_out, "backend": options.backend}
        seed = np.random.SeedSequence([options.rng, 1])
        return run, held_out_losses(run.model, problem, rng=seed, **fresh).loss

    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in options.initial]
    what = law | {"noise_law": str(problem.noise_law), "held_out": options.held_out}
    run, held_out = run_training(
        options,
        train_linear_transformer,
        train_and_measure,
        settings,
        complete=lambda results: not results[0].interrupted,
        initial=digests,
        **what,
    )
    if options.output:
        save_model(run.model, options.output)
    row = {
        **{"kind": options.kind, "layers": options.layers, "noise_law": what["noise_law"]},
        "training_loss": run.loss,
        "held_out_loss": held_out.mean,
        "standard_error": held_out.standard_error,
        "starts_at_best": int((run.start_losses <= 1.01 * run.start_losses.min()).sum()),
        "steps": run.steps,
        "converged": run.converged,
    }
    omegas: list[dict[str, Any]] = []
    if options.kind in ("diag", "gd++"):
        names = ("layer", "omega_xx", "omega_xy", "omega_yx", "omega_yy")
        for layer, matrix in enumerate(run.model.omegas, start=1):
            omegas.append(dict(zip(names, (layer, *matrix.ravel().tolist()), strict=True)))
    if options.format == "json":
        sys.stdout.write(json_text({**row, "omegas": omegas}))
    else:
        print(rows_text([row], options.format), end="")
    if omegas and options.format == "text":
        print(f"\n{rows_text(omegas)}", end="")
    if run.interrupted:
        print("interrupted: the best so far was measured", file=sys.stderr)
        return 130
    return 0
