"""Are stated uncertainties and scatters of finite runs right, whatever the options?

``python -m benchmarks.honesty --seed S`` from the root of the repository draws settings over all
options at once, simulates each for at most 100 CPU seconds, and compares with predictions.
The simulations are kept in ``benchmarks/honesty_runs.csv``, a line for each setting as soon as it
is done, so that an interrupted run goes on where it was; those of another seed are dropped.  The
comparison is ``benchmarks/honesty.csv``, its summary ``benchmarks/honesty.txt``.  To be a test of
the code, S is taken after the last change of it.

Means are to be within the stated uncertainty plus two standard errors in 95 % of all settings, and
nowhere beyond it plus four standard errors and 1 %.  Scatters are to be 0.9 to 1.15 times the
predicted ones in 90 % of them.  Where the law of a run has a heavy tail, medians take the place of
means, and the middle 68 % that of the standard deviation.
"""

import argparse
import csv
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors, finite_size_spread
from iclimit.simulate.pretraining import simulate_errors

RUNS, OUTPUT, SUMMARY = (
    Path(__file__).with_name(f"honesty{name}") for name in ("_runs.csv", ".csv", ".txt")
)

SETTINGS, SECONDS = 200, 100.0

# Repeats that are simulated at once; at least and at most so many in all, and test prompts of
# errors that are not computed exactly.
CHUNK, REPEATS, MOST_REPEATS, TEST_PROMPTS = 40, 800, 4000, 2000

# Relative standard error at which a simulation of enough repeats ends.
PRECISION = 0.004

ERRORS = ("icl", "idg")
# Standard error of a median over that of the mean, of a Gaussian law.
MEDIAN_ERROR = 1.25

QUANTILES = (0.025, 0.16, 0.5, 0.84, 0.975)


