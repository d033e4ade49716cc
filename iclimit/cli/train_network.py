r"""Network of attention layers or an LSTM, by Adam or L-BFGS.

Train a network on regression in context, on the mean squared error of the
query's label, and measure it on fresh prompts of the same law.

null_loss is that of predicting zero. best_loss is the least one in theory, for
one layer of attention on tokens as they are; it is left out where no theory
knows it. Several seeds end at several losses. A run has failed if it misses
more than a tenth of what can be learned, by best_loss or, without it, by the
best run, which itself must have learned a tenth of the null loss. The mean
loss is that of the others.

With -o the network of least loss is written. iclimit probe says which
algorithm it performs.

Examples
--------
  iclimit train network --kind attention --attention linear --dim 5 --context 10 \
      --learning-rate 0.01 -o layer.npz
  iclimit train network --kind attention --layers 2 --width 32 --mlp 64 --layer-norm \
      --dim 5 --context 10 --steps 20000 --repeats 4
  iclimit train network --kind lstm --hidden 32 --layers 2 --bidirectional --dim 3 --context 8 \
      --checkpoint lstm.npz
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import (
    add_choice,
    add_parameter,
    add_training,
    add_verb,
    check_execution,
    run_training,
)
from iclimit.cli.output import FORMATS, add_output, print_json, write_rows
from iclimit.cli.prompts import add_problem, parse_problem
from iclimit.notation import PARAMETERS

if TYPE_CHECKING:
    from iclimit.problem import Problem
    from iclimit.simulate.networks import Network, TrainedRepeats

NETWORKS: dict[str, dict[str, str | None]] = {
    "softmax": {"heads": "1", "init_scale": "0.2"},
    "attention": {
        "layers": "1",
        "heads": "1",
        "attention": "softmax",
        "width": "none",
        "mlp": "none",
        "embedding_mlp": "none",
        "positions": "0",
        "init_scale": "1/3",
        "layer_norm": None,
        "shared": None,
        "include_query": None,
    },
    "lstm": {"layers": "1", "hidden": "64", "bidirectional": None},
}
"""Flags of the networks that can be trained, with their defaults; None for one without value."""

TRAINING: dict[str, float | None] = {
    **{"steps": 5000, "batch": None, "learning_rate": 0.003, "clip": 1.0, "patience": 100},
    **{"held_out": 20_000, "repeats": 1},
}
"""Parameters of a training, with their defaults."""

SOFTMAX_TRAINING = TRAINING | {"learning_rate": 0.005, "patience": 200}
"""The same for softmax heads, as in `iclimit.softmax.train_softmax`."""

BATCHES = {"softmax": 2048, "attention": 512, "lstm": 512}
"""Prompts per step of adam by default."""

MEANINGS = {
    "init_scale": "size of the initial weights",
    "attention": "softmax or linear, or one for each layer: linear,softmax",
    "positions": "entries of every token that hold its position",
    "hidden": "size of the state of a layer",
    "layer_norm": "normalise tokens before every map",
    "shared": "the same weights in all layers",
    "include_query": "let the query's token be a key too",
    "bidirectional": "read in both directions",
    "steps": "most steps, or iterations of lbfgs",
    "learning_rate": "learning rate of adam, before it decays",
    "clip": "largest norm of a gradient",
    "patience": "steps over which the loss must fall for adam to go on at the same rate",
    "repeats": "independent trainings",
}


def add_parser(models: Any) -> None:
    """Add the model to ``iclimit train``."""
    parser = add_verb(models, "network", run, __doc__)
    add_choice(parser, "--kind", ("attention", "lstm"), "what to train")
    add_flags(parser, "attention", "lstm")


def add_flags(parser: argparse.ArgumentParser, *kinds: str) -> None:
    """Add the flags of networks, of the problem, of the training and of its output."""
    add_problem(parser, tasks="pretraining tasks (.npy, .csv) to train on, instead of fresh ones")
    for name in dict.fromkeys(name for kind in kinds for name in NETWORKS[kind]):
        owners = [kind for kind in kinds if name in NETWORKS[kind]]
        text = MEANINGS.get(name, PARAMETERS[name].meaning)
        text += "" if owners == list(kinds) else f", for {owners[0]}"
        default = NETWORKS[owners[0]][name]
        if default is None:
            # Not False by default: what is not given is left to the network.
            parser.add_argument(
                PARAMETERS[name].flag, action="store_true", default=None, help=text
            )
        elif name == "attention":
            text = f"{text} (default {default})"
            parser.add_argument("--attention", type=_kinds, metavar="KIND,...", help=text)
        else:
            add_parameter(parser, name, text=f"{text} (default {default})")
    add_choice(parser, "--optimizer", ("adam", "lbfgs"), "adam on fresh prompts, lbfgs on fixed")
    meanings = MEANINGS | {
        "batch": f"prompts per step (default {BATCHES[kinds[0]]}), or all prompts for lbfgs "
        "(default 16384)"
    }
    for name, number in (SOFTMAX_TRAINING if "softmax" in kinds else TRAINING).items():
        add_parameter(parser, name, number, text=meanings.get(name, ""))
    text = "train on query labels with noise, as those of the context have"
    parser.add_argument("--query-noise", action="store_true", help=text)
    add_training(parser)
    text = "write the network of least loss (.npz)"
    add_output(parser, (".npz",), formats=FORMATS, text=text)


def _kinds(text: str) -> str | tuple[str, ...]:
    return tuple(text.split(",")) if "," in text else text


def run(options: argparse.Namespace) -> int:
    """Train a network of the kind that is asked for."""
    return train_and_print(options, options.kind)


def train_and_print(options: argparse.Namespace, kind: str) -> int:
    """Train what is not on record, write the best network and print the losses."""
    from iclimit.checks import check_arguments
    from iclimit.simulate.networks import save_model

    check_execution(options)
    check_arguments(repeats=options.repeats)
    paths = [each.resolve() for each in (options.output, options.checkpoint) if each]
    if len(paths) > len(set(paths)):
        raise ValueError(f"--output must not be the checkpoint, got {str(options.output)!r}")
    network, problem = _network(options, kind), parse_problem(options)
    found = replace(_train(options, kind, network, problem), best_loss=best_loss(network, problem))
    if found.best is None:
        raise ArithmeticError("every training diverged: try a smaller learning_rate or init_scale")
    if options.output:
        save_model(found.best, options.output)
    rows = _rows(found)
    if options.format == "json":
        print_json({"runs": rows, **_summary(found)})
    else:
        write_rows(rows, options.format)
    if options.format == "text" and len(rows) > 1:
        print(f"\n{found}")
    if found.interrupted:
        print("interrupted: the last run was measured where it was", file=sys.stderr)
        return 130
    if all(found.failed):
        print("every run failed: none has learned what can be learned", file=sys.stderr)
        return 1
    return 0


def best_loss(network: Network, problem: Problem) -> float | None:
    """Least loss on labels without noise that the theory has for a network, if it has one."""
    from iclimit.simulate.networks import AttentionNetwork
    from iclimit.simulate.softmax import MergedHeads
    from iclimit.validation.yours.models.baselines import (
        SOFTMAX,
        one_step_baselines,
        softmax_baselines,
    )
    from iclimit.validation.yours.models.problem_units import ProblemUnits

    units, kind = ProblemUnits(problem), "softmax"
    if problem.task_count != math.inf or units.signal == 0:
        return None
    if isinstance(network, AttentionNetwork):
        kind = network.kinds[0]
        plain = replace(network, heads=1, attention="softmax", init_scale=1.0)
        if plain != AttentionNetwork(network.dim, init_scale=1.0):  # more than one plain layer
            return None
    elif not isinstance(network, MergedHeads):
        return None
    if kind == "linear":
        *_, loss = (each.loss for each in one_step_baselines(units))
    else:
        # The search for two heads, which takes seconds, is not begun for one.
        name = f"softmax_{network.heads}"
        known = softmax_baselines(units) if name in SOFTMAX else iter(())
        loss = next((each.loss for each in known if each.name == name), None)
    return None if loss is None else loss - units.noise_variance


def _network(options: argparse.Namespace, kind: str) -> Network:
    """Network that the flags describe; flags of other networks are refused."""
    for name in {name for other in NETWORKS.values() for name in other} - NETWORKS[kind].keys():
        if getattr(options, name, None) is not None:
            flag, known = PARAMETERS[name].flag, (PARAMETERS[each].flag for each in NETWORKS[kind])
            raise ValueError(f"--kind {kind} takes {', '.join(known)}, got {flag}")
    given = {name: getattr(options, name) for name in NETWORKS[kind]}
    sizes = {name: value for name, value in given.items() if value is not None}
    if kind == "softmax":
        sizes = {"init_scale": float(NETWORKS[kind]["init_scale"] or 0)} | sizes
    network: Network = _classes()[kind](dim=options.dim, **sizes)
    return network


def _classes() -> dict[str, Any]:
    """Classes of the networks."""
    from iclimit.simulate.networks import AttentionNetwork, LstmNetwork
    from iclimit.simulate.softmax import MergedHeads

    return {"softmax": MergedHeads, "attention": AttentionNetwork, "lstm": LstmNetwork}


def _train(
    options: argparse.Namespace, kind: str, network: Network, problem: Problem
) -> TrainedRepeats:
    """Trainings of all seeds; each is a cell of its own on record."""
    from iclimit.simulate.networks import TrainedRepeats

    law = problem.describe()
    names = ("optimizer", *TRAINING, "query_noise")
    settings = {name: getattr(options, name) for name in names if name != "repeats"}
    if options.optimizer == "adam" and options.batch is None:
        settings["batch"] = BATCHES[kind]
    settings |= {"kind": kind, **law, **asdict(network)}  # type: ignore[call-overload]
    found = TrainedRepeats(())
    for repeat in range(options.repeats):
        found = found.concatenate(
            run_training(
                options,
                train_once,
                settings | {"first_repeat": repeat},
                complete=lambda run: not run.interrupted,
            )
        )
        if found.interrupted:
            break
    return found


def train_once(*, kind: str, first_repeat: int, rng: int, **settings: Any) -> TrainedRepeats:
    """One training with a network and a problem of these numbers."""
    from iclimit.problem import Problem
    from iclimit.simulate.networks import train_repeats

    network, law = _classes()[kind], {each.name for each in fields(Problem)}
    sizes = {each.name for each in fields(network)}
    return train_repeats(
        network(**{name: value for name, value in settings.items() if name in sizes}),
        Problem(**{name: value for name, value in settings.items() if name in law}),
        repeats=1,
        first_repeat=first_repeat,
        rng=rng,
        **{name: value for name, value in settings.items() if name not in sizes | law},
    )


def _rows(found: TrainedRepeats) -> list[dict[str, Any]]:
    """Result of every seed."""
    theory, rows = {} if found.best_loss is None else {"best_loss": found.best_loss}, []
    for repeat, (run, failed) in enumerate(zip(found.runs, found.failed, strict=True)):
        loss = {"held_out_loss": None, "standard_error": None, **theory, "null_loss": None}
        end: dict[str, Any] = {"steps": None, "converged": False, "failed": bool(failed)}
        if run is not None:
            held_out = run.held_out
            loss |= {"held_out_loss": held_out.mean, "standard_error": held_out.standard_error}
            loss |= {"null_loss": run.null_loss}
            end |= {"steps": run.steps, "converged": run.converged}
        rows.append({"repeat": repeat, **loss, **end})
    return rows


def _summary(found: TrainedRepeats) -> dict[str, Any]:
    """Mean and median loss of the runs that did not fail, and how many did."""
    summary: dict[str, Any] = {"failures": found.failures}
    for name, estimate in (("mean_loss", found.loss), ("median_loss", found.median)):
        summary[name] = None if estimate is None else estimate.mean
        summary[f"{name}_error"] = None if estimate is None else estimate.standard_error
    return summary
