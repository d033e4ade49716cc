"""Errors of repeated finite-size runs, with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.simulate.checks import check_integers


@dataclass(frozen=True)
class SimulatedErrors:
    """Errors of repeated finite-size runs at one set of integers.

    Attributes
    ----------
    icl, idg : Estimate
        Test error on fresh and on the pretraining tasks; one sample per repeat.
    parameters : dict
        The integers and numbers simulated, with tau, alpha and kappa as they come out.
    residuals : ndarray (repeats,)
        Relative residual of the linear solve of each repeat; empty where nothing is solved.
    iteration_counts : ndarray (repeats,)
        Iterations of each solve; empty where nothing is solved.
    """

    icl: Estimate
    idg: Estimate
    parameters: dict[str, Any] = field(repr=False)
    residuals: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False)
    iteration_counts: np.ndarray = field(default_factory=lambda: np.empty(0, int), repr=False)

    @classmethod
    def of(cls, parameters: dict[str, Any], columns: Sequence[Any]) -> SimulatedErrors:
        """Errors from one column for each field: ICL and IDG errors, and what solves report."""
        icl, idg, *solves = map(np.asarray, columns)
        return cls(Estimate.of(icl), Estimate.of(idg), parameters, *solves)

    @property
    def repeats(self) -> int:
        """Number of independent runs."""
        return self.icl.repeats

    @property
    def residual(self) -> float:
        """Worst relative residual of the linear solves."""
        return float(np.max(self.residuals, initial=0.0))

    @property
    def iterations(self) -> int:
        """Most iterations of a solve."""
        return int(np.max(self.iteration_counts, initial=0))

    @property
    def gap(self) -> Estimate:
        """ICL minus IDG error, paired within each repeat."""
        return Estimate.of(self.icl.samples - self.idg.samples)

    @property
    def correlation(self) -> float:
        """Correlation of the two errors over repeats (they share Gamma); 0 if undefined."""
        if self.repeats < 2 or 0 in (self.icl.standard_error, self.idg.standard_error):
            return 0.0
        return float(np.corrcoef(self.icl.samples, self.idg.samples)[0, 1])

    def concatenate(self, other: SimulatedErrors) -> SimulatedErrors:
        """Append the repeats of another run with the same parameters.

        Raises
        ------
        ValueError
            If its parameters differ.
        """
        if other.parameters != self.parameters:
            raise ValueError(
                f"other must have the parameters {self.parameters}, got {other.parameters}"
            )
        pairs = zip(self._columns, other._columns, strict=True)
        return SimulatedErrors.of(self.parameters, [np.concatenate(pair) for pair in pairs])

    def head(self, count: int) -> SimulatedErrors:
        """Keep the first ``count`` repeats.

        Raises
        ------
        ValueError
            If there are fewer.
        """
        check_integers(count=count)
        if count > self.repeats:
            raise ValueError(f"count must be at most the {self.repeats} repeats, got {count}")
        return SimulatedErrors.of(self.parameters, [column[:count] for column in self._columns])

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.icl.samples, self.idg.samples, self.residuals, self.iteration_counts
