"""Put a validation on record: ``python -m benchmarks.record REPORT/results.json``.

Writes the folder of the preset in ``validation/reference``, from results of ``iclimit validate``.
Results of single claims that were run again, given after those of all, replace theirs.  With
``--seeds`` the distribution of z over seeds is written from results of the quick preset.  Theories
that differ between these and the record vary with the seed or the preset; ``--varies`` marks them
in what is on record already.

With ``--add``, what is given joins what is on record: seeds, or results of single claims.  The
rows of all claims together are then pooled from the common factors that the claims on record
found, as their draws are not kept; claims draw independently of each other.
After a change of a claim, ``iclimit validate CLAIM --preset full --out DIR`` and ``python -m
benchmarks.record DIR/results.json --add`` put it on record and keep the others.
"""

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.calibration import failures, z_table
from iclimit.pooling import pool
from iclimit.validation import CLAIMS
from iclimit.validation.claim import Effort
from iclimit.validation.report.coverage import TOGETHER
from iclimit.validation.report.record import ROUNDING, read_record
from iclimit.validation.rows import Limit, Single, cells_of
from iclimit.verdict import Verdict

FOLDER = Path(__file__).parents[1] / "validation" / "reference"
# Digits that are kept of each number of a comparison.
DIGITS = {
    **{"theory": 12, "estimate": 9, "standard_error": 4, "allowance": 4, "degrees": 4},
    **{"z": 4, "threshold": 5, "would_notice": 3},
}
SHARED = ("preset", "seed", "backend", "versions")


def merged(paths: Sequence[Path]) -> dict[str, Any]:
    """Results of several runs of one preset and seed, the last of each claim."""
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    for each in runs:
        for name in SHARED:
            if each[name] != runs[0][name]:
                raise SystemExit(f"{name} differs: {runs[0][name]} and {each[name]}")
    claims = {each["name"]: each for run in runs for each in run["claims"]}
    unknown = claims.keys() - CLAIMS.keys()
    lacking = CLAIMS.keys() - claims.keys()
    print(f"claims no longer there: {sorted(unknown)}; without results: {sorted(lacking)}")
    kept = [claims[name] for name in CLAIMS if name in claims]
    return runs[0] | {"claims": kept}


def drawn_labels(name: str, preset: Any) -> set[str]:
    """Labels of comparisons whose theory depends on random draws."""
    drawn = set()
    for row in CLAIMS[name].rows(Effort(preset)):
        if isinstance(row, Single) and any(cells_of(row.theory)):
            drawn.add(row.label)
        elif isinstance(row, Limit):
            drawn |= {label for label, each in row.theories.items() if any(cells_of(each))}
    return drawn


