"""The report as one HTML page, which needs no other file."""

import html
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from statistics import median
from string import Template

from iclimit.drawing import Axes, house_style, new_figure, picture
from iclimit.html_parts import document, embedded, marked_up
from iclimit.tables import html_row, html_table
from iclimit.validation.report.coverage import SHELVES, TOGETHER, Coverage, uncovered_reason
from iclimit.validation.report.overview import deviations, draw_deviations, draw_resolutions
from iclimit.validation.report.run_claims import ClaimResult, ValidationRun
from iclimit.versions import versions
from iclimit.words import percent, sharpness

# Numbers of a comparison that are shown.
NUMBERS = ("theory", "estimate", "standard_error", "allowance")

# Fewer deviations have no distribution to look at.
FEWEST = 10

# Stands for the reason where other claims cover a function.
OTHER_CLAIMS = "not in these claims"


def page(run: ValidationRun, pictures: Mapping[str, bytes]) -> str:
    """The whole page: the outcome at a glance, contents, then the claims by subject."""
    images = _images(run, pictures)
    text = (resources.files(__package__) / "report.html").read_text(encoding="utf-8")
    body = Template(text).substitute(
        verdict=_verdict(run),
        evidence=_evidence(run),
        preset=run.preset,
        seed=run.rng,
        backend=run.backend,
        seconds=f"{run.seconds:.0f}",
        versions=html.escape(", ".join(f"{name} {value}" for name, value in versions().items())),
        glance=_glance(run, images),
        cards=_cards(run),
        resolutions=_resolutions(run),
        contents=_contents(run),
        sections="\n".join(_subject(subject, run, images) for subject in _subjects(run)),
    )
    return document("iclimit validation", body, heading=False)


def _images(run: ValidationRun, pictures: Mapping[str, bytes]) -> dict[str, str]:
    """HTML of the pictures by claim, on all cores: Pillow computes outside of Python's lock."""
    drawn = [result.claim for result in run.results if result.claim.name in pictures]
    with ThreadPoolExecutor() as threads:
        images = threads.map(lambda claim: embedded(pictures[claim.name], claim.title), drawn)
        return {claim.name: image for claim, image in zip(drawn, images, strict=True)}


def _verdict(run: ValidationRun) -> str:
    """How many claims hold, and which do not."""
    held = sum(result.holds for result in run.results)
    failed = [result.claim.name for result in run.results if not result.holds]
    words = [f"{held} of {len(run.results) + len(run.missing)} claims hold"]
    if failed:
        words.append(f"not {', '.join(failed)}")
    if run.missing:
        words.append(f"{len(run.missing)} not finished")
    if run.interrupted:
        words.append("interrupted")
    return f"<span class='{'yes' if run.holds else 'no'}'>{html.escape(', '.join(words))}</span>"


def _evidence(run: ValidationRun) -> str:
    """What the verdict rests on, in sentences."""
    rows = [
        (row, verdict.threshold(row))
        for verdict in run.verdicts.values()
        for row in verdict.evidence
    ]
    if not rows:
        return ""
    random = sum(row.standard_error > 0 for row, _ in rows)
    worst, allowed = max(rows, key=lambda pair: abs(pair[0].z) / pair[1])
    tested = [coverage for coverage in run.coverage if coverage.claim]
    half = _half(tested)
    noticed = ""
    if half:
        noticed = f"; for half of them, simulated runs would have shown an error of {half}"
    return (
        f"{len(rows):,} comparisons, {random:,} of them with simulated runs.  The largest "
        f"deviation is {abs(worst.z):.2f} standard errors where {allowed:.2f} are allowed.  "
        f"{len(tested)} functions of the theory were tested{noticed}."
    )


def _half(covered: Iterable[Coverage]) -> str:
    """The change of functions that would have been noticed in runs for half of them."""
    sharp = [coverage.resolution for coverage in covered if coverage.claim and not coverage.exact]
    return percent(median(sharp)) if sharp else ""


def _glance(run: ValidationRun, images: Mapping[str, str]) -> str:
    """Pictures of all deviations and all resolutions, and the first claim's figure."""
    z = deviations(run.verdicts.values())
    drawn = []
    if len(z) >= FEWEST:
        drawn.append(_drawn("all deviations", lambda ax: draw_deviations(ax, z)))
    if any(coverage.claim for coverage in run.coverage):
        drawn.append(_drawn("all resolutions", lambda ax: draw_resolutions(ax, run.coverage)))
    return f"<div class='pair'>{''.join(drawn)}</div>" + _hero(run, images)


def _drawn(title: str, draw: Callable[[Axes], None]) -> str:
    with house_style():
        figure = new_figure(5.2, 2.9)
        draw(figure.subplots())
        return embedded(picture(figure, ".png"), title)


def _hero(run: ValidationRun, images: Mapping[str, str]) -> str:
    """The figure of the first claim that has one of its own, with what it says."""
    for result in run.results:
        name = result.claim.name
        title = html.escape(result.claim.title)
        if result.claim.figure and name in images and result.holds and len(run.results) > 1:
            caption = f"<figcaption><a href='#{name}'>{title}</a></figcaption>"
            return f"<figure class='hero'>{images[name]}{caption}</figure>"
    return ""


