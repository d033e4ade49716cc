"""The page "The evidence", from the full validation on record."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from compared_arguments import compared
from markup import table
from scipy import stats

from iclimit.drawing import COLOURS, finish, house_style, new_figure, panels, save_picture
from iclimit.statistics import FALSE_ALARM
from iclimit.validation.reference import LARGEST, read_reference
from iclimit.validation.report.coverage import SHELVES, TOGETHER, theory_functions
from iclimit.validation.report.overview import draw_deviations
from iclimit.validation.report.record import RecordedComparison, read_record, read_setting
from iclimit.words import percent, sharpness

CLAIMS = read_reference(f"{LARGEST}/claims.csv")
ROWS = [*read_record().values()]


def tested(row: RecordedComparison) -> bool:
    """Whether z of a comparison should be standard normal: neither a bound nor with allowance."""
    found = row.comparison
    return found.standard_error > 0 and not found.allowance and not found.upper_bound


def verdict() -> str:
    """How much was compared, and what holds."""
    compared = [row for row in ROWS if row.claim != TOGETHER]
    holding = sum(int(row["holds"]) for row in CLAIMS)
    return (
        f"**{holding} of {len(CLAIMS)} claims hold**, in {len(compared):,} comparisons of theory "
        "with simulations, published runs and exact values.\n"
    )


def run_in_words() -> Iterator[str]:
    """Yield sentences on the run: how long it took, and with which versions."""
    setting = read_setting()
    hours = sum(float(row["cpu_seconds"]) for row in CLAIMS) / 3600
    cells = sum(int(row["cells"]) for row in CLAIMS)
    yield f"``iclimit validate --preset {setting['preset']}`` was run once.  What is kept: theory,"
    yield "simulated value, standard error, z, and the smallest error of the theory that would"
    yield "have been noticed."
    yield (
        f"{cells} simulations took {hours:.1f} hours of a core, which had other work, too; the "
        f"seed is {setting['seed']}."
    )
    versions = ", ".join(f"{name} {version}" for name, version in setting["versions"].items())
    yield f"Versions: {versions}."


def claims_table() -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of claims."""
    yield "Claim", "Holds", "Compared", "Worst z", "Accepted", "Notices", "Seconds", "Dimensions"
    for claim in CLAIMS:
        own = [row for row in ROWS if row.claim == claim["name"]]
        worst = max(own, key=lambda row: abs(row.comparison.z) / row.threshold)
        random = [row.would_notice for row in own if row.comparison.standard_error > 0]
        yield (
            f"``{claim['name']}``",
            "yes" if claim["holds"] == "1" else "**no**",
            str(len(own)),
            f"{abs(worst.comparison.z):.2f}",
            f"{worst.threshold:.2f}",
            percent(min(random, default=math.inf)).replace("-", "–"),
            claim["cpu_seconds"],
            claim["dims"] or "–",
        )


def resolutions() -> Iterator[tuple[str, str]]:
    """Yield by shelf what change of which function would have been noticed."""
    best: dict[str, tuple[float, bool]] = {}
    for row in ROWS:
        function = row.comparison.of.partition(".")[0]
        if function and math.isfinite(row.would_notice):
            reach = row.would_notice, row.comparison.standard_error == 0
            best[function] = min(best.get(function, (math.inf, False)), reach)
    yield "Subject", "Smallest relative change that would have been noticed"
    for subject in SHELVES:
        found = sorted((best[name], name) for name in theory_functions(subject) if name in best)
        yield subject, ", ".join(f"``{name}`` {sharpness(*reach)}" for reach, name in found)


def seeds_table(rows: Sequence[dict[str, str]]) -> Iterator[tuple[str, ...]]:
    """Yield the distribution of z over seeds of the quick preset, by kind and shelf."""
    yield "Comparisons", "Number", "Mean", "Width", "Beyond 2", "Beyond 3", "p-value (KS)"
    yield "standard normal", "", "0", "1", "0.0455", "0.0027", ""
    for row in rows:
        if row["by"] in ("kind", "subject"):
            name = row["name"] if row["by"] == "subject" else f"*{row['name']}*"
            numbers = ("number", "mean", "width", "beyond_2", "beyond_3", "p_value")
            yield name, *(row[each] for each in numbers)


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
        "runs by shelf.  Comparisons of a run share random draws, so that the p-values of the "
        "Kolmogorov-Smirnov test, which takes them as independent, are too small.  Published runs "
        "are the same in all of them, and what chance did to these counts once for each: those of "
        "correlated contexts lie above their prediction, by nearly two standard errors together, "
        "which shows in the mean of *recurrent*.  Rows without a p-value lost the comparisons of "
        "a claim that is a test now."
    )
    rows = read_reference(f"{LARGEST}/seeds.csv")
    return f"{text}\n\n" + table("25 12 12 12 13 13 13", seeds_table(rows))


def false_alarms() -> str:
    """How many false failures are expected."""
    expected = 100 * (1 - (1 - FALSE_ALARM) ** len(CLAIMS))
    return (
        f"A claim fails by chance with a probability of at most {FALSE_ALARM:g}.  So at most "
        f"{expected:.1f} of a hundred runs of all {len(CLAIMS)} claims, each with another seed, "
        "report a failure that is none.\n"
    )


def draw_quantiles(path: Path) -> None:
    """Draw z of all comparisons over the quantiles of the standard normal law."""
    singles, factors = (
        np.sort(
            [
                row.comparison.z
                for row in ROWS
                if tested(row) and bool(row.comparison.pooled) == pooled
            ]
        )
        for pooled in (False, True)
    )
    with house_style():
        figure = new_figure()
        [ax] = panels(figure, 1, width=5.4, height=4.2)
        draw_deviations(ax, singles)
        quantiles = stats.norm.ppf((np.arange(factors.size) + 0.5) / factors.size)
        style = {"color": COLOURS[1], "markersize": 3, "label": f"{factors.size} common factors"}
        ax.plot(quantiles, factors, ".", **style)
        finish(ax, "quantile of the standard normal law", "z", legend="")
        save_picture(figure, path, {"command": f"iclimit validate --preset {LARGEST}"})


def write_evidence(folder: Path) -> dict[str, str]:
    """Draw the figure and return the parts of the page by the names of their files."""
    draw_quantiles(folder / "evidence.svg")
    return {
        "evidence-verdict.inc": verdict(),
        "evidence-run.inc": "\n".join(run_in_words()) + "\n",
        "evidence-claims.inc": table("22 8 10 10 10 12 8 20", claims_table(), "numbers"),
        "evidence-resolutions.inc": table("18 82", resolutions()),
        "evidence-compared.inc": compared(ROWS),
        "evidence-seeds.inc": seeds(),
        "evidence-alarms.inc": false_alarms(),
    }
