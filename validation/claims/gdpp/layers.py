"""How many layers of GD++ an accuracy takes.

Token-level GD++ reaches a relative error after exactly the predicted number of layers; to
within one layer the numbers grow by 1/log(9/4) (published) or 1/log(27/4) (optimal) per unit of
the logarithm of the condition number, and by one per doubling of the digits.

Source: Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3.
"""

import math

import numpy as np

from iclimit.asymptotics.gdpp import steps_needed
from iclimit.validation import Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.gdpp.reached import METHODS, TARGETS, reached_cells, reached_runs
from iclimit.validation.drawing import COLOURS, Figure, finish, panels

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


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare every number of layers, and how the numbers grow."""
    reached = reached_runs(results)
    comparisons = [
        compare(
            f"layers from {start:g} to an error of {target:g}, {method}",
            predicted(start, target, method),
            counted(run["errors"], target),
        )
        for (method, start), run in reached.items()
        for target in TARGETS
    ]
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
            compare(f"layers from {ends}, {method}", theory, float(more), allowance=1.0)
            for ends, theory, more in growths
        ]
        notes.append(
            f"{method}: {(high - low) / decades:.3f} layers per unit of the logarithm of the "
            f"condition number (limit {1 / math.log(factor):.3f}), {many - few} layers for "
            f"{doublings:.0f} doublings of the number of digits."
        )

    def draw(figure: Figure) -> None:
        left, right = panels(figure, width=8.2, height=3.6)
        grid = np.geomspace(10, 1e4, 200)
        starts = list(dict.fromkeys(start for _, start in reached))
        for target, colour in zip(TARGETS, COLOURS, strict=False):
            for method, (line, marker) in METHODS.items():
                counts = [predicted(float(start), target, method) for start in grid]
                label = rf"$\epsilon = 10^{{{round(math.log10(target))}}}$, {method}"
                left.plot(grid, counts, line, color=colour, linewidth=1.2, label=label)
                found = [counted(reached[method, start]["errors"], target) for start in starts]
                left.plot(starts, found, marker, color=colour, markersize=5)
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


claim = Claim.of("gdpp-layers", __doc__, lambda _: reached_cells(), judge)
