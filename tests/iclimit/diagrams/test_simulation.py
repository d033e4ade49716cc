"""Simulated values against their runs, weighted least squares by hand, and wanted precisions."""

import math

import numpy as np
import pytest
from refusals import type_error, value_error
from scipy import stats

import iclimit
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.diagrams.simulated_points import can_be_extrapolated, cells_at
from iclimit.diagrams.simulation import (
    Simulation,
    parse_simulation,
    predict_lines,
    simulate_values,
)
from iclimit.diagrams.smooth_predictions import smooth_prediction
from iclimit.prediction import Prediction
from iclimit.runs.cell import Cell
from iclimit.runs.execution import Outcome
from iclimit.runs.store import RunStore
from iclimit.simulate.pretraining import simulate_errors

POINT = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.1}
ICL = QUANTITIES["icl_error"]


def simulation(*sizes, **options):
    return Simulation(sizes, jobs=1, **options)


def test_one_size_is_the_run_itself():
    [found] = simulate_values(ICL, [POINT], simulation(12, repeats=5, rng=3))
    integers = {"dim": 12, "context": 12, "tasks": 6, "prompts": 288, "rho": 0.1, "ridge": 0.1}
    cell = Cell.of(simulate_errors, **integers, repeats=5)
    run = simulate_errors(**integers, repeats=5, rng=cell.seed(3))
    assert found.estimate.mean == run.icl.mean
    assert found.estimate.standard_error == run.icl.standard_error
    predicted = iclimit.finite_size_errors(**integers, draws=300, rng=1)
    [sized] = found.runs
    assert sized.prediction.mean == found.theory
    error = predicted.icl.standard_error
    allowed = 4.5 * math.hypot(sized.prediction.standard_error, error)
    assert abs(sized.prediction.mean - predicted.icl.mean) < allowed
    assert sized.prediction.standard_error == pytest.approx(error * math.sqrt(300 / 128), rel=0.3)


def test_predictions_that_state_an_error_of_100_percent_are_left_out(monkeypatch):
    """Next to thresholds of small sizes they are 20 % off, which was a kink in the dashed line."""
    asked = []

    def run_cells(cells, **_):
        for number, cell in enumerate(cells):
            asked.append(cell)
            error = math.inf if number == 1 else 2.0
            doubt = np.full((1, 2), float(number in (1, 2)))
            errors = Prediction(("icl", "idg"), np.full((8, 2), error), doubt)
            yield Outcome(cell, errors, seconds=0.0, stored=False)

    monkeypatch.setattr("iclimit.diagrams.simulation.run_cells", run_cells)
    family = [{name: value for name, value in POINT.items() if name != "tau"}]
    [line] = predict_lines(ICL, "tau", np.linspace(2, 4, 9), family, simulation(8))
    assert len(line) == len(asked) - 1
    assert [math.isinf(each.prediction.mean) for each in line[:3]] == [False, True, False]


def test_the_gap_keeps_the_correlation():
    [found] = simulate_values(QUANTITIES["task_gap"], [POINT], simulation(12, repeats=6))
    integers = {"dim": 12, "context": 12, "tasks": 6, "prompts": 288, "rho": 0.1, "ridge": 0.1}
    run = Cell.of(simulate_errors, **integers, repeats=6).run(0)
    assert found.estimate.mean == pytest.approx(run.gap.mean, rel=1e-12)
    assert found.estimate.standard_error == pytest.approx(run.gap.standard_error)


