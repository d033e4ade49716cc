"""Array backends and seeds: NumPy by default, CuPy when asked for.

Functions of this package that take arrays use the array API of those arrays, so they run on
whatever the sampler produced.  Only random numbers, which the array API standard does not have,
and the transfer to the host need the backend by name.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import array_api_compat
import numpy as np
from array_api_compat import is_cupy_namespace

from iclimit.checks import Seed, check_choice, shown
from iclimit.extras import import_extra

# An array of the chosen backend.
Array: TypeAlias = Any

# A random generator of the chosen backend: NumPy's, or CuPy's, which has the same methods.
Generator: TypeAlias = Any

# A dataclass of arrays.
Fields = TypeVar("Fields")

BACKENDS = ("numpy", "cupy")


@dataclass(frozen=True)
class Backend:
    """An array namespace with its random generators."""

    name: str
    xp: ModuleType

    def generator(self, seed: np.random.SeedSequence) -> Generator:
        """Random generator of this backend, seeded by a SeedSequence."""
        if self.name == "numpy":
            return np.random.default_rng(seed)
        return self.xp.random.default_rng(int(seed.generate_state(1, np.uint64)[0]))

    def generators(self, rng: Seed, repeats: int, first_repeat: int = 0) -> list[Generator]:
        """Independent generators of some repeats; that of a repeat depends on rng and it only."""
        seeds = seed_sequences(rng, first_repeat + repeats)[first_repeat:]
        return [self.generator(seed) for seed in seeds]

    def blocks(self, rng: Seed, count: int, block: int) -> Iterator[tuple[Generator, int]]:
        """Generators and sizes of the blocks, the last perhaps smaller, of so many samples."""
        for index, generator in enumerate(self.generators(rng, math.ceil(count / block))):
            yield generator, min(block, count - index * block)

    def free_memory(self) -> int:
        """Bytes that can be allocated: of memory without swapping, or of the GPU's."""
        if self.name != "cupy":
            import psutil  # loads for some milliseconds

            return int(psutil.virtual_memory().available)
        free, _ = self.xp.cuda.runtime.memGetInfo()
        # The system counts what the pool keeps for arrays to come as taken.
        return int(free) + int(self.xp.get_default_memory_pool().free_bytes())

    def asarray(self, value: Any) -> Array:
        """Copy host data to this backend."""
        return self.xp.asarray(value)


def get_backend(name: str) -> Backend:
    """Return the backend of that name.

    Raises
    ------
    ValueError
        If the name is unknown.
    RuntimeError
        If CuPy is not installed or finds no GPU.
    """
    check_choice("backend", name, BACKENDS)
    if name == "numpy":
        return Backend(name, array_api_compat.array_namespace(np.empty(0)))
    cupy = import_extra("cupy", "gpu", "backend 'cupy'")
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(f"backend 'cupy' finds no usable GPU: {error}") from error
    return Backend(name, array_api_compat.array_namespace(cupy.empty(0)))


def to_host(value: Array) -> np.ndarray:
    """Copy an array to NumPy."""
    return np.asarray(array_api_compat.to_device(value, "cpu"))


def concatenate_fields(parts: Iterable[Fields]) -> Fields:
    """One dataclass of arrays with the concatenated fields of several; None stays None."""
    several = list(parts)
    columns = zip(*(vars(part).values() for part in several), strict=True)
    return type(several[0])(
        *(None if column[0] is None else np.concatenate(column) for column in columns)
    )


def softmax(scores: Array, factor: float = 1.0) -> Array:
    """Weights along the last axis, proportional to the exponentials of scores times a factor."""
    xp = array_api_compat.array_namespace(scores)
    weights = xp.exp(factor * (scores - xp.max(scores, axis=-1, keepdims=True)))
    return weights / xp.sum(weights, axis=-1, keepdims=True)


def seed_sequences(rng: Seed | None, count: int) -> list[np.random.SeedSequence]:
    """Independent seeds of ``count`` repeats; repeat r has the same seed whatever the count.

    Parameters
    ----------
    rng : int, SeedSequence or Generator
        Root.  A Generator is advanced by one draw.
    count : int
        Number of repeats.

    Raises
    ------
    TypeError
        If rng is none of these.
    ValueError
        If it is a negative number.
    """
    root = seed_sequence(rng)
    return [
        np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, repeat))
        for repeat in range(count)
    ]


def seed_sequence(rng: Seed | None) -> np.random.SeedSequence:
    """Root seed of an int, SeedSequence or Generator, which is advanced by one draw.

    Raises
    ------
    TypeError
        If rng is none of these.
    ValueError
        If it is a negative number.
    """
    if isinstance(rng, np.random.Generator):
        rng = int(rng.integers(2**63))
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        if rng < 0:
            raise ValueError(f"rng must be an integer >= 0, got {shown(rng)}")
        rng = np.random.SeedSequence(int(rng))
    if not isinstance(rng, np.random.SeedSequence):
        raise TypeError(f"rng must be an int, SeedSequence or Generator, got {rng!r}")
    return rng


# Bytes of a block on the host.  With 1 MiB of L2 cache, matrix products of d = 200 in blocks of
# 256 to 512 KiB ran at about 0.7 of the rate of large square ones, and more slowly in others.
HOST_BLOCK = 3 * 2**17

# Bytes of a block on a GPU; not tuned on hardware.
DEVICE_BLOCK = 2**28


# Steps of a loop between two looks at results on a GPU, each of which waits for all work.
SYNC_EVERY = 8


def by_device(xp: ModuleType, device: int, host: int) -> int:
    """The number for a GPU, or that for the host."""
    return device if is_cupy_namespace(xp) else host


def looks_every(xp: ModuleType) -> int:
    """Steps of a loop between two looks at its results."""
    return by_device(xp, SYNC_EVERY, 1)


def row_blocks(xp: ModuleType, rows: int, row_bytes: int) -> Iterator[slice]:
    """Slices that cover the rows in order, one block each; a row takes ``row_bytes``."""
    step = max(1, by_device(xp, DEVICE_BLOCK, HOST_BLOCK) // row_bytes)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
