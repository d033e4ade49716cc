"""Command line: ``python -m benchmarks`` from the root of the repository."""

import argparse
import os
import platform
import sys
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from benchmarks.suite import PAIRS, report, report_noise, report_pairs, run_all, run_pairs

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


def machine() -> str:
    """Processor, libraries and date."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [s for s in info.read_text().splitlines() if s.startswith("model name")]
        processor = models[0].partition(":")[2].strip() if models else processor
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    parts = [
        f"{processor}, {os.cpu_count()} cores",
        f"{platform.system()}, Python {platform.python_version()}",
        f"numpy {version('numpy')}, scipy {version('scipy')}, {blas['name']} {blas['version']}",
    ]
    if find_spec("torch"):
        parts[-1] += f", PyTorch {version('torch')}"
    return "; ".join([*parts, f"{date.today():%Y-%m-%d}"])


def main() -> None:
    """Run what is asked for, print the tables, and write them into the README if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    text = "what every device of this machine computes in at most five minutes"
    parser.add_argument("devices", nargs="?", choices=["gpu"], help=text)
    parser.add_argument("--large", action="store_true", help="also the dense way at d = 100")
    parser.add_argument("--write", action="store_true", help="update benchmarks/README.md")
    parser.add_argument(
        "--only", metavar="TEXT", help="only benchmarks of the last table with TEXT in the name"
    )
    arguments = parser.parse_args()
    load = f"; load average at the start {os.getloadavg()[0]:.1f}" if os.name == "posix" else ""
    if arguments.devices:
        if arguments.large or arguments.write or arguments.only:
            parser.error("gpu goes with no other argument")
        from benchmarks.gpu import report as report_devices

        tables = report_devices()
    elif arguments.only is None:
        tables = report(run_all(arguments.large))
    else:
        if arguments.large or arguments.write:
            parser.error("--only goes with neither --large nor --write")
        if not any(arguments.only in name for name in PAIRS):
            parser.error(f"--only must be part of one of {list(PAIRS)}, got {arguments.only!r}")
        results = run_pairs(arguments.only)
        tables = f"{report_noise(results)}\n\n{report_pairs(results)}"
    # Only now: this imports NumPy, and the parent must stay small while it starts children.
    text = f"{machine()}{load}.\n\n{tables}"
    print(text)
    if arguments.write:
        before, found, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        if not found or not end:
            sys.exit(f"{README.name} lacks the markers {BEGIN} and {END}")
        README.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