class Draw:
    """Random numbers in the ranges of a setting."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def between(self, low: float, high: float) -> float:
        """Log-uniform, with three digits."""
        value = math.exp(self.rng.uniform(math.log(low), math.log(high)))
        return float(f"{value:.3g}")

    def integer(self, low: float, high: float) -> int:
        """Log-uniform integer."""
        return max(1, round(self.between(low, high)))

    def happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def covariance(self, dim: int, least: float) -> np.ndarray:
        """Of mean eigenvalue 1, diagonal or in a random basis."""
        eigenvalues = np.exp(self.rng.uniform(math.log(least), math.log(2.5), dim))
        eigenvalues /= np.mean(eigenvalues)
        if self.happens(0.5):
            return np.diag(eigenvalues)
        basis, _ = np.linalg.qr(self.rng.standard_normal((dim, dim)))
        return basis @ np.diag(eigenvalues) @ basis.T

    def gates(self, context: int) -> np.ndarray:
        """Geometric, linear or random gates."""
        kind = self.rng.integers(3)
        if kind == 0:
            return self.rng.uniform(0.6, 1) ** np.arange(context - 1, -1, -1.0)
        if kind == 1:
            return np.linspace(0.1, 1, context)
        return self.rng.uniform(0.1, 1, context)


def settings(seed: int) -> Iterator[dict[str, Any]]:
    """Settings over all options, as arguments of the prediction and of the simulation."""
    for number in range(SETTINGS):
        yield setting(Draw(np.random.default_rng([seed, number])))


def setting(draw: Draw) -> dict[str, Any]:
    """One of them."""
    d = int(draw.rng.integers(10, 25))
    context = draw.integer(1, 6 * d)
    drawn: dict[str, Any] = {
        "dim": d,
        "context": context,
        "tasks": math.inf if draw.happens(0.25) else draw.integer(2, 8 * d),
        "prompts": draw.integer(0.3 * d * (d + 1), 5 * d * (d + 1)),
        "rho": draw.between(0.01, 1),
        "ridge": 0.0 if draw.happens(0.25) else draw.between(1e-4, 0.3),
    }
    correlated = draw.happens(0.3)
    if correlated:
        drawn["correlation"] = round(float(draw.rng.uniform(-0.95, 0.95)), 2)
        drawn["correlated_query"] = draw.happens(0.4)
    if not drawn.get("correlated_query"):
        drawn |= structure(draw, d)
    if draw.happens(0.3):
        drawn["drift"] = draw.between(0.1, 10)
    if draw.happens(0.3):
        drawn["gates"] = draw.gates(context)
    return drawn | tests(draw, drawn)


def structure(draw: Draw, d: int) -> dict[str, Any]:
    """Laws of tasks and inputs."""
    drawn: dict[str, Any] = {"task_law": "gaussian" if draw.happens(0.4) else "sphere"}
    if draw.happens(0.35):
        drawn["task_covariance"] = draw.covariance(d, 0.05)
    if draw.happens(0.3):
        drawn["input_covariance"] = draw.covariance(d, 0.3)
    if draw.happens(0.2):
        drawn["test_covariance"] = draw.covariance(d, 0.05)
    return drawn


def tests(draw: Draw, drawn: dict[str, Any]) -> dict[str, Any]:
    """Prompts behind the ICL error that differ from those of training."""
    changed: dict[str, Any] = {}
    if draw.happens(0.2):
        changed["test_rho"] = draw.between(0.01, 1)
    if draw.happens(0.2):
        changed["test_context"] = draw.integer(1, 6 * drawn["dim"])
        if "gates" in drawn:
            changed["test_gates"] = draw.gates(changed["test_context"])
    if draw.happens(0.15):
        changed["test_drift"] = draw.between(0.1, 10)
    return changed


def described(drawn: dict[str, Any]) -> str:
    """A setting in a line."""
    arrays = ("gates", "test_gates", "task_covariance", "input_covariance", "test_covariance")
    return " ".join(
        f"{name}=..." if name in arrays else f"{name}={value}" for name, value in drawn.items()
    )


def infinite(drawn: dict[str, Any]) -> bool:
    """Whether the mean errors are infinite: interpolation with contexts of one or two pairs."""
    d = drawn["dim"]
    few = drawn["prompts"] <= d * (d + 1) and drawn["ridge"] == 0
    return few and (drawn["context"] <= 2 or drawn["prompts"] == d * (d + 1))


def simulate(drawn: dict[str, Any], seed: int, seconds: float) -> dict[str, float]:
    """Statistics of both errors, of as many runs as the time allows."""
    start = time.process_time()
    samples = np.empty((2, 0))
    while True:
        count = samples.shape[1]
        run = simulate_errors(
            **drawn, rng=seed, repeats=CHUNK, first_repeat=count, test_prompts=TEST_PROMPTS
        )
        samples = np.hstack([samples, [run.icl.samples, run.idg.samples]])
        used = time.process_time() - start
        count += CHUNK
        error = np.max(np.std(samples, axis=1) / np.mean(samples, axis=1)) / math.sqrt(count)
        enough = count >= REPEATS and error < PRECISION
        if enough or count >= MOST_REPEATS or used * (1 + CHUNK / count) > seconds:
            return statistics(samples)


def statistics(samples: np.ndarray) -> dict[str, float]:
    """Of ICL and IDG errors (2, repeats)."""
    found: dict[str, float] = {"repeats": samples.shape[1]}
    for name, values in zip(("icl", "idg"), samples, strict=True):
        found[f"{name}_mean"] = float(np.mean(values))
        found[f"{name}_sd"] = float(np.std(values, ddof=1))
        for quantile in QUANTILES:
            found[f"{name}_{quantile}"] = float(np.quantile(values, quantile))
    found["gap_sd"] = float(np.std(samples[0] - samples[1], ddof=1))
    found["correlation"] = float(np.corrcoef(samples)[0, 1])
    return found


def read_runs(seed: int) -> dict[int, dict[str, float]]:
    """Simulated statistics by the number of the setting."""
    if not RUNS.exists():
        return {}
    with RUNS.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["seed"]) == seed]
    return {
        int(row["number"]): {
            name: float(value)
            for name, value in row.items()
            if name not in ("seed", "number", "setting")
        }
        for row in rows
    }


def write_runs(seed: int, known: dict[int, dict[str, float]], drawn: list[dict[str, Any]]) -> None:
    """Write all statistics that there are."""
    columns = ["seed", "number", "setting", *next(iter(known.values()))]
    with RUNS.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        table.writeheader()
        for number, found in sorted(known.items()):
            numbers = {name: f"{value:.6g}" for name, value in found.items()}
            head = {"seed": seed, "number": number, "setting": described(drawn[number])}
            table.writerow(head | numbers)


def measured(drawn: dict[str, Any]) -> bool:
    """Whether the simulation measures test errors on prompts; otherwise they are exact."""
    timed = {"gates", "drift", "correlation", "test_drift"} & set(drawn)
    structured = [name for name in drawn if name.endswith("covariance")]
    unit = drawn.get("task_law") != "gaussian" and not structured
    both = drawn.get("correlated_query", False) and {"drift", "test_drift"} & set(drawn)
    return bool(timed and not unit) or bool(both)


def compare(drawn: dict[str, Any], found: dict[str, float]) -> dict[str, Any]:
    """Deviations from the prediction in percent, what is stated, and ratios of scatters.

    Of medians and the middle 68 % where the law has a heavy tail.
    """
    draws = max(4, 600 // drawn["dim"]) if math.isfinite(drawn["tasks"]) else 1
    start = time.process_time()
    predicted = finite_size_errors(**drawn, rng=3, draws=draws)
    cost = time.process_time() - start
    test_prompts = TEST_PROMPTS if measured(drawn) else None
    spread = finite_size_spread(**drawn, rng=3, test_prompts=test_prompts)
    heavy = spread.heavy or not math.isfinite(spread.icl)
    row: dict[str, Any] = {"uncertainty": 100 * predicted.uncertainty, "heavy": heavy}
    for name in ERRORS:
        expected = getattr(predicted, name)
        own = expected.standard_error / expected.mean
        if spread.heavy:
            low, median, high = spread.quantiles(
                [0.16, 0.5, 0.84], quantity=name, mean_error=expected.mean
            )
            deviation = (found[f"{name}_0.84"] - found[f"{name}_0.16"]) / 2
            error = MEDIAN_ERROR * deviation / math.sqrt(found["repeats"])
            row[name] = 100 * (found[f"{name}_0.5"] / median - 1)
            row[f"{name} s.e."] = 100 * math.hypot(error / found[f"{name}_0.5"], own)
            row[f"{name} scatter"] = 2 * deviation / (high - low)
        else:
            error = found[f"{name}_sd"] / math.sqrt(found["repeats"])
            row[name] = 100 * (found[f"{name}_mean"] / expected.mean - 1)
            row[f"{name} s.e."] = 100 * math.hypot(error / found[f"{name}_mean"], own)
            row[f"{name} scatter"] = found[f"{name}_sd"] / getattr(spread, name)
    row["seconds"] = cost
    row["repeats"] = int(found["repeats"])
    return row


def judged(rows: list[dict[str, Any]]) -> list[str]:
    """Shares of settings that are as stated, and the worst five."""
    excess = {"2 s.e.": 0, "4 s.e. and 1 %": 0}
    scatters = []
    for row in rows:
        sigmas = [(abs(row[name]) - row["uncertainty"], row[f"{name} s.e."]) for name in ERRORS]
        excess["2 s.e."] += any(far > 2 * error for far, error in sigmas)
        excess["4 s.e. and 1 %"] += any(far > 4 * error + 1 for far, error in sigmas)
        if row["repeats"] >= REPEATS:
            scatters += [row[f"{name} scatter"] for name in ERRORS]
    lines = [
        f"{number} of {len(rows)} settings beyond the uncertainty and {name}"
        for name, number in excess.items()
    ]
    finite = [each for each in scatters if math.isfinite(each) and each > 0]
    lines.append(f"{sum(row['heavy'] for row in rows)} of them have a heavy tail: by medians")
    right = np.mean([0.9 <= each <= 1.15 for each in finite])
    lines.append(
        f"{right:.1%} of {len(finite)} scatters are 0.9 to 1.15 times the predicted ones, "
        f"of {REPEATS} or more runs"
    )
    worst = sorted(rows, key=_distance, reverse=True)[:5]
    lines += ["", "The worst five:", *(_line(row) for row in worst)]
    return lines


def _distance(row: dict[str, Any]) -> float:
    """How far the simulation is beyond what is stated, in standard errors."""
    return max((abs(row[n]) - row["uncertainty"]) / row[f"{n} s.e."] for n in ERRORS)


def _line(row: dict[str, Any]) -> str:
    errors = ", ".join(f"{n} {row[n]:+.1f}({row[f'{n} s.e.']:.1f}) %" for n in ERRORS)
    return f"{row['number']}: {errors}, stated {row['uncertainty']:.1f} %: {row['setting']}"


def write_comparison(known: dict[int, dict[str, float]], drawn: list[dict[str, Any]]) -> None:
    """Compare all settings that are simulated, and keep and print the summary."""
    rows = []
    for number, found in sorted(known.items()):
        row = compare(drawn[number], found)
        rows.append({"number": number, "setting": described(drawn[number])} | row)
    with OUTPUT.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        for row in rows:
            table.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})
    lines = judged(rows)
    SUMMARY.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(*lines, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds a setting")
    parser.add_argument("--first", type=int, default=SETTINGS, help="so many settings")
    options = parser.parse_args()
    drawn = list(settings(options.seed))
    known = read_runs(options.seed)
    for number, each in enumerate(drawn[: options.first]):
        if number not in known and not infinite(each):
            known[number] = simulate(each, options.seed * SETTINGS + number, options.seconds)
            write_runs(options.seed, known, drawn)
            print(number, described(each), flush=True)
    write_comparison(known, drawn)


if __name__ == "__main__":
    main()
