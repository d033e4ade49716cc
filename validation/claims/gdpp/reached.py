"""What layers of GD++ on tokens predict for contexts of a given condition number."""

import math
from itertools import product

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.gdpp.condition_number import ConditionSchedule, condition_number_schedule
from iclimit.simulate.gdpp import gdpp_transformer, layer_spectra
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.prompts import Prompts, regression_tokens
from iclimit.statement import Derived, named_cell
from iclimit.validation.rows import Later, run

# Schedules.
METHODS = ("optimal", "monotone")

# Condition numbers at the start.
STARTS = (10.0, 100.0, 1e3, 1e4)
# Relative errors to reach.
TARGETS = (1e-2, 1e-4, 1e-8)

# Number of eigenvalues of the contexts.
DENSE = 30
# Number of eigenvalues of contexts of one dimension on tokens.
POINTS = 4001
# Number of eigenvalues that stand for an interval.
FINE = 20_001


@named_cell("reached_layers")
def reached_layers(
    *,
    condition_number: float,
    gammas: tuple[float, ...],
    rates: tuple[float, ...],
    rng: SeedSequence,
) -> list[float]:
    """Relative errors of a last step after 0, 1, ... layers.

    The eigenvalues are spaced evenly in the logarithm over the whole interval.  The error is the
    largest over the eigendirections of |prediction - <w, x>| / (|w| |x|), from tokens.
    """
    generator = np.random.default_rng(rng)
    basis = np.linalg.qr(generator.standard_normal((2 * DENSE, DENSE)))[0]
    right = np.linalg.qr(generator.standard_normal((DENSE, DENSE)))[0]
    roots = np.geomspace(1 / condition_number, 1, DENSE) ** 0.5
    x = math.sqrt(2 * DENSE) * (basis * roots) @ right.T
    # For w along an eigendirection the worst query is along it too.
    labels = x @ right
    prompts = Prompts(np.broadcast_to(x, (DENSE, *x.shape)), labels.T, right.T, np.ones(DENSE))
    tokens = regression_tokens(prompts)
    errors = []
    for count, rate in enumerate(rates):
        steps = [0.0] * count + [rate]
        model = gdpp_transformer(steps, gammas[:count], context=2 * DENSE, dim=DENSE)
        errors.append(float(np.max(np.abs(prediction(tokens, model.layers) - 1))))
    return errors


@named_cell("largest_error")
def largest_error(
    *,
    rates: tuple[float, ...],
    gammas: tuple[float, ...],
    condition_number: float,
    rng: SeedSequence,  # noqa: ARG001
) -> float:
    """Largest relative error over all eigenvalues in an interval, from tokens.

    Contexts of one pair in one dimension have one eigenvalue each; the eigenvalues are Chebyshev
    points.
    """
    angle = np.arange(POINTS) * math.pi / (POINTS - 1)
    low = 1 / condition_number
    roots = np.sqrt((1 + low) / 2 + (1 - low) / 2 * np.cos(angle))[:, None]
    ones = np.ones_like(roots)
    prompts = Prompts(roots[:, :, None], roots, ones, ones[:, 0])
    model = gdpp_transformer(rates, gammas, context=1, dim=1)
    return float(np.max(np.abs(prediction(regression_tokens(prompts), model.layers) - 1)))


@named_cell("image_ends")
def image_ends(
    *,
    gammas: tuple[float, ...],
    lower: float,
    upper: float,
    rng: SeedSequence,  # noqa: ARG001
) -> np.ndarray:
    """Least and largest eigenvalue before and after every layer, shape (2, layers + 1).

    Contexts of one pair in one dimension have one eigenvalue each.
    """
    roots = np.sqrt(np.geomspace(lower, upper, FINE))
    spectra = layer_spectra(roots[:, None, None], gammas)[:, :, 0]
    return np.stack([spectra.min(axis=1), spectra.max(axis=1)])


def schedule_of(method: str, start: float) -> ConditionSchedule:
    """Schedule from a condition number to an excess at which predictions are exact."""
    return condition_number_schedule(start, tol=min(TARGETS) / (2 * start), method=method)


def reached_runs() -> dict[tuple[str, float], Later]:
    """Runs by schedule and condition number, to the smallest of the errors."""
    runs = {}
    for method, start in product(METHODS, STARTS):
        schedule = schedule_of(method, start)
        stated = method, min(TARGETS)
        runs[method, start] = run(
            reached_layers,
            condition_number=start,
            gammas=Derived(schedule.gammas, stated),
            rates=Derived(schedule.final_rate, stated),
        )
    return runs
