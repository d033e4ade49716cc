"""Key pictures of `curve`, `phase` and `figure`, compared with their reference images."""

import pytest
from reference_pictures import assert_looks_as_before

from iclimit.cli import main

COMMANDS = {
    "curve-family": "curve icl_error --tau 0.1:5:200 --alpha 1,10,100 --kappa 0.5 --rho 0.01",
    "curve-simulated": (
        "curve task_gap --kappa 0.25:4:40:log --tau 2 --alpha 1,4 --rho 0.1 --jobs 1 "
        "--simulate dim=10,repeats=4,points=3"
    ),
    "curve-extrapolated": (
        "curve icl_error --kappa 0.5:4:30:log --tau 2 --alpha 2 --rho 0.1 --ridge 0.1 --jobs 1 "
        "--task-spectrum powerlaw:0.5 --test-spectrum reversed "
        "--simulate dim=8:10:12,repeats=6,points=4"
    ),
    "phase-boundaries": (
        "phase icl_error --x alpha=0.1:100:80:log --y kappa=0.1:10:60:log --tau 4 --rho 0.1"
    ),
    "phase-structured": (
        "phase icl_error --x alpha=0.5:5:20 --y kappa=0.5:2:20 --tau 2 --rho 0.1 --ridge 0.1 "
        "--task-spectrum exponential:3 --test-spectrum reversed --test-alpha 2"
    ),
    "phase-simulated": (
        "phase task_gap --x tau=0.5:4:40:log --y kappa=0.5:2:30 --alpha 2 --rho 0.1 --ridge 0.1 "
        "--jobs 1 --simulate dim=8:10:12,repeats=4,points=3x3"
    ),
    "phase-rates": ("phase learning_rate_loss --x context=2:40:39 --y rate=0.1:2:40 --dim 10"),
}


SLOW = {"curve-simulated", "phase-simulated"}
"""Pictures whose predictions take seconds."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in COMMANDS]
)
def test_picture(name, tmp_path, capsys):
    path = tmp_path / "picture.png"
    assert main([*COMMANDS[name].split(), "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert_looks_as_before(path, name, tmp_path)


@pytest.mark.slow
def test_the_figure_of_the_readme(tmp_path):
    """Ten seconds of simulation."""
    path = tmp_path / "picture.png"
    assert main(["figure", "double-descent", "--jobs", "1", "-o", str(path)]) == 0
    assert_looks_as_before(path, "figure-double-descent", tmp_path)
