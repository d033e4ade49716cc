"""The verb ``iclimit prompts``."""

from pathlib import Path

import numpy as np
import pytest
from refusals import refused_command

from iclimit.cli import build_parser, main
from iclimit.cli.instruments import parse_problem
from iclimit.problem import Problem
from iclimit.units import CONVENTIONS
from iclimit.validation.instruments.models.files import read_prompts


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """A block is drawn whole."""
    monkeypatch.setattr("iclimit.simulate.prompts.sampling.BLOCK_NUMBERS", 2**9)


def written(folder, flags):
    """Problem of the file that the verb writes, and its path."""
    path = folder / "prompts.npz"
    assert main(["prompts", *flags.split(), "--test-prompts", "5", "-o", str(path)]) == 0
    return read_prompts(path).problem, path


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ("", {}),
        ("--noise-variance 0.5 --scale 2", {"noise_variance": 0.5, "scale": 2.0}),
        (
            "--noise-law uniform:5 --input-law laplace",
            {"noise_law": "uniform:5", "input_law": "laplace"},
        ),
        (
            "--task-law sphere --task-variance 3 --seed 7",
            {"task_law": "sphere", "task_variance": 3.0},
        ),
        ("--input-spectrum atoms:0.5,1.5", {"input_covariance": [0.5, 0.5, 1.5, 1.5]}),
        ("--task-spectrum uniform:0,2", {"task_covariance": [0.25, 0.75, 1.25, 1.75]}),
    ],
)
def test_flags_are_those_of_the_problem(tmp_path, flags, settings):
    problem, _ = written(tmp_path, f"--dim 4 --context 3 {flags}")
    expected = Problem(4, 3, **{"scale": 1} | settings).describe()
    found = problem.describe()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, list):
            assert np.allclose(found[name], value), name
        else:
            assert found[name] == value, name


@pytest.mark.parametrize(("flag", "value"), [("-0.5", -0.5), ("1,0.5,0.2", [1, 0.5, 0.2])])
def test_correlations_are_a_number_or_a_list(flag, value):
    given = ["train", "network", "--dim", "4", "--context", "3", "--correlation", flag]
    problem = parse_problem(build_parser().parse_args([*given, "-o", "a.npz"]))
    assert problem.describe()["correlation"] == value


@pytest.mark.parametrize("name", list(CONVENTIONS))
def test_units_of_a_paper(tmp_path, name):
    problem, _ = written(tmp_path, f"--dim 4 --context 3 --units {name} --noise-variance 0.1")
    assert problem == Problem.of_paper(name, context=3, dim=4, noise_variance=0.1)
    variances = {"lu2025": 1 / 4, "vonoswald2023": 1 / 12, "blog2024": 1 / 3, "versatile2024": 1}
    variances |= dict.fromkeys(("garg2022", "raventos2023", "ahn2023", "zhang2024"), 1)
    assert problem.input_variance == pytest.approx(variances.get(name, 1 / 4))


def test_tasks_from_files(tmp_path):
    tasks = np.arange(12.0).reshape(3, 4)
    np.save(tmp_path / "tasks.npy", tasks)
    np.savetxt(tmp_path / "tasks.csv", tasks, delimiter=",")
    for name in ("tasks.npy", "tasks.csv"):
        problem, _ = written(tmp_path, f"--dim 4 --context 3 --tasks {tmp_path / name}")
        assert np.array_equal(problem.tasks, tasks)


def test_what_is_printed(tmp_path, capsys):
    _, path = written(tmp_path, "--dim 4 --context 3")
    shown = capsys.readouterr()
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0] == ["section", "prompts", "question"]
    sections = {section.name: len(section) for section in read_prompts(path).sections}
    assert {line[0]: int(line[1]) for line in lines[1:]} == sections
    assert shown.err == (
        f"{sum(sections.values())} prompts in {path} ({path.stat().st_size / 1e6:.3g} MB). "
        "When the model has answered them: "
        f"iclimit probe {path} PREDICTIONS\n"
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--units lu2024", "got 'lu2024'; did you mean lu2025?"),
        ("--units lu2025 --scale 2", "scale must not be given with units of lu2025, which fix it"),
        ("--task-spectrum 3", "task_spectrum: spec must be one of isotropic"),
        ("--correlation 1,0.9", "correlation must have no negative eigenvalue over 3 tokens"),
        ("--correlation 1,x", "argument --correlation: must be a number or a list 1,a,b,..."),
        ("--tasks tasks.txt", "tasks must be a file .npy or .csv, got 'tasks.txt'"),
        ("--tasks none.npy", "tasks must be a file, but there is none called 'none.npy'"),
        ("--tasks empty.csv", "tasks must have a task in each row, got the empty file"),
        ("--tasks words.csv", "tasks must be rows of numbers, got 'words.csv': could not conv"),
        ("--tasks words.npy", "tasks in words.npy must be intact and without pickle"),
        ("--tasks wide.csv", "tasks must have shape (any, 4), got (1, 5)"),
    ],
)
def test_errors_are_one_line(flags, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {"empty.csv": "\n", "words.csv": "a,b\n", "words.npy": "words"}.items():
        Path(name).write_text(text)
    Path("wide.csv").write_text("1,2,3,4,5\n")
    before = sorted(tmp_path.iterdir())
    arguments = ["prompts", "--dim", "4", "--context", "3", *flags.split(), "-o", "prompts.npz"]
    line = refused_command(capsys, arguments)
    assert line.startswith("iclimit prompts: error: ")
    assert message in line
    assert sorted(tmp_path.iterdir()) == before
