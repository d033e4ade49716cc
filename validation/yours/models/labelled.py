"""A report on a model as labelled arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from iclimit.results import Estimate

if TYPE_CHECKING:
    from iclimit.validation.yours.models.algorithm_report import AlgorithmReport

ROW_TEXT = ("algorithm", "description")
"""Columns of the table of algorithms that are no numbers."""


def labelled_report(report: AlgorithmReport) -> xarray.Dataset:
    """Data set over sections of prompts and algorithms.

    ``error`` and ``difference`` (of the model to the algorithm) have dimensions (section,
    algorithm), ``model_error`` (section); standard errors stand beside them as
    ``X_standard_error``.  Likenesses have the dimension algorithm, Gamma (row, column), variables
    whose name begins with position (position_algorithm, examples).
    """
    names = [rung.name for rung in report.fresh.rungs]
    sections = [ladder.section for ladder in report.ladders]
    shape = (len(sections), len(names))
    variables: dict[str, Any] = {}
    for what in ("error", "difference"):
        means, errors = np.full(shape, np.nan), np.full(shape, np.nan)
        for i, ladder in enumerate(report.ladders):
            for rung in ladder.rungs:
                found: Estimate = getattr(rung, what)
                place = i, names.index(rung.name)
                means[place], errors[place] = found.mean, found.standard_error
        variables[what] = (("section", "algorithm"), means)
        variables[f"{what}_standard_error"] = (("section", "algorithm"), errors)
    variables |= _with_errors("model_error", ("section",), [each.error for each in report.ladders])
    rows = report.rows()
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in variables and name not in ROW_TEXT:
            values = [row.get(name, np.nan) for row in rows]
            variables[name] = (("algorithm",), np.array(values, dtype=float))
    if report.linear is not None:
        variables["gamma"] = (("row", "column"), report.linear.gamma)
        eigenvalues = list(report.linear.eigenvalues)
        variables |= _with_errors("eigenvalue", ("row",), eigenvalues)
    coordinates: dict[str, Any] = {"section": sections, "algorithm": names}
    attributes = {
        "verdict": report.verdict,
        "kind": report.identification.kind,
        "test_prompts": report.test_prompts,
        "seed": report.seed,
    }
    whole = xarray.Dataset(variables, coords=coordinates, attrs=attributes)
    if report.positions is None:
        return whole
    by_position = report.positions.to_xarray()
    prefixed = {name: f"position_{name}" for name in (*by_position.data_vars, "algorithm")}
    return whole.merge(by_position.rename(prefixed))


def _with_errors(name: str, dims: tuple[str, ...], estimates: list[Any]) -> dict[str, Any]:
    """Variables of the means and of the standard errors of nested lists of estimates."""

    def numbers(attribute: str, each: Any) -> Any:
        if isinstance(each, list):
            return [numbers(attribute, one) for one in each]
        return getattr(each, attribute)

    return {
        name: (dims, np.array(numbers("mean", estimates))),
        f"{name}_standard_error": (dims, np.array(numbers("standard_error", estimates))),
    }
