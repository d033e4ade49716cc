"""The public face: lazy names and curves."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import iclimit
from iclimit.axes import is_geometric

pytestmark = pytest.mark.usefixtures("few_predictions")

SHELVES = (
    *("pretraining", "descent", "gdpp", "dynamics"),
    *("networks", "softmax", "depth", "recurrent", "spectra"),
)


def stub_names():
    """Names that type checkers and editors see."""
    stub = Path(iclimit.__file__).with_suffix(".pyi").read_text()
    return re.findall(r"^from .* import \w+ as (\w+)$", stub, re.MULTILINE)


def test_the_stub_is_what_is_there():
    """``dir``, completion, ``from iclimit import *`` and mypy agree on the names, once each."""
    names = stub_names()
    assert len(set(names)) == len(names)
    assert sorted(vars(iclimit)["__all__"]) == sorted(names)
    assert sorted(dir(iclimit)) == sorted(names)
    for name in names:
        assert getattr(iclimit, name) is not None
    with pytest.raises(AttributeError, match="No iclimit attribute nothing"):
        _ = iclimit.nothing


def test_headlines_are_few_and_from_the_rooms():
    """Few names flat, the rest in namespaces by subject, which know the headlines too."""
    headlines = [name for name in stub_names() if not inspect.ismodule(getattr(iclimit, name))]
    assert len(headlines) <= 53
    gathered = {name for shelf in SHELVES for name in getattr(iclimit, shelf).__all__}
    verbs = {
        "check_curve",
        "check_runs",
        "fit_curve",
        "fit_runs",
        "curve",
        "cite",
        "phase_diagram",
        "plan_runs",
        "probe",
        "reduced_gamma",
        "sensitivity",
        "solve",
        "validate",
    }
    losses = {"AllPositions", "LastPosition", "RandomLength"}
    trainings = {"Descent", "Flow", "Ridge", "SGD"}
    runs = {"Experiment", "Point", "Problem", "Reduced", "Test"} | losses | trainings
    others = {"Estimate", "sample_prompts", "settings"} | runs | verbs
    assert set(headlines) - gathered == others


def test_namespaces_gather_theory_and_simulation():
    for shelf in SHELVES:
        namespace = getattr(iclimit, shelf)
        assert len(set(namespace.__all__)) == len(namespace.__all__)
        assert set(namespace.__all__) <= set(dir(namespace))


def test_import_is_cheap():
    """Libraries wait for their use: none for the import and the help, few for a closed form."""
    code = (
        "import sys, iclimit, iclimit.cli\n"
        "try: iclimit.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "slow = ('scipy', 'sympy', 'matplotlib', 'xarray', 'scipy.stats', 'numpy', 'joblib')\n"
        "print([name for name in slow if name in sys.modules])\n"
        "iclimit.icl_error(tau=2, alpha=1, kappa=1, rho=0)\n"
        "print([name for name in slow[1:5] if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["[]", "[]"]


def test_curves_are_the_quantity_on_every_combination():
    tau = np.linspace(1.5, 3, 7)
    curves = iclimit.curve("idg_error", tau=tau, alpha=[1, 10], kappa=[0.5, 2, 4], rho=0.1)
    assert curves.x == "tau"
    assert curves.values.shape == (6, 7)
    for parameters, line in zip(curves.family, curves.values, strict=True):
        for t, value in zip(tau, line, strict=True):
            assert value == iclimit.idg_error(tau=t, **parameters)
    assert len(curves.rows()) == 42


def simulated(quantity="icl_error", **changes):
    """A small simulated curve."""
    setting = {"tau": 2, "alpha": 1, "kappa": 1, "rho": 0.1, "jobs": 1, "rng": 1}
    return iclimit.curve(quantity, **setting | changes)


def test_simulated_points_are_those_of_simulate_errors():
    options = {"dim": 12, "repeats": 4, "points": 3}
    curves = simulated("task_gap", alpha=4, kappa=np.geomspace(0.5, 4, 9), simulation=options)
    [values] = curves.simulated
    assert [value.runs[0].parameters["tasks"] for value in values] == [6, 17, 48]
    for value in values:
        [run] = value.runs
        assert run.parameters["kappa"] == run.parameters["tasks"] / 12
        assert 0 < value.estimate.standard_error < value.estimate.mean
        assert value.theory == run.prediction.mean > 0
    assert {row["source"] for row in curves.rows()} == {"theory", "finite_size", "simulation"}


def test_curves_that_round_to_the_same_integers_all_keep_their_points():
    curves = simulated(tau=[1.5, 2, 3], alpha=[3, 3.01], simulation={"dim": 8, "repeats": 2})
    assert [len(values) for values in curves.simulated] == [3, 3]


def test_points_are_where_their_integers_are():
    """kappa = 0.01 and 0.032 both are one task at d = 16."""
    setting = {"kappa": np.geomspace(0.01, 0.1, 3), "tau": 1.5, "alpha": 0.7}
    with pytest.warns(RuntimeWarning, match="1 of 3 points are left out: they have the same int"):
        curves = simulated(**setting, simulation={"dim": 16, "repeats": 2})
    [values] = curves.simulated
    assert [value.parameters["kappa"] for value in values] == [1 / 16, 2 / 16]
    assert values[0].parameters["alpha"] == 11 / 16
    assert curves.plot().lines[2].get_xdata() == pytest.approx([1 / 16, 2 / 16])


def test_points_that_are_not_on_their_curve_or_cannot_be_extrapolated_are_told():
    with pytest.warns(RuntimeWarning, match="^kappa = 0.01 is 0.125 at d = 8$"):
        simulated(tau=[1.5, 2], kappa=0.01, simulation={"dim": 8, "repeats": 2})
    with pytest.warns(RuntimeWarning, match="1 of 2 points are left out: integers at d = 6 to 10"):
        simulated(kappa=[0.01, 1], simulation={"dim": (6, 8, 10), "repeats": 3})


def test_several_sizes_are_extrapolated_along_a_curve():
    options = {"dim": (6, 8, 10), "repeats": 3, "points": 2}
    curves = simulated(tau=[1.5, 2, 3], ridge=0.1, simulation=options)
    rows = [row for row in curves.rows() if row["source"] != "theory"]
    assert [row["source"] for row in rows if row["tau"] == 3].count("simulation") == 3
    extrapolated = [row for row in rows if row["source"] == "extrapolation"]
    assert [row["tau"] for row in extrapolated] == [1.5, 3]
    _, labels = curves.plot().get_legend_handles_labels()
    assert "extrapolated from $d = 6, 8, 10$" in labels
    assert not curves.finite_size


def test_plots_draw_into_given_axes():
    ax = Figure().subplots()
    tau = np.linspace(0.5, 3, 6)
    curves = iclimit.curve("icl_error", tau=tau, alpha=[1, 2], kappa=1, rho=0)
    assert curves.plot(ax) is ax
    assert len(ax.lines) == 2


def test_bad_input_is_named():
    for call, message in (
        (lambda: iclimit.curve("error", tau=1), "quantity must be one of icl_error, .*'error'"),
        (lambda: iclimit.curve("icl_error", tau=1, alpha=1), "icl_error needs kappa, rho"),
        (
            lambda: iclimit.curve("bayes_error", alpha=[1, 2], rho=0.1, simulation={"dim": 8}),
            "to be simulated",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_geometric_grids_are_recognised():
    assert is_geometric(np.geomspace(0.1, 10, 20))
    assert not is_geometric(np.linspace(0.1, 10, 20))
    assert not is_geometric(np.array([1.0, np.inf, np.inf]))
