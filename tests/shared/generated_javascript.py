"""Random points at which generated JavaScript is held against Python."""

import json
import math
import shutil
import subprocess

import numpy as np
import pytest

from iclimit.explorer.functions import COUNTED, SIZES, functions

WIDE = 100.0
"""Ranges of a larger ratio are sampled evenly in the logarithm."""

AT_EDGES = 0.1
"""Share of the coordinates that are at an end of their range, or at the default value."""

ACCURACY = 1e-10
"""Largest relative difference."""

MINIMA = {
    "optimal_ridge": ("icl_error", "ridge"),
    "optimal_idg_ridge": ("idg_error", "ridge"),
    "best_constant_rate": ("constant_rate_loss", "rate"),
    "dampening_of_recurrent_layer": ("dampened_loss", "dampening"),
}
"""Places of minima, by the function that is least there and its argument.  Rounding leaves them
uncertain by about the root of 1e-16, so the values of that function are compared."""

DIFFERENCES = {"task_gap": "icl_error", "gap_spread": "icl_spread"}
"""Differences of larger numbers, relative to which they are accurate."""


def run_node(script):
    """What Node prints, read as JSON."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed: the functions are compared in a browser only")
    run = subprocess.run([node, "-"], input=script, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def random_points(function, count, rng):
    """Points (count, numbers) over the ranges of a function, their ends included."""
    columns = []
    for name in function.arguments:
        low, high = function.ranges[name]
        ends = [low, high]
        if name in COUNTED:
            values = rng.integers(int(low), int(high), count, endpoint=True).astype(float)
        elif low > 0 and high > WIDE * low:
            values = np.exp(rng.uniform(math.log(low), math.log(high), count))
        else:
            values = rng.uniform(low, high, count)
        if name in function.defaults and name not in COUNTED:
            ends.append(function.defaults[name])
        at_end = rng.random(count) < AT_EDGES
        columns.append(np.where(at_end, rng.choice(ends, count), np.clip(values, low, high)))
    points = np.stack(columns, axis=-1)
    if function.name in SIZES:
        size = [function.arguments.index(name) for name in ("context", "dim")]
        points[:, size] = rng.choice(SIZES[function.name], count)
    return points


def python_values(function, points):
    """Values at points (n, arguments): (n,) or (n, m)."""
    columns = dict(zip(function.arguments, points.T, strict=True))
    single = {*COUNTED, *(("context", "dim") if function.name in SIZES else ())}
    counted = [name for name in columns if name in single]
    if not counted:
        return np.asarray(function.function(**columns))
    counts = np.stack([columns.pop(name) for name in counted])
    values = [None] * len(points)
    for count in np.unique(counts, axis=1).T:
        here = np.flatnonzero(np.all(count == counts.T, axis=1))
        others = {each: column[here] for each, column in columns.items()}
        given = dict(zip(counted, map(int, count), strict=True))
        found = np.asarray(function.function(**others, **given))
        for place, value in zip(here, found, strict=True):
            values[place] = value
    return np.stack(values) if np.ndim(values[0]) == 0 else np.array(values, dtype=object)


def calls(function, points):
    """JavaScript expression of the values at the points, as a list of lists of texts."""
    # Python writes infinities as JavaScript does.
    rows = json.dumps(points.tolist())
    called = f"[theory.{function.name}(...row)].flat().map(String)"
    return f"{rows}.map((row) => {called})"


def numbers(texts):
    """Numbers of the texts that JavaScript prints."""
    return [[float(text.replace("Infinity", "inf")) for text in row] for row in texts]


def assert_equal(function, points, found):
    """Compare with Python; the message has points that differ."""
    expected = python_values(function, points)
    by_name = {each.name: each for each in functions()}
    # Margins are differences of numbers of order one.
    size = np.full(len(points), float(function.name.startswith("margin_")))
    if function.name in DIFFERENCES:
        size = python_values(by_name[DIFFERENCES[function.name]], points)
    if function.name in MINIMA:
        objective, place = MINIMA[function.name]
        columns = dict(zip(function.arguments, points.T, strict=True))
        found, expected = (
            python_values(
                by_name[objective],
                np.stack(
                    [
                        places if name == place else columns[name]
                        for name in by_name[objective].arguments
                    ],
                    axis=-1,
                ),
            )
            for places in (np.ravel(found), expected)
        )
    expected = [np.ravel(each).astype(float) for each in expected]
    lengths = [len(each) for each in expected]
    assert lengths == [np.size(row) for row in found], function.name
    places = np.repeat(np.arange(len(points)), lengths)
    values = np.concatenate([np.ravel(row) for row in found])
    wanted = np.concatenate(expected)
    allowance = ACCURACY * np.where(np.isfinite(size), size, 0)[places]
    equal = np.isclose(values, wanted, rtol=ACCURACY, atol=allowance, equal_nan=True)
    different = [
        f"{wanted[k]} in Python, {values[k]} in JavaScript at {points[places[k]].tolist()}"
        for k in np.flatnonzero(~equal)[:3]
    ]
    assert not different, (function.name, function.arguments, different)
