"""The explorer in a browser: every panel, at two widths, in both themes."""

import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from generated_javascript import MINIMA
from PIL import Image
from started_browser import console_errors, serious_findings

import iclimit
from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.asymptotics.pretraining.errors_at_size import LOSS
from iclimit.asymptotics.softmax import optimal_softmax
from iclimit.explorer.page import PANELS, explorer_page

pytestmark = pytest.mark.slow

WIDTHS = (1400, 390)

DOCS = Path(__file__).resolve().parents[3] / "docs"

BOXES = """
const visible = (e) => e.offsetParent !== null && getComputedStyle(e).visibility !== 'hidden';
const box = (e) => {
  const r = e.getBoundingClientRect();
  return [r.left, r.top, r.right, r.bottom];
};
const list = (query) => Array.from(document.querySelectorAll(query)).filter(visible).map(box);
return {
  blocks: list('header, nav, .head, .side, .stage, .below > section, footer'),
  controls: list('.control'), charts: list('.chart canvas'),
  links: list('nav a'), current: list('nav a[aria-current]'),
  texts: list('h2, h3, #summary, #intro, .keys, label, pre, .math'),
  page: [document.documentElement.scrollWidth, innerWidth],
};
"""

INK = """return Array.from(document.querySelectorAll('.chart canvas'), (canvas) => {
  const { width, height } = canvas;
  const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) {
    const [r, g, b] = [data[i], data[i + 1], data[i + 2]];
    if (Math.max(r, g, b) - Math.min(r, g, b) > 60) return true;
  }
  return false;
})"""
"""Whether the charts have a coloured pixel: neither their axes nor their texts have colours."""


PICTURED = (
    *("#panel=icl", "#panel=phases", "#panel=spectra", "#panel=training&view=landscape"),
    *("#panel=descent&view=steps", "#panel=softmax"),
)
"""Views with each kind of mark."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    path.write_text(explorer_page(), encoding="utf-8")
    return path


def resize(browser, width, theme):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in media.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def rest(browser):
    """Do at once what waits for the parameters to rest; charts are drawn after the script."""
    script = "explorer.rest(); await null;"
    browser.execute_script(script)


def load(browser, page, link="", width=1400, theme="light"):
    """Open the page at a link, as a reader does."""
    resize(browser, width, theme)
    browser.get("about:blank")
    browser.get(page.resolve().as_uri() + link)
    rest(browser)


def follow(browser, link):
    """Follow a link from the defaults."""
    script = """
    for (const panel of explorer.panels) explorer.states[panel.id] = explorer.defaults(panel);
    explorer.panel = null;
    explorer.follow(arguments[0]);
    """
    browser.execute_script(script, link)


def show(browser, link):
    """Follow a link, and let the parameters rest."""
    follow(browser, link)
    rest(browser)


def state(browser):
    script = "return JSON.stringify(explorer.states[explorer.panel.id])"
    return json.loads(browser.execute_script(script))


def identities(browser):
    return browser.execute_script("return explorer.panels.map((panel) => panel.id)")


def views(browser):
    """Links to all panels, and to all views of those that have several."""
    script = """return explorer.panels.flatMap((panel) => {
      const view = panel.controls.find((control) => ['view', 'axis'].includes(control.name));
      const values = (view?.options ?? []).map(([value]) => value);
      const links = values.map((value) => `#panel=${panel.id}&${view.name}=${value}`);
      return links.length ? links : [`#panel=${panel.id}`];
    })"""
    return browser.execute_script(script)


def overlap(a, b):
    return min(a[2], b[2]) - max(a[0], b[0]) > 1 and min(a[3], b[3]) - max(a[1], b[1]) > 1


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_overflows_overlaps_or_is_empty(browser, page, width, theme):
    load(browser, page, width=width, theme=theme)
    assert len(identities(browser)) == len(PANELS)
    for link in views(browser):
        show(browser, link)
        found = browser.execute_script(BOXES)
        assert found["page"][0] <= found["page"][1], link
        for kind in ("blocks", "controls", "links", "current", "charts"):
            boxes = found[kind]
            assert boxes, (link, kind)
            for i, box in enumerate(boxes):
                # On a telephone the row of panels is scrolled to the current one.
                if kind != "links" or width > 700:
                    assert box[0] >= 0, (link, kind)
                    assert box[2] <= width + 1, (link, kind)
                assert box[2] - box[0] > 20, (link, kind)
                assert box[3] - box[1] > 12, (link, kind)
                assert not any(overlap(box, other) for other in boxes[:i]), (link, kind)
        assert all(box[3] - box[1] > 8 for box in found["texts"]), link
        assert all(browser.execute_script(INK)), link
        assert not console_errors(browser), link


MOVED = """
const drawn = () => {
  const { charts } = explorer.result;
  return JSON.stringify([explorer.rows(), charts.map(({ marks, title }) => [marks, title])]);
};
const { panel } = explorer;
const [start, first] = [{ ...explorer.states[panel.id] }, drawn()];
const shown = panel.controls.filter((control, i) =>
  controls.isSlider(control) && !explorer.widgets[i].root.hidden);
