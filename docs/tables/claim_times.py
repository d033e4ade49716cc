"""Times of the claims on the page "From the papers": CPU seconds of the quick preset.

Run from the root of the repository: OMP_NUM_THREADS=1 python docs/tables/claim_times.py
"""

from pathlib import Path
from time import process_time

from iclimit.validation import CLAIMS, validate

with Path(__file__).with_suffix(".csv").open("w", encoding="utf-8", buffering=1) as file:
    print("Claim,CPU seconds", file=file)
    for name in CLAIMS:
        start = process_time()
        validate([name], preset="quick", jobs=1)
        print(f"{name},{process_time() - start:.2g}", file=file)
