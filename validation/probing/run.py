"""Probe a model: ask it about a problem, and say which algorithm its answers come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.notation import did_you_mean
from iclimit.simulate.checks import check_choice
from iclimit.simulate.probing.problem import Problem
from iclimit.validation.probing.algorithm_report import AlgorithmReport
from iclimit.validation.probing.answers import Answers
from iclimit.validation.probing.asking import ask_all
from iclimit.validation.probing.baselines import Baseline
from iclimit.validation.probing.baselines import baselines as best_baselines
from iclimit.validation.probing.diagnosis import diagnose
from iclimit.validation.probing.identification import TOLERANCE, identify
from iclimit.validation.probing.ladder import ladder
from iclimit.validation.probing.linear_part import LinearPart, attention_features, linear_part
from iclimit.validation.probing.model import Model
from iclimit.validation.probing.positions import Positions
from iclimit.validation.probing.ratios import cosine
from iclimit.validation.probing.sections import Section, central_differences, plan_sections

FORMS = ("query", "positions")
MOVED = ("query", "labels")
"""What is moved to measure sensitivities."""

CHECKS = ("permuted", "labels:other", "labels:sum", "labels:zero")
"""Sections that the diagnosis needs."""


def judge(
    problem: Problem,
    baselines: Sequence[Baseline],
    sections: Sequence[Section],
    answers: Mapping[str, Answers],
    *,
    tolerance: float = TOLERANCE,
    positions: Positions | None = None,
    seed: str = "",
) -> AlgorithmReport:
    """Make a report of the answers of a model and of baselines.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    baselines : sequence of Baseline
        Algorithms.
    sections : sequence of Section
        What was asked.
    answers : mapping of str to Answers
        By section; those of sensitivities, "query" and "labels", are derivatives (n, m) already.
    tolerance : float
        Share of the answers that an algorithm may leave unexplained.
    positions : Positions, optional
        Errors by position.
    seed : str
        Of the prompts, for the record.
    """
    plan = {section.name: section for section in sections}

    def rungs(name: str) -> Any:
        return ladder(answers[name], baselines, plan[name].description)

    checks = None
    if all(name in answers for name in CHECKS):
        checks = diagnose(answers["fresh"].model, *(answers[name].model for name in CHECKS))
    shifts = [each.name for each in sections if each.purpose == "shift" and each.name in answers]
    return AlgorithmReport(
        problem=problem,
        test_prompts=len(answers["fresh"].target),
        identification=identify(answers["fresh"], tolerance=tolerance),
        fresh=rungs("fresh"),
        pretraining=rungs("pretraining") if "pretraining" in answers else None,
        sensitivities={
            moved: _cosines(_derivatives(moved, plan, answers))
            for moved in MOVED
            if f"{moved}:plus" in answers and f"{moved}:minus" in answers
        },
        linear=_linear_part(plan["fresh"], answers["fresh"], problem),
        diagnosis=checks,
        shifts=tuple(map(rungs, shifts)),
        positions=positions,
        seed=seed,
    )
