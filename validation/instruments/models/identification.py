r"""Which algorithm a model performs: the rule of the verdict.

The tolerance is the largest share of the mean square of the model's answers that an algorithm may
leave unexplained (1 %).  Limits hold together, over all algorithms, with probability 95 %.
Algorithms are the best ones for the problem
(`iclimit.validation.instruments.models.baselines`), one's own, and members of families that were
fitted to other answers of the model (`iclimit.validation.instruments.models.fitting`).

* **algorithm**: the upper limit of the share that X leaves is below the tolerance, and everything
  else for which this is so is significantly further from the model, has more parameters or
  contains X as a special case.
* **ambiguous**: X and Y are both within the tolerance, have as many parameters, and these prompts
  do not tell which of them is nearer.
* **mixture**: no algorithm is within the tolerance, but a sum of at most three with positive
  weights is (`iclimit.validation.instruments.models.mixtures`); a single algorithm with a
  factor counts as one.
* **none**: the lower limits of all algorithms and of the best mixture are above the tolerance.
* **undecided**: none of these; more prompts decide.

Whatever else is within the tolerance is listed, with the other prompts on which it is not.

A model whose answers are small against the labels is the null predictor: its mean square is below
the tolerance times that of the labels without noise.

**Likeness.**  The distance of a model f to an algorithm g is :math:`E(f - g)^2`, over the
prompts.  The share that g leaves unexplained is this distance over :math:`E f^2`: 0 for equal
answers, 1 for the null predictor, and more for answers worse than none.  The factor c minimises
:math:`E(f - cg)^2`: it is not 1 where the model takes another rate.  Prompts whose answer is more
than thirty times the median one have less weight, so that it counts as thirty times the median: a
method that diverges on few contexts would be judged by these alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iclimit.results import Estimate, Judgement
from iclimit.statistics import z_threshold
from iclimit.validation.instruments.models.baselines import Baseline
from iclimit.validation.instruments.models.fitting import Fit
from iclimit.validation.instruments.models.mixtures import GAIN, Mixture, best_mixture
from iclimit.validation.instruments.models.model import Answers
from iclimit.validation.instruments.ratios import (
    DOUBT,
    LARGEST_OVER_MEDIAN,
    ROUNDING,
    best_factor,
    bounded_weights,
    larger,
    quantile,
    ratio,
    z_of,
)
from iclimit.words import measured, percent


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
    model = answers.model
    square = answers.model**2
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
    return sorted(algorithms, key=lambda likeness: likeness.unexplained.mean)


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


# Share of the mean square that an algorithm may leave unexplained by default.
TOLERANCE = 0.01

# Most algorithms, or prompts on which one differs, that a sentence lists.
MOST_LISTED = 3

# Most prompts that a verdict asks for.
MOST_PROMPTS = 1e9


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
    tied : tuple of str
        Others that these prompts do not tell from the first of them.
    within : tuple of str
        All algorithms within the tolerance, the nearest first.
    differences : mapping of str to tuple of str
        Other prompts on which each of them is beyond the tolerance.
    likenesses : tuple of Likeness
        All algorithms, the nearest first.
    fits : tuple of Fit
        Families with the parameters that are nearest to the model, the nearest first.
    mixture : Mixture
        The best mixture.
    tolerance : float
        Share that may be left unexplained.
    """

    names: tuple[str, ...]
    tied: tuple[str, ...]
    within: tuple[str, ...]
    differences: Mapping[str, tuple[str, ...]]
    likenesses: tuple[Likeness, ...]
    fits: tuple[Fit, ...]
    mixture: Mixture
    tolerance: float

    def __getitem__(self, name: str) -> Likeness:
        return next(
            likeness for likeness in self.likenesses if name in (likeness.name, *likeness.same)
        )

    def fit(self, family: str) -> Fit:
        """The member of a family that is nearest to the model."""
        return next(fit for fit in self.fits if fit.family == family)


