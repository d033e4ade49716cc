"""The JavaScript of the explorer equals the Python that it is generated from."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generated_javascript import assert_equal, calls, numbers, random_points
from started_browser import console_errors, open_page

from iclimit.explorer.functions import Function, functions, javascript

QUICK, MANY = 25, 2000
"""Points of each function in Node and in a browser."""


@pytest.fixture(scope="module")
def by_node() -> dict[str, tuple[np.ndarray, list[list[float]]]]:
    """Points and values of all functions, in one process of Node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: the functions are compared in a browser only")
    rng = np.random.default_rng(0)
    points = {function.name: random_points(function, QUICK, rng) for function in functions()}
    texts = (f"{f.name}: {calls(f, points[f.name])}" for f in functions())
    script = f"{javascript()}\nconsole.log(JSON.stringify({{{', '.join(texts)}}}));"
    run = subprocess.run([node, "-"], input=script, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return {name: (points[name], numbers(v)) for name, v in json.loads(run.stdout).items()}


@pytest.mark.parametrize("function", functions(), ids=lambda function: function.name)
def test_javascript_equals_python(
    function: Function, by_node: dict[str, tuple[np.ndarray, list[list[float]]]]
) -> None:
    assert_equal(function, *by_node[function.name])


@pytest.mark.slow
def test_javascript_equals_python_in_a_browser(browser: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    page = tmp_path / "theory.html"
    page.write_text(f"<!doctype html><title>theory</title><script>{javascript()}</script>")
    open_page(browser, page)
    for function in functions():
        points = random_points(function, MANY, rng)
        found = browser.execute_script(f"return {calls(function, points)};")
        assert_equal(function, points, numbers(found))
    assert not console_errors(browser)
