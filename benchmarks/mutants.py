"""How many random slips in theory and simulator are noticed: ``python -m benchmarks.mutants``.

Draws slips of one place (`benchmarks.mutations`), as many from each shelf, makes each in a copy of
the repository, and runs the tests of its shelf, or the claims that execute the place (preset
quick) up to the first that fails.  Outcomes are appended to ``mutants.csv`` as they come: what is
there is not judged again, and Ctrl-C loses the slip in progress only.  ``mutant_verdicts.csv``
says which slips change nothing, and why.  Slips chosen by hand stand in a table (``--slips``), and
have a row of scores of their own.  ``--private --judge nearby`` asks of slips in private helpers
whether the tests and claims next to them notice.
"""

import argparse
import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from types import FrameType

from tqdm.auto import tqdm

from benchmarks.mutations import KINDS, Slip, function_around, slips

ROOT = Path(__file__).parents[1]
OUTCOMES = ROOT / "benchmarks" / "mutants.csv"
VERDICTS = ROOT / "benchmarks" / "mutant_verdicts.csv"
README = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- mutants -->", "<!-- end of mutants -->"
ROOMS = ("asymptotics", "simulate")
COLUMNS = ("judge", "key", "room", "shelf", "path", "line", "kind", "before", "after")
COLUMNS += ("outcome", "noticed_by", "seconds")
# Kind of slips that a table chooses.
CHOSEN = "chosen"

# Seconds that the tests of a shelf, or the claims that execute a place, may take.
LIMITS = {"tests": 600, "claims": 1200}

# Claims that count as nearby: so many of those that execute little but functions of the file.
NEARBY = 4


@dataclass(frozen=True)
class Mutant:
    """A slip in a file of a shelf; modules beside the shelves are those of the shelf "."."""

    room: str
    shelf: str
    path: str
    slip: Slip

    @property
    def key(self) -> str:
        return self.slip.key(self.path)


def draw(
    room: str, count: int, seed: int, shelf: str | None = None, *, private: bool = False
) -> list[Mutant]:
    """Draw so many mutants of a room, as many from each shelf and of each kind as there are.

    The order is that of a hash of the seed and of each slip: a larger count extends a smaller one,
    and a change of the code elsewhere leaves the others as they are.  ``private`` ones are those
    in helpers, whose names begin with an underscore.
    """
    shelves: dict[str, dict[str, list[tuple[str, Mutant]]]] = defaultdict(
        lambda: {kind: [] for kind in KINDS}
    )
    for path in sorted((ROOT / room).rglob("*.py")):
        relative = path.relative_to(ROOT)
        name = relative.parts[1] if len(relative.parts) > 2 else "."
        for slip in slips(path.read_text(encoding="utf-8")):
            if private and not slip.private:
                continue
            mutant = Mutant(room, name, relative.as_posix(), slip)
            rank = hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()
            shelves[name][slip.kind].append((rank, mutant))
    orders = []
    for number, (name, kinds) in enumerate(sorted(shelves.items())):
        if shelf in (None, name):
            columns = [sorted(each, key=lambda pair: pair[0]) for each in kinds.values()]
            first = number % len(KINDS)  # few of each shelf are not all of one kind
            rows = chain.from_iterable(zip_longest(*columns[first:], *columns[:first]))
            orders.append(list({pair[1].key: pair[1] for pair in rows if pair}.values()))
    mixed = chain.from_iterable(zip_longest(*orders))
    return [mutant for mutant in mixed if mutant][:count]


def chosen(table: Path) -> list[Mutant]:
    """Mutants of a table of lines before and after."""
    mutants = []
    for row in read(table):
        path = row["path"]
        before = row["before"]
        source = (ROOT / path).read_text(encoding="utf-8")
        lines = [line.strip() for line in source.splitlines()]
        if lines.count(before) != 1:
            raise SystemExit(f"{path} must have the line once: {before}")
        line = lines.index(before) + 1
        start = source.encode().index(before.encode())
        stop = start + len(before.encode())
        around = function_around(source, line)
        slip = Slip(line, around, CHOSEN, before, row["after"], start, stop, row["after"])
        room, *folders, _ = Path(path).parts
        mutants.append(Mutant(room, folders[0] if folders else ".", path, slip))
    return mutants


