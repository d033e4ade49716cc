"""Steps at test time: errors, the best number of steps, saturation, thresholds, and few tasks.

Linear attention is pretrained on simulated prompts and applied again and again to fresh contexts.
Median errors, extrapolated to infinite dimension, equal the two-time theory: for weight prediction
with noise, where the best number of steps is finite; with short contexts, where the errors
saturate; with dampened steps, where undampened ones do harm; and for pretraining from labels of
few tasks with a ridge.  The feedback of the noise in the learned matrix, which exceeds 1 beyond
the threshold of overthinking, equals the theory for dampened steps and in the window of few
prompts.

Source: Question of Takanami and Pehlevan, arXiv:2606.03217 (abstract); formulas derived in the
documentation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from iclimit.asymptotics import depth
from iclimit.asymptotics.pretraining import idg_error
from iclimit.simulate.depth import simulate_overthinking_ratio, simulate_test_time
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, exact, limit, note, run

# Name of the setting with noise, where the best number of steps is finite.
EARLY = "noise: early stopping"
# Name of the setting with short contexts, where the errors saturate.
SHORT = "short contexts: saturation"
# Name of the setting where undampened steps do harm.
DAMPENED = "dampened steps"
# Settings of weight prediction by name.
WEIGHTS: dict[str, dict[str, Any]] = {
    EARLY: {"alpha": 4, "tau": 3, "noise_variance": 0.4, "dampening": 1.0},
    SHORT: {"alpha": 0.3, "tau": 6, "noise_variance": 0.1, "dampening": 0.8},
    DAMPENED: {"alpha": 2, "tau": 3, "noise_variance": 0.2, "dampening": 0.7},
}
# Name of the setting of pretraining from labels.
TASKS = "labels of few tasks"
# Setting of pretraining from labels.
LABELS: dict[str, Any] = {"alpha": 8, "tau": 1, "noise_variance": 0.1, "dampening": 0.8}
# Number of tasks over dimension in pretraining from labels.
KAPPA = 0.5
# Ridge of pretraining from labels.
RIDGE = 1.0

# Where pushes that alternate are fed back most.
ALTERNATING: dict[str, Any] = {"alpha": 2, "tau": 2, "noise_variance": 0.1, "dampening": 0.95}
# Long contexts without noise, where the errors vanish in the end.
NOISELESS: dict[str, Any] = {"alpha": 2, "tau": 4, "noise_variance": 0.0, "dampening": 0.8}

# Steps whose errors are compared; with noise, 6 are best.  The last error with noise, and that for
# few tasks, is compared less an earlier one.  After 24 steps on short contexts it is within 3e-4
# of its limit.
STEPS = {EARLY: (1, 2, 6, 16), SHORT: (1, 4, 24), DAMPENED: (1, 2, 4), TASKS: (1, 2, 4)}

# Pretrainings by dimension.
REPEATS = {
    EARLY: {16: 500, 24: 350, 40: 110, 96: 65},
    SHORT: {10: 250, 20: 450, 40: 140, 100: 50},
    DAMPENED: {8: 300, 16: 500, 32: 100, 96: 60},
    TASKS: {6: 500, 12: 800, 20: 70, 32: 140},
}

# Pushes of the feedback of the noise in the matrix, setting, and pretrainings by dimension.
FEEDBACK: dict[str, tuple[str, dict[str, Any], dict[int, int]]] = {
    "threshold of undampened steps": (
        "alternating",
        {"alpha": 8, "tau": 2, "noise_variance": 0.0, "dampening": 1.0},
        {24: 150, 32: 150, 48: 80, 96: 30},
    ),
    "threshold of dampened steps": (
        "constant",
        {"alpha": 3, "tau": 3, "noise_variance": 0.3, "dampening": 0.6},
        {8: 300, 16: 350, 32: 80, 96: 32},
    ),
}

# Where the feedback from all rounds is compared, too.
RESUMMED = "threshold of dampened steps"

# Settings of the ratio with pretraining from labels, pretrainings by dimension, and order of the
# fit in 1/d.  With many prompts a straight line passes the chi-square test from d = 12 on (2000
# pretrainings), and its limit is the theory within 0.5 %.
RATIOS: dict[str, tuple[dict[str, float], dict[int, int], int]] = {
    "ratio for few prompts": (
        {"tau": 0.75, "alpha": 40, "noise_variance": 0.2, "ridge": 0.0, "dampening": 0.8},
        {8: 300, 16: 260, 24: 40, 32: 40},
        2,
    ),
    "ratio for many prompts": (
        {"tau": 1.5, "alpha": 8, "noise_variance": 0.2, "ridge": 0.3, "dampening": 0.6},
        {12: 500, 24: 80, 40: 140},
        1,
    ),
    "ratio for short contexts": (
        {"tau": 3.0, "alpha": 0.5, "noise_variance": 0.1, "ridge": 0.2, "dampening": 0.6},
        {12: 150, 16: 120, 24: 80, 32: 40},
        2,
    ),
}
# Test contexts of each pretraining whose errors are compared.
CONTEXTS = 5
# Test contexts of each pretraining whose feedback is compared.
FEEDBACK_CONTEXTS = 3


@named_cell("medians")
def medians(**setting: Any) -> np.ndarray:
    """Median error over the contexts of each pretraining, (repeats, steps + 1)."""
    return np.median(simulate_test_time(**setting).errors, axis=1)


@named_cell("ratios")
def ratios(pushes: str, **setting: Any) -> np.ndarray:
    """Feedback to pushes of one kind in one round and from all rounds, (2, repeats)."""
    feedback = simulate_overthinking_ratio(**setting)
    column = ("constant", "alternating").index(pushes)
    return np.array([feedback.returned[:, column], feedback.resummed[:, column]])


def sizes(dim: int, setting: Mapping[str, float], target: str) -> dict[str, Any]:
    """Arguments of a simulation: integers that have exactly the ratios of the limit, and more."""
    prompts = setting["tau"] * (dim if target == "weights" else dim**2)
    given = {name: setting[name] for name in ("noise_variance", "dampening") if name in setting}
    context = round(setting["alpha"] * dim)
    return {"dim": dim, "context": context, "prompts": round(prompts), "target": target, **given}


def feedback(
    effort: Effort,
    setting: Mapping[str, float],
    target: str,
    repeats: Mapping[int, int],
    *,
    pushes: str,
    ridge: float,
) -> dict[int, Later]:
    """Runs of `ratios` by dimension."""
    return {
        dim: run(
            ratios,
            **sizes(dim, setting, target),
            pushes=pushes,
            ridge=ridge,
            contexts=FEEDBACK_CONTEXTS,
            repeats=effort(count),
        )
        for dim, count in repeats.items()
    }


def chosen(errors: np.ndarray, steps: tuple[int, ...], earlier: int | None) -> np.ndarray:
    """Errors after some steps, the last one less an earlier one, (steps, repeats)."""
    run = errors[:, list(steps)].T
    if earlier is not None:
        run[-1] -= errors[:, earlier]
    return run


def median_cell(name: str, dim: int, repeats: int) -> Later:
    """Run of `medians` at one dimension, for pretraining from weights or from labels."""
    options = {"steps": max(STEPS[name]), "repeats": repeats, "contexts": CONTEXTS}
    if name == TASKS:
        layer = {"tasks": round(KAPPA * dim), "ridge": RIDGE}
        return run(medians, **sizes(dim, LABELS, "labels"), **layer, **options)
    layer = {"tasks": np.inf, "ridge": 0.0}
    return run(medians, **sizes(dim, WEIGHTS[name], "weights"), **layer, **options)


def steps_rows(effort: Effort) -> Rows:
    """Extrapolated medians, and what stopping early gains."""
    for name, steps in STEPS.items():
        setting = LABELS if name == TASKS else WEIGHTS[name]
        earlier = {EARLY: 6, TASKS: 2}.get(name)
        counts = REPEATS[name]
        runs = {dim: median_cell(name, dim, effort(count)) for dim, count in counts.items()}
        if name == TASKS:
            of = "iterated_icl_errors"
            errors = call(
                depth.iterated_icl_errors, **setting, kappa=KAPPA, ridge=RIDGE, steps=max(steps)
            )
            errors = call(np.subtract, errors, setting["noise_variance"])
        else:
            of = "test_time_errors"
            errors = call(depth.test_time_errors, **setting, steps=max(steps))
        limits = {f"{name}, {k} steps": (errors[k], of) for k in steps}
        if earlier is not None:
            limits.popitem()
            rise = call(np.subtract, errors[steps[-1]], errors[earlier])
            limits[f"{name}, {steps[-1]} steps less {earlier}"] = (rise, of)
        if name == EARLY:
            best = call(depth.best_test_time_steps, **setting)
            limits[f"{name}, {earlier} steps"] = (best.error, "best_test_time_steps.error")
        if name == SHORT:
            limits.popitem()
            final = call(depth.final_test_time_error, **setting)
            where = f"{name}, {steps[-1]} steps for infinitely many"
            limits[where] = (final, "final_test_time_error")
        yield limit(
            {label: theory for label, (theory, _) in limits.items()},
            {dim: call(chosen, cell, steps, earlier) for dim, cell in runs.items()},
            of=[function for _, function in limits.values()],
            about=name,
        )


def threshold_of(ratio: np.ndarray, tau: float, count: int) -> np.ndarray:
    """Threshold of tau, from ratios, which are in proportion to 1/(tau - 1)."""
    return 1 + (tau - 1) * ratio[:count]


def ratio_by_threshold() -> float:
    """Ratio for labels without a ridge, by the threshold of weight prediction.

    Both are the same feedback times the scatter of the learned matrix.
    """
    tau = ALTERNATING["tau"]
    alpha = ALTERNATING["alpha"]
    rho = ALTERNATING["noise_variance"]
    setting = {name: value for name, value in ALTERNATING.items() if name != "tau"}
    q = (1 + rho) / alpha
    scatter = idg_error(tau=tau, alpha=alpha, kappa=np.inf, rho=rho) * (1 + q) / tau
    return float(scatter / q * (depth.overthinking_threshold(**setting) - 1))


def rows(effort: Effort) -> Rows:
    """Errors after steps, and the feedback that decides on overthinking."""
    yield from steps_rows(effort)
    for name, (pushes, setting, repeats) in FEEDBACK.items():
        given = {key: value for key, value in setting.items() if key != "tau"}
        theory = call(depth.overthinking_threshold, **given)
        limits = {name: theory}
        if name == RESUMMED:
            limits[f"{name}, from all rounds"] = theory
        cells = feedback(effort, setting, "weights", repeats, pushes=pushes, ridge=0.0)
        tau = setting["tau"]
        count = len(limits)
        runs = {dim: call(threshold_of, cell, tau, count) for dim, cell in cells.items()}
        yield limit(limits, runs, about=name)
    for name, (setting, repeats, order) in RATIOS.items():
        ridge = setting["ridge"]
        cells = feedback(effort, setting, "labels", repeats, pushes="constant", ridge=ridge)
        runs = {dim: cell[:1] for dim, cell in cells.items()}
        theory = call(depth.overthinking_ratio, **setting)
        yield limit({name: theory}, runs, order=order, about=name)
    ratio = call(depth.overthinking_ratio, **ALTERNATING)
    value = call(ratio_by_threshold)
    label = "ratio with little dampening, by the threshold"
    yield exact(label, ratio, value, of="", relative=1e-12)  # theory against theory
    final = call(depth.final_test_time_error, **NOISELESS)
    label = "error after infinitely many steps without noise"
    yield exact(label, final, 0.0, of="", allowance=1e-12)
    yield note("Means are not compared: rare contexts carry them at finite d.")
    yield note(
        "The ratio for few prompts is known to half of it only: few pretrainings are affordable "
        "at dimensions where its corrections are small.  Without noise it would be 0.47."
    )


claim = Claim.of("overthinking", __doc__, rows, figure=False)
