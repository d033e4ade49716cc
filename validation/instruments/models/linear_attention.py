r"""Linear attention: what of it is in a predictor, and what training it on prompts gives.

Linear attention answers :math:`\hat y = x_q^\top \Gamma h` with
:math:`h = (\frac dN \sum_i y_i x_i,\; \frac1N \sum_i y_i^2)`, in the units of Lu et al.
(arXiv:2405.11751): inputs of variance 1/d, labels of variance 1 without noise.

**In a predictor.**  Gamma minimises the squared distance to the answers of a predictor.  The share
that it explains is held out: each fold of the prompts is predicted by the Gamma of the others.
Standard errors of the spectrum are those of the jackknife over these folds.  The theory beside it
is the Gamma of least error on fresh tasks.  For isotropic inputs and tasks it is
:math:`(c\,I, 0)`, c being the optimal rate of one step of gradient descent for inputs of
variance 1; for Gaussian inputs of any covariance, see `iclimit.pretraining.optimal_gamma`.

**Trained on prompts.**  Training is ridge regression for Gamma in the same units, so the ridge and
the predicted errors are those of `iclimit.pretraining`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtr

from iclimit.asymptotics import pretraining
from iclimit.asymptotics.descent import optimal_learning_rate
from iclimit.checks import check_arguments
from iclimit.experiment import Experiment, Ridge
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import Seed, seed_sequences
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.prompts import Prompts, context_summary, prompt_blocks
from iclimit.validation.instruments.ratios import FLOAT64, ratio, without_rounding, z_of
from iclimit.validation.instruments.weights.reduced import block_eigenvalues
from iclimit.words import measured, percent, z_text

# Parts of the prompts that are predicted by the others.
FOLDS = 8

# Parts of Gamma that no symmetric preconditioner has are named above this share of its norm.
REST = 0.01

# Least prompts over entries of Gamma.  Fitted to seven eighths of them, it leaves about an eighth
# more unexplained than the best one does.
FEWEST = 10.0


@dataclass(frozen=True)
class LinearPart:
    """The linear attention that is nearest to a predictor.

    Attributes
    ----------
    gamma : array (d, d + 1)
        Its reduced matrix, for inputs of variance 1/d and labels of variance 1.
    explained : Estimate
        Share of the mean square of the answers that it explains, on prompts held out.
    eigenvalues : tuple of Estimate
        Of the symmetric part of the first d columns, in ascending order.
    mean_eigenvalue : Estimate
        Their mean.
    sampling_radius : float
        How far eigenvalues of a multiple of the identity would spread to either side, because the
        rest of the answers acts as noise: radius of the semicircle of the noise of Gamma.
    rest : Estimate
        Norm of the antisymmetric part and the last column, relative to that of Gamma.
    theory : array (d,) or None
        Eigenvalues of the Gamma of least error on fresh tasks, where it is known.
    z : float or None
        Deviation of the mean eigenvalue from theirs; infinite for a predictor that is linear
        attention with another one, which is then known without error.
    error : float or None
        Exact error of Gamma on fresh tasks, in the units of the problem, for Gaussian inputs.
    """

    gamma: np.ndarray
    explained: Estimate
    eigenvalues: tuple[Estimate, ...]
    mean_eigenvalue: Estimate
    sampling_radius: float
    rest: Estimate
    theory: np.ndarray | None
    z: float | None
    error: float | None

    @property
    def title(self) -> str:
        """Verdict on a predictor that is linear attention."""
        low = self.eigenvalues[0].mean
        high = self.eigenvalues[-1].mean
        left = Estimate(
            1 - self.explained.mean, self.explained.standard_error, self.explained.repeats
        )
        rest = ""
        if self.rest.mean > REST:
            rest = f", and an antisymmetric part or label terms, {percent(self.rest)} of its norm"
        return (
            "It is linear attention: one step with a preconditioner, for inputs of variance 1 "
            f"with eigenvalues {low:.3g} to {high:.3g}{rest}; it leaves {percent(left)} of the "
            "mean square unexplained, on prompts held out."
        )

    @property
    def sentence(self) -> str:
        """How much it explains, and its eigenvalues beside the optimum."""
        optimum = ""
        radius = ""
        if self.theory is not None and self.z is not None:
            z = f" (z = {z_text(self.z)})" if math.isfinite(self.z) else ""
            optimum = f"; the optimum has {np.mean(self.theory):.4g}{z}"
        if self.error is not None:
            optimum += f"; its exact error is {self.error:.4g}"
        if self.sampling_radius:
            radius = f" (the fit alone spreads them by {self.sampling_radius:.2g} to either side)"
        low = self.eigenvalues[0].mean
        high = self.eigenvalues[-1].mean
        return (
            f"Linear attention explains {percent(self.explained)}: eigenvalues of Gamma from "
            f"{low:.4g} to {high:.4g}{radius}, mean {measured(self.mean_eigenvalue)}{optimum}."
        )


def attention_features(drawn: Prompts, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Queries (n, d) and context summaries (n, d + 1) in the units of Lu et al."""
    x_unit, y_unit = units(problem)
    query = drawn.query / x_unit
    label = drawn.query_label / y_unit
    scaled = Prompts(drawn.inputs / x_unit, drawn.labels / y_unit, query, label)
    return query, context_summary(scaled)


