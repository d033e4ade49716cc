"""Every built page in a browser: `make site` builds them and runs this.

A page of each kind is opened from disk.  The contents of the others, of which there are hundreds,
are shown one after another within an open page, which loads styles and scripts once.

The name keeps it out of the other tests, which do not build the documentation.
"""

import html
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from started_browser import console_errors, open_page, serious_findings

HTML = (Path(__file__).resolve().parents[1] / "docs" / "_build" / "html").resolve()
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
"""A page of each kind; only the explorer's has a frame."""

FRAME = HTML / TYPICAL[5]
"""Within which the others are shown; it has formulas, so that it draws theirs."""

TEXT = ":~:text="
"""Before the words that a browser shows."""

TEX = re.compile(r"\\[(\[]|\$\$|\\[a-zA-Z]{2,}")

QUESTIONS = {
    "overlay data points on phase diagram": ("phase-diagrams",),
    "are my results consistent with theory": ("your-runs",),
    "citation bibtex": ("papers", "references"),
    "colab notebook": ("first-steps",),
    "plot error against number of prompts": ("gallery/pretraining/plot_double_descent", "figures"),
    "what is tau": ("notation", "twelve-functions"),
    "install": ("first-steps",),
    "how many runs do I need": ("plan-runs",),
    "check my table of results": ("your-runs", "gallery/yours/plot_check_runs"),
    "fit noise level to data": ("fit-parameters",),
    "which algorithm does my model implement": (
        "your-model",
        "gallery/yours/plot_which_algorithm",
    ),
    "error of trained weights": ("trained-weights",),
    "loss curve of training": ("your-curves",),
    "run on a GPU": ("gpu",),
    "phase diagram": ("phase-diagrams", "gallery/pretraining/plot_phase_diagram"),
    "double descent": ("gallery/pretraining/plot_double_descent",),
    "when to stop training": (
        "theory/pretraining/training-time",
        "gallery/pretraining/plot_training_time",
    ),
    "finite size corrections": ("theory/pretraining/finite-size",),
    "best learning rate of gradient descent in context": (
        "gallery/descent/plot_learning_rate",
        "theory/descent/gradient-descent",
    ),
    "softmax attention": ("theory/softmax/softmax",),
    "resume an interrupted simulation": ("runs",),
    "command line options": ("api/command-line",),
    "optimal ridge": (
        "gallery/pretraining/plot_optimal_ridge",
        "api/generated/pretraining/iclimit.pretraining.optimal_ridge",
    ),
    "figure for a paper": ("figures", "papers"),
    "conventions of other papers": ("notation",),
}
"""What people type, with the pages that answer."""

SHOW = """
const [text, address] = arguments, done = arguments[arguments.length - 1];
const page = new DOMParser().parseFromString(text, "text/html");
document.querySelectorAll("img").forEach(each => each.removeAttribute("src"));
document.querySelector("link[rel=icon]")?.remove(); // it would be looked for beside the page shown
document.body.remove();
document.querySelector("base")?.remove();
const base = document.createElement("base");
base.href = address; // of images
document.head.prepend(base);
document.title = page.title;
performance.clearResourceTimings();
MathJax.startup.document.clear();
MathJax.texReset();
const images = page.querySelectorAll("img");
images.forEach(each => { each.loading = "eager"; });
document.documentElement.append(document.adoptNode(page.body));
const loaded = [...images].map(each => each.complete
  ? null : new Promise(end => { each.onload = each.onerror = end; }));
Promise.all([MathJax.typesetPromise(), ...loaded]).then(() => done());
"""
"""Scripts that a page has in its body are not run, and no copy buttons are made."""

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

ROWS = "document.querySelectorAll('tr:nth-child(n+16)').forEach(each => each.remove())"
"""Tables end after some rows, as the others are like them and take axe-core ten seconds."""

CUT = """
return [...document.querySelectorAll("div.math svg")].filter(formula => {
  const box = formula.closest("div.math"), number = box.querySelector(".eqno");
  const end = number ? number.getBoundingClientRect().left : box.getBoundingClientRect().right;
  return formula.getBoundingClientRect().right > end + 1;
}).map(formula => formula.closest("div.math").textContent.trim());
"""
"""Displayed formulas that reach beyond their column, or below their number."""


def name_of(page):
    return page.relative_to(HTML).as_posix()


def check(browser):
    """What is in the page, and what it says, is drawn without errors and in its width."""
    seen = browser.execute_async_script(LOOK)
    errors = console_errors(browser)  # of this page, whatever is found first
    assert not TEX.findall(seen["text"])
    assert seen["formulas"] <= seen["drawn"]
    assert not seen["misread"]
    assert [name for name in seen["requests"] if not name.startswith(("file:", "data:"))] == []
    assert errors == []
    both = sorted((TELEPHONE, SCREEN), key=lambda width: width not in LAST)
    widths = both if seen["formulas"] else [TELEPHONE]
    LAST[:] = widths[-1:]
    for width in widths:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} pixels wide on a screen of {width}"
        if width == SCREEN:
            assert browser.execute_script(CUT) == []


