"""Are checks of tables honest, and do they explain mistakes?

``python -m benchmarks.check_calibration`` simulates tables of six settings.  Their z should be
standard normal, or narrower, since predictions state more uncertainty than they mostly have, and
tables should be contradicted as rarely as stated.  Up to three runs a row have predicted error
bars.  Does the scatter of runs agree with the prediction, and is another one noticed?  Then
mistakes are planted: how often is the table contradicted, how often is the mistake the likeliest
explanation, how often is it among the explanations, and how often are there explanations without
it, which are wrong?  ``--write`` keeps the output in ``benchmarks/check_calibration.txt``.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration import describe
from iclimit.experiment import Experiment
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors, simulate_estimator
from iclimit.statistics import FALSE_ALARM
from iclimit.validation import check_runs
from iclimit.validation.instruments.runs.explanations import Fit
from iclimit.validation.instruments.runs.judgement import chi_square, compare_run, verdict
from iclimit.validation.instruments.runs.measured import FEW_RUNS, MeasuredRun
from iclimit.validation.instruments.runs.predictions import Theory, predict
from iclimit.validation.instruments.runs.scatter import scatter_ratios

OUTPUT = Path(__file__).with_suffix(".txt")
NAMES = ("dim", "context", "tasks", "prompts", "rho", "ridge")
SETTINGS = (
    (16, 32, 12, 400, 0.2, 0.02),
    (16, 16, 8, 200, 0.3, 0.1),
    (16, 64, 32, 300, 0.1, 0.05),
    (20, 40, 10, 600, 0.2, 0.05),
    (20, 20, 30, 250, 0.4, 0.1),
    (24, 48, 24, 900, 0.2, 0.02),
)
# Runs of a row: of single runs there are more tables.
RUNS, SINGLE = (1, 3, 10, 40), 4

Row = dict[str, Any]


def errors(change: Callable[[np.ndarray, Row], np.ndarray]) -> Callable[[Row], Row]:
    """A row with other errors, of shape (2, runs)."""

    def changed(row: Row) -> Row:
        both = change(np.array([row["icl"], row["idg"]]), row)
        return row | {"icl": both[0], "idg": both[1]}

    return changed


def factors(**change: Callable[[Row], float]) -> Callable[[Row], Row]:
    """A row with settings that are multiplied by factors."""
    return lambda row: row | {name: row[name] * factor(row) for name, factor in change.items()}


def by_features(row: Row) -> Row:
    tau = row["prompts"] / (row["dim"] * (row["dim"] + 1))
    return {name: each for name, each in row.items() if name != "prompts"} | {"tau": tau}


def dmmse(row: Row) -> Row:
    """A row with the errors of the Bayes estimator on the pretraining tasks."""
    setting = {name: row[name] for name in ("dim", "context", "tasks", "rho")}
    seed = np.random.SeedSequence([0, *np.array(row["icl"][:1]).view(np.uint32)])
    run = simulate_estimator("dmmse", **setting, rng=seed, repeats=RUNS[-1], task_law="sphere")
    return row | {"icl": run.icl.samples, "idg": run.idg.samples}


def exchanged(rows: list[Row]) -> list[Row]:
    """Rows with the errors of the second and the fifth exchanged."""
    names = [name for name in rows[0] if name[:3] in ("icl", "idg")]
    theirs = {i: {name: rows[j][name] for name in names} for i, j in ((1, 4), (4, 1))}
    return [row | theirs.get(number, {}) for number, row in enumerate(rows)]


def inverse_dim(row: Row) -> float:
    return 1 / row["dim"]


# What explanations are called, what is planted, and options of the check.
MISTAKES: dict[str, tuple[Callable[[Row], Row], Row]] = {
    "errors are half the squared errors": (errors(lambda e, _: e / 2), {}),
    "errors leave out the label noise of the query": (errors(lambda e, row: e - row["rho"]), {}),
    "errors are half the squared errors without label noise": (
        errors(lambda e, row: (e - row["rho"]) / 2),
        {},
    ),
    "errors are roots of the squared errors": (errors(lambda e, _: np.sqrt(e)), {}),
    "icl and idg are exchanged": (errors(lambda e, _: e[::-1]), {}),
    "the ridge is d times as large": (factors(ridge=inverse_dim), {}),
    "the ridge is twice as large": (factors(ridge=lambda _: 0.5), {}),
    "the ridge is the factor of the squared norm of Gamma, without n/d": (
        factors(ridge=lambda row: row["prompts"] / row["dim"]),
        {},
    ),
    "products of the context are summed without the factor d/l": (
        factors(ridge=lambda row: (row["context"] / row["dim"]) ** 2),
        {},
    ),
    "tasks have the norm 1 instead of the root of d": (
        lambda row: factors(ridge=inverse_dim, rho=inverse_dim)(
            errors(lambda e, row: e / row["dim"])(row)
        ),
        {},
    ),
    "tau counts prompts over d (d + 1)": (by_features, {"rounding": "nearest"}),
    "rho is a standard deviation": (factors(rho=lambda row: row["rho"] ** -0.5), {}),
    "errors are half the squared errors, and rho is a standard deviation": (
        lambda row: factors(rho=lambda row: row["rho"] ** -0.5)(errors(lambda e, _: e / 2)(row)),
        {},
    ),
    "rho is {0.952} times as large": (factors(rho=lambda _: 1.05), {}),
    "tasks have the squared norm {2} d": (
        lambda row: factors(ridge=lambda _: 2.0, rho=lambda _: 2.0)(
            errors(lambda e, _: 2 * e)(row)
        ),
        {},
    ),
    "the errors of rows 2 and 5 are exchanged": (lambda row: row, {}),
    "errors are those of dMMSE, the Bayes estimator on the pretraining tasks": (dmmse, {}),
}


def is_named(fit: Fit, text: str) -> bool:
    """Whether an explanation is the one that was planted, its value within twice its interval."""
    head, _, rest = text.partition("{")
    if not rest:
        return fit.text == text
    value, _, tail = rest.partition("}")
    if not (fit.value and fit.text.startswith(head) and fit.text.endswith(tail)):
        return False
    low, middle, high = np.log([fit.lower, fit.value, fit.upper])
    return bool(2 * (low - middle) < np.log(float(value)) - middle < 2 * (high - middle))


def honesty(samples: list[Any], tables: int) -> list[str]:
    """Distribution of z and false alarms, for few and many runs a row."""
    lines = [f"{'z of':22}  {'number':>6}  {'mean':>6}  width  |z|>2   |z|>3       KS"]
    predictions = []
    for values in SETTINGS:
        setting = dict(zip(NAMES, values, strict=True))
        run = MeasuredRun((1,), Experiment.of(**setting), {})
        predictions.append((run, predict(run, Theory(draws=400))))
    for runs in RUNS:
        z: dict[str, list[float]] = {"icl": [], "idg": [], "gap": []}
        alarms = 0
        small = 0
        scatters = 0
        count = tables * (SINGLE if runs < FEW_RUNS else 1)
        for table in range(count):
            rows = []
            for (run, prediction), found in zip(predictions, samples, strict=True):
                start = table * RUNS[-1] * tables // count
                part = slice(start, start + runs)
                pair = [found.icl.samples[part], found.idg.samples[part]]
                errors = {
                    name: Estimate.of(each)
                    for name, each in zip(z, (*pair, pair[0] - pair[1]), strict=True)
                }
                measured = MeasuredRun(
                    (1,),
                    run.experiment,
                    errors,
                    correlation=float(np.corrcoef(*pair)[0, 1]) if runs > 1 else None,
                    runs=runs,
                )
                rows.append(compare_run(measured, prediction, one_set=False))
                for name, each in rows[-1].comparisons.items():
                    z[name].append(each.z)
            alarms += not verdict(rows).holds
            small += chi_square(rows).p_value < 0.05
            scatters += not all(
                each.holds for each in scatter_ratios(rows, one_set=False).values()
            )
        label = "1 run a row" if runs == 1 else f"{runs} runs a row"
        lines += [describe(f"{name}, {label}", each) for name, each in z.items()]
        lines.append(
            f"{label}: {alarms} of {count} tables contradicted ({FALSE_ALARM * count:.1f} "
            f"expected); p of chi-square below 0.05 in {small}; scatter refused in {scatters}"
        )
    return lines


# What is planted in the scatter of 10 runs: from their standard deviations, errors and number.
SCATTERS: dict[str, Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, int]]] = {
    "standard deviations are standard errors of the mean": lambda sd, _, n: (sd / n**0.5, n),
    "standard errors are standard deviations": lambda sd, _, n: (sd * n**0.5, n),
    "three times as many runs are stated as there were": lambda sd, _, n: (sd * 3**0.5, 3 * n),
    "errors are measured on 100 test prompts": lambda sd, e, n: (np.hypot(sd, e * 0.02**0.5), n),
}


def scatter(samples: list[Any], tables: int) -> list[str]:
    """How often a planted scatter is noticed, with 10 runs a row."""
    lines = [f"{'scatter, 10 runs a row':72}  noticed"]
    for text, plant in SCATTERS.items():
        noticed = 0
        for table in range(tables):
            part = slice(table * RUNS[-1], table * RUNS[-1] + 10)
            rows = []
            for values, found in zip(SETTINGS, samples, strict=True):
                both = np.array([found.icl.samples[part], found.idg.samples[part]])
                mean = np.mean(both, axis=1)
                sd, runs = plant(np.std(both, axis=1, ddof=1), mean, 10)
                row = dict(zip(NAMES, values, strict=True)) | {"runs": runs}
                row |= dict(zip(("icl", "idg"), mean, strict=True))
                rows.append(row | dict(zip(("icl_sd", "idg_sd"), sd, strict=True)))
            check = check_runs(rows, draws=10)
            noticed += not all(each.holds for each in check.scatter.values())
        lines.append(f"{text:72}  {noticed:7}  of {tables}")
        print(lines[-1], flush=True)
    return lines


def detection(samples: list[Any], tables: int) -> list[str]:
    """How often planted mistakes are noticed and explained."""
    lines = [f"{'planted, 40 runs a row':72}  contradicted  likeliest  named  wrong"]
    totals = np.zeros(4, int)
    for text, (plant, options) in MISTAKES.items():
        counts = np.zeros(4, int)
        for table in range(tables):
            part = slice(table * RUNS[-1], (table + 1) * RUNS[-1])
            rows = [
                plant(
                    dict(zip(NAMES, values, strict=True))
                    | {"icl": each.icl.samples[part], "idg": each.idg.samples[part]}
                )
                for values, each in zip(SETTINGS, samples, strict=True)
            ]
            rows = exchanged(rows) if "rows 2 and 5" in text else rows
            check = check_runs(means(rows), draws=40, **options)
            named = [is_named(fit, text) for fit in check.fits]
            wrong = bool(named) and not any(named)
            counts += [not check.holds, named[:1] == [True], any(named), wrong]
        totals += counts
        numbers = f"{counts[0]:12}  {counts[1]:9}  {counts[2]:5}  {counts[3]:5}  of {tables}"
        lines.append(f"{text:72}  {numbers}")
        print(lines[-1], flush=True)
    share = totals[3] / (tables * len(MISTAKES))
    return [*lines, f"wrong explanations: {100 * share:.1f} % of {tables * len(MISTAKES)} tables"]


def means(rows: list[Row]) -> list[Row]:
    """Rows of means with standard errors."""
    table = []
    for row in rows:
        samples = {"icl": row["icl"], "idg": row["idg"]}
        estimates = {name: Estimate.of(each) for name, each in samples.items()}
        # The IDG error of dMMSE may be the noise variance in all runs.
        bars = {f"{name}_se": max(each.standard_error, 1e-9) for name, each in estimates.items()}
        own = {name: each.mean for name, each in estimates.items()}
        table.append(row | own | bars | {"runs": len(row["icl"])})
    return table


def main() -> None:
    """Simulate, check and print."""
    name = "benchmarks.check_calibration"
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--planted", type=int, default=20)
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    samples = []
    for number, values in enumerate(SETTINGS):
        setting: Row = dict(zip(NAMES, values, strict=True))
        repeats = RUNS[-1] * arguments.tables
        samples.append(simulate_errors(**setting, rng=number, repeats=repeats))
    lines = honesty(samples, arguments.tables)
    print("\n".join(lines), flush=True)
    lines += scatter(samples, arguments.planted)
    lines += detection(samples, arguments.planted)
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
