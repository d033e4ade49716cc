"""Slopes, elasticities and propagated errors against exact derivatives and drawn parameters."""

import json
import math

import mpmath
import numpy as np
import pytest

import iclimit
from iclimit.cli import main

POINT = {"tau": 2.0, "alpha": 1.3, "kappa": 0.5, "rho": 0.1}


@pytest.mark.parametrize("at", [POINT, POINT | {"ridge": 0.3, "tau": 0.7}])
def test_slopes_are_those_in_many_digits(at):
    found = iclimit.sensitivity("icl_error", at=at)
    assert found.value == pytest.approx(float(iclimit.icl_error(**at)))
    with mpmath.workdps(40):
        for name, value in at.items():
            numbers = {n: mpmath.mpf(v) for n, v in at.items()}
            slope = mpmath.diff(
                lambda x, n=name, p=numbers: iclimit.icl_error(**{**p, n: x}), mpmath.mpf(value)
            )
            assert found.slopes[name] == pytest.approx(float(slope), rel=1e-7)
            elasticity = float(slope) * value / found.value
            assert found.elasticities[name] == pytest.approx(elasticity, rel=1e-7)


def power(*, tau, rho):
    return tau**3 * np.exp(rho)


def test_powers_and_ends_of_ranges():
    found = iclimit.sensitivity(power, at={"tau": 2.0, "rho": 0.0})
    assert found.elasticities == pytest.approx({"tau": 3.0, "rho": 0.0}, abs=1e-9)
    assert found.slopes["rho"] == pytest.approx(8.0, rel=1e-9)
    # An efficiency is at most 1; integers change by 1; infinite parameters have no slope.
    loss = iclimit.sensitivity("attention_loss", at={"efficiency": 1.0, "ratio": 0.5})
    below = 1 - 1e-6
    values = iclimit.curve("attention_loss", efficiency=[below, 1.0], ratio=0.5).values[0]
    assert loss.slopes["efficiency"] == pytest.approx(np.diff(values)[0] / 1e-6, rel=1e-4)
    steps = iclimit.sensitivity("constant_schedule_loss", at={"steps": 3, "ratio": 0.5})
    values = iclimit.curve("constant_schedule_loss", steps=[2, 4], ratio=0.5).values[0]
    assert steps.slopes["steps"] == pytest.approx((values[1] - values[0]) / 2)
    first = iclimit.sensitivity("constant_schedule_loss", at={"steps": 1, "ratio": 0.5})
    values = iclimit.curve("constant_schedule_loss", steps=[1, 2], ratio=0.5).values[0]
    assert first.slopes["steps"] == pytest.approx(values[1] - values[0])
    endless = iclimit.sensitivity("icl_error", at=POINT | {"kappa": math.inf})
    assert set(endless.slopes) == {"tau", "alpha", "rho"}


def test_elasticity_of_a_budget_is_its_exponent():
    at = {"budget": 40.0, "rho": 0.2}
    best = iclimit.pretraining.compute_optimal_pretraining(**at)
    found = iclimit.sensitivity("budget_icl_error", at=at)
    expected = -best.exponent * (best.error - 0.2) / best.error
    assert found.elasticities["budget"] == pytest.approx(expected, rel=1e-8)


def test_errors_are_propagated():
    errors = {"alpha": 0.02, "rho": 0.004}
    correlations = [[1, -0.6], [-0.6, 1]]
    rng = np.random.default_rng(0)
    sd = np.array(list(errors.values()))
    drawn = rng.multivariate_normal([1.3, 0.1], correlations * np.outer(sd, sd), 40_000)
    values = iclimit.icl_error(**POINT | {"alpha": drawn[:, 0], "rho": drawn[:, 1]})
    found = iclimit.sensitivity("icl_error", at=POINT, errors=errors, correlations=correlations)
    assert found.standard_error == pytest.approx(np.std(values), rel=0.02)
    alone = iclimit.sensitivity("icl_error", at=POINT, errors={"rho": 0.004})
    rows = {row["parameter"]: row for row in alone.rows()}
    assert alone.standard_error == pytest.approx(rows["rho"]["contribution"])
    assert rows["tau"]["contribution"] == 0
    assert f"({round(alone.standard_error * 1e3)})" in str(alone)


def test_structured_data():
    spectra = {"task_spectrum": "atoms:0.4,1.6"}
    found = iclimit.sensitivity("icl_error", at=POINT, **spectra)
    near = iclimit.curve("icl_error", **POINT | {"alpha": [1.2999, 1.3001]}, **spectra).values[0]
    assert found.slopes["alpha"] == pytest.approx((near[1] - near[0]) / 2e-4, rel=1e-5)


def test_the_figure_has_a_bar_for_each_parameter():
    axes = iclimit.sensitivity("icl_error", at=POINT).plot()
    widths = [patch.get_width() for patch in axes.patches]
    elasticities = iclimit.sensitivity("icl_error", at=POINT).elasticities
    assert sorted(widths) == pytest.approx(sorted(elasticities.values()))
    assert [text.get_text() for text in axes.get_yticklabels()][-1] == r"$\tau$"


def test_refusals():
    for changes, message in (
        ({"at": POINT | {"tau": 1.0}}, "icl_error must be finite and not 0"),
        ({"at": POINT | {"tau": [1.0, 2.0]}}, "tau must be one number"),
        ({"at": POINT | {"tua": 1.0}}, "did you mean tau"),
        ({"errors": {"ridge": 0.1}}, "errors must name one of tau"),
        ({"errors": {"rho": -1.0}}, "errors must be finite and >= 0"),
        ({"errors": {"rho": 0.1}, "correlations": [[2.0]]}, "correlations must be"),
        (
            {"errors": {"rho": 0.1, "tau": 0.1}, "correlations": [[1, 2], [2, 1]]},
            "correlations must be",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            iclimit.sensitivity("icl_error", **{"at": POINT} | changes)


def test_jumps_have_no_slope():
    critical = float(iclimit.pretraining.critical_budget(0.1))
    with pytest.raises(ValueError, match="changes abruptly at budget"):
        iclimit.sensitivity("ridgeless_budget_tau", at={"budget": critical, "rho": 0.1})


def test_command(tmp_path, capsys):
    setting = [word for name, value in POINT.items() for word in (f"--{name}", str(value))]
    assert main(["sensitivity", "icl_error", *setting, "--errors", "rho=0.01"]) == 0
    assert "elasticity" in capsys.readouterr().out
    file = tmp_path / "table.json"
    assert main(["sensitivity", "icl_error", *setting, "-o", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert rows == iclimit.sensitivity("icl_error", at=POINT).rows()
    with pytest.raises(SystemExit):
        main(["sensitivity", "icl_error", *setting, "--errors", "rho"])
