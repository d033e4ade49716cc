r"""Runs that are trained on every position of their sequences, and measured at several of them.

A column ``position`` says after how many examples errors were measured, ``first_position`` where
the loss begins, and ``prompts`` counts sequences.  The theory has two numbers for a run, which
give its errors at all positions: a run is solved once for all its rows.

There is no theory of how these errors scatter from run to run.  Runs are simulated for it, at most
at d = 16: relative deviations fall as 1/d from there on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining.finite_all_positions import trained_position_errors
from iclimit.asymptotics.pretraining.finite_random_lengths import trained_length_errors
from iclimit.experiment import NORMALIZATIONS, Experiment
from iclimit.losses import RandomLength
from iclimit.simulate.pretraining import simulate_positions
from iclimit.validation.instruments.explaining import Change
from iclimit.validation.instruments.reading import Table

# Columns that say where errors were measured, what the loss and the summaries are, and how many
# sequences there are.
POSITIONS = ("position", "first_position", "normalization", "sequence_ratio")

# Range of positions, all of which up to the largest are predicted; 0 is refused with a reason.
PLACES = "[0, 1e5]"

# Relative uncertainty of errors for Gaussian tasks, times d, beside that for tasks of fixed norm:
# they differ by 1 to 4 % at d = 8 and by 1.5 % at d = 12.
GAUSSIAN_TASKS = 0.4

# Fewest rows by position of which something is said.
FEWEST_POSITIONS = 3

# Two positions are the same if they are within this.
WHOLE = 1e-9

# Simulated runs that say how errors scatter: their standard deviation is known to 9 %.
SCATTER_RUNS = 60

# Largest dimension of these runs, which take 20 ms each there.
SCATTER_DIM = 16

# Most positions of theirs; a longer sequence takes as much longer.
SCATTER_POSITIONS = 96


def read_positions(
    table: Table, contexts: Sequence[float], others: Collection[str]
) -> dict[str, list[Any]]:
    """Keywords of the loss, the summaries and the tests of each row; none without such columns.

    Parameters
    ----------
    table : Table
        Columns of `POSITIONS`; errors without a position are after the whole context.
    contexts : sequence of float
        Examples in a sequence, by row.
    others : collection of str
        Keywords of tests and training that the table states, too.

    Raises
    ------
    ValueError
        If the first position is missing or beyond the context, or there are other tests.
    """
    stated = [name for name in POSITIONS if name in table]
    if not stated:
        return {}
    if "first_position" not in table:
        raise ValueError(
            f"{stated[0]} needs a column first_position, or one as a parameter: 1 if the loss is "
            "of all positions, the context if it is of the last label alone"
        )
    if others:
        raise ValueError(
            f"{', '.join(others)} must not be given beside first_position: runs on all positions "
            "are known at the end of training, and tests say their position"
        )
    firsts = _whole(table, "first_position")
    for row, (first, context) in enumerate(zip(firsts, contexts, strict=True), 1):
        if first > context:
            problem = f"must be at most the context of {context:g}, got {first}"
            raise table.fault(row, "first_position", problem)
    places = [int(context) for context in contexts]
    if "position" in table:
        places = _whole(table, "position")
    columns: dict[str, list[Any]] = {"first_position": firsts, "test_context": places}
    if "normalization" in table:
        columns["normalization"] = table.words("normalization", NORMALIZATIONS)
    return columns


def prompts_of_ratios(table: Table) -> Table:
    """Table with tau in the place of the sequences over dimension, where it states these."""
    if "sequence_ratio" not in table:
        return table
    if {"prompts", "tau"} & set(table.entries):
        raise ValueError("sequence_ratio must be left out beside prompts, which count sequences")
    pairs = zip(table.numbers("sequence_ratio"), table.numbers("dim"), strict=True)
    tau = [ratio / dim for ratio, dim in pairs]
    names = {**table.names, "tau": table.names.get("sequence_ratio", "sequence_ratio")}
    return Table({**table.entries, "tau": tau}, names, len(table))


def _whole(table: Table, name: str) -> list[int]:
    """Integers of a column, at least 1."""
    values = table.numbers(name, PLACES)
    for row, value in enumerate(values, 1):
        if value == 0:
            problem = "must be an integer >= 1, got 0"
            if name == "position":
                problem = f"{problem}: after no examples the error is 1 + rho, leave the row out"
            if name == "first_position":
                problem = (
                    f"{problem}: an empty context teaches nothing, 1 is the loss of all labels"
                )
            raise table.fault(row, name, problem)
        if value != int(value):
            raise table.fault(row, name, f"must be an integer >= 1, got {value:g}")
    return [int(value) for value in values]


def loss_from(first: float, context: int) -> dict[str, Any]:
    """Keywords of a loss from a position on that may be between two integers.

    The lower one then counts for a part of the others.
    """
    inside = min(max(first, 1.0), float(context))
    whole = math.ceil(inside - WHOLE)
    part = whole - inside
    if part <= WHOLE:
        return {"first_position": whole, "position_weights": None}
    return {
        "first_position": whole - 1,
        "position_weights": (part, *[1.0] * (context - whole + 1)),
    }


def position_prediction(
    run: Experiment, root: int, approach: str
) -> tuple[np.ndarray, np.ndarray]:
    """Mean ICL and IDG error (2,) of a run at the position of its tests, and their doubt (2,).

    Parameters
    ----------
    run : Experiment
        Trained on all positions or on random lengths.
    root : int
        Root of the task sets of corrections, and of drawn sequences.
    approach : {"tasks", "moments"}
        As of `iclimit.predict`.

    Raises
    ------
    ValueError
        If the run has parts that are not predicted.
    """
    place = run.tests.problem.context
    whole = run.with_(test=None)
    errors, doubts = _at_positions(whole, root, approach, max(place, run.problem.context))
    return errors[:, place - 1], doubts


@lru_cache(maxsize=1000)
def _at_positions(
    run: Experiment, root: int, approach: str, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Errors (2, last) after 1 to so many examples, and their relative uncertainty (2,)."""
    problem = run.problem
    places = range(1, last + 1)
    extra = 0.0
    if problem.task_law == "gaussian" and problem.task_covariance is None:
        extra = GAUSSIAN_TASKS / run.dim
        run = Experiment.of(**run.keywords() | {"task_law": "sphere"})
    if isinstance(run.loss, RandomLength):
        errors, doubts = trained_length_errors(run, places, rng=root)
    else:
        errors, doubts = trained_position_errors(run, places, rng=root, approach=approach)
    return errors, np.hypot(doubts, extra)


