"""The verbs ``train``: their flags describe a network, the law of its prompts and a training."""

from __future__ import annotations

import argparse
import hashlib
import inspect
import math
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.execution import add_recording, run_training, settings_of
from iclimit.cli.flags import Settings, add_flag, add_flags, arguments
from iclimit.cli.output import add_output, output, print_result
from iclimit.cli.theory import add_covariance, predict_drops
from iclimit.cli.verbs import GROUPS, OneLineParser, verb
from iclimit.cli.yours import add_problem, parse_problem
from iclimit.tables import json_text, rows_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from iclimit.asymptotics.dynamics.plateaus import PredictedTraining
    from iclimit.simulate.networks import TrainedRepeats
    from iclimit.simulate.training.results import TrainingCurves

GROUPS["train"] = ("MODEL", "Train a finite-size model and measure it on fresh prompts.")


def _kind(name: str) -> tuple[Any, Settings]:
    """Class of a network, and its defaults where they are not those of `train_network`."""
    from iclimit.simulate import networks, softmax

    return {
        "attention": (
            networks.LinearAttention,
            {"init_scale": 0.03, "learning_rate": 0.02, "batch": 2048},
        ),
        "softmax": (softmax.MergedHeads, {"init_scale": 0.2, **softmax.trained_heads.TRAINING}),
        "network": (networks.AttentionNetwork, {"batch": 512}),
        "lstm": (networks.LstmNetwork, {"batch": 512}),
    }[name]


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
    batch = f"prompts per step (default {own['batch']}), or all prompts for lbfgs"
    more: Settings = {name: value for name, value in defaults.items() if name not in known}
    more |= dict.fromkeys(("network", "problem", "snapshots"))
    add_flags(parser, train_network, **more | {"batch": batch})
    add_flag(parser, "repeats", text="independent trainings", default=1)
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

    null_loss is that of predicting zero. best_loss is the least one of one head,
    or of two with opposite weights, for isotropic Gaussian inputs; it is left out
    where no theory knows it. Several seeds end at several losses. A run has failed
    if it misses more than a tenth of what can be learned, by best_loss or, without
    it, by the best run, which itself must have learned a tenth of the null loss.
    The mean loss is that of the others.

    With -o the network of least loss is written. iclimit probe says which
    algorithm it performs.

    Examples
    --------
      iclimit train softmax --dim 10 --context 10
      iclimit train softmax --dim 5 --context 10 --heads 2 --repeats 4
      iclimit train softmax --dim 5 --context 20 --noise-variance 0.25 -o head.npz
    """
    return train_and_print(options, "softmax")


@verb("train network", partial(_network_flags, "network"))
def train_attention_network(options: argparse.Namespace) -> int:
    r"""Network of attention layers, with what published networks have besides.

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


def _check_files(options: argparse.Namespace) -> None:
    """Refuse to write a model where the state of its training is."""
    paths = [each.resolve() for each in (options.output, options.checkpoint) if each]
    if len(paths) > len(set(paths)):
        raise ValueError(f"--output must not be the checkpoint, got {str(options.output)!r}")


def train_and_print(options: argparse.Namespace, kind: str) -> int:
    """Train what is not on record, write the best network and print the losses."""
    from iclimit.checks import check_arguments
    from iclimit.simulate.networks import TrainedRepeats, save_model, train_network
    from iclimit.validation import best_loss

    check_arguments(repeats=options.repeats)
    _check_files(options)
    cls, own = _kind(kind)
    network, problem = cls(**arguments(options, cls)), parse_problem(options)
    settings = settings_of(options, train_network)
    if options.optimizer == "adam" and options.batch is None:
        settings["batch"] = own["batch"]
    settings |= {"kind": kind, **problem.describe(), **asdict(network)}
    trained = TrainedRepeats((), best_loss=best_loss(network, problem))
    for repeat in range(options.repeats):
        cell = settings | {"first_repeat": repeat}
        run = run_training(options, train_once, cell, lambda run: not run.interrupted)
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


