"""State of a training in a file: what identifies it, when it is written, how it is read."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.simulate.arrays import Backend, to_host
from iclimit.simulate.checkpoints import load_checkpoint, save_checkpoint
from iclimit.simulate.optimizers import Run

SAVE_SECONDS = 2.0
"""Least time between two checkpoints."""

SAVE_SHARE = 20
"""The same, in units of the time that the last one took: at most 5 % of a training is writing."""

MOMENTS = ("weights", "first", "second")
"""Arrays of Adam's state."""


def identify(value: Any) -> Any:
    """Text that tells objects of different content apart; that of an array is a hash."""
    if isinstance(value, np.ndarray):
        return [list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if is_dataclass(value):
        return {each.name: identify(getattr(value, each.name)) for each in fields(value)} | {
            "type": type(value).__qualname__
        }
    return repr(value)


@dataclass
class SavedState:
    """Writes the state of a run when it is called, not too often."""

    path: Path
    identity: Mapping[str, Any]
    run: Run
    due: float = -math.inf

    def __call__(self) -> None:
        if time.monotonic() >= self.due:
            self.write()

    def write(self) -> None:
        """Write the state of the run."""
        start, run = time.monotonic(), self.run
        run.read()
        record = {name: getattr(run, name) for name in ("steps", "plateau", "converged")}
        arrays = {"losses": np.array(run.losses)}
        if run.first is not None:
            arrays |= {name: to_host(getattr(run, name)) for name in MOMENTS}
        if run.seen:
            arrays["seen_losses"] = np.array([loss for loss, _ in run.seen])
            arrays["seen_gradients"] = np.stack([gradient for _, gradient in run.seen])
        save_checkpoint(self.path, self.identity, record, **arrays)
        end = time.monotonic()
        self.due = end + max(SAVE_SECONDS, SAVE_SHARE * (end - start))


def load_state(path: Path, identity: Mapping[str, Any], run: Run, device: Backend) -> None:
    """Put the state of a checkpoint into a run."""
    record, arrays = load_checkpoint(path, identity)
    if "first" in arrays:
        run.losses = arrays["losses"].tolist()
        for name, value in record.items():
            setattr(run, name, value)
        for name in MOMENTS:
            setattr(run, name, device.asarray(arrays[name]))
    else:
        pairs = zip(arrays["seen_losses"], arrays["seen_gradients"], strict=True)
        run.seen = [(float(loss), gradient) for loss, gradient in pairs]
