"""Errors against the number of examples, from a user's table or an evaluation by position.

The code of Garg et al. (arXiv:2208.01066) writes ``metrics.json``: for each evaluation and model
the mean and standard deviation over prompts at every position, and the ends of a resampled
interval of 90 %.  Its errors are squared errors, not divided by the dimension; its figures divide
them.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from iclimit.notation import did_you_mean
from iclimit.validation.instruments.reading import parse_json, read_table

# Columns of a table: number of examples before a position, error there, whose it is.
COLUMNS = ("examples", "error", "error_se", "error_sd", "model")

# Share of resampled means between the two ends that the code of Garg et al. writes.
INTERVAL = 0.9

# Part of a name that says with which settings an algorithm was run: ``OLS_driver=None``.
SETTINGS = re.compile(r"[_ ]\w+=.*")

# What the algorithms are called by others, in lower case.
USUAL = {
    "null": ("zero", "zeros"),
    "averaging": ("mean", "averaging estimator"),
    "least_squares": ("ols", "lstsq", "least squares", "least-squares", "linear regression"),
    "ridge": ("ridge regression", "bayes", "optimal ridge"),
    "dmmse": ("discrete mmse", "mmse"),
}


@dataclass(frozen=True, eq=False)
class PositionCurve:
    """Errors of a model or an algorithm against the number of examples.

    Attributes
    ----------
    name : str
        What the table calls it.
    algorithm : str
        Known algorithm that it is; empty for a model.
    examples : ndarray (n,)
        Numbers of examples, ascending.
    errors, standard_errors : ndarray (n,)
        Mean squared errors and their standard errors.
    """

    name: str
    algorithm: str
    examples: np.ndarray
    errors: np.ndarray
    standard_errors: np.ndarray


def read_position_curves(
    table: object,
    *,
    evaluation: str,
    baselines: Mapping[str, str] | None,
    test_prompts: int | None,
    columns: Mapping[str, str] | None,
    ignore: Sequence[str] | str,
    known: Sequence[str],
) -> list[PositionCurve]:
    """Read errors by position; arguments, all of them, and errors are those of `check_positions`.

    ``known`` are the names of the algorithms.
    """
    parts = _evaluated(table, evaluation)
    if parts is None:
        parts = _from_table(table, test_prompts, columns, ignore)
    named = _named(parts, baselines, known)
    return [
        PositionCurve(name, named.get(name, ""), *_sorted(name, arrays))
        for name, arrays in parts.items()
    ]


def _evaluated(table: object, evaluation: str) -> dict[str, list[np.ndarray]] | None:
    """Arrays of the models of an evaluation in ``metrics.json``; None if it is no such file."""
    content = table
    if isinstance(table, (str, os.PathLike)):
        path = Path(table)
        if path.suffix != ".json" or not path.is_file():
            return None
        content = parse_json(path.read_text(encoding="utf-8-sig"))
    if not isinstance(content, Mapping) or not all(map(_is_evaluation, content.values())):
        return None
    if evaluation not in content:
        hint = did_you_mean(evaluation, content)
        raise ValueError(
            f"evaluation must be one of {', '.join(content)}, got {evaluation!r}{hint}"
        )
    return {name: _of_model(name, numbers) for name, numbers in content[evaluation].items()}


def _is_evaluation(models: object) -> bool:
    """Whether this holds means by model."""
    return isinstance(models, Mapping) and all(
        isinstance(numbers, Mapping) and "mean" in numbers for numbers in models.values()
    )


def _of_model(name: str, numbers: Mapping[str, Any]) -> list[np.ndarray]:
    """Examples, errors and standard errors of a model."""
    rows = {key: np.asarray(values, dtype=float) for key, values in numbers.items()}
    missing = {"bootstrap_low", "bootstrap_high"} - set(rows)
    if missing:
        raise ValueError(f"{name} must have {min(missing)} beside its mean, got {', '.join(rows)}")
    width = 2 * float(ndtri((1 + INTERVAL) / 2))
    error = (rows["bootstrap_high"] - rows["bootstrap_low"]) / width
    return [np.arange(len(rows["mean"])), rows["mean"], error]


def _from_table(
    table: object,
    test_prompts: int | None,
    columns: Mapping[str, str] | None,
    ignore: Sequence[str] | str,
) -> dict[str, list[np.ndarray]]:
    """Arrays of the models of a table."""
    entries = read_table(table, COLUMNS, columns=columns, ignore=ignore)
    for name in ("examples", "error"):
        if name not in entries:
            raise ValueError(f"the table must have a column {name} (columns={{{name!r}: ...}})")
    examples = np.array(entries.numbers("examples", "[0, 1e9]"))
    errors = np.array(entries.numbers("error", "(-1e50, 1e50)"))
    if "error_se" in entries:
        bars = np.array(entries.numbers("error_se", "[0, 1e50)"))
    elif "error_sd" in entries:
        if test_prompts is None:
            raise ValueError("test_prompts must be given: error_sd is over so many prompts")
        bars = np.array(entries.numbers("error_sd", "[0, 1e50)")) / np.sqrt(test_prompts)
    else:
        raise ValueError("the table must have a column error_se or error_sd: how sure is a mean?")
    models = np.array(["the model"] * len(entries))
    if "model" in entries:
        models = np.array([str(entry).strip() for entry in entries.entries["model"]])
    return {
        str(model): [values[models == model] for values in (examples, errors, bars)]
        for model in dict.fromkeys(models.tolist())
    }


def _named(
    parts: Mapping[str, object], baselines: Mapping[str, str] | None, known: Sequence[str]
) -> dict[str, str]:
    """Known algorithms by what the table calls them."""
    named: dict[str, str] = {}
    for name in parts:
        short = SETTINGS.sub("", name).strip().lower()
        for algorithm in known:
            if short in (algorithm, algorithm.replace("_", " "), *USUAL.get(algorithm, ())):
                named[name] = algorithm
    for algorithm, own in (baselines or {}).items():
        if algorithm not in known:
            hint = did_you_mean(algorithm, known)
            raise ValueError(f"baselines must be of {', '.join(known)}, got {algorithm!r}{hint}")
        if own not in parts:
            hint = did_you_mean(own, parts)
            raise ValueError(
                f"baselines maps {algorithm} to {own!r}, but there are {', '.join(parts)}{hint}"
            )
        named[own] = algorithm
    return named


def _sorted(name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays in the order of the examples, which must differ."""
    examples = arrays[0]
    whole = examples.astype(int)
    if np.any(whole != examples):
        raise ValueError(f"examples must be integers, got {examples[whole != examples][0]:g}")
    order = np.argsort(whole)
    twice = np.flatnonzero(np.diff(whole[order]) == 0)
    if twice.size:
        raise ValueError(
            f"{name} has {whole[order][twice[0]]} examples twice: a column model must tell "
            "several models in one table apart"
        )
    return [whole[order], *(values[order] for values in arrays[1:])]
