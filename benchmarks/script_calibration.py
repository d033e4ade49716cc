"""Does `check` name what a script did, when the script was run and no formula planted it?

``python -m benchmarks.script_calibration --seed S`` runs plain NumPy scripts
(`benchmarks.planted_scripts`) on three tables of six rows, 24 runs a row, and checks each table as
a user would.  True tables say how often a right script is contradicted.  Then each script with one
mistake: how often is its table contradicted, how often is the mistake then among those named, and
how often is a wrong one offered first.  Mistakes that differ by a factor are one row; so are those
that no table of this kind can tell apart.  The last scripts do what no table of mistakes contains:
there it is right to name nothing, a value that is called effective, or rows that deviate for a
reason that is not known.  What `check` says that a table does not tell from its first explanation
is offered first with it.  To be a test of the code,
S is taken after its last change.  ``--write`` keeps the output in
``benchmarks/script_calibration.txt``, after each table: an interrupted run loses nothing.
"""

import argparse
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
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


def of_time(time: float) -> Callable[[Sizes], Row]:
    """Settings with a training time."""
    return lambda sizes: stated(sizes) | {"time": time}


def of_labels(**labels: Any) -> Callable[[Sizes], Row]:
    """Settings with a link, and perhaps flips."""
    return lambda sizes: stated(sizes) | labels


# The script without a mistake.
RIGHT = Script()


