"""The report as one HTML page, which needs no other file."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib import resources
from string import Template

from iclimit.html_parts import embedded, style
from iclimit.runs.code_version import versions
from iclimit.tables import html_row, html_table
from iclimit.validation.judge.coverage import (
    SHELVES,
    TOGETHER,
    Coverage,
    coverage,
    percent,
    sharpness,
    uncovered_reason,
)
from iclimit.validation.judge.run_claims import ClaimResult, ValidationRun

# Numbers of a comparison that are shown.
NUMBERS = ("theory", "estimate", "standard_error", "allowance")

# Stands for the reason where other claims cover a function.
OTHER_CLAIMS = "not in these claims"


def page(run: ValidationRun, pictures: Mapping[str, bytes]) -> str:
    """The whole page: verdict, resolutions, contents, then the claims by subject."""
    text = (resources.files(__package__) / "report.html").read_text(encoding="utf-8")
    return Template(text).substitute(
        style=style(),
        outcome=_outcome(run),
        preset=run.preset,
        seed=run.rng,
        backend=run.backend,
        seconds=f"{run.seconds:.0f}",
        versions=html.escape(", ".join(f"{name} {value}" for name, value in versions().items())),
        resolutions=_resolutions(run),
        contents=_contents(run),
        sections="\n".join(_subject(subject, run, pictures) for subject in _subjects(run)),
    )


def _outcome(run: ValidationRun) -> str:
    failed = [result.claim.name for result in run.results if not result.holds]
    words = f"not every claim holds: {', '.join(failed)}" if failed else "every claim holds"
    return f"{'interrupted: ' if run.interrupted else ''}{html.escape(words)}"


def _subjects(run: ValidationRun) -> list[str]:
    """Subjects of the claims, those of the theory in their order and others after them."""
    subjects = dict.fromkeys(result.claim.subject for result in run.results)
    return sorted(subjects, key=lambda name: (*SHELVES, name).index(name))


def _link(result: ClaimResult) -> str:
    name = html.escape(result.claim.name, quote=True)
    return f"<a href='#{name}'>{html.escape(result.claim.title)}</a>"


def _resolutions(run: ValidationRun) -> str:
    """Functions of each subject with what would have been noticed, and those not covered."""
    covered = coverage(run)
    head = "a relative change that would have been noticed, or (within) the tolerance of a "
    rows = [html_row("Subject", f"{head}comparison without random numbers", tag="th")]
    for subject in SHELVES:
        mine = sorted((c for c in covered if c.subject == subject), key=lambda c: c.resolution)
        words = [f"{_function(each)}&nbsp;{each.words}" for each in mine if each.claim]
        rest = [each.function for each in mine if not each.claim]
        reasons: dict[str, list[str]] = {}
        for name in rest:
            reasons.setdefault(uncovered_reason(name) or OTHER_CLAIMS, []).append(name)
        notes = [f"{', '.join(names)}: {html.escape(text)}" for text, names in reasons.items()]
        if words or OTHER_CLAIMS not in reasons:
            small = "".join(f"<br><span class='small'>{note}</span>" for note in notes)
            rows.append(html_row(subject, ", ".join(words) + small))
    return html_table(rows, "words") + _together(run)


def _together(run: ValidationRun) -> str:
    """Common factors over all claims, for functions in several of them."""
    verdict = run.together
    if not verdict.comparisons:
        return ""
    rows = [
        html_row("Common factor over all claims", *NUMBERS[1:3], "z", "would notice", tag="th")
    ]
    for each in verdict.comparisons:
        numbers = (f"{each.estimate:.5f}", f"{each.standard_error:.2g}", f"{each.z:.2f}")
        far = "far" if any(each is row for row in verdict.failures) else ""
        rows.append(html_row(each.of, *numbers, percent(verdict.resolution(each)), style=far))
    return html_table(rows)


def _function(each: Coverage) -> str:
    """Name of a function, with a link to the claim that tests it sharpest."""
    if each.claim == TOGETHER:
        return each.function
    return f"<a href='#{each.claim}'>{each.function}</a>"


def _contents(run: ValidationRun) -> str:
    heads = ("Claim", "holds", "compared", "|z|", "allowed", "would notice", "median", "CPU s")
    rows = [html_row(*heads, tag="th")]
    for subject in _subjects(run):
        rows.append(f"<tr><th colspan='{len(heads)}'>{html.escape(subject)}</th></tr>")
        rows += [_content(each) for each in run.results if each.claim.subject == subject]
    rows += [
        html_row(html.escape(name), "<span class='no'>not finished</span>") for name in run.missing
    ]
    return html_table(rows)


def _content(result: ClaimResult) -> str:
    numbers: tuple[object, ...] = ("", "", "")
    if (verdict := result.verdict) is not None:
        worst = verdict.worst
        numbers = len(verdict.evidence), f"{abs(worst.z):.2f}", f"{verdict.threshold(worst):.2f}"
    answer = "yes" if result.holds else "no"
    holds = f"<span class='{answer}'>{answer}</span>"
    sharp = (percent(each) for each in result.sharpness)
    return html_row(_link(result), holds, *numbers, *sharp, f"{result.seconds:.1f}")


def _subject(subject: str, run: ValidationRun, pictures: Mapping[str, bytes]) -> str:
    sections = [
        _section(each, pictures.get(each.claim.name))
        for each in run.results
        if each.claim.subject == subject
    ]
    return f"<h2>{html.escape(subject)}</h2>" + "\n".join(sections)


def _section(result: ClaimResult, picture: bytes | None) -> str:
    claim, verdict, text = result.claim, result.verdict, html.escape
    head = (
        f"<h3 id='{text(claim.name, quote=True)}'>{text(claim.title)}</h3>"
        f"<p>{text(claim.statement)}</p>"
        f"<p class='small'>{text(claim.name)}. {text(claim.source)}.</p>"
    )
    if verdict is None or picture is None:
        return head + f"<p class='no'>{text(result.error)}</p>"
    image = embedded(picture, claim.title)
    notes = "".join(f"<li>{text(note)}</li>" for note in verdict.notes)
    names = (*(name.replace("_", " ") for name in NUMBERS), "z", "would notice")
    rows = [html_row("Quantity", *names, tag="th")]
    for each in verdict.evidence:
        numbers = (f"{getattr(each, name):.5g}" for name in NUMBERS)
        far = (
            "far" if any(each is row for row in verdict.failures) else "pooled" * bool(each.pooled)
        )
        seen = sharpness(verdict.resolution(each), each.standard_error == 0)
        rows.append(html_row(text(each.label), *numbers, f"{each.z:.2f}", seen, style=far))
    summary = f"<summary>{len(verdict.evidence)} comparisons</summary>"
    table = html_table(rows)
    return f"{head}{image}<ul class='small'>{notes}</ul><details>{summary}{table}</details>"
