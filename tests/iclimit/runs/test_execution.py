"""Running cells: the same results anywhere, what fails, what is needed, what is on record."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from types import SimpleNamespace

import joblib
import pytest
from refusals import type_error, value_error
from sample_cells import (
    blas_threads,
    blocks_interrupts,
    dies,
    draws,
    fails,
    number,
    placed,
    shared,
    total,
)
from started_commands import PATIENCE, POLL
from threadpoolctl import threadpool_info, threadpool_limits

from iclimit.runs.cell import Cell
from iclimit.runs.encoding import encode
from iclimit.runs.execution import check_run, placement, run_cells
from iclimit.runs.store import RunStore
from iclimit.runs.workers import free_gpu, remove_abandoned

DRAWS = [Cell.of(draws, size=i, repeats=5) for i in range(4)]
NUMBERS = [Cell.of(number, of=i) for i in range(8)]
CELLS = [*DRAWS, *NUMBERS, Cell.of(total, parts=(NUMBERS[0], (Cell.of(number, of=100), 2.0)))]


def table(outcomes):
    """Results as text that is exact to the bit."""
    return {outcome.cell: encode(outcome.result) for outcome in outcomes}


@pytest.fixture(scope="module")
def expected():
    """Results of the functions themselves."""
    found = {}
    with threadpool_limits(1):
        for i, cell in enumerate(DRAWS):
            found[cell] = draws(rng=cell.seed(7), size=i, repeats=5)
        for i, cell in enumerate(NUMBERS):
            found[cell] = number(rng=cell.seed(7), of=i)
    unasked = number(rng=Cell.of(number, of=100).seed(7), of=100)
    found[CELLS[-1]] = found[NUMBERS[0]] + (unasked + 2.0)
    return {cell: encode(found[cell]) for cell in CELLS}


@pytest.mark.machine
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("repeats", [None, 2])
def test_same_bits_for_any_workers_order_and_batches(expected, jobs, repeats):
    order = random.Random(jobs).sample(CELLS, len(CELLS))
    batches = None if repeats is None else lambda _: repeats
    assert table(run_cells(order, rng=7, jobs=jobs, batch_repeats=batches)) == expected


def test_only_what_is_asked_for_is_told_once(tmp_path):
    log = tmp_path / "log"
    need = Cell.of(number, of=1, log=str(log))
    sums = [Cell.of(total, parts=(need, (need, i))) for i in range(3)]
    again = Cell.of(total, parts=(sums[0], sums[1]))
    outcomes = list(run_cells([again, *sums, again], rng=0, jobs=1))
    assert len(outcomes) == 4
    assert {outcome.cell for outcome in outcomes} == {again, *sums}
    assert log.read_text() == "number 1\n"
    value = number(rng=need.seed(0), of=1)
    assert {o.cell: o.result for o in outcomes}[again] == pytest.approx(4 * value + 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_is_the_result_of_its_cell_and_of_those_that_need_it(jobs):
    bad = {how: Cell.of(fails, how=how) for how in ("value", "two", "exit")}
    needing = Cell.of(total, parts=(NUMBERS[0], bad["value"]))
    cells = [needing, *bad.values(), Cell.of(total, parts=(needing,)), *NUMBERS]
    found = {o.cell: o.result for o in run_cells(cells, rng=0, jobs=jobs)}
    assert found.keys() == set(cells)
    assert isinstance(found[bad["value"]], ValueError)
    assert found[bad["value"]].__notes__ == ["in fails(how=value)"]
    assert "1 and 2" in str(found[bad["two"]])
    assert "SystemExit: 3" in str(found[bad["exit"]])
    assert str(found[needing]) == "needs fails(how=value): ValueError: no such value"
    assert "needs total(" in str(found[cells[4]])
    assert all(isinstance(found[cell], float) for cell in NUMBERS)


def test_a_result_that_cannot_be_stored_fails(tmp_path):
    with RunStore(tmp_path / "runs.sqlite") as store:
        outcomes = list(
            run_cells([Cell.of(fails, how="lambda"), NUMBERS[0]], rng=0, jobs=1, store=store)
        )
        assert isinstance(outcomes[0].result, TypeError)
        assert isinstance(outcomes[1].result, float)
        assert len(store.runs()) == 1


def test_names_of_cells_are_short():
    cell = Cell.of(total, parts=tuple(range(200)))
    assert cell.name == "total(parts=(0, 1, 2, 3, 4, 5, ...))"


def test_only_missing_repeats_are_computed(tmp_path):
    log = tmp_path / "log"

    def run(repeats):
        log.unlink(missing_ok=True)
        cell = Cell.of(draws, size=1, repeats=repeats, log=str(log))
        [outcome] = run_cells([cell], rng=3, jobs=1, store=store, batch_repeats=lambda _: 3)
        direct = draws(rng=cell.seed(3), size=1, repeats=repeats)
        assert encode(outcome.result) == encode(direct)
        return (log.read_text().split()[2::3] if log.exists() else []), outcome

    with RunStore(tmp_path / "runs.sqlite") as store:
        assert run(4)[0] == ["0", "1", "2", "3"]
        computed, outcome = run(9)
        assert computed == ["4", "5", "6", "7", "8"]
        assert not outcome.stored
        computed, again = run(9)
        assert computed == []
        assert again.stored
        assert again.seconds == pytest.approx(outcome.seconds)
        assert run(2)[1].stored
        assert 0 < run(2)[1].seconds < outcome.seconds
        # A gap, as a batch leaves that was abandoned.
        with sqlite3.connect(store.path) as connection:
            connection.execute("DELETE FROM runs WHERE first = 3")
        connection.close()
        assert run(2)[0] == []
        assert run(9)[0] == ["3"]


def test_cells_that_differ_in_repeats_are_one_piece_of_work(tmp_path):
    log = tmp_path / "log"
    few, many = (Cell.of(draws, size=1, repeats=r, log=str(log)) for r in (2, 5))
    found = {o.cell: o.result for o in run_cells([few, many], rng=0, jobs=1)}
    assert len(log.read_text().splitlines()) == 5
    assert encode(found[few]) == encode(draws(rng=few.seed(0), size=1, repeats=2))
    assert found[many].repeats == 5


def test_workers_begin_while_cells_are_asked_for(tmp_path):
    log = tmp_path / "log"

    def cells():
        yield Cell.of(number, of=1, log=str(log))
        deadline = time.monotonic() + PATIENCE
        while not log.exists():
            assert time.monotonic() < deadline
            time.sleep(POLL)
        yield NUMBERS[2]

    assert len(list(run_cells(cells(), rng=0, jobs=2))) == 2


def test_workers_that_have_grown_are_replaced_silently():
    # Python would print the warning of the thread that replaces them, in the middle of the output.
    cells = [Cell.of(placed, of=of, leaves=40_000_000, nap=1.1) for of in range(8)]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        outcomes = list(run_cells(cells, rng=0, jobs=2))
    assert len({outcome.result for outcome in outcomes}) > 2
    assert [str(each.message) for each in seen] == []


@pytest.mark.parametrize("recorded", [False, True])
def test_what_is_asked_for_after_it_was_computed_is_not_computed_again(tmp_path, recorded):
    log = str(tmp_path / "log")
    few, many = (Cell.of(draws, size=1, repeats=r, log=log) for r in (2, 5))
    bad = Cell.of(fails, how="value", log=log)
    found = {}

    def cells():
        yield from (few, bad)
        while not {few, bad} <= found.keys():
            yield few
        yield from (Cell.of(total, parts=(bad,)), many)

    with RunStore(tmp_path / "runs.sqlite") as store:
        for outcome in run_cells(cells(), rng=0, jobs=2, store=store if recorded else None):
            found[outcome.cell] = outcome.result
    assert encode(found[many]) == encode(draws(rng=many.seed(0), size=1, repeats=5))
    assert encode(found[few]) == encode(draws(rng=few.seed(0), size=1, repeats=2))
    assert isinstance(found[bad], ValueError)
    assert len(found) == 4
    assert len((tmp_path / "log").read_text().splitlines()) == 6


def test_stored_results_come_first_and_failures_are_not_stored(tmp_path):
    bad = Cell.of(fails, how="value")
    with RunStore(tmp_path / "runs.sqlite") as store:
        list(run_cells([*NUMBERS[4:], bad], rng=0, jobs=1, store=store))
        outcomes = list(run_cells([bad, *NUMBERS], rng=0, jobs=1, store=store))
    assert [o.cell for o in outcomes] == [*NUMBERS[4:], bad, *NUMBERS[:4]]
    assert [o.stored for o in outcomes] == [True] * 4 + [False] * 5


def test_what_a_stored_cell_needs_is_not_computed(tmp_path):
    log = tmp_path / "log"
    cell = Cell.of(total, parts=(Cell.of(number, of=1, log=str(log)),))
    with RunStore(tmp_path / "runs.sqlite") as store:
        for _ in range(2):
            list(run_cells([cell], rng=0, jobs=1, store=store))
        list(run_cells([Cell.of(total, parts=(cell, 1))], rng=0, jobs=1, store=store))
    assert log.read_text() == "number 1\n"


def test_one_thread_while_cells_run():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info()]

    before = threads()
    cells = [Cell.of(blas_threads, of=i) for i in range(4)]
    for jobs in (1, 2):
        assert [o.result for o in run_cells(cells, rng=0, jobs=jobs)] == [1] * 4
    assert threads() == before


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_is_not_for_workers_even_while_they_start():
    [outcome] = run_cells([Cell.of(blocks_interrupts)], rng=0, jobs=2)
    assert outcome.result is True
    assert not blocks_interrupts(rng=0)


# Numbers of 400 MB: joblib ends a process that has kept 300 MB for a second.
MANY = 50_000_000


def test_one_process_holds_the_gpu_while_the_cores_compute_the_rest():
    first = Cell.of(placed, of=0, leaves=MANY, nap=1.2)
    chosen = [first, Cell.of(placed, of=1), Cell.of(placed, of=2)]
    needed = Cell.of(total, parts=(NUMBERS[0], 1.0))
    outcomes = list(run_cells([*chosen, *NUMBERS, needed], rng=0, jobs=2, backend="cupy"))
    results = {outcome.cell: outcome.result for outcome in outcomes}
    assert len({results[cell] for cell in chosen}) == 1
    assert results[first].startswith("cupy ")
    assert results[first] != f"cupy {os.getpid()}"
    assert results[needed] == results[NUMBERS[0]] + 1.0
    # The cores did not wait for the process with the GPU, whose first cell takes longest.
    assert {outcome.cell for outcome in outcomes[:-3]} == {*NUMBERS, needed}


def test_the_gpu_computes_cells_together_that_can_be(tmp_path):
    """With the names, seeds and results that each has alone, and each on record."""
    cells = [Cell.of(shared, of=number) for number in (0, 1, -1, 2)]
    setting = {"rng": 0, "backend": "cupy"}
    with RunStore(tmp_path / "runs.sqlite") as store:
        [known] = run_cells(cells[:1], **setting, jobs=1, store=store)
        outcomes = list(run_cells(cells, **setting, jobs=2, store=store))
        again = list(run_cells(cells, **setting, jobs=1, store=store))
    results = {outcome.cell: outcome.result for outcome in outcomes}
    assert results[cells[0]] == known.result
    assert "1 and 2" in str(results.pop(cells[2]))
    assert [results[cell][2] for cell in results] == [1, 3, 3]
    for cell in results:
        alone = shared(**cell.keywords, rng=cell.seed(0))
        assert results[cell][:2] == alone[:2]
    assert sum(outcome.stored for outcome in again) == 3
    # On the cores each has a worker of its own.
    assert [o.result[2] for o in run_cells([cells[0], cells[1]], rng=0, jobs=2)] == [1, 1]


def test_one_process_is_enough_for_a_gpu_with_one_job():
    cells = [Cell.of(placed, of=0), Cell.of(placed, of=1)]
    outcomes = run_cells(cells, rng=0, jobs=1, backend="cupy")
    assert [outcome.result for outcome in outcomes] == [f"cupy {os.getpid()}"] * 2


def test_where_cells_run_in_words():
    assert placement(jobs=2, backend="numpy") == ""
    assert "GPU: one process" in placement(jobs=2, backend="cupy")
    assert "cores: 2 processes" in placement(jobs=2, backend="cupy")
    assert "this process" in placement(jobs=1, backend="cupy")
    assert "cluster" in placement(jobs=2, backend="cupy", scheduler="tcp://10.0.0.1:8786")


def test_memory_of_the_gpu_is_given_back(monkeypatch):
    calls = []
    pool = SimpleNamespace(free_all_blocks=lambda: calls.append("freed"))
    cupy = SimpleNamespace(get_default_memory_pool=lambda: pool)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    free_gpu()
    assert calls == ["freed"]


def test_bad_arguments():
    for changes, message in (
        ({"rng": -1}, r"rng \(--seed\) must be an integer >= 0, got -1"),
        ({"jobs": 0}, "jobs must be >= 1, or -1 for all cores, got 0"),
        ({"time_limit": 0}, "time_limit must be a number of seconds > 0, got 0"),
        ({"time_limit": float("nan")}, "time_limit must be"),
    ):
        value_error(message, run_cells, NUMBERS, **({"rng": 0, "jobs": 1} | changes))


def test_bad_cells():
    type_error("cells must be Cell objects, got 3", list, run_cells([3], rng=0))
    check_run(0, -1)


def test_leaving_the_iteration_keeps_what_was_told(tmp_path):
    cells = [*NUMBERS[:2], Cell.of(number, of=9, nap=1e4), *NUMBERS[2:]]
    with RunStore(tmp_path / "runs.sqlite") as store:
        run = run_cells(cells, rng=0, jobs=2, store=store)
        told = [next(run).cell for _ in range(5)]
        run.close()
        for cell in told:
            assert store.find(cell.identity(0, "numpy"))


def test_a_worker_that_dies_ends_the_run_and_loses_nothing_finished(tmp_path):
    killer = Cell.of(dies, log=str(tmp_path / "dies"), times=1)
    cells = [*NUMBERS[:6], killer, *NUMBERS[6:]]
    told = []
    with RunStore(tmp_path / "runs.sqlite") as store:
        with pytest.raises(RuntimeError, match=r"a worker process died.*dies\(log=.*, times=1\)"):
            told.extend(run_cells(cells, rng=0, jobs=2, store=store))
        assert told
        again = {o.cell: o for o in run_cells(cells, rng=0, jobs=2, store=store)}
    assert again[killer].result == 1
    for outcome in told:
        assert again[outcome.cell] == replace(outcome, stored=True)


def test_time_limit_abandons_what_runs(tmp_path):
    cells = [NUMBERS[0], Cell.of(number, of=1, nap=1e4), Cell.of(number, of=2, nap=1e4)]
    with RunStore(tmp_path / "runs.sqlite") as store:
        list(run_cells(cells[:1], rng=0, jobs=1, store=store))
        outcomes = list(run_cells(cells, rng=0, jobs=1, store=store, time_limit=0.2))
    assert [outcome.cell for outcome in outcomes] == cells[:1]


# Dask.


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes with a scheduler in this one."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


def test_same_bits_on_a_cluster(cluster, expected):
    run = run_cells(CELLS, rng=7, scheduler=cluster.scheduler_address, batch_repeats=lambda _: 2)
    assert table(run) == expected


def test_cluster_of_joblib(cluster, expected):
    from distributed import Client

    with Client(cluster) as client:
        with joblib.parallel_config(backend="dask", client=client):
            assert table(run_cells(CELLS, rng=7)) == expected
        with joblib.parallel_config(backend="dask"):
            assert table(run_cells(NUMBERS, rng=7)) == {c: expected[c] for c in NUMBERS}
        assert client.status == "running"


def test_time_limit_on_a_cluster(cluster):
    cells = [Cell.of(number, of=i, nap=2) for i in range(20)]
    run = run_cells(cells, rng=0, scheduler=cluster.scheduler_address, time_limit=0.5)
    assert len(list(run)) < 20


@pytest.mark.slow
def test_failures_and_other_code_on_a_cluster(cluster):
    other = Cell.of(number, of=1)
    vars(other)["version"] = "older"
    cells = [Cell.of(fails, how="two"), other, NUMBERS[0]]
    run = run_cells(cells, rng=0, scheduler=cluster.scheduler_address)
    results = {outcome.cell: outcome.result for outcome in run}
    found = [results[cell] for cell in cells]
    assert "1 and 2" in str(found[0])
    assert "has other code for number" in str(found[1])
    assert isinstance(found[2], float)


@pytest.mark.slow
def test_a_cluster_worker_that_is_killed(cluster):
    cells = [Cell.of(number, of=i, nap=0.05) for i in range(40)]
    run = run_cells(cells, rng=0, scheduler=cluster.scheduler_address)
    found = [next(run)]
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    found += run
    value = {cell: number(rng=cell.seed(0), of=i) for i, cell in enumerate(cells)}
    assert {o.cell: o.result for o in found} == value


def test_cluster_out_of_reach(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("iclimit.runs.workers.PATIENCE", 0.5)
    for address in ("tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nowhere", "http://127.0.0.1:9"):
        with pytest.raises(ConnectionError, match=address):
            next(run_cells(NUMBERS, rng=0, scheduler=address))


@pytest.mark.skipif(sys.platform != "linux", reason="process numbers of Linux")
def test_semaphores_of_killed_runs_are_removed(tmp_path):
    command = (
        "import os, sys; from pathlib import Path; "
        "from iclimit.runs.workers import claim_semaphores; "
        "claim_semaphores(Path(sys.argv[1])); sys.argv[2:] and os._exit(1)"
    )
    folder = str(tmp_path)
    pids = []
    for words in ([], ["killed"]):
        with subprocess.Popen([sys.executable, "-c", command, folder, *words]) as process:
            process.wait()
        pids.append(process.pid)
    ended, killed = pids
    [mark] = tmp_path.iterdir()  # which one that ended has removed
    assert mark.name.endswith(f"-{killed}")
    # Those of another space of process numbers have owners that cannot be seen here.
    kept = [tmp_path / f"sem.loky-{pid}-a" for pid in (os.getpid(), ended, 2**30)]
    kept += [tmp_path / f"sem.other-{killed}-a"]
    for file in (*kept, tmp_path / f"sem.loky-{killed}-a"):
        file.touch()
    foreign = tmp_path / f"iclimit-1-{killed}"
    foreign.touch()
    mark_again = mark.read_bytes()
    remove_abandoned(tmp_path)
    assert (tmp_path / f"sem.loky-{killed}-a").exists()
    foreign.unlink()
    mark.write_bytes(mark_again)
    remove_abandoned(tmp_path)
    assert set(tmp_path.iterdir()) == set(kept)


def test_dask_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RuntimeError, match=r"pip install 'iclimit\[cluster\]'"):
        next(run_cells(NUMBERS, rng=0, scheduler="tcp://127.0.0.1:9"))
