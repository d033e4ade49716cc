"""Does `check` name what a script did, when the script was run and no formula planted it?

``python -m benchmarks.script_calibration --seed S`` runs plain NumPy scripts
(`benchmarks.planted_scripts`) on three tables of six rows, 24 runs a row, and checks each table as
a user would.  True tables say how often a right script is contradicted.  Then each script with one
mistake: how often is its table contradicted, how often is the mistake then among those named, and
how often is a wrong one offered first.  Mistakes that differ by a factor are one row; so are those
that no table of this kind can tell apart.  The last scripts do what no table of mistakes contains:
there it is right to name nothing, or a value that is called effective.  To be a test of the code,
S is taken after its last change.  ``--write`` keeps the output in
``benchmarks/script_calibration.txt``.
"""

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import planted_scripts as plain
from benchmarks.planted_scripts import Script, Sizes, simulate
from iclimit.validation import check_runs

OUTPUT = Path(__file__).with_suffix(".txt")
RUNS = 24

# Tables: sizes, noise and ridge of their rows.
TABLES: tuple[tuple[Sizes, ...], ...] = (
    tuple(
        Sizes(10, context, tasks, prompts, 0.1, 0.05)
        for context, tasks, prompts in (
            (10, 5, 150),
            (20, 5, 150),
            (10, 20, 150),
            (20, 20, 300),
            (40, 5, 300),
            (10, 5, 400),
        )
    ),
    tuple(
        Sizes(12, context, tasks, prompts, 0.25, 0.1)
        for context, tasks, prompts in (
            (12, 6, 120),
            (24, 6, 200),
            (24, 18, 200),
            (48, 18, 300),
            (12, 36, 400),
            (36, 6, 450),
        )
    ),
    (
        Sizes(10, 15, 8, 200, 0.1, 0.02),
        Sizes(10, 30, 16, 200, 0.3, 0.2),
        Sizes(14, 14, 7, 250, 0.3, 0.02),
        Sizes(14, 28, 14, 250, 0.1, 0.2),
        Sizes(14, 42, 28, 420, 0.2, 0.05),
        Sizes(12, 20, 6, 350, 0.2, 0.2),
    ),
)

Row = dict[str, Any]
# From the errors of the runs of a row, of shape (2, runs), to what is reported of them.
Report = Callable[[np.ndarray, Sizes], Row]


def means(errors: np.ndarray) -> Row:
    """Means and their standard errors."""
    row: Row = {}
    for name, samples in zip(("icl", "idg"), errors, strict=True):
        row[name] = float(np.mean(samples))
        row[f"{name}_se"] = float(np.std(samples, ddof=1) / np.sqrt(len(samples)))
    return row


def plain_report(errors: np.ndarray, _: Sizes) -> Row:
    return means(errors)


def of_errors(change: Callable[[np.ndarray, Sizes], np.ndarray]) -> Report:
    """Every run reports something else than its errors."""
    return lambda errors, sizes: means(change(errors, sizes))


def of_groups(number: int, choose: Callable[..., Any]) -> Report:
    """The runs of a row are groups of seeds, of each of which one number is reported."""
    return lambda errors, _: means(choose(errors.reshape(2, -1, number), axis=2))


def with_deviations(errors: np.ndarray, _: Sizes) -> Row:
    """Standard deviations in the columns of standard errors."""
    row = means(errors)
    for name in ("icl_se", "idg_se"):
        row[name] *= np.sqrt(errors.shape[1])
    return row


def stated(sizes: Sizes) -> Row:
    return {
        "dim": sizes.dim,
        "context": sizes.context,
        "tasks": sizes.tasks,
        "prompts": sizes.prompts,
        "rho": sizes.rho,
        "ridge": sizes.ridge,
    }


def by_features(sizes: Sizes) -> Row:
    row = stated(sizes)
    row["tau"] = row.pop("prompts") / (sizes.dim * (sizes.dim + 1))
    return row


def upside_down(sizes: Sizes) -> Row:
    """Ratios with the dimension above."""
    row = {name: value for name, value in stated(sizes).items() if name in ("dim", "rho", "ridge")}
    return row | {
        "tau": sizes.dim**2 / sizes.prompts,
        "alpha": sizes.dim / sizes.context,
        "kappa": sizes.dim / sizes.tasks,
    }


def logarithms(sizes: Sizes) -> Row:
    """The decimal logarithm of the ratio tau."""
    row = stated(sizes)
    row["tau"] = np.log10(row.pop("prompts") / sizes.dim**2)
    return row


# The script without a mistake.
RIGHT = Script()


