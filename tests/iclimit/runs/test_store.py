"""The run store: nothing is lost, doubled or half written, and every trouble is told."""

import itertools
import json
import os
import random
import sqlite3
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from iclimit.runs import store as store_module
from iclimit.runs.cell import Cell
from iclimit.runs.store import RunStore, StoredBatch, StoreError, concatenated_numbers, obsolete
from iclimit.simulate.descent import simulate_learning_rate
from iclimit.simulate.pretraining import simulate_errors

SMALL = {"dim": 4, "context": 4, "tasks": 2, "prompts": 30, "rho": 0.1, "ridge": 0.1}
BATCH = StoredBatch(
    identity="a" * 64,
    first=0,
    count=1,
    function="iclimit.f",
    parameters="{}",
    seed="0",
    backend="",
    code="c",
    seconds=1.0,
    residual=None,
    numbers='{"x": [1.5, null]}',
    host="h",
    finished="2026-01-01T00:00:00.000000Z",
    versions="{}",
    result="1.5",
    derived='{"type":"dict","items":[]}',
    note="",
)
NOBODY = 65534


def integrity(path):
    with sqlite3.connect(path) as connection:
        (answer,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    return str(answer)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.fixture
def path(folder):
    return folder / "runs.sqlite"


@pytest.fixture
def guarded():
    """A store in a folder whose permissions hold for this process, whoever runs the tests."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder) / "runs.sqlite"
            Path(folder).chmod(0o755)
    finally:
        os.seteuid(user)


def test_a_result_comes_back_with_all_that_is_known(path):
    cell = Cell.of(simulate_errors, repeats=3, **SMALL)
    seed = 2**128 - 1
    result = cell.run(seed)
    batch = StoredBatch.of(cell, result, rng=seed, backend="numpy", seconds=0.5, count=3)
    with RunStore(path) as store:
        assert store.add(batch)
    with RunStore(path) as store:
        [found] = store.find(cell.identity(seed, "numpy"))
    assert found == batch
    assert found.value.icl.samples.tobytes() == result.icl.samples.tobytes()
    assert found.residual == max(result.residuals)
    assert found.function == "iclimit.simulate.pretraining.cells.simulate_errors"
    assert found.seed == str(seed)
    assert json.loads(found.parameters) == SMALL
    assert json.loads(found.numbers)["icl"][0] == pytest.approx(result.icl.mean)
    assert json.loads(found.versions)["numpy"] == np.__version__
    age = datetime.now(UTC) - datetime.fromisoformat(found.finished)
    assert timedelta() <= age < timedelta(hours=1)


def test_numbers_that_are_not_finite(path):
    cell = Cell.of(simulate_errors, repeats=1, **SMALL)
    with RunStore(path) as store:
        store.add(StoredBatch.of(cell, cell.run(0), rng=0, backend="numpy", seconds=0.1))
        batches = store.find(cell.identity(0, "numpy"))
    assert concatenated_numbers(batches)["icl"][1] == np.inf


def test_batches_of_one_cell_give_the_numbers_of_all_repeats(path):
    cell = Cell.of(simulate_errors, repeats=5, **SMALL)
    with RunStore(path) as store:
        for first, count in ((2, 3), (0, 2)):
            part = cell.run(0, extra={"first_repeat": first, "repeats": count})
            store.add(
                StoredBatch.of(
                    cell, part, rng=0, backend="numpy", seconds=1.0, first=first, count=count
                )
            )
        [run] = store.runs()
        batches = store.find(run.identity)
    assert [batch.first for batch in batches] == [0, 2]
    assert (run.count, run.seconds) == (5, 2.0)
    whole = cell.run(0)
    assert concatenated_numbers(batches)["icl"] == (whole.icl.mean, whole.icl.standard_error)


def test_overlapping_batches_are_refused(path):
    with RunStore(path) as store:
        assert store.add(replace(BATCH, first=10, count=10))
        for first, count in ((0, 11), (19, 1), (10, 10), (5, 20), (12, 3)):
            assert not store.add(replace(BATCH, first=first, count=count))
        assert store.add(replace(BATCH, first=0, count=10))
        assert store.add(replace(BATCH, first=20, count=1))
        assert store.add(replace(BATCH, identity="b" * 64, first=15))
        assert [batch.first for batch in store.find(BATCH.identity)] == [0, 10, 20]
        assert store.find("c") == []


def test_writers_at_the_same_time_never_overlap(path):
    """Each with a connection of its own; `test_kill_and_resume` has processes."""
    RunStore(path).close()
    gate = threading.Barrier(3)

    def write(number):
        chance = random.Random(number)
        accepted = []
        with RunStore(path) as store:
            gate.wait()
            for _ in range(60):
                place = {"identity": chance.choice("abc"), "first": chance.randrange(160)}
                if store.add(replace(BATCH, **place, count=chance.randrange(1, 9))):
                    accepted.append((place["identity"], place["first"]))
        return accepted

    with ThreadPoolExecutor(3) as threads:
        accepted = list(threads.map(write, range(3)))
    assert all(accepted)
    assert integrity(path) == "ok"
    with RunStore(path) as store:
        batches = [batch for name in "abc" for batch in store.find(name)]
    assert sorted((b.identity, b.first) for b in batches) == sorted(itertools.chain(*accepted))
    repeats = [(b.identity, r) for b in batches for r in range(b.first, b.first + b.count)]
    assert len(repeats) == len(set(repeats))


@pytest.mark.parametrize(
    "content", [b"x", b"garbage " * 1000, b"SQLite format 3\0" + b"\xff" * 5000]
)
@pytest.mark.parametrize("readonly", [False, True])
def test_no_sqlite_file(path, content, readonly):
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"runs\.sqlite' (is no SQLite file|is damaged)"):
        RunStore(path, readonly=readonly)
    assert path.read_bytes() == content


@pytest.mark.parametrize("readonly", [False, True])
def test_database_of_another_program(path, readonly):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (x)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StoreError, match=r"runs\.sqlite' is a database of another program"):
        RunStore(path, readonly=readonly)
    assert path.read_bytes() == content


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (1, r"was written by a newer iclimit .*; use that version or name another file"),
        (-1, r"was written by an older iclimit .*; its runs cannot be used here: name another"),
    ],
)
def test_other_formats_are_refused(path, readonly, step, message):
    RunStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {store_module.FORMAT + step}")
    connection.close()
    with pytest.raises(StoreError, match=message):
        RunStore(path, readonly=readonly)


@pytest.mark.parametrize("kept", [0.5, 0.95, "a page less"])
def test_truncated_file(path, kept):
    with RunStore(path) as store:
        for first in range(20):
            store.add(replace(BATCH, first=first, result="x" * 10_000))
    size = path.stat().st_size
    os.truncate(path, size - 4096 if kept == "a page less" else int(kept * size))
    with pytest.raises(StoreError, match=r"runs\.sqlite' is damaged; move it away"):
        RunStore(path)


def test_paths_that_cannot_be_stores(folder):
    with pytest.raises(StoreError, match="must be a file in an existing folder"):
        RunStore(folder / "none" / "runs.sqlite")
    with pytest.raises(StoreError, match="must be a file"):
        RunStore(folder)
    with pytest.raises(StoreError, match="must be a file"):
        RunStore("/dev/null")
    with pytest.raises(StoreError, match="does not exist"):
        RunStore(folder / "runs.sqlite", readonly=True)
    (folder / "empty").touch()
    with pytest.raises(StoreError, match="is an empty file"):
        RunStore(folder / "empty", readonly=True)
    assert {each.name for each in folder.iterdir()} == {"empty"}


@pytest.mark.parametrize("name", ["a b.sqlite", "50%?x=1#y.sqlite", ":memory:", "läufe"])
def test_any_name_will_do(folder, name):
    with RunStore(folder / name) as store:
        store.add(BATCH)
    assert [each.name for each in folder.iterdir()] == [name]


def test_full_disk_keeps_what_is_there_and_goes_on_when_there_is_room(path):
    with RunStore(path) as store:
        store.add(BATCH)
        [(pages,)] = store._execute("PRAGMA page_count")
        store._execute(f"PRAGMA max_page_count = {pages + 2}")
        large = replace(BATCH, first=1, result="x" * 100_000)
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot grow, the disk is full"):
                store.add(large)
        assert len(store.find(BATCH.identity)) == 1
        store._execute("PRAGMA max_page_count = 100000")
        assert store.add(large)
    assert integrity(path) == "ok"


def test_locked_file(path, monkeypatch):
    monkeypatch.setattr(store_module, "TIMEOUT", 0.05)
    with RunStore(path) as store, RunStore(path) as other:
        other._connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another process"):
            store.add(BATCH)
        with pytest.raises(StoreError, match="locked by another process"):
            RunStore(path)
        other._connection.execute("ROLLBACK")
        assert store.add(BATCH)


@pytest.mark.parametrize("modes", [(0o444, 0o755), (0o444, 0o555), (0o644, 0o555)])
def test_read_only_file_or_folder(guarded, modes):
    with RunStore(guarded) as store:
        store.add(BATCH)
    guarded.chmod(modes[0])
    guarded.parent.chmod(modes[1])
    with pytest.raises(StoreError, match=r"runs\.sqlite' cannot be (written|opened); file and"):
        RunStore(guarded)
    with RunStore(guarded, readonly=True) as store:
        assert [run.identity for run in store.runs()] == [BATCH.identity]
        with pytest.raises(StoreError, match="cannot be written"):
            store.add(replace(BATCH, first=1))


def test_folder_that_takes_no_file(guarded):
    guarded.parent.chmod(0o555)
    with pytest.raises(StoreError, match="cannot be opened"):
        RunStore(guarded)


def test_reading_does_not_write(path):
    with RunStore(path) as store:
        store.add(BATCH)
    content = path.read_bytes()
    with RunStore(path, readonly=True) as store:
        assert store.find(BATCH.identity) == [BATCH]
        with pytest.raises(StoreError, match="cannot be written"):
            store.prune([BATCH.identity])
    assert path.read_bytes() == content
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_listing_is_newest_first_and_filtered(path):
    with RunStore(path) as store:
        for number, function in enumerate(["m.f", "m.g", "m.f", "n.f_100%"]):
            finished = f"2026-01-0{number + 1}T00:00:00.000000Z"
            store.add(replace(BATCH, identity=f"{number}a", function=function, finished=finished))
        late = "2026-02-01T00:00:00.000000Z"
        store.add(replace(BATCH, identity="0a", function="m.f", first=1, finished=late))
        names = [run.identity for run in store.runs()]
        assert names == ["0a", "3a", "2a", "1a"]
        assert [run.identity for run in store.runs(function="m.f")] == ["0a", "2a"]
        assert [run.identity for run in store.runs(function="%")] == ["3a"]
        assert [run.identity for run in store.runs(identity="2")] == ["2a"]
        assert store.runs(identity="_") == []
        since = datetime(2026, 1, 3, 1, tzinfo=UTC).astimezone()
        assert [run.identity for run in store.runs(since=since)] == ["0a", "3a"]
        first = store.runs(identity="0")[0]
        assert (first.count, first.finished) == (2, late)


def test_pruning_deletes_whole_runs_and_gives_space_back(path):
    with RunStore(path) as store:
        for first in range(50):
            store.add(replace(BATCH, first=first, result="x" * 10_000))
        store.add(replace(BATCH, identity="b"))
    before = path.stat().st_size
    with RunStore(path) as store:
        assert store.prune(["no such run"]) == 0
        assert store.prune([BATCH.identity, "no such run"]) == 50
        assert [run.identity for run in store.runs()] == ["b"]
    assert path.stat().st_size < before / 5
    assert integrity(path) == "ok"


def test_obsolete_runs_are_those_of_changed_code(path):
    cell = Cell.of(simulate_learning_rate, contexts=10, dim=3, context=6)
    current = StoredBatch.of(cell, 1.0, rng=0, backend="numpy", seconds=1.0)
    others = {
        "changed": {"code": "0" * 12},
        "gone": {"function": "iclimit.simulate.descent.learning_rate.no_more", "code": "2" * 12},
        "no module": {"function": "iclimit.no.such", "code": "3" * 12},
        "needs changed": {"code": f"{'0' * 12}-{current.code}"},
        "needs others": {"code": f"{'1' * 12}-{current.code}"},
        "of a user": {"function": "antigravity.f", "code": "0" * 12},
    }
    with RunStore(path) as store:
        store.add(current)
        for name, changes in others.items():
            store.add(replace(current, identity=name, **changes))
        found = {run.identity for run in obsolete(store.runs())}
    assert found == {"changed", "gone", "no module", "needs changed"}
    assert "antigravity" not in sys.modules
