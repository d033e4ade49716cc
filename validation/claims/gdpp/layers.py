"""How many layers of GD++ an accuracy takes.

Token-level GD++ reaches a relative error after exactly the predicted number of layers, and its
largest error is the predicted one if every layer takes a step.  To within one layer the numbers
grow by 1/log(9/4) (published) or 1/log(27/4) (optimal) per unit of the logarithm of the condition
number, and by one per doubling of the digits.

Source: Vladymyrov et al., NeurIPS 2024, arXiv:2402.14180, Theorem 5.1 and Lemma A.3.
"""

import math
from functools import cache

import numpy as np

from iclimit.asymptotics import gdpp
from iclimit.statement import Derived
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, run
from iclimit.validation.claims.gdpp import reached

# Half a layer: numbers of layers are whole.
HALF = 0.5

# Layers that all take a step, by condition number.
WORST = {10.0: 2, 100.0: 2}
# Relative error of their largest error.  It is as large at the ends of the interval, which are
# among the eigenvalues (measured: 2e-15).
WORST_ACCURACY = 1e-10

# A condition number that takes many layers.
DEEP = 1e12
# Excess of the condition number over 1 that these layers reach.
DEEP_EXCESS = 1e-6

# Condition numbers between which layers are counted.  Counts are whole numbers, so a
# difference can be one off.
DECADES = (1e4, 1e40)
# Excesses between which layers are counted, with the same uncertainty.
EXPONENTS = (1e-10, 1e-160)

# Factor by which a layer divides a large condition number.
FACTORS = {"optimal": 27 / 4, "monotone": 9 / 4}


def counted(errors: list[float], target: float) -> float:
    """Layers, the last step included, until the error is at most the target; inf for never."""
    return 1 + next((k for k, error in enumerate(errors) if error <= target), math.inf)


def predicted(start: float, target: float, method: str) -> int:
    """Layers whose residual is at most the target, and the last step.

    The residual of a condition number k is (k - 1)/(k + 1).
    """
    return 1 + int(gdpp.steps_needed(start, tol=2 * target / (1 - target), method=method))


@cache
def best_layers(condition: float) -> gdpp.GDPlusPlus:
    """Layers with the least largest error found."""
    return gdpp.optimal_gdpp(WORST[condition], condition_number=condition)


def rows(_: Effort) -> Rows:
    """Every number of layers, how the numbers grow, and the largest errors."""
    for (method, start), errors in reached.reached_runs().items():
        for target in reached.TARGETS:
            label = f"layers from {start:g} to an error of {target:g}, {method}"
            options = {"x": ("condition number", start), "family": f"{method}, {target:g}"}
            measured = call(counted, errors, target)
            of = "steps_needed"
            whole = predicted(start, target, method)
            yield exact(label, whole, measured, allowance=HALF, of=of, **options)
    for method in reached.METHODS:
        schedule = gdpp.condition_number_schedule(DEEP, tol=DEEP_EXCESS**2, method=method)
        gammas = Derived(schedule.gammas, (method, DEEP, DEEP_EXCESS))
        measured = call(
            first_below, run(reached.image_ends, gammas=gammas, lower=1 / DEEP, upper=1.0)
        )
        label = f"layers from {DEEP:g} to an excess of {DEEP_EXCESS:g}, {method}"
        theory = call(gdpp.steps_needed, DEEP, tol=DEEP_EXCESS, method=method)
        yield exact(label, theory, measured, allowance=HALF)
    for condition, layers in WORST.items():
        best = best_layers(condition)
        measured = run(
            reached.largest_error,
            rates=Derived(best.rates, ("best", layers)),
            gammas=Derived(best.gammas, ("best", layers)),
            condition_number=condition,
        )
        residual = call(
            gdpp.worst_case_residual, best.rates, gammas=best.gammas, condition_number=condition
        )
        label = f"largest error of {layers} layers, condition number {condition:g}"
        of = "optimal_gdpp.loss"
        yield exact(label, best.loss, measured, relative=WORST_ACCURACY, of=of)
        yield exact(label, residual, measured, relative=WORST_ACCURACY)
    for method, factor in FACTORS.items():
        yield from growth_rows(method, factor)


def first_below(image: np.ndarray) -> float:
    """Number of layers until the excess is small; the image has least and largest eigenvalues."""
    least, largest = image
    return float(np.argmax(largest / least - 1 <= DEEP_EXCESS))


def growth_rows(method: str, factor: float) -> Rows:
    """How the number of layers grows with the condition number and with the digits."""
    low, high = gdpp.steps_needed(np.array(DECADES), tol=1e-8, method=method)
    decades = math.log(DECADES[1] / DECADES[0])
    few, many = gdpp.steps_needed(100.0, tol=np.array(EXPONENTS), method=method)
    doublings = math.log2(math.log(EXPONENTS[1]) / math.log(EXPONENTS[0]))
    for ends, growth, more in (
        (f"{DECADES[0]:g} to {DECADES[1]:g}", decades / math.log(factor), high - low),
        (f"an excess of {EXPONENTS[0]:g} to {EXPONENTS[1]:g}", doublings, many - few),
    ):
        yield exact(f"layers from {ends}, {method}", growth, float(more), allowance=1.0)


claim = Claim.of("gdpp-layers", __doc__, rows, figure=False)