def units(problem: Problem) -> tuple[float, float]:
    """What inputs and labels of a problem are divided by, to have variance 1/d and 1."""
    x_unit = math.sqrt(problem.dim * problem.input_variance)
    return x_unit, x_unit * math.sqrt(problem.task_variance)


def linear_part(
    query: np.ndarray, summary: np.ndarray, model: np.ndarray, problem: Problem
) -> LinearPart | None:
    """Fit linear attention to the answers of a model.

    Parameters
    ----------
    query, summary : array (n, d) and (n, d + 1)
        As `attention_features` makes them.
    model : array (n,)
        Answers of the model, in the units of the problem.
    problem : Problem
        Law of the prompts.

    Returns
    -------
    LinearPart or None
        None for fewer than 10 d (d + 1) prompts.
    """
    count, dim = query.shape
    if count < FEWEST * dim * (dim + 1) or not np.mean(model**2):
        return None
    answers = model / units(problem)[1]
    fits = _Fits.of(query, summary, answers)
    unexplained = ratio((answers - fits.held_out) ** 2, answers**2)
    (mean,) = fits.estimates(_mean)
    (rest,) = fits.estimates(_rest)
    theory = best_eigenvalues(problem)
    return LinearPart(
        gamma=fits.gamma,
        explained=Estimate(1 - unexplained.mean, unexplained.standard_error, count),
        eigenvalues=fits.estimates(block_eigenvalues),
        mean_eigenvalue=mean,
        sampling_radius=fits.radius,
        rest=rest,
        theory=theory,
        z=None if theory is None else _student_z(mean, float(np.mean(theory))),
        error=exact_error(fits.gamma, problem),
    )


@dataclass(frozen=True, eq=False)
class _Fits:
    """Linear attention fitted to all prompts, and to all but one of the folds.

    Attributes
    ----------
    gamma : array (d, d + 1)
        Of all prompts.
    others : list of array
        Without one of the folds each.
    held_out : array (n,)
        Answers to each fold of the fit without it.
    """

    gamma: np.ndarray
    others: list[np.ndarray]
    held_out: np.ndarray

    @classmethod
    def of(cls, query: np.ndarray, summary: np.ndarray, answers: np.ndarray) -> _Fits:
        """Fit."""
        held_out = np.empty(len(query))
        others = []
        for fold in range(FOLDS):
            out = np.arange(len(query)) % FOLDS == fold
            fit = solve_ridge(query[~out], summary[~out], answers[~out], 0.0).gamma
            held_out[out] = np.vecdot(query[out] @ fit, summary[out])
            others.append(fit)
        return cls(solve_ridge(query, summary, answers, 0.0).gamma, others, held_out)

    def estimates(self, function: Callable[[np.ndarray], np.ndarray]) -> tuple[Estimate, ...]:
        """Values (m,) of a function of the matrix, with standard errors of the jackknife."""
        errors = math.sqrt(FOLDS - 1) * np.std([function(fit) for fit in self.others], axis=0)
        return tuple(
            without_rounding(float(value), float(error), FOLDS)
            for value, error in zip(function(self.gamma), errors, strict=True)
        )

    @property
    def radius(self) -> float:
        """Radius of the semicircle of the noise of the matrix."""
        dim = len(self.gamma)
        errors = math.sqrt(FOLDS - 1) * np.std([fit[:, :-1] for fit in self.others], axis=0)
        # Entries of the symmetric part have half of the variance.
        radius = math.sqrt(2 * dim * float(np.mean(errors**2)))
        return radius if radius > FLOAT64 else 0.0


def best_eigenvalues(problem: Problem) -> np.ndarray | None:
    """Eigenvalues (d,) of the best Gamma; None where it is not known.

    That is for labels that are not linear, and for covariances of inputs that are not Gaussian.
    """
    if not problem.has_linear_labels:
        return None
    if problem.input_covariance is None and problem.task_covariance is None:
        square = problem.input_scale**2
        step = optimal_learning_rate(
            context=problem.context,
            dim=problem.dim,
            input_law=problem.input_law,
            noise_variance=problem.mean_noise_variance / square,
            task_variance=problem.task_variance,
        )
        # The rate is that of inputs without the scale; it goes as the inverse of their variance.
        return np.full(problem.dim, float(step.rate) * problem.input_variance / square)
    if problem.input_law != "gaussian":
        return None
    best = pretraining.optimal_gamma(context=problem.context, dim=problem.dim, **_laws(problem))
    return block_eigenvalues(best.gamma)


