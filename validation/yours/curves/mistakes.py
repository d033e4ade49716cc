"""What could be otherwise in the statement of a training than the user believes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iclimit.simulate.descent.constructions import NORMALIZATIONS
from iclimit.simulate.dynamics.attention_models import INITIALIZATIONS
from iclimit.validation.yours.curves.setting import CurveSetting

# Traces within this relative distance count as the same.
SAME = 0.01


def likely_mistakes(
    setting: CurveSetting, known_start: bool, staircase: bool
) -> list[tuple[str, dict[str, Any]]]:
    """What could be otherwise than stated, in words after "fits if", and the changed fields.

    Parameters
    ----------
    setting : CurveSetting
        As it was stated.
    known_start : bool
        Whether the initial weights are given, so that their law does not matter.
    staircase : bool
        Whether the curves have plateaus that the stated model does not.
    """
    N, dim, trace = setting.context, len(setting.eigenvalues), sum(setting.eigenvalues)
    stepped, separate = setting.learning_rate is not None, setting.model == "separate"
    noisy, start = setting.noise_variance > 0, not known_start
    what, factor = "learning rate" if stepped else "unit of time", 0.5 / setting.loss_factor
    uneven = np.ptp(setting.eigenvalues) > SAME * trace / dim
    words = {"mean": "divided by N", "sum": "not divided by N"}
    other = next(name for name in NORMALIZATIONS if name != setting.normalization)
    start_law = next(name for name in INITIALIZATIONS if name != setting.initialization)
    rows: list[tuple[bool, str, dict[str, Any]]] = [
        (
            stepped,
            f"the loss that is trained on and recorded has the factor {factor:g}",
            {"loss_factor": factor},
        ),
        (True, "losses are recorded with half the stated factor", {"loss_unit": 0.5}),
        (True, "losses are recorded with twice the stated factor", {"loss_unit": 2.0}),
        (True, f"the {what} is half of what is stated", {"time_unit": 0.5}),
        (True, f"the {what} is twice what is stated", {"time_unit": 2.0}),
        (True, "there is momentum 0.9, which makes steps count ten times", {"time_unit": 10.0}),
        (True, f"scores are {words[other]} (normalization {other})", {"normalization": other}),
        *(
            (True, f"the {what} counts {name} times", {"time_unit": float(N) ** power})
            for name, power in (("N", 1), ("1/N", -1), ("N^2", 2), ("1/N^2", -2))
        ),
        *(
            (
                abs(trace / wanted - 1) > SAME,
                f"the eigenvalues have the sum {wanted:g}",
                {"eigenvalues": tuple(wanted / trace * each for each in setting.eigenvalues)},
            )
            for wanted in {1.0, float(dim)}
        ),
        (uneven, "the eigenvalues are all equal", {"eigenvalues": (trace / dim,) * dim}),
        (N > 1, f"there are {N - 1} pairs besides the query", {"context": N - 1}),
        (True, f"there are {N + 1} pairs besides the query", {"context": N + 1}),
        (
            noisy,
            f"recorded losses are of labels with {'no ' * setting.query_noise}noise",
            {"query_noise": not setting.query_noise},
        ),
        (
            noisy,
            "noise_variance is a standard deviation",
            {"noise_variance": setting.noise_variance**2},
        ),
        (start, "init_scale is a variance", {"init_scale": math.sqrt(setting.init_scale)}),
        (start and separate, f"initialization is {start_law}", {"initialization": start_law}),
        (start and separate, "key and query are merged", {"model": "merged", "rank": 1}),
        (
            start and staircase and not separate,
            "key and query are separate",
            {"model": "separate"},
        ),
    ]
    return [(text, changes) for applies, text, changes in rows if applies]
