"""Mixtures of few algorithms: sums whose weights do not cancel.

They are found and judged on separate prompts.  Which algorithms: the first half of the prompts, by
least squares over all subsets of up to `MOST_TERMS`, of which only those with positive weights
count.  Sums with weights of both signs imitate almost any smooth predictor: 6.7 times ridge
regression minus 5.9 times least squares is close to ridge regression with twenty times the
penalty.  How many: a further algorithm must be noticed on the second half, where the weights of
the first half are judged, and take off at least the part `GAIN` of what is unexplained.  Weights
and standard errors are those of the second half, so that the choice does not make them look
better.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate
from iclimit.validation.instruments.ratios import (
    ROUNDING,
    best_weights,
    larger,
    quantile,
    ratio,
    without_rounding,
    z_of,
)
from iclimit.words import measured

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
        return f"{measured(self.weight)} {self.name}"


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
    fit = (model[:half], columns[:half])
    judge = (model[half:], columns[half:])
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
        before = residual**2
        after = longer**2
        enough = np.mean(after) < (1 - GAIN) * np.mean(before)
        noticed = larger(before, after, quantile(MOST_TERMS - 1), ROUNDING**2 * size)
        weights = np.linalg.lstsq(judge[1][:, list(subsets[0])], judge[0], rcond=None)[0]
        if not (enough and noticed and np.all(weights > 0)):
            break
        chosen = subsets[0]
        residual = longer
    return chosen, residual


def _subsets(fit: Half, terms: int) -> list[tuple[int, ...]]:
    """Subsets of columns that are independent, those that leave least first.

    Weights of several columns are positive.
    """
    model, columns = fit
    norms = np.linalg.norm(columns, axis=0)
    scaled = columns / np.where(norms > 0, norms, 1.0)
    gram = scaled.T @ scaled
    target = scaled.T @ model
    subsets = np.array(list(itertools.combinations(np.flatnonzero(norms > 0), terms)), dtype=int)
    if not subsets.size:
        return []
    parts = gram[subsets[:, :, None], subsets[:, None, :]]
    subsets = subsets[np.linalg.eigvalsh(parts)[:, 0] > DEPENDENT]
    parts = gram[subsets[:, :, None], subsets[:, None, :]]
    targets = target[subsets]
    weights = np.linalg.solve(parts, targets[:, :, None])[:, :, 0]
    allowed = np.all(weights > 0, axis=1) | (terms == 1)
    explained = np.where(allowed, np.vecdot(weights, targets), -np.inf)
    order = np.argsort(-explained, kind="stable")[: np.sum(allowed)]
    return [tuple(subset) for subset in subsets[order].tolist()]


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
    limit = quantile(COMPARED)
    alternatives = list[str]()
    for subset in others[:COMPARED]:
        if not larger(_residual(fit, judge, subset) ** 2, residual**2, limit, rounding):
            alternatives.append(" + ".join(names[index] for index in subset))
    return tuple(alternatives)
