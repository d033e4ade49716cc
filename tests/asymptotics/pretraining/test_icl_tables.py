"""ICL and IDG errors against 20-digit values computed by an independent route."""

import csv
from pathlib import Path

import mpmath
import numpy as np
import pytest

from iclimit.asymptotics.pretraining import icl_error, idg_error, task_gap

# Measured worst over the table: 4.1e-15. The documented promise is asserted.
FLOAT64 = 1e-12
# The table has 20 significant digits, so it is off by up to 5e-20 relative; measured 4.9e-20.
TABLE_DIGITS = mpmath.mpf("1e-18")
COLUMNS = ("tau", "alpha", "kappa", "rho", "ridge")

with open(Path(__file__).parent / "tables" / "icl_errors.csv", newline="") as _file:
    ROWS = list(csv.DictReader(_file))
POINTS = {name: np.array([float(row[name]) for row in ROWS]) for name in COLUMNS}


@pytest.mark.parametrize(("column", "function"), [("icl", icl_error), ("idg", idg_error)])
def test_float64_within_the_promise_at_every_row(column, function):
    values = function(**POINTS)
    with mpmath.workdps(30):
        errors = [
            abs(mpmath.mpf(float(value)) / mpmath.mpf(row[column]) - 1)
            for value, row in zip(values, ROWS, strict=True)
        ]
    worst = max(range(len(ROWS)), key=errors.__getitem__)
    assert errors[worst] < FLOAT64, ROWS[worst]


@pytest.mark.parametrize(("digits", "tolerance"), [(15, FLOAT64), (50, TABLE_DIGITS)])
def test_mpmath_agrees_with_the_table(digits, tolerance):
    """The low precision is the harder one for the root finder."""
    for row in ROWS[::5]:
        for column, function in (("icl", icl_error), ("idg", idg_error)):
            with mpmath.workdps(digits):
                value = function(**{name: mpmath.mpf(float(row[name])) for name in COLUMNS})
            with mpmath.workdps(60):
                assert abs(value / mpmath.mpf(row[column]) - 1) < tolerance, row


def test_mpmath_uses_its_current_precision():
    """The value at 80 digits differs from that at 40 by the rounding of 40 digits."""
    values = []
    for digits in (40, 80):
        with mpmath.workdps(digits):
            values.append(icl_error(tau=mpmath.mpf(2), alpha=1, kappa=0.5, rho=0, ridge=0.25))
    with mpmath.workdps(80):
        difference = abs(values[0] / values[1] - 1)
    assert mpmath.mpf("1e-60") < difference < mpmath.mpf("1e-37")


def test_gap_is_the_difference():
    expected = icl_error(**POINTS) - idg_error(**POINTS)
    assert np.array_equal(task_gap(**POINTS), expected)
