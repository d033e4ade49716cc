"""How many layers of GD++ an accuracy takes.

Token-level GD++ reaches a relative error after exactly the predicted number of layers; to
within one layer the numbers grow by 1/log(9/4) (published) or 1/log(27/4) (optimal) per unit of
the logarithm of the condition number, and by one per doubling of the digits.

Source: Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import steps_needed
from iclimit.validation.claim import Cell, Claim, Preset, Verdict
from iclimit.validation.claims.gdpp.reached import METHODS, TARGETS, ReachedLayers, reached_cells
from iclimit.validation.comparisons import compare
from iclimit.validation.drawing import COLOURS, log_scale

# Condition numbers and excesses between which layers are counted.  Counts are whole numbers, so a
# difference can be one off.
DECADES, EXPONENTS = (1e4, 1e40), (1e-10, 1e-160)

# What a layer divides a large condition number by.
FACTORS = {"optimal": 27 / 4, "monotone": 9 / 4}


def _cells(preset: Preset) -> dict[Any, Cell]:  # noqa: ARG001
    return reached_cells()


def counted(reached: ReachedLayers, target: float) -> float:
    """Layers, the last step included, until the error is at most the target; inf for never."""
    return 1 + next((k for k, error in enumerate(reached.errors) if error <= target), math.inf)


def predicted(start: float, target: float, method: str) -> int:
    """Layers whose residual is at most the target, and the last step.

    The residual of a condition number k is (k - 1)/(k + 1).
    """
    return 1 + int(steps_needed(start, 2 * target / (1 - target), method=method))


def _judge(preset: Preset, results: Mapping[Any, Any]) -> Verdict:  # noqa: ARG001
    comparisons = [
        compare(
            f"layers from {start:g} to an error of {target:g}, {method}",
            predicted(start, target, method),
            counted(reached, target),
        )
        for (kind, method, start), reached in results.items()
        if kind == "reached"
        for target in TARGETS
    ]
    notes = []
    for method, factor in FACTORS.items():
        low, high = steps_needed(np.array(DECADES), 1e-8, method=method)
        decades = math.log(DECADES[1] / DECADES[0])
        few, many = steps_needed(100.0, np.array(EXPONENTS), method=method)
        doublings = math.log2(math.log(EXPONENTS[1]) / math.log(EXPONENTS[0]))
        comparisons += [
            compare(
                f"layers from {DECADES[0]:g} to {DECADES[1]:g}, {method}",
                decades / math.log(factor),
                float(high - low),
                allowance=1.0,
            ),
            compare(
                f"layers from an excess of {EXPONENTS[0]:g} to {EXPONENTS[1]:g}, {method}",
                doublings,
                float(many - few),
                allowance=1.0,
            ),
        ]
        notes.append(
            f"{method}: {(high - low) / decades:.3f} layers per unit of the logarithm of the "
            f"condition number (limit {1 / math.log(factor):.3f}), {many - few} layers for "
            f"{doublings:.0f} doublings of the number of digits."
        )
    return Verdict(tuple(comparisons), partial(_draw, results), tuple(notes))


def _draw(results: Mapping[Any, Any], figure: Any) -> None:
    figure.set_size_inches(8.2, 3.6)
    left, right = figure.subplots(1, 2)
    grid = np.geomspace(10, 1e4, 200)
    starts = list(dict.fromkeys(start for kind, _, start in results if kind == "reached"))
    for target, colour in zip(TARGETS, COLOURS, strict=False):
        for method, (line, marker) in METHODS.items():
            counts = [predicted(float(start), target, method) for start in grid]
            label = rf"$\epsilon = 10^{{{round(math.log10(target))}}}$, {method}"
            left.plot(grid, counts, line, color=colour, linewidth=1.2, label=label)
            found = [counted(results["reached", method, start], target) for start in starts]
            left.plot(starts, found, marker, color=colour, markersize=5)
    left.set(xlabel="condition number", ylabel="layers")
    log_scale(left, "x")
    left.legend(fontsize=7)
    excesses = 10.0 ** -np.arange(2, 161, 2)
    for method, colour in zip(METHODS, COLOURS, strict=False):
        counts = steps_needed(100.0, excesses, method=method)
        right.step(np.log(np.log(1 / excesses)), counts, where="post", color=colour, label=method)
    right.set_xlabel(r"$\log\log 1/\epsilon$ to an excess of $\epsilon$, from 100")
    right.legend()


claim = Claim.of("gdpp-layers", __doc__, _cells, _judge)
