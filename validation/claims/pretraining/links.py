"""Labels that are not linear: classes, flips, ReLU and powers.

Mean test errors of simulated runs whose labels are a function of the linear one equal the
prediction at the same integers.  Over the prediction, extrapolated to infinite dimension, they
equal the asymptotic errors of linear labels with the noise that the function leaves unexplained.

Source: Derived in the documentation.
"""

from iclimit import experiment
from iclimit.asymptotics.pretraining import icl_error, idg_error, predict
from iclimit.links import link_text
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, run
from iclimit.validation.claims.pretraining.points import limits_by_ratios, predicted_at

# Bounded labels, with noise, and labels of a large kurtosis.
POINTS = (
    experiment.Point(tau=2, alpha=2, kappa=2, ridge=0.05, link="sign"),
    experiment.Point(tau=0.5, alpha=1, kappa=1, ridge=0.1, link="sign", flips=0.1),
    experiment.Point(tau=2, alpha=2, kappa=2, rho=0.1, ridge=0.05, link="relu"),
    experiment.Point(tau=2, alpha=4, kappa=2, ridge=2.0, link="cube"),
)

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {12: 100, 20: 30, 40: 40},
    "medium": {12: 600, 20: 300, 40: 250},
    "full": {12: 3000, 20: 1500, 40: 1000},
}

# Dimensions from which the limit of predictions is extrapolated: far apart, these scatter it by
# .1 %, a third of what near ones do.
ANCHORS = (24, 44, 72, 120)

# Approaches of predictions with their task sets and dimensions; none are those of the runs.
PREDICTIONS = (("tasks", 8, ()), ("moments", 16, ANCHORS))


def named(point: experiment.Point) -> str:
    """A point in words."""
    numbers = {name: value for name, value in point.limit.items() if name != "link" and value}
    text = " ".join(f"{name}={value:g}" for name, value in numbers.items())
    return f"{link_text(point.link)} {text}"


def rows(effort: Effort) -> Rows:
    """Both errors at two sizes and in the limit."""
    repeats = effort.by_size(**REPEATS)
    for point in effort.pick(tiny=POINTS[:2], quick=POINTS[:3], medium=POINTS):
        name = named(point)
        runs = {
            dim: run(sample, run=point.at(dim), repeats=count) for dim, count in repeats.items()
        }
        predictions = {
            dim: run(predict, run=point.at(dim), draws=draws, approach=approach)
            for approach, draws, dims in PREDICTIONS
            for dim in dims or runs
        }
        theories = {"icl": call(icl_error, **point.limit), "idg": call(idg_error, **point.limit)}
        yield limits_by_ratios(name, theories, runs, predictions, ANCHORS)
        for dim in (min(runs), max(runs)):
            yield from predicted_at(dim, name, predictions, runs)


claim = Claim.of("links", __doc__, rows, figure=False)
