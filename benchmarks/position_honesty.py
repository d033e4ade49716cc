"""Are stated uncertainties right for runs that are trained on every position of their sequences?

``python -m benchmarks.position_honesty --seed S`` from the root of the repository draws 60
settings, simulates 100 runs of each and compares their mean errors with predictions: 2 CPU
minutes.  To be a test of the code, S is taken after the last change of it.  The comparison is
``benchmarks/position_honesty.csv``, its summary ``benchmarks/position_honesty.txt``.

Means are to be within the stated uncertainty plus two standard errors in 95 % of all settings.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.honesty import Draw
from benchmarks.training_honesty import deviations, judged, parsed, write
from iclimit import AllPositions, Experiment, Problem, Reduced, Ridge, predict, sample

OUTPUT = Path(__file__).with_name("position_honesty.csv")

# Settings, and runs of each.
SETTINGS = 60
REPEATS = 100

# Root of the sequences that a prediction draws.
ROOT = 3


def experiment(draw: Draw) -> Experiment:
    """Run of a random setting."""
    dim = int(draw.rng.integers(8, 25))
    context = draw.integer(dim, 3 * dim)
    sequences = draw.integer(0.6 * dim, 8 * dim)
    tasks = math.inf if draw.happens(0.3) else draw.integer(0.4 * dim, 3 * dim)
    balanced = tasks < math.inf and draw.happens(0.4)
    if balanced:
        sequences = max(1, round(sequences / tasks)) * int(tasks)
    noise = draw.between(0.02, 0.6)
    return Experiment(
        Problem(dim, context, tasks=tasks, noise_variance=noise, task_law="sphere"),
        prompts=sequences,
        balanced=balanced,
        loss=AllPositions(1 if draw.happens(0.4) else draw.integer(0.2 * dim, 0.6 * dim)),
        training=Ridge(draw.between(0.03, 1)),
        model=Reduced(normalization=str(draw.rng.choice(["mean", "length"]))),
    )


def compare(number: int, seed: int) -> dict[str, Any]:
    """Deviations from the prediction, what is stated, and standard errors in percent."""
    run = experiment(Draw(np.random.default_rng([seed, number])))
    simulated = sample(run, rng=seed + number, repeats=REPEATS)
    row: dict[str, Any] = {"number": number, "setting": repr(run)}
    return row | deviations(predict(run, rng=ROOT), simulated)


def main() -> None:
    options = parsed(__doc__, SETTINGS)
    rows = []
    for number in range(options.first):
        rows.append(compare(number, options.seed))
        print(rows[-1], flush=True)
    write(OUTPUT, rows, judged({"all positions": rows}), options.seed)


if __name__ == "__main__":
    main()
