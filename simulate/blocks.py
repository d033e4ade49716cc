"""Row blocks: long arrays handled in pieces, sized for where they are.

On the host a piece stays in cache, so that what is computed of it never reaches main memory.  On a
GPU pieces are large, since every operation on one is a kernel launch, and only bound the memory
of temporaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from array_api_compat import is_cupy_namespace

HOST_BLOCK = 3 * 2**17
"""Bytes of a block on the host.  Matrix products of d = 200 in blocks of 256 to 512 KiB ran at
about 0.7 of the rate of large square ones, less below and above (1 MiB of L2 cache)."""

DEVICE_BLOCK = 2**28
"""Bytes of a block on a GPU; not tuned on hardware."""


SYNC_EVERY = 8
"""Steps of a loop after which a GPU is asked whether to go on, each time waiting for all work."""


def looks_every(xp: Any) -> int:
    """Steps of a loop after which to look at its arrays."""
    return SYNC_EVERY if is_cupy_namespace(xp) else 1


def row_blocks(xp: Any, rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices that cover so many rows in order, each a block of so many bytes a row."""
    block = DEVICE_BLOCK if is_cupy_namespace(xp) else HOST_BLOCK
    step = max(1, block // row_bytes)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
