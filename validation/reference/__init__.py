"""Published reference data, and functions that read it; README.md says where each file is from."""

import csv
from importlib import resources
from typing import Literal, get_args

# Presets whose results may be kept, each in a folder of its name, and those that are.
Record = Literal["medium", "full"]
RECORDS: list[Record] = [
    preset
    for preset in get_args(Record)
    if (resources.files(__name__) / preset / "run.json").is_file()
]
# The largest of them.
LARGEST: Record = [*get_args(Record)[:1], *RECORDS][-1]


def read_reference(name: str) -> list[dict[str, str]]:
    """Rows of a published table of this folder, without its comments."""
    text = (resources.files(__name__) / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
