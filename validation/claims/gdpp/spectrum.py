"""Condition-number schedules against the eigenvalues of simulated layers.

Layer by layer, the mean eigenvalue of preconditioned Gaussian contexts tends to its
Marchenko-Pastur integral, and contexts of a given condition number reach the predicted ones, for
the published and for the optimal schedule.

Source: Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3; optimal
schedule: Amsel, Persson, Musco, Gower, arXiv:2505.16932, Theorem 4.1.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import condition_number_schedule, eigenvalues_after
from iclimit.asymptotics.spectra import MarchenkoPastur
from iclimit.simulate.gdpp import layer_spectra
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    extrapolate_runs,
)
from iclimit.validation.claims.gdpp.reached import METHODS, reached_cells, reached_runs
from iclimit.validation.drawing import COLOURS, Figure, finish, panels

RATIO, LAYERS = 0.25, 4
SIZES = (40, 60, 80, 120, 160)

# Eigenvalues drawn at every size.
EIGENVALUES: dict[Preset, int] = {"quick": 8_000, "full": 400_000}

# Relative; the largest eigenvalue of an image lies between those of sixty points (measured: at
# most 0.7 % below).
PRECONDITIONED_ALLOWANCE = 0.02


def spectral_moments(
    *, gammas: tuple[float, ...], dim: int, contexts: int, rng: Any
) -> np.ndarray:
    """Mean eigenvalue of Z^T Z/N, by layer and context, over its value of the scaled context."""
    generator = np.random.default_rng(rng)
    x = generator.standard_normal((contexts, round(dim / RATIO), dim))
    return np.mean(layer_spectra(x, gammas), axis=-1)


def gammas_of(method: str) -> tuple[float, ...]:
    """Schedule for the interval of the limiting spectrum."""
    lower, upper = (float(edge) for edge in MarchenkoPastur(RATIO).edges)
    schedule = condition_number_schedule(upper / lower, steps=LAYERS, method=method)
    return tuple((schedule.gammas / upper).tolist())


def cells(preset: Preset) -> dict[Any, Cell]:
    """Mean eigenvalues by method and size, and runs from given condition numbers."""
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


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare extrapolated mean eigenvalues, and condition numbers layer by layer."""
    comparisons, notes = [], []
    # Exact for polynomials: the mean eigenvalue after L layers is one of degree 3^L.
    nodes, weights = MarchenkoPastur(RATIO).quadrature(3**LAYERS)
    for method in METHODS:
        limits = np.sum(weights * eigenvalues_after(nodes, gammas_of(method)), axis=-1)
        fit = extrapolate_runs(SIZES, [results["moments", method, dim] for dim in SIZES])
        theories = {
            f"mean eigenvalue after {layer} layers, {method}, d to infinity": limit
            for layer, limit in enumerate(limits)
        }
        comparisons += compare_limits(theories, fit)
        notes.append(f"{method}: {fit.summary}.")
    reached = reached_runs(results)
    for (method, start), run in reached.items():
        found = run["condition_numbers"]
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

    def draw(figure: Figure) -> None:
        (ax,) = panels(figure, 1, width=6.4, height=4.0)
        starts = dict.fromkeys(start for _, start in reached)
        for start, colour in zip(starts, COLOURS, strict=False):
            for method, (line, marker) in METHODS.items():
                excess = condition_number_schedule(start, tol=1e-12, method=method).excess
                found = np.array(reached[method, start]["condition_numbers"]) - 1
                label = f"{method}, from {start:g}"
                for values, style, name in ((excess, line, label), (found, marker, None)):
                    drawn = np.flatnonzero(values > 1e-12)
                    ax.plot(drawn, values[drawn], style, color=colour, markersize=4, label=name)
        ax.set_ylim(1e-12, None)
        y = r"condition number minus one, $\nu/\mu - 1$"
        finish(ax, "layers of GD++", y, log="y", legend="", beside=True)

    return Verdict(comparisons, draw, notes)


claim = Claim.of("gdpp-spectrum", __doc__, cells, judge)