def copy_tree(place: Path) -> Path:
    """Copy of all files that git knows of, and of those that it does not ignore."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    tree = place / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Environment of processes in a tree: one thread each, and a store beside the tree."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    paths = {"PYTHONPATH": str(tree), "ICLIMIT_STORE": str(tree.parent / "runs.sqlite")}
    return os.environ | threads | paths | {"PYTHONDONTWRITEBYTECODE": "1"}


def run(command: list[str], tree: Path, seconds: float) -> tuple[int | None, str]:
    """Exit status and output of a Python command in a tree; None if it takes too long."""
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tree,
            env=environment(tree),
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def tests_of(mutant: Mutant, tree: Path) -> list[str]:
    """Tests of the shelf, after those anywhere that import the module or what it defines."""
    own = tree / "tests" / mutant.room / mutant.shelf
    files = sorted(own.glob("*.py") if mutant.shelf == "." else own.rglob("*.py"))
    found = importing_tests(mutant, tree)
    found += [each for each in files if each.name.startswith("test_") and each not in found]
    return [str(each.relative_to(tree)) for each in found]


def tests_near(mutant: Mutant, tree: Path) -> list[str]:
    """Tests named after the module, or else those that import it or what it defines."""
    named = sorted((tree / "tests" / mutant.room).rglob(f"test_{Path(mutant.path).name}"))
    return [str(each.relative_to(tree)) for each in named or importing_tests(mutant, tree)]


def importing_tests(mutant: Mutant, tree: Path) -> list[Path]:
    """Tests of the room that import the module or what it defines."""
    dotted = mutant.path.removesuffix(".py").replace("/", ".")
    package, _, module = dotted.rpartition(".")
    everywhere = sorted((tree / "tests" / mutant.room).rglob("test_*.py"))
    defined = re.findall(r"^(?:def|class) ([a-zA-Z]\w*)", (ROOT / mutant.path).read_text(), re.M)

    def imports(path: Path) -> bool:
        text = path.read_text(encoding="utf-8")
        if f"{dotted} import" in text or f"iclimit.{package} import {module}" in text:
            return True
        return f"iclimit.{package} import" in text and not set(defined).isdisjoint(
            re.findall(r"\w+", text)
        )

    return [each for each in everywhere if imports(each)]


def judge_by_tests(
    mutant: Mutant, tree: Path, _: dict[str, list[str]]
) -> tuple[int | str | None, str]:
    """Exit status of the tests, and the test that has noticed."""
    return failing_test(tests_of(mutant, tree), tree)


def failing_test(files: list[str], tree: Path) -> tuple[int | None, str]:
    """Exit status of the tests of these files that are not slow, and the first that fails."""
    command = ["-m", "pytest", "-xq", "-p", "no:cacheprovider", "-m", "not slow"]
    status, output = run([*command, *files], tree, LIMITS["tests"])
    lines = [each for each in output.splitlines() if each.startswith(("FAILED", "ERROR"))]
    return status, lines[0].split(" - ")[0].split(" ", 1)[1] if lines else ""


def judge_by_claims(
    mutant: Mutant, tree: Path, executed: dict[str, list[str]]
) -> tuple[int | str | None, str]:
    """Exit status of the claims that execute the place, and the first that fails."""
    return failing_claim(claims_of(mutant, executed), tree)


def judge_nearby(
    mutant: Mutant, tree: Path, executed: dict[str, list[str]]
) -> tuple[int | str | None, str]:
    """Exit status of the tests near the place or, where these pass, of the claims near it."""
    files = tests_near(mutant, tree)
    status, noticed = failing_test(files, tree) if files else (0, "")
    if status != 0:
        return status, noticed
    return failing_claim(claims_of(mutant, executed)[:NEARBY], tree)


def claims_of(mutant: Mutant, executed: dict[str, list[str]]) -> list[str]:
    """Claims that execute the place, first those that execute little but functions of its file."""
    place = f"{mutant.path}:{mutant.slip.function}"

    def share(name: str) -> float:
        places = executed[name]
        return sum(each.startswith(f"{mutant.path}:") for each in places) / len(places)

    return sorted((name for name in executed if place in executed[name]), key=share)[::-1]


def failing_claim(claims: list[str], tree: Path) -> tuple[int | str | None, str]:
    """Exit status of claims up to the first that fails, and its name."""
    if not claims:
        return "not executed", ""
    code = f"from benchmarks.mutants import first_failing; first_failing({claims})"
    status, output = run(["-c", code], tree, LIMITS["claims"])
    return status, output.partition(FAILS)[2].strip()


def first_failing(claims: list[str]) -> None:
    """Validate claims one by one, in this process, and end with the status 1 at a failure."""
    from iclimit.runs import RunStore
    from iclimit.validation import validate

    with RunStore(os.environ["ICLIMIT_STORE"]) as store:
        for name in claims:
            if not validate([name], jobs=1, store=store).results[0].holds:
                sys.exit(f"{FAILS}{name}")


JUDGES = {"tests": judge_by_tests, "claims": judge_by_claims, "nearby": judge_nearby}

# Stands before the name of the claim that fails.
FAILS = "fails: "

# Words for exit statuses; all others have noticed.
OUTCOMES_OF = {0: "survived", None: "timeout", "not executed": "not executed"}


def executed_by_claims(tree: Path, keep: Path) -> dict[str, list[str]]:
    """Functions, as path:line, that each claim executes; its cells are put on record meanwhile."""
    code = f"from benchmarks.mutants import trace_claims; trace_claims({str(keep)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment(tree), check=True)
    known: dict[str, list[str]] = json.loads(keep.read_text(encoding="utf-8"))
    return known


def trace_claims(keep: str) -> None:
    """Write down, for each claim that is not in a file yet, which functions it executes.

    Each is validated in a fork of this process, so that no value is known from another one.
    """
    from iclimit.validation import CLAIMS

    path = Path(keep)
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name in tqdm([each for each in CLAIMS if each not in known], desc="tracing", unit="claim"):
        pid = os.fork()
        if not pid:
            known[name] = executed_by(name)
            path.write_text(json.dumps(known), encoding="utf-8")
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            raise SystemExit(f"{name} cannot be validated")
        known = json.loads(path.read_text(encoding="utf-8"))


def executed_by(claim: str) -> list[str]:
    """Functions of the rooms, as path:line, that a claim executes."""
    from iclimit.runs import RunStore
    from iclimit.validation import validate

    seen = set()

    def note(frame: FrameType, event: str, _: object) -> None:  # noqa: ARG001
        seen.add(frame.f_code)

    threading.settrace(note)
    sys.settrace(note)
    with RunStore(os.environ["ICLIMIT_STORE"]) as store:
        validate([claim], jobs=1, store=store)
    sys.settrace(None)
    places = ((Path(code.co_filename).resolve(), code.co_firstlineno) for code in seen)
    inside = ((file.relative_to(ROOT), line) for file, line in places if file.is_relative_to(ROOT))
    return sorted(f"{file.as_posix()}:{line}" for file, line in inside if file.parts[0] in ROOMS)


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table, none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append(path: Path, row: dict[str, object]) -> None:
    """Add a row to the table of outcomes."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)


