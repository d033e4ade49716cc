"""The JavaScript of the explorer equals the Python that it is generated from."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from generated_javascript import assert_equal, calls, numbers, random_points

from iclimit.explorer.functions import Function, functions, javascript

QUICK = 60
"""Points of each function in the test without a browser."""


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
