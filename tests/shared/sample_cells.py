"""Cheap cell functions for tests of execution; a log file counts how often they run."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from iclimit.samples import Samples


def draws(*, rng, size, repeats=1, first_repeat=0, log="", nap=0):
    """Pairs of random numbers that went through BLAS and LAPACK, whose rounding may differ."""
    values = []
    for repeat, seed in list(enumerate(rng.spawn(first_repeat + repeats)))[first_repeat:]:
        note(log, f"draws {size} {repeat}")
        time.sleep(nap)
        matrix = np.random.default_rng(seed).standard_normal((40 + size, 300))
        product = matrix @ matrix.T
        values.append((product.sum(), np.linalg.inv(product).sum()))
    return Samples(("icl", "idg"), np.array(values), {"size": size})


def number(*, rng, of, log="", nap=0):
    """One random number."""
    time.sleep(nap)
    note(log, f"number {of}")
    return float(np.random.default_rng(rng).standard_normal())


# What `placed` has left in memory.
LEFT = []


def placed(*, rng, of, leaves=0, nap=0, backend="numpy"):  # noqa: ARG001
    """Backend and number of the process, in which so many numbers are left behind."""
    LEFT.append(np.ones(leaves))
    time.sleep(nap)
    return f"{backend} {os.getpid()}"


def shared(*, rng, of, backend="numpy"):
    """The argument, a random number of its own, and how many were computed in one go."""
    [value] = compute_shared([{"rng": rng, "of": of, "backend": backend}])
    return value


def compute_shared(calls):
    """Results of `shared`; that of -1 is an error."""
    return [
        TwoArgumentsError(1, 2)
        if call["of"] == -1
        else [call["of"], float(np.random.default_rng(call["rng"]).random()), len(calls)]
        for call in calls
    ]


shared.together = compute_shared


def total(*, rng, parts):  # noqa: ARG001
    """Sum over the results of other cells, however nested."""
    return sum(map(_sum, parts)) if isinstance(parts, tuple) else _sum(parts)


def _sum(part):
    if isinstance(part, tuple):
        return sum(map(_sum, part))
    return float(part.icl.samples.sum()) if isinstance(part, Samples) else float(part)


class TwoArgumentsError(Exception):
    """Can be pickled, but not read back."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def fails(*, rng, how, log=""):  # noqa: ARG001
    """Go wrong in some way."""
    note(log, f"fails {how}")
    if how == "value":
        raise ValueError("no such value")
    if how == "two":
        raise TwoArgumentsError(1, 2)
    if how == "exit":
        sys.exit(3)
    return lambda: None


def dies(*, rng, log, times):  # noqa: ARG001
    """Kill the process that computes it, the first so many times."""
    note(log, "dies")
    if Path(log).read_text().count("dies") <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return times


def blas_threads(*, rng, of):  # noqa: ARG001
    """Most threads that a BLAS uses here."""
    from threadpoolctl import threadpool_info

    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def blocks_interrupts(*, rng):  # noqa: ARG001
    """Whether this process is safe from Ctrl-C whatever it does about it."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def note(log, line):
    """Append a line to a file, in one write."""
    if log:
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, f"{line}\n".encode())
        os.close(file)
