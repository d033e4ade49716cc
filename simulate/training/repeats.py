"""Trainings from several seeds, of which those that failed are counted and not averaged.

Training of a network has plateaus and minima besides the best one, and some seeds end there.  A
mean over all seeds would be the loss of no network.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.checks import Seed, check_arguments
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.models.network import Network, Task
from iclimit.simulate.training.networks import (
    NetworkTraining,
    Options,
    TrainedNetwork,
    begin_training,
)
from iclimit.simulate.training.together import networks_at_once, train_together
from iclimit.statement import named_cell

# A run that misses more than this part of what the best one has learned has failed.  Losses on
# 20,000 prompts have errors of about 1 %, and the minima seen beside the best one miss a third.
MISSED = 0.1


@dataclass(frozen=True, eq=False, repr=False)
class TrainedRepeats(Result):
    """Trainings of a network from several seeds.

    Attributes
    ----------
    runs : tuple of (TrainedNetwork or None)
        The trained networks; None for a training whose loss became infinite.
    best_loss : float, optional
        The least loss that is possible, where a theory knows it.

    Notes
    -----
    A run failed if its held-out loss is above best + (null - best)/10, the best being
    ``best_loss`` or else the least of all runs, and null the loss of predicting zero: it misses
    more than a tenth of what can be learned.  Without ``best_loss`` all failed if the best learned
    less than a tenth of the null loss, as on a plateau where a network has learned nothing.  So a
    single run fails only there, and a problem of which no network learns a tenth has failures
    only.  A training whose loss became infinite failed.  What Ctrl-C left neither failed nor
    succeeded.
    """

    runs: tuple[TrainedNetwork | None, ...]
    best_loss: float | None = None

    @property
    def best(self) -> TrainedNetwork | None:
        """The run of least held-out loss; None if there is none."""
        runs = [run for run in self.runs if run is not None]
        return min(runs, key=lambda run: (run.interrupted, run.held_out.mean), default=None)

    @property
    def failed(self) -> np.ndarray:
        """Whether the runs failed, (repeats,)."""
        best = self.best
        if best is None:
            return np.ones(len(self.runs), dtype=bool)
        loss = best.held_out.mean
        null = best.null_loss
        least = loss if self.best_loss is None else self.best_loss
        worst = least + MISSED * (null - least)
        if self.best_loss is None and loss > (1 - MISSED) * null:
            worst = -np.inf
        return np.array(
            [
                run is None or (not run.interrupted and run.held_out.mean > worst)
                for run in self.runs
            ]
        )

    @property
    def failures(self) -> int:
        """Number of failed runs."""
        return int(np.sum(self.failed))

    @property
    def losses(self) -> np.ndarray:
        """Held-out losses of the runs that were finished and did not fail."""
        pairs = zip(self.runs, self.failed, strict=True)
        return np.array(
            [run.held_out.mean for run, failed in pairs if run and not (failed or run.interrupted)]
        )

    @property
    def loss(self) -> Estimate | None:
        """Mean of these losses, with the standard error over seeds; None if there are none."""
        return Estimate.of(self.losses) if len(self.losses) else None

    @property
    def median(self) -> Estimate | None:
        """Their median, with the standard error of Maritz and Jarrett."""
        return Estimate.of_median(self.losses) if len(self.losses) else None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the last run."""
        return any(run is not None and run.interrupted for run in self.runs)

    def concatenate(self, other: TrainedRepeats) -> TrainedRepeats:
        """These runs and others after them."""
        return TrainedRepeats(self.runs + other.runs, self.best_loss)

    def head(self, count: int) -> TrainedRepeats:
        """The first runs."""
        return TrainedRepeats(self.runs[:count], self.best_loss)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each training, with ``best_loss`` where it is known."""
        theory = {} if self.best_loss is None else {"best_loss": self.best_loss}
        rows = []
        for repeat, (run, failed) in enumerate(zip(self.runs, self.failed, strict=True)):
            loss = run.held_out if run else None
            rows.append(
                {
                    "repeat": repeat,
                    "held_out_loss": loss and loss.mean,
                    "standard_error": loss and loss.standard_error,
                    **theory,
                    "null_loss": run and run.null_loss,
                    "steps": run and run.steps,
                    "converged": bool(run and run.converged),
                    "failed": bool(failed),
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """All runs, how many failed, and the mean and median loss of the others."""
        summary: dict[str, Any] = {"runs": self.rows(), "failures": self.failures}
        for name, estimate in (("mean_loss", self.loss), ("median_loss", self.median)):
            summary[name] = estimate and estimate.mean
            summary[f"{name}_error"] = estimate and estimate.standard_error
        return summary

    def __str__(self) -> str:
        """Mean loss, and how many runs failed."""
        loss = "no loss" if self.loss is None else f"loss {self.loss}"
        return f"{loss}, {self.failures} of {len(self.runs)} runs failed"


@named_cell("train_repeats")
def train_repeats(
    network: Network,
    problem: Problem | Task,
    *,
    repeats: int,
    first_repeat: int = 0,
    rng: Seed,
    checkpoint: str | os.PathLike | None = None,
    **settings: Any,
) -> TrainedRepeats:
    """Train a network from several seeds, and count the runs that failed.

    Small networks are trained as one batch, in which each has its own prompts, clipping and end:
    the result is that of one training after the other, to rounding.

    Parameters
    ----------
    network : Network
        What to train.
    problem : Problem or another law of prompts
        What to train on.
    repeats : int >= 1
        Number of trainings.
    first_repeat : int >= 0
        Number of the first one.  Repeat r depends on ``rng`` and r only.
    rng : int, SeedSequence or Generator
        Root of the seeds.
    checkpoint : path, optional
        Of the first training, see `train_network`; that of repeat r > 0 gets ``-r`` before its
        ending.
    **settings
        Further arguments of `train_network`.

    Returns
    -------
    TrainedRepeats
        Up to the one that Ctrl-C interrupted, or those that are trained with it.

    Raises
    ------
    ValueError, TypeError, RuntimeError, OSError
        As `train_network` does; an infinite loss is a failed run.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.softmax import MergedHeads
    >>> problem = iclimit.Problem(dim=2, context=8, scale=1)
    >>> settings = {"steps": 500, "batch": 128, "learning_rate": 0.01}
    >>> found = iclimit.networks.train_repeats(
    ...     MergedHeads(dim=2), problem, repeats=3, rng=0, **settings
    ... )
    >>> print(found)
    loss 0.896141, 2 of 3 runs failed
    """
    check_arguments(repeats=repeats, first_repeat=first_repeat)
    options = Options.of(**settings)
    seeds = seed_sequences(rng, first_repeat + repeats)

    def begin(repeat: int) -> NetworkTraining:
        path = None if checkpoint is None else _numbered(Path(checkpoint), repeat)
        return begin_training(network, problem, options, seeds[repeat], path)

    trainings = map(begin, range(first_repeat, first_repeat + repeats))
    trained = TrainedRepeats(())
    for training in trainings:
        group = [training, *islice(trainings, networks_at_once(training) - 1)]
        trained = trained.concatenate(TrainedRepeats(tuple(train_together(group))))
        if trained.interrupted:
            break
    return trained


def _numbered(path: Path, repeat: int) -> Path:
    """Checkpoint of a repeat."""
    return path.with_stem(f"{path.stem}-{repeat}") if repeat else path
