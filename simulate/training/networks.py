"""Training of networks in context, by Adam on fresh prompts or L-BFGS on fixed ones.

Prompts of a step depend on the seed and the number of the step only, so that a training that goes
on from a checkpoint ends in the same bits.
"""

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from iclimit.checks import (
    Seed,
    by_name,
    check_arguments,
    check_choice,
    check_flag,
    check_integers,
    given,
    parse_array,
)
from iclimit.losses import LAST_POSITION, AllPositions, Loss
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import (
    Array,
    Backend,
    get_backend,
    seed_sequence,
    seed_sequences,
    to_host,
)
from iclimit.simulate.models.linear_attention import LinearAttention
from iclimit.simulate.models.network import Network, Task, Weights, mean_of_blocks
from iclimit.simulate.models.stack import CausalNetwork
from iclimit.simulate.models.tokens import parse_question
from iclimit.simulate.models.transformer import Layer
from iclimit.simulate.prompts import Prompts, draw_prompts
from iclimit.simulate.prompts.sampling import fix_tasks
from iclimit.simulate.training.checkpoints import identify
from iclimit.simulate.training.loop import State, TrainingLoop
from iclimit.simulate.training.results import Training
from iclimit.simulate.training.rules import Adam, descend_lbfgs

SomeNetwork = TypeVar("SomeNetwork", bound=Network)

# Prompts and the labels of their queries, in blocks.
Blocks: TypeAlias = Iterator[tuple[Prompts, Array]]

# Prompts by default, for each optimizer.
BATCH = {"adam": 512, "lbfgs": 2**14}

# Most numbers in the inputs that go through a network at a time (16 MiB).
BLOCK_NUMBERS = 2**21

# Most numbers in an array between its layers (64 MiB), of which a network has dozens.
WIDE_NUMBERS = 2**23


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrainedNetwork(Training, Generic[SomeNetwork]):
    """A trained network, which can be asked like a function.

    Attributes
    ----------
    network : Network
        What was trained.
    weights : dict of ndarray
        Its weights.
    losses : ndarray (steps + 1,)
        Training losses before every step and after the last one, each over the prompts of its
        step; for L-BFGS over the fixed prompts.
    held_out : Estimate
        Mean squared error on fresh prompts of the law it was trained on, for labels without noise.
    null_loss : float
        That of predicting zero, on the same prompts.
    snapshots : dict
        Weights after the numbers of steps asked for.
    steps, ending, parameters
        See `iclimit.simulate.training.results.Training`.
    """

    network: SomeNetwork
    weights: dict[str, np.ndarray] = field(repr=False)
    losses: np.ndarray = field(repr=False)
    held_out: Estimate
    null_loss: float
    snapshots: dict[int, dict[str, np.ndarray]] = field(repr=False, default_factory=dict)

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""
        return self.network.dim

    @property
    def layers(self) -> list[Layer]:
        """Layers of linear attention in the order of application, of `LinearAttention` only."""
        if not isinstance(self.network, LinearAttention):
            raise AttributeError(f"layers are those of LinearAttention, not of {self.network!r}")
        return self.network.stack(self.weights)

    def __call__(self, inputs: ArrayLike, labels: ArrayLike, query: ArrayLike) -> np.ndarray:
        """Predictions (n,), in the form that ``iclimit.probe`` asks models in.

        Parameters
        ----------
        inputs : array (n, context, dim)
            Inputs of the context.
        labels : array (n, context)
            Their labels.
        query : array (n, dim)
            Inputs whose labels are predicted.

        Raises
        ------
        ValueError
            If an array has another shape, or entries that are no finite numbers.
        """
        prompts = parse_question(inputs, labels, query, self.dim)
        return self._asked(self.network.forward, prompts)

    def at_positions(self, inputs: ArrayLike, labels: ArrayLike) -> np.ndarray:
        """Predictions (n, tokens) of a causal network, as ``probe_positions`` asks for them.

        Parameters
        ----------
        inputs : array (n, tokens, dim)
            Inputs of sequences.
        labels : array (n, tokens)
            Their labels, of which each is predicted from those before it.

        Raises
        ------
        ValueError
            If an array has another shape, or entries that are no finite numbers.
        AttributeError
            If it is no `CausalNetwork`.
        """
        network = self.network
        if not isinstance(network, CausalNetwork):
            raise AttributeError(f"at_positions is of a CausalNetwork, not of {network!r}")
        x = parse_array("inputs", inputs, (None, None, self.dim))
        y = parse_array("labels", labels, x.shape[:2])
        prompts = parse_question(x[:, :-1], y[:, :-1], x[:, -1], self.dim)
        return self._asked(partial(network.answers, first=0), prompts)

    def _asked(self, answers: Callable[..., tuple[Array, Any]], prompts: Prompts) -> np.ndarray:
        """Answers to prompts, in blocks of bounded memory."""
        step = _block(self.network, prompts.inputs.shape[1])
        parts = []
        for start in range(0, len(prompts.query), step):
            parts.append(answers(self.weights, prompts[start : start + step])[0])
        return np.concatenate([to_host(part) for part in parts])


