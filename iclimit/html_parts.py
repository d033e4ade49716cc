"""Parts of pages that need no other file: the style of all reports, pictures, and text."""

import base64
import html
import io
import re
from importlib import resources

# Largest width of a picture within a page, in pixels.
WIDTH = 1100

# Distance of the levels of red, green and blue of a picture.  With so few levels, lines and
# letters are exact in fewer bytes than a compression with losses takes.
STEP = 17

# Table of these levels for each of the three colours.
_LEVELS = [STEP * round(level / STEP) for level in range(256)] * 3

# Formulas and code in a text.
_MARKUP = re.compile(r"\$([^$]+)\$|``([^`]+)``")


def style() -> str:
    """Style sheet of all reports."""
    return (resources.files(__package__) / "report.css").read_text(encoding="utf-8")


def document(title: str, body: str, *, heading: bool = True) -> str:
    """Whole page with a title, which is escaped, and a body of HTML.

    The title is the heading, too, unless the body has its own.
    """
    name = html.escape(title)
    head = (
        "<meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{name}</title><style>\n{style()}</style>"
    )
    first = f"<h1>{name}</h1>\n" if heading else ""
    return (
        f"<!doctype html>\n<html lang='en'><head>{head}</head><body>\n"
        f"{first}{body}\n</body></html>\n"
    )


def embedded(picture: bytes, title: str) -> str:
    """Picture (PNG) within the page, as WebP, which takes a seventh of the bytes.

    On a telephone a tap enlarges it; it is then scrolled.
    """
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        size = min(1.0, WIDTH / image.width)
        width = round(size * image.width)
        height = round(size * image.height)
        small = image.convert("RGB").resize((width, height))
        file = io.BytesIO()
    small.point(_LEVELS).save(file, "WEBP", lossless=True, quality=60)
    encoded = base64.b64encode(file.getvalue()).decode()
    words = html.escape(title, quote=True)
    return (
        f"<div class='scroll' tabindex='0' role='group' aria-label='{words}'>"
        f"<img alt='{words}' width='{width}' height='{height}' "
        f"loading='lazy' decoding='async' src='data:image/webp;base64,{encoded}'></div>"
    )


def marked_up(text: str) -> str:
    """Escaped text, with its ``code`` and its formulas between dollars as HTML."""
    parts = []
    for number, part in enumerate(_MARKUP.split(text)):
        if part is not None:
            parts.append((html.escape, _formula, _code)[number % 3](part))
    return "".join(parts)


def _code(text: str) -> str:
    return f"<code>{html.escape(text)}</code>"


def _formula(latex: str) -> str:
    from latex2mathml.converter import convert

    return re.sub(r' xmlns="[^"]*"', "", convert(latex))