def test_three_sizes_are_extrapolated():
    """The deviations from the prediction, by the normal equations of a straight line in 1/d."""
    [found] = simulate_values(ICL, [POINT], simulation(8, 12, 16, repeats=10))
    assert [run.estimate.repeats for run in found.runs] == [29, 16, 10]
    limit = float(iclimit.icl_error(**POINT))
    assert found.theory == pytest.approx(limit, rel=1e-12)
    deviation = np.array([run.estimate.mean - run.prediction.mean for run in found.runs])
    errors = [(run.estimate.standard_error, run.prediction.standard_error) for run in found.runs]
    weight = np.array([1 / (a**2 + b**2) for a, b in errors])
    inverse = 1 / np.array([8.0, 12.0, 16.0])
    sums = [float(np.sum(weight * inverse**k)) for k in range(3)]
    determinant = sums[0] * sums[2] - sums[1] ** 2
    first = np.sum(weight * deviation)
    second = np.sum(weight * inverse * deviation)
    intercept = (sums[2] * first - sums[1] * second) / determinant
    assert found.estimate.mean == pytest.approx(limit + intercept, rel=1e-9)
    error = math.sqrt(sums[2] / determinant)
    assert found.estimate.standard_error == pytest.approx(error, rel=1e-9)
    ratio = intercept / error
    assert stats.norm.cdf(found.z) == pytest.approx(stats.t.cdf(ratio, 9), rel=1e-6)
    assert abs(found.z) < 4.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", [{"target_standard_error": 0.01}, {"target_relative_error": 0.01}]
)
def test_precision_is_reached_by_extending(target, tmp_path):
    points = [POINT, POINT | {"kappa": 2.0}]
    with RunStore(tmp_path / "runs.sqlite") as store:
        values = simulate_values(ICL, points, simulation(10, repeats=4, store=store, **target))
        for value in values:
            assert value is not None
            wanted = 0.01 * (value.estimate.mean if "target_relative_error" in target else 1)
            assert value.estimate.standard_error <= wanted
            assert value.runs[0].estimate.repeats >= 32
            # Not many times more than needed, given how rough early error bars are.
            assert value.estimate.standard_error > 0.25 * wanted
        repeats = sorted(run.count for run in store.runs(function="simulate_errors"))
        assert repeats == sorted(v.runs[0].estimate.repeats for v in values if v)
        again = simulate_values(ICL, points, simulation(10, repeats=4, store=store, **target))
    assert again == values


def test_first_repeats_are_those_that_the_predicted_scatter_takes():
    scatter = float(iclimit.pretraining.error_spread(**POINT).icl) / 24
    wanted = scatter / 10
    fine = Simulation((24,), target_standard_error=wanted * (1 + 1e-9))
    assert fine.repeats_at(ICL, POINT) == (100,)
    relative = Simulation((24,), target_relative_error=wanted / float(ICL.evaluate(POINT)))
    assert abs(relative.repeats_at(ICL, POINT)[0] - 100) <= 1
    assert Simulation((24,), target_standard_error=scatter).repeats_at(ICL, POINT) == (32,)
    assert Simulation((24,), repeats=7).repeats_at(ICL, POINT) == (7,)
    least = Simulation((24,), target_standard_error=wanted, most_repeats=50)
    assert least.repeats_at(ICL, POINT) == (50,)
    threshold = POINT | {"tau": 1.0, "ridge": 0.0}
    assert fine.repeats_at(ICL, threshold) == (32,)


def test_precision_has_a_limit():
    target = simulation(6, repeats=8, target_standard_error=1e-6, most_repeats=50)
    with pytest.warns(RuntimeWarning, match="1 of 1 points have larger standard errors than"):
        [found] = simulate_values(ICL, [POINT], target)
    assert found.runs[0].estimate.repeats == 50


def test_what_the_time_does_not_suffice_for_is_missing():
    limited = simulation(60, repeats=500, time_limit=0.5)
    with pytest.warns(RuntimeWarning, match="0 of 2 points are simulated"):
        found = simulate_values(ICL, [POINT, POINT | {"tau": 8.0}], limited)
    assert found == [None, None]


