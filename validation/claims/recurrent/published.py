"""Published runs of linear attention on correlated tokens.

Published ICL errors at d = 32, of contexts whose tokens have a correlation length of up to ten
tokens, equal the finite-size prediction at the integers simulated.  So do those of shorter
contexts of independent tokens, which were published as equally informative, and those of queries
that continue the sequence.  The tasks are Gaussian; the prediction is for tasks of one norm, and
takes what Gaussian ones change from contexts of independent tokens.  Own runs at the published
sizes, with tasks of one norm and queries that continue the sequence, equal the prediction itself.

Source: Letey, Lu, Pehlevan and Zavatone-Veth, "Sequential correlations change in-context learning"
(2026), data of its public repository (validation/reference/README.md).
"""

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread
from iclimit.asymptotics.recurrent import gated_context
from iclimit.prediction import Prediction
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation.claim import Claim, Effort, Later, Rows, both_errors, call, mean, note, run
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.reference import read_reference

# Dimension of the published runs.
DIM = 32
# Variance of their label noise.
RHO = 0.01
# Sizes and noise of the published runs.
SIZES: dict[str, Any] = {"dim": DIM, "prompts": 4096, "tasks": 320, "rho": RHO}
# Correlation lengths of own runs with correlated queries.
OWN_LENGTHS = (2, 10)
# Repeats of these runs.
OWN_REPEATS = 16
# Published runs of all settings share seeds.
SEEDS = "published"
# How a published run was made and tested, for the spread of its error.
RUN: dict[str, Any] = {"task_law": "gaussian", "test_prompts": 20_480}


def rows(effort: Effort) -> Rows:
    """All published means, and what their spread should be."""
    draws = effort.pick(quick=2, medium=8, full=30)
    published = read_reference("lu_correlated_contexts_d32.csv")
    # One length of own runs, which take most of the time, is enough to see that they are compared.
    lengths = effort.pick(tiny=(0, OWN_LENGTHS[0]), quick=range(11))
    for row in published:
        if int(row["corr_len"]) not in lengths:
            continue
        length = float(row["corr_len"])
        context = int(row["P_tr"])
        correlation = math.exp(-1 / length) if length else 0.0
        continued = row["curve_name"] == "corr_query"
        count = int(row["num_runs"])
        spread = float(row["best_fresh_test_loss_std"])
        printed = Estimate(float(row["best_fresh_test_loss"]), spread / math.sqrt(count), count)
        if not length and row["curve_name"] != "corr0":
            continue  # the same runs, or the same law
        theory = predicted(context, correlation, draws, continued)
        name = f"{context} tokens, correlation length {length:g}"
        name = f"correlated query, {name}" if continued else name
        yield mean(f"ICL, {name}", theory, printed, of="finite_size_errors.icl", draws=SEEDS)
        if continued and length in OWN_LENGTHS:
            setting = {"context": context, "correlation": correlation, "correlated_query": True}
            own_theory = call(
                with_uncertainty, run(finite_size_errors, **SIZES, **setting, draws=draws)
            )
            own = run(simulate_errors, **SIZES, **setting, repeats=effort(OWN_REPEATS))
            yield from both_errors(
                f"{name}, own runs", own_theory, own, of="finite_size_errors", draws=name
            )
    context = int(published[0]["P_tr"])
    spread = float(published[0]["best_fresh_test_loss_std"])
    predicted_spread = run(finite_size_spread, **SIZES, context=context, **RUN)
    yield note(call(describe_spread, predicted_spread.icl, spread))


def predicted(context: int, correlation: float, draws: int, correlated_query: bool) -> Later:
    """Prediction for Gaussian tasks, with its uncertainty."""
    given: dict[str, Any] = {"context": context, "correlation": correlation, "draws": draws}
    given["correlated_query"] = correlated_query
    errors = run(finite_size_errors, **SIZES, **given)
    gated = gated_context(np.ones(context), dim=DIM, rho=RHO, correlation=correlation)
    plain = {"context": round(DIM * gated.alpha), "draws": draws, "approach": "moments"}
    laws = [
        run(finite_size_errors, **SIZES, **plain, task_law=law) for law in ("gaussian", "sphere")
    ]
    return call(with_gaussian_tasks, errors, *laws)


def with_gaussian_tasks(errors: Prediction, gaussian: Prediction, sphere: Prediction) -> Estimate:
    """ICL error times a ratio; nearly all runs are within the uncertainty, two standard errors."""
    ratio = gaussian.icl.mean / sphere.icl.mean
    doubt = math.hypot(errors.icl.standard_error, errors.uncertainty / 2 * errors.icl.mean)
    return Estimate(ratio * errors.icl.mean, ratio * doubt, errors.icl.repeats)


def describe_spread(own: float, published: float) -> str:
    """How far runs scatter."""
    return (
        f"Runs of independent tokens should scatter by {own:.4f} (`finite_size_spread`, with "
        f"{RUN['test_prompts']} test prompts). Published is {published:.4f}, of 20 runs, whose "
        "spread is known to 16 %: more than expected. Runs of different settings share seeds, so "
        "that the deviations of their means are not independent."
    )


claim = Claim.of("recurrent-published", __doc__, rows, figure=False)
