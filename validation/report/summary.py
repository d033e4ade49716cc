"""Results of a validation for the terminal: a line per claim, and what would have been noticed."""

from iclimit.validation.claims import CLAIMS
from iclimit.validation.report.coverage import SHELVES
from iclimit.validation.report.run_claims import ClaimResult, ValidationRun
from iclimit.words import percent

# Of the names of claims.
WIDTH = max(len(name) for name in CLAIMS)

HEADING = (
    f"{'claim':{WIDTH}}  holds  compared  |z|/allowed  would notice: best  median  "
    "worst comparison"
)


def line(result: ClaimResult) -> str:
    """A claim in one line, and what fails below it."""
    name = f"{result.claim.name:{WIDTH}}"
    verdict = result.verdict
    if verdict is None:
        return f"{name}  ERROR  {result.error}"
    worst = verdict.worst
    sharpest, median = result.sharpness
    best = percent(sharpest)
    middle = percent(median)
    lines = [
        f"{name}  {'yes' if verdict.holds else 'NO':5}  {len(verdict.evidence):8}  "
        f"{abs(worst.z):5.2f}/{verdict.threshold(worst):.2f}  {best:>18}  {middle:>6}  "
        f"{worst.label}"
    ]
    lines += [
        f"{'':{WIDTH}}    {row.label}: theory {row.theory:.5g}, found {row.estimate:.5g} "
        f"+- {row.standard_error:.2g}, z = {row.z:.1f}"
        for row in verdict.failures
    ]
    return "\n".join(lines)


def table(run: ValidationRun) -> str:
    """All claims, line by line."""
    missing = [f"{name:{WIDTH}}  not finished" for name in run.missing]
    return "\n".join([HEADING, *(line(result) for result in run.results), *missing])


def resolution_table(run: ValidationRun) -> str:
    """By subject, what change of which function would have been noticed."""
    entries = run.coverage
    lines = [
        f"all claims together: {row.label}: {row.estimate:.4g} +- {row.standard_error:.2g}, "
        f"z = {row.z:.1f}"
        for row in run.together.failures
    ]
    shelves = []
    for subject in SHELVES:
        covered = sorted(
            (entry for entry in entries if entry.subject == subject and entry.claim),
            key=lambda coverage: coverage.resolution,
        )
        if covered:
            words = ", ".join(f"{coverage.function} {coverage.words}" for coverage in covered)
            shelves.append(f"  {subject}: {words}")
    heading = "A change of the theory by this much would have been noticed"
    if any(" within " in shelf for shelf in shelves):
        heading += " (within: the tolerance of a comparison without random numbers)"
    lines += [f"{heading}:", *shelves]
    return "\n".join(lines)