def train_network(
    network: SomeNetwork,
    problem: Problem | Task,
    *,
    optimizer: str = "adam",
    steps: int = 5000,
    batch: int | None = None,
    learning_rate: float = 0.003,
    clip: float = 1.0,
    patience: int | None = 100,
    warmup: int = 0,
    query_noise: bool = False,
    loss: Loss = LAST_POSITION,
    held_out: int = 20_000,
    snapshots: Collection[int] = (),
    rng: Seed,
    backend: str = "numpy",
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
) -> TrainedNetwork[SomeNetwork]:
    r"""Train a network on regression in context.

    The loss is the mean squared error on the query label, or over all positions of a sequence.

    Parameters
    ----------
    network : Network
        What to train, with the dimension of the problem.
    problem : Problem or another law of prompts
        What to train on.  A number of tasks is drawn once.
    optimizer : {"adam", "lbfgs"}
        Adam on fresh prompts in every step, or L-BFGS on one fixed set.
    steps : int >= 1
        Largest number of steps, or of iterations of L-BFGS.
    batch : int >= 1, optional
        Prompts per step, 512 by default; for "lbfgs" all prompts, 16,384 by default.
    learning_rate : float > 0
        Of Adam, after its warm-up and before its decay over the last third of the run.
    clip : float > 0
        For Adam: the gradient of all weights is scaled down to this norm if it is longer.
    patience : int >= 1, optional
        The learning rate of Adam begins to decay when the mean loss over this number of steps is
        not significantly below that over as many steps before, at the latest in the last third.
        With None the rate stays constant to the last step.
    warmup : int >= 0
        Steps over which the rate of Adam rises to its value, linearly from zero.
    query_noise : bool
        Whether the query labels of the training have noise, as those of the context.
    loss : LastPosition or AllPositions
        Errors on which labels are minimised.  That of all positions needs a `CausalNetwork`; the
        labels of the context have their noise there.
    held_out : int >= 2
        Fresh prompts of the same law that the error on the query label is measured on.
    snapshots : sequence of int >= 1
        Numbers of steps after which the weights are kept for later inspection; those that the
        training does not reach are left out.
    rng : int, SeedSequence or Generator
        Seed of initial weights and prompts.
    backend : {"numpy", "cupy"}
        Where to compute.
    checkpoint : path, optional
        File that holds the state, written every few seconds and at the end.  If it exists the
        training continues from there, and its result is the same as without the interruption.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainedNetwork
        What Ctrl-C leaves is returned too, marked as interrupted.

    Raises
    ------
    ValueError
        If an argument is outside its range, the dimensions of network and problem differ, the
        network has no answers at the positions of the loss, or the checkpoint is of another
        training.
    TypeError
        If network or problem is of another kind, or query_noise not True or False.
    RuntimeError
        If the backend is not available.
    OSError
        If the checkpoint cannot be written.
    ArithmeticError
        If the loss became infinite.

    Notes
    -----
    A training may end on a plateau, where the network has learned nothing or a part.
    ``converged`` only says that the loss stopped falling: `train_repeats` trains several seeds
    and counts those that failed.

    Examples
    --------
    A softmax head of any weights, whose optimum has the loss 2.93:

    >>> import iclimit
    >>> problem = iclimit.Problem(dim=5, context=10, scale=1)
    >>> run = iclimit.networks.train_network(
    ...     iclimit.softmax.MergedHeads(dim=5), problem, batch=256, learning_rate=0.01, rng=0
    ... )
    >>> print(run.held_out)
    2.898(40)
    >>> run.steps, run.converged
    (600, True)
    >>> drawn = iclimit.sample_prompts(problem, 3, rng=1)
    >>> run(drawn.inputs, drawn.labels, drawn.query).shape
    (3,)
    """
    check_choice("optimizer", optimizer, tuple(BATCH))
    snapshots = _parse_snapshots(snapshots)
    batch = BATCH[optimizer] if batch is None else batch
    settings = by_name(
        optimizer=optimizer,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        clip=clip,
        patience=patience,
        query_noise=query_noise,
        held_out=held_out,
        snapshots=snapshots,
    )
    if snapshots:
        # Checkpoints and files so far have the last snapshot under this name, too.
        settings["step"] = snapshots[-1]
    if warmup:  # those so far have none
        settings["warmup"] = warmup
    check_integers(least=0, warmup=warmup)
    check_arguments(
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        clip=clip,
        held_out=held_out,
        **given({"patience": patience}),
    )
    check_flag("query_noise", query_noise)
    _check_network(network, problem)
    if loss != LAST_POSITION:
        settings["loss"] = _parse_loss(loss, network, problem.context)
    device = get_backend(backend)
    root = seed_sequence(rng)
    weight_seed, prompt_seed, fresh_seed = seed_sequences(root, 3)
    if isinstance(problem, Problem):
        problem = fix_tasks(problem, root)
    identity = settings | {
        "network": identify(network),
        "problem": identify(problem),
        "seed": [str(weight_seed.entropy), list(weight_seed.spawn_key[:-1])],
        "backend": backend,
    }
    start = network.initial(np.random.default_rng(weight_seed))
    loop = TrainingLoop(
        State([device.asarray(network.pack(start))]),
        steps=steps,
        checkpoint=checkpoint,
        settings=identity,
        backend=device,
        snapshots=snapshots,
        progress=progress,
    )

    objective = _Objective(network, problem, device, prompt_seed, batch, query_noise, loss)
    with loop:
        if optimizer == "adam":
            rule = Adam(learning_rate, clip, patience, objective.bounds, warmup)
            loop.descend(objective.on_fresh, rule)
        else:
            descend_lbfgs(loop, objective.on_fixed(), objective.bounds)
    [vector] = loop.state.weights
    error, null_loss = _held_out(network, vector, objective.blocks(fresh_seed, held_out, False))
    return TrainedNetwork(
        network=network,
        weights=_named(network, vector),
        losses=loop.column("loss"),
        held_out=error,
        null_loss=null_loss,
        steps=loop.state.steps,
        ending=loop.ending,
        parameters=settings | {"problem": problem},
        snapshots={step: _named(network, vector) for step, [vector] in loop.kept.items()},
    )


