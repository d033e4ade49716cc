r"""Training sequences of which a fraction has tasks of their own and the others share one.

A sequence has N pairs and a query with inputs :math:`x \sim N(0, \Lambda)` and labels
:math:`y = \langle w, x \rangle + \epsilon`.  A fraction of the sequences draw their own task
:math:`w \sim N(0, I)`, which has to be learned in context.  The others have one and the same task,
which can be learned in the weights (Zhang, Singh, Latham and Saxe, ICML 2025,
arXiv:2501.16265).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.checks import check_arguments, parse_array
from iclimit.simulate.arrays import Array, Backend
from iclimit.simulate.pretraining.covariances import covariance_root, parse_covariance
from iclimit.simulate.pretraining.prompts import Prompts


@dataclass(frozen=True, eq=False)
class TaskMixture:
    r"""Law of sequences with random and with shared tasks.

    Parameters
    ----------
    input_covariance : array (D,) or (D, D)
        Covariance :math:`\Lambda` of the inputs, or its eigenvalues, as the eigenvectors do not
        matter for random weights and tasks.
    context : int >= 1
        Number N of pairs before the query.
    noise_variance : float >= 0
        Variance of the label noise, in the context and in the query label.
    fresh_fraction : float in [0, 1]
        Fraction of the sequences that have a task of their own.
    shared_task : array (D,), optional
        Task of all other sequences; needed, and allowed, only for ``fresh_fraction`` below 1.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the covariance is not symmetric and positive
        semidefinite, or zero, or all labels of the shared task are zero.

    Examples
    --------
    >>> from iclimit.simulate.dynamics import TaskMixture
    >>> problem = TaskMixture([0.4, 0.3, 0.2, 0.1], context=31)
    >>> problem.dim
    4
    """

    input_covariance: Any
    context: int
    noise_variance: float = 0.0
    fresh_fraction: float = 1.0
    shared_task: Any = None

    def __post_init__(self) -> None:
        numbers = ("context", "noise_variance", "fresh_fraction")
        check_arguments(**{name: getattr(self, name) for name in numbers})
        dim = max(1, len(np.atleast_1d(self.input_covariance)))
        given = parse_covariance("input_covariance", self.input_covariance, dim)
        if not given.any():
            raise ValueError("input_covariance must not be zero, got zeros only")
        covariance = np.diag(given) if given.ndim == 1 else (given + given.T) / 2
        object.__setattr__(self, "input_covariance", covariance)
        if (self.fresh_fraction < 1) != (self.shared_task is not None):
            raise ValueError(
                "shared_task must be given for fresh_fraction below 1, and only then, "
                f"got {self.shared_task!r} with fresh_fraction = {self.fresh_fraction!r}"
            )
        if self.shared_task is not None:
            task = parse_array("shared_task", self.shared_task, (self.dim,)).copy()
            if not task @ self.input_covariance @ task > 0:
                raise ValueError(f"shared_task must have labels other than zero, got {task!r}")
            object.__setattr__(self, "shared_task", task)

    @property
    def dim(self) -> int:
        """Dimension D of the inputs."""
        return self.input_covariance.shape[0]

    @property
    def label_square(self) -> float:
        """Mean of the square of a label: the loss at zero weights."""
        found = self.fresh_fraction * np.trace(self.input_covariance) + self.noise_variance
        if self.shared_task is not None:
            found += (1 - self.fresh_fraction) * (
                self.shared_task @ self.input_covariance @ self.shared_task
            )
        return float(found)

    def sample(self, backend: Backend, generator: Any, count: int) -> Prompts:
        """Draw sequences: the first ``round(count * fresh_fraction)`` have their own tasks."""
        return self._prompts(backend, generator, generator.standard_normal((count, self.dim)))

    def training_set(
        self, backend: Backend, generator: Any, count: int, standardize: bool = True
    ) -> Prompts:
        """Draw sequences, by default standardised as the published script does.

        The inputs at each place of a sequence get mean zero over the sequences; if all tasks are
        random, these get mean zero and covariance I.

        Raises
        ------
        ValueError
            If there are too few sequences to be standardised, or for both kinds of tasks.
        """
        xp = backend.xp
        least = self.dim if self.fresh_fraction == 1 else 1
        if standardize and count <= least:
            raise ValueError(f"training_set must be > {least} to be standardised, got {count!r}")
        if 0 < self.fresh_fraction < 1 and not 0 < round(count * self.fresh_fraction) < count:
            raise ValueError(
                f"training_set must be large enough for both kinds of tasks, got {count!r} "
                f"with fresh_fraction = {self.fresh_fraction!r}"
            )
        tasks = generator.standard_normal((count, self.dim))
        if standardize and self.fresh_fraction == 1:
            tasks = tasks - xp.mean(tasks, axis=0)
            variances, axes = xp.linalg.eigh(tasks.T @ tasks / (count - 1))
            tasks = tasks @ ((axes / xp.sqrt(variances)) @ axes.T)
        return self._prompts(backend, generator, tasks, centre=standardize)

    def _prompts(
        self, backend: Backend, generator: Any, tasks: Array, centre: bool = False
    ) -> Prompts:
        """Draw sequences with these tasks, of which the last ones give way to the shared task."""
        if self.shared_task is not None:
            fresh = round(tasks.shape[0] * self.fresh_fraction)
            tasks[fresh:, :] = backend.asarray(self.shared_task)
        shape = (tasks.shape[0], self.context + 1, self.dim)
        root = backend.asarray(covariance_root(self.input_covariance))
        x = generator.standard_normal(shape) @ root
        if centre:
            x = x - backend.xp.mean(x, axis=0)
        y = (x @ tasks[:, :, None])[:, :, 0]
        if self.noise_variance:
            y = y + math.sqrt(self.noise_variance) * generator.standard_normal(shape[:2])
        return Prompts(x=x[:, :-1, :], y=y[:, :-1], x_query=x[:, -1, :], y_query=y[:, -1])
