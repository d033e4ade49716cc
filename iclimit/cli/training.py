"""The verb ``train network``: flags for a network, the law of its prompts and its training."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from iclimit.cli.execution import add_recording, run_training
from iclimit.cli.flags import Changes, add_flag, add_flags, arguments
from iclimit.cli.instruments import add_problem, parse_problem, stated_covariances
from iclimit.cli.output import add_output, print_result
from iclimit.cli.verbs import GROUPS, OneLineParser, verb
from iclimit.tables import rows_text

if TYPE_CHECKING:
    from iclimit.simulate.networks import TrainedRepeats

GROUPS["train"] = ("MODEL", "Train a finite-size model and measure it on fresh prompts.")

# Prompts in a step of Adam.
BATCH = 512


def _parse_kinds(text: str) -> str | tuple[str, ...]:
    return tuple(text.split(",")) if "," in text else text


def _network_flags(parser: OneLineParser) -> None:
    from iclimit.simulate.networks import AttentionNetwork, train_network

    add_problem(parser, tasks="pretraining tasks (.npy, .csv) to train on, instead of fresh ones")
    kinds = {"type": _parse_kinds, "choices": None, "metavar": "KIND,..."}
    add_flags(parser, AttentionNetwork, {"dim": None, "attention": kinds})
    batch = f"prompts in a step (default {BATCH}), or all prompts of L-BFGS"
    changes: Changes = {
        "network": None,
        "problem": None,
        "snapshots": None,
        "loss": None,
        "batch": batch,
    }
    add_flags(parser, train_network, changes)
    add_flag(parser, "repeats", text="number of independent trainings", default=1)
    add_recording(parser)
    add_output(parser, (".npz",), "write the network of least loss (.npz)")


@verb("train network", _network_flags)
def train_network(options: argparse.Namespace) -> int:
    r"""Network of attention layers, if wanted with perceptrons, layer norm and positions.

    Train a network on regression in context, on the mean squared error of the
    query's label, and measure it on fresh prompts of the same law.

    null_loss is the loss of predicting zero. best_loss is the least loss that one
    layer of softmax or linear attention can have on tokens as they are, with one
    head, or with two softmax heads of opposite weights, on isotropic Gaussian
    inputs; where no theory gives it the column is left out. Trainings from
    different seeds may end at different losses. A run has failed if its loss is
    above best_loss by more than a tenth of the difference between null_loss and
    best_loss. Without best_loss the best run takes its place, unless that has
    learned less than a tenth of null_loss: then all runs have failed. The mean
    loss is over the others.

    -o writes the network of least loss. iclimit probe tells which algorithm it is.
    Other networks are trained in Python (iclimit.networks.train_network).

    Examples
    --------
      iclimit train network --dim 5 --context 10
      iclimit train network --heads 2 --dim 5 --context 10 --repeats 4 -o heads.npz
      iclimit train network --attention linear --dim 5 --context 10 \
          --learning-rate 0.01 -o layer.npz
      iclimit train network --layers 2 --width 32 --mlp 64 --layer-norm \
          --dim 5 --context 10 --steps 20000 --repeats 4
    """
    from iclimit.checks import check_arguments
    from iclimit.simulate import networks
    from iclimit.validation import best_loss

    check_arguments(repeats=options.repeats)
    network = networks.AttentionNetwork(**arguments(options, networks.AttentionNetwork))
    problem = parse_problem(options)
    settings = arguments(options, networks.train_network)
    if options.optimizer == "adam" and options.batch is None:
        settings["batch"] = BATCH
    if not settings["warmup"]:  # results on record from before the flag have none
        del settings["warmup"]
    law = problem.describe() | stated_covariances(options)
    what = {"kind": "network", **law, **asdict(network)}
    trained = networks.TrainedRepeats((), best_loss=best_loss(network, problem))
    for repeat in range(options.repeats):
        own_settings = settings | {"repeats": 1, "first_repeat": repeat}
        train = partial(networks.train_repeats, network, problem)
        run = run_training(options, networks.train_repeats, train, own_settings, what)
        trained = trained.concatenate(run)
        if trained.interrupted:
            break
    if trained.best is None:
        raise ArithmeticError("every training diverged: try a smaller learning_rate or init_scale")
    if options.output:
        networks.save_model(trained.best, options.output)
    return _print_trainings(trained, options.format)


def _print_trainings(trained: TrainedRepeats, kind: str) -> int:
    """Print the losses of all repeats; return the exit status."""
    if kind == "text":
        print(rows_text(trained.rows()), end="")
        if len(trained.runs) > 1:
            print(f"\n{trained}")
    else:
        print_result(trained, kind)
    if trained.interrupted:
        print("interrupted: the last run was measured where it was", file=sys.stderr)
        return 130
    if all(trained.failed):
        print("every run failed: none has learned what can be learned", file=sys.stderr)
        return 1
    return 0
