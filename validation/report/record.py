"""Validations on record: every comparison of a run that is kept, and other runs held against it.

A folder of ``validation/reference`` has the outcome of a preset: ``comparisons.csv`` what was
compared, ``claims.csv`` the claims, ``seeds.csv`` how z is distributed over seeds of the quick
preset, and ``run.json`` seed, time and versions.  ``python -m benchmarks.record`` writes them.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from iclimit.checks import check_choice
from iclimit.comparison import Comparison, compare
from iclimit.results import Result
from iclimit.validation.reference import LARGEST, RECORDS, Record, read_reference
from iclimit.validation.report.run_claims import ValidationRun
from iclimit.verdict import Verdict

# Largest relative difference of two values of a theory without random numbers: rounding of other
# versions of NumPy and SciPy, and minima that are flat.
ROUNDING = 1e-7
# A comparison: its claim, its label, and the function that it tests.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class RecordedComparison:
    """A comparison on record.

    Attributes
    ----------
    claim : str
    comparison : Comparison
        Without its draws.
    varies : bool
        Whether its theory depends on the seed, as those for drawn tasks do, or on the preset,
        which may have sizes of its own.
    threshold, would_notice : float
        Largest absolute z that was accepted, and smallest relative change of the theory that would
        have been noticed.
    """

    claim: str
    comparison: Comparison
    varies: bool
    threshold: float
    would_notice: float


@cache
def read_record(record: Record = LARGEST) -> dict[Key, RecordedComparison]:
    """Comparisons of a validation on record, pooled ones of each claim included.

    Examples
    --------
    >>> from iclimit.validation.report.record import read_record
    >>> row = read_record()["ridgeless", "ICL d=inf tau=4 alpha=1 kappa=1 rho=0.1", "icl_error"]
    >>> round(row.comparison.theory, 6), row.varies
    (0.982627, False)
    """
    check_choice("record", record, RECORDS)
    rows = [_recorded(row) for row in read_reference(f"{record}/comparisons.csv")]
    return {key_of(row.claim, row.comparison): row for row in rows}


def read_setting(record: Record = LARGEST) -> dict[str, Any]:
    """Preset, seed, wall time and versions of a validation on record."""
    folder = resources.files("iclimit.validation.reference") / record
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def key_of(claim: str, comparison: Comparison) -> Key:
    """What identifies a comparison, whatever the preset."""
    return claim, comparison.label, comparison.of


def _recorded(row: dict[str, str]) -> RecordedComparison:
    names = ("theory", "estimate", "standard_error", "allowance", "degrees")
    numbers: dict[str, Any] = {name: float(row[name]) for name in names}
    comparison = Comparison(
        row["label"],
        **numbers,
        upper_bound=row["upper_bound"] == "1",
        of=row["of"],
        pooled=int(row["pooled"]),
    )
    reach = float(row["would_notice"])
    return RecordedComparison(
        row["claim"], comparison, row["varies"] == "1", float(row["threshold"]), reach
    )


@dataclass(frozen=True, repr=False)
class RecordComparison(Result):
    """A validation held against one on record.

    Attributes
    ----------
    verdict : Verdict
        On the values of theories that do not vary, which must be equal, and on simulated values,
        which must agree within the standard error of their difference.
    shared : int
        Comparisons that both validations have.
    new, missing : list of str
        Comparisons of the same claims that only one has: the validation or the record.  Presets
        have sizes of their own, so that both are usual unless the presets are the same.
    same_preset : bool
        Whether the presets are the same; then a difference of names is a failure, too.
    """

    verdict: Verdict
    shared: int
    new: list[str]
    missing: list[str]
    same_preset: bool

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts the record."""
        return self.verdict.holds and not (self.same_preset and (self.new or self.missing))

    @property
    def sentence(self) -> str:
        """What is shared, and whether it agrees."""
        words = (
            f"{self.shared} comparisons are on record; {len(self.new)} others are not, and "
            f"{len(self.missing)} on record were not made."
        )
        if not self.shared:
            return words
        worst = self.verdict.worst
        agree = "All agree" if self.verdict.holds else f"{len(self.verdict.failures)} disagree"
        return (
            f"{words}  {agree} with the record: the worst is {worst.label} with |z| = "
            f"{abs(worst.z):.2f} of {self.verdict.threshold(worst):.2f} allowed."
        )

    def __str__(self) -> str:
        return self.sentence


def compare_with_record(run: ValidationRun, record: Record = LARGEST) -> RecordComparison:
    """Hold a validation against one on record.

    A theory that depends on neither seed nor preset has the value on record, up to rounding.
    Simulated values, over theory where that varies, agree within the standard error of the
    difference, as if the two runs were independent.  With the same seed the run on record begins
    with the draws of the other one, and z is smaller than that of independent runs.

    Parameters
    ----------
    run : ValidationRun
        Of any preset and any seed.
    record : {"medium", "full"}
        What it is held against; by default the largest preset on record.

    Returns
    -------
    RecordComparison

    Raises
    ------
    ValueError
        If there is no such record.

    Examples
    --------
    >>> from iclimit.validation import validate
    >>> from iclimit.validation.report.record import compare_with_record
    >>> compare_with_record(validate(["solver"], jobs=1)).holds
    True
    """
    known = read_record(record)
    made = {
        key_of(claim, row): row
        for claim, verdict in run.verdicts.items()
        for row in verdict.evidence
    }
    claims = {result.claim.name for result in run.results}
    rows = [row for key in made if key in known for row in _differences(known[key], made[key])]
    preset = read_setting(record)["preset"]
    return RecordComparison(
        Verdict(rows, lambda _: None),
        sum(key in known for key in made),
        _names(key for key in made if key not in known),
        _names(key for key in known if key[0] in claims and key not in made),
        same_preset=run.preset == preset,
    )


def _differences(recorded: RecordedComparison, own: Comparison) -> list[Comparison]:
    """Compare theory and estimate of a comparison with those on record."""
    known = recorded.comparison
    where = f"{recorded.claim}: {own.label}"
    theory = compare(f"theory of {where}", known.theory, own.theory, relative=ROUNDING)
    error = math.hypot(known.standard_error, own.standard_error)
    if not math.isfinite(error):
        return []
    if recorded.varies:
        alike = error > 0 and known.theory and own.theory and not own.upper_bound
        return [_ratios(where, known, own)] if alike else []
    if own.upper_bound:  # how far an estimate lies below its bound may depend on the preset
        return [theory]
    simulated = Comparison(
        where,
        known.estimate,
        own.estimate,
        error,
        allowance=known.allowance + own.allowance + ROUNDING * abs(known.estimate),
        degrees=min(known.degrees, own.degrees),
    )
    return [theory, simulated]


def _ratios(where: str, known: Comparison, own: Comparison) -> Comparison:
    """Compare estimates over theory."""
    sides = (known, own)
    allowed = sum(side.allowance / abs(side.theory) for side in sides)
    return Comparison(
        label=f"{where}, over theory",
        theory=known.estimate / known.theory,
        estimate=own.estimate / own.theory,
        standard_error=math.hypot(*(side.standard_error / abs(side.theory) for side in sides)),
        allowance=allowed + ROUNDING,
        degrees=min(known.degrees, own.degrees),
    )


def _names(keys: Iterable[Key]) -> list[str]:
    return [f"{claim}: {label}" for claim, label, _ in keys]
