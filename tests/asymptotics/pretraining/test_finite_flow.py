"""Predictions of runs of gradient flow: limits, ends, and simulated runs."""

import math

import numpy as np
import pytest

import iclimit
from iclimit import Flow, Point, Ridge
from iclimit.asymptotics.pretraining import training_errors
from iclimit.asymptotics.pretraining.finite_flow import Flowing, flow_errors
from iclimit.asymptotics.pretraining.finite_size import read_run

POINT = {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1}

# Standard errors that are allowed; the test has 20 comparisons.
ALLOWED = 3.5


def mean_moments(dim, time, ridge=0.0, start_variance=0.0):
    run = read_run(Point(**POINT).at(dim=dim), 0, 8)
    flows = [Flowing(law, run.test, 2 * dim**2, time, ridge, start_variance) for law in run.laws]
    return np.mean([flow_errors(flow) for flow in flows], axis=0)


@pytest.mark.parametrize("time", [0.0, 0.1, 2.0, 100.0, math.inf])
def test_mean_moments_have_the_limit(time):
    limit = training_errors(time=time, ridge=0.02, start_variance=0.3, **POINT)
    for column, expected in enumerate((limit.icl, limit.idg)):
        gaps = [mean_moments(dim, time, 0.02, 0.3)[column] / expected - 1 for dim in (40, 160)]
        # Deviations fall as 1/d; task sets scatter by some tenths of a per cent.
        assert abs(gaps[1]) < max(abs(gaps[0]) / 2.5, 0.004)


def test_ends_are_those_of_ridge_regression():
    run = Point(**POINT).at(dim=12)
    for ridge in (0.0, 0.1):
        ended = iclimit.predict(run.with_(training=Flow(math.inf, ridge)), rng=0)
        late = iclimit.predict(run.with_(training=Flow(1e5, ridge)), rng=0)
        # The same task sets: the flow draws a seed first.
        seed = int(np.random.default_rng(0).integers(2**63))
        solved = iclimit.predict(run.with_(training=Ridge(ridge)), rng=seed)
        for name in ("icl", "idg"):
            assert ended[name].mean == pytest.approx(solved[name].mean, rel=1e-9)
            assert late[name].mean == pytest.approx(solved[name].mean, rel=2e-3)
    begun = iclimit.predict(run.with_(training=Flow(0.0)), rng=0)
    assert begun.icl.mean == pytest.approx(1.1, rel=1e-4)


@pytest.mark.parametrize(
    "point",
    [
        Point(**POINT, time=0.5),
        Point(**POINT, time=20.0),
        Point(tau=0.6, alpha=2, kappa=1, rho=0.2, time=2.0),
        Point(tau=0.6, alpha=2, kappa=1, rho=0.2, time=0.5, start_variance=0.4),
        Point(tau=2, alpha=2, kappa=2, rho=0.2, time=3.0, ridge=0.05, test_alpha=4, test_rho=0.4),
    ],
)
def test_runs_are_as_predicted(point):
    run = point.at(dim=14)
    runs = iclimit.sample(run, rng=1, repeats=60)
    predicted = iclimit.predict(run, rng=2, draws=20)
    for name in ("icl", "idg"):
        error = predicted[name]
        deviation = runs[name].mean - error.mean
        # Nearly all runs are within the uncertainty, which so counts as two standard errors.
        doubt = predicted.uncertainty / 2 * error.mean
        scale = math.sqrt(runs[name].standard_error ** 2 + error.standard_error**2 + doubt**2)
        assert abs(deviation) < ALLOWED * scale
        assert scale < 0.03 * error.mean


def test_what_is_not_known_is_named():
    run = Point(**POINT, time=1.0).at(dim=8)
    with pytest.raises(ValueError, match="spread must be False for a Flow"):
        iclimit.predict(run, rng=0, spread=True)
    drifting = run.with_(problem=iclimit.Problem(8, 8, tasks=4, drift=0.1))
    with pytest.raises(ValueError, match="drift"):
        iclimit.predict(drifting, rng=0)
    gated = run.with_(model=iclimit.Reduced(np.linspace(0.5, 1, 8)))
    with pytest.raises(ValueError, match="gates must be None for a Flow"):
        iclimit.predict(gated, rng=0)
    with pytest.raises(ValueError, match="plans know no time"):
        iclimit.plan_runs("precision", run)
