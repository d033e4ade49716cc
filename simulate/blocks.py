"""Row blocks: long arrays are handled in pieces.

On the host a piece fits into the cache, so that intermediate results never reach main memory.
On a GPU every operation on a piece is a kernel launch, so pieces are large: they only bound the
memory of temporary arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from array_api_compat import is_cupy_namespace

HOST_BLOCK = 3 * 2**17
"""Bytes of a block on the host.  With 1 MiB of L2 cache, matrix products of d = 200 in blocks of
256 to 512 KiB ran at about 0.7 of the rate of large square ones, and more slowly in others."""

DEVICE_BLOCK = 2**28
"""Bytes of a block on a GPU; not tuned on hardware."""


SYNC_EVERY = 8
"""Steps of a loop between two looks at results on a GPU, each of which waits for all work."""


def looks_every(xp: Any) -> int:
    """Steps of a loop between two looks at its results."""
    return SYNC_EVERY if is_cupy_namespace(xp) else 1


def row_blocks(xp: Any, rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices that cover the rows in order, one block each; a row takes ``row_bytes``."""
    block = DEVICE_BLOCK if is_cupy_namespace(xp) else HOST_BLOCK
    step = max(1, block // row_bytes)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