def identify(
    answers: Answers,
    algorithms: Iterable[Baseline] = (),
    *,
    fits: Sequence[Fit] = (),
    differences: Callable[[str], tuple[str, ...]] = lambda _: (),
    tolerance: float = TOLERANCE,
) -> Identification:
    """Say which algorithm the answers of a model come from.

    Parameters
    ----------
    answers : Answers
        To fresh prompts, on which no parameter was fitted.
    algorithms : iterable of Baseline
        What the algorithms of these answers are called, and what they contain; without them all
        are called by their names.
    fits : sequence of Fit
        Families that were fitted, for the record.
    differences : callable
        From the name of an algorithm to descriptions of prompts on which it is beyond the
        tolerance.
    tolerance : float
        Share of the mean square that may be left unexplained, in (0, 1).
    """
    known = {name: Baseline(name, "", np.zeros_like) for name in answers.baselines}
    known |= {algorithm.name: algorithm for algorithm in algorithms}
    weight = bounded_weights(answers.model)
    size = ratio(answers.model**2, answers.target**2)
    answers = replace(
        answers,
        model=weight * answers.model,
        baselines={name: weight * predictions for name, predictions in answers.baselines.items()},
    )
    near = likenesses(answers)
    plain = [likeness.name for likeness in near if not known[likeness.name].parameters]
    mixture = best_mixture(answers.model, {name: answers.baselines[name] for name in plain})
    limit = quantile(len(near))
    within = [likeness for likeness in near if _upper(likeness.unexplained, limit) < tolerance]
    differing: dict[str, tuple[str, ...]] = {}
    if _upper(size, quantile(1)) < tolerance:
        part = percent(size)
        sentence = f"It answers next to nothing: {part} of the mean square of the labels."
        words: Words = "null", ("null",), (), sentence
    elif within:
        differing = {likeness.name: differences(likeness.name) for likeness in within}
        words = _named(answers, within, mixture, known, differing, tolerance)
    elif _upper(mixture.unexplained, limit) < tolerance:
        words = "mixture", mixture.names, (), _mixture_sentence(mixture, near[0], known)
    else:
        words = _unnamed(answers, near, mixture, known, tolerance)
    kind, names, alike, sentence = words
    if large := np.count_nonzero(weight < 1):
        most = f"{LARGEST_OVER_MEDIAN:g} times the median"
        sentence += f" Answers above {most} ({large:,} of {len(weight):,}) count as that."
    holds = kind in ("algorithm", "mixture")
    inside = tuple(likeness.name for likeness in within)
    return Identification(
        kind,
        holds,
        sentence,
        names,
        alike,
        inside,
        differing,
        tuple(near),
        tuple(fits),
        mixture,
        tolerance,
    )


# Kind, names, what is not told from them, and sentence of a verdict.
Words = tuple[str, tuple[str, ...], tuple[str, ...], str]


def _named(
    answers: Answers,
    within: Sequence[Likeness],
    mixture: Mixture,
    known: Mapping[str, Baseline],
    differences: Mapping[str, tuple[str, ...]],
    tolerance: float,
) -> Words:
    """Verdict where algorithms are within the tolerance, the nearest first.

    Of those that these prompts do not tell from the nearest one it names the one with the fewest
    parameters, and leaves out families that it is a member of.
    """
    squares = {
        likeness: (answers.model - answers.baselines[likeness.name]) ** 2 for likeness in within
    }
    limit = quantile(len(known))
    rounding = ROUNDING**2 * np.mean(answers.model**2)
    tied = [
        likeness
        for likeness in within
        if likeness is within[0]
        or not larger(squares[likeness], squares[within[0]], limit, rounding)
    ]
    best = min(tied, key=lambda likeness: known[likeness.name].parameters)
    others = [
        likeness
        for likeness in within
        if likeness is not best
        and not any(
            member.name.split("(")[0] in known[likeness.name].contains
            and (
                member is best or member.unexplained.mean <= (1 + GAIN) * likeness.unexplained.mean
            )
            for member in within
        )
    ]
    least = known[best.name].parameters
    rivals = [
        likeness
        for likeness in others
        if likeness in tied and known[likeness.name].parameters <= least
    ]
    texts = {likeness: _beside(likeness, known, differences[likeness.name]) for likeness in others}
    share = f"it leaves {percent(best.unexplained)} of the mean square unexplained"
    if rivals:
        kind = "ambiguous"
        listed = _some([_title(rival, known) for rival in rivals])
        first = (
            f"These prompts cannot tell {_title(best, known)} from {listed}: nearest is the first"
        )
        sentences = [f"{first}, {share}"]
    else:
        kind = "algorithm"
        refined = _refined(best, mixture, known) if least == 0 else ""
        subject = "On these prompts it is" if differences[best.name] else "It is"
        sentences = [f"{subject} {_title(best, known)}: {share}{refined}"]
    around = [algorithm for algorithm in known.values() if best.name in algorithm.contains]
    if around and best.name != "least_squares":  # a limit: its parameters are 0 or infinite
        sentences.append(
            f"Fitted, it is {min(around, key=lambda algorithm: algorithm.parameters).words}"
        )
    if differences[best.name]:
        sentences.append(f"On others it is not: it differs at {_some(differences[best.name])}")
    if unclear := [
        texts[likeness] for likeness in others if likeness in tied and likeness not in rivals
    ]:
        sentences.append(f"These prompts cannot tell it from {_some(unclear)}")
    if further := [texts[likeness] for likeness in others if likeness not in tied]:
        listed = _some(further)
        sentences.append(f"Within the tolerance of {percent(tolerance, 3)}, too: {listed}")
    names = tuple(likeness.name for likeness in (best, *rivals))
    alike = tuple(likeness.name for likeness in others if likeness in tied)
    return kind, names, alike, f"{'. '.join(sentences)}."


