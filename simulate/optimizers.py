r"""Optimizers of trainings: Adam with a decay at the end, and L-BFGS.

Both can go on from a checkpoint, and end in the same weights as without the interruption.  Adam
keeps its two moments.  L-BFGS keeps the losses and gradients that it has seen: it runs again from
the start and takes those from memory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.optimize import minimize

from iclimit.simulate.arrays import Array, Backend, looks_every, to_host

Objective = Callable[[Array], tuple[Any, Array]]
"""From weights to the loss and its gradient."""

DECAY = (0.9, 0.98)
"""Adam's decay rates of the gradient's first and second moments, as in arXiv:2212.07677."""

TINY = 1e-30
"""Keeps Adam's quotient finite for weights that have had no gradient yet."""

FALL = 1e-10
"""L-BFGS has converged when an iteration lowers the loss by less than this fraction."""


@dataclass
class Run:
    """State of a training.

    Attributes
    ----------
    weights : array
        Current weights.
    snapshots : sequence of int
        Numbers of steps after which weights are kept, in ``kept``.
    kept : dict of int to array
    losses : list of float
        Losses before the steps, as far as they have been read.
    steps : int
        Steps taken.
    converged, interrupted : bool
        Whether the loss stopped falling, and whether Ctrl-C ended the training.
    unread : list of scalar arrays
        Losses that may still be on a GPU.
    first, second : array, optional
        Adam's mean gradient and mean squared gradient.
    plateau : int, optional
        Step at which Adam's learning rate begins to fall, once that is known.
    seen : list of (float, array)
        Losses and gradients that L-BFGS has computed.
    """

    weights: Array
    snapshots: Sequence[int]
    kept: dict[int, Array] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    steps: int = 0
    converged: bool = False
    interrupted: bool = False
    unread: list[Any] = field(default_factory=list)
    first: Array = None
    second: Array = None
    plateau: int | None = None
    seen: list[tuple[float, np.ndarray]] = field(default_factory=list)

    def read(self) -> None:
        """Copy new losses to the host; refuse a divergent one."""
        losses, self.unread = [float(loss) for loss in self.unread], []
        for loss in losses:
            if not math.isfinite(loss):
                raise ArithmeticError(
                    f"training diverged at step {len(self.losses)}: "
                    "try a smaller init_scale, learning_rate or clip"
                )
            self.losses.append(loss)

    def move(self, weights: Array) -> None:
        """Take a step."""
        self.weights, self.steps = weights, self.steps + 1
        if self.steps in self.snapshots:
            self.kept[self.steps] = weights


def run_adam(
    objective: Objective,
    run: Run,
    bar: Any,
    learning_rate: float,
    clip: float,
    patience: int,
    save: Callable[[], None] | None = None,
) -> None:
    """Adam; its rate is constant until the loss stops falling, and then goes to zero linearly.

    ``save`` is called after every step, with the state in ``run``.
    """
    xp = array_namespace(run.weights)
    if run.first is None:
        run.first, run.second = xp.zeros_like(run.weights), xp.zeros_like(run.weights)
    # glibc keeps freed memory only up to the size of the largest block ever freed.  Without this
    # line every step returns its arrays to the system and faults them in again, and takes 6.3 ms
    # instead of 4.2 for the default batch at N = D = 10.
    np.empty(2**22 - 2**10)
    try:
        while run.steps < (end := bar.total if run.plateau is None else 3 * run.plateau // 2):
            plateau = 2 * bar.total // 3 if run.plateau is None else run.plateau
            loss, gradient = objective(run.weights)
            run.unread.append(loss)
            if run.steps % looks_every(xp) == 0:
                run.read()
            norm = xp.sqrt(xp.sum(gradient**2))
            steep, one = norm > clip, xp.ones_like(norm)
            gradient = gradient * xp.where(steep, clip / xp.where(steep, norm, one), one)
            rate = learning_rate * min(1.0, (end - run.steps) / (end - plateau))
            step, run.first, run.second = adam_step(gradient, run.first, run.second, run.steps)
            run.move(run.weights - rate * step)
            bar.update()
            if run.steps % patience == 0:
                run.read()
                bar.set_postfix(loss=f"{np.mean(run.losses[-patience:]):.4g}", refresh=False)
                if run.steps < plateau and stalled(np.array(run.losses), patience):
                    run.plateau, run.converged = run.steps, True
                    bar.total = 3 * run.plateau // 2
            if save is not None:
                save()
    except KeyboardInterrupt:
        run.interrupted = True
    run.read()


def adam_step(
    gradient: Array, first: Array, second: Array, steps: int
) -> tuple[Array, Array, Array]:
    """Adam's step at learning rate 1 after a number of steps, and its two new moments."""
    first = DECAY[0] * first + (1 - DECAY[0]) * gradient
    second = DECAY[1] * second + (1 - DECAY[1]) * gradient**2
    factor = math.sqrt(1 - DECAY[1] ** (steps + 1)) / (1 - DECAY[0] ** (steps + 1))
    root = array_namespace(second).sqrt(second)
    return factor * (first / (root + TINY)), first, second


def stalled(losses: np.ndarray, patience: int) -> bool:
    """Whether the loss fell before, and no longer does."""
    recent = losses[-patience:]

    def higher(past: np.ndarray) -> bool:
        error = math.sqrt((np.var(past) + np.var(recent)) / patience)
        return bool(np.mean(past) - np.mean(recent) > 2 * error)

    return higher(losses[:patience]) and not higher(losses[-2 * patience : -patience])


def run_lbfgs(
    make_objective: Callable[[], Objective],
    run: Run,
    bar: Any,
    device: Backend,
    save: Callable[[], None] | None = None,
) -> None:
    """L-BFGS on an objective that is made here, so that Ctrl-C may interrupt that too.

    ``save`` is called after every iteration, with what has been seen in ``run``.
    """
    shape, repeated, known = run.weights.shape, len(run.seen), iter(list(run.seen))

    def keep(intermediate_result: Any) -> None:
        run.unread.append(intermediate_result.fun)
        run.read()
        # SciPy goes on to change x in place.
        run.move(device.asarray(intermediate_result.x.reshape(shape).copy()))
        bar.set_postfix(loss=f"{run.losses[-1]:.4g}", refresh=False)
        bar.update()
        if save is not None and len(run.seen) > repeated:
            save()

    try:
        objective = make_objective()

        def on_host(flat: np.ndarray) -> tuple[float, np.ndarray]:
            if (before := next(known, None)) is not None:
                return before
            loss, gradient = objective(device.asarray(flat.reshape(shape)))
            found = float(loss), to_host(gradient).reshape(-1)
            if save is not None:
                run.seen.append(found)
            return found

        start = to_host(run.weights).reshape(-1)
        run.unread.append(run.seen[0][0] if repeated else objective(run.weights)[0])
        run.read()
        result = minimize(
            on_host,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=keep,
            options={"maxiter": bar.total, "maxfun": math.inf, "ftol": FALL, "gtol": 0.0},
        )
        run.converged = bool(result.success)
    except KeyboardInterrupt:
        run.interrupted = True
