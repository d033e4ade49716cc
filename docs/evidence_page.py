"""The page "The evidence", from the full validation on record."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from compared_arguments import compared
from markup import table
from scipy import stats

import iclimit
from iclimit.drawing import house_style, new_figure, panels, save_picture
from iclimit.statistics import FALSE_ALARM
from iclimit.validation.reference import LARGEST, read_reference
from iclimit.validation.report.coverage import SHELVES, TOGETHER, Coverage, theory_functions
from iclimit.validation.report.overview import draw_deviations, draw_resolutions, normal_band
from iclimit.validation.report.record import RecordedComparison, read_record, read_setting
from iclimit.words import percent

CLAIMS = read_reference(f"{LARGEST}/claims.csv")
ROWS = [*read_record().values()]
Z = {
    (row["claim"], row["label"], row["of"]): abs(float(row["z"]))
    for row in read_reference(f"{LARGEST}/comparisons.csv")
}

# Relative error of a function that a validation should notice.
SHARP = 0.01


def tested(row: RecordedComparison) -> bool:
    """Whether z of a comparison should be standard normal: neither a bound nor with allowance."""
    found = row.comparison
    return found.standard_error > 0 and not found.allowance and not found.upper_bound


def deviations(*, pooled: bool) -> np.ndarray:
    """z of single comparisons, or of the common factors that each claim pools.

    The factors of all claims together repeat those of the claims, and are left out.
    """
    return np.array(
        [
            row.comparison.z
            for row in ROWS
            if tested(row) and bool(row.comparison.pooled) == pooled and row.claim != TOGETHER
        ]
    )


def size_of_z(row: RecordedComparison) -> float:
    """Size of a deviation in standard errors, as the run found it: 0 where a bound holds.

    Exact values have no error bar, and the rounded values on record not their z either.
    """
    return Z[row.claim, row.comparison.label, row.comparison.of]


def verdict() -> str:
    """How much was compared, and what holds."""
    compared = [row for row in ROWS if row.claim != TOGETHER]
    holding = sum(int(row["holds"]) for row in CLAIMS)
    return (
        f"**{holding} of {len(CLAIMS)} recorded claims hold**, in {len(compared):,} comparisons "
        "of theory with simulations, published runs and exact values.\n"
    )


def failures() -> Iterator[str]:
    """Yield the claims that do not hold, each with its comparisons beyond what is accepted."""
    for claim in CLAIMS:
        if claim["holds"] == "1":
            continue
        own = [row for row in ROWS if row.claim == claim["name"]]
        failing = [row for row in own if size_of_z(row) > row.threshold]
        yield (
            f"**Contradicted**: {claim_link(claim)}, in {len(failing)} of {len(own)} comparisons."
            f"  A true claim fails with a probability of at most {FALSE_ALARM:g}."
        )
        yield ""
        yield from (f"* {outcome(row)}" for row in failing)
        yield ""


def claim_link(claim: dict[str, str]) -> str:
    """Name of a claim, which leads to its statement."""
    return f":ref:`{claim['name']} <claim-{claim['name']}>`"


def outcome(row: RecordedComparison) -> str:
    """Theory and estimate of a comparison, and how far they are apart."""
    found = row.comparison
    text = (
        f"``{found.label}``: theory {found.theory:.5g}, found {found.estimate:.5g} ± "
        f"{found.standard_error:.2g}"
    )
    if found.theory:
        text += f", {100 * (found.estimate - found.theory) / abs(found.theory):+.2g} %"
    return f"{text}; \\|z\\| = {size_of_z(row):.1f}, accepted {row.threshold:.1f}."


def summary_table() -> Iterator[tuple[str, ...]]:
    """Yield what a referee asks first: the law of the deviations, and how sharp the test is."""
    yield "", "Found", "If the theory is exact"
    z = deviations(pooled=False)
    beyond = [np.sum(np.abs(z) > limit) for limit in (2, 3)]
    expected = [2 * z.size * stats.norm.sf(limit) for limit in (2, 3)]
    # Quantiles of the largest of so many normal deviates.
    ends = [stats.norm.isf(0.5 * (1 - share ** (1 / z.size))) for share in (0.025, 0.975)]
    yield "Comparisons with an error bar and without an allowance", f"{z.size:,}", ""
    yield "Deviations beyond 2 standard errors", f"{beyond[0]}", f"{expected[0]:.0f}"
    yield "Deviations beyond 3 standard errors", f"{beyond[1]}", f"{expected[1]:.0f}"
    yield (
        "Largest deviation, in standard errors",
        f"{abs(z).max():.1f}",
        "{:.1f} to {:.1f}".format(*ends),
    )
    yield "Mean deviation", f"{z.mean():+.2f}", f"0.00 ± {z.size**-0.5:.2f}"
    yield "Their standard deviation", f"{z.std():.2f}", "1, or less"
    known = [each for each in recorded_coverage() if each.claim]
    sharp = sum(each.resolution < SHARP for each in known)
    found = f"{sharp} of {len(known)}"
    yield f"Functions in which an error of {percent(SHARP)} would be noticed", found, ""
    setting = read_setting()["seeds"]
    if runs := len(setting["seeds"]):
        head = f"Claims that failed in {runs} shorter runs with other seeds"
        alarms = runs * len(CLAIMS) * FALSE_ALARM
        yield head, f"{len(setting['failures'])}", f"at most {alarms:.1f} on average"


def outside_band() -> str:
    """How many common factors lie outside their band, and how large z may be."""
    z = np.sort(deviations(pooled=True))
    low, high = normal_band(z.size)
    accepted = min(row.threshold for row in ROWS if row.comparison.pooled and tested(row))
    return (
        f"Of the {z.size} common factors, {np.sum(z > high)} lie above their band and "
        f"{np.sum(z < low)} below it; z is between {z[0]:.1f} and {z[-1]:.1f}, where the claims "
        f"accept at least {accepted:.1f} to either side.\n"
    )


def recorded_coverage() -> list[Coverage]:
    """How sharply each function was tested on record."""
    best: dict[str, tuple[float, str, bool]] = {}
    nothing = math.inf, "", False
    for row in ROWS:
        function = row.comparison.of.partition(".")[0]
        if function and math.isfinite(row.would_notice):
            sharpest = row.would_notice, row.claim, row.comparison.standard_error == 0
            best[function] = min(best.get(function, nothing), sharpest)
    return [
        Coverage(function, subject, *best.get(function, nothing))
        for subject in SHELVES
        for function in theory_functions(subject)
    ]


def blunt() -> str:
    """The functions that could be wrong by more than a sharp validation would notice."""
    known = [each for each in recorded_coverage() if each.claim and each.resolution >= SHARP]
    names = ", ".join(f"``{each.function}`` ({percent(each.resolution)})" for each in known)
    return f"Larger errors than {percent(SHARP)} could go unnoticed in: {names}.\n"


def run_in_words() -> Iterator[str]:
    """Yield sentences on the run: how long it took, and with which versions."""
    setting = read_setting()
    hours = sum(float(row["cpu_seconds"]) for row in CLAIMS) / 3600
    cells = sum(int(row["cells"]) for row in CLAIMS)
    yield f"Each claim was run once, by ``iclimit validate --preset {setting['preset']}``."
    yield "What is kept: theory, simulated value, standard error, z, and the smallest error of the"
    yield "theory that would have been noticed."
    yield (
        f"{cells:,} simulations took {hours:.1f} hours of a busy core; the seed is "
        f"{setting['seed']}."
    )
    others = {name: each for name, each in setting["versions"].items() if name != "iclimit"}
    versions = ", ".join(f"{name} {version}" for name, version in others.items())
    yield f"Versions: {versions}."
    older = [row["version"] for row in CLAIMS if row["version"] != iclimit.__version__]
    if older:
        yield (
            f"{len(older)} of the {len(CLAIMS)} claims were run by an older iclimit "
            f"({', '.join(sorted(set(older)))}), and not again by {iclimit.__version__}."
        )


def claims_table() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of claims, by subject as in a report."""
    yield (
        "Claim",
        "Holds",
        "Compared",
        "Worst\u00a0z",
        "Accepted",
        "Notices",
        "CPU\u00a0s",
        "Dimensions",
    )
    present = {claim["subject"] for claim in CLAIMS}
    for subject in sorted(present, key=lambda name: (*SHELVES, name).index(name)):
        yield f"**{SHELVES.get(subject, subject.capitalize())}**", *([""] * 7)
        for claim in CLAIMS:
            if claim["subject"] == subject:
                yield claim_row(claim)