@dataclass(frozen=True)
class Planted:
    """A script, what it reports, what its table states, and what a right answer says.

    ``answer`` is a regular expression that the text of a right explanation matches; without one
    nothing is to be named but effective values.
    """

    title: str
    script: Script = RIGHT
    answer: str = ""
    report: Report = plain_report
    statement: Callable[[Sizes], Row] = stated
    runs: int = RUNS


PLANTED = (
    # Both have the norm 1: one group, which no such table tells apart.
    Planted(
        "inputs on the sphere |x| = 1",
        Script(inputs=plain.sphere_inputs),
        "on a sphere|random signs",
    ),
    Planted("inputs are signs", Script(inputs=plain.sign_inputs), "on a sphere|random signs"),
    Planted("inputs are uniform", Script(inputs=plain.uniform_inputs), "in a cube"),
    Planted("tasks of norm 1", Script(tasks=plain.unit_tasks), "tasks have the norm 1"),
    Planted("tasks are Gaussian", Script(tasks=plain.gaussian_tasks), r"N\(0, I\)"),
    Planted(
        "features without squared labels",
        Script(features=plain.without_squares),
        "no column of squared labels",
    ),
    Planted("features with a bias", Script(features=plain.with_bias), "bias entry more"),
    Planted(
        "the dimension counts the label", Script(dim=lambda d: d - 1), "dim.* counts the label"
    ),
    Planted("products are summed", Script(features=plain.summed), "are summed"),
    Planted("products are averaged without d", Script(features=plain.averaged), "are averaged"),
    Planted("the ridge is added to the sum", Script(penalty=lambda s: s.ridge), "without n/d"),
    Planted(
        "the ridge is added to the mean",
        Script(penalty=lambda s: s.prompts * s.ridge),
        "the ridge is d times as large",
    ),
    Planted(
        "labels are normalised per prompt",
        Script(labels=plain.normalized_labels),
        "normalised in each prompt",
    ),
    Planted(
        "no noise on training queries", Script(query_noise=(False, True)), "no noise in training"
    ),
    Planted(
        "no noise on test queries",
        Script(query_noise=(True, False)),
        "leave out the label noise of the query",
    ),
    Planted(
        "no noise on any query",
        Script(query_noise=(False, False)),
        "neither in training nor in tests",
    ),
    Planted("test contexts are twice as long", Script(test_context=2.0), "test contexts are"),
    Planted(
        "tests have no label noise",
        Script(test_rho=0.0),
        "test prompts have no label noise|noise of test prompts",
    ),
    Planted("ratios the other way up", answer="upside down", statement=upside_down),
    Planted("tau is a logarithm", answer="tau is a logarithm", statement=logarithms),
    Planted(
        "tasks have equal numbers of prompts",
        Script(choice=plain.equal_choice),
        "the same for every task",
    ),
    Planted("half the squared error", report=of_errors(lambda e, _: e / 2), answer="half"),
    Planted("errors in per cent", report=of_errors(lambda e, _: 100 * e), answer="per cent"),
    Planted("R^2", report=of_errors(lambda e, s: 1 - e / (1 + s.rho)), answer=r"R\^2"),
    Planted("decibels", report=of_errors(lambda e, _: 10 * np.log10(e)), answer="dB"),
    Planted(
        "natural logarithms", report=of_errors(lambda e, _: np.log(e)), answer="natural logarithms"
    ),
    Planted("roots", report=of_errors(lambda e, _: np.sqrt(e)), answer="roots"),
    Planted(
        "errors times d",
        report=of_errors(lambda e, s: e * s.dim),
        answer="variance 1 instead of 1/d",
    ),
    Planted(
        "errors over the variance of labels",
        report=of_errors(lambda e, s: e / (1 + s.rho)),
        answer=r"variance 1 \+ rho",
    ),
    Planted(
        "errors without the noise",
        report=of_errors(lambda e, s: e - s.rho),
        answer="leave out the label noise",
    ),
    Planted("the best of 4 seeds", report=of_groups(4, np.min), answer="best", runs=96),
    Planted(
        "standard deviations for standard errors",
        report=with_deviations,
        answer="standard (deviations|errors)",
    ),
    Planted("ICL and IDG exchanged", report=of_errors(lambda e, _: e[::-1]), answer="exchanged"),
    Planted(
        "the noise is stated as a standard deviation",
        Script(noise_variance=np.square),
        "rho is a standard deviation",
    ),
    Planted("tau counts prompts over d (d + 1)", answer=r"d \(d \+ 1\)", statement=by_features),
    Planted("inputs have heavy tails", Script(inputs=plain.heavy_inputs)),
    Planted("inputs have a mean", Script(inputs=plain.shifted_inputs)),
    Planted("tasks are sparse", Script(tasks=plain.sparse_tasks)),
    Planted("some tasks have more prompts", Script(choice=plain.repeated_choice)),
    Planted("a quarter of the context is dropped", Script(features=plain.dropped)),
    Planted("only signs of labels are summed", Script(features=plain.sign_only)),
    Planted("labels are clipped", Script(labels=plain.clipped_labels)),
    Planted("labels are flipped", Script(labels=plain.flipped_labels)),
    Planted("labels of a prompt share an offset", Script(labels=plain.offset_labels)),
    Planted("labels saturate", Script(labels=plain.saturated_labels)),
    Planted("every prompt is there twice", Script(copies=2)),
    Planted("IDG is the training error", Script(test_on_training=True)),
)


