"""Which results on record come from code that is no longer there."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache

from iclimit.runs.code_version import code_version
from iclimit.runs.store import StoredRun

_PACKAGE = __name__.partition(".")[0]


def obsolete(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Runs that will never be used again, because the code that computed them has changed.

    Functions outside iclimit are not looked at (their modules would have to be imported): runs of
    these are not obsolete.  A run that needed the results of others is obsolete with any of them
    that is among ``runs``.
    """
    ours = [run for run in runs if run.function.partition(".")[0] == _PACKAGE]
    outdated = {
        run.code
        for run in ours
        if "-" not in run.code and run.code != current_version(run.function)
    }
    return [
        run
        for run in ours
        if current_version(run.function) not in run.code.split("-")
        or not outdated.isdisjoint(run.code.split("-"))
    ]


@cache
def current_version(function: str) -> str:
    """Code version of a function of iclimit by its full name; empty if there is none now."""
    module, _, name = function.rpartition(".")
    try:
        return code_version(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError):
        return ""
