"""A store with many runs: ``python -m benchmarks.many_runs`` puts 100,000 on record.

Shows the size of the store, how long runs take to be recorded and recalled, and time and memory of
the verbs of ``iclimit runs``.  The runs are the smallest there are, so nearly all of the time is
that of the store.  It waits for the disk after every run; ``--folder /dev/shm`` leaves that out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from iclimit.runs import Cell, RunStore, run_cells
from iclimit.simulate.pretraining import simulate_errors

VERBS = (
    ("list",),
    ("list", "--function", "no_function"),
    ("list", "--limit", "1000000", "--format", "csv"),
    ("export", "-o", "runs.csv"),
    ("export", "-o", "runs.nc"),
    ("prune", "--obsolete", "--dry-run"),
    ("prune", "--older-than", "1h", "--dry-run"),
)


def cells(count: int) -> Iterator[Cell]:
    """Pretraining runs that differ in their noise."""
    for i in range(count):
        sizes = {"dim": 2, "context": 2, "tasks": 2, "prompts": 20}
        yield Cell.of(simulate_errors, **sizes, rho=1e-5 * (i + 1), ridge=0.1, repeats=1)


def timed_run(count: int, path: Path) -> str:
    """Seconds and results of a run of so many cells, recalled if they are on record."""
    start = time.perf_counter()
    with RunStore(path) as store:
        stored = sum(each.stored for each in run_cells(cells(count), rng=0, jobs=1, store=store))
    seconds = time.perf_counter() - start
    return f"{seconds:8.1f} s, {1e3 * seconds / count:.2f} ms each, {stored:,} of them recalled"


def verb(words: tuple[str, ...], path: Path, folder: Path) -> str:
    """Seconds and peak memory of a verb of ``iclimit runs`` in a process of its own."""
    command = [sys.executable, "-m", "iclimit", "runs", *words, "--store", str(path)]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    ended = os.waitstatus_to_exitcode(status)
    return f"{seconds:8.1f} s, {usage.ru_maxrss / 1024:.0f} MiB, status {ended}"


def main() -> None:
    """Record, recall, use."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_runs", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--folder", help="where the store is put")
    arguments = parser.parse_args()
    count = arguments.count
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        path = folder / "runs.sqlite"
        print(f"{count:,} runs", flush=True)
        print(f"{'recorded':46}{timed_run(count, path)}", flush=True)
        print(f"{'recalled':46}{timed_run(count, path)}", flush=True)
        size = sum(each.stat().st_size for each in folder.glob("runs.sqlite*"))
        print(f"{'store':46}{size / 2**20:8.1f} MiB, {size / count:.0f} bytes each")
        for words in VERBS:
            print(f"{'runs ' + ' '.join(words):46}{verb(words, path, folder)}", flush=True)


if __name__ == "__main__":
    main()
