"""Stores that are damaged, or made to do harm."""

import csv
import json
import random
import sqlite3
import warnings

import pytest
from sample_cells import draws, number, total

from iclimit.cli import main
from iclimit.runs.cell import Cell
from iclimit.runs.encoding import encode
from iclimit.runs.execution import run_cells
from iclimit.runs.store import RunStore, StoredBatch, StoreError

pytestmark = pytest.mark.usefixtures("few_predictions")

FLIPS = 150
"""Single bits that are flipped, one at a time."""

DRAWS = Cell.of(draws, size=3, repeats=6)
CELLS = [DRAWS, *(Cell.of(number, of=i) for i in range(12)), Cell.of(total, parts=(DRAWS, 1))]
NUMBER = CELLS[1]
PARAMETERS = ["--tau=2:3:2", "--alpha=1", "--kappa=0.5", "--rho=0.1", "--ridge=0.1", "--jobs=1"]
CURVE = ["curve", "icl_error", *PARAMETERS, "--simulate", "dim=6,points=2,repeats=4"]


def found(path, cells):
    """Results, from the store or computed."""
    with RunStore(path) as store:
        outcomes = run_cells(cells, rng=0, jobs=1, store=store, batch_repeats=lambda _: 2)
        results = {outcome.cell: encode(outcome.result) for outcome in outcomes}
    return [results[cell] for cell in cells]


