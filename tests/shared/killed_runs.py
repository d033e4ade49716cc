"""Kills runs at random places and checks the store after each; a process of its own, to fork."""

import os
import pickle
import random
import signal
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import sample_cells
from sample_cells import draws, number, total

from iclimit.runs.cell import Cell
from iclimit.runs.encoding import encode
from iclimit.runs.execution import run_cells
from iclimit.runs.store import RunStore

KILLS = 12

EXACT = 8
"""Kills as a repeat begins; the others come later, perhaps so late that all is done."""

FEWEST, MOST = 3, 6
"""Repeats that a run begins before it is killed."""

BATCH = 2
"""Repeats in a batch, which is recorded as one."""

SHORTEST = 1e-6
"""Seconds of the shortest timer; none at all would switch it off."""


def all_cells(log):
    """Cells of some milliseconds, with and without repeats and needs."""
    extendable = [Cell.of(draws, size=i, repeats=6, nap=0.002, log=str(log)) for i in range(12)]
    plain = [Cell.of(number, of=i, nap=0.002, log=str(log)) for i in range(24)]
    sums = [Cell.of(total, parts=(extendable[i], (plain[i], 1))) for i in range(12)]
    return [*extendable, *plain, *sums]


def table(cells, store, jobs, told):
    """Encoded results in the order of the cells; what has been told is written to a file."""
    found = {}
    for outcome in run_cells(cells, rng=0, jobs=jobs, store=store, batch_repeats=lambda _: BATCH):
        found[outcome.cell] = encode(outcome.result)
        if told is not None:
            with open(told, "a") as file:
                print(cells.index(outcome.cell), file=file, flush=True)
    return [found[cell] for cell in cells]


CHILDREN = []


def in_child(action):
    """Begin something in a process group of its own, which exists when this returns."""
    child = os.fork()
    CHILDREN.append(child)
    if child == 0:
        os.setpgid(0, 0)
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    with suppress(PermissionError, ProcessLookupError):  # it may be ahead of this process
        os.setpgid(child, child)
    return child


def check_store(path, cells, told, *, complete=False):
    """Nothing that was told is lost, nothing is there twice; return the number of batches."""
    seen = {int(line) for line in told.read_text().split()} if told.exists() else set()
    batches = 0
    with RunStore(path) as store:
        for index, cell in enumerate(cells):
            found = store.find(cell.identity(0, "numpy"))
            repeats = [r for batch in found for r in range(batch.first, batch.first + batch.count)]
            wanted = list(range(cell.repeats or 1))
            assert len(repeats) == len(set(repeats))
            assert set(repeats) <= set(wanted)
            if complete or index in seen:
                assert sorted(repeats) == wanted, (index, repeats)
            batches += len(found)
    return batches


def run_with_store(path, cells, jobs, told, to):
    with RunStore(path) as store:
        result = table(cells, store, jobs, told)
    if to is not None:
        to.write_bytes(pickle.dumps(result))


def run_until(begun, late, path, cells, told):
    """Run until this process ends without a chance to clear up.

    It ends as it begins its repeat of the given number, of which `sample_cells.note` tells.  If it
    is to be late, it ends after some more processor time, in units of what a repeat has taken:
    then perhaps within a write.
    """
    note = sample_cells.note
    count = 0
    start = time.process_time()

    def noted(log, line):
        nonlocal count
        count += 1
        note(log, line)
        if count != begun:
            return
        if late is None:
            os.kill(os.getpid(), signal.SIGKILL)
        share = (time.process_time() - start) / begun
        signal.setitimer(signal.ITIMER_PROF, max(share * late, SHORTEST))

    sample_cells.note = noted
    run_with_store(path, cells, 1, told, None)


def kill_and_resume(folder):
    path = folder / "runs.sqlite"
    told = folder / "told"
    log = folder / "log"
    cells = all_cells(log)
    reference = table(cells, None, 1, None)
    places = random.Random(0)
    progress = [0]
    for life in range(KILLS):
        begun = places.randint(FEWEST, MOST)
        late = None if life < EXACT else places.uniform(0, 2)
        child = in_child(partial(run_until, begun, late, path, cells, told))
        status = os.waitpid(child, 0)[1]
        progress.append(check_store(path, cells, told))
        # Only what was begun is asserted on: where a late end finds the run is up to the machine.
        if status == 0:
            assert life >= EXACT  # the first kills let half of the repeats begin at most
            check_store(path, cells, told, complete=True)
        else:
            assert status == (signal.SIGKILL if late is None else signal.SIGPROF)
            assert progress[-1] >= progress[-2] + (begun - 1) // BATCH
    print(progress)
    with RunStore(path) as store:
        assert table(cells, store, 1, told) == reference
    check_store(path, cells, told, complete=True)


def kill_pools(folder):
    path = folder / "runs.sqlite"
    told = folder / "told"
    log = folder / "log"
    cells = all_cells(log)
    reference = table(cells, None, 1, None)
    child = in_child(lambda: run_with_store(path, cells, 2, told, None))
    while check_store(path, cells, told) < 8:
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    check_store(path, cells, told)
    with RunStore(path) as store:
        assert table(cells, store, 1, told) == reference
    check_store(path, cells, told, complete=True)


def together(folder):
    path = folder / "runs.sqlite"
    log = folder / "log"
    cells = all_cells(log)
    reference = table(cells, None, 1, None)
    log.rename(folder / "once")

    def start(i):
        told = folder / f"told{i}"
        to = folder / f"table{i}"
        return in_child(lambda: run_with_store(path, cells, 1, told, to))

    children = [start(i) for i in range(3)]
    while not log.exists() or len(log.read_text().split("\n")) < 20:
        time.sleep(0.001)
    os.killpg(children[0], signal.SIGKILL)
    killed, *others = (os.waitpid(child, 0)[1] for child in children)
    assert killed in (signal.SIGKILL, 0)  # 0 where a busy machine let it finish first
    assert others == [0, 0]
    for i in (1, 2):
        assert pickle.loads((folder / f"table{i}").read_bytes()) == reference
    check_store(path, cells, folder / "told1", complete=True)
    once, runs = ((folder / name).read_text().splitlines() for name in ("once", "log"))
    # Processes may repeat work of each other, and leave none out.
    assert set(runs) == set(once)


if __name__ == "__main__":
    try:
        {"kill": kill_and_resume, "pools": kill_pools, "together": together}[sys.argv[1]](
            Path(sys.argv[2])
        )
    finally:
        for each in CHILDREN:
            with suppress(ProcessLookupError):
                os.killpg(each, signal.SIGKILL)
