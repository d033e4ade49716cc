"""Sentences of the documentation, beside the computation that judges each of them.

`states` quotes a sentence at the test that computes whether it is true.  The quotation is looked
up in its page by ``tests/docs/test_quotations.py``: no sentence changes without its test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


@dataclass(frozen=True)
class Quotation:
    """A sentence, or the part of it that is judged, and the page in which it stands."""

    page: Path
    text: str

    def stands(self) -> bool:
        """Whether the page has the text, however its lines are broken."""
        return one_line(self.text) in one_line(self.page.read_text(encoding="utf-8"))


def states(page: str, *texts: str) -> Callable[[Callable], Callable]:
    """Quote what a test judges, from a page of the theory, as in ``"pretraining/icl"``."""

    def quote(test: Callable) -> Callable:
        path = DOCS / "theory" / f"{page}.rst"
        test.quotations = [*getattr(test, "quotations", []), *(Quotation(path, t) for t in texts)]
        return test

    return quote


def one_line(text: str) -> str:
    """The text with single spaces between its words."""
    return " ".join(text.split())
