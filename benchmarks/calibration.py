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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from iclimit.runs import RunStore
from iclimit.statistics import FALSE_ALARM
from iclimit.validation import CLAIMS, validate
from iclimit.validation.report.coverage import TOGETHER

OUTPUT = Path(__file__).with_suffix(".txt")
TAILS = (2.0, 3.0)


def z_by_kind(results: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[float]]:
    """Values of z of validations, as their dicts, by claim, by subject, and by being pooled.

    Comparisons that are the same with all seeds, of published numbers with theory, are left out.
    """
    by_row: defaultdict[tuple[str, str, str, str, bool], list[float]] = defaultdict(list)
    for run in results:
        for claim in run["claims"]:
            for row in claim.get("comparisons", ()):
                if row["standard_error"] > 0 and not row["allowance"] and not row["upper_bound"]:
                    names = claim["subject"], claim["name"], row["label"], row["of"]
                    by_row[*names, row["pooled"]].append(row["z"])
    z: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for (subject, claim, _, _, pooled), values in by_row.items():
        if len(results) == 1 or len(set(values)) > 1:
            kind = "pooled" if pooled else "single"
            for place in (("kind", "all"), ("kind", kind), ("subject", subject), ("claim", claim)):
                z[place] += values
    z["kind", TOGETHER] += [row["z"] for run in results for row in run["together"]]
    return z


def failures(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Claims that do not hold, with their seeds."""
    return [
        f"seed {run['seed']}: {claim['name']}"
        for run in results
        for claim in run["claims"]
        if not claim["holds"]
    ]


def z_table(results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Mean, width, tails and the p-value of a Kolmogorov-Smirnov test, by kind."""
    for (by, name), z in sorted(z_by_kind(results).items()):
        if len(z) > 1:
            found = np.array(z)
            yield {
                **{"by": by, "name": name, "number": found.size},
                **{"mean": f"{found.mean():+.3f}", "width": f"{found.std():.3f}"},
                **{f"beyond_{tail:g}": f"{np.mean(abs(found) > tail):.4f}" for tail in TAILS},
                "p_value": f"{stats.kstest(found, 'norm').pvalue:.2g}",
            }


def describe(name: str, z: list[float]) -> str:
    """The same of some z in one line of text."""
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
    results = []
    for seed in range(arguments.seeds):
        store = None if arguments.store is None else RunStore(arguments.store)
        run = validate(list(CLAIMS.values()), rng=seed, store=store, progress=True)
        results.append(run.to_dict())
    failed = failures(results)
    normal = "  ".join(f"{2 * stats.norm.sf(tail):7.4f}" for tail in TAILS)
    lines = [
        f"quick preset, {arguments.seeds} seeds",
        f"{'comparisons':22}  {'number':>6}  {'mean':>6}  width  {'|z|>2':>7}  {'|z|>3':>7}  KS",
        f"{'standard normal':22}  {'':6}  {0:+6.3f}  {1:5.3f}  {normal}",
        *(
            f"{row['name']:22}  {row['number']:6}  {row['mean']}  {row['width']}  "
            f"{row['beyond_2']:>7}  {row['beyond_3']:>7}  {row['p_value']}"
            for row in z_table(results)
        ),
        f"failures: {len(failed)} of {arguments.seeds * len(CLAIMS)} claims, "
        f"{FALSE_ALARM * arguments.seeds * len(CLAIMS):.2f} expected; {'; '.join(failed)}",
    ]
    print("\n".join(lines))
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
