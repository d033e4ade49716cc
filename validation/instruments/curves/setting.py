"""What a user's training curve was made with, in the user's units, and these units in theory's."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import real_array
from iclimit.asymptotics.dynamics import mixture_growth_rate, mixture_predictor, plateau_losses
from iclimit.checks import check_arguments, check_choice, given
from iclimit.problem import Problem
from iclimit.simulate.descent.constructions import NORMALIZATIONS
from iclimit.simulate.dynamics import AttentionModel
from iclimit.simulate.dynamics.attention_models import INITIALIZATIONS
from iclimit.simulate.dynamics.feature_moments import population_moments

# How training goes: by full-batch descent with small steps, which the flow describes, or not.
OPTIMIZERS = ("gradient-descent", "other")

# Eigenvalues, scales and rates between this and its inverse: no square or product overflows.
LARGEST = 1e20

# Layers of weights whose product is the prediction.
LAYERS = {"merged": 2, "cubic": 2, "separate": 3}

# Largest dimension for which the least loss of merged attention is found: memory grows as D^6.
LARGEST_DIM = 12


def time_factor(model: str, context: float, normalization: str) -> float:
    """Time of the theory, for scores divided by N, over that of the flow with this normalization.

    Initial weights count as larger by the root of this factor.  Derivation: documentation, units.
    """
    return 1.0 if normalization == "mean" else float(context) ** (2 / LAYERS[model])


@dataclass(frozen=True)
class CurveSetting:
    """How a curve was trained; parameters are those of `iclimit.check_curve`.

    ``eigenvalues`` is a tuple.  ``learning_rate`` is None for curves over the time of the flow.
    ``time_unit`` and ``loss_unit`` are factors of the time of a step and of recorded losses that
    the other parameters do not explain, ``step_unit`` is the number of steps that a recorded one
    counts, ``context_factor`` is one of the pairs that a prompt is worth; 1 as stated.
    """

    model: str
    eigenvalues: tuple[float, ...]
    context: int
    heads: int
    init_scale: float
    rank: int = 1
    initialization: str = "per-head"
    learning_rate: float | None = None
    normalization: str = "mean"
    noise_variance: float = 0.0
    query_noise: bool = True
    loss_factor: float = 1.0
    training_set: float = math.inf
    standardize: bool = False
    optimizer: str = "gradient-descent"
    fresh_fraction: float = 1.0
    shared_task: tuple[float, ...] | None = None
    time_unit: float = 1.0
    step_unit: float = 1.0
    loss_unit: float = 1.0
    context_factor: float = 1.0

    def __post_init__(self) -> None:
        lam = real_array("eigenvalues", self.eigenvalues, "(0, inf)")
        if lam.ndim != 1 or not lam.size:
            raise ValueError(
                f"eigenvalues must be a list of numbers > 0, got {self.eigenvalues!r}"
            )
        AttentionModel(self.model, len(lam), self.heads, self.rank)
        check_choice("initialization", self.initialization, INITIALIZATIONS)
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _ = self.problem
        if self.mixed and self.model == "separate":
            raise ValueError(
                "fresh_fraction must be 1 for model 'separate', whose training on mixtures has no "
                f"theory, got {self.fresh_fraction!r}"
            )
        names = ("context", "init_scale", "noise_variance", "loss_factor", "training_set")
        numbers = {name: getattr(self, name) for name in names}
        check_arguments(**numbers, **given({"learning_rate": self.learning_rate}))
        scales = given({"learning_rate": self.learning_rate, "init_scale": self.init_scale})
        eigenvalues = [("eigenvalues", value) for value in lam]
        for name, value in (*eigenvalues, *scales.items()):
            if not 1 / LARGEST <= value <= LARGEST:
                raise ValueError(
                    f"{name} must be from {1 / LARGEST:.0e} to {LARGEST:.0e}, got {value}"
                )

    @classmethod
    def of(cls, *, eigenvalues: Any, shared_task: Any, **fields: Any) -> "CurveSetting":
        """Setting with vectors of any form."""
        shared = None if shared_task is None else _numbers(shared_task)
        return cls(eigenvalues=_numbers(eigenvalues), shared_task=shared, **fields)

    @property
    def mixed(self) -> bool:
        """Whether some sequences share a task."""
        return self.shared_task is not None

    @property
    def separate(self) -> bool:
        """Whether key and query have a matrix each."""
        return self.model == "separate"

    @property
    def timed(self) -> bool:
        """Whether theory has the times of drops."""
        return self.optimizer == "gradient-descent" and not self.mixed

    @property
    def problem(self) -> Problem:
        """Law of the sequences."""
        return Problem(
            dim=len(self.eigenvalues),
            context=self.context,
            input_covariance=self.eigenvalues,
            noise_variance=self.noise_variance,
            fresh_fraction=self.fresh_fraction,
            shared_task=self.shared_task,
            scale=1,
        )

    @property
    def law(self) -> dict[str, Any]:
        """Arguments that functions of the theory share, the largest eigenvalue first."""
        return {
            "eigenvalues": tuple(sorted(self.eigenvalues, reverse=True)),
            "context": self.context * self.context_factor,  # what a prompt is worth
            "noise_variance": self.noise_variance,
        }

    @property
    def step_time(self) -> float:
        """Time of a recorded step, or of a unit of time, in the units of the theory."""
        factor = self.time_unit * time_factor(self.model, self.context, self.normalization)
        factor *= self.step_unit
        if self.learning_rate is None:
            return factor
        # The gradient of a loss with the factor f is 2 f times the half gradient of the flow.
        return 2 * self.loss_factor * self.learning_rate * factor

    @property
    def start(self) -> float:
        """Scale of the initial weights in the units of the theory."""
        return self.init_scale * self.weight_factor

    @property
    def weight_factor(self) -> float:
        """Weights in the units of the theory over those of the user."""
        return math.sqrt(time_factor(self.model, self.context, self.normalization))

    @property
    def learned(self) -> tuple[int, ...]:
        """Directions that are learned at the start, at the plateaus and at the end."""
        dim = len(self.eigenvalues)
        if self.model != "separate":
            return (0, dim)
        return tuple(range(min(dim, self.heads * self.rank) + 1))

    @property
    def levels(self) -> np.ndarray:
        """Losses at the start, at the plateaus and at the end, as they are recorded."""
        if self.mixed:
            losses = mixture_losses(self.problem)
        else:
            losses = plateau_losses(**self.law)[list(self.learned)]
        return self.recorded(losses)

    def recorded(self, losses: Any) -> Any:
        """Mean squared errors on noisy query labels as they are recorded."""
        noise = 0.0 if self.query_noise else self.noise_variance
        return self.loss_unit * self.loss_factor * (losses - noise)


def _numbers(vector: Any) -> tuple[float, ...]:
    return tuple(np.asarray(vector, dtype=float).ravel().tolist())


def mixture_losses(problem: Problem) -> np.ndarray:
    """Loss at zero weights, and of the best predictor that is linear in the context labels."""
    return np.array([problem.label_square, mixture_predictor(**_mixture(problem)).train_loss])


def least_merged_loss(problem: Problem) -> float:
    """Bound that no merged attention goes below: least squares on all that it sees."""
    if problem.dim > LARGEST_DIM:
        return problem.noise_variance
    moments = population_moments(problem)
    weights = np.linalg.lstsq(moments.second, moments.cross, rcond=None)[0]
    return float(moments.label - moments.cross @ weights)


def first_growth_rate(problem: Problem, model: str) -> float:
    """Rate at which small weights grow first."""
    if model == "merged":
        return float(mixture_growth_rate(**_mixture(problem)))
    return float(np.linalg.norm(feature_correlations(problem)))


def feature_correlations(problem: Problem) -> np.ndarray:
    """Means of the cubic features times the label, which drive the growth of small weights."""
    lam = np.diag(problem.covariance_of_inputs)
    if problem.shared_task is None:
        return np.diag(lam**2)
    shared = lam * problem.shared_task
    fresh = problem.fresh_fraction
    return fresh * np.diag(lam**2) + (1 - fresh) * np.outer(shared, shared)


def _mixture(problem: Problem) -> dict[str, Any]:
    """Arguments of the theory."""
    return {
        "fresh_fraction": problem.fresh_fraction,
        "input_covariance": problem.covariance_of_inputs,
        "shared_task": problem.shared_task,
        "context": problem.context,
        "noise_variance": problem.noise_variance,
    }
