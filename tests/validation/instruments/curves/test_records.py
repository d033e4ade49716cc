"""Curves that record something else: epochs, roots, smoothed losses, a start above the null loss.

Each is made from simulated descents by the few lines that people make it with.
"""

import numpy as np
import pytest

import iclimit
from iclimit.validation.instruments.curves.records import steps_of_epoch
from iclimit.validation.instruments.curves.table import Curve
from tests.shared.trained_curves import LAW, MERGED, merged_descents

# Setting of the curves.
STATED = MERGED | LAW

# Factors that steps and losses may be wrong by.
FACTORS = 1e-4, 1e-2, 30.0, 1e4

# Records that a transient above the null loss lasts for.
TRANSIENT = 4.0


@pytest.fixture(scope="module")
def table():
    run = merged_descents(3)
    return {"step": run.recorded_at, **{f"loss_{k}": row for k, row in enumerate(run.losses)}}


def changed(table, change):
    """The table with other losses."""
    return {name: column if name == "step" else change(column) for name, column in table.items()}


def smoothed(losses, weight):
    """Exponential smoothing as TensorBoard and wandb have it."""
    smooth = [losses[0]]
    for loss in losses[1:]:
        smooth.append(weight * smooth[-1] + (1 - weight) * loss)
    return np.array(smooth)


@pytest.mark.parametrize("weight", [0.9, 0.97])
def test_smoothed_losses_are_named_with_their_weight(table, weight):
    check = iclimit.check_curve(changed(table, lambda x: smoothed(x, weight)), **STATED)
    (text,) = [text for text in check.fits if "exponentially" in text]
    low, high = (float(number) for number in text.split("(")[1].rstrip(")").split(" to "))
    assert low - 0.005 <= weight <= high + 0.005, text


def test_running_means_are_named_with_their_length(table):
    def mean(losses):
        return np.array([np.mean(losses[max(0, k - 29) : k + 1]) for k in range(len(losses))])

    check = iclimit.check_curve(changed(table, mean), **STATED)
    assert "losses are means of the last 30 records" in check.fits


def test_roots_are_named(table):
    check = iclimit.check_curve(changed(table, np.sqrt), **STATED)
    assert check.fits == ("losses are roots of mean squared errors",)


@pytest.mark.parametrize(
    ("words", "function"),
    [
        ("in dB, 10 times the logarithm to base 10", lambda x: 10 * np.log10(x)),
        ("logarithms to base 10", np.log10),
        ("natural logarithms", np.log),
        ("logarithms to base 2", np.log2),
        (
            "R^2, one minus the loss over the loss at the start",
            lambda x: 1 - x / sum(STATED["eigenvalues"]),
        ),
    ],
)
def test_losses_that_are_no_squared_errors_are_named(table, words, function):
    check = iclimit.check_curve(changed(table, function), **STATED)
    assert check.fits == (f"losses are {words}",)
    assert check.verdict.kind == "contradicts"
    assert not check.holds


def test_negative_losses_that_nothing_explains_are_refused(table):
    with pytest.raises(ValueError, match="no mean squared error: its loss is -"):
        iclimit.check_curve(changed(table, lambda x: -x), **STATED)


def test_epochs_are_named(table):
    epochs = table | {"step": np.asarray(table["step"]) / 7}
    check = iclimit.check_curve(epochs, **STATED)
    assert check.fits == ("steps are counted in epochs of 7 steps",)


def test_steps_of_an_epoch_need_fractions():
    losses = np.ones(5)
    for steps, epoch in (([0, 1, 2, 3, 4], 1), ([0, 0.25, 0.5, 1, 2], 4)):
        assert steps_of_epoch([Curve("", np.array(steps, dtype=float), losses, "step")]) == epoch
    assert steps_of_epoch([Curve("", np.sqrt([1, 2, 3, 5, 7]), losses, "step")]) == 1


@pytest.mark.parametrize("factor", FACTORS)
def test_wrong_factors_of_any_size_are_named(table, factor):
    check = iclimit.check_curve(changed(table, lambda x: factor * x), **STATED)
    assert any("times the stated factor" in text for text in check.fits)
    wrong = table | {"step": factor * np.asarray(table["step"], dtype=float)}
    assert any("steps count" in text for text in iclimit.check_curve(wrong, **STATED).fits)


def test_what_is_found_hardly_depends_on_the_stated_rate(table):
    durations = []
    for factor in (1e-3, 0.1, 1.0, 10.0):
        rate = factor * STATED["learning_rate"]
        check = iclimit.check_curve(table, **STATED | {"learning_rate": rate})
        rows = {row.quantity: row for row in check.comparisons}
        durations.append(rows["duration"].estimate)
        assert abs(rows["final loss"].z) < 3
    assert max(durations) < 1.05 * min(durations)


def test_a_start_above_the_null_loss_is_left_out_and_named(table):
    def late(losses):
        return losses + 0.8 * losses[0] * np.exp(-np.arange(len(losses)) / TRANSIENT)

    check = iclimit.check_curve(changed(table, late), **STATED)
    assert check.holds, check
    assert "above the loss" in check.remarks[0]
    assert "half-drop" not in {row.quantity for row in check.comparisons}


def test_a_curve_that_stays_at_the_null_loss_is_named(table):
    first = {name: np.asarray(column)[:20] for name, column in table.items()}
    check = iclimit.check_curve(first, **STATED)
    assert check.verdict.kind == "unusable"
    assert "stays at that of predicting zero" in check.remarks[-1]