def table(planted: Planted, rows: tuple[Sizes, ...], seed: tuple[int, ...]) -> list[Row]:
    """What a user has: settings as stated, errors as reported."""
    made = []
    for number, sizes in enumerate(rows):
        errors = simulate(planted.script, sizes, planted.runs, (*seed, number))
        row = planted.statement(sizes) | planted.report(errors, sizes)
        made.append(row | {"runs": RUNS})
    return made


@dataclass(frozen=True)
class Answer:
    """What came of a check: whether the table agreed, the explanations, likeliest first."""

    agrees: bool
    texts: tuple[str, ...]
    seconds: float


def answer(rows: list[Row]) -> Answer:
    """Check as a user does; a refusal counts as an explanation in its own words."""
    start = time.process_time()
    try:
        check = check_runs(rows, rounding="nearest")
    except ValueError as error:
        return Answer(False, (str(error),), time.process_time() - start)
    texts = [fit.text for fit in check.fits]
    wide = [name for name, scatter in check.scatter.items() if not scatter.holds]
    if wide:  # said below the verdict, whatever that is
        texts += [line for line in str(check).splitlines() if "standard deviation" in line]
    agrees = check.holds and not wide
    return Answer(agrees, tuple(texts), time.process_time() - start)


def is_right(planted: Planted, text: str) -> bool:
    if not planted.answer:
        return "effective" in text
    return bool(re.search(planted.answer, text))


def true_tables(number: int, seed: int) -> list[str]:
    """How many tables of the right script are contradicted."""
    contradicted = 0
    for count in range(number):
        rows = table(Planted("true"), TABLES[count % len(TABLES)], (seed, 0, count))
        contradicted += not answer(rows).agrees
    return [f"{contradicted} of {number} tables of the right script are contradicted"]


def planted_tables(seed: int, settings: int, only: str = "") -> list[str]:
    """One line for each script: contradicted, right, a wrong one first, of so many tables."""
    lines = [f"{'script':48}  contradicted  right  wrong first  CPU s"]
    totals = {True: np.zeros(4), False: np.zeros(4)}
    for place, planted in enumerate(PLANTED):
        if only not in planted.title:
            continue
        counts = np.zeros(3, int)
        seconds = 0.0
        wrong: list[str] = []
        for number, rows in enumerate(TABLES[:settings]):
            result = answer(table(planted, rows, (seed, 1 + place, number)))
            seconds = max(seconds, result.seconds)
            right = [is_right(planted, text) for text in result.texts]
            named = any(right) if planted.answer else all(right)
            noticed = not result.agrees
            first_wrong = noticed and right[:1] == [False]
            counts += [noticed, noticed and named, first_wrong]
            if first_wrong:
                wrong.append(f"    table {number + 1}: {result.texts[0]}")
        totals[bool(planted.answer)] += [*counts, settings]
        row = f"{counts[0]:12}  {counts[1]:5}  {counts[2]:11}  {seconds:5.0f}"
        lines += [f"{planted.title:48}  {row}", *wrong]
        print("\n".join(lines[-1 - len(wrong) :]), flush=True)
    for known, words in ((True, "in the table of mistakes"), (False, "in no table of mistakes")):
        contradicted, named, first, count = totals[known].astype(int)
        lines.append(
            f"{words}: {contradicted} of {count} contradicted, {named} answered rightly, "
            f"{first} with a wrong one first"
        )
    return lines


def main() -> None:
    """Run scripts, check, print."""
    name = "benchmarks.script_calibration"
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--tables", type=int, default=200, help="tables of the right script")
    parser.add_argument("--settings", type=int, default=len(TABLES), help="tables of a script")
    parser.add_argument("--only", default="", help="scripts with these words in their titles")
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    lines = [f"seed {arguments.seed}, {arguments.settings} of {len(TABLES)} tables of a script"]
    lines += true_tables(arguments.tables, arguments.seed)
    print("\n".join(lines), flush=True)
    lines += planted_tables(arguments.seed, arguments.settings, arguments.only)
    print("\n".join(lines[-2:]))
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
