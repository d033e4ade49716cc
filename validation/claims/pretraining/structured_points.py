"""Points of the parameter space with structured tasks, tests and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from iclimit.asymptotics.pretraining import (
    FiniteSizeErrors,
    JointSpectrum,
    finite_size_errors,
    structured_errors,
)
from iclimit.asymptotics.spectra import spectrum
from iclimit.simulate.pretraining import SimulatedErrors, simulate_errors
from iclimit.validation.claim import Cell, Comparison, Preset
from iclimit.validation.claims.pretraining.large_size import ratio_to_prediction
from iclimit.validation.claims.pretraining.points import (
    Point,
    covariance,
    means,
    prediction_comparisons,
)
from iclimit.validation.claims.pretraining.sweeps import REPEATS, Curve, draw_runs
from iclimit.validation.drawing import draw_points, log_scale
from iclimit.validation.statistics import Extrapolation, extrapolate

STRUCTURED = "Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551"

LEVELS = 8
"""Different eigenvalues, equally frequent: at sizes that are multiples of it the joint spectrum is
the same, so that extrapolations in 1/d tend to its limit."""

TESTS = ("aligned", "reversed", "strongest", "weakest")
"""Test covariances, of the trace of that of training: the same, its eigenvalues in opposite order,
or all variance in one direction, that of the largest or the least eigenvalue."""

ALIGNMENTS = ("same", "reversed", "rotated")
"""Eigenvectors of the input covariance against those of the tasks; in ascending order of the
eigenvalues of both, in opposite order, or in random position."""

SIZES: dict[Preset, dict[int, int]] = {
    "quick": {16: 64, 24: 40, 32: REPEATS["quick"], 40: 20},
    "full": {16: 1200, 24: 600, 32: 400, 48: 160, 64: REPEATS["full"]},
}
"""Repeats at each size of an extrapolation; at the size of the sweeps, the runs are theirs."""


def eigenvalues(description: str, d: int) -> np.ndarray:
    """Ascending eigenvalues of mean 1 at the quantiles of a measure."""
    levels = spectrum(description).quantiles(LEVELS)
    return np.repeat(levels / np.mean(levels), d // LEVELS)


def covariances(d: int, task: str, test: str, inputs: str, alignment: str) -> dict[str, Any]:
    """Covariances of training tasks, test tasks and inputs; those of the inputs None for I."""
    C = eigenvalues(task, d)
    if test in ("strongest", "weakest"):
        test_covariance = np.zeros(d)
        test_covariance[-1 if test == "strongest" else 0] = np.sum(C)
    else:
        test_covariance = C[::-1] if test == "reversed" else C
    return {
        "task_covariance": C,
        "test_covariance": test_covariance,
        "input_covariance": _input_covariance(d, inputs, alignment),
    }


def _input_covariance(d: int, inputs: str, alignment: str) -> np.ndarray | None:
    if inputs == "isotropic":
        return None
    values = eigenvalues(inputs, d)
    if alignment == "rotated":
        basis = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
        return (basis * values) @ basis.T
    return values[::-1] if alignment == "reversed" else values


def structured_run(
    *,
    dim: int,
    task: str,
    test: str,
    inputs: str,
    alignment: str,
    repeats: int,
    first_repeat: int = 0,
    rng: Any,
    backend: str = "numpy",
    **parameters: Any,
) -> SimulatedErrors:
    """Simulated errors with described covariances."""
    return simulate_errors(
        dim=dim,
        **covariances(dim, task, test, inputs, alignment),
        **parameters,
        repeats=repeats,
        first_repeat=first_repeat,
        rng=rng,
        backend=backend,
    )


def structured_prediction(
    *, dim: int, task: str, test: str, inputs: str, alignment: str, rng: Any, **parameters: Any
) -> FiniteSizeErrors:
    """Finite-size prediction with described covariances."""
    return finite_size_errors(
        dim=dim, **covariances(dim, task, test, inputs, alignment), rng=rng, **parameters
    )


@dataclass(frozen=True)
class StructuredPoint(Point):
    """A point with spectra, in the words of `iclimit.asymptotics.spectra.spectrum`."""

    task: str = "isotropic"
    test: str = "aligned"
    inputs: str = "isotropic"
    alignment: str = "same"
    test_alpha: float | None = None
    test_rho: float | None = None

    def __str__(self) -> str:
        names = ("test", "inputs", "alignment", "test_alpha", "test_rho")
        usual = StructuredPoint(1, 1, 1, 1)
        told = [name for name in names if getattr(self, name) != getattr(usual, name)]
        values = [getattr(self, name) for name in told]
        shown = [value if isinstance(value, str) else f"{value:g}" for value in values]
        words = [f"{name.replace('_', '-')}={v}" for name, v in zip(told, shown, strict=True)]
        return " ".join([super().__str__(), self.task, *words])

    @property
    def spectrum(self) -> JointSpectrum:
        """Joint spectrum of the limit."""
        given = covariances(LEVELS, self.task, self.test, self.inputs, self.alignment)
        return JointSpectrum.of_matrices(
            given["task_covariance"], given["test_covariance"], given["input_covariance"]
        )

    @property
    def theory(self) -> np.ndarray:
        """Asymptotic ICL and IDG errors, shape (2, ...)."""
        names = ("tau", "alpha", "kappa", "rho", "ridge", "test_alpha", "test_rho")
        errors = structured_errors(
            **{name: getattr(self, name) for name in names}, spectrum=self.spectrum
        )
        return np.array(np.broadcast_arrays(errors.icl, errors.idg))

    def integers(self, d: int) -> dict[str, Any]:
        test_context = None if self.test_alpha is None else max(1, round(self.test_alpha * d))
        return super().integers(d) | {
            "task": self.task,
            "test": self.test,
            "inputs": self.inputs,
            "alignment": self.alignment,
            "test_context": test_context,
            "test_rho": self.test_rho,
        }

    def cell(self, d: int, repeats: int, **options: Any) -> Cell:
        return Cell.of(structured_run, **self.integers(d), repeats=repeats, **options)

    def prediction(self, d: int) -> Cell:
        return Cell.of(structured_prediction, **self.integers(d), draws=max(8, 1000 // d))

    def allowance(self, d: int) -> float:
        """Relative systematic deviation of the finite-size prediction.

        Input covariance adds to that of isotropic inputs.  The worst seen, for eigenvalues from
        0.2 to 1.8 with half as many prompts as features, is 6 % at d = 16, 4 % at d = 24, 3 % at
        d = 32, 1 % at d = 64; with more prompts than features 1.3 % at d = 16.
        """
        return super().allowance(d) if self.inputs == "isotropic" else 1.2 / d


@dataclass(frozen=True)
class StructuredCurve(Curve):
    """Structured points that differ in one parameter."""

    base: StructuredPoint


def size_cells(points: Sequence[StructuredPoint], preset: Preset) -> list[Cell]:
    """Cells of points at all sizes."""
    return [
        cell
        for point in points
        for d, repeats in sorted(SIZES[preset].items(), reverse=True)
        for cell in (point.cell(d, repeats), point.prediction(d))
    ]


def size_comparisons(
    points: Sequence[StructuredPoint], preset: Preset, results: Mapping[Cell, Any]
) -> tuple[list[Comparison], list[Extrapolation], list[str]]:
    """Points against their prediction at all sizes and, extrapolated, against the limit."""
    sizes = SIZES[preset]
    comparisons, fits, notes = [], [], []
    for point in points:
        runs = [results[point.cell(d, repeats)] for d, repeats in sizes.items()]
        fit = extrapolate(
            list(sizes),
            np.array([means(run) for run in runs]),
            np.array([covariance(run) for run in runs]),
        )
        # A fit that is wrong at any order would make its error bar meaningless.
        bad = max(-float(ndtri(fit.p_value)), 0.0)
        comparisons.append(Comparison(f"chi-square of the errors {point}", 0.0, bad, 1.0))
        for row, name in enumerate(("ICL", "IDG")):
            comparisons.append(
                Comparison(
                    f"{name} d=inf {point}",
                    float(point.theory[row]),
                    float(fit.value[row]),
                    float(fit.standard_error[row]),
                )
            )
        ratio = ratio_to_prediction(point, sizes, results)
        for row, name in enumerate(("ICL", "IDG")):
            label = f"{name} over its prediction, d=inf {point}"
            value, error = float(ratio.value[row]), float(ratio.standard_error[row])
            comparisons.append(Comparison(label, 1.0, value, error))
        for d, repeats in sizes.items():
            comparisons += prediction_comparisons(point, d, results, point.cell(d, repeats))
        fits.append(fit)
        notes.append(
            f"{point}: order {fit.order} in 1/d, chi-square {fit.chi_square:.1f} for "
            f"{fit.degrees} degrees of freedom (p = {fit.p_value:.2f}); ratio to the prediction: "
            f"order {ratio.order}, p = {ratio.p_value:.2f}"
        )
    return comparisons, fits, notes


def draw_curve(
    ax: Any,
    curve: StructuredCurve,
    name: str,
    preset: Preset,
    results: Mapping[Cell, Any],
    colour: str,
    label: str,
) -> None:
    """One error along a curve: limit (line), prediction (dashes) and simulation (points)."""
    row = ("icl", "idg").index(name)
    fine = np.geomspace(min(curve.values), max(curve.values), 200)
    along: dict[str, Any] = {curve.axis: fine}
    ax.plot(fine, replace(curve.base, **along).theory[row], color=colour, label=label)
    draw_runs(ax, curve, name, preset, results, colour)
    log_scale(ax, "x")


def draw_sizes(
    ax: Any,
    point: StructuredPoint,
    name: str,
    preset: Preset,
    results: Mapping[Cell, Any],
    fit: Extrapolation | None,
    colour: str,
    label: str,
) -> None:
    """One error against 1/d: prediction (line), simulation (points), limit (star)."""
    sizes, row = SIZES[preset], ("icl", "idg").index(name)
    inverse = [1 / d for d in sizes]
    runs = [results[point.cell(d, repeats)] for d, repeats in sizes.items()]
    draw_points(
        ax,
        inverse,
        [getattr(run, name).mean for run in runs],
        [getattr(run, name).standard_error for run in runs],
        colour,
        label=label,
    )
    predicted = [getattr(results[point.prediction(d)], name).mean for d in sizes]
    ax.plot(inverse, predicted, color=colour, linewidth=1.2)
    if fit is not None:
        star: dict[str, Any] = {
            "marker": "*",
            "markersize": 11,
            "linestyle": "none",
            "clip_on": False,
        }
        ax.plot(0, point.theory[row], color=colour, zorder=5, **star)
        draw_points(ax, [0], [fit.value[row]], [fit.standard_error[row]], colour, fmt="none")
    ax.set_xlim(left=0)
    ax.set_xlabel("$1/d$")
