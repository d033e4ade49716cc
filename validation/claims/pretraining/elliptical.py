"""Elliptical inputs: a scale that differs from token to token.

Mean test errors of simulated runs with scales of two values, and with Student's t inputs,
extrapolated to infinite dimension, equal the asymptotic ICL and IDG errors.

Source: Derived in the documentation.
"""

from typing import Any

from iclimit.asymptotics.pretraining import elliptical_errors
from iclimit.experiment import Experiment, Ridge
from iclimit.notation import sizes_of
from iclimit.problem import Problem
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run

# Scales of two values and Student's law, on either side of tau = 1.
LAWS: dict[str, Any] = {"two scales": ((0.25, 1.75), (0.5, 0.5)), "student": ("student", 12.0)}
POINTS = (
    {"tau": 1.5, "alpha": 2.0, "kappa": 2.0, "rho": 0.2, "ridge": 0.3},
    {"tau": 0.5, "alpha": 2.0, "kappa": 1.0, "rho": 0.3, "ridge": 0.5},
)

# Runs by dimension, and the order in 1/d of the polynomial that is fitted.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8, 24: 4},
    "quick": {8: 150, 12: 120, 24: 60, 40: 30},
    "medium": {8: 1000, 12: 800, 24: 500, 40: 250},
    "full": {8: 4000, 12: 3000, 24: 2000, 40: 1000},
}
ORDER = 2


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


def pair(errors: Any) -> tuple[Any, Any]:
    """ICL and IDG error."""
    return errors.icl, errors.idg


def rows(effort: Effort) -> Rows:
    """Both errors in the limit."""
    repeats = effort.by_size(**REPEATS)
    for name, law in LAWS.items():
        for point in effort.pick(tiny=POINTS[:1], quick=POINTS):
            runs = {
                dim: run(sample, run=run_at(dim, law, point), repeats=count)
                for dim, count in repeats.items()
            }
            theory = call(elliptical_errors, scale_law=law, **point)
            where = f"{name}, tau={point['tau']:g}"
            yield limit(
                {f"ICL d=inf {where}": theory.icl, f"IDG d=inf {where}": theory.idg},
                {dim: call(pair, errors) for dim, errors in runs.items()},
                order=ORDER,
                about=f"errors, {where}",
            )


claim = Claim.of("elliptical", __doc__, rows, figure=False)
