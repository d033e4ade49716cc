"""A stand-in for CuPy where there is no GPU: it refuses what CuPy refuses.

Arrays are those of array_api_strict that no longer turn into NumPy's by themselves.  Random
numbers come from a generator that has the methods of CuPy's and no other.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import array_api_strict
import numpy as np
import pytest

from iclimit.simulate import arrays
from iclimit.simulate.arrays import Backend

# Methods of cupy.random.Generator by its reference (docs.cupy.dev, CuPy 14.2), each with the
# number of leading arguments that must be of CuPy, or float or int to the letter: NumPy's scalars
# are refused there.
METHODS = {
    "beta": 2,
    "binomial": 2,
    "chisquare": 1,
    "dirichlet": 1,
    "exponential": 0,
    "f": 2,
    "gamma": 1,
    "geometric": 1,
    "hypergeometric": 3,
    "integers": 0,
    "logseries": 1,
    "poisson": 1,
    "power": 1,
    "random": 0,
    "standard_exponential": 0,
    "standard_gamma": 1,
    "standard_normal": 0,
    "uniform": 0,
}

# Type of the arrays.
StandInArray = type(array_api_strict.asarray(0.0))


class StandInGenerator:
    """NumPy's random numbers, by the methods of CuPy's generator."""

    def __init__(self, seed: Any) -> None:
        self.generator = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(f"cupy.random.Generator has no method {name!r}")

        def draw(*arguments: Any, **options: Any) -> Any:
            for value in arguments[: METHODS[name]]:
                if not isinstance(value, StandInArray) and type(value) not in (float, int):
                    raise TypeError(f"{value!r} is required to be a cupy.ndarray or a scalar")
            values = [host(value) for value in arguments]
            return array_api_strict.asarray(getattr(self.generator, name)(*values, **options))

        return draw


class StandInBackend(Backend):
    """Backend of the stand-in, with the random numbers of NumPy or with its own, as CuPy has."""

    own_numbers = False

    # Bytes that are free.
    free = 2**40

    def free_memory(self) -> int:
        return self.free

    def generator(self, seed: np.random.SeedSequence) -> Any:
        if self.own_numbers:
            return StandInGenerator(int(seed.generate_state(1, np.uint64)[0]))
        return StandInGenerator(seed)


class OwnNumbers(StandInBackend):
    """Backend whose random numbers differ from those of NumPy with the same seed."""

    own_numbers = True


def host(value: Any) -> Any:
    """Copy to the host by name, as ``cupy.ndarray.get`` does; other values are as they are."""
    return value._array.copy() if isinstance(value, StandInArray) else value


def refuse(*_: object, **__: object) -> Any:
    """Error of CuPy where an array would have to be copied to the host unasked."""
    raise TypeError("Implicit conversion to a NumPy array is not allowed.")


@contextmanager
def stand_in(modules: list[Any], *, own_numbers: bool = False) -> Iterator[Backend]:
    """Make "cupy" a backend of the modules, with arrays that stay on their device."""
    backend = (OwnNumbers if own_numbers else StandInBackend)("cupy", array_api_strict)
    known = arrays.get_backend

    def get_backend(name: str) -> Backend:
        return backend if name == "cupy" else known(name)

    with pytest.MonkeyPatch.context() as patch:
        for method in ("__buffer__", "__array__", "__dlpack__"):
            patch.setattr(StandInArray, method, refuse)
        patch.setattr(arrays, "is_cupy_namespace", lambda xp: xp is array_api_strict)
        for module in modules:
            if hasattr(module, "get_backend"):
                patch.setattr(module, "get_backend", get_backend)
            if hasattr(module, "to_host"):
                patch.setattr(module, "to_host", lambda value: np.asarray(host(value)))
        yield backend
