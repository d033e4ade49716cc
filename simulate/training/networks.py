"""Training of networks in context, by Adam on fresh prompts or L-BFGS on fixed ones.

Prompts of a step depend on the seed and the number of the step only, so that a training that goes
on from a checkpoint ends in the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from inspect import signature
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
        step = most_prompts(self.network, prompts.inputs.shape[1])
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
    options = Options(
        optimizer=optimizer,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        clip=clip,
        patience=patience,
        warmup=warmup,
        query_noise=query_noise,
        loss=loss,
        held_out=held_out,
        snapshots=snapshots,
        backend=backend,
        progress=progress,
    )
    return begin_training(network, problem, options, rng, checkpoint).run()


@dataclass(frozen=True)
class Options:
    """Arguments of `train_network` besides network, problem, seed and checkpoint."""

    optimizer: str
    steps: int
    batch: int | None
    learning_rate: float
    clip: float
    patience: int | None
    warmup: int
    query_noise: bool
    loss: Loss
    held_out: int
    snapshots: Collection[int]
    backend: str
    progress: bool

    @classmethod
    def of(cls, **settings: Any) -> Options:
        """The given ones, with the defaults of `train_network` for the others."""
        stated = signature(train_network).bind_partial(**settings)
        stated.apply_defaults()
        return cls(**{option.name: stated.arguments[option.name] for option in fields(cls)})

    @cached_property
    def prompts(self) -> int:
        """Prompts of a step."""
        return BATCH[self.optimizer] if self.batch is None else self.batch

    def check(self) -> None:
        """Raise an error unless all are in their ranges."""
        check_choice("optimizer", self.optimizer, tuple(BATCH))
        for step in self.snapshots:
            check_integers(snapshots=step)
        check_integers(least=0, warmup=self.warmup)
        check_arguments(
            steps=self.steps,
            batch=self.prompts,
            learning_rate=self.learning_rate,
            clip=self.clip,
            held_out=self.held_out,
            **given({"patience": self.patience}),
        )
        check_flag("query_noise", self.query_noise)

    def record(self) -> dict[str, Any]:
        """The settings by name, as results and checkpoints have them."""
        settings = by_name(
            optimizer=self.optimizer,
            steps=self.steps,
            batch=self.prompts,
            learning_rate=self.learning_rate,
            clip=self.clip,
            patience=self.patience,
            query_noise=self.query_noise,
            held_out=self.held_out,
            snapshots=list(self.snapshots),
        )
        if settings["snapshots"]:
            # Checkpoints and files so far have the last snapshot under this name, too.
            settings["step"] = settings["snapshots"][-1]
        if self.warmup:  # those so far have none
            settings["warmup"] = self.warmup
        return settings


def begin_training(
    network: SomeNetwork,
    problem: Problem | Task,
    options: Options,
    rng: Seed,
    checkpoint: str | os.PathLike | None,
) -> NetworkTraining[SomeNetwork]:
    """Check everything, and go to the start of a training or to where its checkpoint is."""
    options.check()
    settings = options.record()
    _check_network(network, problem)
    if options.loss != LAST_POSITION:
        settings["loss"] = _parse_loss(options.loss, network, problem.context)
    device = get_backend(options.backend)
    root = seed_sequence(rng)
    weight_seed, prompt_seed, fresh_seed = seed_sequences(root, 3)
    if isinstance(problem, Problem):
        problem = fix_tasks(problem, root)
    identity = settings | {
        "network": identify(network),
        "problem": identify(problem),
        "seed": [str(weight_seed.entropy), list(weight_seed.spawn_key[:-1])],
        "backend": options.backend,
    }
    start = network.initial(np.random.default_rng(weight_seed))
    loop = TrainingLoop(
        State([device.asarray(network.pack(start))]),
        steps=options.steps,
        checkpoint=checkpoint,
        settings=identity,
        backend=device,
        snapshots=settings["snapshots"],
        progress=options.progress,
    )
    objective = Objective(network, problem, device, prompt_seed, options)
    return NetworkTraining(objective, loop, fresh_seed, settings | {"problem": problem})


@dataclass(frozen=True, eq=False)
class NetworkTraining(Generic[SomeNetwork]):
    """A training of a network from its start or a checkpoint on.

    Attributes
    ----------
    objective : Objective
        What is minimised.
    loop : TrainingLoop
        Where it stands.
    fresh_seed : SeedSequence
        Seed of the prompts that the trained network is measured on.
    parameters : dict
        Settings of the result.
    """

    objective: Objective[SomeNetwork]
    loop: TrainingLoop
    fresh_seed: np.random.SeedSequence
    parameters: dict[str, Any]

    @cached_property
    def rule(self) -> Adam:
        """Steps of Adam."""
        options = self.objective.options
        return Adam(
            options.learning_rate,
            options.clip,
            options.patience,
            self.objective.bounds,
            options.warmup,
        )

    def run(self) -> TrainedNetwork[SomeNetwork]:
        """Train to the end, or to Ctrl-C."""
        objective = self.objective
        with self.loop:
            if objective.options.optimizer == "adam":
                self.loop.descend(objective.on_fresh, self.rule)
            else:
                descend_lbfgs(self.loop, objective.on_fixed(), objective.bounds)
        return self.result()

    def result(self) -> TrainedNetwork[SomeNetwork]:
        """The network where its training stands, measured on fresh prompts."""
        objective = self.objective
        network = objective.network
        loop = self.loop
        [vector] = loop.state.weights
        fresh = objective.blocks(self.fresh_seed, objective.options.held_out, False)
        error, null_loss = _held_out(network, vector, fresh)
        return TrainedNetwork(
            network=network,
            weights=_named(network, vector),
            losses=loop.column("loss"),
            held_out=error,
            null_loss=null_loss,
            steps=loop.state.steps,
            ending=loop.ending,
            parameters=self.parameters,
            snapshots={step: _named(network, kept) for step, [kept] in loop.kept.items()},
        )


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


@dataclass(frozen=True, eq=False)
class Objective(Generic[SomeNetwork]):
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
    options : Options
        How many there are, what their labels are, and errors on which of them are minimised.
    """

    network: SomeNetwork
    problem: Problem | Task
    device: Backend
    seed: np.random.SeedSequence
    options: Options

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
        size = most_prompts(self.network, problem.context)
        for first in range(0, count, size):
            prompts = draw(self.device, generator, min(size, count - first))
            yield prompts, prompts.query_label if noisy else prompts.target

    def fresh(self, step: int) -> Blocks:
        """Prompts of a step."""
        key = (*self.seed.spawn_key, step)
        seed = np.random.SeedSequence(self.seed.entropy, spawn_key=key)
        return self.blocks(seed, self.options.prompts, self.options.query_noise)

    def on_fresh(self, step: int, weights: list[Array]) -> tuple[Array, list[Array]]:
        """Loss on the prompts of a step, and its gradient."""
        own = self.network.unpack(weights[0])
        return self._packed(*self.mean_loss(own, self.fresh(step)))

    def on_fixed(self) -> Callable[[list[Array]], tuple[Array, list[Array]]]:
        """Loss on fixed prompts, and its gradient."""
        fixed = self.blocks(self.seed, self.options.prompts, self.options.query_noise)
        loss = self.fixed_loss(fixed)
        return lambda weights: self._packed(*loss(self.network.unpack(weights[0])))

    @property
    def loss_and_gradient(self) -> Callable[[Weights, Prompts, Array], tuple[Array, Weights]]:
        """Loss and gradient as a function of weights, prompts and the labels of their queries."""
        loss = self.options.loss
        if isinstance(loss, AllPositions) and isinstance(self.network, CausalNetwork):
            return partial(self.network.loss_at_positions, loss=loss)
        return self.network.loss_and_gradient

    def mean_loss(self, weights: Weights, prompts: Blocks) -> tuple[Array, Weights]:
        """Loss and gradient on prompts in blocks."""
        return mean_of_blocks(self.loss_and_gradient, weights, prompts, self.options.prompts)

    def fixed_loss(self, prompts: Blocks) -> Callable[[Weights], tuple[Array, Weights]]:
        """Loss and gradient as a function of the weights, on prompts that stay the same."""
        if not isinstance(self.options.loss, AllPositions):
            return self.network.fixed_loss(prompts, self.options.prompts)
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


def most_prompts(network: Network, context: int) -> int:
    """Prompts that go through a network at a time."""
    inputs = BLOCK_NUMBERS // ((context + 1) * (network.dim + 1))
    return max(1, min(inputs, WIDE_NUMBERS // numbers_of_a_prompt(network, context)))


def numbers_of_a_prompt(network: Network, context: int) -> int:
    """Most numbers of a prompt between the layers of a network."""
    tokens = context + 1
    # Each token has rows of scores, and at every layer as many numbers as a weight has rows.
    return tokens * max(tokens, *(side for shape in network.shapes.values() for side in shape))