def exact_error(gamma: np.ndarray, problem: Problem) -> float | None:
    """Error of Gamma on fresh tasks in the units of the problem, where it has a closed form."""
    if not _is_exact(problem):
        return None
    errors = pretraining.errors_of_gamma(gamma, context=problem.context, **_laws(problem))
    return float(errors.icl) * units(problem)[1] ** 2


def _is_exact(problem: Problem) -> bool:
    """Whether errors of linear attention have a closed form at finite size."""
    gaussian = problem.input_law == "gaussian" and problem.noise_law is None
    return gaussian and problem.has_linear_labels


def _laws(problem: Problem) -> dict[str, Any]:
    """Laws of a problem in the units of Lu et al."""
    return {
        "rho": problem.mean_noise_variance / units(problem)[1] ** 2,
        "task_law": problem.task_law,
        "task_covariance": problem.task_covariance,
        "input_covariance": problem.input_covariance,
    }


def _student_z(estimate: Estimate, expected: float) -> float:
    """Deviation beyond rounding as a normal deviate; over its error it is a Student t."""
    ratio_of_errors = z_of(estimate, expected, expected)
    deviate = float(-ndtri(stdtr(FOLDS - 1, -abs(ratio_of_errors))))
    return math.copysign(deviate, ratio_of_errors)


def _mean(gamma: np.ndarray) -> np.ndarray:
    return np.array([np.trace(gamma[:, :-1]) / len(gamma)])


def _rest(gamma: np.ndarray) -> np.ndarray:
    block = gamma[:, :-1]
    parts = np.linalg.norm((block - block.T) / 2), np.linalg.norm(gamma[:, -1])
    return np.array([np.hypot(*parts) / np.linalg.norm(gamma)])


def pretrain_attention(
    problem: Problem, *, prompts: int, ridge: float = 0.0, rng: Seed = 0
) -> np.ndarray:
    """Reduced matrix (d, d + 1) of linear attention that is trained on prompts of a problem.

    The tasks of these prompts are the pretraining tasks of the problem, if it has any.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    prompts : int >= 1
        Number n of training prompts.
    ridge : float >= 0
        Ridge of the penalty n/d ridge times the square of Gamma.
    rng : int, SeedSequence or Generator
        Root seed of the training prompts.
    """
    check_arguments(prompts=prompts, ridge=ridge)
    [drawn] = seed_sequences(rng, 1)
    queries = []
    summaries = []
    labels = []
    for block in prompt_blocks(problem, prompts, rng=drawn):
        query, summary = attention_features(block, problem)
        queries.append(query)
        summaries.append(summary)
        labels.append(block.query_label / units(problem)[1])
    fit = solve_ridge(
        np.concatenate(queries), np.concatenate(summaries), np.concatenate(labels), ridge
    )
    return np.asarray(fit.gamma)


def answer_with(gamma: np.ndarray, problem: Problem, prompts: Prompts) -> np.ndarray:
    """Predictions (n,) of linear attention with this matrix, in the units of a problem."""
    query, summary = attention_features(prompts, problem)
    return np.vecdot(query @ gamma, summary) * units(problem)[1]


def expected_errors(problem: Problem, *, prompts: int, ridge: float) -> dict[str, float]:
    """Errors on fresh tasks that theory expects of such a training, in the units of a problem.

    They are the predictions "at this size" and "in the limit" of large dimensions; what is not
    known for the laws of the problem is left out.

    Parameters
    ----------
    problem, prompts, ridge
        As in `pretrain_attention`.
    """
    if problem.input_law != "gaussian" or problem.noise_law is not None:
        return {}
    unit = units(problem)[1] ** 2
    run = Experiment(problem, prompts=prompts, training=Ridge(ridge))
    if not problem.has_linear_labels:
        return {"in the limit": unit * float(pretraining.icl_error(**run.limit))}
    tasks = problem.task_set
    rho = problem.noise_variance / unit
    size = pretraining.finite_size_errors(
        dim=problem.dim,
        context=problem.context,
        tasks=math.inf if tasks is None else tasks / math.sqrt(problem.task_variance),
        prompts=prompts,
        rho=rho,
        ridge=ridge,
        rng=0,
        draws=1,
        task_law=problem.task_law,
        task_covariance=problem.task_covariance,
        input_covariance=problem.input_covariance,
    )
    expected = {"at this size": unit * size.icl.mean}
    if problem.input_covariance is None and problem.task_covariance is None:
        expected["in the limit"] = unit * float(pretraining.icl_error(**run.limit))
    return expected
