"""Who imports whom, counted in the source: the table of the page on the architecture."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

ROOMS = ("ground", "runs", "asymptotics", "simulate", "validation", "face")
"""From what knows nothing of the others to what may import all of them."""


@cache
def imported(file: Path) -> frozenset[str]:
    """First names, within the package, of what a file imports when it runs."""
    names = set()
    nodes = [ast.parse(file.read_text(encoding="utf-8"))]
    for node in nodes:
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        nodes += [] if for_types else ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("iclimit"):
            inside = node.module.split(".")[1:] or [alias.name for alias in node.names]
            names |= {inside[0]} if node.module != "iclimit" else set(inside)
    return frozenset(names)


def ground() -> set[str]:
    """Modules of the package that import none but each other."""
    modules = {file.stem: file for file in (ROOT / "iclimit").glob("*.py")}
    modules.pop("__init__")
    while outside := {name for name, file in modules.items() if imported(file) - set(modules)}:
        modules = {name: file for name, file in modules.items() if name not in outside}
    return set(modules)


def files_by_room() -> dict[str, list[Path]]:
    """All modules of each room."""
    folders = {room: ROOT / room for room in ("asymptotics", "simulate", "validation")}
    folders["runs"] = ROOT / "iclimit" / "runs"
    files = {room: sorted(folder.rglob("*.py")) for room, folder in folders.items()}
    files["ground"] = [ROOT / "iclimit" / f"{name}.py" for name in sorted(ground())]
    inside = {file for each in files.values() for file in each}
    package = (ROOT / "iclimit").rglob("*.py")
    return files | {"face": sorted(file for file in package if file not in inside)}


def house() -> list[tuple[str, ...]]:
    """Rows of the table: for each room, how many of its files import from each of the others."""
    bottom = ground()

    def room_of(name: str) -> str:
        return name if name in ROOMS else "ground" if name in bottom else "face"

    rows = [("Files", "in all", *(f"import {room}" for room in ROOMS))]
    files = files_by_room()
    for room in ROOMS:
        counted = Counter(
            other for file in files[room] for other in set(map(room_of, imported(file)))
        )
        numbers = (str(counted[other] or "–") for other in ROOMS)
        rows.append((f"**{room}**", str(len(files[room])), *numbers))
    return rows