def train_once(*, kind: str, first_repeat: int, rng: int, **settings: Any) -> TrainedRepeats:
    """One training with a network and a problem of these numbers."""
    from iclimit.problem import Problem
    from iclimit.simulate.networks import train_repeats

    network, _ = _kind(kind)
    sizes, law = (inspect.signature(each).parameters.keys() for each in (network, Problem))
    return train_repeats(
        network(**{name: each for name, each in settings.items() if name in sizes}),
        Problem(**{name: each for name, each in settings.items() if name in law}),
        repeats=1,
        first_repeat=first_repeat,
        rng=rng,
        **{name: each for name, each in settings.items() if name not in sizes | law},
    )


def _descent_flags(parser: OneLineParser) -> None:
    from iclimit.simulate.dynamics import simulate_gradient_descent

    add_covariance(parser)
    add_flag(parser, "context", default=31)
    add_flag(parser, "noise_variance", default=0.0)
    text = "fraction of sequences with their own tasks; the others share the task (1, ..., 1)"
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

    Merged and cubic have one drop of the loss, from zero weights to the limit;
    separate has one for each direction, in rows by the number of directions then
    learned. half_drop_step is the first recorded step with a loss below the middle
    of the drop, for infinite training sets; half_drop_time is its time in the
    units of iclimit dynamics. predicted_time is what iclimit dynamics predicts for
    the initial weights of the repeat, which a picture shows as dashes; it is left
    out where they are too large for that.

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
    from iclimit.results import Table
    from iclimit.simulate.dynamics import UnstableTraining, simulate_gradient_descent

    settings = settings_of(options, simulate_gradient_descent)
    law = ("eigenvalues", "context", "noise_variance", "fresh_fraction")
    settings |= {name: getattr(options, name) for name in law}
    settings["record"] = min(options.record, options.steps)
    unstable = None
    try:
        curves = run_training(options, train_mixture, settings, lambda run: not run.interrupted)
    except UnstableTraining as error:
        unstable, curves = error, error.curves
    if len(curves.recorded_at):
        predictions = _predictions(options, len(curves.losses))
        if options.output is not None:
            output(options, curves, partial(_draw_curves, options, curves, predictions))
        print_result(Table(_drops(options, curves, predictions)), options.format)
    if unstable is not None:
        raise unstable
    if curves.interrupted:
        print("interrupted: the curves end where the training did", file=sys.stderr)
        return 130
    return 0


def train_mixture(
    *,
    eigenvalues: Any,
    context: int,
    noise_variance: float,
    fresh_fraction: float,
    rng: int,
    backend: str = "numpy",
    **settings: Any,
) -> TrainingCurves:
    """Training curves on random tasks and, for fresh_fraction < 1, a shared task of ones."""
    import numpy as np

    from iclimit.problem import Problem
    from iclimit.simulate.dynamics import simulate_gradient_descent

    problem = Problem(
        dim=len(eigenvalues),
        context=context,
        input_covariance=np.asarray(eigenvalues),
        scale=1,
        noise_variance=noise_variance,
        fresh_fraction=fresh_fraction,
        shared_task=np.ones(len(eigenvalues)) if fresh_fraction < 1 else None,
    )
    return simulate_gradient_descent(problem, rng=rng, backend=backend, **settings)


def _time_factor(options: argparse.Namespace) -> float:
    """Time in the units of the theory, over that of the training."""
    from iclimit.validation.yours.curves.setting import time_factor

    return time_factor(options.model, options.context, options.normalization)


def _predictions(options: argparse.Namespace, repeats: int) -> list[PredictedTraining]:
    """Predictions of theory for each repeat; none where it cannot."""
    from iclimit.simulate.dynamics import AttentionModel, initial_weights

    if options.model == "cubic" or options.fresh_fraction < 1:
        return []
    lam, scale = options.eigenvalues, options.init_scale
    model = AttentionModel(options.model, len(lam), options.heads, options.rank)
    law = {name: getattr(options, name) for name in ("eigenvalues", "context", "noise_variance")}
    # Weights count as larger by a root of the factor of time, the same in all layers.
    factor, start = math.sqrt(_time_factor(options)), (scale, options.initialization)
    try:
        return [
            predict_drops(
                [
                    factor * w
                    for w in initial_weights(model, *start, rng=options.rng, first_repeat=r)
                ],
                scale,
                **law,
            )
            for r in range(repeats)
        ]
    except (ValueError, ArithmeticError):
        return []


