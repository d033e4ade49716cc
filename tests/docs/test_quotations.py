"""The sentences whose truth is computed in ``tests/docs/theory`` still stand in their pages."""

import runpy
from pathlib import Path

import pytest
from statements import Quotation, one_line

FILES = sorted((Path(__file__).parent / "theory").glob("test_*.py"))


def judged_in(file):
    return {
        name: getattr(each, "quotations", [])
        for name, each in runpy.run_path(str(file)).items()
        if name.startswith("test_")
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_pages_say_what_is_computed(file):
    for name, quotations in judged_in(file).items():
        assert quotations, f"{name} quotes nothing"
        gone = [each.text for each in quotations if not each.stands()]
        assert gone == [], f"{name} judges what its page no longer says: change both together"


def test_a_changed_sentence_is_seen(tmp_path):
    page = tmp_path / "page.rst"
    page.write_text("The error *never*\n  grows with more noise.", encoding="utf-8")
    assert Quotation(page, "The error *never* grows").stands()
    assert not Quotation(page, "The error never grows").stands()
    assert one_line(" a\n  b ") == "a b"
