"""Condition-number schedules against the eigenvalues of simulated layers.

Layer by layer, the mean eigenvalue of preconditioned Gaussian contexts tends to its
Marchenko-Pastur integral, and contexts of a given condition number reach the predicted ones, for
the published and for the optimal schedule.

Source: Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3; optimal
schedule: Amsel, Persson, Musco, Gower, arXiv:2505.16932, Theorem 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import condition_number_schedule, eigenvalues_after
from iclimit.asymptotics.spectra import MarchenkoPastur
from iclimit.simulate.gdpp import layer_spectra
from iclimit.validation.claim import Cell, Claim, Preset, Verdict
from iclimit.validation.claims.gdpp.reached import METHODS, reached_cells
from iclimit.validation.comparisons import compare, compare_limits
from iclimit.validation.drawing import COLOURS
from iclimit.validation.statistics import extrapolate

RATIO, LAYERS = 0.25, 4
SIZES = (40, 60, 80, 120, 160)

# Eigenvalues drawn at every size.
EIGENVALUES: dict[Preset, int] = {"quick": 8_000, "full": 400_000}

# Relative; the largest eigenvalue of an image lies between those of sixty points (measured: at
# most 0.7 % below).
PRECONDITIONED_ALLOWANCE = 0.02


@dataclass(frozen=True)
class SpectralMoments:
    """Means over contexts and their covariance matrix, by layer."""

    means: np.ndarray
    covariance: np.ndarray


def spectral_moments(
    *, gammas: tuple[float, ...], dim: int, contexts: int, rng: Any, backend: str = "numpy"
) -> SpectralMoments:
    """Mean eigenvalue of Z^T Z/N after each layer, over its value of the scaled context."""
    del backend
    generator = np.random.default_rng(rng)
    x = generator.standard_normal((contexts, round(dim / RATIO), dim))
    traces = np.mean(layer_spectra(x, gammas), axis=-1).T
    return SpectralMoments(np.mean(traces, axis=0), np.cov(traces.T) / contexts)


def gammas_of(method: str) -> tuple[float, ...]:
    """Schedule for the interval of the limiting spectrum."""
    lower, upper = (float(edge) for edge in MarchenkoPastur(RATIO).edges)
    schedule = condition_number_schedule(upper / lower, steps=LAYERS, method=method)
    return tuple((schedule.gammas / upper).tolist())


def _cells(preset: Preset) -> dict[Any, Cell]:
    moments = {
        ("moments", method, dim): Cell.of(
            spectral_moments,
            gammas=gammas_of(method),
            dim=dim,
            contexts=EIGENVALUES[preset] // dim,
        )
        for method in METHODS
        for dim in SIZES
    }
    return moments | reached_cells()


def _judge(preset: Preset, results: Mapping[Any, Any]) -> Verdict:  # noqa: ARG001
    comparisons, notes = [], []
    # Exact for polynomials: the mean eigenvalue after L layers is one of degree 3^L.
    nodes, weights = MarchenkoPastur(RATIO).quadrature(3**LAYERS)
    for method in METHODS:
        limits = np.sum(weights * eigenvalues_after(nodes, gammas_of(method)), axis=-1)
        runs = [results["moments", method, dim] for dim in SIZES]
        means, covariances = [run.means for run in runs], [run.covariance for run in runs]
        fit = extrapolate(SIZES, np.stack(means), np.stack(covariances))
        labels = (f"mean eigenvalue after {layer} layers, {method}" for layer in range(LAYERS + 1))
        theories = {
            f"{label}, d to infinity": limit for label, limit in zip(labels, limits, strict=True)
        }
        comparisons += compare_limits(theories, fit)
        notes.append(f"{method}: {fit.summary}.")
    for kind, method, start in results:
        if kind != "reached":
            continue
        found = results[kind, method, start].condition_numbers
        schedule = condition_number_schedule(start, steps=len(found) - 1, method=method)
        comparisons += [
            compare(
                f"condition number after {layer} layers, {method}, from {start:g}",
                schedule.condition_number[layer],
                value,
                allowance=PRECONDITIONED_ALLOWANCE * float(schedule.excess[layer]) + 1e-9,
            )
            for layer, value in enumerate(found)
        ]
    return Verdict(tuple(comparisons), partial(_draw, results), tuple(notes))


def _draw(results: Mapping[Any, Any], figure: Any) -> None:
    figure.set_size_inches(6.4, 4.0)
    ax = figure.subplots()
    starts = list(dict.fromkeys(start for kind, _, start in results if kind == "reached"))
    for start, colour in zip(starts, COLOURS, strict=False):
        for method, (line, marker) in METHODS.items():
            excess = condition_number_schedule(start, tol=1e-12, method=method).excess
            found = np.array(results["reached", method, start].condition_numbers) - 1
            label = f"{method}, from {start:g}"
            for values, style, name in ((excess, line, label), (found, marker, None)):
                drawn = np.flatnonzero(values > 1e-12)
                ax.plot(drawn, values[drawn], style, color=colour, markersize=4, label=name)
    ax.set(xlabel="layers of GD++", ylabel=r"condition number minus one, $\nu/\mu - 1$")
    ax.set_ylim(1e-12, None)
    ax.set_yscale("log")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))


claim = Claim.of("gdpp-spectrum", __doc__, _cells, _judge)
