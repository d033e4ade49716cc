"""Runs that are interrupted, terminated, killed or doubled, and what the store holds then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iclimit.runs.cell import Cell
from iclimit.runs.execution import run_cells
from iclimit.runs.store import RunStore

sys.path.insert(0, str(Path(__file__).parent))  # where workers find the cells, too
from sample_cells import number

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")

HERE = Path(__file__).parent
PATIENCE = 60.0
"""Seconds within which anything must happen, on the slowest machine."""

SWEEP = """
import sys
from sample_cells import number
from iclimit.runs.cell import Cell
from iclimit.runs.execution import run_cells
from iclimit.runs.store import RunStore

cells = [Cell.of(number, of=i, nap=0.02, log=sys.argv[2]) for i in range(120)]
try:
    with RunStore(sys.argv[1]) as store:
        for outcome in run_cells(cells, rng=0, jobs=int(sys.argv[3]), store=store):
            pass
except KeyboardInterrupt:
    print("interrupted")
"""


def heed_interrupts() -> None:
    """What is started in the background of a shell ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def python(*arguments: str) -> subprocess.Popen:
    """Start a script that may import the cells of these tests, in a group of its own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )


def wait_until_gone(group: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("processes are left")


def lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def start_sweep(folder: Path, jobs: int) -> subprocess.Popen:
    log = folder / "log"
    run = python("-c", SWEEP, str(folder / "runs.sqlite"), str(log), str(jobs))
    deadline = time.monotonic() + PATIENCE
    while len(lines(log)) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    return run


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_leaves_nothing_but_what_is_finished(tmp_path: Path, jobs: int) -> None:
    run = start_sweep(tmp_path, jobs)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does, to parent and workers
    assert run.communicate(timeout=PATIENCE) == ("interrupted\n", "")
    wait_until_gone(run.pid)
    log = tmp_path / "log"
    begun = lines(log)
    assert 10 <= len(begun) < 120
    cells = [Cell.of(number, of=i, nap=0.02, log=str(log)) for i in range(120)]
    with RunStore(tmp_path / "runs.sqlite") as store:
        missing = [i for i, cell in enumerate(cells) if not store.find(cell.identity(0, "numpy"))]
        # At most the cells in flight, two for each worker, were begun and not recorded.
        assert 120 - len(missing) >= len(begun) - 2 * jobs
        outcomes = list(run_cells(cells, rng=0, jobs=1, store=store))
    assert [f"number {i}" for i in missing] == lines(log)[len(begun) :]
    assert sum(outcome.stored for outcome in outcomes) == 120 - len(missing)
    found = {outcome.cell: outcome.result for outcome in outcomes}
    assert found == {cell: number(rng=cell.seed(0), of=i) for i, cell in enumerate(cells)}


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    run = start_sweep(tmp_path, 2)
    run.kill()
    run.wait(PATIENCE)
    wait_until_gone(run.pid)
    run.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("what", ["kill", "pools", "together"])
def test_store_survives(tmp_path: Path, what: str) -> None:
    run = python(str(HERE.parents[1] / "shared" / "killed_runs.py"), what, str(tmp_path))
    _, errors = run.communicate(timeout=3 * PATIENCE)
    assert run.returncode == 0, errors
