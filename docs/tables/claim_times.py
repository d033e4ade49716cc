"""Times on the page "From the papers": CPU seconds of claims, quick preset, and of commands.

Run from the root of the repository: OMP_NUM_THREADS=1 python docs/tables/claim_times.py
"""

import csv
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from iclimit.cli import main
from iclimit.validation import CLAIMS, validate

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from paper_pages import VERBS, makers, read

commands = {each for row in read("paper_figures.csv") for each in makers(row, "iclimit")}
with (
    TemporaryDirectory() as folder,
    Path(__file__).with_suffix(".csv").open("w", encoding="utf-8", buffering=1) as file,
):
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(["Claim", "CPU seconds"])
    for name in CLAIMS:
        start = process_time()
        validate([name], preset="quick", jobs=1)
        rows.writerow([name, f"{process_time() - start:.2g}"])
    for each in sorted(commands):
        if each.split()[0] not in VERBS:
            picture = [] if each.startswith("learning-rate") else ["-o", f"{folder}/a.png"]
            start = process_time()
            main([*shlex.split(each), *picture])
            rows.writerow([each, f"{process_time() - start:.2g}"])
