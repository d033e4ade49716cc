"""A validation at a glance: all deviations against the normal law, and what would be noticed."""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import betaincinv, ndtri

from iclimit.drawing import COLOURS, Axes, finish, log_scale
from iclimit.validation.report.coverage import SHELVES, Coverage
from iclimit.verdict import Verdict

# Probability with which each order statistic lies in the band, if all z are normal.
BAND = 0.95

# Distance from the height of a subject, at most, of its points; those of the next are 1 away.
SPREAD = 0.25

# Colour of the functions that are compared with runs.
RANDOM = COLOURS[0]

# Colour of the functions that are compared with numbers without an error.
EXACT = COLOURS[1]


def deviations(verdicts: Iterable[Verdict]) -> np.ndarray:
    """The z of all single comparisons with a standard error, but for upper bounds."""
    rows = (row for verdict in verdicts for row in verdict.comparisons)
    return np.array([row.z for row in rows if row.standard_error > 0 and not row.upper_bound])


def normal_band(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval of each of so many sorted normal numbers, from the least one on."""
    rank = np.arange(1, count + 1)
    low = betaincinv(rank, count + 1 - rank, (1 - BAND) / 2)
    high = betaincinv(rank, count + 1 - rank, (1 + BAND) / 2)
    return ndtri(low), ndtri(high)


def draw_deviations(
    ax: Axes,
    z: Sequence[float] | np.ndarray,
    *,
    title: str = "Deviations against chance, upper bounds left out",
    noun: str = "comparisons",
) -> None:
    """Draw deviations, sorted, against those of as many normal numbers, with their band."""
    ordered = np.sort(z)
    count = len(z)
    rank = np.arange(1, count + 1)
    expected = ndtri((rank - 0.5) / count)
    ax.fill_between(
        expected,
        *normal_band(count),
        color="0.85",
        label=f"{100 * BAND:g} % band if theory is exact",
    )
    ax.plot(expected, expected, color="0.4", linewidth=0.8)
    ax.plot(expected, ordered, ".", color=COLOURS[0], markersize=3, label=f"{count:,} {noun}")
    finish(ax, "z expected by chance", "z of theory against runs", title=title, legend="")


def draw_resolutions(ax: Axes, covered: Iterable[Coverage]) -> None:
    """Draw for each function the relative change that would have been noticed, by subject."""
    sharpest = sorted(
        (coverage for coverage in covered if coverage.claim),
        key=lambda coverage: coverage.resolution,
    )
    subjects = [
        subject for subject in reversed(SHELVES) if any(c.subject == subject for c in sharpest)
    ]
    labels = {False: "against runs", True: "against exact numbers: within"}
    for height, subject in enumerate(subjects):
        group = [coverage for coverage in sharpest if coverage.subject == subject]
        offsets = SPREAD * (np.arange(len(group)) % 5 - 2) / 2
        for exact, colour in ((False, RANDOM), (True, EXACT)):
            kept = [number for number, coverage in enumerate(group) if coverage.exact == exact]
            change = [100 * group[number].resolution for number in kept]
            label = labels.pop(exact, None) if kept else None
            ax.plot(change, height + offsets[kept], "o", color=colour, markersize=4, label=label)
    ax.set_yticks(range(len(subjects)), [SHELVES[subject] for subject in subjects])
    ax.set_ylim(-0.6, len(subjects) - 0.4)
    borders = np.arange(1, len(subjects)) - 0.5
    ax.hlines(
        borders, 0, 1, transform=ax.get_yaxis_transform(), color="0.85", linewidth=0.8, zorder=0
    )
    title = "Errors of the theory that would be noticed"
    finish(ax, "smallest error noticed, per cent", "", title=title, legend="")
    log_scale(ax, "x")
