r"""Power laws of eigenvalues and tasks, with all modes that a resource may reach.

Mode k = 1, 2, ... has the eigenvalue :math:`\lambda_k = k^{-\nu}` and holds
:math:`\omega_k \lambda_k = k^{-\nu\beta - 1}` of the label variance.  The first modes are taken
one by one; sums over the others are integrals over :math:`\ln k` by Gauss's rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import roots_legendre

from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.simulate.depth import simulate_depth_loss
from iclimit.statement import Derived, named_cell


@dataclass(frozen=True)
class PowerLaw:
    """Modes of a power law.

    Attributes
    ----------
    nu, beta : float
        Its exponents.
    ranks, counts : ndarray (n,)
        Numbers k of modes, and how many modes each stands for.
    """

    nu: float
    beta: float
    ranks: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(
        cls, nu: float, beta: float, *, single: int, last: float = 0.0, nodes: int = 0
    ) -> PowerLaw:
        """Modes one by one up to ``single``, and nodes for those between it and ``last``."""
        ranks = np.arange(1.0, single + 1)
        counts = np.ones(single)
        if nodes:
            x, weights = roots_legendre(nodes)
            low = np.log(single + 0.5)
            high = np.log(last)
            far = np.exp(low + (high - low) * (x + 1) / 2)
            ranks = np.append(ranks, far)
            counts = np.append(counts, far * weights * (high - low) / 2)
        return cls(nu, beta, ranks, counts)

    @property
    def number(self) -> float:
        """Number of modes, the dimension d."""
        return float(self.counts.sum())

    @property
    def eigenvalues(self) -> np.ndarray:
        """Eigenvalues of the inputs."""
        return self.ranks**-self.nu

    @property
    def labels(self) -> np.ndarray:
        """Label variance of each mode."""
        return self.ranks ** (-self.nu * self.beta - 1)

    @property
    def tasks(self) -> np.ndarray:
        """Eigenvalues of the tasks."""
        return self.labels / self.eigenvalues

    def levels(self, copies: int = 1) -> dict[str, Any]:
        """Eigenvalues of inputs and tasks, each so many times, as simulations take them."""
        law = {"eigenvalues": self.eigenvalues, "task_spectrum": self.tasks}
        return {name: np.repeat(values, copies) for name, values in law.items()}

    def stated_levels(self, copies: int) -> dict[str, Derived]:
        """The same as arguments of a cell."""
        words = "power law", self.nu, self.beta, self.ranks.size, copies
        return {name: Derived(values, words) for name, values in self.levels(copies).items()}

    @property
    def joint(self) -> JointSpectrum:
        """Spectrum for functions of the theory, whose losses are means over modes."""
        return JointSpectrum(
            task=self.tasks,
            test=np.ones_like(self.ranks),
            inputs=self.eigenvalues,
            weight=self.counts / self.number,
        )


@named_cell("context_losses")
def context_losses(**setting: Any) -> np.ndarray:
    """Losses of drawn contexts."""
    return simulate_depth_loss(**setting).loss.samples