def _title(likeness: Likeness, known: Mapping[str, Baseline]) -> str:
    """What an algorithm is called, with those that answer as it does and are no family of its."""
    same = [known[name] for name in likeness.same]
    others = [algorithm for algorithm in same if likeness.name not in algorithm.contains]
    return " = ".join(algorithm.words for algorithm in (known[likeness.name], *others))


def _beside(likeness: Likeness, known: Mapping[str, Baseline], differs: Sequence[str]) -> str:
    """An algorithm within the tolerance, with what is known of it."""
    parts = [percent(likeness.unexplained)]
    if not known[likeness.name].parameters and abs(likeness.factor_z) > z_threshold(1, DOUBT):
        parts.append(f"factor {measured(likeness.factor)}")
    if differs:
        parts.append(f"differs at {_some(differs)}")
    return f"{_title(likeness, known)} ({', '.join(parts)})"


def _some(texts: Sequence[str]) -> str:
    """The first of some texts, and how many more there are."""
    more = len(texts) - MOST_LISTED
    listed = [*texts[:MOST_LISTED], *([f"{more} more"] if more > 0 else [])]
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


def _refined(best: Likeness, mixture: Mixture, known: Mapping[str, Baseline]) -> str:
    """What is known beyond the verdict: a factor that is not 1, a mixture that is nearer."""
    if len(mixture.terms) > 1 and best.unexplained.mean > ROUNDING**2:
        return f"; still nearer is {_sum(mixture, known)}"
    if abs(best.factor_z) > z_threshold(1, DOUBT):
        z = f" (z = {best.factor_z:.1f})" if math.isfinite(best.factor_z) else ""
        return f", with a factor of {measured(best.factor)}, which is not 1{z}"
    return ""


def _sum(mixture: Mixture, known: Mapping[str, Baseline]) -> str:
    """A mixture in words."""
    terms = [f"{measured(term.weight)} times {known[term.name].words}" for term in mixture.terms]
    return " plus ".join(terms) or "zero"


def _mixture_sentence(mixture: Mixture, nearest: Likeness, known: Mapping[str, Baseline]) -> str:
    share = f"it leaves {percent(mixture.unexplained)} of the mean square unexplained"
    other = ""
    if mixture.alternatives:
        other = f"; these prompts cannot tell it from {' or '.join(mixture.alternatives)}"
    alone = f"{_title(nearest, known)} alone leaves {percent(nearest.unexplained)}"
    kind = "a mixture, " if len(mixture.terms) > 1 else ""
    return f"It is {kind}{_sum(mixture, known)}: {share}{other} ({alone})."


def _unnamed(
    answers: Answers,
    near: Sequence[Likeness],
    mixture: Mixture,
    known: Mapping[str, Baseline],
    tolerance: float,
) -> Words:
    """Verdict where nothing is within the tolerance: none, or more prompts must tell."""
    nearest = near[0]
    allowed = tolerance * answers.model**2
    reason = (
        f"the nearest, {_title(nearest, known)}, leaves {percent(nearest.unexplained)} of the "
        "mean square of its answers unexplained"
    )
    if len(mixture.terms) > 1:
        reason += f", the best mixture ({_sum(mixture, known)}) {percent(mixture.unexplained)}"
    if not np.any(answers.baselines[nearest.name]):
        reason = "none is nearer to its answers than zero"
    limit = quantile(len(near))
    squares = {
        likeness: (answers.model - answers.baselines[likeness.name]) ** 2 for likeness in near
    }
    shares = [
        likeness.unexplained for likeness in near if not larger(squares[likeness], allowed, limit)
    ]
    if _lower(mixture.unexplained, limit) < tolerance:
        shares.append(mixture.unexplained)
    if not shares:
        return "none", (), (), f"It is none of these algorithms: {reason}."
    needed = [(limit * share.standard_error / (share.mean - tolerance)) ** 2 for share in shares]
    count = len(answers.model) * max(1.0, *needed)
    enough = f"some {float(f'{2 * count:.1g}'):,.0f} would tell" if count < MOST_PROMPTS else ""
    words = f"These prompts are too few for a verdict{enough and ', '}{enough}: {reason}."
    return "undecided", (nearest.name,), (), words


def _upper(share: Estimate, limit: float) -> float:
    return share.mean + limit * share.standard_error


def _lower(share: Estimate, limit: float) -> float:
    return share.mean - limit * share.standard_error
