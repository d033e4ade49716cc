"""Stores that are damaged, or made to do harm."""

import csv
import hashlib
import json
import math
import random
import re
import sqlite3
import warnings
from dataclasses import astuple, replace

import pytest
import xarray
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
    chance = random.Random(1)
    silent = []
    for _ in range(300):
        changed = bytearray(content)
        size = chance.choice([1, 16, 256, 4096])
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
    reference = found(path, CELLS)
    content = path.read_bytes()
    chance = random.Random(0)
    reports = 0
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
        ("ALTER TABLE runs ADD COLUMN more AS (zeroblob(1000000000))",),
        ("CREATE TABLE damaged (x)",),
        ("DROP TABLE runs",),
    ],
)
@pytest.mark.parametrize("readonly", [False, True])
def test_stores_that_iclimit_has_not_made(path, statements, *, readonly):
    change(path, *statements)
    with pytest.raises(StoreError, match="is none that iclimit has written"):
        RunStore(path, readonly=readonly)


def flip_a_key(path, cell, entry=False):
    """Change a letter of a cell's identity: in its row, or in the index that leads to it."""
    content = path.read_bytes()
    places = [match.start() for match in re.finditer(identity(cell).encode(), content)]
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_runs_1'"
    ((page,),) = connection.execute(query)
    ((size,),) = connection.execute("PRAGMA page_size")
    connection.close()
    place = next(place for place in places if (place // size == page - 1) == entry)
    changed = bytearray(content)
    changed[place] ^= 1
    path.write_bytes(changed)


def counts(path, readonly=False):
    """Repeats on record of each cell."""
    with RunStore(path, readonly=readonly) as store:
        return {run.identity: run.count for run in store.runs()}


def integrity(path):
    with sqlite3.connect(path) as connection:
        answer = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    return answer


def test_a_damaged_index_hides_no_run(path):
    reference = counts(path)
    flip_a_key(path, DRAWS, entry=True)
    content = path.read_bytes()
    assert counts(path, readonly=True) == reference
    with RunStore(path, readonly=True) as store:
        assert len(store.find(identity(DRAWS))) == 3
    assert path.read_bytes() == content
    with RunStore(path) as store:  # mends it
        assert len(store.find(identity(DRAWS))) == 3
    assert counts(path) == reference
    assert integrity(path) == [("ok",)]


def test_any_bit_of_the_index_can_change(path):
    reference = counts(path)
    content = path.read_bytes()
    chance = random.Random(3)
    with sqlite3.connect(path) as connection:
        ((page,),) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_runs_1'"
        )
        ((size,),) = connection.execute("PRAGMA page_size")
    connection.close()
    for _ in range(25):
        changed = bytearray(content)
        changed[(page - 1) * size + chance.randrange(size)] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert counts(path, readonly=True) == reference
        with RunStore(path) as store:
            assert all(store.find(identity(cell)) for cell in CELLS)
        assert counts(path) == reference
        assert integrity(path) == [("ok",)]


def double(path, cell):
    """What earlier versions did with a damaged index: the run was computed again and added."""
    with RunStore(path) as store:
        rows = [astuple(batch) for batch in store.find(identity(cell))]
    flip_a_key(path, cell, entry=True)
    connection = sqlite3.connect(path)
    with connection:
        marks = ", ".join("?" * len(rows[0]))
        digest = "(SELECT digest FROM runs NOT INDEXED WHERE identity = ? AND first = ?)"
        query = f"INSERT INTO runs SELECT {marks}, {digest}"
        connection.executemany(query, [(*row, row[0], row[1]) for row in rows])
    connection.close()


def test_a_run_that_is_there_twice_counts_once(path):
    reference = counts(path)
    double(path, NUMBER)
    message = f"second result of run {identity(NUMBER)}"
    with pytest.warns(RuntimeWarning, match=f"{message}, left out"):
        assert counts(path, readonly=True) == reference
    change(path, "UPDATE runs SET result = '7' WHERE rowid = 1")
    with pytest.warns(RuntimeWarning) as caught:
        found(path, CELLS)
    texts = [str(each.message) for each in caught]
    assert [message in text for text in texts] == [False, True]
    assert "damaged result" in texts[0]
    assert counts(path) == reference
    assert integrity(path) == [("ok",)]


def test_a_damaged_key_of_a_row_is_set_aside(path):
    reference = found(path, CELLS)
    flip_a_key(path, NUMBER)
    with pytest.warns(RuntimeWarning, match="damaged result of run"):
        assert found(path, CELLS) == reference
    assert found(path, CELLS) == reference


DEEP = "[" * 5000 + "]" * 5000

FOREIGN = [
    {"versions": f'{{"numpy": {DEEP}}}'},
    {"versions": '{"numpy": 2}'},
    {"parameters": f'{{"of": {DEEP}}}'},
    {"parameters": f'{{"of": {"[" * 900 + "]" * 900}}}'},
    {"numbers": f'{{"value": {DEEP}}}'},
    {"numbers": '{"value": 5}'},
    {"numbers": '{"value": ["1", null]}'},
    {"numbers": '{"value": [null, null]}'},
    {"numbers": f'{{"value": [{10**400}, null]}}'},
    {"numbers": '{"value": [1.0, -0.5]}'},
    {"derived": DEEP},
    {"derived": "[]"},
    {"derived": encode({"rates": "fast"})},
    {"derived": encode({1: 0.5})},
    {"derived": encode({"rates": ((1.0, 2.0), 3.0)})},
    {"derived": '{"type":"dataclass","module":"os","name":"system","fields":{}}'},
    {"finished": "yesterday"},
    {"finished": "0001-01-01T00:00:00.000000Z"},
    {"finished": "2026-01-01"},
    {"seconds": math.inf},
    {"seconds": -1.0},
    {"residual": "small"},
    {"first": -1},
    {"count": 0},
    {"count": 2.5},
    {"host": b"\x00"},
]
"""Columns that no version of iclimit has written."""

UNUSUAL = [
    {"parameters": json.dumps({"of": each})}
    for each in (
        {"x": 1},
        {"array": 5},
        {"array": [2], "digest": None},
        {"cell": 1},
        {"cell": "f", "arguments": 1},
        {"derived": {"derived": {}}},
        [1, {"x": [None]}],
        10**4000,
        math.inf,
        math.nan,
        "\ud800\0",
    )
]
UNUSUAL += [
    {"parameters": '{"a/b": 1, "a_b": 2, "": 3, "seconds": 4, "\\ud800": 5}'},
    {"numbers": '{"a/b": [1.0, 2.0], "": [1.0, null], "\\u0000": [2.0, 1.0], "run": [1.0, null]}'},
    {"numbers": '{"x_standard_error": [1.0, null], "x": [NaN, Infinity]}'},
    {"function": "iclimit.__main__.main"},
    {"function": "iclimit.runs.store.APPLICATION"},
    {"function": "", "code": "", "seed": "", "backend": "\n", "host": "\n", "note": "\0"},
    {"count": 2**62},
]
"""Columns that a program of a user may have written."""


def verbs(path):
    """All that is done with a store that is not known."""
    chosen = ["list", "list --format json", "list --format csv", "prune --obsolete --dry-run"]
    chosen += ["prune --older-than 4w --dry-run", f"show {identity(NUMBER)[:12]}"]
    chosen += [f"export -o {path.with_suffix(ending)}" for ending in (".csv", ".nc")]
    return [["runs", *each.split(), "--store", str(path)] for each in chosen]


def add_row(path, row):
    """Add a row with a digest that fits, as another program may."""
    digest = hashlib.sha256(json.dumps(row, default=str).encode()).hexdigest()
    connection = sqlite3.connect(path)
    with connection:
        marks = ", ".join("?" * (len(row) + 1))
        connection.execute(f"INSERT INTO runs VALUES ({marks})", (*row, digest))
    connection.close()


@pytest.fixture
def small(tmp_path):
    """A store with one run."""
    path = tmp_path / "runs.sqlite"
    found(path, [NUMBER])
    return path


@pytest.mark.parametrize("changes", FOREIGN, ids=lambda changes: str(changes)[:30])
def test_a_row_that_is_no_record_denies_nothing(small, changes, capsys):
    reference = counts(small)
    with RunStore(small) as store:
        (batch,) = store.find(identity(NUMBER))
    add_row(small, astuple(replace(batch, identity="f" * 64, **changes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for verb in verbs(small):
            assert main(verb) == 0, capsys.readouterr().err
    with pytest.warns(RuntimeWarning, match=f"damaged result of run {'f' * 64}, left out"):
        assert counts(small, readonly=True) == reference
    with pytest.warns(RuntimeWarning, match="moved to the table 'damaged'"):
        assert counts(small) == reference
    assert counts(small) == reference


@pytest.mark.parametrize("changes", UNUSUAL, ids=lambda changes: str(changes)[:30])
def test_every_record_can_be_listed_shown_and_exported(small, changes, capsys):
    with RunStore(small) as store:
        (batch,) = store.find(identity(NUMBER))
        assert store.add(replace(batch, identity="f" * 64, **changes))
    for verb in [*verbs(small), ["runs", "show", "ffff", "--store", str(small)]]:
        assert main(verb) == 0, capsys.readouterr().err
    with xarray.open_dataset(small.with_suffix(".nc")) as data:
        assert data.sizes["run"] == 2


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
    path = tmp_path / "runs.sqlite"
    table = tmp_path / "table.csv"
    right = StoredBatch.of.__func__

    def wrong(cls, cell, *values, count=1, **more):
        return right(cls, cell, *values, count=count if count == 1 else 10 * count, **more)

    monkeypatch.setattr(StoredBatch, "of", classmethod(wrong))
    target = ["--target-relative-error", "2%"]
    assert main([*CURVE, *target, "--store", str(path), "-o", str(table)]) == 0


@pytest.mark.parametrize("command", [CURVE, ["validate", "solver", "--jobs", "1"]])
def test_a_full_disk_is_a_failure(tmp_path, command, monkeypatch, capsys):
    path = tmp_path / "runs.sqlite"
    add = RunStore.add

    def add_some(store, batch, **options):
        store._execute("PRAGMA max_page_count = 4")
        return add(store, batch, **options)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RunStore, "add", add_some)
    assert main([*command, "--store", str(path)]) == 1
    assert "cannot grow, the disk is full; free some space" in capsys.readouterr().err
    with RunStore(path) as store:
        assert store.runs()
