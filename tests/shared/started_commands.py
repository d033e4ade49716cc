"""Commands that a test starts, signals and always ends."""

import contextlib
import os
import signal
import subprocess
import time

PATIENCE = 120.0
"""Seconds within which anything must happen, on the slowest machine."""

POLL = 0.02
"""Seconds between two looks at what a command has done."""


@contextlib.contextmanager
def started(*command, env=None):
    """Start a command in a process group of its own; at the end the whole group is killed.

    The command heeds Ctrl-C even if the tests were started with interrupts ignored, as a shell
    does for what runs in its background.
    """
    process = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until(condition, process):
    """Wait until a condition holds; fail if the command ends before or takes too long."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process.poll() is not None:
            raise AssertionError(f"the command has ended: {process.communicate()}")
        assert time.monotonic() < deadline, f"nothing has happened in {PATIENCE} s"
        time.sleep(POLL)


def send(process, number):
    """Signal the group, as a terminal does; return the status and the output of the command."""
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def wait_until_gone(process):
    """Wait until no process of the group of an ended command is left; fail if one stays."""
    deadline = time.monotonic() + PATIENCE
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.killpg(process.pid, 0)
            assert time.monotonic() < deadline, "processes are left"
            time.sleep(POLL)
