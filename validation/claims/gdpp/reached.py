"""What layers of GD++ do on contexts of a given condition number; two claims share these runs."""

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import condition_number_schedule
from iclimit.simulate.descent.regression import regression_tokens
from iclimit.simulate.gdpp import gdpp_transformer, layer_spectra
from iclimit.simulate.pretraining.prompts import Prompts
from iclimit.simulate.transformer import prediction
from iclimit.validation import Cell, Results

# Schedules, with the line and the marker of each in figures.
METHODS = {"optimal": ("-", "o"), "monotone": ("--", "s")}

# Condition numbers at the start, and relative errors to reach.
STARTS, TARGETS = (10.0, 100.0, 1e3, 1e4), (1e-2, 1e-4, 1e-8)

# Eigenvalues of the contexts.
DENSE = 60


def reached_layers(
    *, condition_number: float, gammas: tuple[float, ...], rates: tuple[float, ...], rng: Any
) -> dict[str, list[float]]:
    """Condition numbers by layer, and relative errors of a last step after 0, 1, ... layers.

    The eigenvalues are spaced evenly in the logarithm over the whole interval.  The error is the
    largest over the eigendirections of |prediction - <w, x>| / (|w| |x|), from tokens.
    """
    generator = np.random.default_rng(rng)
    left = np.linalg.qr(generator.standard_normal((2 * DENSE, DENSE)))[0]
    right = np.linalg.qr(generator.standard_normal((DENSE, DENSE)))[0]
    roots = np.geomspace(1 / condition_number, 1, DENSE) ** 0.5
    x = math.sqrt(2 * DENSE) * (left * roots) @ right.T
    spectra = layer_spectra(x[None], np.array(gammas))[:, 0]
    # For w along an eigendirection the worst query is along it too.
    labels = x @ right
    prompts = Prompts(np.broadcast_to(x, (DENSE, *x.shape)), labels.T, right.T, np.ones(DENSE))
    tokens, errors = regression_tokens(prompts), []
    for count, rate in enumerate(rates):
        steps = [0.0] * count + [rate]
        model = gdpp_transformer(steps, gammas[:count], context=2 * DENSE, dim=DENSE)
        errors.append(float(np.max(np.abs(prediction(tokens, model.layers) - 1))))
    return {"condition_numbers": (spectra[:, -1] / spectra[:, 0]).tolist(), "errors": errors}


def reached_cells() -> dict[tuple[str, str, float], Cell]:
    """Runs by schedule and condition number, to the smallest of the errors."""
    cells = {}
    for method in METHODS:
        for start in STARTS:
            tol = min(TARGETS) / (2 * start)
            schedule = condition_number_schedule(start, tol=tol, method=method)
            cells["reached", method, start] = Cell.of(
                reached_layers,
                condition_number=start,
                gammas=tuple(schedule.gammas.tolist()),
                rates=tuple(schedule.final_rate.tolist()),
            )
    return cells


def reached_runs(results: Results) -> dict[tuple[str, float], dict[str, list[float]]]:
    """Results of these runs by schedule and condition number."""
    return {key[1:]: run for key, run in results.items() if key[0] == "reached"}
