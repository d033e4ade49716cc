"""Tests and validation under other BLAS kernels, SIMD instructions, threads and versions of NumPy.

All of it takes an hour or two (``make machines``): unit tests and validation in all rows, the long
tests in two.  Parts of it:

    python tests/machines.py --steps check              # only whether the rows are what they say
    python tests/machines.py --rows 1,3 --steps validate --claims "ridgeless ridge"
    python tests/machines.py --rows 6 --steps unit --pytest "tests/simulate -k depth"
    python tests/machines.py --rows 2,6 --steps slow    # the long tests
    python tests/machines.py --steps compare            # of the validations that there are

Steps:

* check: a child process says which kernel, instructions and threads it has (always made)
* unit: the unit tests
* marked: those of them that are marked ``machine``, whose numbers are sensitive
* slow: the long tests
* validate: ``iclimit validate --preset quick``, with a run store for each row
* compare: the runs of each two validations, cell by cell

Results are in the folder ``iclimit-machines``: ``table.csv`` with a line for each row, and for
each row the output of its steps.  Rows and steps that are not chosen keep what is there.  A row
that this processor cannot run is reported as not run.  The exit status is 1 if a row that it can
run is not what it says or not green, or if two validations have different cells.
"""

import argparse
import csv
import json
import os
import platform
import resource
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "iclimit-machines"
TABLE = FOLDER / "table.csv"
DOCUMENTED = ROOT / "docs" / "tables" / "machines.csv"
VERSIONS = {"newest": ROOT / ".venv", "oldest": ROOT / ".venv-oldest"}
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
STEPS = ("check", "unit", "marked", "slow", "validate", "compare")
DEFAULT_STEPS = "unit,validate,compare"

# Rows in which the long tests are run where no steps are chosen: of different kernel and NumPy.
LONG = (4, 6)

# Steps that are made in each row, with what pytest selects.
MARKS_OF_TESTS = {"unit": "not slow", "marked": "machine and not slow", "slow": "slow"}
MADE = (*MARKS_OF_TESTS, "validate")

AS_IT_SAYS = "as it says"
COLUMNS = (
    *("row", "kernel", "SIMD", "threads", "versions", "Python", "NumPy", "SciPy", "OpenBLAS"),
    *("processor", "state"),
    *(column for step in MADE for column in (step, f"{step} CPU s")),
)

# Columns of the table in the documentation, with their titles there.
PAGE = {
    "row": "Row",
    "kernel": "OpenBLAS kernel",
    "SIMD": "NumPy's SIMD",
    "threads": "BLAS threads",
    "NumPy": "NumPy",
    "unit": "Unit tests",
    "slow": "Long tests",
    "validate": "Claims at quick",
}