def varying(results: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Claims and labels of the comparisons whose theory differs from run to run."""
    first: dict[tuple[str, str, str], float] = {}
    found = set()
    for claim, row in (pair for each in results for pair in comparisons_of(each)):
        theory = float(row["theory"])
        known = first.setdefault((claim, row["label"], row["of"]), theory)
        if abs(theory - known) > ROUNDING * abs(known):
            found.add((claim, row["label"]))
    return found


def comparisons_of(results: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of the claim and comparison, all comparisons of a validation."""
    for claim in results["claims"]:
        for row in claim.get("comparisons", ()):
            yield claim["name"], row


def table_of_comparisons(
    results: Mapping[str, Any], seeds: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Rows of the table of comparisons."""
    differ = varying([results, *seeds])
    drawn = {
        (claim["name"], label)
        for claim in results["claims"]
        for label in drawn_labels(claim["name"], results["preset"])
    }
    together = ((TOGETHER, row) for row in results["together"])
    for claim, row in (*comparisons_of(results), *together):
        numbers = {name: f"{float(row[name]):.{count}g}" for name, count in DIGITS.items()}
        yield {
            **{"claim": claim, "label": row["label"], "of": row["of"], "pooled": row["pooled"]},
            **numbers,
            "upper_bound": int(row["upper_bound"]),
            "varies": int((claim, row["label"]) in differ | drawn),
        }


def table_of_claims(results: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Rows of the table of claims: sizes and repeats of their simulations, version of iclimit."""
    for claim in results["claims"]:
        cells = CLAIMS[claim["name"]].cells(results["preset"])
        given = [dict(cell.parameters) for cell in cells]
        dims = sorted({int(each["dim"]) for each in given if "dim" in each})
        repeats = sum(int(each.get("repeats", each.get("contexts", 1))) for each in given)
        yield {
            **{name: claim[name] for name in ("name", "subject", "title")},
            "holds": int(claim["holds"]),
            "cpu_seconds": f"{claim['cpu_seconds']:.3g}",
            "cells": len(cells),
            "dims": " ".join(map(str, dims)),
            "draws": repeats,
            "version": results["versions"]["iclimit"],
        }


def all_together(preset: Any) -> dict[str, Any]:
    """Common factors of the functions that several claims on record found one for, as results.

    The claims are weighed by their standard errors, from the draws that are weighed: where large
    values scatter most, this moves the factor down by up to its standard error.
    """
    found = [each.comparison for each in read_record(preset).values() if each.claim != TOGETHER]
    factors = [row for row in found if row.pooled]
    counts = Counter[str]()
    for row in factors:
        counts[row.of] += row.pooled
    both = [
        replace(
            row,
            label=f"common factor of {counts[row.of]} comparisons with {row.of}",
            pooled=counts[row.of],
        )
        for row in pool(factors)
    ]
    return {"preset": preset, "claims": [], "together": Verdict(both, lambda _: None).rows()}


def with_others(path: Path, rows: Iterable[Mapping[str, Any]], column: str) -> list[Any]:
    """Rows, and those on record of other claims, in the order of the claims.

    What was marked as varying stays so.
    """
    new = [dict(row) for row in rows]
    own = {row[column] for row in new}
    with path.open(encoding="utf-8", newline="") as file:
        before = list(csv.DictReader(file))
    old = [row for row in before if row[column] not in own]
    marked = {(row["claim"], row["label"]) for row in before if row.get("varies") == "1"}
    for row in new:
        if (row.get("claim"), row.get("label")) in marked:
            row["varies"] = 1
    order = {name: number for number, name in enumerate((*CLAIMS, TOGETHER))}
    both = (row for row in (*old, *new) if row[column] in order)
    return sorted(both, key=lambda row: order[row[column]])


def mark_varying(path: Path, results: Mapping[str, Any]) -> None:
    """Mark the comparisons on record whose theory is another one in these results."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    recorded = {"claims": [{"name": row["claim"], "comparisons": [row]} for row in rows]}
    differ = varying([recorded, results])
    for row in rows:
        row["varies"] = int(row["varies"] == "1" or (row["claim"], row["label"]) in differ)
    write(path, rows)


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table."""
    rows = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    print(f"{path}: {len(rows)} rows, {path.stat().st_size / 1e3:.0f} kB")


def main() -> None:
    """Read results and write the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.record", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="results.json of one preset")
    parser.add_argument("--add", action="store_true", help="keep what is on record of others")
    parser.add_argument("--varies", action="store_true", help="mark what differs from the record")
    parser.add_argument("--seeds", type=Path, nargs="+", default=[], help="of other seeds")
    arguments = parser.parse_args()
    results = merged(arguments.results)
    folder = FOLDER / results["preset"]
    if arguments.varies:
        for path in sorted(FOLDER.glob("*/comparisons.csv")):
            mark_varying(path, results)
        return
    seeds = [json.loads(path.read_text(encoding="utf-8")) for path in arguments.seeds]
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}.csv" for name in ("comparisons", "claims")]
    if arguments.add:
        results["together"] = []
    tables: list[Any] = [table_of_comparisons(results, seeds), table_of_claims(results)]
    for path, rows, column in zip(paths, tables, ("claim", "name"), strict=True):
        write(path, with_others(path, rows, column) if arguments.add else rows)
    if arguments.add:
        rows = table_of_comparisons(all_together(results["preset"]), [])
        write(paths[0], with_others(paths[0], rows, "claim"))
    about = folder / "run.json"
    shared = {name: results[name] for name in SHARED}
    setting = json.loads(about.read_text(encoding="utf-8")) if arguments.add else shared
    if seeds or not arguments.add:
        setting["seeds"] = {"seeds": [each["seed"] for each in seeds], "failures": failures(seeds)}
    if seeds:
        write(folder / "seeds.csv", z_table(seeds))
    about.write_text(f"{json.dumps(setting, indent=1)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