def judge(mutants: list[Mutant], by: str, path: Path, work: Path, again: bool) -> None:
    """Judge those that have no outcome yet, or that have survived, and write each down."""
    rows = {row["key"]: row for row in read(path) if row["judge"] == by}
    decided = {row["key"] for row in read(VERDICTS)} if again else set(rows)
    open_ = ("survived", "not executed")
    done = {key for key, row in rows.items() if row["outcome"] not in open_ or key in decided}
    left = [mutant for mutant in mutants if mutant.key not in done]
    if not left:
        return
    tree = copy_tree(work)
    executed = executed_by_claims(tree, work / "executed_by_claims.json") if by != "tests" else {}
    for mutant in tqdm(left, desc=by, unit="mutant"):
        file = tree / mutant.path
        start = time.monotonic()
        source = file.read_text(encoding="utf-8")
        try:
            file.write_text(mutant.slip.apply(source), encoding="utf-8")
            status, noticed = JUDGES[by](mutant, tree, executed)
        finally:
            file.write_text(source, encoding="utf-8")
        seconds = round(time.monotonic() - start)
        word = OUTCOMES_OF.get(status, "noticed")
        found = {"outcome": word, "noticed_by": noticed, "seconds": seconds, "judge": by}
        values = vars(mutant) | vars(mutant.slip) | found | {"key": mutant.key}
        append(path, {name: values[name] for name in COLUMNS})


