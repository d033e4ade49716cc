"""Training of networks in context, by Adam on fresh prompts or L-BFGS on fixed ones.

Prompts of a step depend on the seed and the number of the step only, so that a training that goes
on from a checkpoint ends in the same bits.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.checks import check_arguments, check_choice, check_flags, parse_array
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, Backend, get_backend, seed_sequences, to_host
from iclimit.simulate.checkpoints import check_checkpoint
from iclimit.simulate.networks.network import Examples, Network, Task
from iclimit.simulate.networks.saved_state import SavedState, identify, load_state
from iclimit.simulate.optimizers import Objective, Run, run_adam, run_lbfgs
from iclimit.simulate.probing.problem import Problem

BATCH = {"adam": 512, "lbfgs": 2**14}
"""Prompts by default, for each optimizer."""

BLOCK_NUMBERS = 2**21
"""Most numbers in the inputs that go through a network at a time (16 MiB)."""

WIDE_NUMBERS = 2**23
"""Most numbers in an array between its layers (64 MiB), of which a network has dozens."""

NOT_SETTINGS = ("network", "problem", "rng", "backend", "checkpoint", "progress")
"""Arguments of `train_network` that are no settings of its result."""


@dataclass(frozen=True, eq=False, repr=False)
class TrainedNetwork(Result):
    """A trained network, which can be asked like a function.

    Attributes
    ----------
    network : Network
        What was trained.
    weights : dict of ndarray
        Its weights.
    losses : ndarray
        Training loss before every step; for L-BFGS after the last one too.
    held_out : Estimate
        Mean squared error on fresh prompts of the law it was trained on, for labels without noise.
    null_loss : float
        That of predicting zero, on the same prompts.
    steps : int
        Steps taken.
    converged : bool
        Whether the loss stopped falling before the steps ran out.
    interrupted : bool
        Whether Ctrl-C ended the training.
    parameters : dict
        The settings.
    """

    network: Network
    weights: dict[str, np.ndarray] = field(repr=False)
    losses: np.ndarray = field(repr=False)
    held_out: Estimate
    null_loss: float
    steps: int
    converged: bool
    interrupted: bool
    parameters: dict[str, Any] = field(repr=False)

    def __call__(self, inputs: Any, labels: Any, query: Any) -> np.ndarray:
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
        x = parse_array("inputs", inputs, (None, None, self.network.dim))
        y = parse_array("labels", labels, x.shape[:2])
        asked = SimpleNamespace(
            inputs=x, labels=y, query=parse_array("query", query, x.shape[::2])
        )
        step = _block(self.network, asked.inputs.shape[1])
        parts = [
            SimpleNamespace(
                **{name: each[start : start + step] for name, each in vars(asked).items()}
            )
            for start in range(0, len(asked.query), step)
        ]
        return np.concatenate(
            [to_host(self.network.forward(self.weights, part)[0]) for part in parts]
        )


def train_network(
    network: Network,
    problem: Task,
    *,
    optimizer: str = "adam",
    steps: int = 5000,
    batch: int | None = None,
    learning_rate: float = 0.003,
    clip: float = 1.0,
    patience: int = 100,
    query_noise: bool = False,
    held_out: int = 20_000,
    rng: Any,
    backend: str = "numpy",
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
) -> TrainedNetwork:
    r"""Train a network on regression in context.

    The loss is the mean squared error on the query label.

    Parameters
    ----------
    network : Network
        What to train, with the dimension of the problem.
    problem : Problem or another law of prompts
        What to train on.  The tasks are the problem's pretraining tasks, if it has any.
    optimizer : {"adam", "lbfgs"}
        Adam on fresh prompts in every step, or L-BFGS on one fixed set.
    steps : int >= 1
        Most steps, or iterations of L-BFGS.
    batch : int >= 1, optional
        Prompts per step, 512 by default; for "lbfgs" all prompts, 16,384 by default.
    learning_rate : float > 0
        Of Adam, before its decay over the last third of the run.
    clip : float > 0
        Largest norm of the gradient of all weights for Adam; a longer one is scaled down.
    patience : int >= 1
        The decay of Adam's learning rate begins when the mean loss over so many steps is not
        significantly below the mean over as many before, or with the last third of ``steps``.
    query_noise : bool
        Whether the query labels of the training have noise, as those of the context.
    held_out : int >= 2
        Fresh prompts of the same law that the loss is measured on.
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
        If an argument is outside its range, the dimensions of network and problem differ, or the
        checkpoint is of another training.
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
    >>> problem = iclimit.Problem(context=10, dim=5)
    >>> run = iclimit.networks.train_network(
    ...     iclimit.softmax.MergedHeads(dim=5), problem, batch=256, learning_rate=0.01, rng=0
    ... )
    >>> print(run.held_out)
    2.898(40)
    >>> run.steps, run.converged
    (600, True)
    >>> drawn = problem.sample(3, rng=1)
    >>> run(drawn.inputs, drawn.labels, drawn.query).shape
    (3,)
    """
    check_choice("optimizer", optimizer, tuple(BATCH))
    batch = BATCH[optimizer] if batch is None else batch
    settings = {name: value for name, value in locals().items() if name not in NOT_SETTINGS}
    numbers = ("steps", "batch", "learning_rate", "clip", "patience", "held_out")
    check_arguments(**{name: settings[name] for name in numbers})
    check_flags(query_noise=query_noise)
    if not isinstance(network, Network):
        raise TypeError(f"network must be a Network, got {network!r}")
    if not isinstance(problem, Task):
        raise TypeError(f"problem must be a Problem or another law of prompts, got {problem!r}")
    if network.dim != problem.dim:
        raise ValueError(
            f"network must have the dimension of the problem, {problem.dim}, got {network.dim}"
        )
    device = get_backend(backend)
    weight_seed, prompt_seed, fresh_seed = seed_sequences(rng, 3)
    identity = settings | {
        "network": identify(network),
        "problem": identify(problem),
        "seed": [str(weight_seed.entropy), list(weight_seed.spawn_key[:-1])],
        "backend": backend,
    }
    path = None if checkpoint is None else Path(checkpoint)
    start = network.pack(network.initial(np.random.default_rng(weight_seed)))
    run = Run(device.asarray(start), ())
    if path is not None:
        check_checkpoint(path)
        if path.exists():
            load_state(path, identity, run, device)
    saving = None if path is None else SavedState(path, identity, run)
    objective = _Objective(device, network, problem, run, prompt_seed, batch, query_noise)
    bar = tqdm(total=steps, initial=run.steps, disable=not progress, unit="step", desc="training")
    # Overflow of a divergent training is an error of its own.
    with bar, np.errstate(over="ignore", invalid="ignore"):
        if optimizer == "adam":
            run_adam(objective.fresh, run, bar, learning_rate, clip, patience, saving)
        else:
            run_lbfgs(objective.fixed, run, bar, device, saving)
        if saving is not None and not run.interrupted:
            saving.write()
        loss, null_loss = _held_out(device, network, problem, run.weights, held_out, fresh_seed)
    if not math.isfinite(loss.mean):
        raise ArithmeticError(f"training diverged in its last step, {run.steps}")
    weights = {name: to_host(each) for name, each in network.unpack(run.weights).items()}
    losses = np.array(run.losses)
    return TrainedNetwork(
        network,
        weights,
        losses,
        loss,
        null_loss,
        run.steps,
        run.converged,
        run.interrupted,
        settings | {"problem": problem},
    )


@dataclass(frozen=True)
class _Objective:
    """Loss of a vector of weights and its gradient."""

    device: Backend
    network: Network
    problem: Task
    run: Run
    seed: np.random.SeedSequence
    batch: int
    query_noise: bool

    def blocks(self, step: int) -> list[tuple[Examples, Array]]:
        """Prompts of a step and the labels of their queries, in blocks."""
        size, found = _block(self.network, self.problem.context), []
        key = (*self.seed.spawn_key, step)
        generator = self.device.generator(np.random.SeedSequence(self.seed.entropy, spawn_key=key))
        for start in range(0, self.batch, size):
            count = min(size, self.batch - start)
            prompts = _draw(self.problem)(self.device, generator, count)
            target = prompts.target
            if self.query_noise:
                noise = generator.standard_normal(count)
                target = target + self.device.xp.sqrt(prompts.noise_variance) * noise
            found.append((prompts, target))
        return found

    def on_blocks(self, vector: Array, blocks: list[tuple[Examples, Array]]) -> tuple[Any, Array]:
        """Loss and gradient on given prompts."""
        weights, loss, gradient = self.network.unpack(vector), 0.0, 0.0
        for prompts, target in blocks:
            part, parts = self.network.loss_and_gradient(weights, prompts, target)
            share = target.shape[0] / self.batch
            loss, gradient = loss + share * part, gradient + share * self.network.pack(parts)
        return loss, gradient

    def fresh(self, vector: Array) -> tuple[Any, Array]:
        """Loss and gradient on the prompts of the next step."""
        return self.on_blocks(vector, self.blocks(self.run.steps))

    def fixed(self) -> Objective:
        """The loss and its gradient on prompts that are drawn once."""
        blocks = self.blocks(0)
        return lambda vector: self.on_blocks(vector, blocks)


def _held_out(
    device: Backend,
    network: Network,
    problem: Task,
    vector: Array,
    count: int,
    seed: np.random.SeedSequence,
) -> tuple[Estimate, float]:
    """Loss on fresh prompts, and that of predicting zero."""
    generator, weights = device.generator(seed), network.unpack(vector)
    size = _block(network, problem.context)
    errors, nulls = [], []
    for start in range(0, count, size):
        prompts = _draw(problem)(device, generator, min(size, count - start))
        predictions, _ = network.forward(weights, prompts)
        errors.append(to_host((predictions - prompts.target) ** 2))
        nulls.append(to_host(prompts.target**2))
    return Estimate.of(np.concatenate(errors), keep=False), float(np.mean(np.concatenate(nulls)))


def _block(network: Network, context: int) -> int:
    """Prompts that go through a network at a time."""
    tokens = context + 1
    # Each token has rows of scores, and at every layer as many numbers as a weight has rows.
    widest = max(tokens, *(side for shape in network.shapes.values() for side in shape))
    inputs = BLOCK_NUMBERS // (tokens * (network.dim + 1))
    return max(1, min(inputs, WIDE_NUMBERS // (tokens * widest)))


def _draw(problem: Task) -> Callable[..., Examples]:
    """Draw prompts of a problem, with its pretraining tasks if it has any."""
    if isinstance(problem, Problem) and problem.tasks is not None:
        return partial(problem.draw, tasks="pretraining")
    return problem.draw
