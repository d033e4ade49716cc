"""Errors of pretraining for the claims, made up rather than simulated."""

from dataclasses import replace

import numpy as np
from judged_claims import Results, scaled

from iclimit.asymptotics.pretraining import FiniteSizeErrors
from iclimit.results import Estimate
from iclimit.simulate.pretraining import SimulatedErrors
from iclimit.validation import CLAIMS, Preset

NOISE, REPEATS = 0.01, 40


def made_up(name: str, preset: Preset = "quick") -> Results:
    """Runs and predictions as the theory has them, with 1/d corrections and noise of 1 %.

    For inputs in rotated position, where no limit exists, as if they were isotropic.
    """
    rng = np.random.default_rng(1)
    results: Results = {}
    for kind, point, dim in CLAIMS[name].cells_by_key(preset):
        here = point
        if getattr(point, "alignment", "") == "rotated":
            here = replace(point, inputs="isotropic", alignment="same")
        means = [(1 + 3 / dim) * float(error) for error in (here.limit.icl, here.limit.idg)]
        if kind == "predicted":
            icl, idg = (Estimate(x, 0.0, 2, np.full(2, x)) for x in means)
            results[kind, point, dim] = FiniteSizeErrors(icl, idg)
        else:
            noise = rng.standard_normal((2, REPEATS))
            noise = noise * NOISE + 1
            icl, idg = (Estimate.of(x * each) for x, each in zip(means, noise, strict=True))
            results[kind, point, dim] = SimulatedErrors(icl, idg, {})
    return results


def larger(results: Results, error: str, *kinds: str) -> Results:
    """One error of some kinds larger by 15 %."""
    return {
        key: replace(found, **{error: scaled(getattr(found, error), 1.15)})
        if key[0] in kinds
        else found
        for key, found in results.items()
    }
