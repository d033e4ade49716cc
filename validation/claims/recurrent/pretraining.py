"""Pretraining of gated attention on correlated tokens and on tasks that change.

Linear attention whose context summary weighs pairs by gates is pretrained on simulated prompts of
correlated tokens.  Where queries are independent, the gate is such that the context of 3d tokens
is worth exactly d pairs: ICL and IDG errors, extrapolated to infinite dimension by their ratios to
the finite-size prediction, give the limits of plain attention on d pairs.  Where queries continue
the sequence, they give the limits for such queries, and where tests have no gates those for such
tests.  With tasks that drift along the context, too, errors at one size equal the finite-size
prediction.

Source: Derived in the documentation; {lu2025} for plain attention.
"""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.optimize import brentq

from iclimit.asymptotics import recurrent
from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.experiment import Experiment, Reduced, Ridge, Test
from iclimit.prediction import Prediction
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.pretraining import sample
from iclimit.statement import named_cell
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.claim import (
    Claim,
    Effort,
    Later,
    Rows,
    both_errors,
    call,
    exact,
    limit,
    run,
)
from iclimit.validation.claims.pretraining.points import Point, with_uncertainty

# Point of plain attention whose limits are compared.
POINT = Point(tau=0.5, alpha=1, kappa=2, rho=0.1, ridge=0.3)
# Tokens over dimension.
LENGTH = 3
# Correlation of neighbouring tokens.
CORRELATION = 0.4
# Rate of the gate where queries continue the sequence, and where tests have none.
FORGETTING = 0.5
# Rate at which tasks change.
DRIFT = 0.1

# Without drift prompts are cheap: they come from their law.
REPEATS = {12: 300, 20: 60, 32: 135}
# Dimension of the runs with drift.
DRIFTING_DIM = 16
# Number of these runs.
DRIFTING_REPEATS = 150
# Task sets of a prediction task by task.
DRAWS = 20
# Dimension times task sets of a prediction from mean moments, which scatters far less than runs.
DRAWN = 1600
# Most task sets of such a prediction.
MOST_DRAWN = 60
# Dimension of sums over tokens.
TOKENS = 1000
# Relative distance of these sums from the limit.
OF_SUMS = 1e-3
# Dimensions from which the limit of the predictions is extrapolated.  The first is that of runs.
# Up to 1e-4 of the ICL error is lost by leaving out those in between.
ANCHORS = (32, 56, 80, 136)


def gated_layer(dim: int, drift: float = 0.0) -> dict[str, Any]:
    """Gates that leave d pairs, and the ridge that acts on summaries of unit signal."""
    ages = np.arange(LENGTH * dim - 1, -1, -1) / dim

    def left(forgetting: float) -> Any:
        """What the gates leave of the context."""
        times = {"drift": drift, "correlation": CORRELATION}
        return recurrent.gated_context(np.exp(-forgetting * ages), dim=dim, rho=POINT.rho, **times)

    forgetting = brentq(lambda rate: left(rate).alpha - POINT.alpha, 0.5, 6.0)
    context = left(forgetting)
    return {"ridge": POINT.ridge * context.signal**2, "gates": context.gates}


def query_layer(dim: int) -> dict[str, Any]:
    """Gates and ridge where queries continue the sequence."""
    ages = np.arange(LENGTH * dim - 1, -1, -1) / dim
    return {"ridge": POINT.ridge, "gates": np.exp(-FORGETTING * ages)}


def layer(
    dim: int, drift: float, correlated_query: bool, plain_tests: bool = False
) -> dict[str, Any]:
    """Gates and ridge of a setting."""
    if plain_tests:
        return query_layer(dim) | {"test_gates": np.ones(LENGTH * dim)}
    return query_layer(dim) if correlated_query else gated_layer(dim, drift)


@named_cell("pretrained")
def pretrained(
    *,
    dim: int,
    repeats: int,
    rng: SeedSequence,
    drift: float = 0.0,
    correlated_query: bool = False,
    plain_tests: bool = False,
) -> np.ndarray:
    """ICL and IDG errors, (2, repeats)."""
    problem = Problem(
        dim,
        LENGTH * dim,
        tasks=round(POINT.kappa * dim),
        noise_variance=POINT.rho,
        task_law="sphere",
        correlation=CORRELATION,
        drift=drift,
        correlated_query=correlated_query,
    )
    gated = layer(dim, drift, correlated_query, plain_tests)
    test = None
    if plain_tests:
        test = Test(problem.with_fresh_tasks(), gated["test_gates"])
    experiment = Experiment(
        problem,
        prompts=round(POINT.tau * dim**2),
        training=Ridge(gated["ridge"]),
        model=Reduced(gated["gates"]),
        test=test,
    )
    errors = sample(experiment, repeats=repeats, rng=rng)
    return np.array([errors.icl.samples, errors.idg.samples])


