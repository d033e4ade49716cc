"""Results of trainings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.drawing import COLOURS, Axes
from iclimit.results import Ending, Result
from iclimit.simulate.arrays import to_host
from iclimit.simulate.training.loop import TrainingLoop

# Measures that are losses on fresh prompts, and what they are called in a figure.
LABELS = {
    "icl": "random tasks",
    "iwl": "shared task, noise as labels",
    "held_out": "held out, mean",
    "median": "held out, median",
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Training(Result):
    """What every training says of itself.

    Attributes
    ----------
    steps : int
        Steps taken.
    ending : Ending
        How the training ended, with advice.
    parameters : dict
        The settings.
    """

    steps: int
    ending: Ending
    parameters: dict[str, Any] = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether the loss stopped falling before the steps ran out."""
        return self.ending.converged

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the training."""
        return self.ending.interrupted


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrainingCurves(Training):
    """Losses along trainings side by side.

    Attributes
    ----------
    recorded_at : ndarray (n,)
        Numbers of steps taken before each record.
    times : ndarray (n,)
        Times of the records, in the units that the training says.
    losses : ndarray (repeats, n)
        Training losses, over the prompts of the step that follows.
    measures : dict of ndarray (repeats, n, ...)
        What else was recorded, on fresh prompts or of the weights.
    weights : list of ndarray (repeats, ...)
        Weights after the last step.
    steps, ending, parameters
        See `Training`.
    """

    recorded_at: np.ndarray
    times: np.ndarray = field(repr=False)
    losses: np.ndarray
    measures: dict[str, np.ndarray]
    weights: list[np.ndarray] = field(repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each record of each training, with the measures that are numbers."""
        named = {f"{k}_loss": v for k, v in self.measures.items() if v.ndim == 2}
        named = {"loss": self.losses, **named}
        return [
            {"repeat": repeat, "step": int(step)}
            | {name: float(values[repeat, k]) for name, values in named.items()}
            for repeat in range(len(self.losses))
            for k, step in enumerate(self.recorded_at)
        ]

    def draw(
        self, ax: Axes, *, color: str | None = None, linewidth: float = 1.2, **line: Any
    ) -> None:
        """Draw the training losses and those on fresh prompts, over the steps."""
        named = {LABELS[k]: v for k, v in self.measures.items() if k in LABELS}
        for (name, losses), colour in zip(
            {"training": self.losses, **named}.items(), COLOURS, strict=False
        ):
            drawn = ax.plot(
                self.recorded_at, losses.T, color=color or colour, linewidth=linewidth, **line
            )
            drawn[0].set_label(name)
        ax.set(xlabel="step", ylabel="loss")


def curves_of(
    loop: TrainingLoop, *, measures: Sequence[str], time_step: float, parameters: dict[str, Any]
) -> TrainingCurves:
    """What a loop has recorded; a step takes so much time."""
    recorded_at = np.array([int(record["steps"]) for record in loop.records], dtype=int)
    return TrainingCurves(
        recorded_at=recorded_at,
        times=time_step * recorded_at,
        losses=loop.column("loss"),
        measures={name: loop.column(name) for name in measures},
        weights=[to_host(array) for array in loop.state.weights],
        steps=loop.state.steps,
        ending=loop.ending,
        parameters=parameters,
    )