def claim_row(claim: dict[str, str]) -> tuple[str, ...]:
    """Row of a claim: its worst comparison, and what it would have noticed."""
    own = [row for row in ROWS if row.claim == claim["name"]]
    worst = max(own, key=lambda row: size_of_z(row) / row.threshold)
    random = [row.would_notice for row in own if row.comparison.standard_error > 0]
    dims = claim["dims"].split()
    return (
        claim_link(claim),
        "yes" if claim["holds"] == "1" else "**no**",
        str(len(own)),
        f"{size_of_z(worst):.2f}",
        f"{worst.threshold:.2f}",
        percent(min(random, default=math.inf)).replace("-", "–").replace(" ", "\u00a0"),
        f"{float(claim['cpu_seconds']):,.0f}",
        "–".join(dict.fromkeys([*dims[:1], *dims[-1:]])) or "–",
    )


def seeds_table(rows: Sequence[dict[str, str]]) -> Iterator[tuple[str, ...]]:
    """Yield the distribution of z over seeds of the quick preset, by kind and shelf."""
    yield "Comparisons", "Number", "Mean", "Width", "Beyond 2", "Beyond 3"
    yield "standard normal", "", "0", "1", "0.0455", "0.0027"
    for row in rows:
        if row["by"] in ("kind", "subject"):
            title = SHELVES.get(row["name"], row["name"])
            name = title if row["by"] == "subject" else f"*{row['name']}*"
            yield (
                name,
                *(row[each] for each in ("number", "mean", "width", "beyond_2", "beyond_3")),
            )


