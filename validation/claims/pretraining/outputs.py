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

# Two outputs on either side of C tau = 1, where shared inputs matter by 1 to 5 % at d = 20.
OUTPUTS = 2
POINTS: tuple[dict[str, Any], ...] = (
    {"tau": 3.0, "alpha": 1.0, "kappa": 2.0, "rho": 0.3, "ridge": 0.1},
    {"tau": 0.5, "alpha": 1.0, "kappa": 1.0, "rho": 0.1, "ridge": 0.1, "link": "sign"},
    {"tau": 0.7, "alpha": 2.0, "kappa": 2.0, "rho": 0.3, "ridge": 0.1},
)

# Runs by dimension, and their factor where there are fewer rows than parameters: these cost less,
# and scatter more.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {20: 8, 22: 8, 26: 8},
    "quick": {20: 60, 28: 16, 40: 20},
    "medium": {20: 400, 28: 150, 40: 150},
    "full": {20: 2000, 28: 800, 40: 800},
}
CHEAP = 3

# Dimensions from which the limit of predictions is extrapolated: far apart, these scatter it by
# .1 %, a third of what near ones do.
ANCHORS = (24, 44, 72, 120)

# Approaches of predictions with their task sets and dimensions; none are those of the runs.
PREDICTIONS = (("tasks", 8, ()), ("moments", 16, ANCHORS))


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
    """Both errors at two sizes and in the limit."""
    repeats = effort.by_size(**REPEATS)
    for point in effort.pick(tiny=POINTS[:2], quick=POINTS):
        name = f"{OUTPUTS} outputs, C tau={point['tau']:g}"
        more = CHEAP if point["tau"] < 1 else 1
        runs = {
            dim: run(sample, run=run_at(dim, point), repeats=more * count)
            for dim, count in repeats.items()
        }
        predictions = {
            dim: run(predict, run=run_at(dim, point), draws=draws, approach=approach)
            for approach, draws, dims in PREDICTIONS
            for dim in dims or runs
        }
        stated = run_at(min(runs), point).limit
        theories = {"icl": call(icl_error, **stated), "idg": call(idg_error, **stated)}
        yield limits_by_ratios(name, theories, runs, predictions, ANCHORS)
        for dim in (min(runs), max(runs)):
            yield from predicted_at(dim, name, predictions, runs)


claim = Claim.of("outputs", __doc__, rows, figure=False)
