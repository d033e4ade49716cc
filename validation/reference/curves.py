"""Published loss curves of training dynamics, and the law of the data behind them."""

import itertools
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.published import settings
from iclimit.validation.instruments.curves.features import first_below, slowest_loss

# Pairs in a context of the published simulations.
CONTEXT = 31


def eigenvalues(dim: int) -> np.ndarray:
    """Eigenvalues of the published simulations, proportional to D, ..., 1, with the sum 1."""
    return np.arange(dim, 0, -1) / (dim * (dim + 1) / 2)


@dataclass(frozen=True)
class Curve:
    """A curve of the published script.

    Attributes
    ----------
    file, label : str
        End of the name of its file, and name in the report.
    setting : str
        Published setting that it was made with.
    record : int
        Steps from one row of the file to the next.
    learned : tuple of int
        Plateaus to be compared, by the number of learned directions.
    """

    file: str
    label: str
    setting: str
    record: int
    learned: tuple[int, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the training, and the dimension."""
        return {**settings[self.setting], "record": self.record}

    def read(self) -> np.ndarray:
        """Steps and losses, shape (n, 2)."""
        path = resources.files(__package__) / f"linattn_{self.file}.txt"
        with path.open(encoding="utf-8") as file:
            return np.loadtxt(file)

    def summarise(self, steps: np.ndarray, losses: np.ndarray) -> dict[str, float]:
        """First and last loss, heights of plateaus and logarithms of the steps of the drops."""
        dim = settings[self.setting]["dim"]
        plateaus = plateau_losses(eigenvalues(dim), context=CONTEXT)

        def middle(above: int, below: int) -> int:
            """Index of the first loss below the middle of two plateaus; their number if none."""
            return first_below(losses, (plateaus[above] + plateaus[below]) / 2)

        summary = {"first loss": float(losses[0])}
        for k, pair in enumerate(itertools.pairwise((0, *self.learned, dim)), start=1):
            at = middle(*pair)
            reached = at < len(losses)
            summary[f"ln(step) of drop {k}"] = math.log(float(steps[at])) if reached else math.nan
        for m in self.learned:
            start = middle(m - 1, m)
            stop = middle(m, m + 1)
            number = np.arange(len(losses) - 1)
            height = slowest_loss(losses, -np.diff(losses), (number >= start) & (number < stop))
            summary[f"height with {m} learned"] = height
        if not self.learned:
            summary["last loss"] = float(losses[-1])
        return summary


CURVES = (
    Curve("attnM_H8_init1e-6", "merged", "zhang2025-merged", 10, ()),
    Curve("mlp_H8_init1e-6", "cubic features", "zhang2025-cubic", 10, ()),
    Curve("attnS_D4_H5_R1_P80000", "separate, D = 4, rank 1", "zhang2025-rank-1", 10, (1, 2, 3)),
    Curve("attnS_D8_H9_R2_P80000", "separate, D = 8, rank 2", "zhang2025-rank-2", 20, (2, 4, 6)),
)
