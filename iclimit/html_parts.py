"""Parts of pages that need no other file: the style of all reports, and pictures."""

from __future__ import annotations

import base64
import html
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


def embedded(picture: bytes, title: str) -> str:
    """Picture (PNG) within the page."""
    encoded = base64.b64encode(picture).decode()
    return f"<img alt='{html.escape(title)}' src='data:image/png;base64,{encoded}'>"
