"""What a fresh validation would have noticed: ``python -m benchmarks.resolution``.

Simulates all claims anew (nothing on record is used), prints the table of resolutions, and with
``--write`` puts it into the README.
"""

import argparse
import sys
from pathlib import Path

from iclimit.validation import CLAIMS, validate
from iclimit.validation.claim import PRESETS
from iclimit.validation.judge.coverage import SHELVES, coverage
from iclimit.validation.judge.run_claims import ValidationRun
from iclimit.validation.judge.summary import table

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- resolutions -->", "<!-- end of resolutions -->"


def rows(run: ValidationRun) -> str:
    """Table of Markdown: a line per subject, the bluntest functions first."""
    found = sorted(coverage(run), key=lambda each: -each.resolution)
    lines = [
        "| Subject | relative errors that would be noticed | without random numbers, within |",
        "|---|---|---|",
    ]
    for subject in SHELVES:
        covered = [each for each in found if each.subject == subject and each.claim]
        if not covered:
            continue
        exact = [each.resolution for each in covered if each.exact]
        words = [f"`{each.function}` {each.words}" for each in covered if not each.exact]
        range_of = f"{min(exact):.0e} to {max(exact):.0e}: {len(exact)} functions" if exact else ""
        lines.append(f"| {subject} | {', '.join(words)} | {range_of} |")
    return "\n".join(lines)


def main() -> None:
    """Validate, print, and write if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resolution", description=__doc__)
    parser.add_argument("--preset", choices=PRESETS, default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="update README.md")
    arguments = parser.parse_args()
    run = validate(
        list(CLAIMS.values()), preset=arguments.preset, rng=arguments.seed, progress=True
    )
    print(table(run))
    text = rows(run)
    print(f"\n{text}\n\n{run.seconds:.0f} s")
    if arguments.write:
        before, found, rest = README.read_text(encoding="utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
        if not found or not end:
            sys.exit(f"README.md lacks the markers {BEGIN} and {END}")
        README.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")
    sys.exit(0 if run.holds else 1)


if __name__ == "__main__":
    main()