def _parse_snapshots(snapshots: Collection[int]) -> list[int]:
    """Steps after which weights are kept."""
    for step in snapshots:
        check_integers(snapshots=step)
    return list(snapshots)


def _parse_loss(loss: Loss, network: Network, context: int) -> dict[str, Any]:
    """A loss of all positions as text and numbers, if the network answers there."""
    if not isinstance(loss, AllPositions):
        raise ValueError(f"loss must be LastPosition or AllPositions for networks, got {loss!r}")
    if not isinstance(network, CausalNetwork):
        raise ValueError(
            "loss must be LastPosition for a network without a causal mask, got "
            f"{loss!r}: a CausalNetwork answers at every position (tokens of pairs hold the label "
            "that is asked for)"
        )
    return {"first": loss.first, "shares": loss.shares(context).tolist()}


def _check_network(network: Network, problem: Problem | Task) -> None:
    """Raise an error unless a network can be trained on prompts of a law."""
    if not isinstance(network, Network):
        raise TypeError(f"network must be a Network, got {network!r}")
    if not isinstance(problem, (Problem, Task)):
        raise TypeError(f"problem must be a Problem or another law of prompts, got {problem!r}")
    if network.dim != problem.dim:
        raise ValueError(
            f"network must have the dimension of the problem, {problem.dim}, got {network.dim}"
        )