def seeds() -> str:
    """What other seeds of the quick preset gave, as far as that is on record."""
    setting = read_setting()["seeds"]
    runs = len(setting["seeds"])
    failed = setting["failures"]
    if not runs:
        return ""
    most = stats.gamma.ppf(0.95, len(failed) + 1) / runs  # Poisson
    found = f"{len(failed)} claims failed ({'; '.join(failed)})" if failed else "no claim failed"
    text = (
        f"In {runs} runs of the quick preset with different seeds {found}; with 95 % confidence "
        f"fewer than {100 * most:.0f} failures come in a hundred runs.  The table has z of these "
        "runs by subject.  A width below 1 means that predictions state more uncertainty than "
        "they have, as in pretraining.  Published runs are the same in all seeds: those of "
        "correlated contexts lie nearly two standard errors above their prediction, which raises "
        "the mean of recurrent layers.  p-values of Kolmogorov-Smirnov tests are in "
        "``seeds.csv``; they are too small, as comparisons of a run share random draws."
    )
    rows = read_reference(f"{LARGEST}/seeds.csv")
    return f"{text}\n\n" + table("35 13 13 13 13 13", seeds_table(rows), "numbers")


def false_alarms() -> str:
    """How many false failures are expected."""
    expected = 100 * (1 - (1 - FALSE_ALARM) ** len(CLAIMS))
    return (
        f"A claim fails by chance with a probability of at most {FALSE_ALARM:g}.  So at most "
        f"{expected:.1f} of a hundred runs of all {len(CLAIMS)} claims, each with another seed, "
        "raise a false alarm.\n"
    )


def draw_quantiles(path: Path, *, pooled: bool) -> None:
    """Draw z of single comparisons, or of common factors, over those of the normal law."""
    title = "Common factors" if pooled else "Single comparisons"
    noun = "factors" if pooled else "comparisons"
    with house_style():
        figure = new_figure(4.6, 3.8)
        draw_deviations(figure.subplots(), deviations(pooled=pooled), title=title, noun=noun)
        save_picture(figure, path, {"command": f"iclimit validate --preset {LARGEST}"})


def draw_sharpness(path: Path) -> None:
    """Draw the smallest error of each function that would be noticed, a point for each."""
    with house_style():
        figure = new_figure()
        [ax] = panels(figure, 1, width=6.4, height=4.2)
        draw_resolutions(ax, recorded_coverage())
        save_picture(figure, path, {"command": f"iclimit validate --preset {LARGEST}"})


def write_evidence(folder: Path) -> dict[str, str]:
    """Draw the figure and return the parts of the page by the names of their files."""
    draw_quantiles(folder / "evidence.svg", pooled=False)
    draw_quantiles(folder / "evidence-pooled.svg", pooled=True)
    draw_sharpness(folder / "evidence-resolutions.svg")
    return {
        "evidence-verdict.inc": verdict(),
        "evidence-failures.inc": "\n".join(failures()) + "\n",
        "evidence-summary.inc": table("56 20 24", summary_table(), "numbers"),
        "evidence-bands.inc": outside_band(),
        "evidence-blunt.inc": blunt(),
        "evidence-run.inc": "\n".join(run_in_words()) + "\n",
        "evidence-claims.inc": table("25 8 11 10 11 12 9 14", claims_table(), "numbers"),
        "evidence-compared.inc": compared(
            ROWS, {row.function: row.words for row in recorded_coverage()}
        ),
        "evidence-seeds.inc": seeds(),
        "evidence-alarms.inc": false_alarms(),
    }
