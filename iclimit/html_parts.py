"""Parts of pages that need no other file: tables, pictures, the style of all reports."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from importlib import resources


def style() -> str:
    """Style sheet of all reports."""
    return (resources.files(__package__) / "report.css").read_text(encoding="utf-8")


def document(title: str, body: str) -> str:
    """Whole page with a title, which is escaped, and a body of HTML."""
    name = html.escape(title)
    head = f"<meta charset='utf-8'><title>{name}</title><style>\n{style()}</style>"
    return (
        f"<!doctype html>\n<html lang='en'><head>{head}</head><body>\n"
        f"<h1>{name}</h1>\n{body}\n</body></html>\n"
    )


def table_row(*entries: object, tag: str = "td", style: str = "") -> str:
    """Row of a table; entries are HTML."""
    cells = "".join(f"<{tag}>{entry}</{tag}>" for entry in entries)
    return f"<tr class='{style}'>{cells}</tr>"


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Table of text, which is escaped; the first line is the heading."""
    rows = [
        table_row(*map(html.escape, line), tag="td" if number else "th")
        for number, line in enumerate(lines)
    ]
    return f"<table>{''.join(rows)}</table>"


def embedded(picture: bytes, title: str) -> str:
    """Picture (PNG) within the page."""
    encoded = base64.b64encode(picture).decode()
    return f"<img alt='{html.escape(title)}' src='data:image/png;base64,{encoded}'>"