def _drops(
    options: argparse.Namespace, curves: TrainingCurves, predictions: list[PredictedTraining]
) -> list[dict[str, Any]]:
    """Losses of every repeat and, for random tasks only, when half of each drop has happened."""
    from iclimit.asymptotics.dynamics import plateau_losses

    noise = {"context": options.context, "noise_variance": options.noise_variance}
    levels = plateau_losses(options.eigenvalues, **noise)
    separate = options.model == "separate"
    middles = (levels[1:] + levels[:-1]) / 2 if separate else [(levels[0] + levels[-1]) / 2]
    rows = []
    for repeat, losses in enumerate(curves.losses):
        first = {"repeat": repeat, "first_loss": float(losses[0])}
        last = {"last_step": int(curves.recorded_at[-1]), "last_loss": float(losses[-1])}
        last |= {f"last_{k}_loss": float(v[repeat, -1]) for k, v in curves.measures.items()}
        if options.fresh_fraction < 1:
            rows.append(first | last)
            continue
        for drop, middle in enumerate(middles):
            below = (losses < middle).nonzero()[0]
            step = int(curves.recorded_at[below[0]]) if len(below) else math.inf
            time = 2 * options.learning_rate * _time_factor(options) * step
            row = first | ({"learned": drop + 1} if separate else {})
            row |= {"half_drop_step": step, "half_drop_time": time}
            if predictions:
                row["predicted_time"] = float(predictions[repeat].drop_times[drop])
            rows.append(row | last | {"limit_loss": float(levels[-1])})
    return rows


def _draw_curves(
    options: argparse.Namespace,
    curves: TrainingCurves,
    predictions: list[PredictedTraining],
    figure: Figure,
) -> None:
    """Draw the losses as lines, and what is predicted of them as dashes."""
    ax = figure.subplots()
    curves.draw(ax)
    for index, each in enumerate(predictions):
        loss = each.loss(_time_factor(options) * curves.times)
        label = None if index else "predicted"
        ax.plot(curves.recorded_at, loss, "k--", linewidth=0.8, label=label)
    if len(ax.get_legend_handles_labels()[0]) > 1:
        ax.legend()


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
        "text": "start from these weights too (.npz, as -o writes them): of the same depth or "
        "less, of the same kind or one it contains",
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
    from iclimit.problem import Problem
    from iclimit.simulate.gdpp import train_linear_transformer
    from iclimit.simulate.networks import load_model, save_model

    _check_files(options)
    size = {name: getattr(options, name) for name in ("dim", "context", "noise_law")}
    problem = Problem(**size, scale=1)
    settings = settings_of(options, train_linear_transformer)
    settings |= {name: getattr(options, name) for name in ("context", "dim", "held_out")}
    try:
        initial = [load_model(path) for path in options.initial]
    except OSError as error:
        raise ValueError(f"cannot read a file: {error}") from error
    weights = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in options.initial)
    settings |= {"noise_law": str(problem.noise_law), "initial": weights}
    trained = run_training(
        options, train_and_measure, settings, lambda run: not run["interrupted"], initial=initial
    )
    if options.output:
        save_model(trained["model"], options.output)
    row = {name: settings[name] for name in ("kind", "layers", "noise_law")} | trained["summary"]
    omegas: list[dict[str, Any]] = []
    if options.kind in ("diag", "gd++"):
        names = ("layer", "omega_xx", "omega_xy", "omega_yx", "omega_yy")
        for layer, matrix in enumerate(trained["model"].omegas, start=1):
            omegas.append(dict(zip(names, (layer, *matrix.ravel().tolist()), strict=True)))
    if options.format == "json":
        sys.stdout.write(json_text({**row, "omegas": omegas}))
    else:
        print(rows_text([row], options.format), end="")
    if omegas and options.format == "text":
        print(f"\n{rows_text(omegas)}", end="")
    if trained["interrupted"]:
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
