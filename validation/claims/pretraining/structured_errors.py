"""Errors for structured data: simulation against the finite-size prediction and the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import structured_errors
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.pretraining.structured_points import (
    STRUCTURED,
    StructuredCurve,
    StructuredPoint,
    draw_curve,
    draw_sizes,
    size_cells,
    size_comparisons,
)
from iclimit.validation.claims.pretraining.sweeps import SIZE, rise, sweep_cells, sweep_comparisons
from iclimit.validation.drawing import COLOURS, LABELS

HOW = "lines: asymptotic; dashes: finite-size prediction; points: simulation, d = {}"


def _distinct(comparisons: list[Comparison]) -> tuple[Comparison, ...]:
    """Each once: a point may lie on several curves."""
    return tuple(dict.fromkeys(comparisons))


# --- tests aligned with training and not ------------------------------------------------------

POWER_LAW = StructuredPoint(tau=4, alpha=2, kappa=1, rho=0.01, task="powerlaw:0.9")
_KAPPAS = (0.25, 0.5, 1.0, 3.0)
TESTED = {
    test: StructuredCurve(replace(POWER_LAW, test=test), "kappa", _KAPPAS)
    for test in ("strongest", "aligned", "reversed")
}
TEST_NAMES = {
    "strongest": "one direction, the strongest",
    "aligned": "aligned, $C' = C$",
    "reversed": "misaligned, eigenvalues reversed",
}
TESTED_LIMITS = tuple(TESTED[test].base for test in ("aligned", "reversed"))
"""Tests in one direction vary too much from run to run."""


def _tests_cells(preset: Preset) -> list[Cell]:
    return [*sweep_cells(list(TESTED.values()), preset), *size_cells(TESTED_LIMITS, preset)]


def _judge_tests(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, fits, notes = size_comparisons(TESTED_LIMITS, preset, results)
    comparisons += sweep_comparisons(list(TESTED.values()), preset, results)
    for worse, better in (("reversed", "aligned"), ("aligned", "strongest")):
        low, high = TESTED[better].base, TESTED[worse].base
        label = f"ICL of {worse} above {better} tests, kappa=1"
        comparisons.append(rise(label, low, high, preset, results, "icl"))

    def draw(figure: Any) -> None:
        figure.set_size_inches(9.6, 3.8)
        icl, idg, sizes = figure.subplots(1, 3)
        for (test, curve), colour in zip(TESTED.items(), COLOURS, strict=False):
            draw_curve(icl, curve, "icl", preset, results, colour, TEST_NAMES[test])
        draw_curve(idg, TESTED["aligned"], "idg", preset, results, COLOURS[3], "training tasks")
        for point, fit, colour in zip(TESTED_LIMITS, fits, COLOURS[1:], strict=False):
            draw_sizes(sizes, point, "icl", preset, results, fit, colour, "")
        for ax, name in zip((icl, idg), ("icl", "idg"), strict=True):
            ax.set_xlabel(LABELS["kappa"])
            ax.set_ylabel(LABELS[f"{name}_error"])
        sizes.set_ylabel(LABELS["icl_error"])
        sizes.set_title(r"$\kappa = 1$; stars: limit")
        idg.set_title("training tasks")
        icl.set_title(r"power law 0.9, $\tau = 4,\ \alpha = 2,\ \rho = 0.01$")
        figure.legend(*icl.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        figure.suptitle(HOW.format(SIZE[preset]), fontsize=8)

    return Verdict(_distinct(comparisons), draw, tuple(notes))


tests_claim = Claim(
    name="structured-tests",
    title="Error against task diversity for aligned, misaligned and one-directional tests",
    source=f"{STRUCTURED}: figures of error against kappa, power-law and spiked tests",
    statement=(
        "For training tasks of a power-law covariance both errors follow the finite-size "
        "prediction at every kappa, whether tests are as in training, have its eigenvalues "
        "reversed, or lie in its strongest direction, and so do the differences between these "
        "tests; extrapolated to infinite dimension they equal the asymptotic errors."
    ),
    cells=_tests_cells,
    judge=_judge_tests,
)

# --- contexts and noise of tests that differ from training ------------------------------------

FEW = StructuredPoint(tau=2, alpha=2, kappa=0.5, rho=0.1, task="powerlaw:0.9", test_alpha=8)
_TEST_ALPHAS = (0.5, 8.0, 32.0)
_TRAINING_ALPHAS = (1.0, 2.0, 8.0, 32.0)
LONGER = {
    f"trained at $\\alpha = {alpha:g}$": StructuredCurve(
        replace(FEW, alpha=alpha), "test_alpha", _TEST_ALPHAS
    )
    for alpha in (2.0, 8.0)
} | {
    r"trained at $\alpha = 2$, $\rho' = 0.5$": StructuredCurve(
        replace(FEW, test_rho=0.5), "test_alpha", _TEST_ALPHAS
    )
}
TRAINED = {
    rf"$\kappa = {kappa:g}$": StructuredCurve(replace(FEW, kappa=kappa), "alpha", _TRAINING_ALPHAS)
    for kappa in (0.5, 4.0)
}
CONTEXT_LIMITS = (replace(FEW, test_rho=0.5),)


def best_training_context(point: StructuredPoint) -> float:
    """Training context of the least ICL error, the rest of a point given."""
    along: dict[str, Any] = {"alpha": np.geomspace(0.1, 1000, 801)}
    return float(along["alpha"][np.argmin(replace(point, **along).theory[0])])


def _context_cells(preset: Preset) -> list[Cell]:
    curves = [*LONGER.values(), *TRAINED.values()]
    return [*sweep_cells(curves, preset), *size_cells(CONTEXT_LIMITS, preset)]


def _judge_context(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, _, notes = size_comparisons(CONTEXT_LIMITS, preset, results)
    curves = [*LONGER.values(), *TRAINED.values()]
    comparisons += sweep_comparisons(curves, preset, results)
    many = replace(FEW, kappa=4.0)
    for label, low, high in (
        ("noise of tests", FEW, CONTEXT_LIMITS[0]),
        ("test context from 8 to 0.5", replace(FEW, test_alpha=8.0), replace(FEW, test_alpha=0.5)),
        ("training context from 2 to 8, few tasks", FEW, replace(FEW, alpha=8.0)),
        ("training context from 8 to 2, many tasks", replace(many, alpha=8.0), many),
    ):
        comparisons.append(rise(f"rise of ICL by {label}", low, high, preset, results, "icl"))
    notes += [
        f"least ICL error at test_alpha = 8, kappa = {point.kappa:g}: trained at alpha = "
        f"{best_training_context(point):.2g} (asymptotic)"
        for point in (FEW, many)
    ]

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.8)
        left, right = figure.subplots(1, 2)
        for (label, curve), colour in zip(LONGER.items(), COLOURS, strict=False):
            draw_curve(left, curve, "icl", preset, results, colour, label)
        left.set_xlabel(r"context at test time, $\alpha'$")
        left.set_title(r"$\kappa = 0.5,\ \tau = 2,\ \rho = 0.1$")
        for (label, curve), colour in zip(TRAINED.items(), COLOURS[3:], strict=False):
            draw_curve(right, curve, "icl", preset, results, colour, label)
            best = best_training_context(curve.base)
            if best <= max(curve.values):
                least = replace(curve.base, alpha=best).theory[0]
                right.plot(best, least, "v", color="black")
        right.axvline(8, color="0.6", linewidth=0.8, zorder=0)
        right.set_xlabel(r"context in training, $\alpha$")
        right.set_title(r"tests at $\alpha' = 8$ (vertical line); triangle: least")
        for ax in (left, right):
            ax.set_ylabel(LABELS["icl_error"])
            ax.legend()
        figure.suptitle(HOW.format(SIZE[preset]), fontsize=8)

    return Verdict(_distinct(comparisons), draw, tuple(notes))


context_claim = Claim(
    name="structured-context",
    title="Contexts and label noise of tests that differ from training",
    source=f"{STRUCTURED}: test-time context; general form derived in the documentation",
    statement=(
        "The ICL error falls with the context length of the tests and grows with their noise as "
        "predicted, at training contexts shorter and longer than those of the tests. For given "
        "tests the best training context is not theirs: with few tasks it is shorter, with many "
        "longer, by as much as predicted; extrapolated, the errors equal their limit."
    ),
    cells=_context_cells,
    judge=_judge_context,
)

# --- training tasks of half the rank ----------------------------------------------------------

HALF = StructuredPoint(tau=2, alpha=2, kappa=1, rho=0.1, task="atoms:0,2")
_RANK_KAPPAS = (0.125, 0.25, 0.5, 1.0, 2.0)
SPANNED = {
    "aligned": StructuredCurve(HALF, "kappa", _RANK_KAPPAS),
    "reversed": StructuredCurve(replace(HALF, test="reversed"), "kappa", _RANK_KAPPAS),
}
SPAN_NAMES = {"aligned": "tests in the span of training", "reversed": "tests outside"}
SPAN_LIMITS = tuple(curve.base for curve in SPANNED.values())


def _rank_cells(preset: Preset) -> list[Cell]:
    return [*sweep_cells(list(SPANNED.values()), preset), *size_cells(SPAN_LIMITS, preset)]


def _judge_rank(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, fits, notes = size_comparisons(SPAN_LIMITS, preset, results)
    comparisons += sweep_comparisons(list(SPANNED.values()), preset, results)
    outside = SPANNED["reversed"].base
    comparisons.append(
        rise("ICL outside above inside, kappa=1", HALF, outside, preset, results, "icl")
    )
    for kappa in (0.75, 3.0):
        setting: dict[str, Any] = {"tau": np.inf, "alpha": np.inf, "kappa": kappa, "rho": HALF.rho}
        error = float(structured_errors(**setting, spectrum=outside.spectrum).icl)
        label = f"ICL outside with data and context without end, kappa={kappa:g}"
        comparisons.append(Comparison(label, HALF.rho + 1, error, 0.0, 1e-9))
        error = float(structured_errors(**setting, spectrum=HALF.spectrum).icl)
        label = f"ICL inside with data and context without end, kappa={kappa:g}"
        comparisons.append(Comparison(label, HALF.rho, error, 0.0, 1e-9))

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.8)
        icl, sizes = figure.subplots(1, 2)
        for (test, curve), colour in zip(SPANNED.items(), COLOURS, strict=False):
            draw_curve(icl, curve, "icl", preset, results, colour, SPAN_NAMES[test])
        draw_curve(
            icl, SPANNED["aligned"], "idg", preset, results, COLOURS[3], "training tasks (IDG)"
        )
        icl.axhline(1 + HALF.rho, color="0.4", linestyle=":", label=r"prediction of 0, $1 + \rho$")
        icl.axvline(0.5, color="0.6", linewidth=0.8, zorder=0)
        for point, fit, colour in zip(SPAN_LIMITS, fits, COLOURS, strict=False):
            draw_sizes(sizes, point, "icl", preset, results, fit, colour, "")
        icl.set_xlabel(LABELS["kappa"])
        icl.set_ylabel("test error")
        sizes.set_ylabel(LABELS["icl_error"])
        icl.set_title(r"$C$ of rank $d/2$, $\tau = 2,\ \alpha = 2,\ \rho = 0.1$")
        sizes.set_title(r"$\kappa = 1$; stars: limit")
        figure.legend(*icl.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.suptitle(HOW.format(SIZE[preset]), fontsize=8)

    return Verdict(_distinct(comparisons), draw, tuple(notes))


rank_claim = Claim(
    name="structured-rank",
    title="Training tasks of half the rank: tests inside and outside their span",
    source=f"{STRUCTURED}; rank-deficient case derived in the documentation",
    statement=(
        "Trained on tasks of a covariance of rank d/2, errors on tests inside and outside its "
        "span follow the prediction on both sides of as many tasks as dimensions of the span, "
        "and tend to their limits. With data and context without end nothing is lost inside once "
        "kappa exceeds 1/2, and all of the task variance outside, however many tasks there are."
    ),
    cells=_rank_cells,
    judge=_judge_rank,
)

# --- input covariance -------------------------------------------------------------------------

COLOURED = StructuredPoint(
    tau=1.5, alpha=2, kappa=1.5, rho=0.1, ridge=0.1, task="atoms:0.4,1.6", inputs="uniform:0.2,1.8"
)
FEW_PROMPTS = replace(COLOURED, tau=0.5, ridge=0.05)
COMMUTING = tuple(
    replace(point, alignment=alignment)
    for point in (COLOURED, FEW_PROMPTS)
    for alignment in ("same", "reversed")
)
ROTATED = tuple(
    StructuredCurve(replace(point, alignment="rotated", test=test), "tau", (point.tau,))
    for point in (COLOURED, FEW_PROMPTS)
    for test in ("aligned", "reversed")
)


def _inputs_cells(preset: Preset) -> list[Cell]:
    return [*size_cells(COMMUTING, preset), *sweep_cells(ROTATED, preset)]


def _judge_inputs(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, fits, notes = size_comparisons(COMMUTING, preset, results)
    comparisons += sweep_comparisons(ROTATED, preset, results)

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.8)
        axes = figure.subplots(1, 2)
        for number, (point, fit) in enumerate(zip(COMMUTING, fits, strict=True)):
            ax, place = axes[number // 2], number % 2
            for row, name in enumerate(("icl", "idg")):
                label = f"{name.upper()}, {'opposite' if place else 'same'} order"
                colour = COLOURS[2 * row + place]
                draw_sizes(ax, point, name, preset, results, fit, colour, label)
        for ax, point in zip(axes, (COLOURED, FEW_PROMPTS), strict=True):
            ax.set_title(rf"$\tau = {point.tau:g},\ \lambda = {point.ridge:g}$")
        axes[0].set_ylabel("test error")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.suptitle(
            r"input eigenvalues 0.2 to 1.8 against task eigenvalues 0.4 and 1.6; "
            "lines: finite-size prediction; points: simulation; stars: asymptotic",
            fontsize=8,
        )

    return Verdict(_distinct(comparisons), draw, tuple(notes))


inputs_claim = Claim(
    name="structured-inputs",
    title="Inputs of any covariance, commuting with that of the tasks and not",
    source="Heuristic deterministic equivalent, derived in the documentation",
    statement=(
        "With input eigenvalues spread ninefold, in the order of those of the tasks and in the "
        "opposite one, simulated errors extrapolate to the asymptotic ones and follow the "
        "finite-size prediction at every size; so they do at finite size with the input "
        "covariance in random position."
    ),
    cells=_inputs_cells,
    judge=_judge_inputs,
)
