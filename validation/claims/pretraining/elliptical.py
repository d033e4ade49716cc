"""Elliptical inputs: a scale that differs from token to token.

Mean test errors of simulated runs with scales of two values, and with Student's t inputs, equal
the prediction at the same integers.  Over the prediction, extrapolated to infinite dimension, they
equal the asymptotic ICL and IDG errors.

Source: Derived in the documentation.
"""

from typing import Any

from iclimit.asymptotics.pretraining import elliptical_errors, predict
from iclimit.experiment import Experiment, Ridge
from iclimit.notation import sizes_of
from iclimit.problem import Problem
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, run
from iclimit.validation.claims.pretraining.points import limits_by_ratios, predicted_at

# Scales of two values and Student's law, on either side of tau = 1.
LAWS: dict[str, Any] = {"two scales": ((0.25, 1.75), (0.5, 0.5)), "student": ("student", 12.0)}
POINTS = (
    {"tau": 1.5, "alpha": 2.0, "kappa": 2.0, "rho": 0.2, "ridge": 0.3},
    {"tau": 0.5, "alpha": 2.0, "kappa": 1.0, "rho": 0.3, "ridge": 0.5},
)

# Runs by dimension, and their factor where there are fewer prompts than parameters: these cost
# less, and scatter more.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {12: 50, 20: 16, 40: 20},
    "medium": {12: 400, 20: 200, 40: 160},
    "full": {12: 2000, 20: 1000, 40: 700},
}
CHEAP = 3

# Dimensions from which the limit of predictions is extrapolated: far apart, these scatter it by a
# third of what near ones do.
ANCHORS = (24, 44, 72, 120)

# Approaches of predictions with their task sets and dimensions; none are those of the runs.
PREDICTIONS = (("tasks", 8, ()), ("moments", 16, ANCHORS))


def run_at(dim: int, scale_law: Any, point: dict[str, float]) -> Experiment:
    """A run of a point at a dimension."""
    sizes = sizes_of(dim, {name: point[name] for name in ("tau", "alpha", "kappa")})
    law = Problem(
        dim,
        int(sizes["context"]),
        tasks=sizes["tasks"],
        noise_variance=point["rho"],
        task_law="sphere",
        scale_law=scale_law,
    )
    return Experiment(law, prompts=int(sizes["prompts"]), training=Ridge(point["ridge"]))


def rows(effort: Effort) -> Rows:
    """Both errors in the limit, and at one size."""
    repeats = effort.by_size(**REPEATS)
    for name, law in LAWS.items():
        for point in effort.pick(tiny=POINTS[:1], quick=POINTS):
            more = CHEAP if point["tau"] < 1 else 1
            runs = {
                dim: run(sample, run=run_at(dim, law, point), repeats=more * count)
                for dim, count in repeats.items()
            }
            predictions = {
                dim: run(predict, run=run_at(dim, law, point), draws=draws, approach=approach)
                for approach, draws, dims in PREDICTIONS
                for dim in dims or runs
            }
            theory = call(elliptical_errors, scale_law=law, **point)
            where = f"{name}, tau={point['tau']:g}"
            theories = {"icl": theory.icl, "idg": theory.idg}
            yield limits_by_ratios(where, theories, runs, predictions, ANCHORS)
            yield from predicted_at(max(runs), where, predictions, runs)


claim = Claim.of("elliptical", __doc__, rows, figure=False)
