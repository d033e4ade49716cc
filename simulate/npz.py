"""Arrays by name in .npz files: written whole or not at all, and read without pickle."""

from pathlib import Path
from typing import Any

import numpy as np

from iclimit.files import replacing


def save_npz(path: Path, **arrays: Any) -> None:
    """Write arrays; if that is interrupted, the old file stays."""
    # Given a name savez would append .npz.
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)


def load_npz(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of a file; one that is damaged raises all kinds of errors."""
    with path.open("rb") as stream, np.load(stream) as file:
        return {name: file[name] for name in file.files}