def change(path, *statements):
    """Change the file behind the back of the store."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def identity(cell):
    return cell.identity(0, "numpy")


@pytest.fixture
def path(tmp_path):
    """A store with the results of all cells."""
    path = tmp_path / "runs.sqlite"
    found(path, CELLS)
    return path


def test_rows_never_vanish_without_a_word(path):
    """Blocks of a file that were never written are zero, or hold something else."""
    with RunStore(path) as store:
        reference = store.runs()
    content = path.read_bytes()
    chance, silent = random.Random(1), []
    for _ in range(300):
        changed, size = bytearray(content), chance.choice([1, 16, 256, 4096])
        place = chance.randrange(len(content))
        changed[place : place + size] = chance.choice([bytes(size), chance.randbytes(size)])
        path.write_bytes(changed[: len(content)])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                with RunStore(path, readonly=True) as store:
                    if store.runs() != reference and not caught:
                        silent.append((place, size))
            except StoreError:
                continue
    assert silent == []


def test_a_flipped_bit_never_changes_a_number(path):
    reference, content = found(path, CELLS), path.read_bytes()
    chance, reports = random.Random(0), 0
    for _ in range(FLIPS):
        changed = bytearray(content)
        changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                assert found(path, CELLS) == reference
            except StoreError:
                reports += 1
        reports += bool(caught)
    assert reports > FLIPS / 5


@pytest.mark.parametrize(
    "damage",
    [
        "result = 'null'",
        "result = CAST(x'ff22' AS TEXT)",
        "result = x'00'",
        "parameters = '[1]'",
        "numbers = '{\"value\": [1.5, null]}'",
        "count = 7",
        "first = 1",
        "seconds = 'long'",
        "digest = ''",
    ],
)
def test_damage_is_reported_set_aside_and_mended(path, damage, capsys):
    reference = found(path, CELLS)
    change(path, f"UPDATE runs SET {damage} WHERE identity = '{identity(NUMBER)}'")
    message = f"damaged result of run {identity(NUMBER)}"
    with pytest.warns(RuntimeWarning, match=message):
        assert main(["runs", "list", "--store", str(path)]) == 0
    assert identity(NUMBER)[:10] not in capsys.readouterr().out
    with pytest.warns(RuntimeWarning, match=message):
        assert found(path, CELLS) == reference
    assert found(path, CELLS) == reference
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT identity FROM damaged").fetchall()
    connection.close()
    assert rows == [(identity(NUMBER),)]


def test_reading_leaves_damage_where_it_is(path):
    change(path, "UPDATE runs SET result = '2.5'")
    content = path.read_bytes()
    with RunStore(path, readonly=True) as store, pytest.warns(RuntimeWarning, match="damaged"):
        assert store.find(identity(NUMBER)) == []
    with RunStore(path, readonly=True) as store, pytest.warns(RuntimeWarning, match="damaged"):
        assert store.runs() == []
    assert path.read_bytes() == content


def test_prune_deletes_one_run(path, capsys):
    assert main(["runs", "prune", identity(NUMBER)[:12], "--store", str(path)]) == 0
    assert "1 run deleted" in capsys.readouterr().out
    with RunStore(path) as store:
        assert len(store.runs()) == len(CELLS) - 1
        assert store.find(identity(NUMBER)) == []


@pytest.mark.parametrize(
    "statements",
    [
        (
            "ALTER TABLE runs RENAME TO others",
            "CREATE VIEW runs AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) "
            "SELECT others.* FROM others, n",
        ),
        ("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",),
        ("ALTER TABLE runs RENAME COLUMN seconds TO minutes",),
        ("DROP TABLE runs",),
    ],
)
@pytest.mark.parametrize("readonly", [False, True])
def test_stores_that_iclimit_has_not_made(path, statements, *, readonly):
    change(path, *statements)
    with pytest.raises(StoreError, match="is none that iclimit has written"):
        RunStore(path, readonly=readonly)


@pytest.fixture
def foreign(path):
    """A store with a record whose texts are made to do harm."""
    cell = Cell.of(number, **{"of": 1, "=cmd": "@SUM(1)", "\x1b[2J": "\x1b[31m"})
    batch = StoredBatch.of(NUMBER, {"-x": 1.5}, rng=0, backend="numpy", seconds=1.0)
    changed = {"parameters": cell_text(cell), "host": "\x1b]0;host\x07", "function": "=f"}
    with RunStore(path) as store:
        store.prune([identity(NUMBER)])
        store.add(StoredBatch(**vars(batch) | changed | {"identity": "\x1b[8mf00d"}))
    return path


def cell_text(cell):
    """Arguments of a cell that its function does not take."""
    return json.dumps(dict(cell.parameters))


@pytest.mark.parametrize("command", ["list", "show \x1b[8mf", "prune --function =f --dry-run"])
def test_nothing_in_a_store_steers_the_terminal(foreign, command, capsys):
    assert main(["runs", *command.split(" "), "--store", str(foreign)]) == 0
    out, err = capsys.readouterr()
    assert "\\x1b[31m" in out
    assert all(character.isprintable() or character == "\n" for character in out + err)


def test_nothing_in_a_store_becomes_a_formula(foreign):
    table = foreign.with_suffix(".csv")
    assert main(["runs", "export", "-o", str(table), "--store", str(foreign)]) == 0
    with table.open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert {"'=cmd", "'@SUM(1)", "'=f", "'-x"} <= set(cells)
    assert not any(cell.startswith(("=", "@", "+")) for cell in cells)
    assert all(map(str.isprintable, cells))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_count_that_is_wrong_ends(tmp_path, monkeypatch):
    path, table = tmp_path / "runs.sqlite", tmp_path / "table.csv"
    right = StoredBatch.of.__func__

    def wrong(cls, cell, *values, count=1, **more):
        return right(cls, cell, *values, count=count if count == 1 else 10 * count, **more)

    monkeypatch.setattr(StoredBatch, "of", classmethod(wrong))
    target = ["--target-relative-error", "2%"]
    assert main([*CURVE, *target, "--store", str(path), "-o", str(table)]) == 0


@pytest.mark.parametrize("command", [CURVE, ["validate", "solver", "--jobs", "1"]])
def test_a_full_disk_is_a_failure(tmp_path, command, monkeypatch, capsys):
    path, add = tmp_path / "runs.sqlite", RunStore.add

    def add_some(store, batch, **options):
        store._execute("PRAGMA max_page_count = 4")
        return add(store, batch, **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RunStore, "add", add_some)
    assert main([*command, "--store", str(path)]) == 1
    assert "cannot grow, the disk is full; free some space" in capsys.readouterr().err
    with RunStore(path) as store:
        assert store.runs()
