"""Errors of simulated runs: named, one sample for each repeat."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iclimit.checks import check_choice, check_integers
from iclimit.errors import Errors
from iclimit.results import Estimate


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Errors):
    """Errors of repeated runs of one experiment.

    Attributes
    ----------
    names : tuple of str
        Names of the m errors, such as "icl" and "idg".
    samples : ndarray (repeats, m)
        Errors of each repeat, which share what was trained.
    parameters : dict
        The integers and numbers simulated, with tau, alpha and kappa as they come out.
    residuals : ndarray (repeats,)
        Relative residual of the linear solve of each repeat; empty where nothing is solved.
    iteration_counts : ndarray (repeats,)
        Iterations of each solve; empty where nothing is solved.

    Examples
    --------
    >>> import iclimit
    >>> run = iclimit.Point(tau=2, alpha=1, kappa=0.5, rho=0.1, ridge=0.1).at(dim=20)
    >>> samples = iclimit.sample(run, rng=0, repeats=8)
    >>> samples.names, samples.samples.shape, samples["icl"].repeats
    (('icl', 'idg'), (8, 2), 8)
    """

    samples: np.ndarray
    parameters: dict[str, Any]
    residuals: np.ndarray = field(default_factory=lambda: np.empty(0))
    iteration_counts: np.ndarray = field(default_factory=lambda: np.empty(0, int))

    def __getitem__(self, name: str) -> Estimate:
        """Mean of a named error over the repeats."""
        check_choice("name", name, self.names)
        column = self.samples[:, self.names.index(name)]
        return Estimate.of(np.ascontiguousarray(column))

    @property
    def repeats(self) -> int:
        """Number of independent runs."""
        return len(self.samples)

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
        """Correlation of the ICL and the IDG error over repeats; 0 if undefined."""
        if self.repeats < 2 or 0 in (self.icl.standard_error, self.idg.standard_error):
            return 0.0
        return float(np.corrcoef(self.icl.samples, self.idg.samples)[0, 1])

    def concatenate(self, other: Samples) -> Samples:
        """Append the repeats of another run with the same parameters.

        Raises
        ------
        ValueError
            If its parameters or names differ.
        """
        if (other.names, other.parameters) != (self.names, self.parameters):
            raise ValueError(
                f"other must have the parameters {self.parameters}, got {other.parameters}"
            )
        return replace(
            self,
            samples=np.concatenate([self.samples, other.samples]),
            residuals=np.concatenate([self.residuals, other.residuals]),
            iteration_counts=np.concatenate([self.iteration_counts, other.iteration_counts]),
        )

    def head(self, count: int) -> Samples:
        """Keep the first ``count`` repeats.

        Raises
        ------
        ValueError
            If there are fewer.
        """
        check_integers(least=1, count=count)
        if count > self.repeats:
            raise ValueError(f"count must be at most the {self.repeats} repeats, got {count}")
        return replace(
            self,
            samples=self.samples[:count],
            residuals=self.residuals[:count],
            iteration_counts=self.iteration_counts[:count],
        )