@dataclass(frozen=True)
class Row:
    """An environment: OpenBLAS kernel, NumPy's SIMD instructions, BLAS threads, versions."""

    number: int
    kernel: str
    simd: str
    threads: int
    versions: str

    @property
    def title(self) -> str:
        """All in words."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        return f"{self.kernel}, {self.simd}, {threads}, {self.versions}"

    @property
    def folder(self) -> Path:
        """Where its results are."""
        return FOLDER / f"row-{self.number}"

    @property
    def python(self) -> str:
        """Interpreter of its virtual environment."""
        return str(VERSIONS[self.versions] / "bin" / "python")


# Every value occurs at least twice.
ROWS = (
    Row(1, "Haswell", "AVX2", 1, "newest"),
    Row(2, "Haswell", "baseline", 2, "oldest"),
    Row(3, "SkylakeX", "AVX512", 1, "newest"),
    Row(4, "SkylakeX", "AVX512", 2, "oldest"),
    Row(5, "SkylakeX", "AVX2", 2, "newest"),
    Row(6, "Nehalem", "baseline", 2, "newest"),
    Row(7, "Nehalem", "AVX2", 1, "oldest"),
)

# Level of SIMD instructions that a processor must have, from none to all.
LEVELS = ("baseline", "AVX2", "AVX512")
NEEDED = {"Haswell": "AVX2", "SkylakeX": "AVX512", "Nehalem": "baseline"}

# The features of a level, by the names until NumPy 2.3 and since 2.4.
MARKS = {"AVX2": ("AVX2", "X86_V3"), "AVX512": ("AVX512_SKX", "X86_V4")}

# Prints what a process has: the features that NumPy can switch off and those that it uses.
PROBE = """
import json, sys
import numpy as np, scipy, scipy.linalg, threadpoolctl
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
print(json.dumps({
    "python": sys.version.split()[0],
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "dispatched": list(__cpu_dispatch__),
    "features": [name for name in __cpu_dispatch__ if __cpu_features__[name]],
    "blas": sorted({pool["version"] or "unknown" for pool in pools}),
    "kernels": sorted({pool.get("architecture") or "unknown" for pool in pools}),
    "threads": sorted({pool["num_threads"] for pool in pools}),
}))
"""


def probe(python: str, environment: dict[str, str]) -> dict:
    """What a process of this interpreter has in this environment."""
    run = subprocess.run(
        [python, "-c", PROBE], env=environment, check=True, capture_output=True, text=True
    )
    return json.loads(run.stdout)


def plain_environment() -> dict[str, str]:
    """The environment of this process without what rows set."""
    dropped = {"OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES"}
    return {name: value for name, value in os.environ.items() if name not in dropped}


def level(features: list[str]) -> str:
    """Highest level of SIMD instructions among the features that NumPy dispatches on."""
    found = [name for name, marks in MARKS.items() if set(marks) & set(features)]
    return found[-1] if found else LEVELS[0]


def above(name: str) -> bool:
    """Whether a feature is one of AVX-512."""
    return name.startswith("AVX512") or name == "X86_V4"


def environment_of(row: Row, native: dict) -> dict[str, str]:
    """The environment of a row; a wrong name of a feature would do nothing but warn."""
    disabled = {
        "AVX512": [],
        "AVX2": [name for name in native["features"] if above(name)],
        "baseline": native["features"],
    }[row.simd]
    environment = plain_environment() | dict.fromkeys(THREADS, str(row.threads))
    environment["OPENBLAS_CORETYPE"] = row.kernel
    if disabled:
        environment["NPY_DISABLE_CPU_FEATURES"] = ",".join(disabled)
    return environment


def missing(row: Row, native: dict) -> str:
    """What this processor or its BLAS lacks for a row, in words, or nothing."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"needs x86-64, the processor is {platform.machine()}"
    if native["kernels"] in ([], ["unknown"]):
        return "needs OpenBLAS with kernels that can be chosen"
    needed = max(row.simd, NEEDED[row.kernel], key=LEVELS.index)
    has = level(native["features"])
    if LEVELS.index(has) < LEVELS.index(needed):
        return f"needs {needed}, the processor has {has}"
    return ""


def mismatch(row: Row, found: dict) -> str:
    """Where a process is not what the row says, in words, or nothing."""
    expected = {"kernels": [row.kernel], "threads": [row.threads]}
    wrong = [
        f"{name} {found[name]} instead of {value}"
        for name, value in expected.items()
        if found[name] != value
    ]
    if level(found["features"]) != row.simd:
        wrong.append(f"NumPy uses {level(found['features'])} instead of {row.simd}")
    return "; ".join(wrong)