const useless = [];
for (const { name } of shown) {
  Object.assign(explorer.states[panel.id], start); // other sliders may need some values
  const slider = document.getElementById(`${panel.id}-${name}`);
  slider.value = Number(slider.value) > 600 ? 480 : 720;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  await new Promise(requestAnimationFrame);
  if (explorer.states[panel.id][name] === start[name] || drawn() === first) useless.push(name);
}
return [shown.length, useless];
"""


def test_every_slider_changes_what_is_drawn(browser, page):
    load(browser, page)
    total = 0
    for link in views(browser):
        follow(browser, link)
        count, useless = browser.execute_script(MOVED)
        assert not useless, link
        total += count
    assert total > 40
    assert not console_errors(browser)


def test_guides_lead_to_what_they_name(browser, page):
    """Three steps a panel; their values are of its controls, and none is changed on the way."""
    load(browser, page)
    for panel in identities(browser):
        show(browser, f"#panel={panel}")
        guide = browser.execute_script("return explorer.panel.guide")
        assert len(guide) == 3, panel
        for number, (text, values) in enumerate(guide):
            script = "document.querySelectorAll('#guide button')[arguments[0]].click()"
            browser.execute_script(f"{script}; await new Promise(requestAnimationFrame)", number)
            rest(browser)
            assert text[-1] == "."
            assert state(browser).items() >= values.items(), text
            assert all(browser.execute_script(INK)), text
    assert not console_errors(browser)


def test_many_views_in_one_task(browser, page):
    """Charts draw after the task: those that have given way do not see another's axes."""
    load(browser, page)
    links = views(browser)
    script = "for (const link of arguments[0]) explorer.follow(link);"
    browser.execute_script(script, links + links[::-1])
    rest(browser)
    assert all(browser.execute_script(INK))
    assert not console_errors(browser)


def test_links_restore_the_state(browser, page):
    link = "#panel=icl&axis=alpha&tau=3.5&alpha=1&kappa=4&rho=0.25&ridge=0.01"
    load(browser, page, link)
    expected = {"axis": "alpha", "tau": 3.5, "alpha": 1, "kappa": 4, "rho": 0.25, "ridge": 0.01}
    assert state(browser).items() >= expected.items()
    restored = browser.execute_script("return document.getElementById('link').href")
    shown = browser.execute_script("return JSON.stringify(explorer.rows())")
    assert browser.execute_script("return location.href") == restored
    load(browser, page, "#" + restored.partition("#")[2])
    assert browser.execute_script("return JSON.stringify(explorer.rows())") == shown


