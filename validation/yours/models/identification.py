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

**Likeness.**  The distance of a model f to an algorithm g is :math:`E(f - g)^2`, over the
prompts.  The share that g leaves unexplained is this distance over :math:`E f^2`: 0 for equal
answers, 1 for the null predictor, and more for answers worse than none.  The factor c minimises
:math:`E(f - cg)^2`: it is not 1 where the model takes another rate.

**Mixtures** of few algorithms are found and judged on separate prompts.  Which algorithms: the
first half of the prompts, by least squares over all subsets of up to `MOST_TERMS`.  How many: a
further one must be noticed on the second half, where the weights of the first half are judged, and
take off at least the part `GAIN` of what is unexplained.  Weights and standard errors are those of
the second half, so that the choice does not make them look better.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate, Judgement
from iclimit.statistics import z_threshold
from iclimit.validation.yours.models.model import Answers
from iclimit.validation.yours.ratios import (
    DOUBT,
    ROUNDING,
    best_factor,
    best_weights,
    larger,
    percent,
    quantile,
    ratio,
    shown,
    without_rounding,
    z_of,
)


@dataclass(frozen=True)
class Likeness:
    """How near a model is to an algorithm.

    Attributes
    ----------
    name : str
        The algorithm.
    distance : Estimate
        Mean squared distance of the answers.
    unexplained : Estimate
        The distance over the mean square of the model's answers.
    factor : Estimate
        Factor of the algorithm that is nearest to the model.
    factor_z : float
        Deviation of the factor from 1.
    same : tuple of str
        Other algorithms that give the same answers to these prompts.
    """

    name: str
    distance: Estimate
    unexplained: Estimate
    factor: Estimate
    factor_z: float
    same: tuple[str, ...] = ()

    @property
    def explained(self) -> Estimate:
        """Share of the mean square of the model's answers that the algorithm explains."""
        share = self.unexplained
        return Estimate(1 - share.mean, share.standard_error, share.repeats)

    @property
    def label(self) -> str:
        """Its name and those of the algorithms that cannot be told from it."""
        return " = ".join((self.name, *self.same))


def likenesses(answers: Answers) -> list[Likeness]:
    """How near a model is to each baseline that answers differently, the nearest first."""
    model, square = answers.model, answers.model**2
    algorithms = []
    for name, same in equal_answers(answers.baselines).items():
        baseline = answers.baselines[name]
        distance = (model - baseline) ** 2
        factor = best_factor(model, baseline)
        likeness = Likeness(
            name,
            Estimate.of(distance, keep=False),
            ratio(distance, square),
            factor,
            z_of(factor, 1.0),
            same,
        )
        algorithms.append(likeness)
    return sorted(algorithms, key=lambda each: each.unexplained.mean)


def equal_answers(baselines: Mapping[str, np.ndarray]) -> dict[str, tuple[str, ...]]:
    """Baselines that answer differently, each with those that answer as it does."""
    equal: dict[str, tuple[str, ...]] = {}
    for name, answers in baselines.items():
        for first in equal:
            other = baselines[first]
            if np.mean((answers - other) ** 2) <= ROUNDING**2 * np.mean(other**2):
                equal[first] += (name,)
                break
        else:
            equal[name] = ()
    return equal


# Largest number of algorithms: more of them imitate almost any smooth predictor.
MOST_TERMS = 3

# Least part of what is unexplained that a further algorithm must explain.
GAIN = 0.1

# Columns of length 1 whose Gram matrix has a smaller eigenvalue count as dependent.
DEPENDENT = 1e-9

# Other mixtures, the nearest on the first half, that the chosen one is compared with.
COMPARED = 10


@dataclass(frozen=True)
class Term:
    """An algorithm in a mixture, with its weight and the deviation of this from 0."""

    name: str
    weight: Estimate
    z: float

    def __str__(self) -> str:
        return f"{shown(self.weight)} {self.name}"


