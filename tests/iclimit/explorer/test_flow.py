"""Errors after a time of training in the page's own script, against Python."""

import json
import math
from importlib import resources

import numpy as np
import pytest
from generated_javascript import run_node

from iclimit.asymptotics.pretraining import optimal_stopping, training_errors

ASSETS = resources.files("iclimit.explorer") / "assets"

TIMES = (0.01, 0.3, 5.0, 1e3)

# Both sides of the threshold, infinitely many tasks, weight decay and a random start.
SETTINGS = (
    {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.0, "start_variance": 0.0},
    {"tau": 0.4, "alpha": 20.0, "kappa": 3.0, "rho": 0.0, "ridge": 0.2, "start_variance": 0.5},
    {"tau": 1.0, "alpha": 4.0, "kappa": 0.1, "rho": 2.0, "ridge": 0.0, "start_variance": 0.1},
)


@pytest.fixture(scope="module")
def answers():
    """Errors at the times, and best times, of each setting."""
    texts = [(ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in ("numbers", "flow")]
    call = (
        "const times = numbers.geomspace(1e-2, 1e3, 120);"
        f"console.log(JSON.stringify({json.dumps(SETTINGS)}.map((s) => {{"
        "  const found = Array.from(times, (time) => flow.errors(time, s));"
        f"  return [{json.dumps(TIMES)}.map((time) => flow.errors(time, s)), [0, 1].map("
        "(part) => flow.bestTime(part, s, times, found.map((errors) => errors[part])))];"
        "})));"
    )
    return run_node("\n".join([*texts, call]))


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_errors_and_best_times_equal_python(answers, number):
    found, best = answers[number]
    errors = training_errors(time=np.array(TIMES), **SETTINGS[number])
    expected = np.stack([errors.icl, errors.idg, errors.training], axis=-1)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    for part, objective in enumerate(("icl", "idg")):
        time = optimal_stopping(**SETTINGS[number], objective=objective).time
        # JSON has no infinity.
        found_time = math.inf if best[part] is None else best[part]
        assert found_time == pytest.approx(float(time), rel=2e-3)
