"""Problems with one thing changed: size of inputs and tasks, noise, covariances."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.simulate.gdpp.noisy_regression import NoiseLevels
from iclimit.simulate.probing.problem import Problem
from iclimit.validation.yours.models.problem_units import ProblemUnits


def shifted_problems(
    problem: Problem, rotation: np.random.SeedSequence
) -> dict[str, tuple[str, Problem]]:
    """Other laws of the prompts, by the names of their sections, with a description."""
    shifts = {}
    for name, factor in (("half", 0.5), ("double", 2.0)):
        changed = replace(problem, scale=factor * problem.scale)
        shifts[f"inputs:{name}"] = f"inputs times {factor:g}", changed
    for name, factor in (("half", 0.5), ("double", 2.0)):
        changed = replace(problem, task_variance=factor**2 * problem.task_variance)
        shifts[f"tasks:{name}"] = f"tasks times {factor:g}", changed
    if problem.mean_noise_variance:
        silent = replace(problem, noise_variance=0.0, noise_law=None)
        shifts["noise:none"] = "no label noise", silent
        text = "label noise of four times the variance"
        shifts["noise:fourfold"] = text, _with_fourfold_noise(problem)
    else:
        # The variance, to three digits that a report can show.
        noise = float(f"{ProblemUnits(problem).signal / 4:.3g}")
        changed = replace(problem, noise_variance=noise, noise_law=None)
        shifts["noise:added"] = f"label noise of variance {noise:g}", changed
    for what in ("input", "task"):
        covariance = getattr(problem, f"{what}_covariance")
        if covariance is None:
            continue
        for how, text in (
            ("reversed", "eigenvalues in the opposite order"),
            ("rotated", "eigenvectors turned at random"),
        ):
            turned = _reversed(covariance) if how == "reversed" else _rotated(covariance, rotation)
            changes: dict[str, Any] = {f"{what}_covariance": turned}
            changed = replace(problem, **changes)
            shifts[f"{what}s:{how}"] = f"covariance of the {what}s: {text}", changed
    return shifts


def _with_fourfold_noise(problem: Problem) -> Problem:
    if problem.noise_law is None:
        return replace(problem, noise_variance=4 * problem.noise_variance)
    law = NoiseLevels(problem.noise_law.kind, tuple(2 * each for each in problem.noise_law.levels))
    return replace(problem, noise_law=law)


def mean_eigenvalue(covariance: np.ndarray | None) -> float:
    """Mean eigenvalue of a covariance; None stands for the identity."""
    if covariance is None:
        return 1.0
    return float(np.mean(covariance if covariance.ndim == 1 else np.diag(covariance)))


def _reversed(covariance: np.ndarray) -> np.ndarray:
    """The same eigenvectors, the largest eigenvalue where the smallest was, and so on."""
    if covariance.ndim == 1:
        turned = np.empty_like(covariance)
        order = np.argsort(covariance, kind="stable")
        turned[order] = covariance[order[::-1]]
        return turned
    eigenvalues, basis = np.linalg.eigh(covariance)
    return _symmetric((basis * np.maximum(eigenvalues[::-1], 0)) @ basis.T)


def _rotated(covariance: np.ndarray, seed: np.random.SeedSequence) -> np.ndarray:
    """The same eigenvalues, with eigenvectors turned by a uniformly distributed rotation."""
    gaussian = np.random.default_rng(seed).standard_normal((len(covariance),) * 2)
    basis, triangle = np.linalg.qr(gaussian)
    basis = basis * np.sign(np.diag(triangle))
    matrix = np.diag(covariance) if covariance.ndim == 1 else covariance
    return _symmetric(basis @ matrix @ basis.T)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2
