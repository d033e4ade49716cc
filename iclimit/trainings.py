"""Ways of training: ridge regression, gradient flow, gradient descent and one pass of SGD.

They are data, as an `Experiment` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from iclimit.checks import check_arguments, check_finite
from iclimit.notation import Interval


@dataclass(frozen=True)
class Ridge:
    r"""Training by ridge regression.

    Parameters
    ----------
    ridge : float >= 0
        Ridge :math:`\lambda` of the penalty :math:`\frac nd \lambda \lVert\Gamma\rVert_F^2`; 0 is
        the least-norm solution.
    """

    ridge: float = 0.0

    def __post_init__(self) -> None:
        check_arguments(ridge=self.ridge)


@dataclass(frozen=True)
class Flow:
    r"""Training by gradient flow, the limit of small steps on all prompts.

    Parameters
    ----------
    time : float >= 0
        Training time, :math:`2\eta/d` for each step of rate :math:`\eta` on the mean squared
        error; inf is its end.
    ridge : float >= 0
        Weight decay, in the units of the ridge of `Ridge`.
    start_variance : float, 0 <= start_variance <= 1e9
        d times the variance of the entries of :math:`\Gamma` at the start; 0 starts at 0.

    Examples
    --------
    >>> from iclimit import Experiment, Flow, Problem
    >>> run = Experiment(Problem(24, 48, tasks=24), prompts=1152, training=Flow(time=2.0))
    >>> run.limit["time"]
    2.0
    """

    time: float
    ridge: float = 0.0
    start_variance: float = 0.0

    def __post_init__(self) -> None:
        check_arguments(**vars(self))

    @classmethod
    def of_steps(cls, *, steps: int, learning_rate: float, dim: int, **start: float) -> Flow:
        r"""The flow that small steps of gradient descent on all prompts follow.

        Parameters
        ----------
        steps : int >= 1
            Steps of full batches, which are epochs.
        learning_rate : float > 0
            On the mean squared error, in the units of this library; on half of it, half the rate.
        dim : int >= 1
            Dimension d of the inputs.
        **start
            ``ridge`` and ``start_variance``.

        Raises
        ------
        ValueError
            If a number is outside its range.

        Examples
        --------
        >>> from iclimit import Flow
        >>> Flow.of_steps(steps=400, learning_rate=0.5, dim=20)
        Flow(time=20.0, ridge=0.0, start_variance=0.0)
        """
        return cls(Descent(steps, learning_rate).time(dim), **start)


# Momentum of gradient descent.
_MOMENTA = Interval.parse("[0, 1)")


@dataclass(frozen=True)
class Descent:
    r"""Training by gradient descent on all prompts, in steps of any size.

    Parameters
    ----------
    steps : int >= 1
        Steps of full batches, which are epochs.
    learning_rate : float > 0
        On the mean squared error, in the units of this library.
    ridge : float >= 0
        Weight decay, in the units of the ridge of `Ridge`: a penalty
        :math:`\frac\lambda d \lVert\Gamma\rVert_F^2` beside the mean squared error.
    start_variance : float, 0 <= start_variance <= 1e9
        d times the variance of the entries of :math:`\Gamma` at the start; 0 starts at 0.
    momentum : float in [0, 1)
        Share of the last step that is added to the next one (Polyak's heavy ball, and SGD in
        PyTorch without dampening).

    Examples
    --------
    >>> from iclimit import Descent, Experiment, Problem
    >>> training = Descent(steps=40, learning_rate=0.5, momentum=0.5)
    >>> run = Experiment(Problem(20, 40, tasks=10), prompts=800, training=training)
    >>> round(run.limit["time"], 6)
    3.9
    """

    steps: int
    learning_rate: float
    ridge: float = 0.0
    start_variance: float = 0.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        numbers = dict(vars(self))
        momentum = numbers.pop("momentum")
        check_arguments(**numbers)
        check_finite("momentum", momentum)
        if momentum not in _MOMENTA:
            raise ValueError(f"momentum must be {_MOMENTA}, got {momentum!r}")

    def time(self, dim: int) -> float:
        r"""Time of the flow that starts like it: the rates of all steps times :math:`2/d`.

        With momentum m the rate of a step counts :math:`1 + m + m^2 + \dots` times, once for
        each step that is left.  It is the time of `Flow` that small steps take.

        Parameters
        ----------
        dim : int >= 1
            Dimension d of the inputs.
        """
        check_arguments(dim=dim)
        repeated = self.momentum * (1 - self.momentum**self.steps) / (1 - self.momentum)
        counted = (self.steps - repeated) / (1 - self.momentum)
        return 2 * self.learning_rate * counted / dim


@dataclass(frozen=True)
class SGD:
    r"""Training by one pass of stochastic gradient descent, from zero: no prompt is used twice.

    Parameters
    ----------
    learning_rate : float > 0, or tuple of floats
        On the mean squared error of a batch, in the units of this library; a tuple has one for
        each step.
    batch : int >= 1
        Prompts in a step; the prompts of a run are a multiple of it.

    Examples
    --------
    >>> from iclimit import SGD, Experiment, Problem
    >>> law = Problem(20, 40, tasks=10, noise_variance=0.1)
    >>> Experiment(law, prompts=800, training=SGD(0.1, batch=20)).training.steps(800)
    40
    """

    learning_rate: float | tuple[float, ...]
    batch: int = 1

    # There is no penalty.
    ridge: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        check_arguments(batch=self.batch)
        if np.ndim(self.learning_rate):
            rates = tuple(float(rate) for rate in np.ravel(self.learning_rate))
            object.__setattr__(self, "learning_rate", rates)
        for rate in np.ravel(self.learning_rate):
            check_arguments(learning_rate=float(rate))

    def steps(self, prompts: int) -> int:
        """Steps that so many prompts make.

        Raises
        ------
        ValueError
            If they are no multiple of the batch, or not as many steps as there are rates.
        """
        if prompts % self.batch:
            raise ValueError(
                f"prompts must be a multiple of the batch of {self.batch}, got {prompts}"
            )
        steps = prompts // self.batch
        if np.ndim(self.learning_rate) and len(np.ravel(self.learning_rate)) != steps:
            raise ValueError(
                f"learning_rate must be one number, or one for each of {steps} steps, got "
                f"{len(np.ravel(self.learning_rate))}"
            )
        return steps

    def rates(self, prompts: int) -> np.ndarray:
        """Learning rate of each step, shape (steps,)."""
        return np.broadcast_to(np.asarray(self.learning_rate, float), self.steps(prompts))


# Ways of training.
Training: TypeAlias = Ridge | Flow | Descent | SGD

# The usual one: the least-norm solution.
LEAST_NORM = Ridge()


# Keywords of a flow, and of any training.
OF_FLOW = ("ridge", "time", "start_variance")
OF_TRAINING = (*OF_FLOW, "learning_rate", "batch", "steps", "momentum")
# Keywords of training whose range its class checks.
BY_THEIR_CLASS = ("learning_rate", "steps", "momentum")


def training_of(stated: Mapping[str, Any]) -> Training:
    """Training from flat keywords: a flow with a time, descent with steps, SGD with a rate."""
    own = {name: stated[name] for name in OF_TRAINING if stated.get(name) is not None}
    if "steps" in own:
        return _descent(own)
    if own.get("momentum"):
        raise TypeError("momentum needs steps: only Descent has momentum")
    own.pop("momentum", None)
    if "learning_rate" in own:
        if own.keys() - {"learning_rate", "batch", "ridge"} or own.pop("ridge", 0.0):
            raise TypeError("learning_rate is of SGD, which has no ridge, time or start_variance")
        return SGD(**own)
    if own.get("batch", 1) != 1:
        raise TypeError("batch needs a learning_rate: only SGD has batches")
    own.pop("batch", None)
    if "time" in own:
        return Flow(**own)
    if own.get("start_variance"):
        raise TypeError("start_variance needs a time: only a flow depends on its start")
    return Ridge(own.get("ridge", 0.0))


def _descent(own: dict[str, Any]) -> Descent:
    """Gradient descent on all prompts, from the keywords of training that are stated."""
    if "learning_rate" not in own:
        raise TypeError("steps needs a learning_rate: they are of a Descent")
    if "time" in own or own.pop("batch", 1) != 1:
        raise TypeError("steps is of a Descent, which has no time or batch; SGD counts prompts")
    return Descent(**own)
