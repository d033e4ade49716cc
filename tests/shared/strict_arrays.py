"""A backend of array_api_strict with NumPy's random numbers."""

from typing import Any

import array_api_strict
import numpy as np

from iclimit.simulate.arrays import Backend


class StrictGenerator:
    """NumPy's random numbers as strict arrays."""

    def __init__(self, seed: Any) -> None:
        self.generator = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.generator, name)
        return lambda *args, **kwargs: array_api_strict.asarray(method(*args, **kwargs))


class StrictBackend(Backend):
    """Backend whose arrays allow what the array API standard says and nothing else."""

    def generator(self, seed: np.random.SeedSequence) -> Any:
        return StrictGenerator(seed)
