"""Every built page, opened from disk in a browser: `make site` builds them and runs this.

The name keeps it out of the other tests, which do not build the documentation.
"""

import re
from pathlib import Path

import pytest
from started_browser import console_errors, open_page, serious_findings

HTML = Path(__file__).resolve().parents[1] / "docs" / "_build" / "html"
PAGES = sorted(page for page in HTML.rglob("*.html") if "_static" not in page.parts)

TELEPHONE, SCREEN = 390, 1400
"""Pixels: no page is wider than these.  Pages without formulas are looked at on a telephone only,
where there is least room for text and code."""

LAST = [SCREEN]
"""Width of the page before, where the next one begins: another layout takes an eighth of its
time."""

TYPICAL = (
    "index.html",
    "first-steps.html",
    "explorer.html",
    "gallery/index.html",
    "gallery/pretraining/plot_double_descent.html",
    "api/generated/pretraining/iclimit.pretraining.icl_error.html",
    "theory/pretraining/icl.html",
    "notation.html",
)
"""A page of each kind."""

TEX = re.compile(r"\\[(\[]|\$\$|\\[a-zA-Z]{2,}")

LOOK = """
const done = arguments[arguments.length - 1];
const drawn = window.MathJax?.startup?.promise ?? Promise.resolve();
drawn.then(() => {
  const copy = document.body.cloneNode(true);
  copy.querySelectorAll("pre, code, script, style, mjx-container").forEach(each => each.remove());
  const tips = [...copy.querySelectorAll("[tooltip]")].map(each => each.getAttribute("tooltip"));
  done({
    text: [document.title, copy.textContent, ...tips].join(" "),
    formulas: document.querySelectorAll(".math").length,
    drawn: document.querySelectorAll("mjx-container").length,
    misread: document.querySelectorAll("[data-mml-node=merror], [data-mjx-error]").length,
    requests: performance.getEntriesByType("resource").map(each => each.name),
  });
});
"""

CUT = """
return [...document.querySelectorAll("div.math svg")].filter(formula => {
  const box = formula.closest("div.math"), number = box.querySelector(".eqno");
  const end = number ? number.getBoundingClientRect().left : box.getBoundingClientRect().right;
  return formula.getBoundingClientRect().right > end + 1;
}).map(formula => formula.closest("div.math").textContent.trim());
"""
"""Displayed formulas that reach beyond their column, or below their number."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HTML)))
def test_page(browser, page):
    open_page(browser, page)
    found = browser.execute_async_script(LOOK)
    assert not TEX.findall(found["text"])
    assert found["formulas"] <= found["drawn"]
    assert not found["misread"]
    assert [name for name in found["requests"] if not name.startswith(("file:", "data:"))] == []
    assert console_errors(browser) == []
    both = sorted((TELEPHONE, SCREEN), key=lambda width: width not in LAST)
    widths = both if found["formulas"] else [TELEPHONE]
    LAST[:] = widths[-1:]
    for width in widths:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} pixels wide on a screen of {width}"
        if width == SCREEN:
            assert browser.execute_script(CUT) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", TYPICAL)
def test_accessibility_without_serious_findings(browser, name, theme):
    features = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    open_page(browser, HTML / name)
    browser.execute_async_script(LOOK)
    # Themes differ in their colours only.
    rules = {"runOnly": {"type": "rule", "values": ["color-contrast"]}} if theme == "dark" else {}
    assert serious_findings(browser, **rules) == []


def test_there_are_pages():
    assert len(PAGES) > 300