@dataclass(frozen=True)
class _Objective:
    """Mean squared error of a network on prompts of a law.

    Attributes
    ----------
    network : Network
        What is trained.
    problem : Problem or Task
        The law.
    device : Backend
        Where prompts are drawn.
    seed : SeedSequence
        Seed of the prompts that are fixed, and of those of each step.
    batch : int
        How many there are.
    query_noise : bool
        Whether the labels of the queries have noise.
    loss : Loss
        Errors on which labels are minimised.
    """

    network: Network
    problem: Problem | Task
    device: Backend
    seed: np.random.SeedSequence
    batch: int
    query_noise: bool
    loss: Loss = LAST_POSITION

    @property
    def bounds(self) -> tuple[Array, Array] | None:
        """Least and largest values of the weights."""
        if not self.network.bounds:
            return None
        lower, upper = self.network.bounds
        return self.device.asarray(lower), self.device.asarray(upper)

    def blocks(self, seed: np.random.SeedSequence, count: int, noisy: bool) -> Blocks:
        """Prompts in blocks of bounded memory, with the labels of their queries."""
        problem = self.problem
        draw = partial(draw_prompts, problem) if isinstance(problem, Problem) else problem.draw
        generator = self.device.generator(seed)
        size = _block(self.network, problem.context)
        for first in range(0, count, size):
            prompts = draw(self.device, generator, min(size, count - first))
            yield prompts, prompts.query_label if noisy else prompts.target

    def on_fresh(self, step: int, weights: list[Array]) -> tuple[Array, list[Array]]:
        """Loss on the prompts of a step, and its gradient."""
        key = (*self.seed.spawn_key, step)
        seed = np.random.SeedSequence(self.seed.entropy, spawn_key=key)
        fresh = self.blocks(seed, self.batch, self.query_noise)
        own = self.network.unpack(weights[0])
        return self._packed(*self.mean_loss(own, fresh))

    def on_fixed(self) -> Callable[[list[Array]], tuple[Array, list[Array]]]:
        """Loss on fixed prompts, and its gradient."""
        fixed = self.blocks(self.seed, self.batch, self.query_noise)
        loss = self.fixed_loss(fixed)
        return lambda weights: self._packed(*loss(self.network.unpack(weights[0])))

    def mean_loss(self, weights: Weights, prompts: Blocks) -> tuple[Array, Weights]:
        """Loss and gradient on prompts in blocks."""
        if not isinstance(self.loss, AllPositions) or not isinstance(self.network, CausalNetwork):
            return self.network.mean_loss(weights, prompts, self.batch)
        at_positions = partial(self.network.loss_at_positions, loss=self.loss)
        return mean_of_blocks(at_positions, weights, prompts, self.batch)

    def fixed_loss(self, prompts: Blocks) -> Callable[[Weights], tuple[Array, Weights]]:
        """Loss and gradient as a function of the weights, on prompts that stay the same."""
        if not isinstance(self.loss, AllPositions):
            return self.network.fixed_loss(prompts, self.batch)
        kept = list(prompts)
        return lambda weights: self.mean_loss(weights, iter(kept))

    def _packed(self, loss: Array, gradients: Weights) -> tuple[Array, list[Array]]:
        return loss, [self.network.pack(gradients)]


def _named(network: Network, vector: Array) -> dict[str, np.ndarray]:
    """Weights by name on the host."""
    return {name: to_host(weight) for name, weight in network.unpack(vector).items()}


def _held_out(network: Network, vector: Array, blocks: Blocks) -> tuple[Estimate, float]:
    """Loss on fresh prompts, and that of predicting zero."""
    weights = network.unpack(vector)
    errors = []
    nulls = []
    with np.errstate(over="ignore", invalid="ignore"):
        for prompts, target in blocks:
            predictions, _ = network.forward(weights, prompts)
            errors.append(to_host((predictions - target) ** 2))
            nulls.append(to_host(target**2))
    return Estimate.of(np.concatenate(errors), keep=False), float(np.mean(np.concatenate(nulls)))


def _block(network: Network, context: int) -> int:
    """Prompts that go through a network at a time."""
    tokens = context + 1
    # Each token has rows of scores, and at every layer as many numbers as a weight has rows.
    widest = max(tokens, *(side for shape in network.shapes.values() for side in shape))
    inputs = BLOCK_NUMBERS // (tokens * (network.dim + 1))
    return max(1, min(inputs, WIDE_NUMBERS // (tokens * widest)))
