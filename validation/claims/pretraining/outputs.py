"""Several outputs: the labels of a token are a vector.

Mean test errors of simulated runs whose outputs share inputs equal the prediction at the same
integers, in which each output counts as a prompt and overlaps with the others of its prompt.  Over
the prediction, extrapolated to infinite dimension, they equal the asymptotic errors at C times the
prompts.

Source: Derived in the documentation.
"""

from typing import Any

from iclimit.asymptotics.pretraining import icl_error, idg_error, predict
from iclimit.experiment import Experiment, Ridge
from iclimit.notation import sizes_of
from iclimit.problem import Problem
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, run
from iclimit.validation.claims.pretraining.points import limits_by_ratios, predicted_at

# Two outputs on either side of C tau = 1, where shared inputs matter by 2 to 5 % at d = 20.
OUTPUTS = 2
POINTS: tuple[dict[str, Any], ...] = (
    {"tau": 3.0, "alpha": 2.0, "kappa": 2.0, "rho": 0.3, "ridge": 0.01},
    {"tau": 0.5, "alpha": 1.0, "kappa": 1.0, "rho": 0.1, "ridge": 0.1, "link": "sign"},
)

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {20: 8, 22: 8, 24: 8},
    "quick": {20: 60, 28: 40, 36: 24},
    "medium": {20: 400, 28: 250, 36: 150},
    "full": {20: 2000, 28: 1500, 36: 900},
}

# Task sets of a prediction, and dimensions from which the limit of predictions is extrapolated.
TASK_SETS = 8
ANCHORS = (32, 48, 64, 88)


def run_at(dim: int, point: dict[str, Any]) -> Experiment:
    """A run at a dimension whose outputs of all prompts are so many as tau says."""
    sizes = sizes_of(dim, {name: point[name] for name in ("tau", "alpha", "kappa")})
    law = Problem(
        dim,
        int(sizes["context"]),
        tasks=sizes["tasks"],
        noise_variance=point["rho"],
        task_law="sphere",
        outputs=OUTPUTS,
        link=point.get("link", "identity"),
    )
    prompts = int(sizes["prompts"]) // OUTPUTS
    return Experiment(law, prompts=prompts, training=Ridge(point["ridge"]))


def rows(effort: Effort) -> Rows:
    """Both errors at one size and in the limit."""
    repeats = effort.by_size(**REPEATS)
    for point in POINTS:
        name = f"{OUTPUTS} outputs, C tau={point['tau']:g}"
        runs = {
            dim: run(sample, run=run_at(dim, point), repeats=count)
            for dim, count in repeats.items()
        }
        predictions = {
            dim: run(predict, run=run_at(dim, point), draws=TASK_SETS, approach=approach)
            for approach, dims in (("tasks", runs), ("moments", ANCHORS))
            for dim in dims
        }
        stated = run_at(min(runs), point).limit
        theories = {"icl": call(icl_error, **stated), "idg": call(idg_error, **stated)}
        yield limits_by_ratios(name, theories, runs, predictions, ANCHORS)
        yield from predicted_at(min(runs), name, predictions, runs)


claim = Claim.of("outputs", __doc__, rows, figure=False)
