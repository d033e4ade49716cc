"""The browser of the tests ends with them."""

import time

import psutil
import pytest
from started_browser import started_browser
from started_commands import PATIENCE, POLL

pytestmark = pytest.mark.slow


def running(profile):
    """Processes that were given a profile."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and any(profile in word for word in process.info["cmdline"] or ())
    ]


@pytest.mark.parametrize("stopped", [False, True])
def test_nothing_is_left_even_of_a_browser_that_does_not_answer(stopped):
    with started_browser() as driver:
        profile = driver.capabilities["chrome"]["userDataDir"]
        processes = running(profile)
        assert processes
        if stopped:
            for process in processes:
                process.suspend()
    # Nobody may collect what has ended, so it is not waited for as a child is.
    end = time.monotonic() + PATIENCE
    while running(profile) and time.monotonic() < end:
        time.sleep(POLL)
    assert not running(profile)
