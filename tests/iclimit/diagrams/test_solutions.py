"""Where a quantity has a value: all roots, no poles, no jumps, or that there is none."""

import json

import mpmath
import numpy as np
import pytest
from refusals import value_error

import iclimit
from iclimit.cli import main

SETTING = {"alpha": 1.0, "kappa": 0.5, "rho": 0.1}


def test_roots_of_the_icl_error_are_those_of_fifty_digits():
    """Mpmath finds them from the closed form by its own search, on both sides of the pole."""
    found = iclimit.solve("icl_error", equals=3.0, at={"tau": (0.1, 50.0), **SETTING})

    def difference(tau):
        return iclimit.icl_error(tau=tau, **{n: mpmath.mpf(v) for n, v in SETTING.items()}) - 3

    with mpmath.workdps(50):
        expected = [float(mpmath.findroot(difference, start)) for start in (0.8, 1.3)]
    np.testing.assert_allclose(found.roots, expected, rtol=1e-9)
    np.testing.assert_allclose(found.values, 3.0, rtol=1e-9)


def test_all_crossings_of_a_scan_are_found():
    """A scan with a million points has as many changes of sign, at the same places."""
    alpha = np.geomspace(0.05, 200, 10**6)
    curve = iclimit.icl_error(tau=4.0, alpha=alpha, kappa=0.5, rho=0.1)
    for value in np.linspace(np.min(curve) * 1.001, np.max(curve) * 0.999, 7):
        crossed = np.flatnonzero(np.diff(np.sign(curve - value)))
        at = {"alpha": (0.05, 200), "tau": 4.0, "kappa": 0.5, "rho": 0.1}
        found = iclimit.solve("icl_error", equals=value, at=at)
        np.testing.assert_allclose(found.roots, alpha[crossed], rtol=2e-5)


@pytest.mark.parametrize(
    ("function", "ends", "expected"),
    [
        (lambda x: (x - 0.3) * (x - 0.30001) * (x - 0.9), (0.0, 1.0), [0.3, 0.30001, 0.9]),
        (lambda x: np.sin(40 * x) + 0 * x, (0.01, 1.0), np.pi * np.arange(1, 13) / 40),
        (lambda x: 1 / (x - 0.5), (0.0, 1.0), []),  # a pole
        (lambda x: np.where(x > 0.5, 1.0, -1.0), (0.0, 1.0), []),  # a jump
        (lambda x: x**2 + 1, (-1.0, 1.0), []),
        (lambda x: x - 1.0, (0.0, 1.0), [1.0]),  # at an end
    ],
)
def test_roots_of_functions_that_are_known(function, ends, expected):
    found = iclimit.solve(function, equals=0.0, at={"x": ends})
    np.testing.assert_allclose(found.roots, expected, rtol=1e-7)


def test_a_value_that_is_only_touched_counts():
    found = iclimit.solve(lambda x: 2 + (x - 0.4) ** 2, equals=2.0, at={"x": (0.0, 1.0)})
    np.testing.assert_allclose(found.roots, [0.4], rtol=1e-6)


def test_integers_are_the_first_beyond_the_value():
    setting = {"ratio": 0.5, "rate": 0.4}
    found = iclimit.solve("constant_rate_loss", equals=0.1, at={"steps": (1, 30), **setting})
    losses = iclimit.curve("constant_rate_loss", steps=range(1, 31), **setting).values[0]
    assert found.roots == [1 + np.argmax(losses <= 0.1)]
    assert "passes 0.1 at steps = 6" in str(found)


def test_that_there_is_none_is_said_with_what_there_is():
    found = iclimit.solve("icl_error", equals=0.5, at={"tau": (1.1, 100), **SETTING})
    assert found.roots.size == 0
    assert str(found).startswith("no tau gives icl_error = 0.5: icl_error goes from 0.9137")
    assert found.rows() == []


def test_refusals_name_the_parameter():
    for changes, message in (
        ({"tau": 2.0}, r"exactly one parameter must have a range, such as tau=\(1, 10\)"),
        ({"tau": (1.0, 2.0), "alpha": (1.0, 2.0)}, "exactly one .* got alpha, tau|got tau, alpha"),
        ({"tau": (1.0, np.inf)}, "tau must have a finite range"),
        ({"tua": (1.0, 2.0)}, "did you mean tau"),
        ({"tau": (1.0, 2.0), "equals": np.nan}, "equals"),
    ):
        at = SETTING | changes
        equals = at.pop("equals", 1.0)
        value_error(message, iclimit.solve, "icl_error", equals=equals, at=at)


def test_verb_prints_draws_and_ends_with_a_status(tmp_path, capsys):
    words = "solve icl_error --alpha 1 --kappa 0.5 --rho 0.1 --tau 1.1:100 --for"
    verb = words.split()
    picture = str(tmp_path / "roots.png")
    assert main([*verb, "error=1.2", "-o", picture]) == 0
    assert "the only place" in capsys.readouterr().out
    assert main([*verb, "0.5", "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["roots"] == []
