"""The loop of all trainings: steps, records, checkpoints, progress and Ctrl-C.

What is recorded of a training has one meaning everywhere.  A loss is that before a step, over the
prompts of that step, every so many steps; the last one is that after the last step, over the
prompts of the step that would come next.  It is the mean squared error on the query labels of the
training, in the units of the labels and with their noise where they have any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeAlias

import numpy as np
from array_api_compat import array_namespace
from tqdm.auto import tqdm

from iclimit.checks import check_flag, check_integers, parse_array
from iclimit.results import Ending
from iclimit.simulate.arrays import Array, Backend, get_backend, looks_every, to_host
from iclimit.simulate.training.checkpoints import (
    check_checkpoint,
    load_checkpoint,
    save_checkpoint,
)
from iclimit.threads import one_blas_thread

# Least time between two checkpoints.
SAVE_SECONDS = 2.0

# The same, in units of the time that the last one took: at most 5 % of a training is writing.
SAVE_SHARE = 20

# A loss beyond it is infinite or not a number.
LARGEST = np.finfo(float).max

# Numbers by name; "loss" is the training loss, a number or an array (repeats,).
Record: TypeAlias = dict[str, Any]

# From the number of steps taken and the weights to the loss and its gradient.
Objective: TypeAlias = Callable[[int, list[Array]], tuple[Array, list[Array]]]


class UnstableTraining(ArithmeticError):
    """The loss grew without bound or never settled; ``curves`` holds what was recorded."""

    def __init__(self, message: str, curves: Any = None) -> None:
        super().__init__(message)
        self.curves = curves


@dataclass(frozen=True)
class State:
    """Where a training stands; replaced as a whole, so that a step is either taken or not.

    Attributes
    ----------
    weights : list of array
    steps : int
        Steps taken.
    memory : dict
        What the step rule goes on from.
    converged : bool
        Whether the loss stopped falling.
    """

    weights: list[Array]
    steps: int = 0
    memory: Mapping[str, Any] = field(default_factory=dict)
    converged: bool = False


class StepRule(Protocol):
    """How weights move along gradients."""

    def last_step(self, loop: TrainingLoop) -> float:
        """Number of steps after which the training ends."""

    def step(self, loop: TrainingLoop, gradients: list[Array]) -> State:
        """State after a step."""


@dataclass(eq=False)
class TrainingLoop:
    """Runs a training as a context, in which Ctrl-C ends it and keeps what there is.

    Parameters
    ----------
    start : State
        Where the training begins; its checkpoint goes before.
    steps : int
        Most steps.
    record : int
        Steps between records.
    bound : float
        A loss beyond it ends the training with `UnstableTraining`.
    checkpoint : path, optional
        File that the state is read from, if it exists, and written to.
    settings : mapping
        What identifies the training in the checkpoint.
    backend : Backend
        Where the weights are; NumPy by default.
    snapshots : collection of int
        Numbers of steps after which weights are kept.
    progress : bool
        Show a progress bar.
    title : str
        What it says.

    Attributes
    ----------
    state : State
    records : list of dict
        Numbers recorded, on the host.
    kept : dict of int to list of array
        Snapshots.
    interrupted : bool
        Whether Ctrl-C ended the training.
    """

    start: State
    steps: float = math.inf
    record: int = 1
    bound: float = LARGEST
    checkpoint: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    backend: Backend = field(default_factory=partial(get_backend, "numpy"))
    snapshots: Collection[int] = ()
    progress: bool = False
    title: str = "training"

    def __post_init__(self) -> None:
        self.state = self.start
        self.interrupted = False
        self.diverged = False
        self.records: list[Record] = []
        self.kept: dict[int, list[Array]] = {}
        self._unread: list[tuple[int, bool, Record]] = []
        self._due = -math.inf
        self.path = None if self.checkpoint is None else Path(self.checkpoint)
        if self.path is not None:
            check_checkpoint(self.path)
            if self.path.exists():
                self._load(self.path)
        self.bar = tqdm(
            initial=self.state.steps,
            total=None if self.steps == math.inf else self.steps,
            disable=not self.progress,
            unit="step",
            desc=self.title,
        )

    def __enter__(self) -> TrainingLoop:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None or kind is KeyboardInterrupt:
            self.close(interrupted=kind is KeyboardInterrupt)
        else:
            self.bar.close()
        return self.interrupted

    def close(self, *, interrupted: bool) -> None:
        """End the training, by Ctrl-C or by itself, and keep what there is."""
        self.interrupted = interrupted
        self.bar.close()
        self.read()
        if self.path is not None and self.state.steps:
            self._save(self.path)

    @one_blas_thread
    def descend(
        self,
        objective: Objective,
        rule: StepRule,
        measure: Callable[[list[Array], list[Array]], Record] | None = None,
    ) -> None:
        """Take the steps of a rule; ``measure`` adds to a record by weights and gradients."""
        # glibc keeps freed memory only up to the size of the largest block ever freed.  Without
        # this line every step returns its arrays to the system and faults them in again, and takes
        # 6.3 ms instead of 4.2 for the default batch of `train_attention` at N = D = 10.
        np.empty(2**22 - 2**10)
        # Overflow of a divergent training is an error of its own.
        with np.errstate(over="ignore", invalid="ignore"):
            while not self.finished(rule):
                loss, gradients = objective(self.state.steps, self.state.weights)
                self.take(loss, gradients, rule, measure)

    def finished(self, rule: StepRule) -> bool:
        """Whether the last step of a rule is taken and the loss after it is taken down."""
        ends = self.state.steps >= rule.last_step(self)
        noted = self._unread[-1][0] if self._unread else self._last_recorded
        return ends and noted == self.state.steps

    def take(
        self,
        loss: Array,
        gradients: list[Array],
        rule: StepRule,
        measure: Callable[[list[Array], list[Array]], Record] | None = None,
    ) -> None:
        """Take down what is known before the next step of a rule, and take it if there is one."""
        ends = self.state.steps >= rule.last_step(self)
        due = ends or self.state.steps % self.record == 0
        extra = measure(self.state.weights, gradients) if measure and due else {}
        self.note({"loss": loss, **extra}, due)
        if not ends:
            self.advance(rule.step(self, gradients))

    def note(self, record: Record, due: bool = True) -> None:
        """Take down what is known before the next step, and read it from a GPU now and then."""
        self._unread.append((self.state.steps, due, record))
        if self.state.steps % looks_every(array_namespace(record["loss"])) == 0:
            self.read()

    def read(self) -> None:
        """Copy what was taken down to the host; refuse a loss that is out of bounds."""
        unread = self._unread
        self._unread = []
        for steps, due, record in unread:
            record = {name: to_host(value) for name, value in record.items()}
            losses = np.atleast_1d(record["loss"])
            if not np.all(losses <= self.bound):
                worst = int(np.argmax(~(losses <= self.bound)))
                which = f" of repeat {worst}" if losses.size > 1 else ""
                self.diverged = True
                raise UnstableTraining(
                    f"training diverged: the loss{which} is {losses[worst]:.3g} after {steps} "
                    f"steps: try a smaller {'learning_rate or ' if steps else ''}init_scale"
                )
            if due and steps > self._last_recorded:
                self.records.append({"steps": np.asarray(steps), **record})

    def advance(self, state: State) -> None:
        """Go on to the state after a step."""
        self.state = state
        if state.steps in self.snapshots:
            self.kept[state.steps] = state.weights
        self.bar.update()
        if self.path is not None and time.monotonic() >= self._due:
            self._save(self.path)

    @property
    def _last_recorded(self) -> int:
        return int(self.records[-1]["steps"]) if self.records else -1

    def restart(self) -> None:
        """Go back to the start, with what a step rule remembers elsewhere."""
        self.state = self.start
        self.records = []
        self.kept = {}
        self.bar.n = 0

    @property
    def ending(self) -> Ending:
        """How the training ended."""
        if self.diverged:
            return Ending("diverged")
        return Ending.of(converged=self.state.converged, interrupted=self.interrupted)

    def column(self, name: str) -> np.ndarray:
        """What was recorded under a name, (n,) or (repeats, n, ...)."""
        values = [record[name] for record in self.records]
        if not values:
            return np.empty((self.start.weights[0].shape[0], 0))
        return np.stack(values, axis=min(1, values[0].ndim))

    def _save(self, path: Path) -> None:
        self.read()
        began = time.monotonic()
        names = self.records[0] if self.records else ()
        state = vars(self.state) | {
            "records": {
                name: np.stack([record[name] for record in self.records]) for name in names
            },
            "kept": [[steps, weights] for steps, weights in self.kept.items()],
        }
        save_checkpoint(path, self.settings, state)
        end = time.monotonic()
        self._due = end + max(SAVE_SECONDS, SAVE_SHARE * (end - began))

    def _load(self, path: Path) -> None:
        state = load_checkpoint(path, self.settings)
        try:
            _check_state(state, self.start)
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint must be a training's own file, got {path}: {error}"
            ) from error
        columns = state.pop("records")
        rows = zip(*columns.values(), strict=True)
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        self.records = records

        def move(value: Any) -> Any:
            if isinstance(value, np.ndarray):
                return self.backend.asarray(value)
            if isinstance(value, dict):
                return {name: move(entry) for name, entry in value.items()}
            return [move(entry) for entry in value] if isinstance(value, list) else value

        self.kept = {steps: move(weights) for steps, weights in state.pop("kept")}
        self.state = State(**move(state))
        if self.state.steps > self.steps:
            raise ValueError(
                f"steps must be at least those of {path}, {self.state.steps}, got {self.steps!r}"
            )
        if self.state.steps < self.steps:
            # The record after what was the last step is none of those of a longer training.
            self.records = [record for record in records if record["steps"] % self.record == 0]


def _check_state(state: Mapping[str, Any], start: State) -> None:
    """Raise an error unless a state that was read is one that a training from here writes."""
    if state.keys() != {*vars(start), "records", "kept"}:
        raise ValueError(f"other parts than those of a state, {', '.join(state)}")
    steps = state["steps"]
    check_integers(least=0, steps=steps)
    check_flag("converged", state["converged"])
    _check_weights("weights", state["weights"], start)
    for taken, weights in state["kept"]:
        check_integers(least=0, steps=taken)
        _check_weights(f"weights after {taken} steps", weights, start)
    if not isinstance(state["memory"], dict) or not _is_numbers(state["memory"]):
        raise ValueError("memory must be of numbers")
    records = state["records"]
    if not isinstance(records, dict) or not _is_numbers(records):
        raise ValueError("records must be of numbers")
    if records:
        taken = parse_array("steps of records", records["steps"], (None,))
        if taken[0] < 0 or taken[-1] > steps or np.any(np.diff(taken) <= 0):
            raise ValueError(f"steps of records must increase from 0 to {steps}, got {taken}")
        lengths = {name: len(column) for name, column in records.items()}
        if set(lengths.values()) != {len(taken)} or "loss" not in records:
            raise ValueError(f"records must be of one length and have a loss, got {lengths}")


def _check_weights(name: str, weights: Any, start: State) -> None:
    """Raise an error unless weights have the shapes of those at the start."""
    if not isinstance(weights, list) or len(weights) != len(start.weights):
        raise ValueError(f"{name} must be {len(start.weights)} arrays, got others")
    for number, (array, first) in enumerate(zip(weights, start.weights, strict=True)):
        parse_array(f"{name}[{number}]", array, first.shape)


def _is_numbers(value: Any) -> bool:
    """Whether a tree has numbers, flags and arrays only."""
    if isinstance(value, dict):
        return all(map(_is_numbers, value.values()))
    if isinstance(value, list):
        return all(map(_is_numbers, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, (bool, int, float))
