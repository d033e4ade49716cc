"""Algorithms that a model is compared with, at the parameters that are best for a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iclimit.simulate.probing.problem import DrawnPrompts


@dataclass(frozen=True)
class Baseline:
    """An algorithm that answers prompts.

    Attributes
    ----------
    name : str
        Short name, such as "one_step".
    description : str
        What it is, with its parameters.
    predict : callable
        Predictions (n,) for prompts; it looks at inputs, labels, query and noise variance only.
    loss : float, optional
        Its exact mean squared error on noisy labels of fresh tasks, where the theory knows it.
    """

    name: str
    description: str
    predict: Callable[[DrawnPrompts], np.ndarray]
    loss: float | None = None
