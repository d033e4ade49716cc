"""Ctrl-C, deferred where it would be lost or leave something unfinished."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Defer Ctrl-C to the end.  Processes that start meanwhile never get it: they inherit this.

    Python drops an interrupt that reaches it within a callback, of which imports have many.
    """
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
