"""Are stated uncertainties right for labels that are not linear, and inputs with random scales?

``python -m benchmarks.label_honesty --seed S`` from the root of the repository draws 80 settings
of links, noise, flips, outputs, laws of scales, sizes and tests, simulates 40 runs of each and
compares their mean errors with predictions: 3 CPU minutes.  To be a test of the code, S is taken
after the last change of it.  The comparison is ``benchmarks/label_honesty.csv``, its summary
``benchmarks/label_honesty.txt``.

Means are to be within the stated uncertainty plus two standard errors in 95 % of all settings.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.honesty import Draw
from benchmarks.training_honesty import REPEATS, TASK_SETS, deviations, judged, parsed, write
from iclimit import Experiment, Problem, Ridge, Test, predict, sample

OUTPUT = Path(__file__).with_name("label_honesty.csv")

# Settings, and of how many of them labels have several outputs.
SETTINGS = 80
SHARE_OF_OUTPUTS = 0.15

# Share of the settings in which inputs have random scales and labels are linear.
SHARE_OF_SCALES = 0.25

# Links that are odd, which several outputs need, and others.
ODD = ("sign", "sign", "cube", "tanh", "sin")
OTHERS = ("relu",)

# Slopes of those that have one.
SLOPES = {"tanh": (0.3, 5.0), "sin": (0.3, 1.5)}


def link(draw: Draw, names: tuple[str, ...]) -> Any:
    """A random link."""
    name = str(draw.rng.choice(names))
    return (name, draw.between(*SLOPES[name])) if name in SLOPES else name


def scale_law(draw: Draw) -> Any:
    """A random law of the scale of an input, of mean 1: two points, or Student's."""
    if draw.happens(0.5):
        return ("student", draw.between(10, 40))
    small = draw.between(0.1, 0.9)
    chance = draw.between(0.2, 0.8)
    return (small, (1 - chance * small) / (1 - chance)), (chance, 1 - chance)


def sizes(draw: Draw, dim: int) -> dict[str, Any]:
    """Random context, tasks and noise."""
    return {
        "context": draw.integer(dim / 4, 6 * dim),
        "tasks": math.inf if draw.happens(0.25) else draw.integer(dim / 4, 8 * dim),
        "noise_variance": draw.between(0.01, 1) if draw.happens(0.5) else 0.0,
        "task_law": "sphere",
    }


def scaled(draw: Draw) -> Experiment:
    """Run of a random setting with random scales."""
    dim = int(draw.rng.integers(10, 23))
    law = Problem(dim, **sizes(draw, dim), scale_law=scale_law(draw))
    return Experiment(
        law, prompts=draw.integer(0.25 * dim**2, 5 * dim**2), training=Ridge(draw.between(1e-3, 1))
    )


def experiment(draw: Draw) -> Experiment:
    """Run of a random setting."""
    if draw.happens(SHARE_OF_SCALES):
        return scaled(draw)
    dim = int(draw.rng.integers(10, 23))
    outputs = 1
    if draw.happens(SHARE_OF_OUTPUTS):
        dim = int(draw.rng.integers(20, 23))
        outputs = 2
    law = Problem(
        dim,
        **sizes(draw, dim),
        link=link(draw, ODD if outputs > 1 else ODD + OTHERS),
        flips=draw.between(0.01, 0.3) if draw.happens(0.3) else 0.0,
        outputs=outputs,
    )
    test = None
    if outputs == 1 and draw.happens(0.2):
        test = Test(law.with_fresh_tasks(context=draw.integer(dim / 4, 6 * dim)))
    return Experiment(
        law,
        prompts=draw.integer(0.25 * dim**2, 5 * dim**2),
        training=Ridge(draw.between(1e-3, 1) if draw.happens(0.75) else 0.0),
        test=test,
    )


def compare(number: int, seed: int) -> dict[str, Any]:
    """Deviations from the prediction, what is stated, and standard errors in percent.

    Raises
    ------
    ArithmeticError
        If it is not simulated: without a ridge, features of few prompts may be dependent.
    """
    run = experiment(Draw(np.random.default_rng([seed, number])))
    row: dict[str, Any] = {"number": number, "setting": repr(run)}
    theory = predict(run, rng=3, draws=TASK_SETS)
    return row | deviations(theory, sample(run, rng=seed + number, repeats=REPEATS))


def _groups(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Settings by what is not as usual in them."""
    scales = [row for row in rows if "scale_law" in row["setting"]]
    return {"labels": [row for row in rows if row not in scales], "scales": scales}


def main() -> None:
    options = parsed(__doc__, SETTINGS)
    rows = []
    refused = []
    for number in range(options.first):
        try:
            rows.append(compare(number, options.seed))
        except ArithmeticError as error:
            refused.append(f"Setting {number} is not simulated: {error}")
        else:
            print(rows[-1], flush=True)
    write(OUTPUT, rows, [*judged(_groups(rows)), *refused], options.seed)


if __name__ == "__main__":
    main()
