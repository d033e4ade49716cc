"""Published reference data, and functions that read it; README.md says where each file is from."""

import csv
from importlib import resources


def read_reference(name: str) -> list[dict[str, str]]:
    """Rows of a published table of this folder, without its comments."""
    text = (resources.files(__name__) / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
