"""Runs that are interrupted, killed or doubled, and what the store holds then."""

import os
import signal
import sys
from contextlib import contextmanager

import pytest
from sample_cells import number
from started_commands import PATIENCE, send, started, wait_until, wait_until_gone

from iclimit.runs.cell import Cell
from iclimit.runs.execution import run_cells
from iclimit.runs.store import RunStore
from iclimit.runs.workers import AHEAD

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

CELLS = 120
"""Cells of a sweep; each takes 20 ms or more."""

SWEEP = f"""
import sys
from sample_cells import number
from iclimit.runs.cell import Cell
from iclimit.runs.execution import run_cells
from iclimit.runs.store import RunStore

cells = [Cell.of(number, of=i, nap=0.02, log=sys.argv[2]) for i in range({CELLS})]
cells.append(Cell.of(number, of=0, nap=1e4))  # a busy machine may be slow to send the signal
try:
    with RunStore(sys.argv[1]) as store:
        for outcome in run_cells(cells, rng=0, jobs=int(sys.argv[3]), store=store):
            pass
except KeyboardInterrupt:
    print("interrupted")
"""


def all_cells(log):
    return [Cell.of(number, of=i, nap=0.02, log=str(log)) for i in range(CELLS)]


def lines(log):
    return log.read_text().splitlines() if log.exists() else []


@contextmanager
def running_sweep(folder, jobs):
    """A sweep that has begun some of its cells."""
    arguments = (str(folder / "runs.sqlite"), str(folder / "log"), str(jobs))
    command = (sys.executable, "-c", SWEEP, *arguments)
    with started(*command, env=ENVIRONMENT) as process:
        wait_until(lambda: len(lines(folder / "log")) >= 10, process)
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_leaves_nothing_but_what_is_finished(tmp_path, jobs):
    log = tmp_path / "log"
    with running_sweep(tmp_path, jobs) as process:
        assert send(process, signal.SIGINT) == (0, "interrupted\n", "")
        wait_until_gone(process)
    begun = lines(log)
    assert 10 <= len(begun) <= CELLS
    cells = all_cells(log)
    with RunStore(tmp_path / "runs.sqlite") as store:
        missing = [i for i, cell in enumerate(cells) if not store.find(cell.identity(0, "numpy"))]
        # At most the cells in flight were begun and not recorded.
        assert CELLS - len(missing) >= len(begun) - AHEAD * jobs
        outcomes = list(run_cells(cells, rng=0, jobs=1, store=store))
    assert [f"number {i}" for i in missing] == lines(log)[len(begun) :]
    assert sum(outcome.stored for outcome in outcomes) == CELLS - len(missing)
    found = {outcome.cell: outcome.result for outcome in outcomes}
    assert found == {cell: number(rng=cell.seed(0), of=i) for i, cell in enumerate(cells)}


@pytest.mark.slow
def test_workers_end_with_their_parent(tmp_path):
    with running_sweep(tmp_path, 2) as process:
        process.kill()
        process.wait(PATIENCE)
        wait_until_gone(process)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["kill", "pools", "together"])
def test_store_survives(tmp_path, what):
    command = (sys.executable, "-m", "killed_runs", what, str(tmp_path))
    with started(*command, env=ENVIRONMENT) as process:
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