@named_cell("predicted")
def predicted(
    *,
    dim: int,
    rng: SeedSequence,
    drift: float = 0.0,
    correlated_query: bool = False,
    plain_tests: bool = False,
    approach: str = "tasks",
    draws: int | None = None,
) -> Prediction:
    """Prediction at the integers of a run; by default from as many task sets as runs need."""
    gated = layer(dim, drift, correlated_query, plain_tests)
    sizes = {**POINT.integers(dim), **gated, "context": LENGTH * dim}
    times: dict[str, Any] = {"correlation": CORRELATION, "correlated_query": correlated_query}
    draws = draws or (DRAWS if approach == "tasks" else min(DRAWN // dim, MOST_DRAWN))
    return finite_size_errors(
        **sizes, **times, drift=drift, draws=draws, rng=rng, approach=approach
    )


def summed(dim: int) -> float:
    """Error in tests without gates after endless prompts and tasks, from sums over tokens."""
    law: dict[str, Any] = {"dim": dim, "rho": POINT.rho, "correlation": CORRELATION}
    own = recurrent.gated_context(query_layer(dim)["gates"], **law)
    test = recurrent.gated_context(np.ones(LENGTH * dim), **law)
    slope = own.signal / (own.signal**2 + own.noise)
    power = test.signal**2 + test.noise
    return float(1 + POINT.rho - 2 * slope * test.signal + slope**2 * power)


def samples_of(errors: np.ndarray) -> SimpleNamespace:
    """Estimates of the errors."""
    return SimpleNamespace(icl=Estimate.of(errors[0]), idg=Estimate.of(errors[1]))


def extrapolated(
    names: tuple[str, str], theories: tuple[Later, Later], runs: dict[int, Later], **setting: Any
) -> Rows:
    """Both limits against runs."""
    sizes = {*runs, *ANCHORS}
    predictions = {dim: run(predicted, dim=dim, approach="moments", **setting) for dim in sizes}
    yield limit(
        dict(zip(names, theories, strict=True)),
        runs,
        fit=extrapolate_ratios,
        predictions={dim: (errors.icl, errors.idg) for dim, errors in predictions.items()},
        anchors=ANCHORS,
        draws=names,
        fit_label=f"chi-square of the ratios, {names[0]}",
        name=f"{names[0]}: ratio to the prediction from mean moments",
    )


def rows(effort: Effort) -> Rows:
    """Limits for both kinds of queries, and single sizes with and without drift."""
    counts = effort.by_size(REPEATS)
    query: dict[str, Any] = {"correlated_query": True}
    tests: dict[str, Any] = {"plain_tests": True}
    sets: dict[str, Any] = effort.pick(tiny={"draws": 4}, quick={})
    given = vars(POINT) | {"alpha": LENGTH, "correlation": CORRELATION, "forgetting": FORGETTING}
    for kind, setting in (("gates", {}), ("gates and a correlated query", query)):
        runs = {
            dim: run(pretrained, dim=dim, repeats=count, **setting)
            for dim, count in counts.items()
        }
        if setting:
            errors = call(recurrent.correlated_query_errors, **given)
            theories = errors.icl, errors.idg
        else:
            theories = POINT.theories()
        yield from extrapolated(
            (f"ICL, {kind}", f"IDG, {kind}"), theories, runs, **setting, **sets
        )
        largest = max(counts)
        theory = call(with_uncertainty, run(predicted, dim=largest, **setting, **sets))
        simulated = call(samples_of, runs[largest])
        label = f"d={largest}, {kind}"
        yield from both_errors(label, theory, simulated, of="finite_size_errors", draws=kind)
    runs = {
        dim: run(pretrained, dim=dim, repeats=count // 2, **tests) for dim, count in counts.items()
    }
    errors = call(recurrent.gated_pretraining_errors, **given, test_forgetting=0.0)
    names = "ICL, tests without gates", "IDG, tests without gates"
    yield from extrapolated(names, (errors.icl, errors.idg), runs, **tests, **sets)
    endless = {"tau": math.inf, "kappa": math.inf, "ridge": 0.0}
    errors = call(recurrent.gated_pretraining_errors, **given | endless, test_forgetting=0.0)
    label = "ICL, tests without gates, endless prompts and tasks"
    yield exact(label, errors.icl, call(summed, TOKENS), relative=OF_SUMS)
    drifting = {"dim": DRIFTING_DIM, "drift": DRIFT}
    simulated = call(samples_of, run(pretrained, **drifting, repeats=effort(DRIFTING_REPEATS)))
    theory = call(with_uncertainty, run(predicted, **drifting, **sets))
    label = f"d={DRIFTING_DIM} and drift"
    yield from both_errors(label, theory, simulated, of="finite_size_errors", draws="drift")


claim = Claim.of("recurrent-pretraining", __doc__, rows, figure=False)
