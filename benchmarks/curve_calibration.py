"""Are checks of training curves honest, and do they find mistakes?

``python -m benchmarks.curve_calibration`` draws settings at random (dimension, covariance,
context, noise, heads, size of the start), simulates their training and checks the curves: by
descent, by flow, on mixtures of tasks, with momentum, with Adam and with minibatches.  True curves
must agree.  Then mistakes are planted in the statement: how often is the curve contradicted, is
the mistake named, and what else is named?  ``--write`` keeps the output in
``benchmarks/curve_calibration.txt``; it takes four minutes of one core.
"""

import argparse
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.dynamics import (
    AttentionModel,
    initial_weights,
    simulate_gradient_descent,
    simulate_gradient_flow,
)
from iclimit.simulate.dynamics.attention_models import MomentLoss
from iclimit.simulate.dynamics.feature_moments import population_moments, stack_moments
from iclimit.validation import CurveCheck, check_curve

OUTPUT = Path(__file__).with_suffix(".txt")

Setting = dict[str, Any]


def random_setting(rng: np.random.Generator) -> Setting:
    """Draw what data, model and start have in common."""
    dim = int(rng.integers(2, 6))
    return {
        "eigenvalues": np.sort(rng.dirichlet(np.full(dim, 3.0)))[::-1] * rng.choice([1, dim / 2]),
        "context": int(rng.integers(5, 41)),
        "noise_variance": float(rng.choice([0.0, 0.1])),
        "heads": int(rng.integers(dim + 1, 2 * dim + 1)),
        "init_scale": float(10 ** rng.uniform(-5, -2.3)),
    }


def problem_of(setting: Setting) -> Problem:
    """Law of the sequences of a setting."""
    names = ("context", "noise_variance", "fresh_fraction", "shared_task")
    law = {name: setting[name] for name in names if name in setting}
    lam = setting["eigenvalues"]
    return Problem(len(lam), input_covariance=lam, scale=1, **law)


def drop_steps(setting: Setting) -> tuple[float, int]:
    """Learning rate and number of steps with which the drop of merged attention is seen."""
    growth = float(np.linalg.norm(setting["eigenvalues"] ** 2))
    rate = 0.015 / growth
    return rate, int(2.5 * (6 - math.log(setting["init_scale"])) / (2 * growth * rate))


