"""What the theory says of a run: named means, what they scatter by, and how sure they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.checks import check_choice
from iclimit.results import Estimate, Result


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Result):
    """Predicted errors of a run.

    Attributes
    ----------
    names : tuple of str
        Names of the m errors, such as "icl" and "idg".
    mean : ndarray (m,)
        Means over runs.
    over_tasks : ndarray (draws, m)
        Mean errors of single task sets.
    doubt : ndarray (sources, m)
        Loadings of what is not known of the means, one row for each independent source.
    over_prompts : ndarray (m, m) or None
        Covariance over the prompts at given tasks; None where it was not asked for.
    heavy : bool
        Whether rare prompts decide the errors of single runs, so that standard deviations say
        little: `iclimit.pretraining.finite_size_spread` has quantiles.

    Examples
    --------
    >>> import iclimit
    >>> run = iclimit.Point(tau=4, alpha=2, kappa=1, rho=0.1, ridge=0.1).at(dim=40)
    >>> prediction = iclimit.predict(run, rng=0)
    >>> round(prediction["icl"], 2), round(prediction["idg"], 2)
    (0.78, 0.47)
    """

    names: tuple[str, ...]
    mean: np.ndarray
    over_tasks: np.ndarray
    doubt: np.ndarray
    over_prompts: np.ndarray | None = None
    heavy: bool = False

    def __getitem__(self, name: str) -> float:
        """Mean of a named error."""
        check_choice("name", name, self.names)
        return float(self.mean[self.names.index(name)])

    @property
    def standard_error(self) -> np.ndarray:
        """Standard errors (m,) of the means, over task sets; 0 of a single one."""
        draws = len(self.over_tasks)
        if draws < 2 or not np.all(np.isfinite(self.over_tasks)):
            return np.zeros(len(self.names))
        return np.asarray(np.std(self.over_tasks, axis=0, ddof=1) / math.sqrt(draws))

    @property
    def uncertainty(self) -> np.ndarray:
        """Standard deviations (m,) of what is not known of the means, apart from task sets."""
        return np.asarray(np.sqrt(np.sum(self.doubt**2, axis=0)))

    @property
    def covariance(self) -> np.ndarray:
        """Covariance (m, m) over runs, of prompts and of task sets.

        Raises
        ------
        ValueError
            If the scatter was not asked for.
        """
        if self.over_prompts is None:
            raise ValueError("the scatter of runs is known for predict(..., spread=True)")
        if len(self.over_tasks) < 2:
            return self.over_prompts
        return np.asarray(self.over_prompts + np.cov(self.over_tasks.T))

    def gap(self, first: str = "icl", second: str = "idg") -> float:
        """Difference of two mean errors."""
        return self[first] - self[second]

    def rows(self) -> list[dict[str, Any]]:
        """A row for each error."""
        scatters = [None] * len(self.names)
        if self.over_prompts is not None:
            scatters = np.sqrt(np.diag(self.covariance)).tolist()
        columns = (self.names, self.mean, self.standard_error, self.uncertainty, scatters)
        return [
            {
                "error": name,
                "mean": float(mean),
                "standard error": float(standard_error),
                "uncertainty": float(uncertainty),
                "scatter of a run": scatter,
            }
            for name, mean, standard_error, uncertainty, scatter in zip(*columns, strict=True)
        ]

    def __str__(self) -> str:
        return "\n".join(_line(row) for row in self.rows())


def _line(row: dict[str, Any]) -> str:
    """An error in words."""
    mean = row["mean"]
    line = f"{row['error']} {Estimate(mean, row['standard error'], 1)}"
    if math.isfinite(mean) and mean:
        line += f" (theory {row['uncertainty'] / mean:.1%})"
    if row["scatter of a run"] is not None:
        line += f", scatter of a run {row['scatter of a run']:.2g}"
    return line