@dataclass(frozen=True)
class Planted:
    """A script, what it reports, what its table states, and what a right answer says.

    ``answer`` is a regular expression that the text of a right explanation matches; without one
    nothing is to be named but effective values, or rows that deviate.
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
    Planted("trained too briefly", Script(time=0.6), "too brief or stopped early"),
    Planted(
        "training starts from random weights",
        Script(time=0.6, start_variance=0.3),
        "started from weights",
        statement=of_time(0.6),
    ),
    Planted(
        "the rate is on half the squared error",
        Script(time=0.3),
        "on half the mean squared error",
        statement=of_time(0.6),
    ),
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
    # The place of a row is part of its seeds: later ones come last.
    Planted(
        "classes are stated as ReLUs",
        Script(labels=plain.class_labels),
        "labels are signs",
        statement=of_labels(link="relu"),
    ),
    Planted(
        "ReLUs are stated as classes",
        Script(labels=plain.relu_labels),
        "labels are ReLUs",
        statement=of_labels(link="sign"),
    ),
    Planted(
        "a tenth of the classes is flipped",
        Script(labels=plain.flipped_classes),
        "labels are flipped with the probability",
        statement=of_labels(link="sign"),
    ),
    Planted(
        "no class is flipped",
        Script(labels=plain.class_labels),
        "no label is flipped|labels are flipped with the probability",
        statement=of_labels(link="sign", flips=0.1),
    ),
    Planted("medians over test prompts", Script(score=plain.median_square), "are medians of the"),
    Planted("absolute errors", Script(score=plain.mean_size), "means of the absolute errors"),
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
    """What came of a check: whether the table agreed, the explanations, likeliest first.

    ``first`` counts those that are offered first: the likeliest one, and those that the check says
    the table does not tell from it.
    """

    agrees: bool
    texts: tuple[str, ...]
    seconds: float
    first: int = 1


def answer(rows: list[Row]) -> Answer:
    """Check as a user does; a refusal counts as an explanation in its own words."""
    start = time.process_time()
    try:
        check = check_runs(rows, rounding="nearest")
    except ValueError as error:
        return Answer(False, (str(error),), time.process_time() - start)
    first = 1 + sum(1 for _ in takewhile(lambda fit: fit.like, check.fits[1:]))
    texts = [fit.text for fit in check.fits]
    wide = [name for name, scatter in check.scatter.items() if not scatter.holds]
    if wide:  # said below the verdict, whatever that is
        texts += [line for line in str(check).splitlines() if "standard deviation" in line]
    agrees = check.holds and not wide
    return Answer(agrees, tuple(texts), time.process_time() - start, first)


def is_right(planted: Planted, text: str) -> bool:
    if not planted.answer:
        return "effective" in text or "left out" in text
    return bool(re.search(planted.answer, text))


@dataclass
class Tally:
    """What came of the tables of a script so far."""

    tables: int = 0
    contradicted: int = 0
    right: int = 0
    first_wrong: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def add(self, planted: Planted, number: int, result: Answer) -> None:
        """Count what came of one more table."""
        right = [is_right(planted, text) for text in result.texts]
        first = right[: result.first]
        # Nothing needs to be named for what no table of mistakes contains.
        named = any(right) if planted.answer else all(right)
        first_wrong = bool(first) and not (any(first) if planted.answer else all(first))
        self.tables += 1
        self.seconds = max(self.seconds, result.seconds)
        if not result.agrees:
            self.contradicted += 1
            self.right += named
            self.first_wrong += first_wrong
            if first_wrong:
                self.wrong.append(f"    table {number + 1}: {result.texts[0]}")

    def line(self, title: str) -> str:
        counts = f"{self.tables:6}  {self.contradicted:12}  {self.right:5}  {self.first_wrong:11}"
        return "\n".join([f"{title:48}  {counts}  {self.seconds:5.0f}", *self.wrong])


def page(seed: int, planned: int, true: Tally, tallies: dict[str, Tally]) -> str:
    """All that is known so far."""
    done = sum(tally.tables for tally in tallies.values())
    lines = [
        f"seed {seed}, {done} of {planned} tables with a mistake",
        f"{true.contradicted} of {true.tables} tables of the right script are contradicted",
        f"{'script':48}  tables  contradicted  right  wrong first  CPU s",
    ]
    lines += [tally.line(title) for title, tally in tallies.items() if tally.tables]
    for known, words in ((True, "in the table of mistakes"), (False, "in no table of mistakes")):
        chosen = [tallies[row.title] for row in PLANTED if bool(row.answer) is known]
        tables = sum(tally.tables for tally in chosen)
        contradicted = sum(tally.contradicted for tally in chosen)
        right = sum(tally.right for tally in chosen)
        first_wrong = sum(tally.first_wrong for tally in chosen)
        lines.append(
            f"{words}: {contradicted} of {tables} contradicted, {right} answered rightly, "
            f"{first_wrong} with a wrong one first"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run scripts, check, print: true tables between the others, so that a part is a fair one."""
    name = "benchmarks.script_calibration"
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--tables", type=int, default=200, help="tables of the right script")
    parser.add_argument("--settings", type=int, default=len(TABLES), help="tables of a script")
    parser.add_argument(
        "--only", default="", help="scripts with titles of this regular expression"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"keep what is known in {OUTPUT.name}, table by table"
    )
    arguments = parser.parse_args()
    tallies = {planted.title: Tally() for planted in PLANTED}
    true = Tally()
    work = [
        (place, number)
        for number in range(arguments.settings)
        for place, planted in enumerate(PLANTED)
        if re.search(arguments.only, planted.title)
    ]
    for done, (place, number) in enumerate(work, start=1):
        planted = PLANTED[place]
        rows = table(planted, TABLES[number], (arguments.seed, 1 + place, number))
        tallies[planted.title].add(planted, number, answer(rows))
        print(tallies[planted.title].line(planted.title), flush=True)
        while true.tables * len(work) < arguments.tables * done:
            sizes = TABLES[true.tables % len(TABLES)]
            rows = table(Planted("true"), sizes, (arguments.seed, 0, true.tables))
            true.add(Planted("true"), 0, answer(rows))
        if arguments.write:
            text = page(arguments.seed, len(work), true, tallies)
            OUTPUT.write_text(text, encoding="utf-8")
    print(page(arguments.seed, len(work), true, tallies), end="")


if __name__ == "__main__":
    main()
