"""Every claim, at the smallest preset: it holds, it draws, and it can fail."""

import sys
import warnings
from dataclasses import fields, is_dataclass, replace
from functools import cache

import numpy as np
import pytest
from matplotlib.text import Text
from optional_arguments import excused, given_by_all, optional_arguments, recording

from iclimit.drawing import house_style, new_figure
from iclimit.prediction import Prediction
from iclimit.results import Estimate
from iclimit.samples import Samples
from iclimit.validation import CLAIMS
from iclimit.validation.claim import Effort, verdict_on
from iclimit.validation.rows import Drawing, Later, Note, Values, cells_of

SHIFT = 1e-3
"""Added to numbers that are moved, since some are as good as 0."""

UNJUDGED = {"from_zero", "softmax_run", "trained_copy"}
"""Functions of cells whose failures another test plants."""


class WrongTheory(Values):
    """Values in which a function of the theory, or a field of its result, is off by a factor."""

    def __init__(self, right, of, factor):
        super().__init__(right.results)
        self.of = of
        self.factor = factor
        self._known = {
            later: value for later, value in right._known.items() if of not in _functions(later)
        }

    def __call__(self, value):
        right = super().__call__(value)
        if not isinstance(value, Later) or value._of != self.of:
            return right
        first = value._call[1][0] if value._call[1] else None
        inside = isinstance(first, Later) and first._of == self.of
        return right if inside else _moved(right, lambda: self.factor)


def _functions(value):
    """Functions of the theory behind a value."""
    if isinstance(value, Later):
        _, arguments, keywords = value._call
        return {value._of, *_functions([*arguments, *keywords.values()])}
    if isinstance(value, dict):
        return _functions([*value.values()])
    several = value if isinstance(value, (list, tuple)) else ()
    return {name for each in several for name in _functions(each)}