def position_deviations(run: Experiment, root: int) -> np.ndarray:
    """Relative deviations (runs, 2) of ICL and IDG errors of simulated runs from their mean.

    They are those of the same runs at all positions of the tests, so that their correlations are
    those of a table by position.  Empty where the run cannot be simulated.
    """
    place = run.tests.problem.context
    deviations = _deviations(run.with_(test=None), root)
    if not deviations.size:
        return np.empty((0, 2))
    scaled = round(place * deviations.shape[2] / run.problem.context)
    return deviations[:, :, min(max(scaled, 1), deviations.shape[2]) - 1]


@lru_cache(maxsize=100)
def _deviations(run: Experiment, root: int) -> np.ndarray:
    """The same (runs, 2, L) at every position of a run that may be smaller; empty without one."""
    scale = min(1.0, SCATTER_DIM / run.dim, SCATTER_POSITIONS / run.problem.context)
    try:
        runs = simulate_positions(_smaller(run, scale), rng=root, repeats=SCATTER_RUNS)
    except (ArithmeticError, ValueError):
        return np.empty((0, 2, 0))
    errors = np.stack([runs.icl, runs.idg], axis=1)
    means = np.mean(errors, axis=0)
    return np.asarray((errors / means - 1) * scale)


def _smaller(run: Experiment, scale: float) -> Experiment:
    """The run with all sizes multiplied by a factor up to 1."""
    if scale == 1:
        return run
    stated = run.keywords()
    for name in ("dim", "context", "tasks", "prompts", "first_position"):
        if stated.get(name, math.inf) < math.inf:
            stated[name] = max(1, round(stated[name] * scale))
    if run.balanced and stated["tasks"] < math.inf:
        own = round(run.prompts / run.problem.task_count)
        stated["prompts"] = stated["tasks"] * max(1, own)
    if "lengths" in stated:
        scaled = [max(1, round(length * scale)) for length in stated["lengths"]]
        stated["lengths"] = tuple(sorted(set(scaled)))
        stated["length_probabilities"] = None
    stated["position_weights"] = None
    return Experiment.of(**stated)


