"""Limits of the errors of runs: of attention, of Bayes estimators, and of labels by a link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import (
    bayes_error,
    dmmse_errors,
    icl_error,
    idg_error,
    pretrained_accuracy,
    structured_errors,
    training_errors,
)
from iclimit.asymptotics.pretraining.icl import both_errors
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.experiment import Experiment
from iclimit.validation.instruments.runs.measured import (
    ACCURACY,
    ATTENTION,
    LABELS,
    MEASURED,
    MeasuredRun,
)


def limits(runs: Sequence[MeasuredRun], structure: Structure | None) -> list[dict[str, float]]:
    """Asymptotic errors of all runs by name."""
    ratios = {name: np.array([run.ratios[name] for run in runs]) for name in runs[0].ratios}
    pairs = limit_errors(ratios | ratios_of_tests(runs), structure)
    for number, run in enumerate(runs):
        if not run.linear:
            pairs[number] = linked_limit(run.estimator, run.experiment)
        elif run.estimator != ATTENTION:
            pairs[number] = _estimator_limit(run)
        if run.by_position:
            pairs[number] = [math.nan, math.nan]
    with np.errstate(invalid="ignore"):  # inf - inf at a threshold
        return [
            {name: float(np.dot(weights, pair)) for name, weights in MEASURED.items()}
            for pair in pairs
        ]


def ratios_of_tests(runs: Sequence[MeasuredRun]) -> dict[str, np.ndarray]:
    """Laws of the test prompts as parameters of the limit, where runs have such."""
    own = {"test_alpha": "alpha", "test_rho": "rho"}
    return {
        name: np.array([run.test_ratios.get(name, run.ratios[usual]) for run in runs])
        for name, usual in own.items()
        if any(name in run.test_ratios for run in runs)
    }


def limit_errors(ratios: Mapping[str, Any], structure: Structure | None) -> np.ndarray:
    """Asymptotic ICL and IDG error, along a last axis, at arrays of parameters by name.

    NaN for SGD, and after a time of training where data or tests are structured.
    """
    ratios = dict(ratios)
    time = ratios.pop("time", np.array(math.inf))
    start = ratios.pop("start_variance", np.array(0.0))
    if not np.all((time == math.inf) & (start == 0)):
        return _timed_limits(ratios, time, start, structure)
    if structure is None and not {"test_alpha", "test_rho"} & set(ratios):
        return np.stack(both_errors(**ratios), axis=-1)
    errors = structured_errors(**ratios, spectrum=structure.joint if structure else None)
    return np.stack([errors.icl, errors.idg], axis=-1)


def _timed_limits(
    ratios: Mapping[str, np.ndarray],
    time: np.ndarray,
    start: np.ndarray,
    structure: Structure | None,
) -> np.ndarray:
    """Limits of errors at these times of training, and NaN where the time is."""
    unknown = structure is not None or bool({"test_alpha", "test_rho"} & set(ratios))
    known = np.where(unknown, math.nan, time)
    named = {**ratios, "time": np.where(np.isnan(known), 0.0, time), "start_variance": start}
    errors = training_errors(**named)
    pairs = np.stack([errors.icl, errors.idg], axis=-1)
    return np.where(np.isnan(known)[..., None], math.nan, pairs)


def linked_limit(
    estimator: str, run: Experiment, *, threshold_of_runs: bool = False
) -> list[float]:
    """Limits of errors of labels by a link, or of accuracies; NaN where they are not known.

    With ``threshold_of_runs`` tau counts d (d + 1) features, as that of a run.
    """
    point = run.limit
    if not point.keys() <= {"tau", "alpha", "kappa", "rho", "ridge", *LABELS}:
        return [math.nan, math.nan]
    if threshold_of_runs:
        point["tau"] *= run.dim / (run.dim + 1)
    if estimator == ACCURACY:
        found = pretrained_accuracy(**{"link": "identity"} | point)
        return [float(found.icl), float(found.idg)]
    return [float(icl_error(**point)), float(idg_error(**point))]


def _estimator_limit(run: MeasuredRun) -> list[float]:
    alpha = run.ratios["alpha"]
    kappa = run.ratios["kappa"]
    rho = run.ratios["rho"]
    if run.estimator == "ridge" or kappa == math.inf or not rho:
        return [float(bayes_error(alpha=alpha, rho=rho))] * 2
    errors = dmmse_errors(kappa=kappa, alpha=alpha, rho=rho, dim=run.sizes["dim"])
    return [float(errors.icl), float(errors.idg)]
