"""Trainings of networks of equal shapes side by side, as one batch with a first axis of networks.

On a GPU a small network leaves most of the device idle, and on a core most of the time is that of
calling functions.  Only loss and gradient are computed together: prompts, clipping, rate, end and
checkpoint of each training are its own, as if it were alone.
"""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.training.loop import UnstableTraining
from iclimit.simulate.training.networks import (
    NetworkTraining,
    TrainedNetwork,
    most_prompts,
    numbers_of_a_prompt,
)
from iclimit.threads import one_blas_thread

# Most numbers of all networks between two layers, for a batch on a core.  Measured in CPU time of
# steps at d = 2 to 8 and widths up to 64, batches below it took a third to nine tenths of the time
# of networks one by one, and batches of 2.5 times this size 1.03 to 1.4 times as much, since their
# arrays leave the cache.
CACHED = 2**17

# What a network reads of prompts.
READ = ("inputs", "labels", "query")


def networks_at_once(training: NetworkTraining) -> int:
    """How many trainings like this one fit into a batch; 1 where a batch would gain nothing."""
    objective = training.objective
    network = objective.network
    options = objective.options
    if not network.together or options.optimizer != "adam":
        return 1
    context = objective.problem.context
    prompts = most_prompts(network, context)
    if objective.device.name == "numpy":
        prompts = min(prompts, CACHED // numbers_of_a_prompt(network, context))
    return max(1, prompts // options.prompts)


@one_blas_thread
def train_together(trainings: Sequence[NetworkTraining]) -> list[TrainedNetwork | None]:
    """Train to the ends of all or to Ctrl-C; None where the loss became infinite."""
    if len(trainings) == 1:
        with suppress(UnstableTraining):
            return [trainings[0].run()]
        return [None]
    active = list(trainings)
    try:
        # Overflow of a divergent training is an error of its own.
        with np.errstate(over="ignore", invalid="ignore"):
            while active := [training for training in active if _goes_on(training)]:
                losses, gradients = _gradients(active)
                for number, training in enumerate(active):
                    # Its loop knows that it diverged.
                    with suppress(UnstableTraining):
                        training.loop.take(losses[number], [gradients[number, :]], training.rule)
    except KeyboardInterrupt:
        for training in active:
            _close(training, interrupted=not training.loop.finished(training.rule))
    return [None if training.loop.diverged else training.result() for training in trainings]


def _goes_on(training: NetworkTraining) -> bool:
    """Whether there are steps left; the loop of a training without any is closed."""
    if not training.loop.diverged and not training.loop.finished(training.rule):
        return True
    _close(training, interrupted=False)
    return False


def _close(training: NetworkTraining, *, interrupted: bool) -> None:
    """End a training, as its loop does as a context."""
    if training.loop.diverged:
        training.loop.bar.close()
        return
    # Losses on a GPU may be read here for the first time.
    with suppress(UnstableTraining):
        training.loop.close(interrupted=interrupted)


def _gradients(trainings: Sequence[NetworkTraining]) -> tuple[Array, Array]:
    """Losses (m,) of all networks on the prompts of their next steps, and gradients (m, size)."""
    drawn = []
    labels = []
    for training in trainings:
        [(prompts, label)] = training.objective.fresh(training.loop.state.steps)
        drawn.append(prompts)
        labels.append(label)
    vectors = [training.loop.state.weights[0] for training in trainings]
    xp = array_namespace(*vectors)
    examples = Prompts(*(xp.concat([getattr(own, name) for own in drawn]) for name in READ))
    objective = trainings[0].objective
    network = objective.network
    weights = network.unpack(xp.stack(vectors))
    losses, gradients = objective.loss_and_gradient(weights, examples, xp.concat(labels))
    return losses, network.pack(gradients)