@pytest.mark.parametrize("name", TYPICAL)
def test_opened_page(browser, name):
    for theme in ("dark", "light"):
        features = [{"name": "prefers-color-scheme", "value": theme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        open_page(browser, HTML / name)
        check(browser)
        browser.execute_script(ROWS)
        # Themes differ in their colours only.
        dark = theme == "dark"
        rules = {"runOnly": {"type": "rule", "values": ["color-contrast"]}} if dark else {}
        assert serious_findings(browser, **rules) == []


def test_search_shows_no_tex(browser):
    """Neither in the titles of results nor in what is quoted from their pages."""
    open_page(browser, HTML / "search.html")
    titles, quoted = browser.execute_script("""
const formula = String.raw`<span class="math">\\(\\frac d\\ell \\tau = n/d^2\\)</span>`;
const { titles, alltitles } = Search._index;
const quoted = Search.htmlToText(`<div role="main">${formula}</div>`);
return [[...titles, ...Object.keys(alltitles)], quoted];
""")
    assert len(titles) > 300
    assert not any(TEX.search(title) for title in titles)
    assert quoted.strip() == "d/ℓτ= n/d^2"


def test_search_answers_questions(browser):
    """A page that answers is among the first three, though none has all the words."""
    open_page(browser, HTML / "search.html")
    found = browser.execute_script(
        """
return arguments[0].map(question => {
  const results = Search._performSearch(...Search._parseQuery(question));
  return results.reverse().slice(0, 3).map(([page]) => page);
});
""",
        [*QUESTIONS],
    )
    for (question, answers), pages in zip(QUESTIONS.items(), found, strict=True):
        assert any(page.startswith(answers) for page in pages), f"{question}: {pages}"


def test_search_shows_few_results_and_quotes_sentences(browser):
    """The best twenty, and a sentence with a word of the question rather than code."""
    open_page(browser, HTML / "search.html")
    shown, more = browser.execute_script("""
window.fetch = () => new Promise(() => {});  // pages cannot be read from disk
Search.performSearch("how many runs");
return [Search._performSearch(...Search._parseQuery("how many runs")).length,
        document.querySelector(".more-results").textContent];
""")
    assert more == f"{shown - 20} more"
    quoted = browser.execute_script("""
const page = `<main><ul class="bd-header-article"><p>runs</p></ul><article><p>First.</p>
<details><p>Many runs.</p></details><div class="highlight"><p>runs = 2</p></div>
<section id="here"><p>Three runs.</p></section></article></main>`;
return Search.makeSearchSummary(page, new Set(["run"]), "").textContent;
""")
    assert quoted == "Three runs."


def test_search_quotes_a_sentence_of_each_command(browser):
    """Their pages are help texts, which are code."""
    open_page(browser, HTML / "search.html")
    commands = [*(HTML / "api" / "generated" / "command").glob("*.html")]
    assert len(commands) > 20
    for command in commands:
        quoted = browser.execute_script(
            'return Search.makeSearchSummary(arguments[0], new Set(["iclimit"]), "").textContent',
            command.read_text("utf-8"),
        )
        assert re.fullmatch("[A-Z].{10,}[.?]", quoted), f"{command.stem}: {quoted}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_content_of_page(browser, page):
    if browser.current_url != FRAME.as_uri():
        open_page(browser, FRAME)
        browser.execute_async_script(LOOK)
    browser.execute_async_script(SHOW, page.read_text("utf-8"), page.as_uri())
    check(browser)


@cache
def written(target):
    """What a file has; None if it is not there."""
    if target.suffix not in {".html", ".txt"}:
        return "" if target.exists() else None
    return target.read_text("utf-8") if target.exists() else None


@cache
def places(target):
    """Identifiers of a page."""
    return set(re.findall(r"""\s(?:id|name)=["']([^"']+)["']""", written(target)))


def leads_somewhere(page, name):
    """Whether a link has a file and, in it, the place that it names."""
    path, _, place = html.unescape(unquote(name)).partition("#")
    if re.match(r"[a-z]+:", path):
        return True
    target = (page.parent / path.partition("?")[0]).resolve() if path else page
    if written(target) is None:
        return False
    if place.startswith(TEXT):
        return place.removeprefix(TEXT) in written(target)
    return not place or place in places(target)


def test_what_pages_refer_to_is_there():
    """Pictures, styles and scripts, and the pages and places behind links."""
    missing = {
        (name_of(page), name)
        for page in PAGES
        for name in set(re.findall(r"""\s(?:src|href)=["']([^"']+)["']""", written(page)))
        if not leads_somewhere(page, name)
    }
    assert missing == set()


def test_there_are_pages():
    assert len(PAGES) > 300
    assert all((HTML / name).exists() for name in TYPICAL)
    frames = [name_of(page) for page in PAGES if "<iframe" in page.read_text("utf-8")]
    assert frames == ["explorer.html"]
