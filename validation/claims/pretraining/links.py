"""Labels that are not linear: classes, flips, ReLU and powers.

Mean test errors of simulated runs whose labels are a function of the linear one equal the
prediction at the same integers.  Over the prediction, extrapolated to infinite dimension, they
equal the asymptotic errors of linear labels with the noise that the function leaves unexplained.

Source: Derived in the documentation.
"""

from typing import Any

from iclimit import experiment
from iclimit.asymptotics.pretraining import icl_error, idg_error, predict
from iclimit.links import link_text
from iclimit.simulate.pretraining import sample
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.rows import both_errors

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
    "quick": {12: 100, 16: 60, 24: 120},
    "medium": {12: 600, 16: 500, 24: 300},
    "full": {12: 3000, 16: 2000, 24: 1500, 32: 1000},
}

# Task sets of a prediction, and dimensions from which the limit of predictions is extrapolated.
TASK_SETS = 8
ANCHORS = (32, 48, 64, 88)


def pair(errors: Any) -> tuple[Any, Any]:
    """ICL and IDG error."""
    return errors.icl, errors.idg


def named(point: experiment.Point) -> str:
    """A point in words."""
    numbers = {name: value for name, value in point.limit.items() if name != "link" and value}
    text = " ".join(f"{name}={value:g}" for name, value in numbers.items())
    return f"{link_text(point.link)} {text}"


def rows(effort: Effort) -> Rows:
    """Both errors at one size and in the limit."""
    repeats = effort.by_size(**REPEATS)
    for point in effort.pick(tiny=POINTS[:2], quick=POINTS[:3], medium=POINTS):
        name = named(point)
        runs = {
            dim: run(sample, run=point.at(dim), repeats=count) for dim, count in repeats.items()
        }
        predictions = {
            dim: run(predict, run=point.at(dim), draws=TASK_SETS, approach=approach)
            for approach, dims in (("tasks", runs), ("moments", ANCHORS))
            for dim in dims
        }
        theories = (call(error, **point.limit) for error in (icl_error, idg_error))
        labels = (f"{error} d=inf {name}" for error in ("ICL", "IDG"))
        yield limit(
            dict(zip(labels, theories, strict=True)),
            {dim: call(pair, errors) for dim, errors in runs.items()},
            fit=extrapolate_ratios,
            predictions={dim: call(pair, errors) for dim, errors in predictions.items()},
            anchors=ANCHORS,
            draws=name,
            fit_label=f"chi-square of the ratios {name}",
            name=f"{name}: ratio to the prediction",
        )
        least = min(runs)
        theory = call(with_uncertainty, predictions[least])
        yield from both_errors(f"d={least} {name}", theory, runs[least], of="predict")


claim = Claim.of("links", __doc__, rows, figure=False)
