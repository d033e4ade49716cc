"""Derived values of cells: what they are makes the name, their digits are kept and compared."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sample_cells import draws, number, total

from iclimit.runs.cell import Cell, distinct_cells
from iclimit.runs.execution import run_cells, run_recorded
from iclimit.runs.store import RunStore
from iclimit.statement import Derived, canonical, disagreement, named_cell


def scaled(*, rng, scale, power=1, log=""):
    """A random number times a power of a scale."""
    if log:
        with open(log, "a") as file:
            file.write("scaled\n")
    return float(np.sum(scale)) ** power * number(rng=rng, of=0)


@named_cell("halves")
def renamed(*, rng, of):
    """A function that had another name."""
    return number(rng=rng, of=of) / 2


def best(value, words="best"):
    return Cell.of(scaled, scale=Derived(value, words))


def test_words_make_name_and_seed_and_digits_do_not():
    first = best(0.6357930546)
    second = best(0.6357930286)
    assert first == second
    assert hash(first) == hash(second)
    assert first.arguments == '{"scale": {"derived": "best"}}'
    assert first.identity(0, "numpy") == second.identity(0, "numpy")
    assert first.seed(3).spawn_key == second.seed(3).spawn_key
    assert best(0.6357930546, "second best") != first
    assert first.run(0) / 0.6357930546 == pytest.approx(second.run(0) / 0.6357930286, rel=1e-15)
    assert "scale=best" in first.name


def test_derived_values_stand_anywhere_and_are_handed_over():
    scale = (Derived(2.0, "a"), 3.0, Derived(np.array([1.0, 2.0]), ("b", 7)))
    cell = Cell.of(total, parts=(1.0, Derived(0.5, "half")))
    assert Cell.of(scaled, scale=scale).derived.keys() == {"scale[0]", "scale[2]"}
    assert cell.derived == {"parts[1]": 0.5}
    assert cell.run(0) == 1.5
    outer = Cell.of(total, parts=(cell, 1.0))
    assert outer.derived == {"needs[0].parts[1]": 0.5}
    assert outer.run(0, results={cell: 1.5}) == 2.5


def test_a_declared_name_outlives_a_function():
    old = Cell.of(number, of=1)
    assert old.seed(0).spawn_key != Cell.of(renamed, of=1).seed(0).spawn_key
    assert Cell.of(renamed, of=1).statement["cell"] == "halves"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (0.5, 0.5 * (1 + 0.9e-5), True),
        (0.5, 0.5 * (1 + 2e-5), False),
        (np.array([1.0, 1e-9]), np.array([1.0, 3e-9]), True),
        (np.array([1.0, 1e-3]), np.array([1.0, 1.1e-3]), False),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]), False),
        (np.inf, np.inf, True),
        (np.inf, 1.0, False),
        (np.nan, np.nan, True),
        (0.0, 0.0, True),
        ((1.0, (2.0)), (1.0, 2.0), True),
    ],
)
def test_values_agree_to_what_rounding_explains(first, second, same):
    text = disagreement({"scale": first}, {"scale": second})
    assert (text == "") == same
    assert same or text.startswith("scale is ")


def test_equal_statements_with_other_values_are_refused():
    cells = [best(0.5), best(0.6)]
    message = "must state what differs: scale is 0.5 in one and 0.6 in the other, and both are"
    with pytest.raises(ValueError, match=message):
        distinct_cells(cells)
    with pytest.raises(ValueError, match=message):
        list(run_cells(cells, rng=0, jobs=1))
    with pytest.raises(ValueError, match=r"needs\[0\]\.scale is 0\.5 in one"):
        list(run_cells([Cell.of(total, parts=(cell, 1)) for cell in cells], rng=0, jobs=1))
    assert len(list(run_cells([best(0.5), best(0.5 + 1e-9)], rng=0, jobs=1))) == 1


def run_once(cell, path):
    with RunStore(path) as store:
        [outcome] = run_cells([cell], rng=0, jobs=1, store=store)
        [batch] = store.find(cell.identity(0, "numpy"))
    return outcome, batch


def test_a_store_is_recalled_unless_a_value_has_changed(tmp_path):
    path = tmp_path / "runs.sqlite"
    log = tmp_path / "log"

    def run(value):
        return run_once(Cell.of(scaled, scale=Derived(value, "best"), log=str(log)), path)

    first, batch = run(0.5)
    assert batch.derived_values == {"scale": 0.5}
    assert batch.note == ""
    again, same = run(0.5 * (1 + 1e-8))
    assert again.stored
    assert again.result == first.result
    assert same == batch
    other, changed = run(0.6)
    assert not other.stored
    assert other.result == pytest.approx(1.2 * first.result)
    assert changed.note == "computed again: scale is 0.5 on record and 0.6 now"
    assert changed.derived_values == {"scale": 0.6}
    assert log.read_text().count("scaled") == 2


def test_batches_of_other_values_are_replaced_together(tmp_path):
    def cell(value, repeats):
        return Cell.of(draws, size=1, nap=Derived(value, "patience"), repeats=repeats)

    path = tmp_path / "runs.sqlite"
    with RunStore(path) as store:
        where = {"rng": 0, "jobs": 1, "store": store}
        list(run_cells([cell(1e-6, 2)], **where))
        list(run_cells([cell(1e-6, 5)], **where))
        assert len(store.find(cell(0, 1).identity(0, "numpy"))) == 2
        [outcome] = run_cells([cell(2e-6, 4)], **where, batch_repeats=lambda _: 2)
        found = store.find(cell(0, 1).identity(0, "numpy"))
    assert not outcome.stored
    assert [(batch.first, batch.count) for batch in found] == [(0, 2), (2, 2)]
    assert all(batch.derived_values == {"nap": 2e-6} for batch in found)


def test_recorded_work_is_repeated_if_a_value_has_changed(tmp_path):
    def run(value):
        with RunStore(tmp_path / "runs.sqlite") as store:
            return run_recorded(best(value), lambda: value, rng=0, backend="numpy", store=store)

    assert [run(0.5), run(0.5 + 1e-9), run(0.7), run(0.7)] == [0.5, 0.5, 0.7, 0.7]


def test_arrays_count_by_their_numbers():
    numbers = np.array([1.0, -0.0, 2.5])
    cell = Cell.of(scaled, scale=numbers)
    assert cell == Cell.of(scaled, scale=np.array([1, 0, 2.5], dtype=">f8"))
    assert cell != Cell.of(scaled, scale=np.array([1, 0, 2.5 + 1e-15]))
    assert cell != Cell.of(scaled, scale=numbers[None])
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert canonical(fortran) == canonical(np.arange(6).reshape(2, 3))
    assert json.loads(cell.arguments)["scale"]["array"] == [3]
    before = cell.run(0)
    numbers[:] = 0
    assert cell.run(0) == before
    assert canonical(np.array(2.0)) == 2
    assert canonical(np.array(["a", "b"])) == ["a", "b"]
    with pytest.raises(TypeError, match="arguments of a cell must be numbers"):
        canonical({1, 2})


def test_zero_has_one_name():
    assert Cell.of(scaled, scale=-0.0) == Cell.of(scaled, scale=0)


def test_defaults_of_a_users_function_are_those_of_its_signature():
    assert Cell.of(scaled, scale=1.5, power=1, log="").arguments == '{"scale": 1.5}'
    assert Cell.of(scaled, scale=1.5, power=2).arguments == '{"power": 2, "scale": 1.5}'
    assert Cell.of(scaled, scale=1.5, power=True).arguments != '{"scale": 1.5}'


def test_names_are_the_same_in_another_process():
    code = (
        "import numpy as np\n"
        "from iclimit.runs import Cell\n"
        "from iclimit.simulate.pretraining import simulate_errors as f\n"
        "from iclimit.statement import Derived\n"
        "cell = Cell.of(f, dim=4, rho=0.1, task_covariance=Derived(np.ones(4), 'x'),"
        " gates=np.linspace(0, 1, 3))\n"
        "print(cell.arguments, cell.seed(0).spawn_key)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert '"task_covariance": {"derived": "x"}' in runs[0].stdout
