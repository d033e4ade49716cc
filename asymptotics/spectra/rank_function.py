r"""Eigenvalues of a spectral measure as a function of their rank.

The ranks of two measures pair their eigenvalues.  The eigenvalues of a matrix of size d are the
means of the function over d equal cells.  Means keep the trace, so that finite size differs from
the limit by O(1/d).  Quantiles would lose the tail of a power law: half of the trace at d = 128
for the exponent 0.9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iclimit.asymptotics.spectra.atoms import Atoms
from iclimit.asymptotics.spectra.measure import SpectralMeasure

_FINE = 10_000
"""Nodes per interval of a measure: means over cells are accurate to 1e-5 with so many."""

_NARROW = 1e-9
"""Width of the narrowest cell: the mean over a cell is a difference divided by its width."""

_INSIDE = 1e-6
"""Rounding of the ends of a cell, over its width."""


@dataclass(frozen=True)
class RankFunction:
    """Eigenvalues of a measure as a function of the rank u, from 0 to 1.

    Attributes
    ----------
    measure : SpectralMeasure
        Law of the eigenvalues.
    descending : bool
        Whether the largest eigenvalue has the rank 0.
    """

    measure: SpectralMeasure
    descending: bool = False

    @property
    def varies(self) -> bool:
        """Whether there is more than one eigenvalue."""
        return self.measure.support[0][0] < self.measure.support[-1][1]

    def steps(self, cells: int) -> np.ndarray:
        """Ranks between which the function is taken to be constant, from 0 to 1."""
        positions, masses = np.reshape(self.measure.atoms, (-1, 2)).T
        upper = np.asarray(self.measure.cdf(positions))
        ends = np.concatenate([[0.0, 1.0], upper - masses, upper])
        if not isinstance(self.measure, Atoms):
            # Narrow at both ends, where a function may have a singularity.
            graded = (1 - np.cos(np.pi * np.arange(cells + 1) / cells)) / 2
            ends = np.append(ends, graded)
        ends = np.unique(np.clip(ends, 0.0, 1.0))
        return 1 - ends[::-1] if self.descending else ends

    def means(self, ends: np.ndarray) -> np.ndarray:
        """Means between consecutive ranks."""
        ends = 1 - ends[::-1] if self.descending else ends
        ranks, sums = self._cumulated
        width = np.diff(ends)
        means = np.diff(np.interp(ends, ranks, sums)) / width
        if isinstance(self.measure, Atoms):
            # Exactly equal numbers wherever there is one eigenvalue, so that equal rows merge.
            first = np.searchsorted(ranks[1:-1], ends[:-1] + _INSIDE * width)
            last = np.searchsorted(ranks[1:-1], ends[1:] - _INSIDE * width)
            means = np.where(first == last, self.measure.values[first], means)
        return means[::-1] if self.descending else means

    @cached_property
    def _cumulated(self) -> tuple[np.ndarray, np.ndarray]:
        """Integrals of the weight and of the eigenvalues, in ascending order."""
        nodes, weights = inner_rule(self.measure, _FINE)
        order = np.argsort(nodes)
        nodes, weights = nodes[order], weights[order]
        ranks = np.append(0.0, np.cumsum(weights))
        return ranks / ranks[-1], np.append(0.0, np.cumsum(nodes * weights))


def inner_rule(measure: SpectralMeasure, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in the support: the node 0 in the rule of Marchenko-Pastur is no eigenvalue."""
    return SpectralMeasure.quadrature(measure, order)


def common_cells(functions: Sequence[RankFunction], cells: int) -> np.ndarray:
    """Ranks between which all functions are taken to be constant, from 0 to 1."""
    ends = np.unique(np.concatenate([f.steps(cells) for f in functions]))
    ends = ends[np.append(True, np.diff(ends) > _NARROW)]
    ends[-1] = 1.0
    return ends
