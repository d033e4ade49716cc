r"""A problem in the units of the theory, and its losses in those of the problem.

The theory of steps, GD++ and ridge regression is for inputs :math:`N(0, I)` and tasks
:math:`N(0, I)`.  For inputs :math:`N(0, m I)`, tasks of covariance :math:`a^2 I` and label noise
of variance :math:`\sigma^2`, rates are divided by m, the noise variance by :math:`a^2 m`, and
squared errors are multiplied by :math:`a^2 m`.  Only the covariance of the tasks matters, not
their law: the errors are quadratic in the task.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import preconditioner_loss
from iclimit.asymptotics.descent.learning_rate import MOMENTS
from iclimit.asymptotics.gdpp import oracle_risk
from iclimit.asymptotics.gdpp.ridge_losses import adaptive_ridge_loss, ridge_risk
from iclimit.problem import NoiseLaw, Problem
from iclimit.simulate.prompts.covariances import covariance_root
from iclimit.validation.instruments.models.fitted_layers import MOST, context_moments
from iclimit.validation.instruments.models.labels import effective_problem

# Largest degree of the polynomials that are fitted: five steps, or two layers of GD++.
DEGREE = 5


@dataclass(frozen=True, eq=False)
class ProblemUnits:
    """A problem as the theory sees it.

    Attributes
    ----------
    stated : Problem
        The problem.
    contexts : int
        Most contexts that rates are fitted to where no theory gives them.
    """

    stated: Problem
    contexts: int = MOST

    @cached_property
    def problem(self) -> Problem:
        """The problem with linear labels, which stand for those of a link or with flips."""
        return effective_problem(self.stated)

    @property
    def exact(self) -> bool:
        """Whether losses of the theory are those of the problem: its labels are linear."""
        return self.stated.has_linear_labels

    @cached_property
    def input_covariance(self) -> np.ndarray:
        """Covariance of the inputs, (dim, dim)."""
        return self.problem.covariance_of_inputs

    @cached_property
    def task_covariance(self) -> np.ndarray:
        """Covariance of the fresh tasks, (dim, dim)."""
        return self.problem.covariance_of_tasks

    @property
    def size(self) -> dict[str, Any]:
        """Context length and dimension."""
        return {"context": self.problem.context, "dim": self.problem.dim}

    @property
    def isotropic(self) -> bool:
        """Whether no covariance is given."""
        return self.problem.input_covariance is None and self.problem.task_covariance is None

    @property
    def solved(self) -> bool:
        """Whether the theory knows more than one step exactly: isotropic Gaussian inputs."""
        return self.isotropic and self.problem.input_law == "gaussian"

    @property
    def noise_variance(self) -> float:
        """Variance of the label noise, on average over prompts."""
        return float(self.problem.mean_noise_variance)

    @property
    def input_variance(self) -> float:
        """Mean variance of an input coordinate."""
        return float(np.trace(self.input_covariance)) / self.problem.dim

    @property
    def input_square(self) -> float:
        """Mean square of an input."""
        return self.problem.dim * self.input_variance

    @property
    def signal(self) -> float:
        """Mean square of a noiseless label."""
        return float(np.sum(self.input_covariance * self.task_covariance))

    @property
    def noise_ratio(self) -> float:
        """Noise variance over the mean square of a label per dimension and number of pairs."""
        size = self.problem.context * self.signal
        return self.noise_variance * self.problem.dim / size

    @cached_property
    def context_moments(self) -> np.ndarray:
        """What the loss of several steps depends on, from contexts that are drawn."""
        return context_moments(self.problem, DEGREE, self.contexts)

    @cached_property
    def task_root(self) -> np.ndarray | None:
        """Root of the covariance of the tasks over their variance, if there is one."""
        covariance = self.problem.task_covariance
        return None if covariance is None else covariance_root(covariance)

    @property
    def best_penalty(self) -> float:
        """Penalty of ridge regression that is best for all noise levels."""
        return self.noise_variance / self.problem.task_variance

    @property
    def noise_varies(self) -> bool:
        """Whether the noise level differs from prompt to prompt."""
        return self.problem.noise_law is not None and self.problem.level_law.kind != "fixed"

    @property
    def has_gdpp(self) -> bool:
        """Whether the search for the best GD++ takes such numbers."""
        ratio = self.problem.dim / self.problem.context
        return 1e-3 <= ratio <= 1e3 and self.noise_ratio <= 1e6

    @property
    def excess_kurtosis(self) -> float:
        """Excess kurtosis of the independent coordinates of the inputs."""
        (second, second_divisor), (fourth, fourth_divisor) = MOMENTS[self.problem.input_law]
        return fourth / fourth_divisor / (second / second_divisor) ** 2 - 3

    @property
    def law(self) -> dict[str, Any]:
        """Statistics of inputs, tasks and noise, as theory of one step takes them."""
        names = ("input_covariance", "task_covariance", "noise_variance", "excess_kurtosis")
        return {name: getattr(self, name) for name in names} | {"context": self.problem.context}

    def step_loss(self, matrix: np.ndarray) -> float:
        """Exact loss of one step with a preconditioner, a matrix (dim, dim)."""
        return float(preconditioner_loss(matrix, **self.law))

    def loss_of(self, relative: float) -> float | None:
        """Loss from that of a noiseless query over the null predictor's, where it is exact."""
        return self.noise_variance + self.signal * float(relative) if self.solved else None

    def ridge_loss(self, penalty: float) -> float | None:
        """Exact loss of ridge regression with one penalty, if it is known."""
        unit = self.signal / self.problem.dim
        risk = ridge_risk(
            penalty / self.input_variance, noise_variance=self.noise_variance / unit, **self.size
        )
        return self.loss_of(2 / self.problem.dim * float(risk))

    def informed_loss(self, estimated: bool) -> float | None:
        """Exact loss of ridge regression that is told the noise of a prompt, or estimates it."""
        risk = oracle_risk(self.noise_law, **self.size)
        if estimated:
            risk += adaptive_ridge_loss(self.noise_law, **self.size)
        return self.loss_of(2 / self.problem.dim * risk)

    @property
    def noise_law(self) -> NoiseLaw:
        """Law of the noise level of a prompt in units of the theory."""
        return self.problem.level_law.times((self.problem.dim / self.signal) ** 0.5)