PREDICTED = [
    ("tau", {"alpha": 1, "kappa": 0.5, "rho": 0.01, "ridge": 0, "dim": 100}),
    ("tau", {"alpha": 20, "kappa": 2, "rho": 0.3, "ridge": 0.003, "dim": 25}),
    ("alpha", {"tau": 0.6, "kappa": 0.7, "rho": 0.1, "ridge": 0, "dim": 40}),
    ("kappa", {"tau": 3, "alpha": 2, "rho": 0.05, "ridge": 0.1, "dim": 32}),
]
VARIED = {"tau": "prompts", "alpha": "context", "kappa": "tasks"}


@pytest.mark.parametrize(("axis", "setting"), PREDICTED)
def test_dashed_lines_are_the_predictions_of_the_library(browser, page, axis, setting):
    link = "&".join(f"{name}={value}" for name, value in setting.items())
    load(browser, page, f"#panel=icl&axis={axis}&{link}")
    script = """return explorer.result.charts[0].lines.slice(2).map(({ label, x, y }) =>
      [label, Array.from(x), Array.from(y, String)])"""
    icl, idg = browser.execute_script(script)
    dim = int(setting["dim"])
    assert [icl[0], idg[0]] == [f"{name}, predicted at d = {dim}" for name in ("ICL", "IDG")]
    values = np.array([icl[2], idg[2]], dtype=float)
    known = {"alpha": 1, "tau": 1, "kappa": 1} | setting
    run = {"dim": dim, "context": round(known["alpha"] * dim)}
    run |= {"tasks": round(known["kappa"] * dim), "prompts": round(known["tau"] * dim**2)}
    for place in range(1, len(icl[1]), len(icl[1]) // 4):
        count = round(icl[1][place] * (dim**2 if axis == "tau" else dim))
        expected = finite_size_errors(
            **run | {VARIED[axis]: count},
            rho=setting["rho"],
            ridge=setting["ridge"],
            approach="moments",
            draws=40,
            rng=0,
        )
        for value, estimate in zip(values[:, place], (expected.icl, expected.idg), strict=True):
            allowed = 4 * estimate.standard_error + LOSS / dim * estimate.mean
            assert abs(value - estimate.mean) < allowed, (axis, count)


@pytest.mark.parametrize(("dim", "noise_ratio"), [(6, 0.0), (20, 0.2)])
def test_softmax_heads_of_finite_contexts(browser, page, dim, noise_ratio):
    load(browser, page, f"#panel=softmax&view=ratio&dim={dim}&noise_ratio={noise_ratio}")
    script = "const [p] = explorer.result.charts[0].points; return [p.x, p.y, p.error];"
    ratios, losses, errors = map(np.array, browser.execute_script(script))
    contexts = np.round(dim / ratios).astype(int)
    size = {"context": contexts, "dim": dim, "noise_variance": noise_ratio * contexts}
    exact = optimal_softmax(**size).loss / dim
    z = (losses - exact) / errors
    assert np.all(abs(z) < 4), z
    assert np.all(errors < 0.1 * exact)


def test_sampled_spectra_have_the_moments_of_wishart_matrices(browser, page):
    load(browser, page)
    script = """return [[8, 5], [5, 8]].map(([context, dim]) =>
      Array.from({ length: 4000 }, (_, seed) => {
        const values = numbers.sampleSpectrum(context, dim, seed + 1);
        return [1, 2].map((k) => values.reduce((sum, v) => sum + v ** k, 0) / dim);
      }))"""
    for (context, dim), found in zip(
        [(8, 5), (5, 8)], browser.execute_script(script), strict=True
    ):
        means = np.mean(found, axis=0)
        errors = np.std(found, axis=0) / len(found) ** 0.5
        # E tr H / d = 1 and E tr H^2 / d = 1 + (d + 1)/N, by Wick's theorem.
        expected = np.array([1, 1 + (dim + 1) / context])
        assert np.all(abs(means - expected) < 4 * errors)


@pytest.mark.parametrize("allowed", [True, False])
def test_maps_become_fine_beside_the_page(browser, page, allowed):
    load(browser, page)
    script = "window.Worker = arguments[0] ? Worker : () => { throw Error('none'); };"
    browser.execute_script(script, allowed)
    follow(browser, "#panel=phases&quantity=optimal_icl_error&tau=0.7")
    points = "return document.querySelector('.points').textContent"
    assert "20 × 20 points, refining" in browser.execute_script(points)
    # An earlier request is dropped.
    browser.execute_script(
        "explorer.refine(); explorer.states.phases.tau = 0.8; explorer.update();"
    )
    wait = "while (explorer.result.finer) await new Promise((next) => setTimeout(next, 10));"
    browser.execute_script(wait)
    assert browser.execute_script(points) == "200 × 200 points"
    python, values = browser.execute_script(
        """const { python, charts } = explorer.result;
        return [python, Array.from(charts[0].heat.values)];"""
    )
    assert "tau=0.8" in python
    names = {"iclimit": iclimit, "np": np}
    exec(python, names)
    assert values == pytest.approx(np.ravel(names["diagram"].values), rel=1e-9)
    assert not console_errors(browser)


def test_links_with_nonsense_open_the_defaults(browser, page):
    load(browser, page, "#panel=nothing&tau=x&axis=beta&rho=-5&alpha=1e99")
    assert browser.execute_script("return explorer.panel === explorer.panels[0]")
    found = state(browser)
    assert (found["tau"], found["axis"], found["rho"]) == (2, "tau", 0)
    assert not console_errors(browser)


SCRIPT = """
const text = ({ y, python }) => [Boolean(python), Array.from(y, String)];
const { charts } = explorer.result;
return [python.script(explorer.result), charts.map(({ lines }) => (lines ?? []).map(text))];
"""


def test_the_python_script_draws_every_curve(browser, page):
    load(browser, page)
    for link in (*views(browser), "#panel=icl&axis=kappa&runs=shown"):
        for change in ("&dim=40", "&rho=0.3&tau=0.7&ratio=0.8&noise_variance=0.2&dim=12"):
            follow(browser, link + change)
            script, charts = browser.execute_script(SCRIPT)
            names = {}
            exec(script.replace("plt.show()", ""), names)
            axes = names["axes"].ravel()
            assert len(axes) == len(charts), link
            for ax, lines in zip(axes, charts, strict=True):
                assert ax.has_data(), link
                # Lines are drawn before points and marks.
                for own, (computed, texts) in zip(ax.lines, lines, strict=False):
                    values = np.ravel(own.get_ydata()).astype(float)
                    expected = [float(text.replace("Infinity", "inf")) for text in texts]
                    # Numbers are written with seven digits.
                    accuracy = 1e-9 if computed else 1e-6
                    assert values == pytest.approx(expected, rel=accuracy, abs=1e-12), link
                assert len(ax.lines) >= len(lines), link
            names["plt"].close(names["figure"])


PICTURE = """
await new Promise(requestAnimationFrame); // charts draw after the script
const svg = picture.svg(explorer.result.charts, explorer.ranges());
const png = await picture.png(svg);
return [svg, Array.from(new Uint8Array(await png.arrayBuffer()))];
"""


@pytest.mark.parametrize("link", PICTURED)
def test_pictures_hold_what_is_drawn(browser, page, link):
    load(browser, page, link, theme="dark")
    svg, png = browser.execute_script(PICTURE)
    assert not re.search("NaN|undefined|null|Infinity", svg)
    tree = ElementTree.fromstring(svg)
    texts = {text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")}
    labels = browser.execute_script(
        """return explorer.result.charts.flatMap(({ title, x, y, lines, points, bars, heat }) => [
          title, x.label, y.label, heat?.label,
          ...[...(lines ?? []), ...(points ?? []), ...(bars ?? []), ...(heat?.contours ?? [])]
            .map(({ label }) => label)].filter(Boolean))"""
    )
    assert set(labels) <= texts
    with Image.open(io.BytesIO(bytes(png))) as image:
        charts = browser.execute_script("return explorer.charts.length")
        assert image.size == (1320 * charts, 960)
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)
    assert np.ptp(pixels, axis=1).max() > 60  # colours
    assert np.mean(np.all(pixels == 255, axis=1)) > 0.2  # on white
    assert not console_errors(browser)


def test_every_quantity_has_a_diagram_and_the_python_lines_of_it(browser, page):
    load(browser, page, "#panel=phases")
    options = (
        "return Array.from(document.querySelectorAll('#phases-quantity option'), (o) => o.value)"
    )
    names = browser.execute_script(options)
    assert {"icl_error", "ridge_risk", "tied_depth_loss", "escape_time"} <= set(names)
    for name in names:
        follow(browser, f"#panel=phases&quantity={name}&steps=3&depth=3")
        python, texts, expression = browser.execute_script(
            """const { python, charts } = explorer.result;
            return [python, Array.from(charts[0].heat.values, String), charts[0].heat.python];"""
        )
        found = {"iclimit": iclimit, "np": np}
        exec(python, found)
        own = np.array([float(text.replace("Infinity", "inf")) for text in texts])
        assert np.mean(np.isfinite(own)) > 0.5, name
        # Places of minima are less certain than their values.
        accuracy = 1e-5 if name in MINIMA else 1e-9
        expected = np.ravel(np.asarray(eval(expression, found), float))
        assert own == pytest.approx(expected, rel=accuracy, abs=1e-13), name
    assert not console_errors(browser)


ENDS = """
const found = [];
for (const [i, control] of explorer.panel.controls.entries()) {
  if (!controls.isSlider(control) || explorer.widgets[i].root.hidden) continue;
  const { name, zero, min, max } = control;
  found.push(...[zero ? 0 : min, max].map((end) => `&${name}=${end}`));
}
return found;
"""

CORNERS = [
    "#panel=icl&axis=kappa&tau=1&ridge=0",
    "#panel=icl&axis=alpha&tau=10&kappa=0.05&rho=0&ridge=0&dim=12",
    "#panel=phases&quantity=icl_error&x=kappa&y=rho&tau=1&ridge=0",
    "#panel=icl&axis=tau&ridge=0&rho=0&dim=12&runs=shown",
    "#panel=budgets&view=splits&budget=0.1&rho=2",
    "#panel=softmax&heads=2&ratio=0.05&dim=60",
    "#panel=training&view=landscape&dim=1&context=1&u=0&w=0",
    "#panel=descent&view=step&context=1&dim=1&noise_variance=10",
]


def test_words_at_the_ends_of_all_sliders(browser, page):
    load(browser, page)
    links = list(CORNERS)
    for view in views(browser):
        follow(browser, view)
        links += [view + end for end in browser.execute_script(ENDS)]
    assert len(links) > 100
    for link in links:
        show(browser, link)
        stage = browser.execute_script("return document.querySelector('.stage').innerText")
        assert not re.search(r"NaN|undefined|null|–[.,]|= –|\b1 [a-z]+s\b", stage), (link, stage)
    assert not console_errors(browser)


def test_what_is_infinite_everywhere_is_said(browser, page):
    load(browser, page, CORNERS[0])
    read = "return document.querySelector('.stage').innerText"
    assert "both are infinite" in browser.execute_script(read)
    show(browser, CORNERS[1])
    assert "A single task is too few" in browser.execute_script(read)
    assert len(browser.execute_script("return explorer.result.charts[0].lines")) == 2
    show(browser, CORNERS[2])
    assert "no finite value in this diagram" in browser.execute_script(read)


FRAME = {"left": 200, "top": 60, "width": 200, "height": 150}
"""What is dragged over a chart, in pixels."""

AXES = """
await new Promise(requestAnimationFrame);
if (explorer.result.later) explorer.refine();
await new Promise(requestAnimationFrame);
return [explorer.ranges()[0], explorer.states[explorer.panel.id].axes,
        document.querySelector('.axes').innerText];
"""


def test_axes_are_set_by_links_boxes_and_drags(browser, page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    load(browser, page, "#panel=icl&axis=tau&axes=0x:1.5:40;0y:x:3;nonsense")
    ranges, text, shown = browser.execute_script(AXES)
    assert (ranges["x"], text) == ([1.5, 40], "0x:1.5:40")
    assert "τ 1.5 to 40" in shown
    # Curves are computed where they are shown.
    x = browser.execute_script("return Array.from(explorer.result.charts[0].lines[0].x)")
    assert (x[0], x[-1]) == (1.5, 40)
    browser.find_element(By.CSS_SELECTOR, ".axes summary").click()
    boxes = browser.find_elements(By.CSS_SELECTOR, ".axes .box")
    for box, typed in ((boxes[3], "7"), (boxes[0], "-1"), (boxes[1], "1")):
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(Keys.DELETE, typed, Keys.TAB)
        ranges, _, shown = browser.execute_script(AXES)
        assert ranges["x"] == [1.5, 40]
        assert ranges["y"][1] == 7
        assert ("unchanged" in shown) == (box is not boxes[3])
    browser.execute_script("explorer.charts[0].plot.setSelect(arguments[0])", FRAME)
    ranges, *_ = browser.execute_script(AXES)
    assert 1.5 < ranges["x"][0] < ranges["x"][1] < 40
    assert ranges["y"][1] < 7
    browser.find_element(By.CSS_SELECTOR, ".axes button").click()
    ranges, text, _ = browser.execute_script(AXES)
    assert ranges["x"] == pytest.approx([0.1, 10], rel=1e-12)
    assert text == ""
    show(browser, "#panel=phases&axes=0x:1:1000;0y:0.1:4")
    names = {"iclimit": iclimit, "np": np}
    setup, values = browser.execute_script(
        "const { python, charts } = explorer.result; return [python, [...charts[0].heat.values]]"
    )
    exec(setup, names)
    assert values == pytest.approx(np.ravel(names["diagram"].values), rel=1e-9)
    assert not console_errors(browser)


def test_pinned_curves_stay_and_say_what_they_are_of(browser, page):
    load(browser, page, "#panel=icl&axis=tau&alpha=2")
    before = browser.execute_script("return Array.from(explorer.result.charts[0].lines[0].y)")
    browser.execute_script("document.getElementById('pin').click()")
    script = """
    Object.assign(explorer.states.icl, { alpha: 5, rho: 0.2 });
    explorer.update();
    const pinned = explorer.specs[0].lines.filter((line) => line.faded);
    return pinned.map(({ label, y }) => [label, ...y]);
    """
    icl, idg = browser.execute_script(script)
    assert (icl[0], idg[0]) == ("pinned: α = 2, ρ = 0.01", "")
    assert icl[1:] == before
    faded = (
        "return explorer.specs.flatMap(({ lines }) => lines ?? []).filter((l) => l.faded).length"
    )
    show(browser, "#panel=icl&axis=alpha")
    assert browser.execute_script(faded) == 0
    show(browser, "#panel=icl&axis=tau")
    assert browser.execute_script(faded) == 2
    browser.execute_script("document.getElementById('unpin').click()")
    assert browser.execute_script(faded) == 0
    assert not console_errors(browser)


def test_typed_values(browser, page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    load(browser, page, "#panel=icl&axis=tau&alpha=7")
    box = browser.find_elements(By.CSS_SELECTOR, ".slider:not([hidden]) .box")[0]
    typed = {"1,5": 1.5, "abc": 1.5, "": 1.5, "1e9": 100, "-3": 0.1, " 2 ": 2}
    for text, expected in typed.items():
        box.send_keys(Keys.CONTROL, "a")
        box.send_keys(Keys.DELETE, text, Keys.ENTER, Keys.TAB)
        browser.execute_script("await new Promise(requestAnimationFrame)")
        assert state(browser)["alpha"] == expected, text
        assert box.get_attribute("value") == str(expected), text
        hint = browser.find_elements(By.CSS_SELECTOR, ".slider:not([hidden]) .hint")[0].text
        assert bool(hint) == (text != " 2 "), text
    show(browser, "#panel=icl&axis=tau&alpha=1e9")
    assert "1e9 became 100" in browser.find_element(By.ID, "controls").text


@pytest.mark.parametrize(("ratio", "dim"), [(0.5, 120), (5, 200), (5, 10), (1, 30)])
def test_histograms_hold_all_positive_eigenvalues(browser, page, ratio, dim):
    load(browser, page, f"#panel=spectra&ratio={ratio}&dim={dim}")
    edges, heights = browser.execute_script(
        "const [bars] = explorer.result.charts[0].bars; return [bars.edges, bars.heights];"
    )
    share = min(1, round(dim / ratio) / dim)
    assert np.diff(edges) @ heights == pytest.approx(share, rel=1e-12)


def test_sliders_of_diagrams_stay_within_the_quantity(browser, page):
    load(browser, page, "#panel=phases&quantity=dmmse_icl_error&x=theta&y=alpha&rho=0")
    assert state(browser)["rho"] == 0.01
    python = "return explorer.result.python"
    names = {"iclimit": iclimit, "np": np}
    exec(browser.execute_script(python), names)
    show(browser, "#panel=phases&quantity=tied_depth_loss&noise_variance=10&x=alpha&y=depth")
    assert state(browser)["noise_variance"] == 1
    show(browser, "#panel=phases&quantity=icl_error&rho=0&ridge=0")
    assert (state(browser)["rho"], state(browser)["ridge"]) == (0, 0)


def test_paper_is_light(browser, page):
    load(browser, page, theme="dark")
    script = """return ['beforeprint', 'afterprint'].map((name) => {
      dispatchEvent(new Event(name));
      return document.documentElement.dataset.theme;
    })"""
    assert browser.execute_script(script) == ["light", "dark"]


def test_the_frame_of_the_documentation_has_the_colours_of_the_page_around_it(browser, page):
    from selenium.webdriver.support import expected_conditions
    from selenium.webdriver.support.wait import WebDriverWait

    source = (DOCS / "explorer.rst").read_text(encoding="utf-8")
    frame = re.search(r"<iframe.*?</script>", source, re.DOTALL)[0]
    outer = page.with_name("outer.html")
    text = frame.replace("_static/explorer.html", page.name).replace('loading="lazy"', "")
    outer.write_text(f'<html data-theme="dark"><body>{text}</body></html>', encoding="utf-8")
    browser.get(outer.as_uri())
    for theme in ("dark", "light", "dark"):
        browser.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
        browser.switch_to.frame(0)
        root = ("css selector", "html")
        painted = expected_conditions.text_to_be_present_in_element_attribute(
            root, "data-theme", theme
        )
        WebDriverWait(browser, 20).until(painted)
        browser.switch_to.default_content()


def test_keys_move_sliders_and_the_cursor(browser, page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    load(browser, page, "#panel=icl&axis=tau")
    browser.find_element(By.ID, "icl-alpha").send_keys(Keys.ARROW_RIGHT * 5)
    assert state(browser)["alpha"] > 1
    chart = browser.find_element(By.CSS_SELECTOR, ".chart")
    chart.send_keys(Keys.ARROW_RIGHT)
    readout = browser.find_element(By.CSS_SELECTOR, ".readout").text
    assert re.search(r"τ = [\d.]+ · ICL error: new tasks [\d.]+", readout), readout


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_accessibility_without_serious_findings(browser, page, theme):
    # Themes differ in their colours only.
    rules = {"runOnly": {"type": "rule", "values": ["color-contrast"]}} if theme == "dark" else {}
    load(browser, page, theme=theme)
    for link in views(browser):
        show(browser, link)
        assert serious_findings(browser, **rules) == [], link
