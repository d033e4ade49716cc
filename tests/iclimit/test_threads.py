"""BLAS threads: one within, as many as before outside, for nested and for concurrent users."""

import threading

import numpy as np
import pytest
from sample_cells import blas_threads
from threadpoolctl import threadpool_limits

from iclimit import threads
from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.simulate.pretraining import simulate_errors
from iclimit.threads import LARGE, blas_threads_by_dim, blas_threads_for, one_blas_thread

# Seconds after which a thread that hangs fails the test.
PATIENCE = 60

RUN = {"context": 4, "tasks": 2, "prompts": 20, "rho": 0.1}


def now():
    """Number of BLAS threads, of the library that has most."""
    return blas_threads(rng=None, of=None)


@pytest.fixture(autouse=True)
def two_threads():
    """Two threads at the start; what is there at the end must be the same."""
    with threadpool_limits(2, user_api="blas"):
        before = now()
        if before == 1:
            pytest.skip("this BLAS has one thread")
        yield
        assert now() == before


def test_nested_users_leave_it_to_the_last():
    with one_blas_thread:
        assert now() == 1
        with one_blas_thread:
            assert now() == 1
        assert now() == 1
    assert now() == 2


def test_an_exception_restores_it():
    with pytest.raises(ZeroDivisionError), one_blas_thread, one_blas_thread:
        raise ZeroDivisionError
    assert now() == 2


def test_concurrent_users_leave_it_to_the_last():
    """The first to come leaves first; the second one still has one thread."""
    inside = threading.Event()
    ends = threading.Event()
    seen = []

    def second():
        with one_blas_thread:
            inside.set()
            ends.wait(PATIENCE)
            seen.append(now())

    other = threading.Thread(target=second)
    with one_blas_thread:
        other.start()
        inside.wait(PATIENCE)
    assert now() == 1
    ends.set()
    other.join()
    assert seen == [1]
    assert now() == 2


def test_many_concurrent_users_are_counted():
    barrier = threading.Barrier(8)
    seen = []

    def user():
        barrier.wait()
        for _ in range(50):
            with one_blas_thread, one_blas_thread:
                seen.append(now())

    users = [threading.Thread(target=user) for _ in range(8)]
    for each in users:
        each.start()
    for each in users:
        each.join()
    assert set(seen) == {1}
    assert now() == 2


class PerThread:
    """A library whose number of threads is one of each thread of Python, as OpenMP has it."""

    def __init__(self):
        self.local = threading.local()

    def get_num_threads(self):
        return getattr(self.local, "count", 4)

    def set_num_threads(self, count):
        self.local.count = count


def test_each_thread_of_python_counts_for_itself_where_limits_are_its_own(monkeypatch):
    library = PerThread()
    monkeypatch.setattr(threads, "_libraries", lambda: ([], [library]))
    context = threads.OneBlasThread()
    seen = []

    def user():
        with context, context:
            seen.append(library.get_num_threads())
        seen.append(library.get_num_threads())

    with context:
        other = threading.Thread(target=user)
        other.start()
        other.join()
        assert library.get_num_threads() == 1
    assert seen == [1, 4]
    assert library.get_num_threads() == 4


@pytest.mark.parametrize(
    ("size", "expected"), [(10, 1), (LARGE - 1, 1), (LARGE, 2), (np.int64(LARGE), 2), ("ten", 1)]
)
def test_large_matrices_keep_their_threads(size, expected):
    with blas_threads_for(size):
        assert now() == expected

    @blas_threads_by_dim
    def threads_within(*, dim):  # noqa: ARG001
        """Say how many threads there are."""
        return now()

    assert threads_within(dim=size) == expected
    assert threads_within.__doc__ == "Say how many threads there are."


@pytest.mark.parametrize("function", [finite_size_errors, simulate_errors])
def test_public_computations_set_it_once(function, monkeypatch):
    """Whatever they call in between: finding and setting is for the first user."""
    entries = []

    class Counted(threads.OneBlasThread):
        def __enter__(self):
            entries.append(now())
            return super().__enter__()

    monkeypatch.setattr(threads, "one_blas_thread", Counted())
    function(dim=4, **RUN, rng=0)
    assert entries == [2]
