"""Rows whose result prompts do not determine: of fewer prompts than weights, without a ridge.

There the result of training depends on its start and its optimiser, and just above the threshold
training takes very long.  So it explains a table if all rows up to some ratio of prompts to
weights deviate and all others agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iclimit.validation.instruments.runs.judgement import RowDeviation, verdict

# Rows up to this number of prompts over weights may be among them: the smallest eigenvalue of the
# features is there 3 % of what it is with many prompts, and takes as many times longer.
MOST_PROMPTS = 1.5

# Least number of rows that must agree, and as a share of all.
LEAST_REST = 3
LEAST_SHARE = 0.25


def undetermined_rows(rows: Sequence[RowDeviation]) -> Iterator[tuple[str, list[int]]]:
    """Explanations in words, each with the places of its rows; at most one.

    Parameters
    ----------
    rows : sequence of RowDeviation
        Rows that are judged.
    """
    ratios = [_prompts_by_weight(row) for row in rows]
    if not any(ratio < 1 for ratio in ratios):
        return
    for most in sorted({ratio for ratio in ratios if ratio < MOST_PROMPTS}):
        places = [place for place, ratio in enumerate(ratios) if ratio <= most]
        rest = [row for row, ratio in zip(rows, ratios, strict=True) if ratio > most]
        few = len(rest) < max(LEAST_REST, LEAST_SHARE * len(rows))
        if few or any(most < ratio < 1 for ratio in ratios):
            continue
        if verdict(rest).holds:
            yield (
                "the result depends on the start and the optimiser (such as Adam) where prompts "
                f"are at most {most:.3g} times the weights and there is no ridge, in "
                f"{len(places)} rows; all others agree",
                places,
            )
            return


def _prompts_by_weight(row: RowDeviation) -> float:
    """Prompts over the number of weights; infinite where a ridge or a time settles the result."""
    run = row.run
    dim = run.sizes["dim"]
    if run.ridge or run.trained:
        return float("inf")
    return float(run.sizes["prompts"] / (dim * (dim + 1)))
