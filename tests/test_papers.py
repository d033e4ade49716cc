"""The tables behind the page "From the papers", held to claims, settings and commands."""

import importlib
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import iclimit
from iclimit.cli import build_parser
from iclimit.explorer.page import PANELS
from iclimit.validation import CLAIMS

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))
pytest.importorskip("pybtex")  # of the documentation
PAGES = importlib.import_module("paper_pages")
KEYS, makers, mark, read = PAGES.KEYS, PAGES.makers, PAGES.mark, PAGES.read
FIGURES = read("paper_figures.csv")
COMMANDS = sorted({each for row in FIGURES for each in makers(row, "iclimit")})


def numbered(text):
    """Figures and tables that a text names: "Figures 14 to 16" are three."""
    found = set[str]()
    for kind, numbers in re.findall(r"(Figure|Table)s? ((?:\d+(?:, | and | to )?)+)", text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
            found |= {f"{kind} {n}" for n in range(int(first), int(last or first) + 1)}
    return found


def of_paper(source, key):
    """What a source says about one paper: up to the next semicolon."""
    return " ".join(re.findall(rf"{re.escape(mark(key))}([^;]*)", source))


def claims_of(row):
    for command in makers(row, "iclimit"):
        verb, name = command.split()[:2]
        if verb in ("figure", "validate"):
            yield name


def test_every_figure_is_made_or_has_a_reason():
    places = [(row["paper"], row["place"]) for row in FIGURES]
    assert len(set(places)) == len(places)
    assert {row["paper"] for row in FIGURES} == set(KEYS)
    for row in FIGURES:
        assert row["shows"]
        assert row["made_by"] or row["remark"], row
        picture = re.sub(r" [2-9]$", "", row["picture"])  # the number of a figure of an example
        assert picture in ("", *row["made_by"].split(" | ")), row
        assert bool(row["drawn"]) == bool(picture), row
        known = sum(len(makers(row, kind)) for kind in ("iclimit", "gallery", "explorer"))
        assert known == len([each for each in row["made_by"].split(" | ") if each]), row


def test_no_picture_serves_two_figures():
    pictures = [row["picture"] for row in FIGURES if row["picture"]]
    assert len(set(pictures)) == len(pictures)


def test_examples_draw_the_figures_whose_numbers_are_given():
    for row in FIGURES:
        if found := re.fullmatch(r"gallery (\S+) (\d)", row["picture"]):
            script = (ROOT / "docs" / "examples" / f"{found[1]}.py").read_text("utf-8")
            assert script.count("plt.subplots(") >= int(found[2]), row


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_accepted(command):
    build_parser().parse_args(shlex.split(command))


def test_pages_panels_and_figures_exist():
    for row in FIGURES:
        for page in makers(row, "gallery"):
            assert (ROOT / "docs" / "examples" / f"{page}.py").exists(), page
        assert set(makers(row, "explorer")) <= set(PANELS)
        for name in claims_of(row):
            drawn = {f"figure {name}"} & set(makers(row, "iclimit"))
            assert CLAIMS[name].figure or not drawn, name


def test_claims_name_the_figures_that_they_make_and_only_those():
    made = {(row["paper"], row["place"], name) for row in FIGURES for name in claims_of(row)}
    named = {
        (key, place, name)
        for name, claim in CLAIMS.items()
        for key in KEYS
        for place in numbered(of_paper(claim.source, key))
    }
    assert {each for each in made if re.search(r"\d", each[1])} == named
    for key, place, name in made:
        assert mark(key) in CLAIMS[name].source, (key, place, name)


def test_settings_of_figures_are_those_of_a_claim_or_a_command():
    folders = (ROOT / "validation" / name for name in ("claims", "reference"))
    modules = "".join(p.read_text("utf-8") for each in folders for p in each.rglob("*.py"))
    for name, setting in iclimit.settings.items():
        key = name.partition("-")[0]
        for place in numbered(of_paper(setting.reference, key)):
            row = next(r for r in FIGURES if (r["paper"], r["place"]) == (key, place))
            given = [dict(pairwise(each.split())) for each in makers(row, "iclimit")]
            wanted = {f"--{flag}": f"{value:g}" for flag, value in setting.items()}
            assert f'settings["{name}"]' in modules or any(
                wanted.items() <= each.items() for each in given
            ), name


def test_errata_say_what_shows_them():
    for row in read("errata.csv"):
        assert row["paper"] in KEYS
        assert row["kind"] in PAGES.KINDS
        assert row["printed"]
        assert row["found"]
        shown = row["shown_by"]
        if shown.startswith("tests/"):
            path, _, name = shown.partition("::")
            assert f"def {name}" in (ROOT / path).read_text("utf-8")
        else:
            assert shown == "algebra" or shown in CLAIMS


def test_our_own_paper_cites_what_is_in_the_bibliography_and_is_short():
    text = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
    bibliography = (ROOT / "iclimit" / "references.bib").read_text(encoding="utf-8")
    known = set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE))
    cited = set(re.findall(r"@(\w+)", text))
    assert "lu2025" in cited
    assert cited <= known
    assert len(text.split()) <= 1500
    for picture in re.findall(r"\]\((\.\./[^)]+)\)", text):
        assert (ROOT / "paper" / picture).is_file()