def _moved(value, factor):
    """Result of a cell with all numbers in it multiplied by factors of their own."""
    if isinstance(value, Estimate):
        # where the theory is 0 a factor is nothing
        f = factor()
        shift = 20 * value.standard_error
        moved = {"mean": f * (value.mean + shift), "samples": f * (value.samples + shift)}
        return replace(value, standard_error=f * value.standard_error, **moved)
    if isinstance(value, Samples):
        moved = [_moved(value[name], factor).samples for name in value.names]
        return replace(value, samples=np.column_stack(moved))
    if isinstance(value, Prediction):
        factors = [factor() for _ in value.names]
        scatter = _moved(value.scatter, factor)
        return replace(value, over_tasks=value.over_tasks * factors, scatter=scatter)
    if is_dataclass(value):
        parts = {each.name: getattr(value, each.name) for each in fields(value) if each.init}
        return replace(value, **{name: _moved(each, factor) for name, each in parts.items()})
    if isinstance(value, dict):
        return {key: _moved(each, factor) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_moved(each, factor) for each in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        rows = [factor() for _ in range(len(value) if value.ndim > 1 else 1)]
        return np.reshape(rows, (-1,) + (1,) * (value.ndim - 1)) * value
    return factor() * value + SHIFT if isinstance(value, float) else value


@pytest.mark.parametrize("name", CLAIMS)
def test_claim_holds_draws_and_can_fail(name, tmp_path_factory):
    claim = CLAIMS[name]
    _forget_searches(claim)
    with recording() as given:
        rows = list(claim.rows(Effort("tiny")))
        results = {cell: _result(cell) for cell in cells_of(rows)}
        right = Values({cell: result for cell, (result, _) in results.items()})
        verdict = verdict_on(rows, right)
    assert claim.figure == any(isinstance(row, Drawing) for row in rows)
    assert verdict.holds, [row.label for row in verdict.failures]
    _assert_drawn(verdict)
    _assert_wrong_theory_fails(verdict, rows, right)
    _assert_moved_cells_fail(rows, right)
    given = given.union(*(within for _, within in results.values()))
    _assert_arguments_are_given(_session_folder(tmp_path_factory) / "given", name, given)


def _forget_searches(claim):
    """Let the claim ask the theory again, also for what other tests have asked for."""
    for item in vars(sys.modules[claim.rows.__module__]).values():
        if hasattr(item, "cache_clear"):
            item.cache_clear()


@cache
def _result(cell):
    """Result of a cell, and optional arguments given on the way.  Claims share cells."""
    needed = {each: _result(each) for each in cell.needs}
    with recording() as given:
        result = cell.run(0, results={each: found for each, (found, _) in needed.items()})
    return result, given.union(*(within for _, within in needed.values()))


def test_only_optional_arguments_of_judged_theory_are_excused():
    assert excused() <= optional_arguments()


def _session_folder(tmp_path_factory):
    """Folder that the processes of pytest-xdist share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if own.name.startswith("popen-") else own


def _assert_arguments_are_given(folder, name, given):
    """Claims give every optional argument that ``optional_arguments.csv`` has no reason for.

    The last claim of a session says so for all of them, in whichever process they ran.
    """
    assert not excused() & given, "given by this claim, which needs no excuse"
    by_all = given_by_all(folder, name, given, CLAIMS)
    if by_all is not None:
        missing = optional_arguments() - by_all - excused()
        assert not missing, f"no claim gives these, and no reason says why: {sorted(missing)}"


def _assert_wrong_theory_fails(verdict, rows, right):
    """The theory may not enter what it is compared with, and errors of its resolution are seen."""
    for of, resolution in verdict.resolutions.items():
        bound = all(row.upper_bound for row in verdict.comparisons if row.of == of)
        for factor in (1 - 2 * resolution, 1 + 2 * resolution)[: 1 if bound else 2]:
            assert not verdict.scaled(of, factor).holds, of
        again = verdict_on(rows, WrongTheory(right, of, 1.01))
        for before, after in zip(verdict.comparisons, again.comparisons, strict=True):
            assert after.label == before.label
            same = after.estimate == pytest.approx(before.estimate, rel=1e-6, nan_ok=True)
            assert same or before.of != of, before.label


def _assert_moved_cells_fail(rows, right):
    """Results that are quite different do not pass, whichever function they come from.

    Smaller ones stay below what only bounds them, so that larger ones are tried next.
    """
    compared = [row for row in rows if not isinstance(row, Drawing | Note)]
    functions = {cell.function for cell in cells_of(compared)}
    for function in (each for each in functions if each.__name__ not in UNJUDGED):
        assert not all(_holds_if_moved(rows, right, function, sign) for sign in (-1, 1)), function


def _holds_if_moved(rows, right, function, sign):
    """Whether a claim holds with results of a function that are all smaller, or larger."""
    factors = np.random.default_rng(0)
    moved = {
        cell: _moved(result, lambda: 10 ** (sign * factors.uniform(0.3, 2)))
        for cell, result in right.results.items()
        if cell.function is function
    }
    value = Values(right.results | moved)
    value._known = {
        later: each
        for later, each in right._known.items()
        if not moved.keys() & set(cells_of(later))
    }
    try:
        return verdict_on(rows, value).holds
    except (ArithmeticError, TypeError, ValueError, np.linalg.LinAlgError):
        return False


def _assert_drawn(verdict):
    """The figure has labels and no empty axes.  Warnings are errors.

    Its texts are set, since formulas may be wrong.  Lines and ticks are not drawn, which is slow;
    the report of all claims does that.
    """
    with house_style(), warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = new_figure()
        figure.set_layout_engine("none")
        verdict.draw_figure(figure)
        for text in figure.findobj(Text):
            text.get_window_extent()
    assert all(ax.has_data() for ax in figure.axes)
    assert any(ax.get_xlabel() for ax in figure.axes)
    assert any(ax.get_ylabel() for ax in figure.axes)
