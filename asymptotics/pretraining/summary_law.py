r"""Exact moments of the context summary at finite context length.

For Gaussian inputs, a task w and labels of variance :math:`v = |w|^2/d + \rho`, the summary
:math:`h = (\frac d\ell \sum_i y_i x_i, \frac1\ell \sum_i y_i^2)` of :math:`\ell` pairs has the law

.. math:: h = \Bigl(\chi w + \sqrt{\chi\, d v/\ell}\; P^{1/2} g,\; \chi v\Bigr), \qquad
   P = I - \frac{w w^\top}{d v},

with :math:`\ell\chi` chi-square of :math:`\ell` degrees of freedom and :math:`g \sim N(0, I_d)`
independent: labels and inputs are jointly Gaussian, so given the labels the inputs are linear in
them plus an independent part.

Inputs of covariance :math:`\Sigma/d` are :math:`\Sigma^{1/2}` times isotropic ones: their
summaries are :math:`\Sigma^{1/2}` times those of isotropic inputs for the tasks
:math:`\Sigma^{1/2} w`, so the laws here are for isotropic inputs only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SummaryLaw:
    """Moments of summaries over contexts and over a law of tasks.

    Attributes
    ----------
    second : ndarray (d + 1, d + 1)
        G = E h h^T.
    cross : ndarray (d + 1, d)
        A = E h w^T.
    label : float
        E y^2 of a noisy query label.
    tasks : ndarray (k, d)
        The tasks, equally likely.  For fresh tasks of an isotropic law, representatives whose
        squared norms have the right mean and variance; of another law, a sample.
    context : int
        Context length.
    rho : float
        Noise variance.
    """

    second: np.ndarray
    cross: np.ndarray
    label: float
    tasks: np.ndarray
    context: int
    rho: float


def task_set_law(tasks: np.ndarray, context: int, rho: float) -> SummaryLaw:
    """Law of the summary when the task is drawn from the rows of tasks, shape (k, d)."""
    k, d = tasks.shape
    label = np.sum(tasks**2, axis=1) / d + rho
    return _assemble(tasks.T @ tasks / k, label @ tasks / k, label, tasks, context, rho)


def fresh_task_law(d: int, context: int, rho: float, task_law: str) -> SummaryLaw:
    """Law of the summary for tasks uniform on the sphere |w|^2 = d, or from N(0, I_d)."""
    # Two norms with the mean d and the variance 2 d of |w|^2.
    spread = np.sqrt(2 / d) * np.array([-1, 1]) if task_law == "gaussian" else np.zeros(1)
    norms = np.sqrt(np.maximum(d * (1 + spread), 0.0))
    tasks = norms[:, None] * np.eye(1, d)
    label = 1 + spread + rho
    return _assemble(np.eye(d), np.zeros(d), label, tasks, context, rho)


def sphere_task_law(root: np.ndarray, context: int, rho: float) -> SummaryLaw:
    """Law of the summary for tasks root w, with w uniform on the sphere |w|^2 = d."""
    d = len(root)
    second = root @ root.T
    mean = np.trace(second) / d
    variance = 2 * (np.sum(second**2) / d - mean**2) / (d + 2)
    directions = _representatives(d)
    directions *= np.sqrt(d) / np.linalg.norm(directions, axis=1, keepdims=True)
    return _population(second, mean, variance, directions @ root.T, context, rho)


def gaussian_task_law(covariance: np.ndarray, context: int, rho: float) -> SummaryLaw:
    """Law of the summary for tasks from N(0, covariance)."""
    d = len(covariance)
    variance = 2 * np.sum(covariance**2) / d**2
    root = matrix_root(covariance)
    tasks = _representatives(d) @ root
    return _population(covariance, np.trace(covariance) / d, variance, tasks, context, rho)


def _representatives(d: int) -> np.ndarray:
    """Draws that stand for a law of tasks; only a correction of O(1/d) depends on them."""
    count = min(max(2000, 4_000_000 // d**2), 20_000)
    return np.random.default_rng(0).standard_normal((count, d))


def matrix_root(covariance: np.ndarray) -> np.ndarray:
    """Symmetric root of a covariance matrix."""
    values, basis = np.linalg.eigh(covariance)
    return (basis * np.sqrt(np.maximum(values, 0.0))) @ basis.T


def _population(
    second: np.ndarray, mean: float, variance: float, tasks: np.ndarray, context: int, rho: float
) -> SummaryLaw:
    """Law for tasks without third moments, whose noiseless labels have this variance's law."""
    label = mean + rho + np.sqrt(max(variance, 0.0)) * np.array([-1, 1])
    return _assemble(second, np.zeros(len(second)), label, tasks, context, rho)


def _assemble(
    second: np.ndarray,
    cross: np.ndarray,
    label: np.ndarray,
    tasks: np.ndarray,
    context: int,
    rho: float,
) -> SummaryLaw:
    d = len(second)
    corner = 1 + 2 / context
    head = d / context * np.mean(label) * np.eye(d) + (1 + 1 / context) * second
    side = corner * cross[:, None]
    tail = np.atleast_2d(corner * np.mean(label**2))
    G = np.block([[head, side], [side.T, tail]])
    A = np.vstack([second, cross])
    return SummaryLaw(G, A, float(np.mean(label)), tasks, context, rho)


def quadratic_form_variance(law: SummaryLaw, F: np.ndarray) -> float:
    r"""Variance of :math:`h^\top F h` over its squared mean, for symmetric F.

    With :math:`c = (w, v)`, the form is :math:`\chi^2 c^\top F c` plus a term linear in g plus
    :math:`\chi` times a Gaussian quadratic form; the chi-square moments are
    :math:`E\chi^m = \prod_{i<m}(1 + 2i/\ell)`.
    """
    w, length = law.tasks, law.context
    d = w.shape[1]
    v = np.sum(w**2, axis=1) / d + law.rho
    head = F[:d, :d]
    pushed = np.column_stack([w, v]) @ F
    signal = np.sum(pushed[:, :d] * w, axis=1) + pushed[:, d] * v
    side = pushed[:, :d]
    side_squared = np.sum(side**2, axis=1) - np.sum(side * w, axis=1) ** 2 / (d * v)
    once = np.sum((w @ head) * w, axis=1) / (d * v)
    twice = np.sum((w @ head) ** 2, axis=1) / (d * v)
    scale = d * v / length
    noise = scale * (np.trace(head) - once)
    noise_variance = 2 * scale**2 * (np.sum(head**2) - 2 * twice + once**2)
    second = 1 + 2 / length
    third = second * (1 + 4 / length)
    fourth = third * (1 + 6 / length)
    mean = second * signal + noise
    variance = (
        (fourth - second**2) * signal**2
        + 2 * (third - second) * signal * noise
        + (second - 1) * noise**2
        + second * noise_variance
        + 4 * third * scale * side_squared
    )
    return float((np.mean(variance) + np.var(mean)) / np.mean(mean) ** 2)
