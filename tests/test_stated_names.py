"""Names and seeds of runs come from what a person states, not from digits of computed floats."""

import inspect
import json
import os
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
from perturbed_theory import perturbed_theory, recorded_cells, with_noise

from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.asymptotics.softmax import optimal_softmax
from iclimit.cli import main
from iclimit.notation import read_table
from iclimit.statement import canonical, cell_name
from iclimit.validation.claim import PRESETS

SIMULATE = ["--simulate", "dim=6,repeats=2,points=4", "--jobs", "1", "--no-store"]
TRAIN = ["--steps", "3", "--no-store", "--dim", "3", "--context", "5"]
COMMANDS = {
    "curve": "curve icl_error --tau 0.5:4:60:log --alpha 1,2 --kappa 0.5 --rho 0.1",
    "curve-ridge": "curve idg_error --ridge 0.01:1:40:log --tau 2 --alpha 1 --kappa 1 --rho 0.1",
    "curve-turn": "curve icl_error --alpha 0.3:30:400:log --tau 4 --kappa 2 --rho 0.3",
    "curve-spectrum": "curve icl_error --kappa 0.5:4:30 --tau 2 --alpha 2 --rho 0.1 --ridge 0.1 "
    "--task-spectrum powerlaw:0.5 --test-spectrum reversed",
    "phase": "phase icl_error --x tau=0.3:4:20:log --y kappa=0.2:5:20:log --alpha 2 --rho 0.1",
    "train-softmax": "train network --heads 2 --held-out 50 --batch 8",
    "train-linear": "train network --attention linear --held-out 50 --task-spectrum powerlaw:0.5",
}


def listed_cells(digits, *presets):
    """Function, statement and seed of the cells of presets, with exact or perturbed digits."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "perturbed_theory", digits, *presets]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def quick_cells():
    return listed_cells("exact", "quick")


@pytest.fixture(scope="module")
def functions(quick_cells):
    """Functions of all cells."""
    return [pkgutil.resolve_name(place) for place in {place for place, *_ in quick_cells}]


def test_the_perturbation_is_there():
    exact = optimal_softmax(context=6, dim=4).inverse_temperature
    with perturbed_theory():
        others = [optimal_softmax(context=6, dim=4).inverse_temperature for _ in range(8)]
        spectrum = Structure("powerlaw:0.5").covariances(4)["task_covariance"]
    assert {round((other / exact - 1) * 1e5, 3) for other in others} == {-1.0, 1.0}
    plain = Structure("powerlaw:0.5").covariances(4)["task_covariance"]
    assert np.all(abs(abs(spectrum / plain - 1) - 1e-5) < 1e-9)
    assert with_noise((1, "a", None, True), np.random.default_rng(0)) == (1, "a", None, True)


def test_no_name_of_a_quick_cell_hangs_on_digits(quick_cells):
    assert listed_cells("perturbed", "quick") == quick_cells


@pytest.mark.slow
def test_no_name_of_other_presets_hangs_on_digits():
    """In one process each, as presets share the searches of the theory."""
    presets = [preset for preset in PRESETS if preset != "quick"]
    assert listed_cells("perturbed", *presets) == listed_cells("exact", *presets)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_of_a_command_hangs_on_digits(name, few_predictions, tmp_path, capsys):  # noqa: ARG001
    more = SIMULATE if name.startswith(("curve", "phase")) else TRAIN
    words = [*COMMANDS[name].split(), *more]
    with recorded_cells() as plain:
        main(words)
    with perturbed_theory(), recorded_cells() as perturbed:
        main(words)
    assert plain
    assert perturbed == plain
    capsys.readouterr()


def test_every_function_of_a_claim_declares_its_name(quick_cells, functions):
    assert len(quick_cells) > 1000
    assert not [function for function in functions if not hasattr(function, "__cell_name__")]


def test_the_table_has_the_defaults_of_the_signatures(functions):
    """An argument that is left out has the default of the signature."""
    table = list(read_table("cells.csv"))
    for function in functions:
        declared = {
            row["argument"]: row["default"] for row in table if row["cell"] == cell_name(function)
        }
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name in declared:
                assert declared[parameter.name] == json.dumps(canonical(parameter.default))
            else:
                free = parameter.default is parameter.empty or parameter.name in EXECUTION
                assert free, (function, parameter.name)


EXECUTION = {"rng", "backend", "problem", "checkpoint", "progress"}
"""Arguments that say nothing of what is computed, or that no cell gives."""