def descent(setting: Setting, rng: int, **more: Any) -> tuple[Any, Setting]:
    """Curves of gradient descent, and what is stated of them."""
    rate, steps = drop_steps(setting)
    stated = {"model": "merged", "training_set": math.inf, "learning_rate": rate} | more
    batch: Any = stated.pop("batch", None)
    trained = {name: setting[name] for name in ("heads", "init_scale")} | stated
    run = simulate_gradient_descent(
        problem_of(setting),
        steps=steps,
        record=max(1, steps // 500),
        standardize=False,
        batch=batch,
        repeats=2,
        rng=rng,
        **trained,
    )
    return run, setting | stated


def separate_flow(setting: Setting, rng: int) -> tuple[Any, Setting]:
    """Curve of the flow of separate attention, and what is stated of it."""
    stated = setting | {"model": "separate", "init_scale": 10 ** (-2 - rng % 2 / 2)}
    end = 3 / (stated["init_scale"] * float(setting["eigenvalues"][-1]) ** 2)
    layer = {name: stated[name] for name in ("model", "heads", "init_scale")}
    flow = simulate_gradient_flow(problem_of(setting), **layer, duration=end, rtol=1e-6, rng=rng)
    times = np.linspace(0, end, 4000)
    return {"time": times, "loss": flow.at(times)}, stated


def mixture(setting: Setting, rng: int) -> tuple[Any, Setting]:
    """Curves of descent on a mixture of tasks."""
    draw = np.random.default_rng(rng)
    model = ("merged", "cubic")[rng % 2]
    task = tuple(draw.normal(size=len(setting["eigenvalues"])).tolist())
    share = {"fresh_fraction": float(draw.uniform(0.2, 0.8)), "shared_task": task}
    run, stated = descent(setting | share, rng, model=model)
    return run, stated


def otherwise(setting: Setting, rng: int, rule: str) -> tuple[Any, Setting]:
    """Curve of momentum 0.9 or of Adam with a cosine schedule, on the law of the data."""
    kind = ("merged", "separate")[rng % 2]
    scale = setting["init_scale"] if kind == "merged" else 0.03
    layer = AttentionModel(kind, len(setting["eigenvalues"]), setting["heads"])
    weights = [each[None] for each in initial_weights(layer, scale, rng=rng)]
    moments = stack_moments(get_backend("numpy"), [population_moments(problem_of(setting))])
    loss = MomentLoss(layer, moments)
    rate, steps = drop_steps(setting)
    steps = 4000 if rule == "adam" else max(4000, steps // 5)
    first = [0 * each for each in weights]
    second = [0 * each for each in weights]
    losses = []
    for step in range(steps + 1):
        value, gradients = loss(weights)
        losses.append(float(value[0]))
        if rule == "momentum":
            first = [0.9 * mean + slope for mean, slope in zip(first, gradients, strict=True)]
            moves = [rate * mean for mean in first]
        else:
            first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
            second = [0.99 * v + 0.01 * g**2 for v, g in zip(second, gradients, strict=True)]
            size = 3e-3 * (1 + math.cos(math.pi * step / steps)) / 2
            size *= math.sqrt(1 - 0.99 ** (step + 1)) / (1 - 0.9 ** (step + 1))
            moves = [size * m / (np.sqrt(v) + 1e-12) for m, v in zip(first, second, strict=True)]
        weights = [each - move for each, move in zip(weights, moves, strict=True)]
    table = {"step": np.arange(0, steps + 1, 5), "loss": losses[::5]}
    return table, setting | {"model": kind, "init_scale": scale, "optimizer": "other"}


TRUE: dict[str, Callable[[Setting, int], tuple[Any, Setting]]] = {
    "descent, merged": descent,
    "descent, merged, 3000 sequences": lambda s, rng: descent(s, rng, training_set=3000),
    "descent, cubic, 3000 sequences": lambda s, rng: descent(
        s, rng, model="cubic", training_set=3000
    ),
    "flow, separate": separate_flow,
    "descent, mixture of tasks": mixture,
    "minibatches of 64, small steps": lambda s, rng: descent(s, rng, training_set=3000, batch=64),
    "momentum, as other optimizer": lambda s, rng: otherwise(s, rng, "momentum"),
    "Adam with a schedule, as other optimizer": lambda s, rng: otherwise(s, rng, "adam"),
}

# Changes of the statement, and words of the explanation that is right.
MISTAKES: dict[str, tuple[Callable[[Setting], Setting], str]] = {
    "learning rate half": (lambda s: {"learning_rate": 2 * s["learning_rate"]}, "is half of"),
    "learning rate 0.3 of it": (
        lambda s: {"learning_rate": s["learning_rate"] / 0.3},
        " count 0.3",
    ),
    "momentum 0.9 left out": (
        lambda s: {"learning_rate": s["learning_rate"] / 10},
        "momentum 0.9",
    ),
    "loss halved": (
        lambda s: {"loss_factor": 2.0, "learning_rate": s["learning_rate"] / 2},
        "half",
    ),
    "initial scale 30 times": (lambda s: {"init_scale": s["init_scale"] / 30}, "init_scale is"),
    "a variance for the scale": (lambda s: {"init_scale": s["init_scale"] ** 2}, "is a variance"),
    "white inputs": (
        lambda s: {
            "eigenvalues": np.linspace(0.5, 2, len(s["eigenvalues"])) * np.mean(s["eigenvalues"])
        },
        "inputs are white",
    ),
    "context one longer": (lambda s: {"context": s["context"] + 1}, "pairs besides the query"),
    "context half": (lambda s: {"context": 2 * s["context"]}, "pairs besides the query"),
    "label noise left out": (lambda _: {"noise_variance": 0.0}, "noise_variance is"),
    "scores not divided": (
        lambda s: {
            "learning_rate": s["learning_rate"] / s["context"],
            "init_scale": s["init_scale"] / math.sqrt(s["context"]),
        },
        "not divided",
    ),
}


def main() -> None:
    """Simulate, check and print."""
    name = "benchmarks.curve_calibration"
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=__doc__)
    parser.add_argument("--curves", type=int, default=20, help="of each kind")
    parser.add_argument("--planted", type=int, default=10)
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    lines = [f"{'true curves':42}  agree  contradicted  too little  of"]
    for kind, simulate in TRUE.items():
        verdicts = Counter(
            check_one(simulate, seed).verdict.kind for seed in range(arguments.curves)
        )
        counts = [verdicts[each] for each in ("agrees", "contradicts", "unusable")]
        lines.append(
            f"{kind:42}  {counts[0]:5}  {counts[1]:12}  {counts[2]:10}  {arguments.curves}"
        )
        print(lines[-1], flush=True)
    lines.append(
        f"{'planted, descent of merged attention':42}  contradicted  named  others named  of"
    )
    for mistake, (change, words) in MISTAKES.items():
        counts = [0, 0, 0]
        for seed in range(arguments.planted):
            setting = random_setting(np.random.default_rng(100 + seed))
            table, stated = planted(setting, 100 + seed, change, mistake)
            check = check_curve(table, **stated)
            right = [text for text in check.fits if words in text]
            counts[0] += check.verdict.kind == "contradicts"
            counts[1] += bool(right)
            counts[2] += len(check.fits) > len(right)
        lines.append(
            f"{mistake:42}  {counts[0]:12}  {counts[1]:5}  {counts[2]:12}  {arguments.planted}"
        )
        print(lines[-1], flush=True)
    print("\n".join(lines))
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


def check_one(simulate: Callable[[Setting, int], tuple[Any, Setting]], seed: int) -> CurveCheck:
    """Check of one simulated curve."""
    table, stated = simulate(random_setting(np.random.default_rng(seed)), seed)
    return check_curve(table, **stated)


def planted(
    setting: Setting, rng: int, change: Callable[[Setting], Setting], mistake: str
) -> tuple[Any, Setting]:
    """Curves of descent, with a mistake in the statement."""
    if mistake == "white inputs":
        setting["eigenvalues"] = np.full_like(
            setting["eigenvalues"], np.mean(setting["eigenvalues"])
        )
    if mistake == "label noise left out":
        setting["noise_variance"] = 0.2
    run, stated = descent(setting, rng)
    return run, stated | change(stated)


if __name__ == "__main__":
    main()
