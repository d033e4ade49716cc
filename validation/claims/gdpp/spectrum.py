"""Condition-number schedules against the eigenvalues of simulated layers.

Layer by layer, eigenvalues of preconditioned Gaussian contexts are those of the formula, their
mean is the integral over the exact mean spectrum, and spectra of a given condition number reach
the predicted ones, for the published and for the optimal schedule.

Source: Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3; optimal
schedule: Amsel, Persson, Musco, Gower, arXiv:2505.16932, Theorem 4.1.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.gdpp import condition_number_schedule, eigenvalues_after, interval_after
from iclimit.asymptotics.spectra import MarchenkoPastur, Wishart
from iclimit.comparison import Comparison, compare
from iclimit.results import Estimate
from iclimit.simulate.gdpp import layer_spectra
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, judged, mean, run
from iclimit.validation.claims.gdpp.controls import controlled, trace_controls
from iclimit.validation.claims.gdpp.reached import (
    METHODS,
    STARTS,
    TARGETS,
    image_ends,
    schedule_of,
)

# Dimension over context length.
RATIO = 0.25
# Layers of the schedules.
LAYERS = 3
# Dimensions that are simulated.
SIZES = (24, 32, 48)

# Relative error of single eigenvalues: rounding of matrices (measured: 1e-14).
ROUNDING = 1e-12

# Relative error of the ends of images; the largest value lies between two eigenvalues (measured:
# at most 3e-8).
INTERVAL_ACCURACY = 1e-7

# Excesses below this lose digits to rounding of condition numbers near 1.
SMALLEST_EXCESS = 1e-6

# Upper end of a misjudged spectrum, for which the schedules were not made.  No layer annihilates
# an eigenvalue below it.
MISJUDGED = 1.005


@named_cell("spectral_means")
def spectral_means(
    *, gammas: tuple[float, ...], dim: int, contexts: int, rng: SeedSequence
) -> tuple[list[Estimate], np.ndarray]:
    """Mean eigenvalue of Z^T Z/N after every layer, with traces as control variates.

    With them come all eigenvalues of one context after every layer.
    """
    context = round(dim / RATIO)
    x = np.random.default_rng(rng).standard_normal((contexts, context, dim))
    controls = trace_controls(x.transpose(0, 2, 1) @ x, context)
    spectra = layer_spectra(x, gammas)
    means = [controlled(layer, controls) for layer in np.mean(spectra, axis=-1)[1:]]
    return means, spectra[:, 0]


def gammas_of(method: str) -> tuple[float, ...]:
    """Schedule for the interval of the limiting spectrum."""
    edges = MarchenkoPastur(RATIO).edges
    lower = float(edges[0])
    upper = float(edges[1])
    schedule = condition_number_schedule(upper / lower, steps=LAYERS, method=method)
    return tuple((schedule.gammas / upper).tolist())


def rows(effort: Effort) -> Rows:
    """Eigenvalues, their means, and condition numbers layer by layer."""
    drawn = effort.pick(tiny=2_000, quick=12_000, medium=72_000, full=432_000)
    for method in METHODS:
        gammas = gammas_of(method)
        for dim in SIZES:
            schedule = Derived(gammas, (method, RATIO, LAYERS))
            spectra = run(spectral_means, gammas=schedule, dim=dim, contexts=drawn // dim)
            theories = call(mean_eigenvalues, dim, gammas)
            for layer in range(1, LAYERS + 1):
                label = f"mean eigenvalue after {layer} layers, {method}, d = {dim}"
                options = {"of": "eigenvalues_after", "draws": (method, dim)}
                yield mean(label, theories[layer], spectra[0][layer - 1], **options)
        theory = call(eigenvalues_after, spectra[1][0], gammas=gammas)
        for layer in range(1, LAYERS + 1):
            for end, place in (("least", 0), ("largest", -1)):
                label = f"{end} eigenvalue of a context after {layer} layers, {method}"
                ordered = call(np.sort, theory[layer])[place]
                largest = spectra[1][layer, place]
                of = "eigenvalues_after"
                yield exact(label, ordered, largest, relative=ROUNDING, of=of)
        for start in STARTS:
            layers = schedule_of(method, start).gammas
            schedule = Derived(layers, (method, start, min(TARGETS)))
            images = {
                upper: run(image_ends, gammas=schedule, lower=1 / start, upper=upper)
                for upper in (1.0, MISJUDGED)
            }
            yield judged(call(compare_images, method, start, images))


@cache
def mean_rule(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Rule over the exact mean spectrum.

    The mean eigenvalue after L layers is that of a polynomial of degree 3^L.
    """
    return Wishart(context=round(dim / RATIO), dim=dim).quadrature(math.ceil(3**LAYERS / 2))


def mean_eigenvalues(dim: int, gammas: tuple[float, ...]) -> np.ndarray:
    """Integrals over the exact mean spectrum, before and after every layer."""
    nodes, weights = mean_rule(dim)
    return eigenvalues_after(nodes, gammas=gammas) @ weights


def compare_images(
    method: str, start: float, images: Mapping[float, np.ndarray]
) -> list[Comparison]:
    """Compare the images of an interval with its schedule and with their ends.

    Of all layers, where they differ most.
    """
    schedule = schedule_of(method, start)
    comparisons = []
    for upper in (1.0, MISJUDGED):
        least, largest = images[upper]
        image = interval_after(schedule.gammas, lower=1 / start, upper=upper)
        rows: list[tuple[str, str, Any, np.ndarray]] = [
            ("interval_after", "lower", image, least),
            ("interval_after", "upper", image, largest),
        ]
        if upper == 1:
            total = least + largest
            measured = {
                "condition_number": largest / least,
                "excess": largest / least - 1,
                "top": largest,
                "residual": (largest - least) / total,
                "final_rate": 2 / total,
            }
            rows += [
                ("condition_number_schedule", field, schedule, values)
                for field, values in measured.items()
            ]
        for function, field, predicted, values in rows:
            theory = getattr(predicted, field)
            kept = slice(None)
            if field in ("excess", "residual"):
                kept = schedule.excess > SMALLEST_EXCESS
            layer = int(np.argmax(np.abs(values[kept] / theory[kept] - 1)))
            setting = f"up to {upper:g}, {method}, from {start:g}"
            comparisons.append(
                compare(
                    f"{field} {setting}: worst after {layer} layers",
                    theory[layer],
                    values[layer],
                    relative=INTERVAL_ACCURACY,
                    of=f"{function}.{field}",
                )
            )
    return comparisons


claim = Claim.of("gdpp-spectrum", __doc__, rows, figure=False)
