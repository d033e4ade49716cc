"""One BLAS thread for computations on small matrices.

BLAS hands the parts of a small product to its threads within microseconds, and the threads wait
for the next product by spinning.  Where other processes need the cores, each product waits for a
thread that is not running.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from functools import cache, wraps
from numbers import Integral
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController

Function = TypeVar("Function", bound=Callable[..., Any])

# Size from which matrices get as many threads as there are.
#
# Measured on two cores, with one and with two threads in turn.  While other processes wanted both
# cores, two threads took more CPU at all sizes: `finite_size_errors` 7 times as much at d = 64
# (.5 s for .07), 19 times at 100 (4.8 s for .25), 7 times at 200, 3 times at 400 (12 s for 3.7),
# `simulate_errors` 20 times at d = 40 and 100, and the wall time was longer by as much.  The least
# of many times, which is that of a quiet moment, was the same at d = 100; with two threads
# products were 1.8 times as fast at 200 and 1.5 times at 400, solutions 1.4 times at 200 and 1.3
# times at 800, eigenvectors 1.1 times at 200 and 1.2 times at 400.  So below the line two threads
# lose much more on a busy machine than they gain on a quiet one.
LARGE = 400


class _Limit:
    """Libraries and their users, of whom the first sets one thread and the last restores."""

    def __init__(self, libraries: list[Any]) -> None:
        self._libraries = libraries
        self._users = 0
        self._before: list[int] = []

    def enter(self) -> None:
        if self._users == 0:
            self._before = [library.get_num_threads() for library in self._libraries]
            self._set([1] * len(self._libraries))
        self._users += 1

    def leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self._set(self._before)

    def _set(self, counts: list[int]) -> None:
        for library, count in zip(self._libraries, counts, strict=True):
            # threadpoolctl 3.8 listens to that thread of Python only which has set it first.
            free = getattr(library, "clear_controlling_thread", lambda **_: None)
            free(force=True)
            library.set_num_threads(count)
            free(force=True)


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """BLAS libraries with threads of the process, and with threads of each thread of Python.

    Finding them takes milliseconds.
    """
    import scipy.linalg  # noqa: F401  SciPy has a BLAS of its own, found only where it is loaded

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    own = [
        library
        for library in libraries
        if library.internal_api == "openblas" and library.threading_layer == "openmp"
    ]
    return [library for library in libraries if library not in own], own


class OneBlasThread(ContextDecorator):
    """Context, or decorator of a function, within which BLAS computes with one thread.

    The number of threads belongs to the process.  The first user sets it to one, and the last one
    to leave restores what was there before, whether users are nested or run in several threads of
    Python at the same time.  (OpenBLAS with OpenMP has a number for each thread of Python; users
    are counted for each, then.)  The first entry of a process takes milliseconds, later ones some
    ten microseconds, and nested ones one.

    A computation within has one thread whoever else is running, so that its rounding does not
    depend on them.  What runs outside at the same time may find one thread instead of several.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.threads import one_blas_thread
    >>> with one_blas_thread:
    ...     inverse = np.linalg.inv(np.eye(3))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: _Limit | None = None
        self._local = threading.local()

    def __enter__(self) -> OneBlasThread:
        shared, own = _libraries()
        with self._lock:
            if self._shared is None:
                self._shared = _Limit(shared)
            self._shared.enter()
        if own:
            self._local.limit = getattr(self._local, "limit", None) or _Limit(own)
            self._local.limit.enter()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._shared is not None:
                self._shared.leave()
        if hasattr(self._local, "limit"):
            self._local.limit.leave()


# The one that everybody uses: the number of threads is one of the process.
one_blas_thread = OneBlasThread()


def blas_threads_for(size: object) -> AbstractContextManager[object]:
    """Context with one BLAS thread for matrices of a size below `LARGE`.

    Parameters
    ----------
    size : int
        Larger matrices get the threads that there are.  What is no integer, and will be refused,
        counts as small.

    Examples
    --------
    >>> from iclimit.threads import LARGE, blas_threads_for, one_blas_thread
    >>> blas_threads_for(100) is one_blas_thread, blas_threads_for(LARGE) is one_blas_thread
    (True, False)
    """
    if isinstance(size, Integral) and int(size) >= LARGE:
        return nullcontext()
    return one_blas_thread


def blas_threads_by_dim(function: Function) -> Function:
    """Decorator: compute with one BLAS thread unless the dimension is `LARGE` or more.

    It is the keyword ``dim``, or that of a run which is the first argument.
    """

    @wraps(function)
    def limited(*arguments: Any, **keywords: Any) -> Any:
        dim = keywords.get("dim")
        if dim is None and arguments:
            dim = getattr(arguments[0], "dim", None)
        with blas_threads_for(dim):
            return function(*arguments, **keywords)

    return cast(Function, limited)
