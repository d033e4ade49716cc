"""What the tests of claims do with a verdict."""

import warnings
from dataclasses import replace
from typing import Any

from iclimit.drawing import house_style, new_figure
from iclimit.validation import CLAIMS

Results = dict[Any, Any]
"""Results of the cells of a claim, by its keys."""


def run_cells(name):
    """Results of the quick preset, simulated; cells come after those that they need."""
    done = {}
    cells = CLAIMS[name].cells_by_key("quick")
    for cell in cells.values():
        done[cell] = cell.run(0, results=done)
    return {key: done[cell] for key, cell in cells.items()}


def judge(name, results):
    """Verdict of the quick preset."""
    return CLAIMS[name].judge("quick", results)


def failed(verdict):
    """Labels of what does not hold."""
    return [row.label for row in verdict.failures]


def assert_fails(verdict, label):
    """Something fails, and all that does is of this kind."""
    assert failed(verdict)
    assert all(label in each for each in failed(verdict)), failed(verdict)


def off(function, factor, *fields):
    """Theory whose result, or some fields of it, is wrong by a factor."""

    def wrong(*args, **kwargs):
        value = function(*args, **kwargs)
        if not fields:
            return factor * value
        return replace(value, **{field: factor * getattr(value, field) for field in fields})

    return wrong


def scaled(estimate, factor):
    """What was simulated, times a factor."""
    return replace(
        estimate,
        mean=factor * estimate.mean,
        standard_error=factor * estimate.standard_error,
        samples=factor * estimate.samples,
    )


def draw(verdict):
    """The figure has labels and no empty axes.  Warnings are errors."""
    with house_style(), warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = new_figure()
        verdict.draw_figure(figure)
        figure.draw_without_rendering()
    assert all(ax.has_data() for ax in figure.axes)
    assert any(ax.get_xlabel() for ax in figure.axes)
    assert any(ax.get_ylabel() for ax in figure.axes)
