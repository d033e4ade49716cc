r"""Steps of trainings: gradient descent, Adam with a decay at the end, and L-BFGS.

All go on from a checkpoint, and end in the same weights as without the interruption.  Adam keeps
its two moments.  L-BFGS keeps the losses and gradients that it has computed: it runs again from
the start and takes those from memory.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import array_namespace
from scipy.optimize import Bounds, OptimizeResult, minimize

from iclimit.simulate.arrays import Array, to_host
from iclimit.simulate.training.loop import State, TrainingLoop

# Adam's decay rates of the gradient's first and second moments, as in arXiv:2212.07677.
DECAY = (0.9, 0.98)

# Keeps Adam's quotient finite for weights that have had no gradient yet.
TINY = 1e-30

# L-BFGS has converged when an iteration lowers the loss by less than this fraction.
FALL = 1e-10


@dataclass(frozen=True)
class GradientDescent:
    """Steps of a constant length along the gradient, with a share of the last step."""

    rate: float
    momentum: float = 0.0

    def last_step(self, loop: TrainingLoop) -> float:
        """All steps are taken."""
        return loop.steps

    def step(self, loop: TrainingLoop, gradients: list[Array]) -> State:
        """State after a step."""
        state = loop.state
        memory = dict(state.memory)
        if self.momentum:
            last = memory.get("velocity", [0.0] * len(gradients))
            pairs = zip(last, gradients, strict=True)
            gradients = [self.momentum * velocity + gradient for velocity, gradient in pairs]
            memory["velocity"] = gradients
        pairs = zip(state.weights, gradients, strict=True)
        weights = [weight - self.rate * gradient for weight, gradient in pairs]
        return replace(state, weights=weights, steps=state.steps + 1, memory=memory)


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, arXiv:1412.6980), by default at a constant rate.

    Parameters
    ----------
    rate : float > 0
        Learning rate.
    clip : float > 0
        Largest norm of the gradient of all weights; a longer one is scaled down.
    patience : int >= 1, optional
        The rate goes to zero linearly, over half as many steps as were taken before, once the mean
        loss over so many steps is not significantly below that over as many before, or with the
        last third of the steps.
    bounds : pair of array, optional
        Least and largest values of the weights; a step that leads beyond ends there.
    warmup : int >= 0
        Steps over which the rate rises to its value, linearly from zero.
    """

    rate: float
    clip: float = math.inf
    patience: int | None = None
    bounds: tuple[Array, Array] | None = None
    warmup: int = 0

    def last_step(self, loop: TrainingLoop) -> float:
        """The last step, which a plateau brings forward."""
        plateau = loop.state.memory.get("plateau")
        return loop.steps if plateau is None else 3 * plateau // 2

    def step(self, loop: TrainingLoop, gradients: list[Array]) -> State:
        """State after a step."""
        state = loop.state
        xp = array_namespace(*gradients)
        steps = state.steps
        memory = dict(state.memory)
        end = self.last_step(loop)
        plateau = memory.get("plateau") or 2 * end // 3
        rate = self.rate
        if self.patience is not None:
            rate = rate * min(1.0, (end - steps) / (end - plateau))
        if steps < self.warmup:
            rate = rate * (steps + 1) / self.warmup
        gradients = self._clipped(gradients)
        scale = math.sqrt(1 - DECAY[1] ** (steps + 1)) / (1 - DECAY[0] ** (steps + 1))
        zeros = [xp.zeros_like(gradient) for gradient in gradients]
        first = memory.get("first", zeros)
        second = memory.get("second", zeros)
        first = [
            DECAY[0] * mean + (1 - DECAY[0]) * gradient
            for mean, gradient in zip(first, gradients, strict=True)
        ]
        second = [
            DECAY[1] * square + (1 - DECAY[1]) * gradient**2
            for square, gradient in zip(second, gradients, strict=True)
        ]
        memory |= {"first": first, "second": second}
        weights = [
            self._bounded(weight - rate * (scale * (mean / (xp.sqrt(square) + TINY))))
            for weight, mean, square in zip(state.weights, first, second, strict=True)
        ]
        steps = steps + 1
        converged = state.converged
        if self._stalls(loop, steps) and steps < plateau:
            memory["plateau"] = steps
            converged = True
            loop.bar.total = 3 * steps // 2
        return State(weights, steps, memory, converged)

    def _clipped(self, gradients: list[Array]) -> list[Array]:
        """Gradients of a norm that is at most the largest allowed one."""
        if self.clip == math.inf:
            return gradients
        xp = array_namespace(*gradients)
        norm = xp.sqrt(sum(xp.sum(gradient**2) for gradient in gradients))
        steep = norm > self.clip
        unchanged = xp.ones_like(norm)
        factor = xp.where(steep, self.clip / xp.where(steep, norm, unchanged), unchanged)
        return [gradient * factor for gradient in gradients]

    def _bounded(self, weight: Array) -> Array:
        return array_namespace(weight).clip(weight, *self.bounds) if self.bounds else weight

    def _stalls(self, loop: TrainingLoop, steps: int) -> bool:
        """Show the loss from time to time, and say whether it has ceased to fall."""
        if self.patience is None or steps % self.patience:
            return False
        loop.read()
        losses = loop.column("loss")
        loop.bar.set_postfix(loss=f"{np.mean(losses[-self.patience :]):.4g}", refresh=False)
        return stalled(losses, self.patience)


def stalled(losses: np.ndarray, patience: int) -> bool:
    """Whether the loss fell before, and no longer does."""
    recent = losses[-patience:]

    def higher(past: np.ndarray) -> bool:
        error = math.sqrt((np.var(past) + np.var(recent)) / patience)
        return bool(np.mean(past) - np.mean(recent) > 2 * error)

    return higher(losses[:patience]) and not higher(losses[-2 * patience : -patience])


def descend_lbfgs(
    loop: TrainingLoop,
    objective: Callable[[list[Array]], tuple[Array, list[Array]]],
    bounds: tuple[Array, Array] | None = None,
) -> None:
    """L-BFGS of SciPy on the loss and gradient of one array of weights."""
    [start] = loop.start.weights
    backend = loop.backend
    memory = {name: list(loop.state.memory.get(name, [])) for name in ("losses", "gradients")}
    known = zip(*(tuple(entries) for entries in memory.values()), strict=True)
    loop.restart()

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value = next(known, None)
        if value is None:
            loss, [gradient] = objective([backend.asarray(flat.reshape(start.shape))])
            value = float(loss), to_host(gradient).reshape(-1)
            if loop.path is not None:
                for name, entry in zip(memory, value, strict=True):
                    memory[name].append(entry)
        if not loop.records:
            loop.note({"loss": np.asarray(value[0])})
        return float(value[0]), to_host(value[1])

    def after(intermediate_result: OptimizeResult) -> None:
        weights = backend.asarray(intermediate_result.x.reshape(start.shape).copy())
        loop.advance(State([weights], loop.state.steps + 1, memory))
        loop.note({"loss": np.asarray(intermediate_result.fun)})
        loop.bar.set_postfix(loss=f"{intermediate_result.fun:.4g}", refresh=False)

    # Overflow of a divergent training is an error of its own.
    with np.errstate(over="ignore", invalid="ignore"):
        result = minimize(
            evaluate,
            to_host(start).reshape(-1),
            jac=True,
            method="L-BFGS-B",
            callback=after,
            bounds=None if bounds is None else Bounds(*map(to_host, bounds)),
            options={"maxiter": loop.steps, "maxfun": math.inf, "ftol": FALL, "gtol": 0.0},
        )
    loop.state = replace(loop.state, converged=bool(result.success))
