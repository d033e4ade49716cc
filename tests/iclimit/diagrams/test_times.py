"""Curves of errors over a time of training, with simulated points."""

import numpy as np
import pytest

import iclimit
from iclimit.cli import main
from iclimit.pretraining import training_errors

# Each predicts dozens of runs after a time of training: 5 to 10 CPU seconds.
pytestmark = pytest.mark.slow

POINT = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
TIME = np.geomspace(0.05, 2, 5)


@pytest.mark.parametrize("name", ["icl", "idg"])
def test_curves_over_time_have_simulated_points(name):
    curve = iclimit.curve(
        f"{name}_error_at_time",
        **POINT,
        time=TIME,
        start_variance=0.2,
        simulation={"dim": 12, "repeats": 8, "points": 3},
        jobs=1,
        store=None,
    )
    expected = training_errors(time=TIME, start_variance=0.2, **POINT)
    np.testing.assert_allclose(curve.values[0], getattr(expected, name), rtol=1e-8)
    points = curve.simulated[0]
    assert len(points) == 3
    run = iclimit.Point(time=float(TIME[0]), start_variance=0.2, **POINT).at(dim=12)
    predicted = iclimit.predict(run, rng=0, draws=60)[name].mean
    assert points[0].theory == pytest.approx(predicted, rel=0.02)
    assert all(abs(point.z) < 4 for point in points)


def test_the_command_line_draws_times(tmp_path, capsys):
    path = tmp_path / "times.png"
    words = "--tau 2 --alpha 1 --kappa 0.5 --rho 0.1 --time 0.1:3:4:log --no-store --jobs 1"
    simulation = "--simulate dim=8,repeats=2,points=2"
    command = ["curve", "icl_error_at_time", *words.split(), *simulation.split()]
    assert main([*command, "-o", str(path)]) == 0
    assert path.stat().st_size > 1000
    assert "4 simulations" in capsys.readouterr().err
