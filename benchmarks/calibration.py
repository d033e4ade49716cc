"""Are the z of a validation standard normal?  ``python -m benchmarks.calibration``.

Validates with several seeds and looks at all comparisons that have a standard error and no
allowance and are no bounds: their z should be standard normal, over seeds and comparisons, if the
theory is right and the error bars are honest.  Comparisons with finite-size predictions are
narrower, since these state more uncertainty than they mostly have.  Failures of claims should be
as rare as stated.
``--write`` keeps the output in ``benchmarks/calibration.txt``.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

from iclimit.runs import RunStore
from iclimit.statistics import FALSE_ALARM
from iclimit.validation import CLAIMS, validate

OUTPUT = Path(__file__).with_suffix(".txt")
TAILS = (2.0, 3.0)


def describe(name: str, z: list[float]) -> str:
    """Mean, width, tails and the p-value of a Kolmogorov-Smirnov test, in one line."""
    found = np.array(z)
    shares = [float(np.mean(abs(found) > tail)) for tail in TAILS]
    p_value = stats.kstest(found, "norm").pvalue
    return (
        f"{name:22}  {found.size:6}  {found.mean():+6.3f}  {found.std():5.3f}  "
        f"{shares[0]:6.4f}  {shares[1]:6.4f}  {p_value:8.2g}"
    )


def main() -> None:
    """Validate with all seeds and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--store", type=Path, help="run store, to go on after an interruption")
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    z: defaultdict[str, list[float]] = defaultdict(list)
    failures = []
    for seed in range(arguments.seeds):
        store = None if arguments.store is None else RunStore(arguments.store)
        run = validate(list(CLAIMS.values()), rng=seed, store=store, progress=True)
        failures += [f"seed {seed}: {each.claim.name}" for each in run.results if not each.holds]
        for result in run.results:
            for row in result.verdict.evidence if result.verdict else ():
                if row.standard_error > 0 and not row.allowance and not row.upper_bound:
                    name = "pooled" if row.pooled else "single"
                    z[name].append(row.z)
                    z[result.claim.name].append(row.z)
        z["all claims together"] += [row.z for row in run.together.comparisons]
    heading = f"{'comparisons':22}  {'number':>6}  {'mean':>6}  width  |z|>2   |z|>3       KS"
    normal = "  ".join(f"{2 * stats.norm.sf(tail):6.4f}" for tail in TAILS)
    lines = [
        f"quick preset, {arguments.seeds} seeds",
        heading,
        f"{'standard normal':22}  {'':6}  {0:+6.3f}  {1:5.3f}  {normal}",
        *(describe(name, each) for name, each in sorted(z.items()) if len(each) > 1),
        f"failures: {len(failures)} of {arguments.seeds * len(CLAIMS)} claims, "
        f"{FALSE_ALARM * arguments.seeds * len(CLAIMS):.2f} expected; {'; '.join(failures)}",
    ]
    print("\n".join(lines))
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
