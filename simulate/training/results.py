"""Results of trainings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from iclimit.results import Result


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Training(Result):
    """What every training says of itself.

    Attributes
    ----------
    steps : int
        Steps taken.
    converged : bool
        Whether the loss stopped falling before the steps ran out.
    interrupted : bool
        Whether Ctrl-C ended the training.
    parameters : dict
        The settings.
    """

    steps: int
    converged: bool = False
    interrupted: bool = False
    parameters: dict[str, Any] = field(repr=False)
