"""Random parameters at which statements are computed."""

import numpy as np


def drawn(seed: int, count: int = 400, **ranges: tuple[float, float]) -> dict[str, np.ndarray]:
    """Log-uniform parameters in given ranges."""
    generator = np.random.default_rng(seed)
    return {
        name: np.exp(generator.uniform(*np.log(bounds), count)) for name, bounds in ranges.items()
    }
