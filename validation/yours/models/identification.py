r"""Which algorithm a model performs: the rule of the verdict.

The tolerance is the largest share of the mean square of the model's answers that an algorithm may
leave unexplained (1 %).  Limits hold together, over all algorithms, with probability 95 %.

* **algorithm**: the upper limit of the share that X leaves is below the tolerance, and every other
  algorithm for which this is so is significantly further from the model.
* **ambiguous**: X and Y are both within the tolerance, and these prompts do not tell which of
  them is nearer.
* **mixture**: no algorithm is within the tolerance, but a weighted sum of at most three is; a
  single algorithm with a factor counts as one.  Its weights are judged on prompts that they were
  not fitted on.
* **none**: the lower limits of all algorithms and of the best mixture are above the tolerance.
* **undecided**: none of these; more prompts decide.

A model whose answers are small against the labels is the null predictor: its mean square is below
the tolerance times that of the labels without noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate
from iclimit.statistics import z_threshold
from iclimit.validation.yours.models.answers import Answers
from iclimit.validation.yours.models.likeness import Likeness, likenesses
from iclimit.validation.yours.models.mixture import Mixture, best_mixture
from iclimit.validation.yours.models.ratios import (
    DOUBT,
    ROUNDING,
    larger,
    percent,
    quantile,
    ratio,
    shown,
)

TOLERANCE = 0.01
"""Share of the mean square that an algorithm may leave unexplained by default."""


@dataclass(frozen=True)
class Identification:
    """Which algorithm a model performs.

    Attributes
    ----------
    kind : {"algorithm", "ambiguous", "mixture", "none", "undecided", "null"}
        The verdict, see the module.
    names : tuple of str
        The algorithms that it names.
    sentence : str
        The verdict in words.
    likenesses : tuple of Likeness
        All algorithms, the nearest first.
    mixture : Mixture
        The best mixture.
    tolerance : float
        Share that may be left unexplained.
    """

    kind: str
    names: tuple[str, ...]
    sentence: str
    likenesses: tuple[Likeness, ...]
    mixture: Mixture
    tolerance: float

    def __getitem__(self, name: str) -> Likeness:
        return next(each for each in self.likenesses if name in (each.name, *each.same))


def identify(answers: Answers, *, tolerance: float = TOLERANCE) -> Identification:
    """Say which algorithm the answers of a model come from.

    Parameters
    ----------
    answers : Answers
        To fresh prompts.
    tolerance : float
        Share of the mean square that may be left unexplained, in (0, 1).
    """
    found = likenesses(answers)
    baselines = {each.name: answers.baselines[each.name] for each in found}
    mixture = best_mixture(answers.model, baselines)
    kind, names, sentence = _verdict(answers, found, mixture, tolerance)
    return Identification(kind, names, sentence, tuple(found), mixture, tolerance)


Words = tuple[str, tuple[str, ...], str]
"""Kind, names and sentence of a verdict."""


def _verdict(
    answers: Answers, found: Sequence[Likeness], mixture: Mixture, tolerance: float
) -> Words:
    size = ratio(answers.model**2, answers.target**2)
    if size.mean + quantile(1) * size.standard_error < tolerance:
        sentence = f"It answers next to nothing: {percent(size)} of the mean square of the labels"
        return "null", ("null",), sentence
    limit = quantile(len(found))
    within = [each for each in found if _upper(each.unexplained, limit) < tolerance]
    if within:
        return _named(answers, within, mixture)
    nearest = found[0]
    if _upper(mixture.unexplained, quantile(1)) < tolerance:
        return "mixture", mixture.names, _mixture_sentence(mixture, nearest)
    shares = [each.unexplained for each in found], [mixture.unexplained]
    above = all(
        each.mean - quantile(len(some)) * each.standard_error > tolerance
        for some in shares
        for each in some
    )
    left = (
        f"the nearest, {nearest.label}, leaves {percent(nearest.unexplained)} of the mean square "
        f"of its answers unexplained, the best mixture ({mixture}) {percent(mixture.unexplained)}"
    )
    if not np.any(answers.baselines[nearest.name]):
        left = "none is nearer to its answers than the null predictor"
    if above:
        return "none", (), f"It is none of these algorithms: {left}"
    return "undecided", (nearest.name,), f"These prompts are too few for a verdict: {left}"


def _named(answers: Answers, within: Sequence[Likeness], mixture: Mixture) -> Words:
    """Verdict where algorithms are within the tolerance, the nearest first."""
    best, limit = within[0], quantile(max(len(within) - 1, 1))
    near = (answers.model - answers.baselines[best.name]) ** 2
    rivals = []
    for other in within[1:]:
        far = (answers.model - answers.baselines[other.name]) ** 2
        if not larger(far, near, limit):
            rivals.append(other)
    share = f"it leaves {percent(best.unexplained)} of the mean square unexplained"
    if rivals:
        names = (best.name, *(each.name for each in rivals))
        labels = " from ".join((best.label, " and ".join(each.label for each in rivals)))
        return (
            "ambiguous",
            names,
            f"These prompts cannot tell {labels}: nearest is the first, {share}",
        )
    sentence = f"It is {best.label}: {share}{_refined(best, mixture)}"
    return "algorithm", (best.name,), sentence


def _refined(best: Likeness, mixture: Mixture) -> str:
    """What is known beyond the verdict: a factor that is not 1, a mixture that is nearer."""
    if len(mixture.terms) > 1 and best.unexplained.mean > ROUNDING**2:
        return f"; still nearer is {mixture}"
    if abs(best.factor_z) > z_threshold(1, DOUBT):
        z = f" (z = {best.factor_z:.1f})" if math.isfinite(best.factor_z) else ""
        return f", with a factor of {shown(best.factor)}, which is not 1{z}"
    return f", with a factor of {shown(best.factor)}"


def _mixture_sentence(mixture: Mixture, nearest: Likeness) -> str:
    share = f"it leaves {percent(mixture.unexplained)} of the mean square unexplained"
    other = ""
    if mixture.alternatives:
        other = f"; these prompts cannot tell it from {' or '.join(mixture.alternatives)}"
    alone = f"{nearest.label} alone leaves {percent(nearest.unexplained)}"
    kind = "a mixture, " if len(mixture.terms) > 1 else ""
    return f"It is {kind}{mixture}: {share}{other} ({alone})"


def _upper(share: Estimate, limit: float) -> float:
    return share.mean + limit * share.standard_error