def position_hints(runs: Sequence[Any]) -> Iterator[str]:
    """Sentences on positions that are likely to be counted otherwise than here.

    Parameters
    ----------
    runs : sequence of MeasuredRun
        Of any kind.
    """
    measured = [run for run in runs if run.by_position]
    beyond = {run.position - run.sizes["context"] for run in measured}
    if len(measured) < FEWEST_POSITIONS:
        return
    if max(beyond) == 1:
        yield (
            "Positions end one beyond the context: a position is the number of examples before "
            "the label, without the query."
        )
    if max(beyond) == -1:
        yield (
            "Positions end one before the context: a sequence of N labels has the positions 0 to "
            "N - 1, its context is N - 1."
        )


def position_mistakes(runs: Sequence[Any]) -> Iterator[tuple[str, Change]]:
    """Mistakes in what a loss is of, in words, with the changes that they are.

    Parameters
    ----------
    runs : sequence of MeasuredRun
        All of them trained on positions of sequences.
    """
    firsts = {run.experiment.loss.first for run in runs}
    if firsts != {1}:
        yield "the runs were trained on all positions", lambda *_: {"first_position": 1}
    yield "the runs were trained on the last position alone", _on_last
    yield "each prompt has one label, after a random length up to the context", _on_random
    yield "the loss is summed, not averaged over positions", _summed
    yield "the ridge is that of a sum over positions, and the loss is averaged", _averaged
    yield "prompts counts the labels of all sequences, not the sequences", _counting_labels
    if all(run.position > 1 for run in runs):
        yield "positions are counted with the query, one too many", _fewer
    yield "positions are counted from 0, one too few", _more
    yield "summaries are divided by the whole length, or by the examples seen", _normalized
    yield "sequences have one example more", partial(_longer, more=1)
    if all(run.sizes["context"] > 1 for run in runs):
        yield "sequences have one example less", partial(_longer, more=-1)


def _on_last(run: Any, _: float) -> dict[str, Any]:
    return {"first_position": run.sizes["context"]}


def _on_random(run: Any, _: float) -> dict[str, Any]:
    lengths = tuple(range(1, run.sizes["context"] + 1))
    return {"first_position": None, "lengths": lengths}


def _count(run: Any) -> int:
    """Number of positions of the loss."""
    return len(run.experiment.loss.positions(run.sizes["context"]))


def _summed(run: Any, _: float) -> dict[str, Any]:
    return {"ridge": run.ridge / _count(run)}


def _averaged(run: Any, _: float) -> dict[str, Any]:
    return {"ridge": run.ridge * _count(run)}


def _counting_labels(run: Any, _: float) -> dict[str, Any]:
    return {"prompts": max(1, round(run.sizes["prompts"] / _count(run)))}


def _fewer(run: Any, _: float) -> dict[str, Any]:
    return {"test_context": run.position - 1}


def _more(run: Any, _: float) -> dict[str, Any]:
    return {"test_context": run.position + 1}


def _longer(run: Any, _: float, more: int) -> dict[str, Any]:
    """Another length of the sequences, measured at the same position."""
    context = run.sizes["context"] + more
    first = min(run.experiment.loss.first, context)
    return {"context": context, "first_position": first, "test_context": run.position}


def _normalized(run: Any, _: float) -> dict[str, Any]:
    usual = run.experiment.model.normalization == NORMALIZATIONS[0]
    return {"normalization": NORMALIZATIONS[1] if usual else NORMALIZATIONS[0]}
