"""How many layers of GD++ an accuracy takes.

Token-level GD++ reaches a relative error after exactly the predicted number of layers, and its
largest error is the predicted one if every layer takes a step.  To within one layer the numbers
grow by 1/log(9/4) (published) or 1/log(27/4) (optimal) per unit of the logarithm of the condition
number, and by one per doubling of the digits.

Source: Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import (
    GDPlusPlus,
    condition_number_schedule,
    optimal_gdpp,
    steps_needed,
    worst_case_residual,
)
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.gdpp.reached import (
    METHODS,
    STARTS,
    TARGETS,
    image_ends,
    largest_error,
    reached_cells,
)

# Half a layer: numbers of layers are whole.
HALF = 0.5

# Layers that all take a step, by condition number, and the relative error of their largest error.
# It is as large at the ends of the interval, which are among the eigenvalues (measured: 2e-15).
WORST = {10.0: 2, 100.0: 2}
WORST_ACCURACY = 1e-10

# A condition number that takes many layers, and the excess that they reach.
DEEP, DEEP_EXCESS = 1e12, 1e-6

# Condition numbers and excesses between which layers are counted.  Counts are whole numbers, so a
# difference can be one off.
DECADES, EXPONENTS = (1e4, 1e40), (1e-10, 1e-160)

# What a layer divides a large condition number by.
FACTORS = {"optimal": 27 / 4, "monotone": 9 / 4}


def counted(errors: list[float], target: float) -> float:
    """Layers, the last step included, until the error is at most the target; inf for never."""
    return 1 + next((k for k, error in enumerate(errors) if error <= target), math.inf)


def predicted(start: float, target: float, method: str) -> int:
    """Layers whose residual is at most the target, and the last step.

    The residual of a condition number k is (k - 1)/(k + 1).
    """
    return 1 + int(steps_needed(start, 2 * target / (1 - target), method=method))


@cache
def best_layers(condition: float) -> GDPlusPlus:
    """Layers with the least largest error found."""
    return optimal_gdpp(WORST[condition], condition_number=condition)


def cells(preset: Preset) -> dict[Any, Cell]:  # noqa: ARG001
    """Errors by schedule and condition number, and largest errors by condition number."""
    worst = {}
    for condition in WORST:
        best = best_layers(condition)
        rates, gammas = tuple(best.rates.tolist()), tuple(best.gammas.tolist())
        worst["worst", condition] = Cell.of(
            largest_error, rates=rates, gammas=gammas, condition_number=condition
        )
    return reached_cells() | worst | {("deep", method): deep_cell(method) for method in METHODS}


def deep_cell(method: str) -> Cell:
    """Images of a wide interval under a schedule that goes on beyond the excess asked for."""
    schedule = condition_number_schedule(DEEP, tol=DEEP_EXCESS**2, method=method)
    return Cell.of(image_ends, gammas=tuple(schedule.gammas.tolist()), lower=1 / DEEP, upper=1.0)


def compare_worst(condition: float, found: float) -> list[Comparison]:
    """Compare the largest error of the best layers with both functions that give it."""
    best = best_layers(condition)
    residual = worst_case_residual(best.rates, best.gammas, condition_number=condition)
    return [
        compare(
            f"largest error of {WORST[condition]} layers, condition number {condition:g}",
            float(theory),
            found,
            relative=WORST_ACCURACY,
            of=of,
        )
        for theory, of in ((best.loss, "optimal_gdpp.loss"), (residual, "worst_case_residual"))
    ]


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare every number of layers, how the numbers grow, and the largest errors."""
    comparisons = [
        compare(
            f"layers from {start:g} to an error of {target:g}, {method}",
            predicted(start, target, method),
            counted(results[method, start], target),
            allowance=HALF,
            of="steps_needed",
        )
        for method in METHODS
        for start in STARTS
        for target in TARGETS
    ]
    for method in METHODS:
        least, largest = results["deep", method]
        comparisons.append(
            compare(
                f"layers from {DEEP:g} to an excess of {DEEP_EXCESS:g}, {method}",
                float(steps_needed(DEEP, DEEP_EXCESS, method=method)),
                float(np.argmax(largest / least - 1 <= DEEP_EXCESS)),
                allowance=HALF,
                of="steps_needed",
            )
        )
    comparisons += [row for k in WORST for row in compare_worst(k, results["worst", k])]
    notes = []
    for method, factor in FACTORS.items():
        low, high = steps_needed(np.array(DECADES), 1e-8, method=method)
        decades = math.log(DECADES[1] / DECADES[0])
        few, many = steps_needed(100.0, np.array(EXPONENTS), method=method)
        doublings = math.log2(math.log(EXPONENTS[1]) / math.log(EXPONENTS[0]))
        growths = (
            (f"{DECADES[0]:g} to {DECADES[1]:g}", decades / math.log(factor), high - low),
            (f"an excess of {EXPONENTS[0]:g} to {EXPONENTS[1]:g}", doublings, many - few),
        )
        comparisons += [
            compare(f"layers from {ends}, {method}", growth, float(more), allowance=1.0)
            for ends, growth, more in growths
        ]
        notes.append(
            f"{method}: {(high - low) / decades:.3f} layers per unit of the logarithm of the "
            f"condition number (limit {1 / math.log(factor):.3f}), {many - few} layers for "
            f"{doublings:.0f} doublings of the number of digits."
        )

    def draw(figure: Figure) -> None:
        left, right = panels(figure, width=8.2, height=3.6)
        grid = np.geomspace(10, 1e4, 200)
        for target, colour in zip(TARGETS, COLOURS, strict=False):
            for method, (line, marker) in METHODS.items():
                counts = [predicted(float(start), target, method) for start in grid]
                label = rf"$\epsilon = 10^{{{round(math.log10(target))}}}$, {method}"
                left.plot(grid, counts, line, color=colour, linewidth=1.2, label=label)
                found = [counted(results[method, start], target) for start in STARTS]
                left.plot(STARTS, found, marker, color=colour, markersize=5)
        finish(left, "condition number", "layers", log="x")
        left.legend(fontsize=7)
        excesses = 10.0 ** -np.arange(2, 161, 2)
        digits = np.log(np.log(1 / excesses))
        for method, colour in zip(METHODS, COLOURS, strict=False):
            counts = steps_needed(100.0, excesses, method=method)
            right.step(digits, counts, where="post", color=colour, label=method)
        x = r"$\log\log 1/\epsilon$ to an excess of $\epsilon$, from 100"
        finish(right, x, "layers", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("gdpp-layers", __doc__, cells, judge)