def make_environment(versions: str) -> None:
    """Make the virtual environment, unless it is newer than what it is made from."""
    if versions == "newest":
        subprocess.run(["make", "-s", ".venv/dev"], cwd=ROOT, check=True)
        return
    place = VERSIONS[versions]
    stamp = place / "made"
    sources = [ROOT / name for name in ("pyproject.toml", "setup.py", "tests/oldest.txt")]
    if stamp.exists() and all(stamp.stat().st_mtime > each.stat().st_mtime for each in sources):
        return
    print("making .venv-oldest", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    install = [str(place / "bin" / "python"), "-m", "pip", "install", "-qq", "--no-compile"]
    options = ["--disable-pip-version-check", "-c", "tests/oldest.txt", "-e", ".[tests]"]
    subprocess.run([*install, *options], cwd=ROOT, check=True)
    stamp.touch()


def timed(row: Row, name: str, command: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Run a command with its output in a file; exit status and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(row.folder / f"{name}.txt", "w", encoding="utf-8") as file:
        run = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return run.returncode, round(seconds)


def tested(row: Row, step: str, environment: dict[str, str], chosen: str) -> dict[str, object]:
    """Run the tests of a step; what goes into the table."""
    report = row.folder / f"{step}.xml"
    report.unlink(missing_ok=True)
    command = [row.python, "-m", "pytest", "-n", "auto", "--dist", "worksteal"]
    command += ["--assert=plain", f"--junitxml={report}", "-m", MARKS_OF_TESTS[step]]
    if step == "marked":
        if not (files := marked_files()):
            return {step: "no test is marked machine", f"{step} CPU s": 0}
        command += files
    if row.versions == "oldest":
        command += ["-W", "default::DeprecationWarning"]
    status, seconds = timed(row, step, [*command, *shlex.split(chosen)], environment)
    if not report.exists():
        return {step: f"no tests were run: exit status {status}", f"{step} CPU s": seconds}
    (suite,) = ElementTree.parse(report).iter("testsuite")
    counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    print_failures(report)
    text = f"{passed} passed, {failed} failed, {counts['skipped']} skipped"
    if status and not failed:
        text += f", exit status {status}"
    return {step: text, f"{step} CPU s": seconds}


def marked_files() -> list[str]:
    """Files with tests that are marked ``machine``: to import the others would take longer."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file) for file in files if "mark.machine" in file.read_text(encoding="utf-8")]


def print_failures(report: Path) -> None:
    """Print the names of tests that failed."""
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            print(f"    failed: {case.get('classname')}.{case.get('name')}", flush=True)


def validated(row: Row, environment: dict[str, str], chosen: str) -> dict[str, object]:
    """Run the validation with a store of its own; what goes into the table."""
    store = row.folder / "runs.sqlite"
    results = row.folder / "report" / "results.json"
    for file in (store, results):
        file.unlink(missing_ok=True)
    command = [row.python, "-m", "iclimit", "validate", "--preset", "quick"]
    command += ["--store", str(store), "--out", str(results.parent), *shlex.split(chosen)]
    status, seconds = timed(row, "validate", command, environment)
    if not results.exists():
        return {"validate": f"no report: exit status {status}", "validate CPU s": seconds}
    claims = json.loads(results.read_text(encoding="utf-8"))["claims"]
    failing = [claim["name"] for claim in claims if not claim["holds"]]
    for name in failing:
        print(f"    does not hold: {name}", flush=True)
    text = f"{len(claims) - len(failing)} hold, {len(failing)} do not"
    if status and not failing:
        text += f", exit status {status}"
    return {"validate": text, "validate CPU s": seconds}


def green(outcome: str) -> bool:
    """Whether the text of a step says that nothing failed."""
    return outcome.endswith(", 0 do not") or (
        ", 0 failed" in outcome and "exit status" not in outcome
    )


def described(row: Row) -> dict[str, object]:
    """What a row says of itself, for the table."""
    return {
        "row": row.number,
        "kernel": row.kernel,
        "SIMD": row.simd,
        "threads": row.threads,
        "versions": row.versions,
    }


def processor() -> str:
    """Name of the processor, as far as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def run_row(row: Row, options: argparse.Namespace) -> tuple[dict[str, object], bool]:
    """Make the chosen steps of a row: its line of the table, and whether it is as it must be."""
    make_environment(row.versions)
    native = probe(row.python, plain_environment())
    line = described(row)
    print(f"row {row.number}: {row.title}", flush=True)
    if lacking := missing(row, native):
        print(f"    not run: {lacking}", flush=True)
        return line | {"state": f"not run: {lacking}"}, True
    environment = environment_of(row, native)
    found = probe(row.python, environment)
    line |= {"Python": found["python"], "NumPy": found["numpy"], "SciPy": found["scipy"]}
    line |= {"OpenBLAS": " and ".join(found["blas"]), "processor": processor()}
    if wrong := mismatch(row, found):
        print(f"    is not what it says: {wrong}", flush=True)
        return line | {"state": f"is not what it says: {wrong}"}, False
    line["state"] = AS_IT_SAYS
    features = ", ".join(found["features"]) or "none"
    print(f"    {AS_IT_SAYS}; NumPy {found['numpy']} chose the features {features}", flush=True)
    row.folder.mkdir(parents=True, exist_ok=True)
    good = True
    for step in MADE:
        long = step == "slow" and row.number in options.long
        if step not in options.steps and not long:
            continue
        if step == "validate":
            outcome = validated(row, environment, options.claims)
        else:
            outcome = tested(row, step, environment, options.pytest)
        print(f"    {step}: {outcome[step]}, {outcome[f'{step} CPU s']} CPU s", flush=True)
        good = good and green(str(outcome[step]))
        line |= outcome
    return line, good


def write_table(line: dict[str, object]) -> list[dict[str, str]]:
    """Put a line into the table, in place of what it has of the same row; all its lines."""
    lines = {str(row.number): described(row) | {"state": "not tried"} for row in ROWS}
    if TABLE.exists():
        with open(TABLE, newline="", encoding="utf-8") as file:
            lines |= {known["row"]: known for known in csv.DictReader(file)}
    key = str(line["row"])
    # A row that was not run must not keep what it was elsewhere.
    lines[key] = lines[key] | line if line["state"] == AS_IT_SAYS else line
    FOLDER.mkdir(exist_ok=True)
    with open(TABLE, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines.values())
    return list(lines.values())


def write_page(lines: list[dict[str, str]]) -> None:
    """Write the table of the documentation, in which missing numbers are called so."""
    with open(DOCUMENTED, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(PAGE.values())
        for line in lines:
            absent = "missing" if line["state"] == AS_IT_SAYS else line["state"]
            writer.writerow(line.get(column) or absent for column in PAGE)


def compared(options: argparse.Namespace) -> bool:
    """Compare the stores that there are two by two; whether they have the same cells."""
    from compare_stores import compare, stored_cells, write_comparison

    paths = {row.number: row.folder / "runs.sqlite" for row in options.rows}
    stores = {number: stored_cells(path) for number, path in paths.items() if path.exists()}
    comparison = compare(stores)
    write_comparison(comparison, FOLDER)
    if options.write:
        shutil.copy(FOLDER / "comparison.csv", DOCUMENTED.with_stem("machines_agreement"))
    return not comparison.alone


def parse() -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = ",".join(str(row.number) for row in ROWS)
    parser.add_argument("--rows", default=every, help=f"numbers of rows (default {every})")
    parser.add_argument(
        "--steps",
        default="",
        help=f"some of {','.join(STEPS)} (default {DEFAULT_STEPS}, and slow in rows {LONG})",
    )
    parser.add_argument("--pytest", default="", help="arguments of pytest, such as a file")
    parser.add_argument("--claims", default="", help="arguments of validate, such as a claim")
    parser.add_argument("--write", action="store_true", help="write tables of the documentation")
    options = parser.parse_args()
    options.long = () if options.steps else LONG
    options.steps = (options.steps or DEFAULT_STEPS).split(",")
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"steps must be some of {', '.join(STEPS)}, got {', '.join(unknown)}")
    numbers_chosen = options.rows.split(",")
    options.rows = tuple(row for row in ROWS if str(row.number) in numbers_chosen)
    if len(options.rows) != len(numbers_chosen):
        parser.error(f"rows must be some of {every}, got {','.join(numbers_chosen)}")
    return options


def main() -> int:
    """Make the chosen steps of the chosen rows."""
    options = parse()
    good = True
    if options.steps != ["compare"]:
        for row in options.rows:
            line, row_good = run_row(row, options)
            lines = write_table(line)
            good = good and row_good
        print(TABLE.read_text(encoding="utf-8"))
        if options.write:
            write_page(lines)
    if "compare" in options.steps:
        good = compared(options) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
