"""The JavaScript of the explorer equals the Python that it is generated from."""

import numpy as np
import pytest
from generated_javascript import assert_equal, calls, numbers, random_points, run_node
from started_browser import console_errors, open_page

from iclimit.explorer.functions import functions, javascript

QUICK, MANY = 25, 800
"""Points of each function in Node and in a browser."""


MAPS = {
    "optimal_icl_error": ("alpha", "kappa", "tau=2, rho=0.01", 1e-12),
    "optimal_idg_ridge": ("tau", "rho", "alpha=1, kappa=0.5", 1e-5),
    "constant_schedule_loss": ("ratio", "noise_ratio", "steps=8", 1e-12),
    "best_constant_rate": ("ratio", "noise_ratio", "steps=4", 1e-5),
    "icl_error": ("tau", "ridge", "alpha=1, kappa=0.5, rho=0.1", 1e-15),
}
"""Axes, other arguments and relative accuracy of maps; the places of minima are uncertain."""


@pytest.fixture(scope="module")
def by_node():
    """Points and values of all functions, in one process of Node."""
    rng = np.random.default_rng(0)
    points = {function.name: random_points(function, QUICK, rng) for function in functions()}
    texts = (f"{f.name}: {calls(f, points[f.name])}" for f in functions())
    script = f"{javascript()}\nconsole.log(JSON.stringify({{{', '.join(texts)}}}));"
    return {name: (points[name], numbers(v)) for name, v in run_node(script).items()}


@pytest.mark.parametrize("function", functions(), ids=lambda function: function.name)
def test_javascript_equals_python(function, by_node):
    assert_equal(function, *by_node[function.name])


@pytest.mark.parametrize("name", MAPS)
def test_maps_are_the_functions_at_their_points(name):
    x, y, others, accuracy = MAPS[name]
    script = f"""{javascript()}
    const line = (low, high, n) =>
      Array.from({{ length: n }}, (_, i) => low * (high / low) ** (i / (n - 1)));
    const given = {{ {others.replace("=", ": ")} }};
    const [xs, ys] = [line(0.1, 10, 83), line(0.01, 2, 41)];
    const values = (point) => theory.meta.{name}.arguments.map((each) => point[each]);
    const map = theory.grid("{name}", values(given), "{x}", xs, "{y}", ys);
    const own = (x, y) => theory.{name}(...values({{ ...given, {x}: x, {y}: y }}));
    const expected = ys.flatMap((y) => xs.map((x) => own(x, y)));
    console.log(JSON.stringify([Array.from(map), expected]));"""
    found, expected = run_node(script)
    np.testing.assert_allclose(found, expected, rtol=accuracy)


@pytest.mark.slow
def test_javascript_equals_python_in_a_browser(browser, tmp_path):
    rng = np.random.default_rng(1)
    page = tmp_path / "theory.html"
    page.write_text(f"<!doctype html><title>theory</title><script>{javascript()}</script>")
    open_page(browser, page)
    for function in functions():
        points = random_points(function, MANY, rng)
        found = browser.execute_script(f"return {calls(function, points)};")
        assert_equal(function, points, numbers(found))
    assert not console_errors(browser)
