"""The pages "From the papers", from tables of their figures and errata and from the claims."""

import csv
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent, wrap
from zlib import crc32

from markup import table
from pybtex.database import parse_file

from iclimit.cli import main
from iclimit.published import PAPERS, settings
from iclimit.units import CONVENTIONS
from iclimit.validation import CLAIMS

TABLES = Path(__file__).parent / "tables"
BIBLIOGRAPHY = parse_file(TABLES.parents[1] / "iclimit" / "references.bib").entries
KEYS = (*PAPERS, "bordelon2026", "takanami2025")
"""Papers whose figures are listed."""
KINDS = {
    "misprint": "what a paper prints and is wrong",
    "remark": "what is right as printed or was never in print, and may mislead",
}
"""Kinds of errata, and what they are."""


def read(name: str) -> list[dict[str, str]]:
    """Rows of a table."""
    with (TABLES / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def makers(row: dict[str, str], kind: str) -> list[str]:
    """What makes a figure: commands ("iclimit"), pages ("gallery") or panels ("explorer")."""
    every = filter(None, row["made_by"].split(" | "))
    return [each.removeprefix(f"{kind} ") for each in every if each.startswith(f"{kind} ")]


def mark(key: str) -> str:
    """What a source that names a paper contains."""
    found = re.search(r"arXiv:[\d.]+", BIBLIOGRAPHY[key].fields.get("note", ""))
    return found[0] if found else PAPERS[key]


def wall() -> Iterator[str]:
    """Yield cards with the figures that have a picture, paper by paper, and links to the rest."""
    for key in KEYS:
        yield from _heading(_title(key))
        yield from (f":cite:t:`{key}`; :doc:`all figures and statements </{PAGES}/{key}>`.", "")
        yield from (".. grid:: 1 2 2 3", "   :gutter: 3", "   :class-container: wall", "")
        for row in read("paper_figures.csv"):
            if row["paper"] == key and row["picture"]:
                yield from indent("\n".join(_card(row)), "   ").split("\n")


def _card(row: dict[str, str]) -> Iterator[str]:
    """Yield a picture, what it draws, and the command or the script that draws it."""
    kind, _, made_by = row["picture"].partition(" ")
    drawn = _greek(row["drawn"])
    if kind == "gallery":
        drawn += f"; :doc:`script </gallery/{made_by.split()[0]}>`"
    yield from (f".. grid-item-card:: {row['place']}", f"   :img-top: {_picture(row)}")
    yield from (f"   :img-alt: {_greek(row['drawn'])}", "", f"   {drawn}.", "")
    if kind == "iclimit":
        lines = made_by.replace(" --", " \\\n        --")  # one flag a line, as cards are narrow
        yield from ("   .. code-block:: text", "", *f"      iclimit {lines}".split("\n"), "")


def _picture(row: dict[str, str]) -> str:
    """Path of a picture: of the gallery, or where `draw_wall` writes it.

    The thumbnail of an example is its first figure; the number of another figure follows its name.
    """
    kind, _, made_by = row["picture"].partition(" ")
    if kind == "gallery":
        example, _, number = made_by.partition(" ")
        subject, _, name = example.partition("/")
        folder = f"/gallery/{subject}/images"
        if number:
            return f"{folder}/sphx_glr_{name}_{int(number):03}.png"
        return f"{folder}/thumb/sphx_glr_{name}_thumb.png"
    return f"/{PAGES}/{crc32(made_by.encode()):08x}.png"


def draw_wall(docs: Path) -> None:
    """Draw the pictures that a command makes, unless they are there."""
    for row in read("paper_figures.csv"):
        kind, _, command = row["picture"].partition(" ")
        picture = docs / _picture(row)[1:]
        if kind == "iclimit" and not picture.exists():
            options = ["--style", "talk"]
            if command.startswith("figure "):
                # Several axes need the room of a screen; the gallery needs the worker processes.
                options = ["--style", "screen", "--jobs", "1"]
            main([*shlex.split(command), *options, "-o", str(picture)])


PAGES = "api/generated/papers"
"""Folder of the pages of single papers and of the pictures of the wall."""


def papers() -> Iterator[tuple[str, str]]:
    """Yield the name of a page and its text: one for each paper, and one for other sources."""
    for key in KEYS:
        yield key, "\n".join(_paper(key)) + "\n"
    yield "others", "\n".join(_others()) + "\n"


def _paper(key: str) -> Iterator[str]:
    """Yield the figures of a paper, the claims that name it, its settings and conventions."""
    seconds = _seconds()
    title = _title(key)
    yield from (title, "=" * len(title), "", f":cite:t:`{key}`", "")
    own = [row for row in read("paper_figures.csv") if row["paper"] == key]
    for row in own:
        yield from _figure(row, seconds)
    named = {word for row in own for each in makers(row, "iclimit") for word in each.split()}
    yield from _claims([mark(key)], "Statements", seconds, named)
    yield from _setting_and_conventions(key)


def _others() -> Iterator[str]:
    """Yield the claims that name none of these papers."""
    yield from ("Other sources", "=============", "")
    yield from ("Formulas, and what is derived in the documentation.", "")
    marks = [mark(key) for key in KEYS]
    others = {n for n, claim in CLAIMS.items() if any(each in claim.source for each in marks)}
    yield from _claims([""], "", _seconds(), others)


def _seconds() -> dict[str, str]:
    return {row["Claim"]: row["CPU seconds"] for row in read("claim_times.csv")}


def _title(key: str) -> str:
    return re.sub("[{}]", "", BIBLIOGRAPHY[key].fields["title"])


def _figure(row: dict[str, str], seconds: dict[str, str]) -> Iterator[str]:
    """Yield a figure as an entry of a definition list, with its commands as a block."""
    yield from (f"**{row['place']}**", f"   {_greek(row['shows'])}.", "")
    if commands := makers(row, "iclimit"):
        yield from ("   .. code-block:: text", "")
        for each in commands:
            time = seconds.get(each.split()[1] if each.split()[0] in VERBS else each, "")
            line = f"iclimit {each}" + (f"  # {time} s" if time else "")
            parts = wrap(re.sub(r" (?!-)", "\xa0", line), COLUMNS, break_long_words=False)
            yield from (" " * 6 + " \\\n          ".join(parts).replace("\xa0", " ")).split("\n")
        yield ""
    links = [f":doc:`/gallery/{each}`" for each in makers(row, "gallery")]
    links += [f":doc:`explorer </explorer>`, panel {each}" for each in makers(row, "explorer")]
    remark = _greek(row["remark"])
    remark = remark if row["made_by"] else f"**Not made.** {remark}"
    if links:
        remark = f"See {'; '.join(links)}.  {remark}"
    yield from (f"   {remark}".rstrip(), "")


def _greek(text: str) -> str:
    """Text with the names of parameters as letters; those of formulas stay."""
    return re.sub(rf"(?<!\\)\b({'|'.join(GREEK)})\b", lambda found: GREEK[found[0]], text)


GREEK = {"alpha": "α", "tau": "τ", "kappa": "κ", "rho": "ρ", "gamma": "γ"}

COLUMNS = 76
"""Longest line of a command, about."""

VERBS = ("figure", "validate")
"""Verbs whose first argument is a claim, which has the time."""


def _claims(
    marks: list[str], title: str, seconds: dict[str, str], without: set[str]
) -> Iterator[str]:
    """Yield the claims whose source has one of these marks, as a list."""
    found = [
        (name, claim)
        for name, claim in CLAIMS.items()
        if name not in without and any(each in claim.source for each in marks)
    ]
    if title and found:
        yield from (f"**{title}**", "")
    for name, claim in found:
        verb = "figure" if claim.figure else "validate"
        time = f", {seconds[name]} s" if name in seconds else ""
        yield f"* {claim.title}: ``iclimit {verb} {name}``{time}"
    yield ""


def _setting_and_conventions(key: str) -> Iterator[str]:
    for name, setting in settings.items():
        if name.startswith(key):
            values = ", ".join(f"``{k} = {v!r}``" for k, v in setting.items())
            yield f'* ``iclimit.settings["{name}"]``: {values}'
    yield ""
    for each in CONVENTIONS.values():
        if each.paper == key and each.remark:
            yield f"* Convention ``{each.name}``: {each.remark}"
    if key == "bordelon2026":
        yield "* More notes on the printed formulas: :doc:`/theory/depth/errata`."
    yield ""


def errata() -> Iterator[str]:
    """Yield tables of misprints and of remarks."""
    for kind, meaning in KINDS.items():
        rows = [("Where", "Printed", "Found here", "Shown by")]
        for row in read("errata.csv"):
            if row["kind"] == kind:
                where = f":cite:t:`{row['paper']}`: {row['place']}"
                found = row["found"].rstrip(".")
                found += f".  They coincide for {row['coincide']}." * bool(row["coincide"])
                shown = Path(row["shown_by"].partition("::")[0]).name
                shown = shown if shown == "algebra" else f"``{shown}``"
                rows.append((*map(_greek, (where, row["printed"], found)), shown))
        yield from (*_heading(f"{kind.capitalize()}s"), f"{meaning.capitalize()}.", "")
        yield from (table("26 24 34 16", rows), "")


def _heading(title: str) -> Iterator[str]:
    yield from (title, "-" * len(title), "")
