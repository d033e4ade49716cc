"""One measurement in a process of its own: CPU time and peak memory are then its own too."""

import json
import os
import resource
import subprocess
import sys
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def measure(function: str, *, threads: int = 1, **arguments: Any) -> dict[str, float]:
    """Run a function of `benchmarks.work` in a child process with one thread, or several.

    Returns what the function returns and ``memory``, the peak resident memory in MiB.  A child
    inherits the peak of the process that starts it, so the parent must stay smaller than a
    child that only imports; it therefore does no work itself.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", function, json.dumps(arguments)],
        env=os.environ | dict.fromkeys(THREADS, str(threads)),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    """Entry point of the child."""
    from benchmarks import work

    function, arguments = sys.argv[1:]
    result = getattr(work, function)(**json.loads(arguments))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts KiB, macOS bytes.
    result["memory"] = peak / (2**20 if sys.platform == "darwin" else 2**10)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