def report(path: Path) -> tuple[str, str]:
    """Scores by shelf, and the slips that survive and have no verdict of being equivalent."""
    equivalent = {row["key"] for row in read(VERDICTS) if row["verdict"] == "equivalent"}
    # The last outcome of a mutant counts.
    rows = {(row["judge"], row["key"]): row for row in read(path)}.values()
    groups = defaultdict(list)
    survivors = []
    for row in rows:
        noticed = row["outcome"] in ("noticed", "timeout")
        same = not noticed and row["key"] in equivalent
        shelves = (row["shelf"], "all shelves")
        if row["kind"] == CHOSEN:
            shelves = (CHOSEN,)
        elif row["judge"] == "nearby":
            shelves = ("all shelves",)
        for shelf in shelves:
            groups[row["room"], shelf, row["judge"]].append((same, noticed))
        if not noticed and not same:
            place = f"{row['path']}:{row['line']} ({row['kind']}, {row['outcome']})"
            texts = f"- {row['before']}\n+ {row['after']}"
            survivors.append(f"{row['judge']} {row['key']} {place}\n{texts}")
    lines = ["| | judged by | mutants | that change nothing | noticed |", "|---|---|---|---|---|"]
    for (room, shelf, by), group in sorted(groups.items()):
        same, noticed = (sum(column) for column in zip(*group, strict=True))
        score = f"{noticed} of {len(group) - same}, {noticed / max(1, len(group) - same):.0%}"
        words = {".": "beside the shelves", CHOSEN: "chosen by hand"}
        place = f"{room}, {words.get(shelf, shelf)}"
        lines.append(f"| {place} | {by} | {len(group)} | {same} | {score} |")
    return "\n".join(lines), "\n\n".join(survivors)


def main() -> None:
    """Draw, judge and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="mutants of each room")
    parser.add_argument("--room", choices=ROOMS, help="default: both")
    parser.add_argument("--shelf", help="only mutants of this shelf")
    parser.add_argument("--private", action="store_true", help="only mutants in private helpers")
    parser.add_argument("--slips", type=Path, help="table of chosen slips instead of random ones")
    parser.add_argument("--judge", choices=tuple(JUDGES), default="tests")
    parser.add_argument(
        "--again", action="store_true", help="also what has survived without a verdict"
    )
    parser.add_argument("--write", action="store_true", help="put the scores into the README")
    parser.add_argument("--out", type=Path, default=OUTCOMES, help="table of outcomes")
    parser.add_argument("--work", type=Path, help="folder of the copy, its store and its traces")
    options = parser.parse_args()
    rooms = (options.room,) if options.room else ROOMS
    where = {"shelf": options.shelf, "private": options.private}
    drawn = [draw(room, options.count, options.seed, **where) for room in rooms]
    if options.slips:
        drawn = [[each for each in chosen(options.slips) if each.room in rooms]]
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = options.work or Path(folder)
            judge([*chain(*drawn)], options.judge, options.out, work, options.again)
    except KeyboardInterrupt:
        print("interrupted; what is finished is in the table", file=sys.stderr)
    scores, survivors = report(options.out)
    print(f"{scores}\n\n{survivors}")
    if options.write:
        before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        README.write_text(f"{before}{BEGIN}\n\n{scores}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
