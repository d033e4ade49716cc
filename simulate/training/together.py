"""Trainings of networks of equal shapes side by side, as one batch with a first axis of networks.

On a GPU a small network leaves most of the device idle, and on a core most of the time is that of
calling functions.  Only loss and gradient are computed together: prompts, clipping, rate, end and
checkpoint of each training are its own, as if it were alone.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from itertools import islice
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.training.checkpoints import identify
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

Value = TypeVar("Value")
Parameters = ParamSpec("Parameters")

# A computation that yields trainings, is sent the trained networks (None where the loss became
# infinite), and returns its value.
Trainings: TypeAlias = Generator[list[NetworkTraining], list[TrainedNetwork | None], Value]

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


def trains(begin: Callable[Parameters, Trainings[Value]]) -> Callable[Parameters, Value]:
    """Decorator: a function that trains, of a generator that yields trainings.

    Cells of the function that run on a GPU at the same time are one batch: the attribute
    ``together`` of the function, see `iclimit.runs.cell.Cell.together`, is `run_together`.
    """

    @wraps(begin)
    def alone(*_: Parameters.args, **arguments: Parameters.kwargs) -> Value:
        [value] = run_together(begin, [arguments])
        if isinstance(value, Exception):
            raise value
        result: Value = value
        return result

    setattr(alone, "together", partial(run_together, begin))  # noqa: B010
    return alone


def run_together(
    begin: Callable[..., Trainings[Any]], calls: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Values of several calls, or the exceptions that they raised.

    The trainings that they yield first are trained together, then those that they yield next.
    """
    runs = [_begun(begin, arguments) for arguments in calls]
    values: dict[int, Any] = {}
    trained: dict[int, Any] = dict.fromkeys(range(len(runs)))
    while trained:
        groups = {}
        for number, networks in trained.items():
            try:
                groups[number] = runs[number].send(networks)
            except StopIteration as end:
                values[number] = end.value
            except Exception as error:
                values[number] = error
        every = iter(train_all([training for group in groups.values() for training in group]))
        trained = {number: list(islice(every, len(group))) for number, group in groups.items()}
    return [values[number] for number in range(len(runs))]


def _begun(
    begin: Callable[..., Trainings[Value]], arguments: Mapping[str, Any]
) -> Trainings[Value]:
    """The same, with errors of the arguments raised at the first step."""
    return (yield from begin(**arguments))


def train_all(trainings: Sequence[NetworkTraining]) -> list[TrainedNetwork | None]:
    """Train networks of equal shapes as batches, as large as they gain anything."""
    alike: dict[str, list[int]] = {}
    for number, training in enumerate(trainings):
        alike.setdefault(_shape(training), []).append(number)
    trained: dict[int, TrainedNetwork | None] = {}
    for numbers in alike.values():
        size = networks_at_once(trainings[numbers[0]])
        for start in range(0, len(numbers), size):
            batch = numbers[start : start + size]
            made = train_together([trainings[number] for number in batch])
            trained.update(zip(batch, made, strict=True))
    return [trained[number] for number in range(len(trainings))]


def _shape(training: NetworkTraining) -> str:
    """What networks of one batch have in common, as text."""
    objective = training.objective
    options = objective.options
    network = identify(objective.network)
    context = objective.problem.context
    method = options.optimizer, options.prompts, options.loss, objective.device.name
    return repr((network, context, method))
