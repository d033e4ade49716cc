"""Pretraining of gated attention on tasks that change and on correlated tokens.

Linear attention whose context summary weighs pairs by gates is pretrained on simulated prompts of
3d correlated tokens, along which tasks drift.  The gate is such that the context is worth exactly
d pairs.  ICL and IDG errors over the finite-size prediction for these gates, drift and
correlation, extrapolated to infinite dimension, give the limits of plain attention on d pairs.  At
the largest dimension they equal the prediction.

Source: Derived in the documentation; {lu2025} for plain attention.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import FiniteSizeErrors, finite_size_errors
from iclimit.asymptotics.recurrent import gated_context
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.pretraining.points import ANCHORS, Point, with_uncertainty
from iclimit.validation.rows import Rows, both_errors, call, limit, run

POINT = Point(tau=0.5, alpha=1, kappa=2, rho=0.1, ridge=0.3)
TIMES: dict[str, Any] = {"drift": 0.1, "correlation": 0.4}
LENGTH = 3

REPEATS = {8: 600, 12: 300, 20: 120}
# Task sets of each prediction.
DRAWS = 50


def gated_layer(dim: int) -> dict[str, Any]:
    """Gates and the ridge that acts on summaries of unit signal."""
    ages = np.arange(LENGTH * dim - 1, -1, -1) / dim

    def left(forgetting: float) -> Any:
        """What the gates leave of the context."""
        return gated_context(np.exp(-forgetting * ages), dim=dim, rho=POINT.rho, **TIMES)

    forgetting = brentq(lambda rate: left(rate).alpha - POINT.alpha, 0.5, 6.0)
    context = left(forgetting)
    return {"ridge": POINT.ridge * context.signal**2, "gates": context.gates}


def pretrained(*, dim: int, repeats: int, rng: Any) -> np.ndarray:
    """ICL and IDG errors, (2, repeats)."""
    problem = Problem(
        dim,
        LENGTH * dim,
        tasks=round(POINT.kappa * dim),
        prompts=round(POINT.tau * dim**2),
        noise_variance=POINT.rho,
        task_law="sphere",
        **TIMES,
    )
    errors = simulate_errors(problem, **gated_layer(dim), repeats=repeats, rng=rng)
    return np.array([errors.icl.samples, errors.idg.samples])


def predicted(*, dim: int, rng: Any, approach: str = "tasks") -> FiniteSizeErrors:
    """Prediction at the integers of a run."""
    sizes = {**POINT.integers(dim), **gated_layer(dim), "context": LENGTH * dim}
    return finite_size_errors(**sizes, **TIMES, draws=DRAWS, rng=rng, approach=approach)


def samples_of(errors: np.ndarray) -> SimpleNamespace:
    """Estimates of the errors."""
    return SimpleNamespace(icl=Estimate.of(errors[0]), idg=Estimate.of(errors[1]))


def rows(effort: Effort) -> Rows:
    """Both errors, extrapolated."""
    counts = effort.by_size(REPEATS)
    runs = {dim: run(pretrained, dim=dim, repeats=count) for dim, count in counts.items()}
    predictions = {dim: run(predicted, dim=dim, approach="moments") for dim in (*counts, *ANCHORS)}
    largest = max(counts)
    theory = call(with_uncertainty, run(predicted, dim=largest))
    label = f"d={largest} with gates, {POINT}"
    found = call(samples_of, runs[largest])
    yield from both_errors(label, theory, found, of="finite_size_errors", draws="pretraining")
    icl, idg = POINT.theories()
    yield limit(
        {f"ICL at the effective context, {POINT}": icl, f"IDG, {POINT}": idg},
        runs,
        fit=extrapolate_ratios,
        predictions={dim: (each.icl, each.idg) for dim, each in predictions.items()},
        anchors=ANCHORS,
        draws="pretraining",
        fit_label="chi-square of the ratios",
        name="Ratio to the prediction from mean moments",
    )


claim = Claim.of("recurrent-pretraining", __doc__, rows, figure=False)
