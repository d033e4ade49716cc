"""GD++: condition numbers layer by layer, numbers of layers, and test errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_schedule
from iclimit.asymptotics.gdpp import (
    condition_number_schedule,
    eigenvalues_after,
    gdpp_loss,
    optimal_gdpp,
    steps_needed,
)
from iclimit.asymptotics.spectra import MarchenkoPastur
from iclimit.simulate.descent.regression import regression_tokens
from iclimit.simulate.gdpp import gdpp_transformer, layer_spectra, simulate_gdpp
from iclimit.simulate.pretraining.prompts import Prompts
from iclimit.simulate.transformer import prediction
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.drawing import COLOURS, draw_points, log_scale
from iclimit.validation.statistics import extrapolate

PAPER = "Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3"
POLAR = "Amsel, Persson, Musco, Gower, arXiv:2505.16932"

METHODS = ("optimal", "monotone")
RATIO, LAYERS = 0.25, 4
SIZES = (40, 60, 80, 120, 160)
EIGENVALUES: dict[Preset, int] = {"quick": 8_000, "full": 400_000}
"""Eigenvalues drawn at every size."""

KAPPAS, TARGETS = (10.0, 100.0, 1e3, 1e4), (1e-2, 1e-4, 1e-8)
DECADES, EXPONENTS = (1e4, 1e40), (1e-10, 1e-160)
"""Condition numbers and excesses between which layers are counted; counts are whole numbers, so a
difference can be one off."""
DENSE = 60
"""Eigenvalues of the contexts with a given condition number."""
PRECONDITIONED_ALLOWANCE = 0.02
"""Relative; the largest eigenvalue of an image lies between those of so many points (measured: at
most 0.7 % below)."""

ERROR_RATES, ERROR_GAMMAS = (0.3, 0.45, 0.6), (0.06, 0.07)
"""Tame up to the largest eigenvalues that occur.  At the best rates of the limit the mean of three
layers, of degree 26 in the eigenvalues, comes from contexts too rare to be simulated."""
ERROR_SIZES, ERROR_NOISE = (16, 24, 32, 48, 64), 0.05
ERROR_REPEATS: dict[Preset, int] = {"quick": 20_000, "full": 400_000}


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


@dataclass(frozen=True)
class ReachedLayers:
    """What layers did on contexts of a given condition number."""

    condition_numbers: list[float]
    errors: list[float]


def reached_layers(
    *,
    kappa: float,
    gammas: tuple[float, ...],
    rates: tuple[float, ...],
    rng: Any,
    backend: str = "numpy",
) -> ReachedLayers:
    """Condition numbers by layer, and the relative error of a last step after 0, 1, ... layers.

    The eigenvalues are spaced evenly in the logarithm over the whole interval; the error is the
    largest over the eigendirections of |prediction - <w, x>| / (|w| |x|), from tokens.
    """
    del backend
    generator = np.random.default_rng(rng)
    left = np.linalg.qr(generator.standard_normal((2 * DENSE, DENSE)))[0]
    right = np.linalg.qr(generator.standard_normal((DENSE, DENSE)))[0]
    roots = np.geomspace(1 / kappa, 1, DENSE) ** 0.5
    x = math.sqrt(2 * DENSE) * (left * roots) @ right.T
    spectra = layer_spectra(x[None], np.array(gammas))[:, 0]
    errors = []
    for count, rate in enumerate(rates):
        model = gdpp_transformer(
            [0.0] * count + [rate], gammas[:count], context=2 * DENSE, dim=DENSE
        )
        # For w along an eigendirection the worst query is along it too.
        labels = x @ right
        prompts = Prompts(np.broadcast_to(x, (DENSE, *x.shape)), labels.T, right.T, np.ones(DENSE))
        errors.append(np.max(np.abs(prediction(regression_tokens(prompts), model.layers) - 1)))
    return ReachedLayers(
        (spectra[:, -1] / spectra[:, 0]).tolist(), [float(error) for error in errors]
    )


def _gammas(method: str) -> tuple[float, ...]:
    """Schedule for the interval of the limiting spectrum."""
    lower, upper = (float(edge) for edge in MarchenkoPastur(RATIO).edges)
    schedule = condition_number_schedule(upper / lower, steps=LAYERS, method=method)
    return tuple((schedule.gammas / upper).tolist())


def _moments_cell(preset: Preset, method: str, dim: int) -> Cell:
    contexts = EIGENVALUES[preset] // dim
    return Cell.of(spectral_moments, gammas=_gammas(method), dim=dim, contexts=contexts)


def _reached_cell(method: str, kappa: float) -> Cell:
    schedule = condition_number_schedule(kappa, tol=min(TARGETS) / (2 * kappa), method=method)
    return Cell.of(
        reached_layers,
        kappa=kappa,
        gammas=tuple(schedule.gammas.tolist()),
        rates=tuple(schedule.final_rate.tolist()),
    )


def _spectrum_cells(preset: Preset) -> list[Cell]:
    moments = [_moments_cell(preset, m, dim) for m in METHODS for dim in SIZES]
    return moments + [_reached_cell(m, kappa) for m in METHODS for kappa in KAPPAS]


def _spectrum_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, notes = [], []
    measure = MarchenkoPastur(RATIO)
    # Exact for polynomials: the mean eigenvalue after L layers is one of degree 3^L.
    nodes, weights = measure.quadrature(3**LAYERS)
    for method in METHODS:
        limit = np.sum(weights * eigenvalues_after(nodes, _gammas(method)), axis=-1)
        runs = [results[_moments_cell(preset, method, dim)] for dim in SIZES]
        fit = extrapolate(
            SIZES,
            np.stack([run.means for run in runs]),
            np.stack([run.covariance for run in runs]),
        )
        comparisons += [
            Comparison(
                f"mean eigenvalue after {layer} layers, {method}, d to infinity",
                float(limit[layer]),
                float(fit.value[layer]),
                float(fit.covariance[layer, layer] ** 0.5),
            )
            for layer in range(LAYERS + 1)
        ]
        notes.append(
            f"{method}: fit of order {fit.order} in 1/d, chi-square {fit.chi_square:.1f} for "
            f"{fit.degrees} degrees of freedom."
        )
    for method in METHODS:
        for kappa in KAPPAS:
            reached: ReachedLayers = results[_reached_cell(method, kappa)]
            schedule = condition_number_schedule(
                kappa, steps=len(reached.condition_numbers) - 1, method=method
            )
            comparisons += [
                Comparison(
                    f"condition number after {layer} layers, {method}, from {kappa:g}",
                    float(schedule.condition_number[layer]),
                    value,
                    0.0,
                    PRECONDITIONED_ALLOWANCE * float(schedule.excess[layer]) + 1e-9,
                )
                for layer, value in enumerate(reached.condition_numbers)
            ]

    def draw(figure: Any) -> None:
        figure.set_size_inches(6.4, 4.0)
        ax = figure.subplots()
        for kappa, colour in zip(KAPPAS, COLOURS, strict=False):
            for method, style, mark in zip(METHODS, ("-", "--"), ("o", "s"), strict=True):
                schedule = condition_number_schedule(kappa, tol=1e-12, method=method)
                label = f"{method}, from {kappa:g}"
                drawn = schedule.excess > 1e-12
                layers = np.arange(drawn.size)
                ax.plot(layers[drawn], schedule.excess[drawn], style, color=colour, label=label)
                found = np.array(results[_reached_cell(method, kappa)].condition_numbers) - 1
                seen = found > 1e-12
                ax.plot(np.arange(found.size)[seen], found[seen], mark, color=colour, markersize=4)
        ax.set_xlabel("layers of GD++")
        ax.set_ylabel(r"condition number minus one, $\kappa - 1$")
        ax.set_ylim(1e-12, None)
        ax.set_yscale("log")
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    return Verdict(tuple(comparisons), draw, tuple(notes))


spectrum_claim = Claim(
    name="gdpp-spectrum",
    title="Condition-number schedules against the eigenvalues of simulated layers",
    source=f"{PAPER}; optimal schedule: {POLAR}, Theorem 4.1",
    statement=(
        "Layer by layer, the mean eigenvalue of preconditioned Gaussian contexts tends to its "
        "Marchenko-Pastur integral, and contexts of a given condition number reach the predicted "
        "ones, for the published and for the optimal schedule."
    ),
    cells=_spectrum_cells,
    judge=_spectrum_judge,
)


def _layers_cells(preset: Preset) -> list[Cell]:  # noqa: ARG001
    return [_reached_cell(method, kappa) for method in METHODS for kappa in KAPPAS]


def _counted(reached: ReachedLayers, target: float) -> float:
    """Layers, the last step included, until the error is at most the target; inf for never."""
    return 1 + next((k for k, error in enumerate(reached.errors) if error <= target), math.inf)


def _predicted(kappa: float, target: float, method: str) -> int:
    """Layers whose residual (kappa' - 1)/(kappa' + 1) is at most the target, and the last step."""
    return 1 + int(steps_needed(kappa, 2 * target / (1 - target), method=method))


def _layers_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:  # noqa: ARG001
    comparisons = [
        Comparison(
            f"layers from {kappa:g} to an error of {target:g}, {method}",
            _predicted(kappa, target, method),
            _counted(results[_reached_cell(method, kappa)], target),
            0.0,
        )
        for method in METHODS
        for kappa in KAPPAS
        for target in TARGETS
    ]
    notes = []
    for method, factor in zip(METHODS, (27 / 4, 9 / 4), strict=True):
        low, high = steps_needed(np.array(DECADES), 1e-8, method=method)
        decades = math.log(DECADES[1] / DECADES[0])
        few, many = steps_needed(100.0, np.array(EXPONENTS), method=method)
        doublings = math.log2(math.log(EXPONENTS[1]) / math.log(EXPONENTS[0]))
        comparisons += [
            Comparison(
                f"layers from {DECADES[0]:g} to {DECADES[1]:g}, {method}",
                decades / math.log(factor),
                float(high - low),
                0.0,
                1.0,
            ),
            Comparison(
                f"layers from an excess of {EXPONENTS[0]:g} to {EXPONENTS[1]:g}, {method}",
                doublings,
                float(many - few),
                0.0,
                1.0,
            ),
        ]
        notes.append(
            f"{method}: {(high - low) / decades:.3f} layers per unit of log kappa (limit "
            f"{1 / math.log(factor):.3f}), {many - few} layers for {doublings:.0f} doublings of "
            "the number of digits."
        )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.2, 3.6)
        left, right = figure.subplots(1, 2)
        grid = np.geomspace(10, 1e4, 200)
        for target, colour in zip(TARGETS, COLOURS, strict=False):
            for method, style, mark in zip(METHODS, ("-", "--"), ("o", "s"), strict=True):
                counts = [_predicted(float(kappa), target, method) for kappa in grid]
                label = rf"$\epsilon = 10^{{{round(math.log10(target))}}}$, {method}"
                left.plot(grid, counts, style, color=colour, linewidth=1.2, label=label)
                found = [_counted(results[_reached_cell(method, k)], target) for k in KAPPAS]
                left.plot(KAPPAS, found, mark, color=colour, markersize=5)
        left.set_xlabel(r"condition number $\kappa$")
        left.set_ylabel("layers")
        log_scale(left, "x")
        left.legend(fontsize=7)
        excesses = 10.0 ** -np.arange(2, 161, 2)
        for method, colour in zip(METHODS, COLOURS, strict=False):
            counts = steps_needed(100.0, excesses, method=method)
            right.step(
                np.log(np.log(1 / excesses)), counts, where="post", color=colour, label=method
            )
        right.set_xlabel(
            r"$\log\log 1/\epsilon$ for $\kappa - 1 \leq \epsilon$, from $\kappa = 100$"
        )
        right.legend()

    return Verdict(tuple(comparisons), draw, tuple(notes))


layers_claim = Claim(
    name="gdpp-layers",
    title="How many layers of GD++ an accuracy takes: log kappa plus log log 1/eps",
    source=PAPER,
    statement=(
        "Token-level GD++ reaches a relative error after exactly the predicted number of layers; "
        "to within one layer the numbers grow by 1/log(9/4) (published) or 1/log(27/4) (optimal) "
        "per unit of log kappa and by one per doubling of the digits."
    ),
    cells=_layers_cells,
    judge=_layers_judge,
)


def _error_cell(preset: Preset, layers: int, dim: int) -> Cell:
    return Cell.of(
        simulate_gdpp,
        rates=ERROR_RATES[:layers],
        gammas=ERROR_GAMMAS[: layers - 1],
        context=2 * dim,
        dim=dim,
        noise_ratio=ERROR_NOISE,
        contexts=ERROR_REPEATS[preset] * ERROR_SIZES[0] // dim,
    )


def _error_cells(preset: Preset) -> list[Cell]:
    return [_error_cell(preset, layers, dim) for layers in (2, 3) for dim in ERROR_SIZES]


def _error_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, notes = [], []
    for layers in (2, 3):
        rates, gammas = ERROR_RATES[:layers], ERROR_GAMMAS[: layers - 1]
        runs = [results[_error_cell(preset, layers, dim)] for dim in ERROR_SIZES]
        exact = [
            float(gdpp_loss(rates, gammas, context=2 * dim, dim=dim, noise_ratio=ERROR_NOISE))
            for dim in ERROR_SIZES
        ]
        comparisons += [
            Comparison(
                f"{layers} layers, d = {dim}, exact", value, run.loss.mean, run.loss.standard_error
            )
            for dim, value, run in zip(ERROR_SIZES, exact, runs, strict=True)
        ]
        fit = extrapolate(
            ERROR_SIZES,
            np.array([[run.loss.mean] for run in runs]),
            np.array([[[run.loss.standard_error**2]] for run in runs]),
        )
        comparisons.append(
            Comparison(
                f"{layers} layers, d to infinity",
                float(gdpp_loss(rates, gammas, ratio=0.5, noise_ratio=ERROR_NOISE)),
                float(fit.value[0]),
                float(fit.covariance[0, 0] ** 0.5),
            )
        )
        notes.append(
            f"{layers} layers: fit of order {fit.order} in 1/d, chi-square {fit.chi_square:.1f} "
            f"for {fit.degrees} degrees of freedom."
        )

    def draw(figure: Any) -> None:
        figure.set_size_inches(9.0, 3.8)
        left, right = figure.subplots(1, 2)
        for layers, colour in zip((2, 3), COLOURS, strict=False):
            rates, gammas = ERROR_RATES[:layers], ERROR_GAMMAS[: layers - 1]
            sizes = np.array([0, *(1 / dim for dim in ERROR_SIZES[::-1])])
            exact = [
                gdpp_loss(rates, gammas, context=2 * dim, dim=dim, noise_ratio=ERROR_NOISE)
                for dim in ERROR_SIZES[::-1]
            ]
            limit = gdpp_loss(rates, gammas, ratio=0.5, noise_ratio=ERROR_NOISE)
            left.plot(sizes, [limit, *exact], color=colour, label=f"{layers} layers")
            runs = [results[_error_cell(preset, layers, dim)] for dim in ERROR_SIZES[::-1]]
            means, errors = (
                [getattr(r.loss, k) for r in runs] for k in ("mean", "standard_error")
            )
            draw_points(left, sizes[1:], means, errors, colour)
        left.set_xlabel("$1/d$")
        left.set_ylabel(rf"loss, $d/N = 1/2$, $v = {ERROR_NOISE:g}$")
        left.legend(title="exact, to the limit at 0")
        depths = range(1, 4)
        for noise, colour in zip((0.0, 0.01, ERROR_NOISE, 0.2), COLOURS, strict=False):
            found = [optimal_gdpp(depth, ratio=0.5, noise_ratio=noise) for depth in depths]
            plain = [
                optimal_schedule(steps=depth, ratio=0.5, noise_ratio=noise).loss
                for depth in depths
            ]
            label = rf"$v = {noise:g}$"
            right.plot(depths, [each.loss for each in found], "o-", color=colour, label=label)
            bounds = [each.lower_bound for each in found]
            right.plot(depths, bounds, "_", color=colour, markersize=14)
            right.plot(depths, plain, ":", color=colour, linewidth=1.2)
        right.plot([], [], "_", color="0.3", markersize=14, label="bound of any GD++")
        right.plot([], [], ":", color="0.3", label="gradient descent")
        right.set_ylim(3e-5, None)
        right.set_yscale("log")
        right.set_xlabel("layers")
        right.xaxis.get_major_locator().set_params(integer=True)
        right.legend(title="GD++, best found")

    return Verdict(tuple(comparisons), draw, tuple(notes))


error_claim = Claim(
    name="gdpp-error",
    title="Test error of GD++: exact at finite size, Marchenko-Pastur in the limit",
    source="von Oswald et al., ICML 2023, arXiv:2212.07677 (GD++); integrals: documentation",
    statement=(
        "The loss of simulated GD++ with label noise equals its integral over the exact mean "
        "spectrum at every size and extrapolates to the Marchenko-Pastur integral."
    ),
    cells=_error_cells,
    judge=_error_judge,
)