def _cards(run: ValidationRun) -> str:
    """A card for each subject, with a link to its claims."""
    covered = run.coverage
    cards = []
    for subject in _subjects(run):
        results = [result for result in run.results if result.claim.subject == subject]
        held = sum(result.holds for result in results)
        count = sum(
            len(result.verdict.evidence) for result in results if result.verdict is not None
        )
        half = _half(coverage for coverage in covered if coverage.subject == subject)
        noticed = f"<span class='small'>an error of {half} would show</span>" if half else ""
        cards.append(
            f"<a href='#{_anchor(subject)}'><b>{_title(subject)}</b>"
            f"<span class='{'yes' if held == len(results) else 'no'}'>{held} of {len(results)} "
            f"claims hold</span><span>{count:,} comparisons</span>"
            f"{noticed}</a>"
        )
    return f"<nav class='cards' aria-label='Subjects'>{''.join(cards)}</nav>"


def _title(subject: str) -> str:
    return html.escape(SHELVES.get(subject, subject))


def _anchor(subject: str) -> str:
    return f"subject-{html.escape(subject, quote=True).replace(' ', '-')}"


def _subjects(run: ValidationRun) -> list[str]:
    """Subjects of the claims, those of the theory in their order and others after them."""
    subjects = dict.fromkeys(result.claim.subject for result in run.results)
    return sorted(subjects, key=lambda name: (*SHELVES, name).index(name))


def _link(result: ClaimResult) -> str:
    name = html.escape(result.claim.name, quote=True)
    return f"<a href='#{name}'>{marked_up(result.claim.title)}</a>"


def _resolutions(run: ValidationRun) -> str:
    """Functions of each subject with what would have been noticed, and those not covered."""
    covered = run.coverage
    head = "a relative change that would have been noticed, or (within) the tolerance of a "
    rows = [html_row("Subject", f"{head}comparison without random numbers", tag="th")]
    for subject, title in SHELVES.items():
        mine = sorted((c for c in covered if c.subject == subject), key=lambda c: c.resolution)
        words = [
            f"{_function(coverage)}&nbsp;{coverage.words}" for coverage in mine if coverage.claim
        ]
        rest = [coverage.function for coverage in mine if not coverage.claim]
        reasons: dict[str, list[str]] = {}
        for name in rest:
            reasons.setdefault(uncovered_reason(name) or OTHER_CLAIMS, []).append(name)
        notes = [f"{', '.join(names)}: {html.escape(text)}" for text, names in reasons.items()]
        if words or OTHER_CLAIMS not in reasons:
            small = "".join(f"<br><span class='small'>{note}</span>" for note in notes)
            rows.append(html_row(title, ", ".join(words) + small))
    return html_table(rows, "words") + _together(run)


def _together(run: ValidationRun) -> str:
    """Common factors over all claims, for functions in several of them."""
    verdict = run.together
    if not verdict.comparisons:
        return ""
    rows = [
        html_row("Common factor over all claims", *NUMBERS[1:3], "z", "would notice", tag="th")
    ]
    for factor in verdict.comparisons:
        numbers = (f"{factor.estimate:.5f}", f"{factor.standard_error:.2g}", f"{factor.z:.2f}")
        far = "far" if any(factor is row for row in verdict.failures) else ""
        rows.append(html_row(factor.of, *numbers, percent(verdict.resolution(factor)), style=far))
    return html_table(rows)


def _function(coverage: Coverage) -> str:
    """Name of a function, with a link to the claim that tests it sharpest."""
    if coverage.claim == TOGETHER:
        return coverage.function
    return f"<a href='#{coverage.claim}'>{coverage.function}</a>"


def _contents(run: ValidationRun) -> str:
    heads = (
        "Claim",
        "holds",
        "compared",
        "|z|",
        "allowed",
        "would notice",
        "median",
        "CPU\u00a0s",
    )
    rows = [html_row(*heads, tag="th")]
    for subject in _subjects(run):
        rows.append(f"<tr><th colspan='{len(heads)}'>{_title(subject)}</th></tr>")
        rows += [_content(result) for result in run.results if result.claim.subject == subject]
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
    sharp = (percent(share) for share in result.sharpness)
    return html_row(_link(result), holds, *numbers, *sharp, f"{result.seconds:.1f}")


def _subject(subject: str, run: ValidationRun, images: Mapping[str, str]) -> str:
    sections = [
        _section(result, images.get(result.claim.name))
        for result in run.results
        if result.claim.subject == subject
    ]
    return f"<h2 id='{_anchor(subject)}'>{_title(subject)}</h2>" + "\n".join(sections)


def _section(result: ClaimResult, image: str | None) -> str:
    claim = result.claim
    verdict = result.verdict
    text = html.escape
    head = (
        f"<h3 id='{text(claim.name, quote=True)}'>{text(claim.title)}</h3>"
        f"<p>{marked_up(claim.statement)}</p>"
        f"<p class='small'>{text(claim.name)}. {marked_up(claim.source)}.</p>"
    )
    if verdict is None or image is None:
        return head + f"<p class='no'>{text(result.error)}</p>"
    notes = "".join(f"<li>{marked_up(note)}</li>" for note in verdict.notes)
    names = (*(name.replace("_", " ") for name in NUMBERS), "z", "would notice")
    rows = [html_row("Quantity", *names, tag="th")]
    for comparison in verdict.evidence:
        numbers = (f"{getattr(comparison, name):.5g}" for name in NUMBERS)
        style = "pooled" if comparison.pooled else ""
        if any(comparison is row for row in verdict.failures):
            style = "far"
        seen = sharpness(verdict.resolution(comparison), comparison.standard_error == 0)
        rows.append(
            html_row(
                marked_up(comparison.label), *numbers, f"{comparison.z:.2f}", seen, style=style
            )
        )
    summary = f"<summary>{len(verdict.evidence)} comparisons</summary>"
    table = html_table(rows)
    listed = f"<ul class='small'>{notes}</ul>" if notes else ""
    return f"{head}{image}<details>{summary}{table}{listed}</details>"
