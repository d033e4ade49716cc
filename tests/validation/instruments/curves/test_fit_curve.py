"""Parameters of training curves: those that descent and flow were simulated with."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from refusals import type_error, value_error

import iclimit
from iclimit.simulate.dynamics import simulate_gradient_descent
from tests.shared.trained_curves import (
    CONTEXT,
    LAM,
    LAW,
    MERGED,
    PROBLEM,
    SEPARATE,
    merged_descents,
    separate_flow,
)


@pytest.fixture
def merged():
    """Fifty runs."""
    return merged_descents(50)


@pytest.fixture
def separate():
    return separate_flow()


def one(run, number):
    return {"step": run.recorded_at, "loss": run.losses[number]}


def test_intervals_of_the_initial_scale_cover_it(merged):
    """Of 50 single runs 95 % give 47.5 +- 1.5, and 68 % give 34 +- 3."""
    covered = np.zeros(2)
    for number in range(50):
        wrong = MERGED | {"init_scale": 3e-4}
        fit = iclimit.fit_curve(one(merged, number), **wrong, **LAW)
        (found,) = fit.parameters
        assert fit.holds
        covered += [found.low_68 < 1e-4 < found.high_68, found.low_95 < 1e-4 < found.high_95]
    assert 25 <= covered[0] <= 43
    assert covered[1] >= 44


def test_many_runs_tell_the_initial_scale_better(merged):
    table = {"step": merged.recorded_at}
    table |= {f"loss_{k}": merged.losses[k] for k in range(10)}
    single, several = (
        iclimit.fit_curve(each, **MERGED | {"init_scale": 1e-3}, **LAW).parameters[0]
        for each in (one(merged, 0), table)
    )
    ratio = (several.standard_error / several.value) / (single.standard_error / single.value)
    # The law of one run is skewed, so that its width at the best value is not that of the law.
    assert ratio == pytest.approx(10**-0.5, rel=0.3)
    assert abs(math.log(several.value / 1e-4)) < 3 * several.standard_error / several.value


def test_learning_rate_of_descent(merged):
    """Durations do not depend on the start, so the rate is known well."""
    fit = iclimit.fit_curve(
        one(merged, 3), "learning_rate", **MERGED | {"learning_rate": 0.02}, **LAW
    )
    (found,) = fit.parameters
    assert found.start == 0.02
    assert found.low_95 < 0.05 < found.high_95
    assert found.standard_error / found.value < 0.03


def test_eigenvalues_of_a_staircase(separate):
    """Plateaus tell the eigenvalues one by one, with given initial weights the times do, too."""
    table, weights = separate
    wrong = (0.5, 0.35, 0.12)
    stated = SEPARATE | {"eigenvalues": wrong, "initial": weights}
    fit = iclimit.fit_curve(table, "eigenvalues", **stated)
    assert [each.start for each in fit.parameters] == list(wrong)
    for found, true in zip(fit.parameters, LAM, strict=True):
        assert found.value == pytest.approx(true, rel=0.05)
        assert abs(found.value - true) < 3 * found.standard_error
    assert fit.values.keys() == {"eigenvalue_1", "eigenvalue_2", "eigenvalue_3"}


def test_factor_and_sum_of_eigenvalues(merged):
    curve = one(merged, 0)
    fit = iclimit.fit_curve(curve | {"loss": 2 * curve["loss"]}, "factor", **MERGED, **LAW)
    assert fit.values["factor"] == pytest.approx(2, rel=0.01)
    halved = LAW | {"eigenvalues": [each / 2 for each in LAM]}
    fit = iclimit.fit_curve(curve, "trace", **MERGED, **halved)
    assert fit.values["trace"] == pytest.approx(1, rel=0.02)
    assert fit.holds


def test_context_of_a_staircase_from_far_away(separate):
    """At 12 pairs the last plateau lies below the middle of a drop, which counts as made."""
    table, weights = separate
    fit = iclimit.fit_curve(table, "context", **SEPARATE | {"context": 12, "initial": weights})
    (found,) = fit.parameters
    assert found.value == pytest.approx(CONTEXT, rel=1e-3)
    assert found.start == 12
    assert fit.holds


def test_context_and_noise_are_told_apart_by_the_noise_of_query_labels():
    problem = replace(PROBLEM, noise_variance=0.2)
    law = {"training_set": math.inf, "rng": 2}
    run = simulate_gradient_descent(problem, steps=1200, record=4, **law, **MERGED)
    free = ["context", "noise_variance"]
    stated = LAW | {"context": 30, "noise_variance": 0.1}
    noisy = iclimit.fit_curve(one(run, 0), free, **MERGED, **stated)
    assert noisy.holds
    for found, true in zip(noisy.parameters, (CONTEXT, 0.2), strict=True):
        assert found.low_95 < true < found.high_95
        assert found.standard_error < 0.02 * true
    clean = one(run, 0) | {"loss": run.losses[0] - 0.2}
    alone = iclimit.fit_curve(clean, free, **MERGED, **stated, query_noise=False)
    assert alone.holds
    assert alone.parameters[1].high_95 > 5 * alone.parameters[1].low_95
    assert "context and noise_variance are hardly told apart" in str(alone)


def test_what_no_value_explains_does_not_hold(merged):
    other = LAW | {"eigenvalues": [0.9, 0.05, 0.05]}
    fit = iclimit.fit_curve(one(merged, 0), **MERGED, **other)
    assert not fit.holds
    assert "no values explain the curves" in str(fit)
    assert "check-curve" in str(fit)


def test_results_and_figure(merged):
    fit = iclimit.fit_curve(one(merged, 0), ["init_scale", "learning_rate"], **MERGED, **LAW)
    assert [row["name"] for row in fit.rows()] == ["init_scale", "learning_rate"]
    assert json.loads(json.dumps(fit.to_dict()))["holds"] is True
    assert [ax.axison for ax in fit.plot()] == [True, False, True, True, True]


@pytest.mark.parametrize("free", ["init_scale", "learning_rate"])
def test_curves_that_end_before_a_drop_only_bound_it(merged, free):
    """A bound contradicts fast trainings, and fixes no parameter of slow ones."""
    early = {"step": merged.recorded_at[:40], "loss": merged.losses[0, :40]}
    stated = MERGED | {"learning_rate": 0.5}
    assert iclimit.check_curve(early, **stated, **LAW).verdict.kind == "contradicts"
    message = "not all reach half of their first drop before the end at 156"
    value_error(message, iclimit.fit_curve, early, free, **stated, **LAW)


@pytest.mark.parametrize(
    ("free", "changes", "message"),
    [
        ("rate", {}, "free must be one of"),
        ([], {}, "one or more different names"),
        (["eigenvalues", "trace"], {}, "not both"),
        ("noise_variance", {}, "noise_variance must be > 0, where the search begins"),
        ("context", {"shared_task": [1.0] * 3, "fresh_fraction": 0.5}, "must not have context"),
        ("init_scale", {"optimizer": "other"}, "eigenvalues, trace or factor"),
    ],
)
def test_refusals(merged, free, changes, message):
    value_error(message, iclimit.fit_curve, one(merged, 0), free, **MERGED | changes, **LAW)


def test_refusals_of_the_statement(separate):
    table, weights = separate
    with pytest.raises(ValueError, match="must not have init_scale if initial weights are given"):
        iclimit.fit_curve(table, **SEPARATE, initial=weights)
    with pytest.raises(ValueError, match="must not have learning_rate for a table with times"):
        iclimit.fit_curve(table, "learning_rate", **SEPARATE)
    type_error("headz", iclimit.fit_curve, table, headz=3, **SEPARATE)
    type_error("context", iclimit.fit_curve, table, eigenvalues=LAM, heads=4, init_scale=1e-2)