@dataclass(frozen=True)
class Mixture:
    """The nearest mixture of few algorithms.

    Attributes
    ----------
    terms : tuple of Term
        The algorithms with their weights.
    unexplained : Estimate
        Share of the mean square that it leaves unexplained, on prompts that did not choose it.
    alternatives : tuple of str
        Other mixtures of as many algorithms that are as near, for all these prompts tell.
    """

    terms: tuple[Term, ...]
    unexplained: Estimate
    alternatives: tuple[str, ...]

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms)) or "0"

    @property
    def names(self) -> tuple[str, ...]:
        """The algorithms."""
        return tuple(term.name for term in self.terms)


def best_mixture(model: np.ndarray, baselines: Mapping[str, np.ndarray]) -> Mixture:
    """Find the mixture of at most `MOST_TERMS` baselines that is nearest to a model.

    Parameters
    ----------
    model : array (n,)
        Answers of the model.
    baselines : mapping of str to array (n,)
        Answers of the algorithms.  Of proportional ones only the nearest takes part.
    """
    names = _independent(model, baselines)
    columns = np.stack([baselines[name] for name in names], axis=1) if names else None
    if columns is None or not np.any(model):
        return Mixture((), ratio(model**2, model**2), ())
    half = len(model) // 2
    fit, judge = (model[:half], columns[:half]), (model[half:], columns[half:])
    chosen, residual = _choose(fit, judge)
    weights, covariance = best_weights(judge[0], judge[1][:, chosen])
    terms = []
    for number, index in enumerate(chosen):
        error = math.sqrt(covariance[number, number])
        weight = without_rounding(float(weights[number]), error, len(judge[0]))
        terms.append(Term(names[index], weight, z_of(weight, 0.0)))
    others = [subset for subset in _subsets(fit, len(chosen)) if subset != chosen]
    return Mixture(
        tuple(sorted(terms, key=lambda term: -abs(term.weight.mean))),
        ratio(residual**2, judge[0] ** 2),
        _alternatives(names, fit, judge, residual, others),
    )


def _independent(model: np.ndarray, baselines: Mapping[str, np.ndarray]) -> list[str]:
    """Baselines that are neither 0 nor proportional to one that is nearer to the model."""
    independent: dict[str, np.ndarray] = {}
    for name in sorted(baselines, key=lambda name: float(np.sum((model - baselines[name]) ** 2))):
        if norm := float(np.linalg.norm(baselines[name])):
            unit = baselines[name] / norm
            if all(1 - abs(float(unit @ other)) > DEPENDENT for other in independent.values()):
                independent[name] = unit
    return list(independent)


# Answers of the model and of the baselines to half of the prompts.
Half = tuple[np.ndarray, np.ndarray]


def _choose(fit: Half, judge: Half) -> tuple[tuple[int, ...], np.ndarray]:
    """Columns of the mixture, and what their weights leave on the prompts that judge."""
    chosen = _subsets(fit, 1)[0]
    residual = _residual(fit, judge, chosen)
    size = float(np.mean(judge[0] ** 2))
    for terms in range(2, min(MOST_TERMS, fit[1].shape[1]) + 1):
        subsets = _subsets(fit, terms)
        if not subsets:
            break
        longer = _residual(fit, judge, subsets[0])
        before, after = residual**2, longer**2
        enough = np.mean(after) < (1 - GAIN) * np.mean(before)
        if not (enough and larger(before, after, quantile(MOST_TERMS - 1), ROUNDING**2 * size)):
            break
        chosen, residual = subsets[0], longer
    return chosen, residual


def _subsets(fit: Half, terms: int) -> list[tuple[int, ...]]:
    """Subsets of columns that are independent, those that leave least first."""
    model, columns = fit
    norms = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(norms > 0, norms, 1.0)
    gram, target, total = scaled.T @ scaled, scaled.T @ model, float(model @ model)
    subsets = []
    for subset in itertools.combinations(np.flatnonzero(norms > 0).tolist(), terms):
        values, vectors = np.linalg.eigh(gram[np.ix_(subset, subset)])
        if values[0] > DEPENDENT:
            part = vectors.T @ target[list(subset)]
            unexplained = max(1 - float(np.sum(part**2 / values)) / total, 0.0)
            subsets.append((unexplained, subset))
    return [subset for _, subset in sorted(subsets)]