def test_a_run_that_fails_leaves_the_others(monkeypatch):
    points = [POINT, POINT | {"kappa": 2.0}]
    broken, _ = cells_at(POINT, 8, 2)
    real = Cell.run

    def run(cell, root, results=None, extra=None):
        if cell == broken:
            raise ArithmeticError("did not converge")
        return real(cell, root, results, extra)

    monkeypatch.setattr(Cell, "run", run)
    with pytest.warns(RuntimeWarning, match=r"1 runs failed, .* converge \(simulate_errors"):
        first, second = simulate_values(ICL, points, simulation(8, repeats=2))
    assert first is None is not second
    with pytest.raises(RuntimeError, match=r"did not converge \(simulate_errors"):
        simulate_values(ICL, points[:1], simulation(8, repeats=2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_size_at_the_threshold_is_not_extrapolated(seed):
    """tau = 1.1 is n = 110 = d (d + 1) at d = 10, where the prediction is infinite."""
    point = {"tau": 1.1, "alpha": 1.0, "kappa": 1.0, "rho": 0.1, "ridge": 0.0}
    assert not can_be_extrapolated(point, (10, 20, 30))
    assert not can_be_extrapolated(point, (5, 20, 30))  # n = 28 < 30
    assert can_be_extrapolated(point, (20, 30, 40))
    assert can_be_extrapolated(point | {"ridge": 0.1}, (10, 20, 30))
    [found] = simulate_values(ICL, [point], simulation(10, 14, 20, repeats=8, rng=seed))
    last = found.runs[-1]
    assert (found.estimate.mean, found.theory) == (last.estimate.mean, last.prediction.mean)
    assert abs(found.z) < 4.5


def test_a_divergent_prediction_has_no_z():
    """n = d (d + 1) without ridge; a run there is finite."""
    [found] = simulate_values(ICL, [POINT | {"tau": 1.1, "ridge": 0.0}], simulation(10, repeats=2))
    assert (found.z, found.theory) == (None, math.inf)
    assert math.isfinite(found.estimate.mean)


def test_bad_settings():
    for options, message in (
        ({}, "simulation takes dim and optionally"),
        ({"dim": 8, "size": 3}, "simulation takes dim and optionally .* got dim, size"),
        ({"d": 8, "n": 3}, r"got d, n; did you mean dim \(dimension of the inputs\)\?"),
        ({"dim": 8, "repeat": 3}, r"got dim, repeat; did you mean repeats\?"),
        ({"dim": 0}, "dim must be an integer >= 1, got 0"),
        ({"dim": (8, 8)}, "dim must be one size or several different ones, got"),
        ({"dim": 8, "repeats": 0}, "repeats must be an integer >= 1, got 0"),
        ({"dim": 8, "target_standard_error": 0.0}, "_error must be > 0 and finite, got 0.0"),
        ({"dim": 8, "target_relative_error": math.nan}, "_error must be > 0 and finite, got nan"),
        ({"dim": 8, "time_limit": -1}, "time_limit must be > 0 and finite, got -1"),
    ):
        value_error(message, parse_simulation, ICL, options, 12)


def test_sizes_may_be_an_array_and_options_are_a_mapping():
    found, points = parse_simulation(ICL, {"dim": np.array([8, 12])}, 12)
    assert (found.sizes, points) == ((8, 12), 12)
    type_error(r"simulation must be a mapping such as .*, got 20", parse_simulation, ICL, 20, 12)


def test_what_cannot_be_simulated():
    with pytest.raises(
        ValueError,
        match="must be icl_error, idg_error, task_gap, icl_error_at_time, idg_error_at_time, all_",
    ):
        parse_simulation(QUANTITIES["bayes_error"], {"dim": 8}, 12)
    with pytest.raises(ValueError, match="tau must be finite to simulate, got inf"):
        simulate_values(ICL, [POINT | {"tau": math.inf}], simulation(8))


def test_points_of_sequences():
    """Runs on all positions, at the integers next to a point."""
    point = {"sequence_ratio": 2.1, "alpha": 1.5, "alpha_min": 0.4, "rho": 0.1, "ridge": 0.3}
    stated = {"dim": 8, "points": 2, "repeats": 60}
    setting = point | {"sequence_ratio": [2.1, 4]}
    curves = iclimit.curve("all_position_icl", **setting, simulation=stated)
    (first, second) = curves.simulated[0]
    (dashed,) = curves.finite_size
    drawn = smooth_prediction(curves.quantity, curves.x, curves.family[0], dashed)
    at = np.array([sized.parameters["sequence_ratio"] for sized in dashed])
    # A line is smoothed by at most its width.
    np.testing.assert_allclose(drawn(at), [s.prediction.mean for s in dashed], rtol=0.02)
    assert first.parameters["sequence_ratio"] == 17 / 8
    assert first.parameters["alpha_min"] == 3 / 8
    run = iclimit.Point(**point).at(8)
    assert first.theory == pytest.approx(iclimit.predict(run, rng=0).icl.mean, rel=0.02)
    assert max(abs(first.z), abs(second.z)) < 3.5
    assert not can_be_extrapolated(point | {"alpha_min": 0.1}, (8, 16, 24))
    assert can_be_extrapolated(point | {"sequence_ratio": 2, "alpha_min": 0.5}, (8, 16, 24))
    setting["ridge"] = 0.0
    value_error(
        "ridge must be > 0", iclimit.curve, "all_position_icl", **setting, simulation=stated
    )
