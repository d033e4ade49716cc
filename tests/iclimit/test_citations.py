"""What to cite: every name has an entry, and entries are whole."""

import re
from pathlib import Path

import pytest
from refusals import value_error

import iclimit
from iclimit.citations import papers_of, references
from iclimit.cli import main
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.registry import DERIVED, REGISTRY
from iclimit.validation import CLAIMS

SHELVES = (
    *("spectra", "pretraining", "descent", "gdpp", "dynamics"),
    *("networks", "softmax", "depth", "recurrent"),
)


def test_entries_are_whole():
    text = Path(iclimit.__file__).with_name("references.bib").read_text(encoding="utf-8")
    assert list(references()) == re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)
    for key, entry in references().items():
        assert entry.count("{") == entry.count("}"), key
        assert re.search(r"^  title = \{.+\},?$", entry, re.MULTILINE), key


def test_every_quantity_has_papers_or_is_derived_here():
    for name in QUANTITIES:
        keys = REGISTRY[name].papers
        assert keys
        assert set(keys) <= {DERIVED, *references()}
        assert len(set(keys)) == len(keys)


def test_every_claim_and_function_can_be_cited():
    names = [name for shelf in SHELVES for name in getattr(iclimit, shelf).__all__]
    for name in (*CLAIMS, *names):
        keys = papers_of(name)
        assert keys, name
        assert set(keys) <= {DERIVED, *references()}


def test_entries_come_once_after_what_they_are_for():
    text = iclimit.cite("wishart_resolvent", "icl_error", "solver")
    lines = text.splitlines()
    assert lines[:3] == [
        "% wishart_resolvent: marchenko1967, lu2025",
        "% icl_error: lu2025, letey2025; in part derived in iclimit",
        "% solver: iclimit itself",
    ]
    keys = re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)
    assert keys == ["marchenko1967", "lu2025", "letey2025", "iclimit"]


def test_sources_are_those_of_the_claim_and_of_the_docstring():
    assert papers_of("double-descent") == ("lu2025",)
    assert "mahankali2024" in papers_of("descent.optimal_learning_rate")
    assert papers_of("iclimit.pretraining.dmmse_errors") == papers_of("dmmse_errors")
    assert "raventos2023" in papers_of("dmmse_errors")
    assert papers_of("lu2025") == ("lu2025",)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("icl_eror", "icl_error"), ("double-decent", "double-descent"), ("lu2024", "lu2025")],
)
def test_unknown_names_get_a_hint(name, meant, capsys):
    assert main(["cite", name]) == 2
    assert f"got {name!r}; did you mean {meant}?" in capsys.readouterr().err


def test_names_belong_to_their_namespace():
    value_error(r"got 'softmax\.dmmse_errors'", iclimit.cite, "softmax.dmmse_errors")
    value_error(r"names must be quantities, claims .*, got none", iclimit.cite)


def test_the_command_prints_bibtex(capsys):
    assert main(["cite", "icl_error", "gdpp.optimal_gdpp"]) == 0
    assert capsys.readouterr().out == iclimit.cite("icl_error", "gdpp.optimal_gdpp") + "\n"