def _residual(fit: Half, judge: Half, subset: Sequence[int]) -> np.ndarray:
    """What the mixture of these columns, fitted on one half, leaves on the other."""
    chosen = list(subset)
    weights, *_ = np.linalg.lstsq(fit[1][:, chosen], fit[0], rcond=None)
    return judge[0] - judge[1][:, chosen] @ weights


def _alternatives(
    names: Sequence[str],
    fit: Half,
    judge: Half,
    residual: np.ndarray,
    others: Sequence[tuple[int, ...]],
) -> tuple[str, ...]:
    """Mixtures that are not significantly further from the model than the chosen one."""
    rounding = ROUNDING**2 * float(np.mean(judge[0] ** 2))
    limit, alternatives = quantile(COMPARED), list[str]()
    for subset in others[:COMPARED]:
        if not larger(_residual(fit, judge, subset) ** 2, residual**2, limit, rounding):
            alternatives.append(" + ".join(names[index] for index in subset))
    return tuple(alternatives)


# Share of the mean square that an algorithm may leave unexplained by default.
TOLERANCE = 0.01


@dataclass(frozen=True, repr=False)
class Identification(Judgement):
    """Which algorithm a model performs.

    Attributes
    ----------
    kind : {"algorithm", "ambiguous", "mixture", "none", "undecided", "null"}
        The verdict, see the module.
    holds : bool
        Whether it names an algorithm or a mixture.
    sentence : str
        The verdict in words.
    names : tuple of str
        The algorithms that it names.
    likenesses : tuple of Likeness
        All algorithms, the nearest first.
    mixture : Mixture
        The best mixture.
    tolerance : float
        Share that may be left unexplained.
    """

    names: tuple[str, ...]
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
    algorithms = likenesses(answers)
    baselines = {each.name: answers.baselines[each.name] for each in algorithms}
    mixture = best_mixture(answers.model, baselines)
    kind, names, sentence = _verdict(answers, algorithms, mixture, tolerance)
    holds = kind in ("algorithm", "mixture")
    return Identification(
        kind, holds, f"{sentence}.", names, tuple(algorithms), mixture, tolerance
    )


# Kind, names and sentence of a verdict.
Words = tuple[str, tuple[str, ...], str]


def _verdict(
    answers: Answers, algorithms: Sequence[Likeness], mixture: Mixture, tolerance: float
) -> Words:
    size = ratio(answers.model**2, answers.target**2)
    if size.mean + quantile(1) * size.standard_error < tolerance:
        sentence = f"It answers next to nothing: {percent(size)} of the mean square of the labels"
        return "null", ("null",), sentence
    limit = quantile(len(algorithms))
    within = [each for each in algorithms if _upper(each.unexplained, limit) < tolerance]
    if within:
        return _named(answers, within, mixture)
    nearest = algorithms[0]
    if _upper(mixture.unexplained, quantile(1)) < tolerance:
        return "mixture", mixture.names, _mixture_sentence(mixture, nearest)
    shares = [each.unexplained for each in algorithms], [mixture.unexplained]
    above = all(
        each.mean - quantile(len(some)) * each.standard_error > tolerance
        for some in shares
        for each in some
    )
    reason = (
        f"the nearest, {nearest.label}, leaves {percent(nearest.unexplained)} of the mean square "
        f"of its answers unexplained, the best mixture ({mixture}) {percent(mixture.unexplained)}"
    )
    if not np.any(answers.baselines[nearest.name]):
        reason = "none is nearer to its answers than the null predictor"
    if above:
        return "none", (), f"It is none of these algorithms: {reason}"
    return "undecided", (nearest.name,), f"These prompts are too few for a verdict: {reason}"


def _named(answers: Answers, within: Sequence[Likeness], mixture: Mixture) -> Words:
    """Verdict where algorithms are within the tolerance, the nearest first."""
    best, limit = within[0], quantile(max(len(within) - 1, 1))
    squares = [(answers.model - answers.baselines[each.name]) ** 2 for each in within]
    pairs = zip(within[1:], squares[1:], strict=True)
    rivals = [each for each, far in pairs if not larger(far, squares[0], limit)]
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
