"""Parts of the explorer's scripts that need no page: typed numbers, ticks."""

import json
from importlib import resources

from generated_javascript import run_node

ASSETS = resources.files("iclimit.explorer") / "assets"

STUBS = "globalThis.matchMedia = () => ({ matches: false });"


def run(expression, *modules):
    """Value of an expression beside some of the scripts."""
    scripts = [(ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in modules]
    return run_node("\n".join([STUBS, *scripts, f"console.log(JSON.stringify({expression}));"]))


SLIDER = {"name": "alpha", "min": 0.1, "max": 2000, "value": 1, "log": True}

TYPED = {
    "2": (2, ""),
    " 2.5 ": (2.5, ""),
    "1e2": (100, ""),
    "1,5": (1.5, "1,5 was read as 1.5."),
    "1,000": (1000, "1,000 was read as 1000."),
    "0,125": (0.125, "0,125 was read as 0.125."),
    "1,000.5": (1000.5, "1,000.5 was read as 1000.5."),
    "abc": (7, "“abc” is not a number; the value is still 7."),
    "": (7, "“” is not a number; the value is still 7."),
    "1,2,3": (7, "“1,2,3” is not a number; the value is still 7."),
    "1e9": (2000, "Values go from 0.1 to 2000: 1e9 became 2000."),
    "-3": (0.1, "Values go from 0.1 to 2000: -3 became 0.1."),
}


def test_typed_values_are_understood_or_it_is_said():
    texts = json.dumps(list(TYPED))
    script = f"{texts}.map((text) => controls.understand({json.dumps(SLIDER)}, text, 7))"
    found = run(script, "numbers", "controls")
    assert dict(zip(TYPED, map(tuple, found), strict=True)) == TYPED


def test_typed_values_of_integers_and_of_sliders_with_a_zero():
    for kind, text, expected in (
        ({"integer": True}, "2.6", [3, "Only whole numbers: 2.6 became 3."]),
        ({"zero": True}, "0", [0, ""]),
        ({"zero": True}, "0.01", [0.1, "Values go 0 or from 0.1 to 2000: 0.01 became 0.1."]),
    ):
        control = json.dumps(SLIDER | kind)
        found = run(f"controls.understand({control}, {text!r}, 7)", "numbers", "controls")
        assert found == expected


def test_ticks_of_axes():
    """Counts have whole ticks, and a range that no logarithm has gives none: it would not end."""
    script = """[
      charts.logSplits(null, 0, 1, 1000), charts.logSplits(null, 0, 0, 10),
      charts.splits({ log: true, whole: true }).splits(null, 0, 0.95, 17),
      charts.splits({ whole: true }).incrs, charts.splits({}),
    ]"""
    decades, none, layers, steps, free = run(script, "numbers", "charts")
    assert decades == [digit * 10**k for k in range(3) for digit in range(1, 10)] + [1000]
    assert none == []
    assert layers == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert all(isinstance(step, int) for step in steps)
    assert free == {}


def test_colour_bars_say_where_they_end():
    """Ends are those of the colours, with a sign where values go beyond them."""
    for values, texts in (
        ([0.02, 0.05, 1, 4, 9], {"first": "≤ 0.05", "last": "≥ 4"}),
        ([0.05, 1, 4], {"first": "0.05", "last": "4"}),
    ):
        script = f"heat.ticks({{ low: 0.05, high: 4, log: true, values: {values} }})"
        ticks = run(script, "numbers", "heat", "charts")
        assert (ticks[0]["text"], ticks[-1]["text"]) == (texts["first"], texts["last"])
        assert (ticks[0]["place"], ticks[-1]["place"]) == (0, 1)
        places = [tick["place"] for tick in ticks]
        assert len(places) > 2
        assert places == sorted(places)
